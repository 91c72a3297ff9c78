"""Rules on a flow as it is written, before it is parsed: parameters, images, files, where changes stand."""

import struct
from pathlib import Path

from pydantic import JsonValue

from droidherd.artifacts.apk import BadApkError, read_apk
from droidherd.contracts.plan import Effect
from droidherd.domain.text import nearest
from droidherd.files.regular import IMAGE_BYTES_MAX, file_problem, open_regular
from droidherd.flows.lint.inspection import Complaints, Inspection
from droidherd.flows.loading.document import maps
from droidherd.flows.loading.expansion import FILE_KEYS
from droidherd.flows.loading.folder import FILE_BYTES_MAX, IMAGE_KEYS, PAYLOADS
from droidherd.flows.loading.loaded import CARRIED
from droidherd.flows.model.params import ACCOUNT, is_unclosed, placeholders
from droidherd.flows.model.part import Complaint, Place
from droidherd.flows.model.steps.registry import STEP_TYPES

NESTING_MAX = 5
"""Blocks within blocks: an effect's name grows with each, and emulators bound it."""
CHANGES = frozenset(word for word, step in STEP_TYPES.items() if step.changes_things)
_PNG = b"\x89PNG\r\n\x1a\n"


def parameters(one: Inspection) -> Complaints:
    """Every parameter is declared, and used."""
    used: set[str] = set()
    for place, text in one.texts:
        if is_unclosed(text):
            fix = "write ${name}, or $${ for the characters themselves"
            yield Complaint(place, "${ without a } stands for itself", fix, fatal=False)
        for name in placeholders(text):
            used.add(name)
            if name not in one.params and name != ACCOUNT:
                fix = f"add params: {{{name}: {{type: ...}}}}"
                yield Complaint(place, f"parameter {name[:60]!r} is not declared", fix)
    for name in sorted(one.params.keys() - used):
        yield Complaint(("params", name), f"parameter {name!r} is not used", "remove it", fatal=False)


def account(one: Inspection) -> Complaints:
    """`${account}` is the task's account, here and in the flows that are used: no flow says whom it acts for."""
    declared = one.params.get(ACCOUNT)
    if declared is not None and declared.default is not None:
        what = f"parameter {ACCOUNT!r} has a default, and it is always the task's account"
        yield Complaint(("params", ACCOUNT, "default"), what, "write example: in the place of default:")
    if declared is not None and declared.type != "string":
        yield Complaint(("params", ACCOUNT, "type"), f"parameter {ACCOUNT!r} is a string", "leave type out")
    for place, args in maps(one.data):
        named = args.get(ACCOUNT)
        if place[-2:] == ("use", "with") and named not in (None, f"${{{ACCOUNT}}}"):
            what = f"a flow that is used acts for the task's account, not for {str(named)[:60]!r}"
            yield Complaint((*place, ACCOUNT), what, f"leave {ACCOUNT} out: it is passed on by itself")


def images(one: Inspection) -> Complaints:
    """Every image is there, is a picture, and is used."""
    used: set[str] = set()
    for place, name in one.texts:
        if place[-1] not in IMAGE_KEYS:
            continue
        used.add(name)
        if next(placeholders(name), None) is not None:
            yield Complaint(place, f"{name}: the name of an image cannot hold a parameter", "write one step per image")
        elif ".." in name.split("/") or name.startswith("/") or "\\" in name:
            yield Complaint(place, f"{name}: the image is outside the folder of the flow", "copy it beside the flow")
        elif name not in one.images or CARRIED in name:
            near = nearest(name.removesuffix(".png"), (image.removesuffix(".png") for image in one.images))
            fix = f"did you mean {near}.png?" if near else f"put it at {one.folder / name}"
            yield Complaint(place, f"{name}: no such image", fix)
        elif problem := image_problem(one.folder, one.images[name]):
            yield Complaint(place, f"{name}: {problem}", "save it again as PNG, inside the folder")
    for name in sorted(one.images.keys() - used):
        yield _unused(name, file_problem(one.images[name], one.folder, IMAGE_BYTES_MAX))


