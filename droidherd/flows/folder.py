"""A flow as a folder: `flow.yaml` and the images beside it, read and judged together."""

import hashlib
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue, ValidationError

from droidherd.flows.coherence import Complaint, complaints
from droidherd.flows.expansion import IMAGE_KEYS
from droidherd.flows.extras import OCR_MISSING, OCR_REMEDY, can_read, reads_words
from droidherd.flows.flow import Flow
from droidherd.flows.loaded import CARRIED, CHART_PARTS, Library, LoadedFlow, carried
from droidherd.flows.loader import BadYamlError, Place, parse_document
from droidherd.flows.misread import misread
from droidherd.flows.params import NAME_PATTERN, Param, placeholders, substituted, unclosed
from droidherd.flows.payload import PAYLOADS, judge_changes, judge_handles, judge_payloads
from droidherd.flows.problems import Findings, Problem, Severity, errors_of, from_validation, maps, value_at
from droidherd.flows.spelling import nearest
from droidherd.flows.survey import surveyed
from droidherd.flows.uses import used_together
from droidherd.handlers.registry import Registry, registered

FILE = "flow.yaml"
FILES_MAX = 500
NAME = re.compile(NAME_PATTERN)
USE_DEPTH_MAX = 4
USES_MAX = 50
NESTING_MAX = 5
"""Blocks within blocks: an effect's name grows with each, and emulators bound it."""
IMAGE_BYTES_MAX = 8 * 1024 * 1024
_PNG = b"\x89PNG\r\n\x1a\n"
_PARTS = ("steps", "undo")
"""Of a stage: what holds steps."""

Signature = tuple[tuple[str, int, int], ...]


GALLERY = Path(__file__).with_name("gallery")


@dataclass(frozen=True, slots=True)
class _Shelf:
    """What is known while a flow and those it uses are read."""

    handlers: Registry
    library: Library
    chain: tuple[str, ...] = ()
    """The flows that use this one, the outermost first."""
    sound: dict[Path, LoadedFlow] = field(default_factory=dict)
    """Those read already: many flows may use the same ones."""


def neighbours(folder: Path) -> Library:
    """Flows are used by name: those beside this one, then those of the gallery."""

    def find(name: str) -> Path | None:
        places = (folder.resolve().parent / name, GALLERY / name)
        return next((place for place in places if (place / FILE).is_file()), None)

    return find


def inspect(
    folder: Path, handlers: Registry | None = None, library: Library | None = None
) -> tuple[LoadedFlow | None, list[Problem]]:
    """Read and judge a flow: the flow unless it has errors, and all problems in the order of their lines."""
    return _inspect(folder, _Shelf(handlers or registered(), library or neighbours(folder)))


def uses_of(folder: Path, library: Library) -> dict[str, Path | None]:
    """Every flow that this one leans on, sound or not, and where it is."""
    found: dict[str, Path | None] = {}
    ahead = [folder]
    while ahead and len(found) < USES_MAX:
        for _, name in _names_used(_data(ahead.pop())):
            if name not in found:
                found[name] = library(name)
                ahead.extend(filter(None, (found[name],)))
    return found


def _data(folder: Path) -> JsonValue:
    """The document, as far as it can be read."""
    try:
        with (folder / FILE).open("rb") as file:
            return parse_document(file.read(1_000_000)).data
    except (OSError, BadYamlError):
        return None


