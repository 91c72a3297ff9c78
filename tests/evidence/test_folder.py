"""The page a failed stage leaves: whole, self-contained, masked."""

import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typing_extensions import override

from droidherd.domain.errors import (
    EmulatorLostError,
    FencedError,
    InvalidFrameError,
    LateError,
    ScreenNotReachedError,
    StuckError,
)
from droidherd.domain.ports import Box, Frame, Match
from droidherd.evidence import folder
from droidherd.evidence.frame_buffer import BufferedFrame
from droidherd.evidence.page import Evidence, EvidenceFrame, page
from droidherd.evidence.trace import FRAMES_BYTES, LOOKS_MAX, ROWS_MAX, Search, SearchRow, Trace

CANARY = 'pass"word<1>'
VOID = {"meta", "img", "br"}


class Reader(HTMLParser):
    """What a page holds; fails where its tags do not fit into one another."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert [] == self.open

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    @override
    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop(), f"</{tag}> closes nothing"

    @override
    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def frame(at_s: float) -> Frame:
    pixels = np.full((72, 128, 4), 255, np.uint8)
    pixels[20:40, 30:60, :3] = 40
    return Frame(128, 72, pixels.tobytes(), at_s)


def near(found: bool = False, **more: object) -> Match:
    return Match(found, Box(30, 20, 30, 20), 0.81234, 0.412, **more)  # pyright: ignore[reportArgumentType]


def evidence(**changes: object) -> Evidence:
    searched = (
        Search(5.0, "2.1", "image gift.png", near(differs=Box(35, 22, 4, 5), runner_up_box=Box(80, 10, 30, 20))),
        Search(5.0, "2.1", f"text {CANARY}", near(text=f"it says {CANARY}")),
    )
    shown = EvidenceFrame(1_000.5, 128, 72, b"\xff\xd8\xff one", searched)
    fields: dict[str, object] = {
        "title": "task-1: StuckError",
        "facts": (("task", "task-1"), ("account", ""), ("emulator", "virtual-1")),
        "error": f"step 2.1: nothing moved, typed {CANARY}",
        "remedy": "look here",
        "step": "2.1",
        "annotated": shown,
        "templates": {"gift.png": b"\x89PNG template"},
        "pictures": (EvidenceFrame(999.0, 128, 72, b"\xff\xd8\xff two"), shown),
        "rows": (SearchRow(searched[0], 1.0, 40), SearchRow(searched[1], 5.0)),
        "offset_s": 995.5,
        "log": ("stage begins", f"typed {CANARY} <b>bold</b>"),
        "app_log": f"I Herd: {CANARY} & more\n",
        **changes,
    }
    return Evidence(**fields)  # pyright: ignore[reportArgumentType]


def masked(text: str) -> str:
    return text.replace(CANARY, "***")


def test_the_page_shows_what_a_terminal_would_obey():
    written = page(evidence(app_log="I Herd: \x1b[31mred\x07\n", error="typed \x9b2J \u202egnp"), masked)
    assert [] == [char for char in "\x1b\x07\x9b\u202e" if char in written]
    assert [] == [text for text in (r"\x1b[31mred\x07", r"typed \x9b2J \u202egnp") if text not in written]


def test_the_page_is_whole_and_says_what_was_searched_and_why_it_failed():
    read = Reader(page(evidence(), masked))
    for phrase in (
        "task-1: StuckError", "nothing moved", "look here", "2.1", "virtual-1", "image gift.png", "not found",
        "score 0.812 at 30,20 (30x20)", "runner-up 0.412 at 80,10 (30x20)", "differs at 35,22 (4x5)",
        "The last 2 frames", "1970-01-01 00:16:40.500 UTC", "stage begins", "I Herd:",
    ):  # fmt: skip
        assert phrase in read.text, phrase
    assert "account" not in read.text, "what is empty is left out"


def test_the_places_are_drawn_on_the_frame():
    read = Reader(page(evidence(), masked))
    boxes = {(box["class"], box["x"], box["y"]) for box in read.all("rect")}
    assert {("best", "30", "20"), ("other", "80", "10"), ("differs", "35", "22")} == boxes
    found = evidence(annotated=EvidenceFrame(1.0, 9, 9, b"j", (Search(1.0, "1", "home", near(found=True)),)))
    assert "found" in {box["class"] for box in Reader(page(found, masked)).all("rect")}


def test_each_place_on_the_frame_says_what_was_searched_and_how_good_it_is():
    read = Reader(page(evidence(), masked))
    labels = [(label["class"], label["x"], label["y"]) for label in read.all("text")]
    assert [("best", "30", "19"), ("best", "30", "19")] == labels
    assert "image gift.png 0.81" in read.text
    top = Search(1.0, "1", "home", Match(True, Box(4, 0, 20, 10), 1.0, 0.0))
    whole = Search(1.0, "1", "colour", Match(False, Box(0, 0, 128, 72), 0.0, 0.0))
    labels = Reader(page(evidence(annotated=EvidenceFrame(1.0, 128, 72, b"j", (top, whole))), masked)).all("text")
    assert [("found", "4", "12")] == [(label["class"], label["x"], label["y"]) for label in labels]


def test_what_is_nowhere_has_no_close_up_and_is_reported_as_missing():
    gone = Search(1.0, "1", "element login", Match(False, Box(0, 0, 0, 0), 0.0, 0.0))
    read = Reader(page(evidence(annotated=EvidenceFrame(1.0, 128, 72, b"j", (gone,)), pictures=()), masked))
    assert 1 == len(read.all("svg"))
    assert "step 1: element loginnowhere to be seen" in read.text


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing():
    text = page(evidence(), masked)
    read = Reader(text)
    links = [value for _, attributes in read.tags for name, value in attributes.items() if name in {"src", "href"}]
    assert links
    assert all(link.startswith(("data:image/", "#frame")) for link in links)
    assert not {"script", "link", "iframe", "form", "object"} & {tag for tag, _ in read.tags}
    assert not any(name.startswith("on") for _, attributes in read.tags for name in attributes)
    assert "default-src 'none'" in next(m["content"] for m in read.all("meta") if "http-equiv" in m)


def test_no_secret_stands_on_the_page_however_it_is_written():
    text = page(evidence(title=f"x {CANARY}", remedy=CANARY, step=CANARY, facts=((CANARY, CANARY),)), masked)
    for spelling in (CANARY, "pass&quot;word", "word&lt;1&gt;"):
        assert spelling not in text
    assert "***" in text
    assert "&lt;b&gt;bold&lt;/b&gt;" in text, "what is noted is text, never a tag"


def test_a_stage_that_saw_nothing_has_a_page_too():
    empty = evidence(annotated=None, templates={}, pictures=(), rows=(), log=(), app_log="")
    assert "ended before it saw a frame" in Reader(page(empty, masked)).text


# --- what is collected ---------------------------------------------------------------------------------------


def test_a_trace_keeps_the_searched_frame_and_only_so_many_looks():
    trace = Trace()
    trace.seen("1", "", frame(1.0), None)
    assert trace.last is not None
    for number in range(2 * LOOKS_MAX):
        trace.seen(f"{number}", "x" * 500, frame(float(number)), near())
    trace.seen("99", "", frame(999.0), None)
    assert (LOOKS_MAX, "99") == (len(trace.searches), trace.path)
    assert 2 * LOOKS_MAX - 1 == trace.last.taken_at_s
    shown = folder.annotate(trace, 100.0)
    assert shown is not None
    assert (219.0, 1, b"\xff\xd8\xff") == (shown.at, len(shown.searches), shown.content[:3])
    assert 500 == len(shown.searches[0].what), "whole: what masks a secret must find all of it"


def test_repeated_searches_with_the_same_outcome_are_one_row():
    trace = Trace()
    trace.seen("1", "start.png", frame(0.5), near(found=True))
    for number in range(2 * ROWS_MAX):
        at_s = 1.0 + number
        trace.seen("2", "popup.png", frame(at_s), near())
        trace.seen("2", "gift.png", frame(at_s), near(text=str(number)))
    assert [("start.png", 0.5, 0.5, 1), ("popup.png", 1.0, 120.0, 120), ("gift.png", 1.0, 120.0, 120)] == rows(trace)
    assert "119" == trace.rows[-1].last.match.text


def test_another_outcome_step_or_a_look_in_between_begins_another_row():
    trace = Trace()
    for at_s, step, what, found in (
        (1.0, "1", "a", False), (2.0, "1", "a", True), (3.0, "1", "a", False), (4.0, "2", "a", False),
        (5.0, "2", "b", False), (6.0, "2", "a", False), (6.0, "2", "a", False),
    ):  # fmt: skip
        trace.seen(step, what, frame(at_s), near(found=found))
    assert [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] == [since for _, since, _, _ in rows(trace)]
    assert {1} == {looks for _, _, _, looks in rows(trace)}


def test_a_row_says_how_often_from_when_and_until_when():
    text = page(evidence(), masked)
    assert "1970-01-01 00:16:36.500 UTC<br>to 1970-01-01 00:16:40.500 UTC" in text
    assert "<td>40</td>" in text


def rows(trace: Trace) -> list[tuple[str, float, float, int]]:
    return [(row.last.what, row.since_s, row.last.at_s, row.looks) for row in trace.rows]


def test_last_pictures_keep_their_limit_and_know_what_was_searched_on_them():
    trace = Trace()
    trace.seen("3", "home", frame(2.5), near())
    big = b"j" * (FRAMES_BYTES // 3)
    shots = tuple(BufferedFrame(float(at), at + 0.9, 128, 72, big, "task") for at in range(1, 6))
    kept = folder.frames_of(shots, trace, 0.0)
    assert [3.0, 4.0, 5.0] == [one.at for one in kept]
    assert [1] == [len(one.searches) for one in folder.frames_of(shots[1:2], trace, 0.0)]


def test_the_images_of_the_flow_are_shown_beside_what_was_found(tmp_path: Path):
    (tmp_path / "gift.png").write_bytes(b"png")
    (tmp_path / "huge.png").write_bytes(b"p" * (folder.TEMPLATE_BYTES + 1))
    words = ("image gift.png", "any of gift.png, missing.png", "huge.png", "text 'gift'")
    searched = tuple(Search(1.0, "1", what, near()) for what in words)
    assert {"gift.png": b"png"} == folder.templates(searched, lambda name: (tmp_path / name).read_bytes())


@pytest.mark.parametrize(
    ("error", "kept", "asked"),
    [
        (StuckError("x"), True, True),
        (ScreenNotReachedError("x"), True, True),
        (InvalidFrameError("x"), True, True),
        (EmulatorLostError("x"), True, False),
        (FencedError("x"), False, False),
        (LateError("x"), False, False),
    ],
)
def test_what_says_nothing_of_the_screen_leaves_nothing(
    error: StuckError | ScreenNotReachedError | InvalidFrameError | EmulatorLostError, kept: bool, asked: bool
):
    assert (kept, asked) == (folder.worth_keeping(error), folder.worth_asking(error))


def test_the_step_is_the_one_the_error_names_else_the_last_one_that_looked():
    trace = Trace(path="7")
    assert "4.1" == folder.step_of(StuckError("x", to="step 4.1"), trace)
    assert "7" == folder.step_of(StuckError("x", to=f"virtual-{time.monotonic()}"), trace)
