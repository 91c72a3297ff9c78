"""An answer is found by what it was given for, and by nothing else."""

from typing import Any

import pytest

from droidherd import answering
from droidherd.contracts.plan import Lives, Stage
from droidherd.contracts.stage import StageWork
from droidherd.domain.errors import DID_NOT, HAPPENED, About, Asks, FlowError, NeedsPersonError
from droidherd.domain.messages import Key


def work(index: int = 0, *, lease: int = 7, attempt: int = 1, lives: Lives = Lives.EMULATOR, **more: Any) -> StageWork:
    return StageWork(
        task_id="t",
        key=Key("t", "run", attempt),
        emulator_id="e1",
        lease=lease,
        stage_index=index,
        tries=1,
        task_type="kind",
        flow="kind",
        flow_hash="",
        stage=Stage(name="main", steps=(), lives=lives),
        **more,
    )


def answered(about: About, choice: str, *, lives: Lives = Lives.EMULATOR) -> dict[str, str]:
    """As the task keeps it."""
    question = NeedsPersonError("what?", Asks("3#2.1", (choice,), about=about))
    return {answering.mark_of(work(lives=lives), question): choice}


FINDS = {About.SCREEN: answering.standing, About.TASK: answering.chosen, About.EFFECT: answering.told}


@pytest.mark.parametrize("about", About)
def test_it_is_found_by_the_stage_that_asked_and_by_no_other_stage_or_attempt(about: About) -> None:
    answers = answered(about, HAPPENED)
    find = FINDS[about]
    assert {"3#2.1": True if about is About.EFFECT else HAPPENED} == find(work(answers=answers))
    assert {} == find(work(1, answers=answers))
    assert {} == find(work(attempt=2, answers=answers))
    assert [{}, {}] == [other(work(answers=answers)) for kind, other in FINDS.items() if kind is not about]


@pytest.mark.parametrize(
    ("about", "lives", "holds"),
    [
        (About.SCREEN, Lives.EMULATOR, False),
        (About.SCREEN, Lives.ACCOUNT, False),
        (About.TASK, Lives.EMULATOR, True),
        (About.TASK, Lives.ACCOUNT, True),
        (About.EFFECT, Lives.EMULATOR, False),
        (About.EFFECT, Lives.ACCOUNT, True),
    ],
)
def test_under_another_lease_only_what_is_not_of_that_emulator_still_holds(
    about: About, lives: Lives, *, holds: bool
) -> None:
    later = work(lease=8, lives=lives, answers=answered(about, DID_NOT, lives=lives))
    assert holds is bool(FINDS[about](later))


def test_an_effect_happened_or_it_did_not_and_any_other_word_says_nothing() -> None:
    said = [answering.told(work(answers=answered(About.EFFECT, word))) for word in (HAPPENED, DID_NOT, "perhaps")]
    assert [{"3#2.1": True}, {"3#2.1": False}, {}] == said


def test_what_is_no_question_has_no_mark() -> None:
    assert "" == answering.mark_of(work(), FlowError("wrong"))
