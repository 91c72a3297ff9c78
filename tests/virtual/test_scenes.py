"""The app as a state machine, and its pictures."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.virtual import app, scenes
from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.drawing import visible
from droidherd.virtual.layout import labels, regions
from droidherd.virtual.scenes import render, tap

SIZES = [(1280, 720), (1920, 1080), (720, 1280), (640, 360)]
HOME = HerdState(scene=Scene.HOME, running=True, signed_in="bob")
EVERY = {
    "launcher": HerdState(),
    "sign_in": HerdState(scene=Scene.SIGN_IN, running=True),
    "captcha": replace(HOME, scene=Scene.CAPTCHA),
    "home": HOME,
    "list": replace(HOME, scene=Scene.LIST),
    "dialog": replace(HOME, scene=Scene.DIALOG),
    "popup": replace(HOME, popup=True),
}


def touched(state: HerdState, name: str, size: tuple[int, int] = (1280, 720)) -> HerdState:
    return tap(state, *regions(state, *size)[name].centre(), *size)


def signed_in(size: tuple[int, int]) -> HerdState:
    state = touched(HerdState(), "app_icon", size)
    state = scenes.type_text(touched(state, "account", size), "bob")
    state = scenes.type_text(touched(state, "password", size), "secret")
    return touched(state, "sign_in", size)


@pytest.mark.parametrize("size", SIZES)
def test_the_main_road_through_the_app(size: tuple[int, int]):
    home = signed_in(size)
    assert (Scene.HOME, "bob") == (home.scene, home.signed_in)
    gifted = touched(touched(home, "gift", size), "ok", size)
    assert (Scene.HOME, True, 1) == (gifted.scene, gifted.gift_taken, gifted.claims)
    again = touched(gifted, "gift", size)
    assert (Scene.HOME, 1, "Already collected") == (again.scene, again.claims, again.message)
    listed = touched(gifted, "list", size)
    claimed = touched(touched(listed, "claim_0", size), "claim_3", size)
    assert ((0, 3), 3) == (claimed.claimed, claimed.claims)
    assert {"claim_0", "claim_3"}.isdisjoint(regions(claimed, *size))
    assert Scene.HOME is touched(claimed, "back", size).scene


def test_a_popup_swallows_every_tap_but_its_cross():
    state = replace(HOME, popup=True)
    assert state == tap(state, *regions(HOME)["gift"].centre())
    assert not touched(state, "close").popup


def test_whoever_is_suspected_shows_once_that_a_person_is_there():
    state = touched(replace(EVERY["sign_in"], account="bob", suspicious=True), "password")
    asked = touched(scenes.type_text(state, "secret"), "sign_in")
    assert (Scene.CAPTCHA, "bob") == (asked.scene, asked.signed_in)
    assert Scene.CAPTCHA is app.start(app.stop(asked)).scene
    solved = touched(asked, "person")
    assert (Scene.HOME, Scene.HOME) == (solved.scene, app.start(app.stop(solved)).scene)


def test_home_and_start_bring_the_app_back_to_where_it_was():
    listed = replace(HOME, scene=Scene.LIST)
    away = app.key(listed, "HOME")
    assert (Scene.LAUNCHER, True) == (away.scene, away.running)
    assert Scene.LIST is app.start(away).scene


def test_back_leads_out_step_by_step():
    dialog = touched(HOME, "gift")
    assert [Scene.DIALOG, Scene.HOME, Scene.LAUNCHER] == [
        dialog.scene, app.key(dialog, "BACK").scene, app.key(app.key(dialog, "BACK"), "BACK").scene,
    ]  # fmt: skip


def test_every_row_can_be_reached_by_scrolling():
    state = replace(HOME, scene=Scene.LIST)
    for _ in range(40):
        for name in [name for name in regions(state) if name.startswith("claim_")]:
            state = touched(state, name)
        state = scenes.swipe(state, (600, 600), (600, 500))
    assert tuple(range(app.ROWS)) == state.claimed


def test_a_start_without_the_stored_sign_in_asks_for_it():
    assert Scene.SIGN_IN is app.start(app.clear(HOME)).scene
    assert Scene.HOME is app.start(app.stop(HOME)).scene


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_are_the_same_each_time_opaque_and_nowhere_flat(name: str, size: tuple[int, int]):
    width, height = size
    picture = render(EVERY[name], width, height)
    assert (height, width, 4) == picture.shape
    assert np.array_equal(picture, render(EVERY[name], width, height))
    assert {255} == set(np.unique(picture[:, :, 3]))
    assert len(np.unique(picture[:, :, 0])) > 16


def test_scenes_are_distinguishable():
    pictures = [render(state).tobytes() for state in EVERY.values()]
    assert len(EVERY) == len(set(pictures))


@pytest.mark.parametrize(
    ("scene", "name"), [("launcher", "app_icon"), ("home", "gift"), ("list", "back"), ("popup", "close")]
)
def test_an_element_is_found_in_its_area(scene: str, name: str):
    state = EVERY[scene]
    picture = cv2.cvtColor(render(state), cv2.COLOR_RGBA2GRAY)
    box = regions(state)[name]
    template = picture[box.y : box.y + box.height, box.x : box.x + box.width]
    _, best, _, where = cv2.minMaxLoc(cv2.matchTemplate(picture, template, cv2.TM_CCOEFF_NORMED))
    assert (box.x, box.y) == where
    assert best > 0.99


STATES = st.builds(
    HerdState,
    scene=st.sampled_from([scene for scene in Scene if scene is not Scene.BOOT]),
    popup=st.booleans(),
    running=st.booleans(),
    scroll=st.integers(0, app.SCROLL_MAX),
    signed_in=st.sampled_from(["", "bob"]),
    claimed=st.sets(st.integers(0, app.ROWS - 1)).map(lambda rows: tuple(sorted(rows))),
    taps=st.integers(0, 5),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(state=STATES, x=st.integers(-5, 1300), y=st.integers(-5, 730))
def test_no_tap_loses_what_was_claimed_or_counts_twice(state: HerdState, x: int, y: int):
    after = tap(state, x, y)
    assert after.taps - state.taps in {0, 1}
    assert after.claims - state.claims in {0, 1}
    assert after.taps > state.taps or after == state


@settings(max_examples=60, deadline=None, derandomize=True)
@given(state=STATES)
def test_what_does_not_show_does_not_change_the_picture(state: HerdState):
    assert np.array_equal(render(state, 320, 180), render(visible(state), 320, 180))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(state=STATES)
def test_every_element_has_a_label_and_lies_on_the_screen(state: HerdState):
    for name, box in regions(state).items():
        assert 0 <= box.x <= box.x + box.width <= 1280
        assert 0 <= box.y <= box.y + box.height <= 720
        assert name in labels(state)
