"""Whatever a text, a path, a package, a setting or a property is made of: the same bytes come back, or a reason.

Each string goes through the one quoting function to the shells of this machine, and through the real adb server to a
virtual emulator, whose own record says what its commands were given.
"""

import base64
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from droidherd.adb.client import AdbClient
from droidherd.adb.files import DeviceFiles
from droidherd.adb.quote import QUOTED_LIMIT_BYTES, TEXT_LIMIT, is_plain, quote
from droidherd.domain.errors import BadParametersError
from droidherd.domain.ports import Wanted
from droidherd.domain.task.things import State
from droidherd.emulator import acts, making
from droidherd.emulator.acts import KEYBOARD
from droidherd.virtual.tinyapk import tiny_apk
from tests.emulator.farm import LONG_S, One, small_farm

SHELLS = [name for name in ("sh", "dash", "bash", "mksh") if shutil.which(name)]
BATCH = 25
LINE_BYTES = 50_000
NAME_BYTES = 70
FOLDER = "/data/local/tmp/hostile"
TRUE_REASONS = ("NUL", "Unicode", "too long", "too many", "U+", "half a character", "option", "path", "names no app",
                "is not a package", "should hold", "absolute", "droidherd's own")  # fmt: skip
NASTY = (
    "", "'", "''", "\\", "'\\''", "$(reboot)", "`reboot`", "${IFS}", "$'\\n'", "a\nb", "\r\n", "\n", "*", "~", "-n",
    "--", "--user", "-e x", "😀",
    "!!", "%s", "%%s%s", "\u2028", "\0", "a\0b", "\ud800", "e\u0301", "\u202eabc", "\ufeff",
    "null", "default", "; rm -rf /", "&& echo", "|| echo", "> /sdcard/x", "< /dev/null", "$?", "$$", "#", "a b", " ",
    "\t", "\x1b[2J", "\x7f", "\xa0", "EOF", "dh:acted 0", "'; echo dh:done; '", "../../x", "/", ".", "..", "x" * 92,
    "ü" * 46, "x" * 9000, ".droidherd-x",
)  # fmt: skip
TROUBLE = "'\"\\$`!&|;<>(){}[]*?~#%=^ \t\n\r-+,.:/@0aZ\0\x01\x7fü€😀\u0301\u202e\ud800\udfff"
hostile = st.one_of(
    st.text(TROUBLE, max_size=24),
    st.text(max_size=24),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40),
    st.sampled_from(NASTY),
)


@dataclass
class Bench:
    """Where strings are sent, and what came back."""

    one: One
    folder: Path
    sent: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    _read: int = 0

    @property
    def adb(self) -> AdbClient:
        return self.one.adb

    def run(self, line: str) -> bytes:
        result = self.adb.shell(self.one.address, line, LONG_S)
        assert (0, b"") == (result.rc, result.err), (result.err, line[:2000])
        return result.out

    def record(self) -> list[list[str]]:
        """What the emulator's commands were given since the last look."""
        path = self.one.farm.fleet.state / self.one.name / "commands.jsonl"
        with path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        self._read += len(new)
        return [json.loads(line)["argv"] for line in new.splitlines()]

    def allowed(self, strings: Sequence[str], make: Callable[[str], str]) -> list[tuple[str, str]]:
        """What `make` lets pass, with what it made of it. What it refuses, it refuses for a reason that is said."""
        passed: list[tuple[str, str]] = []
        for text in strings:
            try:
                passed.append((text, make(text)))
            except BadParametersError as error:
                self.refused[_reason(error)] += 1
        return passed


def _reason(error: BadParametersError) -> str:
    found = [reason for reason in TRUE_REASONS if reason in str(error)]
    if not found:
        raise AssertionError(f"refused without a reason that is known: {error}")
    return found[0]


def batches(pairs: Sequence[tuple[str, str]]) -> Generator[list[tuple[str, str]]]:
    """So many that they fit into one line."""
    batch: list[tuple[str, str]] = []
    size = 0
    for pair in pairs:
        length = len(pair[1].encode("utf-8", "replace")) + 80
        if batch and size + length > LINE_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(pair)
        size += length
    if batch:
        yield batch


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Generator[Bench]:
    root = tmp_path_factory.mktemp("hostile")
    with small_farm(root) as farm:
        one = farm.emulator("virtual-1")
        apk = tiny_apk(KEYBOARD.partition("/")[0], 1)
        one.adb.shell(one.address, "cat >/data/local/tmp/k.apk; pm install /data/local/tmp/k.apk", LONG_S, stdin=apk)
        farm.control.set_app(one.name, scene="sign_in", running=True, field="account")
        yield Bench(one, root)


# --- each kind -------------------------------------------------------------------------------------------------------


def words(bench: Bench, strings: Sequence[str]) -> None:
    """As words of a line: to real shells, and to the emulator's."""
    for batch in batches(bench.allowed(strings, quote)):
        line = "printf '%s\\0' " + " ".join(quoted for _, quoted in batch)
        expected = b"".join(text.encode() + b"\0" for text, _ in batch)
        assert expected == bench.run(line)
        for shell in SHELLS:
            done = subprocess.run([shell, "-c", line], capture_output=True, timeout=30, check=True)
            assert (expected, b"") == (done.stdout, done.stderr), shell


