"""What single commands say, by noun."""

import pytest

from droidherd.virtual.layout import regions
from droidherd.virtual.scenes import HerdState
from tests.virtual.stand import Stand

SAYS = [
    ("printf 'a 1\\nb 2\\na 3\\n' | grep -c ^a", "2\n"),
    ("printf 'a1\\nb2\\n' | grep -v a", "b2\n"),
    ("printf 'ab\\na+b\\n' | grep a+b", "a+b\n"),
    ("printf 'aab\\na+b\\n' | grep -E '^a+b$'", "aab\n"),
    ("printf 'x.y\\nxzy\\n' | grep -F x.y", "x.y\n"),
    ("printf '1\\n2\\n3\\n' | head -n 2 | tail -1", "2\n"),
    ("printf '1\\n2\\n3\\n' | tail -n +2", "2\n3\n"),
    ("printf '1\\n2\\n3\\n' | wc -l", "3\n"),
    ("printf '10\\n9\\n9\\n' | sort -n | uniq", "9\n10\n"),
    ("printf '10\\n9\\n9\\n' | sort -ru", "9\n10\n"),
    ("echo a:b:c | cut -d: -f2,3", "b:c\n"),
    ("echo abcdef | cut -c2-4", "bcd\n"),
    ("echo 'a b' | tr ' a-b' '_A-B'", "A_B\n"),
    ("printf 'a\\r\\n' | tr -d '\\r'", "a\n"),
    ("echo a/b/a | sed 's/a/x/'", "x/b/a\n"),
    ("echo a/b/a | sed 's#a#[&]#g'", "[a]/b/[a]\n"),
    ("echo ab | sed 's/\\(a\\)\\(b\\)/\\2\\1/'", "ba\n"),
    ("printf '1\\n2\\n3\\n' | sed -n '2,3p'", "2\n3\n"),
    ("printf '1\\n2\\n' | sed 1d", "2\n"),
    ("printf abc | md5sum", "900150983cd24fb0d6963f7d28e17f72  -\n"),
    ("printf abc | sha256sum -b", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"),
    ("printf hi | base64", "aGk=\n"),
    ("echo aGk= | base64 -d", "hi"),
    ("basename /a/b.c; dirname /a/b.c", "b.c\n/a\n"),
    ("seq 2 4", "2\n3\n4\n"),
    ("mkdir -p /sdcard/w/a/b; touch /sdcard/w/a/b/c; ls /sdcard/w/a; rm -rf /sdcard/w/a; ls /sdcard/w", "b\n"),
    ("cd /sdcard/Download; echo 1 >x; cp x y; mv x z; ls", "y\nz\n"),
    ("touch /sdcard/x; chmod 600 /sdcard/x; stat -c '%a %s %F' /sdcard/x", "600 0 regular file\n"),
    ("setprop a.b 1; getprop a.b; getprop none; getprop none d", "1\n\nd\n"),
    ("whoami; id -u; getenforce; uname -m", "shell\n2000\nEnforcing\nx86_64\n"),
    ("wm size; wm size 720x1280; wm size; wm size reset; wm size | wc -l",
     "Physical size: 1280x720\nPhysical size: 1280x720\nOverride size: 720x1280\n1\n"),
    ("settings put global k 'a b'; settings get global k; settings delete global k; settings get global k",
     "a b\nDeleted 1 rows\nnull\n"),
    ("cmd settings put system k 1; settings list system | grep ^k", "k=1\n"),
    ("pm list packages -3 -f", "package:/data/app/~~"),
    ("cmd package list packages com.example", "package:com.example.herd\n"),
    ("pidof com.example.herd || echo none; monkey -p com.example.herd 1 >/dev/null; pidof com.example.herd",
     "none\n2210\n"),
    ("monkey -p com.example.herd -c android.intent.category.LAUNCHER 1 | head -1", "Events injected: 1\n"),
    ("am start -a android.intent.action.MAIN -c android.intent.category.LAUNCHER com.example.herd", "Starting: Intent"),
    ("log -t me hello; logcat -d -v raw me:I '*:S' | tail -1", "hello\n"),
    ("df /data | wc -l", "2\n"),
    ("dumpsys battery | grep level", "  level: 100\n"),
    ("which getprop", "/system/bin/getprop\n"),
    ("/system/bin/getprop ro.product.cpu.abi", "x86_64\n"),
    ("ls -d /sdcard; ls /proc/sys/kernel/random", "/sdcard\nboot_id\n"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), SAYS)
def test_a_command_says(stand: Stand, line: str, expected: str):
    out = stand.out(line)
    assert expected == (out if expected.endswith("\n") or expected == "hi" else out[: len(expected)])


@pytest.mark.parametrize(
    ("line", "rc", "complaint"),
    [
        ("am start -n a.b/.X", 1, "Error type 3\nError: Activity class {a.b/.X} does not exist.\n"),
        ("am frobnicate", 255, "Unknown command: frobnicate\n"),
        ("input tap 1", 255, "Error: Invalid arguments for command: tap\n"),
        ("setprop ro.serialno x", 1, "setprop: Failed to set property 'ro.serialno' to 'x'.\nSee dmesg"),
        (f"setprop debug.x {'y' * 92}", 1, f"setprop: Value '{'y' * 92}' is too long for property 'debug.x'\n"),
        ("rm /sdcard/none", 1, "rm: '/sdcard/none': No such file or directory\n"),
        ("mkdir /system/x", 1, "mkdir: '/system/x': Read-only file system\n"),
        ("touch /data/x", 1, "touch: '/data/x': Permission denied\n"),
        ("ls /data", 1, "ls: /data: Permission denied\n"),
        ("ls /none", 1, "ls: /none: No such file or directory\n"),
        ("cat /none", 1, "cat: /none: No such file or directory\n"),
        ("kill 1", 1, "kill: 1: Operation not permitted\n"),
        ("grep x /none", 2, "grep: /none: No such file or directory\n"),
        ("settings get nowhere k", 255, "Settings provider"),
        ("pm clear none", 1, ""),
        ("grep -q zz /proc/version", 1, ""),
        ("sleep x", 1, "sleep: bad number 'x'\n"),
    ],
)  # fmt: skip
def test_a_command_fails_as_on_android(stand: Stand, line: str, rc: int, complaint: str):
    result = stand.run(line)
    assert (rc, complaint) == (result.rc, result.err.decode()[: len(complaint)])
    assert bool(complaint) == bool(result.err)


def test_a_folder_by_time_has_the_newest_first(stand: Stand):
    for name in ("b", "c", "a"):
        stand.run(f"echo {name} >/sdcard/Download/{name}")
    assert "a\nc\nb\n" == stand.out("ls -t /sdcard/Download")


def test_force_stop_forgets_what_was_typed_and_clear_what_was_stored(stand: Stand):
    x, y = regions(HerdState())["app_icon"].centre()
    stand.run(
        f"input tap {x} {y}; input tap 500 300; input text bob; input tap 500 380; input text pw; input tap 600 470"
    )
    assert ("home", "bob") == (stand.emulator.app.scene, stand.emulator.app.signed_in)
    stand.run("am force-stop com.example.herd")
    assert ("launcher", "bob") == (stand.emulator.app.scene, stand.emulator.app.signed_in)
    assert "Success\n" == stand.out("pm clear com.example.herd")
    assert "" == stand.emulator.app.signed_in


def test_the_focus_is_on_what_is_in_front(stand: Stand):
    assert "com.android.launcher3/" in stand.out("dumpsys window | grep mCurrentFocus")
    stand.run("monkey -p com.example.herd 1")
    assert "u0 com.example.herd/com.example.herd.MainActivity}" in stand.out(
        "dumpsys window windows | grep mCurrentFocus"
    )
    assert "com.example.herd/.MainActivity" in stand.out("dumpsys activity activities | grep mResumedActivity")


def test_a_process_is_seen_while_its_line_runs(stand: Stand):
    assert "3001\n" == stand.out("echo $$")
    stand.emulator.lines.add(3002)
    assert 0 == stand.run("[ -d /proc/3002 ]").rc
    assert 1 == stand.run("[ -d /proc/3001 ]").rc


def test_a_swipe_scrolls_and_a_long_touch_taps(stand: Stand):
    stand.run("monkey -p com.example.herd 1")
    stand.emulator.show({"scene": "list"})
    stand.run("input swipe 600 600 600 400 10")
    assert 200 == stand.emulator.app.scroll
    box = regions(stand.emulator.app)["claim_4"].centre()
    stand.run(f"input swipe {box[0]} {box[1]} {box[0]} {box[1]} 10")
    assert (4,) == stand.emulator.app.claimed
