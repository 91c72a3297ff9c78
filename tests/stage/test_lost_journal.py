"""A stage that began and whose journal the emulator has no more is unknown: never begun anew by itself."""

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from pydantic import JsonValue
from typing_extensions import override

from activities.errors import translate
from droidherd.contracts.accounts import AccountRecord
from droidherd.contracts.plan import Effect, OnAmbiguous
from droidherd.contracts.stage import StageOutcome, StageReport, StageWork
from droidherd.credentials import CredentialStore
from droidherd.domain.errors import (
    DID_NOT,
    HAPPENED,
    FinalError,
    InfrastructureError,
    LockedRecordError,
    NeedsPersonError,
)
from droidherd.emulator import lease
from droidherd.emulator.token import Token
from droidherd.flowtools.records import credential_store
from droidherd.stage.attempt import StageAttempt, StageFailedError
from droidherd.stage.context import ConfirmedLifeline, StageServices
from tests.changes.world import Life, World
from tests.emulator.farm import LEASES, LONG_S, Farm, small_farm
from tests.emulator.test_journals import Records, monitor
from workflows.calls import lacks_key
from workflows.task.running import details_of

TAP: JsonValue = {"tap": {"percent": [50, 50]}}
MOMENT: JsonValue = {"sleep": {"for": "1ms"}}
JOURNALS = "/data/local/tmp/droidherd/j"


class Witness(Life):
    """Knows when it was announced that the journal is written, and can be announced to ask for a stop."""

    def __init__(self) -> None:
        super().__init__()
        self.announced = 0
        self.stops_after_writing = False
        self.between_steps: Callable[[], None] = lambda: None

    @override
    def begin_writing(self) -> None:
        self.announced += 1

    @override
    def stopping(self) -> str:
        self.between_steps()
        return "pause" if self.stops_after_writing and self.announced else super().stopping()


@dataclass
class AccountWorld(World):
    """A task with one stage whose effect is in the account: two taps that cannot be observed."""

    on_ambiguous: OnAmbiguous = OnAmbiguous.ASK
    wrote_under: int = 0
    answers: dict[str, str] = field(default_factory=dict[str, str])
    witness: Witness = field(default_factory=Witness)
    credentials: CredentialStore = field(default_factory=lambda: credential_store({}))

    @override
    def services(self) -> StageServices:
        return replace(super().services(), credentials=self.credentials)

    @override
    def life_line(self) -> ConfirmedLifeline:
        return self.witness

    @override
    def work(self, *, last: bool = False, lease: int = 0) -> StageWork:
        work = super().work(last=last, lease=lease)
        stage = self.plan.stages[0].model_copy(update={"effect": Effect.ACCOUNT, "on_ambiguous": self.on_ambiguous})
        known = {"wrote_under": self.wrote_under, "answers": self.answers}
        return work.model_copy(update={"stage": stage, "lease": self.one.lease, **known})

    def run_stage(self) -> StageReport:
        report = StageAttempt(self.services(), self.work(last=True), self.witness).run()
        self.wrote_under = self.one.lease if report.wrote else self.wrote_under
        return report

    def next_lease(self) -> None:
        self.one.lease = next(LEASES)

    def taps(self) -> int:
        return len(self.one.did("input tap"))


@pytest.fixture(scope="module")
def account_farm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Farm]:
    with small_farm(tmp_path_factory.mktemp("accounts")) as farm:
        yield farm


@pytest.fixture
def account(account_farm: Farm, tmp_path: Path) -> Generator[AccountWorld]:
    world = AccountWorld(account_farm.emulator("virtual-1"), tmp_path, steps=[TAP, MOMENT, TAP])
    world.shell(f"rm -rf {JOURNALS}")
    with world.open:
        yield world


def paused_amid(account: AccountWorld) -> None:
    """One tap is done, the other is not."""
    account.witness.stops_after_writing = True
    report = account.run_stage()
    account.witness.stops_after_writing = False
    assert (StageOutcome.STOPPED, True, 1) == (report.outcome, report.wrote, account.taps())
    account.next_lease()


def test_before_it_writes_its_first_intent_temporal_knows_of_it(account: AccountWorld):
    assert StageOutcome.COMPLETED == account.run_stage().outcome
    assert (2, 1) == (account.taps(), account.witness.announced)


def test_a_stage_that_stops_before_its_first_act_has_not_begun(account: AccountWorld):
    account.replan([MOMENT, TAP])
    account.witness.stops_after = 1
    report = account.run_stage()
    assert (StageOutcome.STOPPED, False, 0, 0) == (
        report.outcome,
        report.wrote,
        account.taps(),
        account.witness.announced,
    )