def values(bench: Bench, strings: Sequence[str], thing: str) -> None:
    """As settings and properties: made what they are to be, and asked for again."""
    names = {"setting": "global/hostile_{}", "property": "debug.hostile.{}"}
    numbered = {text: names[thing].format(number) for number, text in enumerate(dict.fromkeys(strings))}
    made = bench.allowed([*numbered], lambda text: making.making(Wanted(thing, numbered[text], State(text))))
    for batch in batches(made):
        asked = (f"{making.question(thing, numbered[text])}; printf '\\0'" for text, _ in batch)
        line = "\n".join([*(f"{made} || exit 9" for _, made in batch), *asked])
        assert b"".join(text.encode() + b"\n\0" for text, _ in batch) == bench.run(line)


def paths(bench: Bench, strings: Sequence[str]) -> None:
    """As names of files: written by a shell and read by other means, and the other way round."""
    numbered = {text: f"{FOLDER}/{number}/{text}" for number, text in enumerate(dict.fromkeys(strings))}
    short = [
        text for text in numbered if all(len(part.encode("utf-8", "replace")) < NAME_BYTES for part in text.split("/"))
    ]
    made = bench.allowed(short, lambda text: making.check_thing("file", numbered[text])[1])
    files = DeviceFiles(bench.adb, bench.one.address)
    writes = [
        (text, f'f={word}; mkdir -p "${{f%/*}}" && printf %s {quote(text)} >"$f" || exit 9') for text, word in made
    ]
    for batch in batches(writes):
        line = "\n".join(each for _, each in batch)
        bench.run(line)
        home = bench.folder / "paths"
        local = line.replace(FOLDER, str(home))
        subprocess.run([SHELLS[0], "-c", local], timeout=30, check=True)
        for text, _ in batch:
            assert text.encode() == files.pull(numbered[text], LONG_S)
            assert text.encode() == Path(numbered[text].replace(FOLDER, str(home))).read_bytes()
        shutil.rmtree(home)
        bench.run(f"rm -rf {quote(FOLDER)}")


def packages(bench: Bench, strings: Sequence[str]) -> None:
    """As names of apps: hostile ones are refused, and even unchecked each is one word of a command."""
    for text, line in bench.allowed([*strings, "com.example.herd"], acts.stop_app):
        assert f"am force-stop {quote(text)}" == line
    bench.record()
    for batch in batches(bench.allowed(strings, lambda text: f"pm path {quote(text)}")):
        bench.run("\n".join(f"{line} || :" for _, line in batch))
        given = [argv[2] for argv in bench.record() if argv[:2] == ["pm", "path"]]
        assert [text for text, _ in batch] == given


def typed(bench: Bench, strings: Sequence[str]) -> None:
    """As text that is typed: by key presses or by the keyboard that is told."""
    bench.record()
    for batch in batches(bench.allowed(strings, acts.type_text)):
        bench.run("\n".join(f"{line} || exit 9; echo typed >/dev/null" for _, line in batch))
        pieces = [""]
        for argv in bench.record():
            if argv[:2] == ["input", "text"]:
                pieces[-1] += argv[2].replace("%s", " ")
            elif argv[:2] == ["am", "broadcast"]:
                pieces[-1] += base64.b64decode(argv[-1]).decode()
            elif argv[:2] == ["echo", "typed"]:
                pieces.append("")
        assert [text for text, _ in batch] == pieces[:-1]


def send(bench: Bench, strings: list[str]) -> None:
    """The same strings in every role."""
    words(bench, strings)
    values(bench, strings, "setting")
    values(bench, strings, "property")
    paths(bench, strings)
    packages(bench, strings)
    typed(bench, strings)
    bench.sent += len(strings)


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
batch_of = st.lists(hostile, min_size=BATCH, max_size=BATCH)


def test_each_nasty_word_comes_back_or_is_refused_for_a_reason(bench: Bench):
    send(bench, [*NASTY])
    assert {"NUL", "Unicode", "too long", "too many", "U+", "names no app", "droidherd's own"} <= set(bench.refused)


@settings(max_examples=6, deadline=None, suppress_health_check=SLOW)
@given(batch_of)
def test_hostile_strings_come_back_or_are_refused_for_a_reason(bench: Bench, strings: list[str]):
    send(bench, strings)


@pytest.mark.long
def test_five_thousand_hostile_strings_come_back_or_are_refused_for_a_reason(bench: Bench):
    before = bench.sent

    @settings(max_examples=5_000 // BATCH + 5, deadline=None, suppress_health_check=SLOW, database=None)
    @given(batch_of)
    def many(strings: list[str]) -> None:
        send(bench, strings)

    many()
    assert bench.sent - before >= 5_000


def property_of(text: str) -> str:
    return making.making(Wanted("property", "debug.x", State(text)))


def test_what_is_refused_is_refused_by_its_limit():
    """One more than what passes."""
    for passes, refused, make in (
        ("x" * QUOTED_LIMIT_BYTES, "x" * (QUOTED_LIMIT_BYTES + 1), quote),
        ("ü" * TEXT_LIMIT, "ü" * (TEXT_LIMIT + 1), acts.type_text),
        ("x" * 91, "x" * 92, property_of),
    ):
        assert make(passes)
        with pytest.raises(BadParametersError, match=r"too (long|many)"):
            make(refused)
    assert (True, False) == (is_plain("~ !"), is_plain("\x7f"))
