"""Tasks that change an emulator, a worker that dies amid the changes, and a rollback. The dump is the judge."""

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from temporalio.client import Client

from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.virtual.tinyapk import tiny_apk
from tests.chaos import strikes
from tests.support.api_server import ApiServer
from tests.support.farm import Farm, until

EXTRA, SECOND = "com.example.extra", "com.example.second"
PAYLOADS = {
    "old.apk": tiny_apk(EXTRA, 1, "1.0", b"old" * 5000),
    "new.apk": tiny_apk(EXTRA, 2, "2.0", b"new" * 5000),
    "second.apk": tiny_apk(SECOND, 9, "9", b"second"),
    "gone.bin": bytes(range(256)) * 300,
    "fresh.bin": b"\0fresh\r\n" * 999,
}
SETTLED, FRESH, GONE = "/data/local/tmp/settled.cfg", "/sdcard/fresh.bin", "/sdcard/to be gone.bin"

FURNISH: list[dict[str, Any]] = [
    {"put": {"file": SETTLED, "text": "mode=slow\n"}},
    {"put": {"file": GONE, "from": "gone.bin"}},
    {"install": {"apk": "old.apk"}},
    {"install": {"apk": "second.apk"}},
]
BREATH = {"sleep": {"for": "150ms"}}
REARRANGE: dict[str, list[dict[str, Any]]] = {
    "looks": [
        {"set": {"setting": "global/first", "to": "${text}"}},
        {"set": {"setting": "system/screen_brightness", "to": "${number}"}},
        {"set": {"wm": "size", "to": "${size}"}},
        {"set": {"wm": "density", "to": "${density}"}},
    ],
    "files": [
        {"put": {"file": SETTLED, "text": "mode=${text}\n"}},
        {"put": {"file": FRESH, "from": "fresh.bin"}},
        {"delete": {"file": GONE}},
        {"set": {"setting": "global/first", "to": "again ${text}"}},
    ],
    "apps": [
        {"install": {"apk": "new.apk"}},
        {"uninstall": {"package": SECOND}},
        {"set": {"property": "debug.hwui.renderer", "to": "${text}"}},
        {"sleep": {"for": "1s"}},
        {"set": {"setting": "secure/last", "to": "${number}"}},
    ],
}
MARKS = (
    "settings put global first", "settings put system screen_brightness", "wm size ", "wm density ", "mv ", "rm ",
    "pm install", "pm uninstall",
)  # fmt: skip
"""Begin the commands of changes after which there is still another one to come."""
LAST = "settings put secure last"
BUSY = 503
BACK = (TaskStatus.ROLLBACK_COMPLETED, TaskStatus.ROLLBACK_FAILED)


def write_flows(folder: Path) -> Path:
    """`furnish`, which gives an emulator something to lose, and `rearrange`."""
    examples = {"text": "t1", "number": "1", "size": "1280x720", "density": "320"}
    params = {name: {"type": "string", "example": example} for name, example in examples.items()}
    rearrange = {name: [each for step in steps for each in (step, BREATH)] for name, steps in REARRANGE.items()}
    flows = {"furnish": ({"main": FURNISH}, {}), "rearrange": (rearrange, params)}
    for name, (stages, given) in flows.items():
        files = folder / name / "files"
        files.mkdir(parents=True)
        for payload in (payload for payload in PAYLOADS if payload in str(stages)):
            (files / payload).write_bytes(PAYLOADS[payload])
        listed = [{"stage": stage, "steps": steps} for stage, steps in stages.items()]
        flow = {"flow": name, "stages": listed, **({"params": given} if given else {})}
        (folder / name / "flow.yaml").write_text(yaml.safe_dump(flow, sort_keys=False), encoding="utf-8")
    return folder


@dataclass(frozen=True)
class Returned:
    """What became of one task that was taken back."""

    task_id: str
    state: TaskStatus
    ended: TaskStatus | None
    """As what it ended before it was taken back; None: it was taken back while it ran."""
    changed: int
    """Things it had changed when it was taken back."""
    struck: bool
    """Its worker was killed after its first change and before its last."""
    differs: tuple[str, ...]
    """The parts of the dump that are not as they were."""
    error: str

    @property
    def good(self) -> bool:
        there = self.ended in (None, TaskStatus.COMPLETED)
        return there and self.state is TaskStatus.ROLLBACK_COMPLETED and self.changed > 0 and not self.differs


