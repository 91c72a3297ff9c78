"""Which error a call ends with, whatever the server says, and that it ends."""

import io
import socket
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from droidherd.adb import wire
from droidherd.adb.client import STDIN_LIMIT_BYTES, AdbClient
from droidherd.adb.files import DeviceFiles, Pace
from droidherd.adb.wire import CallInterrupt
from droidherd.domain.errors import (
    AbandonedError,
    BadParametersError,
    DroidherdError,
    NotSentError,
    UnknownOutcomeError,
)
from tests.adb.talker import DEADLINES_S, Talk, exit_frame, frame, frames, talking

SERIAL = "127.0.0.1:16384"
LONG_S = 10.0
SHORT_S = 0.15


def test_a_command_that_ran_gives_its_code_and_both_outputs():
    def script(talk: Talk) -> None:
        assert b"shell,v2,raw:echo hi" == talk.service()
        talk.say(frame(1, b"hi\n") + frame(2, b"oops") + frame(1, b"there") + exit_frame(7))

    with talking(script) as talker:
        result = AdbClient(talker.port).shell(SERIAL, "echo hi", LONG_S)
    assert (7, b"hi\nthere", b"oops") == (result.rc, result.out, result.err)


def test_a_commands_input_is_sent_and_ended():
    heard = bytearray()

    def script(talk: Talk) -> None:
        talk.service()
        while len(heard) < 5 + 3 + 5:
            heard.extend(talk.sock.recv(100))
        talk.say(exit_frame())

    with talking(script) as talker:
        AdbClient(talker.port).shell(SERIAL, "cat", LONG_S, stdin=b"abc")
    assert frame(0, b"abc") + frame(4, b"") == bytes(heard)


@pytest.mark.parametrize("reason", ["device 'x' not found", "device offline", "device unauthorized."])
def test_a_refused_transport_was_surely_not_sent(reason: str):
    def script(talk: Talk) -> None:
        talk.hear()
        talk.say(b"FAIL%04x%b" % (len(reason), reason.encode()))

    with talking(script) as talker, pytest.raises(NotSentError, match=reason):
        AdbClient(talker.port).shell(SERIAL, "x", LONG_S)


def test_no_adb_server_at_all_was_surely_not_sent():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NotSentError, match="adb server"):
        AdbClient(port).shell(SERIAL, "x", LONG_S)


@pytest.mark.parametrize(
    "before",
    [b"", b"OKA", b"WHAT", b"FAIL", b"FAIL00", b"FAILzzzz", b"FAIL-001", b"FAIL+001x", b"FAIL0009short"],
)
@pytest.mark.parametrize("ending", ["closes", "hangs"])
def test_nothing_was_sent_before_the_transport_stood(before: bytes, ending: str):
    def script(talk: Talk) -> None:
        talk.hear()
        talk.say(before)
        if ending == "hangs":
            talk.silence()

    with talking(script) as talker, pytest.raises(NotSentError):
        AdbClient(talker.port).shell(SERIAL, "x", SHORT_S)


@pytest.mark.parametrize(
    "after",
    [
        b"",
        b"OK",
        b"FAIL0006closed",
        b"WHAT",
        b"OKAY",
        b"OKAY" + frame(1, b"partial"),
        b"OKAY" + frame(1, b"partial")[:-2],
        b"OKAY" + frame(3, b""),
        b"OKAY" + frame(9, b"?") + exit_frame(),
        b"OKAY" + b"\x01\xff\xff\xff\xff",
    ],
)
@pytest.mark.parametrize("ending", ["closes", "hangs"])
def test_once_the_service_was_asked_for_only_an_exit_frame_is_an_outcome(after: bytes, ending: str):
    asked = threading.Event()

    def script(talk: Talk) -> None:
        talk.transport()
        talk.hear()
        asked.set()
        talk.say(after)
        if ending == "hangs":
            talk.silence()

    _, error = ended_once(asked, script)
    assert (UnknownOutcomeError, SERIAL) == (type(error), error.to)


