"""Secrets known by the name beside them (``password=``, ``"api_key":``, ``--token``).

The name alone says little, so the value must also look like a secret: that is what spares ``token: string`` and
``key=os.environ["K"]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .secret_prose import PROSE
from .secret_rule import Locate, Pattern, Rule, Rules, Span, Text, at_matches
from .secret_shapes import SHAPES, decoded
from .secret_values import STOP_WORDS, has_digit, is_opaque, is_placeholder, is_reference, is_secret, is_technical

_KEY = (
    r"(?P<password>(?i:password|passwd|passwort|passphrase|passcode|pgpass|(?<![a-z])pwd|(?<![a-z])pass|"
    r"(?<![a-z])pw(?![a-z])))"
    r"|(?P<token>(?i:token|(?<![a-z])jwt|bearer|(?<![a-z])otp|_auth(?=\s{0,3}=)|\"auth(?=\"\s{0,3}:)|sess"
    r"(?:ion)?[_-]?key)|(?<=[A-Z0-9]_)PAT(?![A-Z]))"
    r"|(?P<key>(?i:(?:api|access|auth|secret|private|signing|encryption|account|master|service[_-]?role"
    r"|shared[_-]?access"
    r"|license|subscription|webhook|deploy|app|storage|cookie|hmac)[_ -]?key|(?<=[?&])key)|"
    r"(?<=[A-Z0-9]_)KEY)"
    r"|(?P<secret>(?i:secret|credential|salt(?=\s{0,3}[=:])))"
    r"|(?P<session>(?i:sess(?:ion)?[_-]?id|phpsessid|jsessionid|connect\.sid|(?<![a-z])sid|csrf|xsrf))"
)
_NAMED = Pattern(
    r"(?:pass|pw|token|jwt|bearer|otp|auth|sess|key|secret|cred|salt|sid|csrf|xsrf|_pat)[\w.-]*"
    r"((?:\\?[\"'`])?\]?\s{0,3}[:=]|[\"'`],\s{0,3}(?=[\"'`]))?"
)
_NAME_HINTS = (
    *("pass", "pw", "token", "jwt", "key", "secret", "cred", "salt"),
    *("auth", "bearer", "otp", "sess", "sid", "csrf", "xsrf", "_pat"),
)
_LONGEST_NAME = 24
_TAIL = Pattern(r"(?P<more>(?:[_.-]?[A-Z][A-Za-z0-9]*|[_-][A-Za-z0-9]+|\d{1,3}){0,3})")
# `API_SECRET: &str = "…"`: the type stands between.
_TYPED = Pattern(r"(?P<sp>)(?P<op>:)\s{0,2}&?(?:'\w{1,20} )?[A-Za-z_][\w<>\[\]., |?]{0,40}?\s{0,2}=\s{0,3}(?=[\"'`])")
# `define('DB_PASSWORD', '…')`
_LISTED = Pattern(r"[\"'`](?P<sp>)(?P<op>,)\s{0,3}(?=[\"'`])")
_IS = Pattern(
    r"(?:\\?[\"'`])?\]?(?P<sp>\s{0,3})(?P<op>:=|=>|==?|:)[^\S\r\n]{0,8}(?:\r?\n[^\S\r\n]{1,8}"
    r"(?=[\"']))?"
)
_HARMLESS_TAIL = Pattern(
    r"[_-]?(?:id|name|count|type|url|uri|endpoint|file|path|dir|length|len|size|expir\w*|ttl|age|limit"
    r"|field|policy|min|max|arn|rotation"
    r"|format|header|prefix|hint|label|version|issuer|strategy|class|budget|usage|reset|manager|store|ref"
    r"|hash|digest|algorithm|s)$",
    re.I,
)
_HARMLESS_HEAD = Pattern(
    r"(?:(?<![a-z])|(?-i:(?<=[a-z])(?=[A-Z])))(?:public(?:[_-]?key)?|publishable|next|page|continuation|sync|cancel\w*|stop|pad|eos|bos|unk|sep|cls|mask"
    r"|special|design|cursor"
    r"|max|min|num|total|input|output|prompt|per|reset|forgot|idempotency|primary|foreign|cache|change"
    r"|resume)[_\- ]?$",
    re.I,
)
_OPEN = Pattern(r"[bBrRuU]?(?P<q>\\?[\"'`])")
_BARE = Pattern(r"[^\s\"'`]{1,200}")
_REST = Pattern(r"[\w+/=.~-]*")
_CUT = Pattern(r"[&;,](?=[\w.\- ]{0,40}=|$)|;|\\[nrt\"]|</|[,)\]}>.:]+$")
_DOTTED = Pattern(r"(?<![\w.-])(?:[\w-]{1,40}\.){2,6}$")
_UUID = Pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")


def _named(rule: Rule, text: Text) -> Iterator[re.Match[str]]:
    """Names that a sign of assignment follows; the pattern itself is tried only around them."""
    names = rule.pattern.compiled()
    done = 0
    for found in _NAMED.finditer(text.folded):
        if found[1] is None:
            continue
        done = max(done, found.start() - _LONGEST_NAME)
        yield from names.finditer(text.plain, done, found.end())
        done = found.end()


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


def _is_property(text: str, name_start: int, value: str) -> bool:
    """Whether this is a setting of a properties file, such as `spring.datasource.password=…`."""
    return has_digit(value) and _DOTTED.search(text[max(0, name_start - 80) : name_start]) is not None


def _assigned(match: re.Match[str]) -> Span | None:
    text, family = match.string, str(match.lastgroup)
    tail = _TAIL.match(text, match.end())
    assert tail is not None  # the pattern can match nothing
    sign = _TYPED.match(text, tail.end()) or _IS.match(text, tail.end()) or _LISTED.match(text, tail.end())
    if not sign:
        return None
    head = text[max(0, match.start() - 14) : match.start()]
    if _HARMLESS_TAIL.match(tail["more"]) or _HARMLESS_HEAD.search(head):
        return None
    found = _value(text, sign.end())
    if not found:
        return None
    start, end, bare = found
    # A shell's `--password='two words'`.
    value = text[start:end] if bare or "--" not in head else text[start:end].replace(" ", "")
    # NAME=value as in a shell or --name=value: code and prose are not written so.
    terse = (
        bare
        and sign["op"] == "="
        and not sign["sp"]
        and start == sign.end()
        and (match[0].isupper() or "--" in head or _is_property(text, match.start(), value))
    )
    if sign["op"] == "," and (not has_digit(value) or is_technical(value)):
        return None
    if family == "session" and (_UUID.match(value) or len(value) < 16):
        return None
    if text[end : end + 1] in ("(", "[") or (family == "key" and match[0] == "KEY" and len(value) < 16):
        return None
    return _to_its_end(text, start, end) if is_secret(value, family, bare, terse) else None


def _after(family: str, alone: bool = True) -> Locate:
    """The value right after the match; a flag's value written apart (`--password word`) must not be prose."""

    def locate(match: re.Match[str]) -> Span | None:
        found = _value(match.string, match.end())
        if not found:
            return None
        start, end, bare = found
        terse = not alone or not bare
        value = match.string[start:end] if bare or alone else match.string[start:end].replace(" ", "")
        return _to_its_end(match.string, start, end) if is_secret(value, family, bare, terse) else None

    return locate


