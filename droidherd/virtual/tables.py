"""Settings: what `settings` sees, kept over restarts."""

from droidherd.virtual.store import Store

NAMESPACES = ("system", "secure", "global")

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
