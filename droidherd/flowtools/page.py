"""A page on loopback where a person sees the emulator's screen and acts on it. Every act goes through the recorder."""

import json
import re
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from typing_extensions import override

from droidherd.contracts.validation import explain
from droidherd.domain.errors import DroidherdError
from droidherd.flowtools.composing import doubt
from droidherd.flowtools.recorder import RecordedAction, Recorder
from droidherd.vision.pixels import encode_png

HTML = Path(__file__).with_name("page.html")
_SIZE = re.compile("[0-9]{1,9}")
BODY_MAX = 10_000
HOST = "127.0.0.1"
FINISHED, CANCELLED = "finished", "cancelled"


def message(action: RecordedAction) -> str:
    """A step for people. What is secret stays so."""
    words = {
        "tap": f"tap {action.x}, {action.y}" + (f" for {action.hold_ms} ms" if action.hold_ms else ""),
        "swipe": f"swipe from {action.x}, {action.y} to {action.to_x}, {action.to_y}",
        "type": f"type the secret {action.secret}" if action.secret else f"type {action.text}",
        "key": f"key {action.key}",
    }
    return words.get(action.kind, f"{action.kind.replace('_', ' ')} {action.app}")


@dataclass(slots=True)
class RecorderPage:
    """One recording session, as the page sees it. Requests come on threads of their own; acts take turns."""

    recorder: Recorder
    key: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    """Part of every address: other pages in the same browser cannot guess it."""
    over: threading.Event = field(default_factory=threading.Event)
    how: str = ""
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _doubts: dict[int, str] = field(default_factory=dict)
    """What is to be said of a step, by its number."""

    def frame(self) -> bytes:
        with self._turn:
            return encode_png(self.recorder.look())

    def ask(self, word: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the page's buttons mean."""
        with self._turn:
            if self.over.is_set():
                return {"over": True, "message": f"this recording is {self.how}"}
            if word == "act":
                episode = self.recorder.do(RecordedAction.model_validate(body))
                self._doubts[len(self.recorder.episodes)] = doubt(episode)
            elif word == "undo" and self.recorder.episodes:
                self.recorder.forget()
            elif word in {"finish", "cancel"}:
                self.how = FINISHED if word == "finish" else CANCELLED
                self.over.set()
            return self._state()

    def _state(self) -> dict[str, Any]:
        steps = [
            f"{message(one.action)} ({found}; forget it and tap what stands out, if you can)"
            if found
            else message(one.action)
            for number, one in enumerate(self.recorder.episodes, start=1)
            for found in (self._doubts.get(number, ""),)
        ]
        done = self.over.is_set()
        return {"steps": steps, "over": done, "message": f"{self.how}; see the terminal" if done else ""}


class PageServer(ThreadingHTTPServer):
    """Serves one page until it is closed."""

    daemon_threads = True

    def __init__(self, page: RecorderPage) -> None:
        """Listens on a free port of loopback at once."""
        self.page = page
        super().__init__((HOST, 0), _Requests)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed while it was answered is no error: nobody waits for the rest."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.page.key}/"

    def run(self) -> Callable[[], None]:
        """Serve on a thread. What is returned ends it."""
        thread = threading.Thread(target=self.serve_forever, name="recorder-page", daemon=True)
        thread.start()

        def end() -> None:
            self.shutdown()
            thread.join()
            self.server_close()

        return end


class _Requests(BaseHTTPRequestHandler):
    """`GET /KEY/`, `GET /KEY/frame.png`, `POST /KEY/WORD` with JSON."""

    server: PageServer  # pyright: ignore[reportIncompatibleVariableOverride] -- narrower than the library's

    def do_GET(self) -> None:
        word = self._word()
        if word == "":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", HTML.read_bytes())
        elif word == "frame.png":
            self._describe(self.server.page.frame)
        elif word is not None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")

    def do_POST(self) -> None:
        word = self._word()
        if word is None:
            return
        length = self.headers.get("Content-Length", "0")
        if (
            self.headers.get_content_type() != "application/json"
            or not _SIZE.fullmatch(length)
            or int(length) > BODY_MAX
        ):
            self._refuse(HTTPStatus.BAD_REQUEST, "a small JSON document is needed")
            return
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            self._refuse(HTTPStatus.BAD_REQUEST, "is not JSON")
            return
        self._describe(lambda: self.server.page.ask(word, body if isinstance(body, dict) else {}))

    def _describe(self, make: Callable[[], Any]) -> None:
        try:
            made = make()
        except ValidationError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, explain(error, RecordedAction))
        except DroidherdError as error:
            self._refuse(HTTPStatus.BAD_GATEWAY, str(error))
        else:
            kind = "image/png" if isinstance(made, bytes) else "application/json"
            self._answer(HTTPStatus.OK, kind, made if isinstance(made, bytes) else json.dumps(made).encode())

    def _word(self) -> str | None:
        """Behind the key; None when it was refused: another page that guesses, or another name for this host."""
        path = self.path.partition("?")[0]
        begin = f"/{self.server.page.key}/"
        if self.headers.get("Host") != f"{HOST}:{self.server.server_port}" or not path.startswith(begin):
            self._refuse(HTTPStatus.FORBIDDEN, "open the address that `droidherd flow record` printed")
            return None
        return path.removeprefix(begin)

    def _refuse(self, status: HTTPStatus, error: str) -> None:
        self._answer(status, "application/json", json.dumps({"error": error}).encode())

    def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """The terminal is for the recorder."""