def _inspect(folder: Path, shelf: _Shelf) -> tuple[LoadedFlow | None, list[Problem]]:
    path = folder / FILE
    try:
        with path.open("rb") as file:
            content = file.read(1_000_000)
        images, payloads = dict(_images(folder)), dict(_payloads(folder))
    except OSError as error:
        return None, [Problem(str(path), 1, f"cannot be read: {error.strerror}")]
    try:
        document = parse_document(content)
    except BadYamlError as error:
        return None, [Problem(str(path), error.line, error.what, error.fix)]
    findings = Findings(str(path), document)
    flow = _judge(findings, folder, images, payloads, shelf.handlers)
    uses = _used(findings, folder, shelf)
    if flow is not None:
        _complain(findings, surveyed(flow, uses))
    if flow is None or errors_of(findings.problems):
        return None, _in_order(findings)
    stages, undos = (
        tuple(value_at(document.data, ("stages", n, part)) for n in range(len(flow.stages)))
        for part in ("steps", "undo")
    )
    loaded = LoadedFlow(
        flow=flow,
        stages=stages,
        undos=undos,
        cleanup=value_at(document.data, ("cleanup",)),
        folder=folder,
        images=carried(images, {name: used.images for name, used in uses.items()}),
        payloads=carried(payloads, {name: used.payloads for name, used in uses.items()}),
        hash=_hash(content, {**images, **{f"{PAYLOADS}/{name}": file for name, file in payloads.items()}}, uses),
        chart={part: value_at(document.data, (part,)) for part in (*CHART_PARTS, "guards")},
        uses=uses,
    )
    _complain(findings, used_together(loaded))
    return (None if errors_of(findings.problems) else loaded), _in_order(findings)


def _complain(findings: Findings, found: Iterable[Complaint]) -> None:
    for one in found:
        findings.add(one.place, one.what, one.fix, Severity.ERROR if one.fatal else Severity.WARNING)


def _in_order(findings: Findings) -> list[Problem]:
    return sorted(findings.problems, key=lambda problem: problem.line)


def _used(findings: Findings, folder: Path, shelf: _Shelf) -> dict[str, LoadedFlow]:
    """The flows it uses, each read and judged; what is wrong with them is said where they are used."""
    found: dict[str, LoadedFlow] = {}
    chain = (*shelf.chain, folder.resolve().name)
    for place, name in _names_used(findings.document.data):
        if name in found:
            continue
        path = shelf.library(name) if NAME.fullmatch(name) else None
        if name in chain:
            way = " uses ".join((*chain[chain.index(name) :], name))
            findings.add(place, f"flows use each other in a circle: {way}", "move what both need into a third flow")
        elif path is None:
            near = nearest(name, _flows_near(folder) - {folder.resolve().name})
            usual = "the name of a flow beside this one, or of the gallery; it holds no parameter"
            fix = f"did you mean {near}?" if near else usual
            findings.add(place, f"there is no flow {name[:60]!r}", fix)
        elif len(chain) > USE_DEPTH_MAX:
            findings.add(place, f"more than {USE_DEPTH_MAX} flows use each other in a row", "use fewer at once")
        elif path in shelf.sound:
            found[name] = shelf.sound[path]
        else:
            used, problems = _inspect(path, replace(shelf, chain=chain))
            if used is None:
                findings.add(place, f"flow {name} is not sound: {errors_of(problems)[0]}", f"mend {name}")
            else:
                found[name] = shelf.sound[path] = used
    return found


def _flows_near(folder: Path) -> set[str]:
    """Those that a slip of the pen may have meant."""
    return {file.parent.name for root in (folder.resolve().parent, GALLERY) for file in root.glob(f"*/{FILE}")}


def _names_used(data: JsonValue) -> Iterator[tuple[Place, str]]:
    """Each `use` that names a flow, by the place of the name."""
    for place, args in maps(data):
        name = args.get("flow")
        if place and place[-1] == "use" and isinstance(name, str):
            yield (*place, "flow"), name


def signature(folder: Path) -> Signature:
    """Changes when a file of the folder does."""
    return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, _, stat in _files(folder)))


def images_named(data: JsonValue) -> set[str]:
    """The images a flow speaks of, there or not."""
    texts = _texts_of_steps(data) if isinstance(data, dict) else ()
    return {text for place, text in texts if place[-1] in IMAGE_KEYS}


def _files(folder: Path) -> Iterator[tuple[str, Path, os.stat_result]]:
    count = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        for name in sorted(names):
            path = Path(root) / name
            carried = path.relative_to(folder).parts[0] == PAYLOADS and not name.startswith(".")
            if name == FILE or name.endswith(".png") or carried:
                count += 1
                if count > FILES_MAX:
                    return
                try:
                    yield path.relative_to(folder).as_posix(), path, path.stat()
                except FileNotFoundError:
                    continue  # taken away while we looked; the next look sees the folder without it


