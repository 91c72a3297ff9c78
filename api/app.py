"""The composition root of the door: settings → client → gateway → routes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from temporalio.service import RetryConfig

from api import auth, errors, starting
from api.account_views import AccountBody, Disabling
from api.accounts import Accounts
from api.audit import Book
from api.bodies import known_query
from api.gateway import Gateway
from api.handover import handing_over
from api.house import House
from api.limits import BodyLimit
from api.live import Live
from api.maintenance import Upkeep
from api.observe import Observed
from api.routes import accounts as account_routes
from api.routes import (
    answers,
    bulk,
    figures,
    files,
    fleet,
    health,
    maintenance,
    queue,
    requests,
    subscriptions,
    tasks,
)
from api.schedules import Schedules
from api.schemas import (
    Capacity,
    CleanupWish,
    Command,
    Insistence,
    LaneOrder,
    Precedence,
    Reply,
    Submit,
    Wish,
)
from api.subscribing import Wanted
from droidherd import __version__, telemetry
from droidherd.artifacts.store import DirectoryStore
from droidherd.connection import connect
from droidherd.contracts.queue import DispatcherInput
from droidherd.offer import catalogue_of
from droidherd.settings import Settings, load

RETRIES = RetryConfig(initial_interval_millis=50, max_interval_millis=500, max_elapsed_time_millis=2000, max_retries=2)
"""Short: who waits at a door wants to hear soon that nobody is in."""
ABOUT = "Durable tasks for fleets of Android emulators. Errors are RFC 9457 problem details with a stable `type`."


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application. Reads the settings of this process unless some are given."""
    chosen = settings or load()
    keys = auth.keys_of(chosen.api)
    auth.check_address(chosen.api.host, keys)
    roles = auth.roles_of(chosen.api, keys)
    catalogue_of(chosen).check_policies()
    app = FastAPI(
        title="droidherd", version=__version__, description=ABOUT, lifespan=_lifespan(chosen), redirect_slashes=False
    )
    errors.install(app)
    rooms = (tasks, requests, bulk, files, queue, figures, account_routes, fleet, subscriptions, maintenance, health)
    for room in rooms:
        app.include_router(room.router, dependencies=[Depends(known_query)])
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, most=chosen.api.max_body_bytes)
    app.add_middleware(auth.Guard, keys=keys, roles=roles)
    app.add_middleware(Observed)
    _describe_bodies(app)
    return app


def _lifespan(settings: Settings) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        traces = telemetry.start_traces(settings.telemetry, service="droidherd-api")
        client, known = await connect(settings.temporal, retries=RETRIES, lazy=True), _gateway_house(settings)
        engine, book = Gateway(client, known), Book(client, known)
        upkeep = Upkeep(client, book)
        accounts = Accounts(client, known, engine)
        schedules = Schedules(client, settings.physics.workflow_task_s)
        store = DirectoryStore(settings.artifact_directory)
        catalogue = catalogue_of(settings)
        live = Live(client, engine, store)
        app.state.house = House(engine, accounts, schedules, upkeep, book, live, catalogue, store, settings)
        telemetry.metrics.vitals.watch("api", settings.host.id, settings.data)
        async with handing_over(engine):
            yield
        telemetry.stop_traces(traces)

    return lifespan


def _gateway_house(settings: Settings) -> starting.House:
    told, physics = settings.queue.told(), settings.physics
    dispatcher = DispatcherInput(
        pool=settings.host.pool,
        **told.model_dump(),
        repeat_min_s=physics.repeat_min_s,
        rebuild_s=physics.rebuild_s,
        fence_s=physics.heartbeat_timeout_s,
    )
    return starting.House(
        pool=settings.host.pool,
        region=settings.host.region,
        workflow_task_s=physics.workflow_task_s,
        verdict_s=settings.api.verdict_s,
        answer_s=settings.api.answer_s,
        dispatcher=dispatcher,
        queue=told,
    )


def _describe_bodies(app: FastAPI) -> None:
    """Routes that read their bodies themselves still show them in OpenAPI."""
    make = app.openapi
    wishes = (Submit, Wish, Command, Capacity, LaneOrder, Precedence, Insistence, Reply, CleanupWish, Wanted)
    models = [*answers.SCHEMAS, *wishes, AccountBody, Disabling]

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = make()
            pairs: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "validation") for model in models]
            _, found = models_json_schema(pairs, ref_template="#/components/schemas/{model}")
            known = document.setdefault("components", {}).setdefault("schemas", {})
            document["components"]["schemas"] = found.get("$defs", {}) | known
        return app.openapi_schema or {}

    app.openapi = openapi
