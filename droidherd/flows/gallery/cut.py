"""Cut the images of the gallery out of the drawn app: `python -m droidherd.flows.gallery.cut`."""

from pathlib import Path

import cv2

from droidherd.domain.ports import Box
from droidherd.flows.loading.document import read_document
from droidherd.flows.loading.folder import FILE, images_named
from droidherd.virtual.scenes import HerdState, Pixels, Scene, render

GALLERY = Path(__file__).parent

_SIGN_IN = HerdState(scene=Scene.SIGN_IN, running=True)
_HOME = HerdState(scene=Scene.HOME, running=True, signed_in="guest")
_COLLECTED = HerdState(scene=Scene.HOME, running=True, signed_in="guest", gift_taken=True)

CUTS: dict[str, tuple[HerdState, Box]] = {
    "app_icon.png": (HerdState(), Box(596, 254, 104, 104)),
    "account_empty.png": (_SIGN_IN, Box(452, 284, 140, 34)),
    "password_empty.png": (_SIGN_IN, Box(452, 364, 150, 34)),
    "sign_in.png": (_SIGN_IN, Box(444, 446, 180, 58)),
    "nothing_entered.png": (
        HerdState(scene=Scene.SIGN_IN, running=True, message="Enter account and password"),
        Box(440, 536, 380, 32),
    ),
    "captcha.png": (HerdState(scene=Scene.CAPTCHA, running=True), Box(420, 180, 400, 60)),
    "sign_out.png": (_HOME, Box(1094, 26, 150, 44)),
    "gift.png": (_HOME, Box(204, 194, 200, 200)),
    "gift_collected.png": (_COLLECTED, Box(204, 194, 200, 200)),
    "rewards.png": (_HOME, Box(530, 200, 200, 180)),
    "ok.png": (HerdState(scene=Scene.DIALOG, running=True, signed_in="guest"), Box(684, 424, 120, 64)),
    "close.png": (HerdState(scene=Scene.HOME, running=True, popup=True), Box(936, 136, 56, 56)),
    "claim.png": (HerdState(scene=Scene.LIST, running=True, signed_in="guest"), Box(1036, 118, 150, 54)),
    "back.png": (HerdState(scene=Scene.LIST, running=True, signed_in="guest"), Box(28, 24, 120, 50)),
}
"""Each image: the screen it is on, and where. Taken from the inside of things, which their frames do not change."""


def cut(name: str) -> Pixels:
    """One image, as RGBA."""
    state, box = CUTS[name]
    return render(state)[box.y : box.y + box.height, box.x : box.x + box.width]


def main() -> None:
    """Write the images that each flow names beside it."""
    for file in sorted(GALLERY.glob(f"*/{FILE}")):
        for name in sorted(images_named(read_document(file).data)):
            cv2.imwrite(str(file.with_name(name)), cv2.cvtColor(cut(name), cv2.COLOR_RGBA2BGR))


if __name__ == "__main__":
    main()
