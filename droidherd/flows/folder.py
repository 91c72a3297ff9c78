"""A flow as a folder: `flow.yaml` and the images beside it, read and judged together."""

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from droidherd.domain.errors import FlowError
from droidherd.flows.coherence import complaints
from droidherd.flows.loader import BadYamlError, Document, Place, parse_document
from droidherd.flows.model import Flow
from droidherd.flows.params import Param, placeholders, substituted
from droidherd.flows.problems import Problem, Severity, errors_of, from_validation, value_at

FILE = "flow.yaml"
FILES_MAX = 500
NESTING_MAX = 5
"""Blocks within blocks: an effect's name grows with each, and emulators bound it."""
IMAGE_BYTES_MAX = 8 * 1024 * 1024
_PNG = b"\x89PNG\r\n\x1a\n"
_IMAGE_KEYS = {"image", "gone"}

Signature = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class LoadedFlow:
    flow: Flow
    stages: tuple[JsonValue, ...]
    """The steps of each stage as they are written, with their placeholders."""
    cleanup: JsonValue
    folder: Path
    images: Mapping[str, Path]
    hash: str
    """Of the document and the images together."""


@dataclass(slots=True)
class _Findings:
    file: str
    document: Document
    problems: list[Problem] = field(default_factory=list)

    def add(self, place: Place, what: str, fix: str = "", severity: Severity = Severity.ERROR) -> None:
        self.problems.append(Problem(self.file, self.document.line_of(place), what, fix, severity))


def load_flow(folder: Path) -> LoadedFlow:
    """Read a flow. FlowError holds every problem, one line each."""
    loaded, problems = inspect(folder)
    if loaded is None:
        raise FlowError("\n".join(str(problem) for problem in errors_of(problems)))
    return loaded


