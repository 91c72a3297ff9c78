"""The second clock: an emulator that answers, a screen that stands still, a step that does not advance."""

from pathlib import Path

from droidherd.domain.task.lifecycle import TaskStatus
from tests.support.farm import farm

FLOWS = Path(__file__).with_name("flows")


async def test_a_task_whose_screen_stands_still_ends_with_evidence(tmp_path: Path) -> None:
    with farm(tmp_path, 1, flows=FLOWS, progress_s=1.0) as place:
        client = await place.client()
        await place.wake(client)
        await place.all_up(client)
        await place.submit(client, "stuck", "never")
        view = await place.ended(client, "stuck")
        assert (TaskStatus.FAILED, "StuckError") == (view.state, view.error and view.error.kind)
        kept = {one.name.rpartition("-")[2] for one in view.attempts[0].artifacts if one.name.endswith(".png")}
        assert {"hope.failed.png"} == kept
        logs = [one for one in view.attempts[0].artifacts if one.name.endswith(".jsonl")]
        text = (tmp_path / "artifacts" / "stuck" / logs[0].name).read_text(encoding="utf-8")
        assert "StuckError: step 2: nothing moved for" in text
        with place.control() as control:
            assert control.state("virtual-1")["listening"]
        await place.all_up(client)
