"""Under which mark an answer is kept, so that it is found by what it was given for and by nothing else. Pure.

A step's number says little: another stage has the same one, another emulator shows another screen.
"""

from collections.abc import Mapping

from droidherd.contracts.plan import Lives
from droidherd.contracts.stage import StageWork
from droidherd.domain.errors import DID_NOT, HAPPENED, About, Asks, DroidherdError, NeedsPersonError


def mark_of(work: StageWork, error: DroidherdError) -> str:
    """For the question that ended this stage; empty when it was none."""
    return _mark(work, error.asks) if isinstance(error, NeedsPersonError) else ""


def told(work: StageWork) -> dict[str, bool]:
    """What people said about effects of unknown outcome of this stage: effect → whether it happened."""
    said = _about(work, About.EFFECT)
    return {effect: choice == HAPPENED for effect, choice in said.items() if choice in (HAPPENED, DID_NOT)}


def standing(work: StageWork) -> Mapping[str, str]:
    """What people chose with this emulator kept for them: step → choice."""
    return _about(work, About.SCREEN)


def chosen(work: StageWork) -> Mapping[str, str]:
    """What people chose while no emulator was kept: step → choice."""
    return _about(work, About.TASK)


def _mark(work: StageWork, asks: Asks) -> str:
    return f"{_scope(work, asks.about)}{asks.step}"


def _about(work: StageWork, about: About) -> dict[str, str]:
    scope = _scope(work, about)
    return {mark.removeprefix(scope): choice for mark, choice in work.answers.items() if mark.startswith(scope)}


def _scope(work: StageWork, about: About) -> str:
    """How long an answer holds: the attempt, the lease, or whichever of them the journal lives as long as."""
    attempt = str(work.key.attempt)
    account = work.stage is not None and work.stage.lives is Lives.ACCOUNT
    whole = about is About.TASK or (about is About.EFFECT and account)
    where = attempt if whole else f"{attempt}.{work.lease}"
    return f"{about}:{where}:{work.stage_index}:"
