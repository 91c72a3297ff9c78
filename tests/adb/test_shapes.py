"""The parsers against the shapes of several Android versions. See shapes/README.md for what these are."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.adb import parse
from droidherd.adb.parse import Focus, LogcatLine, Size
from droidherd.emulator import coordinates
from droidherd.emulator.coordinates import DISPLAY_LINE, Display
from droidherd.emulator.eyes import FOCUS_LINE

SHAPES = Path(__file__).parent / "shapes"
VERSIONS = (7, 9, 11, 13, 14, 15)
COMMANDS = (
    "getprop", "wm_size", "wm_density", "window", "activity", "display", "packages", "settings", "logcat",
)  # fmt: skip


def shape(version: int, command: str) -> str:
    return (SHAPES / f"android-{version}" / f"{command}.txt").read_bytes().decode()


def test_each_version_has_each_command_and_no_other():
    expected = {f"android-{version}/{command}.txt" for version in VERSIONS for command in COMMANDS}
    assert expected == {str(path.relative_to(SHAPES)) for path in SHAPES.glob("*/*")}


def test_properties_are_read_with_their_lines_and_brackets():
    read = {version: parse.properties(shape(version, "getprop")) for version in VERSIONS}
    assert ["7.1.2", "9", "11", "13", "14", "15"] == [one["ro.build.version.release"] for one in read.values()]
    assert {"1"} == {one["sys.boot_completed"] for one in read.values()}
    assert "SM-G955N [unofficial]" == read[7]["ro.product.model"]
    assert "reboot,1700000300\nshutdown,1700000200\ncold,1700000100" == read[9]["persist.sys.boot.reason.history"]
    assert ("", "a, b, [c]") == (read[9]["sys.usb.config"], read[11]["vendor.audio.list"])
    assert "unfinished" not in read[15]


def test_size_and_density_are_read_with_their_overrides():
    sizes = [Size(720, 1280), Size(720, 1280), Size(1080, 2340), Size(1280, 720), Size(1080, 2400), Size(1080, 2340)]
    assert sizes == [parse.window_size(shape(version, "wm_size")) for version in VERSIONS]
    assert [240, 320, 440, 320, 360, 560] == [parse.density(shape(version, "wm_density")) for version in VERSIONS]


HERD = "com.example.herd/com.example.herd.MainActivity"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (7, Focus("com.android.launcher3/com.android.launcher3.Launcher")),
        (9, Focus(HERD)),
        (11, Focus("Application Not Responding: com.example.herd")),
        (13, Focus("com.android.launcher3/com.android.launcher3.uioverrides.QuickstepLauncher")),
        (14, Focus(HERD)),
        (15, None),
    ],
)
def test_the_window_in_front_is_that_of_the_display_with_the_focus(version: int, expected: Focus | None):
    assert expected == parse.focus(shape(version, "window"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("line", "what", "read"), [(FOCUS_LINE, "window", parse.focus), (DISPLAY_LINE, "display", coordinates.displays_in)]
)
def test_what_we_ask_for_says_the_same_as_the_whole_dump(
    tmp_path: Path, version: int, line: str, what: str, read: Callable[[str], object]
):
    """On the emulator already all but a few lines are left out: those that the reader needs have to be among them."""
    (tmp_path / "dump").write_text(f"NOISE\n{shape(version, what)}")
    dumped = subprocess.run(
        ["sh", "-c", f"dumpsys() {{ cat dump; }}; {line}"], cwd=tmp_path, capture_output=True, text=True, check=False
    ).stdout
    assert "NOISE" not in dumped
    assert read(shape(version, what)) == read(dumped)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (7, "com.android.launcher3/.Launcher"),
        (9, "com.example.herd/.MainActivity"),
        (11, "com.example.herd/com.example.herd.game.Stage"),
        (13, "com.android.launcher3/.uioverrides.QuickstepLauncher"),
        (14, ""),
        (15, "com.example.herd/.MainActivity"),
    ],
)
def test_the_activity_at_work_is_found(version: int, expected: str):
    assert expected == parse.resumed_activity(shape(version, "activity"))


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (7, Display(0, 1280, 720, 1)),
        (9, Display(0, 720, 1280, 0)),
        (11, Display(0, 2340, 1080, 1)),
        (13, Display(0, 1280, 720, 0)),
        (14, Display(0, 2400, 1080, 3)),
        (15, Display(0, 1080, 2340, 2)),
    ],
)
def test_the_display_is_as_it_is_turned_and_overridden(version: int, expected: Display):
    assert expected == coordinates.default_display(shape(version, "display"))


def test_a_second_display_is_not_taken_for_the_first():
    text = shape(13, "display")
    assert (Display(0, 1280, 720, 0), Display(2, 1920, 1080, 0)) == coordinates.displays_in(text)
    alone = text.replace("displayId=0", "displayId=7")
    assert None is coordinates.default_display(alone)


def test_packages_are_read_with_what_the_version_tells():
    read = {
        version: [(p.name, p.version_code) for p in parse.installed_packages(shape(version, "packages"))]
        for version in VERSIONS
    }
    assert [("com.android.settings", None), ("com.example.herd", None)] == read[7]
    assert [("com.android.settings", 28), ("com.example.herd", 107)] == read[9]
    assert [("com.example.herd", 1107), ("android", 30)] == read[11]
    assert [("com.android.tzdata", 340_000_000)] == read[14]
    assert [("com.google.android.apps.photos", 49_030_000)] == read[15]


def test_settings_are_read_with_their_lines_and_equal_signs():
    read = {version: parse.settings(shape(version, "settings")) for version in VERSIONS}
    assert {"accelerometer_rotation": "0", "font_scale": "1.0", "screen_off_timeout": "60000"} == read[7]
    assert ("first\nsecond", "", "1") == (
        read[9]["multi_cb"], read[9]["global_http_proxy_exclusion_list"], read[9]["wifi_on"],
    )  # fmt: skip
    assert ("a=b", {}) == (read[11]["bluetooth_name"], read[14])
    assert {"bool_on": "true"} == read[15]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            7,
            LogcatLine(
                "11-19 02:03:04.567", 1234, 1250, "I", "ActivityManager", "START u0 {act=android.intent.action.MAIN}"
            ),
        ),
        (9, LogcatLine("2026-11-19 02:03:04.567", 1234, 1250, "E", "AndroidRuntime", "FATAL EXCEPTION: main")),
        (11, LogcatLine("11-19 02:03:04.700000", 4711, 4711, "D", "Herd", "claims 3")),
        (13, LogcatLine("1763517784.567", 1234, 1250, "F", "libc", "Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR)")),
        (14, LogcatLine("11-19 02:03:04.567 +0100", 1234, 1250, "V", "a tag", "with: colons : inside")),
        (15, LogcatLine("11-19 02:03:04.567", 1234, 1250, "S", "silent", "")),
    ],
)
def test_lines_of_the_log_are_read_in_all_their_variants(version: int, expected: LogcatLine):
    assert expected in parse.log_lines(shape(version, "logcat"))


def test_the_beginning_of_a_buffer_is_no_line_of_the_log():
    assert [2, 2, 2, 1, 1, 1] == [len(parse.log_lines(shape(version, "logcat"))) for version in VERSIONS]


@given(st.sampled_from(VERSIONS), st.sampled_from(COMMANDS), st.integers(0, 400), st.text(max_size=8))
def test_a_shape_that_is_cut_or_garbled_stops_no_parser(version: int, command: str, at: int, dirt: str):
    text = shape(version, command)
    garbled = text[:at] + dirt + text[at + len(dirt) :]
    for read in (
        parse.properties,
        parse.settings,
        parse.focus,
        parse.resumed_activity,
        coordinates.displays_in,
        parse.log_lines,
    ):
        read(text[:at])
        read(garbled)
