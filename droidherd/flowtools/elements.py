"""What an emulator itself says is on its screen, as far as cutting and naming images wants it. Pure."""

from dataclasses import dataclass

from droidherd.domain.ports import Box
from droidherd.vision.tree import parse, words_of


@dataclass(frozen=True, slots=True)
class Element:
    """Something on the screen."""

    box: Box
    text: str = ""
    id: str = ""
    editable: bool = False


def elements(dump: str) -> tuple[Element, ...]:
    """Those that take up room, in the order of the dump."""
    return tuple(
        Element(
            node.box, words_of(node), node.id.rpartition("/")[2], node.attributes.get("class", "").endswith("EditText")
        )
        for node in parse(dump)
        if node.box.width > 0 and node.box.height > 0
    )
