"""Live events, and beside them who did what and why."""

from droidherd.domain.dispatch.audit import (
    AUDIT_ENTRIES,
    EVENTS,
    TEXT_MAX,
    AuditEntry,
    AuditLog,
    AuditRecorder,
    EventRing,
)


def test_a_reader_gets_what_came_after_its_cursor():
    ring = EventRing()
    for name in ("one", "two", "three"):
        ring.append(5, name)
    assert (["two", "three"], 3) == ([one.kind for one in ring.since(1)], ring.cursor)
    assert () == ring.since(3)


def test_the_ring_keeps_the_newest_events_and_counts_on():
    ring = EventRing()
    for number in range(EVENTS + 10):
        ring.append(number, "queued")
    assert (EVENTS, EVENTS + 10, 11) == (len(ring.events), ring.cursor, ring.events[0].cursor)


def test_one_of_many_stands_in_the_live_events_alone_and_the_rest_in_both():
    ring, log = EventRing(), AuditLog()
    recorder = AuditRecorder(ring, log)
    recorder.record(AuditEntry("lane_paused", "ann", "lunch", lane="games"), 7)
    recorder.show(AuditEntry("prioritized", "ann", task_id="t1"), 8)
    assert ["lane_paused", "prioritized"] == [one.kind for one in ring.since(0)]
    assert [("lane_paused", "ann", "lunch", "games", 7)] == [
        (one.kind, one.actor, one.reason, one.lane, one.at_ms) for one in log.by_people
    ]


def test_what_the_system_does_never_pushes_out_what_people_did():
    log = AuditLog()
    recorder = AuditRecorder(EventRing(), log)
    recorder.record(AuditEntry("lane_paused", "ann"), 1)
    for number in range(AUDIT_ENTRIES + 5):
        recorder.record(AuditEntry("fenced", "system:holder_closed"), number)
    assert (["ann"], AUDIT_ENTRIES) == ([one.actor for one in log.by_people], len(log.by_system))


def test_a_text_is_cut_and_a_missing_actor_is_somebody():
    event = AuditEntry("k", "", "x" * (TEXT_MAX + 1)).event(1, 2)
    assert ("somebody", "x" * TEXT_MAX) == (event.actor, event.reason)


def test_the_newest_are_kept_when_not_all_fit():
    ring, log = EventRing(), AuditLog()
    recorder = AuditRecorder(ring, log)
    for number in range(5):
        recorder.record(AuditEntry(f"n{number}", "ann"), number)
        recorder.record(AuditEntry(f"s{number}", "system:x"), number)
    assert (["s4"], 10) == ([one.kind for one in ring.newest(1).events], ring.newest(1).cursor)
    assert (["n3", "n4"], ["s3", "s4"]) == (
        [one.kind for one in log.newest(2).by_people],
        [one.kind for one in log.newest(2).by_system],
    )
