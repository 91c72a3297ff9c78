"""Frozen models that cross a wire."""
