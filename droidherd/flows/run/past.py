"""What an earlier try of the stage did, as its effects' names: `2`, `4.1`, `3#2.1` (step 3, turn 2, step 1).

An answer that a person gave with the emulator kept is recorded like an effect, under its step.
A stage that runs again takes up its work behind the last recorded effect. Up to there nothing is waited for and
no condition is looked at: the screens of then are gone. What has no record there was left out at the time. What was
read off the screen then is recorded with its value.
"""

from collections.abc import Iterable, Mapping

from droidherd.domain.errors import NotSentError, UnknownOutcomeError
from droidherd.domain.ports import Recalled
from droidherd.flows.run.context import StageContext


class EarlierTry:
    """The recorded effects, used up in the order in which the stage meets them."""

    def __init__(self, recorded: Mapping[str, Recalled]) -> None:
        """`recorded` as the hands recall it."""
        self._recorded = dict(recorded)
        self._ahead = set(recorded)

    @property
    def replaying(self) -> bool:
        """Whether a recorded effect is still ahead."""
        return bool(self._ahead)

    def take(self, effect: str) -> Recalled | None:
        """What is recorded of an effect that is met now."""
        self._ahead.discard(effect)
        return self._recorded.get(effect)

    def left_out(self, effect: str) -> bool:
        """Whether the stage had gone on without it."""
        return self.replaying and effect not in self._ahead

    def is_behind(self, prefix: str) -> bool:
        """Whether something is recorded beyond a step whose own effects begin with `prefix`. They are met by this."""
        self._ahead = {effect for effect in self._ahead if not effect.startswith(prefix)}
        return self.replaying

    def branch_ahead(self, path: str) -> bool | None:
        """Which branch of a `when` has an effect that is still ahead: `do` (true), `else` (false), or neither."""
        ahead = [effect for effect in self._ahead if effect.startswith(f"{path}.")]
        return not any(effect.startswith(f"{path}.0.") for effect in ahead) if ahead else None

    def turn_is_ahead(self, path: str, turn: int) -> bool:
        """Whether an effect of this turn of a loop, or of a later one, is still ahead."""
        return any(_turn_of(effect, path) >= turn for effect in self._ahead)


def _turn_of(effect: str, path: str) -> int:
    head, mark, tail = effect.partition(f"{path}#")
    number = tail.partition(".")[0]
    return int(number) if mark and not head and number.isdecimal() else 0


def ask_journal(run: StageContext) -> Mapping[str, Recalled]:
    """What the journal says: asked once, bearing what a single lost answer is worth."""
    for attempt in range(run.tempo.sends_max - 1):
        try:
            return run.hands.recall()
        except (NotSentError, UnknownOutcomeError) as error:
            run.note(f"the journal was not read: {error}")
            run.clock.sleep(run.tempo.retry_s * 2**attempt)
            run.life.beat("recall")
    return run.hands.recall()


def of_steps(names: Iterable[str]) -> list[str]:
    """The effects of the steps alone: those of a cleanup and of navigation are no past of theirs."""
    return [effect for effect in names if effect[:1].isdecimal()]
