"""What went wrong, for `doctor` and for a curious person: one line each, and never what was said."""

from __future__ import annotations

import os
import time

from .place import Place

MOST = 1_000_000
_LINE = 500


def note(place: Place, event: str, message: str) -> None:
    """Add a line. Where not even that can be written, there is nobody to tell."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = " ".join(_safe(f"{moment} {event or '-'} {message}").split())[:_LINE] + "\n"
    try:
        place.make()
        file = os.open(place.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode("utf-8", "replace"))
            size = os.fstat(file).st_size
        finally:
            os.close(file)
        if size > MOST:
            _halve(place.log)
    except OSError:
        return


def _safe(line: str) -> str:
    """A path or a message of the system may hold a secret too."""
    try:
        from .trim import told

        return told(line, 8 * _LINE, 0)
    except ImportError:
        # A half-removed installation.
        return line.partition(" ")[0]


def _halve(path: str) -> None:
    """Keep the newer half. Two at once keep a little more or less, and do no harm."""
    with open(path, "rb") as file:
        file.seek(-MOST // 2, os.SEEK_END)
        file.readline()
        rest = file.read()
    beside = f"{path}.{os.getpid()}"
    new = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(new, rest)
    finally:
        os.close(new)
    os.replace(beside, path)


def where(error: BaseException) -> str:
    """The kind of an unexpected error and where it arose. Its message may quote what was said, so it is left out."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f" in {os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno}" if frame else ""
    return f"{type(error).__name__}{place}"
