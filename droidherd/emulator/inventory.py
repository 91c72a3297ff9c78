"""The host's list of emulators: one small file that people and programs may edit."""

import logging
import os
import re
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from droidherd.contracts.base import Id
from droidherd.contracts.validation import explain
from droidherd.domain.errors import BadParametersError, EmulatorLostError
from droidherd.files.regular import TEXT_BYTES_MAX, read_regular

log = logging.getLogger(__name__)

FILE = "emulators.json"
EMULATORS_LIMIT = 1000
LOCK_WAIT_S = 5.0
LOCK_STALE_S = 10.0
_ADDRESS = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]{2,45}\]):([0-9]{1,5})")
_PORT_LIMIT = 65_535

LabelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
LabelValue = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


class InventoryEntry(BaseModel):
    """One emulator as this host knows it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    emulator_id: Id
    address: str
    """Where adb reaches it now: `127.0.0.1:16384`."""
    serialno: Annotated[str, StringConstraints(pattern=r"^[^\s]{0,128}$")] = ""
    """Who must answer there (`ro.serialno`); empty: not known yet."""
    labels: dict[LabelName, LabelValue] = Field(default_factory=dict, max_length=50)
    controller: Id = "none"
    """Who starts and stops it."""
    instance: Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9_.][A-Za-z0-9 _.-]{0,63})?$")] = ""
    """What its vendor calls it: the number of an instance, the name of an AVD."""

    @field_validator("address")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        found = _ADDRESS.fullmatch(value)
        if found is None or not 0 < int(found[1]) <= _PORT_LIMIT:
            raise ValueError(f"{value!r} is not an address; write host:port, for example 127.0.0.1:5555")
        return value


class Content(BaseModel):
    """The whole file."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    emulators: tuple[InventoryEntry, ...] = Field(default=(), max_length=EMULATORS_LIMIT)


Stamp: TypeAlias = tuple[int, int, int, int]
"""Inode, both times and size of a file."""


