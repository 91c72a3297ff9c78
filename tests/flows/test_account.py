"""A flow's `${account}` is the task's account, wherever the flow or one that it uses speaks of it."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from droidherd.domain.errors import BadParametersError
from droidherd.flows.catalogue import GALLERY, Catalogue
from droidherd.flows.loading.folder import flow_folders
from tests.flows.test_lint import HEAD, flow_at, problems

TYPES = '      - type: {text: "${account}"}\n'
BINDS = "flow: binds\nstages: [{stage: main, steps: [{call: {by: associate, with: {account: %s}}}]}]\n"


def typed(folder: Path, name: str, params: dict[str, JsonValue], account: str) -> str:
    (stage,) = Catalogue([folder]).plan(name, params, account=account).stages
    step = stage.steps[0]
    assert isinstance(step, dict)
    return str(step)


def refusal(folder: Path, params: dict[str, JsonValue], account: str) -> str:
    with pytest.raises(BadParametersError) as caught:
        Catalogue([folder]).plan("demo", params, account=account)
    return str(caught.value)


def test_the_account_of_a_flow_is_that_of_its_task(tmp_path: Path):
    flow_at(tmp_path / "demo", HEAD + TYPES)
    assert "{'type': {'text': 'ann'}}" == typed(tmp_path, "demo", {}, "ann")
    assert "{'type': {'text': 'ann'}}" == typed(tmp_path, "demo", {"account": "ann"}, "ann")
    assert {"account": "ann"} == Catalogue([tmp_path]).plan("demo", {}, account="ann").params


def test_a_parameter_that_names_another_account_is_refused_with_both(tmp_path: Path):
    flow_at(tmp_path / "demo", HEAD + TYPES)
    remedy = "(leave it out, and set the task's `account`)"
    assert f"params.account: names 'ben', and the task acts for account ann {remedy}" == refusal(
        tmp_path, {"account": "ben"}, "ann"
    )
    assert f"params.account: names 'ben', and the task acts for no account {remedy}" == refusal(
        tmp_path, {"account": "ben"}, ""
    )


@pytest.mark.parametrize("step", [TYPES, "      - type: {text: {secret: pin}}\n", "      - use: {flow: sign_in}\n"])
def test_a_task_without_an_account_is_refused_where_its_flow_needs_one(tmp_path: Path, step: str):
    flow_at(tmp_path / "demo", HEAD + step)
    assert "account: is missing: this task type acts for one (name the account)" == refusal(tmp_path, {}, "")


def test_a_flow_that_speaks_of_no_account_takes_no_such_parameter(tmp_path: Path):
    flow_at(tmp_path / "demo", HEAD + "      - key: {name: back}\n")
    assert refusal(tmp_path, {"account": "ann"}, "ann").startswith("params.account: is not a parameter")
    assert {} == Catalogue([tmp_path]).plan("demo", {}, account="ann").params


def test_used_flows_act_for_the_same_account_and_its_rules_hold(tmp_path: Path):
    inner = 'params: {account: {pattern: "[a-z]+", example: ann}}\nstages: [{stage: main, steps: [\n'
    flow_at(tmp_path / "inner", f'flow: inner\n{inner}{{type: {{text: "${{account}}"}}}}]}}]\n')
    flow_at(tmp_path / "demo", HEAD + "      - use: {flow: inner}\n")
    assert "'do': [{'type': {'text': 'ann'}}]" in typed(tmp_path, "demo", {}, "ann")
    assert "params.account: must match [a-z]+" == refusal(tmp_path, {}, "ann-7")


def test_lint_refuses_a_flow_that_sets_its_account(tmp_path: Path):
    default = f"params: {{account: {{default: guest}}}}\n{HEAD}{TYPES}"
    (found,) = problems(tmp_path, default)
    assert found.startswith("flow.yaml:1: error: parameter 'account' has a default, and it is always the task")
    (found,) = problems(tmp_path, HEAD + "      - use: {flow: sign_in, with: {account: ben}}\n")
    assert found.startswith("flow.yaml:6: error: a flow that is used acts for the task's account, not for 'ben'")


@pytest.mark.parametrize(("account", "refused"), [("ann", False), ("bob", True), ("", True)])
def test_a_handler_gets_no_other_account_than_the_tasks(tmp_path: Path, account: str, refused: bool):
    flow_at(tmp_path / "binds", BINDS % "ann")
    plans = Catalogue([tmp_path])
    if not refused:
        assert plans.plan("binds", {}, account=account).stages
        return
    task_account = f"account {account}" if account else "no account"
    with pytest.raises(BadParametersError, match=f"is told account 'ann', and the task acts for {task_account}"):
        plans.plan("binds", {}, account=account)


def test_no_flow_of_ours_acts_for_an_account_of_its_own():
    for folder in (*flow_folders(GALLERY), *flow_folders(Path("droidherd/cli/demo/flows"))):
        declared = Catalogue([folder]).params(folder.name).get("account")
        assert declared is None or declared.default is None, folder
