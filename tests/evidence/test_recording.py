import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import JsonValue

from droidherd.adb.shell import ShellResult
from droidherd.domain.errors import BadParametersError, LateError, NotSentError, UnknownOutcomeError
from droidherd.domain.ports import Frame
from droidherd.emulator.hands import EmulatorHands, LeaseHandle
from droidherd.emulator.token import Token
from droidherd.evidence.recording import (
    FILE,
    FRAMES_MAX,
    RecordedAct,
    RecordedLook,
    RecordedTree,
    RecordingWriter,
    read,
)
from droidherd.evidence.trace import ActNote, Trace
from droidherd.flows.model.steps.handlers import CallStep
from droidherd.handlers.base import HandlerContext
from droidherd.stage.handlers import StageHandlers


def frame(level: int) -> Frame:
    return Frame(8, 4, bytes([level, 10, 20, 255]) * 32, 0.0)


def tape_at(folder: Path) -> RecordingWriter:
    tape = RecordingWriter(folder)
    tape.begin("demo", {"n": 3})
    return tape


def test_what_was_written_is_read_again_and_a_frame_seen_twice_is_kept_once(tmp_path: Path):
    tape = tape_at(tmp_path)
    tape.look(frame(1))
    tape.where = "main 1"
    tape.act("tap", x=1, y=2)
    tape.look(frame(2))
    tape.look(frame(1))
    tape.end("completed")
    found = read(tmp_path)
    looks = [
        RecordedLook("0001.png"),
        RecordedAct("tap", {"x": 1, "y": 2}, "main 1"),
        RecordedLook("0002.png"),
        RecordedLook("0001.png"),
    ]
    assert ("demo", {"n": 3}, "completed", tuple(looks)) == (found.flow, found.params, found.end, found.moments)
    assert bytes(frame(2).rgba) == bytes(found.frame("0002.png").rgba)
    assert ["0001.png", "0002.png"] == sorted(path.name for path in tmp_path.glob("*.png"))


def test_what_was_typed_is_masked_also_in_the_elements_that_show_it(tmp_path: Path):
    tape = tape_at(tmp_path).masking(lambda text: text.replace("canary", "•"))
    tape.act("type", "1", text="my canary")
    tape.tree('<node text="canary"/>')
    assert ["type my •"] == [str(act) for act in read(tmp_path).acts()]
    assert '<node text="•"/>' == (tmp_path / "0001.xml").read_text(encoding="utf-8")


def test_the_elements_of_a_screen_are_kept_once(tmp_path: Path):
    tape = tape_at(tmp_path)
    for dump in ("<a/>", "<b/>", "<a/>"):
        tape.look(frame(1))
        tape.tree(dump)
    found = read(tmp_path)
    trees = [moment for moment in found.moments if isinstance(moment, RecordedTree)]
    assert (["0001.xml", "0002.xml", "0001.xml"], "<b/>") == ([one.file for one in trees], found.tree("0002.xml"))


def test_what_a_handler_does_inside_is_not_written_down(tmp_path: Path):
    tape = tape_at(tmp_path)
    tape.muted += 1
    tape.look(frame(1))
    tape.tree("<a/>")
    tape.act("tap", x=1, y=2)
    tape.muted -= 1
    tape.act("key", key="home")
    assert ["key home"] == [str(act) for act in read(tmp_path).acts()]
    assert 1 == len(read(tmp_path).moments)


def test_an_act_that_surely_was_not_sent_is_not_written_down(tmp_path: Path):
    class Adb:
        answers = (NotSentError("no"), LateError("too late"), None, UnknownOutcomeError("perhaps"), "dh:written")

        def __init__(self) -> None:
            self.left = iter(self.answers)

        def shell(self, *_: Any, **__: Any) -> ShellResult:
            answer = next(self.left)
            if isinstance(answer, Exception):
                raise answer
            return ShellResult(0, (answer or "dh:acted 0").encode(), b"")

    handle = LeaseHandle("e1", "task.1.1", Token(1), 0)
    hands = EmulatorHands(cast("Any", Adb()), handle, lambda: 9, recorder=tape_at(tmp_path))
    for _ in range(4):
        with suppress(NotSentError, LateError, UnknownOutcomeError):
            hands.key("1", "home")
    assert ["key home"] * 2 == [str(act) for act in read(tmp_path).acts()]
    hands.forget("1")
    assert ["key home"] == [str(act) for act in read(tmp_path).acts()]


def test_a_handler_that_did_not_come_to_its_end_is_reported(tmp_path: Path):
    class Registry:
        def run(self, name: str, _params: object, _context: HandlerContext) -> dict[str, JsonValue]:
            if name == "download":
                raise NotSentError("no")
            return {}

    services = SimpleNamespace(
        catalogue=SimpleNamespace(handlers=Registry()), scratch=tmp_path, web=None, inventory=None, writer=None
    )
    work = SimpleNamespace(task_id="t", emulator_id="e1", account="")
    trace, nothing = Trace(), cast("Any", None)
    handlers = StageHandlers(
        services=cast("Any", services),
        work=cast("Any", work),
        hands=nothing,
        things=nothing,
        eyes=nothing,
        before={},
        keep=nothing,
        note=nothing,
        summarize=lambda _: None,
        recorder=trace,
    )
    doing = cast("Any", SimpleNamespace(path="4"))
    handlers.run(CallStep(by="scan"), doing)
    assert "" == trace.handler
    with pytest.raises(NotSentError):
        handlers.run(CallStep(by="download"), doing)
    assert ("download", 0, ["4", "4"]) == (
        trace.handler,
        trace.muted,
        [one.effect for one in trace.notes if isinstance(one, ActNote)],
    )


def test_a_forgotten_act_never_was(tmp_path: Path):
    tape = tape_at(tmp_path)
    tape.act("key", key="home")
    tape.act("key", key="back")
    tape.forget()
    assert ["key home"] == [str(act) for act in read(tmp_path).acts()]
    tape.forget()
    tape.forget()
    assert () == read(tmp_path).acts()


def test_a_run_without_end_fills_no_disk(tmp_path: Path):
    tape = tape_at(tmp_path)
    for number in range(FRAMES_MAX + 5):
        tape.look(Frame(2, 1, number.to_bytes(4, "big") * 2, 0.0))
    assert FRAMES_MAX == len([*tmp_path.glob("*.png")])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "line 2 is not JSON"),
        ("[]", "line 2 is not a mapping"),
        (json.dumps({"look": "../../etc/passwd"}), "line 2 names a file outside the folder"),
        (json.dumps({"look": 7}), "line 2 names a file outside the folder"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(tmp_path: Path, line: str, expected: str):
    tape_at(tmp_path)
    with (tmp_path / FILE).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(BadParametersError, match=expected):
        read(tmp_path)


def test_a_folder_that_is_no_recording_says_so(tmp_path: Path):
    with pytest.raises(BadParametersError, match="is no recorded run"):
        read(tmp_path)
    tape_at(tmp_path).look(frame(1))
    (tmp_path / "0001.png").write_bytes(b"no")
    with pytest.raises(BadParametersError, match="is no picture"):
        read(tmp_path).frame("0001.png")
