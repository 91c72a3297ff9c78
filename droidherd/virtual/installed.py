"""Installed packages: what `pm` sees, with the files behind them, kept over restarts."""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from droidherd.artifacts.apk import Apk, BadApkError, read_apk
from droidherd.virtual.app import LAUNCHER_PACKAGE, PACKAGE
from droidherd.virtual.store import VirtualStore
from droidherd.virtual.tinyapk import tiny_apk

_SYSTEM = (
    "android", "com.android.settings", "com.android.shell", "com.android.systemui", LAUNCHER_PACKAGE,
    "com.android.inputmethod.latin",
)  # fmt: skip
_SYSTEM_APK = Apk("", 33, "13")
_FIRST = tiny_apk(PACKAGE, 7, "1.7.0")
"""The app "Herd", which is there from the start."""


class InstallRefusedError(Exception):
    """`pm` says no, in the words of Android."""


@dataclass(frozen=True, slots=True)
class VirtualPackage:
    name: str
    version_code: int
    version_name: str
    path: str
    """Where its file is on the emulator."""
    digest: str
    number: int
    """Of its installation: each gets a folder of its own, as on Android."""


_KEPT = TypeAdapter(VirtualPackage)


class VirtualPackages:
    """The third-party ones are files of their own on the host; those of the system are made up."""

    def __init__(self, store: VirtualStore, folder: Path) -> None:
        self._store = store
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._system = {name: _of_the_system(name) for name in _SYSTEM}
        saved = store.load("installed")
        self._added = {name: _KEPT.validate_python(each) for name, each in saved.items() if name}
        if not saved:
            self.install(_FIRST)

    def third_party(self) -> dict[str, VirtualPackage]:
        return dict(sorted(self._added.items()))

    def all(self) -> dict[str, VirtualPackage]:
        return dict(sorted({**self._system, **self._added}.items()))

    def install(self, content: bytes) -> VirtualPackage:
        """In place of what is there under its name, unless that is newer."""
        try:
            apk = read_apk(io.BytesIO(content))
        except BadApkError as problem:
            raise InstallRefusedError(
                f"INSTALL_PARSE_FAILED_NOT_APK: Failed to parse base.apk: {problem.what}"
            ) from problem
        old = self._added.get(apk.package)
        if old and apk.version_code < old.version_code:
            versions = f"Update version code {apk.version_code} is older than current {old.version_code}"
            raise InstallRefusedError(f"INSTALL_FAILED_VERSION_DOWNGRADE: Downgrade detected: {versions}")
        new = _install(apk, content, max((each.number for each in self._added.values()), default=0) + 1)
        # The file first: a death in between leaves a file that nobody knows of.
        self._file(new).write_bytes(content)
        self._added[apk.package] = new
        self._save()
        if old:
            self._file(old).unlink(missing_ok=True)
        return new

    def uninstall(self, name: str) -> bool:
        known = self._added.pop(name, None)
        self._save()
        if known:
            self._file(known).unlink(missing_ok=True)
        return known is not None

    def file(self, path: str) -> Path | None:
        """The file on the host behind a path on the emulator."""
        return next((self._file(each) for each in self._added.values() if each.path == path), None)

    def system_files(self) -> Mapping[str, bytes]:
        return {each.path: _content(name) for name, each in self._system.items()}

    def _file(self, package: VirtualPackage) -> Path:
        return self._folder / f"{package.number}.apk"

    def _save(self) -> None:
        # An empty table must not read as "never saved".
        table: dict[str, JsonValue] = {name: asdict(each) for name, each in self._added.items()}
        self._store.save("installed", table or {"": ""})


def _install(apk: Apk, content: bytes, number: int) -> VirtualPackage:
    one, two = (hashlib.sha256(f"{apk.package} {number} {part}".encode()).hexdigest()[:16] for part in "ab")
    path = f"/data/app/~~{one}==/{apk.package}-{two}==/base.apk"
    digest = hashlib.sha256(content).hexdigest()
    return VirtualPackage(apk.package, apk.version_code, apk.version_name, path, digest, number)


def _of_the_system(name: str) -> VirtualPackage:
    digest = hashlib.sha256(_content(name)).hexdigest()
    apk = _SYSTEM_APK
    return VirtualPackage(name, apk.version_code, apk.version_name, f"/system/app/{name}/{name}.apk", digest, 0)


def _content(name: str) -> bytes:
    return tiny_apk(name, _SYSTEM_APK.version_code, _SYSTEM_APK.version_name)
