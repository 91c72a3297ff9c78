"""The example of docs/handlers.md, installed and run as it stands there."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from droidherd.artifacts.store import DirectoryStore
from droidherd.domain.errors import FinalError
from droidherd.domain.task.things import ABSENT
from droidherd.flows.catalogue import Catalogue
from droidherd.flows.lint.judge import lint
from droidherd.handlers.base import Handler
from droidherd.handlers.registry import GROUP
from droidherd.stage.attempt import StageFailedError
from tests.changes.world import World

PAGE = (Path(__file__).parents[2] / "docs" / "handlers.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
SETTING = ("setting", "global/herd_season")


@pytest.fixture
def extras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package of the page, as pip would install it."""
    root = tmp_path / "site"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    about = root / f"herd_seasons-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = "".join(f"{name} = {value}\n" for name, value in project["entry-points"][GROUP].items())
    (about / "entry_points.txt").write_text(f"[{GROUP}]\n{points}")
    monkeypatch.syspath_prepend(str(root))
    yield root
    sys.modules.pop("herd_seasons", None)


@pytest.fixture
def season(world: World, extras: Path) -> World:
    world.shell("settings delete global herd_season")
    assert [] == [str(problem) for problem in lint([extras / "flows"])]
    world.catalogue = Catalogue([extras / "flows"])
    world.plan = world.catalogue.plan("new_season", {"season": "winter"})
    return world


def test_the_handler_does_its_work_once_and_a_rollback_takes_it_back(season: World):
    before = season.dump()
    captured, report = season.all()
    assert {"season": "winter"} == report.summary
    assert "winter" == season.shell("settings get global herd_season").strip()
    assert ABSENT.there is captured.before[0].there
    store: DirectoryStore = season.store
    kept = [store.get("task-1", ref.name) for ref in store.list("task-1") if "season.txt" in ref.name]
    assert [b"winter"] == kept
    season.one.lease += 10
    assert {} == season.all()[1].summary
    season.undo(captured.before, report.after)
    assert before == season.dump()


def test_the_handler_refuses_an_app_that_is_not_there(season: World, extras: Path):
    flow = extras / "flows" / "new_season" / "flow.yaml"
    flow.write_text(flow.read_text().replace('"${season}"}', '"${season}", app: com.example.none}'))
    season.plan = season.catalogue.plan("new_season", {"season": "winter"})
    with pytest.raises(StageFailedError) as caught:
        season.stage()
    assert isinstance(caught.value.cause, FinalError)
    assert "com.example.none: is not installed" in str(caught.value.cause)


def test_the_page_names_every_method_a_handler_may_have():
    words = set(re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE))
    methods = {name for name, value in vars(Handler).items() if callable(value) and not name.startswith("_")}
    assert methods == words
