"""A task's side, message by message."""

from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain.messages import RevokeReason
from droidherd.domain.task.claim import Claim, Want

KEY = m.Key("t", "r1", 1)
ASK = m.Enqueue(KEY, 0, "anonymous", "check")


def a_claim() -> Claim:
    claim = Claim("dispatcher/p", 10, run="r1")
    claim.request(ASK)
    return claim


def grant(token: int, seq: int, key: m.Key = KEY, after: int = 0) -> m.Grant:
    return m.Grant(key, 7, m.Lease(token, "e1", "h", 9, after, 1), seq)


def take_messages(claim: Claim) -> list[m.Enqueue | m.Soon | m.Ending | m.Done]:
    return claim.outbox.lines.pop("dispatcher/p", [])


def test_what_was_waited_for_is_taken() -> None:
    claim = a_claim()
    claim.on_grant(grant(100, claim.seq))
    assert claim.lease is not None
    assert (Want.HOLDING, 100, 7) == (claim.want, claim.lease.token, claim.ticket)


def test_a_grant_for_a_withdrawn_request_is_refused_and_present_one_repeated() -> None:
    claim = a_claim()
    first = claim.seq
    claim.done()
    claim.request(ASK)
    take_messages(claim)
    claim.on_grant(grant(100, first))
    assert (Want.EMULATOR, None) == (claim.want, claim.lease)
    assert [m.Enqueue] == [type(one) for one in take_messages(claim)]


def test_a_grant_for_an_older_attempt_is_returned_and_the_request_repeated() -> None:
    claim = a_claim()
    claim.done("retry")
    claim.request(replace(ASK, key=m.Key("t", "r1", 2)))
    take_messages(claim)
    claim.on_grant(grant(100, claim.seq))
    assert [(m.Done, 1), (m.Enqueue, 2)] == [(type(one), one.key.attempt) for one in take_messages(claim)]


def test_a_grant_that_comes_after_the_end_is_given_back() -> None:
    claim = a_claim()
    claim.done()
    take_messages(claim)
    claim.on_grant(grant(100, claim.since))
    assert [(KEY, True)] == [(one.key, one.clean) for one in take_messages(claim) if isinstance(one, m.Done)]


def test_a_late_copy_of_a_grant_that_was_used_repeats_how_it_ended() -> None:
    claim = a_claim()
    given = grant(100, claim.seq)
    claim.on_grant(given)
    claim.done("failed", clean=False)
    take_messages(claim)
    claim.on_grant(given)
    assert [("failed", False)] == [(one.outcome, one.clean) for one in take_messages(claim) if isinstance(one, m.Done)]


def test_a_late_copy_of_an_old_grant_leaves_the_lease_that_is_held_now() -> None:
    claim = a_claim()
    first = grant(100, claim.seq)
    claim.on_grant(first)
    claim.done("", clean=True)
    claim.request(ASK)
    claim.on_grant(grant(200, claim.seq))
    take_messages(claim)
    claim.on_grant(first)
    assert claim.lease is not None
    assert (200, []) == (claim.lease.token, take_messages(claim))


def test_a_lost_lease_is_never_taken_again_under_the_same_key() -> None:
    claim = a_claim()
    given = grant(100, claim.seq)
    claim.on_grant(given)
    claim.done(clean=False)
    claim.request(replace(ASK, ticket=7))
    asked = take_messages(claim)[-1]
    assert isinstance(asked, m.Enqueue)
    assert 100 == asked.lost
    claim.on_grant(replace(given, seq=claim.seq))
    assert Want.EMULATOR is claim.want


def test_a_grant_for_another_run_is_left_to_the_audit() -> None:
    claim = a_claim()
    take_messages(claim)
    claim.on_grant(grant(100, 1, m.Key("t", "r0", 1)))
    assert [] == take_messages(claim)


def test_asked_again_a_holder_learns_that_it_is_no_longer_on_deck() -> None:
    claim = a_claim()
    claim.on_grant(grant(100, claim.seq, after=99))
    take_messages(claim)
    claim.repeat()
    assert [(100, 99)] == [
        (one.lease.token, one.lease.after) for one in take_messages(claim) if isinstance(one, m.Enqueue) and one.lease
    ]
    claim.on_grant(grant(100, claim.seq))
    assert claim.lease is not None
    assert 0 == claim.lease.after


def test_a_restart_is_reported_once_per_worker() -> None:
    claim = a_claim()
    claim.on_grant(grant(100, claim.seq))
    claim.on_revoked(m.Revoked(KEY, 100, RevokeReason.RESTARTED, 2))
    assert claim.revoked is not None
    claim.revoked = None
    claim.on_revoked(m.Revoked(KEY, 100, RevokeReason.RESTARTED, 2))
    claim.on_revoked(m.Revoked(KEY, 99, RevokeReason.DOWN))
    assert claim.revoked is None


def test_a_rejection_of_an_older_request_is_not_for_the_present_one() -> None:
    claim = a_claim()
    claim.on_rejected(m.Rejected(KEY, claim.seq - 1, "queue_full"))
    assert claim.rejected is None
    claim.on_rejected(m.Rejected(KEY, claim.seq, "queue_full"))
    assert (Want.NOTHING, True) == (claim.want, claim.rejected is not None)


