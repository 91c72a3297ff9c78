"""`droidherd flow`: flows are made, judged, tried, recorded, replayed and drawn."""

# What flows are made with is loaded by the command that needs it: every other command would pay for it at its start.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from droidherd.cli import output, values
from droidherd.cli.options import Data, Json, Param, Params, Report, flow_folders, settings_of

if TYPE_CHECKING:
    from droidherd.flows.lint.problems import LintProblem

app = typer.Typer()

Emulator = Annotated[
    str, typer.Option("--emulator", help="Its id or its address. Default: the only one.", metavar="ID|HOST:PORT")
]
Virtual = Annotated[bool, typer.Option("--virtual", help="On a virtual emulator that lasts as long as the command.")]
Secret = Annotated[
    list[Any] | None,
    typer.Option(
        help="A credential it types: name=env:VARIABLE or name=file:/path.", metavar="NAME=PLACE", parser=values.pair
    ),
]
Flows = Annotated[
    Path | None,
    typer.Option("--dir", help="The folder of flows. Default: the first that the instance reads.", metavar="DIR"),
]


@app.command(
    epilog="Examples: droidherd flow new daily_gift --app com.example.game   |   "
    "droidherd flow new daily_gift --from virtual-1"
)
def new(
    name: Annotated[str, typer.Argument(help="Of the flow and its folder.")],
    *,
    folder: Flows = None,
    package: Annotated[str, typer.Option("--app", help="The app it drives.")] = "com.example.herd",
    from_: Annotated[
        str, typer.Option("--from", help="Take a picture of this emulator, to cut images from.", metavar="ID|HOST:PORT")
    ] = "",
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a folder with a flow that lints clean, and lay the schema for editors beside it."""
    from droidherd.flowtools import new as making

    making.check_name(name)
    folder = folder or flow_folders(settings_of(data))[0]
    picture, recorded = _picture(data, from_, folder / making.SCREEN) if from_ else (None, None)
    file = making.write(folder, name, package, recorded)
    if as_json:
        output.emit({"flow": str(file), "schema": str(folder / making.SCHEMA), "screen": str(picture or "")})
        return
    output.out.print(f"{file}", markup=False)
    if picture:
        output.out.print(f"{picture}: cut images from it, and save them beside {file.name}", markup=False)
    output.out.print(f"next: droidherd flow run {file.parent} --virtual", markup=False)


@app.command(epilog="Examples: droidherd flow lint flows   |   droidherd flow lint flows/daily_gift --json")
def lint(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Flows, or folders of flows. Default: those that the instance reads.")
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Say everything that is wrong, with file, line and fix. Exit code 1 if there is an error."""
    from droidherd.flows.lint import judge as linting
    from droidherd.flows.lint.problems import errors_of

    problems = linting.lint(paths or flow_folders(settings_of(data)))
    if as_json:
        output.emit({"problems": [_document(one) for one in problems], "valid": not errors_of(problems)})
    else:
        for one in problems:
            output.out.print(str(one), markup=False)
        if not problems:
            output.out.print("nothing is wrong")
    if errors_of(problems):
        raise typer.Exit(1)


@app.command(
    epilog="Examples: droidherd flow run flows/daily_gift --virtual   |   "
    "droidherd flow run daily_gift --emulator virtual-1 --account ann   |   "
    "droidherd flow run sign_in --emulator 127.0.0.1:5555 --account ann --secret password=env:PASSWORD"
)
def run(
    flow: Annotated[str, typer.Argument(help="Its folder, or its name.", metavar="PATH|NAME")],
    *,
    account: Annotated[str, typer.Option(help="Whom it acts for, if the flow acts for an account.")] = "",
    emulator: Emulator = "",
    virtual: Virtual = False,
    param: Param = None,
    params: Params = None,
    secret: Secret = None,
    answer: Annotated[
        list[str] | None, typer.Option(help="Of its questions, in their order. Default: they are asked here.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Where the evidence goes: a folder that is empty, or not there. Default: below the data."),
    ] = None,
    junit: Report = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Try a flow on one emulator, without Temporal: nothing of it is durable. Exit code 0 only if it completed.

    Refused while a task holds the emulator; a task that comes meanwhile takes it over.
    """
    from droidherd.cli.commands import flow_runs
    from droidherd.cli.junit import write

    choices = flow_runs.FlowRunOptions(
        flow,
        {**(params or {}), **dict(param or ())},
        flow_runs.secrets_of(secret or ()),
        account,
        emulator,
        virtual,
        keep,
        as_json,
        tuple(answer or ()),
    )
    done = flow_runs.run(settings_of(data), choices)
    if junit is not None:
        write(junit, "flows", [flow_runs.junit_case(flow, done)])
    if as_json:
        output.emit({**done.document(), "warnings": [_document(one) for one in done.warnings]})
    else:
        flow_runs.show(done)
    if not done.completed:
        raise typer.Exit(1)


@app.command(
    epilog="Examples: droidherd flow record daily_gift --app com.example.game --fresh   |   "
    "droidherd flow record daily_gift --emulator 127.0.0.1:5555"
)
def record(
    name: Annotated[str, typer.Argument(help="Of the flow that is made.")],
    *,
    folder: Flows = None,
    package: Annotated[str, typer.Option("--app", help="The app it drives: it is stopped and started first.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Take the app's data away at the beginning.")] = False,
    emulator: Emulator = "",
    virtual: Virtual = False,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Turn what you do on a live emulator into a flow with its images. Exit code 0 only if it replays as recorded.

    A page on this machine shows the screen; what you do there is done on the emulator and written down.
    """
    from droidherd.cli.commands import flow_recording

    settings = settings_of(data)
    root = folder or flow_folders(settings)[0]
    session = flow_recording.RecordOptions(name, root, package, fresh, emulator, virtual, browser)
    done = flow_recording.record(settings, session)
    if as_json:
        output.emit(
            {
                "flow": str(done.file),
                "recording": str(done.folder),
                "notes": list(done.notes),
                "problems": [_document(one) for one in done.problems],
                "differences": [str(one) for one in done.differences],
            }
        )
    else:
        flow_recording.show(done)
    if not done.good:
        raise typer.Exit(1)


@app.command(
    epilog="Examples: droidherd flow replay .droidherd/runs/daily_gift-20260102-030405   |   "
    "droidherd flow replay tests/runs/daily_gift --flow flows/daily_gift   |   droidherd flow replay RUN --virtual"
)
def replay(
    recording: Annotated[
        Path,
        typer.Argument(
            help="The folder that `run` or `record` wrote, the `.run.zip` that a task left, or the task's id.",
            metavar="RUN",
        ),
    ],
    *,
    flow: Annotated[str, typer.Option(help="Its folder, or its name. Default: the one recorded.")] = "",
    emulator: Emulator = "",
    virtual: Virtual = False,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Run a flow again against what was recorded, and name what it does otherwise. Exit code 0 only if nothing.

    It sees the recorded frames, without any emulator; with --virtual or --emulator it runs there, and what it does
    is held against the recording.
    """
    from droidherd.cli.commands import flow_recording, flow_runs

    secrets = flow_runs.secrets_of(secret or ())
    again = flow_recording.ReplayOptions(recording, flow, virtual, emulator, as_json, secrets)
    done = flow_recording.replay_recording(settings_of(data), again)
    if as_json:
        differences = [{"step": one.step, "expected": one.expected, "found": one.found} for one in done.differences]
        output.emit({"same": done.same, "differences": differences, "acts": done.acts, "notes": list(done.notes)})
    else:
        flow_recording.tell(done)
    if not done.same:
        raise typer.Exit(1)


@app.command(
    epilog="Examples: droidherd flow show flows/daily_gift   |   droidherd flow show collect_rewards -o map.svg"
)
def show(
    flow: Annotated[str, typer.Argument(help="Its folder, or its name.", metavar="PATH|NAME")],
    *,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="The picture. Default: NAME.svg.", metavar="FILE", parser=values.new_file),
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Draw its screens and routes, its stages and their steps, as one SVG file that every browser shows."""
    from droidherd.cli.commands import flow_runs
    from droidherd.files.regular import IMAGE_BYTES_MAX, read_regular
    from droidherd.flows.loading.document import read_document
    from droidherd.flows.loading.folder import FILE
    from droidherd.flowtools import drawing

    catalogue, name = flow_runs.found(settings_of(data), flow)
    loaded = catalogue.flow(name)
    drawn = drawing.plot(drawing.with_used(read_document(loaded.folder / FILE).data, loaded))
    wanted = [image for image in drawn.screens.values() if image in loaded.images]
    images = {image: read_regular(loaded.images[image], IMAGE_BYTES_MAX) for image in wanted}
    path = out or Path(f"{name}.svg")
    path.write_text(
        drawing.draw(drawn, images),
        encoding="utf-8",
    )
    if as_json:
        stages = [stage.name for stage in drawn.stages]
        output.emit({"picture": str(path), "screens": list(drawn.screens), "stages": stages})
    else:
        output.out.print(str(path), markup=False)


@app.command(epilog="Examples: droidherd flow inspect   |   droidherd flow inspect --emulator virtual-1 --json")
def inspect(
    *,
    emulator: Emulator = "",
    virtual: Virtual = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List the elements of the screen that an emulator shows now, each with a target that means it alone.

    Looking disturbs no task.
    """
    from droidherd.cli.local.reach import reach
    from droidherd.emulator import eyes
    from droidherd.flowtools import manual_session
    from droidherd.flowtools.elements import inspect_elements, written_target

    with reach(settings_of(data), emulator, virtual=virtual) as reached:
        manual_session.meet(reached.adb, reached.address, reached.entry.serialno)
        found = inspect_elements(eyes.dump_tree(reached.adb, reached.address))
    if as_json:
        elements = [{"target": {"ui": one.target}, "place": one.place, "attributes": one.attributes} for one in found]
        output.emit({"elements": elements})
        return
    for one in found:
        words = f" {one.words[:60]!r}" if one.words else ""
        across, down = one.place
        output.out.print(
            f"[{across:.1f}, {down:.1f}]  {written_target(one.target)}  {one.kind}{words}",
            markup=False,
            highlight=False,
        )
    if not found:
        output.out.print("the screen has no elements: an app that draws its own screen is told by images", markup=False)


def _document(problem: "LintProblem") -> dict[str, str | int]:
    return {
        "file": problem.file,
        "line": problem.line,
        "severity": str(problem.severity),
        "what": problem.what,
        "fix": problem.fix,
    }


def _picture(data: Path | None, emulator: str, path: Path) -> tuple[Path, tuple[int, int]]:
    """What an emulator shows now. Looking disturbs no task."""
    from droidherd.cli.local.reach import reach
    from droidherd.emulator.eyes import EmulatorEyes
    from droidherd.flowtools import manual_session
    from droidherd.vision.pixels import encode_png

    with reach(settings_of(data), emulator, virtual=False) as reached:
        manual_session.meet(reached.adb, reached.address, reached.entry.serialno)
        frame = EmulatorEyes(reached.adb, reached.address).look()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_png(frame))
    return path, (frame.width, frame.height)
