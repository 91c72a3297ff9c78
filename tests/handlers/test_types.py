"""The built-in task types on a virtual emulator, and their policies."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from droidherd.contracts.plan import Backoff, Policy, RetryOn
from droidherd.domain.errors import BadParametersError, CommandFailedError, UnhealthyError
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.flows.catalogue import Catalogue
from droidherd.stage.attempt import StageFailedError
from tests.changes.world import CutOffError, World
from tests.emulator.farm import LEASES

HERD = "com.example.herd"
CATALOGUE = Catalogue()


def policy(limit_s: float, retries: int, backoff_s: float, backoff: Backoff = Backoff.FIXED) -> Policy:
    return Policy(time_limit_s=limit_s, retries=retries, backoff=backoff, backoff_s=backoff_s)


def on_timeout(limit_s: float, retries: int, backoff_s: float) -> Policy:
    return policy(limit_s, retries, backoff_s).model_copy(update={"retry_on": RetryOn.TIMEOUT})


POLICIES: list[tuple[str, dict[str, str], Policy]] = [
    ("download", {"url": "http://x", "file": "/sdcard/x"}, policy(1800, 3, 60, Backoff.EXPONENTIAL)),
    ("scan", {}, policy(300, 2, 30)),
    ("associate", {}, policy(120, 2, 10)),
    ("check", {}, policy(60, 1, 5)),
    ("start_app", {"app": HERD}, on_timeout(20, 2, 2)),
    ("stop_app", {"app": HERD}, on_timeout(20, 2, 2)),
    ("change_config", {"setting": "global/x", "value": "1"}, on_timeout(20, 2, 2)),
    ("switch_region", {"time_zone": "UTC", "locale": "de"}, on_timeout(30, 2, 2)),
    ("switch_runtime", {"app": HERD}, on_timeout(30, 2, 2)),
    ("reset_state", {"app": HERD}, on_timeout(480, 2, 2)),
]


@pytest.mark.parametrize(("name", "params", "expected"), POLICIES, ids=[name for name, _, _ in POLICIES])
def test_a_built_in_type_has_just_this_policy(name: str, params: dict[str, Any], expected: Policy):
    plan = CATALOGUE.plan(name, params, account="ann")
    assert expected == plan.policy
    assert [expected.time_limit_s] == [stage.limit_s for stage in plan.stages]


def trouble(world: World) -> str:
    with pytest.raises(StageFailedError) as caught:
        world.stage(last=True)
    assert caught.value.clean
    return str(caught.value.cause)


# --- those that are flows ------------------------------------------------------------------------------------


def there_and_back(world: World) -> tuple[dict[str, Any], dict[str, Any]]:
    """The dump after the task; that after its rollback equals the one before."""
    before = world.dump()
    captured, report = world.all()
    changed = world.dump()
    assert () == world.undo(captured.before, report.after).conflicts
    assert before == world.dump()
    return before, changed


def test_change_config_gives_a_setting_a_value(world: World):
    world.gallery("change_config", setting="global/animator_duration_scale", value="0.5")
    before, changed = there_and_back(world)
    assert "0.5" == changed["settings"]["global"]["animator_duration_scale"]
    assert before != changed


def test_switch_region_moves_time_zone_and_language(world: World):
    world.gallery("switch_region", time_zone="Asia/Tokyo", locale="ja-JP")
    _, changed = there_and_back(world)
    assert ("Asia/Tokyo", "ja-JP", "0") == (
        changed["properties"]["persist.sys.timezone"],
        changed["settings"]["system"]["system_locales"],
        changed["settings"]["global"]["auto_time_zone"],
    )


def test_switch_runtime_sets_the_renderer_and_stops_the_app(world: World):
    world.shell(f"monkey -p {HERD} 1")
    world.gallery("switch_runtime", app=HERD, renderer="skiavk")
    _, changed = there_and_back(world)
    assert "skiavk" == changed["properties"]["debug.hwui.renderer"]
    assert not world.one.control.state(world.one.name)["app"]["running"]


def test_reset_state_leaves_an_app_as_if_just_installed(world: World):
    world.one.control.set_app(world.one.name, signed_in="ann", gift_taken=True, running=True, scene="home")
    world.gallery("reset_state", app=HERD)
    world.all()
    app = world.one.control.state(world.one.name)["app"]
    assert ("", False, False, "launcher") == (app["signed_in"], app["gift_taken"], app["running"], app["scene"])


def test_reset_state_of_an_app_that_is_not_there_fails(world: World):
    world.gallery("reset_state", app="com.example.none")
    assert "Failed" in trouble(world)


# --- scan ----------------------------------------------------------------------------------------------------


def test_scan_leaves_everything_and_says_the_least(world: World):
    before = world.dump()
    world.gallery("scan")
    captured, report = world.all()
    assert ((), before) == (captured.before, world.dump())
    assert {"android": "13", "screen": "1280x720", "free_mb": 6936, "packages": 9, "third_party": 3} == report.summary
    name = next(each.name for each in report.artifacts if each.name.endswith("scan.json"))
    found = json.loads(world.store.get("task-1", name))
    herd = next(each for each in found["packages"] if each["name"] == HERD)
    assert (7, False) == (herd["version_code"], herd["system"])
    assert "VIRT0001" == found["properties"]["ro.serialno"]
    assert {"size": "1280x720", "density": 320} == found["screen"]


# --- associate -----------------------------------------------------------------------------------------------


def label(world: World) -> str:
    entry = world.inventory.find("e1")
    return entry.labels.get("account", "") if entry else ""


def test_associate_binds_the_emulator_and_its_label_and_is_taken_back(world: World):
    world.inventory.label("e1", "account", "bob")
    world.shell("settings put global droidherd_account bob")
    before = world.dump()
    world.gallery("associate", account="ann")
    captured, report = world.all()
    assert ("ann", "ann\n") == (label(world), world.shell("settings get global droidherd_account"))
    assert {"account": "ann", "app": ""} == report.summary
    world.undo(captured.before, report.after)
    assert ("bob", before) == (label(world), world.dump())


def test_a_binding_where_none_was_is_gone_after_the_rollback(world: World):
    world.gallery("associate", account="ann")
    captured, report = world.all()
    world.undo(captured.before, report.after)
    assert ("", "null\n") == (label(world), world.shell("settings get global droidherd_account"))


@pytest.mark.parametrize("sent", [False, True])
def test_a_binding_that_never_completed_leaves_no_label_when_taken_back(world: World, sent: bool):
    """The worker's thread is gone at its first call, its second, and so on until it is quick enough."""
    labels: set[str] = set()
    for at in itertools.count(2):
        world.one = replace(world.one, lease=next(LEASES))
        world.gallery("associate", account="ann")
        captured, broke = world.capture(), False
        with world.cut_off(at, sent=sent):
            try:
                world.stage()
            except CutOffError:
                broke = True
        labels.add(label(world))
        assert () == world.undo(captured.before).conflicts
        assert ("", "null\n") == (label(world), world.shell("settings get global droidherd_account"))
        if not broke:
            break
    assert {"", "ann"} == labels


