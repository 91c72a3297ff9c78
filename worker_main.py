"""The composition root of a worker process."""
