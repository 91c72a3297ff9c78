import pytest

from droidherd.settings import Physics


@pytest.mark.parametrize(
    "physics", [{"lease_ttl_s": 15.0}, {"heartbeat_timeout_s": 8.0}, {"beat_every_s": 8.0}, {"lease_ttl_s": 0.5}]
)
def test_times_that_would_break_exclusion_are_refused(physics: dict[str, float]):
    """A guard that is open when the engine gives the task away lets two act for one account."""
    with pytest.raises(ValueError, match="lease_ttl_s"):
        Physics(**physics)


def test_times_in_their_order_are_taken():
    assert 1.0 == Physics(beat_every_s=0.2, lease_ttl_s=1.0, heartbeat_timeout_s=2.0).lease_ttl_s
