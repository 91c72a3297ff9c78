"""All flows there are: found in folders, read again when their files change."""

import hashlib
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from droidherd.contracts.changes import Change
from droidherd.contracts.plan import Plan, Policy, PolicyChange, Stage
from droidherd.contracts.screen_map import ScreenMap
from droidherd.contracts.validation import message_of
from droidherd.domain.errors import AddressRefusedError, BadParametersError, FlowError
from droidherd.domain.task.reaction import backoff_problem
from droidherd.domain.text import nearest
from droidherd.files.regular import open_regular
from droidherd.flows.lint.inspect import inspect
from droidherd.flows.lint.problems import LintProblem, errors_of
from droidherd.flows.loading.changes import CHANGES_MAX, changes, changing
from droidherd.flows.loading.document import place_of, texts, value_at
from droidherd.flows.loading.expansion import expand, expand_undo, requirements, screen_map_of, used_cleanups
from droidherd.flows.loading.folder import (
    FILE_BYTES_MAX,
    GALLERY,
    PAYLOADS,
    Signature,
    flow_folder,
    flow_folders,
    signature,
    uses_of,
)
from droidherd.flows.loading.loaded import CARRIED, LoadedFlow
from droidherd.flows.model.flow import Flow
from droidherd.flows.model.params import ACCOUNT, Param, checked_params, for_account, placeholders, substitute
from droidherd.flows.model.screens import WHOLE
from droidherd.flows.model.steps.base import Step
from droidherd.flows.model.steps.handlers import CallStep
from droidherd.flows.model.steps.registry import STEPS
from droidherd.handlers.registry import Registry, build_registry
from droidherd.settings import Settings
from droidherd.web.allow import AllowList

__all__ = ["GALLERY", "Catalogue", "PlannedFlow", "catalogue_of"]

log = logging.getLogger(__name__)
READ_WAIT_S = 15.0
"""Longer than the largest file takes to be read."""
AGAIN = "submit the task again"
DIGEST, DIGESTS_KEPT = 20, 5_000


