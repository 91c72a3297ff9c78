"""Where flows are."""

from pathlib import Path

from droidherd.flows.folder import FILE

NAME_MAX = 63
"""No flow is called longer; and a system answers names that are too long for it with an error."""

MISNAMED = "flow.yml"


def flow_folders(path: Path) -> list[Path]:
    """The folders of the flows a path stands for."""
    if path.name == FILE and path.is_file():
        return [path.parent]
    if (path / FILE).is_file():
        return [path]
    return sorted(file.parent for file in path.glob(f"*/{FILE}") if file.is_file())


def misnamed(path: Path) -> list[Path]:
    """Files at or below a path that were meant as flows and are none, by their name."""
    files = [path] if path.name == MISNAMED else [path / MISNAMED, *sorted(path.glob(f"*/{MISNAMED}"))]
    return [file for file in files if file.is_file() and not file.with_name(FILE).is_file()]


def flow_folder(path: Path, name: str) -> Path | None:
    """That of `flow_folders` which has this name, without a look at the others."""
    if path.name == FILE and path.is_file():
        path = path.parent
    if (path / FILE).is_file():
        return path if path.name == name else None
    if name != Path(name).name or name == ".." or len(name) > NAME_MAX:
        return None
    return path / name if (path / name / FILE).is_file() else None
