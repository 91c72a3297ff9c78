"""Small programs that print what the vendors' own would, and remember what they were told. Only shapes are theirs."""

import json
import sys
from pathlib import Path

MUMU = """
import json, pathlib, sys
home = pathlib.Path(__file__).parent
state = json.loads((home / "state.json").read_text())
with (home / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
def row(index, on):
    base = {"index": index, "name": f"MuMu {index}", "is_main": index == "0", "is_process_started": on,
            "is_android_started": on, "error_code": 0}
    return {**base, "adb_host_ip": "127.0.0.1", "adb_port": 16384 + 32 * int(index), "player_state": "start_finished",
            "pid": 4242} if on else base
if sys.argv[1] == "info":
    rows = {index: row(index, on) for index, on in state.items()}
    print(json.dumps(rows if len(rows) > 1 else next(iter(rows.values()))))
else:
    index, action = sys.argv[3], sys.argv[4]
    if (home / "refuse").exists():
        print(json.dumps({"errcode": -1, "errmsg": "player is busy"}))
    else:
        state[index] = action != "shutdown"
        (home / "state.json").write_text(json.dumps(state))
        print(json.dumps({"errcode": 0, "errmsg": ""}))
"""

LDPLAYER = """
import json, pathlib, sys
home = pathlib.Path(__file__).parent
state = json.loads((home / "state.json").read_text())
with (home / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[1] == "list2":
    for index, on in state.items():
        sys.stdout.buffer.write(f"{index},\\u96f7\\u7535, {index},".encode("gb18030"))
        print("2032678,1704928,1,7456,3092,960,540,160" if on else "0,0,0,-1,-1,960,540,160", flush=True)
elif not (home / "refuse").exists():
    state[sys.argv[3]] = sys.argv[1] != "quit"
    (home / "state.json").write_text(json.dumps(state))
"""

AVD = """
import contextlib, pathlib, socket, sys
home = pathlib.Path(__file__).parent
name, port = sys.argv[sys.argv.index("-avd") + 1], int(sys.argv[sys.argv.index("-port") + 1])
(home / "calls").open("a").write(" ".join(sys.argv[1:]) + "\\n")
if name not in ("Pixel_7",):
    sys.exit(f"PANIC: Unknown AVD name [{name}]")
with socket.create_server(("127.0.0.1", port)) as server:
    while True:
        peer, _ = server.accept()
        with peer, contextlib.suppress(ConnectionError):  # of who only knocks
            peer.sendall(b"Android Console: type 'help' for a list of commands\\r\\nOK\\r\\n")
            said = b""
            while chunk := peer.recv(4096):
                said += chunk
                if b"kill" in said:
                    peer.sendall(b"OK: killing emulator, bye bye\\r\\n")
                    sys.exit(0)
"""


class Tool:
    """One program in a folder of its own."""

    def __init__(self, home: Path, name: str, body: str, **state: bool) -> None:
        home.mkdir(parents=True)
        self.home = home
        self.program = str(home / name)
        Path(self.program).write_text(f"#!{sys.executable}\n{body}")
        Path(self.program).chmod(0o755)
        (home / "state.json").write_text(json.dumps({index.removeprefix("n"): on for index, on in state.items()}))

    def refuses(self) -> None:
        (self.home / "refuse").touch()

    def calls(self) -> list[str]:
        path = self.home / "calls"
        return path.read_text().splitlines() if path.exists() else []
