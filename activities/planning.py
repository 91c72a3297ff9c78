"""Turns a submission into a plan."""

from collections.abc import Callable

from temporalio import activity

from activities.failures import translated
from droidherd.contracts.plan import TaskPhysics
from droidherd.contracts.stage import Planned, PlanRequest
from droidherd.flows.catalogue import Catalogue


class PlanningActivities:
    """Plans with one worker's flows and times."""

    def __init__(self, catalogue: Catalogue, physics: TaskPhysics) -> None:
        """`physics` go with every plan, since a workflow reads no settings."""
        self._catalogue = catalogue
        self._physics = physics

    @activity.defn(name="plan_task", no_thread_cancel_exception=True)
    @translated
    def plan_task(self, request: PlanRequest) -> Planned:
        plan = self._catalogue.plan(request.spec.type, request.spec.params, request.spec.policy)
        return Planned(plan=plan, physics=self._physics)

    def all(self) -> list[Callable[..., object]]:
        return [self.plan_task]
