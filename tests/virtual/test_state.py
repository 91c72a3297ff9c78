"""What a change can change: settings, screen, packages, files. As Android does it, over a reboot and over a death."""

import hashlib
from pathlib import Path

import pytest

from droidherd.virtual.control import VirtualControl
from droidherd.virtual.control_server import dump
from droidherd.virtual.process import VirtualFleet
from droidherd.virtual.tinyapk import tiny_apk
from tests.support.adbserver import PrivateAdb
from tests.virtual.stand import Stand, stand_in

OTHER = "com.example.other"


def put(stand: Stand, path: str, content: bytes) -> None:
    stand.emulator.files.truncate(path)
    stand.emulator.files.append(path, content)


def install(stand: Stand, content: bytes, options: str = "") -> str:
    put(stand, "/data/local/tmp/x.apk", content)
    result = stand.run(f"pm install {options} /data/local/tmp/x.apk")
    assert ("Success" in result.text) == (result.rc == 0)
    stand.run("rm /data/local/tmp/x.apk")
    return result.text


# --- packages ------------------------------------------------------------------------------------------------


def test_name_and_version_of_a_package_come_from_its_file(stand: Stand):
    assert "Success\n" == install(stand, tiny_apk(OTHER, 5, "5.1"))
    assert f"package:{OTHER} versionCode:5\n" in stand.out("pm list packages -3 --show-versioncode")
    for line in (f"pm dump {OTHER}", f"dumpsys package {OTHER}"):
        assert "versionCode=5 " in stand.out(line)
        assert "versionName=5.1\n" in stand.out(line)


def test_the_file_of_a_package_can_be_read_where_pm_says_it_is(stand: Stand):
    content = tiny_apk(OTHER, 5, payload=b"\0\r\n" * 1000)
    install(stand, content)
    path = stand.out(f"pm path {OTHER}").strip().removeprefix("package:")
    assert (content, hashlib.sha256(content).hexdigest()) == (
        stand.run(f"cat {path}").out,
        stand.out(f"sha256sum {path}").split()[0],
    )
    assert 1 == stand.run(f"rm {path}").rc
    assert 0 == stand.run("cat $(pm path com.android.settings | cut -d: -f2)").rc


def test_an_update_has_a_new_place_and_the_old_file_is_gone(stand: Stand):
    install(stand, tiny_apk(OTHER, 1))
    before = stand.out(f"pm path {OTHER}").strip().removeprefix("package:")
    install(stand, tiny_apk(OTHER, 2), "-r")
    assert before not in stand.out(f"pm path {OTHER}")
    assert 1 == stand.run(f"cat {before}").rc


@pytest.mark.parametrize("options", ["", "-r", "-r -d"])
def test_an_older_version_is_refused_as_on_a_build_for_users(stand: Stand, options: str):
    install(stand, tiny_apk(OTHER, 2))
    result = install(stand, tiny_apk(OTHER, 1), options)
    expected = "Downgrade detected: Update version code 1 is older than current 2"
    assert f"Failure [INSTALL_FAILED_VERSION_DOWNGRADE: {expected}]\n" == result
    assert f"package:{OTHER} versionCode:2\n" in stand.out("pm list packages --show-versioncode")


def test_what_is_no_apk_is_refused(stand: Stand):
    assert install(stand, b"not an apk").startswith("Failure [INSTALL_PARSE_FAILED_NOT_APK")


def test_packages_of_the_system_cannot_be_uninstalled(stand: Stand):
    result = stand.run("pm uninstall com.android.settings")
    assert (1, "Failure [DELETE_FAILED_INTERNAL_ERROR]\n") == (result.rc, result.text)
    assert 0 == stand.run("pm path com.android.settings").rc


# --- the screen ----------------------------------------------------------------------------------------------


def test_screen_overrides_survive_a_reboot_and_are_seen_in_the_settings(stand: Stand):
    stand.run("wm size 720x1280; wm density 240")
    stand.emulator.power_on(0.0)
    assert "Physical size: 1280x720\nOverride size: 720x1280\n" == stand.out("wm size")
    assert "Physical density: 320\nOverride density: 240\n" == stand.out("wm density")
    assert "720,1280\n240\n" == stand.out(
        "settings get global display_size_forced; settings get secure display_density_forced"
    )


