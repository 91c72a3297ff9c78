"""Everything that a change can change on a virtual emulator, as one value that tests compare."""

import hashlib

from pydantic import JsonValue

from droidherd.domain.things import OWN_FOLDER, OWN_PROPERTIES
from droidherd.virtual.files import WRITABLE
from droidherd.virtual.machine import VirtualEmulator
from droidherd.virtual.tables import NAMESPACES


def dump(emulator: VirtualEmulator) -> dict[str, JsonValue]:
    """Settings, screen, properties, packages and files; droidherd's own lease and journal aside.

    A property that is empty counts as absent, since nobody can ask whether it is there. Where Android installed a
    package is left out: that is another place each time.
    """
    window = emulator.window
    settings = {namespace: dict[str, JsonValue](emulator.settings.all(namespace)) for namespace in NAMESPACES}
    properties = {
        name: value
        for name, value in emulator.properties.all().items()
        if value and not name.startswith(OWN_PROPERTIES)
    }
    packages = {
        name: {"version_code": each.version_code, "version_name": each.version_name, "digest": each.digest}
        for name, each in emulator.packages.third_party().items()
    }
    return {
        "settings": dict[str, JsonValue](settings),
        "wm": {"size": "{}x{}".format(*window.size), "density": window.density},
        "properties": dict[str, JsonValue](properties),
        "packages": dict[str, JsonValue]({name: dict[str, JsonValue](each) for name, each in packages.items()}),
        "files": dict[str, JsonValue]({path: facts for root in WRITABLE for path, facts in _tree(emulator, root)}),
    }


def _tree(emulator: VirtualEmulator, folder: str) -> list[tuple[str, JsonValue]]:
    found: list[tuple[str, JsonValue]] = []
    files = emulator.files
    for name in files.names(folder):
        path = f"{folder}/{name}"
        if path == OWN_FOLDER:
            continue
        mode = f"{files.stat(path).mode:o}"
        if files.kind(path) == "directory":
            found += [(path, mode), *_tree(emulator, path)]
        else:
            digest = hashlib.sha256(files.read(path)).hexdigest()
            found.append((path, f"{mode} {files.size(path)} {digest}"))
    return found
