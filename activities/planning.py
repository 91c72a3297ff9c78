"""Turns a submission into a plan."""

from collections.abc import Callable

from temporalio import activity

from activities.errors import translated
from droidherd.contracts.plan import Plan, TaskTiming
from droidherd.contracts.stage import Planned, PlanRequest
from droidherd.contracts.tasks import TaskSpec
from droidherd.credentials import AccountReader
from droidherd.domain.errors import BadParametersError
from droidherd.flows.catalogue import Catalogue
from droidherd.flows.model.secret import secrets_of


class PlanningActivities:
    """Plans with one worker's flows and times."""

    def __init__(self, catalogue: Catalogue, timing: TaskTiming, accounts: AccountReader) -> None:
        """`timing` go with every plan, since a workflow reads no settings."""
        self._catalogue = catalogue
        self._timing = timing
        self._accounts = accounts

    @activity.defn(name="plan_task", no_thread_cancel_exception=True)
    @translated
    def plan_task(self, request: PlanRequest) -> Planned:
        spec = request.spec
        plan = self._catalogue.plan(spec.type, spec.params, spec.policy, spec.account)
        return Planned(plan=self._for_account(plan, spec), timing=self._timing)

    def _for_account(self, plan: Plan, spec: TaskSpec) -> Plan:
        """Where its account is bound to. What it is to type must be somewhere, or nothing begins."""
        if not spec.account:
            return plan
        wanted = secrets_of(plan)
        record = self._accounts.read(spec.account)
        if not set(wanted) <= set(record.credentials if record else ()):
            record = self._accounts.read(spec.account, fresh=True)
        missing = [name for name in wanted if record is None or name not in record.credentials]
        if missing:
            remedy = f"droidherd account set {spec.account} --credential {missing[0]}=env:NAME"
            raise BadParametersError(f"has no credential {missing[0]}", to=f"account {spec.account}", remedy=remedy)
        return plan.model_copy(update={"emulator": record.emulator if record else ""})

    def all(self) -> list[Callable[..., object]]:
        return [self.plan_task]
