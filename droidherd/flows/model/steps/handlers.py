"""The step that calls a handler."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field, JsonValue
from typing_extensions import override

from droidherd.domain.task.things import State
from droidherd.flows.model.part import Complaint, Place
from droidherd.flows.model.scalars import Name
from droidherd.flows.model.steps.base import LintScope, NamedThing, Payloads, Step, StepContext, Subjects


class CallStep(Step):
    """Call a handler: a body in Python, for what flows cannot say."""

    word: ClassVar[str] = "call"
    opens_screen: ClassVar[bool] = True
    acts: ClassVar[bool] = True
    changes_things: ClassVar[bool] = True
    on_the_way: ClassVar[bool] = False
    by_the_plan: ClassVar[str] = "undo"
    by: Name = Field(description="its name")
    params: dict[Name, JsonValue] = Field(default_factory=dict, alias="with", max_length=50)
    undo: bool = Field(default=False, description="take it back; written by the plan")

    @override
    def lint(self, place: Place, scope: LintScope) -> Iterator[Complaint]:
        """Every handler that is called is there and takes what it is given."""
        if scope.block not in {"steps", "undo"}:
            return
        what, fix = scope.handlers.problem(self.by, self.params)
        if what:
            yield Complaint(place, f"call {self.by[:60]}: {what}", fix)
        elif scope.account and scope.handlers.changes(self.by, self.params):
            what = f"call {self.by} changes the emulator, and the effect of its stage is in the account"
            yield Complaint(place, what, "leave `effect: account` out, or put it into a stage of its own")

    @override
    def run(self, context: StepContext, path: str) -> None:
        """A handler looks by itself what is done; but when the stage had gone on after it, it is left alone."""
        if not context.is_behind(f"{path}."):
            context.call_handler(self, path)

    @override
    def subjects(self, handlers: Subjects) -> list[NamedThing]:
        return [(each.thing, each.name) for each in handlers.changes(self.by, self.params)]

    @override
    def states(self, payload: Payloads, handlers: Subjects) -> list[tuple[str, str, State]]:
        found = handlers.changes(self.by, self.params)
        return [(each.thing, each.name, each.state) for each in found if each.state is not None]
