"""A question that is answered at once: the admission comes back, and never a grant."""

from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain.messages import OnBusy
from droidherd.domain.task.claim import Claim
from tests.domain.pool import Pool


def test_the_admission_is_the_answer_and_is_not_sent_as_well() -> None:
    pool = Pool()
    pool.enqueue("first")
    answer = pool.d.ask(pool.ask("second"), pool.now)
    assert isinstance(answer, m.Admitted)
    assert (2, []) == (answer.position, pool.messages_to("second", m.Admitted))


def test_a_refusal_is_the_answer() -> None:
    pool = Pool()
    pool.enqueue("first", account="ann")
    answer = pool.d.ask(pool.ask("second", account="ann", on_busy=OnBusy.REJECT), pool.now)
    assert isinstance(answer, m.Rejected)
    assert ("duplicate", "first") == (answer.reason, answer.holder)


def test_a_grant_is_a_message_of_its_own() -> None:
    pool = Pool()
    pool.emulator("e1")
    assert pool.d.ask(pool.ask("task"), pool.now) is None
    assert 1 == len(pool.messages_to("task", m.Grant))


def test_the_same_question_again_gets_the_same_answer() -> None:
    pool = Pool()
    ask = pool.ask("task")
    first = pool.d.ask(ask, pool.now)
    assert isinstance(first, m.Admitted)
    assert first == pool.d.ask(ask, pool.now + 5_000)


def test_the_same_question_of_a_holder_is_answered_with_the_same_grant_again() -> None:
    pool = Pool()
    pool.emulator("e1")
    ask = pool.ask("task")
    pool.d.ask(ask, pool.now)
    (grant,) = pool.messages_to("task", m.Grant)
    pool.deliver("task")
    assert pool.d.ask(ask, pool.now) is None
    assert [grant] == pool.messages_to("task", m.Grant)


def test_a_question_that_was_answered_and_forgotten_is_to_be_asked_anew() -> None:
    pool = Pool()
    pool.enqueue("first", account="ann")
    ask = pool.ask("second", account="ann", on_busy=OnBusy.REJECT)
    pool.d.ask(ask, pool.now)
    pool.done("first")
    assert isinstance(pool.d.ask(ask, pool.now), m.Recall)
    assert isinstance(pool.d.ask(replace(ask, seq=pool.seq()), pool.now), m.Admitted)


def test_an_older_question_of_somebody_who_left_is_to_be_asked_anew() -> None:
    pool = Pool()
    ask = pool.enqueue("task")
    pool.deliver("task")
    pool.done("task")
    answer = pool.d.ask(ask, pool.now)
    assert isinstance(answer, m.Recall)
    assert answer.seq > ask.seq
    assert {} == pool.d.board.entries


def test_an_emulator_that_was_reset_beyond_a_lease_is_not_marked_dirty_by_it() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("task")
    pool.emulator("e1", reset_to=pool.lease("task").token + 1)
    pool.d.on_done(m.Done(m.Key("task", "r1", 1), pool.seq(), clean=False), pool.now)
    assert "e1" in pool.d.board.free


def test_an_admission_on_its_way_is_kept_for_an_asker_who_may_be_gone() -> None:
    pool = Pool()
    ask = pool.enqueue("task")  # it gave up asking, and said it by a signal
    assert pool.d.ask(ask, pool.now) is None
    assert 1 == len(pool.messages_to("task", m.Admitted))


def test_who_knows_of_no_question_takes_back_what_a_lost_step_may_have_asked() -> None:
    pool = Pool()
    ask = pool.enqueue("task")
    claim = Claim("dispatcher/pool", seq=0, run="r1")
    claim.disclaim(ask.key)
    (done,) = claim.outbox.lines["dispatcher/pool"]
    assert isinstance(done, m.Done)
    pool.d.on_done(done, pool.now)
    assert {} == pool.d.board.entries


def test_runs_of_one_minute_have_journals_of_their_own() -> None:
    runs = ("01a1ef4c-28cc-7d91-8a51-68d0e41a90bc", "01a1ef4c-9a01-7333-9bb0-1c77d3f2a6e5")
    assert 2 == len({m.Key("task", run, 1).text() for run in runs})


def test_expired_lease_whose_emulator_was_reset_beyond_it_is_freed_at_once() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("task")
    lease = pool.lease("task")
    pool.emulator("e1", reset_to=lease.token + 1)
    pool.d.tick(lease.expires_at_ms)
    assert {} == pool.d.board.entries
    assert "e1" in pool.d.board.free
