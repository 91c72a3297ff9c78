"""Everything anybody sends to a workflow is read here: no message can fail a workflow task (docs/adr/0053).

The SDK decodes arguments before an interceptor sees them. What it cannot decode, and arguments that are too many, too
few or null, raise in the workflow task, which Temporal then tries again for ever. So `protected` has the SDK pass on
payloads as they are, and reads them itself, in front of each handler:

- a signal that cannot be read is dropped, logged and counted;
- an update is refused before it is accepted, and a query fails, with what is wrong and what is allowed;
- a start that cannot be read ends the workflow as failed (`BadInputError`), or goes to the workflow to say so itself;
- a start for which a key is missing, and an update that was accepted, wait for that key (`LockedValueError`);
- a signal of an unknown name is dropped instead of kept for a handler that may come;
- what a handler raises is a fault of ours: logged, and no reason for the workflow to stand still. Not what the SDK's
  sandbox raises: a forbidden call must be seen.

It stands on the SDK's definitions of handlers, which have no public way to be changed: see `pyproject.toml` for the
upper bound of `temporalio`.
"""

import asyncio
import dataclasses
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, FailureError
from temporalio.workflow._handlers import _QueryDefinition, _SignalDefinition, _UpdateDefinition

from droidherd.contracts import inbound, names
from droidherd.contracts.inbound import UnreadableError
from droidherd.domain.replay import LASTING

C = TypeVar("C", bound=type)
H = TypeVar("H", bound=Callable[..., Any])
D = TypeVar("D", _SignalDefinition, _UpdateDefinition, _QueryDefinition)
WAITS, WAITING = "_waits", "_waiting"
RAW: list[type] = [RawValue]
"""Also of what takes no argument: without types the SDK drops whatever was sent, and nobody could refuse it."""
BAD_INPUT = "BadInputError"
BAD_MESSAGE = "BadMessageError"
INTERNAL = "InternalError"
WAITING_MAX = 5
"""Updates that may wait for their answer at once, in one workflow. Temporal takes ten by default: the rest of them are
for those that are answered at once, a pause or a cancel."""
LARGE: Mapping[str, int] = {"Reports": inbound.START_BYTES, "DispatcherInput": 2 * inbound.START_BYTES}
"""Bytes: what a host's presence reports may list a thousand emulators; a full queue has a snapshot of 1.5 MB."""
SENDERS: ContextVar[Mapping[str, str]] = ContextVar("SENDERS", default={})  # noqa: B039 - never changed
"""Signals of this workflow task → the identity of the client that sent them. The guard knows it, a handler does not."""


RESET_NOW: ContextVar[bool] = ContextVar("RESET_NOW", default=False)
"""Whether this run was reset in Temporal just now, and gets once more what was said since. The guard sets it."""


class LockedValueError(RuntimeError):
    """What this workflow has to know is encrypted with a key that is not here. It waits for that key."""


def waits_when(waits: Callable[..., bool]) -> Callable[[H], H]:
    """When an update's handler would wait now: `waits` takes the same as the handler. Below `@workflow.update`."""

    def declare(handler: H) -> H:
        setattr(handler, WAITS, waits)
        return handler

    return declare


@dataclass(frozen=True, slots=True)
class Argument:
    """What a handler takes."""

    kind: Any
    default: Any = inspect.Parameter.empty

    @classmethod
    def of(cls, handler: Callable[..., Any]) -> "Argument | None":
        """None: it takes nothing."""
        parameters = list(inspect.signature(handler).parameters.values())[1:]
        if not parameters:
            return None
        if len(parameters) > 1:
            raise TypeError(f"{handler.__qualname__} takes {len(parameters)} arguments; a message carries one model")
        kind = get_type_hints(handler).get(parameters[0].name, Any)
        return cls(kind, parameters[0].default)


