"""What is encrypted, and what becomes of what cannot be decrypted."""

from dataclasses import replace

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from droidherd.contracts.tasks import TaskInput, TaskSpec
from droidherd.engine.codec import EncryptionCodec
from droidherd.engine.connection import CONVERTER, converter_of
from droidherd.engine.encryption import EncryptionKeys
from droidherd.engine.errors import MissingKeyError

OLD = EncryptionKeys("k1", {"k1": b"1" * 32})
BOTH = EncryptionKeys("k2", {"k2": b"2" * 32, "k1": b"1" * 32})
NEW = EncryptionKeys("k2", {"k2": b"2" * 32})
REQUEST = TaskInput(spec=TaskSpec(type="press", params={"pin": "canary"}))


async def sealed(keys: EncryptionKeys) -> Payload:
    [payload] = await converter_of(keys).encode([REQUEST])
    return payload


async def test_a_payload_says_its_key_and_nothing_else():
    payload = await sealed(OLD)
    assert {"encoding": b"binary/encrypted", "encryption-key-id": b"k1"} == dict(payload.metadata)
    assert b"canary" not in payload.SerializeToString()
    assert b"press" not in payload.SerializeToString()
    assert payload.data != (await sealed(OLD)).data, "equal texts must not look equal"
    assert [REQUEST] == await converter_of(OLD).decode([payload], [TaskInput])


async def test_after_a_new_key_what_the_old_one_encrypted_is_read():
    converter = converter_of(BOTH)
    assert [REQUEST] == await converter.decode([await sealed(OLD)], [TaskInput])
    assert b"k2" == (await sealed(BOTH)).metadata["encryption-key-id"]


async def test_plain_payloads_are_read_and_readers_write_plain_ones():
    plain = await CONVERTER.encode([REQUEST])
    assert [REQUEST] == await converter_of(OLD).decode(plain, [TaskInput])
    reader = converter_of(replace(OLD, active=""))
    assert plain == await reader.encode([REQUEST])
    assert [REQUEST] == await reader.decode([await sealed(OLD)], [TaskInput])


async def broken_ones() -> list[Payload]:
    """Of another key; with another key's id; changed in each part; cut; empty."""
    good = await sealed(OLD)
    renamed = Payload(metadata={**good.metadata, "encryption-key-id": b"k2"}, data=good.data)
    changed = [
        Payload(metadata=good.metadata, data=good.data[:at] + bytes([good.data[at] ^ 1]) + good.data[at + 1 :])
        for at in (0, 12, len(good.data) - 1)
    ]
    cut = [Payload(metadata=good.metadata, data=good.data[:size]) for size in (0, 11, 12, 20, 27)]
    nameless = Payload(metadata={"encoding": b"binary/encrypted"}, data=good.data)
    strange = Payload(metadata={"encoding": b"binary/encrypted", "encryption-key-id": b"\xff" * 9}, data=good.data)
    return [await sealed(EncryptionKeys("k1", {"k1": b"3" * 32})), renamed, *changed, *cut, nameless, strange]


async def test_what_cannot_be_decrypted_is_passed_on_as_it_came():
    broken = await broken_ones()
    assert broken == await EncryptionCodec(BOTH).decode(broken)


async def test_a_reader_learns_which_key_is_missing():
    for converter in (converter_of(NEW), CONVERTER):
        with pytest.raises(MissingKeyError, match=r"the key 'k1'.*keys_file"):
            await converter.decode([await sealed(OLD)], [TaskInput])


async def test_a_failure_says_nothing_without_the_key():
    def failed() -> None:
        raise ApplicationError("the canary sang", "another canary", type="PinError")

    converter, failure = converter_of(OLD), Failure()
    with pytest.raises(ApplicationError) as raised:
        failed()
    await converter.encode_failure(raised.value, failure)
    assert b"canary" not in failure.SerializeToString()
    assert b"test_codec.py" not in failure.SerializeToString(), "nor where it was raised"
    error = await converter.decode_failure(failure)
    assert isinstance(error, ApplicationError)
    assert ("the canary sang", "PinError", "another canary") == (error.message, error.type, error.details[0])
