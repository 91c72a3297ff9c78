"""Every parser that reads what an emulator, a flow, a file or the network says, with what it may answer to nonsense."""

import base64
import io
import json
import socket
import struct
import tempfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import cv2
import numpy as np

from api.accounts.schemas import AccountRequest
from api.bodies import parse_body
from api.errors import ProblemError
from api.subscriptions.schemas import SubscriptionRequest
from api.tasks import files
from api.tasks.schemas import SubmitRequest
from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.adb.files import DeviceFiles
from droidherd.adb.picture import RawPicture, whole_png
from droidherd.adb.shell import ShellResult, read_result
from droidherd.adb.wire import CallInterrupt, Deadline, Wire, WireError
from droidherd.artifacts import apk
from droidherd.controllers import ldplayer, mumu
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig
from droidherd.domain.errors import BadParametersError, DroidherdError, InvalidFrameError
from droidherd.domain.zipfiles import UNREADABLE
from droidherd.emulator import coordinates, hands, lines, making
from droidherd.emulator.inventory import FILE as INVENTORY
from droidherd.emulator.inventory import Inventory
from droidherd.engine import visibility
from droidherd.evidence import folder, recording
from droidherd.flows.lint import judge
from droidherd.flows.loading.document import BadYamlError, parse_document
from droidherd.flows.loading.folder import FILE as FLOW
from droidherd.flows.loading.folder import GALLERY
from droidherd.testing import replay
from droidherd.virtual.frames import VirtualFrames
from droidherd.virtual.hosting import last_port
from droidherd.virtual.journal import JOURNAL
from droidherd.virtual.journal import read as commands
from droidherd.virtual.machine import Body, VirtualDevice
from droidherd.virtual.store import BrokenStateError, readable
from droidherd.virtual.tinyapk import tiny_apk
from droidherd.vision import tree
from droidherd.vision.pixels import UndecodableError, decode_image, decode_png
from droidherd.web import client as web
from droidherd.web.allow import AllowList
from tests.domain.pool import Pool

HERE = Path(__file__).parent
SHAPES = HERE.parent / "adb" / "shapes"
SCRATCH = Path(tempfile.gettempdir())
WIRE_S = 5.0


@dataclass(frozen=True)
class Parser:
    """One parser."""

    name: str
    read: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    refuses: tuple[type[BaseException], ...]
    """What it says to nonsense. Any other error is a finding."""
    words: tuple[bytes, ...] = field(default=())
    """What its inputs are made of."""


# --- what comes over a connection ------------------------------------------------------------------------------------


@contextmanager
def wired(data: bytes) -> Generator[Wire]:
    """A connection on which all of `data` comes, and then the end."""
    ours, theirs = socket.socketpair()
    with ours, theirs, Wire(Deadline(WIRE_S)) as wire:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        theirs.setblocking(False)
        try:
            theirs.send(data)
        except BlockingIOError:
            return
        theirs.shutdown(socket.SHUT_WR)
        wire._sock.close()
        wire._sock = ours
        yield wire


