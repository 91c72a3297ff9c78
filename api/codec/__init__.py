"""The codec endpoint for Temporal's own tools."""
