"""The very lines that ask for things and make them, under every real shell this machine has and under ours."""

import io
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from droidherd.adb.shell import ShellResult
from droidherd.domain.errors import BadParametersError, FinalError, UnknownOutcomeError
from droidherd.domain.ports import Wanted
from droidherd.domain.task.things import ABSENT, State, spare_of
from droidherd.emulator import making
from tests.emulator.ground import GROUNDS, Ground, digest, ground_in

APP = "com.example.extra"


@pytest.fixture(params=GROUNDS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Ground]:
    with ground_in(tmp_path / "ground", str(request.param)) as place:
        yield place


def act(ground: Ground, wanted: Wanted, upload: str = "") -> tuple[int, str]:
    """As the line of an effect runs an act: its return code, and what it said."""
    result = ground.raw(f'o=$({making.making(wanted, upload)} </dev/null 2>&1); r=$?; echo "$o"; exit $r')
    assert b"" == result.err
    return result.rc, result.text


def value(ground: Ground, thing: str, name: str) -> State:
    state = making.value(thing, name, ground.raw(making.question(thing, name)))
    if state is not None:
        return state
    return State("null") if making.is_listed(name, ground.raw(making.all_settings(name))) else ABSENT


def facts(ground: Ground, path: str) -> making.PlainFile | None:
    return making.file_facts(path, ground.raw(making.question("file", path)))


def packages(ground: Ground) -> tuple[str, ...]:
    return making.package_files(APP, ground.raw(making.question("package", APP)))


# --- values --------------------------------------------------------------------------------------------------

VALUES = ["1", "", " a  b ", "null", "-n", "\\n \\\\ %s", "'\"$HOME `id` $(id)*", "ends in lines\n\n", "ß😀"]


@pytest.mark.parametrize("text", VALUES)
def test_a_setting_gets_just_this_value_and_is_deleted_again(ground: Ground, text: str):
    name = "global/some_key"
    assert ABSENT == value(ground, "setting", name)
    assert 0 == act(ground, Wanted("setting", name, State(text)))[0]
    assert State(text) == value(ground, "setting", name)
    assert 0 == act(ground, Wanted("setting", name, ABSENT))[0]
    assert ABSENT == value(ground, "setting", name)


@pytest.mark.parametrize("text", [each for each in VALUES if not each.endswith("\n")])
def test_a_property_gets_just_this_value_and_empty_is_absent(ground: Ground, text: str):
    assert 0 == act(ground, Wanted("property", "debug.x", State(text)))[0]
    assert (State(text) if text else ABSENT) == value(ground, "property", "debug.x")
    assert 0 == act(ground, Wanted("property", "debug.x", ABSENT))[0]
    assert ABSENT == value(ground, "property", "debug.x")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=40))
@example("x" * 8000)
@example("'" * 1000)
def test_any_text_survives_as_a_setting(tmp_path: Path, text: str):
    if text == "--user":
        return
    for name in GROUNDS:
        with ground_in(tmp_path / f"{name}-{digest(text.encode())[:8]}", name) as ground:
            act(ground, Wanted("setting", "global/x", ABSENT))
            assert (0, State(text)) == (
                act(ground, Wanted("setting", "global/x", State(text)))[0],
                value(ground, "setting", "global/x"),
            )


@pytest.mark.parametrize(("name", "text"), [("size", "720x1280"), ("density", "240")])
def test_an_override_of_the_screen_comes_and_goes(ground: Ground, name: str, text: str):
    assert ABSENT == value(ground, "wm", name)
    assert 0 == act(ground, Wanted("wm", name, State(text)))[0]
    assert State(text) == value(ground, "wm", name)
    assert 0 == act(ground, Wanted("wm", name, ABSENT))[0]
    assert ABSENT == value(ground, "wm", name)


def test_the_size_of_the_panel_is_no_override_but_what_was_wanted(ground: Ground):
    act(ground, Wanted("wm", "size", State("720x1280")))
    assert 0 == act(ground, Wanted("wm", "size", State("1280x720")))[0]
    assert ABSENT == value(ground, "wm", "size")


def test_a_size_that_android_does_not_give_is_a_failure_with_what_it_gives(ground: Ground):
    rc, text = act(ground, Wanted("wm", "size", State("9000x9000")))
    assert (1, True) == (rc, "Override size: 2560x1440" in text)


# --- files ---------------------------------------------------------------------------------------------------


def put(ground: Ground, path: str, content: bytes, mode: str = "") -> tuple[int, str]:
    upload = ground.write("upload", content)
    return act(ground, Wanted("file", path, State(digest(content)), io.BytesIO, mode), upload)


def test_a_file_appears_whole_with_the_mode_it_had(ground: Ground):
    path = ground.write("it's a file.cfg", b"old")
    ground.raw(f'chmod 600 "{path}"')
    assert 0 == put(ground, path, b"new\0\r\n")[0]
    assert (b"new\0\r\n", making.PlainFile("600", 6)) == (ground.read(path), facts(ground, path))
    assert (None, None) == (ground.read(spare_of(path)), ground.read(f"{ground.folder}/upload"))


def test_a_new_file_has_a_common_mode_or_the_one_asked_for(ground: Ground):
    for mode, expected in (("", "644"), ("640", "640")):
        path = f"{ground.folder}/new{mode}"
        put(ground, path, b"x", mode)
        assert making.PlainFile(expected, 1) == facts(ground, path)


