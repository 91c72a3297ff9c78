import cv2
import numpy as np
import pytest

from droidherd.domain.ports import Frame
from droidherd.flows.catalogue import GALLERY, Catalogue, PlannedFlow
from droidherd.flows.gallery.cut import CUTS, cut
from droidherd.flows.lint.judge import lint
from droidherd.flows.model.targets import Target
from droidherd.flows.run.finder import FlowFinder
from droidherd.flows.run.look import Look
from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.drawing import render

CATALOGUE = Catalogue()

SCREENS = {
    "launcher": HerdState(),
    "sign in": HerdState(scene=Scene.SIGN_IN, running=True),
    "filled": HerdState(scene=Scene.SIGN_IN, running=True, account="ann", password="*"),  # noqa: S106
    "complaint": HerdState(scene=Scene.SIGN_IN, running=True, message="Enter account and password"),
    "captcha": HerdState(scene=Scene.CAPTCHA, running=True, signed_in="someone", suspicious=True),
    "home": HerdState(scene=Scene.HOME, running=True, signed_in="someone"),
    "collected": HerdState(scene=Scene.HOME, running=True, gift_taken=True, message="Gift collected"),
    "list": HerdState(scene=Scene.LIST, running=True, claimed=(2, 3), scroll=100),
    "dialog": HerdState(scene=Scene.DIALOG, running=True, signed_in="someone"),
    "popup": HerdState(scene=Scene.HOME, running=True, popup=True, signed_in="someone"),
}
WHERE = {
    "app_icon.png": {"launcher"},
    "account_empty.png": {"sign in", "complaint"},
    "password_empty.png": {"sign in", "complaint"},
    "sign_in.png": {"sign in", "filled", "complaint"},
    "nothing_entered.png": {"complaint"},
    "captcha.png": {"captcha"},
    "sign_out.png": {"home", "collected", "popup"},
    "gift.png": {"home"},
    "gift_collected.png": {"collected"},
    "rewards.png": {"home", "collected"},
    "ok.png": {"dialog"},
    "close.png": {"popup"},
    "back.png": {"list"},
    "claim.png": {"list"},
}


def frame_of(state: HerdState, size: tuple[int, int]) -> Frame:
    return Frame(*size, render(state, *size).tobytes(), 0.0)


def test_every_flow_of_the_gallery_is_without_a_problem() -> None:
    assert [str(problem) for problem in lint([GALLERY])] == []


def test_every_image_of_the_gallery_is_as_the_app_is_drawn_now() -> None:
    files = sorted(GALLERY.glob("*/*.png"))
    assert {file.name for file in files} <= set(CUTS)
    for file in files:
        expected = cv2.cvtColor(cut(file.name), cv2.COLOR_RGBA2BGR)
        actual = cv2.imread(str(file))
        assert actual is not None
        assert np.array_equal(expected, actual), f"{file}: run python -m droidherd.flows.gallery.cut"


FLOWS = ["collect_rewards", "guarded_reward", "daily_reward", "browse_list", "second_look", "sign_in"]
DRAWN = {"app_icon.png", "gift.png", "gift_collected.png", "rewards.png"}
"""Images without words. Words are set anew on a screen of another size, so they do not scale as pictures do."""


def found_on(finder: FlowFinder, images: list[str], frame: Frame) -> set[str]:
    look = Look(frame, lambda: "")
    return {name for name in images if finder.find(look, Target(image=name)).found}


def finder_of(flow: str) -> tuple[FlowFinder, list[str]]:
    loaded = CATALOGUE.flow(flow)
    return FlowFinder(CATALOGUE, PlannedFlow(flow, loaded.hash)), sorted(loaded.images)


@pytest.mark.parametrize("flow", FLOWS)
def test_every_image_is_found_where_it_is_and_nowhere_else(flow: str) -> None:
    finder, images = finder_of(flow)
    for screen, state in SCREENS.items():
        found = found_on(finder, images, frame_of(state, (1280, 720)))
        assert {name for name in images if screen in WHERE[name]} == found, screen


@pytest.mark.parametrize("size", [(1920, 1080), (960, 540)])
@pytest.mark.parametrize("flow", FLOWS)
def test_on_a_screen_of_another_size_only_pictures_that_are_there_are_found(flow: str, size: tuple[int, int]) -> None:
    finder, images = finder_of(flow)
    for screen, state in SCREENS.items():
        found = found_on(finder, images, frame_of(state, size))
        there = {name for name in images if screen in WHERE[name]}
        assert there & DRAWN <= found <= there, screen
