"""What each task type may take and how often it is tried, as the design has it."""

from dataclasses import dataclass, field

from pydantic import JsonValue

from droidherd.contracts.plan import Backoff, Policy, RetryOn

APP = "com.example.herd"


@dataclass(frozen=True)
class Row:
    type: str
    policy: Policy
    delays_s: tuple[int, ...]
    """Between its attempts when all of them fail."""
    params: dict[str, JsonValue] = field(default_factory=dict)
    leaves: tuple[str, str] | None = None
    """A question to the emulator's shell, and the answer once it was done."""


def fixed(limit_s: float, retries: int, backoff_s: float, retry_on: RetryOn = RetryOn.ANY) -> Policy:
    return Policy(time_limit_s=limit_s, retries=retries, retry_on=retry_on, backoff=Backoff.FIXED, backoff_s=backoff_s)


def on_timeout(limit_s: float, retries: int) -> Policy:
    return fixed(limit_s, retries, 2, RetryOn.TIMEOUT)


TABLE = [
    Row(
        "download",
        Policy(time_limit_s=1800, retries=3, backoff=Backoff.EXPONENTIAL, backoff_s=60),
        (60, 120, 240),
        {"url": "http://127.0.0.1/x", "file": "/sdcard/x"},
        ("cat /sdcard/x", "content"),
    ),
    Row("scan", fixed(300, 2, 30), (30, 30)),
    Row("associate", fixed(120, 2, 10), (10, 10), {}, ("settings get global droidherd_account", "ann")),
    Row("check", fixed(60, 1, 5), (5,)),
    Row("start_app", on_timeout(20, 2), (2, 2), {"app": APP}),
    Row("stop_app", on_timeout(20, 2), (2, 2), {"app": APP}),
    Row(
        "change_config",
        on_timeout(20, 2),
        (2, 2),
        {"setting": "global/x", "value": "1"},
        ("settings get global x", "1"),
    ),
    Row(
        "switch_region",
        on_timeout(30, 2),
        (2, 2),
        {"time_zone": "UTC", "locale": "de"},
        ("getprop persist.sys.timezone", "UTC"),
    ),
    Row("switch_runtime", on_timeout(30, 2), (2, 2), {"app": APP}),
    Row("reset_state", on_timeout(480, 2), (2, 2), {"app": APP}),
]
