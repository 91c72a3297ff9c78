"""All paths, one noun per file. Importing this package registers them."""

from tests.replay.scenarios import (
    accounts,
    afterwards,
    control,
    dispatchers,
    ends,
    fleet,
    maintenance,
    recovery,
    stays,
    subscription_runs,
)

__all__ = [
    "accounts",
    "afterwards",
    "control",
    "dispatchers",
    "ends",
    "fleet",
    "maintenance",
    "recovery",
    "stays",
    "subscription_runs",
]