def _basic_credentials(match: re.Match[str]) -> Span | None:
    return match.span("s") if ":" in decoded(match["s"]) else None


def _url_password(match: re.Match[str]) -> Span | None:
    value = match["s"]
    harmless = value.lower() in STOP_WORDS or value == match["u"] or is_placeholder(value) or is_reference(value)
    return None if harmless else match.span("s")


def _url_token(match: re.Match[str]) -> Span | None:
    opaque = len(match["s"]) >= 20 and is_opaque(match["s"])
    return match.span("s") if opaque and not is_placeholder(match["s"]) else None


def _cookie(match: re.Match[str]) -> Span | None:
    named = "cookie" in match.string[: match.start()].lower()[-600:]
    return match.span("s") if named and is_secret(match["s"], "token", True, True) else None


_NOT_IN_SEEDS = frozenset("the and for from are with not has was its our your but all any into their have been".split())


def _seed(match: re.Match[str]) -> Span | None:
    return match.span("s") if _NOT_IN_SEEDS.isdisjoint(match["s"].split()) else None


def _long_opaque(match: re.Match[str]) -> Span | None:
    found = _value(match.string, match.end())
    if not found:
        return None
    start, end, bare = found
    value = match.string[start:end]
    return (start, end) if len(value) >= 20 and is_secret(value, "token", bare, False) else None


