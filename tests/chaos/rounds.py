"""Rounds of faults on one place that lives through all of them: tasks run, something breaks, and all of it ends well.

The judge looks at the emulators' own journals, at the API, and at the histories. What it finds is text.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from droidherd.domain.task.lifecycle import TaskStatus
from tests.chaos.aftermath import Part, account_overlaps, late_leases
from tests.chaos.judge import Judgement, attended, judge
from tests.chaos.replayed import diverged
from tests.support.farm import Place, until

TASKS = 6
ACCOUNTS = 4
"""Fewer than tasks: some wait for each other."""
LIMIT_S = 240.0
ASK_EVERY_S = 0.1
BEFORE = (TaskStatus.PENDING, TaskStatus.QUEUED)
PATHS = (
    *("/api/tasks", "/api/queue", "/api/emulators", "/api/audit", "/api/accounts", "/api/stats"),
    *("/healthz", "/readyz", "/metrics"),
)

Strike = Callable[[], Awaitable[None]]


@dataclass
class Rounds:
    """What is played where, and what was found."""

    place: Place
    api: str
    chance: random.Random
    name: str
    may_ask: bool = False
    """Whether the fault can hide from everybody whether an act happened."""
    count: int = 0
    judged: list[Judgement] = field(default_factory=list[Judgement])
    answers: Counter[str] = field(default_factory=Counter[str])
    problems: list[str] = field(default_factory=list[str])
    parts: dict[str, Part] = field(default_factory=dict[str, Part])
    slowest_s: float = 0.0
    """The longest time from the fault's end until every task had ended."""

    async def play(self, strike: Strike) -> None:
        """One round."""
        self.count += 1
        began_s, wall_s = time.monotonic(), time.time()
        client = await self.place.client()
        async with self._client() as http, self._visited():
            tasks = await self._submit(http)
            await until(lambda: self._some_run(http, list(tasks)), "tasks to run")
            await asyncio.sleep(self.chance.uniform(0.1, 1.2))
            await strike()
            over_s = time.monotonic()
            ends = await asyncio.gather(
                *(attended(self.place, client, task, part.x, began_s) for task, part in tasks.items())
            )
            self.slowest_s = max(self.slowest_s, time.monotonic() - over_s)
            found = [await judge(self.place, client, v, tasks[v.task_id].x, began_s) for v in ends]
            self.judged += found
            when = time.strftime("%H:%M:%S", time.gmtime(wall_s))
            self.problems += [f"round {self.count}, from {when}: {v}" for v in found if not self._is_good(v)]
            self.problems += account_overlaps(self.place, tasks, wall_s)
            await self.serves(http)

    async def serves(self, http: httpx.AsyncClient) -> None:
        """Every emulator is up and free, nobody waits, nobody runs."""
        last: list[Any] = []

        async def idle() -> bool | None:
            last[:] = await self._unserved(http)
            return True if not last else None

        try:
            await until(idle, "everything to serve again", LIMIT_S)
        except TimeoutError:
            raise TimeoutError(f"{self.name}, round {self.count}: it does not serve again: {last}") from None

    async def end(self) -> None:
        """After the last round: what must hold for all of them together."""
        self.problems += late_leases(self.place)
        self.problems += await diverged(self.place)

    def figures(self) -> dict[str, Any]:
        return {
            "rounds": self.count,
            "tasks": len(self.judged),
            "wrong": len(self.problems),
            "asked_a_person": [one.task_id for one in self.judged if one.asked],
            "slowest_s": round(self.slowest_s, 1),
            "answers": dict(self.answers),
        }

    def _is_good(self, one: Judgement) -> bool:
        return one.good and (self.may_ask or not one.asked)

    async def _submit(self, http: httpx.AsyncClient) -> dict[str, Part]:
        """Each round has columns of its own, for a while: a late act of one is none of another."""
        tasks: dict[str, Part] = {}
        bodies: list[dict[str, Any]] = []
        for number in range(TASKS):
            x = 2.0 + 3.0 * number + 18.0 * (self.count % 5)
            part = Part(f"{self.name}-{self.count}-{number}", "pace", x, f"{self.name}-a{number % ACCOUNTS}")
            tasks[part.task_id] = part
            body = {"id": part.task_id, "type": part.kind, "params": {"x": x}, "account": part.account}
            bodies.append({**body, "on_busy": "queue"})
        self.parts |= tasks
        await asyncio.gather(*(until(lambda b=b: self._taken(http, b), f"{b['id']} to be taken") for b in bodies))
        return tasks

    async def _taken(self, http: httpx.AsyncClient, body: dict[str, Any]) -> bool | None:
        answer = await self._ask(http, "POST", "/api/tasks", json=body)
        return True if answer is not None and answer.status_code in (200, 201, 202, 409) else None

    async def _some_run(self, http: httpx.AsyncClient, tasks: list[str]) -> bool | None:
        answers = [await self._ask(http, "GET", f"/api/tasks/{task}") for task in tasks]
        states = [one.json()["state"] for one in answers if one is not None and one.is_success]
        return True if len([one for one in states if one not in BEFORE]) >= ACCOUNTS // 2 else None

    async def _unserved(self, http: httpx.AsyncClient) -> list[Any]:
        """What is not as it was before."""
        answers = [await self._ask(http, "GET", path) for path in ("/api/queue", "/api/emulators")]
        documents = [one.json() for one in answers if one is not None and one.is_success]
        if len(documents) < len(answers):
            return ["the API does not answer", answers]
        queue, emulators = documents[0], documents[1]["emulators"]
        found: list[Any] = [one for one in emulators if one["state"] != "up" or one.get("task")]
        counts = {name: queue[name] for name in ("waiting", "running", "free")}
        if counts != {"waiting": 0, "running": 0, "free": len(self.place.emulators)} or queue.get("rebuilding"):
            found.append(queue)
        if len(emulators) != len(self.place.emulators):
            found.append(f"{len(emulators)} emulators")
        return found

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.api, timeout=30)

    @contextlib.asynccontextmanager
    async def _visited(self) -> AsyncGenerator[None]:
        """Meanwhile somebody asks the API all the time."""
        visitor = asyncio.create_task(self._visit())
        try:
            yield
        finally:
            visitor.cancel()
            await asyncio.wait([visitor])

    async def _visit(self) -> None:
        async with self._client() as http:
            while True:
                path = self.chance.choice((*PATHS, *(f"/api/tasks/{task}" for task in list(self.parts)[-TASKS:])))
                await self._ask(http, "GET", path)
                await asyncio.sleep(ASK_EVERY_S)

    async def _ask(self, http: httpx.AsyncClient, method: str, path: str, **more: Any) -> httpx.Response | None:
        """None: the API is away. An answer that nobody should get is a problem."""
        try:
            answer = await http.request(method, path, **more)
        except httpx.HTTPError as error:
            self.answers[type(error).__name__] += 1
            return None
        code = answer.status_code
        self.answers[str(code)] += 1
        if code >= 500 and not (code == 503 and "retry-after" in answer.headers):
            self.problems.append(f"{method} {path}: {code} {answer.text[:300]}")
        return answer
