"""Every button at random moments, while tasks run and things break. What must hold afterwards is in `aftermath`."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from droidherd.domain.errors import DID_NOT, HAPPENED
from droidherd.domain.task.lifecycle import FINAL, TaskStatus
from tests.chaos import strikes
from tests.chaos.aftermath import Part, tap_counts
from tests.support.api_server import ApiServer
from tests.support.farm import Farm, until

EMULATORS = 6
LANES = ("account", "anonymous", "")
REFUSALS = (200, 202, 409, 422)
"""Done, under way, not possible now, or refused by the dispatcher. Nothing else is an answer to a button."""
AWAY = (503, 429)
"""While the dispatcher is down."""
PRESS_EVERY_S = (0.02, 0.25)
STRIKE_EVERY_S = 4.0
BUTTONS = {
    "pause": 4, "resume": 8, "cancel": 2, "force": 1, "retry": 6, "rollback": 1, "prioritize": 4,
    "capacity": 3, "pause lane": 1, "resume lane": 3, "two cancels": 1, "cancel and pause": 1,
}  # fmt: skip
"""How often each is pressed before all of them are shuffled again: none is left out however few presses there are."""
STOPS = (strikes.stopped_worker, strikes.stopped_engine, strikes.stopped_adb_server, strikes.stopped_fleet)
STRIKES = (
    *(strikes.emulator, strikes.reboot, strikes.worker, strikes.adb_server, strikes.dispatcher),
    *(strikes.emulator_workflow, strikes.emulator_workflows, strikes.host_workflow),
)
STRIKES_PER_STOP = 8
"""A stop lasts as long as many strikes do, and nothing moves meanwhile."""


@dataclass
class Stage:
    """What is played, and with whom."""

    farm: Farm
    http: httpx.AsyncClient
    chance: random.Random
    parts: dict[str, Part] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set[str])
    """Tasks that ended once, whatever a button made of them since."""
    stack: list[str] = field(default_factory=list[str])
    """The next buttons."""
    pressed: Counter[str] = field(default_factory=Counter[str])
    answers: Counter[int] = field(default_factory=Counter[int])
    odd: list[str] = field(default_factory=list)
    is_frozen: bool = False
    """Something is stopped, so nobody can see what happened on the emulators."""

    async def post(self, path: str, **body: Any) -> int:
        answer = await self.http.post(path, json={"actor": "tester", **body})
        self.answers[answer.status_code] += 1
        silent = answer.status_code == 503 and "retry-after" not in answer.headers
        if answer.status_code not in (*REFUSALS, *AWAY) or silent:
            self.odd.append(f"POST {path} {body}: {answer.status_code} {answer.text[:300]}")
        return answer.status_code

    async def task(self, task_id: str) -> dict[str, Any]:
        return dict((await self.http.get(f"/api/tasks/{task_id}")).json())


@asynccontextmanager
async def stage(farm: Farm, api: ApiServer, chance: random.Random) -> AsyncGenerator[Stage]:
    async with httpx.AsyncClient(base_url=api.url, timeout=60) as http:
        yield Stage(farm, http, chance)


async def play(on: Stage, count: int) -> None:
    """Submit, press and strike until most tasks ended once; then let all of it end."""
    farm, chance = on.farm, on.chance
    await farm.all_up(await farm.client())
    async with asyncio.TaskGroup() as people:  # whoever of them stumbles ends the play, with the reason
        attendant = people.create_task(_attend(on))
        others = [people.create_task(_press_on(on)), people.create_task(_strike_on(on))]
        for number in range(count):
            await _submit(on, number, count)
            await asyncio.sleep(chance.uniform(0.0, 0.2))
        await until(lambda: _most_ended(on), "most tasks to end once", 120.0 + 5.0 * count)
        for one in others:
            one.cancel()
        await asyncio.wait(others)
        await _let_go(on)
        await asyncio.gather(*(until(lambda t=t: _ended(on, t), f"{t} to end", 180.0) for t in on.parts))
        attendant.cancel()


async def _submit(on: Stage, number: int, count: int) -> None:
    chance = on.chance
    kind = chance.choices(("pace", "walk", "trip"), (6, 2, 2))[0]
    part = Part(f"b{number}", kind, x=1.0 + number * 98.0 / count, account=chance.choice(("", f"a{number % 9}")))
    body = {"id": part.task_id, "type": kind, "params": {"x": part.x}, "account": part.account, "on_busy": "queue"}

    async def taken() -> bool | None:
        return True if (await on.http.post("/api/tasks", json=body)).status_code in (200, 201, 202, 409) else None

    await until(taken, f"{part.task_id} to be taken")
    on.parts[part.task_id] = part


async def _most_ended(on: Stage) -> bool | None:
    asked = [one for one in on.parts if one not in on.ended]
    views = await asyncio.gather(*(on.task(one) for one in asked))  # while the engine is stopped, each takes seconds
    on.ended |= {one for one, view in zip(asked, views, strict=True) if view.get("state") in FINAL}
    await asyncio.sleep(0.5)
    return True if len(on.ended) >= 0.9 * len(on.parts) else None


# --- buttons ------------------------------------------------------------------------------------------------------


async def _press_on(on: Stage) -> None:
    while True:
        await asyncio.sleep(on.chance.uniform(*PRESS_EVERY_S))
        if on.parts:
            await _press(on)


async def _press(on: Stage) -> None:
    """One button, of a new task or one that has not ended yet: nobody stays paused because newer ones came.

    Buttons that stop everything are pressed less often than those that let it go on.
    """
    chance = on.chance
    older, newest = list(on.parts)[:-20], list(on.parts)[-20:]
    name = chance.choice([one for one in older if one not in on.ended] + newest)
    if not on.stack:
        on.stack = chance.sample(list(BUTTONS), counts=list(BUTTONS.values()), k=sum(BUTTONS.values()))
    button = on.stack.pop()
    on.pressed[button] += 1
    lane = chance.choice(LANES)
    task = f"/api/tasks/{name}"
    if button == "force":
        on.parts[name].forced = True
        await on.post(f"{task}/cancel", force=True, reason=button)
    elif button == "two cancels":
        await asyncio.gather(*(on.post(f"{task}/cancel", reason=f"{button} {n}") for n in (1, 2)))
    elif button == "cancel and pause":
        pair = [on.post(f"{task}/cancel", reason=button), on.post(f"{task}/pause", reason=button)]
        chance.shuffle(pair)
        await asyncio.gather(*pair)
    elif button == "prioritize":
        await on.post(f"{task}/prioritize", priority=chance.randint(1, 10))
    elif button == "capacity":
        await on.post("/api/queue/capacity", lane=lane or "account", capacity=chance.randint(1, EMULATORS))
    elif button in ("pause lane", "resume lane"):
        await on.post(f"/api/queue/{button.split()[0]}", lane=lane, reason=button)
    else:
        await on.post(f"{task}/{button}", reason=button)


async def _strike_on(on: Stage) -> None:
    while True:
        await asyncio.sleep(on.chance.uniform(0.5, 1.5) * STRIKE_EVERY_S)
        on.farm.worker.check()
        strike = on.chance.choice(STOPS if on.chance.randrange(STRIKES_PER_STOP) == 0 else STRIKES)
        on.is_frozen = strike in STOPS
        try:
            await strike(on.farm, on.chance)
        except (FileNotFoundError, ProcessLookupError):
            continue  # its victim lies already, of a blow before
        finally:
            on.is_frozen = False
        on.pressed[f"strike {strike.__name__}"] += 1


# --- people -------------------------------------------------------------------------------------------------------


async def _attend(on: Stage) -> None:
    """What tasks ask is answered by one who has looked at the emulators."""
    while True:
        for name, part in list(on.parts.items()):
            view = await on.task(name)
            question = view.get("question")
            if question and not on.is_frozen:
                happened = not question["step"].startswith("journal-") and _was_tapped(on, part, view)
                await on.post(f"/api/tasks/{name}/answer", choice=HAPPENED if happened else DID_NOT)
                on.pressed["answer"] += 1
        await asyncio.sleep(0.3)


def _was_tapped(on: Stage, part: Part, view: dict[str, Any]) -> bool:
    """Of a single act. A stage as a whole, of an attempt before, is always begun anew."""
    y = int(view["question"]["text"].rpartition(" ")[2].rstrip("%"))
    tokens = {one["token"] for one in view["attempts"] if one["n"] == view["attempt"]}
    return any(tap_counts(on.farm, part, token)[y] for token in tokens)


async def _let_go(on: Stage) -> None:
    """Nothing is held back any more."""

    async def done(path: str, **body: Any) -> bool | None:
        return True if await on.post(path, **body) == 200 else None

    await until(lambda: done("/api/queue/resume", lane="", reason="over"), "the pool to be resumed")
    for lane in ("account", "anonymous"):
        await until(lambda lane=lane: done("/api/queue/capacity", lane=lane, capacity=EMULATORS), f"{lane} to be wide")


async def _ended(on: Stage, task_id: str) -> bool | None:
    """Whoever is paused goes on."""
    view = await on.task(task_id)
    if view.get("state") == TaskStatus.PAUSED or view.get("intent") == "pause":
        await on.post(f"/api/tasks/{task_id}/resume", reason="over")
    await asyncio.sleep(0.2)
    return True if view.get("state") in FINAL else None
