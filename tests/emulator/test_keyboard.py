"""Text beyond ASCII arrives as it is, the keyboard is afterwards as it was, and who cannot type it says why."""

from collections.abc import Generator
from pathlib import Path

import pytest

from droidherd.domain.errors import BadParametersError, CommandFailedError, UnknownOutcomeError
from droidherd.domain.ports import Acted
from droidherd.domain.task.things import OWN_FOLDER
from droidherd.emulator import acts, lease, lines
from droidherd.emulator.acts import KEYBOARD
from droidherd.emulator.boot import baseline
from droidherd.emulator.hands import EmulatorHands
from droidherd.emulator.token import Token
from droidherd.virtual.tinyapk import tiny_apk
from tests.emulator.farm import LONG_S, One
from tests.emulator.stand import SHELLS, Stand

PACKAGE = KEYBOARD.partition("/")[0]
LATIN = "com.android.inputmethod.latin/.LatinIME"
TEXTS = ["naïve Grüße", "日本語 テスト", "emoji 😀👩‍👩‍👧", 'it\'s "$HOME" `id` \\ & %s | ü', "עברית and עוד"]


@pytest.fixture
def typist(one: One) -> Generator[One]:
    """With the keyboard installed, and the account field in focus."""
    one.adb.shell(one.address, "cat >/data/local/tmp/k.apk; pm install /data/local/tmp/k.apk", LONG_S,
                  stdin=tiny_apk(PACKAGE, 1))  # fmt: skip
    one.control.set_app(one.name, scene="sign_in", running=True, field="account", account="")
    yield one
    one.control.clear_fault(one.name)
    one.adb.shell(one.address, f"pm uninstall {PACKAGE}; ime reset; rm -f {OWN_FOLDER}/keyboard", LONG_S)


def typed(one: One) -> str:
    return one.control.state(one.name)["app"]["account"]


def settings(one: One) -> tuple[str, str]:
    """The keyboard that is current, and those that are enabled."""
    names = ("default_input_method", "enabled_input_methods")
    line = "; ".join(f"settings get secure {name}" for name in names)
    current, enabled = one.adb.shell(one.address, line, LONG_S).text.split()
    return current, enabled


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_arrives_as_it_is_and_the_keyboard_is_as_it_was(typist: One, text: str):
    before = settings(typist)
    assert Acted.DONE == typist.hands().type_text("1", text)
    assert (text, before) == (typed(typist), settings(typist))
    assert [] == typist.did("input text")


def test_plain_text_needs_no_keyboard(typist: One):
    typist.hands().type_text("1", "plain")
    assert ("plain", []) == (typed(typist), typist.did("ime"))


def test_a_text_is_typed_once_though_the_stage_runs_again(typist: One):
    typist.hands().type_text("1", "ü")
    assert Acted.AGAIN == typist.hands(attempt=2).type_text("1", "ü")
    assert "ü" == typed(typist)


def test_without_a_keyboard_for_it_the_remedy_is_named(one: One):
    before = settings(one)
    with pytest.raises(CommandFailedError, match=r"install ADBKeyBoard \(com\.android\.adbkeyboard\)") as caught:
        one.hands().type_text("1", "größer")
    assert (acts.NO_KEYBOARD, before) == (caught.value.rc, settings(one))
    assert "größer" not in str(caught.value)


def test_without_a_field_in_focus_nothing_is_typed_into_nowhere(typist: One):
    typist.control.set_app(typist.name, field="")
    before = settings(typist)
    with pytest.raises(CommandFailedError, match="no text field has the focus") as caught:
        typist.hands().type_text("1", "ü")
    assert (acts.NOT_SHOWN, before) == (caught.value.rc, settings(typist))


@pytest.mark.parametrize("text", ["a\nb", "a\tü", "\x7f", "\ud800", "a\u2028b", "ü" * 1001])
def test_what_no_keyboard_types_is_refused_before_anything_is_sent(one: One, text: str):
    with pytest.raises(BadParametersError):
        one.hands().type_text("1", text)
    assert [] == one.acts()


def cut_while_typing(typist: One) -> EmulatorHands:
    """The worker is gone in the middle: the keyboard is ours, and nobody is there to change it back."""
    hands = typist.hands()
    typist.control.cut_after(typist.name, "^am broadcast", when="before")
    with pytest.raises(UnknownOutcomeError):
        hands.type_text("1", "ü")
    typist.seize(attempt=1)
    assert KEYBOARD == settings(typist)[0]
    return hands


def test_a_keyboard_that_was_left_behind_comes_back_when_the_lease_ends(typist: One):
    before = settings(typist)
    cut_while_typing(typist)
    lease.release(typist.adb, typist.address, typist.token())
    assert before == settings(typist)
    assert 1 == typist.adb.shell(typist.address, f"[ -e {OWN_FOLDER}/keyboard ]", LONG_S).rc


def test_a_keyboard_that_was_left_behind_comes_back_with_the_baseline(typist: One):
    before = settings(typist)
    cut_while_typing(typist)
    fence = Token(typist.lease + 1)
    lease.fence(typist.adb, typist.address, fence)
    baseline(typist.adb, typist.address, fence)
    assert before == settings(typist)


def test_the_keyboard_from_before_the_first_death_is_the_one_that_comes_back(typist: One):
    before = settings(typist)
    hands = cut_while_typing(typist)
    hands.forget("1")
    hands.type_text("1", "ü")
    assert ("ü", before) == (typed(typist), settings(typist))


def test_a_keyboard_that_is_gone_is_replaced_by_androids_own_choice(typist: One):
    typist.adb.shell(typist.address, f"echo 'gone.app/.Keys ' >{OWN_FOLDER}/keyboard", LONG_S)
    typist.adb.shell(typist.address, acts.restore_keyboard(), LONG_S)
    assert LATIN == settings(typist)[0]


@pytest.mark.parametrize("shell", SHELLS)
def test_letting_go_asks_nothing_about_keyboards_where_none_was_changed(tmp_path: Path, shell: str):
    stand = Stand.build(tmp_path / "stand", shell)
    stand.set(Token(5))
    stand.breaks("settings")
    assert "released" == stand.run(lines.release(Token(5), stand.places)).word
