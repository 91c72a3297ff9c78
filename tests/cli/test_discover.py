"""`droidherd emulator discover`, with real emulators behind a real adb server of its own."""

from pathlib import Path

import pytest

from droidherd.emulator.inventory import Inventory
from droidherd.virtual.process import VirtualFleet
from tests.controllers.tools import MUMU, Tool
from tests.support.terminal import Terminal


@pytest.fixture
def droidherd(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".droidherd").mkdir()
    tool = Tool(tmp_path / "mumu", "MuMuManager", MUMU, n7=False, n8=False)
    monkeypatch.setenv("DROIDHERD_CONTROLLERS__MUMU_PROGRAM", tool.program)
    monkeypatch.setenv("DROIDHERD_CONTROLLERS__LDPLAYER_PROGRAM", "no-such-ldconsole")
    return Terminal(capsys, monkeypatch)


def test_what_is_found_is_shown_and_joins_when_asked(droidherd: Terminal, tmp_path: Path):
    with VirtualFleet.start(state=tmp_path / "virtual", count=1) as fleet:
        address = fleet.addresses["virtual-1"]
        port = address.rpartition(":")[2]
        code, printed = droidherd("emulator", "discover", "--port", port)
        assert (0, True) == (code, address in printed)
        assert not Inventory(tmp_path / ".droidherd").load()
        seen = droidherd.json("emulator", "discover", "--port", port, "--connect")
        mine = next(one for one in seen["emulators"] if one["address"] == address)
        assert ("virtual", "VIRT0001", "13", False) == (
            mine["vendor"],
            mine["serialno"],
            mine["android"],
            mine["known"],
        )
        joined = {one.emulator_id: one for one in Inventory(tmp_path / ".droidherd").load()}
        mine_alone = {mine["emulator_id"], "mumu-7", "mumu-8"}
        assert (set(), []) == (mine_alone - {*seen["added"]}, seen["troubles"])
        assert ("127.0.0.1:16608", "mumu", "7") == (
            joined["mumu-7"].address,
            joined["mumu-7"].controller,
            joined["mumu-7"].instance,
        )
        assert ("VIRT0001", "none") == (joined[mine["emulator_id"]].serialno, joined[mine["emulator_id"]].controller)
        again = droidherd.json("emulator", "discover", "--port", port, "--connect")
        assert (set(), True) == (
            mine_alone & {*again["added"]},
            next(one for one in again["emulators"] if one["address"] == address)["known"],
        )
