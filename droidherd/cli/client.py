"""The HTTP API as the command sees it: finds it, speaks to it, and turns its refusals into sentences."""

import getpass
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import httpx

from droidherd.cli.errors import CliError
from droidherd.cli.local.layout import Layout
from droidherd.cli.local.ports import HostPort
from droidherd.domain import ids
from droidherd.emulator.inventory import Inventory
from droidherd.files.regular import TEXT_BYTES_MAX, read_regular
from droidherd.processes import pidfile
from droidherd.settings import Settings

LISTS = {
    "tasks": "`droidherd task list` names the tasks there are",
    "emulators": "`droidherd emulator list` names the emulators there are",
    "subscriptions": "`droidherd subscription list` names the subscriptions there are",
    "accounts": "`droidherd account list` names the accounts that have a record",
}
"""What to do about a name that nothing has, by the part of the API that was asked."""
UNAUTHORIZED, NOT_FOUND = 401, 404
NO_KEY = "set DROIDHERD_API__KEY to yours, or `api.key_file` in droidherd.toml to a file that holds it"
WRONG_KEY = "it comes from DROIDHERD_API__KEY, `api.key_file`, or under your user name from `api.keys`"
_PATH = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+")
"""What people type stands in it as an id: nothing there may turn it into the address of something else."""
TIMEOUT_S = 40.0
"""Longer than the API itself waits for anything (`?wait=30s`)."""

SILENT = "does not answer"
NOT_UP = 3
"""Exit code when nothing runs, as service managers use it."""

Document = dict[str, Any]


class NotServingError(CliError):
    """The instance of this data directory is down, or still starting."""


class ApiRefusedError(CliError):
    """The API answered, and said no."""

    def __init__(self, what: str, *, remedy: str, status: int, problem: Document) -> None:
        """`problem` is what the API said about it, as RFC 9457 has it."""
        super().__init__(what, remedy=remedy)
        self.status = status
        self.problem = problem


