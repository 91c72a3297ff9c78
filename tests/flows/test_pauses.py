"""Flows that people copy, with a pause between each two stages: cleanup runs, and the next stage begins behind it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from droidherd.contracts.plan import Plan
from droidherd.flows.catalogue import GALLERY, Catalogue
from droidherd.flowtools.rehearsal import FlowRun, ManualSession, RunOptions, rehearse
from droidherd.stage.context import StageServices
from droidherd.testing import flows
from droidherd.testing.flows import FlowEmulator, run_flow, virtual_emulator
from tests.docs.blocks import ROOT, blocks_of

SHORT = {"long_walk": {"rounds": 1, "pace_ms": 1}, "browse_list": {"pages": 1}}
CATALOGUE = Catalogue()
STAGED = [name for name in CATALOGUE.names() if len(CATALOGUE.flow(name).flow.stages) > 1]
PAGE = "docs/flows.md"


@pytest.fixture(scope="module")
def emulator() -> Iterator[FlowEmulator]:
    with virtual_emulator() as one:
        yield one


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch, emulator: FlowEmulator) -> list[str]:
    """Runs of flows pause after each stage, as a task does: with the cleanup, and a new lease afterwards."""
    seen: list[str] = []

    def with_pauses(plan: Plan, services: StageServices, session: ManualSession, manner: RunOptions) -> FlowRun:
        run = FlowRun(None, True, (), (), {}, ())
        for number, stage in enumerate(plan.stages):
            alone = plan.model_copy(update={"stages": (stage,)})
            lease = ManualSession(session.emulator_id, next(emulator.leases), number)
            run = rehearse(alone, services, lease, manner)
            if run.error is not None or not run.clean:
                break
            seen.append(stage.name)
        return run

    monkeypatch.setattr(flows, "rehearse", with_pauses)
    return seen


@pytest.mark.parametrize("name", STAGED)
def test_a_flow_of_the_gallery_survives_a_pause_between_any_two_stages(
    emulator: FlowEmulator, pauses: list[str], name: str
) -> None:
    emulator.shell("pm clear com.example.herd; input keyevent KEYCODE_HOME")
    account = "ann" if CATALOGUE.flow(name).needs_account else ""
    run = run_flow(GALLERY / name, emulator, SHORT.get(name), account=account)
    assert (None, True) == (run.error, run.clean), run.log
    assert [stage.stage for stage in CATALOGUE.flow(name).flow.stages] == pauses


def test_the_staged_examples_of_the_page_survive_it_too(
    emulator: FlowEmulator, pauses: list[str], tmp_path: Path
) -> None:
    texts = [one.text for one in blocks_of((ROOT / PAGE).read_text(encoding="utf-8"), PAGE)]
    staged = [text for text in texts if "\nflow: " in text and text.count("- stage: ") > 1]
    assert 1 == len(staged)
    assert run_flow(GALLERY / "sign_in", emulator, account="ben").error is None
    pauses.clear()
    shutil.copytree(GALLERY / "daily_reward", tmp_path / "daily_gift")
    text = staged[0].replace("com.example.game", "com.example.herd")
    (tmp_path / "daily_gift" / "flow.yaml").write_text(text, encoding="utf-8")
    run = run_flow(tmp_path / "daily_gift", emulator, account="ben")
    assert (None, ["open", "collect"]) == (run.error, pauses), run.log
