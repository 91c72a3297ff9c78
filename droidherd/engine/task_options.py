"""What a task's workflow is started with: id policies, search attributes, and a memo that is read without a worker."""

from collections.abc import Mapping
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

from droidherd.contracts import names
from droidherd.contracts.names import Attribute
from droidherd.contracts.tasks import Rerun, TaskSpec, TaskView
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.connection import EngineConfig

MEMO_KEY = "key"
MEMO_START = "start"
"""The request that started this run: one that is repeated, since its answer was lost, meets itself there."""
KEYWORD = {one: SearchAttributeKey.for_keyword(one.value) for one in Attribute}
_TAGS = SearchAttributeKey.for_keyword_list(Attribute.TAGS.value)


@dataclass(frozen=True, slots=True)
class NewTask:
    """One submission, ready to be started."""

    task_id: str
    spec: TaskSpec
    digest: str
    """Of the request's body: the same key with another body is a mistake."""
    key: str
    """Digest of the idempotency key; empty: a repeat is a conflict."""
    update_id: str
    """Of the question for the admission: Temporal answers the same id with the answer it gave before."""


def first_run(new: NewTask, config: EngineConfig, *, refused_before: bool = False) -> dict[str, Any]:
    """Options of a task whose id was never used, or only by a submission that was refused."""
    task_id, spec = new.task_id, new.spec
    memo: dict[str, Any] = {names.MEMO_TASK: _first_view(task_id, spec), names.MEMO_REQUEST: new.digest}
    reuse = WorkflowIDReusePolicy
    tags = [*spec.tags(task_id), *([names.RERUN_TAG] if refused_before else [])]
    return {
        **_options(task_id, spec, config, {Attribute.TASK_STATE: TaskStatus.PENDING}, tags),
        # What was refused has failed for Temporal, which so still refuses the id of a task that completed meanwhile.
        "id_reuse_policy": reuse.ALLOW_DUPLICATE_FAILED_ONLY if refused_before else reuse.REJECT_DUPLICATE,
        "memo": {**memo, **({MEMO_KEY: new.key} if new.key else {MEMO_START: new.update_id})},
    }


def another_run(again: Rerun, spec: TaskSpec, config: EngineConfig, subscription: str) -> dict[str, Any]:
    """Options of another run of a task that ended. It keeps the subscription that started the task, if one did."""
    past = again.past
    state = TaskStatus.ROLLBACK_PENDING if again.rollback else TaskStatus.PENDING
    own = {Attribute.TASK_STATE: state, Attribute.SUBSCRIPTION_ID: subscription}
    view = past.model_copy(update={"state": state, "ended_at": None, "events": ()})
    if again.closes:
        own[Attribute.TASK_STATE], view = past.state, past.model_copy(update={"events": ()})
    return {
        **_options(past.task_id, spec, config, own, [*spec.tags(past.task_id), names.RERUN_TAG]),
        "id_reuse_policy": WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        "memo": {names.MEMO_TASK: view.model_dump(mode="json", exclude_defaults=True)},
    }


def keywords(values: Mapping[Attribute, str]) -> TypedSearchAttributes:
    """Search attributes of the values that are not empty."""
    return TypedSearchAttributes(_pairs(values))


def _pairs(values: Mapping[Attribute, str]) -> list[SearchAttributePair[Any]]:
    return [SearchAttributePair(KEYWORD[name], value) for name, value in values.items() if value]


def _options(
    task_id: str, spec: TaskSpec, config: EngineConfig, own: Mapping[Attribute, str], tags: list[str]
) -> dict[str, Any]:
    """`own` attributes are those of this run, and do not follow from the submission."""
    account = f" for {spec.account}" if spec.account else ""
    return {
        "id": task_id,
        "task_queue": names.QUEUE,
        "id_conflict_policy": WorkflowIDConflictPolicy.FAIL,
        "task_timeout": timedelta(seconds=config.workflow_task_s),
        "search_attributes": _attributes(spec, config.region, own, tags),
        "static_summary": f"{spec.type}{account}",
        "static_details": spec.details(),
    }


def _attributes(spec: TaskSpec, region: str, own: Mapping[Attribute, str], tags: list[str]) -> TypedSearchAttributes:
    pairs = _pairs(
        {
            Attribute.TASK_TYPE: spec.type,
            Attribute.ACCOUNT_ID: spec.account,
            Attribute.POOL_ID: spec.pool,
            Attribute.LANE: names.lane_of(spec.lane, spec.account),
            Attribute.REGION: region,
            **own,
        }
    )
    if tags:
        pairs.append(SearchAttributePair(_TAGS, tags))
    return TypedSearchAttributes(pairs)


def _first_view(task_id: str, spec: TaskSpec) -> dict[str, Any]:
    """What is known of a task before its workflow ran for the first time."""
    now = datetime.now(UTC)
    view = TaskView(
        task_id=task_id,
        state=TaskStatus.PENDING,
        created_at=now,
        updated_at=now,
        lane=names.lane_of(spec.lane, spec.account),
        **spec.model_dump(
            include={"type", "account", "pool", "priority", "labels", "not_before", "expires_at", "chain"}
        ),
    )
    return view.model_dump(mode="json", exclude_defaults=True)
