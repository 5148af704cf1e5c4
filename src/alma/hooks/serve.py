"""The warm worker: drains when it is woken and now and then, answers by meaning, and ends when nobody needs it.

One thread drains, a short-lived one serves each connection, and the main one listens and looks around. Everything
works without this process, so whatever is odd makes it end: the next wake-up starts another.
"""

from __future__ import annotations

import hmac
import json
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from ..errors import ALMAError, ValidationError, unknown
from . import log, rounds, wake
from .endpoint import Endpoint
from .place import Place

TICK_SECONDS = 5.0
ROUND_SECONDS = 180.0
GRACE_SECONDS = 10.0
MOST_RSS = 200 * 1024 * 1024
_READ_SECONDS = 2.0
_MOST_CONNECTIONS = 16
_MOST_BYTES = 256 * 1024
_MOST_RULES = 50


class Duties(Protocol):
    def drain(self) -> bool: ...
    def tidy(self) -> None: ...
    def has_unread(self) -> bool: ...
    def read_sessions(self) -> None: ...
    def recall(self, project: str, session: str, text: str, limit: int) -> list[tuple[str, str]]: ...
    def close(self) -> None: ...


class Worker:
    """Serves one home. Made by whoever holds the worker's lock."""

    def __init__(self, place: Place, duties: Duties, code: str, *, idle_seconds: float) -> None:
        self._place = place
        self._duties = duties
        self._idle = idle_seconds
        self._tick = min(TICK_SECONDS, max(idle_seconds / 4, 0.05))
        self._made_of = _signature(code)
        self._code = code
        self._endpoint = Endpoint(place, code)
        self._nudged, self._nudge = socket.socketpair()
        self._over = threading.Event()
        self._due = threading.Event()
        self._draining = threading.Lock()
        self._recalling = threading.Lock()
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._drainer = threading.Thread(target=self._drain_when_due, name="drain", daemon=True)
        self._reader = threading.Thread(target=self._read_sessions, name="read", daemon=True)
        self._used = time.monotonic()
        """When a hook last asked for something. The worker's own drains do not count, or it would never end."""
        self._handled = 0

    # --- the life of it ---

    def run(self) -> None:
        self._obey_signals()
        self._ask_for_drain()
        self._drainer.start()
        try:
            self._listen()
        finally:
            self._end()

    def stop(self) -> None:
        self._over.set()
        # It may be over already, and the nudge closed.
        with suppress(OSError):
            self._nudge.send(b"x")

    def _obey_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda number, frame: self.stop())
            # Another thread may get the signal; the main one would sleep on without this.
            self._nudge.setblocking(False)
            signal.set_wakeup_fd(self._nudge.fileno())

    def _listen(self) -> None:
        due = time.monotonic() + self._tick
        next_round = time.monotonic() + ROUND_SECONDS
        with selectors.DefaultSelector() as selector:
            self._endpoint.socket.setblocking(False)
            selector.register(self._endpoint.socket, selectors.EVENT_READ)
            selector.register(self._nudged, selectors.EVENT_READ)
            while not self._over.is_set():
                for key, _ in selector.select(max(0.0, due - time.monotonic())):
                    if key.fileobj is self._endpoint.socket:
                        self._accept()
                now = time.monotonic()
                if now >= due:
                    due = now + self._tick
                    self._look_around()
                if now >= next_round and not self._over.is_set():
                    next_round = now + ROUND_SECONDS
                    self._ask_for_drain()

    def _look_around(self) -> None:
        if wake.is_wanted(self._place):
            if not self._due.is_set() and not self._draining.locked():
                # A hook asked by the file alone: the worker's own requests are due or being drained.
                self._used = time.monotonic()
            self._due.set()
        elif self._is_superfluous():
            self._over.set()

    def _is_superfluous(self) -> bool:
        if not self._endpoint.is_mine() or _signature(self._code) != self._made_of:
            return True
        if self._draining.locked() or self._due.is_set() or self._reader.is_alive():
            return False
        return time.monotonic() - self._used >= self._idle or resident() > MOST_RSS

    def _end(self) -> None:
        """From here on nobody finds this worker: what is wanted later starts another, which waits for our lock."""
        self._over.set()
        self._endpoint.close()
        self._due.set()
        self._drainer.join(GRACE_SECONDS)
        if not self._drainer.is_alive():
            # Somebody may have told us at the very end. A home that was removed is not made again.
            if wake.is_wanted(self._place):
                self._drain()
            if not self._reader.is_alive():
                self._duties.close()
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(-1)
        self._nudge.close()
        self._nudged.close()

    # --- draining ---

    def _ask_for_drain(self) -> None:
        wake.want(self._place)
        self._due.set()

    def _drain_when_due(self) -> None:
        while True:
            self._due.wait()
            if self._over.is_set():
                return
            with self._draining:
                self._due.clear()
                self._drain()

    def _drain(self) -> None:
        has_unread = False
        try:
            rounds.settle(self._place, self._duties.drain)
            self._duties.tidy()
            has_unread = self._duties.has_unread()
        except ALMAError as error:
            log.note(self._place, rounds.EVENT, f"drain: {error}")
        except Exception as error:  # noqa: BLE001 - the worker outlives a drain that fails; the journals are still there
            log.note(self._place, rounds.EVENT, f"drain: {log.where(error)}")
        if has_unread and not self._reader.is_alive() and not self._over.is_set():
            # In a thread of its own: a model may take minutes, and what is said meanwhile is drained.
            self._reader = threading.Thread(target=self._read_sessions, name="read", daemon=True)
            self._reader.start()

    def _read_sessions(self) -> None:
        try:
            self._duties.read_sessions()
        except ALMAError as error:
            log.note(self._place, rounds.EVENT, f"model: {error}")
        except Exception as error:  # noqa: BLE001 - the worker outlives a model that fails
            log.note(self._place, rounds.EVENT, f"model: {log.where(error)}")

    # --- answering ---

    def _accept(self) -> None:
        try:
            connection, _ = self._endpoint.socket.accept()
        except OSError:
            return
        if not self._free.acquire(blocking=False):
            connection.close()
            return
        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._converse(connection)
        except (OSError, ValueError, RecursionError):
            # Somebody who went away, or who does not speak our language.
            pass
        except Exception as error:  # noqa: BLE001 - one bad request must not end the worker
            log.note(self._place, rounds.EVENT, f"request: {log.where(error)}")
        finally:
            self._free.release()

    def _converse(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        request = _receive(connection)
        if request.get("op") == "hello":
            _send(connection, {"proof": wake.proof(self._endpoint.token, str(request.get("nonce"))[:64])})
            request = _receive(connection)
        if not hmac.compare_digest(str(request.get("token")).encode(), self._endpoint.token.encode()):
            return _send(connection, {"ok": False, "error": "wrong token"})
        self._handled += 1
        return _send(connection, self._answer(request))

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        answers: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "drain": self._woken,
            "recall": self._recall,
            "status": self._status,
            "stop": self._stopped,
        }
        try:
            answer = answers.get(str(request.get("op")))
            if answer is None:
                raise ValidationError(unknown("request", request.get("op"), answers))
            return {"ok": True, **answer(request)}
        except ALMAError as error:
            return {"ok": False, "error": str(error)}

    def _woken(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._used = time.monotonic()
        self._due.set()
        code = request.get("code")
        if isinstance(code, str) and os.path.normcase(code) != os.path.normcase(self._code) and os.path.isfile(code):
            # Another version is installed now; it is started by the next wake-up.
            self.stop()
        return {}

    def _recall(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._used = time.monotonic()
        texts = [request.get(name) for name in ("project", "session", "text")]
        limit = request.get("limit", 5)
        if not all(isinstance(text, str) for text in texts) or not isinstance(limit, int):
            raise ValidationError("recall takes the texts project, session and text, and the number limit")
        project, session, text = map(str, texts)
        with self._recalling:
            rules = self._duties.recall(project, session, text, max(1, min(limit, _MOST_RULES)))
        return {"rules": [list(rule) for rule in rules]}

    def _status(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "since": self._endpoint.since,
            "rss": resident(),
            "handled": self._handled,
            "draining": self._draining.locked(),
            "code": self._code,
        }

    def _stopped(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.stop()
        return {}


def _receive(connection: socket.socket) -> dict[str, Any]:
    deadline = time.monotonic() + _READ_SECONDS
    data = b""
    while not data.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or len(data) > _MOST_BYTES:
            raise TimeoutError("no whole request")
        connection.settimeout(left)
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionResetError("no whole request")
        data += piece
    request = json.loads(data)
    if not isinstance(request, dict):
        raise ValueError("a request is a JSON object")
    return request


def _send(connection: socket.socket, answer: Mapping[str, Any]) -> None:
    connection.settimeout(_READ_SECONDS)
    connection.sendall(json.dumps(answer).encode() + b"\n")


def _signature(code: str) -> tuple[tuple[int, int, int], ...]:
    """What the files that an update replaces look like."""
    package = os.path.dirname(os.path.dirname(code))
    return tuple(_looks(path) for path in (code, os.path.join(package, "__init__.py")))


def _looks(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (-1, -1, -1)
    return found.st_ino, found.st_size, found.st_mtime_ns


def resident() -> int:
    """The bytes of memory this process holds; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError):
        return 0
