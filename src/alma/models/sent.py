"""A log of what was sent, for those who ask for one: a line of JSON for each question, written before it leaves."""

from __future__ import annotations

import errno
import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

from ..errors import ModelUnavailableError
from ..folders import make_private_folder
from ..ports import Model
from ..types.asking import Answer, Prompt
from .patience import NOTHING

MOST_BYTES = 5 * 1024 * 1024


class Logged:
    """A model whose questions are in a file that only its owner may read. What cannot be logged is not sent."""

    def __init__(self, model: Model, path: Path) -> None:
        self._model = model
        self._path = path
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._model.name

    def ask(self, prompt: Prompt) -> Answer:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = {"at": at, "model": self.name, "system": prompt.system, "text": prompt.text, "schema": prompt.schema}
        line = json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            with self._lock:
                self._write(line)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ModelUnavailableError(
                f"nothing was sent, because it cannot be logged in {self._path}: {reason}", NOTHING
            ) from error
        return self._model.ask(prompt)

    def _write(self, line: bytes) -> None:
        make_private_folder(self._path.parent)
        if self._path.exists() and self._path.stat().st_size + len(line) > MOST_BYTES:
            os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))
        # A link that somebody put there would send the log elsewhere.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(self._path, flags, 0o600)
        try:
            if os.name == "posix":
                os.fchmod(handle, 0o600)
            # In one piece, so that the lines of several processes do not mix.
            if os.write(handle, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(handle)
