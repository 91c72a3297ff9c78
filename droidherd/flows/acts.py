"""Effects: each is done once, or of unknown outcome and then observed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from droidherd.contracts.plan import OnUnknown
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
from droidherd.flows.model import Tap
from droidherd.flows.past import Past
from droidherd.flows.run import StageRun
from droidherd.flows.targets import Then
from droidherd.flows.watch import Watch

ROUNDS_MAX = 2
"""An act of unknown outcome is repeated once."""


@dataclass(frozen=True, slots=True)
class Deed:
    """One act of a step."""

    effect: str
    what: str
    """For people; never holds what was typed."""
    ready: Callable[[], Callable[[], Acted]]
    """Looks for what the act needs and returns the act itself."""
    then: Then | None = None
    target: Tap | None = None
    """What the act aims at. While it is still there and the post-condition is not, the act did not happen."""
    harmless: bool = False
    """Twice is the same as once."""


class Stands(Protocol):
    """Knows on which screen a stage stood when an earlier try ended."""

    def passed(self, screen: str) -> None:
        """What was passed over had led to this screen."""
        ...

    def regain(self, path: str) -> None:
        """Once nothing is passed over any more: be where the stage is to go on."""
        ...


class Actor:
    """Carries out the deeds of one run of a stage."""

    def __init__(self, run: StageRun, watch: Watch, past: Past, on_unknown: OnUnknown) -> None:
        """`past` is what an earlier try did."""
        self._run = run
        self._watch = watch
        self._past = past
        self._on_unknown = on_unknown
        self.stands: Stands = _Anywhere()
        self.acts = 0
        self.again = 0
        self.observed = 0

    def perform(self, deed: Deed) -> None:
        """Do it, unless it was done; then see its post-condition come true."""
        was_replaying = self._past.replaying
        recorded = self._past.take(deed.effect)
        if recorded is Recalled.DONE and deed.then is not None and deed.then.screen is not None:
            self.stands.passed(deed.then.screen)
        self.stands.regain(deed.effect)
        if recorded is None and was_replaying:
            self._run.note(f"{deed.effect}: {deed.what}: was left out")
        elif recorded is Recalled.FAILED:
            raise CommandFailedError(f"{deed.what} had failed before", rc=1, to=f"step {deed.effect}")
        elif recorded is Recalled.DONE:
            self._was_done(deed)
        elif recorded is Recalled.UNKNOWN and self._past.replaying:
            self._settle(deed)  # What came after it is on record: the stage had gone on.
        else:
            self._settle_or_act(deed, unknown=recorded is Recalled.UNKNOWN)

    def _was_done(self, deed: Deed) -> None:
        self.again += 1
        self._run.note(f"{deed.effect}: {deed.what}: was done before")
        if not self._past.replaying:
            self._see_then(deed)

    def _settle_or_act(self, deed: Deed, *, unknown: bool) -> None:
        late_s = 0.0  # What an earlier try began is fenced off by now.
        for _ in range(ROUNDS_MAX):
            if unknown:
                if self._observe(deed, late_s):
                    self._settle(deed)
                    return
                self._firmly(deed.effect, self._run.hands.forget)
            try:
                self._send(deed)
            except _UnclearError as error:
                self._run.note(f"{deed.effect}: {deed.what}: {error.cause}")
                unknown, late_s = True, self._run.tempo.late_s
                continue
            self._see_then(deed)
            return
        if not self._observe(deed, late_s):
            raise UnknownOutcomeError(f"{deed.what}: still unknown after {ROUNDS_MAX} tries", to=f"step {deed.effect}")
        self._settle(deed)

    def _settle(self, deed: Deed) -> None:
        self._firmly(deed.effect, self._run.hands.settle)
        self.observed += 1
        self._run.note(f"{deed.effect}: {deed.what}: observed to have happened")

    def _send(self, deed: Deed) -> None:
        """Try again while it surely was not sent; `_UnclearError` when nobody can tell."""
        tempo = self._run.tempo
        for attempt in range(tempo.sends_max):
            act = deed.ready()
            try:
                acted = act()
            except (NotSentError, LateError) as error:
                if self._enough(attempt):
                    raise
                self._run.note(f"{deed.effect}: {deed.what}: not sent: {error}")
                self._watch.rest(tempo.retry_s * 2**attempt, deed.effect)
            except UnknownOutcomeError as error:
                raise _UnclearError(error) from error
            except CommandFailedError as error:
                error.to = f"step {deed.effect}"  # the emulator is known; it says nothing of the flow
                raise
            else:
                self._count(deed, acted)
                return

    def _count(self, deed: Deed, acted: Acted) -> None:
        self.acts += acted is Acted.DONE
        self.again += acted is Acted.AGAIN
        self._run.note(f"{deed.effect}: {deed.what}" + (": was done before" if acted is Acted.AGAIN else ""))

    def _see_then(self, deed: Deed) -> None:
        if deed.then is not None:
            self._watch.wait_for(deed.then, deed.then.within, deed.effect, stoppable=False)
            self._watch.came_true()

    def _observe(self, deed: Deed, late_s: float) -> bool:
        """Whether an act of unknown outcome happened. Asks a person, or fails, when it cannot be seen."""
        if deed.effect in self._run.told:
            return self._run.told[deed.effect]
        if deed.harmless:
            return False
        until = self._run.clock.now() + late_s
        if deed.then is not None:
            match, holds = self._watch.poll(deed.then, max(deed.then.within, late_s), deed.effect, stoppable=False)
            if holds:
                return True
            self._run.note(f"{deed.effect}: the post-condition does not hold: best match {match.score:.2f}")
            if self._is_still_there(deed):
                return False
        while (left := until - self._run.clock.now()) > 0:
            self._watch.rest(min(1.0, left), deed.effect)
        written = self._written(deed)
        return self._decide(deed) if written is None else written

    def _written(self, deed: Deed) -> bool | None:
        """What the journal says by now: a line whose answer was lost writes its result all the same."""
        tempo = self._run.tempo
        for attempt in range(tempo.sends_max):
            try:
                recorded = self._run.hands.recall().get(deed.effect)
            except (NotSentError, UnknownOutcomeError):
                if self._enough(attempt):
                    raise
                self._watch.rest(tempo.retry_s * 2**attempt, deed.effect)
                continue
            if recorded is Recalled.FAILED:
                raise CommandFailedError(f"{deed.what} had failed before", rc=1, to=f"step {deed.effect}")
            if recorded is Recalled.DONE:
                self._see_then(deed)
            return None if recorded is Recalled.UNKNOWN else recorded is Recalled.DONE
        return None

    def _is_still_there(self, deed: Deed) -> bool:
        target = deed.target
        if target is None or target.percent is not None:
            return False
        return self._watch.holds(self._watch.clear(deed.effect), target, deed.effect)[1]

    def _decide(self, deed: Deed) -> bool:
        what, place = f"it cannot be seen whether this happened: {deed.what}", f"step {deed.effect}"
        if self._on_unknown is OnUnknown.REPEAT:
            # What is gone cannot be tapped again; without a post-condition that is all there is to go by.
            return deed.target is not None and deed.then is None and not self._is_still_there(deed)
        if self._on_unknown is OnUnknown.FAIL:
            raise FinalError(what, to=place, remedy="give the step a `then`, or the stage `on_unknown: repeat`")
        remedy = "look at the emulator and say whether it did"
        raise NeedsPersonError(what, Asks(deed.effect), to=place, remedy=remedy)

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
