"""The connection to Temporal: one data converter and one way to connect, for workers, the API and the command line."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import temporalio.converter
from google.protobuf.json_format import ParseError
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
)
from temporalio.envconfig import ClientConfigProfile
from temporalio.exceptions import ApplicationError
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig
from temporalio.service import GrpcCompression, RetryConfig
from typing_extensions import override

from droidherd import telemetry
from droidherd.contracts import inbound
from droidherd.contracts.base import Request
from droidherd.contracts.engine import PoolSettings
from droidherd.engine.codec import EncryptionCodec
from droidherd.engine.encryption import EncryptionKeys
from droidherd.engine.errors import MissingKeyError, UnavailableError
from droidherd.engine.tracing import TracingInterceptor
from droidherd.settings import Settings, Temporal

CORE = "temporalio.core"
"""The logger of the SDK's core."""
DETAIL_MAX = 2_000
"""Characters of one detail of what it writes."""


class _Json(PydanticJSONPlainPayloadConverter):
    """Sends of a request only what was set: a receiver of an older version then knows every field."""

    def to_payload(self, value: Any) -> Payload | None:
        if isinstance(value, Request):
            return super().to_payload(_set_fields(value))
        return super().to_payload(value)


def _set_fields(value: Any) -> Any:
    """The fields that were set, of requests alone: what a workflow knows changes in place, and is sent whole."""
    if isinstance(value, Request):
        return {name: _set_fields(getattr(value, name)) for name in sorted(value.model_fields_set)}
    if isinstance(value, tuple):
        return [_set_fields(one) for one in value]
    return value


_JSON = _Json()
TEXT_MAX = 16_000
"""Characters of what a failure says. Errors of ours are shorter (`droidherd/domain/errors.py`)."""
_SECURITY = ("tls", "api_key", "rpc_metadata")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What the clients of this package need to know about the process that uses them."""

    pool: str = "default"
    region: str = "default"
    workflow_task_s: float = 2.0
    """How long Temporal waits for a workflow's decision."""
    admission_s: float = 5.0
    """How long a submission waits for the dispatcher's answer."""
    answer_s: float = 2.5
    """How long any other question waits for a worker."""
    settings: PoolSettings = field(default_factory=PoolSettings)
    """What the operator set for the pool."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            pool=settings.host.pool,
            region=settings.host.region,
            workflow_task_s=settings.timing.workflow_task_s,
            admission_s=settings.api.admission_s,
            answer_s=settings.api.answer_s,
            settings=settings.pool_settings,
        )


class PayloadConverter(CompositePayloadConverter):
    """The converter of `temporalio.contrib.pydantic`, made once per process instead of once per workflow."""

    def __init__(self) -> None:
        """Reuses the JSON converter, whose type adapters are expensive to build."""
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        super().__init__(*(_JSON if isinstance(one, JSONPlainPayloadConverter) else one for one in usual))

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """Without type hints, what cannot be read stays as it is: who gets too many arguments refuses them."""
        if type_hints:
            try:
                return super().from_payloads(payloads, type_hints)
            except KeyError as error:  # an unknown encoding
                keys = [key for payload in payloads if (key := inbound.key_of(payload.metadata)) is not None]
                if keys:
                    raise MissingKeyError(inbound.need_key("a value", keys[0])) from error
                raise
        return [self._read_untyped(payload) for payload in payloads]

    def _read_untyped(self, payload: Payload) -> Any:
        try:
            return super().from_payloads([payload])[0]
        except (ValueError, KeyError, RuntimeError, DecodeError, ParseError):
            return RawValue(payload)


class _Converter(DataConverter):
    """Takes a payload that points to somebody's external storage as it is: we have none.

    The SDK raises where it finds one, in front of everything that could drop it: one such signal would stop a workflow
    for good.
    """

    @override
    async def _decode_reference_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    @override
    async def _external_retrieve_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)


class FailureConverter(DefaultFailureConverter):
    """Reads failures that anybody may have sent: who can reach Temporal can fail an activity with anything.

    What the SDK cannot read it raises, and so fails the workflow task for ever. What is too long a workflow would keep.

    Without its key a failure says neither what failed nor what is to follow: MissingKeyError. The SDK would pass it on
    with an empty message, and a task would end with that.
    """

    @override
    def from_failure(self, failure: Failure, payload_converter: temporalio.converter.PayloadConverter) -> BaseException:
        if key := next(_missing_keys(failure), None):
            raise MissingKeyError(inbound.need_key("a failure", key))
        if max(len(failure.message), len(failure.application_failure_info.type)) > TEXT_MAX:
            failure = _cut(failure)
        try:
            return super().from_failure(failure, payload_converter)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, DecodeError, ParseError) as error:
            text = f"a failure that cannot be read: {type(error).__name__}: {str(error)[:200]}"
            return ApplicationError(text, type="UnreadableFailureError", non_retryable=True)


class _SealedFailureConverter(FailureConverter):
    def __init__(self) -> None:
        """Messages and stack traces are encrypted with the payloads."""
        super().__init__(encode_common_attributes=True)


def _missing_keys(failure: Failure) -> Iterator[str]:
    """Of everything in a failure that is still encrypted. Of its causes the SDK asks when it reads them."""
    payloads = [
        *failure.application_failure_info.details.payloads,
        *failure.timeout_failure_info.last_heartbeat_details.payloads,
        *failure.canceled_failure_info.details.payloads,
        *([failure.encoded_attributes] if failure.HasField("encoded_attributes") else ()),
    ]
    for payload in payloads:
        if (key := inbound.key_of(payload.metadata)) is not None:
            yield key or "?"


def _cut(failure: Failure) -> Failure:
    short = Failure()
    short.CopyFrom(failure)
    short.message = failure.message[:TEXT_MAX]
    if failure.HasField("application_failure_info"):
        short.application_failure_info.type = failure.application_failure_info.type[:TEXT_MAX]
    return short


CONVERTER = _Converter(payload_converter_class=PayloadConverter, failure_converter_class=FailureConverter)


def converter_of(keys: EncryptionKeys) -> DataConverter:
    """With keys, payloads are encrypted, and the messages and stack traces of failures with them."""
    if not keys.secrets:
        return CONVERTER
    sealed = replace(CONVERTER, payload_codec=EncryptionCodec(keys))
    return replace(sealed, failure_converter_class=_SealedFailureConverter) if keys.active else sealed


class _CoreLines(logging.Filter):
    """What the core of the SDK writes beside a message becomes fields of the line."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        entry = vars(record).pop("temporal_log", None)
        if entry is not None:
            record.details = {name: str(value)[:DETAIL_MAX] for name, value in entry.fields.items()}
            record.target = entry.target
        return True


