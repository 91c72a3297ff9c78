"""Screens and routes as a picture."""

import json
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from droidherd.flows.catalogue import GALLERY, Catalogue
from droidherd.flows.loading.document import parse_document, read_document
from droidherd.flowtools.drawing import draw, layers, plot, with_used

CHARTED = b"""
flow: mapped
screens:
  launcher: {image: icon.png}
  home: {all: [{gone: busy.png}, {image: home.png}]}
  list: {text: "Rewards <all>"}
routes:
  - {from: launcher, to: home, do: [{start_app: {}}]}
  - {from: home, to: list, do: [{tap: {image: list.png}}]}
  - {from: list, to: home, do: [{key: {name: back}}]}
  - {from: any, to: launcher, do: [{key: {name: home}}]}
  - {from: home, to: nowhere, do: []}
interrupts:
  - {when: {image: close.png}, do: [{tap: {image: close.png}}]}
stages:
  - stage: collect
    at: list
    steps:
      - repeat:
          while: {image: claim.png}
          at_most: 3
          do: [{tap: {image: claim.png, then: {image: ok.png, within: 1s}}}]
      - wait: {any: [{image: a.png}, {none: [{text: Busy}, {ui: {id: x, enabled: true}}]}], within: 1s}
      - when: {sees: {image: ok.png}, do: [{key: {name: back}}], else: [{key: {name: home}}]}
    undo: [{key: {name: menu}}]
lost: {do: [{start_app: {}}]}
cleanup: [{stop_app: {}}]
"""


def svg(content: bytes, images: dict[str, bytes] | None = None) -> ET.Element:
    return ET.fromstring(draw(plot(parse_document(content).data), images or {}))  # noqa: S314 - our own


def words(picture: ET.Element) -> str:
    return "\n".join(text for one in picture.iter() if one.tag.endswith("text") for text in one.itertext())


def test_the_screens_of_used_flows_are_drawn_too(tmp_path: Path):
    used = "stages: [{stage: a, at: hall, steps: [{key: {name: home}}]}]\n"
    gate = "screens: {hall: {ui: {id: hall}}}\nroutes: [{from: any, to: hall, do: [{key: {name: menu}}]}]\n"
    outer = "screens: {entry: {ui: {id: entry}}}\nstages: [{stage: b, steps: [{use: {flow: inner}}, {goto: hall}]}]\n"
    for name, text in (("inner", gate + used), ("outer", outer)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "flow.yaml").write_text(f"flow: {name}\n{text}")
    loaded = Catalogue([tmp_path]).flow("outer")
    drawn = plot(with_used(read_document(tmp_path / "outer" / "flow.yaml").data, loaded))
    assert {"entry", "hall"} == set(drawn.screens)
    assert ["any"] == [route.start for route in drawn.routes]


def test_a_picture_shows_every_screen_route_stage_and_interrupt():
    picture = svg(CHARTED, {"icon.png": b"\x89PNG"})
    message = words(picture)
    for expected in ("launcher", "home", "list", "tap list.png", "any: key home", "stage collect  at list"):
        assert expected in message
    assert "whenever it appears:" in message
    assert "repeat while claim.png, at_most 3\n    tap claim.png → ok.png" in message
    assert "close.png: tap close.png" in message
    assert "wait any (a.png, none (Busy, ui id x, enabled true))" in message
    assert "when sees ok.png\n    key back\nelse\n    key home\ntaken back by\n    key menu" in message
    assert "when lost:\nstart_app\nat the end, however it ends:\nstop_app" in message
    paths = [one for one in picture.iter() if one.tag.endswith("path") and one.get("class") == "route"]
    assert 4 == len(paths)
    (image,) = [one for one in picture.iter() if one.tag.endswith("image")]
    assert "data:image/png;base64,iVBORw==" == image.get("href")


def test_screens_never_lie_over_one_another_and_all_is_inside_the_picture():
    picture = svg(CHARTED)
    boxes = [one for one in picture.iter() if one.get("class") in {"screen", "stage"}]
    spans = sorted(tuple(float(one.get(name, "")) for name in ("x", "y", "width", "height")) for one in boxes)
    for one, other in pairwise(spans):
        apart = one[0] + one[2] <= other[0] or one[1] + one[3] <= other[1] or other[1] + other[3] <= one[1]
        assert apart, (one, other)
    assert all(x + w <= float(picture.get("width", "")) for x, _, w, _ in spans)
    assert all(y + h <= float(picture.get("height", "")) for _, y, _, h in spans)


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in GALLERY.glob("*/flow.yaml")), ids=lambda one: one.name
)
def test_every_flow_of_the_gallery_can_be_drawn(folder: Path):
    drawn = plot(read_document(folder / "flow.yaml").data)
    assert folder.name in words(ET.fromstring(draw(drawn, {})))  # noqa: S314 - our own


@pytest.mark.parametrize(
    "content", [b"[]", b"flow: 7\nstages: 3\nscreens: [1]\nroutes: {a: 1}", b"stages: [{steps: [x]}]"]
)
def test_what_is_not_as_it_should_be_is_left_out(content: bytes):
    assert "svg" in svg(content).tag


def test_hostile_names_are_text_only():
    message = draw(plot(parse_document(json.dumps({"flow": "<script>", "stages": []}).encode()).data), {})
    assert "<script>" not in message
    assert re.search(r"&lt;script&gt;", message)


def test_a_row_holds_those_that_are_equally_far():
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "a"), ("d", "zzz")]
    assert [["a"], ["b", "c"], ["d"]] == layers(["a", "b", "c", "d"], edges)
    assert [["x", "y"]] == layers(["x", "y"], [])
    assert [] == layers([], [])
    assert [["a"], ["b"]] == layers(["a", "b"], [("a", "b"), ("b", "a"), ("a", "a")])
