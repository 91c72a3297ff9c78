"""`droidherd lanes`: shown, paused, set, given back to the settings."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from droidherd.cli import output, tasks
from droidherd.cli.door import Door, detail_of, rows_of
from droidherd.cli.errors import CliError
from droidherd.cli.options import QUEUE, Data, Json, Reason, Url, opened, signature

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class Orders:
    """What is to become of a lane."""

    pause: bool | None
    capacity: int | None
    order: str
    ageing: int
    reset: bool

    def of_one(self) -> bool:
        """Whether they are about one lane only."""
        return self.capacity is not None or bool(self.order) or self.reset

    def given(self, door: Door, command: dict[str, Any]) -> Iterator[str]:
        """Give them, one after the other. What was said to each that was more than yes."""
        if self.reset:
            by = {name: value for name, value in command.items() if name != "lane"}
            yield detail_of(door.delete(f"/api/queue/lanes/{command['lane']}", by))
        if self.capacity is not None:
            yield detail_of(door.post("/api/queue/capacity", {**command, "capacity": self.capacity}))
        if self.order:
            yield detail_of(door.post("/api/queue/order", {**command, "order": self.order, "ageing": self.ageing}))
        if self.pause is not None:
            yield detail_of(door.post("/api/queue/pause" if self.pause else "/api/queue/resume", command))


@app.command(
    rich_help_panel=QUEUE,
    epilog="Examples: droidherd lanes   |   droidherd lanes account --capacity 4   |   droidherd lanes x --reset   |   "
    "droidherd lanes --pause --reason night   |   droidherd lanes account --order priority --ageing 20",
)
def lanes(
    lane: Annotated[str, typer.Argument(help="One lane. Default: all of them.", metavar="[LANE]")] = "",
    *,
    pause: Annotated[bool | None, typer.Option("--pause/--resume", help="Grant nothing any more, or again.")] = None,
    capacity: Annotated[int | None, typer.Option(min=0, max=10_000, help="How many may hold an emulator.")] = None,
    order: Annotated[str, typer.Option(help="arrival or priority: who goes first.", metavar="ORDER")] = "",
    ageing: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="By priority: how many may overtake one per step. 0: all.")
    ] = 0,
    reset: Annotated[bool, typer.Option("--reset", help="Take back what was set by hand, a pause included.")] = False,
    reason: Reason = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Show the lanes of the queue; pause or resume them; set how many of one may run at once, and who goes first."""
    orders = Orders(pause, capacity, order, ageing, reset)
    if orders.of_one() and not lane:
        raise typer.BadParameter("name the lane that is to be set", param_hint="LANE")
    command = {"lane": lane, **signature(reason)}
    with opened(data, url) as door:
        said = [one for one in orders.given(door, command) if one]
        found = [one for one in rows_of(door.get("/api/queue"), "lanes") if lane in ("", one["name"])]
    if lane and not found and not said and not reset:  # one that was reset and is empty is forgotten
        raise CliError(f"there is no lane {lane}", remedy="a lane begins with its first task, or when it is set")
    if as_json:
        output.emit({"lanes": found, "detail": "; ".join(said)})
        return
    output.out.print(tasks.lanes(found))
    for one in said:
        output.out.print(one, markup=False)
