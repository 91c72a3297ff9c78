"""`droidherd emulator`: emulators are found, join this host, are looked at and acted upon. `droidherd host list`."""

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from droidherd.adb.client import AdbClient
from droidherd.adb.server import AdbServer
from droidherd.cli import output, values
from droidherd.cli.client import ApiClient, Document, detail_of, rows_of
from droidherd.cli.errors import CliError, NotReadyError, invalid_emulator
from droidherd.cli.local import ports
from droidherd.cli.local.layout import Layout
from droidherd.cli.options import ApiOptions, Data, Json, Reason, Url, settings_of, signature, with_options
from droidherd.controllers import addresses
from droidherd.controllers.addresses import name_of, plain_address
from droidherd.controllers.model import NONE, ControllerError, Lists
from droidherd.controllers.registry import BUILT_IN, VENDORS, Controllers
from droidherd.controllers.run import findable
from droidherd.domain.messages import EmulatorStatus
from droidherd.emulator import discovery
from droidherd.emulator.discovery import Discovery, FoundEmulator
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.processes import children
from droidherd.settings import Settings, load

POLL_S = 0.3
LIST_COLUMNS = ("emulator_id", "state", "address", "host", "pool", "task", "evidence")
LIST_HEAD = ("emulator", *LIST_COLUMNS[1:])
UP = "up"
USUAL_PORT = 5037
"""Where the adb server of a person listens."""
LOOPBACK = "127.0.0.1"
PORTS_LIMIT = 100

app = typer.Typer()
hosts = typer.Typer()

EmulatorId = Annotated[str, typer.Argument(help="Its emulator_id.", metavar="EMULATOR")]


@app.command(
    "list", epilog="Examples: droidherd emulator list   |   droidherd emulator list --state quarantined --json"
)
@with_options
def list_(
    state: Annotated[EmulatorStatus | None, typer.Option(help="Only in this state.")] = None,
    pool: Annotated[str, typer.Option(help="Of this pool. Default: that of the API.")] = "",
    *,
    everything: Annotated[bool, typer.Option("--all", help="Those that were forgotten, too.")] = False,
    api_options: ApiOptions,
) -> None:
    """List the emulators of a pool: state, host, and the task that holds each."""
    with api_options.open() as api:
        found = rows_of(api.get("/api/emulators", state=state, pool=pool), "emulators")
    if not everything and state is None:
        found = [one for one in found if one.get("state") != EmulatorStatus.RETIRED]
    if not api_options.url:  # a pool does not know addresses; this host knows its own
        listed = {one.emulator_id: one.address for one in Inventory(load(data=api_options.data).data).load()}
        found = [{**one, "address": one.get("address") or listed.get(str(one.get("emulator_id")), "")} for one in found]
    rows = [[str(one.get(name) or "") for name in LIST_COLUMNS] for one in found]
    api_options.show({"emulators": found}, output.table(LIST_HEAD, rows))


@app.command(epilog="Examples: droidherd emulator show phone-1   |   droidherd emulator show phone-1 --json")
@with_options
def show(emulator: EmulatorId, api_options: ApiOptions) -> None:
    """Show one emulator: what it is, what holds it, what was found wrong with it."""
    with api_options.open() as api:
        found = api.get(f"/api/emulators/{emulator}")
    labels = " ".join(f"{name}={value}" for name, value in (found.get("labels") or {}).items())
    shown = {name.replace("_", " "): value for name, value in {**found, "labels": labels}.items() if name != "id"}
    api_options.show(found, output.pairs(shown))


@hosts.command("list", epilog="Examples: droidherd host list   |   droidherd host list --json")
@with_options
def list_hosts(api_options: ApiOptions) -> None:
    """List the hosts that have emulators, with how many are up and how many run a task."""
    with api_options.open() as api:
        found = rows_of(api.get("/api/emulators"), "emulators")
    counts: dict[str, dict[str, int]] = {}
    for one in found:
        count = counts.setdefault(str(one.get("host") or ""), {"emulators": 0, "up": 0, "busy": 0})
        count["emulators"] += 1
        count["up"] += one.get("state") == UP
        count["busy"] += bool(one.get("task"))
    rows = [{"host": host, **count} for host, count in sorted(counts.items())]
    columns = ("host", "emulators", "up", "busy")
    api_options.show({"hosts": rows}, output.table(columns, [[str(one[name]) for name in columns] for one in rows]))


