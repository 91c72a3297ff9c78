"""The lists of files that are run apart name files that are there."""

import pytest

from tests.architecture.source import ROOT
from tests.support.suites import LONGEST, MORE


@pytest.mark.parametrize("path", [*MORE, *LONGEST])
def test_a_file_that_is_run_apart_is_there(path: str):
    assert (ROOT / "tests" / path).exists()


def test_the_lists_are_in_order_and_name_nothing_twice():
    assert sorted({*MORE}) == [*MORE]
    assert sorted({*LONGEST}) == [*LONGEST]
    assert not {*MORE} & {*LONGEST}