class Inventory:
    """The list in one data directory. Every change replaces the file as a whole."""

    def __init__(self, data: Path) -> None:
        """The file need not exist yet."""
        self.path = data / FILE
        self._last: tuple[Stamp | None, tuple[InventoryEntry, ...]] = None, ()
        """What the file was like when it was last read, and what it said. One value: many threads look."""
        self._trouble = ""

    def load(self) -> tuple[InventoryEntry, ...]:
        try:
            text = read_regular(self.path, TEXT_BYTES_MAX).decode()
        except FileNotFoundError:
            return ()
        except UnicodeDecodeError as error:
            raise BadParametersError("is not UTF-8", to=str(self.path), remedy="save it as UTF-8") from error
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            raise BadParametersError(what, to=str(self.path), remedy="correct it, or remove it") from error
        try:
            entries = Content.model_validate_json(text).emulators
        except ValidationError as error:
            raise BadParametersError(
                explain(error, Content), to=str(self.path), remedy="correct it, or remove it"
            ) from error
        self._check(entries)
        return entries

    def entries(self) -> tuple[InventoryEntry, ...]:
        """The list; while somebody's edit makes no sense, as it was before. A typo must not cost a running task."""
        stamp, entries = self._last
        now = self._stamp()
        if now is not None and now == stamp:
            return entries
        try:
            entries, self._trouble = self.load(), ""
            self._last = now, entries
        except BadParametersError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("the inventory is not followed: %s", error)
        return entries

    @property
    def unread(self) -> bool:
        """Nobody knows who is listed: the file made no sense yet."""
        return bool(self._trouble) and self._last[0] is None

    def _stamp(self) -> Stamp | None:
        try:
            known = self.path.stat()
        except OSError:
            return None
        return known.st_ino, known.st_mtime_ns, known.st_ctime_ns, known.st_size

    def find(self, emulator_id: str) -> InventoryEntry | None:
        return next((one for one in self.entries() if one.emulator_id == emulator_id), None)

    def stranger(self, emulator_id: str, name: str) -> str:
        """Whose name that is, if it is another one's of this host; a name nobody has any more is nobody's."""
        return name if name != emulator_id and name and self.find(name) is not None else ""

    def impostor(self, entry: InventoryEntry, serialno: str, name: str) -> str:
        """Who answers in its place, by the serial number and the name that were told; empty: it is the one itself."""
        if entry.serialno and serialno != entry.serialno:
            return serialno or "one without a serial number"
        return self.stranger(entry.emulator_id, name)

    def identify(self, emulator_id: str, serialno: str) -> None:
        """Write down who answers at its address, the first time somebody does."""
        with self._lock():
            old = self.load()
            new = tuple(
                _with_changes(one, {"serialno": serialno})
                if one.emulator_id == emulator_id and not one.serialno
                else one
                for one in old
            )
            if new != old:
                self._write(new)

    def address(self, emulator_id: str) -> str:
        """Where it is now. EmulatorLostError: it is not one of this host's."""
        entry = self.find(emulator_id)
        if entry is None:
            raise EmulatorLostError(
                "is not in this host's inventory", to=emulator_id, remedy="droidherd emulator connect ADDRESS"
            )
        return entry.address

    def add(self, *entries: InventoryEntry) -> tuple[InventoryEntry, ...]:
        """Add, or replace what has the same id. Returns the new list."""
        ids = {one.emulator_id for one in entries}
        with self._lock():
            new = (*(one for one in self.load() if one.emulator_id not in ids), *entries)
            self._check(new)
            self._write(new)
        return new

    def move(self, entry: InventoryEntry, address: str) -> InventoryEntry:
        """It is at another address now. Who stood there cannot be there any more, and gets the one that is left."""
        with self._lock():
            places = {one.address: one for one in self.load()}
            left = {entry.emulator_id: address}
            if address in places:
                left.setdefault(places[address].emulator_id, entry.address)
            new = tuple(
                _with_changes(one, {"address": left.get(one.emulator_id, one.address)}) for one in places.values()
            )
            self._check(new)
            self._write(new)
        return _with_changes(entry, {"address": address})

    def remove(self, emulator_id: str) -> tuple[InventoryEntry, ...]:
        """Remove; what is not there is removed already. Returns the new list."""
        with self._lock():
            new = tuple(one for one in self.load() if one.emulator_id != emulator_id)
            self._write(new)
        return new

    def enlist(self, controller: str, entries: Iterable[InventoryEntry]) -> tuple[InventoryEntry, ...]:
        """These, and no others, are this controller's. Labels that others gave them stay. Returns the new list."""
        with self._lock():
            old = self.load()
            known = {one.emulator_id: one.labels for one in old if one.controller == controller}
            mine = {
                one.emulator_id: one.model_copy(update={"labels": {**known.get(one.emulator_id, {}), **one.labels}})
                for one in entries
            }
            others = (one for one in old if one.controller != controller and one.emulator_id not in mine)
            new = (*others, *mine.values())
            if new != old:
                self._check(new)
                self._write(new)
        return new

    def label(self, emulator_id: str, name: str, value: str) -> tuple[InventoryEntry, ...]:
        """Give an emulator a label; an empty value takes it away. Returns the new list."""
        with self._lock():
            new = tuple(_with_label(one, name, value) if one.emulator_id == emulator_id else one for one in self.load())
            self._write(new)
        return new

    def _check(self, entries: tuple[InventoryEntry, ...]) -> None:
        if len(entries) > EMULATORS_LIMIT:
            raise BadParametersError(f"{len(entries)} emulators are too many for one host", to=str(self.path))
        ids: set[str] = set()
        addresses: dict[str, str] = {}
        for one in entries:
            if one.emulator_id in ids:
                raise BadParametersError(
                    f"emulator_id {one.emulator_id!r} stands twice", to=str(self.path), remedy="give each its own"
                )
            if one.address in addresses:
                raise BadParametersError(
                    f"{one.address} is the address of {addresses[one.address]!r} and of {one.emulator_id!r}",
                    to=str(self.path),
                    remedy="remove one of them",
                )
            ids.add(one.emulator_id)
            addresses[one.address] = one.emulator_id

    def _write(self, entries: tuple[InventoryEntry, ...]) -> None:
        draft = self.path.with_suffix(".new")
        draft.unlink(missing_ok=True)  # left by a writer that died: its mode would stay
        # Whatever the umask is: an address with its labels is nobody else's business.
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(Content(emulators=entries).model_dump_json(indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    @contextmanager
    def _lock(self) -> Generator[None]:
        """One writer at a time; a lock whose owner died is broken after a while."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = self.path.with_suffix(".lock")
        until_s = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                break
            except FileExistsError as error:
                _break_stale(lock)
                if time.monotonic() > until_s:
                    raise BadParametersError(
                        "another program is changing the list", to=str(lock), remedy="try again"
                    ) from error
                time.sleep(0.01)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _with_label(entry: InventoryEntry, name: str, value: str) -> InventoryEntry:
    labels = {key: old for key, old in entry.labels.items() if key != name} | ({name: value} if value else {})
    return _with_changes(entry, {"labels": labels})


def _with_changes(entry: InventoryEntry, changes: Mapping[str, object]) -> InventoryEntry:
    try:
        return InventoryEntry.model_validate({**entry.model_dump(), **changes})
    except ValidationError as error:
        raise BadParametersError(explain(error, InventoryEntry), to=entry.emulator_id) from error


def _break_stale(lock: Path) -> None:
    try:
        age_s = time.time() - lock.stat().st_mtime
    except FileNotFoundError:
        return
    if age_s > LOCK_STALE_S:
        lock.unlink(missing_ok=True)
