"""`download` against a real HTTP server and a virtual emulator behind the real adb server."""

import hashlib
import random

import pytest

from droidherd.artifacts.store import DirectoryStore
from droidherd.artifacts.writer import Writer
from droidherd.domain.errors import (
    AddressRefusedError,
    BadParametersError,
    CommandFailedError,
    DiskFullError,
    DroidherdError,
    FinalError,
    NoAnswerError,
    ServerBusyError,
    ServerRefusedError,
)
from droidherd.handlers.download import DownloadParams
from droidherd.handlers.registry import build_registry
from droidherd.stage.attempt import StageFailedError
from droidherd.virtual.tinyapk import tiny_apk
from tests.changes.world import CutOffError, World
from tests.handlers.server import Site

PLACE = "/sdcard/downloaded.bin"
CONTENT = random.Random(3).randbytes(3_000_000)
APP = "com.example.fetched"
APK = tiny_apk(APP, 4, "4.0", b"payload" * 1000)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def error_of(world: World) -> DroidherdError:
    with pytest.raises(StageFailedError) as caught:
        world.stage(last=True)
    assert [] == [*(world.root / "scratch").iterdir()]
    return caught.value.cause


def test_a_file_is_fetched_checked_put_on_the_emulator_and_taken_back(world: World, site: Site):
    site.files["/a.bin"] = CONTENT
    before = world.dump()
    world.gallery("download", url=site.url("/a.bin"), sha256=digest(CONTENT), file=PLACE)
    captured, report = world.all()
    assert f"{len(CONTENT)} {digest(CONTENT)}" in world.dump()["files"][PLACE]
    assert {"sha256": digest(CONTENT), "bytes": len(CONTENT), "file": PLACE} == report.summary
    assert () == world.undo(captured.before, report.after).conflicts
    assert before == world.dump()


def test_an_app_is_fetched_installed_and_taken_back(world: World, site: Site):
    site.files["/app.apk"] = APK
    before = world.dump()
    world.gallery("download", url=site.url("/app.apk"), package=APP)
    captured, report = world.all()
    assert {"version_code": 4, "version_name": "4.0", "digest": digest(APK)} == world.dump()["packages"][APP]
    world.undo(captured.before, report.after)
    assert before == world.dump()


def test_what_is_there_already_is_not_fetched_again(world: World, site: Site):
    site.files["/a.bin"] = CONTENT
    world.gallery("download", url=site.url("/a.bin"), sha256=digest(CONTENT), file=PLACE)
    world.all()
    world.all()
    assert ["/a.bin"] == site.asked


@pytest.mark.parametrize("seed", range(4))
def test_cut_off_anywhere_and_run_again_it_is_there(world: World, site: Site, seed: int):
    chance = random.Random(seed)
    site.files["/app.apk"] = APK
    world.gallery("download", url=site.url("/app.apk"), sha256=digest(APK), package=APP)
    world.capture()
    for _ in range(2):
        with world.cut_off(chance.randint(2, 8), sent=chance.random() < 0.5):
            try:
                world.stage()
            except CutOffError:
                continue
    world.stage(last=True)
    assert digest(APK) == world.dump()["packages"][APP]["digest"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/status/400", ServerRefusedError),
        ("/status/401", ServerRefusedError),
        ("/status/403", ServerRefusedError),
        ("/status/404", ServerRefusedError),
        ("/status/410", ServerRefusedError),
        ("/status/429", ServerBusyError),
        ("/status/503", ServerBusyError),
        ("/status/500", ServerBusyError),
        ("/silent", NoAnswerError),
        ("/broken", NoAnswerError),
    ],
)
def test_each_trouble_of_a_server_has_its_class(world: World, site: Site, path: str, kind: type[DroidherdError]):
    world.gallery("download", url=site.url(path), file=PLACE)
    world.read_s = 0.5 if path == "/silent" else world.read_s
    before = world.dump()
    error = error_of(world)
    assert kind is type(error)
    assert site.url(path) in str(error)
    assert before == world.dump()


@pytest.mark.parametrize(("status", "expected"), [(429, 17.0), (503, 17.0)])
def test_how_long_a_busy_server_asks_to_be_left_alone_is_heard(world: World, site: Site, status: int, expected: float):
    site.says["retry-after"] = "17"
    world.gallery("download", url=site.url(f"/status/{status}"), file=PLACE)
    error = error_of(world)
    assert isinstance(error, ServerBusyError)
    assert (expected, True) == (error.after_s, "not before 17" in error.remedy)


def test_a_path_that_the_emulator_refuses_is_final(world: World, site: Site):
    site.files["/a.bin"] = CONTENT
    world.gallery("download", url=site.url("/a.bin"), file="/sdcard/no/such/folder/x")
    error = error_of(world)
    assert (CommandFailedError, "final") == (type(error), error.verdict)


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (NoAnswerError, "retryable"),
        (ServerBusyError, "retryable"),
        (ServerRefusedError, "final"),
        (AddressRefusedError, "final"),
        (DiskFullError, "final"),
    ],
)
def test_what_may_pass_is_tried_again_and_what_may_not_fails_at_once(kind: type[DroidherdError], verdict: str):
    assert verdict == kind.verdict


