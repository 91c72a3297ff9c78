from collections.abc import Callable, Mapping
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.adb import parse
from droidherd.adb.parse import Focus, Listed, Size
from droidherd.domain.fleet.facts import InstalledPackage, Storage

WARNING = "WARNING: linker: something is unused\r\n"
NONE = type(None)
PARSERS: Mapping[str, tuple[Callable[[str], object], tuple[type, ...]]] = {
    "properties": (parse.properties, (dict,)),
    "window_size": (parse.window_size, (Size, NONE)),
    "density": (parse.density, (int, NONE)),
    "focus": (parse.focus, (Focus, NONE)),
    "uptime_s": (parse.uptime_s, (float, NONE)),
    "packages": (parse.packages, (tuple,)),
    "devices": (parse.devices, (tuple,)),
    "installed": (parse.installed_packages, (tuple,)),
    "storage": (parse.storage, (Storage, NONE)),
    "override_of": (partial(parse.override_of, "size"), (str, NONE)),
}
"""What each may make of a text."""
any_text = st.text(max_size=300)
value = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=40)
name = st.from_regex(r"[a-z][a-z0-9._]{0,30}", fullmatch=True)


@given(any_text)
def test_no_parser_stumbles_over_anything(text: str):
    read = {name: parser(text) for name, (parser, _) in PARSERS.items()}
    assert {} == {name: found for name, found in read.items() if not isinstance(found, PARSERS[name][1])}


@given(st.dictionaries(name, value), st.sampled_from(["\n", "\r\n"]))
def test_properties_read_back_whatever_their_values(properties: dict[str, str], end: str):
    text = WARNING + "".join(f"[{key}]: [{one}]{end}" for key, one in properties.items())
    assert properties == parse.properties(text)


def test_an_override_of_size_and_density_wins():
    assert Size(720, 1280) == parse.window_size(WARNING + "Physical size: 1080x1920\r\nOverride size: 720x1280\r\n")
    assert Size(1080, 1920) == parse.window_size("Physical size: 1080x1920\n")
    assert 320 == parse.density("Physical density: 480\nOverride density: 320\n")
    assert 480 == parse.density("Physical density: 480\n")
    assert (None, None) == (parse.window_size("error: closed"), parse.density(""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "  mCurrentFocus=Window{4f1 u0 com.example.herd/com.example.herd.MainActivity}",
            "com.example.herd/com.example.herd.MainActivity",
        ),
        ("  mCurrentFocus=Window{4f1 u0 com.example.herd/.MainActivity}\r", "com.example.herd/.MainActivity"),
        ("  mCurrentFocus=null\n  mCurrentFocus=Window{4f1 u0 a.b/.C}\n", "a.b/.C"),
        ("  mCurrentFocus=Window{4f1 u0 a.b/.C}\n  mCurrentFocus=null\n", "a.b/.C"),
        ("  mCurrentFocus=Window{4f1 NotificationShade}", ""),
        ("  mCurrentFocus=Window{4f1 u0 Application Not Responding: a.b}", ""),
    ],
)
def test_the_focused_component_is_found(text: str, expected: str):
    found = parse.focus(WARNING + text)
    assert expected == (found.component if found else None)


def test_no_focus_is_none_and_a_hung_app_is_recognised():
    assert None is parse.focus("  mCurrentFocus=null\n")
    assert parse.focus("mCurrentFocus=Window{4f1 u0 Application Not Responding: a.b}") == Focus(
        "Application Not Responding: a.b"
    )
    assert Focus("Application Not Responding: a.b").not_responding
    assert not Focus("a.b/.C").not_responding


def test_a_window_of_another_display_is_not_in_front():
    other = "  Display: mDisplayId=2\n  mCurrentFocus=Window{4f1 u0 a.b/.C}\n"
    assert None is parse.focus(f"  Display: mDisplayId=0\n  mCurrentFocus=null\n{other}  mTopFocusedDisplayId=0\n")
    assert Focus("a.b/.C") == parse.focus(f"{other}  mTopFocusedDisplayId=2\n")
    assert Focus("a.b/.C") == parse.focus("  mTopFocusedDisplayId=0\n  mCurrentFocus=Window{4f1 u0 a.b/.C}\n")


def test_a_line_without_end_is_no_window_and_is_not_pored_over():
    assert None is parse.focus("  mCurrentFocus=Window{4f1 u0 a.b/.C" + " EXITING" * 20_000)


@given(st.integers(0, 10**9), st.integers(0, 99))
def test_uptime_reads_the_first_number(seconds: int, hundredths: int):
    assert pytest.approx(seconds + hundredths / 100) == parse.uptime_s(f"{WARNING}{seconds}.{hundredths:02d} 99.10\r\n")


def test_packages_are_read_with_and_without_their_files():
    long = "package:/data/app/~~x==/com.example.herd-1==/base.apk=com.example.herd"
    text = f"package:com.android.settings\r\n{long}\n\nError: x\n"
    assert ("com.android.settings", "com.example.herd") == parse.packages(text)


def test_the_list_of_emulators_is_read_short_and_long():
    text = (
        "* daemon started successfully\nList of devices attached\n"
        "127.0.0.1:16384       device product:sdk model:Pixel_6 device:emu transport_id:3\r\n"
        "127.0.0.1:16386\toffline\n"
        "0123 no permissions (missing udev rules?); see [http://x] transport_id:4\n"
        "localhost:1 unauthorized transport_id:9\n\n"
    )
    details = {"product": "sdk", "model": "Pixel_6", "device": "emu", "transport_id": "3"}
    first, second, third, fourth = parse.devices(text)
    assert Listed("127.0.0.1:16384", "device", details) == first
    assert first.ready
    assert Listed("127.0.0.1:16386", "offline") == second
    assert ("0123", "no permissions", "4") == (third.serial, third.state, third.details["transport_id"])
    assert ("localhost:1", "unauthorized", False) == (fourth.serial, fourth.state, fourth.ready)


def test_packages_are_read_with_their_places_and_versions():
    text = (
        "package:/data/app/~~x==/com.example.herd-1==/base.apk=com.example.herd versionCode:7\r\n"
        "package:/system/app/Settings/Settings.apk=com.android.settings\nError: x\n"
    )
    assert (
        InstalledPackage("com.example.herd", "/data/app/~~x==/com.example.herd-1==/base.apk", 7),
        InstalledPackage("com.android.settings", "/system/app/Settings/Settings.apk", None),
    ) == parse.installed_packages(text)


DF = "Filesystem     1K-blocks    Used Available Use% Mounted on\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{DF}/dev/block/dm-5  8126464 1024000   7102464  13% /data\n",
        f"{DF}/dev/block/a-very-long-name\n  8126464 1024000 7102464 13% /data\r\n",
    ],
)
def test_the_space_on_a_disk_is_read_also_below_a_long_name(text: str):
    assert Storage(8126464, 7102464) == parse.storage(text)


def test_no_disk_is_none():
    assert None is parse.storage("df: /data: No such file or directory\n")


def test_the_overrides_of_the_screen_are_distinguished_from_the_panel():
    both = "Physical size: 1280x720\r\nOverride size: 720x1280\n"
    assert ("720x1280", "240") == (
        parse.override_of("size", both),
        parse.override_of("density", "Physical density: 320\nOverride density: 240\n"),
    )
    assert ("", None) == (parse.override_of("size", "Physical size: 1280x720\n"), parse.override_of("size", "error"))