def core_runtime() -> Runtime:
    """The core of the SDK, which is written in Rust, writes its log through Python's logging, and no coloured lines.

    It hands over what it wrote every 10 ms, from a thread of its own: a process that ends by `os._exit` may lose what
    came last. A core that writes nothing costs nothing.
    """
    logger = logging.getLogger(CORE)
    if not logger.filters:
        logger.addFilter(_CoreLines())
    forwarding = LogForwardingConfig(
        logger, append_target_to_name=False, prepend_target_on_message=False, append_log_fields_to_message=False
    )
    return Runtime(telemetry=TelemetryConfig(logging=replace(LoggingConfig.default, forwarding=forwarding)))


def log_through_python() -> None:
    """For all clients of this process; to be called before the first one is made."""
    Runtime.set_default(core_runtime(), error_if_already_set=False)


async def connect(
    settings: Temporal, keys: EncryptionKeys, *, retries: RetryConfig | None = None, lazy: bool = False
) -> Client:
    """A client of Temporal. `lazy`: it connects when it is first used. Raises UnavailableError."""
    security = _security(settings)
    try:
        return await Client.connect(
            settings.address,
            namespace=settings.namespace,
            data_converter=converter_of(keys),
            interceptors=[TracingInterceptor()] if telemetry.tracing() else [],
            retry_config=retries,
            # Messages are small and the server is near: compressing them costs more than it saves.
            grpc_compression=GrpcCompression.NONE,
            lazy=lazy,
            **security,
        )
    except RuntimeError as error:
        secured = "with" if security.get("tls") else "without"
        raise UnavailableError(
            f"Temporal at {settings.address}, asked {secured} TLS, does not answer: {error}; is it there "
            "(`temporal.address`), and does it want TLS or a key (`temporal.profile`)?"
        ) from error


def _security(settings: Temporal) -> dict[str, Any]:
    """TLS and key of a server elsewhere, from the file and the variables of Temporal's own tools.

    Its address and the namespace stand in our settings alone. The embedded server wants neither TLS nor a key.
    """
    if settings.embedded:
        return {}
    try:
        profile = ClientConfigProfile.load(settings.profile or None).to_client_connect_config()
    except (RuntimeError, OSError) as error:
        name = settings.profile or "default"
        raise UnavailableError(f"the profile {name} of Temporal cannot be read: {error}") from error
    return {name: value for name, value in profile.items() if name in _SECURITY}
