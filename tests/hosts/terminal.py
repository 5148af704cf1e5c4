"""Type prompts and `/exit` into a program at a terminal: `terminal.py SESSIONS PROMPTS COMMAND...`.

PROMPTS has a line for each. The first is typed when an event is in the journals of the folder SESSIONS, or when the
screen is still: some programs start a session with the first prompt. Each further one is typed when the turn before it
has ended.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

_SECONDS = 60
_STILL = 4.0
_HEARD = 30.0
_ENDED = 5.0
_KEYS = 0.1
_PAUSE = 1.0
_ROWS, _COLUMNS = 50, 200
_ANSWERS = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;c",
}
"""What a terminal answers to the questions of a program: where its cursor is, and what it can do."""
_CLEAR = b"\x15"


class Typist:
    """Types at a terminal, as a person does who waits for each answer."""

    def __init__(self, terminal: int, folder: Path) -> None:
        self._terminal, self._folder = terminal, folder
        self._earlier = {path.name for path in folder.glob("*.jsonl")}
        self.drawn_at = time.monotonic()

    def count_events(self, event: str) -> int:
        """Return how many of these events the journals of this session have."""
        count = 0
        for journal in self._folder.glob("*.jsonl"):
            lines = [] if journal.name in self._earlier else journal.read_text().splitlines()
            count += sum(f'"event":"{event}"' in line for line in lines)
        return count

    def has_started(self) -> bool:
        """Return whether a journal has the start of a session that a person drives."""
        journals = [path.read_text() for path in self._folder.glob("*.jsonl") if path.name not in self._earlier]
        return any('"event":"SessionStart"' in text and '"entry":"cli"' in text for text in journals)

    def type_all(self, prompts: list[str]) -> None:
        """Type the prompts, and then `/exit` until the program ends."""
        wait_until(lambda: self.has_started() or time.monotonic() - self.drawn_at > _STILL)
        for place, prompt in enumerate(prompts):
            self.type_prompt(prompt, place)
            wait_until(lambda place=place: self.count_events("Stop") > place)  # type: ignore[misc]
        while True:
            self.type_line("/exit")
            time.sleep(_ENDED)

    def type_prompt(self, prompt: str, place: int) -> None:
        """Type a prompt until it is in the journal: a program may ask something first, or be busy with its start."""
        for _ in range(4):
            self.type_line(prompt)
            if wait_until(lambda: self.count_events("UserPromptSubmit") > place, _HEARD):
                return
            os.write(self._terminal, _CLEAR)

    def type_line(self, text: str) -> None:
        """Type a text, word by word, and Enter."""
        time.sleep(_PAUSE)
        for word in re.findall(r"\S+\s*", text):
            # A program may take a question mark for a key of its own until it has drawn the words before it.
            os.write(self._terminal, word.encode())
            time.sleep(_KEYS)
        # A program may take a text that ends in a line for a pasted one, which is not sent yet.
        time.sleep(_PAUSE)
        os.write(self._terminal, b"\r")


def wait_until(is_met: Callable[[], bool], seconds: float = _SECONDS) -> bool:
    """Wait for a condition. Return whether it was met."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if is_met():
            return True
        time.sleep(0.05)
    return False


def main() -> None:
    folder, prompts, *command = sys.argv[1:]
    child, terminal = pty.fork()
    if not child:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        os.execvp(command[0], command)
    typist = Typist(terminal, Path(folder))
    threading.Thread(target=typist.type_all, args=(prompts.splitlines(),), daemon=True).start()
    try:
        while output := os.read(terminal, 4096):
            typist.drawn_at = time.monotonic()
            os.write(1, output)
            for question, answer in _ANSWERS.items():
                if question in output:
                    os.write(terminal, answer)
    except OSError:
        # Linux reports the end of a terminal in this way.
        pass
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
