"""Messages that wait for their delivery."""

from dataclasses import dataclass, field
from typing import Any, cast, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from droidherd.domain import columns
from droidherd.domain import messages as m
from droidherd.domain.dispatch.state import Outgoing
from droidherd.domain.outbox import Outbox

Message = m.ToDispatcher | Outgoing | m.Announce | m.Seen
KEY = m.Key("t", "r", 1)
LEASE = m.Lease(5, "e1", "h", 9, 4, 3)
EVERY_KIND = [
    m.Enqueue(KEY, 1, "l", "check", ("a=b",), "ann", ("x", "y"), 3, m.OnBusy.QUEUE, 7, 1.5, True, "e1", "e2", LEASE, 4),
    m.Soon(KEY, 2, 30_000),
    m.Ending(KEY, 2),
    m.Done(KEY, 3, "completed", False, 1.5),
    m.Admitted(KEY, 4, 5, 6, 300.0, "why"),
    m.Rejected(KEY, 5, "queue_full", "t2"),
    m.Grant(KEY, 6, LEASE, 9),
    m.Revoked(KEY, 5, m.RevokeReason.DECK, 2),
    m.Recall(3, KEY),
    m.Recall(3),
    m.Announce("e1", "h", 1, 2, m.EmulatorStatus.UP, ("a=b",), "b1", 5),
    m.Reset(5),
    m.Switch(True, 6),
    m.Seen("e1", "h", 1, 2, m.Health.GOOD, "b1", "addr", "sn", ("a=b",), "pool"),
]


@dataclass
class Sender:
    """Some machine's state."""

    outbox: Outbox[Message] = field(default_factory=Outbox[Message])

    def carried(self) -> "Sender":
        return columns.load(columns.dump(self), Sender)


@pytest.mark.parametrize("message", EVERY_KIND, ids=lambda one: type(one).__name__)
def test_a_message_of_each_kind_is_carried_to_the_next_run(message: Any) -> None:
    sender = Sender()
    sender.outbox.put("e1", message)
    assert {"e1": [message]} == sender.carried().outbox.lines


def test_the_messages_tested_are_of_every_kind() -> None:
    assert set(get_args(Message)) == {type(one) for one in EVERY_KIND}


def test_what_is_in_flight_is_sent_again_by_the_next_run() -> None:
    sender = Sender()
    sender.outbox.put("e1", m.Reset(1))
    sender.outbox.launch("e1")
    assert ["e1"] == sender.carried().outbox.ready()


def test_one_message_flies_per_target_and_stays_until_it_was_delivered() -> None:
    box: Outbox[m.Reset] = Outbox()
    for token in (1, 2):
        box.put("e1", m.Reset(token))
    box.put("e2", m.Reset(3))
    assert ["e1", "e2"] == box.ready()
    assert m.Reset(1) == box.launch("e1")
    assert ["e2"] == box.ready()
    box.mark_failed("e1")
    assert m.Reset(1) == box.launch("e1")
    box.mark_delivered("e1")
    assert m.Reset(2) == box.launch("e1")
    assert 2 == len(box)


def test_what_flies_to_somebody_forgotten_acknowledges_no_newer_message() -> None:
    box: Outbox[m.Reset] = Outbox()
    box.put("e1", m.Reset(1))
    box.put("e1", m.Reset(2))
    box.launch("e1")
    box.forget("e1", lambda _: True)
    box.put("e1", m.Reset(3))
    assert [] == box.ready()
    box.mark_delivered("e1")
    assert m.Reset(3) == box.launch("e1")
    box.mark_delivered("e1")
    box.mark_delivered("e1")
    assert 0 == len(box)


def test_only_what_was_meant_for_who_is_gone_is_forgotten() -> None:
    box: Outbox[m.Reset] = Outbox()
    for token in (1, 2, 3):
        box.put("e1", m.Reset(token))
    box.forget("e1", lambda message: message.token < 3)
    box.forget("e2", lambda _: True)
    assert {"e1": [m.Reset(3)]} == box.lines
    box.forget("e1", lambda _: True)
    assert {} == box.lines


def test_a_newer_answer_replaces_the_one_that_has_not_left() -> None:
    box: Outbox[Any] = Outbox()
    first, second = m.Admitted(KEY, 1, 1, 1, 1.0), m.Admitted(KEY, 2, 1, 1, 1.0)
    box.put("t", first)
    assert first == box.take_last("t", m.Admitted)
    box.put("t", second)
    assert second == box.launch("t")
    assert box.take_last("t", m.Admitted) is None
    assert 1 == len(box)


@settings(max_examples=100, deadline=None, database=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["put", "launch", "delivered", "failed"])), max_size=40)
)
def test_whatever_happens_messages_leave_in_order_and_none_is_lost(acts: list[tuple[str, str]]) -> None:
    box: Outbox[m.Reset] = Outbox()
    sent: dict[str, list[int]] = {"a": [], "b": []}
    put: dict[str, list[int]] = {"a": [], "b": []}
    for target, act in acts:
        if act == "put":
            put[target].append(len(put[target]))
            box.put(target, m.Reset(put[target][-1]))
        elif act == "launch" and target in box.ready():
            box.launch(target)
        elif act == "delivered" and target in box.flying:
            sent[target].append(box.flying[target].token)
            box.mark_delivered(target)
        elif act == "failed" and target in box.flying:
            box.mark_failed(target)
        assert box.lines == Sender(cast("Outbox[Message]", box)).carried().outbox.lines
    for target in "ab":
        assert put[target] == sent[target] + [one.token for one in box.lines.get(target, [])]


def test_what_flies_is_not_carried_and_waits_again_in_the_next_run() -> None:
    outbox = Outbox[m.Ending]()
    outbox.put("dispatcher/p", m.Ending(m.Key("t", "r", 1), 1))
    outbox.launch("dispatcher/p")
    adapter = TypeAdapter(Outbox[m.Ending])
    carried = adapter.validate_json(adapter.dump_json(outbox))
    assert ([], ["dispatcher/p"]) == (outbox.ready(), carried.ready())
