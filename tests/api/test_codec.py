"""The codec endpoint: for the Web UI of the instance and for the `temporal` command, behind the API's keys."""

import asyncio
import base64
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict
from temporalio.api.common.v1 import Payloads

from api.app import create_app
from api.auth import Guard, Role, web_uis_of
from api.codec.routes import PAYLOADS_MAX
from droidherd.contracts.tasks import TaskInput, TaskSpec
from droidherd.engine.codec import EncryptionCodec
from droidherd.engine.connection import CONVERTER, converter_of
from droidherd.engine.encryption import EncryptionKeys
from droidherd.settings import EncryptionSettings, Settings, Temporal
from tests.api.world import World

UI = "http://127.0.0.1:8243"
KEYS = EncryptionKeys("k1", {"k1": b"1" * 32})
DECODE = "/codec/decode"


def as_json(payloads: list[Any]) -> dict[str, Any]:
    return MessageToDict(Payloads(payloads=payloads))


async def test_it_decrypts_what_our_keys_open_and_returns_the_rest(world: World, http: httpx.Client):
    request = TaskInput(spec=TaskSpec(type="press", params={"pin": "canary"}))
    plain = await CONVERTER.encode([request])
    sealed = await converter_of(KEYS).encode([request])
    strange = await converter_of(EncryptionKeys("k9", {"k9": b"9" * 32})).encode([request])
    state = world.app.state.droidherd
    before = state.codec
    object.__setattr__(state, "codec", EncryptionCodec(KEYS))
    try:
        answer = await asyncio.to_thread(http.post, DECODE, json=as_json([*sealed, *plain, *strange]))
    finally:
        object.__setattr__(state, "codec", before)
    assert 200 == answer.status_code, answer.text
    assert as_json([*plain, *plain, *strange]) == answer.json()


async def test_it_encrypts_what_the_command_sends(world: World, http: httpx.Client):
    plain = await CONVERTER.encode([TaskInput(spec=TaskSpec(type="press", params={"pin": "canary"}))])
    state = world.app.state.droidherd
    before = state.codec
    object.__setattr__(state, "codec", EncryptionCodec(KEYS))
    try:
        sealed = await asyncio.to_thread(http.post, "/codec/encode", json=as_json(plain))
        opened = await asyncio.to_thread(http.post, DECODE, json=sealed.json())
    finally:
        object.__setattr__(state, "codec", before)
    [payload] = sealed.json()["payloads"]
    assert (200, b"k1") == (sealed.status_code, base64.b64decode(payload["metadata"]["encryption-key-id"]))
    assert as_json(plain) == opened.json()
    assert as_json(plain) == (await asyncio.to_thread(http.post, "/codec/encode", json=as_json(plain))).json()


@pytest.mark.parametrize(
    "body",
    [
        {"payloads": [{"data": "no base64!"}]},
        {"payloads": [{"metadata": {"encoding": 5}}]},
        {"payloads": {}},
        {"payloads": [{}] * (PAYLOADS_MAX + 1)},
    ],
    ids=["data", "metadata", "no list", "too many"],
)
def test_what_is_no_payload_is_refused_by_field(http: httpx.Client, body: Any):
    answer = http.post(DECODE, json=body)
    assert 422 == answer.status_code
    assert answer.json()["errors"][0]["field"].startswith("payloads")


def test_an_api_does_not_start_with_a_malformed_key():
    with pytest.raises(Exception, match="entry 1 has a key of 5 bytes"):
        create_app(Settings(encryption=EncryptionSettings(keys=f"k1 {base64.b64encode(b'short').decode()}")))


def test_only_the_web_ui_that_runs_and_those_that_were_named_may_ask():
    named = EncryptionSettings(origins=("https://temporal.example.com",))
    assert frozenset() == web_uis_of(Settings())
    assert {"https://temporal.example.com"} == web_uis_of(Settings(encryption=named))
    assert {UI, "http://localhost:8243"} == web_uis_of(Settings(temporal=Temporal(ui=True)))
    with pytest.raises(ValueError, match="must be origins"):
        EncryptionSettings(origins=("*",))


async def asked(
    method: str, path: str = DECODE, *, origin: str = UI, key: str = "", keys: dict[str, str] | None = None
) -> httpx.Response:
    """What a page of this origin gets, in a browser."""

    async def inside(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"decrypted"})

    guard = Guard(inside, keys or {}, {"viewer": Role.VIEWER, "operator": Role.OPERATOR}, frozenset({UI}))
    headers = {"origin": origin, "sec-fetch-site": "same-site", **({"authorization": f"Bearer {key}"} if key else {})}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://127.0.0.1:8800") as http:
        return await http.request(method, path, headers=headers)


async def test_a_page_of_the_web_ui_may_ask_and_read_the_answer():
    allowed = await asked("OPTIONS")
    assert 204 == allowed.status_code
    assert UI == allowed.headers["access-control-allow-origin"]
    assert "x-namespace" in allowed.headers["access-control-allow-headers"]
    answer = await asked("POST")
    assert (200, "decrypted") == (answer.status_code, answer.text)
    assert (UI, "Origin") == (answer.headers["access-control-allow-origin"], answer.headers["vary"])


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:8244", "https://127.0.0.1:8243", f"{UI}.evil.example"]
)
@pytest.mark.parametrize("method", ["OPTIONS", "POST"])
async def test_a_page_of_another_origin_may_not(method: str, origin: str):
    answer = await asked(method, origin=origin)
    assert 403 == answer.status_code
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/api/tasks", "/codec", "/codec/decode/", "/codec/encode", "/api/accounts/ann"])
async def test_the_web_ui_may_ask_nothing_else(path: str):
    answer = await asked("POST", path)
    assert (403, False) == (answer.status_code, "access-control-allow-origin" in answer.headers)


async def test_with_keys_only_one_of_an_administrator_decrypts():
    keys = {"viewer": "1", "operator": "2", "admin": "3"}
    assert [403, 403, 200, 401] == [
        (await asked("POST", key=key, keys=keys)).status_code for key in ("1", "2", "3", "wrong")
    ]
    assert 204 == (await asked("OPTIONS", keys=keys)).status_code, "a browser's first question carries no key"
    assert 401 == (await asked("OPTIONS", origin="http://evil.example", keys=keys)).status_code
