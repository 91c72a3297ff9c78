"""Gets about between screens by re-recognition: look where we are, take the cheapest route, look again.

The acts on the way are effects of their own (`n#3.1`: the first step of the third passage, `i2#1.1`: of the first
time that the second interrupt came), under names that no earlier try has used. Nothing of them is passed over when
the stage runs again: it looks where it is, and goes on from there.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable

from typing_extensions import override

from droidherd.contracts.plan import Effect, OnAmbiguous
from droidherd.domain.errors import ClickLoopError, ScreenNotReachedError
from droidherd.domain.ports import Acted, Match
from droidherd.flows.model.graph import UNKNOWN, Edge, cheapest
from droidherd.flows.model.scalars import format_duration
from droidherd.flows.model.screens import Route
from droidherd.flows.model.steps.base import PlannedAct, Steps
from droidherd.flows.model.targets import ScreenCondition
from droidherd.flows.run.context import StageContext
from droidherd.flows.run.effects import Actor
from droidherd.flows.run.look import Look
from droidherd.flows.run.past import EarlierTry, ask_journal
from droidherd.flows.run.watch import ScreenWatch

LEGS_MAX = 50
"""Routes and ways out taken to reach one screen."""
ROUTE_TRIES = 2
"""A route that did not lead to its screen so often is not taken any more on this trip."""
AFTER_S = 15.0
"""How long an unknown screen is waited out where the flow says nothing."""
GONE_S = 2.0
"""How long what was dismissed may take to go away."""
SHOWN_MAX = 5
_PASSAGE = re.compile(r"(n|i\d+)#(\d+)[.]")

Walk = Callable[[Steps, str, bool], None]
"""Does steps whose effects' names begin so; whether it may stop at their boundaries."""


class NavigationActor(Actor):
    """Acts that nobody asks about: one of unknown outcome is waited out, and then we look where we are."""

    def __init__(self, run: StageContext, watch: ScreenWatch) -> None:
        """Nothing an earlier try did is passed over."""
        super().__init__(run, watch, EarlierTry({}), OnAmbiguous.REPEAT)

    @override
    def _decide(self, act: PlannedAct) -> bool:
        self._run.note(f"{act.effect}: {act.what}: nobody knows; what is on the screen tells")
        return True


class Names:
    """Names of passages that no try has used before."""

    def __init__(self, run: StageContext) -> None:
        """The journal is asked when the first one is needed, unless somebody knows what it says."""
        self._run = run
        self._used: Counter[str] | None = None

    def know(self, recorded: Iterable[str]) -> None:
        """What the journal says."""
        self._used = highest_numbers(recorded)

    def next(self, kind: str) -> str:
        """A prefix for the effects of one passage."""
        if self._used is None:
            self._used = highest_numbers(ask_journal(self._run))
        self._used[kind] += 1
        return f"{kind}#{self._used[kind]}."


def highest_numbers(recorded: Iterable[str]) -> Counter[str]:
    """The highest number of a passage by its kind."""
    found: Counter[str] = Counter()
    for effect in recorded:
        if match := _PASSAGE.match(effect):
            found[match[1]] = max(found[match[1]], int(match[2]))
    return found


