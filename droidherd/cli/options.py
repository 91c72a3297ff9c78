"""Options that many commands share, and how they are read: which instance, which output, who asks and why."""

import getpass
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from rich.console import RenderableType
from rich.markup import escape

from droidherd.cli import output, values
from droidherd.cli.client import ApiClient, Document, unknown_names
from droidherd.cli.errors import CliError
from droidherd.domain.messages import OnBusy
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.settings import Settings, load

Data = Annotated[
    Path | None, typer.Option("--data", help="Data directory. Default: .droidherd", metavar="DIR", parser=values.folder)
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Url = Annotated[str, typer.Option("--url", help="The API. Default: the instance in the data directory.", metavar="URL")]
Reason = Annotated[str, typer.Option(help="Why. The audit keeps it.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")]
TaskId = Annotated[str, typer.Argument(help="Its id.", metavar="TASK")]

Param = Annotated[
    list[Any] | None,
    typer.Option(help="A parameter: name=value. The value may be JSON.", metavar="NAME=VALUE", parser=values.parameter),
]
Params = Annotated[
    Any, typer.Option(help="All parameters as one JSON object.", metavar="JSON", parser=values.json_object)
]
Wait = Annotated[
    float | None,
    typer.Option(
        help="Wait so long for it to end. Exit code 0 only if it completed.", metavar="TIME", parser=values.duration_s
    ),
]
Report = Annotated[
    Path | None,
    typer.Option("--junit", help="Write how it ended as JUnit XML.", metavar="FILE", parser=values.new_file),
]

FLOWS = Path("flows")
"""Where flows lie unless the settings say otherwise."""
FILE = "flow.yaml"

SHORT = "Short forms"
"""Under which the short forms stand together in `--help`."""


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What a task is like, wherever one is described: submitted now, or by a subscription."""

    account: Annotated[str, typer.Option(help="The account it acts for.")] = ""
    param: Param = None
    params: Params = None
    pool: Annotated[str, typer.Option(help="The pool it runs in. Default: default.")] = ""
    lane: Annotated[str, typer.Option(help="The lane it waits in. Default: account or anonymous.")] = ""
    priority: Annotated[
        int | None, typer.Option(min=1, max=10, help="1 is first. Default: 2; 5 for a subscription.")
    ] = None
    on_busy: Annotated[OnBusy | None, typer.Option(help="When the account is busy.")] = None
    emulator: Annotated[str, typer.Option(help="Run on this emulator only.")] = ""
    requires: Annotated[
        list[Any] | None,
        typer.Option(
            help="A label the emulator must have: name=value.", metavar="NAME=VALUE", parser=values.requirement
        ),
    ] = None
    mutex: Annotated[list[str] | None, typer.Option(help="Run while no other task holds this key.")] = None
    policy: Annotated[
        list[Any] | None,
        typer.Option(
            help="Overrides the policy of its type: time_limit_s=60, retries=0, backoff=fixed, backoff_s=5, or JSON.",
            metavar="NAME=VALUE",
            parser=values.policy,
        ),
    ] = None
    on_failure: Annotated[Literal["keep", "rollback"] | None, typer.Option(help="What happens to its changes.")] = None
    label: Annotated[
        list[Any] | None,
        typer.Option(help="A label to find it by: name=value.", metavar="NAME=VALUE", parser=values.pair),
    ] = None


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Which tasks are meant. Every filter must fit."""

    state: Annotated[list[TaskStatus] | None, typer.Option(help="Only in this state; may be repeated.")] = None
    kind: Annotated[list[str] | None, typer.Option("--type", help="Only of this type; may be repeated.")] = None
    account: Annotated[str, typer.Option(help="Only of this account.")] = ""
    label: Annotated[
        list[Any] | None,
        typer.Option(help="Only with name=value; may be repeated.", metavar="NAME=VALUE", parser=values.requirement),
    ] = None
    lane: Annotated[str, typer.Option(help="Only of this lane.")] = ""
    pool: Annotated[str, typer.Option(help="Only of this pool.")] = ""
    emulator: Annotated[str, typer.Option(help="Only on this emulator.")] = ""
    subscription: Annotated[str, typer.Option(help="Only of this subscription.")] = ""

    def warn(self, api: ApiClient) -> None:
        """Of what they name and nobody knows, once they found nothing."""
        tell_unknown(unknown_names(api, types=self.kind or (), emulator=self.emulator, pool=self.pool))

    def query(self) -> Document:
        """As the API wants it."""
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        return without_empty({"type": named.pop("kind"), **named})


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Which instance a command speaks to, and how it answers."""

    data: Data = None
    url: Url = ""
    as_json: Json = False

    def open(self) -> ApiClient:
        return open_api(self.data, self.url)

    def show(self, document: Any, text: RenderableType) -> None:
        """The document for programs, the text for people."""
        if self.as_json:
            output.emit(document)
        else:
            output.out.print(text, markup=False if isinstance(text, str) else None)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Lets a command take the fields of a dataclass as options: what has this type gets one, filled in."""
    signature = inspect.signature(command, eval_str=True)
    models: dict[str, Any] = {
        name: one.annotation for name, one in signature.parameters.items() if is_dataclass(one.annotation)
    }

    def called(**given: Any) -> None:
        for name, model in models.items():
            given[name] = model(**{one.name: given.pop(one.name) for one in fields(model)})
        command(**given)

    parameters: list[inspect.Parameter] = []
    for name, one in signature.parameters.items():
        if name not in models:
            parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(models[name], include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )
            for field in fields(models[name])
        ]
    called.__name__, called.__doc__, called.__annotations__ = command.__name__, command.__doc__, {}
    setattr(called, "__signature__", signature.replace(parameters=parameters))  # noqa: B010 (as `inspect` wants it)
    return called


