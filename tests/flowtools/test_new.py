import json
from pathlib import Path

import pytest

from droidherd.domain.errors import BadParametersError
from droidherd.flows.lint.judge import lint
from droidherd.flows.loading.document import read_document
from droidherd.flowtools import new
from droidherd.flowtools.words import is_name, name_of, unused_name


def test_new_flow_is_without_findings_and_names_its_schema_in_its_first_line(tmp_path: Path):
    file = new.write(tmp_path, "daily_gift", "com.example.game", (1280, 720))
    assert [] == [str(problem) for problem in lint([tmp_path])]
    first = file.read_text().splitlines()[0]
    schema = (file.parent / first.partition("$schema=")[2]).resolve()
    assert "droidherd flow" == json.loads(schema.read_text())["title"]
    data = read_document(file).data
    assert isinstance(data, dict)
    assert ("daily_gift", "com.example.game", "1280x720") == tuple(data[key] for key in ("flow", "app", "recorded"))


def test_what_stands_in_its_comments_is_valid_as_well(tmp_path: Path):
    """Who takes the # away gets what the comment promises: all that is missing then are the images."""
    file = new.write(tmp_path, "daily_gift")
    file.write_text(file.read_text().replace("      # - ", "      - "))
    problems = [problem.what for problem in lint([tmp_path])]
    assert ["gift.png: no such image", "ok.png: no such image"] == problems[:2]
    assert {"no such image"} == {problem.partition(": ")[2] for problem in problems}


def test_a_flow_that_is_there_is_never_written_over(tmp_path: Path):
    new.write(tmp_path, "daily_gift").write_text("mine")
    with pytest.raises(BadParametersError, match="is there already"):
        new.write(tmp_path, "daily_gift")
    assert "mine" == (tmp_path / "daily_gift" / "flow.yaml").read_text()


def test_an_old_schema_is_brought_up_to_date(tmp_path: Path):
    (tmp_path / new.SCHEMA).write_text("{}")
    new.write(tmp_path, "one")
    assert "title" in (tmp_path / new.SCHEMA).read_text()


@pytest.mark.parametrize("name", ["Daily", "daily-gift", "../up", "", "1st"])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str):
    with pytest.raises(BadParametersError, match="is not a name"):
        new.write(tmp_path, name)
    assert [] == [*tmp_path.iterdir()]


def test_what_people_read_becomes_a_name():
    assert ("daily_gift", "tap_1", "ok") == (
        name_of("Daily gift!", "tap_1"),
        name_of("登录", "tap_1"),
        name_of("OK", "x"),
    )
    assert is_name(name_of("x" * 200, "y"))
    taken: set[str] = set()
    assert ["ok", "ok_2", "ok_3"] == [unused_name("ok", taken) for _ in range(3)]