class WiredClient:
    """An adb client whose every service is answered with the same bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @contextmanager
    def service(
        self, serial: str, service: bytes, deadline: Deadline, interrupt: CallInterrupt | None = None, *, step: str
    ) -> Generator[Wire]:
        with wired(self.data) as wire:
            yield wire


def _screencap(data: bytes) -> object:
    with wired(data) as wire:
        picture = RawPicture()
        picture.read(wire)
        return picture.pixels()


def _shell(data: bytes) -> object:
    with wired(data) as wire:
        result = read_result(wire)
    return lines.ShellReply.of(result, "e")


def _sync(data: bytes) -> None:
    transfers = DeviceFiles(cast("AdbClient", WiredClient(data)), "e")
    problems: list[Exception] = []
    for ask in (
        lambda: transfers.stat("/a", WIRE_S),
        lambda: transfers.pull("/a", WIRE_S, 1 << 20),
        lambda: transfers.push(b"x", "/a", WIRE_S),
    ):
        try:
            ask()
        except (WireError, DroidherdError) as error:
            problems.append(error)
    if problems:
        raise problems[0]


LISTED = b"127.0.0.1:16384        device product:x model:y transport_id:1\nemulator-5554 offline\n"


def _server(data: bytes) -> object:
    with wired(data) as wire:
        wire.request(b"host:devices-l")
        return parse.devices(wire.block().decode("utf-8", "replace"))


def frames_of(*pieces: tuple[int, bytes]) -> bytes:
    """Frames of a shell, by kind."""
    return b"".join(struct.pack("<BI", kind, len(payload)) + payload for kind, payload in pieces)


def _raw_screen(width: int = 8, height: int = 6) -> bytes:
    return struct.pack("<4I", width, height, 1, 0) + bytes(range(48)) * 3 + b"\xff" * (width * height * 4 - 144)


def _sync_seeds() -> list[bytes]:
    head = struct.Struct("<4sI")
    return [
        struct.pack("<4sIII", b"STAT", 0o100644, 5, 1_700_000_000),
        head.pack(b"DATA", 5) + b"hello" + head.pack(b"DONE", 0),
        head.pack(b"OKAY", 0),
        head.pack(b"FAIL", 23) + b"No space left on device",
    ]


# --- pictures and files ----------------------------------------------------------------------------------------------


def _picture() -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    rows = np.arange(24 * 32 * 3, dtype=np.uint32).reshape(24, 32, 3)
    return (rows % 251).astype(np.uint8)


def _encoded(suffix: str, channels: int = 3) -> bytes:
    picture = _picture() if channels == 3 else np.dstack([_picture(), _picture()[:, :, :1]])
    good, content = cv2.imencode(suffix, picture)
    assert good
    return content.tobytes()


def _frame(data: bytes) -> object:
    return decode_png(whole_png(data))


def _manifest(data: bytes) -> object:
    return apk._root_element(data)


def manifest_of(content: bytes) -> bytes:
    """The manifest of an APK as it stands there."""
    with apk.open_zip(io.BytesIO(content)) as archive:
        return apk.read_member(archive, apk.MANIFEST, apk.MANIFEST_LIMIT_BYTES)


def _recorded_run(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name:
        (Path(name) / recording.FILE).write_bytes(data)
        recording.read(Path(name))


def _recorded_file(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=SCRATCH, suffix=recording.PACKED) as file:
        file.write(data)
        file.flush()
        found = recording.read(Path(file.name))
        for moment in found.moments[:5]:
            if isinstance(moment, recording.RecordedLook):
                found.frame(moment.frame)
            elif isinstance(moment, recording.RecordedTree):
                found.tree(moment.file)


RUN = "\n".join(
    json.dumps(line)
    for line in (
        {"run": 1, "flow": "daily_reward", "hash": "00", "params": {"a": 1}, "by_person": False},
        {"part": "collect", "behind": {"1": "done"}, "marks": {"2": "x"}, "confirmed": {"3": True}, "lease": 4},
        {"look": "0001.png", "searched": [{"what": "image a.png", "found": True, "at": [1, 2, 3, 4], "score": 0.9}]},
        {"tree": "0001.xml"},
        {"act": "tap", "x": 1, "y": 2, "step": "collect 1"},
        {"answer": "yes", "step": "collect 2"},
        {"end": "completed"},
    )
).encode()


def _packed() -> bytes:
    import zipfile

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(recording.FILE, RUN)
        archive.writestr("0001.png", _encoded(".png"))
        archive.writestr("0001.xml", TREES[0])
    return content.getvalue()


def _inventory(data: bytes) -> object:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name:
        (Path(name) / INVENTORY).write_bytes(data)
        return Inventory(Path(name)).load()


# --- what Android's tools print --------------------------------------------------------------------------------------


def _tables(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for read in (
        parse.properties, parse.settings, parse.window_size, parse.density, parse.focus, parse.resumed_activity,
        parse.uptime_s, parse.packages, parse.installed_packages, parse.storage, parse.log_lines, parse.devices,
        coordinates.displays_in,
    ):  # fmt: skip
        read(text)
    for what in ("size", "density"):
        parse.override_of(what, text)
    for begin in range(3):  # the first clock in a text is the one that counts
        folder.lines_of_app("\n".join(text.split("\n")[3 * begin :]), folder.AppLog("com.example.herd", 60.0))


CLOCKS = b"".join(
    b"droidherd-now %b\ndroidherd-pids 1\n01-01 00:00:00.000 1 1 I com.example.herd: x\n" % at
    for at in (b"2026-01-01 00:00:00", b"0001-01-01 00:00:00", b"9999-12-31 23:59:59+00:00")
)
TREES = [
    (
        b'<hierarchy rotation="0"><node text="a &amp; b" resource-id="com.x:id/y" class="android.widget.TextView" '
        b"content-desc='&#x41;' "
        b'enabled="true" bounds="[0,1][20,30]"><node text="" bounds="[1,1][2,2]" /></node></hierarchy>'
    ),
    b'<hierarchy rotation="0"/>',
]


def _tree(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    tree.is_tree(text)
    nodes = tree.parse(text)
    tree.find(nodes, tree.ElementQuery(text="gift", id="y", class_="TextView", states=(("enabled", True),)))
    coordinates.CoordinateMap(lambda: None).tree_on_frame(text)


def _answers(data: bytes) -> None:
    """What the lines of our own answered: markers, journals, facts of files, digests."""
    cut = data.partition(b"\0")
    result = ShellResult(len(data) % 3, cut[0], cut[2])
    hands.read_journal(cut[0].decode("utf-8", "replace"), 1)
    hands.values(cut[0].decode("utf-8", "replace"), 1)
    lines.value_of(cut[0].decode("utf-8", "replace"))
    problems: list[DroidherdError] = []
    for ask in (
        lambda: lines.ShellReply.of(result, "e").refuse("e"),
        lambda: making.value("setting", "global/x", result),
        lambda: making.value("wm", "size", result),
        lambda: making.value("property", "debug.x", result),
        lambda: making.file_facts("/a", result),
        lambda: making.package_files("a.b", result),
        lambda: making.size(result, "/a"),
        lambda: making.digest(result, "/a"),
        lambda: making.is_listed("global/x", result),
    ):
        try:
            ask()
        except DroidherdError as error:
            problems.append(error)
    if problems:
        raise problems[0]


# --- what flows, vendors and servers say -----------------------------------------------------------------------------


def _flow(data: bytes) -> None:
    """All of it: read, checked, judged."""
    parse_document(data)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name:
        place = Path(name) / "fuzzed"
        place.mkdir()
        (place / FLOW).write_bytes(data)
        judge.judge(place)


def _vendors(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    mumu.parse_refusal(text)
    ldplayer.parse_list(text)
    mumu.parse_info(text)


ALLOWED = AllowList.of(("https://files.example.com", "http://*.example.org:8080"))


def _addresses(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    web.patience_s(text[:200], text[200:400], 1_700_000_000.0)
    ALLOWED.check(text)


def _cursor(data: bytes) -> object:
    return visibility.from_cursor(data.decode("utf-8", "replace"), "q")


# --- what is kept ----------------------------------------------------------------------------------------------------


def _history(data: bytes) -> object:
    with tempfile.NamedTemporaryFile(dir=SCRATCH, suffix=".json") as file:
        file.write(data)
        file.flush()
        return replay.read(Path(file.name))


def _history_seeds() -> list[bytes]:
    found = sorted((HERE.parent / "replay" / "histories").glob("unreadable.*.json"))
    shortest = json.loads(found[0].read_bytes())
    shortest["events"] = shortest["events"][:2]
    return [json.dumps(shortest).encode(), found[0].read_bytes()]


def _snapshot(data: bytes) -> object:
    """Of a dispatcher: as its text is packed, nearly no mutation would get through."""
    return DispatcherState.load(base64.b85encode(zlib.compress(data)).decode(), PoolConfig())


def _snapshot_seeds() -> list[bytes]:
    pool = Pool()
    for number in range(2):
        pool.emulator(f"e{number}")
        pool.enqueue(f"t{number}", account=f"a{number}")
    pool.enqueue("t3")
    texts = (DispatcherState("pool").dump(), pool.d.state.dump())
    return [zlib.decompress(base64.b85decode(text)) for text in texts]


KEPT_BY_EMULATORS = ("app", "boot", "endpoint", "installed", "modes", "properties", "settings", "")
"""The last: its journal of commands."""


def _virtual(data: bytes) -> None:
    """What a virtual emulator kept; the first byte says which of its files is given."""
    name = KEPT_BY_EMULATORS[data[0] % len(KEPT_BY_EMULATORS)] if data else ""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        body = Body("virtual-1", "VIRT0001", 720, 1280, Path(folder) / "virtual-1")
        (body.folder / "store").mkdir(parents=True)
        (body.folder / "store" / f"{name}.json" if name else body.folder / JOURNAL).write_bytes(data[1:])
        with readable(body.folder):
            emulator = VirtualDevice(body, FRAMES)
            emulator.journal.close()
            last_port(emulator.store)
            commands(Path(folder), "virtual-1")


FRAMES = VirtualFrames()
COMMAND = {"seq": 1, "wall_s": 1.0, "monotonic_s": 1.0, "argv": ["input", "tap", "1", "2"], "rc": 0, "effect": True,
           "uptime_s": 1.0, "boot": 1, "stream": 1, "token": ""}  # fmt: skip
KEPT: tuple[dict[str, object], ...] = (
    {"signed_in": True, "gift_taken": 1, "claimed": [1, 2], "taps": 3, "claims": 1, "sign_ins": 2},
    {"boot": 3},
    {"port": 16_000},
    {"a.b": {"name": "a.b", "version_code": 1, "version_name": "1", "path": "/a", "digest": "0", "number": 1}},
    {"/sdcard/x": 420},
    {"persist.sys.timezone": "UTC"},
    {"system": {"a": "b"}, "secure": {}, "global": {"c": "d"}},
)


def _virtual_seeds() -> list[bytes]:
    kept = [bytes([number]) + json.dumps(content).encode() for number, content in enumerate(KEPT)]
    return [*kept, bytes([len(KEPT)]) + json.dumps(COMMAND).encode() + b"\n"]


# --- what clients send -----------------------------------------------------------------------------------------------


def _body(data: bytes) -> None:
    problems: list[ProblemError] = []
    for model in (SubmitRequest, SubscriptionRequest, AccountRequest):
        try:
            parse_body(model, data)
        except ProblemError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


BODY = json.dumps(
    {"type": "daily_reward", "account": "a", "params": {"x": [1, 2.5, None]}, "requires": ["kind=virtual"],
     "not_before": "2026-11-20T06:00:00Z", "then": [{"type": "check"}], "policy": {"retries": 1}}
).encode()  # fmt: skip


def _log(data: bytes) -> bytes:
    return b"".join(files.as_text(line + b"\n") for line in data.split(b"\n"))


PARSERS: tuple[Parser, ...] = (
    Parser(
        "apk",
        lambda data: apk.read_apk(io.BytesIO(data)),
        lambda: [tiny_apk("com.example.tiny", 42, "4.2 ü", b"x" * 100), tiny_apk("a.b", 1)],
        (apk.BadApkError,),
        (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", apk.MANIFEST.encode()),
    ),
    Parser(
        "manifest",
        _manifest,
        lambda: [manifest_of(tiny_apk("com.example.tiny", 42, "4.2 ü")), manifest_of(tiny_apk("a.b", 1))],
        UNREADABLE,
        (b"\x03\x00\x08\x00", b"\x01\x00\x1c\x00", b"\x80\x01\x08\x00", b"\x02\x01\x10\x00"),
    ),
    Parser(
        "image",
        decode_image,
        lambda: [_encoded(".png"), _encoded(".jpg"), _encoded(".png", 4)],
        (UndecodableError,),
        (b"IHDR", b"IDAT", b"IEND", b"PLTE", b"tRNS", b"acTL", b"fcTL", b"fdAT", b"\xff\xc0", b"\xff\xda"),
    ),
    Parser("frame", _frame, lambda: [_encoded(".png"), b"warning\n" + _encoded(".png")], (InvalidFrameError,),
           (b"IHDR", b"IDAT", b"IEND")),
    Parser("screencap", _screencap, lambda: [
        frames_of((1, _raw_screen()), (3, b"\0")), frames_of((2, b"no"), (3, b"\1"))], (InvalidFrameError, WireError)),
    Parser("shell", _shell, lambda: [frames_of((1, b"dh:acted 0\nout\n"), (2, b"err"), (3, b"\0"))],
           (WireError, DroidherdError), (b"dh:",)),
    Parser("sync", _sync, _sync_seeds, (WireError, DroidherdError), (b"DATA", b"DONE", b"FAIL", b"OKAY", b"STAT")),
    Parser("server", _server, lambda: [
        b"OKAY%04x%b" % (len(LISTED), LISTED),
        b"FAIL0009not found"], (WireError,), (b"OKAY", b"FAIL", b"ffff")),
    Parser("tables", _tables, lambda: [
        CLOCKS, *(path.read_bytes()[:20_000] for path in sorted(SHAPES.glob("*/*.txt")))],
           (DroidherdError,), (
               b"mCurrentFocus=Window{1f ", b" EXITING", b" paused=x", b"topResumedActivity=ActivityRecord{1f u0 ",
               b"package:", b"=", b" versionCode:1", b"DisplayViewport{", b"Start proc ", b"9" * 5_000, b"[a]: [",
               b"\r\n", b"/")),
    Parser("tree", _tree, lambda: TREES, (), (
        b"<node ", b"</node>", b"/>", b'text="', b"text='", b"&#x", b"&amp;", b"<!ENTITY a '", b"<!DOCTYPE ")),
    Parser("answers", _answers, lambda: [
        b"dh:acted 0\nout", b"dh:fenced 000000000000001.001.001", b"1/tap begin\n1/tap done 0 =YQ.\n2/x settled\n",
        b"file 644 12\n", b"package:/data/app/a/base.apk\n", b"a" * 64 + b"  -\n", b"dh:late 12.5\n",
        b"Physical size: 720x1280\nOverride size: 1x2\n", b"x=1\ny=2\n\0oops"], (DroidherdError,),
        (b"dh:", b"begin", b"done", b"settled", b"=", b".", "²٣".encode(), b"9" * 5_000)),
    Parser("flow", _flow, lambda: [path.read_bytes() for path in sorted(GALLERY.glob(f"*/{FLOW}"))], (BadYamlError,), (
        b"&a ", b"*a", b"<<: ", b"!!python/object", b"? ", b"- ", b": ", b"{", b"[", b"|", b">", b"'", b'"', b"\t",
        b"steps:", b"repeat:", b"${", b"}", b"9" * 5_000, b"1e999", b".nan")),
    Parser("run", _recorded_run, lambda: [RUN], (BadParametersError,), (b"[", b"{", b'"', b"9" * 5_000, b"1e999")),
    Parser("recording", _recorded_file, lambda: [_packed()], (BadParametersError,),
           (b"PK\x01\x02", b"PK\x05\x06", b"a/", b"../")),
    Parser("inventory", _inventory, lambda: [json.dumps({"emulators": [
        {"emulator_id": "a", "address": "127.0.0.1:5555", "labels": {"x": "y"}, "instance": "1"}]}).encode()],
        (BadParametersError,), (b"[", b"{", b'"', b"\\ud800", b"9" * 5_000)),
    Parser("vendors", _vendors, lambda: [
        b'{"0":{"index":"0","name":"a","is_process_started":true,"is_android_started":true,"adb_port":16384}}',
        b"0,LDPlayer,131,132,1,9,8,960,540,240\n", b'{"errcode":-1,"errmsg":"x"}'], (DroidherdError,),
        (b"[", b"{", b'"index"', b"9" * 5_000)),
    Parser("addresses", _addresses, lambda: [
        b"https://files.example.com/a?b=c", b"http://x.example.org:8080/", b"Wed, 21 Oct 2026 07:28:00 GMT"],
        (DroidherdError,), (b"@", b"://", b"[::1]", b":99999", b"%00", "\uff45".encode(), b"\\")),
    Parser("history", _history, _history_seeds, (replay.UnreadableHistoryError,), (
        b"[", b"{", b'"', b"9" * 5_000, b'"eventId"', b'"payloads"', b'"data"')),
    Parser("snapshot", _snapshot, _snapshot_seeds, (ValueError,), (b"[", b"{", b'"', b"9" * 5_000, b"-1", b"1e999")),
    Parser("virtual", _virtual, _virtual_seeds, (BrokenStateError,), (
        b"[", b"{", b'"', b"null", b"9" * 5_000, b"1e999")),
    Parser("body", _body, lambda: [BODY], (ProblemError,), (
        b"[", b"{", b'"', b"null", b"9" * 5_000, b"1e999", b"\\ud800", b'"params":', b'"every":')),
    Parser("log", _log, lambda: [b'{"at":"x","event":"tapped","x":1}\n{}'], (), (
        b"[", b"{", b'"', b"9" * 5_000, b"NaN", b"Infinity", b"\\u001b[2J")),
    Parser("cursor", _cursor, lambda: [visibility.as_cursor(b"token", "q").encode()], (visibility.CursorError,)),
)  # fmt: skip


def parser_of(name: str) -> Parser:
    return next(one for one in PARSERS if one.name == name)
