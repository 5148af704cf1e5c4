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

    def begin(self, call: Call) -> None: ...

    def end(self, call: Call) -> None:
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
        is_ours = record.name == _LOG.name or not record.name.startswith("alma")
        line: dict[str, Any] = {
            "time": to_iso(now()),
            "level": record.levelname.lower(),
            "logger": record.name,
            # The memory's own messages may quote what it was asked: only their constant words are logged.
            "message": record.getMessage() if is_ours else str(record.msg),
        }
        arguments = record.args if isinstance(record.args, tuple) else ()
        named = next((one for one in arguments if isinstance(one, BaseException)), None)
        error = record.exc_info[1] if record.exc_info else named
        if error is not None:
            frames = traceback.extract_tb(error.__traceback__)[-8:]
            line["error"] = type(error).__name__
            line["at"] = [f"{one.filename}:{one.lineno} {one.name}" for one in frames]
        return json.dumps(line)


def log_unexpected(call: Call, error: BaseException) -> None:
    _LOG.error("request %s to %s failed inside alma", call.id, call.operation or call.path, exc_info=error)


def log_failure(call: Call, error: BaseException) -> None:
    """For the owner of the server; the caller gets a neutral sentence that names no files."""
    _LOG.error("request %s to %s failed: %s", call.id, call.operation or call.path, str(error))


def log_not_ready(error: BaseException) -> None:
    _LOG.warning("the memory is not ready: %s", str(error), exc_info=error)
