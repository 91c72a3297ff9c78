"""The queue of a pool over HTTP."""