def test_with_its_journal_it_goes_on_behind_what_was_done(account: AccountWorld):
    paused_amid(account)
    assert StageOutcome.COMPLETED == account.run_stage().outcome
    assert 2 == account.taps()


def test_without_its_journal_a_person_is_asked_and_the_emulator_is_let_go(account: AccountWorld):
    paused_amid(account)
    account.shell(f"rm -rf {JOURNALS}")
    assert asked_about(account) == asked_about(account)  # what its cleanup wrote is no journal of the stage
    mark = asked_about(account)
    account.answers = {mark: HAPPENED}
    assert (StageOutcome.COMPLETED, 1) == (account.run_stage().outcome, account.taps())
    account.answers = {mark: DID_NOT}
    assert (StageOutcome.COMPLETED, 3) == (account.run_stage().outcome, account.taps())
    account.next_lease()
    account.shell(f"rm -rf {JOURNALS}")
    assert mark != asked_about(account)  # the answer was about the journal that was lost before


class LockedRecords:
    """Records of accounts that are encrypted with a key that is missing."""

    def read(self, account: str, *, fresh: bool = False) -> AccountRecord | None:
        raise LockedRecordError("it is encrypted with the key 'k1'", to=f"account {account}")


def test_who_lacks_the_key_of_a_credential_leaves_the_emulator_in_order(account: AccountWorld):
    account.account, account.credentials = "ann", CredentialStore(LockedRecords(), {})
    account.replan([TAP, {"type": {"text": {"secret": "word"}}}])
    with pytest.raises(StageFailedError) as failed:
        account.run_stage()
    error = translate(failed.value.cause, failed.value)
    details = details_of(error)
    assert details is not None
    assert (True, True, True, True) == (lacks_key(error), details.clean, details.wrote, details.seized)
    assert "the key 'k1'" in error.message
    account.next_lease()
    account.wrote_under, account.credentials = 1, credential_store({"word": "abc"}, "ann")
    assert (StageOutcome.COMPLETED, 1) == (account.run_stage().outcome, account.taps())


def asked_about(account: AccountWorld) -> str:
    """The mark under which the answer will be kept."""
    taps = account.taps()
    with pytest.raises(StageFailedError) as failed:
        account.run_stage()
    cause = failed.value.cause
    assert isinstance(cause, NeedsPersonError)
    assert (False, True, taps) == (cause.asks.keep, failed.value.clean, account.taps())
    assert "does not know how far it came" in str(cause)
    return failed.value.mark


def test_a_journal_that_is_swept_amid_the_stage_is_not_begun_anew(account: AccountWorld):
    """Half a journal would say that the first tap was never done."""
    swept: list[int] = []

    def sweep_after_the_first_tap() -> None:
        if account.taps() == 1 and not swept:
            swept.append(1)
            account.shell(f"rm -rf {JOURNALS}")

    account.witness.between_steps = sweep_after_the_first_tap
    with pytest.raises(StageFailedError) as failed:
        account.run_stage()
    assert isinstance(failed.value.cause, InfrastructureError)
    assert (1, [1]) == (account.taps(), swept)
    account.wrote_under = account.one.lease  # by its heartbeat
    account.next_lease()
    asked_about(account)


@pytest.mark.parametrize("on_ambiguous", [OnAmbiguous.FAIL, OnAmbiguous.REPEAT])
def test_without_its_journal_it_does_what_its_flow_says(account: AccountWorld, on_ambiguous: OnAmbiguous):
    paused_amid(account)
    account.shell(f"rm -rf {JOURNALS}")
    account.on_ambiguous = on_ambiguous
    if on_ambiguous is OnAmbiguous.REPEAT:
        assert (StageOutcome.COMPLETED, 3) == (account.run_stage().outcome, account.taps())
        return
    with pytest.raises(StageFailedError) as failed:
        account.run_stage()
    assert isinstance(failed.value.cause, FinalError)
    assert 1 == account.taps()


def test_after_three_hundred_other_leases_a_paused_account_stage_goes_on(account: AccountWorld, tmp_path: Path):
    paused_amid(account)
    one = account.one
    for number in range(300):
        account.next_lease()
        token = Token(one.lease)
        lease.seize(one.adb, one.address, token)
        account.shell(f"echo '0/1 done 0' >{JOURNALS}/other{number:03d}.{number:08x}.1.{one.lease}")
        lease.release(one.adb, one.address, token)
    account.next_lease()
    lease.seize(one.adb, one.address, Token(one.lease))
    asyncio.run(monitor(one, tmp_path, Records({"task-1"})).check())
    left = one.adb.shell(one.address, f"ls {JOURNALS}", LONG_S).text.split()
    assert (101, True) == (len(left), f"task-1.{account.run[-8:]}.1" in left)
    assert (StageOutcome.COMPLETED, 2) == (account.run_stage().outcome, account.taps())
