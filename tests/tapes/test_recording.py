import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from droidherd.domain.errors import BadParametersError, LateError, NotSentError, UnknownOutcomeError
from droidherd.domain.ports import Acted, Frame
from droidherd.flows.model import Handle
from droidherd.ribbon import Done, Ribbon
from droidherd.tapes.recording import FILE, Act, Look, Tree, read
from droidherd.tapes.tape import FRAMES_MAX, Tape
from droidherd.tapes.taping import TapedEyes, TapedHandlers, TapedHands


def frame(level: int) -> Frame:
    return Frame(8, 4, bytes([level, 10, 20, 255]) * 32, 0.0)


def tape_at(folder: Path) -> Tape:
    tape = Tape(folder)
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
    looks = [Look("0001.png"), Act("tap", {"x": 1, "y": 2}, "main 1"), Look("0002.png"), Look("0001.png")]
    assert ("demo", {"n": 3}, "completed", tuple(looks)) == (found.flow, found.params, found.end, found.moments)
    assert bytes(frame(2).rgba) == bytes(found.frame("0002.png").rgba)
    assert ["0001.png", "0002.png"] == sorted(path.name for path in tmp_path.glob("*.png"))


def test_what_was_typed_is_masked_in_the_elements_that_show_it(tmp_path: Path):
    class Eyes:
        def tree(self) -> str:
            return '<node text="canary"/>'

    tape = tape_at(tmp_path)
    eyes = TapedEyes(cast("Any", Eyes()), tape, lambda text: text.replace("canary", "•"))
    assert '<node text="canary"/>' == eyes.tree()
    assert '<node text="•"/>' == (tmp_path / "0001.xml").read_text(encoding="utf-8")


def test_the_elements_of_a_screen_are_kept_once(tmp_path: Path):
    tape = tape_at(tmp_path)
    for dump in ("<a/>", "<b/>", "<a/>"):
        tape.look(frame(1))
        tape.tree(dump)
    found = read(tmp_path)
    trees = [moment for moment in found.moments if isinstance(moment, Tree)]
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
    class Hands:
        def __init__(self) -> None:
            self.answers = [NotSentError("no"), LateError("too late"), None, UnknownOutcomeError("perhaps")]

        def key(self, effect: str, key: str) -> Acted:
            if (error := self.answers.pop(0)) is not None:
                raise error
            return Acted.DONE

        def forget(self, effect: str) -> None:
            """It did not happen, as was seen."""

    hands = TapedHands(cast("Any", Hands()), tape_at(tmp_path), str)
    for _ in range(4):
        with suppress(NotSentError, LateError, UnknownOutcomeError):
            hands.key("1", "home")
    assert ["key home"] * 2 == [str(act) for act in read(tmp_path).acts()]
    hands.forget("1")
    assert ["key home"] == [str(act) for act in read(tmp_path).acts()]


def test_a_handler_that_did_not_come_to_its_end_is_told(tmp_path: Path):
    class Handlers:
        def run(self, args: Handle, doing: Any) -> None:
            if args.by == "download":
                raise NotSentError("no")

    ribbon = Ribbon()
    handlers = TapedHandlers(cast("Any", Handlers()), ribbon)
    doing = cast("Any", SimpleNamespace(path="4"))
    handlers.run(Handle(by="scan"), doing)
    assert "" == ribbon.handler
    with pytest.raises(NotSentError):
        handlers.run(Handle(by="download"), doing)
    assert ("download", 0, ["4", "4"]) == (
        ribbon.handler,
        ribbon.muted,
        [one.effect for one in ribbon.notes if isinstance(one, Done)],
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
