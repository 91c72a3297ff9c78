"""What a stage changes is captured, changed and taken back, through the real adb server; the dump is the judge."""

import random
import re

import pytest
from pydantic import JsonValue

from droidherd.contracts.changes import Thing, Value
from droidherd.contracts.stage import StageOutcome
from droidherd.domain.errors import CommandFailedError, FencedError, FinalError, FlowError
from droidherd.emulator import lease
from droidherd.emulator.token import Token
from droidherd.stage.attempt import StageAttempt, StageFailedError
from tests.changes.world import APP, FRESH, GONE, GONE_CONTENT, SETTLED, CutOffError, World


def names(values: tuple[Value, ...]) -> dict[str, str]:
    return {value.name: value.value if value.there else "absent" for value in values}


# --- there and back ------------------------------------------------------------------------------------------


def test_a_stage_that_was_undone_leaves_everything_as_it_was_byte_for_byte(world: World):
    before = world.dump()
    captured = world.capture()
    assert before == world.dump()
    report = world.stage()
    changed = world.dump()
    assert all(before[part] != changed[part] for part in ("settings", "wm", "properties", "packages", "files"))
    undone = world.undo(captured.before, report.after)
    assert ((), True, True) == (undone.conflicts, undone.clean, undone.released)
    assert before == world.dump()


def test_what_was_there_is_listed_thing_by_thing_and_each_thing_once(world: World):
    captured = world.capture()
    before = names(captured.before)
    assert 13 == len(before) == len(captured.before)
    assert ("102", "absent", "absent") == (before["system/screen_brightness"], before["size"], before[FRESH])
    assert {SETTLED, GONE, APP, "com.example.second"} == {value.name for value in captured.before if value.kept}
    assert {value.kept for value in captured.before if value.kept} <= {each.name for each in captured.artifacts}
    kept = next(value.kept for value in captured.before if value.name == GONE)
    assert GONE_CONTENT == world.store.get("task-1", kept)


def test_a_stage_says_how_it_left_what_it_changed(world: World):
    world.capture()
    after = names(world.stage().after)
    expected = {"size": "720x1280", "density": "240", "global/display_size_forced": "720,1280", GONE: "absent"}
    assert expected == {name: after[name] for name in expected}
    assert "0.25" == after["global/animator_duration_scale"]


def test_undoing_again_what_was_undone_does_nothing(world: World):
    captured = world.capture()
    report = world.stage()
    first = world.undo(captured.before, report.after)
    again = world.undo(captured.before, report.after)
    assert (13, 0) == (len(first.restored), len(again.restored))
    assert ((), True) == (again.conflicts, again.released)


def test_what_the_stage_never_came_to_is_left_alone(world: World):
    captured = world.capture()
    before = world.dump()
    assert ((), ()) == ((undone := world.undo(captured.before)).restored, undone.conflicts)
    assert before == world.dump()


def test_after_a_reboot_it_is_taken_back_all_the_same(world: World):
    before = world.dump()
    captured, report = world.capture(), world.stage()
    world.one.control.reboot(world.one.name, boot_s=0.0)
    world.reconnect()
    lease.floor(world.one.adb, world.one.address, world.one.token(0, world.tries))
    undone = world.undo(captured.before, report.after)
    assert "property debug.hwui.renderer" not in undone.restored
    assert before == world.dump()


def test_a_file_of_many_megabytes_comes_back(world: World):
    content = random.Random(5).randbytes(24_000_000)
    world.push(GONE, content)
    before = world.dump()
    world.replan([{"delete": {"file": GONE}}])
    captured, report = world.capture(), world.stage()
    assert GONE not in world.dump()["files"]
    world.undo(captured.before, report.after)
    assert before == world.dump()


def test_an_older_package_comes_back_though_android_refuses_a_downgrade(world: World):
    before = world.dump()["packages"]
    world.replan([{"install": {"apk": "extra.apk"}}])
    captured, report = world.capture(), world.stage()
    assert 2 == world.dump()["packages"][APP]["version_code"]
    world.undo(captured.before, report.after)
    assert before == world.dump()["packages"]


def test_cleanup_and_release_come_last_and_only_when_asked_for(world: World):
    world.replan([{"set": {"setting": "global/x", "to": "1"}}], cleanup=[{"key": {"name": "home"}}])
    captured, report = world.capture(), world.stage()
    world.one.mark()
    assert not world.undo(captured.before, report.after, last=False).released
    assert [] == world.one.did("input keyevent KEYCODE_HOME")
    assert world.undo(captured.before, report.after).released
    assert 1 == len(world.one.did("input keyevent KEYCODE_HOME"))
    assert f"{world.one.lease:015d}\n" == world.shell("getprop debug.droidherd.free")


