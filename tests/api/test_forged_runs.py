"""What whoever reaches Temporal starts by hand, with input, memos and ids as it likes: the API answers all the same."""

import secrets
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleSpec,
    ScheduleState,
    WorkflowFailureError,
)
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from droidherd.cli.local.embedded import EmbeddedTemporal
from droidherd.contracts import names
from droidherd.engine.accounts import AccountsClient
from droidherd.engine.connection import EngineConfig
from tests.api.waiting import eventually
from tests.api.world import World

NAIVE = "2026-11-20T08:00:00"
MOMENT = "2026-11-20T08:00:00Z"
RECORD = {"account": "forged", "credentials": {"password": "env:PLAYER"}}
ENTRY = {"kind": "account_set", "actor": "mallory"}
ACCOUNTS: list[tuple[str, Any, Any]] = [
    ("two words", {}, {"account": "two words"}),
    ("é", {}, {"account": "é"}),
    ("outbox", {"state": {"record": {**RECORD, "account": "outbox"}, "outbox": {"": [ENTRY], "x y": [ENTRY]}}}, None),
    ("soon", {"continue_after": 1}, RECORD),
    ("odd", {"state": {"record": {"account": "odd", "changed_at": NAIVE}}}, {"account": "odd", "changed_at": NAIVE}),
    ("secret", {}, {"account": "secret", "credentials": {"x": "hunter2"}}),
    ("other", {"state": {"record": RECORD}}, RECORD),
    ("list", {}, ["rubbish"]),
    ("nothing", {"state": {"removed": True, "record": {"account": "nothing"}}}, 7),
]
"""Name, input, and the record that its memo tells of."""
REFUSED = {"two words", "é", "odd"}
"""By a worker, at the start."""
UNREADABLE = {"two words", "é", "odd", "soon", "secret", "other", "list", "nothing"}
NOBODY = "nobody"
"""A queue without a worker: what was forged stays as it is."""
VIEW = {"task_id": "x", "type": "tap_once", "state": "queued", "created_at": MOMENT, "updated_at": MOMENT}
ATTEMPT = {"n": 1, "emulator": "e1", "started": NAIVE, "ended": MOMENT}
TASKS: list[tuple[str, Any, Any]] = [
    ("forged id!", {"spec": {"type": "tap_once"}}, None),
    ("t-naive", {"spec": {"type": "tap_once"}}, {**VIEW, "created_at": NAIVE, "updated_at": NAIVE}),
    ("t-naive-2", {"spec": {"type": "tap_once"}}, {**VIEW, "not_before": NAIVE, "attempts": [ATTEMPT]}),
    ("t-pool", {"spec": {"type": "tap_once"}}, {**VIEW, "pool": "no such pool"}),
    ("t-far", {"spec": {"type": "tap_once"}}, {**VIEW, "created_at": "0001-01-01T00:00:00Z"}),
    ("t-rubbish", {"spec": {"type": "tap_once"}}, ["rubbish"]),
    ("t-names", {"spec": {"type": "tap_once"}}, {**VIEW, "account": "two words", "emulator": "e 1"}),
    ("t-huge", {"spec": {"type": "tap_once"}}, {**VIEW, "position": 10**30, "attempt": -1, "priority": 99}),
    ("t-again", {"spec": {"type": "tap_once"}, "again": {"past": {**VIEW, "state": "failed"}}}, None),
    ("t-garbage", 17, None),
]
"""Id, input, and what its memo tells of it."""
STATS = {"tasks": {"x": 1}}
CLEANUPS: list[tuple[str, Any, Any]] = [
    ("maintenance/cleanup/naive", {"dry_run": True}, {"actor": "x", "started_at": NAIVE, "stats": STATS}),
    ("maintenance/rubbish", {"dry_run": True}, ["rubbish"]),
    ("not a cleanup", 17, {"actor": 7}),
    ("maintenance/huge", {"dry_run": True}, {"actor": "x", "started_at": MOMENT, "stats": {"bytes": 10**30}}),
]


@pytest.fixture(scope="module")
def place(temporal_server: EmbeddedTemporal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    name = f"forged-{secrets.token_hex(3)}"
    temporal_server.add_namespace(name)
    with World(temporal_server.address, name, tmp_path_factory.mktemp("forged")) as one:
        one.work()
        yield one


@pytest.fixture(scope="module")
def http(place: World) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=place.url, timeout=120) as client:
        yield client


def attributes(**given: str) -> TypedSearchAttributes:
    return TypedSearchAttributes(
        [SearchAttributePair(SearchAttributeKey.for_keyword(name), value) for name, value in given.items()]
    )


def start(
    place: World, kind: names.Workflow, workflow_id: str, given: Any, memo: Any, *, queue: str, **more: str
) -> None:
    place.run(
        place.client.start_workflow(
            kind.value, given, id=workflow_id, task_queue=queue, memo=memo, search_attributes=attributes(**more)
        )
    )


def answered(http: httpx.Client, path: str, **params: Any) -> Any:
    answer = http.get(path, params=params)
    assert 200 == answer.status_code, f"{path}: {answer.text}"
    return answer.json()


def accounts(http: httpx.Client) -> dict[str, Any]:
    return {one["account"]: one for one in answered(http, "/api/accounts", limit=100)["accounts"]}


