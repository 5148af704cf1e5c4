"""Commands that weaken safety: what an agent worked out by them is never shown without a person's acceptance.

In doubt a command counts as weakening. The cost of that is an observation that is not shown.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter

from .patterns import read_patterns

_DATA = read_patterns(__file__)
_WEAKENING = [(reason, re.compile("|".join(patterns), re.I)) for reason, patterns in _DATA["weakening"].items()]
_PATTERNS = {name: re.compile("".join(pattern)) for name, pattern in _DATA["patterns"].items()}
_MOST_CHARS = 1000


def find_weakening(command: str) -> str:
    """Return how a command line weakens safety, in two or three words; empty when it does not seem to."""
    if len(command) > _MOST_CHARS:
        return "too long to check"
    return next((reason for reason, pattern in _WEAKENING if pattern.search(command)), "")


def find_doubtful_change(failed: str, worked: str) -> str:
    """Return what in the change from one command to the other a person should see first; empty for a plain change.

    A plain change exchanges or adds ordinary words, paths and long options without a warning sign in their names, in
    one simple command. Everything else is doubtful: nobody can list all the ways to switch a safeguard off.
    """
    if re.search(r"[|;&<>`$(){}\n\\#*?!]", worked):
        return "more than a simple command"
    try:
        before, after = (Counter(shlex.split(command)) for command in (failed, worked))
    except ValueError:
        return "quotes that do not end"
    words = worked.split()
    for word in after - before:
        if not _PATTERNS["plain_word"].fullmatch(word) or ":/" in word or _PATTERNS["assignment"].match(word):
            return "an address, a variable or a quoted text"
        if word.startswith("-") and word != "--":
            runs_module = word == "-m" and "python" in words[max(0, words.index(word) - 1)]
            if not runs_module and (
                not _PATTERNS["long_option"].match(word) or _PATTERNS["doubtful_option"].search(word)
            ):
                return "an option that may switch something off"
        if _PATTERNS["negative"].search(word):
            return "an option that may switch something off"
    if any(word.startswith("-") and _PATTERNS["doubtful_option"].search(word) for word in before - after):
        return "an option that was dropped"
    return ""
