import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from droidherd.adb.quote import QUOTED_LIMIT_BYTES, TEXT_LIMIT, input_text, quote
from droidherd.domain.errors import BadParametersError

SHELLS = [name for name in ("sh", "bash", "mksh") if shutil.which(name)]
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
printable = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)


def echoed(shell: str, line: str) -> list[str]:
    """Each argument as the command got it."""
    script = f'show() {{ for one in "$@"; do printf "%s\\0" "$one"; done; }}; show {line}'
    done = subprocess.run([shell, "-c", script], capture_output=True, timeout=10, check=True)
    assert b"" == done.stderr
    return done.stdout.decode().split("\0")[:-1]


@settings(max_examples=60, deadline=None)
@given(st.lists(words, min_size=1, max_size=20))
@example(
    ["", "'", "''", "\\", "'\\''", "$(reboot)", "`reboot`", "a\nb", "\r\n", "*", "~", "-n", "😀", "!!", "%s", "\u2028"]
)
def test_a_quoted_text_is_one_word_that_means_itself(texts: list[str]):
    for shell in SHELLS:
        assert texts == echoed(shell, " ".join(quote(text) for text in texts))


@pytest.mark.parametrize(
    "text", ["a\0b", "\ud800", "x" * (QUOTED_LIMIT_BYTES + 1), "ü" * (QUOTED_LIMIT_BYTES // 2 + 1)]
)
def test_what_no_shell_line_can_contain_is_refused(text: str):
    with pytest.raises(BadParametersError):
        quote(text)


def android_types(commands: list[list[str]]) -> str:
    """What `input text` makes of its argument: %s is a space, any other % is itself."""
    typed = ""
    for name, verb, argument in commands:
        assert ("input", "text") == (name, verb)
        typed += argument.replace("%s", " ")
    return typed


@settings(max_examples=60, deadline=None)
@given(printable)
@example("100%s %%s% s%")
@example("%s%s%s")
@example("% s")
def test_every_printable_ascii_text_can_be_typed(text: str):
    command = input_text(text)
    if command == ":":
        assert "" == text
        return
    arguments = [piece.removeprefix("input text ") for piece in command.split(" && input text ")]
    # Splitting at the joint is only safe because a space never stays inside a quoted piece.
    commands = [["input", "text", *echoed("sh", one)] for one in arguments]
    assert text == android_types(commands)


@pytest.mark.parametrize("text", ["naïve", "日本", "😀", "a\tb", "a\nb", "\x7f", "x" * (TEXT_LIMIT + 1)])
def test_what_input_cannot_type_is_refused_with_a_reason(text: str):
    with pytest.raises(BadParametersError):
        input_text(text)


def test_the_character_that_cannot_be_typed_is_named():
    with pytest.raises(BadParametersError, match=r"U\+00EF"):
        input_text("naïve")
