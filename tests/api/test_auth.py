"""Who may come in."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from api.auth import Guard, UnsafeSettingsError, check_address, is_loopback, keys_of, roles_of
from droidherd.cli.local.embedded import EmbeddedTemporal
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
    key: str,
    headers: dict[str, str],
    *,
    client: str | None = "127.0.0.1",
    path: str = "/api/tasks",
    method: str = "GET",
) -> tuple[int, int]:
    """(status, how many got in)."""
    inside, sent = Inside(), []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "client": (client, 1) if client else None,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
    }

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    asyncio.run(Guard(inside, {"api": key} if key else {})(scope, receive, send))
    return sent[0]["status"], inside.guests


async def answered(guard: Guard, key: str, order: str) -> int:
    """The status of an answer to `METHOD path`."""
    method, path = order.split()
    transport = httpx.ASGITransport(guard)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers={"x-api-key": key}) as http:
        return (await http.request(method, path)).status_code


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


@pytest.mark.parametrize("host", [
    "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "[", "@", "[::1]evil.com", "[::1].evil.com",
    "evil.com@localhost", "localhost@evil.com", "localhost:8800@evil.com", "localhost/evil.com", "localhost:port",
    "localhost evil.com", "localhost?evil.com", "[localhost]", "[::1", "::1", "127.0.0.1:", "localhost#x", "[::1%25lo]",
])  # fmt: skip
def test_a_name_that_was_bound_to_this_machine_by_others_does_not_open(host: str):
    assert (403, 0) == knock("", {"host": host})


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8800", "[::1]:8800", "localhost."])
def test_this_machine_goes_by_several_names(host: str):
    assert (200, 1) == knock("", {"host": host})


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://", "http://localhost:3000", "http://127.0.0.1:8800",
     "https://localhost:8800", "http://localhost"],
)  # fmt: skip
def test_a_page_from_elsewhere_does_not_get_in(origin: str):
    assert (403, 0) == knock("", {**HERE, "origin": origin})


def test_a_page_of_ours_gets_in():
    assert (200, 1) == knock("", {**HERE, "origin": "http://localhost:8800", "sec-fetch-site": "same-origin"})


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
@pytest.mark.parametrize(
    "more", [{}, {"sec-fetch-mode": "no-cors"}, {"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}]
)
def test_what_a_browser_says_of_a_foreign_page_is_believed(site: str, more: dict[str, str]):
    assert (403, 0) == knock("", {**HERE, "sec-fetch-site": site, **more})


def test_a_link_on_a_foreign_page_leads_here_and_its_form_does_not():
    link = {**HERE, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert (200, 1) == knock("", link)
    assert (403, 0) == knock("", link, method="POST")
    assert (200, 1) == knock("", {**HERE, "sec-fetch-site": "none"}, method="POST")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "example.org", ""])  # noqa: S104
def test_it_refuses_to_listen_to_strangers_without_a_key(host: str):
    with pytest.raises(UnsafeSettingsError):
        check_address(host, {})
    check_address(host, {"ann": KEY})


@given(st.text())
def test_no_text_is_mistaken_for_this_machine(text: str):
    assert not is_loopback("x" + text)


def test_the_key_comes_from_its_file(tmp_path: Path):
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    assert {"api": KEY} == keys_of(Api(key_file=str(file)))
    file.write_text("\n")
    for broken in (file, tmp_path / "missing"):
        with pytest.raises(UnsafeSettingsError):
            keys_of(Api(key_file=str(broken)))


def test_keys_have_names_in_the_settings_and_in_a_file(tmp_path: Path):
    file = tmp_path / "keys"
    file.write_text("# the night shift\nben  k-ben\n\nnight-shift k-night\n")
    keys = keys_of(Api(key=KEY, keys={"ann": "k-ann"}, keys_file=str(file)))
    assert {"api": KEY, "ann": "k-ann", "ben": "k-ben", "night-shift": "k-night"} == keys


@pytest.mark.parametrize(
    "settings",
    [
        {"keys": {"ann": ""}},
        {"keys": {"ann for ben": "k"}},
        {"keys": {"system:disk_full": "k"}},
        {"keys": {"ann": "same", "ben": "same"}},
        {"key": "k1", "keys": {"api": "k2"}},
    ],
)
def test_keys_that_would_not_say_who_it_is_are_refused(settings: dict[str, Any]):
    with pytest.raises(UnsafeSettingsError):
        keys_of(Api(**settings))


@pytest.mark.parametrize("text", ["", "# nobody\n", "ann\n", "ann k-ann and more\n"])
def test_a_file_of_keys_that_is_none_is_refused_without_repeating_it(tmp_path: Path, text: str):
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(UnsafeSettingsError, match=str(file)) as refused:
        keys_of(Api(keys_file=str(file)))
    assert "k-ann" not in str(refused.value)


ORDERS = {
    "GET /api/tasks": "viewer", "HEAD /api/tasks": "viewer", "GET /api/accounts/a": "viewer",
    "POST /api/tasks": "operator", "POST /api/bulk": "operator", "DELETE /api/subscriptions/a": "operator",
    "POST /api/accounts/a/disable": "operator", "DELETE /api/queue/lanes/a": "operator",
    "PUT /api/accounts/a": "admin", "DELETE /api/accounts/a": "admin", "POST /api/maintenance/cleanup": "admin",
}  # fmt: skip


@pytest.mark.parametrize("role", ["viewer", "operator", "admin", ""])
@pytest.mark.parametrize("order", ORDERS)
def test_a_key_reaches_as_far_as_its_role_and_without_one_everywhere(role: str, order: str):
    ranks = ["viewer", "operator", "admin"]
    settings = Api(keys={"ann": "k-ann", "ben": "k-ben"}, roles=cast("Any", {"ann": role} if role else {}))
    keys = keys_of(settings)
    inside, roles = Inside(), roles_of(settings, keys)
    status = asyncio.run(answered(Guard(inside, keys, roles), "k-ann", order))
    allowed = not role or ranks.index(role) >= ranks.index(ORDERS[order])
    assert ((200, 1) if allowed else (403, 0)) == (status, inside.guests)
    assert 200 == asyncio.run(answered(Guard(inside, keys, roles), "k-ben", order))


def test_a_role_of_a_key_that_is_not_there_is_refused():
    with pytest.raises(UnsafeSettingsError, match="'an'"):
        roles_of(Api(keys={"ann": "k-ann"}, roles={"an": "viewer"}), {"ann"})
    with pytest.raises(ValidationError, match="viewer"):
        Api(keys={"ann": "k-ann"}, roles=cast("Any", {"ann": "Viewer"}))


def test_a_refusal_never_repeats_the_key():
    assert KEY not in repr(Api(key=KEY, keys={"ann": KEY}))


def test_an_api_with_a_key_works_over_http(temporal_server: EmbeddedTemporal, temporal_namespace: str, tmp_path: Path):
    with World(
        temporal_server.address, temporal_namespace, tmp_path, key=KEY, keys={"ann": "k-ann"}, roles={"ann": "viewer"}
    ) as world:
        order = httpx.post(f"{world.url}/api/queue/pause", headers={"x-api-key": "k-ann"}, json={}, timeout=60)
        assert "not-allowed" == json.loads(order.text)["type"].rpartition(":")[2]
        refused = httpx.get(f"{world.url}/api/tasks", timeout=60)
        assert (401, "unauthorized") == (refused.status_code, json.loads(refused.text)["type"].rpartition(":")[2])
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert 200 == httpx.get(f"{world.url}/api/tasks", headers={"x-api-key": KEY}, timeout=60).status_code
        assert 200 == httpx.get(f"{world.url}/healthz", timeout=60).status_code


def check_who_sees_references(world: World) -> None:
    """Whoever only reads sees which credentials an account has, and not where they are kept."""
    record = {"credentials": {"password": "env:PLAYER_42"}}
    httpx.put(f"{world.url}/api/accounts/p42", headers={"x-api-key": "k-ann"}, json=record, timeout=30)
    for key, reference in (("k-ann", "env:PLAYER_42"), ("k-eve", "***")):
        found = httpx.get(f"{world.url}/api/accounts/p42", headers={"x-api-key": key}, timeout=30).json()
        listed = httpx.get(f"{world.url}/api/accounts", headers={"x-api-key": key}, timeout=30).json()["accounts"]
        assert [{"password": reference}] * 2 == [one["record"]["credentials"] for one in (found, *listed)]


def test_the_name_of_the_key_is_who_did_it(temporal_server: EmbeddedTemporal, temporal_namespace: str, tmp_path: Path):
    keys, roles = {"ann": "k-ann", "ben": "k-ben", "eve": "k-eve"}, {"eve": "viewer"}
    with World(temporal_server.address, temporal_namespace, tmp_path, key=KEY, keys=keys, roles=roles) as world:
        world.work()

        def order(key: str, word: str, **body: str) -> None:
            done = httpx.post(f"{world.url}/api/queue/{word}", headers={"x-api-key": key}, json=body, timeout=30)
            assert 200 == done.status_code, done.text

        order("k-ann", "pause", lane="account", reason="release", actor="ben")
        order("k-ben", "pause", lane="anonymous")
        order(KEY, "resume", actor="api")
        with httpx.Client(base_url=world.url, headers={"x-api-key": "k-ann"}, timeout=30) as http:
            entries = http.get("/api/audit").json()["entries"]
            task = http.post("/api/tasks", json={"type": "tap_once", "actor": "carl"}).json()["id"]
            http.post(f"/api/tasks/{task}/cancel", json={"actor": "carl"})
            events = http.get(f"/api/tasks/{task}/events").json()["events"]
            by_ann = http.get("/api/audit", params={"actor": "ann"}).json()["entries"]
            wanted = {"id": "signed", "cron": "0 3 * * *", "task": {"type": "tap_once"}, "paused": True}
            made = http.post("/api/subscriptions", json=wanted)
            assert 201 == made.status_code, made.text
            resumed = http.post("/api/subscriptions/signed/resume", json={"actor": "carl"}).json()
        assert ["ann", "ann for carl"] == [made.json()["paused_by"], resumed["changes"][-1]["actor"]]
        assert ["api", "ben", "ann for ben"] == [one["actor"] for one in entries]
        assert ["ann for ben"] == [one["actor"] for one in by_ann]
        assert {"droidherd", "ann for carl"} >= {one["actor"] for one in events}
        check_who_sees_references(world)
