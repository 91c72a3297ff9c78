"""What must be true after every blow, judged from the emulators' own journals and the engine's histories."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from droidherd.contracts import names
from droidherd.contracts.stage import StageReport, StageWork
from droidherd.contracts.tasks import Answer, Question, TaskView
from droidherd.domain.errors import DID_NOT, HAPPENED
from droidherd.domain.task.lifecycle import FINAL, TaskStatus
from tests.support.farm import Place, until

TAPS = tuple(range(60, 90, 2))
WIDTH, HEIGHT = 1280, 720
MAY_ASK = ("emulator", "reboot", "fleet")


@dataclass(frozen=True)
class Judgement:
    """What was found about one task."""

    task_id: str
    state: TaskStatus
    attempt: int
    error: str
    repeated: tuple[int, ...]
    """Taps that happened more than once."""
    missing: tuple[int, ...]
    stages_again: tuple[int, ...]
    """Stages that were scheduled again after they had completed."""
    asked: bool = False
    """Nobody could see whether an act had happened, so a person was asked."""

    @property
    def good(self) -> bool:
        """Completed, every tap once, no stage again, no attempt counted."""
        done = self.state is TaskStatus.COMPLETED and not self.missing
        return done and self.attempt == 1 and not self.repeated and not self.stages_again


def wrong(judgements: list[Judgement], victim: str) -> list[Judgement]:
    """Those that may not be. Only an emulator that dies between an act and its result leaves something to ask about."""
    return [v for v in judgements if not v.good or (v.asked and victim not in MAY_ASK)]


async def attended(farm: Place, client: Client, task_id: str, x: float, since_s: float) -> TaskView:
    """The task once it ended. What it asks a person meanwhile is answered by one who has looked at the emulators."""
    while True:
        view = await farm.reached(client, task_id, *FINAL, TaskStatus.WAITING)
        if view.state in FINAL:
            return view
        if view.question is None:  # it lost the emulator that it kept, and asks anew
            await until(lambda: _goes_on(farm, client, task_id), f"{task_id} to be in line again")
            continue
        counts = taps(farm, x, since_s=since_s)
        happened = all(counts[y] > 0 for y in _asked_about(view, view.question))
        answer = Answer(choice=HAPPENED if happened else DID_NOT, actor="chaos", reason="looked")
        await client.get_workflow_handle(task_id).signal(names.Signal.ANSWER, answer)
        await until(lambda: _goes_on(farm, client, task_id), f"{task_id} to take the answer")


def _asked_about(view: TaskView, question: Question) -> Sequence[int]:
    """The taps whose outcome nobody could see: one, or all of a stage of which no journal was found."""
    if question.step.startswith("journal-"):
        number = next(number for number, stage in enumerate(view.stages) if f"stage {stage.name} " in question.text)
        each = len(TAPS) // len(view.stages)
        return TAPS[number * each : (number + 1) * each]
    return [int(question.text.rpartition(" ")[2].rstrip("%"))]


async def _goes_on(farm: Place, client: Client, task_id: str) -> bool | None:
    return True if (await farm.view(client, task_id)).state is not TaskStatus.WAITING else None


async def judge(farm: Place, client: Client, view: TaskView, x: float, since_s: float = 0.0) -> Judgement:
    """What became of one task. `since_s`: when its round began, on the host's monotonic clock."""
    counts = taps(farm, x, since_s=since_s)
    return Judgement(
        task_id=view.task_id,
        state=view.state,
        attempt=view.attempt,
        error=view.error.kind if view.error else "",
        repeated=tuple(y for y in TAPS if counts[y] > 1),
        missing=tuple(y for y in TAPS if counts[y] == 0),
        stages_again=await stages_again(client, view.task_id),
        asked=any(line.event == "person_asked" for line in view.events),
    )


def taps(farm: Place, x: float, *, lease: int = 0, since_s: float = 0.0) -> Counter[int]:
    """How often each tap of the flows `pace` and `walk` with this `x` really happened, on any emulator."""
    wanted = {(round(WIDTH * x / 100), round(HEIGHT * y / 100)): y for y in TAPS}
    found: Counter[int] = Counter()
    for emulator in farm.emulators:
        for command in farm.journal(emulator):
            if command.monotonic_s < since_s:
                continue
            other = lease and int(command.token.partition(".")[0] or 0) != lease
            if command.argv[:2] == ("input", "tap") and not other:
                at = (int(command.argv[2]), int(command.argv[3]))
                y = next((y for (wx, wy), y in wanted.items() if abs(at[0] - wx) <= 1 and abs(at[1] - wy) <= 1), None)
                if y is not None:
                    found[y] += 1
    return found


async def stages_again(client: Client, task_id: str) -> tuple[int, ...]:
    """Stage numbers that were scheduled again after history had their completion."""
    history = await client.get_workflow_handle(task_id).fetch_history()
    scheduled: dict[int, StageWork] = {}
    completed: set[int] = set()
    again: list[int] = []
    for event in history.events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            attributes = event.activity_task_scheduled_event_attributes
            if attributes.activity_type.name == "run_stage":
                [work] = await pydantic_data_converter.decode(attributes.input.payloads, [StageWork])
                scheduled[event.event_id] = work
                if work.stage is not None and work.stage_index in completed:
                    again.append(work.stage_index)
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            done = event.activity_task_completed_event_attributes
            if done.scheduled_event_id in scheduled:
                [report] = await pydantic_data_converter.decode(done.result.payloads, [StageReport])
                if report.outcome == "completed":
                    completed.add(scheduled[done.scheduled_event_id].stage_index)
    return tuple(again)