@dataclass(frozen=True, slots=True)
class _Kept:
    signature: Signature
    loaded: LoadedFlow | None
    problem: str
    leans_on: Mapping[str, tuple[Path | None, Signature]]
    """The flows it uses: where they were, and as what."""
    warnings: tuple[LintProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    """The version of a flow that a task was planned with."""

    flow: str
    hash: str
    files: Mapping[str, str] | None = None
    """As in the plan of its stage; None: only the hash of the flow says whether its files are the same."""


class _Digests:
    """Of the content of files, computed again when a file changes. For several threads."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[int, int, str]] = {}

    def of(self, path: Path) -> str:
        try:
            stat = path.stat()
            known = self._known.get(path)
            if known is None or known[:2] != (stat.st_mtime_ns, stat.st_size):
                with open_regular(path, FILE_BYTES_MAX) as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()[:DIGEST]
                if len(self._known) >= DIGESTS_KEPT:
                    self._known.clear()
                known = self._known[path] = (stat.st_mtime_ns, stat.st_size, digest)
        except OSError as error:
            raise FlowError(f"cannot be read: {error.strerror}", to=path.name) from error
        return known[2]


class Catalogue:
    """Flows by name. A flow in an earlier path hides one of the same name in a later path; the gallery comes last."""

    def __init__(
        self,
        paths: Iterable[str | Path] = (),
        policies: Mapping[str, PolicyChange] = MappingProxyType({}),
        handlers: Registry | None = None,
        may_ask: Callable[[str], object] | None = None,
    ) -> None:
        """`paths` are folders of flows; they may appear and change later. `policies`: an operator's, by type.

        `may_ask` raises what stands against asking an address; without it nothing does.
        """
        self._policies = policies
        self._may_ask = may_ask
        self.handlers = handlers or build_registry()
        self._paths = (*(Path(path) for path in paths), GALLERY)
        self._locks: dict[Path, threading.Lock] = {}
        self._kept: dict[Path, _Kept] = {}
        self._digests = _Digests()

    def names(self) -> list[str]:
        """Every flow there is, sound or not."""
        return sorted({folder.name for path in self._paths for folder in flow_folders(path)})

    def flow(self, name: str) -> LoadedFlow:
        """The flow as it stands on disk now."""
        kept = self._current(name)
        if kept.loaded is None:
            raise FlowError(kept.problem)
        return kept.loaded

    def warnings(self, name: str) -> tuple[LintProblem, ...]:
        """What is odd about a flow, and does not keep it from running."""
        return self._current(name).warnings

    def _current(self, name: str) -> _Kept:
        folder = self._folder(name)
        try:
            with self._reading(folder):
                current = signature(folder)
                kept = self._kept.get(folder)
                if kept is None or kept.signature != current or self._leans_on(kept.leans_on) != kept.leans_on:
                    kept = self._kept[folder] = self._read(folder, current)
        except OSError as error:
            raise FlowError(f"{error.filename} cannot be read: {error.strerror}", to=name) from error
        return kept

    @contextmanager
    def _reading(self, folder: Path) -> Generator[None]:
        """One reader of a flow at a time. A folder that does not answer stops no other."""
        lock = self._locks.setdefault(folder, threading.Lock())
        if not lock.acquire(timeout=READ_WAIT_S):
            what = f"is still being read after {READ_WAIT_S:g} s"
            raise FlowError(what, to=folder.name, remedy=f"see whether the files in {folder} can be read")
        try:
            yield
        finally:
            lock.release()

    def params(self, name: str) -> Mapping[str, Param]:
        """What the flow may be told."""
        return self.flow(name).params

    def policy(self, flow: Flow, change: PolicyChange | None = None) -> Policy:
        """The flow's own, then as the operator wants it, then as this one submission does."""
        own = flow.policy
        policy = Policy(
            time_limit_s=own.time_limit,
            retries=own.retries,
            retry_on=own.retry_on,
            backoff=own.backoff,
            backoff_s=own.backoff_s,
        ).with_changes(self._policies.get(flow.flow), change)
        if problem := backoff_problem(policy.backoff, policy.backoff_s):
            raise BadParametersError(problem, to="policy.backoff_s")
        return policy

    def unsound_policies(self) -> Iterator[BadParametersError]:
        """What is wrong with an operator's policies: a type that is not there, a whole that makes no sense."""
        names = self.names()
        for name in self._policies:
            try:
                if name in names:
                    self.policy(self.flow(name).flow)
                else:
                    yield self._no_such_type(name, f"policies.{name}")
            except BadParametersError as error:
                error.to = f"policies.{name}.{error.to.removeprefix('policy.')}"
                yield error
            except FlowError:
                continue  # whoever submits it hears what is wrong with the flow

    def check_policies(self) -> None:
        """Raises BadParametersError for the first policy that nothing can follow."""
        for problem in self.unsound_policies():
            raise problem

    def plan(
        self, task_type: str, params: Mapping[str, JsonValue], change: PolicyChange | None = None, account: str = ""
    ) -> Plan:
        """Resolve a task type with its parameters, for whom it acts. BadParametersError names what does not fit."""
        loaded = self.flow(task_type)
        flow = loaded.flow
        given = for_account(params, account) if loaded.needs_account else params
        values = checked_params(loaded.params, given)
        policy = self.policy(flow, change)
        stages = tuple(
            _stage(loaded, number, values, policy.time_limit_s, self.handlers) for number in range(len(flow.stages))
        )
        _check_account(stages, account, self.handlers)
        self._check_addresses(stages, values)
        cleanup = (*_steps(loaded.cleanup or [], values, loaded), *used_cleanups(loaded, values))
        screen_map = _screen_map(loaded, values)
        common = [list(cleanup), screen_map.model_dump(mode="json") if screen_map else None]
        return Plan(
            task_type=task_type,
            flow=flow.flow,
            flow_hash=loaded.hash,
            app=flow.app or "",
            params=values,
            stages=tuple(
                one.model_copy(update={"files": self._files_named(loaded, [list(one.steps), list(one.undo), *common])})
                for one in stages
            ),
            cleanup=cleanup,
            screen_map=screen_map,
            policy=policy,
            requires=tuple(sorted(f"{name}={value}" for name, value in requirements(loaded).items())),
        )

    def check_files(self, planned: PlannedFlow) -> None:
        """FlowError when what the task may need of its flow is not there any more."""
        if planned.files is None:
            self._unchanged(planned)
        for name in planned.files or ():
            self._file(planned, name)

    def asset(self, planned: PlannedFlow, name: str) -> tuple[Path, tuple[int, int] | None]:
        """The file of an image of a planned flow, and the size of the screen it was cut from."""
        known = (planned.files or {}).get(name)
        if known is not None:
            width, _, height = known.partition("@")[2].partition("x")
            return self._file(planned, name), (int(width), int(height)) if height else None
        loaded = self._unchanged(planned)
        if name not in loaded.images:
            raise FlowError(f"the flow has no image {name[:120]}", to=planned.flow)
        return loaded.images[name], loaded.recorded_size(name)

    def payload(self, planned: PlannedFlow, name: str) -> Path:
        """A file that a planned flow carries."""
        if (key := f"{PAYLOADS}/{name}") in (planned.files or {}):
            return self._file(planned, key)
        found = self._unchanged(planned).payloads.get(name)
        if found is None:
            raise FlowError(f"the flow has no file {name[:120]}", to=planned.flow)
        return found

    def _unchanged(self, planned: PlannedFlow) -> LoadedFlow:
        """The flow, as long as it is the one that was planned."""
        loaded = self.flow(planned.flow)
        if loaded.hash != planned.hash:
            raise FlowError("changed on disk since the task was planned", to=planned.flow, remedy=AGAIN)
        return loaded

    def _file(self, planned: PlannedFlow, key: str) -> Path:
        """By its name alone: the plan holds all the rest, so the document may be another one, or broken, by now."""
        inside, name = (PAYLOADS, key.removeprefix(f"{PAYLOADS}/")) if key.startswith(f"{PAYLOADS}/") else ("", key)
        owner, mark, own = name.partition(CARRIED)
        folder = self._find(owner if mark else planned.flow)
        path = folder / inside / (own if mark else name) if folder else None
        if path is None or not path.is_file():
            raise FlowError(f"{key[:120]} was removed since the task was planned", to=planned.flow, remedy=AGAIN)
        if self._digests.of(path) != (planned.files or {}).get(key, "").partition("@")[0]:
            raise FlowError(f"{key[:120]} changed on disk since the task was planned", to=planned.flow, remedy=AGAIN)
        return path

    def _files_named(self, loaded: LoadedFlow, parts: Iterable[JsonValue]) -> dict[str, str]:
        """What of the flow's files these parts of a plan name, with digests; of an image also its recorded size."""
        words = {text for part in parts for _, text in texts(part, ())}
        found: dict[str, str] = {}
        for name in sorted(words & loaded.images.keys()):
            size = loaded.recorded_size(name)
            found[name] = self._digests.of(loaded.images[name]) + (f"@{size[0]}x{size[1]}" if size else "")
        for name in sorted(words & loaded.payloads.keys()):
            found[f"{PAYLOADS}/{name}"] = self._digests.of(loaded.payloads[name])
        return found

    def _folder(self, name: str) -> Path:
        found = self._find(name)
        if found is None:
            raise self._no_such_type(name, "type")
        return found

    def _find(self, name: str) -> Path | None:
        folders = (flow_folder(path, name) for path in self._paths)
        return next((folder for folder in folders if folder), None)

    def _read(self, folder: Path, current: Signature) -> _Kept:
        leans_on = self._leans_on(uses_of(folder, self._find))
        loaded, problems = inspect(folder, self.handlers, self._find)
        if loaded is None:
            return _Kept(current, None, "\n".join(map(str, errors_of(problems))), leans_on)
        for problem in problems:
            log.info("%s", problem)
        return _Kept(current, loaded, "", leans_on, tuple(problems))

    def _leans_on(self, names: Iterable[str]) -> dict[str, tuple[Path | None, Signature]]:
        """Where the flows of these names are now, and as what."""
        found = {name: self._find(name) for name in names}
        return {name: (path, signature(path) if path else ()) for name, path in found.items()}

    def check_type(self, name: str) -> None:
        """Raises BadParametersError when no flow has this name."""
        if name not in self.names():
            raise self._no_such_type(name, "type")

    def _no_such_type(self, name: str, to: str) -> BadParametersError:
        near = nearest(name, self.names())
        remedy = f"did you mean {near}?" if near else f"known are: {', '.join(self.names())}"
        return BadParametersError(f"there is no task type {name[:60]!r}", to=to, remedy=remedy)

    def _check_addresses(self, stages: tuple[Stage, ...], values: Mapping[str, JsonValue]) -> None:
        """Whether the servers that handlers are going to ask may be asked. Names the parameter that says whom."""
        if self._may_ask is None:
            return
        for path, address in self._addresses(stages):
            name = next((name for name, value in values.items() if value == address), "")
            try:
                self._may_ask(address)
            except (AddressRefusedError, BadParametersError) as error:
                to = f"params.{name}" if name else f"params of step {path}"
                raise BadParametersError(error.what, to=to, remedy=error.remedy) from error

    def _addresses(self, stages: tuple[Stage, ...]) -> Iterator[tuple[str, str]]:
        for stage in stages:
            for path, step in changing(STEPS.validate_python(stage.steps)):
                if isinstance(step, CallStep):
                    yield from ((path, address) for address in self.handlers.addresses(step.by, step.params))


def _steps(steps: JsonValue, values: Mapping[str, JsonValue], loaded: LoadedFlow) -> tuple[JsonValue, ...]:
    """Steps with the parameters in them, checked again: what fits a parameter need not fit a step."""
    _check(STEPS, substitute(steps, values), steps)
    whole = expand(steps, values, loaded)
    _check(STEPS, whole, steps)
    return tuple(whole)


def _check(model: TypeAdapter[Any], whole: JsonValue, written: JsonValue) -> None:
    """Says which parameter makes it impossible."""
    try:
        model.validate_python(whole)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]  # a parameter may be a secret
        place = place_of(detail, written)
        text = value_at(written, place)
        name = next(placeholders(text), "") if isinstance(text, str) else ""
        where = ".".join(str(part) for part in place)
        to = f"params.{name}" if name else "params"
        raise BadParametersError(f"makes an impossible step {where}: {message_of(detail)}", to=to) from error


