"""Judge flows before anything runs them."""

import sys
from collections.abc import Iterable
from pathlib import Path

from droidherd.flows.folder import FILE, inspect
from droidherd.flows.problems import Problem, errors_of

NAME_MAX = 63
"""No flow is called longer; and a system answers names that are too long for it with an error."""


def lint(paths: Iterable[Path]) -> list[Problem]:
    """Every problem of every flow at or below these paths: a flow's folder, its file, or a folder of flows."""
    found: list[Problem] = []
    for path in paths:
        folders = flow_folders(path)
        if not folders:
            found.append(Problem(str(path), 1, "no flow here", f"a flow is a folder with a {FILE}"))
        for folder in folders:
            found.extend(inspect(folder)[1])
    return found


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


def main(arguments: list[str]) -> int:
    """Judge the flows at these paths and say so; 1 if there is an error."""
    problems = lint(Path(argument) for argument in arguments or ["."])
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    return 1 if errors_of(problems) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
