"""What a task is started with: id policies, attributes for lists, a memo for readers without a worker."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)

from api.engine import Request
from droidherd.contracts import names
from droidherd.contracts.names import Attribute
from droidherd.contracts.queue import DispatcherInput, QueueSettings
from droidherd.contracts.tasks import Again, TaskSpec, TaskView
from droidherd.domain.lifecycle import TaskState

MEMO_REQUEST = "request"
MEMO_KEY = "key"
KEYWORD = {one: SearchAttributeKey.for_keyword(one.value) for one in Attribute}
_TAGS = SearchAttributeKey.for_keyword_list(Attribute.TAGS.value)


@dataclass(frozen=True, slots=True)
class House:
    """What the gateway needs to know about this installation."""

    pool: str
    region: str
    workflow_task_s: float
    verdict_s: float
    answer_s: float
    dispatcher: DispatcherInput
    queue: QueueSettings


def dispatcher_options(house: House) -> dict[str, Any]:
    """For the dispatcher of our own pool, whether it runs already or not."""
    return {
        "id": names.dispatcher_id(house.pool),
        "task_queue": names.FLEET_QUEUE,
        "id_conflict_policy": WorkflowIDConflictPolicy.USE_EXISTING,
        "task_timeout": timedelta(seconds=house.workflow_task_s),
        "static_summary": f"dispatcher of pool {house.pool}",
    }


def start_options(request: Request, house: House) -> dict[str, Any]:
    """For a task that was never there before."""
    spec = request.spec
    memo: dict[str, Any] = {names.MEMO_TASK: _first_view(request.task_id, spec), MEMO_REQUEST: request.digest}
    return {
        **_options(request.task_id, spec, house, TaskState.PENDING),
        "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
        "memo": {**memo, **({MEMO_KEY: request.key} if request.key else {})},
    }


def again_options(again: Again, spec: TaskSpec, house: House, subscription: str) -> dict[str, Any]:
    """For another run of a task that ended. It still belongs to the subscription that started it, if one did."""
    past = again.past
    state = TaskState.ROLLBACK_PENDING if again.rollback else TaskState.PENDING
    first = past.model_copy(update={"state": state, "ended_at": None, "events": ()})
    return {
        **_options(past.task_id, spec, house, state, subscription),
        "id_reuse_policy": WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        "memo": {names.MEMO_TASK: first.model_dump(mode="json", exclude_defaults=True)},
    }


def _options(task_id: str, spec: TaskSpec, house: House, state: TaskState, subscription: str = "") -> dict[str, Any]:
    whom = f" for {spec.account}" if spec.account else ""
    return {
        "id": task_id,
        "task_queue": names.QUEUE,
        "id_conflict_policy": WorkflowIDConflictPolicy.FAIL,
        "task_timeout": timedelta(seconds=house.workflow_task_s),
        "search_attributes": _attributes(task_id, spec, house.region, state, subscription),
        "static_summary": f"{spec.type}{whom}",
    }


def _attributes(
    task_id: str, spec: TaskSpec, region: str, state: TaskState, subscription: str
) -> TypedSearchAttributes:
    keywords = {
        Attribute.TASK_STATE: state.value,
        Attribute.TASK_TYPE: spec.type,
        Attribute.ACCOUNT_ID: spec.account,
        Attribute.POOL_ID: spec.pool,
        Attribute.LANE: names.lane_of(spec.lane, spec.account),
        Attribute.REGION: region,
        Attribute.SUBSCRIPTION_ID: subscription,
    }
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(KEYWORD[name], value) for name, value in keywords.items() if value
    ]
    if tags := spec.tags(task_id):
        pairs.append(SearchAttributePair(_TAGS, tags))
    return TypedSearchAttributes(pairs)


def _first_view(task_id: str, spec: TaskSpec) -> dict[str, Any]:
    """What is known of a task before its workflow ran for the first time."""
    now = datetime.now(UTC)
    view = TaskView(
        task_id=task_id,
        state=TaskState.PENDING,
        created_at=now,
        updated_at=now,
        lane=names.lane_of(spec.lane, spec.account),
        **spec.model_dump(
            include={"type", "account", "pool", "priority", "labels", "not_before", "expires_at", "chain"}
        ),
    )
    return view.model_dump(mode="json", exclude_defaults=True)
