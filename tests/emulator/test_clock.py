from hypothesis import given
from hypothesis import strategies as st

from droidherd.emulator.lease import UptimeClock

seconds = st.floats(0, 1e6, allow_nan=False)


@given(uptime_s=seconds, asked_s=seconds, way_back_s=st.floats(0, 60), later_s=seconds)
def test_a_deadline_never_passes_later_than_on_the_host(
    uptime_s: float, asked_s: float, way_back_s: float, later_s: float
):
    """The emulator read its clock, and the reply took its way back; meanwhile both clocks ran."""
    read_at_s = asked_s + way_back_s
    host_deadline_s = read_at_s + later_s
    true_uptime_s = uptime_s + (host_deadline_s - asked_s)
    deadline = UptimeClock(uptime_s, read_at_s).deadline(host_deadline_s)
    last_allowed_s = deadline + 0.99  # the guard sees whole seconds
    assert last_allowed_s <= true_uptime_s or deadline == 0


def test_a_prompt_reply_costs_less_than_two_seconds_of_the_deadline():
    clock = UptimeClock(100.0, 5000.0)
    assert 107 == clock.deadline(5008.0)
    assert 106 == clock.deadline(5007.99)


def test_a_deadline_before_the_boot_lets_nothing_happen():
    assert 0 == UptimeClock(10.0, 5000.0).deadline(4000.0)
