"""Write requirements.lock: every version in constraints.txt with the SHA-256 of each of its files, for all platforms.

.venv/bin/python .ci/lock.py            write requirements*.lock
.venv/bin/python .ci/lock.py --check    say whether they fit constraints.txt; asks nobody

The hashes come from the package index that pip uses on this machine; `pip config` says which. Where a version has
wheels, its source is left out, so that an install runs no code of it.
"""  # noqa: INP001 (a script, not a package)

import re
import sys
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path

from environment import BUILDS, PRODUCT, ROOT, asked, closure
from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pip._internal.configuration import Configuration
from pip._internal.models.index import PyPI

CONSTRAINTS, LOCK, RUNTIME_LOCK, FUZZ_LOCK = (
    ROOT / name for name in ("constraints.txt", *(f"requirements{part}.lock" for part in ("", "-runtime", "-fuzz")))
)
HEAD = (
    "# Written by .ci/lock.py from constraints.txt: `pip install --require-hashes` takes these files and no others.\n"
)
LINK = re.compile(r"<a\s[^>]*?href=\"([^\"]+)\"[^>]*>([^<]+)</a>", re.IGNORECASE)
OLDEST = 11
"""The minor version of the oldest Python that droidherd runs on."""
AT_ONCE = 8


def pins() -> dict[str, str]:
    """Name → version."""
    lines = [line.strip() for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines()]
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def declared() -> dict[str, Requirement]:
    """What pyproject.toml asks for, by name: it says for which systems."""
    found = [Requirement(text) for group in asked().values() for text in group]
    return {canonicalize_name(one.name): one for one in found}


def fuzz_only() -> frozenset[str]:
    """What the extra `fuzz` alone asks for: atheris has no wheel for each Python."""
    return frozenset(canonicalize_name(Requirement(one).name) for one in asked()["fuzz"])


def index_url() -> str:
    known = Configuration(isolated=False)
    known.load()
    given = [
        value for name, value in known.items() if name in (":env:.index-url", "global.index-url", "user.index-url")
    ]
    return (given[0] if given else PyPI.simple_url).rstrip("/")


def files_of(name: str, version: str) -> dict[str, str]:
    """File → SHA-256, of one version."""
    with urllib.request.urlopen(f"{index_url()}/{name}/", timeout=60) as answer:  # noqa: S310 (the index of pip)
        page = answer.read().decode()
    found: dict[str, str] = {}
    for href, text in LINK.findall(page):
        file, digest = unescape(text).strip(), unescape(href).partition("#sha256=")[2]
        if digest and _version(file, name) == Version(version):
            found[file] = digest
    wheels = {file: digest for file, digest in found.items() if file.endswith(".whl") and _fits(file)}
    chosen = wheels or {file: digest for file, digest in found.items() if file.endswith(".tar.gz")}
    if not chosen:
        raise SystemExit(f"the index has no file with a hash of {name} {version}")
    return chosen


def _version(file: str, name: str) -> Version | None:
    try:
        if file.endswith(".whl"):
            return parse_wheel_filename(file)[1]
        stem = file.removesuffix(".tar.gz")
        is_source = stem != file and canonicalize_name(stem.rpartition("-")[0]) == name
        return Version(stem.rpartition("-")[2]) if is_source else None
    except (InvalidWheelFilename, ValueError):
        return None


def _fits(wheel: str) -> bool:
    """Whether some Python that we run on takes it."""
    for tag in parse_wheel_filename(wheel)[3]:
        minor = re.fullmatch(r"cp3(\d+)", tag.interpreter)
        if tag.interpreter.startswith("py3") or (minor and (int(minor[1]) >= OLDEST or tag.abi == "abi3")):
            return True
    return False


def entry(name: str, version: str, requirement: Requirement | None, digests: Iterable[str]) -> str:
    marker = f" ; {requirement.marker}" if requirement is not None and requirement.marker else ""
    hashes = "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(digests))
    return f"{name}=={version}{marker}{hashes}\n"


def contents(known: Mapping[str, str]) -> dict[Path, set[str]]:
    """Which names stand in which file: all but what only fuzzing needs; what runs in production; what fuzzing needs."""
    fuzz = known.keys() & fuzz_only()
    runs = {*closure(), BUILDS} - {PRODUCT}
    return {LOCK: known.keys() - fuzz, RUNTIME_LOCK: known.keys() & runs, FUZZ_LOCK: fuzz}


def write(known: Mapping[str, str]) -> None:
    systems = declared()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        files = dict(zip(known, pool.map(files_of, known, known.values()), strict=True))
    for path, chosen in contents(known).items():
        entries = [entry(name, known[name], systems.get(name), files[name].values()) for name in sorted(chosen)]
        path.write_text(HEAD + "".join(entries), encoding="utf-8")


def problems(known: Mapping[str, str]) -> list[str]:
    """Why the lock files do not fit constraints.txt."""
    found: list[str] = []
    for path, wanted in contents(known).items():
        text = path.read_text(encoding="utf-8")
        locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))
        found += [
            f"{path.name}: {name} is {locked.get(name)}, not {known[name]}"
            for name in sorted(wanted)
            if locked.get(name) != known[name]
        ]
        found += [f"{path.name}: {name} is not in constraints.txt" for name in sorted(locked.keys() - wanted)]
        bare = [
            one.split("==")[0] for one in re.split(r"\n(?=\S)", text) if "==" in one and "--hash=sha256:" not in one
        ]
        found += [f"{path.name}: {name} has no hash" for name in bare]
    return found


def main() -> int:
    if "--check" not in sys.argv:
        write(pins())
    found = problems(pins())
    sys.stderr.write("".join(f"{one}\n" for one in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
