"""Remove secrets from a text before it is stored."""

from __future__ import annotations

from .secret_rules import Text, find_spans, select_rules
from .secret_values import DATA, contains, named_pattern


class Redacted:
    """A text without its secrets, and the names of what was removed."""

    __slots__ = ("found", "text")

    def __init__(self, text: str, found: tuple[str, ...]) -> None:
        self.text = text
        self.found = found


def redact(text: str) -> Redacted:
    """Return the text with each secret replaced by ``[REDACTED:<name>]``, and the names of the secrets."""
    names: dict[str, None] = {}
    text = _remove_secrets(text, names)
    if not text.isascii() and contains("invisible", text):
        # Zero-width characters can cut a secret in two. They go only if that uncovers one: emoji need them.
        hidden: dict[str, None] = {}
        clear = _remove_secrets(named_pattern("invisible").sub("", text), hidden)
        if hidden:
            return Redacted(clear, tuple(names | hidden))
    return Redacted(text, tuple(names))


def _remove_secrets(plain: str, names: dict[str, None]) -> str:
    """Return the text without secrets, and add what they are to `names`."""
    text = Text(plain)
    # A secret's removal can lay bare another (`a:b@c` chains), so repeat until nothing changes.
    for _ in range(6):
        before = text.plain
        for rule in select_rules(text):
            pieces: list[str] = []
            done = 0
            for start, end in find_spans(rule, text):
                name = rule.id or _name_by_context(text.plain[max(0, start - 60) : start].lower())
                names[name] = None
                pieces += (text.plain[done:start], f"[REDACTED:{name}]")
                done = end
            if pieces:
                text = Text("".join(pieces) + text.plain[done:])
        if text.plain == before:
            break
    return text.plain


def _name_by_context(before: str) -> str:
    """Return what to call a secret by the word before it."""
    names: dict[str, str] = DATA["names"]
    nearest = max(names, key=before.rfind)
    return names[nearest] if nearest in before else "secret"
