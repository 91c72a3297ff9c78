"""Effects: each is done once, or of unknown outcome and then observed."""

from collections.abc import Callable
from typing import Protocol

from droidherd.contracts.plan import OnAmbiguous
from droidherd.domain.errors import (
    Asks,
    CommandFailedError,
    FinalError,
    LateError,
    NeedsPersonError,
    NotSentError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import Acted, Recalled
from droidherd.flows.model.steps.base import PlannedAct
from droidherd.flows.run.context import StageContext
from droidherd.flows.run.past import EarlierTry
from droidherd.flows.run.watch import ScreenWatch

ROUNDS_MAX = 2
"""An act of unknown outcome is repeated once."""


class StartScreen(Protocol):
    """Knows on which screen a stage stood when an earlier try ended."""

    def passed(self, screen: str) -> None:
        """What was passed over had led to this screen."""
        ...

    def regain(self, path: str) -> None:
        """Once nothing is passed over any more: be where the stage is to go on."""
        ...


class Actor:
    """Makes the acts of one run of a stage."""

    def __init__(self, run: StageContext, watch: ScreenWatch, past: EarlierTry, on_ambiguous: OnAmbiguous) -> None:
        """`past` is what an earlier try did."""
        self._run = run
        self._watch = watch
        self._past = past
        self._on_ambiguous = on_ambiguous
        self.start: StartScreen = _Anywhere()
        self.acts = 0
        self.again = 0
        self.observed = 0

    def perform(self, act: PlannedAct) -> None:
        """Do it, unless it was done; then see its post-condition come true."""
        was_replaying = self._past.replaying
        recorded = self._past.take(act.effect)
        if recorded is Recalled.DONE and act.then is not None and act.then.screen is not None:
            self.start.passed(act.then.screen)
        self.start.regain(act.effect)
        if recorded is None and was_replaying:
            self._run.note(f"{act.effect}: {act.what}: was left out")
        elif recorded is Recalled.FAILED:
            raise CommandFailedError(f"{act.what} had failed before", rc=1, to=f"step {act.effect}")
        elif recorded is Recalled.DONE:
            self._was_done(act)
        elif recorded is Recalled.UNKNOWN and self._past.replaying:
            self._settle(act)  # What came after it is on record: the stage had gone on.
        else:
            self._settle_or_act(act, unknown=recorded is Recalled.UNKNOWN)

    def _was_done(self, act: PlannedAct) -> None:
        self.again += 1
        self._run.note(f"{act.effect}: {act.what}: was done before")
        if not self._past.replaying:
            self._see_then(act)

    def _settle_or_act(self, act: PlannedAct, *, unknown: bool) -> None:
        late_s = 0.0  # What an earlier try began is fenced off by now.
        for _ in range(ROUNDS_MAX):
            if unknown:
                if self._observe(act, late_s):
                    self._settle(act)
                    return
                self._firmly(act.effect, self._run.hands.forget)
            try:
                self._send(act)
            except _UnclearError as error:
                self._run.note(f"{act.effect}: {act.what}: {error.cause}")
                unknown, late_s = True, self._run.tempo.late_s
                continue
            self._see_then(act)
            return
        if not self._observe(act, late_s):
            raise UnknownOutcomeError(f"{act.what}: still unknown after {ROUNDS_MAX} tries", to=f"step {act.effect}")
        self._settle(act)

    def _settle(self, act: PlannedAct) -> None:
        self._firmly(act.effect, self._run.hands.settle)
        self.observed += 1
        self._run.note(f"{act.effect}: {act.what}: observed to have happened")

    def _send(self, act: PlannedAct) -> None:
        """Try again while it surely was not sent; `_UnclearError` when nobody can tell."""
        tempo = self._run.tempo
        for attempt in range(tempo.sends_max):
            make = act.ready()
            try:
                acted = make()
            except (NotSentError, LateError) as error:
                if self._enough(attempt):
                    raise
                self._run.note(f"{act.effect}: {act.what}: not sent: {error}")
                self._watch.rest(tempo.retry_s * 2**attempt, act.effect)
            except UnknownOutcomeError as error:
                raise _UnclearError(error) from error
            except CommandFailedError as error:
                error.to = f"step {act.effect}"  # the emulator is known; it says nothing of the flow
                raise
            else:
                self._count(act, acted)
                return

    def _count(self, act: PlannedAct, acted: Acted) -> None:
        self.acts += acted is Acted.DONE
        self.again += acted is Acted.AGAIN
        self._run.note(f"{act.effect}: {act.what}" + (": was done before" if acted is Acted.AGAIN else ""))

    def _see_then(self, act: PlannedAct) -> None:
        if act.then is not None:
            self._watch.wait_for(act.then, act.then.within, act.effect, stoppable=False)
            self._watch.came_true()

    def _observe(self, act: PlannedAct, late_s: float) -> bool:
        """Whether an act of unknown outcome happened. Asks a person, or fails, when it cannot be seen."""
        if act.effect in self._run.confirmed:
            return self._run.confirmed[act.effect]
        if act.harmless:
            return False
        until = self._run.clock.now() + late_s
        if act.then is not None:
            match, holds = self._watch.poll(act.then, max(act.then.within, late_s), act.effect, stoppable=False)
            if holds:
                return True
            self._run.note(f"{act.effect}: the post-condition does not hold: best match {match.score:.2f}")
            if self._is_still_there(act):
                return False
        while (left := until - self._run.clock.now()) > 0:
            self._watch.rest(min(1.0, left), act.effect)
        written = self._read_journal(act)
        return self._decide(act) if written is None else written

    def _read_journal(self, act: PlannedAct) -> bool | None:
        """What the journal says by now: a line whose answer was lost writes its result all the same."""
        tempo = self._run.tempo
        for attempt in range(tempo.sends_max):
            try:
                recorded = self._run.hands.recall().get(act.effect)
            except (NotSentError, UnknownOutcomeError):
                if self._enough(attempt):
                    raise
                self._watch.rest(tempo.retry_s * 2**attempt, act.effect)
                continue
            if recorded is Recalled.FAILED:
                raise CommandFailedError(f"{act.what} had failed before", rc=1, to=f"step {act.effect}")
            if recorded is Recalled.DONE:
                self._see_then(act)
            return None if recorded is Recalled.UNKNOWN else recorded is Recalled.DONE
        return None

    def _is_still_there(self, act: PlannedAct) -> bool:
        target = act.target
        if target is None:
            return False
        return self._watch.holds(self._watch.clear(act.effect), target, act.effect)[1]

    def _decide(self, act: PlannedAct) -> bool:
        what, place = f"it cannot be seen whether this happened: {act.what}", f"step {act.effect}"
        if self._on_ambiguous is OnAmbiguous.REPEAT:
            # What is gone cannot be tapped again; without a post-condition that is all there is to go by.
            return act.target is not None and act.then is None and not self._is_still_there(act)
        if self._on_ambiguous is OnAmbiguous.FAIL:
            raise FinalError(what, to=place, remedy="give the step a `then`, or the stage `on_ambiguous: repeat`")
        remedy = "look at the emulator and say whether it did"
        raise NeedsPersonError(what, Asks(act.effect), to=place, remedy=remedy)

    def _firmly(self, effect: str, write: Callable[[str], None]) -> None:
        """Write into the journal: harmless to repeat, so a lost answer is no reason to give up."""
        tempo = self._run.tempo
        for attempt in range(tempo.sends_max):
            try:
                write(effect)
            except (NotSentError, LateError, UnknownOutcomeError):
                if self._enough(attempt):
                    raise
                self._watch.rest(tempo.retry_s * 2**attempt, effect)
            else:
                return

    def _enough(self, attempt: int) -> bool:
        """No more tries: they are used up, or the stage is asked to stop and this emulator does not answer."""
        return attempt + 1 == self._run.tempo.sends_max or bool(self._run.life.stopping())


class _UnclearError(Exception):
    """The act itself, and not a look, had an unknown outcome."""

    def __init__(self, cause: UnknownOutcomeError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class _Anywhere:
    def passed(self, screen: str) -> None:
        pass

    def regain(self, path: str) -> None:
        pass
