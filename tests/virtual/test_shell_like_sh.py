"""The pure part of the grammar against a real shell of this machine."""

import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.virtual.stand import Stand, stand_in

SH = shutil.which("sh") or "/bin/sh"

LETTERS = st.text("ab c.*/-_", max_size=5)
NAMES = st.sampled_from(["x", "y", "z"])
NUMBERS = st.integers(-99, 99)


def _single(text: str) -> str:
    return f"'{text}'"


def _double(text: str) -> str:
    return f'"{text}"'


PATTERNS = st.text("ab.*?/", min_size=1, max_size=3)
TRIMMED = st.builds(
    lambda name, op, pattern: f'"${{{name}{op}{pattern}}}"', NAMES, st.sampled_from(["%", "%%", "#", "##"]), PATTERNS
)
DEFAULTED = st.builds(
    lambda name, op, text: f'"${{{name}{op}{text}}}"', NAMES, st.sampled_from([":-", "-", ":+", "+"]), st.text("ab", max_size=3)
)
ARITHMETIC = st.recursive(
    st.one_of(NUMBERS.map(lambda number: f"({number})"), st.just("n")),
    lambda inner: st.builds(
        lambda left, op, right: f"({left} {op} {right})",
        inner,
        st.sampled_from(["+", "-", "*", "<", ">", "==", "&&", "||", "&", "|", "^"]),
        inner,
    ),
    max_leaves=5,
)
WORDS = st.one_of(
    LETTERS.map(_single),
    LETTERS.map(_double),
    st.text("abc./-", min_size=1, max_size=5),
    NAMES.map(lambda name: f'"${name}"'),
    NAMES.map(lambda name: f"${name}"),
    NAMES.map(lambda name: f"a${{{name}}}b"),
    TRIMMED,
    DEFAULTED,
    ARITHMETIC.map(lambda text: f"$(({text}))"),
)
PRINTS = st.lists(WORDS, min_size=1, max_size=4).map(lambda words: f"printf '%s|' {' '.join(words)}")
ASSIGNS = st.builds(lambda name, word: f"{name}={word}", NAMES, WORDS)
NUMERIC = st.builds(
    lambda left, op, right: f"[ {left} {op} {right} ]",
    NUMBERS, st.sampled_from(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"]), NUMBERS,
)  # fmt: skip
TEXTUAL = st.builds(
    lambda left, op, right: f'[ "$${left}" {op} {right} ]'.replace("$$", "$"),
    NAMES, st.sampled_from(["=", "!=", r"\<", r"\>"]), LETTERS.map(_single),
)  # fmt: skip
EMPTY = st.builds(lambda op, name: f'[ {op} "${name}" ]', st.sampled_from(["-n", "-z", "! -n"]), NAMES)
SIMPLE = st.one_of(PRINTS, ASSIGNS, NUMERIC, TEXTUAL, EMPTY, st.sampled_from([":", "true", "false", "printf '%s|' $?"]))


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(lambda a, op, b: f"{a}{op}{b}", inner, st.sampled_from(["; ", " && ", " || ", "\n"]), inner),
        st.builds(lambda a, b, c: f"if {a}; then {b}; else {c}; fi", inner, inner, inner),
        st.builds(lambda name, words, body: f"for {name} in {' '.join(words)}; do {body}; done",
                  NAMES, st.lists(WORDS, max_size=3), inner),
        st.builds(lambda word, pattern, a, b: f"case {word} in {pattern}) {a};; *) {b};; esac", WORDS, PATTERNS, inner, inner),
        st.builds(lambda body: f"( {body} )", inner),
        st.builds(lambda body: f"{{ {body}; }}", inner),
        st.builds(lambda body: f"! {{ {body}; }}", inner),
        st.builds(lambda name, body: f'{name}="$({body})"; printf "%s|" "${name}"', NAMES, inner),
        st.builds(lambda body, name: f"{{ {body}; }} | {{ read {name}; printf '%s|' \"${name}\"; }}", inner, NAMES),
    )  # fmt: skip


SCRIPTS = st.recursive(SIMPLE, _compound, max_leaves=6)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory):
    with stand_in(tmp_path_factory.mktemp("shell")) as stand:
        yield stand


def real(shell: str, script: str) -> tuple[int, bytes]:
    done = subprocess.run([shell, "-c", script], capture_output=True, cwd="/", timeout=10, check=False)
    return done.returncode, done.stdout


@settings(max_examples=250, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(script=SCRIPTS)
def test_generated_lines_mean_what_they_mean_to_the_shell_of_this_machine(shared: Stand, script: str):
    # `n` is a number for arithmetic; no file names are filled in, so both sides see no files.
    whole = f"n=7; x='a b'; y=a.b/a; {script}"
    if "/" in script and "*" in script:
        whole = whole.replace("/", ".")
    said = shared.run(whole)
    assert real(SH, whole) == (said.rc, said.out)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(text=st.text("ab '\"\\$`(){};|&<>!=#*?[]\n0", max_size=24))
def test_no_text_breaks_the_parser(shared: Stand, text: str):
    assert 0 <= shared.run(text).rc <= 255


@settings(max_examples=200, deadline=None, derandomize=True)
@given(word=st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=40))
def test_a_quoted_word_arrives_as_it_was(shared: Stand, word: str):
    quoted = "'" + word.replace("'", "'\\''") + "'"
    assert word.encode() == shared.run(f"printf %s {quoted}").out

