"""What a secret looks like: by a provider's own shape, or as a value worth hiding.

A text is scanned once per rule, so no pattern may look far from each of many starting points: repeats before
a required tail are bounded, or barred from starting inside themselves. The time stays linear in the text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    locate: Callable[[re.Match[str]], Span | None]
    needs: str = ""
    """One of these characters must be there; looking for it is cheaper than matching."""


def _in_marker(text: str, at: int) -> bool:
    return text.rfind("[REDACTED:", max(0, at - 30), at) > text.rfind("]", max(0, at - 30), at)


def find(rule: Rule, text: str) -> list[Span]:
    spans: list[Span] = []
    end = 0
    for match in rule.pattern.finditer(text):
        span = rule.locate(match) if match.start() >= end else None
        if span and not _in_marker(text, span[0]):
            spans.append(span)
            end = span[1]
    return spans


# --- is this value a secret? -----------------------------------------------------------------------

_PLACEHOLDER = re.compile(
    r"redacted|example|placeholder|change[_-]?(?:me|this|it)|replace[_-]?(?:me|with|this)|your[_ -]"
    r"|[_-]here$|^your"
    r"|(?:^|[_-])(?:dummy|sample|todo|tbd|fixme|insert)(?:$|[_-])|x{4}|\*{3}|\.{3}|…|•{3}|(.)\1{5}|^(?:foo"
    r"|bar|baz|qux)+\d*$"
    r"|^pk[_.](?:live|test)?|1234567890abcdef|^(?:0123456789|1234567890)$",
    re.I,
)
_REFERENCE = re.compile(
    r"\$\{?\w*\}?$|\$[({]|\$env:|\{\{|\{[\w.]*\}|%\w+%$|%[({]|%[sd]\b|<|@[\w./-]+$|[!*]\w+$|\[|\(|:\w+$"
    r"|/run/|[&|]|=|"
    r"(?:os|process|env|config|settings|self|this|var|local|secrets|vault|ref|import\.meta|op|ssm|arn|file"
    r"|keyring)[.:(]"
    r"|(?:https?|ftp|s3|gs|vault|op)://|[A-Za-z_][\w.]*(?:\(|\[|::|->|\?\.)|(?:None|null|nil|true|false)\b"
)
_PATH = re.compile(
    r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][a-z0-9_.-]+(?:[/\\][A-Za-z0-9_.-]+)*$|[\w-]+(?:/[\w.-]+)*\.[a-z]{2,4}$"
)
_WORDS = re.compile(
    r"[A-Za-z]?[a-z]*(?:[ _\-./:][A-Za-z]?[a-z]+)*(?:[ _\-.]?v?\d{1,4})?$|[A-Z]+(?:_[A-Z]+)*(?:_?\d{1,2})?$"
)
_CAMEL = re.compile(r"[A-Za-z]?[a-z]+(?:[A-Z][a-z]+)+\d?$|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$")
_TECHNICAL = re.compile(
    r"(?:base-?(?:32|58|64)|utf-?\d+|sha-?\d|md5|oauth|argon2|[rhep]s\d{3}|pbkdf2|x-?509|http|v\d|ipv\d"
    r"|aes|rsa|b?crypt"
    r"|ed25519|\d+[- ]?(?:char|bit|byte|digit|hour|day|min|sec|h$|d$|s$|m$)|\d+(?:st|nd|rd|th)\b|iso|i18n"
    r"|int\d|uint\d|u?\d+$)",
    re.I,
)
_QUOTED_REFERENCE = re.compile(
    r"\$\{?\w*\}?$|\$[({]|\{\{|\{[\w.]*\}$|%\w+%$|<.*>$|(?:https?|arn"
    r"|sha\d+)[:-]"
)
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")
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
    return bool(_PLACEHOLDER.search(value)) or len(set(value)) < 3


def is_reference(value: str) -> bool:
    """Code or a template that names where the secret lives."""
    return _REFERENCE.match(value) is not None


def is_technical(value: str) -> bool:
    """A term with a digit in it (`base64-encoded`, `24-hour`), which prose puts where a secret could be."""
    return _TECHNICAL.match(value) is not None


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


# --- shapes: a provider's own prefix ---------------------------------------------------------------


def _whole(match: re.Match[str]) -> Span | None:
    span = match.span("s") if "s" in match.re.groupindex else match.span()
    return None if is_placeholder(match.string[slice(*span)]) else span


def _whole_opaque(match: re.Match[str]) -> Span | None:
    """For prefixes that words may also carry (``sk-`` is a CSS family, ``hf_`` a variable's)."""
    parts = re.split(r"[-_.]", match[0])
    return _whole(match) if any(len(p) >= 12 and is_opaque(p) for p in parts) else None


def basic_credentials(match: re.Match[str]) -> Span | None:
    return match.span("s") if ":" in _decoded(match["s"]) else None


def _private_key(match: re.Match[str]) -> Span | None:
    return match.span() if re.search(r"[A-Za-z0-9+/=]{16}", match["s"]) else None


def _decoded(blob: str) -> str:
    """The ASCII text inside a base64 blob, or nothing."""
    try:
        raw = base64.b64decode(
            blob.rstrip("=") + "=" * (-len(blob.rstrip("=")) % 4), altchars=b"-_" if "_" in blob else None
        )
        return raw.decode("ascii")
    except (binascii.Error, ValueError):
        return ""


def _wrapped(match: re.Match[str]) -> Span | None:
    inner = _decoded(match[0])
    hidden = inner and inner.isprintable() and any(find(rule, inner) for rule in SHAPES if rule.locate is not _wrapped)
    return match.span() if hidden else None


def _luhn(match: re.Match[str]) -> Span | None:
    digits = [int(c) for c in match[0] if c.isdigit()]
    total = sum(digits[-1::-2]) + sum(sum(divmod(2 * d, 10)) for d in digits[-2::-2])
    # The cards printed in every payment tutorial repeat one or two digits.
    return match.span() if total % 10 == 0 and len(set(digits)) > 3 else None


def _iban(match: re.Match[str]) -> Span | None:
    flat = match[0].replace(" ", "")
    number = "".join(str(int(c, 36)) for c in flat[4:] + flat[:4])
    return match.span() if 15 <= len(flat) <= 34 and int(number) % 97 == 1 else None


def _shape(name: str, hints: str, pattern: str, locate: Callable[[re.Match[str]], Span | None] = _whole) -> Rule:
    return Rule(name, tuple(hints.split()), re.compile(pattern), locate)


SHAPES: tuple[Rule, ...] = (
    _shape(
        "private_key",
        "private",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<s>(?:[^-]|-(?!----))*)"
        r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr]|[\"'+,]|[A-Za-z0-9+/=]{16,})+",
        lambda m: _private_key(m) if m["s"] is not None else (m.span() if len(m[0]) > 60 else None),
    ),
    _shape("private_key", "age-secret-key-", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}"),
    _shape("private_key", "b3blbnnzac1rzxktd", r"b3BlbnNzaC1rZXktd[A-Za-z0-9+/=\s]{60,}"),
    _shape(
        "slack_webhook",
        "hooks.slack",
        r"https://hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[\w/-]{16,}",
    ),
    _shape(
        "discord_webhook",
        "/api/webhooks/",
        r"https://(?:\w+\.)?discord"
        r"(?:app)?\.com/api/webhooks/\d+/[\w-]{20,}",
    ),
    _shape("teams_webhook", "webhook.office", r"https://[\w-]+\.webhook\.office\.com/[\w/@-]{20,}"),
    _shape("jwt", "eyj", r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]{4,}){0,3}"),
    _shape(
        "aws_access_key",
        "akia asia abia acca",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![A-Za-z0-9])",
    ),
    _shape(
        "aws_bedrock_key",
        "absk bedrock-api-key-",
        r"(?<!\w)(?:ABSK[A-Za-z0-9+/]{60,}=*"
        r"|bedrock-api-key-[\w+/=-]{20,})",
    ),
    _shape(
        "github_token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{22,}",
    ),
    _shape(
        "gitlab_token",
        "glpat- glrt- gldt- glptt- glcbt- glsoat- glft- glagent- gloas- glimt-",
        r"(?<!\w)gl(?:pat|rt|dt|ptt|cbt|soat|ft|agent|oas|imt)-[\w.-]{18,}",
    ),
    _shape("slack_token", "xox xapp-", r"(?<!\w)(?:xox[a-z]|xoxe\.xox[bp]|xapp)-[\w-]{10,}"),
    _shape(
        "stripe_key",
        "k_live_ k_test_ whsec_",
        r"(?<![A-Za-z0-9])(?:[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[\w+/=]{16,})",
    ),
    _shape("anthropic_key", "sk-ant-", r"(?<!\w)sk-ant-[\w-]{16,}"),
    _shape("openai_key", "sk-", r"(?<![\w-])sk-(?:[a-z]{2,8}-)?(?:v1-)?[\w-]{16,}", _whole_opaque),
    _shape(
        "google_key",
        "aiza ya29. gocspx- 1//0",
        r"(?<![A-Za-z0-9])(?:AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|1//0[\w-]{30,})",
    ),
    _shape("npm_token", "npm_", r"(?<!\w)npm_[A-Za-z0-9]{30,}"),
    _shape("pypi_token", "pypi-", r"(?<!\w)pypi-[\w-]{30,}", _whole_opaque),
    _shape("huggingface_token", "hf_ api_org_", r"(?<!\w)(?:hf|api_org)_[A-Za-z0-9]{24,}", _whole_opaque),
    _shape("sendgrid_key", "sg.", r"(?<![\w.])SG\.[\w-]{16,}\.[\w-]{16,}"),
    _shape("twilio_key", "sk", r"(?<![A-Za-z0-9])SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _shape("telegram_token", ":a", r"(?<!\d)\d{8,10}:A[A-Za-z0-9_-]{32,}"),
    _shape("discord_token", ".", r"(?<![\w.-])[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,}"),
    _shape("mailgun_key", "key-", r"(?<![\w-])key-[0-9a-f]{32}(?![\w-])"),
    _shape("mailchimp_key", "-us", r"(?<!\w)[0-9a-f]{32}-us\d{1,2}(?!\w)"),
    _shape(
        "provider_token",
        "dop_v1_ doo_v1_ dor_v1_ sbp_ sb_secret_ shpat_ shpca_ shppa_ shpss_ sq0 dapi lin_api_ ntn_ "
        "secret_ figd_ hvs. hvb. "
        ".atlasv1. dp. pscale_ pmak- nrak- sntry glsa_ glc_ dckr_ rubygems_ gsk_ r8_ pplx- xai- tvly- "
        "atatt atbb hrku- flyv1 "
        "fo1_ pat ops_ pul- nfp_ vercel_ cfut_ phx_ sl. eaaa rnd_ tskey- ddp_ nvapi- fw_ csk- jina_ lsv2_ "
        "waka_ oy2 "
        "crates cio tfp_ kpat_ akcp",
        r"(?<![A-Za-z0-9_-])(?:do[opr]_v1_[a-f0-9]{32,}|sbp_[a-f0-9]{32,}|sb_secret_[\w-]{20,}|shp(?:at|ca"
        r"|pa|ss)_[a-fA-F0-9]{32}"
        r"|sq0[a-z]{3}-[\w-]{22,}|EAAA[\w-]{56,}|dapi[0-9a-f]{32}|lin_api_\w{30,}|ntn_\w{40,}"
        r"|secret_[A-Za-z0-9]{40,}"
        r"|fig[dou]_[\w-]{30,}|hv[sb]\.[\w-]{20,}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}|dp\.(?:pt|st|sa|ct"
        r"|scim|audit)\.[\w.-]{30,}"
        r"|pscale_(?:tkn|pw|oauth)_[\w.-]{20,}|PMAK-[\w-]{40,}|NRAK-[A-Z0-9]{20,}|sntry[su]_[\w+/=-]{30,}"
        r"|gl(?:sa|c)_[\w=-]{30,}"
        r"|dckr_[po]at_[\w-]{20,}|rubygems_[0-9a-f]{40,}|gsk_[A-Za-z0-9]{30,}|r8_[A-Za-z0-9]{30,}"
        r"|pplx-[A-Za-z0-9]{30,}"
        r"|xai-[A-Za-z0-9]{30,}|tvly-[\w-]{20,}|ATATT[\w=-]{40,}|ATBB[\w=-]{24,}|HRKU-[\w-]{30,}|"
        r"(?:FlyV1 )?fm[12]_[\w+/=,-]{40,}"
        r"|fo1_[\w-]{30,}|pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}|ops_eyJ[\w-]{40,}|pul-[0-9a-f]{40}|nfp_\w{30,}"
        r"|vercel_\w{20,}"
        r"|cfut_\w{30,}|ph[xc]_\w{32,}|sl\.[\w-]{60,}|rnd_[A-Za-z0-9]{28,}|tskey-[a-z]+-[\w-]{16,}"
        r"|nvapi-[\w-]{40,}|fw_[A-Za-z0-9]{20,}"
        r"|csk-[a-z0-9]{30,}|jina_\w{40,}|lsv2_[a-z]{2}_\w{32,}|waka_[0-9a-f-]{36}|oy2[a-z0-9]{43}"
        r"|cio[A-Za-z0-9]{32}|AKCp\w{50,})",
    ),
    _shape("azure_key", "sig=", r"(?<=[?&]sig=)[\w%+/=-]{30,}"),
    _shape(
        "signed_url",
        "signature=",
        r"(?i:(?<=[?&]x-amz-signature=)|(?<=[?&]x-goog-signature=)|(?<=[?&]signature=))[\w%+/=-]{20,}",
    ),
    _shape(
        "card_number",
        "2 3 4 5 6",
        r"(?<![\w.+/-])(?:(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6(?:011|5\d\d))(?P<c>[ -]?)\d{4}(?P=c)\d{4}"
        r"(?P=c)\d{4}"
        r"|3[47]\d\d(?P<a>[ -]?)\d{6}(?P=a)\d{5})(?![\w-]|\.\d)",
        _luhn,
    ),
    _shape(
        "iban",
        "0 1 2 3 4 5 6 7 8 9",
        r"(?<!\w)[A-Z]{2}\d\d(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,4})?)(?!\w)",
        _iban,
    ),
    _shape(
        "wrapped_secret",
        "a e i m z",
        r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{24,4000}={0,2}(?![A-Za-z0-9+/_=-])",
        _wrapped,
    ),
)
