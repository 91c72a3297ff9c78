"""The turns a flow takes: it asks people, goes by what they say, runs again later."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from droidherd import patterns
from droidherd.domain.errors import (
    About,
    Asks,
    FlowError,
    NeedsPersonError,
    ScreenNotReachedError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import Acted
from droidherd.flows.acts import Actor, Deed
from droidherd.flows.again import due
from droidherd.flows.course import Again, Ask
from droidherd.flows.model import When
from droidherd.flows.past import Past
from droidherd.flows.reading import Read, number_in
from droidherd.flows.run import StageRun
from droidherd.flows.watch import Watch


class Course:
    """The steps of one run of a stage that turn the course of its task."""

    def __init__(self, run: StageRun, watch: Watch, actor: Actor, past: Past) -> None:
        """With no variable set: they live as long as the stage."""
        self._run = run
        self._watch = watch
        self._actor = actor
        self._past = past
        self._variables: dict[str, str] = {}
        self._off_screen: set[str] = set()
        """Those that were read, and so may hold what nobody foresaw."""
        self.again_at: datetime | None = None
        """What the last `again` said."""

    def ask(self, args: Ask, path: str) -> None:
        """Go on with the answer, or leave with the question."""
        choice = self._run.answers.get(path)
        if choice is None and self._past.left_out(path):
            return
        if choice is None:
            self._watch.look(path)
            about = About.SCREEN if args.keep else About.TASK
            raise NeedsPersonError(
                args.what, Asks(path, args.choices, args.within, args.keep, about), to=f"step {path}"
            )
        if args.into is not None:
            self._variables[args.into] = choice
            self._off_screen.discard(args.into)
        self._pass(path, f"ask: {choice}")

    def read(self, args: Read, path: str, *, stoppable: bool) -> None:
        """Written down on the emulator with what was read: a later try goes by that, whatever the screen shows then."""
        if self._past.left_out(path):
            return

        def ready() -> Callable[[], Acted]:
            return partial(self._run.hands.mark, path, self._watch.read(args, path, stoppable=stoppable))

        self._actor.perform(Deed(path, f"read {args.into}", ready, harmless=True))
        value = self._run.hands.marked(path)
        if value is None:
            raise UnknownOutcomeError(f"what was read into {args.into} is not in the journal", to=f"step {path}")
        self._variables[args.into] = value
        self._off_screen.add(args.into)
        self._run.note(f"{path}: {args.into} is {value!r}")

    def holds(self, args: When, path: str) -> bool:
        """By what is remembered, not by what is to be seen: the same whenever the stage runs again."""
        value = self._variables.get(args.var or "")
        if value is None:
            return False
        return (
            (args.is_ is None or value in args.is_)
            and (args.matches is None or patterns.search(patterns.compiled(args.matches), value) is not None)
            and (args.at_least is None or self._number(args, value, path) >= args.at_least)
            and (args.below is None or self._number(args, value, path) < args.below)
        )

    def again(self, args: Again, path: str) -> None:
        """So often, and then no more."""
        if self._past.left_out(path):
            return
        self._pass(path, "again")
        if self._run.rounds >= args.at_most:
            self._run.note(f"{path}: again: was done {args.at_most} times")
            return
        value = self._variables.get(args.from_ or "", "")
        try:
            self.again_at = due(args, value, self._run.clock.date())
        except ValueError as error:
            if args.from_ in self._off_screen:
                remedy = f"say with match which part of it is the time, where {args.from_} is read"
                raise ScreenNotReachedError(f"again: {error}", to=f"step {path}", remedy=remedy) from error
            raise FlowError(f"again: {error}", to=f"step {path}", remedy="offer times as choices") from error
        self._run.note(f"{path}: again: not before {self.again_at:%Y-%m-%d %H:%M:%S %Z}")

    def _number(self, args: When, value: str, path: str) -> float:
        try:
            return number_in(value)
        except ValueError as error:
            remedy = f"say with match which part of it is the number, where {args.var} is read"
            raise ScreenNotReachedError(f"{args.var}: {error}", to=f"step {path}", remedy=remedy) from error

    def _pass(self, path: str, what: str) -> None:
        """Written down on the emulator: a later try must not take another way because the screen is another by then."""
        self._actor.perform(Deed(path, what, lambda: lambda: self._run.hands.mark(path), harmless=True))
