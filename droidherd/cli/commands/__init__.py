"""The commands, one subject a file."""