def test_a_recalled_holder_says_what_it_holds_and_that_its_stage_is_queued() -> None:
    claim = a_claim()
    claim.on_grant(grant(100, claim.seq))
    claim.ending()
    take_messages(claim)
    claim.on_recall(m.Recall(1, m.Key("t", "r1", 0)))
    enqueue, ending = take_messages(claim)
    assert isinstance(enqueue, m.Enqueue)
    assert enqueue.lease == claim.lease
    assert isinstance(ending, m.Ending)


def test_recalled_about_an_older_attempt_a_task_says_it_is_over_and_unclean() -> None:
    claim = a_claim()
    take_messages(claim)
    claim.on_recall(m.Recall(1, m.Key("t", "r1", 0 + 9)))
    over, enqueue = take_messages(claim)
    assert isinstance(over, m.Done)
    assert (9, False) == (over.key.attempt, over.clean)
    assert isinstance(enqueue, m.Enqueue)


def test_recalled_before_it_asked_for_anything_a_task_says_so() -> None:
    claim = Claim("dispatcher/p", 0, run="r1")
    claim.on_recall(m.Recall(1, m.Key("t", "r1", 0)))
    assert [m.Done] == [type(one) for one in take_messages(claim)]


def admission(ticket: int, attempt: int = 1, priority: int = 0) -> m.Admitted:
    return m.Admitted(m.Key("t", "r1", attempt), 11, ticket, 1, 300.0, priority=priority)


def test_priority_stays_with_a_task_that_draws_a_new_ticket_until_it_is_used() -> None:
    claim = a_claim()
    claim.on_admitted(admission(7))
    claim.on_admitted(admission(-2, priority=1))
    claim.done()
    claim.renounce()
    assert (-2, 1) == (claim.ticket, claim.priority)
    claim.forget()
    assert (0, 0) == (claim.ticket, claim.priority)


def test_an_answer_that_is_older_than_the_priority_does_not_take_it_back() -> None:
    claim = a_claim()
    claim.on_admitted(admission(-2, priority=1))
    claim.on_admitted(admission(7))
    assert (-2, 7) == (claim.ticket, claim.admitted.ticket if claim.admitted else 0)


def test_priority_is_heard_by_a_task_that_left_the_line_and_by_no_other_run() -> None:
    claim = a_claim()
    claim.done()
    claim.on_admitted(admission(-2, attempt=2, priority=1))
    assert (-2, 1, None) == (claim.ticket, claim.priority, claim.admitted)
    claim.run = "r2"
    claim.on_admitted(admission(-9))
    assert -2 == claim.ticket


def test_a_repeated_request_says_the_priority_that_was_given_meanwhile() -> None:
    """Both parts of it: to a dispatcher that lost its memory nobody else can say how urgent this is."""
    claim = a_claim()
    claim.on_admitted(admission(-2, priority=1))
    take_messages(claim)
    claim.on_recall(m.Recall(1, m.Key("t", "r1", 0)))
    (asked,) = take_messages(claim)
    assert isinstance(asked, m.Enqueue)
    assert (-2, 1) == (asked.ticket, asked.priority)


def test_a_grant_without_the_priority_does_not_take_it_back() -> None:
    claim = a_claim()
    claim.on_admitted(admission(-2, priority=1))
    claim.on_grant(grant(100, claim.seq))
    assert (Want.HOLDING, -2) == (claim.want, claim.ticket)


def test_priority_of_an_earlier_request_is_sent_with_the_present_one() -> None:
    """Its dispatcher gave it to somebody who had left the line already, and stands elsewhere by now."""
    for again in (ASK, replace(ASK, key=m.Key("t", "r1", 2))):
        claim = a_claim()
        claim.done()
        claim.request(again)
        take_messages(claim)
        news = admission(-2, priority=1)
        assert claim.comes_late(news)
        claim.on_admitted(news)
        (asked,) = take_messages(claim)
        assert isinstance(asked, m.Enqueue)
        assert (again.key, -2, 1) == (asked.key, asked.ticket, asked.priority)
        assert not claim.comes_late(news)
        claim.on_admitted(news)
        assert [] == take_messages(claim)


def test_priority_of_the_present_request_is_known_where_it_was_given() -> None:
    claim = a_claim()
    take_messages(claim)
    claim.on_admitted(admission(-2, priority=1))
    assert ([], -2) == (take_messages(claim), claim.ticket)


def test_after_a_recall_every_word_says_that_it_was_heard() -> None:
    claim = a_claim()
    take_messages(claim)
    claim.on_recall(m.Recall(7))
    claim.done("completed")
    claim.on_recall(m.Recall(6))
    assert [("enqueue", 7), ("done", 7), ("done", 7)] == [
        (one.kind, one.recall) for one in take_messages(claim) if isinstance(one, m.Enqueue | m.Done)
    ]


def test_an_unanswered_request_is_repeated_ever_more_seldom() -> None:
    claim, waits = a_claim(), list[float]()
    for _ in range(8):
        waits.append(claim.repeat_after_s)
        claim.repeat()
    assert [5, 10, 20, 40, 80, 160, 300, 300] == waits
    claim.on_admitted(m.Admitted(KEY, claim.seq, 7, 1, 400.0))
    assert 400.0 == claim.repeat_after_s


def test_a_waiting_task_says_which_tokens_it_takes_no_more() -> None:
    claim = a_claim()
    claim.on_grant(grant(5_000, claim.seq, m.Key("t", "r1", 9)))  # nobody made it
    take_messages(claim)
    claim.on_grant(grant(100, claim.seq))
    [news] = take_messages(claim)
    assert isinstance(news, m.Enqueue)
    assert (None, 5_000) == (claim.lease, news.lost)
