"""What each task type may take and how often it is tried, as the design has it."""

from dataclasses import dataclass, field

from pydantic import JsonValue

from droidherd.contracts.plan import Backoff, Policy

APP = "com.example.herd"


@dataclass(frozen=True)
class Row:
    type: str
    policy: Policy
    delays_s: tuple[int, ...]
    """Between its attempts when all of them fail."""
    params: dict[str, JsonValue] = field(default_factory=dict)


def fixed(limit_s: float, retries: int, backoff_s: float) -> Policy:
    return Policy(time_limit_s=limit_s, retries=retries, backoff=Backoff.FIXED, backoff_s=backoff_s)


TABLE = [
    Row(
        "download",
        Policy(time_limit_s=1800, retries=3, backoff=Backoff.EXPONENTIAL, backoff_s=60),
        (60, 120, 240),
        {"url": "http://127.0.0.1/x", "file": "/sdcard/x"},
    ),
    Row("scan", fixed(300, 2, 30), (30, 30)),
    Row("associate", fixed(120, 2, 10), (10, 10), {"account": "ann"}),
    Row("check", fixed(60, 1, 5), (5,)),
    Row("start_app", fixed(20, 2, 2), (2, 2), {"app": APP}),
    Row("stop_app", fixed(20, 2, 2), (2, 2), {"app": APP}),
    Row("change_config", fixed(20, 2, 2), (2, 2), {"setting": "global/x", "value": "1"}),
    Row("switch_region", fixed(30, 2, 2), (2, 2), {"time_zone": "UTC", "locale": "de"}),
    Row("switch_runtime", fixed(30, 2, 2), (2, 2), {"app": APP}),
    Row("reset_state", fixed(480, 2, 2), (2, 2), {"app": APP}),
]
