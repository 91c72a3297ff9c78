"""The door: HTTP in front of the engine."""
