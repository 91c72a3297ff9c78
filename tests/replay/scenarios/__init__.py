"""All paths, one noun per file. Importing this package registers them."""

from tests.replay.scenarios import afterwards, control, dispatchers, ends, fleet, stays

__all__ = ["afterwards", "control", "dispatchers", "ends", "fleet", "stays"]
