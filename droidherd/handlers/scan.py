"""`scan`: what an emulator is and holds. Changes nothing."""

import json
from typing import ClassVar

from pydantic import JsonValue
from typing_extensions import override

from droidherd.domain.fleet.facts import InstalledPackage
from droidherd.handlers.base import Handler, HandlerContext, Params

ARTIFACT = "scan.json"
SYSTEM = ("/system/", "/product/", "/vendor/", "/apex/", "/system_ext/", "/odm/")


class ScanParams(Params):
    """None."""


class ScanHandler(Handler[ScanParams]):
    """Leaves everything as an artifact, and says the least of it."""

    name: ClassVar[str] = "scan"
    params = ScanParams

    @override
    def execute(self, ground: HandlerContext, params: ScanParams) -> dict[str, JsonValue]:
        facts = ground.facts
        properties, screen, storage = facts.properties(), facts.screen(), facts.storage()
        packages = facts.packages()
        android = properties.get("ro.build.version.release", "")
        found: dict[str, JsonValue] = {
            "emulator": ground.emulator_id,
            "android": android,
            "screen": {"size": screen.size, "density": screen.density} if screen else None,
            "storage": {"size_kb": storage.size_kb, "free_kb": storage.free_kb} if storage else None,
            "packages": [_package(each) for each in packages],
            "properties": dict[str, JsonValue](properties),
        }
        ground.keep(ARTIFACT, (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode())
        return {
            "android": android,
            "screen": screen.size if screen else None,
            "free_mb": storage.free_kb // 1024 if storage else None,
            "packages": len(packages),
            "third_party": sum(not _is_of_the_system(each) for each in packages),
        }


def _package(each: InstalledPackage) -> dict[str, JsonValue]:
    return {
        "name": each.name,
        "version_code": each.version_code,
        "path": each.path,
        "system": _is_of_the_system(each),
    }


def _is_of_the_system(each: InstalledPackage) -> bool:
    return each.path.startswith(SYSTEM)
