"""Pure parsers of what the vendors' programs print. Written from what is known of them; never run against them here."""

import json
import re
from typing import Any, cast

from droidherd.controllers.model import ControllerError, Instance, Power, Status
from droidherd.emulator.addresses import LDPLAYER, MUMU, Row

_INDEX = re.compile(r"[0-9]{1,4}")
_PORT_LIMIT = 65_535
_NUMBER = re.compile(r"-?[0-9]{1,12}")
_LD_SHORT, _LD_LONG = 5, 8
"""Fields behind the title in `list2`: older versions know no width, height and density."""
_LD_ANDROID = 2
"""Which of them says that Android runs; the one behind it is the process, or -1."""


def mumu_info(text: str) -> tuple[Instance, ...]:
    """`MuMuManager info -v all`: an object per instance by its number; of one alone the object itself."""
    try:
        known = json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text.strip()[:80]
        raise ControllerError(f"MuMuManager answered {shown!r}, which is no JSON", remedy="update MuMu") from error
    if not isinstance(known, dict):
        raise ControllerError("MuMuManager did not answer with an object", remedy="update MuMu")
    document = cast("dict[str, Any]", known)
    rows = [document] if "index" in document else list(document.values())
    return tuple(_mumu(cast("dict[str, Any]", row)) for row in rows if isinstance(row, dict) and "index" in row)


def _mumu(row: dict[str, Any]) -> Instance:
    on, android = bool(row.get("is_process_started")), bool(row.get("is_android_started"))
    power = Power.ON if android else Power.STARTING if on else Power.OFF
    host, port = str(row.get("adb_host_ip") or "127.0.0.1"), row.get("adb_port")
    told = re.fullmatch(r"[0-9]{1,5}", str(port)) and 0 < int(str(port)) <= _PORT_LIMIT
    address = f"{host}:{port}" if told else mumu_address(str(row["index"]))
    return Instance(str(row["index"]), str(row.get("name") or ""), Status(power, address))


def mumu_address(index: str) -> str:
    """Where an instance listens when it gets its usual port. Of one that is off MuMu says nothing."""
    return _address(MUMU, index)


def _address(row: Row, index: str) -> str:
    """Empty: there is no such port."""
    if not _INDEX.fullmatch(index) or row.port(int(index)) > _PORT_LIMIT:
        return ""
    return row.address(int(index))


def mumu_verdict(text: str) -> str:
    """What `MuMuManager control` complains about; empty when it does not. Its return code is 0 either way."""
    try:
        known = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(known, dict):
        return ""
    said = cast("dict[str, Any]", known)
    code = said.get("errcode", 0)
    return "" if code in (0, None) else str(said.get("errmsg") or f"error {code}")


def ldplayer_list(text: str) -> tuple[Instance, ...]:
    """`ldconsole list2`: number, title, two windows, Android runs, process, process of the machine[, screen]."""
    return tuple(one for line in text.replace("\r\n", "\n").split("\n") if (one := _ldplayer(line.strip())))


def _ldplayer(line: str) -> Instance | None:
    words = line.split(",")
    if not _INDEX.fullmatch(words[0]):
        return None
    for count in (_LD_LONG, _LD_SHORT):
        behind = words[-count:]
        if len(words) >= count + 2 and all(_NUMBER.fullmatch(word) for word in behind):
            android, process = behind[_LD_ANDROID] == "1", int(behind[_LD_ANDROID + 1]) > 0
            power = Power.ON if android else Power.STARTING if process else Power.OFF
            return Instance(words[0], ",".join(words[1:-count]), Status(power, _address(LDPLAYER, words[0])))
    return None