def settings_of(data: Path | None, virtual: int | None = None, **groups: Mapping[str, Any] | None) -> Settings:
    """The settings of this command, its flags included. Says which instance is meant when it is not the one here."""
    try:
        settings = load(data=data, virtual=virtual, **groups)
        if data is None and settings.data.absolute().parent != Path.cwd():
            output.err.print(f"[dim]instance {escape(str(settings.data.absolute()))}[/dim]")
        return settings  # noqa: TRY300 - what is said above belongs to what was read
    except ValueError as error:
        raise CliError(f"the settings do not make sense: {error}", remedy="see docs/operations.md", code=2) from error


def flow_folders(settings: Settings) -> list[Path]:
    """Where the instance reads flows, as one would name it from here."""
    here = Path.cwd()
    found = [Path(one).absolute() for one in settings.flows.paths] or [FLOWS]
    return [one.relative_to(here) if one.is_relative_to(here) else one for one in found]


def unread_flows(settings: Settings) -> Iterator[str]:
    """What is odd about the folders of flows: one that was named is not there, or those of this folder are not read."""
    folders = [Path(one).absolute() for one in settings.flows.paths]
    if "paths" in settings.flows.model_fields_set:
        yield from (f"flows.paths: there is no folder {one}" for one in folders if not one.is_dir())
    here = FLOWS.absolute()
    if here not in folders and any(here.glob(f"*/{FILE}")):
        read = ", ".join(map(str, folders)) or "no folder"
        yield f"the flows in {here} are not read: this instance reads {read}"


def tell_unknown(sentences: Iterable[str]) -> None:
    """On standard error: an empty answer is an answer."""
    for one in sentences:
        output.err.print(one, markup=False)


def open_api(data: Path | None, url: str) -> ApiClient:
    """The API of the instance that is meant."""
    return ApiClient.of(settings_of(data), url)


def signature(reason: str) -> Document:
    """Who asks, and why."""
    return {"reason": reason, "actor": getpass.getuser()}


def without_empty(values: Mapping[str, Any]) -> Document:
    """Without the empty values: the API decides about the rest."""
    return {name: value for name, value in values.items() if value not in (None, "", [], (), {}, False)}