@app.command(
    epilog="Examples: droidherd emulator discover   |   droidherd emulator discover --connect   |   "
    "droidherd emulator discover --host 10.0.0.7",
)
def discover(
    *,
    host: Annotated[str, typer.Option(help="Whose ports are looked at.", metavar="HOST")] = LOOPBACK,
    port: Annotated[list[int] | None, typer.Option(help="Beside the known ones; may be repeated.", min=1)] = None,
    connect: Annotated[bool, typer.Option("--connect", help="Let all that are new join this host.")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Find emulators: on the ports that vendors use, in the usual adb server, in MuMu's and LDPlayer's lists."""
    settings = settings_of(data)
    inventory = Inventory(settings.data.absolute())
    if connect:
        must_be_read(settings)
    if len(port or ()) > PORTS_LIMIT:
        raise CliError(f"{len(port or ())} ports are too many", remedy=f"at most {PORTS_LIMIT}", code=2)
    seen = search(settings, inventory, host, tuple(port or ()))
    added = discovery.entries(seen.found, lambda name: _is_ours(settings, name)) if connect else ()
    if added:
        inventory.add(*added)
    if as_json:
        output.emit({
            "emulators": [_document(one) for one in seen.found],
            "troubles": list(seen.troubles),
            "added": [one.emulator_id for one in added],
        })  # fmt: skip
        return
    rows = [[one.emulator_id, one.address, one.state, one.vendor, _who(one), _place(one)] for one in seen.found]
    output.out.print(output.table(["emulator", "address", "state", "vendor", "what", "here"], rows))
    for trouble in seen.troubles:
        output.out.print(trouble, markup=False)
    if added:
        output.out.print(f"added: {', '.join(one.emulator_id for one in added)}", markup=False)


def search(settings: Settings, inventory: Inventory, host: str, ports: tuple[int, ...] = ()) -> Discovery:
    """With an adb server of its own: a look disturbs nobody who works."""
    known = inventory.load()
    knocked = discovery.knock(host, dict.fromkeys((*ports, *addresses.known_ports())))
    local = host == LOOPBACK
    others = discovery.list_serials(AdbClient(USUAL_PORT)) if local else ()
    serials = dict.fromkeys((*(entry.address for entry in known), *knocked, *others))
    with (
        tempfile.TemporaryDirectory() as home,
        AdbServer(0, Path(home), settings.adb.program, environment=children.adb_environment(os.environ)) as server,
    ):
        tools = tools_of(settings) if local else {}
        return discovery.look(server.client(), serials, tools, known, settings.tool_environment)


def tools_of(settings: Settings) -> dict[str, Lists]:
    """The vendors' tools that are installed here."""
    known = settings.controllers
    return {
        entry.name: entry.lister(known)
        for entry in VENDORS
        if entry.lister is not None and findable(entry.program(known))
    }


def _is_ours(settings: Settings, name: str) -> bool:
    try:
        from droidherd.recovery.build import controllers_of

        return controllers_of(settings).find(name) is not None
    except ControllerError:
        return False


def _document(one: FoundEmulator) -> dict[str, object]:
    names = ("emulator_id", "address", "state", "known", "vendor", "title", "controller", "instance", "serialno",
             "model", "android")  # fmt: skip
    return {**{name: getattr(one, name) for name in names}, "also": list(one.also)}


def _who(one: FoundEmulator) -> str:
    words = [one.title or one.model, f"Android {one.android}" if one.android else ""]
    return ", ".join(word for word in words if word)


def _place(one: FoundEmulator) -> str:
    where = "in the list" if one.known else "new"
    return where if one.controller == NONE else f"{where}, {one.controller} {one.instance}"


@app.command(
    epilog="Examples: droidherd emulator connect emulator-5554   |   "
    "droidherd emulator connect 10.0.0.7:16384 --label app=x   |   "
    "droidherd emulator connect 127.0.0.1:16416 --controller mumu --instance 1",
)
def connect(
    address: Annotated[str, typer.Argument(help="Where adb reaches the emulator.", metavar="HOST:PORT")],
    *,
    name: Annotated[str, typer.Option(help="Its emulator_id. Default: made from the address.")] = "",
    label: Annotated[
        list[Any] | None,
        typer.Option(
            help="name=value; `name=` takes one away; may be repeated.", metavar="NAME=VALUE", parser=values.pair
        ),
    ] = None,
    controller: Annotated[
        str, typer.Option(help=f"Who starts and stops it: {', '.join(BUILT_IN)}, none, or one of yours.")
    ] = "",
    instance: Annotated[str, typer.Option(help="What its vendor calls it: a number, or the name of an AVD.")] = "",
    wait: Annotated[
        float,
        typer.Option(help="How long to wait until it is up; 0s: not at all.", metavar="TIME", parser=values.duration_s),
    ] = "60s",  # pyright: ignore[reportArgumentType] - Typer reads it as it reads what people write
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Let one emulator join this host, and wait until tasks can run on it."""
    settings = settings_of(data)
    must_be_read(settings)
    wanted = ConnectRequest(dict(label or ()), name, controller, instance)
    from droidherd.recovery.build import controllers_of

    entry = enlist(Layout(settings.data.absolute()), address, wanted, controllers_of(settings))
    found: Document = entry.model_dump()
    if wait > 0:
        with ApiClient.of(settings, url) as api:
            found = wait_up(api, entry, seconds=wait)
    if as_json:
        output.emit(found)
    else:
        state = found.get("state", "in the list; it joins when it answers and a worker of this instance runs")
        output.out.print(f"{entry.emulator_id} at {entry.address}: {state}", markup=False)


def must_be_read(settings: Settings) -> None:
    """CliError where no instance has ever been: nobody would read what is written there."""
    data = settings.data.absolute()
    if not data.is_dir():
        raise CliError(
            f"there is no instance here: no data directory {data}",
            remedy="start one with `droidherd up`, go to the folder of one, or name it with --data",
        )


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """What to write down about an emulator. An empty field stays as it was."""

    labels: Mapping[str, str]
    """An empty value removes the label."""
    name: str = ""
    controller: str = ""
    instance: str = ""


def enlist(layout: Layout, address: str, wanted: ConnectRequest, controllers: Controllers) -> InventoryEntry:
    """Write it into the host's list; the worker reads that list again and again."""
    address = plain_address(address)
    inventory = Inventory(layout.data)
    known = next((one for one in inventory.load() if one.address == address), None)
    controllers.find(wanted.controller or (known.controller if known else NONE))
    kept = known.model_dump(exclude={"labels"}) if known else {"emulator_id": name_of(address), "address": address}
    answer = {"emulator_id": wanted.name, "controller": wanted.controller, "instance": wanted.instance}
    whole = {**(known.labels if known else {}), **wanted.labels}
    labels = {label: value for label, value in whole.items() if value}
    try:
        entry = InventoryEntry.model_validate(
            {**kept, **{name: value for name, value in answer.items() if value}, "labels": labels}
        )
    except ValidationError as error:
        raise invalid_emulator(error) from error
    if known is not None and known.emulator_id != entry.emulator_id:
        inventory.remove(known.emulator_id)
    inventory.add(entry)
    return entry


def wait_up(api: ApiClient, entry: InventoryEntry, *, seconds: float) -> Document:
    """Until tasks can run on it. NotReadyError says how far it came, and why no further."""
    name, until = entry.emulator_id, time.monotonic() + seconds
    last: Document = {}
    while time.monotonic() < until:
        rows = rows_of(api.get("/api/emulators"), "emulators")
        last = next((one for one in rows if one.get("emulator_id") == name), last)
        if last.get("state") == UP:
            return last
        time.sleep(POLL_S)
    state = str(last.get("state") or "not seen yet")
    raise NotReadyError(
        f"{name} is {state} after {seconds:.0f} s: {last.get('evidence') or _why_unseen(entry, state)}",
        remedy="it stays in this host's list and joins when it can; `droidherd logs worker` says more, "
        f"`droidherd emulator forget {name}` takes it off",
    )


def _why_unseen(entry: InventoryEntry, state: str) -> str:
    host, _, port = entry.address.rpartition(":")
    if not ports.answers(int(port), host.strip("[]")):
        return f"nothing listens at {entry.address}; is it on, with ADB enabled?"
    if state != "not seen yet":
        return f"something listens at {entry.address}, and has not passed the checks yet"
    return f"something listens at {entry.address}, but no worker reports it; does one run with this data directory?"


# --- one emulator -----------------------------------------------------------------------------------------------


def _add(action: str, about: str, epilog: str) -> None:
    """An action that takes nothing but a reason."""

    @app.command(action, help=about, epilog=epilog)
    @with_options
    def command(emulator: EmulatorId, reason: Reason = "", *, api_options: ApiOptions) -> None:
        with api_options.open() as api:
            answer = api.post(f"/api/emulators/{emulator}/{action}", signature(reason))
        api_options.show(answer, f"{emulator}: {detail_of(answer) or f'{action} requested'}")


@app.command(epilog="Example: droidherd emulator forget phone-1")
def forget(emulator: EmulatorId, data: Data = None, as_json: Json = False) -> None:
    """Take it off this host's list: it gets no more tasks, and what runs there moves."""
    settings = settings_of(data)
    inventory = Inventory(settings.data.absolute())
    known = {one.emulator_id: one for one in inventory.load()}
    if emulator not in known:
        raise CliError(
            f"no emulator {emulator!r} is in the list of the instance in {settings.data.absolute()}",
            remedy=f"there are: {', '.join(known) or 'none'}",
        )
    inventory.remove(emulator)
    if as_json:
        output.emit(known[emulator].model_dump())
    else:
        left = f"{emulator} at {known[emulator].address}: taken off the list"
        output.out.print(f"{left}; `droidherd emulator list --all` shows it as retired", markup=False)


_add(
    "restart",
    "Switch it off and on through its controller, or on if it is off. What runs there moves: drain it first.",
    "Example: droidherd emulator restart phone-1",
)
_add(
    "recover",
    "Try every recovery step again, from reconnecting to restarting.",
    "Example: droidherd emulator recover phone-1",
)
_add(
    "quarantine",
    "Keep every task away from it until it is released. What runs there moves.",
    'Example: droidherd emulator quarantine phone-1 --reason "flickers"',
)
_add(
    "release",
    "Take it out of quarantine; it passes its boot gate first if it must.",
    "Example: droidherd emulator release phone-1",
)
_add(
    "drain",
    "Start nothing new on it; what runs may end.",
    'Example: droidherd emulator drain phone-1 --reason "new image"',
)
_add(
    "undrain",
    "End a drain.",
    "Example: droidherd emulator undrain phone-1",
)
