import itertools
from typing import Any

import pytest

from tests.deploy.files import FOREIGN_METRICS, labels_of, load_json, load_yaml, metric_names, series

SERIES = series()
RULES = [rule for group in load_yaml("prometheus/alerts.yml")["groups"] for rule in group["rules"]]
DASHBOARD = load_json("grafana/droidherd.json")
EXPRESSIONS = [
    *[(rule["alert"], rule["expr"]) for rule in RULES],
    *[(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]],
]


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_an_expression_asks_only_for_what_droidherd_exposes(where: str, expression: str):
    names = metric_names(expression)
    assert names, where
    assert set() == names - set(SERIES) - FOREIGN_METRICS


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_an_expression_names_only_labels_that_exist(where: str, expression: str):
    names = metric_names(expression) - FOREIGN_METRICS
    known = frozenset({"job", "instance"}).union(*[SERIES[name] for name in names])
    assert set() == labels_of(expression) - known, where


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_an_expression_closes_what_it_opens(where: str, expression: str):
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing), where


def test_the_reader_of_expressions_finds_strangers():
    text = 'histogram_quantile(0.95, sum by (le) (rate(stranger_bucket{a="b"}[5m]))) > 2 * other and third == 0'
    assert {"stranger_bucket", "other", "third"} == metric_names(text)
    assert {"le", "a"} == labels_of(text)


def test_every_alert_says_what_happened_and_what_to_do():
    incomplete = [
        rule["alert"]
        for rule in RULES
        if not {"summary", "action"} <= set(rule["annotations"]) or rule["labels"]["severity"] not in {"page", "ticket"}
    ]
    assert [] == incomplete
    assert len(RULES) == len({rule["alert"] for rule in RULES})


def test_what_a_summary_quotes_survives_its_expression():
    """`{{ $labels.x }}` is empty when the expression aggregated x away."""
    for rule in RULES:
        quoted = {part.split("}}")[0].strip() for part in rule["annotations"]["summary"].split("$labels.")[1:]}
        grouped = labels_of(rule["expr"]) if " by (" in rule["expr"] else quoted
        assert set() == quoted - grouped, rule["alert"]


def test_the_scrape_configuration_names_its_rules_and_both_jobs():
    config = load_yaml("prometheus/prometheus.yml")
    assert ["alerts.yml"] == config["rule_files"]
    assert {"droidherd-api", "droidherd-worker", "temporal"} == {job["job_name"] for job in config["scrape_configs"]}


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert len(panels) == len({panel["id"] for panel in panels})
    for one, other in itertools.combinations([panel["gridPos"] for panel in panels], 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y, (one, other)
    assert [] == [panel["title"] for panel in panels if panel["gridPos"]["x"] + panel["gridPos"]["w"] > 24]


def test_every_metric_is_looked_at_somewhere():
    shown = set().union(*[metric_names(expression) for _, expression in EXPRESSIONS])
    bare = {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name in SERIES}
    seen = {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name in shown}
    assert set() == bare - seen
