"""Recognises flows of other tools (Maestro, MaaFramework), and names our word for theirs."""

import re
from types import MappingProxyType

MAESTRO = MappingProxyType({
    "launchApp": "start_app: {}",
    "stopApp": "stop_app: {}",
    "killApp": "stop_app: {}",
    "clearState": "clear_app: {}",
    "tapOn": "tap: {text: OK}, or tap: {ui: {id: ok}}",
    "doubleTapOn": "two tap steps",
    "longPressOn": "tap: {text: OK, hold: 1s}",
    "inputText": "type: {text: hello}",
    "eraseText": "key: {name: del}, in a repeat",
    "assertVisible": "wait: {text: OK}",
    "assertNotVisible": "wait: {gone: {text: OK}}",
    "extendedWaitUntil": "wait: {text: OK, within: 30s}",
    "waitForAnimationToEnd": "wait: {stable: 500ms}",
    "scroll": "swipe: {from: [50, 80], to: [50, 20]}",
    "scrollUntilVisible": "repeat: {at_most: 10, until: {text: OK}, do: [{swipe: {from: [50, 80], to: [50, 20]}}]}",
    "back": "key: {name: back}",
    "pressKey": "key: {name: enter}",
    "hideKeyboard": "key: {name: escape}",
    "takeScreenshot": "screenshot: {name: done}",
    "runFlow": "use: {flow: sign_in}",
    "copyTextFrom": "read: {into: total, ui: {id: total}}",
    "evalScript": "call: {by: NAME}, a handler in Python",
    "runScript": "call: {by: NAME}, a handler in Python",
})  # fmt: skip
"""Maestro's commands, each with the step that does it here."""

_MAESTRO_HEAD = re.compile(r"^(?:appId|url)\s*:", re.MULTILINE)
_MAESTRO_STEP = re.compile(rf"^-\s*({'|'.join(MAESTRO)})\s*(?::|$)", re.MULTILINE)
_MAA = re.compile(r"""["']?(?:recognition|algorithm)["']?\s*:\s*["']?(?:TemplateMatch|FeatureMatch|ColorMatch|"""
                  r"""OcrDetect|OCR|MatchTemplate|JustReturn|DirectHit)\b""")  # fmt: skip
_OURS = re.compile(r"^(?:flow|stages)\s*:", re.MULTILINE)
_PAGE = "docs/flows.md, `Coming from Maestro or MAA`, has all words"


def foreign_flow(content: bytes) -> tuple[int, str, str] | None:
    """The line that shows that another tool's flow was pasted, what it is, and what to write in its place."""
    text = content.decode("utf-8", "replace")
    if _OURS.search(text):
        return None
    step = _MAESTRO_STEP.search(text)
    if found := step or _MAESTRO_HEAD.search(text):
        begin = "begin with `flow: NAME` and `stages:`"
        fix = f"{begin}; `{step[1]}` is `{MAESTRO[step[1]]}`; {_PAGE}" if step else f"{begin}; {_PAGE}"
        return _line(text, found), "is a flow of Maestro", fix
    if found := _MAA.search(text):
        fix = f"begin with `flow: NAME` and `stages:`; a task with a template is a `tap: {{image: ok.png}}`; {_PAGE}"
        return _line(text, found), "is a pipeline of MAA", fix
    return None


def our_word(step: str) -> str:
    """The step that does what this one of another tool does; empty: it is none."""
    return MAESTRO.get(step, "")


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1
