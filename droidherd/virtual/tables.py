"""What `settings`, `wm` and `getprop` see, with what of it outlives a restart."""

import re

from droidherd.virtual.store import VirtualStore

NAMESPACES = ("system", "secure", "global")
PHYSICAL_DENSITY = 320
DENSITY_MIN = 72
_SIDE_MIN, _SCALE_MAX = 200, 2
_SIZE_SETTING = ("global", "display_size_forced")
_DENSITY_SETTING = ("secure", "display_density_forced")
VALUE_LIMIT = 91
TOKEN = "debug.droidherd.token"  # noqa: S105 - the name of a property

_FIRST_SETTINGS = {
    "system": {"screen_off_timeout": "60000", "accelerometer_rotation": "0", "screen_brightness": "102"},
    "secure": {
        "android_id": "0123456789abcdef",
        "default_input_method": "com.android.inputmethod.latin/.LatinIME",
        "enabled_input_methods": "com.android.inputmethod.latin/.LatinIME",
    },
    "global": {"airplane_mode_on": "0", "adb_enabled": "1", "device_provisioned": "1", "window_animation_scale": "1"},
}


class SettingsTable:
    def __init__(self, store: VirtualStore) -> None:
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


class VirtualScreen:
    """Size and density. An override survives a reboot: Android keeps it in two settings, empty after a reset."""

    def __init__(self, settings: SettingsTable, physical: tuple[int, int]) -> None:
        self._settings = settings
        self.physical = physical
        self.size = physical
        self.density = PHYSICAL_DENSITY

    def boot(self) -> None:
        """As the settings say. A setting that was changed by hand takes effect here and no sooner."""
        size = re.fullmatch(r"(\d{1,5}),(\d{1,5})", self._settings.get(*_SIZE_SETTING) or "")
        density = re.fullmatch(r"\d{2,4}", self._settings.get(*_DENSITY_SETTING) or "")
        self.size = (int(size[1]), int(size[2])) if size else self.physical
        self.density = int(density[0]) if density else PHYSICAL_DENSITY

    def resize(self, size: tuple[int, int] | None) -> None:
        """Override the size, within bounds; none resets it, and so does the size of the panel."""
        width, height = size or self.physical
        if (width, height) != self.physical:
            width, height = (
                min(max(side, _SIDE_MIN), panel * _SCALE_MAX)
                for side, panel in zip((width, height), self.physical, strict=True)
            )
        self.size = (width, height)
        self._settings.put(*_SIZE_SETTING, "" if self.size == self.physical else f"{width},{height}")

    def scale(self, density: int | None) -> None:
        """Override the density; none resets it."""
        self.density = density or PHYSICAL_DENSITY
        self._settings.put(*_DENSITY_SETTING, "" if self.density == PHYSICAL_DENSITY else str(self.density))


def identity(serialno: str) -> dict[str, str]:
    """The read-only properties of a plausible Android 13."""
    return {
        "ro.serialno": serialno,
        "ro.boot.serialno": serialno,
        "ro.product.name": "virtual_x86_64",
        "ro.product.model": "Virtual Emulator",
        "ro.product.device": "virtual",
        "ro.product.brand": "droidherd",
        "ro.product.manufacturer": "droidherd",
        "ro.product.board": "virtual",
        "ro.product.cpu.abi": "x86_64",
        "ro.product.cpu.abilist": "x86_64,arm64-v8a,x86",
        "ro.product.locale": "en-US",
        "ro.hardware": "virtual",
        "ro.build.version.release": "13",
        "ro.build.version.sdk": "33",
        "ro.build.version.codename": "REL",
        "ro.build.version.security_patch": "2023-09-05",
        "ro.build.id": "TQ3A.230901.001",
        "ro.build.type": "user",
        "ro.build.tags": "release-keys",
        "ro.build.fingerprint": "droidherd/virtual_x86_64/virtual:13/TQ3A.230901.001/1:user/release-keys",
        "ro.build.characteristics": "emulator",
        "ro.kernel.qemu": "1",
        "ro.sf.lcd_density": "320",
        "ro.debuggable": "0",
        "ro.secure": "1",
        "ro.droidherd.virtual": "1",
        "persist.sys.timezone": "UTC",
        "service.adb.root": "0",
    }


class VirtualProperties:
    """`persist.*` outlives a reboot, `ro.*` cannot be set, the rest is gone at each boot."""

    def __init__(self, store: VirtualStore, fixed: dict[str, str]) -> None:
        self._store = store
        self._fixed = fixed
        self._kept = {name: str(value) for name, value in store.load("properties").items()}
        self._volatile: dict[str, str] = {}

    def get(self, name: str) -> str:
        for layer in (self._volatile, self._kept, self._fixed):
            if name in layer:
                return layer[name]
        return ""

    def set(self, name: str, value: str) -> None:
        """From inside, without the rules for people."""
        self._volatile[name] = value

    def put(self, name: str, value: str) -> str:
        """As by `setprop`: what is wrong with it, or nothing."""
        if not name or name.startswith(".") or name.endswith(".") or ".." in name:
            return f"Failed to set property '{name}' to '{value}'.\nSee dmesg for error reason."
        if name.startswith("ro.") and self.get(name):
            return f"Failed to set property '{name}' to '{value}'.\nSee dmesg for error reason."
        if len(value.encode(errors="surrogateescape")) > VALUE_LIMIT and not name.startswith("ro."):
            return f"Value '{value}' is too long for property '{name}'"
        if name.startswith("persist."):
            self._kept[name] = value
            self._store.save("properties", self._kept)
        else:
            self._volatile[name] = value
        return ""

    def boot(self) -> None:
        self._volatile.clear()

    def all(self) -> dict[str, str]:
        return dict(sorted({**self._fixed, **self._kept, **self._volatile}.items()))
