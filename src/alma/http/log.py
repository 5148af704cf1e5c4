"""The log: one JSON line for each request and for each warning, never with what was asked or answered."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import stat
import sys
import traceback
from collections.abc import Iterator
from typing import IO, Any

from ..errors import ConfigError
from ..types.times import now, to_iso
from .gate import Call

_NAME = "alma.http"


@contextlib.contextmanager
def open_log(name: str | None) -> Iterator[IO[str]]:
    """Open the file, or standard error where there is no name, and write log records to it as JSON lines.

    Only its owner can read the file, also when others could read it before.
    """
    with contextlib.ExitStack() as stack:
        stream: IO[str] = sys.stderr
        if name is not None:
            try:
                descriptor = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                stream = stack.enter_context(open(descriptor, "a", encoding="utf-8"))
                # A pipe or a terminal has permissions of its own.
                if os.name == "posix" and stat.S_ISREG(os.fstat(descriptor).st_mode):
                    os.fchmod(descriptor, 0o600)
            except OSError as error:
                raise ConfigError(
                    f"the log file {name} cannot be written: {error.strerror}; --log-file names another"
                ) from None
        handler = logging.StreamHandler(stream)
        handler.setFormatter(Lines())
        logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
        yield stream


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
        is_ours = record.name == _NAME or not record.name.startswith("alma")
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