def _screen_map(loaded: LoadedFlow, values: Mapping[str, JsonValue]) -> ScreenMap | None:
    screen_map = screen_map_of(loaded, values)
    if screen_map is not None:
        _check(WHOLE, screen_map.model_dump(), dict(loaded.screen_map))
    return screen_map


def _stage(
    loaded: LoadedFlow, number: int, values: Mapping[str, JsonValue], time_limit_s: float, handlers: Registry
) -> Stage:
    stage = loaded.flow.stages[number]
    steps = _steps(loaded.stages[number], values, loaded)
    parsed = STEPS.validate_python(steps)
    undo = _steps(loaded.undos[number] or [], values, loaded)
    return Stage(
        name=stage.stage,
        steps=steps,
        effect=stage.effect,
        on_ambiguous=stage.on_ambiguous,
        limit_s=time_limit_s if stage.limit is None else min(stage.limit, time_limit_s),
        changes=_changes(parsed, stage.stage, handlers),
        undo=(*undo, *expand_undo(loaded.stages[number], values, loaded), *_handlers_undo(parsed, handlers)),
        at=stage.at or "",
    )


def _changes(steps: tuple[Step, ...], stage: str, handlers: Registry) -> tuple[Change, ...]:
    for path, step in changing(steps):
        if isinstance(step, CallStep) and (problem := handlers.problem(step.by, step.params)[0]):
            raise BadParametersError(problem, to=f"params of step {path}")
    found = changes(steps, handlers)
    if len(found) > CHANGES_MAX:
        raise BadParametersError(f"changes {len(found)} things, at most {CHANGES_MAX} are allowed", to=f"stage {stage}")
    return found


