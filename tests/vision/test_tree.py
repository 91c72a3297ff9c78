"""The elements of a screen: read as several Androids write them, and asked for by what they say."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.domain.ports import Box
from droidherd.flows import patterns
from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.commands.screen import ui_tree
from droidherd.vision.tree import ElementQuery, find, is_tree, parse, words_of

OLD = (  # Android 4.4: attributes in single quotes are rare, `NAF` is not, and there is no rotation in the middle
    "UI hierchary dumped to: /dev/tty\r\n"
    "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation=\"0\">\r\n"
    '<node index="0" text="" class="android.widget.FrameLayout" package="a.b" bounds="[0,0][720,1280]">\r\n'
    '<node NAF="true" index="0" text="OK" resource-id="" class="android.widget.Button" package="a.b" '
    'content-desc="" checkable="false" checked="false" enabled="true" selected="false" bounds="[10,20][110,80]" />'
    "\r\n</node></hierarchy>"
)
NEW = (  # Android 14: warnings of the linker before it, drawing-order and hints in it, the tool's words behind it
    "WARNING: linker: /system/lib64/libfoo.so: unused DT entry\n"
    '<?xml version="1.0" encoding="UTF-8" standalone="yes" ?><hierarchy rotation="1"><node index="0" text="" '
    'resource-id="" class="android.widget.FrameLayout" package="a.b" content-desc="" bounds="[0,0][1280,720]" '
    'drawing-order="0" hint="" display-id="0"><node index="1" text="Tom &amp; &quot;Jerry&quot; &gt; &#10;&#x41;" '
    'resource-id="a.b:id/title" class="android.widget.TextView" package="a.b" bounds="[0,0][200,50]" />'
    '<node index="2" text="" content-desc="a > b" resource-id="a.b:id/box" class="android.widget.CheckBox" '
    "package='a.b' checked=\"true\" enabled='false' bounds=\"[-20,100][80,200]\" /></node></hierarchy>"
    "UI hierchary dumped to: /sdcard/window_dump.xml\n"
)
COMPRESSED = (
    '<hierarchy rotation="0"><node text="Play" class="x.Button" bounds="[0,0][9,9]" />'
    '<node text="Play" class="x.Button" bounds="[20,0][40,20]" selected="true" />'
    '<node text="Gone" class="x.Button" bounds="[5,5][5,5]" /></hierarchy>'
)


def test_an_old_dump_with_crlf_and_the_words_of_the_tool_before_it_is_read():
    frame, button = parse(OLD)
    assert (0, 1) == (frame.depth, button.depth)
    assert ("OK", Box(10, 20, 100, 60)) == (button.text, button.box)


def test_a_new_dump_with_warnings_before_it_is_read_and_entities_are_decoded():
    _, title, box = parse(NEW)
    assert 'Tom & "Jerry" > \nA' == title.text
    assert ("a > b", Box(-20, 100, 100, 100), 1) == (box.description, box.box, box.depth)
    assert (True, False) == (box.is_("checked"), box.is_("enabled"))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (OLD, True),
        (NEW, True),
        (OLD[:-12], False),
        ('<hierarchy rotation="0" />', True),
        ("ERROR: could not get idle state.", False),
        ("", False),
    ],
)
def test_half_a_dump_is_none(text: str, whole: bool):
    assert whole is is_tree(text)


FITS = [
    ({"text": "OK"}, OLD, "OK"),
    ({"class_": "Button"}, OLD, "OK"),
    ({"class_": "android.widget.Button", "package": "a.b"}, OLD, "OK"),
    ({"id": "title"}, NEW, 'Tom & "Jerry" > \nA'),
    ({"id": "a.b:id/box"}, NEW, "a > b"),
    ({"description": "a  >  b"}, NEW, "a > b"),
    ({"text": 'Tom & "Jerry" > A'}, NEW, 'Tom & "Jerry" > \nA'),
    ({"matches": patterns.compile_pattern("^Tom")}, NEW, 'Tom & "Jerry" > \nA'),
    ({"states": (("checked", True), ("enabled", False))}, NEW, "a > b"),
]


@pytest.mark.parametrize(("words", "text", "expected"), FITS)
def test_an_element_is_found_by_its_description(words: dict[str, Any], text: str, expected: str):
    match = find(parse(text), ElementQuery(**words))
    assert (True, 1.0, 0.0, expected) == (match.found, match.score, match.runner_up, match.text)


@pytest.mark.parametrize(
    "words",
    [
        {"text": "ok"},
        {"text": "OK", "class_": "TextView"},
        {"id": "tit"},
        {"states": (("checked", True),), "text": "OK"},
        {"matches": patterns.compile_pattern("^K")},
        {"text": "OK", "index": 1},
    ],
)
def test_an_element_that_differs_in_one_thing_is_not_found(words: dict[str, Any]):
    assert not find(parse(OLD), ElementQuery(**words)).found


def test_of_several_the_index_says_which_and_the_others_are_the_runners_up():
    nodes = parse(COMPRESSED)
    first, last = find(nodes, ElementQuery(text="Play")), find(nodes, ElementQuery(text="Play", index=-1))
    assert (Box(0, 0, 9, 9), 1.0, Box(20, 0, 20, 20)) == (first.box, first.runner_up, first.runner_up_box)
    assert Box(20, 0, 20, 20) == last.box
    assert Box(20, 0, 20, 20) == find(nodes, ElementQuery(text="Play", states=(("selected", True),))).box


def test_what_has_no_size_cannot_be_seen():
    assert not find(parse(COMPRESSED), ElementQuery(text="Gone")).found


def test_an_area_holds_what_has_its_centre_in_it():
    match = find(parse(COMPRESSED), ElementQuery(text="Play"), Box(15, 0, 100, 100))
    assert (Box(20, 0, 20, 20), 0.0) == (match.box, match.runner_up)


def test_an_element_that_is_not_found_comes_with_the_nearest_one():
    match = find(parse(COMPRESSED), ElementQuery(text="Plays"))
    assert (False, "Play") == (match.found, match.text)
    assert 0.5 < match.score < 1


@settings(deadline=None)
@given(st.text(max_size=200), st.sampled_from([OLD, NEW, COMPRESSED]), st.integers(0, 700))
def test_any_text_is_borne(noise: str, text: str, at: int):
    nodes = parse(text[:at] + noise + text[at:])
    assert len(nodes) <= 10
    find(nodes, ElementQuery(text=noise or "x"))


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60))
def test_whatever_an_element_says_comes_back(text: str):
    spelled = "".join(f"&#{ord(char)};" if char in "<>&\"'" else char for char in text)
    (node,) = parse(f'<hierarchy><node text="{spelled}" bounds="[0,0][1,1]" /></hierarchy>')
    assert text == words_of(node)


@pytest.mark.parametrize("field", ["account", "password", ""])
def test_the_virtual_emulator_says_which_text_field_has_the_focus(field: str):
    nodes = parse(ui_tree(HerdState(scene=Scene.SIGN_IN, running=True, field=field), "com.example.herd", (1280, 720)))
    found = find(nodes, ElementQuery(states=(("focused", True),)))
    assert bool(field) == found.found
    assert [field] * bool(field) == [node.id.rpartition("/")[2] for node in nodes if node.is_("focused")]