def _images(folder: Path) -> Iterator[tuple[str, Path]]:
    found = ((name, path) for name, path, _ in _files(folder) if name.endswith(".png"))
    return ((name, path) for name, path in found if not name.startswith(f"{PAYLOADS}/"))


def _payloads(folder: Path) -> Iterator[tuple[str, Path]]:
    inside = f"{PAYLOADS}/"
    return ((name.removeprefix(inside), path) for name, path, _ in _files(folder) if name.startswith(inside))


def _hash(content: bytes, files: Mapping[str, Path], uses: Mapping[str, LoadedFlow]) -> str:
    whole = hashlib.sha256(hashlib.sha256(content).digest())
    for name in sorted(files):
        with files[name].open("rb") as file:
            whole.update(name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    for name in sorted(uses):
        whole.update(f"{name}{CARRIED}{uses[name].hash}".encode())
    return whole.hexdigest()


def _judge(
    findings: Findings, folder: Path, images: Mapping[str, Path], payloads: Mapping[str, Path], handlers: Registry
) -> Flow | None:
    data = findings.document.data
    if not isinstance(data, dict):
        findings.add((), "a flow is a mapping", "begin with flow: <name>")
        return None
    declared = _declared(data.get("params"))
    texts = list(_texts_of_steps(data))
    _judge_placeholders(findings, declared, texts)
    _judge_images(findings, folder, images, texts)
    judge_payloads(findings, folder / PAYLOADS, payloads, maps(data, ()))
    judge_changes(findings, data)
    _judge_nesting(findings, data)
    whole = _sampled(data, _samples(declared, texts))
    flow = _validated(findings, whole)
    if flow is not None:
        judge_handles(findings, whole, flow, handlers)
        if flow.flow != folder.resolve().name:
            fix = f"name the folder {flow.flow}, or the flow {folder.resolve().name}"
            findings.add(("flow",), f"the flow is called {flow.flow}, its folder {folder.resolve().name}", fix)
        _judge_ranges(findings, data)
        if flow.app is None:
            _judge_apps(findings, data)
        if not can_read():
            for place in reads_words(flow):
                findings.add(place, OCR_MISSING, OCR_REMEDY)
        _complain(findings, (*misread(flow, whole), *complaints(flow)))
    return flow


def _declared(params: JsonValue) -> dict[str, Param]:
    """The parameters that are sound; the others are reported with the rest of the model."""
    found: dict[str, Param] = {}
    for name, spec in params.items() if isinstance(params, dict) else ():
        try:
            found[name] = Param.model_validate(spec)
        except ValidationError:
            found[name] = Param()
    return found


def _texts_of_steps(data: dict[str, JsonValue]) -> Iterator[tuple[Place, str]]:
    stages = data.get("stages")
    for number, stage in enumerate(stages if isinstance(stages, list) else ()):
        if isinstance(stage, dict):
            for part in _PARTS:
                yield from _texts(stage.get(part), ("stages", number, part))
    for part in (*CHART_PARTS, "cleanup"):
        yield from _texts(data.get(part), (part,))


def _texts(value: JsonValue, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, (*place, number))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*place, key))


def _judge_placeholders(findings: Findings, declared: Mapping[str, Param], texts: list[tuple[Place, str]]) -> None:
    used: set[str] = set()
    for place, text in texts:
        if unclosed(text):
            fix = "write ${name}, or $${ for the characters themselves"
            findings.add(place, "${ without a } stands for itself", fix, Severity.WARNING)
        for name in placeholders(text):
            used.add(name)
            if name not in declared:
                findings.add(
                    place, f"parameter {name[:60]!r} is not declared", f"add params: {{{name}: {{type: ...}}}}"
                )
    for name in sorted(declared.keys() - used):
        findings.add(("params", name), f"parameter {name!r} is not used", "remove it", Severity.WARNING)