def protected(
    *, start: Any = None, state: Any = None, own: tuple[str, ...] = (), tells: bool = False, cancellable: bool = True
) -> "Callable[[C], C]":
    """Read everything that comes in. Above `@workflow.defn`.

    `start` and `state`: what a client starts it with, and what a run continues with, where these are not the same.
    `own`: fields of the input that only the run before hands over. They are not taken from anybody else.
    `tells`: it takes an `UnreadableError` in place of its input, and says so itself. Not `cancellable`: Temporal's
    cancel changes nothing.
    """

    def decorate(cls: C) -> C:
        definition: Any = workflow._Definition.must_from_class(cls)  # noqa: SLF001 (see above)
        for name, one in list(definition.signals.items()):
            definition.signals[name] = _signal(one)
        for name, one in list(definition.updates.items()):
            definition.updates[name] = _update(one)
        for name, one in list(definition.queries.items()):
            definition.queries[name] = _query(one)
        definition.signals[None] = _SignalDefinition(
            name=None, fn=_drop_unknown, is_method=True, arg_types=[str, Sequence[RawValue]]
        )
        _protect_start(cls, definition, _Start(Argument.of(definition.run_fn), start, state, own, tells, cancellable))
        return cls

    return decorate


def parameter_of(definition: Any) -> Argument | None:
    """What the handler behind a definition takes: the schemas and the tests ask."""
    return Argument.of(inspect.unwrap(definition.fn))


# --- messages -----------------------------------------------------------------------------------------------------


def _signal(definition: _SignalDefinition) -> _SignalDefinition:
    handler, name = definition.fn, str(definition.name)
    parameter = Argument.of(handler)
    if inspect.iscoroutinefunction(handler):
        raise TypeError(f"{handler.__qualname__} must not await: handlers change the state, the loop does the rest")

    def take(self: Any, *given: Any) -> None:
        try:
            _check_begun(self)
            _check_not_reset()
            arguments = _read(parameter, given, strict=True)
        except UnreadableError as error:
            _drop(name, str(error))
            return
        if not call_or_log(lambda: handler(self, *arguments), f"signal {name}"):
            _count(name)

    return _described(dataclasses.replace(definition, fn=_like(take, handler), arg_types=RAW))


def call_or_log(handle: Callable[[], object], what: str) -> bool:
    """Whether it raised nothing. A fault of ours must not stop the workflow for ever: it is logged."""
    try:
        handle()
    except (LockedValueError, workflow.NondeterminismError):
        raise
    except Exception:  # noqa: BLE001 (see above)
        workflow.logger.exception("%s raised an error, and is dropped", what)
        return False
    return True


def _update(definition: _UpdateDefinition) -> _UpdateDefinition:
    handler, check, name = definition.fn, definition.validator, str(definition.name)
    parameter = Argument.of(handler)
    waits: Callable[..., bool] | None = getattr(handler, WAITS, None)
    if inspect.iscoroutinefunction(handler) != (waits is not None):
        raise TypeError(f"{handler.__qualname__}: a handler that awaits, and no other, says when (`waits_when`)")

    def validate(self: Any, *given: Any) -> None:
        with _refusing(name):
            _check_begun(self)
            _check_not_reset()
            arguments = _read(parameter, given, strict=True)
            if check is not None:
                check(self, *arguments)
            if waits is not None and getattr(self, WAITING, 0) >= WAITING_MAX and waits(self, *arguments):
                text = f"{name}: {WAITING_MAX} others wait for an answer of this workflow: ask again in a second"
                raise ApplicationError(text, type=names.ASK_AGAIN, non_retryable=True)

    async def take(self: Any, *given: Any) -> Any:
        with _refusing(name):
            _check_unlocked(self)
            if lock := _missing_key_in(given):  # it was accepted, so it was read before: it is not to blame
                raise locked_value("what this workflow was told", lock)
            arguments = _read(parameter, given)
            result = handler(self, *arguments)
            if not inspect.isawaitable(result):
                return result
            setattr(self, WAITING, getattr(self, WAITING, 0) + 1)
            try:
                return await result
            finally:
                setattr(self, WAITING, getattr(self, WAITING) - 1)

    read = dataclasses.replace(definition, fn=_like(take, handler), validator=_like(validate, handler), arg_types=RAW)
    return _described(read)


def _query(definition: _QueryDefinition) -> _QueryDefinition:
    handler, name = definition.fn, str(definition.name)
    parameter = Argument.of(handler)

    def answer(self: Any, *given: Any) -> Any:
        with _refusing(name):
            _check_begun(self)
            return handler(self, *_read(parameter, given, strict=True, sparing=True))

    return _described(dataclasses.replace(definition, fn=_like(answer, handler), arg_types=RAW))


def _described(definition: D) -> D:
    """With what its docstring says first: the Web UI shows it to those who send a message."""
    first = (inspect.getdoc(definition.fn) or "").partition("\n")[0]
    return dataclasses.replace(definition, description=definition.description or first or None)


