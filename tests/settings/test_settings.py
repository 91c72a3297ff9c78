from pathlib import Path

import pytest
from pydantic import ValidationError

from droidherd.contracts.plan import Backoff
from droidherd.settings import (
    PLACES,
    Group,
    Limits,
    PolicySettings,
    RecoverySettings,
    RetentionSettings,
    Settings,
    Timing,
    WebSettings,
    load,
)


@pytest.mark.parametrize(
    "timing", [{"lease_ttl_s": 15.0}, {"heartbeat_timeout_s": 8.0}, {"beat_every_s": 8.0}, {"lease_ttl_s": 0.5}]
)
def test_times_that_would_break_exclusion_are_refused(timing: dict[str, float]):
    """A guard that is open when the engine gives the task away lets two act for one account."""
    with pytest.raises(ValueError, match="lease_ttl_s"):
        Timing(**timing)


def test_times_in_their_order_are_taken():
    assert 1.0 == Timing(beat_every_s=0.2, lease_ttl_s=1.0, heartbeat_timeout_s=2.0).lease_ttl_s


def test_policies_are_read_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "droidherd.toml"
    file.write_text('[policies.daily_reward]\nretries = 5\nbackoff = "exponential"\n')
    monkeypatch.setenv("DROIDHERD_CONFIG", str(file))
    assert {"daily_reward": PolicySettings(retries=5, backoff=Backoff.EXPONENTIAL)} == load().policies


@pytest.mark.parametrize(
    "line",
    [
        "retrys = 5",
        "retries = 21",
        'backoff = "sometimes"',
        "time_limit_s = 0",
        'retry_on = "never"',
        'backoff_s = 3600\nbackoff = "exponential"',
    ],
)
def test_a_policy_that_makes_no_sense_stops_the_start(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "droidherd.toml"
    file.write_text(f"[policies.daily_reward]\n{line}\n")
    monkeypatch.setenv("DROIDHERD_CONFIG", str(file))
    with pytest.raises(ValueError, match=line.partition(" ")[0]):
        load()


def test_dispatchers_get_the_queue_settings_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "droidherd.toml"
    file.write_text('[queue]\naccount_capacity = 3\nby_priority = ["vip"]\nageing = 20\n[queue.capacities]\nvip = 2\n')
    monkeypatch.setenv("DROIDHERD_CONFIG", str(file))
    pool = load().pool_settings
    assert ({"account": 3, "anonymous": 100, "vip": 2}, ("vip",), 20) == (
        pool.capacities,
        pool.by_priority,
        pool.ageing,
    )
    assert (10_000, 7_200.0) == (pool.limit, pool.mutex_hold_s)


@pytest.mark.parametrize(
    "line", ["ageing = -1", "mutex_hold_s = -1", 'capacities = {"a b" = 1}', "capacities = {a = -1}"]
)
def test_a_queue_that_makes_no_sense_stops_the_start(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "droidherd.toml"
    file.write_text(f"[queue]\n{line}\n")
    monkeypatch.setenv("DROIDHERD_CONFIG", str(file))
    with pytest.raises(ValueError, match=line.partition(" ")[0]):
        load()


def test_keys_are_read_from_the_environment_and_never_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DROIDHERD_API__KEYS", '{"ann": "s3cret"}')
    settings = load()
    assert ({"ann": "s3cret"}, False) == (settings.api.keys, "s3cret" in repr(settings))


@pytest.mark.parametrize("setting", ["completed_days", "failed_days", "rejected_days"])
def test_temporal_may_not_delete_what_is_to_be_kept(setting: str):
    with pytest.raises(ValidationError, match="tasks are kept for 35 days, and Temporal deletes them after 35"):
        Settings(retention=RetentionSettings.model_validate({setting: 35}))
    kept = Settings(retention=RetentionSettings.model_validate({setting: 34.5}))
    assert 34.5 == getattr(kept.retention, setting)


def test_who_died_must_be_noticed_before_its_restarts_are_forgiven():
    with pytest.raises(ValidationError, match=r"2 \* timing.down_after_s <= recovery.forgive_s.*set at least 24"):
        Settings(recovery=RecoverySettings(forgive_s=23.9))
    assert 24 == Settings(recovery=RecoverySettings(forgive_s=24)).recovery.forgive_s


@pytest.mark.parametrize(
    "retention", [{"at": "24:00"}, {"at": "2am"}, {"at": "2:00"}, {"time_zone": "UTC; x"}, {"failed_days": -1}]
)
def test_a_retention_that_makes_no_sense_stops_the_start(retention: dict[str, object]):
    with pytest.raises(ValidationError, match=next(iter(retention))):
        RetentionSettings.model_validate(retention)


def test_the_reserve_of_a_disk_is_what_is_left_after_lanes_were_paused():
    with pytest.raises(ValidationError, match="disk_reserve_bytes <= disk_free_bytes"):
        Limits(disk_free_bytes=100, disk_reserve_bytes=101)
    assert 0 == Limits(disk_free_bytes=0).disk_free_bytes


def test_an_origin_that_is_none_stops_the_start():
    with pytest.raises(ValidationError, match="not an origin"):
        WebSettings(allow=("https://files.example.com/path",))
    assert ("https://*.example.com",) == WebSettings(allow=("https://*.example.com",)).allow


@pytest.mark.parametrize(
    ("variable", "value"),
    [("DROIDHERD_FLOWS__PATHS", "flows"), ("DROIDHERD_QUEUE__CAPACITIES", "a=1"), ("DROIDHERD_POLICIES", "none")],
)
def test_a_list_in_the_environment_that_is_no_json_is_named(variable: str, value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=f"{variable} is a list or a table, and is written as JSON") as error:
        load()
    assert repr(value) in str(error.value)


def test_an_instance_is_found_from_any_folder_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    below = tmp_path / "project" / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert Path(".droidherd") == load().data
    (tmp_path / "project/.droidherd").mkdir()
    (tmp_path / "project/droidherd.toml").write_text("virtual = 3\n")
    assert (tmp_path / "project/.droidherd", 3) == (load().data, load().virtual)
    (below / ".droidherd").mkdir()
    assert Path(".droidherd") == load().data
    monkeypatch.setenv("DROIDHERD_DATA", "from-the-environment")
    assert Path("from-the-environment") == load().data
    assert Path("from-a-flag") == load(data=Path("from-a-flag")).data


def test_a_data_directory_in_the_file_lies_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "below").mkdir()
    (tmp_path / "droidherd.toml").write_text('data = "kept"\n')
    monkeypatch.chdir(tmp_path / "below")
    assert tmp_path / "kept" == load().data


def test_an_instance_of_somebody_else_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / ".droidherd").mkdir()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.setattr("os.getuid", lambda: tmp_path.stat().st_uid + 1)
    assert Path(".droidherd") == load().data


