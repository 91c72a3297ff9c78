"""The shell by itself: what lines mean, where they end."""

import pytest

from droidherd.virtual.shell.system import ShellLimits
from tests.virtual.stand import Stand

LINES = [
    ("""printf '%s|' a 'b c' "d  e" f\\ g""", "a|b c|d  e|f g|"),
    ("x=1; printf '%s' $x\"$x\"'$x'", "11$x"),
    ("x='a b'; printf '%s|' $x \"$x\"", "a|b|a b|"),
    ("x=''; printf '%s|' $x \"$x\" ''", "||"),
    ("false || echo no; true && echo yes; ! false && echo not", "no\nyes\nnot\n"),
    ("x=12.34; echo ${x%.*} ${x#*.} ${#x}", "12 34 5\n"),
    ("x=a/b/c; echo ${x%/*} ${x%%/*} ${x#*/} ${x##*/}", "a/b a b/c c\n"),
    ("echo ${y:-d} ${y-e} ${y:=f} $y ${y:+g}", "d e f f g\n"),
    ('y="a*b"; case $y in a\\*b) echo quoted;; *) echo other;; esac', "quoted\n"),
    ("for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; done", "1\n3\n"),
    ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; until [ $i -eq 0 ]; do i=$((i-1)); done; echo $i", "0\n"),
    ("echo a b c | while read x y; do echo $y $x; done", "b c a\n"),
    ("(x=2; echo $x); echo [$x]", "2\n[]\n"),
    ("{ echo a; echo b; } | { read x; read y; echo $y$x; }", "ba\n"),
    ('x=$(echo a; echo b; echo); echo "$x" | wc -l', "2\n"),
    ("echo `echo a \\`echo b\\``", "a b\n"),
    ("set -- a 'b c'; printf '%s|' \"$@\"; printf '%s|' $#; shift; echo \"$1\"", "a|b c|2|b c\n"),
    ("X=1 env | grep ^X=; echo [$X]", "X=1\n[]\n"),
    ("export A=5; env | grep A=5", "A=5\n"),
    ("{ cat /none; } </dev/null 2>&1; echo $?", "cat: /none: No such file or directory\n1\n"),
    ("echo 1 >&2 2>/dev/null; echo out 2>&1", "out\n"),
    ("echo x >/sdcard/f; echo y >>/sdcard/f; cat </sdcard/f; cat /sdcard/f | sort -r", "x\ny\ny\nx\n"),
    ("exec echo gone; echo never", "gone\n"),
    ("if false; then echo a; elif true; then echo b; else echo c; fi", "b\n"),
    ("echo $((2+3*4)) $(( (2+3)*4 )) $((7/2)) $((-7/2)) $((1<2 && 3>2))", "14 20 3 -3 1\n"),
    ("x=5; echo $((x*=2)) $x", "10 10\n"),
    ("echo a # not this\necho b", "a\nb\n"),
    ("echo one; \n\n echo two;", "one\ntwo\n"),
    ("touch /sdcard/a.x /sdcard/b.x /sdcard/.h.x; echo /sdcard/*.x '/s*'", "/sdcard/a.x /sdcard/b.x /s*\n"),
    ("echo /sdcard/*.none", "/sdcard/*.none\n"),
    ("cd /sdcard; pwd; echo hi >there; cat /sdcard/there", "/sdcard\nhi\n"),
    ("echo 'a\\nb'; echo -n c; echo -e 'd\\te'; echo -E 'f\\n'", "a\nb\ncd\te\nf\\n\n"),
    ("eval 'z=3; echo $z'; echo $z", "3\n3\n"),
    ("sh -c 'echo $1' name word", "word\n"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_line_says_what_a_shell_would_say(stand: Stand, line: str, expected: str):
    result = stand.run(line)
    assert (expected, 0) == (result.text, result.rc)


@pytest.mark.parametrize(
    ("line", "rc"),
    [
        ("exit 7", 7), ("false", 1), ("no_such_command", 127), ("(exit 3)", 3), ("true; exit", 0), ("false; exit", 1),
        ("echo x >/system/x", 1), ("cat </nowhere", 1), ("x=$(exit 4)", 4), ("! true", 1), ("exit 256", 0),
        ("[ a = b ]", 1), ("[ a", 2), ("[ 1.5 -gt 1 ]", 2), ("if then fi", 1), ("echo $((1/0)); echo on", 1),
        ("echo 'open", 1), ("while true; do exit 9; done", 9), ("for i in 1; do break; done", 0),
        ("false | true", 0), ("true | false", 1),
    ],
)  # fmt: skip
def test_a_line_ends_with_the_code_a_shell_would_give(stand: Stand, line: str, rc: int):
    assert rc == stand.run(line).rc


def test_integers_have_32_bits_as_on_android(stand: Stand):
    assert "-2147483648\n" == stand.out("echo $((2147483647+1))")
    assert 1 == stand.run("[ 3000000000 -gt 1 ]").rc
    assert 0 == stand.run("[ 4294967297 -eq 1 ]").rc


def test_text_is_compared_as_text(stand: Stand):
    assert 0 == stand.run(r'[ "000001790000000.001.001" \< "000001790000001.000.000" ]').rc
    assert 1 == stand.run(r"[ 10 \> 9 ]").rc


@pytest.mark.parametrize(
    ("words", "rc"),
    [
        ("! = !", 0), ("! x", 1), ("! ''", 0), ("-n", 0), ("x -a ''", 1), ("'' -o x", 0), ("-z ''", 0),
        ("-e /sdcard", 0), ("-d /sdcard", 0), ("-f /sdcard", 1), ("-f /proc/uptime", 0), ("-s /sdcard/none", 1),
        ("( a = b ) -o c", 0),
        ("1 -ne 2", 0), ("-1 -lt 0", 0), ("= = =", 0),
    ],
)  # fmt: skip
def test_conditions_follow_the_number_of_words(stand: Stand, words: str, rc: int):
    assert rc == stand.run(f"[ {words.replace('(', chr(92) + '(').replace(')', chr(92) + ')')} ]").rc


def test_a_loop_without_end_ends_at_the_limit(stand: Stand):
    result = stand.run("while true; do :; done", limits=ShellLimits(commands=500))
    assert (2, b"sh: too many commands in one line\n") == (result.rc, result.err)


def test_deep_nesting_is_refused_instead_of_breaking_the_process(stand: Stand):
    for line in (
        "$(" * 500 + ")" * 500,
        "(" * 500 + ")" * 500,
        "{ " * 500,
        "if true; then " * 200,
        "echo $((" + "(" * 900,
    ):
        assert stand.run(line).rc in {1, 2}


def test_a_redirect_that_fails_keeps_the_command_from_running(stand: Stand):
    result = stand.run("input tap 640 300 >/system/x; echo $?")
    assert ("1\n", "launcher") == (result.text, stand.emulator.app.scene)
    assert b"Read-only file system" in result.err


def test_what_is_piped_on_stdin_reaches_the_command(stand: Stand):
    assert b"abc" == stand.run("cat", stdin=b"abc").out
    assert b"3\n" == stand.run("read x; read y; echo $y", stdin=b"1\n3\n").out


def test_bytes_pass_through_unchanged(stand: Stand):
    data = bytes(range(256))
    assert data == stand.run("cat >/sdcard/b; cat /sdcard/b", stdin=data).out
