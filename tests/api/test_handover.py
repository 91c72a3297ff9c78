"""Settings that changed reach the dispatcher when an API starts with them."""

from collections.abc import Generator
from contextlib import contextmanager

import httpx

from api.app import create_app
from droidherd.settings import Queue
from tests.api.test_figures import audit, lanes
from tests.api.waiting import eventually
from tests.api.world import World


@contextmanager
def started(world: World, **queue: int) -> Generator[None]:
    """Within, a second API of the same instance runs, with these settings of the queue."""
    app = create_app(world.settings.model_copy(update={"queue": Queue.model_validate(queue)}))
    lifespan = app.router.lifespan_context(app)
    world.run(lifespan.__aenter__())
    try:
        yield
    finally:
        world.run(lifespan.__aexit__(None, None, None))


def capacities(http: httpx.Client) -> tuple[int, int]:
    found = lanes(http)
    first, second = (found.get(name, {}).get("capacity", 0) for name in ("account", "anonymous"))
    return first, second


def test_an_api_that_starts_with_other_settings_hands_them_over(world: World, http: httpx.Client):
    assert 200 == http.post("/api/queue/resume").status_code, "there is a dispatcher"
    with started(world, account_capacity=41, ageing=7):
        eventually(lambda: capacities(http) == (41, 100))
    account = lanes(http)["account"]
    assert ("", 7) == (account["capacity_by"], account["ageing"])
    assert "capacity of account 100 → 41" in audit(http, action="configured")[0]["detail"]
    http.post("/api/queue/capacity", json={"lane": "account", "capacity": 3, "actor": "ann"})
    with started(world, account_capacity=42, anonymous_capacity=9):
        eventually(lambda: capacities(http)[1] == 9)
    assert (3, "ann") == (lanes(http)["account"]["capacity"], lanes(http)["account"]["capacity_by"])
    http.post("/api/queue/capacity", json={"lane": "account", "capacity": 42})
    with started(world):
        eventually(lambda: capacities(http) == (100, 100))