def ended_once(
    asked: threading.Event,
    script: Callable[[Talk], None],
    deadlines_s: Sequence[float] = DEADLINES_S,
    interrupt: CallInterrupt | None = None,
) -> tuple[float, DroidherdError]:
    """The deadline of a call that came so far, and what it ended with."""
    for within_s in deadlines_s:
        with talking(script) as talker, pytest.raises(DroidherdError) as caught:
            AdbClient(talker.port).shell(SERIAL, "x", within_s, interrupt=interrupt)
        if asked.is_set():
            return within_s, caught.value
    pytest.fail(f"the server was not asked within {deadlines_s[-1]} s")


def test_a_reason_of_senseless_length_is_not_read():
    def script(talk: Talk) -> None:
        talk.service()
        talk.say(b"FAIL\xff\xff\xff\x7f")
        talk.silence()

    with talking(script) as talker, pytest.raises(UnknownOutcomeError, match="a reason of 2147483647 bytes"):
        DeviceFiles(AdbClient(talker.port), SERIAL).pull("/x", LONG_S)


def test_a_file_that_comes_byte_after_byte_is_given_up():
    def script(talk: Talk) -> None:
        talk.service()
        talk.say(b"DATA\1\0\0\0x")
        while not talk.stop.wait(0.02):
            talk.say(b"DATA\1\0\0\0x")

    with talking(script) as talker, pytest.raises(UnknownOutcomeError, match=r"pull /x: only [0-9]+ bytes came in"):
        DeviceFiles(AdbClient(talker.port), SERIAL).fetch("/x", io.BytesIO(), Pace(0.5, lambda: None), 1 << 30)


def test_output_that_trickles_does_not_move_the_deadline():
    sent = threading.Event()

    def script(talk: Talk) -> None:
        talk.service()
        while not talk.stop.wait(0.02):
            talk.say(frame(1, b"."))
            sent.set()

    within_s, error = ended_once(sent, script)
    assert (UnknownOutcomeError, True) == (type(error), f"within {within_s:g} s" in str(error))


def test_an_interrupt_ends_a_call_from_another_thread():
    asked = threading.Event()
    interrupt = CallInterrupt()
    caught: list[DroidherdError] = []

    def script(talk: Talk) -> None:
        talk.service()
        asked.set()
        talk.silence()

    def call(port: int) -> None:
        try:
            AdbClient(port).shell(SERIAL, "x", 60.0, interrupt=interrupt)
        except DroidherdError as error:
            caught.append(error)

    with talking(script) as talker:
        thread = threading.Thread(target=call, args=(talker.port,))
        thread.start()
        assert asked.wait(LONG_S)
        interrupt.fire()
        thread.join(LONG_S)
        assert not thread.is_alive()
    assert [(UnknownOutcomeError, "shell: interrupted")] == [(type(one), one.what) for one in caught]


def test_after_an_interrupt_nothing_is_sent_any_more():
    interrupt = CallInterrupt()
    interrupt.fire()
    with talking(Talk.silence) as talker:
        with pytest.raises(NotSentError, match="interrupted"):
            AdbClient(talker.port).shell(SERIAL, "x", LONG_S, interrupt=interrupt)
        assert 0 == talker.connections


