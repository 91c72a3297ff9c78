"""Size and density of the screen, with their overrides: what `wm` sees."""

import re

from droidherd.virtual.tables import SettingsTable

PHYSICAL_DENSITY = 320
DENSITY_MIN = 72
_SIDE_MIN, _SCALE_MAX = 200, 2
_SIZE_SETTING = ("global", "display_size_forced")
_DENSITY_SETTING = ("secure", "display_density_forced")


class Window:
    """An override survives a reboot: Android keeps it in two settings, and leaves them empty after a reset."""

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
