"""The workflow of one pool."""
