"""The part that runs programs, against stand-ins that print the shapes of the vendors' own."""

import json
import socket
import sys
from pathlib import Path

import pytest

from droidherd.adb.client import AdbClient
from droidherd.adb.program import bundled_adb
from droidherd.controllers import run as running
from droidherd.controllers.avd import AvdController
from droidherd.controllers.command import CommandController
from droidherd.controllers.ldplayer import LDPlayerController
from droidherd.controllers.model import (
    ControlledEmulator,
    Controller,
    ControllerCall,
    ControllerError,
    Power,
    PowerStatus,
)
from droidherd.controllers.mumu import MuMuController
from droidherd.emulator.inventory import Inventory
from droidherd.recovery.build import recovery_of
from droidherd.settings import ControllerSettings, Settings
from tests.controllers.tools import AVD, LDPLAYER, MUMU, Tool

CALL = ControllerCall(20.0)
ONE = ControlledEmulator("e1", "127.0.0.1:16416", "1")


def mumu(root: Path) -> tuple[Controller, Tool]:
    tool = Tool(root / "mumu", "MuMuManager", MUMU, n0=True, n1=False)
    return MuMuController(tool.program), tool


def ldplayer(root: Path) -> tuple[Controller, Tool]:
    tool = Tool(root / "ld", "ldconsole", LDPLAYER, n0=True, n1=False)
    return LDPlayerController(tool.program), tool


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (mumu, ["control -v 1 launch", "control -v 1 restart", "control -v 1 shutdown"]),
        (ldplayer, ["launch --index 1", "reboot --index 1", "quit --index 1"]),
    ],
)
def test_a_vendors_instance_is_started_restarted_and_stopped(make: type, words: list[str], tmp_path: Path):
    controller, tool = make(tmp_path)
    assert Power.OFF is controller.status(ONE, CALL).power
    controller.start(ONE, CALL)
    assert Power.ON is controller.status(ONE, CALL).power
    controller.restart(ONE, CALL)
    controller.stop(ONE, CALL)
    controller.stop(ONE, CALL)
    assert Power.OFF is controller.status(ONE, CALL).power
    given = [call for call in tool.calls() if not call.startswith(("info", "list2"))]
    assert words == given[:3]


def test_mumu_says_where_an_instance_is_now(tmp_path: Path):
    controller, _ = mumu(tmp_path)
    controller.restart(ONE, CALL)
    assert PowerStatus(Power.ON, "127.0.0.1:16416") == controller.status(ONE, CALL)


@pytest.mark.parametrize("make", [mumu, ldplayer])
def test_a_number_the_vendor_does_not_know_is_named_with_what_to_do(make: type, tmp_path: Path):
    controller, _ = make(tmp_path)
    with pytest.raises(ControllerError, match="no instance '7'") as raised:
        controller.start(ControlledEmulator("e1", "127.0.0.1:1", "7"), CALL)
    assert "set `instance` in the inventory" in raised.value.remedy


def test_what_a_vendor_refuses_or_does_not_do_is_an_error(tmp_path: Path):
    controller, tool = mumu(tmp_path)
    tool.refuses()
    with pytest.raises(ControllerError, match="MuMuManager launch: player is busy"):
        controller.start(ONE, CALL)
    other, second = ldplayer(tmp_path)
    second.refuses()
    assert "LDPlayer did not switch it on" in str(given_up(other))


def given_up(controller: Controller) -> ControllerError:
    """What is said when time is up; there is more of it where the machine was too busy to run a program meanwhile."""
    for deadline_s in (0.5, 5.0, 30.0):
        with pytest.raises(ControllerError) as raised:
            controller.start(ONE, ControllerCall(deadline_s))
        if "did not end" not in str(raised.value):
            return raised.value
    pytest.fail("no program ended within 30 s")


@pytest.mark.parametrize("controller", [MuMuController("no-such-program"), LDPlayerController("no-such-program")])
def test_a_program_that_is_not_there_is_named_with_its_setting(controller: Controller):
    with pytest.raises(ControllerError, match="no-such-program cannot be started") as raised:
        controller.status(ONE, CALL)
    assert "set controllers." in raised.value.remedy


