"""Every kind of target, on a virtual emulator behind the real adb server."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from droidherd.domain.errors import ScreenNotReachedError
from droidherd.flows.catalogue import GALLERY
from droidherd.flows.model import targets
from droidherd.testing.flows import FlowEmulator, FlowRun, run_flow, virtual_emulator

HEAD = """
flow: looker
app: com.example.herd
recorded: 1280x720
stages:
  - stage: look
    on_ambiguous: repeat
    steps:
      - start_app: {then: {any: [{ui: {id: sign_in}}, {ui: {id: gift}}], within: 20s}}
"""
EVERY = """
      - tap: {ui: {id: account}}
      - type: {text: ann}
      - tap: {ui: {class: EditText, index: -1}}
      - type: {text: secret}
      - tap: {text: Sign in, area: [20, 50, 80, 80], then: {ui: {id: gift}, within: 10s}}
      - wait: {stable: 300ms, within: 10s}
      - wait:
          within: 5s
          all: [{image: gift.png, expect: [15, 26, 37, 63]}, {feature: gift.png}, {gone: {ui: {id: ok}}}]
      - wait: {colour: {is: "#1e6e68", tolerance: 40, share: 5}, within: 5s}
      - read: {text: {area: [0, 0, 60, 20]}, match: "(ann)", into: who}
      - read: {ui: {id: gift}, into: what}
      - when: {var: who, is: ann, do: [{tap: {feature: gift.png, offset: [10, 10], hold: 100ms}}]}
      - when: {sees: {ui: {id: ok}, within: 5s}, do: [{tap: {text: {matches: "^OK$"}, area: [40, 50, 100, 80]}}]}
      - wait: {none: [{image: gift.png}, {ui: {text: OK}}], within: 5s}
"""


@pytest.fixture(scope="module")
def running() -> Generator[FlowEmulator]:
    with virtual_emulator() as one:
        yield one


@pytest.fixture
def emulator(running: FlowEmulator) -> FlowEmulator:
    running.shell("pm clear com.example.herd; input keyevent KEYCODE_HOME; wm size reset")
    return running


def looker(root: Path, steps: str) -> Path:
    folder = root / "looker"
    folder.mkdir()
    (folder / "flow.yaml").write_text(HEAD.lstrip() + steps.strip("\n") + "\n", encoding="utf-8")
    if "gift.png" in steps:
        shutil.copy(GALLERY / "daily_reward" / "gift.png", folder / "gift.png")
    return folder


def app_of(emulator: FlowEmulator) -> dict[str, object]:
    state = emulator.control.state(emulator.name)["app"]
    assert isinstance(state, dict)
    return dict(state)


@pytest.mark.parametrize("size", ["1280x720", "960x540"])
def test_a_flow_that_looks_in_every_way_collects_the_gift(tmp_path: Path, emulator: FlowEmulator, size: str) -> None:
    emulator.shell(f"wm size {size}")
    run = run_flow(looker(tmp_path, EVERY), emulator)
    assert (None, True) == (run.error, run.clean), run.log[-5:]
    state = app_of(emulator)
    assert ("ann", True) == (state["signed_in"], state["gift_taken"])


WORDS = """
      - tap: {ui: {id: account}}
      - type: {text: ann}
      - tap: {ui: {id: password}}
      - type: {text: secret}
      - tap: {text: SIGN IN, then: {text: Daily}}
      - read: {text: {area: [0, 0, 60, 90]}, match: "(Daily) gift", into: what}
      - when: {var: what, is: Daily, do: [{tap: {text: {matches: "^Daily gift"}, then: {text: OK}}}]}
      - wait: {text: OK, area: [40, 50, 100, 80]}
      - wait: {gone: {text: nowhere}}
"""


def test_words_are_found_among_the_elements_where_nothing_reads_pictures(
    tmp_path: Path, emulator: FlowEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "OCR_MODULES", ("no_such_module",))
    run = run_flow(looker(tmp_path, WORDS), emulator)
    assert (None, True) == (run.error, run.clean), run.log[-5:]
    assert "ann" == app_of(emulator)["signed_in"]


def test_a_screen_whose_elements_fail_for_a_moment_is_looked_at_again(tmp_path: Path, emulator: FlowEmulator) -> None:
    emulator.control.set_fault(emulator.name, "ui_fail", times=2)
    run: FlowRun = run_flow(looker(tmp_path, "      - tap: {ui: {id: account}, within: 10s}\n"), emulator)
    assert None is run.error
    assert any("could not get idle state" in line for line in run.log)


def test_words_that_are_not_there_say_what_comes_nearest(tmp_path: Path, emulator: FlowEmulator) -> None:
    run = run_flow(looker(tmp_path, "      - wait: {text: Sign on, area: [20, 50, 80, 80], within: 1s}\n"), emulator)
    assert isinstance(run.error, ScreenNotReachedError)
    assert "text 'Sign on' did not appear within 1s: 'Sign in' is at" in str(run.error)
