"""One trace from the request to the stage on the emulator."""

import httpx
from opentelemetry.sdk.trace import ReadableSpan

from tests.api.waiting import eventually
from tests.support.spans import remember_spans

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_submission_and_its_stage_are_one_trace_with_the_callers(http: httpx.Client):
    spans = remember_spans()
    made = http.post("/api/tasks", json={"type": "tap_once"}, headers={"traceparent": PARENT})
    http.get(f"/api/tasks/{made.json()['id']}", params={"wait": "60s"})

    def mine() -> dict[str, ReadableSpan]:
        found = spans.get_finished_spans()
        return {one.name: one for one in found if one.context and f"{one.context.trace_id:032x}" == PARENT[3:35]}

    known = eventually(lambda: mine() if {"RunActivity:run_stage", "POST /api/tasks"} <= set(mine()) else None)
    path, one = list[str](), known.get("RunActivity:run_stage")
    while one is not None:
        path.append(one.name)
        above = one.parent.span_id if one.parent else 0
        one = next((span for span in known.values() if span.context and span.context.span_id == above), None)
    assert ("RunActivity:run_stage", "POST /api/tasks") == (path[0], path[-1])
    root = known["POST /api/tasks"]
    assert root.parent is not None
    assert (PARENT[36:52], 201) == (
        f"{root.parent.span_id:016x}",
        (root.attributes or {}).get("http.response.status_code"),
    )


def test_a_traceparent_that_is_rubbish_does_no_harm(http: httpx.Client):
    for rubbish in ("", "00-x-y-z", "é", "0" * 5000):
        headers = httpx.Headers([(b"traceparent", rubbish.encode("latin-1"))])
        assert 200 == http.get("/healthz", headers=headers).status_code
