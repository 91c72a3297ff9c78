"""The rates of the vision benchmark on a beginning of its set. Times are not looked at here."""

from bench.vision.cases import NEAR, Case, cases
from droidherd.domain.ports import Box, Frame
from droidherd.vision.match import find
from droidherd.vision.template import Template

CASES, SEED = 60, 1


def solved(case: Case) -> bool:
    height, width = case.frame.shape[:2]
    frame = Frame(width, height, case.frame.tobytes(), 0.0)
    hint = None if case.hint is None else Box(*case.hint)
    template = Template("template.png", case.template, case.recorded, scales=case.scales)
    match = find(frame, template, hint=hint)
    return case.solved(match.found, match.box.centre())


def test_nothing_is_found_that_is_not_there_and_next_to_nothing_is_missed() -> None:
    asked = [(case.kind, case.truth is not None, solved(case)) for case in cases(CASES, SEED)]
    assert {kind for kind, _, _ in asked} >= set(NEAR)
    assert 36 == sum(present for _, present, _ in asked)
    assert [] == [kind for kind, present, right in asked if not present and not right]
    assert len([kind for kind, present, right in asked if present and not right]) <= 1


def test_the_set_is_the_same_each_time() -> None:
    one, other = ([case.frame.tobytes() for case in cases(3, SEED)] for _ in range(2))
    assert one == other
