"""The composition root of the API: settings → clients → routes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from temporalio.client import Client
from temporalio.service import RetryConfig

from api import auth, errors, reference
from api.accounts import routes as accounts
from api.accounts.schemas import AccountRequest, DisableRequest
from api.bodies import ActionRequest, known_query
from api.codec import routes as codec
from api.codec.routes import PayloadsModel
from api.emulators import routes as emulators
from api.emulators.frames import LatestFrames
from api.health import routes as health
from api.maintenance import routes as maintenance
from api.maintenance.routes import CleanupRequest
from api.middleware import BodyLimit, Observed
from api.queue import routes as queue
from api.queue.schemas import CapacityRequest, LaneOrderRequest, LaneRequest
from api.state import AppState, OpenWaits
from api.subscriptions import routes as subscriptions
from api.subscriptions.schemas import SubscriptionRequest
from api.tasks import bulk, files
from api.tasks import routes as tasks
from api.tasks.schemas import AnswerRequest, CancelRequest, PriorityRequest, RollbackActionRequest, SubmitRequest
from droidherd import __version__, telemetry
from droidherd.artifacts.store import DirectoryStore
from droidherd.engine.accounts import AccountsClient
from droidherd.engine.codec import EncryptionCodec
from droidherd.engine.connection import EngineConfig, connect
from droidherd.engine.emulators import EmulatorsClient
from droidherd.engine.encryption import EncryptionKeys
from droidherd.engine.maintenance import MaintenanceClient
from droidherd.engine.queue import QueueClient, handing_over_settings
from droidherd.engine.schedules import SubscriptionsClient
from droidherd.engine.tasks import TasksClient
from droidherd.flows.catalogue import catalogue_of
from droidherd.settings import Settings, load

RETRIES = RetryConfig(initial_interval_millis=50, max_interval_millis=500, max_elapsed_time_millis=2000, max_retries=2)
"""Short: a person waits for the answer."""
ABOUT = "Durable tasks for fleets of Android emulators. Errors are RFC 9457 problem details with a stable `type`."
ROUTERS = (
    tasks.router, tasks.other, bulk.router, files.router, queue.router, queue.figures, accounts.router,
    emulators.router, subscriptions.router, maintenance.router, codec.router, health.router, reference.router,
)  # fmt: skip
BODIES = (
    SubmitRequest, ActionRequest, CancelRequest, RollbackActionRequest, AnswerRequest, PriorityRequest, LaneRequest,
    CapacityRequest, LaneOrderRequest, AccountRequest, DisableRequest, SubscriptionRequest, CleanupRequest,
    PayloadsModel,
)  # fmt: skip
"""Models of bodies that routes read themselves."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application. Reads the settings of this process unless some are given."""
    chosen = settings or load()
    keys = auth.keys_of(chosen.api)
    auth.check_address(chosen.api.host, keys)
    roles = auth.roles_of(chosen.api, keys)
    catalogue_of(chosen).check_policies()
    encryption = EncryptionKeys.of(chosen)
    app = FastAPI(
        title="droidherd",
        version=__version__,
        description=ABOUT,
        lifespan=_lifespan(chosen, encryption),
        redirect_slashes=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    errors.install(app, ROUTERS)
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(known_query)])
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, most=chosen.api.max_body_bytes)
    app.add_middleware(auth.Guard, keys=keys, roles=roles, web_uis=auth.web_uis_of(chosen))
    app.add_middleware(Observed)
    reference.describe(app, BODIES, auth.OPEN, keys=bool(keys))
    return app


def _lifespan(settings: Settings, keys: EncryptionKeys) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        traces = telemetry.start_traces(settings.telemetry, service="droidherd-api")
        client = await connect(settings.temporal, keys, retries=RETRIES, lazy=True)
        state = _state(settings, client, EncryptionCodec(keys))
        app.state.droidherd = state
        telemetry.metrics.process.watch("api", settings.host.id, settings.data)
        async with handing_over_settings(state.queue):
            yield
        telemetry.stop_traces(traces)

    return lifespan


def _state(settings: Settings, client: Client, codec: EncryptionCodec) -> AppState:
    config = EngineConfig.of(settings)
    queue = QueueClient(client, config)
    emulator_client = EmulatorsClient(client, config, queue)
    store = DirectoryStore(settings.artifact_directory)
    return AppState(
        tasks=TasksClient(client, config, queue),
        queue=queue,
        emulators=emulator_client,
        accounts=AccountsClient(client, config),
        subscriptions=SubscriptionsClient(client, settings.timing.workflow_task_s),
        maintenance=MaintenanceClient(client, queue),
        frames=LatestFrames(emulator_client, store),
        catalogue=catalogue_of(settings),
        store=store,
        settings=settings,
        codec=codec,
        waits=OpenWaits(settings.api.waits_per_key),
    )
