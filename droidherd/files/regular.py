"""Opens files whose names come from elsewhere: a flow, a reference, an option, a setting.

Only regular files are opened. A pipe would block its reader for ever, and `/dev/zero` never ends.
"""

import os
import stat
from errno import EFBIG, EINVAL
from io import BufferedReader
from pathlib import Path

TEXT_BYTES_MAX = 1 << 20
"""Of a small file that a person writes: keys, settings, a list."""
IMAGE_BYTES_MAX = 8 * 1024 * 1024
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))


class NotRegularError(OSError):
    """It is a folder, a pipe, a socket or a device."""


def open_regular(path: Path, bytes_max: int | None = None) -> BufferedReader:
    """Open a file to read it. Raises OSError, with a reason in `strerror`, for what is no file or too large."""
    _check(path.stat(), path, bytes_max)  # before it is opened: to open a device may have an effect
    file = os.fdopen(os.open(path, _FLAGS), "rb")
    try:
        _check(os.fstat(file.fileno()), path, bytes_max)
    except OSError:
        file.close()
        raise
    return file


def read_regular(path: Path, bytes_max: int) -> bytes:
    """The whole file. Raises OSError like `open_regular`, also for a file that grows meanwhile."""
    with open_regular(path, bytes_max) as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise _too_large(path, bytes_max)
    return content


def file_problem(path: Path, folder: Path, bytes_max: int) -> str:
    """Why a file is not one that `folder` may bring along, without opening it; empty: it is one."""
    try:
        if not path.resolve(strict=True).is_relative_to(folder.resolve()):
            return "it leads outside its folder"
        _check(path.stat(), path, bytes_max)
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself, before Python 3.13
        return (error.strerror if isinstance(error, OSError) else "") or "it cannot be read"
    return ""


def _check(known: os.stat_result, path: Path, bytes_max: int | None) -> None:
    if not stat.S_ISREG(known.st_mode):
        raise NotRegularError(EINVAL, "it is not a regular file", str(path))
    if bytes_max is not None and known.st_size > bytes_max:
        raise _too_large(path, bytes_max)


def _too_large(path: Path, bytes_max: int) -> OSError:
    return OSError(EFBIG, f"it has more than {bytes_max} bytes", str(path))
