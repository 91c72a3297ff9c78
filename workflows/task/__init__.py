"""The workflow of one task."""
