"""Handlers by name: ours, those of others, and how one is run."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import JsonValue
from typing_extensions import override

from droidherd.contracts.plan import Stage
from droidherd.domain.errors import BadParametersError, CommandFailedError, FlowError, UnclassifiedError, Verdict
from droidherd.domain.ports import Wanted
from droidherd.domain.task.things import State
from droidherd.flows.catalogue import Catalogue
from droidherd.flows.lint.inspect import inspect
from droidherd.flows.lint.judge import lint
from droidherd.handlers.base import Handler, HandlerContext, Params, Subject
from droidherd.handlers.registry import Registry, build_registry
from droidherd.stage.attempt import StageFailedError
from tests.changes.world import CutOffError, World
from tests.flows.test_lint import HEAD, flow_at

NAME = "global/from_handler"


class GreetParams(Params):
    who: str
    fails: bool = False


class Greet(Handler[GreetParams]):
    """Writes down which of its methods ran."""

    name: ClassVar[str] = "greet"
    params = GreetParams

    def __init__(self) -> None:
        self.ran: list[str] = []

    @override
    def changes(self, params: GreetParams) -> tuple[Subject, ...]:
        return (Subject("setting", NAME, State(params.who)),)

    @override
    def is_done(self, ground: HandlerContext, params: GreetParams) -> bool:
        self.ran.append("is_done")
        return ground.things.read("setting", NAME) == State(params.who)

    @override
    def prepare(self, ground: HandlerContext, params: GreetParams) -> None:
        self.ran.append("prepare")
        assert ground.scratch.is_dir()

    @override
    def execute(self, ground: HandlerContext, params: GreetParams) -> dict[str, JsonValue]:
        self.ran.append("execute")
        if params.fails:
            raise CommandFailedError("no", rc=1)
        if params.who == "nobody":
            raise KeyError(params.who)
        ground.doing.make("write", Wanted("setting", NAME, State(params.who)))
        return {"greeted": params.who}

    @override
    def cleanup(self, ground: HandlerContext, params: GreetParams) -> None:
        self.ran.append("cleanup")

    @override
    def rollback(self, ground: HandlerContext, params: GreetParams, before: Mapping[tuple[str, str], State]) -> None:
        self.ran.append(f"rollback {before['setting', NAME]}")


@pytest.fixture
def greet() -> Greet:
    return Greet()


@pytest.fixture
def task(world: World, greet: Greet, tmp_path: Path) -> World:
    """A task whose flow calls the handler, and then does something else."""
    world.shell(f"settings delete {NAME.replace('/', ' ')}")
    plan_it(world, greet, tmp_path, "ann")
    return world


def plan_it(world: World, greet: Greet, tmp_path: Path, who: str, fails: str = "false") -> None:
    step = f"{{call: {{by: greet, with: {{who: {who}, fails: {fails}}}}}}}"
    flow_at(
        tmp_path / "mine" / "demo", f"flow: demo\nstages: [{{stage: main, steps: [{step}, {{key: {{name: menu}}}}]}}]\n"
    )
    world.catalogue = Catalogue([tmp_path / "mine"], handlers=Registry([greet]))
    world.plan = world.catalogue.plan("demo", {})


def stage_of(world: World) -> Stage:
    return world.plan.stages[0]


def test_a_handler_prepares_executes_and_cleans_up_unless_it_is_done(task: World, greet: Greet):
    _, report = task.all()
    assert (["is_done", "prepare", "execute", "cleanup"], {"greeted": "ann"}) == (greet.ran, report.summary)
    greet.ran.clear()
    task.one.lease += 10
    _, report = task.all()
    assert (["is_done"], {}) == (greet.ran, report.summary)


def test_its_changes_are_captured_and_its_rollback_runs_before_values_return(task: World, greet: Greet):
    assert [NAME] == [change.name for change in stage_of(task).changes]
    before = task.dump()
    captured, report = task.all()
    task.undo(captured.before, report.after)
    assert ("rollback absent", before) == (greet.ran[-1], task.dump())


def test_it_cleans_up_when_it_failed_too(task: World, greet: Greet, tmp_path: Path):
    plan_it(task, greet, tmp_path, "ann", fails="true")
    with pytest.raises(StageFailedError):
        task.stage()
    assert ["is_done", "prepare", "execute", "cleanup"] == greet.ran
    assert [] == [*(task.root / "scratch").iterdir()]


def test_a_bug_in_a_handler_is_final_leaves_its_trace_and_a_clean_emulator(task: World, greet: Greet, tmp_path: Path):
    plan_it(task, greet, tmp_path, "nobody")
    with pytest.raises(StageFailedError) as caught:
        task.stage()
    left = caught.value
    assert (UnclassifiedError, "KeyError: 'nobody'") == (type(left.cause), left.cause.what)
    assert (Verdict.FINAL, True, "cleanup") == (left.cause.verdict, left.clean, greet.ran[-1])
    page = next(one.name for one in left.artifacts if one.name.endswith("evidence.html"))
    assert b"in execute" in task.store.get("task-1", page)


def test_when_the_stage_had_gone_on_after_it_it_is_left_alone(task: World, greet: Greet):
    """It is cut off right after the step behind the handler was done: that one is not done again, nor is this."""
    task.one.mark()
    calls = 0
    while not task.one.did("input keyevent KEYCODE_MENU"):
        calls += 1
        with task.cut_off(calls, sent=True):
            try:
                task.stage()
            except CutOffError:
                continue
    greet.ran.clear()
    task.stage()
    assert ([], 1) == (greet.ran, len(task.one.did("input keyevent KEYCODE_MENU")))


def test_a_host_without_the_handler_says_so(task: World):
    task.catalogue.handlers = Registry([])
    with pytest.raises(StageFailedError) as caught:
        task.stage()
    assert isinstance(caught.value.cause, FlowError)
    assert "there is no handler 'greet' on this host" in str(caught.value.cause)


# --- judged before it runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("call: {by: scn}", "flow.yaml:6: error: call scn: there is no handler 'scn' (did you mean scan?)"),
        (
            "call: {by: scan, with: {deep: 1}}",
            "flow.yaml:6: error: call scan: deep is no parameter of it (known are: none)",
        ),
        (
            "call: {by: download, with: {url: x}}",
            "flow.yaml:6: error: call download: exactly one of file and package is needed",
        ),
        (
            "call: {by: download, with: {url: x, file: y}}",
            "flow.yaml:6: error: call download: y is not a plain absolute path, as in /sdcard/game.cfg",
        ),
        ("call: {}", "flow.yaml:6: error: by is missing (add by)"),
        ("call: {by: scan, wiht: {}}", "flow.yaml:6: error: unknown key 'wiht' (did you mean with?)"),
    ],
)
def test_a_faulty_call_is_named_with_file_and_line(tmp_path: Path, step: str, expected: str):
    folder = flow_at(tmp_path / "demo", f"{HEAD}      - {step}\n")
    assert expected in [str(problem).removeprefix(f"{folder}/") for problem in lint([folder])]


def test_a_handler_that_changes_something_cannot_stand_where_nobody_captures(tmp_path: Path):
    call = "{call: {by: associate, with: {account: a}}}"
    account = f"flow: demo\nstages: [{{stage: a, effect: account, steps: [{call}]}}]\n"
    cleanup = f"{HEAD}      - key: {{name: home}}\ncleanup: [{call}]\n"
    for text, expected in (
        (account, "the effect of its stage is in the account"),
        (cleanup, "cannot stand in cleanup"),
    ):
        (problem,) = inspect(flow_at(tmp_path / "demo", text))[1]
        assert expected in problem.what


def test_parameters_are_checked_when_a_task_is_submitted(tmp_path: Path):
    text = HEAD.replace("stages:", "params: {who: {type: string, example: a}}\nstages:")
    flow_at(tmp_path / "demo", f'{text}      - call: {{by: associate, with: {{account: "${{who}}"}}}}\n')
    with pytest.raises(BadParametersError, match="params of step 1: account"):
        Catalogue([tmp_path]).plan("demo", {"who": "not a name"})


# --- those of others -----------------------------------------------------------------------------------------


def test_ours_are_there():
    assert ["associate", "check", "download", "scan"] == build_registry().names


def package(root: Path, name: str, points: str, text: str = "") -> None:
    """A distribution as pip leaves it."""
    about = root / f"{name}-1.0.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[droidherd.handlers]\n{points}\n")
    (root / f"{name}.py").write_text(text)


HELLO = """
from droidherd.handlers.base import Handler, Params
class Hello(Handler):
    name = "hello"
    params = Params
    def execute(self, ground, params):
        return {}
