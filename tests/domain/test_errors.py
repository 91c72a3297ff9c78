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