def test_a_reset_leaves_an_empty_setting_behind(stand: Stand):
    assert "null\n" == stand.out("settings get global display_size_forced")
    stand.run("wm size 720x1280; wm size reset; wm density 240; wm density reset")
    assert "\n\n" == stand.out("settings get global display_size_forced; settings get secure display_density_forced")
    assert "Physical size: 1280x720\nPhysical density: 320\n" == stand.out("wm size; wm density")


def test_the_size_of_the_panel_is_no_override_and_sizes_are_bounded(stand: Stand):
    assert "Physical size: 1280x720\n" == stand.out("wm size 1280x720; wm size")
    assert "Override size: 2560x200\n" == stand.out("wm size 9999x1; wm size | tail -1")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("wm density 71", "Error: density must be >= 72\n"),
        ("wm density x", "Error: bad number"),
        ("wm size 12", "Error: bad size 12\n"),
    ],
)
def test_a_screen_that_cannot_be_is_refused(stand: Stand, line: str, complaint: str):
    result = stand.run(line)
    assert (255, complaint) == (result.rc, result.err.decode()[: len(complaint)])


def test_before_it_has_booted_there_is_no_service_to_ask(tmp_path: Path):
    with stand_in(tmp_path, boot_s=60.0) as stand:
        assert [20] * 3 == [stand.run(line).rc for line in ("wm size", "settings get global x", "pm path android")]


# --- files ---------------------------------------------------------------------------------------------------


def test_a_mode_goes_along_with_its_file_and_is_forgotten_with_it(stand: Stand):
    stand.run("mkdir /sdcard/a; echo 1 >/sdcard/a/x; chmod 600 /sdcard/a/x; mv /sdcard/a /sdcard/b")
    assert "600\n" == stand.out("stat -c %a /sdcard/b/x")
    assert "660\n" == stand.out("rm -r /sdcard/b; mkdir /sdcard/b; echo 1 >/sdcard/b/x; stat -c %a /sdcard/b/x")


def test_there_are_no_links(stand: Stand):
    assert [1, 1] == [stand.run(f"echo >/sdcard/x; [ {option} /sdcard/x ]").rc for option in ("-L", "-h")]


# --- the dump ------------------------------------------------------------------------------------------------

CHANGES = [
    "settings put global x 1",
    "settings delete system screen_brightness",
    "wm size 720x1280",
    "wm density 240",
    "setprop debug.x y",
    "setprop persist.x y",
    "pm uninstall com.example.herd",
    "echo x >/sdcard/x",
    "mkdir /sdcard/folder",
    "echo x >>/data/local/tmp/there",
    "chmod 600 /data/local/tmp/there",
    "rm /data/local/tmp/there",
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_dump_tells_before_from_after(stand: Stand, change: str):
    stand.run("echo here >/data/local/tmp/there")
    before = dump(stand.emulator)
    assert before == dump(stand.emulator)
    stand.run(change)
    assert before != dump(stand.emulator)


def test_the_dump_leaves_droidherds_own_and_empty_properties_aside(stand: Stand):
    before = dump(stand.emulator)
    stand.run(
        "mkdir -p /data/local/tmp/droidherd/j; echo x >/data/local/tmp/droidherd/j/k; setprop debug.droidherd.t 1"
    )
    stand.run("setprop debug.x y; setprop debug.x ''")
    assert before == dump(stand.emulator)


def test_all_of_it_survives_the_death_of_the_process(tmp_path: Path):
    with stand_in(tmp_path) as stand:
        install(stand, tiny_apk(OTHER, 5))
        stand.run(
            "settings put global x 1; wm size 720x1280; setprop persist.x y; echo x >/sdcard/x; chmod 640 /sdcard/x"
        )
        before = dump(stand.emulator)
    with stand_in(tmp_path) as again:
        assert before == dump(again.emulator)
        assert 0 == again.run(f"cat $(pm path {OTHER} | cut -d: -f2)").rc


def test_nothing_of_it_is_lost_in_a_reboot_but_volatile_properties(
    fleet: VirtualFleet, control: VirtualControl, private_adb: PrivateAdb, first: str
):
    before = control.dump("virtual-1")
    private_adb.shell(first, "settings put global x 1; wm density 240; setprop debug.x y; setprop persist.x y")
    changed = control.dump("virtual-1")
    control.reboot("virtual-1", boot_s=0.0)
    after = control.dump("virtual-1")
    assert {"debug.x"} == changed["properties"].keys() - after.pop("properties").keys()
    changed.pop("properties")
    assert (after, True) == (changed, before != after)