class Navigator:
    """Knows the flow's screens. One per run of a stage."""

    def __init__(self, run: StageContext, watch: ScreenWatch, walk: Walk) -> None:
        """`walk` does the steps of routes and interrupts."""
        self._run = run
        self._watch = watch
        self._walk = walk
        self._known = run.screen_map
        self.names = Names(run)
        self._edges = [Edge(route.start, route.end, route.cost) for route in self._known.routes]
        self._came: Counter[int] = Counter()
        self._busy: set[int] = set()

    # --- what comes between -------------------------------------------------------------------------------------

    def dismiss(self, look: Look, path: str) -> bool:
        """Deal with the first interrupt that is there on this look. ClickLoopError when it comes too often."""
        for number, interrupt in enumerate(self._known.interrupts, start=1):
            if number in self._busy or not self._watch.holds(look, interrupt.when, path)[1]:
                continue
            self._came[number] += 1
            if self._came[number] > interrupt.at_most:
                remedy = "see the last frame in the artifacts; if it is meant to come so often, raise its at_most"
                raise ClickLoopError(
                    f"interrupt {number} came {interrupt.at_most} times and is there again",
                    to=f"step {path}",
                    remedy=remedy,
                )
            self._busy.add(number)
            try:
                self._dismiss(interrupt.do, interrupt.when, self.names.next(f"i{number}"))
            finally:
                self._busy.discard(number)
            return True
        return False

    def _dismiss(self, do: Steps, when: ScreenCondition, prefix: str) -> None:
        try:
            self._walk(do, prefix, False)
        except ScreenNotReachedError as error:
            self._run.note(f"{prefix} given up: {error}")
        for look in self._watch.looks(GONE_S, prefix, stoppable=False):
            if not self._watch.holds(look, when, prefix)[1]:
                return

    # --- getting there ------------------------------------------------------------------------------------------

    def reach(self, goal: str, path: str, *, stoppable: bool = True) -> None:
        """Be on this screen. ScreenNotReachedError says where it ended and what was searched for."""
        trip = _Trip(goal)
        for _ in range(LEGS_MAX):
            here = self._whereabouts(trip, path, stoppable=stoppable)
            if here == goal:
                return
            way = cheapest(self._edges, here, goal, trip.closed)
            if way:
                self._take(way[0], trip, here, path, stoppable=stoppable)
            elif not self._find_out(trip, here, path, stoppable=stoppable):
                break
        raise self._not_reached(trip, path)

    def _whereabouts(self, trip: "_Trip", path: str, *, stoppable: bool) -> str:
        """The screen we are on, or unknown once that was waited out."""
        self._watch.screen(trip.goal)
        after_s = self._known.lost.after if self._known.lost else AFTER_S
        for look in self._watch.looks(after_s, path, stoppable=stoppable):
            trip.here = self._screen_on(look, trip, path)
            if trip.here:
                break
        return trip.here

    def _screen_on(self, look: Look, trip: "_Trip", path: str, first: str = "") -> str:
        """The goal, or `first`, or else the first in the order of the flow."""
        for name in dict.fromkeys((trip.goal, *filter(None, (first,)), *self._known.screens)):
            match, holds = self._watch.holds(look, self._known.screens[name], path)
            trip.searched[name] = match
            if holds:
                return name
        return UNKNOWN

    def _take(self, number: int, trip: "_Trip", here: str, path: str, *, stoppable: bool) -> None:
        route = self._known.routes[number]
        prefix = self.names.next("n")
        self._run.note(f"{path}: {here or 'an unknown screen'} → {route.end} as {prefix}")
        try:
            self._walk(route.do, prefix, stoppable)
        except ScreenNotReachedError as error:
            self._run.note(f"{prefix} given up: {error}")
            trip.note_failure(number, f"{route.start} → {route.end}: {error.what}")
            return
        if not self._arrives(route, trip, here, prefix, stoppable=stoppable):
            time = format_duration(route.within)
            trip.note_failure(number, f"{route.start} → {route.end}: {route.end} did not appear within {time}")

    def _arrives(self, route: Route, trip: "_Trip", here: str, path: str, *, stoppable: bool) -> bool:
        """Whether its screen appears. Another one than before, on two looks in a row, is as good as none."""
        before = here
        for look in self._watch.looks(route.within, path, stoppable=stoppable):
            now = self._screen_on(look, trip, path, route.end)
            if now in (route.end, trip.goal):
                return True
            if now not in (UNKNOWN, here) and now == before:
                return False
            before = now
        return False

    def _find_out(self, trip: "_Trip", here: str, path: str, *, stoppable: bool) -> bool:
        """Take the way out; False when there is none, or it was taken often enough."""
        lost = self._known.lost
        if lost is None or trip.lost >= lost.at_most:
            return False
        trip.lost += 1
        trip.reopen()
        prefix = self.names.next("n")
        self._run.note(f"{path}: lost on {here or 'an unknown screen'}: the way out as {prefix}")
        try:
            self._walk(lost.do, prefix, stoppable)
        except ScreenNotReachedError as error:
            self._run.note(f"{prefix} given up: {error}")
        return True

    def _not_reached(self, trip: "_Trip", path: str) -> ScreenNotReachedError:
        if trip.troubles:
            why = "; ".join(trip.troubles[-ROUTE_TRIES:])
        elif trip.here:
            why = f"no route leads there from {trip.here}"
        else:
            why = "no screen was recognised"
        out = f", the way out was taken {trip.lost} times" if trip.lost else ""
        best = sorted(trip.searched.items(), key=lambda item: -item[1].score)[:SHOWN_MAX]
        seen = ", ".join(f"{name} {match.score:.2f}" for name, match in best)
        here = trip.here or "an unknown screen"
        what = f"screen {trip.goal} was not reached from {here}: {why}{out}; best matches: {seen}"
        return ScreenNotReachedError(what, to=f"step {path}", remedy="see the last frame in the artifacts")


class _Trip:
    """One way to one screen, and what went wrong on it."""

    def __init__(self, goal: str) -> None:
        self.goal = goal
        self.here = UNKNOWN
        self.lost = 0
        self.searched: dict[str, Match] = {}
        self.troubles: list[str] = []
        self._fails: Counter[int] = Counter()

    @property
    def closed(self) -> frozenset[int]:
        return frozenset(number for number, times in self._fails.items() if times >= ROUTE_TRIES)

    def note_failure(self, number: int, why: str) -> None:
        self._fails[number] += 1
        self.troubles.append(why)

    def reopen(self) -> None:
        """Somewhere else, what failed may work."""
        self._fails.clear()


class Arrival:
    """Brings a stage to where it begins, or, after a move or a pause in the middle of it, to where it stood."""

    def __init__(
        self, run: StageContext, past: EarlierTry, navigator: Navigator, actor: Actor, *, stoppable: bool
    ) -> None:
        """Of one run of a stage. Until something is expected it does nothing."""
        self._run = run
        self._past = past
        self._navigator = navigator
        self._actor = actor
        self._goal = ""
        self._mark = ""
        self._stoppable = stoppable

    def expect(self, at: str, effect: Effect, recorded: Collection[str]) -> None:
        """`at`: the screen the stage begins on. `recorded`: what the journal has of this stage.

        A journal that outlives the lease does not tell whether the screen is still as the last act left it. A mark
        in it does: it is made whenever the stage was brought to its place under a lease.
        """
        outlives = effect is Effect.ACCOUNT
        self._mark = f"at#{self._run.lease}" if outlives else ""
        if not self._past.replaying or (outlives and self._mark not in recorded):
            self._goal = at
            self._actor.start = self

    def passed(self, screen: str) -> None:
        """What was passed over had led to this screen."""
        self._goal = screen if self._goal else ""

    def regain(self, path: str) -> None:
        """Once nothing is passed over any more: be where the stage is to go on."""
        if not self._goal or self._past.replaying:
            return
        goal, self._goal = self._goal, ""
        self._navigator.reach(goal, path, stoppable=self._stoppable)
        if self._mark:
            self._actor.perform(PlannedAct(self._mark, f"on {goal}", lambda: self._make_mark, harmless=True))

    def _make_mark(self) -> Acted:
        return self._run.hands.mark(self._mark)
