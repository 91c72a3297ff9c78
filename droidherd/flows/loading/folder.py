"""A flow as a folder: `flow.yaml` with its images beside it and its files in `files`, and where such folders are."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from pydantic import JsonValue

from droidherd.files.regular import open_regular
from droidherd.flows.loading.document import BadYamlError, maps, parse_document, texts
from droidherd.flows.loading.loaded import CARRIED, SCREEN_PARTS, Library, LoadedFlow
from droidherd.flows.model.part import Place

FILE = "flow.yaml"
MISNAMED = "flow.yml"
PAYLOADS = "files"
"""The folder of the files that a flow carries beside its images: what `put` writes and `install` installs."""
GALLERY = Path(__file__).parents[1] / "gallery"
FILES_MAX = 500
FILE_BYTES_MAX = 4_000_000_000
"""Of one file that a flow carries: as many as the handler `download` may fetch."""
USES_MAX = 50
NAME_MAX = 63
"""No flow is called longer; and a system answers names that are too long for it with an error."""
IMAGE_KEYS = frozenset({"image", "gone", "feature"})
STEP_PARTS = ("steps", "undo")
"""Of a stage: what holds steps."""

Signature: TypeAlias = tuple[tuple[str, int, int], ...]


def flow_folders(path: Path) -> list[Path]:
    """The folders of the flows a path stands for."""
    if path.name == FILE and path.is_file():
        return [path.parent]
    if (path / FILE).is_file():
        return [path]
    return sorted(file.parent for file in path.glob(f"*/{FILE}") if file.is_file())


def flow_folder(path: Path, name: str) -> Path | None:
    """That of `flow_folders` which has this name, without a look at the others."""
    if path.name == FILE and path.is_file():
        path = path.parent
    if (path / FILE).is_file():
        return path if path.name == name else None
    if name != Path(name).name or name == ".." or len(name) > NAME_MAX:
        return None
    return path / name if (path / name / FILE).is_file() else None


def misnamed_files(path: Path) -> list[Path]:
    """Files at or below a path that were meant as flows and are none, by their name."""
    files = [path] if path.name == MISNAMED else [path / MISNAMED, *sorted(path.glob(f"*/{MISNAMED}"))]
    return [file for file in files if file.is_file() and not file.with_name(FILE).is_file()]


def neighbours(folder: Path) -> Library:
    """Flows are used by name: those beside this one, then those of the gallery."""

    def find(name: str) -> Path | None:
        places = (folder.resolve().parent / name, GALLERY / name)
        return next((place for place in places if (place / FILE).is_file()), None)

    return find


def flows_near(folder: Path) -> set[str]:
    """Those that a slip of the pen may have meant."""
    return {file.parent.name for root in (folder.resolve().parent, GALLERY) for file in root.glob(f"*/{FILE}")}


def uses_of(folder: Path, library: Library) -> dict[str, Path | None]:
    """Every flow that this one leans on, sound or not, and where it is."""
    found: dict[str, Path | None] = {}
    ahead = [folder]
    while ahead and len(found) < USES_MAX:
        for _, name in names_used(_data(ahead.pop())):
            if name not in found:
                found[name] = library(name)
                ahead.extend(filter(None, (found[name],)))
    return found


def read_content(folder: Path) -> bytes:
    """The bytes of the document, as many as may be read."""
    with open_regular(folder / FILE) as file:
        return file.read(1_000_000)


def _data(folder: Path) -> JsonValue:
    """The document, as far as it can be read."""
    try:
        return parse_document(read_content(folder)).data
    except (OSError, BadYamlError):
        return None


def names_used(data: JsonValue) -> Iterator[tuple[Place, str]]:
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
    found = texts_of_steps(data) if isinstance(data, dict) else ()
    return {text for place, text in found if place[-1] in IMAGE_KEYS}


def texts_of_steps(data: dict[str, JsonValue]) -> Iterator[tuple[Place, str]]:
    """Every text of a flow that may hold parameters."""
    stages = data.get("stages")
    for number, stage in enumerate(stages if isinstance(stages, list) else ()):
        if isinstance(stage, dict):
            for part in STEP_PARTS:
                yield from texts(stage.get(part), ("stages", number, part))
    for part in (*SCREEN_PARTS, "cleanup"):
        yield from texts(data.get(part), (part,))


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


def _executed(data: JsonValue) -> JsonValue:
    if not isinstance(data, dict):
        return data
    found: dict[str, JsonValue] = {key: value for key, value in data.items() if key != "about"}
    params = found.get("params")
    if isinstance(params, dict):
        found["params"] = {name: _without_words(param) for name, param in params.items()}
    return found


def _without_words(param: JsonValue) -> JsonValue:
    if not isinstance(param, dict):
        return param
    return {key: value for key, value in param.items() if key not in {"about", "example"}}


def images_in(folder: Path) -> Iterator[tuple[str, Path]]:
    found = ((name, path) for name, path, _ in _files(folder) if name.endswith(".png"))
    return ((name, path) for name, path in found if not name.startswith(f"{PAYLOADS}/"))


def payloads_in(folder: Path) -> Iterator[tuple[str, Path]]:
    inside = f"{PAYLOADS}/"
    return ((name.removeprefix(inside), path) for name, path, _ in _files(folder) if name.startswith(inside))


def hash_of(data: JsonValue, files: Mapping[str, Path], uses: Mapping[str, LoadedFlow]) -> str:
    """Of what the flow does: another `about`, comment or layout of the document is the same flow."""
    whole = hashlib.sha256(json.dumps(_executed(data)).encode())
    for name in sorted(files):
        with open_regular(files[name], FILE_BYTES_MAX) as file:
            whole.update(name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    for name in sorted(uses):
        whole.update(f"{name}{CARRIED}{uses[name].hash}".encode())
    return whole.hexdigest()
