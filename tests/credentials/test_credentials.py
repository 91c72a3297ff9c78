"""Credentials by reference: found on the worker, named in errors, masked in what leaves."""

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from droidherd.contracts.accounts import AccountRecord
from droidherd.contracts.tasks import MASK, secret_texts, shown_params, with_secrets_of
from droidherd.credentials import SIZE_MAX, CredentialStore, Redactor
from droidherd.domain.errors import CommandFailedError, CredentialError, FinalError
from droidherd.domain.references import AllowedReferences

TYPED = "it's 7\\ spaces\t"
ENVIRONMENT = {"ANN": TYPED, "EMPTY": "", "DROIDHERD_API__KEY": TYPED}


class Written:
    """One record, which is only known when it is asked for anew."""

    def __init__(self, credentials: Mapping[str, str], *, late: bool = False) -> None:
        self._record = AccountRecord(account="ann", credentials=dict(credentials))
        self._late = late

    def read(self, account: str, *, fresh: bool = False) -> AccountRecord | None:
        return None if account != "ann" or (self._late and not fresh) else self._record


def store(reference: str, **places: str) -> CredentialStore:
    """A `file:` may lead anywhere on this machine, unless the test says otherwise."""
    places = {"directory": "/", **places}
    return CredentialStore(Written({"password": reference}), ENVIRONMENT, AllowedReferences(**places))


def test_a_variable_and_a_file_are_read_as_they_are_but_for_one_line_end(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(TYPED.encode() + b"\r\n")
    assert TYPED == store("env:ANN").reveal("ann", "password")
    assert TYPED == store(f"file:{file}").reveal("ann", "password")


def test_what_was_set_a_moment_ago_is_found() -> None:
    assert TYPED == CredentialStore(Written({"password": "env:ANN"}, late=True), ENVIRONMENT).reveal("ann", "password")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("env:BEN", "env:BEN: is not set on this worker"),
        ("env:EMPTY", "env:EMPTY: is empty"),
        ("env:DROIDHERD_API__KEY", "env:DROIDHERD_API__KEY: may not be read"),
        ("file:/nowhere/at/all", "file:/nowhere/at/all: cannot be read on this worker: No such file"),
        ("file:/dev/zero", "cannot be read on this worker: it is not a regular file"),
        ("file:{folder}", "it is not a regular file"),
        ("file:{folder}/large", f"it has more than {SIZE_MAX} bytes"),
        ("file:{folder}/binary", "is not UTF-8"),
    ],
)
def test_what_is_not_there_is_a_final_error_that_names_the_reference(
    tmp_path: Path, reference: str, expected: str
) -> None:
    (tmp_path / "large").write_text(TYPED * SIZE_MAX)
    (tmp_path / "binary").write_bytes(b"\xff" + TYPED.encode())
    with pytest.raises(CredentialError) as refused:
        store(reference.format(folder=tmp_path)).reveal("ann", "password")
    assert (True, True) == (expected in str(refused.value), isinstance(refused.value, FinalError))
    assert TYPED not in str(refused.value)


@pytest.mark.parametrize(("account", "name"), [("ann", "pin"), ("ben", "password"), ("", "password")])
def test_a_credential_nobody_named_is_refused(account: str, name: str) -> None:
    with pytest.raises(CredentialError, match=f"has no credential {name}"):
        store("env:ANN").reveal(account, name)


def test_settings_say_where_references_may_lead(tmp_path: Path) -> None:
    below, beside = tmp_path / "secrets", tmp_path / "beside"
    below.mkdir()
    beside.write_text(TYPED)
    (below / "link").symlink_to(beside)
    with pytest.raises(CredentialError, match="keep it below"):
        store(f"file:{below}/link", directory=str(below)).reveal("ann", "password")
    with pytest.raises(CredentialError, match=r"set `credentials\.directory`"):
        store(f"file:{beside}", directory="").reveal("ann", "password")
    with pytest.raises(CredentialError, match="begins with HERD_"):
        store("env:ANN", env_prefix="HERD_").reveal("ann", "password")
    allowed = store("env:DROIDHERD_API__KEY", env_prefix="DROIDHERD_API")
    assert TYPED == allowed.reveal("ann", "password")


def test_what_was_revealed_is_masked_however_it_is_spelt() -> None:
    redactor = Redactor(store("env:ANN"), "ann")
    assert TYPED == redactor.masked(TYPED)
    redactor.reveal("password")
    keyed = base64.b64encode(TYPED.encode()).decode()
    for spelt in (TYPED, TYPED.replace(" ", "%s"), TYPED.replace("'", "'\\''"), repr(TYPED)[1:-1], keyed):
        assert f"typed {MASK}!" == redactor.masked(f"typed {spelt}!")


def test_a_secret_parameter_is_masked_like_a_credential() -> None:
    deep: list[JsonValue] = [{"api_key": {"id": 123456, "on": True}}]
    params: dict[str, JsonValue] = {"password": "hunter21", "deep": deep, "tab": "gift"}
    redactor = Redactor(store("env:ANN"), "ann")
    for text in secret_texts(params):
        redactor.hide(text)
    assert f"typed {MASK} and {MASK} in gift" == redactor.masked("typed hunter21 and 123456 in gift")
    assert {"password": MASK, "deep": [{"api_key": MASK}], "tab": "gift"} == shown_params(params)


@pytest.mark.parametrize(
    ("known", "given", "expected"),
    [
        ({"pin": "1", "tab": "a"}, {"pin": MASK, "tab": MASK}, {"pin": "1", "tab": MASK}),
        ({"pin": "1"}, {"pin": "2"}, {"pin": "2"}),
        ({}, {"pin": MASK}, {"pin": MASK}),
        ([{"pin": "1"}], [{"pin": MASK}], [{"pin": "1"}]),
        ([{"pin": "1"}], [{"pin": MASK}, {"pin": MASK}], [{"pin": MASK}, {"pin": MASK}]),
        ({"pin": {"a": 1}}, {"pin": MASK}, {"pin": {"a": 1}}),
    ],
)
def test_what_comes_back_masked_is_what_it_was(known: JsonValue, given: JsonValue, expected: JsonValue) -> None:
    assert expected == with_secrets_of(known, given)


def test_an_error_that_leaves_is_masked_with_all_it_came_from() -> None:
    redactor = Redactor(store("env:ANN"), "ann")

    def fail() -> None:
        with redactor:
            text = redactor.reveal("password")
            try:
                raise OSError(5, f"input: {text}")
            except OSError as error:
                raise CommandFailedError(f"said {text}", rc=1, to=text, remedy=text) from error

    with pytest.raises(CommandFailedError) as left:
        fail()
    error = left.value
    assert f"{MASK}: said {MASK} ({MASK})" == str(error)
    assert (f"said {MASK}",) == error.args
    assert (5, f"input: {MASK}") == (error.__cause__.args if error.__cause__ else ())
