"""Whatever is sent: a clear answer below 500, and it names the field."""

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.world import World

MAX = 1_000_000
NASTY = [
    "../../etc/passwd",
    "'; DROP TABLE tasks; --",
    'quo"te',
    "$(reboot)",
    "a\nb",
    "a\x00b",
    "\x1b[31m",
    "🤖",
    "\u202eevil",
    "\ufeff",
    "x" * 5000,
]


def post(http: httpx.Client, content: bytes, kind: str = "application/json") -> httpx.Response:
    return http.post("/api/tasks", content=content, headers={"content-type": kind})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"type": "tap_once"',
        b'{"type": "tap_once",}',
        b"\xff\xfe\x00",
        b'{"type": "\xc3\x28"}',
        b'{"type": "\\ud800"}',
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"[" * 100_000,
        b'{"type": "tap_once", "params": {"down": 1' + b"0" * 5000 + b"}}",
    ],
)
def test_what_is_not_json_is_reported_as_malformed(http: httpx.Client, body: bytes):
    answer = post(http, body)
    assert (400, "urn:droidherd:problem:malformed-body") == (answer.status_code, answer.json()["type"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "type"),
        ({"type": None}, "type"),
        ({"type": "no_such_type"}, "type"),
        ({"type": ["tap_once"]}, "type"),
        ({"type": "tap_once", "params": []}, "params"),
        ({"type": "tap_once", "params": {"down": "low"}}, "params.down"),
        ({"type": "tap_once", "params": {"down": 101}}, "params.down"),
        ({"type": "tap_once", "params": {"down": True}}, "params.down"),
        ({"type": "tap_once", "params": {"down": None}}, "params.down"),
        ({"type": "tap_once", "params": {"down": {"deep": [1]}}}, "params.down"),
        ({"type": "tap_once", "params": {"up": 1}}, "params.up"),
        ({"type": "tap_once", "params": {"down": 10**400}}, "params.down"),
        ({"type": "tap_once", "policy": {"retries": 21}}, "policy.retries"),
        ({"type": "tap_once", "policy": {"retrys": 1}}, "policy.retrys"),
        ({"type": "tap_once", "policy": {"backoff": "never"}}, "policy.backoff"),
        ({"type": "tap_once", "priority": 11}, "priority"),
        ({"type": "tap_once", "priority": 10**30}, "priority"),
        ({"type": "tap_once", "on_busy": "shout"}, "on_busy"),
        ({"type": "tap_once", "on_bussy": "queue"}, "on_bussy"),
        ({"type": "tap_once", "emulator": "nobody"}, "emulator"),
        ({"type": "tap_once", "pool": "nowhere"}, "pool"),
        ({"type": "tap_once", "requires": ["abi"]}, "requires.0"),
        ({"type": "tap_once", "mutex": ["shop", "subscription.daily"]}, "mutex.1"),
        ({"type": "tap_once", "labels": {"a": {"b": 1}}}, "labels.a"),
        ({"type": "tap_once", "labels": {str(n): "x" for n in range(17)}}, "labels"),
        ({"type": "tap_once", "actor": "ann\nbob"}, "actor"),
        ([], "body"),
        ("tap_once", "body"),
        (7, "body"),
    ],
)
def test_what_does_not_fit_names_its_field(http: httpx.Client, body: Any, field: str):
    answer = post(http, json.dumps(body).encode())
    assert (422, "urn:droidherd:problem:invalid-input") == (answer.status_code, answer.json()["type"]), answer.text
    assert field in [one["field"] for one in answer.json()["errors"]], answer.text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"type": "tap_once", "on_bussy": "queue"}, "is not known here; did you mean on_busy?"),
        ({"type": "tap_once", "policy": {"retries": "x"}}, "is 'x'; it must be a whole number"),
        ({"type": "tap_once", "actor": "ann\nbob"}, "must be one line of readable characters"),
    ],
)
def test_what_does_not_fit_is_reported_in_plain_words(http: httpx.Client, body: Any, message: str):
    assert [message] == [one["message"] for one in post(http, json.dumps(body).encode()).json()["errors"]]


@pytest.mark.parametrize(
    ("path", "expected"), [("tasks/nobody", "no task `nobody`"), ("emulators/e77", "no emulator `e77`")]
)
def test_what_is_not_there_is_called_what_it_is(http: httpx.Client, path: str, expected: str):
    assert (404, expected) == ((answer := http.get(f"/api/{path}")).status_code, answer.json()["detail"])


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_numbers_that_are_none_are_refused(http: httpx.Client, number: bytes):
    answer = post(http, b'{"type": "tap_once", "params": {"down": %s}}' % number)
    assert answer.status_code in {400, 422}


@pytest.mark.parametrize("nasty", NASTY)
@pytest.mark.parametrize("field", ["type", "account", "pool", "lane", "emulator", "id"])
def test_no_name_gets_through_that_is_no_name(http: httpx.Client, field: str, nasty: str):
    answer = post(http, json.dumps({"type": "tap_once", field: nasty}).encode())
    assert 422 == answer.status_code
    assert [field] == [one["field"] for one in answer.json()["errors"]]
    assert len(answer.content) < 2000


