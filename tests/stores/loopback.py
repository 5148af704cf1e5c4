"""What the loopback servers of database services share: JSON over HTTP, faults on demand, and long texts."""

from __future__ import annotations

import json
import random
import string
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


def make_text(length: int) -> str:
    """Return a text that cannot be compressed much."""
    return "".join(random.Random(length).choices(string.printable + "日本語é", k=length))


@dataclass
class Request:
    """A request to a loopback server."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"null")


@dataclass
class Answer(Exception):
    """What a server answers; raised where it is an error."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def _is_never_lost(request: Request) -> bool:
    return False


class LoopbackServer:
    """Answers requests on 127.0.0.1, one at a time. A subclass implements `answer` and `describe_failure`."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._faults: list[tuple[str, Answer | None]] = []
        self._is_lost: Callable[[Request], bool] = _is_never_lost
        self.remaining: int | None = None  # After so many further requests the server is down.
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1  # Headers and body in one packet.

            def handle_request(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                parts = urlsplit(self.path)
                request = Request(
                    self.command,
                    unquote(parts.path),
                    parse_qs(parts.query),
                    {name.lower(): value for name, value in self.headers.items()},
                    self.rfile.read(length),
                )
                with server._lock:
                    server.requests.append(request)
                    answer = server._take_fault(request)
                    if answer is None:
                        self.close_connection = True
                        return
                    if answer.status == 0:
                        try:
                            answer = server.answer(request)
                        except Answer as raised:
                            answer = raised
                    if server._is_lost(request):
                        server._is_lost = _is_never_lost
                        self.close_connection = True
                        return
                text = b"" if answer.body is None else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_request

            def log_message(self, *args: object) -> None:
                """Print nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def answer(self, request: Request) -> Answer:
        """Return the answer of the service to a request, or raise it."""
        raise NotImplementedError

    def fail_next(self, path: str, *answers: Answer | None) -> None:
        """Answer the next requests whose path contains `path` like this; None drops the connection."""
        self._faults += [(path, answer) for answer in answers]

    def clear_faults(self) -> None:
        """Answer all further requests."""
        self._faults.clear()

    def lose_answer(self, is_meant: Callable[[Request], bool]) -> None:
        """Carry out the next request of this kind, and drop the connection before it is answered."""
        self._is_lost = is_meant

    def _take_fault(self, request: Request) -> Answer | None:
        if self.remaining is not None:
            self.remaining -= 1
            if self.remaining < 0:
                return None
        for number, (path, answer) in enumerate(self._faults):
            if path in request.path:
                del self._faults[number]
                return answer
        return Answer(0)

    def count(self, path: str) -> int:
        """Return how many requests had a path that contains `path`."""
        return sum(path in request.path for request in self.requests)

    def close(self) -> None:
        """Stop the server."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
