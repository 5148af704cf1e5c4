"""Type a prompt and `/exit` into a program at a terminal: `terminal.py SESSIONS PROMPT COMMAND...`.

The prompt is typed when the first event is in the journals of the folder SESSIONS, and `/exit` when the turn has ended.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
import threading
import time
from pathlib import Path

_SECONDS = 60
_PAUSE = 0.5
_TRIES = 5
_PATIENCE = 10
_CLEAR_LINE = b"\x15"
_SIZE = (50, 200)
"""Lines and columns."""


def wait_for(folder: Path, event: str, seconds: float = _SECONDS) -> bool:
    """Wait until a journal has this event. Return whether it has."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        journals = [path.read_text() for path in folder.glob("*.jsonl")]
        if any(f'"event":"{event}"' in text and '"entry":"cli"' in text for text in journals):
            return True
        time.sleep(0.05)
    return False


def type_lines(terminal: int, folder: Path, prompt: str) -> None:
    # Some report the start of a session with the first prompt.
    wait_for(folder, "SessionStart", _PATIENCE)
    for _ in range(_TRIES):
        # A program may lose what is typed while it starts.
        type_line(terminal, prompt)
        if wait_for(folder, "UserPromptSubmit", _PATIENCE):
            break
        os.write(terminal, _CLEAR_LINE)
    wait_for(folder, "Stop")
    type_line(terminal, "/exit")


def type_line(terminal: int, text: str) -> None:
    """Type a text and send it."""
    os.write(terminal, text.encode())
    # A program may take a text that ends in a line for a pasted one, which is not sent yet.
    time.sleep(_PAUSE)
    os.write(terminal, b"\r")


def main() -> None:
    folder, prompt, *command = sys.argv[1:]
    child, terminal = pty.fork()
    if not child:
        os.execvp(command[0], command)
    # Some programs draw nothing at a terminal without a size.
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *_SIZE, 0, 0))
    threading.Thread(target=type_lines, args=(terminal, Path(folder), prompt), daemon=True).start()
    try:
        while output := os.read(terminal, 4096):
            os.write(1, output)
    except OSError:
        # Linux reports the end of a terminal in this way.
        pass
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
