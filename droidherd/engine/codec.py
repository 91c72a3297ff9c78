"""Encrypts what droidherd sends to Temporal, and decrypts what comes back: AES-256-GCM, key by key (docs/adr/0070).

A payload says in its metadata that it is encrypted, and with which key. Plain payloads are read as they are. What
cannot be decrypted is passed on as it came: a workflow drops or refuses it as a message (`workflows/inbound.py`), and
everybody else says which key is missing.
"""

import secrets
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec
from typing_extensions import override

from droidherd.contracts import inbound
from droidherd.engine.encryption import EncryptionKeys

NONCE_BYTES = 12


class EncryptionCodec(PayloadCodec):
    """Encrypts each payload whole, its metadata included. The id of the key is authenticated with it."""

    def __init__(self, keys: EncryptionKeys) -> None:
        self._active = keys.active
        self._ciphers = {name: AESGCM(key) for name, key in keys.secrets.items()}

    @override
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        if not self._active:
            return list(payloads)
        return [self._encrypt(payload) for payload in payloads]

    @override
    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._decrypt(payload) for payload in payloads]

    def _encrypt(self, payload: Payload) -> Payload:
        name, nonce = self._active.encode(), secrets.token_bytes(NONCE_BYTES)
        sealed = self._ciphers[self._active].encrypt(nonce, payload.SerializeToString(), name)
        metadata = {"encoding": inbound.ENCRYPTED.encode(), inbound.KEY_ID: name}
        return Payload(metadata=metadata, data=nonce + sealed)

    def _decrypt(self, payload: Payload) -> Payload:
        """As it came, when it is plain, or when no key of ours opens it."""
        key = inbound.key_of(payload.metadata)
        cipher = self._ciphers.get(key) if key is not None else None
        if key is None or cipher is None:
            return payload
        nonce, sealed = payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:]
        try:
            return Payload.FromString(cipher.decrypt(nonce, sealed, key.encode()))
        except (InvalidTag, ValueError, DecodeError):
            return payload