class Slow(Inventory):
    """Something happens just before a label is written."""

    meanwhile: Callable[[], object] | None = None

    @override
    def label(self, emulator_id: str, name: str, value: str) -> tuple[InventoryEntry, ...]:
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            happens()
        return super().label(emulator_id, name, value)


def test_a_try_that_wakes_up_after_all_was_taken_back_labels_nothing(world: World):
    world.gallery("associate", account="ann")
    captured = world.capture()
    world.inventory = slow = Slow(world.root)
    slow.meanwhile = lambda: world.undo(captured.before)
    with pytest.raises(StageFailedError):
        world.stage()
    assert (None, "") == (slow.meanwhile, label(world))


def test_a_check_of_a_binding_needs_the_account_that_is_bound():
    with pytest.raises(BadParametersError, match="account: is missing: `bound` asks"):
        CATALOGUE.plan("check", {"bound": True})


def test_associate_binds_an_app_and_leaves_the_emulator_alone(world: World):
    world.gallery("associate", account="ann", app=HERD)
    _, changed = there_and_back(world)
    assert ("ann", "") == (changed["settings"]["global"][f"droidherd_account.{HERD}"], label(world))


def test_an_app_that_is_not_there_cannot_be_bound(world: World):
    world.gallery("associate", account="ann", app="com.example.none")
    assert "com.example.none is not installed" in trouble(world)


def test_associate_again_does_nothing(world: World):
    world.gallery("associate", account="ann")
    world.all()
    world.one.mark()
    world.all()
    assert [] == world.one.did("settings put")


def test_a_label_that_went_astray_is_set_again(world: World):
    world.gallery("associate", account="ann")
    world.all()
    world.inventory.label("e1", "account", "")
    world.all()
    assert "ann" == label(world)


@pytest.mark.parametrize("account", ["", "a b", "x" * 65])
def test_an_impossible_account_is_not_bound(world: World, account: str):
    with pytest.raises(BadParametersError):
        world.gallery("associate", account=account)


# --- check ---------------------------------------------------------------------------------------------------


def test_a_healthy_emulator_is_healthy(world: World):
    world.gallery("check")
    assert {"healthy": True} == world.all()[1].summary


def test_an_app_and_its_sign_in_are_healthy(world: World):
    world.one.control.set_app(world.one.name, signed_in="ann")
    world.gallery("associate", account="ann", app=HERD)
    world.all()
    world.gallery("check", app=HERD, account="ann", bound=True, signed_in=f"{HERD}:id/sign_out")
    assert {"healthy": True} == world.all()[1].summary


def test_the_binding_of_the_emulator_holds_for_an_app_without_its_own(world: World):
    world.gallery("associate", account="ann")
    world.all()
    world.gallery("check", app=HERD, account="ann", bound=True)
    assert {"healthy": True} == world.all()[1].summary
    world.shell(f"settings put global droidherd_account.{HERD} bob")
    assert f"{HERD} is bound to bob, not to ann" in trouble(world)


def test_everything_that_is_wrong_is_reported_at_once(world: World):
    world.one.control.set_fault(world.one.name, "disk_full")
    world.gallery("check", account="ann", bound=True)
    words = trouble(world)
    assert ("less than 200 MB are free" in words, "it is bound to nobody, not to ann" in words) == (True, True)


def test_a_missing_app_is_unhealthy(world: World):
    world.gallery("check", app="com.example.none")
    assert "com.example.none is not installed" in trouble(world)


def test_nobody_signed_in_is_unhealthy(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("droidherd.handlers.check.APP_POLLS", 3)
    world.shell(f"pm clear {HERD}")
    world.gallery("check", app=HERD, signed_in=f"{HERD}:id/sign_out")
    assert "nobody is signed in" in trouble(world)
    world.one.control.set_fault(world.one.name, "ui_fail")
    assert "the screen cannot be read" in trouble(world)


def test_unhealthy_is_looked_at_once_more_and_what_says_no_is_not():
    assert ["retryable", "final"] == [UnhealthyError.verdict, CommandFailedError.verdict]
