"""Pure functions from frames to matches."""
