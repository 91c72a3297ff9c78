"""What a flow needs beyond droidherd itself."""

from collections.abc import Iterator
from importlib.util import find_spec

from droidherd.flows.part import Part, Where, parts
from droidherd.flows.reading import Read
from droidherd.flows.targets import Target

OCR_MODULES = ("rapidocr", "onnxruntime")
OCR_MISSING = "words are read off the screen, and nothing is installed here that can read"
OCR_REMEDY = "pip install 'droidherd[ocr]', here and where the workers run"


def reads_words(part: Part) -> Iterator[Where]:
    """Every place that needs the extra `ocr`."""
    for place, one in parts(part):
        if isinstance(one, Target | Read) and one.text is not None:
            yield (*place, "text")


def can_read() -> bool:
    """Whether the extra `ocr` is installed. Does not load it."""
    return all(find_spec(name) is not None for name in OCR_MODULES)
