"""Compare an archive of the official release of Temporal's command with what droidherd starts.

.venv/bin/python .ci/verify_engine.py temporal_cli_1.9.1_linux_amd64.tar.gz

Fetch it from https://github.com/temporalio/cli/releases/tag/v1.9.1 first. docs/adr/0071 says where ARCHIVES come from.
"""  # noqa: INP001 (a script, not a package)

import hashlib
import sys
import tarfile
from pathlib import Path

from droidherd.cli.local.embedded import CLI_VERSION, PROGRAMS

ARCHIVES = {
    "linux_amd64": "09a0326a51db84d02735e53542b9ebd8c4758daf47482a9ab0abce15844e60d5",
    "linux_arm64": "6c57c352d52fc3df34412376fd9ba6f74b7e3ace8e426e6cba8600156d36a145",
    "darwin_amd64": "48cdd6c84c56e27ae8e4d9a47052b89289a9c552dee029b49dd312c6fb72873f",
    "darwin_arm64": "41e0425378fcb4fb5766340b97435e20fe47bbff2d7bf644ec2d51f7662b7c56",
}
KEYS = {
    "linux_amd64": ("linux", "x86_64"),
    "linux_arm64": ("linux", "aarch64"),
    "darwin_amd64": ("darwin", "x86_64"),
    "darwin_arm64": ("darwin", "arm64"),
}


def problem_of(archive: Path) -> str:
    """What does not agree; empty: the archive is the known one, and the program in it is the one that we start."""
    system = archive.name.removeprefix(f"temporal_cli_{CLI_VERSION}_").removesuffix(".tar.gz")
    if system not in ARCHIVES:
        names = ", ".join(f"temporal_cli_{CLI_VERSION}_{one}.tar.gz" for one in ARCHIVES)
        return f"{archive.name} is none of {names}"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != ARCHIVES[system]:
        return f"{archive.name} has SHA-256 {found}, not {ARCHIVES[system]}"
    with tarfile.open(archive) as members:
        program = members.extractfile("temporal")
        inside = hashlib.sha256(program.read()).hexdigest() if program else "none"
    wanted = PROGRAMS[KEYS[system]]
    return "" if inside == wanted else f"the program in {archive.name} has SHA-256 {inside}; ours has {wanted}"


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 (the archive)
        sys.exit(__doc__)
    if problem := problem_of(Path(sys.argv[1])):
        sys.exit(problem)
    print("the archive is the known one, and the program in it is the one that droidherd starts")  # noqa: T201
