"""Subscriptions in tests: made, shown, run by hand."""

from typing import Any

import httpx

ALL = "/api/subscriptions"
NEVER = {"every_s": 366 * 86_400}
"""Due so seldom that a test sees only what it starts by hand."""


def add(http: httpx.Client, name: str, **more: Any) -> dict[str, Any]:
    times = {} if {"cron", "every_s"} & more.keys() else NEVER
    body = {"id": name, "task": {"type": "tap_once", "account": name}, **times, **more}
    made = http.post(ALL, json=body)
    assert 201 == made.status_code, made.text
    return made.json()


def show(http: httpx.Client, name: str) -> dict[str, Any]:
    return http.get(f"{ALL}/{name}").json()


def tasks(http: httpx.Client, name: str, *states: str) -> list[dict[str, Any]]:
    """Oldest first, of its own."""
    found = http.get(f"{ALL}/{name}/tasks", params={"state": states, "limit": 500}).json()["tasks"]
    return sorted(found, key=lambda one: one["created_at"])


def run(http: httpx.Client, name: str) -> str:
    """By hand. The id of the task."""
    done = http.post(f"{ALL}/{name}/run", json={"actor": "ann"})
    assert (202, "started") == (done.status_code, done.json().get("outcome")), done.text
    return done.json()["task_id"]


def kind(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["type"].removeprefix("urn:droidherd:problem:")
