"""The connection to the engine: one converter and one way to connect, for workers and for the door."""

from temporalio.client import Client
from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
)
from temporalio.service import GrpcCompression, RetryConfig

from droidherd import telemetry
from droidherd.settings import Temporal

_JSON = PydanticJSONPlainPayloadConverter()


class Payloads(CompositePayloadConverter):
    """Of `temporalio.contrib.pydantic`, but its readers of types are made once per process, not once per workflow."""

    def __init__(self) -> None:
        """As cheap as it looks."""
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        super().__init__(*(_JSON if isinstance(one, JSONPlainPayloadConverter) else one for one in usual))


CONVERTER = DataConverter(payload_converter_class=Payloads)


async def connect(settings: Temporal, *, retries: RetryConfig | None = None, lazy: bool = False) -> Client:
    """A client of the engine. `lazy`: it connects when it is first used."""
    return await Client.connect(
        settings.address,
        namespace=settings.namespace,
        data_converter=CONVERTER,
        interceptors=[TracingInterceptor()] if telemetry.tracing() else [],
        retry_config=retries,
        # Messages are small and the engine is near: compressing them costs more than it saves.
        grpc_compression=GrpcCompression.NONE,
        lazy=lazy,
    )
