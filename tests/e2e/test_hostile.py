"""Point 5 of the foundation: whatever strings come in, the API answers clearly, the emulator hears what was meant."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from droidherd.domain.task.lifecycle import FINAL, TaskStatus
from tests.support.api_server import ApiServer, api_server
from tests.support.farm import Farm, farm, until

FLOWS = Path(__file__).parent / "flows"
STRAYS = ("touch", "reboot", "rm", "am", "pm", "settings", "sh", "id", "whoami", "uiautomator", "monkey", "kill")
"""Commands no line of ours runs while it types; each hostile text would like to run one of them."""

TYPED = (
    "plain",
    "with spaces, and more",
    "'; touch /sdcard/pwned; '",
    '"; touch /sdcard/pwned; "',
    "$(touch /sdcard/pwned)",
    "`touch /sdcard/pwned`",
    "a && reboot || whoami | id > /sdcard/pwned",
    "../../../../data/local/tmp/droidherd/j",
    "\\'\\\\ \\$HOME ${PATH} %20 *?[a-z]~",
    "-n --help",
    "#comment !history & background",
)
REFUSED = (
    "line\nbreak; touch /sdcard/pwned",
    "nul\x00byte",
    "emoji 🐑",
    "\u202eright to left",
    "x" * 1001,
)
FIELDS = ("id", "type", "account", "lane", "pool", "emulator")
NAMES = ("../x", "a'b", 'a"b', "a\nb", "a\x00b", "🐑", "a b", "a;b", "x" * 65)


async def test_hostile_texts_reach_the_emulator_as_text_or_are_refused(tmp_path: Path) -> None:
    with farm(tmp_path, 1, flows=FLOWS) as place, api_server(place) as api:
        await place.all_up(await place.client())
        answers = [await _submit(api, {"type": "typed", "params": {"text": text}}) for text in (*TYPED, *REFUSED)]
        assert {201, 422} == {answer.status_code for answer in answers}
        ended = [await _end(api, a.json()["id"]) if a.status_code == 201 else None for a in answers]
        assert ["completed"] * len(TYPED) == [view["state"] for view in ended[: len(TYPED)] if view]
        # What may not be typed is refused by the API, or fails with a reason and without a single effect.
        assert not [view for view in ended[len(TYPED) :] if view and view["state"] == TaskStatus.COMPLETED]
        assert list(TYPED) == _typed(place)
        assert [] == _strays(place)


async def test_hostile_names_are_refused_by_the_api_each_by_its_field(tmp_path: Path) -> None:
    with farm(tmp_path, 1, in_memory=True) as place, api_server(place) as api:
        await place.all_up(await place.client())
        for field in FIELDS:
            answers = [await _submit(api, {"type": "tap_once", field: name}) for name in NAMES]
            assert [422] * len(NAMES) == [answer.status_code for answer in answers], field
            assert {True} == {field in answer.text for answer in answers}
        assert [] == [c for c in place.journal(place.emulators[0]) if c.argv[:1] == ("input",)]


async def _submit(api: ApiServer, body: dict[str, Any]) -> httpx.Response:
    async with httpx.AsyncClient(timeout=30) as http:
        return await http.post(f"{api.url}/api/tasks", json=body)


async def _end(api: ApiServer, task: str) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        async with httpx.AsyncClient(timeout=30) as http:
            view: dict[str, Any] = (await http.get(f"{api.url}/api/tasks/{task}")).json()
        return view if view.get("state") in FINAL else None

    found: dict[str, Any] = await asyncio.wait_for(until(ended, f"{task} to end"), 120)
    return found


def _typed(place: Farm) -> list[str]:
    """What the emulator was told to type, as `input` reads it: `%s` is a space."""
    commands = place.journal(place.emulators[0])
    words = [c.argv[2:] for c in commands if c.argv[:2] == ("input", "text")]
    return [" ".join(text).replace("%s", " ") for text in words]


def _strays(place: Farm) -> list[str]:
    """Commands that ran after the gate and were never meant."""
    commands = place.journal(place.emulators[0])
    first = next((i for i, c in enumerate(commands) if c.argv[:2] == ("input", "text")), len(commands))
    return [c.line for c in commands[first:] if c.argv[:1] and c.argv[0] in STRAYS]