def test_relative_folders_lie_beside_the_instance_or_the_file_naming_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    below = tmp_path / "project" / "a"
    below.mkdir(parents=True)
    (tmp_path / "project/.droidherd").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert ("flows",) == load().flows.paths
    for inside in (below, tmp_path / "project/.droidherd"):
        monkeypatch.chdir(inside)
        found = load()
        assert ((str(tmp_path / "project/flows"),), frozenset()) == (found.flows.paths, found.flows.model_fields_set)
    (tmp_path / "droidherd.toml").write_text('[flows]\npaths = ["mine", "/shared"]\n[artifacts]\ndirectory = "kept"\n')
    assert (str(tmp_path / "mine"), "/shared") == load().flows.paths
    assert tmp_path / "kept" == load().artifact_directory
    monkeypatch.setenv("DROIDHERD_ARTIFACTS__DIRECTORY", "other")
    assert tmp_path / "project/other" == load().artifact_directory


@pytest.mark.parametrize(("group", "field"), PLACES)
@pytest.mark.parametrize("value", ["given", "/given"])
def test_each_of_them_is_meant_from_there(
    group: str, field: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("DROIDHERD_DATA", str(tmp_path / "data"))
    several = isinstance(getattr(getattr(Settings(), group), field), tuple)
    monkeypatch.setenv(f"DROIDHERD_{group}__{field}".upper(), f'["{value}"]' if several else value)
    found, meant = getattr(getattr(load(), group), field), str(tmp_path / value)
    assert ((meant,) if several else meant) == found


def test_every_setting_that_names_a_file_or_a_folder_has_its_place():
    names = {"key_file", "keys_file", "directory", "paths"}
    groups = {name: getattr(Settings(), name) for name in Settings.model_fields}
    found = {(name, one) for name, group in groups.items() if isinstance(group, Group)
             for one in type(group).model_fields if one in names or one.endswith(("_file", "_directory"))}  # fmt: skip
    assert {*PLACES} == found
