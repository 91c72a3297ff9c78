"""On what the numbers were taken."""

import os
import platform
from importlib import metadata
from typing import Any

import psutil

from droidherd.cli.local.embedded import find_program, program_version

PACKAGES = ("temporalio", "pydantic", "fastapi", "uvicorn", "adbutils", "numpy", "opencv-python-headless")


def facts() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "memory_mb": psutil.virtual_memory().total >> 20,
        "python": platform.python_version(),
        "temporal_cli": program_version(find_program()),
        "packages": {name: metadata.version(name) for name in PACKAGES},
    }


def load_average() -> list[float]:
    return [round(one, 2) for one in psutil.getloadavg()]