class Nameless(Hello):
    pass
del Hello.name
class Idle(Handler):
    name = "idle"
    params = Params
"""


@pytest.fixture
def site_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith("herd_"):
            sys.modules.pop(name)


def test_an_installed_package_offers_its_handlers_by_name(site_packages: Path):
    package(site_packages, "herd_extras", "hello = herd_extras:Hello", HELLO.replace("del Hello.name", ""))
    assert "hello" in build_registry().names


def test_two_packages_that_offer_the_same_name_are_named(site_packages: Path):
    for name in ("herd_extras", "herd_others"):
        package(site_packages, name, f"hello = {name}:Hello", HELLO.replace("del Hello.name", ""))
    with pytest.raises(BadParametersError, match="both offer a handler hello") as caught:
        build_registry()
    assert {"herd_extras", "herd_others"} <= set(str(caught.value).split())


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ("hello = herd_extras:__name__", "hello of the package herd_extras is no handler"),
        ("hello = herd_extras:Helo", "cannot be loaded: .*Helo"),
        ("hello = herd_missing:Hello", "hello of the package herd_extras cannot be loaded"),
        ("hello = herd_extras:Idle", "cannot be loaded: .*abstract"),
        ("hello = herd_extras:Nameless", "has no name"),
    ],
)
def test_a_package_whose_handler_is_no_good_is_named(site_packages: Path, points: str, expected: str):
    package(site_packages, "herd_extras", points, HELLO)
    with pytest.raises(BadParametersError, match=expected):
        build_registry()
