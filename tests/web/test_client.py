"""The pooled HTTP client, against a real server on loopback."""

import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from droidherd.domain.errors import (
    AddressRefusedError,
    BadParametersError,
    DroidherdError,
    FinalError,
    NoAnswerError,
    ServerBusyError,
    ServerRefusedError,
    Verdict,
)
from droidherd.settings import WebSettings
from droidherd.web.allow import AllowList
from droidherd.web.client import WebClient, WebLimits
from tests.web.server import BLOCK, Server, running

LIMITS = WebLimits(connections=4, connect_s=30.0, read_s=30.0, wait_s=30.0, redirects=3)


@pytest.fixture
def site() -> Iterator[tuple[str, Server]]:
    with running() as found:
        yield found


@pytest.fixture
def web(site: tuple[str, Server]) -> Iterator[WebClient]:
    with WebClient(AllowList.of((site[0],)), LIMITS) as one:
        yield one


def fetched(web: WebClient, url: str) -> bytes:
    with web.get(url) as answer:
        return b"".join(answer.pieces())


def verdict_of(web: WebClient, url: str) -> DroidherdError:
    with pytest.raises(DroidherdError) as error:
        fetched(web, url)
    return error.value


def test_an_answer_comes_whole_and_announces_its_size(site: tuple[str, Server], web: WebClient):
    with web.get(f"{site[0]}/bytes?count=700000") as answer:
        assert (200, 700_000) == (answer.status, answer.size)
        assert (BLOCK * 3)[:700_000] == b"".join(answer.pieces())


def test_requests_share_connections(site: tuple[str, Server], web: WebClient):
    for _ in range(20):
        fetched(web, f"{site[0]}/bytes?count=10")
    assert 1 == site[1].connections


def test_it_is_made_of_the_settings(site: tuple[str, Server]):
    with WebClient.of(WebSettings(allow=(site[0],), connections=3, read_s=7.0, redirects=2)) as web:
        assert WebLimits(connections=3, read_s=7.0, redirects=2) == web.limits
        assert b"\0" == fetched(web, f"{site[0]}/bytes?count=1")


def test_a_request_that_cannot_be_sent_is_the_callers_fault(site: tuple[str, Server], web: WebClient):
    with pytest.raises(BadParametersError), web.get(f"{site[0]}/bytes?count=1", headers={"x": "a\nb"}):
        pass


def test_many_threads_hold_no_more_connections_than_the_pool_has(site: tuple[str, Server], web: WebClient):
    def size(url: str) -> int:
        return len(fetched(web, url))

    with ThreadPoolExecutor(16) as threads:
        sizes = list(threads.map(size, [f"{site[0]}/bytes?count=300000"] * 48))
    assert [300_000] * 48 == sizes
    assert 1 < site[1].most_open <= LIMITS.connections


def test_who_finds_every_connection_in_use_waits_and_then_hears_so(site: tuple[str, Server]):
    url, server = site
    with WebClient(AllowList.of((url,)), replace(LIMITS, connections=1, wait_s=0.1)) as web:
        busy = threading.Thread(target=fetched, args=(web, f"{url}/held"))
        busy.start()
        while not server.asked:
            pass
        error = verdict_of(web, f"{url}/bytes?count=1")
        assert isinstance(error, NoAnswerError)
        assert "all 1 connections were in use for 0.1 s" in str(error)
        server.held.set()
        busy.join(timeout=20)
        assert b"\0" == fetched(web, f"{url}/bytes?count=1")


@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 503, 504])
def test_a_server_that_has_too_much_to_do_may_be_asked_again(site: tuple[str, Server], web: WebClient, code: int):
    error = verdict_of(web, f"{site[0]}/status?code={code}&after=17")
    assert (ServerBusyError, Verdict.RETRYABLE) == (type(error), error.verdict)
    assert f"answered {code}" in error.what
    assert "not before 17" in error.remedy


@pytest.mark.parametrize("code", [300, 304, 400, 401, 403, 404, 405, 409, 410, 418, 422])
def test_a_server_that_says_no_is_not_asked_again(site: tuple[str, Server], web: WebClient, code: int):
    error = verdict_of(web, f"{site[0]}/status?code={code}")
    assert (ServerRefusedError, Verdict.FINAL) == (type(error), error.verdict)


@pytest.mark.parametrize("path", ["stall", "drip"])
def test_a_server_that_falls_silent_or_never_ends_is_left(site: tuple[str, Server], path: str):
    with WebClient(AllowList.of((site[0],)), replace(LIMITS, read_s=0.2, total_s=0.5)) as web:
        error = verdict_of(web, f"{site[0]}/{path}")
    assert (NoAnswerError, Verdict.RETRYABLE) == (type(error), error.verdict)


