"""The elements of an emulator's screen, as Android itself tells them."""

from droidherd.adb.client import AdbClient
from droidherd.adb.wire import Interrupt
from droidherd.domain.errors import RestlessError
from droidherd.domain.things import OWN_FOLDER
from droidherd.vision.tree import is_tree

TREE_S = 20.0
"""The tool itself waits up to ten seconds for the screen to come to rest."""
FILE = f"{OWN_FOLDER}/tree.xml"
# An old file must not pass for a new one: the tool may fail and return 0 all the same.
LINE = (
    f"mkdir -p {OWN_FOLDER}; rm -f {FILE}; o=$(uiautomator dump {FILE} 2>&1); "
    f'if [ -s {FILE} ]; then cat {FILE}; else echo "$o" >&2; exit 1; fi'
)
_WHY_MAX = 200


def ask(adb: AdbClient, serial: str, deadline_s: float = TREE_S, interrupt: Interrupt | None = None) -> str:
    """One dump, made after this call began. RestlessError when Android does not make one now."""
    result = adb.shell(serial, LINE, deadline_s, interrupt=interrupt)
    if result.rc == 0 and is_tree(result.text):
        return result.text
    why = " ".join(result.err.decode(errors="replace").split())[:_WHY_MAX]
    raise RestlessError(
        f"the elements of the screen cannot be told: {why or 'the dump is not whole'}",
        to=serial,
        remedy="a screen that keeps moving has none; look for an image",
    )