def image_problem(folder: Path, path: Path) -> str:
    """Why a file is no image of the flow, as far as its first bytes show; empty: it is one."""
    if problem := file_problem(path, folder, IMAGE_BYTES_MAX):
        return problem
    with open_regular(path) as file:
        head = file.read(24)
    if len(head) < 24 or not head.startswith(_PNG):  # noqa: PLR2004 -- up to the size of the picture
        return "is not a PNG"
    width, height = struct.unpack(">II", head[16:24])
    return "" if 0 < width <= 4096 and 0 < height <= 4096 else f"{width}x{height} pixels are too many"  # noqa: PLR2004


def _unused(name: str, problem: str) -> Complaint:
    """An error if the file cannot be read like one of a flow: what a flow is known by includes all its files."""
    what = f"{name}: {problem}" if problem else f"{name} is not used"
    return Complaint((), what, "remove it", fatal=bool(problem))


def files(one: Inspection) -> Complaints:
    """Every file that a step names is there, and nothing lies about."""
    used: set[str] = set()
    folder = one.folder / PAYLOADS
    for place, args in maps(one.data):
        key = FILE_KEYS.get(str(place[-1]) if place else "", "")
        name = args.get(key)
        if not key or not isinstance(name, str):
            continue
        used.add(name)
        if next(placeholders(name), None) is not None:
            what = f"{name}: the name of a file cannot hold a parameter"
            yield Complaint((*place, key), what, "write one step per file")
        elif name not in one.payloads:
            yield Complaint((*place, key), f"{name}: no such file", f"put it at {folder / name}")
        elif problem := file_problem(one.payloads[name], folder, FILE_BYTES_MAX):
            yield Complaint((*place, key), f"{name}: {problem}", f"put a file at {folder / name}")
        elif key == "apk":
            yield from _apk((*place, key), one.payloads[name], args.get("package"))
    for name in sorted(one.payloads.keys() - used):
        yield _unused(f"{PAYLOADS}/{name}", file_problem(one.payloads[name], folder, FILE_BYTES_MAX))


def _apk(place: Place, file: Path, named: JsonValue) -> Complaints:
    try:
        package = read_apk(file).package
    except BadApkError as error:
        yield Complaint(place, f"{file.name}: {error.what}", error.remedy or "build it again")
        return
    if isinstance(named, str) and next(placeholders(named), None) is None and named != package:
        yield Complaint(place, f"{file.name} holds {package}, not {named}", "correct the package, or leave it out")


def changes_by_value(one: Inspection) -> Complaints:
    """What changes by value stands where it is captured: in the steps of a stage whose effect is on the emulator."""
    for place, args in maps(one.data):
        kind = next((key for key in args if key in CHANGES), "")
        if not kind or not (isinstance(place[-1] if place else None, int)):
            continue
        if place[0] == "cleanup" or "undo" in place[:3]:
            where = "cleanup" if place[0] == "cleanup" else "undo"
            fix = "changes by value are taken back by themselves" if where == "undo" else "put it into a stage"
            yield Complaint((*place, kind), f"{kind} cannot stand in {where}: nobody would take it back", fix)
        elif kind != "call" and place[0] == "stages" and _effect(one.data, place) == Effect.ACCOUNT:
            fix = "leave `effect: account` out, or put it into a stage of its own"
            what = f"{kind} changes the emulator, and the effect of its stage is in the account"
            yield Complaint((*place, kind), what, fix)


def _effect(data: JsonValue, place: Place) -> JsonValue:
    stages = data.get("stages") if isinstance(data, dict) else None
    stage = stages[place[1]] if isinstance(stages, list) and isinstance(place[1], int) else None
    return stage.get("effect") if isinstance(stage, dict) else None


def nesting(one: Inspection) -> Complaints:
    """The first block that is too deep inside others."""
    for place, _ in maps(one.data):
        if place.count("do") + place.count("else") > NESTING_MAX:
            yield Complaint(place, f"more than {NESTING_MAX} blocks within each other", "split the stage")
            return
