"""Type a prompt and `/exit` into a program at a terminal: `terminal.py SESSIONS PROMPT COMMAND...`.

The prompt is typed when the first event is in the journals of the folder SESSIONS, and `/exit` when the turn has ended.
"""

from __future__ import annotations

import os
import pty
import sys
import threading
import time
from pathlib import Path

_SECONDS = 60
_PAUSE = 0.5


def wait_for(folder: Path, event: str) -> None:
    """Wait until a journal has this event."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        journals = [path.read_text() for path in folder.glob("*.jsonl")]
        if any(f'"event":"{event}"' in text and '"entry":"cli"' in text for text in journals):
            return
        time.sleep(0.05)


def type_lines(terminal: int, folder: Path, prompt: str) -> None:
    for event, text in (("SessionStart", prompt), ("Stop", "/exit")):
        wait_for(folder, event)
        os.write(terminal, text.encode())
        # A program may take a text that ends in a line for a pasted one, which is not sent yet.
        time.sleep(_PAUSE)
        os.write(terminal, b"\r")


def main() -> None:
    folder, prompt, *command = sys.argv[1:]
    child, terminal = pty.fork()
    if not child:
        os.execvp(command[0], command)
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