# --- cut off -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_cut_off_anywhere_and_run_again_it_is_taken_back(world: World, seed: int):
    """The worker's thread is gone between capture and last change, up to three times; then the stage completes."""
    chance = random.Random(seed)
    before = world.dump()
    captured = world.capture()
    deaths = 0
    for _ in range(3):
        with world.cut_off(chance.randint(2, 34), sent=chance.random() < 0.5):
            try:
                world.stage()
            except CutOffError:
                deaths += 1
    report = world.stage()
    assert (StageOutcome.COMPLETED, True) == (report.outcome, deaths > 0)
    assert (13, ()) == (len(report.after), world.undo(captured.before, report.after).conflicts)
    assert before == world.dump()


@pytest.mark.parametrize("seed", range(6))
def test_cut_off_anywhere_and_never_run_again_it_is_taken_back_without_force(world: World, seed: int):
    """Nobody said how the stage left things; what its own steps make of them is known from its plan."""
    chance = random.Random(100 + seed)
    before = world.dump()
    captured = world.capture()
    with world.cut_off(chance.randint(2, 34), sent=chance.random() < 0.5), pytest.raises(CutOffError):
        world.stage()
    assert () == world.undo(captured.before).conflicts
    assert before == world.dump()


@pytest.mark.parametrize("seed", range(6))
def test_an_undo_that_is_cut_off_anywhere_converges(world: World, seed: int):
    chance = random.Random(200 + seed)
    before = world.dump()
    captured, report = world.capture(), world.stage()
    deaths = 0
    for _ in range(4):
        with world.cut_off(chance.randint(2, 60), sent=chance.random() < 0.5):
            try:
                world.undo(captured.before, report.after)
            except CutOffError:
                deaths += 1
    undone = world.undo(captured.before, report.after)
    assert ((), True, True) == (undone.conflicts, undone.released, deaths > 0)
    assert before == world.dump()


@pytest.mark.parametrize("match", ["^pm uninstall", "^pm install", "^mv ", "^chmod", "^settings put", "^wm size"])
def test_cut_inside_a_line_that_restores_it_converges(world: World, match: str):
    """The emulator itself loses the line between two of its commands: a package may be gone, a file half in place."""
    before = world.dump()
    captured, report = world.capture(), world.stage()
    world.one.control.cut_after(world.one.name, match, when="after")
    with pytest.raises(StageFailedError):
        world.undo(captured.before, report.after)
    world.reconnect()
    assert () == world.undo(captured.before, report.after).conflicts
    assert before == world.dump()


def test_a_rollback_that_failed_half_way_can_be_asked_for_again(world: World):
    """What is neither as before nor as the stage left it, the rollback before left so itself."""
    before = world.dump()
    captured, report = world.capture(), world.stage()
    world.one.control.cut_after(world.one.name, "^pm uninstall", when="after")
    with pytest.raises(StageFailedError):
        world.undo(captured.before, report.after)
    world.reconnect()
    world.rollbacks = 2
    assert () == world.undo(captured.before, report.after).conflicts
    assert before == world.dump()


def test_a_half_done_rollback_of_an_earlier_change_excuses_nothing(world: World):
    captured, report = world.capture(), world.stage()
    world.undo(captured.before, report.after)
    world.one.lease += 1
    captured, report = world.capture(), world.stage()
    world.shell(f"pm uninstall {APP}")
    world.rollbacks = 2
    assert [APP] == [conflict.name for conflict in world.undo(captured.before, report.after).conflicts]


def test_a_capture_that_is_cut_off_changes_nothing_and_can_be_repeated(world: World):
    before = world.dump()
    with world.cut_off(9, sent=True), pytest.raises(CutOffError):
        world.capture()
    first, second = world.capture(), world.capture()
    assert before == world.dump()
    assert names(first.before) == names(second.before)
    assert not {value.kept for value in first.before if value.kept} & {value.kept for value in second.before}


def test_who_was_fenced_out_by_the_undo_changes_nothing_any_more(world: World):
    captured = world.capture()
    stale = StageAttempt(world.services(), world.work(), world.life_line())
    before = world.dump()
    world.undo(captured.before)
    with pytest.raises(StageFailedError) as caught:
        stale.run()
    assert isinstance(caught.value.cause, FencedError)
    assert before == world.dump()


# --- conflicts -----------------------------------------------------------------------------------------------

