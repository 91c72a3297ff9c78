"""Steps that start, stop and clear apps."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field, StringConstraints, WithJsonSchema
from typing_extensions import override

from droidherd.domain.ports import Acted
from droidherd.domain.task.things import PACKAGE
from droidherd.flows.model.part import Complaint, Place
from droidherd.flows.model.steps.base import ActStep, LintScope, PlannedAct, StepContext

APP_PATTERN = rf"^{PACKAGE}(/[A-Za-z0-9_.$]+)?$"
App: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=APP_PATTERN, max_length=200),
    WithJsonSchema({"type": "string", "pattern": rf"({APP_PATTERN})|\$\{{", "maxLength": 200}),
]


class AppStep(ActStep):
    """What the steps about an app share."""

    app: App | None = None

    @override
    def lint(self, place: Place, scope: LintScope) -> Iterator[Complaint]:
        if self.app is None and not scope.app:
            yield Complaint(place, f"{self.word} does not say which app", "add app: <package> to the flow")

    @override
    def run(self, context: StepContext, path: str) -> None:
        app = self.app or ""
        act = partial(self._act, context, path, app)
        context.perform(
            PlannedAct(path, f"{self.word.removesuffix('_app')} {app}", lambda: act, self.then, harmless=True)
        )

    def _act(self, context: StepContext, path: str, app: str) -> Acted:
        raise NotImplementedError


class StartAppStep(AppStep):
    """Bring an app to the front."""

    word: ClassVar[str] = "start_app"
    opens_screen: ClassVar[bool] = True
    example: ClassVar[str] = "start_app: {}, or start_app: {app: com.example.game}"
    app: App | None = Field(default=None, description="package, or package/activity; default: the flow's app")

    @override
    def _act(self, context: StepContext, path: str, app: str) -> Acted:
        return context.hands.start_app(path, app)


class StopAppStep(AppStep):
    """Force-stop an app."""

    word: ClassVar[str] = "stop_app"
    example: ClassVar[str] = "stop_app: {}, or stop_app: {app: com.example.game}"

    @override
    def _act(self, context: StepContext, path: str, app: str) -> Acted:
        return context.hands.stop_app(path, app)


class ClearAppStep(AppStep):
    """Take an app's data away, as if it was installed just now. No rollback brings it back."""

    word: ClassVar[str] = "clear_app"
    example: ClassVar[str] = "clear_app: {}"

    @override
    def _act(self, context: StepContext, path: str, app: str) -> Acted:
        return context.hands.clear_app(path, app)
