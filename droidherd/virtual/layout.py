"""Where everything stands on the screen. Drawn up for 1280x720 and stretched to any other size."""

from droidherd.domain.ports import Box
from droidherd.virtual.app import LIST_BOTTOM, LIST_TOP, ROW_PITCH, ROWS, HerdState, Scene

BASE_WIDTH = 1280
BASE_HEIGHT = 720

_FIXED: dict[Scene, dict[str, Box]] = {
    Scene.BOOT: {},
    Scene.LAUNCHER: {"app_icon": Box(592, 250, 112, 112)},
    Scene.SIGN_IN: {
        "account": Box(440, 270, 400, 60),
        "password": Box(440, 350, 400, 60),
        "sign_in": Box(440, 440, 400, 68),
    },
    Scene.CAPTCHA: {"person": Box(440, 400, 400, 72)},
    Scene.HOME: {
        "gift": Box(200, 190, 260, 260),
        "list": Box(520, 190, 260, 260),
        "sign_out": Box(1090, 22, 164, 52),
        "tab_home": Box(0, 620, 640, 100),
        "tab_list": Box(640, 620, 640, 100),
    },
    Scene.LIST: {"back": Box(24, 20, 132, 60)},
    Scene.DIALOG: {"ok": Box(680, 420, 200, 72), "cancel": Box(400, 420, 200, 72)},
}
_POPUP = {"close": Box(932, 132, 64, 64)}


def regions(state: HerdState, width: int = BASE_WIDTH, height: int = BASE_HEIGHT) -> dict[str, Box]:
    """Name each element that can be tapped now, in pixels of a screen of this size."""
    return {name: scale_box(box, width, height) for name, box in base_regions(state).items()}


def base_regions(state: HerdState) -> dict[str, Box]:
    """As `regions`, in units of the layout."""
    if state.popup:
        return _POPUP
    found = dict(_FIXED[state.scene])
    if state.scene is Scene.LIST:
        for row in range(ROWS):
            box = claim_box(state, row)
            if row not in state.claimed and box.y >= LIST_TOP and box.y + box.height <= LIST_BOTTOM:
                found[f"claim_{row}"] = box
    return found


def row_box(state: HerdState, row: int) -> Box:
    return Box(40, LIST_TOP + row * ROW_PITCH - state.scroll, 1200, ROW_PITCH - 10)


def claim_box(state: HerdState, row: int) -> Box:
    whole = row_box(state, row)
    return Box(1030, whole.y + 11, 190, 64)


def scale_box(box: Box, width: int, height: int) -> Box:
    """Stretch a box of the layout to a screen; corners are rounded alike, so neighbours never overlap."""
    left, right = (round(x * width / BASE_WIDTH) for x in (box.x, box.x + box.width))
    top, bottom = (round(y * height / BASE_HEIGHT) for y in (box.y, box.y + box.height))
    return Box(left, top, right - left, bottom - top)


def region_at(state: HerdState, at: tuple[int, int], size: tuple[int, int]) -> str:
    """The name of what a tap at this pixel meets, or an empty text."""
    x, y = at
    for name, box in regions(state, *size).items():
        if box.x <= x < box.x + box.width and box.y <= y < box.y + box.height:
            return name
    return ""


def labels(state: HerdState) -> dict[str, str]:
    """The text on (or in) each element of `regions`."""
    words = {
        "app_icon": "Herd", "sign_in": "Sign in", "sign_out": "Sign out", "gift": "Daily gift", "list": "Rewards",
        "tab_home": "Home", "tab_list": "Rewards", "back": "Back", "ok": "OK", "cancel": "Cancel", "close": "Close",
        "person": "I am a person",
        "account": state.account, "password": "*" * len(state.password),
    }  # fmt: skip
    return {name: words.get(name, f"Claim {name.removeprefix('claim_')}") for name in base_regions(state)}