def test_no_more_connects_than_allowed_wait_for_the_server_at_once():
    def script(talk: Talk) -> None:
        talk.hear()
        time.sleep(0.01)

    with talking(script) as talker:
        adb = AdbClient(talker.port, connects_at_once=2)

        def call() -> None:
            with pytest.raises(NotSentError):
                adb.shell(SERIAL, "x", LONG_S)

        threads = [threading.Thread(target=call) for _ in range(12)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(LONG_S)
    assert 12 == talker.connections
    assert talker.most_at_once <= 2


def test_waiting_for_a_turn_to_connect_has_the_same_deadline():
    with talking(Talk.silence) as talker:
        adb = AdbClient(talker.port, connects_at_once=1)
        pulsed = adb.with_pulse(lambda: None)
        interrupt = CallInterrupt()

        def hang() -> None:
            with pytest.raises(NotSentError):
                adb.shell(SERIAL, "x", 60.0, interrupt=interrupt)

        thread = threading.Thread(target=hang)
        thread.start()
        while talker.connections == 0:
            time.sleep(0.005)
        with pytest.raises(NotSentError, match=r"within 0\.15 s"):
            pulsed.shell(SERIAL, "y", SHORT_S)
        assert 1 == talker.connections
        interrupt.fire()
        thread.join(LONG_S)


def test_open_streams_do_not_count_as_connects():
    opened = threading.Semaphore(0)
    interrupt = CallInterrupt()

    def script(talk: Talk) -> None:
        if talk.service().endswith(b"quick"):
            talk.say(exit_frame())
        else:
            opened.release()
            talk.silence()

    with talking(script) as talker:
        adb = AdbClient(talker.port, connects_at_once=1)

        def stream() -> None:
            with pytest.raises(UnknownOutcomeError):
                adb.shell(SERIAL, "long", 60.0, interrupt=interrupt)

        threads = [threading.Thread(target=stream) for _ in range(3)]
        for one in threads:
            one.start()
        assert all(opened.acquire(timeout=LONG_S) for _ in threads)
        assert 0 == adb.shell(SERIAL, "quick", LONG_S).rc
        interrupt.fire()
        for one in threads:
            one.join(LONG_S)


@pytest.mark.parametrize(
    ("command", "stdin"), [("a\0b", b""), ("\ud800", b""), ("x" * 70_000, b""), ("cat", b"x" * (STDIN_LIMIT_BYTES + 1))]
)
def test_what_cannot_be_sent_is_the_callers_mistake(command: str, stdin: bytes):
    with talking(Talk.silence) as talker:
        with pytest.raises(BadParametersError):
            AdbClient(talker.port).shell(SERIAL, command, LONG_S, stdin=stdin)
        assert 0 == talker.connections


def test_every_call_opens_a_span_with_its_operation_and_serial():
    seen: list[tuple[str, str]] = []

    class Span:
        def __init__(self, operation: str, serial: str) -> None:
            seen.append((operation, serial))

        def __enter__(self) -> None:
            seen.append(("in", ""))

        def __exit__(self, *error: object) -> None:
            seen.append(("out", ""))

    def script(talk: Talk) -> None:
        talk.service()
        talk.say(frames([b"x"]))

    with talking(script) as talker:
        AdbClient(talker.port, span=Span).shell(SERIAL, "x", LONG_S)
    assert [("shell", SERIAL), ("in", ""), ("out", "")] == seen


def test_a_wait_for_an_answer_has_a_pulse_that_may_end_the_call():
    beats: list[int] = []

    def pulse() -> None:
        beats.append(1)
        if len(beats) == 2:
            raise AbandonedError("given up")

    def script(talk: Talk) -> None:
        talk.service()
        talk.silence()

    with talking(script) as talker, pytest.raises(AbandonedError):
        AdbClient(talker.port).shell(SERIAL, "x", 60.0, interrupt=CallInterrupt(pulse))
    assert [1, 1] == beats


def test_a_pulsed_client_has_that_pulse_in_every_call(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire, "PULSE_S", 0.01)

    def given_up() -> None:
        raise AbandonedError("given up")

    with talking(Talk.silence) as talker:
        pulsed = AdbClient(talker.port).with_pulse(given_up)
        for call in (lambda: pulsed.shell(SERIAL, "x", 60.0), pulsed.version, lambda: pulsed.capture(SERIAL, 60.0)):
            with pytest.raises(AbandonedError):
                call()


def test_a_pulse_does_not_move_the_deadline():
    asked = threading.Event()

    def script(talk: Talk) -> None:
        talk.service()
        asked.set()
        talk.silence()

    longer = [one for one in DEADLINES_S if one > wire.PULSE_S]
    within_s, error = ended_once(asked, script, longer, CallInterrupt(lambda: None))
    assert (UnknownOutcomeError, True) == (type(error), f"no answer within {within_s:g} s" in str(error))
