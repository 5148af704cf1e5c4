"""Secrets leave a text before it is stored.

Two kinds of rule. A *shape* rule (in `secret_shapes`) knows a provider's own prefix (``ghp_``, ``AKIA``…), so
what it finds is a secret by its form alone. An *assignment* rule knows only the name on the left
(``password=``, ``"api_key":``, ``--token``), so the value on the right must also look like a secret: that is
what spares ``token: string`` and ``key=os.environ["K"]``.

Every rule names substrings without which it cannot match; a text holding none costs a few substring tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .secret_shapes import (
    SHAPES,
    STOP_WORDS,
    Rule,
    Span,
    basic_credentials,
    find,
    is_opaque,
    is_placeholder,
    is_reference,
    is_secret,
    is_technical,
)


@dataclass(frozen=True, slots=True)
class Redacted:
    text: str
    found: tuple[str, ...]


# --- assignments: a telling name on the left -------------------------------------------------------

_KEY = re.compile(
    r"(?P<password>(?i:password|passwd|passwort|passphrase|passcode|pgpass|(?<![a-z])pwd|(?<![a-z])pass|"
    r"(?<![a-z])pw(?![a-z])))"
    r"|(?P<token>(?i:token|(?<![a-z])jwt|bearer|(?<![a-z])otp|_auth(?=\s{0,3}=)|\"auth(?=\"\s{0,3}:)|sess"
    r"(?:ion)?[_-]?key))"
    r"|(?P<key>(?i:(?:api|access|auth|secret|private|signing|encryption|account|master|service[_-]?role"
    r"|shared[_-]?access"
    r"|license|subscription|webhook|deploy|app|storage|cookie|hmac)[_ -]?key|(?<=[?&])key)|"
    r"(?<=[A-Z0-9]_)KEY)"
    r"|(?P<secret>(?i:secret|credential|salt(?=\s{0,3}[=:])))"
    r"|(?P<session>(?i:sess(?:ion)?[_-]?id|phpsessid|jsessionid|connect\.sid|(?<![a-z])sid|csrf|xsrf))"
)
_TAIL = re.compile(r"(?P<more>(?:[_.-]?[A-Z][A-Za-z0-9]*|[_-][A-Za-z0-9]+|\d{1,3}){0,3})")
_IS = re.compile(
    r"(?:\\?[\"'`])?\]?(?P<sp>\s{0,3})(?P<op>:=|=>|==?|:)[^\S\r\n]{0,8}(?:\r?\n[^\S\r\n]{1,8}"
    r"(?=[\"']))?"
)
_HARMLESS_TAIL = re.compile(
    r"[_-]?(?:id|name|count|type|url|uri|endpoint|file|path|dir|length|len|size|expir\w*|ttl|age|limit"
    r"|field|policy|min|max|arn|rotation"
    r"|format|header|prefix|hint|label|version|issuer|strategy|class|budget|usage|reset|manager|store|ref"
    r"|hash|digest|algorithm|s)$",
    re.I,
)
_HARMLESS_HEAD = re.compile(
    r"(?:public|publishable|next|page|continuation|sync|cancel\w*|stop|pad|eos|bos|unk|sep|cls|mask"
    r"|special|design|cursor"
    r"|max|min|num|total|input|output|prompt|per|reset|forgot|idempotency|primary|foreign|cache|change"
    r"|resume)[_\- ]?$",
    re.I,
)
_OPEN = re.compile(r"[bBrRuU]?(?P<q>\\?[\"'`])")
_BARE = re.compile(r"[^\s\"'`]{1,200}")
_REST = re.compile(r"[\w+/=.~-]*")
_CUT = re.compile(r"[&;,](?=[\w.\- ]{0,40}=|$)|;|\\[nrt\"]|</|[,)\]}>.:]+$")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")


def _value(text: str, pos: int) -> tuple[int, int, bool] | None:
    """Where the value at `pos` starts and ends, and whether it stands bare of quotes."""
    opened = _OPEN.match(text, pos)
    if opened:
        close = text.find(opened["q"], opened.end(), opened.end() + 1024)
        if close > opened.end() and "\n" not in text[opened.end() : close]:
            return opened.end(), close, False
        pos = opened.end()
    bare = _BARE.match(text, pos)
    if not bare:
        return None
    cut = _CUT.search(bare[0])
    end = bare.start() + (cut.start() if cut else len(bare[0]))
    return (bare.start(), end, True) if end > bare.start() else None


def _to_its_end(text: str, start: int, end: int) -> Span:
    """Values are judged by their first 200 characters; one that is a secret goes whole."""
    rest = _REST.match(text, end) if end - start >= 200 else None
    return start, rest.end() if rest else end


def _assigned(match: re.Match[str]) -> Span | None:
    text, family = match.string, str(match.lastgroup)
    tail = _TAIL.match(text, match.end())
    assert tail is not None  # the pattern can match nothing
    sign = _IS.match(text, tail.end())
    head = text[max(0, match.start() - 14) : match.start()]
    if not sign or _HARMLESS_TAIL.match(tail["more"]) or _HARMLESS_HEAD.search(head):
        return None
    found = _value(text, sign.end())
    if not found:
        return None
    start, end, bare = found
    value = text[start:end]
    # NAME=value as in a shell or --name=value: code and prose are not written so.
    terse = (
        bare and sign["op"] == "=" and not sign["sp"] and start == sign.end() and (match[0].isupper() or "--" in head)
    )
    if family == "session" and (_UUID.match(value) or len(value) < 16):
        return None
    if text[end : end + 1] in ("(", "[") or (family == "key" and match[0] == "KEY" and len(value) < 16):
        return None
    return _to_its_end(text, start, end) if is_secret(value, family, bare, terse) else None


def _after(family: str, alone: bool = True) -> Callable[[re.Match[str]], Span | None]:
    """The value right after the match; a flag's value written apart (`--password word`) must not be prose."""

    def locate(match: re.Match[str]) -> Span | None:
        found = _value(match.string, match.end())
        if not found:
            return None
        start, end, bare = found
        terse = not alone or not bare
        value = match.string[start:end]
        return _to_its_end(match.string, start, end) if is_secret(value, family, bare, terse) else None

    return locate


