"""What we think is due is what the engine thinks is due: only then can anybody say what was missed."""

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import product

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import Client

from droidherd.contracts.names import subscription_id
from droidherd.contracts.subscriptions import AuditLine, Subscription
from droidherd.contracts.tasks import TaskSpec
from droidherd.domain.schedule.catchup import CatchUp
from droidherd.domain.schedule.timetable import read_zone
from droidherd.engine.schedules import SubscriptionEdit, SubscriptionsClient

ENGINE_MOST = 1000
"""The engine names no more at once."""
CRONS = [
    "*/20 * * * *",
    "0 */6 * * *",
    "30 2 * * *",
    "15 0-3 * * *",
    "0,30 1,2,3 * 3,10,11 *",
    "0 0 1,15 * 3",
    "0 0 */10 * mon-fri",
    "59 23 29 2 *",
    "5 4 * * 7",
    "@monthly",
]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Sydney", "Australia/Lord_Howe"]
SPRING, AUTUMN = datetime(2026, 3, 7, 11, 7, tzinfo=UTC), datetime(2026, 10, 24, 9, 3, 7, tzinfo=UTC)


async def theirs(client: Client, schedule: str, begin: datetime, end: datetime) -> list[int]:
    moments: list[Timestamp] = []
    for at in (begin, end):
        moment = Timestamp()
        moment.FromDatetime(at)
        moments.append(moment)
    request = ListScheduleMatchingTimesRequest(
        namespace=client.namespace, schedule_id=schedule, start_time=moments[0], end_time=moments[1]
    )
    answer = await client.workflow_service.list_schedule_matching_times(request)
    return [one.ToSeconds() for one in answer.start_time]


async def differing(client: Client, subscription: Subscription, begin: datetime, days: int) -> list[datetime]:
    """What one of us takes for due and the other does not, but for the night in which clocks go back."""
    schedule, end = subscription_id(subscription.id), begin + timedelta(days=days)
    ours = list(subscription.rules().timetable.due(begin.timestamp(), end.timestamp()).times)
    found = await theirs(client, schedule, begin, end)
    last = found[-1] if len(found) == ENGINE_MOST else end.timestamp()
    differ = {one for one in ours if one <= last} ^ set(found)
    zone = read_zone(subscription.time_zone)
    return [datetime.fromtimestamp(one, zone) for one in sorted(differ) if not went_back(zone, one)]


def went_back(zone: tzinfo, moment: int) -> bool:
    """Within a few hours."""
    before, after = (datetime.fromtimestamp(moment + hours * 3600, zone).utcoffset() for hours in (-4, 4))
    return before is not None and after is not None and after < before


async def made(client: Client, name: str, **timing: str | int) -> Subscription:
    now = datetime.now(UTC)
    subscription = Subscription(
        id=name,
        task=TaskSpec(type="tap_once"),
        created_at=now,
        catch_up=CatchUp(now),
        changes=(AuditLine(at=now, what="created", id=name),),
        **timing,  # pyright: ignore[reportArgumentType]
    )
    await SubscriptionsClient(client, 2.0).create(SubscriptionEdit(subscription, paused=True, note=""))
    return subscription


@pytest.mark.parametrize("zone", ZONES)
async def test_a_cron_is_due_when_the_engine_says_so_also_when_clocks_change(temporal_client: Client, zone: str):
    for number, (cron, begin) in enumerate(product(CRONS, (SPRING, AUTUMN))):
        subscription = await made(temporal_client, f"c{number}", cron=cron, time_zone=zone)
        days = 14 if cron.startswith("*/") else 45
        assert [] == await differing(temporal_client, subscription, begin, days), (cron, begin)


@pytest.mark.parametrize(("every", "offset"), [(1, 0), (2, 1), (60, 0), (3600, 17), (86_400, 3600), (7 * 86_400, 5)])
async def test_an_interval_is_due_when_the_engine_says_so(temporal_client: Client, every: int, offset: int):
    subscription = await made(temporal_client, "interval", every_s=every, offset_s=offset)
    assert [] == await differing(temporal_client, subscription, AUTUMN, 30)


async def test_a_leap_day_is_due_when_the_engine_says_so(temporal_client: Client):
    subscription = await made(temporal_client, "leap", cron="59 23 29 2 *")
    assert [] == await differing(temporal_client, subscription, AUTUMN, 9 * 366)
