"""Reads a flow from its folder and judges it by all rules: the flow unless it has errors, and every problem.

A new rule is a function that is listed here. What a single step says of itself is in its own `lint` (`model/steps`);
`stages.steps` asks them all.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue, ValidationError

from droidherd.domain.text import nearest
from droidherd.files.regular import file_problem
from droidherd.flows.lint import screens, stages, uses, written
from droidherd.flows.lint.foreign import foreign_flow
from droidherd.flows.lint.inspection import Inspection, Rule
from droidherd.flows.lint.problems import Findings, LintProblem, errors_of, from_validation
from droidherd.flows.loading.document import BadYamlError, Document, maps, parse_document, value_at
from droidherd.flows.loading.folder import (
    FILE,
    FILE_BYTES_MAX,
    PAYLOADS,
    STEP_PARTS,
    flows_near,
    hash_of,
    images_in,
    names_used,
    neighbours,
    payloads_in,
    read_content,
    texts_of_steps,
)
from droidherd.flows.loading.loaded import SCREEN_PARTS, Library, LoadedFlow, all_files
from droidherd.flows.model.flow import Flow
from droidherd.flows.model.params import ACCOUNT, NAME_PATTERN, Param, placeholders, substitute
from droidherd.flows.model.part import Place
from droidherd.handlers.registry import Registry, build_registry

NAME = re.compile(NAME_PATTERN)
USE_DEPTH_MAX = 4

WRITTEN: tuple[Rule, ...] = (
    written.parameters,
    written.account,
    written.images,
    written.files,
    written.changes_by_value,
    written.nesting,
)
"""On the document, so that they speak also where it cannot be parsed."""

PARSED: tuple[Rule, ...] = (
    stages.name_of_folder,
    stages.needs_ocr,
    stages.misread,
    stages.names_of_stages,
    stages.times,
    stages.steps,
    stages.cleanup,
    stages.on_the_way,
    stages.screens_of_later_stages,
    screens.screens,
    screens.routes,
    screens.interrupts,
    screens.names_of_screens,
)
"""On a flow whose every piece is sound by itself."""

LOADED: tuple[Rule, ...] = (uses.used_flows,)
"""On a flow without an error, together with those it uses."""


@dataclass(frozen=True, slots=True)
class _Shelf:
    """What is known while a flow and those it uses are read."""

    handlers: Registry
    library: Library
    chain: tuple[str, ...] = ()
    """The flows that use this one, the outermost first."""
    valid: dict[Path, LoadedFlow] = field(default_factory=dict)
    """Those read already: many flows may use the same ones."""


def inspect(
    folder: Path, handlers: Registry | None = None, library: Library | None = None
) -> tuple[LoadedFlow | None, list[LintProblem]]:
    """Read and judge a flow: the flow unless it has errors, and all problems in the order of their lines."""
    return _inspect(folder, _Shelf(handlers or build_registry(), library or neighbours(folder)))


def _inspect(folder: Path, shelf: _Shelf) -> tuple[LoadedFlow | None, list[LintProblem]]:
    try:
        return _judge(folder, shelf)
    except OSError as error:
        file = str(error.filename or folder / FILE)
        return None, [LintProblem(file, 1, f"cannot be read: {error.strerror}", "check the path and who may read it")]


def _judge(folder: Path, shelf: _Shelf) -> tuple[LoadedFlow | None, list[LintProblem]]:
    path = folder / FILE
    content = read_content(folder)
    images, payloads = dict(images_in(folder)), dict(payloads_in(folder))
    if problem := file_problem(path, folder, FILE_BYTES_MAX):
        return None, [LintProblem(str(path), 1, problem, "put the file itself there")]
    document = _parse(path, content)
    if isinstance(document, LintProblem):
        return None, [document]
    findings = Findings(str(path), document)
    if not isinstance(document.data, dict):
        findings.add((), "a flow is a mapping", "begin with flow: <name>")
        return None, findings.in_order()
    declared, found = _valid_params(document.data.get("params")), list(texts_of_steps(document.data))
    sampled = _with_samples(document.data, _samples(declared, found))
    one = Inspection(folder, document, images, payloads, shelf.handlers, declared, found, sampled)
    _apply(WRITTEN, one, findings)
    one.parsed = _validate(findings, one.sampled)
    one.uses = _inspect_used(findings, folder, shelf)
    if one.parsed is None:
        return None, findings.in_order()
    _apply(PARSED, one, findings)
    if errors_of(findings.problems):
        return None, findings.in_order()
    one.whole = loaded = _load(one)
    _apply(LOADED, one, findings)
    return (None if errors_of(findings.problems) else loaded), findings.in_order()


def _parse(path: Path, content: bytes) -> Document | LintProblem:
    if foreign := foreign_flow(content):
        return LintProblem(str(path), *foreign)
    try:
        return parse_document(content)
    except BadYamlError as error:
        return LintProblem(str(path), error.line, error.what, error.fix)


def _apply(those: Iterable[Rule], one: Inspection, findings: Findings) -> None:
    for rule in those:
        findings.complain(rule(one))


def _load(one: Inspection) -> LoadedFlow:
    data, uses = one.data, one.uses
    steps, undos = (
        tuple(value_at(data, ("stages", n, part)) for n in range(len(one.flow.stages))) for part in STEP_PARTS
    )
    files = {f"{PAYLOADS}/{name}": file for name, file in one.payloads.items()}
    return LoadedFlow(
        flow=one.flow,
        stages=steps,
        undos=undos,
        cleanup=value_at(data, ("cleanup",)),
        folder=one.folder,
        images=all_files(one.images, {name: used.images for name, used in uses.items()}),
        payloads=all_files(one.payloads, {name: used.payloads for name, used in uses.items()}),
        hash=hash_of(data, {**one.images, **files}, uses),
        screen_map={part: value_at(data, (part,)) for part in (*SCREEN_PARTS, "guards")},
        uses=uses,
        needs_account=_needs_account(one) or any(used.needs_account for used in uses.values()),
    )


def _needs_account(one: Inspection) -> bool:
    return (
        ACCOUNT in one.params
        or any(ACCOUNT in placeholders(text) for _, text in one.texts)
        or any(place[-2:] == ("type", "text") and "secret" in args for place, args in maps(one.data))
    )


def _inspect_used(findings: Findings, folder: Path, shelf: _Shelf) -> dict[str, LoadedFlow]:
    """The flows it uses, each read and judged; what is wrong with them is said where they are used."""
    found: dict[str, LoadedFlow] = {}
    chain = (*shelf.chain, folder.resolve().name)
    for place, name in names_used(findings.document.data):
        if name in found:
            continue
        path = shelf.library(name) if NAME.fullmatch(name) else None
        if name in chain:
            way = " uses ".join((*chain[chain.index(name) :], name))
            findings.add(place, f"flows use each other in a circle: {way}", "move what both need into a third flow")
        elif path is None:
            near = nearest(name, flows_near(folder) - {folder.resolve().name})
            usual = "the name of a flow beside this one, or of the gallery; it holds no parameter"
            fix = f"did you mean {near}?" if near else usual
            findings.add(place, f"there is no flow {name[:60]!r}", fix)
        elif len(chain) > USE_DEPTH_MAX:
            findings.add(place, f"more than {USE_DEPTH_MAX} flows use each other in a row", "use fewer at once")
        elif path in shelf.valid:
            found[name] = shelf.valid[path]
        else:
            used, problems = _inspect(path, replace(shelf, chain=chain))
            if used is None:
                findings.add(place, f"flow {name} is not valid: {errors_of(problems)[0]}", f"fix {name}")
            else:
                found[name] = shelf.valid[path] = used
    return found


def _valid_params(params: JsonValue) -> dict[str, Param]:
    """The parameters that are sound; the others are reported with the rest of the model."""
    found: dict[str, Param] = {}
    for name, spec in params.items() if isinstance(params, dict) else ():
        try:
            found[name] = Param.model_validate(spec)
        except ValidationError:
            found[name] = Param()
    return found


def _samples(declared: Mapping[str, Param], texts: list[tuple[Place, str]]) -> dict[str, JsonValue]:
    """Values in the place of parameters: their text would not fit a number."""
    known: dict[str, JsonValue] = {name: param.sample() for name, param in declared.items()}
    return {**{name: "sample" for _, text in texts for name in placeholders(text)}, **known}


def _validate(findings: Findings, whole: dict[str, JsonValue]) -> Flow | None:
    try:
        return Flow.model_validate(whole)
    except ValidationError as error:
        findings.problems.extend(from_validation(error, findings.document, findings.file))
    return None


def _with_samples(data: dict[str, JsonValue], samples: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    whole: dict[str, JsonValue] = {**data}
    written_stages = data.get("stages")
    if isinstance(written_stages, list):
        whole["stages"] = [
            {**stage, **{part: substitute(stage[part], samples) for part in STEP_PARTS if part in stage}}
            if isinstance(stage, dict)
            else stage
            for stage in written_stages
        ]
    for part in (*SCREEN_PARTS, "cleanup"):
        if part in data:
            whole[part] = substitute(data[part], samples)
    return whole
