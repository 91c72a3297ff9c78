import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from droidherd.contracts.plan import Backoff, Effect, OnAmbiguous, Plan, Policy, PolicyChange, RetryOn
from droidherd.domain.errors import BadParametersError, FlowError
from droidherd.flows import catalogue as catalogue_module
from droidherd.flows.catalogue import Catalogue, PlannedFlow
from droidherd.flows.lint.inspect import inspect
from droidherd.flows.lint.problems import LintProblem
from droidherd.flows.loading.folder import flow_folder, flow_folders
from droidherd.flows.loading.loaded import Library, LoadedFlow
from droidherd.flows.model.params import Param, checked_params, placeholders, substitute
from droidherd.flows.model.steps.registry import STEPS
from droidherd.flows.run.finder import FlowFinder
from droidherd.handlers.registry import Registry
from droidherd.web.allow import AllowList
from tests.flows.test_lint import flow_at, png

DEMO = """
flow: demo
app: com.example.game
params:
  who: {type: string, pattern: "[a-z]+", about: who to act for}
  times: {type: integer, min: 1, max: 5, default: 2}
  speed: {type: number, default: 0.5}
  loud: {type: boolean, default: false}
  tab: {type: string, choices: [gift, shop], default: gift}
requires: {region: cn, abi: x86}
policy: {time_limit: 2m, retries: 3, backoff: exponential, backoff_s: 20s}
stages:
  - stage: one
    limit: 30s
    effect: account
    on_ambiguous: fail
    steps:
      - start_app: {}
      - type: {text: "${who}-${times}-${speed}-${loud}-${tab}-$$"}
      - repeat: {at_most: "${times}", do: [{tap: {image: a.png}}, {stop_app: {}}]}
  - stage: two
    steps: [{key: {name: home}}]
cleanup: [{stop_app: {}}]
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    flow_at(tmp_path / "flows" / "demo", DEMO, "a.png")
    return Catalogue([tmp_path / "flows"])


def test_a_plan_holds_everything_the_task_needs(catalogue: Catalogue) -> None:
    plan = catalogue.plan("demo", {"who": "ann"})
    assert ("demo", "demo", "com.example.game") == (plan.task_type, plan.flow, plan.app)
    assert {"who": "ann", "times": 2, "speed": 0.5, "loud": False, "tab": "gift"} == plan.params
    assert Policy(time_limit_s=120, retries=3, backoff=Backoff.EXPONENTIAL, backoff_s=20) == plan.policy
    assert ("abi=x86", "region=cn") == plan.requires
    one, two = plan.stages
    assert ("one", 30.0, Effect.ACCOUNT, OnAmbiguous.FAIL) == (one.name, one.limit_s, one.effect, one.on_ambiguous)
    assert ("two", 120.0, Effect.EMULATOR, OnAmbiguous.ASK) == (two.name, two.limit_s, two.effect, two.on_ambiguous)
    assert ({"stop_app": {"app": "com.example.game"}},) == plan.cleanup
    assert (
        {"start_app": {"app": "com.example.game"}},
        {"type": {"text": "ann-2-0.5-false-gift-$"}},
        {"repeat": {"at_most": "2", "do": [{"tap": {"image": "a.png"}}, {"stop_app": {"app": "com.example.game"}}]}},
    ) == one.steps


def test_a_policy_is_the_flows_then_the_operators_then_the_submissions(tmp_path: Path) -> None:
    flow_at(tmp_path / "demo", DEMO, "a.png")
    operators = PolicyChange(time_limit_s=90, retries=5)
    plan = Catalogue([tmp_path], {"demo": operators}).plan("demo", {"who": "ann"}, PolicyChange(retries=0))
    assert Policy(time_limit_s=90, retries=0, backoff=Backoff.EXPONENTIAL, backoff_s=20) == plan.policy
    assert [30.0, 90.0] == [stage.limit_s for stage in plan.stages]


def test_retries_are_the_flows_then_the_operators_then_the_submissions(tmp_path: Path) -> None:
    text = "flow: demo\npolicy: {retry_on: timeout}\nstages: [{stage: a, steps: [{key: {name: home}}]}]\n"
    flow_at(tmp_path / "demo", text)
    operators = {"demo": PolicyChange(retry_on=RetryOn.ANY)}
    change = PolicyChange(retry_on=RetryOn.TIMEOUT)
    plans = [
        Catalogue([tmp_path]).plan("demo", {}),
        Catalogue([tmp_path], operators).plan("demo", {}),
        Catalogue([tmp_path], operators).plan("demo", {}, change),
    ]
    assert [RetryOn.TIMEOUT, RetryOn.ANY, RetryOn.TIMEOUT] == [plan.policy.retry_on for plan in plans]


def test_a_policy_that_nothing_can_follow_is_named(tmp_path: Path) -> None:
    flow_at(tmp_path / "demo", DEMO, "a.png")
    policies = {
        "demoo": PolicyChange(retries=1),
        "zzz": PolicyChange(retries=1),
        "demo": PolicyChange(backoff_s=3600),
        "scan": PolicyChange(backoff_s=3600),
    }
    catalogue = Catalogue([tmp_path], policies)
    typo, unknown, whole = (str(one) for one in catalogue.unsound_policies())
    assert "policies.demoo: there is no task type 'demoo' (did you mean demo?)" == typo
    assert unknown.startswith("policies.zzz: there is no task type 'zzz' (known are: associate, ")
    assert whole.startswith("policies.demo.backoff_s: an exponential delay is at most 300 s and cannot begin with 3600")
    with pytest.raises(BadParametersError, match="there is no task type 'demoo'"):
        catalogue.check_policies()
    Catalogue([tmp_path], {"demo": PolicyChange(retries=1)}).check_policies()


def test_a_policy_of_an_unsound_flow_is_left_to_who_submits_it(tmp_path: Path) -> None:
    flow_at(tmp_path / "demo", "flow: demo\nstages: []\n")
    Catalogue([tmp_path], {"demo": PolicyChange(retries=1)}).check_policies()


def test_a_submission_cannot_ask_for_a_delay_that_is_cut(catalogue: Catalogue) -> None:
    with pytest.raises(BadParametersError, match="cannot begin with 3600") as caught:
        catalogue.plan("demo", {"who": "ann"}, PolicyChange(backoff_s=3600))
    assert "policy.backoff_s" == caught.value.to
    fixed = PolicyChange(backoff=Backoff.FIXED, backoff_s=3600)
    assert 3600 == catalogue.plan("demo", {"who": "ann"}, fixed).policy.backoff_s


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://files.example.com/x", ""),
        ("https://other.example.com/x", "is not in `web.allow`"),
        ("http://files.example.com/x", "is not in `web.allow`"),
        ("ftp://files.example.com/x", "it begins with http:// or https://"),
        ("nonsense", "it begins with http:// or https://"),
    ],
)
def test_an_address_that_may_not_be_asked_is_refused_before_it_is_queued(url: str, problem: str) -> None:
    allow = AllowList.of(("https://files.example.com",))
    catalogue = Catalogue(may_ask=allow.check)
    params: dict[str, JsonValue] = {"url": url, "file": "/sdcard/x"}
    if not problem:
        assert url == catalogue.plan("download", params).params["url"]
        return
    with pytest.raises(BadParametersError) as caught:
        catalogue.plan("download", params)
    assert ("params.url", True) == (caught.value.to, problem in caught.value.what)


def test_an_address_that_a_flow_itself_says_is_judged_too(tmp_path: Path) -> None:
    step = 'call: {by: download, with: {url: "http://x/y", file: /sdcard/x}}'
    flow_at(tmp_path / "demo", f"flow: demo\nstages: [{{stage: a, steps: [{{{step}}}]}}]\n")
    with pytest.raises(BadParametersError, match="is not in `web") as caught:
        Catalogue([tmp_path], may_ask=AllowList.of(()).check).plan("demo", {})
    assert "params of step 1" == caught.value.to


def test_a_stage_has_no_more_time_than_the_attempt(tmp_path: Path) -> None:
    text = "flow: demo\npolicy: {time_limit: 10s}\nstages: [{stage: a, limit: 60s, steps: [{key: {name: home}}]}]\n"
    flow_at(tmp_path / "demo", text)
    assert 10.0 == Catalogue([tmp_path]).plan("demo", {}).stages[0].limit_s


def test_a_plan_survives_the_wire(catalogue: Catalogue) -> None:
    plan = catalogue.plan("demo", {"who": "ann"})
    assert plan == Plan.model_validate_json(plan.model_dump_json())
    assert 3 == len(STEPS.validate_python(plan.stages[0].steps))


@pytest.mark.parametrize(
    ("expected", "params"),
    [
        ("params.who: is missing (who to act for)", {}),
        ("params.who: must match [a-z]+", {"who": "Ann"}),
        ("params.who: must be a string", {"who": 5}),
        ("params.who: contains a control character", {"who": "a\nb"}),
        ("params.who: contains a control character", {"who": "a\0b"}),
        ("params.who: contains a control character", {"who": "\ud800"}),
        ("params.who: has 1001 characters, at most 1000 are allowed", {"who": "a" * 1001}),
        ("params.times: must be an integer", {"who": "a", "times": "3"}),
        ("params.times: must be an integer", {"who": "a", "times": None}),
        ("params.times: must be an integer", {"who": "a", "times": True}),
        ("params.times: must be an integer", {"who": "a", "times": 2.0}),
        ("params.times: must be at most 5", {"who": "a", "times": 6}),
        ("params.times: must be at least 1", {"who": "a", "times": 0}),
        ("params.speed: must be a number", {"who": "a", "speed": float("nan")}),
        ("params.speed: is too large", {"who": "a", "speed": 1e300}),
        ("params.loud: must be a boolean", {"who": "a", "loud": 1}),
        ("params.tab: must be one of gift, shop", {"who": "a", "tab": "Gift"}),
        ("params.whoo: is not a parameter of this task type (did you mean who?)", {"whoo": "a"}),
        ("params.zzz: is not a parameter of this task type (known are: loud, speed, tab, times, who)", {"zzz": 1}),
    ],
)
def test_a_parameter_that_does_not_fit_is_named(
    catalogue: Catalogue, expected: str, params: dict[str, JsonValue]
) -> None:
    with pytest.raises(BadParametersError) as caught:
        catalogue.plan("demo", params)
    assert expected == str(caught.value)


@pytest.mark.parametrize("name", ["daily_rewrd", "Daily_Reward"])
def test_an_unknown_task_type_is_refused_with_the_nearest_one(catalogue: Catalogue, name: str) -> None:
    expected = f"type: there is no task type {name!r} (did you mean daily_reward?)"
    with pytest.raises(BadParametersError) as caught:
        catalogue.plan(name, {})
    assert expected == str(caught.value)


@pytest.mark.parametrize("name", ["", "../demo", "demo/../demo", "/etc", "a\0b", "😀", "x" * 10_000])
def test_a_task_type_is_a_name_and_never_a_path(catalogue: Catalogue, name: str) -> None:
    with pytest.raises(BadParametersError, match="there is no task type"):
        catalogue.plan(name, {})


def test_a_parameter_that_makes_an_impossible_step_is_refused(tmp_path: Path) -> None:
    text = """