@contextmanager
def _refusing(name: str) -> Generator[None]:
    """What is wrong, as an error that its sender can read."""
    try:
        yield
    except UnreadableError as error:
        raise ApplicationError(f"{name}: {error}", type=BAD_MESSAGE, non_retryable=True) from None
    except (FailureError, LockedValueError, workflow.NondeterminismError):
        raise
    except Exception as error:
        workflow.logger.exception("the handler of %s raised an error", name)
        text = f"{name}: this is a fault of droidherd: {type(error).__name__}: {error}"
        raise ApplicationError(text, type=INTERNAL, non_retryable=True) from error


def _drop_unknown(_self: Any, name: str, _given: Sequence[RawValue]) -> None:
    _drop(name[: inbound.TEXT], "this workflow has no signal of this name")


def _drop(name: str, problem: str) -> None:
    sender = SENDERS.get().get(name) or "unknown"
    workflow.logger.warning("signal %r of sender %r is dropped: %s", name, sender, problem)
    _count(name)


def _count(_name: str) -> None:
    """Without the name, which anybody may choose."""
    workflow.metric_meter().create_counter("droidherd_signals_dropped", "signals that could not be read").add(1)


def _read(
    parameter: Argument | None, given: Sequence[Any], *, strict: bool = False, sparing: bool = False, most: int = 0
) -> tuple[Any, ...]:
    """The handler's arguments. `sparing`: what has a default need not be sent."""
    if parameter is None:
        if given:
            raise UnreadableError(f"it takes no argument, and {len(given)} were sent")
        return ()
    if len(given) > 1:
        raise UnreadableError(f"it takes one argument, and {len(given)} were sent")
    raw = given[0].payload if given and isinstance(given[0], RawValue) else None
    if given and raw is None:
        return tuple(given)
    if key := missing_key_of(raw):
        note_dropped(key)
        raise UnreadableError(inbound.locked(key))
    encoding = encoding_of(raw)
    if raw is None or encoding == inbound.NULL or (encoding == inbound.JSON and raw.data.strip() == b"null"):
        if parameter.default is not inspect.Parameter.empty:
            return (parameter.default,)
        if sparing and inbound.has_defaults(parameter.kind):
            return (parameter.kind(),)
        raise UnreadableError(f"it takes one argument, {_name_of(parameter.kind)}, and none was sent")
    most = LARGE.get(_name_of(parameter.kind), most or inbound.MESSAGE_BYTES)
    limits = inbound.MessageLimits(most, int(workflow.time() * 1000))
    return (inbound.read(parameter.kind, encoding, raw.data, limits, strict=strict),)


def encoding_of(payload: Any) -> str:
    return payload.metadata.get("encoding", b"").decode(errors="replace") if payload is not None else ""


def missing_key_of(payload: Any) -> str:
    """The id of the key that this is still encrypted with; empty: it can be read."""
    key = inbound.key_of(payload.metadata) if payload is not None else None
    return "" if key is None else key or "?"


def _missing_key_in(given: Sequence[Any]) -> str:
    return next((key for one in given if isinstance(one, RawValue) and (key := missing_key_of(one.payload))), "")


def locked_value(what: str, key: str) -> LockedValueError:
    """To be raised: `what` is encrypted with a key that is missing."""
    return LockedValueError(inbound.need_key(what, key))


def note_dropped(key: str) -> None:
    """For this key a message was dropped, or refused."""
    if (missing := inbound.MISSING.get()) is not None:
        missing.dropped.add(key)


def _name_of(kind: Any) -> str:
    return {str: "a text", int: "a whole number"}.get(kind) or getattr(kind, "__name__", "JSON")


def _like(wrapper: Callable[..., Any], handler: Callable[..., Any]) -> Callable[..., Any]:
    wrapper.__name__, wrapper.__qualname__, wrapper.__doc__ = handler.__name__, handler.__qualname__, handler.__doc__
    wrapper.__wrapped__ = handler  # type: ignore[attr-defined]
    return wrapper


# --- starts -------------------------------------------------------------------------------------------------------

REFUSED = "_refused"
ARGUMENTS = "_arguments"
WAITS_FOR_KEY = "_waits_for_key"
"""Its workflow tasks fail until the key is back with which its input is encrypted."""


