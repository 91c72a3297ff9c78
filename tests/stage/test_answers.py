"""An answer is found by what it was given for, and by nothing else."""

from typing import Any

import pytest

from droidherd.contracts.plan import Effect, Stage
from droidherd.contracts.stage import StageWork
from droidherd.domain.errors import DID_NOT, HAPPENED, About, Asks, FlowError, NeedsPersonError
from droidherd.domain.messages import Key
from droidherd.stage.context import effect_answers, mark_of, screen_answers, task_answers


def work(
    index: int = 0, *, lease: int = 7, attempt: int = 1, effect: Effect = Effect.EMULATOR, **more: Any
) -> StageWork:
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
        stage=Stage(name="main", steps=(), effect=effect),
        **more,
    )


def answered(about: About, choice: str, *, effect: Effect = Effect.EMULATOR) -> dict[str, str]:
    """As the task keeps it."""
    question = NeedsPersonError("what?", Asks("3#2.1", (choice,), about=about))
    return {mark_of(work(effect=effect), question): choice}


FINDS = {About.SCREEN: screen_answers, About.TASK: task_answers, About.EFFECT: effect_answers}


@pytest.mark.parametrize("about", About)
def test_it_is_found_by_the_stage_that_asked_and_by_no_other(about: About) -> None:
    answers = answered(about, HAPPENED)
    find = FINDS[about]
    assert {"3#2.1": True if about is About.EFFECT else HAPPENED} == find(work(answers=answers))
    assert {} == find(work(1, answers=answers))
    assert {} == find(work(attempt=2, answers=answers))
    assert [{}, {}] == [other(work(answers=answers)) for kind, other in FINDS.items() if kind is not about]


@pytest.mark.parametrize(
    ("about", "effect", "holds"),
    [
        (About.SCREEN, Effect.EMULATOR, False),
        (About.SCREEN, Effect.ACCOUNT, False),
        (About.TASK, Effect.EMULATOR, True),
        (About.TASK, Effect.ACCOUNT, True),
        (About.EFFECT, Effect.EMULATOR, False),
        (About.EFFECT, Effect.ACCOUNT, True),
    ],
)
def test_under_another_lease_only_what_is_not_of_that_emulator_still_holds(
    about: About, effect: Effect, *, holds: bool
) -> None:
    later = work(lease=8, effect=effect, answers=answered(about, DID_NOT, effect=effect))
    assert holds is bool(FINDS[about](later))


def test_an_effect_happened_or_it_did_not_and_any_other_word_says_nothing() -> None:
    happened = [effect_answers(work(answers=answered(About.EFFECT, word))) for word in (HAPPENED, DID_NOT, "perhaps")]
    assert [{"3#2.1": True}, {"3#2.1": False}, {}] == happened


def test_what_is_no_question_has_no_mark() -> None:
    assert "" == mark_of(work(), FlowError("wrong"))
