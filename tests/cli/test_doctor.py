from pathlib import Path

import pytest

from droidherd.cli.commands import doctor
from droidherd.cli.commands.doctor import Finding, Grade
from droidherd.cli.local import ports
from droidherd.cli.local.layout import Layout
from droidherd.settings import Settings


def grades(found: list[Finding]) -> dict[str, str]:
    return {one.what: one.grade for one in found}


def test_an_old_python_is_named():
    (found,) = doctor.python((3, 10))
    assert (Grade.FAIL, True) == (found.grade, "3.10 is too old" in found.detail)


def test_a_misspelt_variable_is_found():
    (found,) = doctor.unknown_settings({"DROIDHERD_APY__PORT": "1", "DROIDHERD_API__PORT": "1", "HOME": "/"})
    assert (Grade.WARN, "DROIDHERD_APY__PORT is no setting") == (found.grade, found.detail)


def test_a_policy_for_an_unknown_type_is_found_with_the_one_that_was_meant():
    settings = Settings.model_validate({"policies": {"downlaod": {"retries": 1}, "scan": {"retries": 1}}})
    (found,) = doctor.policies(settings)
    assert (Grade.FAIL, "policies.downlaod: there is no task type 'downlaod'", "did you mean download?") == (
        found.grade,
        found.detail,
        found.fix,
    )
    (ok,) = doctor.policies(Settings.model_validate({"policies": {"scan": {"retries": 1}}}))
    assert (Grade.OK, "1 beside those of the flows") == (ok.grade, ok.detail)


def test_an_adb_that_does_not_run_is_named(tmp_path: Path):
    found = doctor.adb(str(tmp_path / "adb"))
    assert Grade.FAIL == found.grade
    assert "adb.program" in found.fix


def test_a_taken_port_is_named_with_its_variable(tmp_path: Path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = Settings.model_validate({"data": tmp_path, "api": {"port": taken.getsockname()[1]}})
        found = [one for one in doctor.free_ports(settings) if "api.port" in one.detail]
    assert ["set DROIDHERD_API__PORT to another, or 0"] == [one.fix for one in found]


def test_a_broken_list_of_emulators_is_named(tmp_path: Path):
    (tmp_path / "emulators.json").write_text("{")
    (found,) = doctor.emulators(Layout(tmp_path))
    assert Grade.FAIL == found.grade


def test_a_silent_emulator_is_named(tmp_path: Path):
    port = ports.free()
    entry = f'{{"emulators": [{{"emulator_id": "e1", "address": "127.0.0.1:{port}"}}]}}'
    (tmp_path / "emulators.json").write_text(entry)
    found = next(iter(doctor.emulators(Layout(tmp_path))))
    assert (Grade.WARN, f"no answer at 127.0.0.1:{port}") == (found.grade, found.detail)


def test_a_foreign_database_is_named(tmp_path: Path):
    layout = Layout(tmp_path)
    layout.database.parent.mkdir()
    layout.database.touch()
    (found,) = doctor.engine_database(layout)
    assert (Grade.FAIL, True) == (found.grade, "unknown" in found.detail)


def test_this_machine_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    free = {"address": "127.0.0.1:0", "ui_port": 0, "metrics_port": 0}
    settings = Settings.model_validate(
        {"data": tmp_path / "new" / "data", "temporal": free, "api": {"port": 0}, "adb": {"port": 0}}
    )
    found = grades(doctor.examine(settings, {}))
    assert {} == {what: grade for what, grade in found.items() if grade == Grade.FAIL}
    assert {"python", "packages", "temporal", "adb", "settings", "data", "emulators", "ports"} <= set(found)
    assert not (tmp_path / "new").exists()


def test_a_default_port_that_is_taken_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def taken(_port: int, _host: str) -> bool:
        return False

    monkeypatch.setattr(ports, "is_free", taken)
    found = grades([*doctor.free_ports(Settings.model_validate({"data": tmp_path}))])
    assert {"ports": Grade.WARN} == found
    away = {"data": tmp_path, "temporal": {"address": "10.0.0.9:7233", "embedded": False}, "adb": {"port": 0}}
    assert ["8800 of `api.port` is in use; `droidherd up` takes another"] == [
        one.detail for one in doctor.free_ports(Settings.model_validate(away))
    ]
