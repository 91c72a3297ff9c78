"""What a task knows of itself: state, attempts, stages, audit. Mirrored to the memo, the attributes, the Web UI."""

from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.changes import Undo, Value
    from droidherd.contracts.plan import Lives, OnUnknown, Plan, TaskPhysics
    from droidherd.contracts.tasks import (
        Again,
        Answer,
        AttemptView,
        Carry,
        EventView,
        Failure,
        Question,
        Rollback,
        StageView,
        TaskInput,
        TaskSpec,
        TaskView,
    )
    from droidherd.domain import messages as m
    from droidherd.domain.claim import Claim
    from droidherd.domain.lifecycle import FINAL, Intent, TaskEvent, TaskState, transition

STATE = SearchAttributeKey.for_keyword(names.Attribute.TASK_STATE)
EMULATOR = SearchAttributeKey.for_keyword(names.Attribute.EMULATOR_ID)
TYPE = SearchAttributeKey.for_keyword(names.Attribute.TASK_TYPE)
ACCOUNT = SearchAttributeKey.for_keyword(names.Attribute.ACCOUNT_ID)
POOL = SearchAttributeKey.for_keyword(names.Attribute.POOL_ID)
LANE = SearchAttributeKey.for_keyword(names.Attribute.LANE)
TAGS = SearchAttributeKey.for_keyword_list(names.Attribute.TAGS)

ENGINE = "droidherd"
"""The actor of what the product does by itself."""
BEEN_IN_LINE = (TaskEvent.ADMITTED, TaskEvent.MANUAL_RETRY, TaskEvent.ROLLBACK_ASKED)
ROUND_MIN = timedelta(seconds=1)
KEPT_EVENTS = 200
KEPT_ATTEMPTS = 40


