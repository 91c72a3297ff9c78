"""`associate`: bind an account to an emulator, or to the profile of an app on it. Taken back by a rollback.

The binding is a setting of the emulator, so it goes where the emulator goes. That of the whole emulator is also the
label `account` in its host's inventory, which follows the setting: tasks that require `account=<whom>` get just this
emulator.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import JsonValue, StringConstraints
from typing_extensions import override

from droidherd.contracts.base import Id
from droidherd.domain.errors import CommandFailedError
from droidherd.domain.ports import Wanted
from droidherd.domain.task.things import ABSENT, State
from droidherd.handlers.base import Handler, HandlerContext, Params, Subject

LABEL = "account"


class AssociateParams(Params):
    account: Id
    """The task's own: `Catalogue.plan` refuses any other one."""
    app: Annotated[str, StringConstraints(pattern=r"^([A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+)?$")] = ""
    """Empty: the emulator as a whole."""


class AssociateHandler(Handler[AssociateParams]):
    name: ClassVar[str] = "associate"
    params = AssociateParams

    @override
    def changes(self, params: AssociateParams) -> tuple[Subject, ...]:
        return (Subject("setting", setting_of(params.app), State(params.account)),)

    @override
    def is_done(self, ground: HandlerContext, params: AssociateParams) -> bool:
        return bound_account(ground, params.app) == params.account and (
            bool(params.app) or ground.labels.get(LABEL) == params.account
        )

    @override
    def execute(self, ground: HandlerContext, params: AssociateParams) -> dict[str, JsonValue]:
        if params.app and not ground.things.read("package", params.app).there:
            raise CommandFailedError(f"{params.app} is not installed", rc=1, to=ground.emulator_id)
        ground.doing.make("bind", Wanted("setting", setting_of(params.app), State(params.account)))
        if not params.app:
            _label(ground, params.account)
        if not self.is_done(ground, params):
            raise CommandFailedError(f"the binding to {params.account} did not last", rc=1, to=ground.emulator_id)
        return {"account": params.account, "app": params.app}

    @override
    def rollback(
        self, ground: HandlerContext, params: AssociateParams, before: Mapping[tuple[str, str], State]
    ) -> None:
        """The setting comes back by itself; the label follows it."""
        if not params.app:
            state = before.get(("setting", setting_of("")), ABSENT)
            ground.labels.put(LABEL, state.value)


def _label(ground: HandlerContext, account: str) -> None:
    """Nothing fences the host's list: a try that was given up must not label what was taken back meanwhile."""
    before, lasts = ground.labels.get(LABEL), False
    ground.labels.put(LABEL, account)
    try:
        lasts = bound_account(ground, "") == account
    finally:
        if not lasts:
            ground.labels.put(LABEL, before)


def setting_of(app: str) -> str:
    return f"global/droidherd_account{'.' if app else ''}{app}"


def bound_account(ground: HandlerContext, app: str) -> str:
    """Whom an app on the emulator is bound to; without an app, the emulator itself."""
    return ground.things.read("setting", setting_of(app)).value
