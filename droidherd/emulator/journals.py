"""Journals that emulators keep, and which of them nobody needs any more. Pure, but for `JournalFolder`.

A lost journal is no harm to an account: a task that knows that its stage wrote to one does not begin it anew, it asks.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from droidherd.adb.client import AdbClient
from droidherd.adb.quote import quote
from droidherd.domain.errors import FencedError
from droidherd.domain.retention import TaskRuns
from droidherd.emulator import lines
from droidherd.emulator.lines import ON_ANDROID, TOKEN_PROPERTY, DevicePaths, ShellReply
from droidherd.emulator.token import Token

NEWEST = 100
"""Journals that are kept whatever became of their tasks: a line that writes may still be at work."""
MOST = 5_000
"""Journals that are kept at most: 20 MB in blocks of 4 KB. Beyond it the oldest go, those of open tasks too."""
LISTED = 2 * MOST
REMOVED_AT_ONCE = 30
DEADLINE_S = 20.0
_OF_ATTEMPT = re.compile(r"(?P<task>.+)[.](?P<run>[0-9a-f]{8})[.](?P<attempt>\d+)(?:[.]u|[.](?P<lease>\d+))?")
_OF_ROLLBACKS = re.compile(r"(?P<task>.+)[.]u")


@dataclass(frozen=True, slots=True)
class JournalFile:
    """One journal, by its name."""

    name: str
    task: str
    """Empty: it names none."""
    run: str = ""
    """The end of the run id. Empty: it serves all rollbacks of its task, also those nobody has asked for yet."""
    attempt: int = 0
    lease: int = 0
    """It serves this lease alone; 0: the whole attempt."""

    @classmethod
    def of(cls, name: str) -> "JournalFile":
        if found := _OF_ATTEMPT.fullmatch(name):
            return cls(name, found["task"], found["run"], int(found["attempt"]), int(found["lease"] or 0))
        found = _OF_ROLLBACKS.fullmatch(name)
        return cls(name, found["task"] if found else "")

    def is_needed(self, runs: TaskRuns) -> bool:
        """By its task, as that stands in Temporal."""
        return runs is TaskRuns.OPEN or (not self.run and runs is TaskRuns.CLOSED)


@dataclass(frozen=True, slots=True)
class JournalList:
    """The journals of one emulator, the newest first, and the lease that has it, or had it last."""

    lease: int
    files: tuple[JournalFile, ...]
    _attempts: dict[tuple[str, str], int] = field(init=False, default_factory=dict[tuple[str, str], int])
    """(task, run) → the last attempt that wrote here."""

    def __post_init__(self) -> None:
        """Find the last attempts."""
        for file in self.files:
            self._attempts[file.task, file.run] = max(file.attempt, self._attempts.get((file.task, file.run), 0))

    def tasks(self) -> list[str]:
        """The tasks whose state decides about old journals, those of the oldest first."""
        asked = [file.task for file in reversed(self._old()) if not self._is_over(file)]
        return list(dict.fromkeys(asked))

    def removable(self, runs: Mapping[str, TaskRuns]) -> list[str]:
        """Names of journals that nobody needs, and of the oldest where there are too many. `runs`: of known tasks."""

        def is_needed(file: JournalFile) -> bool:
            return not self._is_over(file) and (file.task not in runs or file.is_needed(runs[file.task]))

        kept = {file.name for file in [*self.files[:NEWEST], *filter(is_needed, self._old())][:MOST]}
        return [file.name for file in self.files if file.name not in kept]

    def _old(self) -> Sequence[JournalFile]:
        return self.files[NEWEST:]

    def _is_over(self, file: JournalFile) -> bool:
        """It names no task, or serves a lease or an attempt behind which a newer one came."""
        return (
            not file.task or 0 < file.lease < self.lease or file.attempt < self._attempts.get((file.task, file.run), 0)
        )


@dataclass(frozen=True, slots=True)
class JournalFolder:
    """The journals on emulators, through adb."""

    adb: AdbClient
    places: DevicePaths = ON_ANDROID

    def list(self, serial: str, name: str) -> JournalList:
        """Raises DroidherdError; FencedError when the emulator was restarted and has passed no gate since."""
        result = self.adb.shell(serial, lines.check_name(name) + list_line(self.places), DEADLINE_S)
        reply = ShellReply.of(result, serial)
        if reply.word != "journals":
            reply.refuse(serial)
        try:
            token = Token.parse(" ".join(reply.rest))
        except ValueError as error:
            raise FencedError("the emulator has no token: it was restarted", to=serial) from error
        return JournalList(token.lease, tuple(map(JournalFile.of, filter(lines.is_key, reply.output.split("\n")))))

    def remove(self, serial: str, name: str, journals: Sequence[str]) -> None:
        """Those of another emulator that answers at its address stay."""
        for at in range(0, len(journals), REMOVED_AT_ONCE):
            line = lines.check_name(name) + remove_line(journals[at : at + REMOVED_AT_ONCE], self.places)
            reply = ShellReply.of(self.adb.shell(serial, line, DEADLINE_S), serial)
            if reply.word != "removed":
                reply.refuse(serial)


def list_line(places: DevicePaths = ON_ANDROID) -> str:
    """The names of journals, the newest first."""
    folder = quote(places.journals)
    return f'echo "dh:journals $(getprop {TOKEN_PROPERTY})"; ls -t {folder} 2>/dev/null | head -n {LISTED}'


def remove_line(names: Iterable[str], places: DevicePaths = ON_ANDROID) -> str:
    listed = " ".join(quote(name) for name in names if lines.is_key(name))
    return f'for x in {listed}; do rm -f {quote(places.journals)}/"$x"; done\necho dh:removed'
