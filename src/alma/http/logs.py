"""One JSON line for each request, and for whatever else is worth noting. Never what was asked or answered."""

from __future__ import annotations

import contextlib
import json
import logging
import traceback
from typing import IO, Any

from ..types.times import now, to_iso
from .gate import Call

_LOG = logging.getLogger("alma.http")


class RequestLog:
    """Watches the gate, and writes a line when a request has ended."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def begun(self, call: Call) -> None: ...

    def ended(self, call: Call) -> None:
        line = {
            "time": to_iso(now()),
            "request_id": call.id,
            "method": call.method if call.method.isascii() and len(call.method) < 20 else "?",
            "path": call.path,
            "operation": call.operation,
            "status": call.status,
            "ms": round(call.seconds * 1000, 2),
            "token": None if call.token is None else call.token.name,
            "bytes_in": call.received,
            "bytes_out": call.sent,
        }
        # A log that nobody takes is no reason to answer nobody.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()


class Lines(logging.Formatter):
    """Log records as JSON lines. Of an error its kind and place: its words may hold what was asked."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": to_iso(now()),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        error = record.exc_info[1] if record.exc_info else _named(record)
        return json.dumps(line | told(error) if error is not None else line)


def _message(record: logging.LogRecord) -> str:
    """What the memory itself notes may quote what it was asked: of that only the words that are always the same."""
    if record.name == _LOG.name or not record.name.startswith("alma"):
        return record.getMessage()
    return str(record.msg)


def _named(record: logging.LogRecord) -> BaseException | None:
    """The error that a note is about."""
    given = record.args if isinstance(record.args, tuple) else ()
    return next((one for one in given if isinstance(one, BaseException)), None)


def told(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    return {"error": type(error).__name__, "at": [f"{one.filename}:{one.lineno} {one.name}" for one in frames[-8:]]}


def unexpected(call: Call, error: BaseException) -> None:
    _LOG.error("request %s to %s failed inside alma", call.id, call.operation or call.path, exc_info=error)


def failed(call: Call, error: BaseException) -> None:
    """For the owner of the server, who reads where things lie; the caller gets a neutral sentence."""
    _LOG.error("request %s to %s failed: %s", call.id, call.operation or call.path, str(error))


def not_ready(error: BaseException) -> None:
    _LOG.warning("the memory is not ready: %s", str(error), exc_info=error)
