"""What is wrong with what somebody wrote is a sentence: the field, what was given, what is allowed."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from api.accounts.schemas import AccountRequest
from api.queue.schemas import CapacityRequest
from api.subscriptions.schemas import SubscriptionRequest
from api.tasks.schemas import SubmitRequest
from droidherd.contracts.validation import explain
from droidherd.emulator.inventory import InventoryEntry
from droidherd.settings import load

NAME = "must have 1 to 64 characters of A-Z a-z 0-9 . _ -"
TABLE: list[tuple[type[BaseModel], dict[str, Any], str]] = [
    (SubmitRequest, {}, "type is missing"),
    (SubmitRequest, {"type": 7}, "type must be text"),
    (SubmitRequest, {"type": "a b"}, f"type is 'a b'; it {NAME}"),
    (SubmitRequest, {"type": "a", "notBefore": 1}, "notBefore is not known here; did you mean not_before?"),
    (SubmitRequest, {"type": "a", "on-busy": 1}, "on-busy is not known here; did you mean on_busy?"),
    (
        SubmitRequest,
        {"type": "a", "policy": {"zzz": 1}},
        "policy.zzz is not known here; known are: time_limit_s, retries, retry_on, backoff, backoff_s",
    ),
    (SubmitRequest, {"type": "a", "policy": {"retrys": 1}}, "policy.retrys is not known here; did you mean retries?"),
    (SubmitRequest, {"type": "a", "policy": {"retries": "x"}}, "policy.retries is 'x'; it must be a whole number"),
    (SubmitRequest, {"type": "a", "policy": {"retries": 21}}, "policy.retries is 21; it must be at most 20"),
    (
        SubmitRequest,
        {"type": "a", "policy": {"backoff": "never"}},
        "policy.backoff is 'never'; it must be one of: fixed, exponential",
    ),
    (SubmitRequest, {"type": "a", "priority": 11}, "priority is 11; it must be at most 10"),
    (SubmitRequest, {"type": "a", "priority": {"a": 1}}, "priority must be a whole number"),
    (SubmitRequest, {"type": "a", "critical": "yes?"}, "critical is 'yes?'; it must be true or false"),
    (SubmitRequest, {"type": "a", "on_busy": "shout"}, "on_busy is 'shout'; it must be one of: reject, queue"),
    (SubmitRequest, {"type": "a", "origin": "x" * 99}, f"origin is '{'x' * 40}…'; it must be one of: person, "),
    (
        SubmitRequest,
        {"type": "a", "not_before": "tomorrow"},
        "not_before is 'tomorrow'; it must be a time as in RFC 3339, with a time zone: 2026-11-20T08:00:00Z",
    ),
    (SubmitRequest, {"type": "a", "expires_at": "2026-13-40T08:00:00Z"}, "; it must be a time with a time zone, as "),
    (SubmitRequest, {"type": "a", "expires_at": 17}, "expires_at is 17; it must be a time with a time zone"),
    (SubmitRequest, {"type": "a", "requires": ["abi"]}, "requires.0 is 'abi'; it must be name=value, as abi=arm64"),
    (SubmitRequest, {"type": "a", "labels": {"a b": "c"}}, "labels.a b is 'a b'; it must be of 1 to 64 characters"),
    (SubmitRequest, {"type": "a", "params": []}, "params must be an object"),
    (SubmitRequest, {"type": "a", "then": [{"tpye": "b"}]}, "then.0.type is missing"),
    (SubmitRequest, {"type": "a", "mutex": ["a"] * 5}, "mutex has too many entries; at most 4 are taken"),
    (SubmitRequest, {"type": "a", "id": "\x1b[31m"}, rf"id is '\x1b[31m'; it {NAME}"),
    (SubmitRequest, {"type": "a", "actor": "a\nb"}, "actor must be one line of readable characters"),
    (CapacityRequest, {"lane": "a", "capacity": -1}, "capacity is -1; it must be at least 0"),
    (SubscriptionRequest, {"task": {"type": "a"}, "evry_s": 60}, "evry_s is not known here; did you mean every_s?"),
    (AccountRequest, {"credentials": {"password": "hunter2"}}, "credentials: password must be env:NAME or file:"),
    (InventoryEntry, {"emulator_id": "one"}, "address is missing"),
]
PYDANTIC = ("Input", "should", "valid", "Extra", "Field", "error", "{", "[type=")


@pytest.mark.parametrize(("model", "given", "expected"), TABLE)
def test_what_is_wrong_names_the_field_what_was_given_and_what_is_allowed(
    model: type[BaseModel], given: dict[str, Any], expected: str
):
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(json.dumps(given))
    sentence = explain(caught.value, model)
    assert expected in sentence
    assert [] == [word for word in PYDANTIC if word in sentence]
    assert "hunter2" not in sentence


def test_what_may_be_a_secret_is_not_repeated():
    class Secrets(BaseModel):
        params: dict[str, int]

    with pytest.raises(ValidationError) as caught:
        Secrets.model_validate({"params": {"pin": "hunter2"}})
    assert "params.pin must be a whole number" == explain(caught.value)


def test_settings_that_make_no_sense_are_all_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "droidherd.toml").write_text("virtual = 301\n[api]\nprot = 8801\n[telemetry]\nlog_level = 'LOUD'\n")
    with pytest.raises(ValueError, match="virtual") as caught:
        load()
    assert (
        "virtual must be at most 300; api.prot is not known here; did you mean port?; "
        "telemetry.log_level must be one of: DEBUG, INFO, WARNING, ERROR"
    ) == str(caught.value)
