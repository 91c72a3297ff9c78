"""Names of what a try keeps."""

from droidherd.artifacts.names import Taken


def test_whoever_keeps_something_under_a_name_that_is_taken_gets_a_number_and_the_first_keeps_the_name():
    taken = Taken()
    assert ["page.txt", "page.2.txt", "page.3.txt"] == [taken.name("page.txt", step) for step in ("1", "2", "3.1")]
    assert ["plain", "plain.2"] == [taken.name("plain", step) for step in ("1", "2")]


def test_who_keeps_something_again_keeps_its_name_also_a_numbered_one():
    taken = Taken()
    for step, name in (("1", "page.txt"), ("2", "page.2.txt"), ("1", "page.txt"), ("2", "page.2.txt")):
        assert name == taken.name("page.txt", step)