def test_a_server_that_is_not_there_is_tried_again(world: World):
    world.allow = ("http://127.0.0.1:9",)
    world.gallery("download", url="http://127.0.0.1:9/x", file=PLACE)
    assert isinstance(error_of(world), NoAnswerError)


def test_nobody_is_asked_who_is_not_in_the_settings(world: World, site: Site):
    site.files["/a.bin"] = CONTENT
    world.allow = ("http://files.example.com",)
    world.gallery("download", url=site.url("/a.bin"), file=PLACE)
    assert isinstance(error_of(world), AddressRefusedError)
    assert [] == site.asked


def test_a_redirect_is_followed_inside_the_allowed_origins_only(world: World, site: Site):
    site.files["/a.bin"] = CONTENT
    site.moved = {"/in": "/a.bin", "/out": "http://127.0.0.1:9/x", "/round": "/round"}
    world.gallery("download", url=site.url("/in"), file=PLACE)
    world.all()
    world.gallery("download", url=site.url("/out"), file=PLACE)
    assert isinstance(error_of(world), AddressRefusedError)
    world.gallery("download", url=site.url("/round"), file=PLACE)
    assert "more than 5 redirects" in error_of(world).what


@pytest.mark.parametrize(
    "url", ["ftp://x/y", "file:///etc/passwd", "http://user:pw@127.0.0.1/x", "nonsense", "http:///x"]
)
def test_what_is_no_address_is_refused(world: World, url: str):
    world.gallery("download", url=url, file=PLACE)
    assert isinstance(error_of(world), BadParametersError)


def test_another_content_than_expected_reaches_no_emulator(world: World, site: Site):
    site.files["/a.bin"] = CONTENT
    world.gallery("download", url=site.url("/a.bin"), sha256="0" * 64, file=PLACE)
    error = error_of(world)
    assert (FinalError, True) == (type(error), digest(CONTENT) in str(error))
    assert PLACE not in world.dump()["files"]


def test_an_apk_with_another_package_is_not_installed(world: World, site: Site):
    site.files["/app.apk"] = APK
    world.gallery("download", url=site.url("/app.apk"), package="com.example.wanted")
    assert f"holds {APP}, not com.example.wanted" in error_of(world).what
    site.files["/app.apk"] = b"<html>Not found</html>"
    world.gallery("download", url=site.url("/app.apk"), package=APP)
    assert "is not an APK" in error_of(world).what


def test_what_never_ends_is_cut_at_its_limit(world: World, site: Site):
    world.gallery("download", url=site.url("/endless"), file=PLACE, max_mb=1)
    assert "more than 1000000 bytes" in error_of(world).what


def test_a_cancel_is_heard_while_bytes_arrive(world: World, site: Site):
    world.gallery("download", url=site.url("/endless"), file=PLACE)
    world.life.stops_after = 20
    report = world.stage(last=True)
    assert ("stopped", True) == (report.outcome, report.released)
    assert [] == [*(world.root / "scratch").iterdir()]


def test_a_full_disk_of_the_emulator_is_final(world: World, site: Site):
    site.files["/a.bin"] = CONTENT
    world.gallery("download", url=site.url("/a.bin"), file=PLACE)
    world.one.control.set_fault(world.one.name, "push_full")
    assert isinstance(error_of(world), DiskFullError)


def test_a_download_leaves_temporal_its_space_on_the_disk_of_the_host(world: World, site: Site):
    site.files["/a.bin"] = CONTENT
    world.gallery("download", url=site.url("/a.bin"), file=PLACE)
    world.store = DirectoryStore(world.root / "artifacts", writer=Writer(reserve_bytes=2**60))
    error = error_of(world)
    assert (DiskFullError, True) == (type(error), "limits.disk_reserve_bytes" in error.remedy)
    assert PLACE not in world.dump()["files"]


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"url": "http://x/y"}, "exactly one of file and package is needed"),
        ({"url": "http://x/y", "file": "/sdcard/x", "package": "a.b"}, "exactly one of file and package is needed"),
        ({"url": "http://x/y", "file": "/sdcard/x", "sha256": "abc"}, "sha256"),
        ({"url": "http://x/y", "file": "relative"}, "is not a plain absolute path"),
        ({"url": "http://x/y", "package": "x; reboot"}, "is not a package"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_before_anything_is_queued(
    world: World, params: dict[str, str], problem: str
):
    with pytest.raises(BadParametersError, match=problem):
        world.gallery("download", **params)


def test_what_it_changes_is_known_before():
    (subject,) = build_registry().changes("download", DownloadParams(url="http://x", file=PLACE).model_dump())
    assert ("file", PLACE, None) == (subject.thing, subject.name, subject.state)