flow: demo
params: {app: {type: string, example: com.example.game}}
stages: [{stage: a, steps: [{start_app: {app: "${app}"}}]}]
"""
    flow_at(tmp_path / "demo", text)
    catalogue = Catalogue([tmp_path])
    assert "com.a.b" in catalogue.plan("demo", {"app": "com.a.b"}).model_dump_json()
    with pytest.raises(BadParametersError, match=r"params\.app: makes an impossible step 0\.start_app\.app") as caught:
        catalogue.plan("demo", {"app": "x; reboot"})
    assert "reboot" not in str(caught.value)


def test_the_gallery_is_there_without_any_path() -> None:
    assert {"sign_in", "daily_reward", "browse_list", "visit", "tap_once", "long_walk"} <= set(Catalogue().names())


def test_a_flow_in_a_path_hides_the_one_of_the_gallery(tmp_path: Path) -> None:
    flow_at(tmp_path / "visit", "flow: visit\nstages: [{stage: mine, steps: [{key: {name: home}}]}]\n")
    assert "mine" == Catalogue([tmp_path]).plan("visit", {}).stages[0].name


def test_a_path_that_is_not_there_yet_is_no_trouble(tmp_path: Path) -> None:
    catalogue = Catalogue([tmp_path / "later"])
    assert "late" not in catalogue.names()
    flow_at(tmp_path / "later" / "late", "flow: late\nstages: [{stage: a, steps: [{key: {name: home}}]}]\n")
    assert "late" in catalogue.names()
    assert "late" == catalogue.plan("late", {}).flow


def test_a_broken_flow_says_what_is_wrong_and_leaves_the_others_alone(catalogue: Catalogue, tmp_path: Path) -> None:
    flow_at(tmp_path / "flows" / "broken", "flow: broken\n")
    assert {"broken", "demo"} <= set(catalogue.names())
    with pytest.raises(FlowError, match=r"broken/flow\.yaml:1: error: stages is missing"):
        catalogue.plan("broken", {})
    assert "demo" == catalogue.plan("demo", {"who": "a"}).flow


def planned(plan: Plan, number: int = 0) -> PlannedFlow:
    return PlannedFlow(plan.flow, plan.flow_hash, plan.stages[number].files)


def test_a_flow_that_changes_is_read_again_and_its_old_plans_go_on(catalogue: Catalogue, tmp_path: Path) -> None:
    """A plan holds its steps, so only the images that they name have to be the same."""
    folder = tmp_path / "flows" / "demo"
    before = catalogue.plan("demo", {"who": "a"})
    flow_at(folder, DEMO.replace("30s", "31s"))
    (folder / "new.png").write_bytes(png(30, 30))
    after = catalogue.plan("demo", {"who": "a"})
    assert (31.0, True) == (after.stages[0].limit_s, before.flow_hash != after.flow_hash)
    flow_at(folder, "flow: [half saved")
    for plan in (before, after):
        assert folder / "a.png" == catalogue.asset(planned(plan), "a.png")[0]
        FlowFinder(catalogue, planned(plan))


def test_an_image_that_changed_is_named_to_a_task_that_needs_it(catalogue: Catalogue, tmp_path: Path) -> None:
    image = tmp_path / "flows" / "demo" / "a.png"
    before = planned(catalogue.plan("demo", {"who": "a"}))
    image.write_bytes(png(30, 30))
    with pytest.raises(FlowError, match=r"demo: a\.png changed on disk since the task was planned \(submit"):
        FlowFinder(catalogue, before)
    image.unlink()
    with pytest.raises(FlowError, match=r"demo: a\.png was removed since the task was planned"):
        FlowFinder(catalogue, before)


def test_what_a_flow_says_of_itself_is_no_part_of_its_version(catalogue: Catalogue, tmp_path: Path) -> None:
    before = catalogue.plan("demo", {"who": "a"}).flow_hash
    text = DEMO.replace("flow: demo\n", "flow: demo   # a comment\nabout: Something else.\n")
    text = text.replace("about: who to act for", "about: whom to act for, example: ben")
    flow_at(tmp_path / "flows" / "demo", text)
    assert before == catalogue.plan("demo", {"who": "a"}).flow_hash
    FlowFinder(catalogue, PlannedFlow("demo", before))


def test_without_digests_the_flow_as_a_whole_has_to_be_the_same(catalogue: Catalogue, tmp_path: Path) -> None:
    before = PlannedFlow("demo", catalogue.plan("demo", {"who": "a"}).flow_hash)
    flow_at(tmp_path / "flows" / "demo", DEMO.replace("30s", "31s"))
    with pytest.raises(FlowError, match="demo: changed on disk since the task was planned"):
        FlowFinder(catalogue, before)


def test_an_image_that_changes_is_another_flow(catalogue: Catalogue, tmp_path: Path) -> None:
    before = catalogue.plan("demo", {"who": "a"}).flow_hash
    image = tmp_path / "flows" / "demo" / "a.png"
    image.write_bytes(png(30, 30))
    os.utime(image, ns=(1, 1))
    assert before != catalogue.plan("demo", {"who": "a"}).flow_hash
    image.write_bytes(png())
    os.utime(image, ns=(2, 2))
    assert before == catalogue.plan("demo", {"who": "a"}).flow_hash


@pytest.mark.parametrize("name", ["b.png", "../demo/a.png", "/etc/passwd", "flow.yaml", ""])
def test_only_images_of_the_flow_are_assets(catalogue: Catalogue, name: str) -> None:
    plan = catalogue.plan("demo", {"who": "a"})
    with pytest.raises(FlowError, match="the flow has no image"):
        catalogue.asset(planned(plan), name)


def test_many_threads_plan_while_the_flow_changes(catalogue: Catalogue, tmp_path: Path) -> None:
    failures: list[Exception] = []
    limits: set[float] = set()

    def plan() -> None:
        try:
            for _ in range(20):
                limits.add(catalogue.plan("demo", {"who": "a"}).stages[0].limit_s)
        except Exception as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=plan) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(10):
        staged = tmp_path / "staged.yaml"
        staged.write_text(DEMO.replace("30s", f"{30 + number}s"), encoding="utf-8")
        staged.replace(tmp_path / "flows" / "demo" / "flow.yaml")
    for thread in threads:
        thread.join(timeout=30)
    assert [] == failures
    assert limits <= {float(30 + number) for number in range(10)}


# --- parameters ----------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=50)


@given(TEXTS)
def test_a_value_goes_into_a_step_as_it_is_and_is_not_read_again(value: str) -> None:
    step: JsonValue = {"type": {"text": "<${x}>"}, "list": ["${x}", 5, None]}
    assert {"type": {"text": f"<{value}>"}, "list": [value, 5, None]} == substitute(step, {"x": value})


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ([], "plain"),
        (["a"], "${a}"),
        (["a", "b"], "x${a}y${b}z"),
        ([], "$a"),
        ([], "$${a}"),
        (["a"], "$$${a}"),
        ([""], "${}"),
    ],
)
def test_placeholders_are_found_and_dollar_signs_left_alone(expected: list[str], text: str) -> None:
    assert expected == list(placeholders(text))


@given(st.sampled_from(["string", "integer", "number", "boolean"]), st.integers(-5, 5), st.integers(0, 5))
def test_a_sample_fits_its_own_parameter(kind: str, low: int, width: int) -> None:
    bounds = {"min": low, "max": low + width} if kind in {"integer", "number"} else {}
    param = Param.model_validate({"type": kind, **bounds})
    assert "" == param.problem(param.sample())


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from("abcd") | st.text(max_size=5), VALUES))
def test_arbitrary_parameters_fit_or_are_bad_parameters(given_: dict[str, JsonValue]) -> None:
    declared = {"a": Param(type="integer", default=1), "b": Param(default="x"), "c": Param(type="number", default=0)}
    try:
        values = checked_params(declared, given_)
    except BadParametersError as error:
        assert error.to.startswith("params.")  # noqa: PT017
    else:
        assert {"a", "b", "c"} == set(values)


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "text"}, {"type": "string", "min": 1}, {"type": "integer", "pattern": "x"}, {"pattern": "["},
        {"type": "integer", "default": "x"}, {"choices": ["a"], "default": "b"}, {"choices": []}, {"secret": True},
        {"type": "integer", "min": 3, "max": 1, "default": 2},
    ],
)  # fmt: skip
def test_a_declaration_that_contradicts_itself_is_refused(spec: dict[str, JsonValue]) -> None:
    with pytest.raises(ValidationError):
        Param.model_validate(spec)


def test_what_is_odd_about_a_flow_is_logged_whenever_it_is_read_anew(
    catalogue: Catalogue, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "flows" / "demo"
    with caplog.at_level("INFO"):
        assert () == catalogue.warnings("demo")
        (folder / "b.png").write_bytes(png())
        for _ in range(2):
            catalogue.plan("demo", {"who": "ann"})
    expected = f"{folder}/flow.yaml:2: warning: b.png is not used (remove it)"
    assert [expected] == caplog.messages
    assert [expected] == [str(one) for one in catalogue.warnings("demo")]


@pytest.mark.parametrize("path", ["", "one", "one/flow.yaml", "two", "nowhere"])
@pytest.mark.parametrize("name", ["one", "two", "none", "", ".", "..", "two/../one", "a\0b", "one/"])
def test_a_flow_is_found_by_name_exactly_where_look_at_all_folders_finds_it(tmp_path: Path, path: str, name: str):
    for flow in ("one", "two"):
        (tmp_path / flow).mkdir()
        (tmp_path / flow / "flow.yaml").touch()
    (tmp_path / "empty").mkdir()
    all_of_them = {folder.name: folder for folder in flow_folders(tmp_path / path)}
    assert all_of_them.get(name) == flow_folder(tmp_path / path, name)


@pytest.mark.parametrize("target", ["/dev/zero", "pipe"])
def test_a_special_file_stops_its_flow_alone_until_it_is_removed(tmp_path: Path, target: str) -> None:
    flows = tmp_path / "flows"
    flow_at(flows / "demo", DEMO, "a.png")
    stuck = flow_at(flows / "stuck", "flow: stuck\nstages: [{stage: one, steps: [{key: {name: home}}]}]\n")
    os.mkfifo(tmp_path / "pipe")
    (stuck / "a.png").symlink_to(tmp_path / target)
    catalogue = Catalogue([flows])
    with pytest.raises(FlowError, match=r"a\.png: it "):
        catalogue.flow("stuck")
    assert "demo" == catalogue.flow("demo").flow.flow
    (stuck / "a.png").unlink()
    assert "stuck" == catalogue.flow("stuck").flow.flow


def test_a_folder_that_does_not_answer_stops_no_other_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow_at(tmp_path / "demo", DEMO, "a.png")
    flow_at(tmp_path / "stuck", "flow: stuck\nstages: [{stage: one, steps: [{key: {name: home}}]}]\n")
    begun, answered = threading.Event(), threading.Event()

    def slow_inspect(folder: Path, handlers: Registry, library: Library) -> tuple[LoadedFlow | None, list[LintProblem]]:
        if folder.name == "stuck":
            begun.set()
            answered.wait(30)
        return inspect(folder, handlers, library)

    monkeypatch.setattr(catalogue_module, "inspect", slow_inspect)
    monkeypatch.setattr(catalogue_module, "READ_WAIT_S", 0.01)
    flows = Catalogue([tmp_path])
    reader = threading.Thread(target=flows.flow, args=("stuck",))
    reader.start()
    try:
        assert begun.wait(30)
        assert "demo" == flows.flow("demo").flow.flow
        with pytest.raises(FlowError, match="is still being read"):
            flows.flow("stuck")
    finally:
        answered.set()
        reader.join()
    assert "stuck" == flows.flow("stuck").flow.flow
