"""What lies in deploy/, parsed."""

import json
import re
from pathlib import Path
from typing import Any, cast

import yaml
from prometheus_client import CollectorRegistry

from droidherd.processes.resources import ProcessStats
from droidherd.telemetry import DurationSample, Metrics, PoolStatsCollector, TypeStatsSample

DEPLOY = Path(__file__).parents[2] / "deploy"
Document = dict[str, Any]

FOREIGN_METRICS = frozenset({"up"})
"""Of Prometheus itself."""

_NAME = re.compile(r"\b([a-z][a-z0-9_]*[a-z0-9])\b(?=\s*(?:\{|\[|\)|$|[-+*/><=!]|\sand\s|\sor\s|\sunless\s))")
_KEYWORDS = frozenset({"and", "or", "unless", "by", "without", "on", "ignoring", "bool"})


def load_yaml(name: str) -> Document:
    return cast("Document", yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8")))


def load_json(name: str) -> Document:
    return cast("Document", json.loads((DEPLOY / name).read_text(encoding="utf-8")))


def series() -> dict[str, frozenset[str]]:
    """Every series droidherd exposes, with its labels."""
    found: dict[str, frozenset[str]] = {}
    metrics = Metrics(CollectorRegistry())
    for collector in vars(metrics).values():
        if isinstance(collector, CollectorRegistry):
            continue
        if isinstance(collector, PoolStatsCollector | ProcessStats):
            found |= _shown(collector)
            continue
        name, labels = str(collector._name), frozenset(collector._labelnames)
        match collector._type:
            case "counter":
                found[f"{name}_total"] = labels
            case "histogram":
                found[f"{name}_bucket"] = labels | {"le"}
                found[f"{name}_count"] = found[f"{name}_sum"] = labels
            case _:
                found[name] = labels
    return found


def _shown(collector: PoolStatsCollector | ProcessStats) -> dict[str, frozenset[str]]:
    """Of a collector that reads when it is asked: what it says once it knows something."""
    if isinstance(collector, PoolStatsCollector):
        spread = DurationSample(1, 1.0, (1.0,), (1,))
        collector.show("p", [TypeStatsSample("t", {"completed": 1}, spread, spread)])
    else:
        collector.watch("worker", "h", DEPLOY)
    samples = [sample for family in collector.collect() for sample in family.samples]
    return {sample.name: frozenset(sample.labels) for sample in samples}


def metric_names(expression: str) -> set[str]:
    """The series an expression asks for: words that are neither functions nor labels nor keywords."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    bare = re.sub(r"\{[^}]*\}", "{}", bare)
    bare = re.sub(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)", " ", bare)
    bare = re.sub(r"\[[^\]]*\]", "[]", bare)
    return {name for name in _NAME.findall(bare) if name not in _KEYWORDS and not name.isdigit()}


def labels_of(expression: str) -> set[str]:
    """The labels an expression selects or groups by."""
    selected = re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\"", expression)
    grouped = [
        part.strip() for group in re.findall(r"\b(?:by|without)\s*\(([^)]*)\)", expression) for part in group.split(",")
    ]
    return {*selected, *grouped}
