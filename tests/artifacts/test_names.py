"""Names of what a try keeps."""

from droidherd.artifacts.names import NAME_MAX, Taken, checked_name


def test_under_a_taken_name_the_second_gets_a_number_and_the_first_keeps_it():
    taken = Taken()
    assert ["page.txt", "page.2.txt", "page.3.txt"] == [taken.name("page.txt", step) for step in ("1", "2", "3.1")]
    assert ["plain", "plain.2"] == [taken.name("plain", step) for step in ("1", "2")]


def test_who_keeps_something_again_keeps_its_name_also_a_numbered_one():
    taken = Taken()
    for step, name in (("1", "page.txt"), ("2", "page.2.txt"), ("1", "page.txt"), ("2", "page.2.txt")):
        assert name == taken.name("page.txt", step)


def test_a_name_of_the_greatest_length_can_take_its_number():
    taken, longest = Taken(), "a" * (NAME_MAX - 4) + ".txt"
    names = [checked_name(taken.name(longest, step)) for step in ("1", "2", "3")]
    assert (3, ".3.txt") == (len({*names}), names[-1][-6:])
