"""Secrets leave a text before it is stored.

Two kinds of rule. A *shape* rule (in `secret_shapes`) knows a provider's own prefix, so what it finds is a secret
by its form alone. A *name* rule (in `secret_names`) knows only what stands beside it, so the value must also look
like a secret.

Most texts hold neither a telling word nor a long run of characters, and cost a few substring tests: the rules are
not even loaded for them, which every short-lived process feels.
"""

from __future__ import annotations

from .secret_rule import SHORTEST, Pattern, Rule, Text, find


class Redacted:
    """A text without its secrets, and the names of what was found."""

    __slots__ = ("found", "text")

    def __init__(self, text: str, found: tuple[str, ...]) -> None:
        self.text = text
        self.found = found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Redacted) and (self.text, self.found) == (other.text, other.found)

    def __hash__(self) -> int:
        return hash((self.text, self.found))

    def __repr__(self) -> str:
        return f"Redacted(text={self.text!r}, found={self.found!r})"


# One of these is in each hint of the rules that do not ask for a long run of characters or a number.
_TELLING = (
    *("pass", "token", "secret", "key", "pw", "://", "auth", "cookie", "bearer", "sess", "cred", "pin", "-u", "jwt"),
    *("sid", "login", "basic", "salt", "otp", "csrf", "xsrf", "_pat", "mnemonic", "seed", "recovery", "backup"),
    *("value=", "mysql", "mariadb", "mongo", "redis-cli", "ldap", "7z", "zip", "smb", "rpcclient", "openssl"),
    *(
        "kennwort",
        "contrase",
        "clave",
        "d'ordine",
        "senha",
        "wachtwoord",
        "mdp",
        "пароль",
        "密码",
        "密碼",
        "口令",
        "パスワード",
        "비밀번호",
    ),
    *("kty", "private", "net use", "%40", " code", "sudo -s"),
)
_INVISIBLE = Pattern(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]+"
)


def _suspect(text: Text) -> bool:
    folded = text.folded
    for word in _TELLING:
        if word in folded:
            return True
    return text.longest >= SHORTEST or text.numbered


def _name(rule: Rule, text: str, start: int) -> str:
    if rule.name:
        return rule.name
    before = text[max(0, start - 60) : start].lower()
    names = {"pass": "password", "pw": "password", "session": "session_id", "token": "token", "jwt": "token"}
    names |= {"secret": "secret", "key": "api_key", "bearer": "token"}
    nearest = max(names, key=before.rfind)
    return names[nearest] if nearest in before else "secret"


def _without(rule: Rule, text: Text, found: dict[str, None]) -> Text:
    pieces: list[str] = []
    done = 0
    for start, end in find(rule, text):
        name = _name(rule, text.plain, start)
        found[name] = None
        pieces += (text.plain[done:start], f"[REDACTED:{name}]")
        done = end
    return Text("".join(pieces) + text.plain[done:]) if pieces else text


def _once(text: Text, found: dict[str, None]) -> Text:
    from .secret_names import RULES

    for rule in RULES.for_text(text):
        text = _without(rule, text, found)
    return text


def _settle(plain: str, found: dict[str, None]) -> str:
    """A secret's removal can lay bare another (`a:b@c` chains), so repeat until nothing changes."""
    text = Text(plain)
    for _ in range(6):
        before = text
        text = _once(text, found) if _suspect(text) else text
        if text is before or text.plain == before.plain:
            break
    return text.plain


def redact(text: str) -> Redacted:
    """The text with each secret replaced by ``[REDACTED:<name>]``, and the names of what was found."""
    found: dict[str, None] = {}
    text = _settle(text, found)
    if not text.isascii() and _INVISIBLE.search(text):
        # Zero-width characters can cut a secret in two. They go only if that uncovers one: emoji need them.
        joined: dict[str, None] = {}
        clear = _settle(_INVISIBLE.sub("", text), joined)
        if joined:
            return Redacted(clear, (*found, *(name for name in joined if name not in found)))
    return Redacted(text, tuple(found))
