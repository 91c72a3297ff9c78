"""`Facts` by shell questions."""

from collections.abc import Callable

from droidherd.adb import parse
from droidherd.domain.errors import CommandFailedError
from droidherd.domain.facts import InstalledPackage, Screen, Storage, Window
from droidherd.domain.things import OWN_FOLDER
from droidherd.emulator.eyes import FOCUS_LINE

PACKAGES = "pm list packages -f --show-versioncode"
PLAIN_PACKAGES = "pm list packages -f"
"""Before Android 8 the versions are not told."""
TREE = f"{OWN_FOLDER}/tree.xml"
DUMP = f"mkdir -p {OWN_FOLDER} && uiautomator dump {TREE} >/dev/null && cat {TREE}"


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
        nodes = parse.nodes(self._ask(DUMP))
        return frozenset(node[key] for node in nodes for key in ("text", "resource-id") if node.get(key))