@pytest.mark.parametrize("queue", [names.FLEET_QUEUE, NOBODY])
def test_forged_accounts_spoil_no_list_and_no_account(place: World, http: httpx.Client, queue: str):
    """Whether or not a worker takes them."""
    for name, given, memo in ACCOUNTS:
        written = None if memo is None else {"account": memo}
        start(place, names.Workflow.ACCOUNT, names.account_id(name), given, written, queue=queue)
    expected = UNREADABLE - (REFUSED if queue == names.FLEET_QUEUE else set[str]())
    rows = eventually(lambda: found if expected <= (found := accounts(http)).keys() else None)
    assert [] == [name for name in expected if "cannot be read" not in rows[name]["unreadable"]]
    if queue == names.FLEET_QUEUE:
        for name in sorted({*expected, "outbox"}):
            record = http.put(f"/api/accounts/{name}", json={"note": "ours"}).json()["record"]
            assert ("ours", record) == (record["note"], answered(http, f"/api/accounts/{name}")["record"])
            assert 200 == http.delete(f"/api/accounts/{name}").status_code, name
        eventually(lambda: not accounts(http))
        return
    for name in sorted(expected):
        assert 200 == http.delete(f"/api/accounts/{name}").status_code, name
    eventually(lambda: not accounts(http))


def test_forged_tasks_spoil_no_list_and_no_task(place: World, http: httpx.Client):
    for number, (name, given, memo) in enumerate(TASKS):
        more = {"TaskState": ("queued", "running", "sleeping")[number % 3], "AccountId": "forged"}
        start(place, names.Workflow.TASK, name, given, memo and {"task": memo}, queue=NOBODY, **more)

    def listed() -> Any:
        found = answered(http, "/api/tasks", count=True)["tasks"]
        return {row["id"]: row for row in found} if len(found) == len(TASKS) else None

    rows = eventually(listed)
    assert {"t-naive", "t-naive-2", "t-far", "t-rubbish", "t-huge"} == {
        name for name, row in rows.items() if "cannot be read" in row["why"]
    }
    for path in ("/api/accounts/forged", "/api/queue", "/api/accounts", "/api/emulators", "/metrics"):
        answered_or_text = http.get(path)
        assert 200 == answered_or_text.status_code, path
    with place.hasty():
        answered(http, "/api/tasks/t-naive")


def test_forged_cleanups_spoil_no_list(place: World, http: httpx.Client):
    for name, given, memo in CLEANUPS:
        start(place, names.Workflow.MAINTENANCE, name, given, {"report": memo}, queue=NOBODY)

    def listed() -> Any:
        found = answered(http, "/api/maintenance/cleanup")["cleanups"]
        return {one["id"]: one for one in found} if len(found) == len(CLEANUPS) else None

    for name, one in eventually(listed).items():
        assert (None, True) == (one["report"], "cannot be read" in one["unreadable"]), name


def test_forged_schedules_spoil_no_list_and_can_be_deleted(place: World, http: httpx.Client):
    other = {"id": "other", "task": {"type": "x"}, "every_s": 60, "created_at": NAIVE, "catch_up": {"until": NAIVE}}
    cases: dict[str, tuple[Any, ...]] = {
        "none": (),
        "many": (1, 2),
        "number": (17,),
        "rubbish": ({"garbage": 1},),
        "naive": ({**other, "id": "naive"},),
        "another": ({**other, "created_at": MOMENT, "catch_up": {"until": MOMENT}},),
    }
    for name, given in cases.items():
        run = names.Workflow.SUBSCRIPTION_RUN.value
        action = ScheduleActionStartWorkflow(run, args=list(given), id="subscription-run/x", task_queue=names.QUEUE)
        spec = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(hours=1))])
        one = Schedule(action=action, spec=spec, state=ScheduleState(paused=True))
        found = attributes(SubscriptionId="forged", AccountId="forged", TaskType="x")
        named = names.subscription_id(name)
        place.run(place.client.create_schedule(named, one, search_attributes=found, memo={"x": b"\xff"}))

    def listed() -> set[str]:
        return {one["id"] for one in answered(http, "/api/subscriptions")["subscriptions"]}

    eventually(lambda: listed() == cases.keys())
    answered(http, "/api/accounts/forged")
    for name in cases:
        read = http.get(f"/api/subscriptions/{name}")
        assert (404, True) == (read.status_code, "DELETE removes it" in read.text), read.text
        assert 200 == http.delete(f"/api/subscriptions/{name}").status_code, name
    eventually(lambda: not listed())


def test_a_failed_account_of_an_impossible_name_does_not_stop_a_worker(place: World):
    """Ended by hand before it began, and refused when it was started again: nothing of it can be restored."""
    name = names.account_id("it's nobody")
    start(place, names.Workflow.ACCOUNT, name, {}, None, queue=NOBODY)
    place.run(place.client.get_workflow_handle(name).terminate())
    start(place, names.Workflow.ACCOUNT, name, {}, None, queue=names.FLEET_QUEUE)
    with pytest.raises(WorkflowFailureError):
        place.run(place.client.get_workflow_handle(name).result())
    eventually(lambda: 0 < place.run(place.client.count_workflows("ExecutionStatus = 'Terminated'")).count)
    assert name not in place.run(AccountsClient(place.client, EngineConfig()).restore_ended(None))
