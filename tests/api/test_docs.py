"""docs/http.md names every route and every kind of problem."""

import re
from pathlib import Path

import httpx

from api.errors import URN, Kind

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
UNSAID = {Kind.INTERNAL, Kind.OTHER}


def test_every_route_is_on_the_page(http: httpx.Client):
    paths = http.get("/openapi.json").json()["paths"]
    for path in paths:
        ending = re.sub(r"^/api/(tasks|queue|emulators)(/\{[a-z_]+\})?/", "/", path)
        assert path in PAGE or ending.replace("{emulator_id}", "{id}").replace("{task_id}", "{id}") in PAGE, path


def test_every_kind_of_problem_is_on_the_page_with_its_code():
    for kind in set(Kind) - UNSAID:
        row = next((line for line in PAGE.splitlines() if line.startswith("|") and f"`{kind.slug}`" in line), "")
        assert str(kind.status) in row, kind.slug


def test_every_problem_on_the_page_exists():
    for slug in re.findall(re.escape(URN) + r"([a-z-]+)", PAGE):
        assert slug in {kind.slug for kind in Kind}
