"""What an emulator itself says is on its screen, as far as cutting and naming images wants it. Pure."""

import html
import re
from dataclasses import dataclass

from droidherd.domain.ports import Box
from droidherd.domain.things import OWN_FOLDER

_FILE = f"{OWN_FOLDER}/elements.xml"
DUMP = f"mkdir -p {OWN_FOLDER} && uiautomator dump {_FILE} >/dev/null && cat {_FILE}"
ELEMENTS_MAX = 2_000
_NODE = re.compile(r"<node\b([^<>]*)>")
_ATTRIBUTE = re.compile(r'([\w:.-]+)="([^"]*)"')
_BOUNDS = re.compile(r"\[(\d{1,5}),(\d{1,5})\]\[(\d{1,5}),(\d{1,5})\]")


@dataclass(frozen=True, slots=True)
class Element:
    """Something on the screen."""

    box: Box
    text: str = ""
    id: str = ""
    editable: bool = False


def elements(dump: str) -> tuple[Element, ...]:
    """Those that take up room, in the order of the dump."""
    found: list[Element] = []
    for node in _NODE.finditer(dump):
        said = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(node[1])}
        corners = _BOUNDS.fullmatch(said.get("bounds", ""))
        if corners is None or len(found) == ELEMENTS_MAX:
            continue
        left, top, right, bottom = (int(corner) for corner in corners.groups())
        if left < right and top < bottom:
            text = said.get("text") or said.get("content-desc") or ""
            editable = said.get("class", "").endswith("EditText")
            box = Box(left, top, right - left, bottom - top)
            found.append(Element(box, text, said.get("resource-id", "").rpartition("/")[2], editable))
    return tuple(found)
