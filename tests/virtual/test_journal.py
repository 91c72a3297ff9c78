"""The command journal: every simple command once, in order, readable after any death."""

import json
from pathlib import Path

from droidherd.virtual.journal import JOURNAL, PREDECESSOR, CommandJournal, ExecutedCommand, effects, read
from tests.virtual.stand import Stand, stand_in

MOMENT: dict[str, float | int | str] = {"uptime_s": 41.0, "boot": 1, "stream": 3, "token": "t"}


def journaled(stand: Stand) -> list[ExecutedCommand]:
    return read(stand.emulator.body.folder.parent, "virtual-1")


def test_each_simple_command_of_a_line_is_one_entry(stand: Stand):
    stand.run('t=$(getprop x); if [ "$t" = "" ]; then echo a | cat; fi; false')
    expected = [("getprop x", 0), ("[  =  ]", 0), ("echo a", 0), ("cat", 0), ("false", 1)]
    assert expected == [(command.line, command.rc) for command in journaled(stand)]


def test_effects_are_marked(stand: Stand):
    stand.run(
        "input tap 1 1; am start x; getprop x; pm list packages; settings get system x; settings put system x 1;"
        "setprop a.b c; echo x >/sdcard/x; echo x >/dev/null; cat /sdcard/x; rm /sdcard/x; cmd package clear x; wm size"
    )
    assert ["input", "am", "settings", "setprop", "echo", "rm", "cmd"] == [
        command.argv[0] for command in effects(journaled(stand))
    ]


def test_an_entry_tells_when_where_and_under_which_token(stand: Stand):
    stand.run("setprop debug.droidherd.token 7.1.1; input tap 1 1")
    last = journaled(stand)[-1]
    assert (2, "7.1.1", 1, ("input", "tap", "1", "1"), 0) == (last.seq, last.token, last.boot, last.argv, last.rc)
    assert last.uptime_s >= 40.0
    assert last.monotonic_s > 0


def test_a_command_that_was_refused_by_its_redirect_is_no_entry(stand: Stand):
    stand.run("input tap 1 1 >/system/x")
    assert [] == journaled(stand)


def test_half_a_line_left_by_a_kill_is_dropped_and_the_next_stands_alone(tmp_path: Path):
    folder = tmp_path / "e"
    folder.mkdir()
    journal = CommandJournal(folder)
    journal.write(["one"], 0, effect=False, moment=MOMENT)
    journal.close()
    with (folder / JOURNAL).open("ab") as file:
        file.write(b'{"seq": 2, "argv": ["tw')
    assert ["one"] == [command.line for command in read(tmp_path, "e")]
    again = CommandJournal(folder)
    again.write(["three"], 0, effect=True, moment=MOMENT)
    again.close()
    assert [(1, "one"), (2, "three")] == [(command.seq, command.line) for command in read(tmp_path, "e")]


def test_it_keeps_one_predecessor_and_no_more(tmp_path: Path):
    (tmp_path / "e").mkdir()
    journal = CommandJournal(tmp_path / "e", size_limit=2000)
    for number in range(100):
        journal.write([f"c{number}"], 0, effect=False, moment=MOMENT)
    journal.close()
    kept = [command.seq for command in read(tmp_path, "e")]
    assert list(range(kept[0], 101)) == kept
    assert 10 <= len(kept) < 40
    assert {JOURNAL, PREDECESSOR} == {path.name for path in (tmp_path / "e").iterdir()}


def test_bytes_that_are_no_text_do_not_break_a_line(stand: Stand):
    stand.run("echo 'a\nb' \"$(printf '\\377')\"")
    path = stand.emulator.body.folder / JOURNAL
    assert all(json.loads(line) for line in path.read_bytes().splitlines())
    assert "a\nb" == journaled(stand)[-1].argv[1]


def test_numbers_go_on_after_a_crash(tmp_path: Path):
    with stand_in(tmp_path) as stand:
        stand.run("echo 1")
    with stand_in(tmp_path) as stand:
        stand.run("echo 2")
        assert [(1, 1), (2, 2)] == [(command.seq, command.boot) for command in journaled(stand)]