class Ledger:
    """One task's book. Every change of state goes through `move`."""

    def __init__(self, start: TaskInput) -> None:
        info = workflow.info()
        carry = start.carry
        self.spec: TaskSpec = start.spec
        self.plan: Plan | None = carry.plan if carry else None
        self.physics = carry.physics if carry else TaskPhysics()
        self.run: str = carry.run if carry else info.first_execution_run_id
        self.state = carry.state if carry else TaskState.PENDING
        self.intent = carry.intent if carry else Intent.NONE
        self.attempt = carry.attempt if carry else 1
        self.moves = carry.moves if carry else 0
        self.done_on: list[str] = list(carry.done_on) if carry else []
        """Per stage: the emulator it completed on; empty while it has not."""
        self.begun_on = carry.begun_on if carry else ""
        """Where the stage that comes next was begun and not completed, in this attempt."""
        self.created_at: datetime = carry.created_at if carry else info.workflow_start_time
        self.updated_at = self.created_at
        self.attempts: list[AttemptView] = list(carry.attempts) if carry else []
        self.events: list[EventView] = list(carry.events) if carry else []
        self.error: Failure | None = carry.error if carry else None
        self.avoid = carry.avoid if carry else ""
        """The emulator that was lost last."""
        self.emulator = ""
        self.position = 0
        self.why = ""
        self.priority = (carry.priority if carry else 0) or start.spec.priority
        self.precedence = max(-carry.ticket, 0) if carry else 0
        self._stage_now = -1
        self._shown: tuple[object, ...] = ()
        self._stored: tuple[object, ...] = ()
        self._fresh = carry is None
        self.undo: list[Undo] = list(carry.undo) if carry else []
        self.first_attempt = carry.first_attempt if carry else 1
        """Of this run: retries are counted from here."""
        self.rollback: Rollback | None = carry.rollback if carry else None
        self.question: Question | None = carry.question if carry else None
        self.answers: dict[str, str] = dict(carry.answers) if carry else {}
        """What people said, by the mark of the question."""
        self.not_before: datetime | None = carry.not_before if carry else start.spec.not_before
        self.rounds = carry.rounds if carry else 0
        self.again_at: datetime | None = carry.again_at if carry else None
        """When it wants to run next, by what its stages say."""
        self.answer: Answer | None = None
        """What somebody said just now."""
        self.following = self.chain_ends = ""
        """The task that follows, or why none does."""
        self._past_stages: dict[str, str] = {}
        """Of the run before: stage → where it completed."""
        if start.again is not None and carry is None:
            self._resume_past(start.again)

    def _resume_past(self, again: Again) -> None:
        """This run goes on where the one before ended: one book, one audit."""
        past = again.past
        self.state, self.created_at, self.updated_at = past.state, past.created_at, past.updated_at
        self.attempt = self.first_attempt = past.attempt + 1
        self.attempts, self.events, self.undo = list(past.attempts), list(past.events), list(past.undo)
        self.rollback = again.rollback.model_copy(update={"begun": True}) if again.rollback else None
        self.following, self.rounds = past.following, past.rounds
        self.priority, self.precedence = past.priority, past.precedence
        done = [(stage.name, stage.emulator) for stage in past.stages if stage.state == "completed"]
        # Of a rollback that was cancelled midway: what it had taken back has to be done anew.
        back = {(one.stage, one.emulator): one.undone for one in past.undo}
        self._past_stages = {name: emulator for name, emulator in done if not back.get((name, emulator))}

    # --- the one door -----------------------------------------------------------------------------------------

    def move(self, event: TaskEvent, actor: str, reason: str = "") -> None:
        """To a new state, with its line in the audit."""
        now = workflow.now()
        step = transition(self.state, event, int(now.timestamp() * 1000), actor, reason)
        self.state, self.updated_at = step.after, now
        line = EventView(at=now, before=step.before, event=event, after=step.after, actor=actor, reason=reason)
        self.events = [*self.events[-KEPT_EVENTS + 1 :], line]
        if self.state in FINAL:
            self.intent = Intent.NONE  # what was asked for came too late

    def fail(self, failure: Failure | None) -> None:
        self.error = failure
        self.move(TaskEvent.FAILED, ENGINE, failure.message if failure else "")

    def known(self) -> bool:
        """Whether it was in line before: only who comes for the first time can be a duplicate."""
        return any(line.event in BEEN_IN_LINE for line in self.events)

    def stands(self, claim: Claim) -> None:
        """How urgent it is by the dispatcher's word: a person may have said so there."""
        urgent = claim.priority or self.priority, max(-claim.ticket, 0)
        if urgent != (self.priority, self.precedence):
            self.priority, self.precedence = urgent
            self.show()

    def key(self) -> m.Key:
        return m.Key(workflow.info().workflow_id, self.run, self.attempt)

    # --- stages -----------------------------------------------------------------------------------------------

    def planned(self, plan: Plan) -> None:
        self.plan = plan
        if len(self.done_on) != len(plan.stages):
            # Of a run before only what lives in the account still counts.
            past = self._past_stages
            self.done_on = [past.get(s.name, "") if s.lives is Lives.ACCOUNT else "" for s in plan.stages]

    def next_stage(self) -> int | None:
        """The first stage to run on this emulator. What lives on an emulator is not there after a move."""
        for index, done_on in enumerate(self.done_on):
            if not done_on or (self._lives(index) is Lives.EMULATOR and done_on != self.emulator):
                return index
        return None

    def errands_left(self) -> int:
        """How many activities would still run on the emulator that comes: stages and captures, or undos."""
        if self.rollback is not None:
            entry = self.next_undo()
            return sum(1 for one in self.undo if entry and not one.undone and one.emulator == entry.emulator)
        stages = self.plan.stages if self.plan else ()
        left = [i for i, on in enumerate(self.done_on) if not on or self._lives(i) is Lives.EMULATOR]
        return sum(2 if stages[i].changes else 1 for i in left)

    def is_last(self, index: int) -> bool:
        """Whether no stage follows this one on this emulator."""
        later = range(index + 1, len(self.done_on))
        return all(
            self.done_on[i] and (self._lives(i) is Lives.ACCOUNT or self.done_on[i] == self.emulator) for i in later
        )

    def _lives(self, index: int) -> Lives:
        return self.plan.stages[index].lives if self.plan else Lives.EMULATOR

    # --- rounds -----------------------------------------------------------------------------------------------

    def next_round(self) -> None:
        """All over again, at the time it named: a new attempt with all its retries."""
        self.not_before = max(self.again_at or workflow.now(), workflow.now() + ROUND_MIN)
        self.move(TaskEvent.RESCHEDULED, ENGINE, f"not before {self.not_before:%Y-%m-%d %H:%M:%S %Z}")
        self.again_at, self.begun_on, self.error = None, "", None
        self.rounds += 1
        self.attempt += 1
        self.first_attempt, self.moves = self.attempt, 0
        self.done_on = [""] * len(self.done_on)
        self.answers = {}
        self.priority, self.precedence = self.spec.priority, 0

    # --- people -----------------------------------------------------------------------------------------------

    def asks(self, question: Question) -> None:
        """A person is asked. Who was asked already, and lost the emulator meanwhile, keeps the time that is left."""
        if self.state is not TaskState.WAITING:
            until = workflow.now() + timedelta(seconds=question.within_s)
            self.question = question.model_copy(update={"until": until})
            self.move(TaskEvent.PERSON_ASKED, ENGINE, question.text)
        self.why = f"asks a person: {question.text} ({' / '.join(question.choices)})"
        self.show()

    def take_answer(self) -> Answer | None:
        answer, self.answer = self.answer, None
        return answer

    def answered(self, choice: str, actor: str, reason: str, *, later: bool) -> None:
        """Where it asked, it goes on with the answer."""
        if self.question is not None:
            self.answers[self.question.mark or self.question.step] = choice
        self.question, self.why = None, ""
        event = TaskEvent.PERSON_ANSWERED_LATER if later else TaskEvent.PERSON_ANSWERED
        self.move(event, actor, f"{choice}: {reason}" if reason else choice)

    def patience_s(self) -> float:
        """How long it still waits for an answer."""
        until = self.question.until if self.question else None
        return max((until - workflow.now()) / timedelta(seconds=1), 0.0) if until else 0.0

    # --- what was there before ------------------------------------------------------------------------------------

    def must_capture(self, index: int) -> bool:
        """Whether a stage is about to change something on this emulator whose value nobody has kept yet."""
        if self.plan is None:
            return False
        stage = self.plan.stages[index]
        entries = [one for one in self.undo if not one.undone and one.emulator == self.emulator]
        known = {(v.thing, v.name) for one in entries if one.stage == stage.name for v in one.before}
        return any((change.thing, change.name) not in known for change in stage.changes)

    def captured(self, index: int, before: tuple[Value, ...]) -> None:
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

    def left(self, index: int, after: tuple[Value, ...], *, completed: bool) -> None:
        """How a stage left what it changed. The flow's own undo is for stages that completed, its handlers' for all."""
        stage = self.plan.stages[index] if self.plan else None
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

    def next_undo(self) -> Undo | None:
        """The newest change that was not taken back yet, where it can be."""
        skipped = self.rollback.skipped if self.rollback else ()
        return next((one for one in reversed(self.undo) if not one.undone and one.emulator not in skipped), None)

    def undone(self) -> None:
        """The newest one is taken back."""
        entry = self.next_undo()
        if entry is not None:
            at = len(self.undo) - 1 - self.undo[::-1].index(entry)
            self.undo[at] = entry.model_copy(update={"undone": True})

    def stage_began(self, index: int) -> None:
        self._stage_now = index
        self.begun_on = self.emulator
        at = self._entry(self.plan.stages[index].name) if self.plan else None
        if at is not None and self.undo[at].after:
            self.undo[at] = self.undo[at].model_copy(update={"unsaid": True})

    def bound_to(self) -> str:
        """The emulator whose journal knows how far a stage came that must not act twice; empty: any will do.

        What was changed is taken back where it was changed.
        """
        if self.rollback is not None:
            entry = self.next_undo()
            return entry.emulator if entry else ""
        index = self.next_stage()
        stage = self.plan.stages[index] if self.plan and index is not None else None
        bound = stage is not None and stage.lives is Lives.ACCOUNT and stage.on_unknown is not OnUnknown.REPEAT
        return self.begun_on if bound else ""

    def stage_ended(self, index: int, *, completed: bool) -> None:
        self._stage_now = -1
        if completed:
            self.done_on[index], self.begun_on = self.emulator, ""

    # --- attempts ---------------------------------------------------------------------------------------------

    def attempt_began(self, lease: m.Lease) -> None:
        self.emulator = lease.emulator_id
        view = AttemptView(
            n=self.attempt,
            run=workflow.info().run_id,
            flow_hash=self.plan.flow_hash if self.plan else "",
            emulator=lease.emulator_id,
            host=lease.host_id,
            token=lease.token,
            started=workflow.now(),
        )
        self.attempts = [*self.attempts[-KEPT_ATTEMPTS + 1 :], view]

    def attempt_ended(self, outcome: str, error: Failure | None = None) -> None:
        self.emulator = ""
        if self.attempts and not self.attempts[-1].outcome:
            self._amend(outcome=outcome, error=error, ended=workflow.now())

    def reported(self, worker: str, artifacts: tuple[object, ...]) -> None:
        """What a stage left behind."""
        if self.attempts:
            self._amend(worker=worker or self.attempts[-1].worker, artifacts=(*self.attempts[-1].artifacts, *artifacts))

    def _amend(self, **changes: object) -> None:
        self.attempts[-1] = self.attempts[-1].model_copy(update=changes)

    def seconds(self) -> float:
        """How long the present attempt has held its emulator."""
        started = self.attempts[-1].started if self.attempts else None
        return (workflow.now() - started) / timedelta(seconds=1) if started else 0.0

    # --- shown to others --------------------------------------------------------------------------------------

    def view(self, *, events: bool) -> TaskView:
        info = workflow.info()
        spec, plan = self.spec, self.plan
        return TaskView(
            task_id=info.workflow_id,
            run_id=info.run_id,
            type=spec.type,
            account=spec.account,
            pool=spec.pool,
            lane=names.lane_of(spec.lane, spec.account),
            priority=self.priority,
            precedence=self.precedence,
            labels=spec.labels,
            params=plan.params if plan else spec.params,
            state=self.state,
            intent=self.intent,
            attempt=self.attempt,
            attempts=tuple(self.attempts),
            stages=self._stage_views(),
            emulator=self.emulator,
            position=self.position,
            why=self.why,
            question=self.question,
            error=self.error,
            created_at=self.created_at,
            updated_at=self.updated_at,
            ended_at=self.updated_at if self.state in FINAL else None,
            not_before=self.not_before,
            rounds=self.rounds,
            expires_at=spec.expires_at,
            flow=plan.flow if plan else "",
            flow_hash=plan.flow_hash if plan else "",
            undo=tuple(self.undo),
            chain=spec.place(info.workflow_id),
            following=self.following,
            chain_ends=self.chain_ends,
            events=tuple(self.events) if events else (),
        )

    def _stage_views(self) -> tuple[StageView, ...]:
        stages = self.plan.stages if self.plan else ()
        return tuple(
            StageView(
                name=stage.name,
                state="running" if i == self._stage_now else "completed" if self.done_on[i] else "waiting",
                emulator=self.done_on[i],
            )
            for i, stage in enumerate(stages)
        )

    def show(self) -> None:
        """Mirror what changed: attributes for lists, the memo for readers without a worker, details for the Web UI."""
        shown = (self.state, self.emulator)
        if shown != self._shown:
            updates: list[SearchAttributeUpdate[Any]] = [STATE.value_set(self.state)]
            if self.emulator:
                updates.append(EMULATOR.value_set(self.emulator))
            if self._fresh:
                updates.extend(self._fixed())
            workflow.upsert_search_attributes(updates)
            self._shown, self._fresh = shown, False
        if (self.attempts or self.precedence) and self._storable() != self._stored:
            self.store()
        workflow.set_current_details(self._details())

    def store(self) -> None:
        """Into the memo: it survives a terminate."""
        self._stored = self._storable()
        workflow.upsert_memo({names.MEMO_TASK: self.view(events=False).model_dump(mode="json", exclude_defaults=True)})

    def _storable(self) -> tuple[object, ...]:
        """What must not be lost with a terminate, in short."""
        outcome = self.attempts[-1].outcome if self.attempts else ""
        undone = sum(1 for one in self.undo if one.undone)
        return self.attempt, len(self.attempts), outcome, len(self.undo), undone, self.precedence

    def _fixed(self) -> list[SearchAttributeUpdate[Any]]:
        """Attributes that never change; a foreign client may have started us without them."""
        if STATE in workflow.info().typed_search_attributes:
            return []
        spec = self.spec
        lane = names.lane_of(spec.lane, spec.account)
        fixed: list[SearchAttributeUpdate[Any]] = [
            TYPE.value_set(spec.type),
            POOL.value_set(spec.pool),
            LANE.value_set(lane),
        ]
        if spec.account:
            fixed.append(ACCOUNT.value_set(spec.account))
        if tags := spec.tags(workflow.info().workflow_id):
            fixed.append(TAGS.value_set(tags))
        return fixed

    def _details(self) -> str:
        who = f" for account {self.spec.account}" if self.spec.account else ""
        lines = [f"**{self.state}**: {self.spec.type}{who}, attempt {self.attempt}"]
        if self.emulator:
            lines.append(f"on emulator {self.emulator}")
        if self.why:
            lines.append(f"waits: {self.why}")
        lines.extend(f"- {s.name}: {s.state}" for s in self._stage_views())
        if self.error:
            lines.append(f"\n{self.error.kind}: {self.error.message}")
        lines.extend(f"\n{e.at:%H:%M:%S} {e.before} → {e.after} by {e.actor} {e.reason}" for e in self.events[-10:])
        return "\n".join(lines)

    def carry(self, claim: Claim) -> Carry:
        """What the next run of this task takes along."""
        if self.plan is None:
            raise RuntimeError("a task without a plan does not continue as new")
        return Carry(
            run=self.run,
            state=self.state,
            intent=self.intent,
            attempt=self.attempt,
            seq=claim.seq,
            moves=self.moves,
            created_at=self.created_at,
            plan=self.plan,
            physics=self.physics,
            done_on=tuple(self.done_on),
            begun_on=self.begun_on,
            attempts=tuple(self.attempts),
            events=tuple(self.events),
            error=self.error,
            ticket=claim.ticket,
            given_up=claim.given_up,
            outbox=tuple(claim.outbox.rows()),
            avoid=self.avoid,
            undo=tuple(self.undo),
            first_attempt=self.first_attempt,
            rollback=self.rollback,
            question=self.question,
            answers=self.answers,
            not_before=self.not_before,
            rounds=self.rounds,
            again_at=self.again_at,
            priority=self.priority,
        )
