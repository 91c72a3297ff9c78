"""`Facts` by shell questions."""

from collections.abc import Callable

from droidherd.adb import parse
from droidherd.domain.errors import CommandFailedError
from droidherd.domain.facts import InstalledPackage, Screen, Storage, Window
from droidherd.emulator.eyes import FOCUS_LINE
from droidherd.emulator.tree import LINE
from droidherd.vision import tree

PACKAGES = "pm list packages -f --show-versioncode"
PLAIN_PACKAGES = "pm list packages -f"
"""Before Android 8 the versions are not told."""


class EmulatorFacts:
    """Asks through `ask`, which raises CommandFailedError when the emulator says no."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        """`ask` carries one question to the emulator's shell."""
        self._ask = ask

    def properties(self) -> dict[str, str]:
        return parse.properties(self._ask("getprop"))

    def packages(self) -> tuple[InstalledPackage, ...]:
        try:
            return parse.installed(self._ask(PACKAGES))
        except CommandFailedError:
            return parse.installed(self._ask(PLAIN_PACKAGES))

    def storage(self) -> Storage | None:
        return parse.storage(self._ask("df -k /data"))

    def screen(self) -> Screen | None:
        size, density = parse.window_size(self._ask("wm size")), parse.density(self._ask("wm density"))
        return Screen(f"{size.width}x{size.height}", density) if size and density else None

    def window(self) -> Window | None:
        found = parse.focus(self._ask(FOCUS_LINE))
        return Window(found.window, found.not_responding) if found else None

    def labels(self) -> frozenset[str]:
        nodes = tree.parse(self._ask(LINE))
        return frozenset(word for node in nodes for word in (node.text, node.id) if word)
