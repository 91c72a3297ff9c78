"""Accounts from the command line, against a stand-in of the API."""

import getpass

from tests.cli.api_stand_in import ApiState
from tests.cli.test_commands import api_state, droidherd
from tests.support.terminal import Terminal

__all__ = ["api_state", "droidherd"]


def test_what_is_not_named_stays_as_it_is(droidherd: Terminal, api_state: ApiState) -> None:
    droidherd(
        "account", "set", "ann", "--emulator", "e1", "--credential", "password=env:A", "--credential", "pin=env:B"
    )
    found = droidherd.json("account", "set", "ann", "--credential", "pin=", "--note", "hers")["record"]
    assert ("e1", {"password": "env:A"}, "hers") == (found["emulator"], found["credentials"], found["note"])
    _, _, printed, _ = api_state.asked[-1]
    assert getpass.getuser() == printed["actor"]
    assert "" == droidherd.json("account", "set", "ann", "--emulator", "")["record"]["emulator"]
    head, row = droidherd("account", "list")[1].splitlines()
    assert head.index("note") == row.index("hers")
    assert "" == droidherd.json("account", "remove", "ann")["record"]["note"]


def test_disabled_and_enabled(droidherd: Terminal, api_state: ApiState) -> None:
    found = droidherd.json("account", "disable", "ann", "--reason", "banned", "--cancel")
    assert ("disabled", ["t1"]) == (found["state"], found["cancelled"])
    code, text = droidherd("account", "show", "ann")
    assert (0, True) == (code, f"disabled by {getpass.getuser()}: banned" in text)
    assert ["ann"] == [one["account"] for one in droidherd.json("account", "list", "--disabled")["accounts"]]
    assert [] == droidherd.json("account", "list", "--enabled")["accounts"]
    assert "idle" == droidherd.json("account", "enable", "ann")["state"]


def test_what_is_no_pair_is_refused(droidherd: Terminal, api_state: ApiState) -> None:
    code, text = droidherd("account", "set", "ann", "--credential", "password")
    assert (2, True) == (code, "name=value" in text)
