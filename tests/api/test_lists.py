"""Lists of tasks: filters, pages, counts, and queries nobody can break out of."""

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from droidherd.engine.errors import CursorError
from droidherd.engine.visibility import TaskFilters, as_cursor, from_cursor, query_for, quote
from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually
from tests.api.world import World


def test_tasks_are_filtered(world: World, http: httpx.Client):
    with world.holding("list-1"):
        mine = submit(http, "list-1", labels={"team": "red", "run": "7"}).json()["id"]
        until(http, mine, "running")
        submit(http, labels={"team": "blue"})
        for params in (
            {"account": "list-1"},
            {"label": "team=red"},
            {"label": ["team=red", "run=7"]},
            {"account": "list-1", "state": "running", "type": "tap_once", "lane": "account", "pool": "default"},
            {"account": "list-1", "state": ["running", "paused"]},
        ):
            found = eventually(lambda params=params: _ids(http, **params))
            assert [mine] == found, params
        for params in ({"account": "list-1", "state": "failed"}, {"label": ["team=red", "team=blue"]}):
            assert [] == _ids(http, **params), params
    until(http, mine, "completed")
    assert [mine] == eventually(lambda: _ids(http, account="list-1", state="completed"))


def test_a_list_is_paged_and_counted(http: httpx.Client):
    made = {submit(http, f"page-{number}", labels={"page": "all"}).json()["id"] for number in range(5)}
    eventually(lambda: len(_ids(http, label="page=all")) == len(made))
    seen: list[str] = []
    cursor = ""
    for _ in range(3):
        page = http.get("/api/tasks", params={"label": "page=all", "limit": 2, "cursor": cursor, "count": True}).json()
        seen += [one["task_id"] for one in page["tasks"]]
        cursor = page["cursor"]
        assert 5 == page["count"]
    assert (made, 5, "") == (set(seen), len(seen), cursor)


def test_a_cursor_of_another_list_is_refused(http: httpx.Client):
    for number in range(2):
        submit(http, f"cursor-{number}", labels={"cursor": "yes"})
    page = eventually(lambda: http.get("/api/tasks", params={"label": "cursor=yes", "limit": 1}).json()["cursor"])
    for cursor in (page, "rubbish", "é", "A" * 16, page[:-4] + "AAAA"):
        params = {"account": "x", "cursor": cursor} if cursor == page else {"cursor": cursor}
        answer = http.get("/api/tasks", params=params)
        assert (422, ["cursor"]) == (answer.status_code, [one["field"] for one in answer.json()["errors"]])


def test_a_cursor_whose_inside_was_changed_is_refused(http: httpx.Client):
    query = query_for(TaskFilters())
    answer = http.get("/api/tasks", params={"cursor": as_cursor(b"not a token", query)})
    assert (422, ["cursor"]) == (answer.status_code, [one["field"] for one in answer.json()["errors"]])


@pytest.mark.parametrize(
    "params",
    [
        {"account": "x' OR 'a'='a"},
        {"type": "a\nb"},
        {"label": "no-equals-sign"},
        {"label": "a=b'c"},
        {"state": "sleeping"},
        {"limit": "0"},
        {"limit": "501"},
        {"lane": "\x00"},
    ],
)
def test_a_filter_that_makes_no_sense_names_its_field(http: httpx.Client, params: dict[str, str]):
    answer = http.get("/api/tasks", params=params)
    assert 422 == answer.status_code
    assert [next(iter(params))] == [one["field"].partition(".")[0] for one in answer.json()["errors"]]


def test_a_task_of_a_foreign_client_with_rubbish_in_it_spoils_no_list(world: World, http: httpx.Client):
    attributes = TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword("TaskState"), "nonsense"),
            SearchAttributePair(SearchAttributeKey.for_keyword("AccountId"), "foreign-1"),
        ]
    )
    start = world.client.start_workflow(
        "TaskWorkflow",
        {"spec": {"type": "tap_once", "account": "foreign-1", "not_before": "2099-01-01T00:00:00Z"}},
        id="foreign-1",
        task_queue="droidherd",
        memo={"task": ["rubbish"], "request": 7},
        search_attributes=attributes,
    )
    world.run(start)
    assert ["foreign-1"] == eventually(lambda: _ids(http, account="foreign-1"))
    assert 200 == http.get("/api/tasks/foreign-1").status_code
    assert 200 == http.post("/api/tasks/foreign-1/cancel").status_code


def test_a_workflow_of_somebody_else_is_no_task(world: World, http: httpx.Client):
    start = world.client.start_workflow("Elsewhere", id="elsewhere-1", task_queue="nobody")
    world.run(start)
    with world.hasty():
        assert 404 == http.get("/api/tasks/elsewhere-1").status_code
        assert 404 == http.post("/api/tasks/elsewhere-1/cancel").status_code
    history = world.run(world.client.get_workflow_handle("elsewhere-1").fetch_history())
    assert 2 == len(history.events), "nothing was sent to it"
    world.run(world.client.get_workflow_handle("elsewhere-1").terminate())
    with world.hasty():
        assert 404 == http.get("/api/tasks/elsewhere-1").status_code


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_no_text_leaves_its_quotes(text: str):
    try:
        inside = quote(text)
    except ValueError:
        return
    assert f"'{text}'" == inside
    assert not set(text) & set("'\"\\\n\r\0 ")


@given(st.binary(min_size=1, max_size=200))
def test_a_cursor_gives_back_its_token(token: bytes):
    assert token == from_cursor(as_cursor(token, "q"), "q")


@given(st.text(min_size=1, max_size=60))
def test_a_made_up_cursor_is_refused(text: str):
    with pytest.raises(CursorError):
        from_cursor(text, "WorkflowType = 'TaskWorkflow'")


def _ids(http: httpx.Client, **params: str | list[str]) -> list[str]:
    return [one["task_id"] for one in http.get("/api/tasks", params=params).json()["tasks"]]
