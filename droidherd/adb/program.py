"""Which adb program we run."""

import os
from pathlib import Path

import adbutils


def bundled() -> str:
    """The adb inside the adbutils wheel, which we tested; another one on PATH only where the wheel has none.

    `adbutils.adb_path()` prefers PATH, where an old system adb ignores what keeps our server quiet.
    """
    inside = Path(adbutils.__file__).parent / "binaries" / ("adb.exe" if os.name == "nt" else "adb")
    return str(inside) if inside.is_file() else str(adbutils.adb_path())
