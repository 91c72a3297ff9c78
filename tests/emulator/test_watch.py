"""What a host makes of its probes."""

import math

from droidherd.domain.messages import Health
from droidherd.emulator.probe_loop import Watch


def test_two_good_probes_make_it_good_and_only_changes_are_news() -> None:
    watch = Watch(down_after_s=12.0)
    assert [False, True, False] == [watch.good("e1", "b1", now_s) for now_s in (0.0, 1.0, 2.0)]
    assert watch.is_settled("e1")


def test_one_bad_probe_makes_it_suspect_and_long_silence_down() -> None:
    watch = Watch(down_after_s=12.0)
    watch.good("e1", "b1", 0.0)
    watch.good("e1", "b1", 1.0)
    assert [True, False, True, False] == [watch.bad("e1", now_s) for now_s in (3.0, 5.0, 13.0, 15.0)]
    assert Health.DOWN is watch.emulators["e1"].health


def test_one_good_probe_between_bad_ones_does_not_make_it_good() -> None:
    watch = Watch(down_after_s=12.0)
    watch.good("e1", "b1", 0.0)
    watch.good("e1", "b1", 1.0)
    watch.bad("e1", 2.0)
    assert not watch.good("e1", "b1", 3.0)
    assert not watch.is_settled("e1")
    assert watch.good("e1", "b1", 4.0)


def test_another_boot_is_news() -> None:
    watch = Watch(down_after_s=12.0)
    watch.good("e1", "b1", 0.0)
    watch.good("e1", "b1", 1.0)
    assert watch.good("e1", "b2", 2.0)


def test_one_that_never_answered_is_reported_once() -> None:
    watch = Watch(down_after_s=12.0)
    assert [True, False] == [watch.bad("e1", now_s) for now_s in (0.0, 1.0)]


def test_one_that_answered_a_new_watch_once_is_reported_though_never_good() -> None:
    """Whoever watched before may have said that it is good: nobody else would ever take that back."""
    watch = Watch(down_after_s=12.0)
    assert not watch.good("e1", "b1", 0.0)
    assert [True, False, True, False] == [watch.bad("e1", now_s) for now_s in (1.0, 2.0, 12.0, 13.0)]
    assert Health.DOWN is watch.emulators["e1"].health


def test_one_that_was_forgotten_is_news_again() -> None:
    watch = Watch(down_after_s=12.0)
    watch.good("e1", "b1", 0.0)
    watch.good("e1", "b1", 1.0)
    watch.forget("e1")
    watch.forget("e2")
    assert [False, True] == [watch.good("e1", "b1", now_s) for now_s in (2.0, 3.0)]


def test_how_long_ago_a_probe_was_answered_is_known_while_it_is_silent() -> None:
    watch = Watch(down_after_s=12.0)
    assert math.inf == watch.age_s("e1", 0.0)
    watch.good("e1", "b1", 1.0)
    watch.bad("e1", 20.0)
    assert 19.0 == watch.age_s("e1", 20.0)
