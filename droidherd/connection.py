"""The connection to the engine: one converter and one way to connect, for workers and for the door."""

from typing import Any

from temporalio.client import Client
from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
)
from temporalio.envconfig import ClientConfigProfile
from temporalio.service import GrpcCompression, RetryConfig

from droidherd import telemetry
from droidherd.settings import Temporal

_JSON = PydanticJSONPlainPayloadConverter()
_SECURITY = ("tls", "api_key", "rpc_metadata")


class NoEngineError(Exception):
    """Nobody answers there, or not to us."""


class Payloads(CompositePayloadConverter):
    """Of `temporalio.contrib.pydantic`, but its readers of types are made once per process, not once per workflow."""

    def __init__(self) -> None:
        """As cheap as it looks."""
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        super().__init__(*(_JSON if isinstance(one, JSONPlainPayloadConverter) else one for one in usual))


CONVERTER = DataConverter(payload_converter_class=Payloads)


async def connect(settings: Temporal, *, retries: RetryConfig | None = None, lazy: bool = False) -> Client:
    """A client of the engine. `lazy`: it connects when it is first used. Raises NoEngineError."""
    security = _security(settings)
    try:
        return await Client.connect(
            settings.address,
            namespace=settings.namespace,
            data_converter=CONVERTER,
            interceptors=[TracingInterceptor()] if telemetry.tracing() else [],
            retry_config=retries,
            # Messages are small and the engine is near: compressing them costs more than it saves.
            grpc_compression=GrpcCompression.NONE,
            lazy=lazy,
            **security,
        )
    except RuntimeError as error:
        secured = "with" if security.get("tls") else "without"
        raise NoEngineError(
            f"the engine at {settings.address}, asked {secured} TLS, does not answer: {error}; is it there "
            "(`temporal.address`), and does it want TLS or a key (`temporal.profile`)?"
        ) from error


def _security(settings: Temporal) -> dict[str, Any]:
    """What an engine elsewhere wants to see, from the file and the variables of Temporal's own tools.

    Where it is and which namespace is ours stands in our settings alone. The engine of this house wants nothing.
    """
    if settings.embedded:
        return {}
    try:
        profile = ClientConfigProfile.load(settings.profile or None).to_client_connect_config()
    except (RuntimeError, OSError) as error:
        name = settings.profile or "default"
        raise NoEngineError(f"the profile {name} of Temporal cannot be read: {error}") from error
    return {name: value for name, value in profile.items() if name in _SECURITY}
