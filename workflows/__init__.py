"""When, and in which order."""
