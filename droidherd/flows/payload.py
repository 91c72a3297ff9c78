"""Files that a flow carries beside its images, in its folder `files`: what `put` writes and `install` installs."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import JsonValue

from droidherd.apk import BadApkError, read_apk
from droidherd.contracts.plan import Lives
from droidherd.flows.change import CHANGE_KINDS
from droidherd.flows.flow import Flow
from droidherd.flows.loader import Place
from droidherd.flows.params import placeholders
from droidherd.flows.problems import Findings, Severity, maps
from droidherd.handlers.registry import Registry

PAYLOADS = "files"
FILE_KEYS = {"put": "from", "install": "apk"}


def judge_payloads(
    findings: Findings, folder: Path, payloads: Mapping[str, Path], steps: Iterable[tuple[Place, dict[str, JsonValue]]]
) -> None:
    """Every file that a step names is there, and nothing lies about."""
    used: set[str] = set()
    for place, args in steps:
        key = FILE_KEYS.get(str(place[-1]) if place else "", "")
        name = args.get(key)
        if not key or not isinstance(name, str):
            continue
        used.add(name)
        if next(placeholders(name), None) is not None:
            findings.add(
                (*place, key), f"{name}: the name of a file cannot hold a parameter", "write one step per file"
            )
        elif name not in payloads or not payloads[name].resolve().is_relative_to(folder.resolve()):
            findings.add((*place, key), f"{name}: no such file", f"put it at {folder / name}")
        elif key == "apk":
            _judge_apk(findings, (*place, key), payloads[name], args.get("package"))
    for name in sorted(payloads.keys() - used):
        findings.add((), f"{PAYLOADS}/{name} is not used", "remove it", Severity.WARNING)


def _judge_apk(findings: Findings, place: Place, file: Path, said: JsonValue) -> None:
    try:
        package = read_apk(file).package
    except BadApkError as error:
        findings.add(place, f"{file.name}: {error.what}", error.remedy or "build it again")
        return
    if isinstance(said, str) and next(placeholders(said), None) is None and said != package:
        findings.add(place, f"{file.name} holds {package}, not {said}", "correct the package, or leave it out")


def judge_changes(findings: Findings, data: JsonValue) -> None:
    """What changes by value stands where it is captured: in the steps of a stage that lives on the emulator."""
    for place, args in maps(data):
        kind = next((key for key in args if key in {*CHANGE_KINDS, "handle"}), "")
        if not kind or not (isinstance(place[-1] if place else None, int)):
            continue
        if place[0] == "cleanup" or "undo" in place[:3]:
            where = "cleanup" if place[0] == "cleanup" else "undo"
            fix = "changes by value are taken back by themselves" if where == "undo" else "put it into a stage"
            findings.add((*place, kind), f"{kind} cannot stand in {where}: nobody would take it back", fix)
        elif kind != "handle" and place[0] == "stages" and _lives(data, place) == Lives.ACCOUNT:
            fix = "leave `lives: account` out, or put it into a stage of its own"
            findings.add((*place, kind), f"{kind} changes the emulator, and its stage lives in the account", fix)


def judge_handles(findings: Findings, sampled: JsonValue, flow: Flow, handlers: Registry) -> None:
    """Every handler that is called is there and takes what it is given."""
    for place, args in maps(sampled):
        if len(place) < 2 or place[0] != "stages" or place[-1] != "handle" or not isinstance(place[1], int):  # noqa: PLR2004
            continue
        by, given = str(args.get("by")), args.get("with")
        params = given if isinstance(given, dict) else {}
        what, fix = handlers.problem(by, params)
        if what:
            findings.add(place, f"handle {by[:60]}: {what}", fix)
        elif flow.stages[place[1]].lives is Lives.ACCOUNT and handlers.changes(by, params):
            fix = "leave `lives: account` out, or put it into a stage of its own"
            findings.add(place, f"handle {by} changes the emulator, and its stage lives in the account", fix)


def _lives(data: JsonValue, place: Place) -> JsonValue:
    stages = data.get("stages") if isinstance(data, dict) else None
    stage = stages[place[1]] if isinstance(stages, list) and isinstance(place[1], int) else None
    return stage.get("lives") if isinstance(stage, dict) else None


def with_package(args: Mapping[str, JsonValue], payloads: Mapping[str, Path]) -> dict[str, JsonValue]:
    """The arguments of `install` with the package in them, so that a stage stands on its own."""
    name = args.get("apk")
    file = payloads.get(name) if isinstance(name, str) else None
    return {**args, "package": read_apk(file).package} if file and "package" not in args else dict(args)
