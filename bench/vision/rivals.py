"""Others who locate pictures, asked the same questions: OpenCV's own search, and Airtest."""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import cv2
import numpy as np

from bench.vision.cases import Case
from droidherd.domain.ports import Box, Frame
from droidherd.vision.match import find
from droidherd.vision.template import Template

CACHE = Path(__file__).parents[1] / ".cache"
AIRTEST = ("airtest==1.4.3", "numpy<2", "setuptools<81")
"""With what Airtest 1.4.3 asks for itself: OpenCV 4.6, which needs numpy 1."""
BUILD_LIMIT_S = 900.0
SIDE = Path(__file__).with_name("airtest_side.py")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one of them said."""

    score: float
    centre: tuple[float, float]
    time_ms: float
    found: bool = False


class Ours:
    """`vision.match.find`, from a frame as it comes from an emulator. The template was made ready before."""

    def __init__(self, case: Case) -> None:
        """Untimed, like loading the template: a flow does it once and seeks it a thousand times."""
        height, width = case.frame.shape[:2]
        self._frame = Frame(width, height, case.frame.tobytes(), 0.0)
        self._template = Template("template.png", case.template, case.recorded, scales=case.scales).at(width, height)
        self._hint = None if case.hint is None else Box(*case.hint)
        self.ask(hinted=False)
        self.ask(hinted=True)

    def ask(self, *, hinted: bool) -> Answer:
        began_s = time.perf_counter()
        hint = self._hint if hinted else None
        match = find(self._frame, self._template, hint=hint)
        time_ms = (time.perf_counter() - began_s) * 1000
        return Answer(match.score, match.box.centre(), time_ms, match.found)


class PlainOpenCv:
    """The whole frame in grey, `TM_CCOEFF_NORMED`, the best place. The grey template was made before."""

    def __init__(self, case: Case) -> None:
        """A template from another resolution is scaled, as whoever knows that would do."""
        height, width = case.frame.shape[:2]
        template = Template("template.png", case.template, case.recorded).at(width, height).rgb
        self._frame = case.frame
        self._grey = cv2.cvtColor(template, cv2.COLOR_RGB2GRAY)

    def ask(self) -> Answer:
        began_s = time.perf_counter()
        grey = cv2.cvtColor(self._frame, cv2.COLOR_RGBA2GRAY)
        scores = cv2.matchTemplate(grey, self._grey, cv2.TM_CCOEFF_NORMED)
        _, score, _, (x, y) = cv2.minMaxLoc(scores)
        time_ms = (time.perf_counter() - began_s) * 1000
        centre = (x + self._grey.shape[1] / 2, y + self._grey.shape[0] / 2)
        return Answer(float(score), centre, time_ms)


class Airtest:
    """Airtest as it comes, in a process and an environment of its own: `Template(file).match_in(screen)`."""

    def __init__(self, folder: Path) -> None:
        """RuntimeError when the environment cannot be built."""
        self._folder = folder
        self._process = subprocess.Popen(
            [airtest_python(), str(SIDE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        stdin, stdout = self._pipes()
        stdin.close()
        self._process.wait(60.0)
        stdout.close()

    def ask(self, case: Case) -> Answer:
        screen, template = self._folder / "screen.npy", self._folder / "template.png"
        np.save(screen, np.asarray(cv2.cvtColor(case.frame, cv2.COLOR_RGBA2BGR), np.uint8))
        cv2.imwrite(str(template), cv2.cvtColor(case.template, cv2.COLOR_RGB2BGR))
        question = {"screen": str(screen), "template": str(template), "resolution": case.recorded or ()}
        stdin, stdout = self._pipes()
        stdin.write(json.dumps(question) + "\n")
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"Airtest ended at case {case.number}")
        words = json.loads(line)
        centre = tuple(words["centre"]) if words["centre"] else (-1.0, -1.0)
        return Answer(0.0, (centre[0], centre[1]), words["time_ms"], words["centre"] is not None)

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("Airtest was started without pipes")
        return stdin, stdout


def airtest_python() -> str:
    """The Python of Airtest's environment, which is built on first use and kept."""
    home = CACHE / "airtest"
    program = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    stamp = home / "built"
    wanted = " ".join(AIRTEST)
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return str(program)
    _build([sys.executable, "-m", "venv", "--clear", str(home)])
    _build([str(program), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *AIRTEST])
    _build([str(program), "-c", "import airtest.core.cv"])
    stamp.write_text(wanted, "utf-8")
    return str(program)


def _build(command: list[str]) -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        done = subprocess.run(command, stdout=output, stderr=output, timeout=BUILD_LIMIT_S, check=False)
        output.seek(0)
        lines = output.read().strip().splitlines()
    if done.returncode:
        raise RuntimeError(f"Airtest's environment could not be built: {lines[-1] if lines else done.returncode}")
