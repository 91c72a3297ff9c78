"""What a flow knows of its app's screens, as it goes into a task's history."""

from pydantic import Field, JsonValue

from droidherd.contracts.base import Contract


class ScreenMap(Contract):
    """Screens, and the ways between them, with the task's parameters in them. In the words of flows, like steps."""

    screens: dict[str, JsonValue] = Field(default_factory=dict)
    routes: tuple[JsonValue, ...] = ()
    interrupts: tuple[JsonValue, ...] = ()
    lost: JsonValue = None
    """What is done where no screen is recognised, or no route leads on."""
    guards: dict[str, JsonValue] = Field(default_factory=dict)
