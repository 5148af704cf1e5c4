"""Is this value a secret? A name on the left says what to expect; the value itself must look the part."""

from __future__ import annotations

import re

from .secret_rule import Pattern

_PLACEHOLDER = Pattern(
    r"redacted|example|placeholder|change[_-]?(?:me|this|it)|replace[_-]?(?:me|with|this)|your[_ -]"
    r"|[_-]here$|^your"
    r"|(?:^|[_-])(?:dummy|sample|todo|tbd|fixme|insert)(?:$|[_-])|x{4}|\*{3}|\.{3}|…|•{3}|^(?:foo"
    r"|bar|baz|qux)+\d*$"
    r"|^pk[_.](?:live|test)?|1234567890abcdef|^(?:0123456789|1234567890)$",
    re.I,
)
_FILLED = Pattern(r"(.)\1{5,}", re.I)
_REFERENCE = Pattern(
    r"\$\{?\w*\}?$|\$[({]|\$env:|\{\{|\{[\w.]*\}|\{[\w.]+![rsa]\b|%\w+%$|%[({]|%[sd]\b|<|@[\w./-]+$|[!*]\w+$|\[|\(|:\w+$"
    r"|/run/|[&|]|=|"
    r"(?:os|process|env|config|settings|self|this|var|local|secrets|vault|ref|import\.meta|op|ssm|arn|file"
    r"|keyring)[.:(]"
    r"|(?:https?|ftp|s3|gs|vault|op)://|[A-Za-z_][\w.]*(?:\(|\[|::|->|\?\.)|(?:None|null|nil|true|false)\b"
)
_PATH = Pattern(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][a-z0-9_.-]+(?:[/\\][A-Za-z0-9_.-]+)*$|[\w-]+(?:/[\w.-]+)*\.[a-z]{2,4}$")
_WORDS = Pattern(r"[A-Z]?[a-z]*(?:[ _\-./:][A-Z]?[a-z]+)*(?:[ _\-.]?v?\d{1,4})?$|[A-Z]+(?:_[A-Z]+)*(?:_?\d{1,2})?$")
_CAMEL = Pattern(r"[A-Za-z]?[a-z]+(?:[A-Z][a-z]+)+\d?$|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$")
_TECHNICAL = Pattern(
    r"(?:base-?(?:32|58|64)|utf-?\d+|sha-?\d|md5|oauth|argon2|[rhep]s\d{3}|pbkdf2|x-?509|http|v\d|ipv\d"
    r"|aes|rsa|b?crypt"
    r"|ed25519|\d+[- ]?(?:char|bit|byte|digit|hour|day|min|sec|h$|d$|s$|m$)|\d+(?:st|nd|rd|th)\b|iso|i18n"
    r"|int\d|uint\d|u?\d+$)",
    re.I,
)
_QUOTED_REFERENCE = Pattern(
    r"\$\{?\w*\}?$|\$[({]|\{\{|\{[\w.]*\}$|%\w+%$|<.*>$|(?:https?|arn"
    r"|sha\d+)[:-]"
)
_DIGIT, _LETTER = Pattern(r"\d"), Pattern(r"[^\W\d_]")
_NOT_PASSWORDS = (
    "password passwd pass pwd pw passphrase secret token key value string str text char varchar required "
    "optional "
    "mandatory missing invalid incorrect wrong empty none null nil undefined true false yes no unset "
    "expired rotated "
    "hidden masked encrypted hashed plaintext stored valid strong weak default random generated admin "
    "root user guest "
    "test testing tests mypassword newpassword oldpassword password1 password123 username postgres mysql "
    "redis bytes "
    "object number boolean any unknown never void field input prompt stdin file environment variable "
    "credentials "
    "forgotten confirmation authentication"
)
STOP_WORDS = frozenset(_NOT_PASSWORDS.split())


def is_placeholder(value: str) -> bool:
    if len(set(value)) < 3 or _PLACEHOLDER.search(value):
        return True
    # Filled up with one character; but some tokens begin with many of one.
    return _FILLED.search(value) is not None and len(_FILLED.sub("", value)) < 24


def is_reference(value: str) -> bool:
    """Code or a template that names where the secret lives."""
    return _REFERENCE.match(value) is not None


def is_technical(value: str) -> bool:
    """A term with a digit in it (`base64-encoded`, `24-hour`), which prose puts where a secret could be."""
    return _TECHNICAL.match(value) is not None


def has_digit(value: str) -> bool:
    return _DIGIT.search(value) is not None


def is_opaque(value: str) -> bool:
    """Random-looking: letters and digits mixed in a way that words with a number at the end are not."""
    if len(value) < 8 or len(set(value)) < 6 or _WORDS.match(value) or _CAMEL.match(value) or " " in value:
        return False
    if _DIGIT.search(value):
        return bool(_LETTER.search(value)) or len(value) >= 20
    mixed = value != value.lower() and value != value.upper()
    return len(value) >= 20 and mixed and "." not in value.strip(".")


def _passwordlike(value: str, bare: bool, terse: bool) -> bool:
    """People choose passwords: a letter and a digit are enough; a lone word, only where no prose can be."""
    if len(value) < 4 or value.lower() in STOP_WORDS or (_TECHNICAL.match(value) and not terse):
        return False
    if " " in value:
        return False
    if bare and not terse and _CAMEL.match(value):
        return False
    if value.isdigit():
        return len(value) >= 6
    letter = bool(_LETTER.search(value))
    if letter and _DIGIT.search(value):
        return len(value) >= 5 or terse
    if letter and any(c in "!@#$%^&*+=?~" for c in value):
        return len(value) >= 6
    return letter and (terse or (not bare and len(value) >= 8 and value.islower() and value.isalpha()))


def is_secret(value: str, family: str, bare: bool, terse: bool) -> bool:
    if family == "password":
        alike = _passwordlike(value, bare, terse)
    else:
        mixed = len(value) >= 6 and _DIGIT.search(value) and _LETTER.search(value)
        alike = bool(terse and mixed) or is_opaque(value)
    if not alike or _PATH.match(value) or (_REFERENCE if bare else _QUOTED_REFERENCE).match(value):
        return False
    return not is_placeholder(value)
