"""The codec endpoint: decrypts what Temporal's tools show, and encrypts what they send (docs/security.md)."""

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

from fastapi import APIRouter, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import Response
from temporalio.api.common.v1 import Payload

from api.answers import answer, answers, body
from api.bodies import require_body
from api.state import App

router: Final = APIRouter(prefix="/codec", tags=["codec"])

PAYLOADS_MAX: Final = 10_000


def _is_base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64") from None
    return text


Base64 = Annotated[str, AfterValidator(_is_base64)]


class PayloadModel(BaseModel):
    """One of Temporal's payloads, as its JSON has it: bytes in base64."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    metadata: dict[str, Base64] = Field(default_factory=dict, max_length=100)
    data: Base64 = ""


class PayloadsModel(BaseModel):
    """The body and the answer of Temporal's protocol for codec servers."""

    payloads: list[PayloadModel] = Field(default_factory=list[PayloadModel], max_length=PAYLOADS_MAX)


@router.post("/decode", responses=answers(PayloadsModel), openapi_extra=body(PayloadsModel))
async def decode(app: App, request: Request) -> Response:
    """Decrypt payloads. What is plain, or no key of ours opens, comes back as it is."""
    wanted = await require_body(PayloadsModel, request)
    found = await app.codec.decode([_payload(one) for one in wanted.payloads])
    return answer(PayloadsModel(payloads=[_shown(one) for one in found]))


@router.post("/encode", responses=answers(PayloadsModel), openapi_extra=body(PayloadsModel))
async def encode(app: App, request: Request) -> Response:
    """Encrypt payloads, so that the `temporal` command can send them. Where no key encrypts, they come back plain."""
    wanted = await require_body(PayloadsModel, request)
    sealed = await app.codec.encode([_payload(one) for one in wanted.payloads])
    return answer(PayloadsModel(payloads=[_shown(one) for one in sealed]))


def _payload(given: PayloadModel) -> Payload:
    metadata = {name: base64.b64decode(value) for name, value in given.metadata.items()}
    return Payload(metadata=metadata, data=base64.b64decode(given.data))


def _shown(payload: Payload) -> PayloadModel:
    return PayloadModel(metadata=_texts(payload.metadata), data=base64.b64encode(payload.data).decode())


def _texts(metadata: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in metadata.items()}