def inspect(folder: Path) -> tuple[LoadedFlow | None, list[Problem]]:
    """Read and judge a flow: the flow unless it has errors, and all problems in the order of their lines."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            content = file.read(1_000_000)
        images = dict(_images(folder))
    except OSError as error:
        return None, [Problem(str(path), 1, f"cannot be read: {error.strerror}")]
    try:
        document = parse_document(content)
    except BadYamlError as error:
        return None, [Problem(str(path), error.line, error.what, error.fix)]
    findings = _Findings(str(path), document)
    flow = _judge(findings, folder, images)
    problems = sorted(findings.problems, key=lambda problem: problem.line)
    if flow is None or errors_of(problems):
        return None, problems
    stages = tuple(value_at(document.data, ("stages", n, "steps")) for n in range(len(flow.stages)))
    cleanup = value_at(document.data, ("cleanup",))
    return LoadedFlow(flow, stages, cleanup, folder, images, _hash(content, images)), problems


def signature(folder: Path) -> Signature:
    """Changes when a file of the folder does."""
    return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, _, stat in _files(folder)))


def images_named(data: JsonValue) -> set[str]:
    """The images a flow speaks of, there or not."""
    texts = _texts_of_steps(data) if isinstance(data, dict) else ()
    return {text for place, text in texts if place[-1] in _IMAGE_KEYS}


def _files(folder: Path) -> Iterator[tuple[str, Path, os.stat_result]]:
    count = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        for name in sorted(names):
            path = Path(root) / name
            if name == FILE or name.endswith(".png"):
                count += 1
                if count > FILES_MAX:
                    return
                try:
                    yield path.relative_to(folder).as_posix(), path, path.stat()
                except FileNotFoundError:
                    continue  # taken away while we looked; the next look sees the folder without it


def _images(folder: Path) -> Iterator[tuple[str, Path]]:
    return ((name, path) for name, path, _ in _files(folder) if name.endswith(".png"))


def _hash(content: bytes, images: Mapping[str, Path]) -> str:
    whole = hashlib.sha256(hashlib.sha256(content).digest())
    for name in sorted(images):
        whole.update(name.encode() + b"\0" + hashlib.sha256(images[name].read_bytes()).digest())
    return whole.hexdigest()


def _judge(findings: _Findings, folder: Path, images: Mapping[str, Path]) -> Flow | None:
    data = findings.document.data
    if not isinstance(data, dict):
        findings.add((), "a flow is a mapping", "begin with flow: <name>")
        return None
    declared = _declared(data.get("params"))
    texts = list(_texts_of_steps(data))
    _judge_placeholders(findings, declared, texts)
    _judge_images(findings, folder, images, texts)
    _judge_nesting(findings, data)
    flow = _validated(findings, declared, data)
    if flow is not None:
        if flow.flow != folder.resolve().name:
            fix = f"name the folder {flow.flow}, or the flow {folder.resolve().name}"
            findings.add(("flow",), f"the flow is called {flow.flow}, its folder {folder.resolve().name}", fix)
        if flow.app is None:
            _judge_apps(findings, data)
        for one in complaints(flow):
            findings.add(one.place, one.what, one.fix, Severity.ERROR if one.fatal else Severity.WARNING)
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
            yield from _texts(stage.get("steps"), ("stages", number, "steps"))
    yield from _texts(data.get("cleanup"), ("cleanup",))


def _texts(value: JsonValue, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, (*place, number))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*place, key))


def _judge_placeholders(findings: _Findings, declared: Mapping[str, Param], texts: list[tuple[Place, str]]) -> None:
    used: set[str] = set()
    for place, text in texts:
        for name in placeholders(text):
            used.add(name)
            if name not in declared:
                findings.add(
                    place, f"parameter {name[:60]!r} is not declared", f"add params: {{{name}: {{type: ...}}}}"
                )
    for name in sorted(declared.keys() - used):
        findings.add(("params", name), f"parameter {name!r} is not used", "remove it", Severity.WARNING)


def _judge_images(
    findings: _Findings, folder: Path, images: Mapping[str, Path], texts: list[tuple[Place, str]]
) -> None:
    used: set[str] = set()
    for place, name in texts:
        if place[-1] not in _IMAGE_KEYS:
            continue
        used.add(name)
        if next(placeholders(name), None) is not None:
            findings.add(place, f"{name}: the name of an image cannot hold a parameter", "write one step per image")
        elif ".." in name.split("/") or name.startswith("/") or "\\" in name:
            findings.add(place, f"{name}: the image is outside the folder of the flow", "copy it beside the flow")
        elif name not in images:
            findings.add(place, f"{name}: no such image", f"put it at {folder / name}")
        elif problem := _image_problem(folder, images[name]):
            findings.add(place, f"{name}: {problem}", "save it again as PNG, inside the folder")
    for name in sorted(images.keys() - used):
        findings.add((), f"{name} is not used", "remove it", Severity.WARNING)


def _image_problem(folder: Path, path: Path) -> str:
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


def _validated(findings: _Findings, declared: Mapping[str, Param], data: dict[str, JsonValue]) -> Flow | None:
    """Validate with sample values in the place of parameters: their text would not fit a number."""
    samples: dict[str, JsonValue] = {name: param.sample() for name, param in declared.items()}
    samples |= {
        name: "sample" for _, text in _texts_of_steps(data) for name in placeholders(text) if name not in samples
    }
    try:
        return Flow.model_validate(_sampled(data, samples))
    except ValidationError as error:
        found = from_validation(error, findings.document, findings.file)
        findings.problems.extend(found)
    return None


def _sampled(data: dict[str, JsonValue], samples: Mapping[str, JsonValue]) -> dict[str, Any]:
    whole: dict[str, Any] = {**data}
    stages = data.get("stages")
    if isinstance(stages, list):
        whole["stages"] = [
            {**stage, "steps": substituted(stage["steps"], samples)}
            if isinstance(stage, dict) and "steps" in stage
            else stage
            for stage in stages
        ]
    if "cleanup" in data:
        whole["cleanup"] = substituted(data["cleanup"], samples)
    return whole


def _judge_nesting(findings: _Findings, data: JsonValue) -> None:
    for place, _ in _maps(data, ()):
        if place.count("do") + place.count("else") > NESTING_MAX:
            findings.add(place, f"more than {NESTING_MAX} blocks within each other", "split the stage")
            return


def _judge_apps(findings: _Findings, data: JsonValue) -> None:
    """Every start and stop of an app has to know which one."""
    for place, step in _maps(data, ()):
        if place and place[-1] in {"start_app", "stop_app"} and "app" not in step:
            findings.add(place, f"{place[-1]} does not say which app", "add app: <package> to the flow")


def _maps(value: JsonValue, place: Place) -> Iterator[tuple[Place, dict[str, JsonValue]]]:
    if isinstance(value, dict):
        yield place, value
        for key, item in value.items():
            yield from _maps(item, (*place, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _maps(item, (*place, number))