class ApiClient:
    """One connection to the API."""

    def __init__(self, url: str, key: str = "", instance: str = "") -> None:
        """`key` is sent with every request when there is one; `instance` is where the address was found."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._has_key = bool(key)
        self.url = url
        self._of = f" of the instance in {instance}" if instance else ""
        # Proxies of the environment are for the outside; the instance is on this machine or named on purpose.
        self._http = httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False)

    @classmethod
    def of(cls, settings: Settings, url: str = "") -> Self:
        """Where the instance in this data directory says it serves, or where the settings say, or `url`.

        NotServingError when it does not serve: somebody else's instance may be at the default address.
        """
        if url:
            return cls(url, _key(settings))
        layout = Layout(settings.data.absolute())
        if not settings.api.model_fields_set:
            must_exist(layout)
        return cls(address_of(settings), _key(settings), str(layout.data))

    def get(self, path: str, **query: Any) -> Document:
        return self._ask("GET", path, params=_without_empty(query))

    def post(
        self, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None, **query: Any
    ) -> Document:
        return self._ask("POST", path, json=dict(body), headers=dict(headers or {}), params=_without_empty(query))

    def put(self, path: str, body: Mapping[str, Any]) -> Document:
        return self._ask("PUT", path, json=dict(body))

    def delete(self, path: str, body: Mapping[str, Any], **query: Any) -> Document:
        return self._ask("DELETE", path, json=dict(body), params=_without_empty(query))

    def text(self, path: str, accept: str) -> str:
        return self._request("GET", path, headers={"Accept": accept}).text

    def file(self, path: str) -> bytes:
        return self._request("GET", path).content

    def healthy(self, path: str = "/readyz") -> str:
        """Empty when all is well, else what is not."""
        try:
            answer = self._http.get(path, timeout=5)
        except httpx.HTTPError as error:
            return f"{SILENT} ({type(error).__name__})"
        return "" if answer.is_success else _refusal(answer)

    def pages(self, path: str, field: str, *, limit: int, **query: Any) -> Iterator[Document]:
        """The first `limit` rows of a list, page by page."""
        cursor, seen = "", 0
        while seen < limit:
            page = self.get(path, limit=min(limit - seen, 100), cursor=cursor, **query)
            rows = rows_of(page, field)
            yield from rows[: limit - seen]
            seen += len(rows)
            cursor = str(page.get("cursor") or "")
            if not cursor or not rows:
                return

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, **given: Any) -> Document:
        answer = self._request(method, path, **given)
        try:
            return cast("Document", answer.json())
        except ValueError as error:
            raise CliError(f"{self.url}{path} did not answer JSON; is that the droidherd API?") from error

    def _request(self, method: str, path: str, **given: Any) -> httpx.Response:
        if _PATH.fullmatch(path) is None:
            raise CliError(
                f"nothing is called so: {path.removeprefix('/api/')!r}",
                remedy=f"an id {ids.RULES[ids.PATTERN]}; {_remedy_of(path)}".rstrip("; "),
                code=2,
            )
        try:
            answer = self._http.request(method, path, **given)
        except httpx.TimeoutException as error:
            raise CliError(
                f"the API{self._of} at {self.url} does not answer in time", remedy="see `droidherd status`", code=NOT_UP
            ) from error
        except httpx.HTTPError as error:
            remedy = "start the instance with `droidherd up`, or name another with --url"
            raise CliError(f"the API{self._of} at {self.url} cannot be reached", remedy=remedy, code=NOT_UP) from error
        if not answer.is_success:
            problem = _problem(answer)
            what, remedy = _refusal(answer), _remedy(answer, path)
            if answer.status_code == UNAUTHORIZED:
                what = f"the API{self._of} at {self.url} {'does not know this key' if self._has_key else 'wants a key'}"
                remedy = WRONG_KEY if self._has_key else NO_KEY
            raise ApiRefusedError(what, remedy=remedy, status=answer.status_code, problem=problem)
        return answer


def unknown_names(api: ApiClient, *, types: Sequence[str] = (), emulator: str = "", pool: str = "") -> Iterator[str]:
    """What a filter that found nothing names, and nobody knows: nothing can ever fit it."""
    if types:
        known = {str(one.get("name")) for one in rows_of(api.get("/api/task-types"), "task_types")}
        yield from (f"no task type {one!r} is known; see `droidherd task types`" for one in types if one not in known)
    if pool and not rows_of(api.get("/api/emulators", pool=pool), "emulators"):
        yield f"no emulator of a pool {pool!r} is known"
    elif emulator and not _is_known(api, emulator):
        yield f"no emulator {emulator!r} is known; see `droidherd emulator list`"


def _is_known(api: ApiClient, emulator: str) -> bool:
    """Whether any pool has it."""
    try:
        api.get(f"/api/emulators/{emulator}")
    except ApiRefusedError as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True


def detail_of(answer: Document) -> str:
    """What an answer says that is more than yes."""
    return str(answer.get("detail") or "")


def rows_of(page: Any, field: str) -> list[Document]:
    rows = page.get(field) if isinstance(page, dict) else page
    return cast("list[Document]", rows) if isinstance(rows, list) else []


def _without_empty(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value not in (None, "", ())}


def must_exist(layout: Layout) -> None:
    """CliError where no instance has ever been."""
    if not layout.data.is_dir():
        raise CliError(
            f"there is no instance here: no data directory {layout.data}",
            remedy="start one with `droidherd up`, go to the folder of one, or name it with --data or --url",
            code=NOT_UP,
        )


def nothing_runs(data: Path | str) -> str:
    return f"nothing runs in {data}; start it with `droidherd up`"


def address_of(settings: Settings) -> str:
    """Where the API says that it serves, or where the settings say. NotServingError when neither does."""
    layout = Layout(settings.data.absolute())
    lives = {file.name for file in pidfile.read_all(layout.run) if file.lives()}
    served = urls_of(layout).get("api")
    if served and lives & {"up", "api"}:
        return served
    api = settings.api
    is_named = "host" in api.model_fields_set or ("port" in api.model_fields_set and api.port)
    has_instance = any(path.exists() for path in (layout.ports, layout.logs, Inventory(layout.data).path))
    if has_instance and not is_named:
        if "up" in lives:
            starting = f"the instance in {layout.data} is still starting"
            raise NotServingError(starting, remedy="see `droidherd status`", code=NOT_UP)
        raise NotServingError(nothing_runs(layout.data), code=NOT_UP)
    return f"http://{HostPort(api.host, api.port).reachable}"


def urls_of(layout: Layout) -> dict[str, str]:
    """Where the running instance says that its parts are; empty when none runs."""
    try:
        content = json.loads(layout.ready.read_text(encoding="utf-8"))
        return {name: url for name, url in content.items() if isinstance(url, str)}
    except (OSError, ValueError, AttributeError):
        return {}


def _key(settings: Settings) -> str:
    if settings.api.key or not settings.api.key_file:
        return settings.api.key or settings.api.keys.get(getpass.getuser(), "")
    try:
        return read_regular(Path(settings.api.key_file), TEXT_BYTES_MAX).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"`api.key_file` cannot be read: {error}") from error


def _problem(answer: httpx.Response) -> Document:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return cast("Document", found) if isinstance(found, dict) else {}


def _refusal(answer: httpx.Response) -> str:
    problem = _problem(answer)
    title = str(problem.get("title") or answer.reason_phrase)
    detail, fields = problem.get("detail"), rows_of(problem, "errors")
    text = f"{title}: {detail}" if isinstance(detail, str) and detail and not fields else title
    parts = problem.get("parts")
    if isinstance(parts, dict):  # of a readiness: what is not as it should be
        text = "; ".join(f"{name}: {why}" for name, why in cast("Document", parts).items() if why) or text
    if holder := problem.get("holder"):
        text += f"; held by {holder}"
    if fields:
        text += ": " + "; ".join(f"{_written(str(one.get('field')))}: {one.get('message')}" for one in fields)
    return f"{text} (HTTP {answer.status_code})"


def _written(field: str) -> str:
    """A field of a request as it was written: the option of the command that stands for it, if that was used."""
    name, _, rest = field.partition(".")
    for option in (f"--{name}".replace("_", "-"), f"--{name.removesuffix('s')}"):
        if any(word == option or word.startswith(f"{option}=") for word in sys.argv):
            return f"{option} {rest}".rstrip()
    return field


def _remedy_of(path: str) -> str:
    return LISTS.get(path.split("/")[2] if path.startswith("/api/") else "", "")


def _remedy(answer: httpx.Response, path: str) -> str:
    problem = _problem(answer)
    remedy = problem.get("remedy")
    if isinstance(remedy, str) and remedy:
        return remedy
    if answer.status_code == NOT_FOUND:
        return _remedy_of(path)
    wait = answer.headers.get("Retry-After")
    return f"try again in {wait} s" if wait else ""
