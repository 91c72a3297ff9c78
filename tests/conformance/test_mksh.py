"""mksh, the shell of Android, against the shell of the virtual emulator."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from droidherd.emulator import lines
from droidherd.emulator.lines import UPTIME_LIMIT_S, DevicePaths, JournalEntry
from droidherd.emulator.token import Token
from droidherd.virtual import journal
from tests.emulator import stand as real_stand
from tests.virtual.stand import Stand, stand_in
from tests.virtual.test_shell_like_sh import SCRIPTS, both, real

pytestmark = pytest.mark.conformance

LEASE = 1_790_000_000_000


@pytest.fixture(scope="module")
def mksh() -> str:
    found = shutil.which("mksh")
    if found is None:
        pytest.skip("MISSING: mksh (Debian: apt-get install mksh)")
    return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stand]:
    with stand_in(tmp_path_factory.mktemp("shell")) as stand:
        yield stand


@settings(max_examples=1000, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(script=SCRIPTS)
def test_generated_lines_mean_what_they_mean_to_mksh(mksh: str, shared: Stand, script: str):
    expected, actual = both(mksh, shared, script)
    assert expected == actual


EXPRESSIONS = [
    "2147483647+1", "-2147483648-1", "3000000000", "65536*65536", "1<<31", "-7/2", "-7%3", "0x10", "5>3?1:2", "x=4,x*2",
    "1||1/0", "~5", "!0", "- -3", "2>1==1",
]  # fmt: skip
CONDITIONS = [
    "3000000000 -gt 1", "4294967297 -eq 1", "abc -eq 0", "1+1 -eq 2", "'' = ''", "! -n ''", "a -a ''", "'(' = '('",
    "-n -a -n", r"10 \> 9", r"a \< b", "-f /none", "1.5 -gt 1", "1 -gt", "a b",
]  # fmt: skip
ENDS = [
    "if then fi", "echo 'x", "exit 300", "exit", "false; exit", "(exit 5); echo $?", "no_such 2>/dev/null; echo $?",
    "echo ${x?gone}; echo on", "x=1; echo $((x/0)); echo on", "cat </none; echo $?", "echo x >/proc/none/x; echo $?",
    "case a in a) echo 1", "echo a; )", "! false; echo $?", "read x </dev/null; echo $?", "break; echo on",
    "set -- a b; shift 3; echo $?",
]  # fmt: skip
TEXTS = [f"echo $(({each}))" for each in EXPRESSIONS] + [f"[ {each} ]" for each in CONDITIONS] + ENDS


@pytest.mark.parametrize("text", TEXTS)
def test_the_edges_are_where_mksh_has_them(mksh: str, shared: Stand, tmp_path: Path, text: str):
    result = shared.run(text)
    assert real(mksh, text, tmp_path) == (result.rc, result.out)


TOKENS = st.builds(Token, st.integers(LEASE - 1, LEASE + 1), st.integers(0, 1), st.just(1))
KINDS = st.sampled_from(["seize", "effect", "effect", "settle", "forget", "release", "fence", "floor"])
STEPS = st.tuples(KINDS, TOKENS, st.booleans())


def line(step: tuple[str, Token, bool], places: DevicePaths) -> str:
    kind, token, flag = step
    entry = JournalEntry("task.run.1", "1/1.1", token, UPTIME_LIMIT_S if flag else 2)
    return {
        "seize": lines.seize(token, deck=flag, places=places),
        "effect": lines.effect(entry, "input tap 1 2", places),
        "settle": lines.settle(entry, places),
        "forget": lines.forget(entry, places),
        "release": lines.release(token),
        "fence": lines.fence(token),
        "floor": lines.floor(token),
    }[kind]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps=st.lists(STEPS, min_size=1, max_size=8))
def test_the_lines_of_the_product_get_the_same_answers(
    mksh: str, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Token, bool]]
):
    root = tmp_path_factory.mktemp("lines")
    real_one = real_stand.Stand.build(root / "real", mksh)
    with stand_in(root / "virtual") as stand:
        for step in steps:
            expected = real_one.raw(line(step, real_one.places))
            result = stand.run(line(step, DevicePaths()))
            assert (expected.rc, words(expected.out)) == (result.rc, words(result.out)), step
        done = [command for command in journal.read(root / "virtual", "virtual-1") if command.argv[0] == "input"]
        assert len(real_one.acts()) == len(done)


def words(out: bytes) -> list[str]:
    """The answer without the clock, the process and the boot, which are nobody's to share."""
    return [word for word in out.decode().split() if word.startswith("dh:")]
