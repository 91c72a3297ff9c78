"""A person in front of the recorder's page: reads words on the screen and taps what they stand on."""

from types import TracebackType
from typing import Any, Self

import httpx

from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.control import VirtualControl
from droidherd.virtual.layout import labels, regions


class Person:
    def __init__(self, address: str, control: VirtualControl, emulator: str) -> None:
        self.address = address
        self._control = control
        self._emulator = emulator
        self._http = httpx.Client(trust_env=False, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def ask(self, word: str, **body: Any) -> dict[str, Any]:
        answer = self._http.post(f"{self.address}{word}", json=body)
        assert 200 == answer.status_code, answer.text
        return answer.json()

    def taps(self, words: str, across: int = 0) -> None:
        """`across`: so many pixels beside the middle."""
        x, y = self._place(words)
        self.ask("act", kind="tap", x=x + across, y=y)

    def types(self, text: str, **how: str) -> None:
        self.ask("act", kind="type", text=text, **how)

    def _place(self, words: str) -> tuple[int, int]:
        shown = self._control.state(self._emulator)["app"]
        state = HerdState(scene=Scene(shown["scene"]), running=True, popup=shown["popup"], signed_in=shown["signed_in"])
        names = {name for name, label in labels(state).items() if words in (label, name)}
        (name,) = sorted(names)[:1]
        return regions(state)[name].centre()
