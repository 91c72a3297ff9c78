"""The HTTP API, in front of Temporal."""
