"""Judges flows before anything runs them: by all rules, and by a look at the pixels of their images.

Apart from `inspect`, since whoever takes tasks in reads flows and has no eyes.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import JsonValue

from droidherd.domain.errors import FlowError
from droidherd.flows.lint.inspect import inspect
from droidherd.flows.lint.problems import LintProblem, errors_of
from droidherd.flows.lint.written import image_problem
from droidherd.flows.loading.document import BadYamlError, Document, maps, read_document
from droidherd.flows.loading.folder import FILE, IMAGE_KEYS, flow_folders, misnamed_files
from droidherd.flows.model.geometry import expected_margin, grow, pixels_of
from droidherd.flows.model.part import Place
from droidherd.vision import features
from droidherd.vision.template import Template, load

_RECORDED = re.compile(r"([1-9]\d{1,4})x([1-9]\d{1,4})")
_CORNERS = 4
FILE_NAME_MAX_BYTES = 255
"""A system answers longer names with an error."""


def lint(paths: Iterable[Path]) -> list[LintProblem]:
    """Every problem of every flow at or below these paths: a flow's folder, its file, or a folder of flows."""
    found: list[LintProblem] = []
    for path in paths:
        folders, others = flow_folders(path), misnamed_files(path)
        found.extend(LintProblem(str(file), 1, "is not read", f"rename {file.name} to {FILE}") for file in others)
        if not folders and not others:
            found.append(LintProblem(str(path), 1, "no flow here", f"a flow is a folder with a {FILE}"))
        for folder in folders:
            found.extend(judge(folder))
    return found


def judge(folder: Path) -> list[LintProblem]:
    """Every problem of one flow, in the order of their lines."""
    found = [*inspect(folder)[1], *_picture_problems(folder)]
    return sorted(found, key=lambda problem: problem.line)


def main(arguments: list[str]) -> int:
    """Judge the flows at these paths and say so; 1 if there is an error."""
    problems = lint(Path(argument) for argument in arguments or ["."])
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    return 1 if errors_of(problems) else 0


def _picture_problems(folder: Path) -> list[LintProblem]:
    """What a stage would refuse at its first look. What is no flow, or no image of it, is named by others."""
    try:
        document = read_document(folder / FILE)
    except (OSError, BadYamlError):
        return []
    found = (
        LintProblem(str(folder / FILE), document.line_of(place), f"{name}: {error.what}", error.remedy)
        for place, name, error in _refusals(document, folder)
    )
    return list(dict.fromkeys(found))


def _refusals(document: Document, folder: Path) -> Iterator[tuple[Place, str, FlowError]]:
    recorded = _size(document.data)
    for place, args in maps(document.data):
        if "params" in place[:1]:
            continue
        for key in sorted(IMAGE_KEYS & args.keys()):
            name = args[key]
            if not isinstance(name, str) or not _is_image(folder, name):
                continue
            try:
                template = load(folder / name, recorded)
                if key == "feature":
                    features.template_features(template)
                else:
                    _fits(template, args)
            except FlowError as error:
                yield (*place, key), name, error


def _is_image(folder: Path, name: str) -> bool:
    path = folder / name
    return (
        name.endswith(".png")
        and len(name.encode()) <= FILE_NAME_MAX_BYTES
        and path.is_file()
        and not image_problem(folder, path)
    )


def _size(data: JsonValue) -> tuple[int, int] | None:
    words = data.get("recorded") if isinstance(data, dict) else None
    found = _RECORDED.fullmatch(words) if isinstance(words, str) else None
    return (int(found[1]), int(found[2])) if found else None


def _fits(template: Template, args: dict[str, JsonValue]) -> None:
    """On the screen it was cut from. On another one both are scaled alike."""
    if template.recorded is None:
        return
    size = template.recorded
    height, width = template.rgb.shape[:2]
    for key, margin in (("area", 0), ("expect", expected_margin(size[0]))):
        box = grow(pixels_of(_corners(args.get(key)), size), margin)
        if width > min(box.width, size[0]) or height > min(box.height, size[1]):
            screen = f"{size[0]}x{size[1]}"
            there = f"its {key}: {box.width}x{box.height} of {screen}" if key in args else f"a screen of {screen}"
            raise FlowError(
                f"{width}x{height} does not fit into {there}",
                remedy=f"cut a smaller piece or widen the {key}" if key in args else "correct `recorded`",
            )


def _corners(words: JsonValue) -> tuple[float, float, float, float]:
    """An area as it is written; one that is not valid, or comes by a parameter, counts as the whole screen."""
    numbers = [one for one in words if isinstance(one, int | float)] if isinstance(words, list) else []
    if len(numbers) != _CORNERS or not 0 <= numbers[0] < numbers[2] <= 100 or not 0 <= numbers[1] < numbers[3] <= 100:  # noqa: PLR2004
        return 0.0, 0.0, 100.0, 100.0
    return numbers[0], numbers[1], numbers[2], numbers[3]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
