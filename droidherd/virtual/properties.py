"""System properties: what `getprop` and `setprop` see."""

from droidherd.virtual.store import Store

VALUE_LIMIT = 91
TOKEN = "debug.droidherd.token"  # noqa: S105 - the name of a property


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


class Properties:
    """`persist.*` outlives a reboot, `ro.*` cannot be set, the rest is gone at each boot."""

    def __init__(self, store: Store, fixed: dict[str, str]) -> None:
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
