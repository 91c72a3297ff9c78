"""Flows of the gallery for any Android: settings, packages, files. Each does its work, and a rollback takes it back."""

from typing import Any

import pytest

from droidherd.domain.errors import BadParametersError
from droidherd.flows.catalogue import Catalogue
from tests.changes.world import World

SECOND = "com.example.second"
CALM = ("window_animation_scale", "transition_animation_scale", "animator_duration_scale")


def there_and_back(world: World) -> dict[str, Any]:
    """The dump after the task; that after its rollback equals the one before."""
    before = world.dump()
    captured, report = world.all()
    changed = world.dump()
    assert () == world.undo(captured.before, report.after).conflicts
    assert before == world.dump()
    assert before != changed
    return changed


def test_write_file_writes_over_a_file_and_the_old_one_comes_back(world: World):
    world.shell("echo old >/sdcard/game.cfg")
    world.gallery("write_file", file="/sdcard/game.cfg", text="mode=fast; $HOME 'x'")
    captured, report = world.all()
    assert "mode=fast; $HOME 'x'" == world.shell("cat /sdcard/game.cfg").strip()
    world.undo(captured.before, report.after)
    assert "old" == world.shell("cat /sdcard/game.cfg").strip()


def test_a_file_that_write_file_made_is_gone_after_the_rollback(world: World):
    world.gallery("write_file", file="/sdcard/new.cfg", text="x")
    assert "/sdcard/new.cfg" in there_and_back(world)["files"]


@pytest.mark.parametrize("file", ["game.cfg", "/sdcard/$(reboot)", "/sdcard/a b"])
def test_write_file_refuses_what_is_no_plain_path(file: str):
    with pytest.raises(BadParametersError, match="file"):
        Catalogue().plan("write_file", {"file": file, "text": "x"})


def test_calm_screen_turns_animations_off_and_back_on(world: World):
    world.shell("settings put global animator_duration_scale 0.5")
    world.gallery("calm_screen")
    changed = there_and_back(world)["settings"]["global"]
    assert {"0"} == {changed[name] for name in CALM}
    assert "7" == changed["stay_on_while_plugged_in"]


def test_remove_app_takes_an_app_away_and_a_rollback_brings_it_back(world: World):
    world.gallery("remove_app", package=SECOND)
    assert SECOND not in there_and_back(world)["packages"]
