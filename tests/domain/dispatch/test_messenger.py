"""What a dispatcher says to tasks and emulators, in the outbox."""

from droidherd.domain import messages as m
from droidherd.domain.dispatch.messenger import Messenger
from droidherd.domain.dispatch.state import Outgoing
from droidherd.domain.outbox import Outbox

KEY = m.Key("t1", "r1", 1)
LEASE = m.Lease(7, "e1", "h", 99)


def admitted(position: int, ticket: int = 5) -> m.Admitted:
    return m.Admitted(KEY, 1, ticket, position, 300.0)


def test_a_newer_position_takes_the_place_of_one_that_was_not_sent():
    box: Outbox[Outgoing] = Outbox()
    messenger = Messenger(box)
    messenger.to_task("t1", admitted(2))
    messenger.to_task("t1", admitted(1))
    assert {"t1": [admitted(1)]} == box.lines


def test_a_position_that_flies_already_is_followed_by_the_newer_one():
    box: Outbox[Outgoing] = Outbox()
    messenger = Messenger(box)
    messenger.to_task("t1", admitted(2))
    box.launch("t1")
    messenger.to_task("t1", admitted(1))
    assert {"t1": [admitted(2), admitted(1)]} == box.lines


def test_a_priority_that_was_not_heard_yet_is_not_lost_to_a_newer_position():
    box: Outbox[Outgoing] = Outbox()
    messenger = Messenger(box)
    messenger.to_task("t1", admitted(1, ticket=-3))
    messenger.to_task("t1", admitted(1, ticket=5))
    assert [-3, 5] == [one.ticket for one in box.lines["t1"] if isinstance(one, m.Admitted)]


def test_an_answer_is_taken_back_to_be_handed_over_and_a_grant_is_not():
    messenger = Messenger(Outbox())
    messenger.to_task("t1", admitted(1))
    assert admitted(1) == messenger.take_answer("t1")
    messenger.to_task("t1", m.Grant(KEY, 5, LEASE, 1))
    assert (None, True, True) == (
        messenger.take_answer("t1"),
        messenger.has_for("t1"),
        messenger.grant_underway("t1"),
    )


def test_what_was_meant_for_a_closed_run_is_dropped_and_for_no_later_one():
    box: Outbox[Outgoing] = Outbox()
    messenger = Messenger(box)
    later = m.Recall(1, m.Key("t1", "r2", 1))
    for message in (admitted(1), m.Grant(KEY, 5, LEASE, 1), later):
        messenger.to_task("t1", message)
    messenger.forget_run("t1", "r1")
    assert {"t1": [later]} == box.lines


def test_emulators_have_a_line_of_their_own():
    box: Outbox[Outgoing] = Outbox()
    Messenger(box).to_emulator("e1", m.Reset(7))
    assert {"emulator/e1": [m.Reset(7)]} == box.lines
