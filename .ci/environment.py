"""What is installed: who needs whom."""  # noqa: INP001 (a module beside scripts)

import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = "droidherd"
BUILDS = "setuptools"
"""Builds the editable install. Nothing else of the product needs it."""


def closure(*extras: str) -> dict[str, metadata.Distribution]:
    """The product, with these extras, and everything that it needs on this machine, by name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [(PRODUCT, frozenset(extras))]
    seen = set[tuple[str, frozenset[str]]]()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        found[name] = metadata.distribution(name)
        waiting += [(canonicalize_name(one.name), frozenset(one.extras)) for one in needs(found[name], wanted)]
    return dict(sorted(found.items()))


def needs(distribution: metadata.Distribution, extras: frozenset[str]) -> list[Requirement]:
    """What a distribution asks for on this machine. The product's own words may be newer than what is installed."""
    if distribution.name == PRODUCT:
        texts = [text for group in ("", *extras) for text in asked()[group]]
    else:
        texts = distribution.requires or []
    found: list[Requirement] = []
    for text in texts:
        one = Requirement(text)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found.append(one)
    return found


def asked() -> dict[str, list[str]]:
    """What pyproject.toml asks for: at run time under the empty name, the rest by the name of its extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}