@dataclass(frozen=True, slots=True)
class _Start:
    parameter: Argument | None
    kind: Any
    """What a client starts it with."""
    state: Any
    """What the run before hands over."""
    own: tuple[str, ...]
    """The same, where it is a part of one input."""
    tells: bool
    cancellable: bool


def continues() -> bool:
    """Whether the run before left the input. A retry or a cron of Temporal's own repeats what a client sent."""
    info = workflow.info()
    return bool(info.continued_run_id) and info.attempt == 1 and not info.cron_schedule


def _protect_start(cls: type, definition: Any, start: _Start) -> None:
    run = definition.run_fn

    async def live(self: Any, *given: Any) -> Any:
        _check_unlocked(self)
        if problem := getattr(self, REFUSED):
            raise ApplicationError(problem, type=BAD_INPUT, non_retryable=True)
        return await run(self, *getattr(self, ARGUMENTS, given))

    async def live_on(self: Any, *given: Any) -> Any:
        life = asyncio.create_task(live(self, *given))
        while not life.done():
            try:
                await workflow.wait_condition(life.done)
            except asyncio.CancelledError:
                workflow.logger.warning("Temporal's cancel changes nothing here: see docs/contract.md")
        return await life

    cls.__init__ = _init(cls.__init__, start)
    object.__setattr__(definition, "run_fn", _like(live if start.cancellable else live_on, run))
    object.__setattr__(definition, "arg_types", RAW)


def _init(begin: Callable[..., None], start: _Start) -> Callable[..., None]:
    def init(self: Any, *given: Any) -> None:
        setattr(self, REFUSED, "")
        setattr(self, WAITS_FOR_KEY, False)
        if not workflow.in_workflow():
            begin(self, *given)  # called by us, with values; what Temporal hands over is read, also if it is decoded
            return
        lock = _missing_key_in(given)
        if lock and (continues() or workflow.unsafe.is_replaying() or workflow.info().workflow_type not in LASTING):
            # Who sent it is not to blame: a schedule keeps its input for years. It goes on when that key is back.
            # But one that lasts and has not begun fails: its successor knows as much, and a forged one would stay.
            setattr(self, WAITS_FOR_KEY, True)
            setattr(self, REFUSED, str(locked_value("the input of this workflow", lock)))
            return
        try:
            arguments = _read_start(start, given)
        except UnreadableError as error:
            arguments = (error,)
            if not start.tells:
                setattr(self, REFUSED, f"the input of this workflow cannot be read: {error}")
                return
        setattr(self, ARGUMENTS, arguments)
        try:
            begin(self, *arguments)
        except workflow.NondeterminismError:
            raise
        except Exception as error:
            if continues():
                raise
            workflow.logger.exception("the workflow cannot begin with this input")
            setattr(self, REFUSED, f"this workflow cannot begin with this input: {type(error).__name__}: {error}")

    setattr(init, "__temporal_workflow_init", True)
    return _like(init, begin)


def _read_start(start: _Start, given: Sequence[Any]) -> tuple[Any, ...]:
    parameter = start.parameter
    if continues() and len(given) == 1 and parameter is not None:
        return (inbound.read_own(start.state or parameter.kind, given[0].payload.data),)
    if parameter is not None and start.kind is not None:
        parameter = Argument(start.kind)
    read = _read(parameter, given, strict=workflow.info().parent is None, most=inbound.START_BYTES)
    return tuple(_without(one, start.own) for one in read)


def _without(given: Any, own: tuple[str, ...]) -> Any:
    """What a client sent, without what is not for a client to say."""
    if not own or not isinstance(given, BaseModel):
        return given
    usual = {name: type(given).model_fields[name].get_default(call_default_factory=True) for name in own}
    if sent := [name for name in own if getattr(given, name) != usual[name]]:
        workflow.logger.warning("whoever started this also sent %s, which is not taken from a client", ", ".join(sent))
    return given.model_copy(update=usual)


def _check_not_reset() -> None:
    if RESET_NOW.get():
        raise UnreadableError("this workflow was reset in Temporal, and does not hear again what was said since")


def _check_unlocked(instance: Any) -> None:
    """Nothing of it was made but this: it can do nothing, and be told nothing."""
    if getattr(instance, WAITS_FOR_KEY, False):
        raise LockedValueError(getattr(instance, REFUSED))


def _check_begun(instance: Any) -> None:
    _check_unlocked(instance)
    if problem := getattr(instance, REFUSED, ""):
        raise UnreadableError(problem)