MEDDLING = [
    ("settings put global animator_duration_scale 3", Thing.SETTING, "3"),
    ("settings delete system screen_brightness", Thing.SETTING, "absent"),
    ("wm density 200", Thing.WM, "200"),
    ("setprop debug.hwui.renderer opengl", Thing.PROPERTY, "opengl"),
    (f"echo mine >{SETTLED}", Thing.FILE, ""),
    (f"rm {FRESH}; mkdir {FRESH}", Thing.FILE, "is a folder"),
    (f"echo mine >'{GONE}'", Thing.FILE, ""),
    (f"pm uninstall {APP}", Thing.PACKAGE, "absent"),
]


@pytest.mark.parametrize(("line", "thing", "found"), MEDDLING)
def test_what_somebody_else_changed_is_a_conflict_and_nothing_is_touched(
    world: World, line: str, thing: Thing, found: str
):
    captured, report = world.capture(), world.stage()
    world.shell(line)
    before = world.dump()
    undone = world.undo(captured.before, report.after)
    conflict = next(each for each in undone.conflicts if each.thing is thing)
    assert conflict.found.startswith(found)
    assert conflict.expected
    assert ((), True) == (undone.restored, undone.released)
    assert before == world.dump()


@pytest.mark.parametrize(("line", "thing"), [(line, thing) for line, thing, found in MEDDLING if "folder" not in found])
def test_forced_everything_is_restored_though_somebody_else_changed_it(world: World, line: str, thing: Thing):
    before = world.dump()
    captured, report = world.capture(), world.stage()
    world.shell(line)
    undone = world.undo(captured.before, report.after, force=True)
    assert ((), 13, True) == (undone.conflicts, len(undone.restored), undone.released)
    assert before == world.dump()


def test_forced_again_after_somebody_changed_it_again_it_is_restored_again(world: World):
    before = world.dump()
    captured, report = world.capture(), world.stage()
    for _ in range(2):
        world.shell("wm density 200")
        assert world.undo(captured.before, report.after, force=True).restored
        assert before == world.dump()


def test_even_force_does_not_take_a_folder_away_that_stands_where_a_file_was(world: World):
    world.replan([{"put": {"file": FRESH, "text": "x"}}])
    captured, report = world.capture(), world.stage()
    world.shell(f"rm {FRESH}; mkdir {FRESH}")
    with pytest.raises(StageFailedError) as caught:
        world.undo(captured.before, report.after, force=True)
    assert isinstance(caught.value.cause, CommandFailedError)
    assert "is no plain file" in caught.value.cause.what
    assert caught.value.cause.what.startswith(f"step 1, file {FRESH}: ")


def test_a_value_nobody_knows_of_is_a_conflict_that_says_so(world: World):
    """The stage never said how it left things, and its flow is another one by now."""
    world.replan([{"put": {"file": FRESH, "from": "fresh.bin"}}, {"set": {"setting": "global/x", "to": "1"}}])
    captured = world.capture()
    world.stage()
    (world.flows / "rearrange" / "files" / "fresh.bin").write_bytes(b"another one")
    undone = world.undo(captured.before)
    assert {FRESH: "", "global/x": ""} == {each.name: each.expected for each in undone.conflicts}


def test_an_unreported_second_try_is_no_conflict_but_foreign_changes_are(world: World):
    missing: JsonValue = {"put": {"file": "/sdcard/late/x", "text": "x"}}
    world.replan([{"set": {"setting": "global/x", "to": "1"}}, missing, {"set": {"setting": "global/long", "to": "1"}}])
    before = world.dump()
    captured = world.capture()
    with pytest.raises(StageFailedError) as caught:
        world.stage()
    first = caught.value.after
    assert "absent" == names(first)["global/long"]
    world.shell("settings put global long 1")  # as its next try does, whose worker dies before it can say so
    assert ["global/long"] == [each.name for each in world.undo(captured.before, first).conflicts]
    world.shell("settings put global x 7")
    assert ["global/x"] == [each.name for each in world.undo(captured.before, first, unsaid=True).conflicts]
    world.shell("settings put global x 1")
    assert () == world.undo(captured.before, first, unsaid=True).conflicts
    assert before == world.dump()


def test_values_come_back_though_the_flow_changed_since(world: World):
    before = world.dump()
    captured, report = world.capture(), world.stage()
    world.replan([{"set": {"setting": "global/x", "to": "1"}}])
    assert () == world.undo(captured.before, report.after).conflicts
    assert before == world.dump()


def test_when_a_kept_content_is_gone_nothing_is_touched(world: World):
    captured, report = world.capture(), world.stage()
    for path in (world.root / "artifacts" / "task-1").glob("before-*.bin"):
        path.unlink()
    before = world.dump()
    with pytest.raises(StageFailedError) as caught:
        world.undo(captured.before, report.after)
    assert re.match(r"(task-1: )?step \d+, (file|package) .*has no artifact before-", str(caught.value.cause))
    assert before == world.dump()


