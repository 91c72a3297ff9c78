"""The language of flows."""
