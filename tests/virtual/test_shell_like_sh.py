"""The pure part of the grammar against a real shell of this machine."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.virtual.stand import Stand, stand_in

SH = shutil.which("sh") or "/bin/sh"

LETTERS = st.text("ab c.*/-_", max_size=5)
NAMES = st.sampled_from(["x", "y", "z"])
NUMBERS = st.integers(-99, 99).map(str)


def fill(form: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The form with each `@` replaced by a part, in turn."""

    def put(values: tuple[str, ...]) -> str:
        pieces = form.split("@")
        return pieces[0] + "".join(value + piece for value, piece in zip(values, pieces[1:], strict=True))

    return st.tuples(*parts).map(put)


PATTERNS = st.text("ab.*?/", min_size=1, max_size=3)
LOGIC = st.sampled_from(["+", "-", "*", "<", ">", "==", "&&", "||", "&", "|", "^"])
ARITHMETIC = st.recursive(
    st.one_of(fill("(@)", NUMBERS), st.just("n")), lambda inner: fill("(@ @ @)", inner, LOGIC, inner), max_leaves=5
)
WORDS = st.one_of(
    fill("'@'", LETTERS),
    fill('"@"', LETTERS),
    st.text("abc./-", min_size=1, max_size=5),
    fill('"$@"', NAMES),
    fill("$@", NAMES),
    fill("a${@}b", NAMES),
    fill('"${@@@}"', NAMES, st.sampled_from(["%", "%%", "#", "##"]), PATTERNS),
    fill('"${@@@}"', NAMES, st.sampled_from([":-", "-", ":+", "+"]), st.text("ab", max_size=3)),
    fill("$((@))", ARITHMETIC),
)
LISTS = st.lists(WORDS, max_size=3).map(" ".join)
PRINTS = fill("printf '%s|' @ @", WORDS, LISTS)
SIMPLE = st.one_of(
    PRINTS,
    fill("@=@", NAMES, WORDS),
    fill("[ @ @ @ ]", NUMBERS, st.sampled_from(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"]), NUMBERS),
    fill("[ \"$@\" @ '@' ]", NAMES, st.sampled_from(["=", "!=", r"\<", r"\>"]), LETTERS),
    fill('[ @ "$@" ]', st.sampled_from(["-n", "-z", "! -n"]), NAMES),
    st.sampled_from([":", "true", "false", "printf '%s|' $?"]),
)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        fill("@@@", inner, st.sampled_from(["; ", " && ", " || ", "\n"]), inner),
        fill("if @; then @; else @; fi", inner, inner, inner),
        fill("for @ in @; do @; done", NAMES, LISTS, inner),
        fill("case @ in @) @;; *) @;; esac", WORDS, PATTERNS, inner, inner),
        fill("( @ )", inner),
        fill("{ @; }", inner),
        fill("! { @; }", inner),
        fill('x="$( @ )"; printf "%s|" "$x"', inner),
        fill("{ @; } | { read y; printf '%s|' \"$y\"; }", inner),
    )


SCRIPTS = st.recursive(SIMPLE, _compound, max_leaves=6)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory):
    with stand_in(tmp_path_factory.mktemp("shell")) as stand:
        yield stand


def both(shell: str, stand: Stand, script: str) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
    """Return code and output of a real shell and of ours, each in an empty folder, with a few variables set."""
    whole = f"n=7; x='a b'; y=a.b/a; {script}"
    # A pattern with a slash would leave the empty folder.
    whole = whole.replace("/", ".") if set("*?") & set(script) else whole
    empty = stand.emulator.body.folder.parent / "empty"
    empty.mkdir(exist_ok=True)
    result = stand.run(f"mkdir -p /sdcard/empty; cd /sdcard/empty; {whole}")
    return real(shell, whole, empty), (result.rc, result.out)


def real(shell: str, script: str, folder: Path) -> tuple[int, bytes]:
    done = subprocess.run([shell, "-c", script], capture_output=True, cwd=folder, timeout=10, check=False)
    return done.returncode, done.stdout


@settings(max_examples=250, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(script=SCRIPTS)
def test_generated_lines_mean_what_they_mean_to_the_shell_of_this_machine(shared: Stand, script: str):
    expected, result = both(SH, shared, script)
    assert expected == result


@settings(max_examples=300, deadline=None, derandomize=True)
@given(text=st.text("ab '\"\\$`(){};|&<>!=#*?[]\n0", max_size=24))
def test_no_text_breaks_the_parser(shared: Stand, text: str):
    assert 0 <= shared.run(text).rc <= 255


@settings(max_examples=200, deadline=None, derandomize=True)
@given(word=st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=40))
def test_a_quoted_word_arrives_as_it_was(shared: Stand, word: str):
    quoted = "'" + word.replace("'", "'\\''") + "'"
    assert word.encode() == shared.run(f"printf %s {quoted}").out
