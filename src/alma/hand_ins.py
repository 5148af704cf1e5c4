"""Recognise the command with which an agent hands in notes, after the person typed /learn.

A command that names our program may forge something, so prompts that arrive meanwhile are doubted. This one command
is let through, if it consists of nothing else. What it hands in is no deed of the agent: it may quote anything.
"""

from __future__ import annotations

import re

END = "NOTES"
"""The line that ends what is handed in on standard input."""
_QUOTED = r'"(?:[^"$`\\!\n]|\\(?=[\w.]))+"'
_SCRIPT = r'"(?:(?:[^"$`\\!\n]|\\(?=[\w.]))*[/\\])?smart\.py"'
_COMMAND = rf"\s*(?:claude-smart|(?:python3|{_QUOTED}) -I {_SCRIPT}) notes"
_FILE = rf"(?:[\w./~+-]+|{_QUOTED})"
_BEGINNING = re.compile(rf"{_COMMAND}(?=\s|\Z)")
_WHOLE = re.compile(
    rf"{_COMMAND}(?:(?: --show| --file {_FILE})?[ \t]*| <<'{END}'\n(?:(?!{END}(?:\n|\Z))[^\n]*\n)*{END})\s*"
)


def is_hand_in(command: str) -> bool:
    """Return whether a shell command does nothing but show exchanges, or hand in the notes in it or in a file."""
    return _WHOLE.fullmatch(command) is not None


def begins_hand_in(command: str) -> bool:
    """Return whether a shell command, perhaps cut off, begins as one that hands in notes."""
    return _BEGINNING.match(command) is not None