_LOGINS = (
    "mysql",
    "mariadb",
    "sshpass",
    "mongo",
    "docker login",
    "podman login",
    "redis-cli",
    "ldap",
    "az login",
)

NAMES: tuple[Rule, ...] = (
    Rule(
        "url_password",
        ("://",),
        r"[A-Za-z][\w+.]{1,20}://(?P<u>[^\s/:@\"'<>\[\]]{0,80}):(?P<s>[^\s/\"'<>]{1,128})@"
        r"(?=[\w.\[$-])",
        _url_password,
        needs="@",
    ),
    Rule(
        "url_password",
        ("%40",),
        r"(?:://|%3[aA]%2[fF]%2[fF])[^\s%&@:/\"'<>]{1,80}%3[aA](?P<s>(?:[^\s%&@\"'<>]|%(?!40|2[fF])[0-9A-Fa-f]{2}){1,128})%40",
        lambda match: None if is_placeholder(match["s"]) else match.span("s"),
    ),
    Rule("url_token", ("://",), r"://(?P<s>[\w-]{20,100})@(?=\w)", _url_token, needs="@"),
    Rule(
        "authorization",
        ("basic",),
        r"(?i:(?<!\w)basic\s{1,3})"
        r"(?P<s>[A-Za-z0-9+/]{6,1024}={0,2})",
        _basic_credentials,
        folds=True,
    ),
    Rule(
        "authorization",
        ("bearer", "authorization"),
        r"(?i:(?<!\w)bearer[ :\"']{1,3}|authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:[a-z]{2,12}(?:-key)?\s)?"
        r"[ \"']{0,3})",
        _after("token"),
        folds=True,
    ),
    Rule(
        "cookie",
        ("cookie",),
        r"(?i:(?<=cookie: )|(?<=cookie:)|(?<=; ))(?P<n>[\w.-]{1,60})=(?P<s>[^\s;\"',]{8,})",
        _cookie,
        folds=True,
        needs="=",
    ),
    Rule(
        "password",
        ("pass", "pw"),
        r"<(?i:[\w:.-]{0,30}(?:password|passwd|pwd))>(?=[^<\s]{4,200}</)",
        _after("password", alone=False),
        folds=True,
        needs="<",
    ),
    # Words between such tags are code and markup: only what is random is a secret.
    Rule(
        "secret",
        ("secret", "token", "apikey"),
        r"<(?i:[\w:.-]{0,30}(?:secret|token|apikey))>(?=[^<\s]{6,200}</)",
        _after("token", alone=False),
        folds=True,
        needs="<",
    ),
    Rule(
        "secret",
        ("value=",),
        r"(?i:(?:name|key)=[\"'][\w.:-]{0,30}(?:password|passwd|pwd|secret|token|apikey"
        r"|api_key)[\"']\s{1,3}value=)(?=[\"'])",
        _after("password", alone=False),
        folds=True,
    ),
    Rule(
        "password",
        (*_LOGINS, "7z", "zip"),
        r"(?<![\w-])(?:mysql\w*|mariadb[\w-]*|sshpass|mongo\w*|docker login|podman login|redis-cli"
        r"|ldap\w+|az login|7z|zip|unzip)\s"
        r"(?:[^\s|;]+\s){0,12}?-(?:p|a|w|P)(?:\s?(?=[\"'])|(?=[^\s\"'-]{4}))",
        _after("password", alone=False),
        needs="-",
    ),
    # mysql's `-p name` is a database, and redis-cli's `-p` a port.
    Rule(
        "password",
        (*_LOGINS, "zip"),
        r"(?<![\w-])(?:(?:sshpass|mongo\w*|docker login|podman login|az login)\s(?:[^\s|;]+\s){0,12}?-p"
        r"|ldap\w+\s(?:[^\s|;]+\s){0,12}?-w|redis-cli\s(?:[^\s|;]+\s){0,12}?-a|(?:un)?zip\s(?:[^\s|;]+\s){0,12}?-P)"
        r"\s(?=[^\s-])",
        _after("password", alone=False),
        needs="-",
    ),
    Rule(
        "password",
        ("--password-stdin", "sudo -S"),
        r"(?<!\w)(?:echo|printf)\s(?:-\w+\s)?(?=[^\n|]{1,100}\|[^\n|]{0,200}(?:--password-stdin|sudo\s-S))",
        _after("password", alone=False),
        needs="|",
    ),
    Rule(
        "password", ("net use",), r"net use\s[^\n]{1,200}?/user:\S{1,80}\s(?=[^\s/*])", _after("password", alone=False)
    ),
    Rule(
        "password",
        ("htpasswd", "smb", "rpcclient"),
        r"(?<![\w-])(?:htpasswd\s(?:-\w+\s+){0,3}-\w*b\w*\s+\S+\s+\S+\s+"
        r"|(?:smb\w*|rpcclient)\s(?:[^\s|;]+\s){0,8}?-U[ =]?[\"']?[^\s%\"']{1,40}%(?=[^\s\"'$]))",
        _after("password", alone=False),
        needs="-",
    ),
    Rule(
        "password",
        ("openssl",),
        r"(?<![\w-])openssl\s(?:[^\s|;]+\s){0,12}?-[kK]\s+",
        _after("password"),
    ),
    Rule(
        "password",
        ("-u", "--user", "--proxy-user"),
        r"-(?<!\S-)(?:u|-user|-proxy-user)[ =]?[\"']?[^\s:\"'/]{1,60}:(?!\d{1,5}(?!\S))"
        r"(?=[^\s\"'/$])",
        _after("password"),
        needs=":",
    ),
    Rule(
        "password",
        ("pass:",),
        r"(?<=\s)-pass(?:in"
        r"|out)?\s+[\"']?pass:",
        _after("password", alone=False),
    ),
    Rule(
        "secret",
        ("pass", "token", "secret", "key", "auth"),
        r"-(?<!\S-)(?i:-?(?:\w+-){0,3}(?:password|passwd|pass|passphrase|token|secret|api-?key"
        r"|access-?key|secret-?key|auth))[^\S\r\n]{1,3}",
        _after("password"),
        folds=True,
        needs="-",
    ),
    # `aws configure set aws_secret_access_key …`, `wandb login …`
    Rule(
        "secret",
        ("token", "secret", "password", "key"),
        r"(?i:(?<!\w)(?:set|put|add)[ -][\w./:@-]{0,60}(?:token|secret|password|key)[^\S\r\n]{1,3})",
        _after("token"),
        folds=True,
        starts=at_matches(r"(?:set|put|add)[ -]"),
    ),
    Rule("secret", ("login",), r"(?<!\w)login[^\S\r\n]{1,3}(?=\w{8})", _long_opaque),
    Rule(
        "password",
        ("login",),
        r"(?<!\w)login\s+\S{1,80}\s+password\s+",
        _after("password", alone=False),
    ),
    Rule(
        "seed_phrase",
        ("seed", "recovery", "mnemonic", "backup"),
        r"(?i:(?:(?:seed|recovery|mnemonic|backup)(?: phrase| words)|mnemonic)[\"']?(?: is)?\s{0,3}[:=]?"
        r"|(?:seed|recovery|backup)[\"']?\s{0,3}[:=])\s{0,3}[\"']?(?P<s>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})"
        r"(?![a-z])",
        _seed,
        folds=True,
    ),
    Rule(
        "",
        _NAME_HINTS,
        _KEY,
        _assigned,
        folds=True,
        needs=":=,",
        starts=_named,
    ),
)

RULES = Rules(SHAPES + NAMES + PROSE)