def test_a_file_goes_and_going_again_is_no_failure(ground: Ground):
    path = ground.write("x y", b"old")
    for _ in range(2):
        assert 0 == act(ground, Wanted("file", path, ABSENT))[0]
        assert None is facts(ground, path)


def test_an_upload_that_is_not_whole_is_not_moved_into_place(ground: Ground):
    path = ground.write("x", b"old")
    wanted = Wanted("file", path, State(digest(b"what was meant")))
    assert (1, "the upload is not whole\n") == act(ground, wanted, ground.write("upload", b"half of it"))
    assert 1 == act(ground, wanted, f"{ground.folder}/none")[0]
    assert b"old" == ground.read(path)


def test_a_folder_is_neither_replaced_nor_removed(ground: Ground):
    path = f"{ground.folder}/folder"
    ground.raw(f"mkdir {path}")
    for rc, text in (put(ground, path, b"x"), act(ground, Wanted("file", path, ABSENT))):
        assert (1, "is no plain file\n") == (rc, text)
    with pytest.raises(FinalError, match="is a folder"):
        facts(ground, path)


def test_where_no_folder_is_no_file_can_be_put_and_the_folder_is_named(ground: Ground):
    missing = f"{ground.folder}/no ne"
    assert (1, f"there is no folder {missing}\n") == put(ground, f"{missing}/x", b"x")


def test_what_waits_beside_its_place_can_be_taken_away(ground: Ground):
    path = f"{ground.folder}/x"
    ground.write(spare_of(path).rpartition("/")[2], b"half")
    assert 0 == ground.raw(making.removal((path, f"{ground.folder}/y"))).rc
    assert None is ground.read(spare_of(path))


def test_the_digest_and_the_size_of_a_file_are_read(ground: Ground):
    path = ground.write("a b", b"content")
    assert digest(b"content") == making.digest(ground.raw(making.digest_of(path)), path)
    assert 7 == making.size(ground.raw(making.size_of(path)), path)
    with pytest.raises(UnknownOutcomeError):
        making.digest(ground.raw(making.digest_of(f"{ground.folder}/none")), "none")


# --- packages ------------------------------------------------------------------------------------------------


def install(ground: Ground, version: int, *, restoring: bool = False) -> tuple[int, str]:
    content = ground.apk(APP, version)
    wanted = Wanted("package", APP, State(digest(content)), None, restoring=restoring)
    return act(ground, wanted, ground.write("upload.apk", content))


def test_an_app_comes_and_goes_and_going_again_is_no_failure(ground: Ground):
    assert () == packages(ground)
    assert 0 == install(ground, 1)[0]
    (path,) = packages(ground)
    assert digest(ground.apk(APP, 1)) == making.digest(ground.raw(making.digest_of(path)), path)
    assert None is ground.read(f"{ground.folder}/upload.apk")
    for _ in range(2):
        assert 0 == act(ground, Wanted("package", APP, ABSENT))[0]
        assert () == packages(ground)


def test_an_older_version_is_refused_unless_it_is_restored(ground: Ground):
    install(ground, 2)
    rc, text = install(ground, 1)
    assert (1, True) == (rc, "INSTALL_FAILED_VERSION_DOWNGRADE" in text)
    assert 0 == install(ground, 1, restoring=True)[0]
    (path,) = packages(ground)
    assert ground.apk(APP, 1) == ground.raw(f"cat {path}").out


def test_a_package_manager_that_does_not_answer_is_not_an_absent_app():
    deaf = ShellResult(20, b"", b"cmd: Can't find service: package\n")
    with pytest.raises(UnknownOutcomeError, match="Can't find service"):
        making.package_files(APP, deaf)


def test_taking_an_app_away_fails_when_the_package_manager_does_not_answer(tmp_path: Path):
    with ground_in(tmp_path / "ground", "sh") as ground:
        (tmp_path / "ground" / "deaf").touch()
        assert (1, "cmd: Can't find service: package\n") == act(ground, Wanted("package", APP, ABSENT))


# --- what is refused before anything is sent -----------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted("setting", "global/x; reboot", State("1")),
        Wanted("setting", "global/x", State("a\0b")),
        Wanted("wm", "size", State("720x1280; reboot")),
        Wanted("property", "ro.x", State("1")),
        Wanted("property", "debug.droidherd.token", State("1")),
        Wanted("file", "/data/local/tmp/droidherd/j/x", ABSENT),
        Wanted("file", "/sdcard/x", State("no digest")),
        Wanted("file", "/sdcard/x", State("0" * 64), mode="0; reboot"),
        Wanted("package", "x; reboot", ABSENT),
    ],
)
def test_what_cannot_be_meant_is_refused(wanted: Wanted):
    with pytest.raises(BadParametersError):
        making.making(wanted, "/data/local/tmp/upload")


@pytest.mark.parametrize(
    ("thing", "name", "result"),
    [
        ("wm", "size", ShellResult(0, b"cmd: Failure calling service window\n", b"")),
        ("wm", "size", ShellResult(20, b"", b"cmd: Can't find service: window\n")),
        ("setting", "global/x", ShellResult(255, b"", b"Security exception\n")),
    ],
)
def test_an_answer_that_tells_nothing_is_of_unknown_outcome(thing: str, name: str, result: ShellResult):
    with pytest.raises(UnknownOutcomeError):
        making.value(thing, name, result)


def test_a_value_that_is_not_text_cannot_be_changed_by_value():
    with pytest.raises(FinalError, match="not text"):
        making.value("setting", "global/x", ShellResult(0, b"\xff\n", b""))
