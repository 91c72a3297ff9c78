"""Which addresses may be asked."""

import pytest

from droidherd.domain.errors import AddressRefusedError, BadParametersError
from droidherd.web.allow import AllowedOrigin, AllowList

ALLOWED = AllowList.of(("https://files.example.com", "http://*.lab.example.com:8080", "http://[::1]:9000"))


@pytest.mark.parametrize(
    "url",
    [
        "https://files.example.com/a",
        "https://FILES.example.com:443/a?b=c",
        "https://files.example.com./a",
        "http://a.lab.example.com:8080",
        "http://a.b.lab.example.com:8080/x",
        "http://[::1]:9000/x",
    ],
)
def test_an_address_of_an_allowed_origin_may_be_asked(url: str):
    assert url.partition(":")[0] == ALLOWED.check(url).scheme


@pytest.mark.parametrize(
    "url",
    [
        "http://files.example.com/",
        "https://files.example.com:8443/",
        "https://files.example.com.evil.org/",
        "https://evil.org/https://files.example.com/",
        "https://evil.org#files.example.com",
        "https://evil.org\\.files.example.com/",
        "https://sub.files.example.com/",
        "http://lab.example.com:8080/",
        "http://evillab.example.com:8080/",
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:9000/",
        "http://[::ffff:127.0.0.1]:9000/",
    ],
)
def test_any_other_address_is_refused_and_says_where_to_allow_it(url: str):
    with pytest.raises((AddressRefusedError, BadParametersError)) as error:
        ALLOWED.check(url)
    assert "web.allow" in str(error.value) or "address" in str(error.value)


def test_with_an_empty_list_nobody_may_be_asked():
    with pytest.raises(AddressRefusedError, match=r"not in `web\.allow`"):
        AllowList(()).check("https://files.example.com/")


@pytest.mark.parametrize(
    "url", ["", "files.example.com", "//files.example.com", "ftp://files.example.com", "file:///etc/passwd", "https://",
            "https://files.example.com/\n", "https://files.example.com:x/", "https://user:pw@files.example.com/",
            "https://@:99999/"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url: str):
    with pytest.raises(BadParametersError):
        ALLOWED.check(url)


def test_a_refusal_repeats_no_secret():
    with pytest.raises(AddressRefusedError) as error:
        ALLOWED.check("https://evil.org/a?signature=s3cret")
    assert "s3cret" not in str(error.value)
    with pytest.raises(BadParametersError) as bad:
        ALLOWED.check("https://user:s3cret@files.example.com/")
    assert "s3cret" not in str(bad.value)


@pytest.mark.parametrize(
    "text", ["", "files.example.com", "https://", "ftp://x", "https://a b", "https://*", "https://*.*.x", "http://x:0",
             "http://x:65536", "http://x:y", "http://x/path", "http://user@x", "https://.x"],
)  # fmt: skip
def test_an_entry_that_is_no_origin_stops_the_start(text: str):
    with pytest.raises(ValueError, match=r"origin|port"):
        AllowedOrigin.of(text)


def test_an_entry_is_read_whatever_its_case():
    assert AllowedOrigin("https", "files.example.com", 443) == AllowedOrigin.of(" HTTPS://Files.Example.com/ ")
