"""A pattern that a value makes compute for long is tried beside the event loop: others are answered meanwhile."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from droidherd.domain.errors import FlowError
from droidherd.flows import patterns
from droidherd.settings import Flows
from tests.api.world import World

FLOW = """
flow: evil
app: com.example.herd
recorded: 1280x720
params:
  who: {pattern: '(a|aa)+$', example: aa}
stages:
  - stage: only
    on_ambiguous: repeat
    steps:
      - key: {name: back}
"""
VALUE = "a" * 60 + "b"
SUBMITTED = {"type": "evil", "params": {"who": VALUE}}
ROUNDS = 400
"""Each computes for a quarter of a second: so long an answer is waited for before the test fails."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Without an engine: a submission is judged before it is needed."""
    data = tmp_path_factory.mktemp("evil")
    (data / "flows" / "evil").mkdir(parents=True)
    (data / "flows" / "evil" / "flow.yaml").write_text(FLOW)
    world = World("127.0.0.1:9", "nobody", data, {"flows": Flows(paths=(str(data / "flows"),))})
    world.alone = True
    with world:
        yield world.url


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/tasks", SUBMITTED),
        ("/api/tasks", {"type": "check", "then": [SUBMITTED]}),
        ("/api/subscriptions", {"task": SUBMITTED, "every_s": 3600}),
    ],
    ids=["task", "chain", "subscription"],
)
def test_others_are_answered_while_an_evil_pattern_computes(
    url: str, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    computing, answered = threading.Event(), threading.Event()
    original = patterns.fullmatch

    def compute_until_others_are_answered(*args: Any) -> Any:
        if args[1] != VALUE:  # the example that the flow itself gives
            return original(*args)
        computing.set()
        for _ in range(ROUNDS):
            with pytest.raises(FlowError):
                original(*args)
            if answered.is_set():
                break
        return original(*args)

    monkeypatch.setattr(patterns, "fullmatch", compute_until_others_are_answered)
    with ThreadPoolExecutor(1) as threads:
        posted = threads.submit(httpx.post, f"{url}{path}", json=body, timeout=300)
        assert computing.wait(60), posted.result(60).text
        assert 200 == httpx.get(f"{url}/healthz", timeout=300).status_code
        assert not posted.done(), "it was answered only when the pattern had been tried"
        answered.set()
        refused = posted.result(300)
    assert 422 == refused.status_code
    assert "takes too long" in refused.text