# --- the flow's own undo -------------------------------------------------------------------------------------

OWN_UNDO: list[JsonValue] = [{"start_app": {"app": "com.example.herd"}}, {"tap": {"percent": [50, 50]}}]


def test_the_flows_own_undo_runs_before_the_values_are_restored(world: World):
    world.replan([{"set": {"setting": "global/x", "to": "1"}}], undo=OWN_UNDO)
    captured, report = world.capture(), world.stage()
    world.one.mark()
    world.undo(captured.before, report.after)
    did = [command.argv[0] for command in world.one.did("") if command.effect and command.rc == 0]
    assert did.index("am") < did.index("input") < did.index("settings")


@pytest.mark.parametrize("seed", range(4))
def test_the_flows_own_undo_is_not_repeated_when_it_is_cut_off(world: World, seed: int):
    chance = random.Random(seed)
    before = world.dump()
    world.replan([{"set": {"setting": "global/x", "to": "1"}}], undo=OWN_UNDO)
    captured, report = world.capture(), world.stage()
    world.one.mark()
    for _ in range(3):
        with world.cut_off(chance.randint(4, 14), sent=chance.random() < 0.5):
            try:
                world.undo(captured.before, report.after)
            except CutOffError:
                continue
    undone = world.undo(captured.before, report.after)
    assert ((), 1) == (undone.conflicts, len(world.one.did("input tap")))
    assert before == world.dump()


def test_what_the_own_undo_took_back_is_no_conflict_when_tried_again(world: World):
    """The first try gets through the steps, which leave a value that is neither before nor after, and dies there."""
    before = world.dump()
    world.replan([{"set": {"setting": "global/x", "to": "1"}}], undo=OWN_UNDO)
    captured, report = world.capture(), world.stage()
    world.one.control.cut_after(world.one.name, "^settings delete", when="before")
    with pytest.raises(StageFailedError):
        world.undo(captured.before, report.after)
    world.reconnect()
    world.shell("settings put global x half")
    undone = world.undo(captured.before, report.after)
    assert ((), ("setting global/x",)) == (undone.conflicts, undone.restored)
    assert before == world.dump()


# --- trouble -------------------------------------------------------------------------------------------------


def test_a_stage_that_failed_says_how_it_left_things(world: World):
    before = world.dump()
    world.replan([{"set": {"setting": "global/x", "to": "1"}}, {"put": {"file": "/sdcard/none/x", "text": "x"}}])
    captured = world.capture()
    with pytest.raises(StageFailedError) as caught:
        world.stage()
    assert {"global/x": "1", "/sdcard/none/x": "absent"} == names(caught.value.after)
    assert (True, CommandFailedError) == (caught.value.clean, type(caught.value.cause))
    assert () == world.undo(captured.before, caught.value.after).conflicts
    assert before == world.dump()


def test_what_could_not_be_put_back_is_refused_before_anything_is_changed(world: World):
    world.shell(f"settings put global long '{'y' * 8001}'; mkdir '{FRESH}'")
    steps: list[JsonValue] = [
        {"set": {"setting": "global/long", "to": "1"}},
        {"put": {"file": FRESH, "text": "x"}},
    ]
    for step in steps:
        world.replan([step])
        before = world.dump()
        with pytest.raises(StageFailedError) as caught:
            world.capture()
        assert isinstance(caught.value.cause, FinalError)
        assert before == world.dump()


def test_a_stage_whose_payload_is_another_by_now_fails_before_any_change(world: World):
    world.capture()
    before = world.dump()
    for file in (world.flows / "rearrange" / "files").iterdir():
        file.write_bytes(b"another one")
    with pytest.raises(StageFailedError) as caught:
        world.stage()
    assert isinstance(caught.value.cause, FlowError)
    assert before == world.dump()


def test_a_full_disk_fails_the_stage_and_says_so(world: World):
    world.replan([{"install": {"apk": "extra.apk"}}])
    world.capture()
    world.one.control.set_fault(world.one.name, "disk_full")
    with pytest.raises(StageFailedError) as caught:
        world.stage()
    assert "No space left" in str(caught.value.cause)
    assert {APP} == {value.name for value in caught.value.after}


def test_tokens_go_on_from_the_capture_to_the_stage_to_the_undo(world: World):
    captured, report = world.capture(), world.stage()
    world.undo(captured.before, report.after)
    assert str(Token(world.one.lease, 0, 3)) == world.shell("getprop debug.droidherd.token").strip()
