"""All paths, one noun per file. Importing this package registers them."""

from tests.replay.scenarios import control, dispatchers, ends, fleet, occasions, stays

__all__ = ["control", "dispatchers", "ends", "fleet", "occasions", "stays"]
