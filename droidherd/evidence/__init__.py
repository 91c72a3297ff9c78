"""What a run saw and did: traces, frames, recordings, evidence pages."""