async def furnish(place: Farm) -> None:
    """Once, before the first round."""
    client = await place.client()
    await place.wake(client)
    await place.all_up(client)
    for emulator in place.emulators:
        await place.submit(client, f"furnish-{emulator}", "furnish", emulator=emulator)
    for emulator in place.emulators:
        assert TaskStatus.COMPLETED == (await place.ended(client, f"furnish-{emulator}")).state


async def rehearse(place: Farm, api: ApiServer, chance: random.Random, name: str, *, kill: bool) -> list[Returned]:
    """One round: a task on each emulator changes it, in some rounds the worker dies amid that, all are taken back.

    After a kill every third task is taken back at once, and never gets to say how it left things.
    """
    client = await place.client()
    await place.all_up(client)
    before = dumps(place)
    began_s, struck_s = time.monotonic(), 0.0
    tasks = {f"{name}-{emulator}": emulator for emulator in place.emulators}
    for task_id, emulator in tasks.items():
        await place.submit(client, task_id, "rearrange", emulator=emulator, params=_params(chance))
    if kill:
        victim, mark = chance.choice(place.emulators), chance.choice(MARKS)
        for emulator in place.emulators:
            await until(lambda one=emulator: _changed(place, one, MARKS[0], began_s), f"a change on {emulator}")
        await until(lambda: _changed(place, victim, mark, began_s), f"{mark!r} on {victim}")
        struck_s = time.monotonic()
        await strikes.worker(place, chance)
    seen = {
        task_id: await _back(place, client, api, task_id, at_once=kill and number % 3 == 0)
        for number, task_id in enumerate(tasks)
    }
    after = dumps(place)
    return [
        Returned(
            task_id=task_id,
            state=(view := await place.reached(client, task_id, *BACK)).state,
            ended=seen[task_id],
            changed=sum(len(entry.before) for entry in view.undo),
            struck=kill and _was_amid(place, emulator, began_s, struck_s),
            differs=tuple(part for part in before[emulator] if before[emulator][part] != after[emulator][part]),
            error=view.error.message if view.error else "",
        )
        for task_id, emulator in tasks.items()
    ]


def dumps(place: Farm) -> dict[str, dict[str, Any]]:
    with place.control() as control:
        return {emulator: control.dump(emulator) for emulator in place.emulators}


def _params(chance: random.Random) -> dict[str, Any]:
    return {
        "text": f"t{chance.randrange(10**6)}",
        "number": str(chance.randrange(1, 100)),
        "size": f"{chance.randrange(400, 1200)}x{chance.randrange(400, 1200)}",
        "density": str(chance.randrange(120, 480)),
    }


async def _back(place: Farm, client: Client, api: ApiServer, task_id: str, *, at_once: bool) -> TaskStatus | None:
    """Take it back over HTTP, and see that it was. Gives as what it ended before."""
    ended = None if at_once else (await place.ended(client, task_id)).state
    await until(lambda: _accepted(api, task_id), f"the rollback of {task_id} to be accepted")
    await place.reached(client, task_id, *BACK)
    return ended


async def _accepted(api: ApiServer, task_id: str) -> bool | None:
    """While no worker answers nobody can say what the task did: 503, and the caller asks again."""
    async with httpx.AsyncClient(timeout=60) as http:
        response = await http.post(
            f"{api.url}/api/tasks/{task_id}/rollback", json={"actor": "chaos", "reason": "rehearsal"}
        )
    if response.status_code == BUSY:
        return None
    assert response.is_success, response.text
    return True


async def _changed(place: Farm, emulator: str, mark: str, since_s: float) -> bool | None:
    return True if _when(place, emulator, mark, since_s) else None


def _when(place: Farm, emulator: str, mark: str, since_s: float) -> float:
    """When a change was made for the first time, in this round; 0: not yet."""
    found = (c.monotonic_s for c in place.journal(emulator) if c.monotonic_s > since_s and c.line.startswith(mark))
    return next(found, 0.0)


def _was_amid(place: Farm, emulator: str, since_s: float, at_s: float) -> bool:
    first, last = _when(place, emulator, MARKS[0], since_s), _when(place, emulator, LAST, since_s)
    return 0.0 < first < at_s and not 0.0 < last < at_s
