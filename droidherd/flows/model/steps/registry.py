"""The steps that there are, in the order in which messages name them. A new step is listed here and nowhere else."""

from pydantic import TypeAdapter

from droidherd.flows.model.steps.apps import ClearAppStep, StartAppStep, StopAppStep
from droidherd.flows.model.steps.base import STEP_TYPES, AnyStep, FewSteps, Step, Steps, register
from droidherd.flows.model.steps.blocks import OptionalStep, RepeatStep, UseStep, WhenStep
from droidherd.flows.model.steps.changes import DeleteStep, InstallStep, PutStep, SetStep, UninstallStep
from droidherd.flows.model.steps.handlers import CallStep
from droidherd.flows.model.steps.people import AskStep, FailStep, RescheduleStep
from droidherd.flows.model.steps.screen import GotoStep, ReadStep, ScreenshotStep, SleepStep, WaitStep
from droidherd.flows.model.steps.touch import KeyStep, SwipeStep, TapStep, TypeStep

__all__ = ["STEPS", "STEP_TYPES", "FewSteps", "Steps"]

register(
    StartAppStep, StopAppStep, ClearAppStep, TapStep, TypeStep, SwipeStep, KeyStep, WaitStep, ScreenshotStep, SleepStep,
    OptionalStep, RepeatStep, AskStep, ReadStep, WhenStep, RescheduleStep, FailStep,
    SetStep, PutStep, DeleteStep, InstallStep, UninstallStep, CallStep, GotoStep, UseStep,
)  # fmt: skip

STEPS: TypeAdapter[tuple[Step, ...]] = TypeAdapter(tuple[AnyStep, ...])
"""Parses the steps of a plan."""
