"""Write sbom.json: what an installation of droidherd consists of, as CycloneDX 1.6, from what is installed here.

.venv/bin/python .ci/sbom.py [FILE]    with the extra `ocr`; without the tools of developers
"""  # noqa: INP001 (a script, not a package)

import hashlib
import json
import sys
import uuid
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from environment import PRODUCT, closure, needs
from packaging.utils import canonicalize_name

EXTRAS = ("ocr",)
PROGRAM_BYTES = 1_000_000
"""Executables in wheels that are larger than this are listed by themselves: `temporal`, `adb`."""


def document() -> dict[str, Any]:
    found = closure(*EXTRAS)
    parts = [one for name, one in found.items() if name != PRODUCT]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "component": {**component(found[PRODUCT]), "type": "application"},
        },
        "components": [component(one) for one in parts],
        "dependencies": [
            {"ref": reference(one), "dependsOn": sorted(depends(name, one, found))} for name, one in found.items()
        ],
    }


def component(one: metadata.Distribution) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference(one),
        "name": one.name,
        "version": one.version,
        "purl": reference(one),
    }
    if licence := one.metadata.get("License-Expression"):
        found["licenses"] = [{"expression": licence}]
    elif licence := short_licence(one):
        found["licenses"] = [{"license": {"name": licence}}]
    if inside := [program(path) for path in programs(one)]:
        found["components"] = inside
    return found


def short_licence(one: metadata.Distribution) -> str:
    """Some packages put the whole text there: then the classifier says which it is."""
    text = str(one.metadata.get("License") or "").strip()
    named = [
        line.rpartition(" :: ")[2] for line in one.metadata.get_all("Classifier") or () if line.startswith("License")
    ]
    return text if text and "\n" not in text else next(iter(named), "")


def programs(one: metadata.Distribution) -> list[Path]:
    """Executables of other makers that a wheel carries."""
    paths = [Path(str(file.locate())) for file in one.files or () if not file.suffix or file.suffix == ".exe"]
    return sorted(path for path in paths if path.is_file() and path.stat().st_size > PROGRAM_BYTES)


def program(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"type": "application", "name": path.name, "hashes": [{"alg": "SHA-256", "content": digest}]}


def depends(name: str, one: metadata.Distribution, found: dict[str, metadata.Distribution]) -> set[str]:
    extras = frozenset(EXTRAS if name == PRODUCT else ())
    wanted = {canonicalize_name(need.name) for need in needs(one, extras)}
    return {reference(found[need]) for need in wanted & found.keys() - {name}}


def reference(one: metadata.Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(one.name)}@{one.version}"


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "sbom.json")
    written = document()
    target.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}: {len(written['components'])} components\n")
