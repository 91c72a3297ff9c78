"""Things of one emulator: read, made what they are to be, pulled. Content travels by the sync protocol."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from droidherd.adb.files import DeviceFiles, Pace, Source
from droidherd.adb.quote import quote
from droidherd.contracts.changes import Thing
from droidherd.domain.errors import BadParametersError, FinalError, UnknownOutcomeError
from droidherd.domain.ports import NO_RECORDER, Acted, Sink, StageRecorder, Wanted
from droidherd.domain.task.things import ABSENT, State
from droidherd.emulator import making
from droidherd.emulator.acts import NOTHING
from droidherd.emulator.eyes import answered_by
from droidherd.emulator.hands import EmulatorHands
from droidherd.emulator.lines import ON_ANDROID
from droidherd.emulator.making import PlainFile
from droidherd.emulator.token import Token

STALL_S = 8.0
"""A transfer that stands still this long has failed."""
BYTES_PER_S = 4 << 20
"""No emulator is slower than this at reading, copying or installing a file."""
INSTALL_S = 120.0
_ODD = re.compile(r"[^A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class FoundThing:
    """A file or a package as it is now."""

    state: State
    paths: tuple[str, ...] = ()
    mode: str = ""
    size: int = 0


@dataclass(slots=True)
class EmulatorThings:
    """`Things` by shell lines and file transfers, under the token of `hands`."""

    hands: EmulatorHands
    files: Callable[[], DeviceFiles]
    """File transfers with this emulator."""
    token: Token
    beat: Callable[[], None]
    """Called while something large is on its way."""
    recorder: StageRecorder = NO_RECORDER
    _swept: bool = False

    # --- reading ----------------------------------------------------------------------------------------------

    def read(self, thing: str, name: str) -> State:
        """What a thing is now."""
        if thing in {Thing.FILE, Thing.PACKAGE}:
            return self.find(thing, name).state
        with answered_by(self.hands.serial):
            result = self.hands.ask(making.question(thing, name))
            state = making.value(thing, name, result)
            if state is not None:
                return state
            listed = self.hands.ask(making.all_settings(name))
            return State("null") if making.is_listed(name, listed) else ABSENT

    def find(self, thing: str, name: str) -> FoundThing:
        """A file or a package, with what it takes to pull it."""
        with answered_by(self.hands.serial):
            result = self.hands.ask(making.question(thing, name))
            if thing == Thing.FILE:
                facts = making.file_facts(name, result)
                return FoundThing(ABSENT) if facts is None else self._file(name, facts)
            paths = making.package_files(name, result)
            return self._package(paths) if paths else FoundThing(ABSENT)

    def _file(self, path: str, facts: PlainFile) -> FoundThing:
        return FoundThing(State(self._digest(path, facts.size)), (path,), facts.mode, facts.size)

    def _package(self, paths: tuple[str, ...]) -> FoundThing:
        """One of several files has the digest of all their digests."""
        sizes = [making.size(self.hands.ask(making.size_of(path)), path) for path in paths]
        digests = [self._digest(path, size) for path, size in zip(paths, sizes, strict=True)]
        whole = digests[0] if len(digests) == 1 else hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()
        return FoundThing(State(whole), paths, size=sum(sizes))

    def _digest(self, path: str, size: int) -> str:
        result = self.hands.ask(making.digest_of(path), takes_s=size / BYTES_PER_S)
        return making.digest(result, path)

    def pull(self, found: FoundThing, into: Sink, limit_bytes: int) -> None:
        """The content of a file or a package, just as it was found."""
        path = found.paths[0]
        if len(found.paths) > 1:
            raise FinalError(
                f"consists of {len(found.paths)} files and could not be restored",
                to=path,
                remedy="install it as one universal APK, or change it without `install` and `uninstall`",
            )
        if found.size > limit_bytes:
            raise FinalError(f"{found.size} bytes are too many to be kept: at most {limit_bytes}", to=path)
        counted = _Counted(into=into)
        self.files().fetch(path, counted, Pace(STALL_S, self.beat), limit_bytes)
        if counted.digest != found.state.value:
            raise UnknownOutcomeError("changed while it was read", to=path)

    # --- making -----------------------------------------------------------------------------------------------

    def make(self, effect: str, wanted: Wanted) -> Acted:
        """Make a thing what it is to be, and see that it is."""
        self.recorder.act("change", effect, thing=wanted.thing, name=wanted.name, to=str(wanted.state))
        if wanted.thing not in {Thing.FILE, Thing.PACKAGE} or not wanted.state.there:
            takes_s = INSTALL_S if wanted.thing == Thing.PACKAGE else 0.0
            return self.hands.run_effect(effect, making.making(wanted), takes_s)
        upload = f"{ON_ANDROID.uploads}/{self.token}-{_ODD.sub('_', effect)}.apk"
        line = making.making(wanted, upload)  # first, since it refuses what cannot be meant
        size = self._upload(wanted, upload)
        takes_s = 3 * size / BYTES_PER_S + (INSTALL_S if wanted.thing == Thing.PACKAGE else 0.0)
        return self.hands.run_effect(effect, line, takes_s)

    def sweep(self, paths: tuple[str, ...] = ()) -> None:
        """Take away what earlier tries left on its way: uploads, and contents beside these files."""
        self.hands.run_unjournaled(f"rm -rf {quote(ON_ANDROID.uploads)}")
        if paths:
            self.hands.run_unjournaled(making.removal(paths))
        self._swept = True

    def _upload(self, wanted: Wanted, path: str) -> int:
        if wanted.content is None:
            raise BadParametersError("nothing is there to be sent", to=wanted.name)
        if self._swept:
            # A file transfer knows no token, so who is there is asked right before.
            self.hands.run_unjournaled(NOTHING)
        else:
            self.sweep()
        with wanted.content() as source:
            counted = _Counted(source=source)
            self.files().send(counted, path, Pace(STALL_S, self.beat))
        if counted.digest != wanted.state.value:
            raise FinalError("what was to be sent is not what it was", to=wanted.name)
        return counted.size


class _Counted:
    """Digest and size of what passes through, one way or the other."""

    def __init__(self, *, source: Source | None = None, into: Sink | None = None) -> None:
        self._source = source
        self._into = into
        self._hash = hashlib.sha256()
        self.size = 0

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size) if self._source else b""
        self._count(data)
        return data

    def write(self, data: bytes, /) -> None:
        self._count(data)
        if self._into:
            self._into.write(data)

    def _count(self, data: bytes) -> None:
        self._hash.update(data)
        self.size += len(data)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
