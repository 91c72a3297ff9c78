"""Nothing a client sends breaks an emulator or its neighbours."""

import os
import socket
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from droidherd.virtual.line import COMMANDS
from droidherd.virtual.process import VirtualFleet
from tests.virtual.stand import Stand, stand_in
from tests.virtual.wire import packet, received

TIMEOUT_S = 60.0
# These wait or end the line by design.
PATIENT = {"sleep", "logcat", "reboot"}
ODD = [
    "-1", "--", "-", "²", "٣", "9" * 5000, "1" * 400, "😀", "a\nb", "/sdcard/../..", "*", "-c", "-n", "%s%d%", "s/(/x/",
    "[", "\\",
]  # fmt: skip
ARGUMENTS = st.lists(
    st.one_of(st.sampled_from(ODD), st.text(max_size=6).filter(lambda text: "\0" not in text)), max_size=4
)
VERBS = [
    "list", "packages", "put", "get", "system", "tap", "swipe", "text", "keyevent", "size", "density", "start", "dump",
    "-d",
]  # fmt: skip
BUILTINS = [
    "printf", "[", "exit", "shift", "read", "cd", "set --", "break", "eval", "export", "echo -e", "unset",
]  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory):
    with stand_in(tmp_path_factory.mktemp("fuzz")) as stand:
        yield stand


def quoted(word: str) -> str:
    return "'" + word.encode(errors="replace").decode().replace("'", "'\\''") + "'"


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(sorted(set(COMMANDS) - PATIENT)), verb=st.sampled_from(["", *VERBS]), words=ARGUMENTS)
def test_no_argument_breaks_a_command(shared: Stand, name: str, verb: str, words: list[str]):
    result = shared.run(" ".join([name, verb, *map(quoted, words)]), stdin=b"1 2\n\xff\n")
    assert 0 <= result.rc <= 255


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    words=st.lists(st.sampled_from(ODD), min_size=1, max_size=3),
    builtin=st.sampled_from(BUILTINS),
)
def test_no_argument_breaks_a_builtin(shared: Stand, builtin: str, words: list[str]):
    assert 0 <= shared.run(f"{builtin} {' '.join(map(quoted, words))}").rc <= 255


def connected(fleet: VirtualFleet) -> socket.socket:
    host, _, port = fleet.addresses["virtual-1"].rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def test_an_old_host_gets_checksums_and_small_packets(fleet: VirtualFleet):
    with connected(fleet) as sock:
        sock.sendall(packet(b"CNXN", 0x01000000, 4096, b"host::"))
        name, _, maxdata, banner = received(sock)
        assert (b"CNXN", 4096, True) == (name, maxdata, banner.startswith(b"device::ro.product.name="))
        sock.sendall(packet(b"OPEN", 7, 0, b"shell:seq 1 3000\0"))
        assert (b"OKAY", 7) == (received(sock)[0], 7)
        text = b""
        while True:
            name, own, peer, payload = received(sock)
            if name == b"CLSE":
                break
            assert (b"WRTE", True) == (name, len(payload) <= 4096)
            text += payload
            sock.sendall(packet(b"OKAY", peer, own))
    assert "".join(f"{number}\n" for number in range(1, 3001)).encode() == text


def test_noise_is_hung_up_on_and_harms_nobody(fleet: VirtualFleet):
    noises = [
        os.urandom(200),
        b"GET / HTTP/1.1\r\n\r\n",
        packet(b"OPEN", 1, 0, b"shell:id\0"),
        struct.pack("<6I", 0x4E584E43, 0, 0, 0xFFFFFFFF, 0, 0x4E584E43 ^ 0xFFFFFFFF),
        packet(b"CNXN", 0x01000001, 4096, b"host::") + os.urandom(100),
    ]
    for noise in noises:
        with connected(fleet) as sock:
            sock.sendall(noise)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
    with fleet.control() as control:
        assert control.state("virtual-1")["booted"]
    assert b"" == (fleet.state / "virtual.log").read_bytes()


def test_words_for_streams_that_do_not_exist_are_answered_or_ignored(fleet: VirtualFleet):
    with connected(fleet) as sock:
        sock.sendall(packet(b"CNXN", 0x01000000, 4096, b"host::"))
        received(sock)
        sock.sendall(packet(b"WRTE", 5, 99, b"x") + packet(b"CLSE", 5, 98) + packet(b"OKAY", 5, 97))
        assert [(b"CLSE", 99, 5), (b"CLSE", 97, 5)] == [received(sock)[:3] for _ in range(2)]
        sock.sendall(packet(b"OPEN", 6, 0, b"nothing:here\0"))
        assert (b"CLSE", 0, 6) == received(sock)[:3]


@pytest.mark.parametrize("noise", [b"{}\n", b"[]\n", b"nonsense\n", b'{"op": "state", "emulator": 5}\n', b"\xff\xfe\n"])
def test_noise_on_the_side_channel_is_refused(fleet: VirtualFleet, noise: bytes):
    host, _, port = fleet.control_address.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as sock:
        sock.sendall(noise)
        assert b'{"ok": false' in sock.recv(4096)