def _url_password(match: re.Match[str]) -> Span | None:
    value = match["s"]
    harmless = value.lower() in STOP_WORDS or value == match["u"] or is_placeholder(value) or is_reference(value)
    return None if harmless else match.span("s")


def _url_token(match: re.Match[str]) -> Span | None:
    return (
        match.span("s") if len(match["s"]) >= 20 and is_opaque(match["s"]) and not is_placeholder(match["s"]) else None
    )


def _said(match: re.Match[str]) -> Span | None:
    """“my password is hunter2”: in prose only a value no word could be, or one in quotes."""
    start = match.start("s")
    value = match["s"].rstrip(".,;:)!?") if not match["q"] else match["s"]
    family = "password" if match["k"].lower().startswith(("pass", "pw", "pin", "pw", "code")) else "token"
    quoted = match["q"] and match["is"]
    if quoted and family == "password" and value.isalpha() and len(value) >= 6 and value.lower() not in STOP_WORDS:
        return start, start + len(value)
    if not re.search(r"\d", value) or is_technical(value):
        return None
    return (start, start + len(value)) if is_secret(value, family, True, False) else None


def _seed(match: re.Match[str]) -> Span | None:
    return match.span("s")


_ASSIGNMENTS: tuple[Rule, ...] = (
    Rule(
        "url_password",
        ("://",),
        re.compile(
            r"[A-Za-z][\w+.]{1,20}://(?P<u>[^\s/:@\"'<>\[\]]{0,80}):(?P<s>[^\s/\"'<>]{1,128})@"
            r"(?=[\w.\[$-])"
        ),
        _url_password,
    ),
    Rule("url_token", ("://",), re.compile(r"://(?P<s>[\w-]{20,100})@(?=\w)"), _url_token),
    Rule(
        "authorization",
        ("basic ",),
        re.compile(
            r"(?i:(?<!\w)basic\s{1,3})"
            r"(?P<s>[A-Za-z0-9+/]{6,1024}={0,2})"
        ),
        basic_credentials,
    ),
    Rule(
        "authorization",
        ("bearer", "authorization"),
        re.compile(
            r"(?i:(?<!\w)bearer[ :\"']{1,3}|authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:token|apikey"
            r"|api-key|key|digest)?[ \"']{0,3})"
        ),
        _after("token"),
    ),
    Rule(
        "cookie",
        ("cookie",),
        re.compile(r"(?i:(?<=cookie: )|(?<=cookie:)|(?<=; ))(?P<n>[\w.-]{1,60})=(?P<s>[^\s;\"',]{8,})"),
        lambda m: (
            m.span("s")
            if is_secret(m["s"], "token", True, True) and "cookie" in m.string[: m.start()].lower()[-600:]
            else None
        ),
    ),
    Rule(
        "password",
        ("pass", "pw"),
        re.compile(r"<(?i:[\w:.-]{0,30}(?:password|passwd|pwd|secret|token|apikey))>(?=[^<\s]{4,200}</)"),
        _after("password", alone=False),
    ),
    Rule(
        "secret",
        ("value=",),
        re.compile(
            r"(?i:(?:name|key)=[\"'][\w.:-]{0,30}(?:password|passwd|pwd|secret|token|apikey"
            r"|api_key)[\"']\s{1,3}value=)(?=[\"'])"
        ),
        _after("password", alone=False),
    ),
    Rule(
        "password",
        ("-p", "-a", "-w"),
        re.compile(
            r"(?<![\w-])(?:mysql\w*|mariadb[\w-]*|sshpass|mongo\w*|docker login|podman login|redis-cli"
            r"|ldap\w+|az login|7z|zip|unzip)\s"
            r"(?:[^\s|;]+\s){0,12}?-(?:p|a|w|P)(?:\s?(?=[\"'])|(?=[^\s\"'-]{4}))"
        ),
        _after("password", alone=False),
    ),
    Rule(
        "password",
        ("-p", "-a", "-w"),
        re.compile(
            r"(?<![\w-])(?:mysql\w*|mariadb[\w-]*|sshpass|mongo\w*|docker login|podman login|redis-cli"
            r"|ldap\w+|az login)\s"
            r"(?:[^\s|;]+\s){0,12}?-(?:p|a|w)\s(?=\S)"
        ),
        _after("password"),
    ),
    Rule(
        "password",
        ("-u", "--user", "--proxy-user"),
        re.compile(
            r"(?<!\S)(?:-u|--user|--proxy-user)[ =]?[\"']?[^\s:\"'/]{1,60}:(?!\d{1,5}(?!\S))"
            r"(?=[^\s\"'/$])"
        ),
        _after("password"),
    ),
    Rule(
        "password",
        ("pass:",),
        re.compile(
            r"(?<=\s)-pass(?:in"
            r"|out)?\s+[\"']?pass:"
        ),
        _after("password", alone=False),
    ),
    Rule(
        "secret",
        ("--", "-t"),
        re.compile(
            r"(?<!\S)(?i:--?(?:\w+-){0,3}(?:password|passwd|pass|passphrase|token|secret|api-?key"
            r"|access-?key|secret-?key|auth))[^\S\r\n]{1,3}"
        ),
        _after("password"),
    ),
    Rule(
        "password",
        ("machine", "login"),
        re.compile(r"(?<!\w)login\s+\S{1,80}\s+password\s+"),
        _after("password", alone=False),
    ),
    Rule(
        "seed_phrase",
        ("mnemonic", "phrase", "seed"),
        re.compile(
            r"(?i:(?:seed|recovery|mnemonic|backup)(?: phrase| words)?)[\"']?"
            r"(?: is)?\s{0,3}[:=]?\s{0,3}[\"']?(?P<s>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})"
            r"(?![a-z])"
        ),
        _seed,
    ),
    Rule(
        "",
        (
            "pass",
            "pw",
            "token",
            "jwt",
            "key",
            "secret",
            "cred",
            "salt",
            "auth",
            "bearer",
            "otp",
            "sess",
            "sid",
            "csrf",
            "xsrf",
        ),
        _KEY,
        _assigned,
        needs=":=",
    ),
    Rule(
        "",
        ("pass", "pw", "token", "key", "secret", "pin"),
        re.compile(
            r"(?<!\w)(?P<k>(?i:password|passwd|passphrase|passcode|pwd|pw|pin|api[ -]key|access key|secret"
            r"(?: key)?|(?:access |auth )?token))"
            r"(?i:(?: (?:for|of|to|on) (?:[\w./@-]{1,40} ?){1,4}?)?(?P<is> (?:is|was|are|becomes"
            r"|changed to|set to|to)(?: now| still| just| set to)?:? )"
            r"|:? )(?P<q>[\"'`“]?)(?P<s>[^\s\"'`”]{4,200})"
        ),
        _said,
    ),
)

