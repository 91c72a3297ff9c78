"""Recordings: what a run saw and did, written down, and read again. Knows neither workers nor the workshop."""
