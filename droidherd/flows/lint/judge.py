"""Judge flows before anything runs them."""

import sys
from collections.abc import Iterable
from pathlib import Path

from droidherd.flows.lint.inspect import inspect
from droidherd.flows.lint.pictures import picture_problems
from droidherd.flows.lint.problems import LintProblem, errors_of
from droidherd.flows.loading.folder import FILE, flow_folders, misnamed


def lint(paths: Iterable[Path]) -> list[LintProblem]:
    """Every problem of every flow at or below these paths: a flow's folder, its file, or a folder of flows."""
    found: list[LintProblem] = []
    for path in paths:
        folders, others = flow_folders(path), misnamed(path)
        found.extend(LintProblem(str(file), 1, "is not read", f"rename {file.name} to {FILE}") for file in others)
        if not folders and not others:
            found.append(LintProblem(str(path), 1, "no flow here", f"a flow is a folder with a {FILE}"))
        for folder in folders:
            found.extend(judge(folder))
    return found


def judge(folder: Path) -> list[LintProblem]:
    """Every problem of one flow, in the order of their lines: also what only a look at its images shows."""
    found = [*inspect(folder)[1], *picture_problems(folder)]
    return sorted(found, key=lambda problem: problem.line)


def main(arguments: list[str]) -> int:
    """Judge the flows at these paths and say so; 1 if there is an error."""
    problems = lint(Path(argument) for argument in arguments or ["."])
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    return 1 if errors_of(problems) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