@pytest.mark.parametrize("nasty", NASTY)
def test_no_label_gets_through_that_is_no_label(http: httpx.Client, nasty: str):
    for labels in ({nasty: "x"}, {"x": nasty}):
        allowed = nasty == "../../etc/passwd"
        answer = post(http, json.dumps({"type": "tap_once", "labels": labels}).encode())
        assert (201 if allowed else 422) == answer.status_code, answer.text


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_only_json_is_taken(http: httpx.Client, kind: str):
    answer = post(http, b'{"type": "tap_once"}', kind)
    assert (415, "urn:droidherd:problem:unsupported-media-type") == (answer.status_code, answer.json()["type"])


@pytest.mark.parametrize("key", ["a\tb", "x" * 256, "\x7f"])
def test_an_idempotency_key_has_to_be_plain(http: httpx.Client, key: str):
    answer = http.post("/api/tasks", json={"type": "tap_once"}, headers={"idempotency-key": key})
    assert (422, "Idempotency-Key") == (answer.status_code, answer.json()["errors"][0]["field"])


@pytest.mark.parametrize("wait", ["soon", "-1s", "2h", "1e9s", "30 s", "\x00"])
def test_a_wait_that_is_no_bounded_duration_is_refused(http: httpx.Client, wait: str):
    for answer in (
        http.get("/api/tasks/nobody", params={"wait": wait}),
        http.post("/api/tasks", params={"wait": wait}, json={"type": "tap_once"}),
    ):
        assert (422, "wait") == (answer.status_code, answer.json()["errors"][0]["field"])


# --- size -----------------------------------------------------------------------------------------------------


def test_ten_megabytes_are_too_large(http: httpx.Client):
    answer = post(http, b'{"type": "' + b"x" * 10_000_000 + b'"}')
    assert (413, "urn:droidherd:problem:body-too-large") == (answer.status_code, answer.json()["type"])


def test_ten_megabytes_in_pieces_are_too_large(http: httpx.Client):
    def pieces() -> Iterator[bytes]:
        for _ in range(160):
            yield b"x" * 65_536

    answer = http.post("/api/tasks", content=pieces(), headers={"content-type": "application/json"})
    assert (413, "urn:droidherd:problem:body-too-large") == (answer.status_code, answer.json()["type"])


def test_a_size_announced_beforehand_is_refused_before_it_is_sent(world: World):
    port = int(world.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
        raw.sendall(
            b"POST /api/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 9999999999\r\nExpect: 100-continue\r\n\r\n"
        )
        assert raw.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_the_largest_body_allowed_is_read(http: httpx.Client):
    padding = MAX - len(b'{"type": "tap_once", "nothing": ""}')
    answer = post(http, b'{"type": "tap_once", "nothing": "' + b"x" * padding + b'"}')
    assert (422, "nothing") == (answer.status_code, answer.json()["errors"][0]["field"])
    assert 413 == post(http, b'{"type": "tap_once", "nothing": "' + b"x" * (padding + 1) + b'"}').status_code


# --- fuzz -----------------------------------------------------------------------------------------------------

FUZZ = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
FIELDS = ["type", "account", "params", "pool", "lane", "priority", "on_busy", "emulator", "requires", "mutex", "id"]
MORE = ["labels", "not_before", "expires_at", "actor"]


@FUZZ
@given(raw=st.binary(max_size=300) | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_make_it_stumble(http: httpx.Client, raw: bytes):
    assert 400 <= post(http, raw).status_code < 500


@FUZZ
@given(body=st.dictionaries(st.sampled_from(FIELDS + MORE), ANY_JSON, max_size=6))
def test_no_json_makes_it_stumble(http: httpx.Client, body: dict[str, Any]):
    body["type"] = body.get("type") or "no such type"
    assert 400 <= post(http, json.dumps(body).encode()).status_code < 500


@FUZZ
@given(field=st.sampled_from(FIELDS[1:] + MORE), value=ANY_JSON)
def test_no_value_in_a_good_body_makes_it_stumble(http: httpx.Client, field: str, value: Any):
    # In a paused pool of nobody, so that what is fine does no harm.
    body = {"type": "tap_once", "not_before": "2026-01-01T00:00:00Z", "emulator": "nobody", field: value}
    assert 200 <= post(http, json.dumps(body).encode()).status_code < 500


@FUZZ
@given(text=st.text(min_size=1, max_size=80))
def test_no_path_makes_it_stumble(http: httpx.Client, text: str):
    name = quote(text.encode("utf-8", "surrogatepass"), safe="")
    for path in ("tasks", "emulators", "tasks/nobody/artifacts"):
        assert 200 <= http.get(f"/api/{path}/{name}").status_code < 500
    for params in ({"account": text}, {"cursor": text}, {"label": text}, {"state": text}, {"limit": text}):
        encoded = {key: quote(value.encode("utf-8", "surrogatepass"), safe="") for key, value in params.items()}
        query = "&".join(f"{key}={value}" for key, value in encoded.items())
        assert 200 <= http.get(f"/api/tasks?{query}").status_code < 500


@FUZZ
@given(body=ANY_JSON, action=st.sampled_from(["pause", "resume", "cancel"]))
def test_no_body_of_an_action_is_a_server_error(http: httpx.Client, body: Any, action: str):
    raw = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    for path in (f"/api/tasks/nobody/{action}", "/api/queue/pause?pool=nowhere"):
        assert 400 <= http.post(path, content=raw, headers=headers).status_code < 500
