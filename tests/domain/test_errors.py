"""What errors say of themselves."""

import json

from droidherd.contracts.stage import StageFailure
from droidherd.domain.errors import FinalError, UnclassifiedError


def test_an_error_about_a_name_that_is_no_text_reaches_who_has_to_hear_of_it():
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    error = FinalError(f"{name} is no picture", to=name, remedy=f"take {name} away")
    failure = StageFailure(verdict=error.verdict, message=str(error), remedy=error.remedy)
    expected = r"caf\udce9: caf\udce9 is no picture (take caf\udce9 away)"
    assert expected == json.loads(failure.model_dump_json())["message"] == str(error)


def test_a_bug_with_such_a_name_is_reported_as_well():
    error = UnclassifiedError.of(ValueError(b"caf\xe9".decode("utf-8", "surrogateescape")))
    assert rb"ValueError: caf\udce9" in str(error).encode()


def test_an_error_that_quotes_an_emulator_holds_nothing_to_obey():
    quoted = "\x1b]0;owned\x07\x9b31m\u202egood\r\n\tends"
    error = FinalError(quoted, to=quoted, remedy=quoted)
    error.locate(quoted)
    shown = r"\x1b]0;owned\x07\x9b31m\u202egood"
    assert error.to == f"{shown}\n\tends"
    assert 4 == str(error).count(shown)
    assert all(char.isprintable() or char in "\n\t" for char in str(error))


def test_an_error_stays_short_however_much_of_it_is_spelt_out():
    assert 9_000 > len(str(FinalError("\u202e" * 100_000, to="\x1b" * 100_000)))