def test_an_answer_that_breaks_off_is_never_taken_for_a_whole_one(site: tuple[str, Server], web: WebClient):
    error = verdict_of(web, f"{site[0]}/cut")
    assert (NoAnswerError, Verdict.RETRYABLE) == (type(error), error.verdict)


def test_nobody_there_may_be_asked_again(web: WebClient, site: tuple[str, Server]):
    with running() as (gone, _):
        pass
    with WebClient(AllowList.of((gone,)), LIMITS) as other:
        error = verdict_of(other, f"{gone}/bytes?count=1")
    assert (NoAnswerError, Verdict.RETRYABLE) == (type(error), error.verdict)


def test_a_packed_answer_is_refused_before_it_unpacks(site: tuple[str, Server], web: WebClient):
    assert isinstance(verdict_of(web, f"{site[0]}/packed"), ServerRefusedError)
    assert "identity" == site[1].asked[-1][1]["accept-encoding"]


def test_redirects_are_followed_inside_the_list(site: tuple[str, Server], web: WebClient):
    assert b"\0\1\2" == fetched(web, f"{site[0]}/to?url=/bytes%3Fcount%3D3")


def test_redirects_end_somewhere(site: tuple[str, Server], web: WebClient):
    error = verdict_of(web, f"{site[0]}/to?url=/to%3Furl%3D/to%253Furl%253D/to%25253Furl%25253D/to")
    assert (ServerRefusedError, "more than 3 redirects") == (type(error), error.what)


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "//127.0.0.1:1/", "http://user:pw@127.0.0.1:1/", "http://[", "http://xn--a/", "http://xn--ls8h=/",
     "http://a:port/", "mailto:x", "http://.../"],
)  # fmt: skip
def test_a_redirect_to_what_may_not_be_asked_is_refused(site: tuple[str, Server], web: WebClient, target: str):
    error = verdict_of(web, f"{site[0]}/to?url={target}")
    assert (True, Verdict.FINAL) == (isinstance(error, AddressRefusedError | ServerRefusedError), error.verdict)
    assert 1 == len(site[1].asked)


def test_a_redirect_out_of_the_list_never_reaches_its_target(site: tuple[str, Server], web: WebClient):
    with running() as (elsewhere, other):
        error = verdict_of(web, f"{site[0]}/to?url={elsewhere}/bytes%3Fcount%3D1")
        assert (AddressRefusedError, 0) == (type(error), other.connections)


def test_headers_go_to_the_origin_they_were_meant_for_alone(site: tuple[str, Server]):
    with running() as (elsewhere, other), WebClient(AllowList.of((site[0], elsewhere)), LIMITS) as web:
        with web.get(f"{site[0]}/to?url={elsewhere}/bytes%3Fcount%3D1", headers={"authorization": "s3cret"}) as answer:
            assert b"\0" == b"".join(answer.pieces())
        with web.get(f"{site[0]}/to?url=/bytes%3Fcount%3D1", headers={"authorization": "s3cret"}) as answer:
            assert b"\0" == b"".join(answer.pieces())
    assert ["s3cret"] * 3 == [headers.get("authorization") for _, headers in site[1].asked]
    assert [None] == [headers.get("authorization") for _, headers in other.asked]


def test_what_one_task_was_given_is_not_shown_for_another(site: tuple[str, Server], web: WebClient):
    fetched(web, f"{site[0]}/cookie")
    fetched(web, f"{site[0]}/bytes?count=1")
    assert "cookie" not in site[1].asked[-1][1]


def test_the_environment_does_not_decide_where_requests_go(
    site: tuple[str, Server], web: WebClient, monkeypatch: pytest.MonkeyPatch
):
    with running() as (proxy, seen):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        with WebClient(AllowList.of((site[0],)), LIMITS) as fresh:
            assert b"\0" == fetched(fresh, f"{site[0]}/bytes?count=1")
        assert 0 == seen.connections


def test_an_answer_left_unread_frees_its_connection(site: tuple[str, Server]):
    with WebClient(AllowList.of((site[0],)), replace(LIMITS, connections=1, wait_s=0.5)) as web:
        for _ in range(3):
            with web.get(f"{site[0]}/bytes?count=3000000"):
                pass
        assert b"\0" == fetched(web, f"{site[0]}/bytes?count=1")


# --- certificates ------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Of an authority nobody knows, for 127.0.0.1; its key stands in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "droidherd test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return file


def test_an_untrusted_certificate_is_final_and_one_of_the_settings_is_good(certificate: Path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with running(context) as (url, _):
        with WebClient(AllowList.of((url,)), LIMITS) as stranger:
            error = verdict_of(stranger, f"{url}/bytes?count=1")
            assert (FinalError, True) == (type(error), "certificate is not trusted" in error.what)
        with WebClient(AllowList.of((url,)), LIMITS, ca_file=str(certificate)) as knowing:
            assert b"\0" == fetched(knowing, f"{url}/bytes?count=1")