def _judge_images(findings: Findings, folder: Path, images: Mapping[str, Path], texts: list[tuple[Place, str]]) -> None:
    used: set[str] = set()
    for place, name in texts:
        if place[-1] not in IMAGE_KEYS:
            continue
        used.add(name)
        if next(placeholders(name), None) is not None:
            findings.add(place, f"{name}: the name of an image cannot hold a parameter", "write one step per image")
        elif ".." in name.split("/") or name.startswith("/") or "\\" in name:
            findings.add(place, f"{name}: the image is outside the folder of the flow", "copy it beside the flow")
        elif name not in images or CARRIED in name:
            near = nearest(name.removesuffix(".png"), (image.removesuffix(".png") for image in images))
            fix = f"did you mean {near}.png?" if near else f"put it at {folder / name}"
            findings.add(place, f"{name}: no such image", fix)
        elif problem := image_problem(folder, images[name]):
            findings.add(place, f"{name}: {problem}", "save it again as PNG, inside the folder")
    for name in sorted(images.keys() - used):
        findings.add((), f"{name} is not used", "remove it", Severity.WARNING)


def image_problem(folder: Path, path: Path) -> str:
    """Why a file is no image of the flow, as far as its first bytes show; empty: it is one."""
    if not path.resolve().is_relative_to(folder.resolve()):
        return "the image is outside the folder of the flow"
    if path.stat().st_size > IMAGE_BYTES_MAX:
        return f"more than {IMAGE_BYTES_MAX} bytes"
    with path.open("rb") as file:
        head = file.read(24)
    if len(head) < 24 or not head.startswith(_PNG):  # noqa: PLR2004 -- up to the size of the picture
        return "is not a PNG"
    width, height = struct.unpack(">II", head[16:24])
    return "" if 0 < width <= 4096 and 0 < height <= 4096 else f"{width}x{height} pixels are too many"  # noqa: PLR2004


def _samples(declared: Mapping[str, Param], texts: list[tuple[Place, str]]) -> dict[str, JsonValue]:
    """Values in the place of parameters: their text would not fit a number."""
    known: dict[str, JsonValue] = {name: param.sample() for name, param in declared.items()}
    return {**{name: "sample" for _, text in texts for name in placeholders(text)}, **known}


def _validated(findings: Findings, whole: dict[str, JsonValue]) -> Flow | None:
    try:
        return Flow.model_validate(whole)
    except ValidationError as error:
        findings.problems.extend(from_validation(error, findings.document, findings.file))
    return None


def _sampled(data: dict[str, JsonValue], samples: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    whole: dict[str, JsonValue] = {**data}
    stages = data.get("stages")
    if isinstance(stages, list):
        whole["stages"] = [
            {**stage, **{part: substituted(stage[part], samples) for part in _PARTS if part in stage}}
            if isinstance(stage, dict)
            else stage
            for stage in stages
        ]
    for part in (*CHART_PARTS, "cleanup"):
        if part in data:
            whole[part] = substituted(data[part], samples)
    return whole


def _judge_nesting(findings: Findings, data: JsonValue) -> None:
    for place, _ in maps(data, ()):
        if place.count("do") + place.count("else") > NESTING_MAX:
            findings.add(place, f"more than {NESTING_MAX} blocks within each other", "split the stage")
            return


def _judge_ranges(findings: Findings, data: JsonValue) -> None:
    """A condition that never holds. What parameters say is for them to say."""
    for place, step in maps(data, ()):
        low, high = step.get("at_least"), step.get("below")
        if place[-1:] == ("when",) and isinstance(low, int | float) and isinstance(high, int | float) and low >= high:
            what = f"when: no number is at least {low:g} and below {high:g}"
            findings.add((*place, "below"), what, "for what is outside of both, use else")


def _judge_apps(findings: Findings, data: JsonValue) -> None:
    """Every start and stop of an app has to know which one."""
    for place, step in maps(data, ()):
        if place and place[-1] in {"start_app", "stop_app", "clear_app"} and "app" not in step:
            findings.add(place, f"{place[-1]} does not say which app", "add app: <package> to the flow")
