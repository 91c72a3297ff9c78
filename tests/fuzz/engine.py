"""One parser under atheris; started by `driver.run_atheris`."""

import contextlib
import importlib
import sys
from typing import Any

atheris: Any = importlib.import_module("atheris")

with atheris.instrument_imports(include=["droidherd", "zipfile"]):
    from tests.fuzz.parsers import parser_of


def main() -> None:
    """Never returns: the engine ends the process."""
    parser = parser_of(sys.argv[1])

    def one(data: bytes) -> None:
        with contextlib.suppress(*parser.refuses):
            parser.read(data)

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
