"""Orders to emulators through the API."""

from datetime import datetime

import httpx
import pytest

from tests.api.test_audit import wait_for_entries
from tests.api.waiting import eventually
from tests.api.world import GOOD_AT_MS


def becomes(http: httpx.Client, emulator: str, state: str) -> dict[str, object]:
    def there() -> dict[str, object] | None:
        view = http.get(f"/api/emulators/{emulator}").json()
        return view if view["state"] == state else None

    return eventually(there)


def test_an_emulator_is_quarantined_released_drained_and_the_audit_says_who(http: httpx.Client):
    by = {"actor": "ops-ann", "reason": "flickers"}
    for order, state in (("quarantine", "quarantined"), ("release", "up"), ("drain", "draining"), ("undrain", "up")):
        answer = http.post(f"/api/emulators/e3/{order}", json=by)
        assert (200, True) == (answer.status_code, answer.json()["done"])
        view = becomes(http, "e3", state)
        ordered = {"quarantined": "quarantined by ops-ann: flickers", "draining": "drained by ops-ann: flickers"}
        assert ordered.get(state, "") == view["evidence"]
    orders = ["emulator_quarantine", "emulator_release", "emulator_drain", "emulator_undrain"]
    assert [(one, "flickers", "") for one in orders] == wait_for_entries(http, "ops-ann", 4)


@pytest.mark.parametrize(("order", "word"), [("release", "quarantined"), ("undrain", "drained")])
def test_an_order_that_would_change_nothing_says_so(http: httpx.Client, order: str, word: str):
    answer = http.post(f"/api/emulators/e3/{order}")
    assert (200, f"nothing to do: it is not {word}, but up") == (answer.status_code, answer.json()["detail"])


def test_an_emulator_shows_its_last_good_probe(http: httpx.Client):
    view = http.get("/api/emulators/e3").json()
    assert GOOD_AT_MS == datetime.fromisoformat(view["last_good_probe"]).timestamp() * 1000


def test_what_cannot_be_done_is_refused_with_the_reason(http: httpx.Client):
    answer = http.post("/api/emulators/e3/restart")
    assert (422, "its host is away") == (answer.status_code, answer.json()["detail"])


@pytest.mark.parametrize(("path", "status"), [("missing/restart", 404), ("e3/explode", 404), ("a%20b/drain", 404)])
def test_an_order_that_makes_no_sense_is_refused(http: httpx.Client, path: str, status: int):
    assert status == http.post(f"/api/emulators/{path}").status_code
