import pytest

from droidherd.domain.fleet.disk_space import ACTOR, DiskSpace, Need

NEED = Need("h1", wanted_bytes=1000, margin=0.1)


def spaces(*free: int) -> list[DiskSpace]:
    return [DiskSpace(f"p{number}", f"/p{number}", one) for number, one in enumerate(free)]


def test_the_fullest_of_several_disks_counts():
    short = NEED.short(spaces(5000, 900, 950))
    assert short is not None
    assert "p1" == short.place
    assert NEED.short(spaces(5000, 1000)) is None


@pytest.mark.parametrize(("free", "short", "ample"), [(999, True, False), (1000, False, False), (1100, False, True)])
def test_between_too_little_and_clearly_enough_nothing_changes(free: int, short: bool, ample: bool):
    found = spaces(free, 9000)
    assert (short, ample) == (NEED.short(found) is not None, NEED.ample(found))


def test_who_wants_nothing_is_never_short():
    assert Need("h1", 0).short(spaces(0)) is None


def test_a_pause_is_known_as_the_hosts_own_by_its_reason():
    reason = NEED.reason(spaces(900)[0])
    assert "host h1: 0.00 GB free at /p0 (p0), wanted are 0.00 GB" == reason
    assert NEED.mine(ACTOR, reason)
    assert not Need("h", 1000).mine(ACTOR, reason)
    assert not NEED.mine("ann", reason)
    assert not NEED.mine(ACTOR, "")
