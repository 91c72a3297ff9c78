"""Which adb program we run."""

import importlib.util
import os
from pathlib import Path


def bundled_adb() -> str:
    """The adb inside the adbutils wheel, which we tested; another one on PATH only where the wheel has none.

    `adbutils.adb_path()` prefers PATH, where an old system adb ignores what keeps our server quiet.
    """
    found = importlib.util.find_spec("adbutils")  # without running it: it brings imaging along, and workers start often
    folder = Path(found.origin).parent if found and found.origin else Path()
    inside = folder / "binaries" / ("adb.exe" if os.name == "nt" else "adb")
    if inside.is_file():
        return str(inside)
    import adbutils

    return str(adbutils.adb_path())