# --- the pass over a text --------------------------------------------------------------------------

_LONG_RUN = re.compile(r"[A-Za-z0-9_+/=.-]{16}|\d{4}[ -]\w{4,6}[ -]")
_HINTS = (
    "pass",
    "token",
    "secret",
    "key",
    "pw",
    "://",
    "auth",
    "cookie",
    "bearer",
    "sess",
    "cred",
    "pin ",
    " -p",
    " -u",
    "sid",
    "phrase",
    "basic",
    "salt",
    "otp",
    "csrf",
    "mnemonic",
    "seed",
    "value=",
)
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]+"
)


def _name(rule: Rule, text: str, start: int) -> str:
    if rule.name:
        return rule.name
    before = text[max(0, start - 60) : start].lower()
    names = {"pass": "password", "pw": "password", "session": "session_id", "token": "token", "jwt": "token"}
    names |= {"secret": "secret", "key": "api_key", "bearer": "token"}
    nearest = max(names, key=before.rfind)
    return names[nearest] if nearest in before else "secret"


def _apply(rule: Rule, text: str, found: dict[str, None]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in find(rule, text):
        name = _name(rule, text, start)
        found[name] = None
        pieces += (text[done:start], f"[REDACTED:{name}]")
        done = end
    return "".join(pieces) + text[done:] if pieces else text


_RULES = SHAPES + _ASSIGNMENTS
_ALL_HINTS = tuple({hint for rule in _RULES for hint in rule.hints})


def _once(text: str, found: dict[str, None]) -> str:
    lower = text.lower()
    said = {hint for hint in _ALL_HINTS if hint in lower}
    for rule in _RULES:
        if not said.isdisjoint(rule.hints) and (not rule.needs or any(sign in text for sign in rule.needs)):
            text = _apply(rule, text, found)
    return text


def _suspect(text: str) -> bool:
    lower = text.lower()
    return any(hint in lower for hint in _HINTS) or _LONG_RUN.search(text) is not None


def _settle(text: str, found: dict[str, None]) -> str:
    """A secret's removal can lay bare another (`a:b@c` chains), so repeat until nothing changes."""
    for _ in range(6):
        after = _once(text, found) if _suspect(text) else text
        if after == text:
            break
        text = after
    return text


def redact(text: str) -> Redacted:
    """The text with each secret replaced by ``[REDACTED:<name>]``, and the names of what was found."""
    found: dict[str, None] = {}
    if _suspect(text):
        text = _settle(text, found)
    if not text.isascii() and _INVISIBLE.search(text):
        # Zero-width characters can cut a secret in two. They go only if that uncovers one: emoji need them.
        joined: dict[str, None] = {}
        clear = _settle(_INVISIBLE.sub("", text), joined)
        if joined:
            return Redacted(clear, (*found, *(name for name in joined if name not in found)))
    return Redacted(text, tuple(found))
