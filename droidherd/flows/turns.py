"""The turns a flow takes: it asks people, goes by what they say, runs again later."""

from datetime import datetime

from droidherd.domain.errors import About, Asks, FlowError, NeedsPersonError
from droidherd.flows.acts import Actor, Deed
from droidherd.flows.again import due
from droidherd.flows.course import Again, Ask
from droidherd.flows.model import When
from droidherd.flows.past import Past
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
        self._pass(path, f"ask: {choice}")

    def holds(self, args: When) -> bool:
        """By what is remembered, not by what is to be seen: the same whenever the stage runs again."""
        return self._variables.get(args.var) in args.is_

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
            raise FlowError(f"again: {error}", to=f"step {path}", remedy="offer times as choices") from error
        self._run.note(f"{path}: again: not before {self.again_at:%Y-%m-%d %H:%M:%S %Z}")

    def _pass(self, path: str, what: str) -> None:
        """Written down on the emulator: a later try must not take another way because the screen is another by then."""
        self._actor.perform(Deed(path, what, lambda: lambda: self._run.hands.mark(path), harmless=True))
