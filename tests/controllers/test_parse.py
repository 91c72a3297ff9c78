"""Shapes as the vendors' programs are known to print them. Nobody ran those programs here."""

import pytest

from droidherd.controllers import ldplayer, mumu
from droidherd.controllers.model import ControllerError, Power, PowerStatus, VendorInstance

MUMU_TWO = """{
  "0": {"adb_host_ip": "127.0.0.1", "adb_port": 16384, "created_timestamp": 1700000000, "disk_size_bytes": 1,
        "error_code": 0, "hyperv_enabled": false, "index": "0", "is_android_started": true, "is_main": true,
        "is_process_started": true, "launch_err_code": 0, "name": "MuMu", "pid": 1234,
        "player_state": "start_finished", "vt_enabled": true},
  "3": {"error_code": 0, "index": "3", "is_android_started": false, "is_main": false,
        "is_process_started": false, "name": "second, with a comma"}
}"""
MUMU_ONE = '{"index": "0", "name": "MuMu", "is_process_started": true, "is_android_started": false}'


def test_mumus_list_of_several_instances_is_an_object_by_number():
    assert (
        VendorInstance("0", "MuMu", PowerStatus(Power.ON, "127.0.0.1:16384")),
        VendorInstance("3", "second, with a comma", PowerStatus(Power.OFF, "127.0.0.1:16480")),
    ) == mumu.parse_info(MUMU_TWO)


def test_mumus_only_instance_is_not_wrapped_and_may_be_on_its_way():
    assert (VendorInstance("0", "MuMu", PowerStatus(Power.STARTING, "127.0.0.1:16384")),) == mumu.parse_info(MUMU_ONE)


@pytest.mark.parametrize("text", ["", "not running", "[]", "7"])
def test_what_is_no_list_of_mumu_is_named(text: str):
    with pytest.raises(ControllerError, match="MuMuManager"):
        mumu.parse_info(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"errcode": 0, "errmsg": ""}', ""),
        ('{"errcode": -200, "errmsg": "no such player"}', "no such player"),
        ('{"errcode": 3}', "error 3"),
        ("", ""),
        ("[]", ""),
    ],
)
def test_mumu_says_in_its_answer_whether_it_did_it(text: str, expected: str):
    assert expected == mumu.parse_refusal(text)


def test_ldplayers_list_in_its_longer_and_its_shorter_form():
    text = (
        "0,LDPlayer,2032678,1704928,1,7456,3092,960,540,160\r\n1,a, b,0,0,0,-1,-1,960,540,160\r\n2,old,0,0,0,77,-1\r\n"
    )
    assert (
        VendorInstance("0", "LDPlayer", PowerStatus(Power.ON, "127.0.0.1:5555")),
        VendorInstance("1", "a, b", PowerStatus(Power.OFF, "127.0.0.1:5557")),
        VendorInstance("2", "old", PowerStatus(Power.STARTING, "127.0.0.1:5559")),
    ) == ldplayer.parse_list(text)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "dnplayer Command Line Management",
        "x,y",
        "0,title",
        "0,title,a,b,c,d,e",
        "0,t,0,0,0,--1,-1",
        "²,t,0,0,0,1,1",
    ],
)
def test_lines_that_are_no_instances_are_passed_over(line: str):
    assert () == ldplayer.parse_list(line)


def test_a_port_of_mumu_that_is_no_number_is_reported_with_its_instance():
    (one,) = mumu.parse_info('{"index": "1", "is_process_started": true, "adb_port": "\u00b2"}')
    assert "127.0.0.1:16416" == one.status.address


@pytest.mark.parametrize("text", ["[" * 100_000, '{"index":' * 100_000])
def test_what_is_nested_without_end_is_no_answer_either(text: str):
    with pytest.raises(ControllerError, match="which is no JSON"):
        mumu.parse_info(text)
    assert "" == mumu.parse_refusal(text)


@pytest.mark.parametrize("number", ["9" * 5_000, "99999", "²", "-1"])
def test_a_number_that_leads_to_no_port_is_no_address(number: str):
    (given,) = mumu.parse_info(f'{{"index": "0", "adb_port": "{number}"}}')
    (mine,) = mumu.parse_info(f'{{"index": "{number}"}}')
    assert ("127.0.0.1:16384", "") == (given.status.address, mine.status.address)
    assert () == ldplayer.parse_list(f"{number},title,0,0,1,-1,-1")
