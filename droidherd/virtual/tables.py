"""Settings and packages: what `settings` and `pm` see, kept over restarts."""

import hashlib
import io
import re
import zipfile

from droidherd.virtual.app import LAUNCHER_PACKAGE, PACKAGE
from droidherd.virtual.store import Store

NAMESPACES = ("system", "secure", "global")

_FIRST_SETTINGS = {
    "system": {"screen_off_timeout": "60000", "accelerometer_rotation": "0", "screen_brightness": "102"},
    "secure": {"android_id": "0123456789abcdef", "default_input_method": "com.android.inputmethod.latin/.LatinIME"},
    "global": {"airplane_mode_on": "0", "adb_enabled": "1", "device_provisioned": "1", "window_animation_scale": "1"},
}
_SYSTEM_PACKAGES = (
    "android", "com.android.settings", "com.android.shell", "com.android.systemui", LAUNCHER_PACKAGE,
    "com.android.inputmethod.latin",
)  # fmt: skip
_PACKAGE_NAME = re.compile(rb'package="([A-Za-z][A-Za-z0-9_.]*)"')


class SettingsTable:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._values: dict[str, dict[str, str]] = {}
        kept = store.load("settings")
        for namespace in NAMESPACES:
            saved = kept.get(namespace, _FIRST_SETTINGS[namespace])
            self._values[namespace] = (
                {key: str(value) for key, value in saved.items()} if isinstance(saved, dict) else {}
            )

    def get(self, namespace: str, key: str) -> str | None:
        return self._values[namespace].get(key)

    def put(self, namespace: str, key: str, value: str | None) -> bool:
        """Set, or delete with no value; False when there was nothing to delete."""
        known = key in self._values[namespace]
        if value is None:
            self._values[namespace].pop(key, None)
        else:
            self._values[namespace][key] = value
        self._store.save("settings", self._values)
        return known

    def all(self, namespace: str) -> dict[str, str]:
        return dict(sorted(self._values[namespace].items()))


class Packages:
    """Installed packages with their paths. The app "Herd" is there from the start."""

    def __init__(self, store: Store) -> None:
        self._store = store
        saved = store.load("packages")
        self._added = {name: str(path) for name, path in saved.items() if name} if saved else {PACKAGE: _path(PACKAGE)}

    def third_party(self) -> dict[str, str]:
        return dict(sorted(self._added.items()))

    def all(self) -> dict[str, str]:
        system = {name: f"/system/app/{name}/{name}.apk" for name in _SYSTEM_PACKAGES}
        return dict(sorted({**system, **self._added}.items()))

    def install(self, name: str) -> None:
        self._added[name] = _path(name)
        self._save()

    def uninstall(self, name: str) -> bool:
        known = self._added.pop(name, None) is not None
        self._save()
        return known

    def _save(self) -> None:
        # An empty table must not read as "never saved".
        self._store.save("packages", self._added or {"": ""})


def package_name(apk: bytes, fallback: str = "") -> str:
    """Which package an APK holds: from a manifest in plain text, else made up from its name or content."""
    try:
        with zipfile.ZipFile(io.BytesIO(apk)) as archive:
            found = _PACKAGE_NAME.search(archive.read("AndroidManifest.xml"))
    except (zipfile.BadZipFile, KeyError, ValueError):
        found = None
    if found:
        return found.group(1).decode("ascii")
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+", fallback):
        return fallback
    return f"virtual.installed.p{hashlib.sha256(apk).hexdigest()[:8]}"


def _path(name: str) -> str:
    return f"/data/app/~~{hashlib.sha256(name.encode()).hexdigest()[:16]}==/{name}/base.apk"
