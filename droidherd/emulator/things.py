"""Things of one emulator: read, made what they are to be, pulled. Content travels by the sync protocol."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from droidherd.adb.files import Files, Pace, Source
from droidherd.adb.quote import quote
from droidherd.contracts.changes import Thing
from droidherd.domain.errors import BadParametersError, FinalError, UnknownOutcomeError
from droidherd.domain.ports import Acted, Sink, Wanted
from droidherd.domain.things import ABSENT, State
from droidherd.emulator import making
from droidherd.emulator.acts import NOTHING
from droidherd.emulator.hands import EmulatorHands
from droidherd.emulator.lines import ON_ANDROID
from droidherd.emulator.making import FileFacts
from droidherd.emulator.token import Token

STALL_S = 8.0
"""A transfer that stands still this long has failed."""
BYTES_PER_S = 4 << 20
"""No emulator is slower than this at reading, copying or installing a file."""
INSTALL_S = 120.0
_ODD = re.compile(r"[^A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Found:
    """A file or a package as it is now."""

    state: State
    paths: tuple[str, ...] = ()
    mode: str = ""
    size: int = 0


class EmulatorThings:
    """`Things` by shell lines and file transfers, under the token of `hands`."""

    def __init__(self, hands: EmulatorHands, files: Files, token: Token, beat: Callable[[], None]) -> None:
        """`beat` is called while something large is on its way."""
        self._hands = hands
        self._files = files
        self._token = token
        self._pace = Pace(STALL_S, beat)
        self._swept = False

    # --- reading ----------------------------------------------------------------------------------------------

    def read(self, thing: str, name: str) -> State:
        """What a thing is now."""
        if thing in {Thing.FILE, Thing.PACKAGE}:
            return self.find(thing, name).state
        said = self._hands.ask(making.question(thing, name))
        state = making.value(thing, name, said)
        if state is not None:
            return state
        listed = self._hands.ask(making.all_settings(name))
        return State("null") if making.is_listed(name, listed) else ABSENT

    def find(self, thing: str, name: str) -> Found:
        """A file or a package, with what it takes to pull it."""
        said = self._hands.ask(making.question(thing, name))
        if thing == Thing.FILE:
            facts = making.file_facts(name, said)
            return Found(ABSENT) if facts is None else self._file(name, facts)
        paths = making.package_files(name, said)
        return self._package(paths) if paths else Found(ABSENT)

    def _file(self, path: str, facts: FileFacts) -> Found:
        return Found(State(self._digest(path, facts.size)), (path,), facts.mode, facts.size)

    def _package(self, paths: tuple[str, ...]) -> Found:
        """One of several files has the digest of all their digests."""
        sizes = [making.size(self._hands.ask(making.size_of(path)), path) for path in paths]
        digests = [self._digest(path, size) for path, size in zip(paths, sizes, strict=True)]
        whole = digests[0] if len(digests) == 1 else hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()
        return Found(State(whole), paths, size=sum(sizes))

    def _digest(self, path: str, size: int) -> str:
        said = self._hands.ask(making.digest_of(path), takes_s=size / BYTES_PER_S)
        return making.digest(said, path)

    def pull(self, found: Found, into: Sink, limit_bytes: int) -> None:
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
        self._files.fetch(path, counted, self._pace, limit_bytes)
        if counted.digest != found.state.value:
            raise UnknownOutcomeError("changed while it was read", to=path)

    # --- making -----------------------------------------------------------------------------------------------

    def make(self, effect: str, wanted: Wanted) -> Acted:
        """Make a thing what it is to be, and see that it is."""
        if wanted.thing not in {Thing.FILE, Thing.PACKAGE} or not wanted.state.there:
            takes_s = INSTALL_S if wanted.thing == Thing.PACKAGE else 0.0
            return self._hands.carry_out(effect, making.making(wanted), takes_s)
        upload = f"{ON_ANDROID.uploads}/{self._token}-{_ODD.sub('_', effect)}.apk"
        line = making.making(wanted, upload)  # first, since it refuses what cannot be meant
        size = self._upload(wanted, upload)
        takes_s = 3 * size / BYTES_PER_S + (INSTALL_S if wanted.thing == Thing.PACKAGE else 0.0)
        return self._hands.carry_out(effect, line, takes_s)

    def sweep(self, paths: tuple[str, ...] = ()) -> None:
        """Take away what earlier tries left on its way: uploads, and contents beside these files."""
        self._hands.tidy(f"rm -rf {quote(ON_ANDROID.uploads)}")
        if paths:
            self._hands.tidy(making.removal(paths))
        self._swept = True

    def _upload(self, wanted: Wanted, path: str) -> int:
        if wanted.content is None:
            raise BadParametersError("nothing is there to be sent", to=wanted.name)
        if self._swept:
            # A file transfer knows no token, so who is there is asked right before.
            self._hands.tidy(NOTHING)
        else:
            self.sweep()
        with wanted.content() as source:
            counted = _Counted(source=source)
            self._files.send(counted, path, self._pace)
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