def _check_account(stages: Iterable[Stage], account: str, handlers: Registry) -> None:
    """A handler's parameter `account` is the task's, too; and it may refuse what does not go with that account."""
    for stage in stages:
        for _, step in changing(STEPS.validate_python(stage.steps)):
            if not isinstance(step, CallStep):
                continue
            named = step.params.get(ACCOUNT)
            if named not in (None, "", account):
                task_account = f"account {account}" if account else "no account"
                what = f"handler {step.by} is told account {str(named)[:80]!r}, and the task acts for {task_account}"
                raise BadParametersError(what, to=ACCOUNT, remedy="let both name the same one")
            if why := handlers.refusal(step.by, step.params, account):
                raise BadParametersError(why, to=ACCOUNT)


def _handlers_undo(steps: tuple[Step, ...], handlers: Registry) -> Iterator[JsonValue]:
    """What handlers take back beside values, the last one first."""
    for _, step in reversed([*changing(steps)]):
        if isinstance(step, CallStep) and handlers.takes_back(step.by):
            yield {"call": {"by": step.by, "with": step.params, "undo": True}}


def catalogue_of(settings: Settings) -> Catalogue:
    """The flows that can be submitted by the settings of this process."""
    allow = AllowList.of(settings.web.allow)
    return Catalogue(settings.flows.paths, settings.policies, may_ask=allow.check)
