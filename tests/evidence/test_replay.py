"""What a stage noted while it ran, made into a recording: where that begins, how large it gets, what it hides."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from droidherd.domain.errors import (
    About,
    Asks,
    BadParametersError,
    DroidherdError,
    EmulatorLostError,
    NeedsPersonError,
    StuckError,
)
from droidherd.domain.ports import Box, Frame, Match, Recalled
from droidherd.evidence import recording
from droidherd.evidence.folder import refusal
from droidherd.evidence.frame_buffer import BufferedFrame
from droidherd.evidence.recording import (
    FILE,
    PackedRecordingWriter,
    RecordedAct,
    RecordedLook,
    RecordedPart,
    RecordedTree,
    Recording,
    read,
)
from droidherd.evidence.replay import AvailableFrames, mask_texts, pack
from droidherd.evidence.trace import FRAMES_BYTES, LOOKS_MAX, NOTES_MAX, TREES_CHARS, Search, Trace, TreeNote

CANARY = 'pass"word<1>'
PLACE = Box(1, 2, 3, 4)


def frame(at_s: float) -> Frame:
    return Frame(8, 4, bytes([int(at_s), 10, 20, 255]) * 32, at_s)


def shot(at_s: float, until_s: float = 0.0, size: int = 0) -> BufferedFrame:
    return BufferedFrame(at_s, until_s or at_s, 8, 4, f"jpeg {at_s}".encode() + b"." * size, "task")


def walked(*script: Any) -> Trace:
    """A number is a look at that time on which `a.png` was found; a text is a tap of the step of that name."""
    trace = Trace(began_s=0.0)
    for one in script:
        if isinstance(one, str):
            trace.act("tap", one, x=1, y=2)
        else:
            trace.look(frame(one))
            trace.seen("1", "", frame(one), None)
            trace.seen("1", "a.png", frame(one), Match(True, PLACE, 0.95, 0.3))
    return trace


def masked(text: str) -> str:
    return text.replace(CANARY, "***")


def made(folder: Path, frames: AvailableFrames, **part: Any) -> Recording:
    writer = PackedRecordingWriter()
    writer.begin("demo", {"n": 3}, "hash")
    pack(frames, RecordedPart("main", **part), writer, masked)
    writer.end("step 4: no")
    path = folder / f"1-0-1-main{recording.PACKED}"
    path.write_bytes(writer.content())
    return read(path)


def part_of(found: Recording) -> RecordedPart:
    assert found.part is not None
    return found.part


def test_stage_whose_frames_are_all_at_hand_is_recorded_from_its_first_step(tmp_path: Path):
    trace = walked(1, "1", 2, "2", 3)
    found = made(tmp_path, AvailableFrames([shot(1), shot(2), shot(3)], trace), lease=7, rounds=2)
    assert ("demo", {"n": 3}, "hash", "step 4: no") == (found.flow, found.params, found.flow_hash, found.end)
    looks = [one for one in found.moments if isinstance(one, RecordedLook)]
    assert ["0001.jpg", "0002.jpg", "0003.png"] == [one.frame for one in looks], "the last one is kept as it was"
    assert [RecordedAct("tap", {"x": 1, "y": 2}, "main 1"), RecordedAct("tap", {"x": 1, "y": 2}, "main 2")] == [
        *found.acts()
    ]
    assert [True, True, False] == [one.is_copy for one in looks]
    assert (True, PLACE, 0.95) == (
        looks[0].searched["a.png"].found, looks[0].searched["a.png"].box, looks[0].searched["a.png"].score,
    )  # fmt: skip
    assert bytes(frame(3).rgba) == bytes(found.frame("0003.png").rgba)
    part = part_of(found)
    assert ("main", {}, 7, 2, 0, "main") == (part.stage, part.behind, part.lease, part.rounds, part.missing, part.where)


def test_where_frame_that_decided_an_act_is_gone_it_begins_behind_that_act(tmp_path: Path):
    trace = walked(1, "1", 2, 3, "2", 4, 5, "3", 6)
    found = made(tmp_path, AvailableFrames([shot(1), shot(2), shot(5), shot(6)], trace))
    part = part_of(found)
    assert ({"1": Recalled.DONE, "2": Recalled.DONE}, "main, behind step 2") == (part.behind, part.where)
    assert (1, ["main 3"]) == (part.missing, [one.step for one in found.acts()])
    assert 2 == sum(isinstance(one, RecordedLook) for one in found.moments), (
        "of the look that decided nothing no frame is left"
    )


def test_with_nothing_to_begin_at_it_says_why(tmp_path: Path):
    trace = walked(1, "1", 2, 3)
    trace.last = None
    found = made(tmp_path, AvailableFrames([shot(1), shot(2)], trace))
    assert ((), "of what it saw last no frame is left from which a replay could begin") == (
        found.moments,
        part_of(found).refused,
    )


@pytest.mark.parametrize(
    "script",
    [
        pytest.param((1, "n#1.1", 2), id="navigation"),
        pytest.param((1, "call", 2), id="a handler"),
        pytest.param((1, "1", "1", 2), id="an act that was made again"),
    ],
)
def test_behind_some_acts_no_stage_can_be_taken_up(tmp_path: Path, script: tuple[Any, ...]):
    trace = walked(*[one for one in script if one != "call"])
    if "call" in script:
        trace.notes.pop()
        trace.act("call", "1", by="download")
        trace.look(frame(2))
    found = made(tmp_path, AvailableFrames([shot(2)], trace))
    behind = {"1": Recalled.DONE} if script.count("1") == 2 else {}
    assert behind == part_of(found).behind
    assert bool(behind) != bool(part_of(found).refused), "only behind the last of two it can"


def test_what_an_earlier_try_did_is_behind_and_what_it_read_with_it(tmp_path: Path):
    trace = walked()
    trace.recalled({"1": Recalled.DONE, "2": Recalled.UNKNOWN})
    trace.marked("1", f"17 {CANARY}")
    trace.look(frame(1))
    trace.seen("3", "", frame(1), None)
    trace.recalled({})
    trace.marked("3", "later")
    part = part_of(made(tmp_path, AvailableFrames([], trace)))
    assert {"1": Recalled.DONE, "2": Recalled.UNKNOWN} == part.behind
    assert {"1": "17 ***"} == part.marks


def test_an_act_that_never_was_is_not_shown(tmp_path: Path):
    trace = walked(1, "1", 2)
    trace.act("tap", "2", x=9, y=9)
    trace.forget()
    trace.muted += 1
    trace.forget()
    trace.act("tap", "inside", x=9, y=9)
    trace.look(frame(9))
    trace.tree("<inside/>")
    trace.muted -= 1
    found = made(tmp_path, AvailableFrames([shot(1)], trace))
    assert ["main 1"] == [one.step for one in found.acts()]
    assert 3 == len(found.moments)


def test_what_nobody_knows_any_more_is_not_concluded_from_a_copy(tmp_path: Path):
    trace = walked(1, "1", 2, "2", 3)
    frames = AvailableFrames([shot(1), shot(2), shot(3)], trace)
    trace.searches.append(Search(2.0, "1", "a.png", Match(False, PLACE, 0.1, 0.0)))
    found = made(tmp_path, frames)
    assert [1, 0] == [len(one.searched) for one in found.moments if isinstance(one, RecordedLook) and one.is_copy]
    for _ in range(LOOKS_MAX - 2):
        trace.seen("2", "b.png", frame(3), Match(False, PLACE, 0.1, 0.0))
    part = part_of(made(tmp_path, frames))
    assert "main, behind step 2" == part.where, "the verdicts on what was before went"


def test_a_long_stage_costs_no_more_than_so_many_notes(tmp_path: Path):
    trace = Trace(began_s=0.0)
    for number in range(1, NOTES_MAX + 50):
        trace.act("key", str(number), key="home")
    trace.look(frame(1))
    trace.seen("1", "", frame(1), None)
    assert NOTES_MAX == len(trace.notes)
    found = made(tmp_path, AvailableFrames([], trace))
    part = part_of(found)
    assert len(part.behind) + len(found.acts()) == NOTES_MAX + 49, "each act is either behind or told"
    assert [*part.behind][-1] == str(len(part.behind))


def test_elements_are_kept_up_to_limit_and_it_begins_behind_what_was_dropped(tmp_path: Path):
    trace = Trace(began_s=0.0)
    for number in range(1, 5):
        trace.look(frame(number))
        trace.seen("1", "", frame(number), None)
        trace.tree(f"<{CANARY}{number}>" + "x" * (TREES_CHARS // 3))
        trace.act("key", str(number), key="home")
    held = [one.dump for one in trace.notes if isinstance(one, TreeNote) and one.dump]
    assert sum(map(len, held)) <= TREES_CHARS
    found = made(tmp_path, AvailableFrames([shot(n) for n in range(1, 5)], trace))
    assert "main, behind step 2" == part_of(found).where
    trees = [one for one in found.moments if isinstance(one, RecordedTree)]
    assert ["<***3>x", "<***4>x"] == [found.tree(one.file)[:7] for one in trees]


def test_a_recording_is_no_larger_than_so_many_bytes_of_frames(tmp_path: Path):
    script: list[Any] = []
    for number in range(1, 9):
        script += [number, str(number)]
    trace = walked(*script, 9)
    found = made(tmp_path, AvailableFrames([shot(n, size=FRAMES_BYTES // 4) for n in range(1, 10)], trace))
    assert "main, behind step 6" == part_of(found).where
    assert (tmp_path / f"1-0-1-main{recording.PACKED}").stat().st_size < FRAMES_BYTES


def test_no_secret_stands_in_it_however_it_got_there(tmp_path: Path):
    trace = walked(1)
    trace.seen("1", f"text {CANARY}", frame(1), Match(False, PLACE, 0.1, 0.0, text=f"it says {CANARY}"))
    trace.act("type", "1", text=CANARY)
    trace.tree(f"<node text='{CANARY}'/>")
    trace.act("tap", "2", deep=[{"a": CANARY}])
    trace.look(frame(2))
    trace.seen("1", "", frame(2), Match(False, PLACE, 0.0, 0.0))
    made(tmp_path, AvailableFrames([shot(1), shot(2)], trace))
    content = (tmp_path / f"1-0-1-main{recording.PACKED}").read_bytes()
    assert b"it says ***" in content, "nothing is compressed: what is searched is what is there"
    assert CANARY.encode() not in content
    assert json.dumps(CANARY)[1:-1].encode() not in content
    assert {"a": ["***", 7, True]} == mask_texts({"a": [CANARY, 7, True]}, masked)
    part = part_of(made(tmp_path, AvailableFrames([], trace), refused=f"because {CANARY}"))
    assert "because ***" == part.refused


@pytest.mark.parametrize(
    ("error", "handler", "expected"),
    [
        (EmulatorLostError("gone", to="e1"), "", "because of its emulator, which a replay does not have: e1: gone"),
        (StuckError("no"), "download", "its handler download did not come to its end"),
        (NeedsPersonError("did it?", Asks("4", about=About.EFFECT)), "", "nobody could tell whether an act"),
        (NeedsPersonError("which?", Asks("4", ("a",), about=About.TASK)), "", ""),
        (StuckError("no"), "", ""),
        (None, "download", "its handler download did not come to its end"),
    ],
)  # fmt: skip
def test_an_end_that_cannot_come_about_again_is_refused(error: DroidherdError | None, handler: str, expected: str):
    found = refusal(Trace(handler=handler), error)
    assert (expected in found, bool(expected)) == (True, bool(found))


def test_of_a_tasks_recordings_the_last_one_is_read(tmp_path: Path):
    for name in ("1-0-1-z", "2-10-1-a", "2-9-3-b", "2-10-2-c"):
        writer = PackedRecordingWriter()
        writer.begin(name, {})
        (tmp_path / f"{name}{recording.PACKED}").write_bytes(writer.content())
    assert "2-10-2-c" == read(tmp_path).flow
    assert "2-9-3-b" == read(tmp_path / f"2-9-3-b{recording.PACKED}").flow


def test_a_packed_recording_from_somebody_else_is_judged_before_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = tmp_path / f"1-0-1-a{recording.PACKED}"
    place.write_bytes(b"no")
    with pytest.raises(BadParametersError, match="is no recorded run"):
        read(place)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("other.txt", "x" * 5_000)
    place.write_bytes(content.getvalue())
    with pytest.raises(BadParametersError, match=f"there is no {FILE} in it|is no recorded run"):
        read(place)
    monkeypatch.setattr(recording, "PACKED_MAX", 4_000)
    with pytest.raises(BadParametersError, match="holds more than 4000 bytes"):
        read(place)
