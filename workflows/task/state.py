"""Everything a task knows, in one model, and the changes it can go through."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from temporalio import workflow

from droidherd.contracts import names
from droidherd.contracts.changes import Undo, Value
from droidherd.contracts.plan import Effect, OnAmbiguous, Plan, Stage, TaskTiming
from droidherd.contracts.tasks import (
    Answer,
    ArtifactView,
    AttemptView,
    Chain,
    EventView,
    Failure,
    OperatorRequest,
    Question,
    Rerun,
    Rollback,
    StageView,
    TaskInput,
    TaskSpec,
    TaskView,
    shown_params,
)
from droidherd.domain import messages as m
from droidherd.domain.errors import Verdict
from droidherd.domain.task.claim import Claim
from droidherd.domain.task.lifecycle import FINAL, Intent, TaskEvent, TaskNote, TaskStatus, combine, may, transition

DROIDHERD = "droidherd"
"""The actor of what the product does by itself."""
BEEN_IN_LINE = (TaskEvent.ADMITTED, TaskEvent.MANUAL_RETRY, TaskEvent.ROLLBACK_ASKED)
ROUND_MIN = timedelta(seconds=1)
KEPT_EVENTS = 200
SHOWN_SPEC = ("type", "account", "pool", "lane", "labels", "chain")
"""What lists show of a submission."""
RESET_REASON = "reset in Temporal: it does nothing again; retry it to run it again"
REASON_MAX = 1_000
KEPT_ATTEMPTS = 40


class Lasts(Enum):
    """How long what a field says is true, where that is not just one run of the workflow."""

    OVER_RERUNS = auto()
    """A task that ended and runs once more begins with it: it is read off the `TaskView`, under the same name."""
    ROUND = auto()
    """The next round begins with the default."""


SentTry = tuple[int, int, int]
"""A try of a stage that was given to a worker: stage, lease, and its number under that lease."""


class TaskState(BaseModel):
    """Handed over whole to continue-as-new, and shown whole as `TaskView`. A new field is one line here.

    A `TaskView` reads the attributes of its names from here; what is not a field is a property.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    task_id: str
    spec: TaskSpec
    run: str
    """The first run of this workflow: keys name it."""
    claim: Claim
    """What was asked of the dispatcher, what it granted, and what it has yet to be told."""
    created_at: Annotated[datetime, Lasts.OVER_RERUNS]
    updated_at: Annotated[datetime, Lasts.OVER_RERUNS]
    status: TaskStatus = TaskStatus.PENDING
    intent: Intent = Intent.NONE
    requested: OperatorRequest = OperatorRequest()
    """Who asked for what takes effect at the next boundary."""
    plan: Plan | None = None
    timing: TaskTiming = TaskTiming()
    attempt: int = 1
    is_rerun: bool = False
    """It ended before, or was refused, and was started once more."""
    first_attempt: int = 1
    """Of this run: retries are counted from here."""
    moves: Annotated[int, Lasts.ROUND] = 0
    attempts: Annotated[list[AttemptView], Lasts.OVER_RERUNS] = Field(default_factory=list)
    events: Annotated[list[EventView], Lasts.OVER_RERUNS] = Field(default_factory=list)
    error: Annotated[Failure | None, Lasts.ROUND] = None
    emulator: str = ""
    """The one it holds."""
    avoid: str = ""
    """The one it lost last."""
    home_until: Annotated[datetime | None, Lasts.ROUND] = None
    """Until then it waits for the emulator on which its stages completed."""
    left_home: Annotated[str, Lasts.ROUND] = ""
    """Why it waits for that no longer."""
    stage_now: int = -1
    done_on: list[str] = Field(default_factory=list)
    """Per stage: the emulator it completed on; empty while it has not."""
    begun_on: Annotated[dict[int, str], Lasts.ROUND] = Field(default_factory=dict)
    """Stage that was begun and not completed in this attempt → where, last."""
    wrote_under: Annotated[dict[int, int], Lasts.ROUND] = Field(default_factory=dict)
    """Stage that acted in the account, in any attempt, and did not complete → the last lease under which it did."""
    unreported: Annotated[list[SentTry], Lasts.ROUND] = Field(default_factory=list)
    """Of stages with an effect in the account: nobody has said yet whether they acted."""
    past_stages: dict[str, StageView] = Field(default_factory=dict)
    """Of the run before, by their names."""
    undo: Annotated[list[Undo], Lasts.OVER_RERUNS] = Field(default_factory=list)
    rollback: Rollback | None = None
    question: Question | None = None
    questions: Annotated[int, Lasts.OVER_RERUNS] = 0
    """How many it has asked: the number of the last one."""
    answered: int = 0
    """The number of the last one with whose answer it went on."""
    answer: Answer | None = None
    """What somebody answered, and nobody has read yet."""
    answers: Annotated[dict[str, str], Lasts.ROUND] = Field(default_factory=dict)
    """What people answered, by the mark of the question."""
    not_before: datetime | None = None
    retry_at: datetime | None = None
    lacked_key: Annotated[int, Lasts.ROUND] = 0
    """How often in a row a worker could not go on for a key that it does not have."""
    rounds: Annotated[int, Lasts.OVER_RERUNS] = 0
    again_at: Annotated[datetime | None, Lasts.ROUND] = None
    """When it wants to run next, by what its stages report."""
    position: int = 0
    why: str = ""
    following: Annotated[str, Lasts.OVER_RERUNS] = ""
    """The task that follows it."""
    chain_ends: str = ""
    """Why none does."""
    ended_as: TaskView | None = None
    """Of a run that does nothing but write down how the one before ended."""

    @classmethod
    def begin(cls, start: TaskInput) -> Self:
        """Of a task that starts; or that starts once more, after it ended."""
        info, spec = workflow.info(), start.spec
        started, run = info.workflow_start_time, info.first_execution_run_id
        claim = Claim(names.dispatcher_id(spec.pool), seq=int(started.timestamp() * 1000), run=run)
        kept: dict[str, Any] = {"created_at": started, "updated_at": started}
        if start.again is not None:
            kept |= {name: getattr(start.again.past, name) for name in cls._names(Lasts.OVER_RERUNS)}
        state = cls(task_id=info.workflow_id, spec=spec, run=run, claim=claim, not_before=spec.not_before, **kept)
        if not state.events:
            state._write(_created(spec, state.created_at))
        if start.again is not None and start.again.closes:
            state._close_as(start.again.past, start.again.ask)
        elif start.again is not None:
            state._resume(start.again)
        return state

    def _close_as(self, past: TaskView, ask: OperatorRequest, event: TaskNote = TaskNote.BROKEN_OFF) -> None:
        """The run before ended like this, and could not say so."""
        self.is_rerun, self.status, self.error = True, past.state, past.error
        at, before = self.updated_at, past.events[-1].after if past.events else past.state
        reason = past.error.message if past.error and event is TaskNote.BROKEN_OFF else ask.reason
        line = EventView(at=at, before=before, event=event, after=past.state, actor=ask.actor, reason=reason)
        self.ended_as = past.model_copy(update={"events": (*past.events[-KEPT_EVENTS + 1 :], line)})

    def end_after_reset(self, past: TaskView | None) -> None:
        """The task ended like this before, and is shown so from now on. None: nothing is left of that."""
        if past is None or past.state not in FINAL:
            failure = Failure(kind="terminated", verdict=Verdict.FINAL, message="it was reset in Temporal")
            past = self.view(events=True).model_copy(update={"state": TaskStatus.FAILED, "error": failure})
        self._close_as(past, OperatorRequest(actor="temporal", reason=RESET_REASON), TaskNote.RESET)

    def keep_end(self, past: TaskView) -> None:
        """This run does nothing: the task is shown as the run before left it."""
        self.is_rerun, self.ended_as = True, past
        self.spec = self.spec.model_copy(update={name: getattr(past, name) for name in SHOWN_SPEC})

    @classmethod
    def _names(cls, lasts: Lasts) -> list[str]:
        return [name for name, one in cls.model_fields.items() if lasts in one.metadata]

    def _resume(self, again: Rerun) -> None:
        """This run goes on where the one before ended: one state, one audit."""
        past = again.past
        self.is_rerun = True
        self.status = past.state
        self.attempt = self.first_attempt = past.attempt + 1
        self.rollback = again.rollback and again.rollback.model_copy(update={"begun": True})
        self.claim.priority, self.claim.ticket = past.priority, -past.prioritized
        # Of a rollback that was cancelled midway: what it had taken back has to be done anew.
        back = {(one.stage, one.emulator) for one in past.undo if one.undone}
        self.past_stages = {one.name: one for one in past.stages if (one.name, one.emulator) not in back}

    # --- transitions ------------------------------------------------------------------------------------------

    def move(self, event: TaskEvent, actor: str = DROIDHERD, reason: str = "") -> None:
        """To a new state, with its line in the audit. The only way there."""
        now = workflow.now()
        step = transition(self.status, event, int(now.timestamp() * 1000), actor, reason)
        self.status, self.updated_at = step.after, now
        self._write(EventView(at=now, before=step.before, event=event, after=step.after, actor=actor, reason=reason))
        if self.status in FINAL:
            self.intent = Intent.NONE  # what was asked for came too late
        if self.status is TaskStatus.REJECTED and not self.attempts:
            self.attempt = 0

    def note(self, event: TaskNote, reason: str, actor: str = DROIDHERD) -> None:
        """A line in the audit about something that changes no state."""
        now, here = workflow.now(), self.status
        self._write(EventView(at=now, before=here, event=event, after=here, actor=actor, reason=reason[:REASON_MAX]))

    def _write(self, line: EventView) -> None:
        """The first line stays: it says how the task began."""
        kept = self.events if len(self.events) < KEPT_EVENTS else [self.events[0], *self.events[-KEPT_EVENTS + 2 :]]
        self.events = [*kept, line]

    def fail(self, failure: Failure | None) -> None:
        self.error = failure
        self.move(TaskEvent.FAILED, reason=failure.message if failure else "")

    def ask_for(self, intent: Intent, request: OperatorRequest) -> None:
        """Somebody wants this at the next boundary; the stronger intent wins."""
        if self.status in FINAL or (intent is Intent.PAUSE and not may(self.status, TaskEvent.PAUSED)):
            return
        combined = combine(self.intent, intent)
        if combined is not self.intent:
            self.intent, self.requested = combined, request

    def take_effect(self) -> None:
        """The boundary is reached: what was asked for becomes true."""
        event = TaskEvent.PAUSED if self.intent is Intent.PAUSE else TaskEvent.CANCELLED
        self.intent = Intent.NONE
        self.move(event, self.requested.actor, self.requested.reason)
        reason = f": {self.requested.reason}" if self.requested.reason else ""
        self.why = f"{self.status} by {self.requested.actor}{reason}"
        if self.status is TaskStatus.CANCELLED:
            self.error = None  # that of an earlier attempt stands with that attempt

    def resume(self, request: OperatorRequest) -> None:
        """Back into line; or, when the pause had not taken effect yet, take it back."""
        if self.intent is Intent.PAUSE:
            self.intent = Intent.NONE
        elif self.status is TaskStatus.PAUSED:
            self.move(TaskEvent.RESUMED, request.actor, request.reason)
            self.why = ""

    def roll_back(self, rollback: Rollback) -> None:
        """Cancel it first, like any other."""
        if self.status not in FINAL and self.rollback is None:
            self.rollback = rollback
            self.ask_for(Intent.CANCEL, rollback.ask)

    def found_key(self) -> None:
        """It waits for a key no longer."""
        self.why, self.lacked_key = "", 0

    def was_in_line(self) -> bool:
        """Only a task that comes for the first time can be a duplicate."""
        return any(line.event in BEEN_IN_LINE for line in self.events)

    def key(self) -> m.Key:
        return m.Key(self.task_id, self.run, self.attempt)

    def the_plan(self) -> Plan:
        if self.plan is None:
            raise RuntimeError("a task runs only after it was planned")
        return self.plan

    # --- stages -----------------------------------------------------------------------------------------------

    def set_plan(self, plan: Plan) -> None:
        self.plan = plan
        if len(self.done_on) != len(plan.stages):
            # Of a run before, what has its effect in the account still counts. The rest does under the same flow, if
            # nobody began to take anything back: how far that came is not known.
            past, same = self.past_stages, bool(self.attempts) and self.attempts[-1].flow_hash == plan.flow_hash
            same = same and not any(line.event == TaskEvent.ROLLBACK_ASKED for line in self.events)
            kept = [past.get(s.name) if same or s.effect is Effect.ACCOUNT else None for s in plan.stages]
            self.done_on = [one.emulator if one is not None else "" for one in kept]
            self.wrote_under = {index: one.wrote_under for index, one in enumerate(kept) if one and one.wrote_under}
            self._suspect_renamed(plan.stages)

    def _suspect_renamed(self, stages: tuple[Stage, ...]) -> None:
        """What acted in the account under a name that the flow has no more may be any stage with a new name."""
        names_now, past = {stage.name for stage in stages}, self.past_stages.values()
        gone = [one for one in past if one.name not in names_now and one.effect is Effect.ACCOUNT]
        if any(one.emulator or one.wrote_under for one in gone):
            lease = max([1, *(one.wrote_under for one in gone), *(attempt.token for attempt in self.attempts)])
            new = [
                i for i, one in enumerate(stages) if one.effect is Effect.ACCOUNT and one.name not in self.past_stages
            ]
            self.wrote_under |= dict.fromkeys(new, lease)

    def next_stage(self) -> int | None:
        """The first stage to run on this emulator. What has its effect on an emulator is not there after a move."""
        for index, done_on in enumerate(self.done_on):
            if not done_on or (self._effect(index) is Effect.EMULATOR and done_on != self.emulator):
                return index
        return None

    def home(self) -> str:
        """The emulator on which most of its completed stages have their effects; elsewhere they would run again."""
        there = [on for index, on in enumerate(self.done_on) if on and self._effect(index) is Effect.EMULATOR]
        return max(there, key=there.count, default="") if self.rollback is None else ""

    def waits_for(self) -> str:
        """That emulator, as long as it is worth waiting for; none while the task is bound to one for good."""
        home = self.home()
        return home if home != self.avoid and not self.left_home and not self.bound_to() else ""

    def leave_home(self, why: str) -> None:
        """Go on wherever there is an emulator."""
        self.home_until, self.left_home = None, why

    def _note_reruns(self) -> None:
        """Say in the audit which stages run again, and why."""
        again = [stage.name for index, stage in enumerate(self.the_plan().stages) if self._is_elsewhere(index)]
        parts = [f"{', '.join(again)} run again"] if again else []
        name, begun_on = self._next_begun()
        if begun_on not in ("", self.emulator) and name not in again:
            parts.append(f"{name} begins anew")
        if parts and self.rollback is None:
            why = self.left_home or f"emulator {self.home() or begun_on} was lost"
            self.note(TaskNote.STAGES_REPEATED, f"{', '.join(parts)} on {self.emulator}: {why}")
        self.home_until, self.left_home = None, ""

    def _next_begun(self) -> tuple[str, str]:
        """The first stage that has not completed anywhere, and where it was begun."""
        stages = self.the_plan().stages
        index = next((index for index, on in enumerate(self.done_on) if not on), None)
        return (stages[index].name, self.begun_on.get(index, "")) if index is not None else ("", "")

    def _is_elsewhere(self, index: int) -> bool:
        on = self.done_on[index]
        return bool(on) and self._effect(index) is Effect.EMULATOR and on != self.emulator

    def jobs_left(self) -> int:
        """How many activities would still run on the emulator that comes: stages and captures, or undos."""
        if self.rollback is not None:
            entry = self.next_undo()
            return sum(1 for one in self.undo if entry and not one.undone and one.emulator == entry.emulator)
        stages = self.plan.stages if self.plan else ()
        left = [i for i, on in enumerate(self.done_on) if not on or self._effect(i) is Effect.EMULATOR]
        return sum(2 if stages[i].changes else 1 for i in left)

    def is_last(self, index: int) -> bool:
        """Whether no stage follows this one on this emulator."""
        later = range(index + 1, len(self.done_on))
        return all(
            self.done_on[i] and (self._effect(i) is Effect.ACCOUNT or self.done_on[i] == self.emulator) for i in later
        )

    def _effect(self, index: int) -> Effect:
        return self.plan.stages[index].effect if self.plan else Effect.EMULATOR

    def stage_began(self, index: int) -> None:
        self.stage_now, self.begun_on[index] = index, self.emulator
        at = self._entry(self.plan.stages[index].name) if self.plan else None
        if at is not None and self.undo[at].after:
            self.undo[at] = self.undo[at].model_copy(update={"unsaid": True})

    def stage_ended(self, index: int, *, completed: bool) -> None:
        self.stage_now = -1
        if completed:
            self.done_on[index] = self.emulator
            self._forget_begun(index)

    def try_sent(self, index: int, lease: int, number: int) -> SentTry:
        """From now on this stage may act. What may have acted in the account counts as having acted (`acted_under`)."""
        this = (index, lease, number)
        if index < len(self.done_on) and self._effect(index) is Effect.ACCOUNT:
            self.unreported.append(this)
        return this

    def try_ended(self, this: SentTry, *, acted: bool) -> None:
        """It is known, perhaps late, whether it acted. Of an earlier round, or a stage that completed, nobody asks."""
        if this in self.unreported:
            index, lease, _ = this
            self.unreported.remove(this)
            if acted:
                self.wrote_under[index] = max(self.wrote_under.get(index, 0), lease)

    def stop_listening(self) -> None:
        """Whoever has not reported yet reports to nobody any more."""
        for this in [*self.unreported]:
            self.try_ended(this, acted=True)

    def acted_under(self, index: int, lease: int = 0) -> int:
        """The last lease under which a stage acted in the account, or may have, without completing; 0: it did not.

        For a try under `lease`: what its own lease sent out wrote to the journal that it finds on its emulator.
        """
        may_have = (of for stage, of, _ in self.unreported if stage == index and of != lease)
        return max(self.wrote_under.get(index, 0), *may_have, 0)

    def acted(self) -> tuple[tuple[int, int], ...]:
        """Each stage that acted, or may have, with that lease."""
        known = sorted({*self.wrote_under, *(index for index, _, _ in self.unreported)})
        return tuple((index, self.acted_under(index)) for index in known)

    def _forget_begun(self, index: int) -> None:
        self.begun_on.pop(index, None)
        self.wrote_under.pop(index, None)
        self.unreported = [one for one in self.unreported if one[0] != index]

    def begin_attempt(self) -> None:
        """The next one: what the one before it began and did not complete is not continued.

        What that did in the account was done, so `acted_under` stays: no emulator has a journal of it for this attempt.
        """
        self.attempt += 1
        self.begun_on = {}

    def bound_to(self) -> str:
        """The emulator whose journal knows how far a stage came that must not act twice; empty: any will do.

        Also when stages before it would have to run again. What was changed is taken back where it was changed.
        """
        if self.rollback is not None:
            entry = self.next_undo()
            return entry.emulator if entry else ""
        stages = self.plan.stages if self.plan else ()
        bound = [on for index, on in self.begun_on.items() if _must_not_act_twice(stages[index])]
        return bound[-1] if bound else ""

    def next_round(self) -> None:
        """All over again, at the time it named: a new attempt with all its retries."""
        self.not_before = max(self.again_at or workflow.now(), workflow.now() + ROUND_MIN)
        self.move(TaskEvent.RESCHEDULED, reason=f"not before {self.not_before:%Y-%m-%d %H:%M:%S %Z}")
        for name in self._names(Lasts.ROUND):
            setattr(self, name, type(self).model_fields[name].get_default(call_default_factory=True))
        self.rounds += 1
        self.begin_attempt()
        self.first_attempt = self.attempt
        self.done_on = [""] * len(self.done_on)
        self.claim.forget()

    # --- people -----------------------------------------------------------------------------------------------

    def ask(self, question: Question) -> None:
        """Ask a person."""
        until = workflow.now() + timedelta(seconds=question.within_s)
        self.questions += 1
        self.question = question.model_copy(update={"until": until, "number": self.questions})
        self.move(TaskEvent.PERSON_ASKED, reason=question.text)
        self.why = f"asks a person: {question.text} ({' / '.join(question.choices)})"

    def hear_answer(self, answer: Answer) -> None:
        """What was not offered is no answer, and neither is one to an earlier question."""
        waits = self.status is TaskStatus.WAITING and self.answer is None and not self.intent
        if waits and self.question is not None and not self.problem_of(answer.choice, answer.question):
            self.answer = answer

    def problem_of(self, choice: str, number: int) -> str:
        """Why this cannot be the answer to what it asks now; an empty text when it can. `number` 0: to whatever it is.

        A question that kept its emulator is withdrawn when the task loses that: its screen is gone.
        """
        question, look = self.question, f"look at what it asks now: droidherd task show {self.task_id}"
        if question is None:
            gone = f"question {number or self.questions} is not open any more: " if self.questions else ""
            return f"{gone}it asks nothing now; if it asks again, that is another question: {look}"
        if number not in (0, question.number):
            return f"question {number} is not open any more, it asks question {question.number} now: {look}"
        if choice not in question.choices:
            return f"{choice!r} is no answer; choose one of: {', '.join(question.choices)}"
        return ""

    def take_answer(self) -> Answer | None:
        answer, self.answer = self.answer, None
        return answer

    def go_on_with(self, answer: Answer, *, later: bool) -> None:
        """Where it asked, it goes on with the answer."""
        if self.question is not None:
            self.answers[self.question.mark or self.question.step] = answer.choice
            self.answered = self.question.number
        self.question, self.why = None, ""
        event = TaskEvent.PERSON_ANSWERED_LATER if later else TaskEvent.PERSON_ANSWERED
        reason = f"{answer.choice}: {answer.reason}" if answer.reason else answer.choice
        self.move(event, answer.actor, reason)

    def patience_s(self) -> float:
        """How long it still waits for an answer."""
        until = self.question.until if self.question else None
        return max((until - workflow.now()) / timedelta(seconds=1), 0.0) if until else 0.0

    def withdraw_question(self) -> None:
        """Nobody can answer it any more."""
        self.question, self.answer, self.why = None, None, ""

    def drop_question(self) -> Failure:
        """Nobody answered in time: the question is dropped."""
        asked = self.question.text if self.question else "something"
        self.withdraw_question()
        return Failure(kind="NobodyAnsweredError", verdict="final", message=f"nobody answered in time: {asked}")

    # --- the undo log -----------------------------------------------------------------------------------------

    def must_capture(self, index: int) -> bool:
        """Whether a stage is about to change something on this emulator whose value nobody has kept yet."""
        if self.plan is None:
            return False
        stage = self.plan.stages[index]
        entries = [one for one in self.undo if not one.undone and one.emulator == self.emulator]
        known = {(v.thing, v.name) for one in entries if one.stage == stage.name for v in one.before}
        return any((change.thing, change.name) not in known for change in stage.changes)

    def note_capture(self, index: int, before: tuple[Value, ...]) -> None:
        """Before the first change its value stands in history, and in the memo."""
        stage = self.plan.stages[index] if self.plan else None
        steps = stage.undo_anyway if stage else ()
        self.undo.append(self._new_entry(index).model_copy(update={"before": before, "steps": steps}))

    def _new_entry(self, index: int) -> Undo:
        plan, attempts = self.plan, self.attempts
        return Undo(
            stage_index=index,
            stage=plan.stages[index].name if plan else "",
            emulator=self.emulator,
            lease=attempts[-1].token if attempts else 0,
            flow_hash=plan.flow_hash if plan else "",
        )

    def note_changes(self, index: int, after: tuple[Value, ...], *, completed: bool) -> None:
        """How a stage left what it changed. The flow's own undo is for stages that completed, its handlers' for all."""
        stage = self.plan.stages[index] if self.plan and index < len(self.plan.stages) else None
        if stage is None or not (after or (completed and stage.undo)):
            return
        at = self._entry(stage.name)
        entry = self.undo[at] if at is not None else self._new_entry(index)
        news = {(value.thing, value.name): value for value in (*entry.after, *after)}
        steps = stage.undo if completed else entry.steps
        unsaid = entry.unsaid and not after
        entry = entry.model_copy(update={"after": tuple(news.values()), "unsaid": unsaid, "steps": steps})
        if at is None:
            self.undo.append(entry)
        else:
            self.undo[at] = entry

    def _entry(self, stage: str) -> int | None:
        """The newest entry of a stage on the present emulator that was not undone."""
        found = [
            i for i, e in enumerate(self.undo) if not e.undone and e.stage == stage and e.emulator == self.emulator
        ]
        return found[-1] if found else None

    def skipped(self) -> tuple[str, ...]:
        """Emulators that are gone, where a forced rollback restores nothing."""
        return self.rollback.skipped if self.rollback else ()

    def next_undo(self) -> Undo | None:
        """The newest change that was not taken back yet, where it can be."""
        skipped = self.skipped()
        return next((one for one in reversed(self.undo) if not one.undone and one.emulator not in skipped), None)

    def undone(self) -> None:
        """The newest one is taken back."""
        entry = self.next_undo()
        if entry is not None:
            at = len(self.undo) - 1 - self.undo[::-1].index(entry)
            self.undo[at] = entry.model_copy(update={"undone": True})

    # --- attempts ---------------------------------------------------------------------------------------------

    def attempt_began(self, lease: m.Lease) -> None:
        self.emulator = lease.emulator_id
        view = AttemptView(
            n=self.attempt,
            run=self.run_id,
            flow_hash=self.flow_hash,
            emulator=lease.emulator_id,
            host=lease.host_id,
            token=lease.token,
            started=workflow.now(),
        )
        self.attempts = [*self.attempts[-KEPT_ATTEMPTS + 1 :], view]
        self._note_reruns()

    def attempt_ended(self, outcome: str, error: Failure | None = None) -> None:
        self.emulator = ""
        if self.attempts and not self.attempts[-1].outcome:
            self._amend(outcome=outcome, error=error, ended=workflow.now())

    def note_report(self, worker: str, artifacts: tuple[ArtifactView, ...]) -> None:
        """What a stage left behind."""
        if self.attempts:
            self._amend(worker=worker or self.attempts[-1].worker, artifacts=(*self.attempts[-1].artifacts, *artifacts))

    def _amend(self, **changes: object) -> None:
        self.attempts[-1] = self.attempts[-1].model_copy(update=changes)

    def seconds(self) -> float:
        """How long the present attempt has held its emulator."""
        started = self.attempts[-1].started if self.attempts else None
        return (workflow.now() - started) / timedelta(seconds=1) if started else 0.0

    # --- as others see it -------------------------------------------------------------------------------------

    def view(self, *, events: bool) -> TaskView:
        view = self.ended_as or TaskView.model_validate(self, from_attributes=True)
        return view if events else view.model_copy(update={"events": ()})

    @property
    def run_id(self) -> str:
        return workflow.info().run_id

    @property
    def state(self) -> TaskStatus:
        return self.status

    @property
    def type(self) -> str:
        return self.spec.type

    @property
    def account(self) -> str:
        return self.spec.account

    @property
    def pool(self) -> str:
        return self.spec.pool

    @property
    def lane(self) -> str:
        return names.lane_of(self.spec.lane, self.spec.account)

    @property
    def priority(self) -> int:
        """As it stands in line: a person may have made it more urgent."""
        return self.claim.priority or self.spec.priority

    @property
    def prioritized(self) -> int:
        return max(-self.claim.ticket, 0)

    @property
    def labels(self) -> dict[str, str]:
        return self.spec.labels

    @property
    def params(self) -> dict[str, JsonValue]:
        """As people may see them."""
        return shown_params(self.plan.params if self.plan else self.spec.params)

    @property
    def expires_at(self) -> datetime | None:
        return self.spec.expires_at

    @property
    def ended_at(self) -> datetime | None:
        return self.updated_at if self.status in FINAL else None

    @property
    def flow(self) -> str:
        return self.plan.flow if self.plan else ""

    @property
    def flow_hash(self) -> str:
        return self.plan.flow_hash if self.plan else ""

    @property
    def chain(self) -> Chain | None:
        return self.spec.place(self.task_id)

    @property
    def stages(self) -> tuple[StageView, ...]:
        if self.plan is None:
            return tuple(self.past_stages.values())  # of a run that ends before it is planned the next one reads them
        return tuple(self._stage_views(self.plan.stages))

    def _stage_views(self, stages: tuple[Stage, ...]) -> Iterator[StageView]:
        for index, (stage, done_on) in enumerate(zip(stages, self.done_on, strict=True)):
            state = "running" if index == self.stage_now else "completed" if done_on else "waiting"
            if state == "waiting" and self.status is TaskStatus.FAILED and index in self.begun_on:
                state = "failed"
            acted = self.acted_under(index)
            yield StageView(name=stage.name, state=state, emulator=done_on, effect=stage.effect, wrote_under=acted)


def _must_not_act_twice(stage: Stage) -> bool:
    return stage.effect is Effect.ACCOUNT and stage.on_ambiguous is not OnAmbiguous.REPEAT


def _created(spec: TaskSpec, at: datetime) -> EventView:
    """The first line of its audit."""
    new, reason = TaskStatus.PENDING, spec.summary()[:REASON_MAX]
    return EventView(at=at, before=new, event=TaskNote.CREATED, after=new, actor=spec.actor, reason=reason)