def test_a_program_that_prints_without_end_is_ended_before_the_disk_is_full(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(running, "PRINTED_LIMIT_BYTES", 1 << 20)
    line = [sys.executable, "-c", "import time\nprint('x' * (2 << 20), flush=True)\ntime.sleep(600)"]
    with pytest.raises(ControllerError, match="printed more than 1 MB"):
        running.run(line, ControllerCall(60.0), to="e1", remedy="")


def test_an_argument_no_program_can_be_given_is_an_error_of_its_controller():
    with pytest.raises(ControllerError, match="embedded null byte"):
        running.run([sys.executable, "a\0b"], CALL, to="e1", remedy="")


def test_a_program_that_hangs_is_ended_with_its_children_in_time(tmp_path: Path):
    mark = tmp_path / "mark"
    line = [sys.executable, "-c", f"import subprocess; subprocess.run(['sh', '-c', 'sleep 60; touch {mark}'])"]
    with pytest.raises(ControllerError, match=r"did not end within 0\.3 s"):
        running.run(line, ControllerCall(0.3), to="e1", remedy="")


def test_a_beat_that_raises_ends_the_program():
    class AskedToStopError(Exception):
        pass

    def beat() -> None:
        raise AskedToStopError

    with pytest.raises(AskedToStopError):
        running.run(["sleep", "60"], ControllerCall(30.0, beat), to="e1", remedy="")


def test_a_program_gets_what_it_needs_and_no_secret_of_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("DROIDHERD_API__KEY", "PLAYER_PASSWORD", "DOCKER_HOST", "ANDROID_HOME", "DISPLAY"):
        monkeypatch.setenv(name, f"value of {name}")
    settings = Settings(data=tmp_path, controllers=ControllerSettings(environment=("DOCKER_HOST",)))
    assert settings.tool_environment == recovery_of(settings, AdbClient(1), Inventory(tmp_path)).environment
    line = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    call = ControllerCall(20.0, environment=settings.tool_environment)
    known = json.loads(running.run(line, call, to="e1", remedy="").text)
    assert {"PATH", "DOCKER_HOST", "ANDROID_HOME", "DISPLAY"} <= known.keys()
    assert not {"DROIDHERD_API__KEY", "PLAYER_PASSWORD"} & known.keys()
    alone = json.loads(running.run(line, CALL, to="e1", remedy="").text)
    assert not {"PLAYER_PASSWORD", "DOCKER_HOST", "ANDROID_HOME"} & alone.keys()


# --- commands of the operator -----------------------------------------------------------------------------------


def commands(root: Path, **lines: tuple[str, ...]) -> CommandController:
    script = root / "do"
    script.write_text(
        f'#!/bin/sh\necho "$@" >>{root}/calls\n[ "$1" != fails ] || {{ echo "no such thing" >&2; exit 4; }}\n'
    )
    script.chmod(0o755)
    usual = {"start_line": (str(script), "up", "{emulator_id}"), "stop_line": (str(script), "down", "{port}")}
    return CommandController("mine", **{**usual, **lines})


def test_commands_of_the_operator_are_filled_in_and_run(tmp_path: Path):
    controller = commands(tmp_path)
    controller.start(ONE, CALL)
    controller.restart(ONE, CALL)
    assert ["up e1", "down 16416", "up e1"] == (tmp_path / "calls").read_text().splitlines()
    assert Power.UNKNOWN is controller.status(ONE, CALL).power


def test_a_status_command_says_on_by_success_and_off_by_failure(tmp_path: Path):
    script = str(tmp_path / "do")
    assert Power.ON is commands(tmp_path, status_line=(script, "asks")).status(ONE, CALL).power
    assert Power.OFF is commands(tmp_path, status_line=(script, "fails")).status(ONE, CALL).power


def test_a_failed_command_is_reported_with_its_last_words_and_setting(tmp_path: Path):
    controller = commands(tmp_path, start_line=(str(tmp_path / "do"), "fails"))
    with pytest.raises(ControllerError, match="`start` of mine ended with 4: no such thing") as raised:
        controller.start(ONE, CALL)
    assert "controllers.commands.mine.start" in raised.value.remedy


# --- the Android SDK --------------------------------------------------------------------------------------------


def free_console() -> int:
    for port in range(5682, 5600, -2):
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    pytest.fail("no console port is free")


def avd(root: Path, name: str = "Pixel_7") -> tuple[AvdController, ControlledEmulator, Tool]:
    """The stand-in serves a console; the adb that ends it is the real one."""
    tool = Tool(root / "sdk", "emulator", AVD)
    controller = AvdController(tool.program, ("-no-window",), bundled_adb(), root / "logs")
    return controller, ControlledEmulator("e1", f"127.0.0.1:{free_console() + 1}", name), tool


def test_an_avd_is_started_on_its_ports_and_ended_through_its_console(tmp_path: Path):
    controller, target, tool = avd(tmp_path)
    assert Power.OFF is controller.status(target, CALL).power
    controller.start(target, CALL)
    controller.start(target, CALL)
    assert PowerStatus(Power.ON, target.address) == controller.status(target, CALL)
    assert [f"-avd Pixel_7 -port {target.port - 1} -no-window"] == tool.calls()
    controller.restart(target, CALL)
    assert 2 == len(tool.calls())
    controller.stop(target, CALL)
    assert Power.OFF is controller.status(target, CALL).power


def test_an_avd_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path):
    controller, target, _ = avd(tmp_path, name="Nexus")
    with pytest.raises(ControllerError, match=r"ended at once: PANIC: Unknown AVD name \[Nexus\]"):
        controller.start(target, CALL)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (ControlledEmulator("e1", "127.0.0.1:16384", "Pixel_7"), "is no address of an AVD"),
        (ControlledEmulator("e1", "127.0.0.1:5555"), "no AVD is named for it"),
    ],
)
def test_an_avd_that_could_not_be_meant_is_refused(target: ControlledEmulator, expected: str, tmp_path: Path):
    controller = AvdController("emulator", (), "adb", tmp_path)
    with pytest.raises(ControllerError, match=expected) as raised:
        controller.start(target, CALL)
    assert raised.value.remedy


def test_an_avd_boots_cold_unless_somebody_says_otherwise():
    """From a snapshot the token and the journal come back as they were, and what was done once is done twice."""
    assert "-no-snapshot" in Settings().controllers.avd_arguments
