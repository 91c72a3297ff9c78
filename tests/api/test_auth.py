"""Who may come in."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.auth import Guard, OpenDoorError, check_address, is_loopback, key_of
from droidherd.cli.embedded import EmbeddedTemporal
from droidherd.settings import Api
from tests.api.world import World

KEY = "correct horse battery staple"


class Inside:
    """The application behind the guard: counts who got in."""

    def __init__(self) -> None:
        self.guests = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.guests += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def knock(
    key: str, headers: dict[str, str], *, client: str | None = "127.0.0.1", path: str = "/api/tasks"
) -> tuple[int, int]:
    """(status, how many got in)."""
    inside, sent = Inside(), []
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "client": (client, 1) if client else None,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
    }

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    asyncio.run(Guard(inside, key)(scope, receive, send))
    return sent[0]["status"], inside.guests


HERE = {"host": "localhost:8800"}


@pytest.mark.parametrize(
    "headers", [{"authorization": f"Bearer {KEY}"}, {"authorization": f"bearer  {KEY}"}, {"x-api-key": KEY}]
)
def test_the_key_opens(headers: dict[str, str]):
    assert (200, 1) == knock(KEY, headers, client="203.0.113.9")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {KEY}"},
        {"authorization": KEY},
        {"authorization": "Bearer"},
        {"x-api-key": ""},
        {"x-api-key": KEY + "x"},
        {"x-api-key": "é"},
    ],
)
def test_nothing_else_opens_not_even_from_this_machine(headers: dict[str, str]):
    assert (401, 0) == knock(KEY, HERE | headers)


def test_supervisors_need_no_key_but_metrics_do():
    assert (200, 200, 401) == tuple(knock(KEY, HERE, path=path)[0] for path in ("/healthz", "/readyz", "/metrics"))


@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", None])
def test_without_a_key_this_machine_is_served(client: str | None):
    assert (200, 1) == knock("", HERE, client=client)


@pytest.mark.parametrize("client", ["192.168.1.7", "203.0.113.9", "::ffff:10.0.0.1", "fe80::1", "0.0.0.0", "nonsense"])  # noqa: S104
def test_without_a_key_nobody_else_is_served(client: str):
    assert (403, 0) == knock("", HERE, client=client)


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded"])
def test_without_a_key_what_a_proxy_claims_is_not_believed(header: str):
    assert (403, 0) == knock("", {**HERE, header: "127.0.0.1"})


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "[", "@"])
def test_a_name_that_was_bound_to_this_machine_by_others_does_not_open(host: str):
    assert (403, 0) == knock("", {"host": host})


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8800", "[::1]:8800", "localhost."])
def test_this_machine_goes_by_several_names(host: str):
    assert (200, 1) == knock("", {"host": host})


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://"])
def test_a_page_from_elsewhere_does_not_get_in(origin: str):
    assert (403, 0) == knock("", {**HERE, "origin": origin})


def test_a_page_of_this_machine_gets_in():
    assert (200, 1) == knock("", {**HERE, "origin": "http://localhost:3000"})


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "example.org", ""])  # noqa: S104
def test_it_refuses_to_listen_to_strangers_without_a_key(host: str):
    with pytest.raises(OpenDoorError):
        check_address(host, "")
    check_address(host, KEY)


@given(st.text())
def test_no_text_is_mistaken_for_this_machine(text: str):
    assert not is_loopback("x" + text)


def test_the_key_comes_from_its_file(tmp_path: Path):
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    assert KEY == key_of(Api(key_file=str(file)))
    file.write_text("\n")
    for broken in (file, tmp_path / "missing"):
        with pytest.raises(OpenDoorError):
            key_of(Api(key_file=str(broken)))


def test_a_refusal_never_repeats_the_key():
    assert KEY not in repr(Api(key=KEY))


def test_a_door_with_a_key_works_over_http(temporal_server: EmbeddedTemporal, temporal_namespace: str, tmp_path: Path):
    with World(temporal_server.address, temporal_namespace, tmp_path, key=KEY) as world:
        refused = httpx.get(f"{world.url}/api/tasks")
        assert (401, "unauthorized") == (refused.status_code, json.loads(refused.text)["type"].rpartition(":")[2])
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert 200 == httpx.get(f"{world.url}/api/tasks", headers={"x-api-key": KEY}).status_code
        assert 200 == httpx.get(f"{world.url}/healthz").status_code
