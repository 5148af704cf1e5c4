"""What a secret looks like by a provider's own shape (``ghp_``, ``AKIA``…): a secret by its form alone.

A text is scanned once per rule, so no pattern may look far from each of many starting points: repeats before
a required tail are bounded, or barred from starting inside themselves. The time stays linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .secret_rule import SHORTEST, Locate, Pattern, Rule, Rules, Span, Starts, Text, anywhere, at_hints, find
from .secret_values import is_opaque, is_placeholder


def _whole(match: re.Match[str]) -> Span | None:
    span = match.span("s") if "s" in match.re.groupindex else match.span()
    return None if is_placeholder(match.string[slice(*span)]) else span


_PARTS = Pattern(r"[-_.]")


def _whole_opaque(match: re.Match[str]) -> Span | None:
    """For prefixes that words may also carry (``sk-`` is a CSS family, ``hf_`` a variable's)."""
    return _whole(match) if any(len(p) >= 12 and is_opaque(p) for p in _PARTS.split(match[0])) else None


_KEY_BODY = Pattern(r"[A-Za-z0-9+/=]{16}")


def _private_key(match: re.Match[str]) -> Span | None:
    if match["s"] is None:
        return match.span() if len(match[0]) > 60 else None
    return match.span() if _KEY_BODY.search(match["s"]) else None


def decoded(blob: str) -> str:
    """The ASCII text inside a base64 blob, or nothing."""
    import binascii

    bare = blob.rstrip("=")
    if "_" in bare:
        bare = bare.replace("-", "+").replace("_", "/")
    try:
        return binascii.a2b_base64(bare + "=" * (-len(bare) % 4)).decode("ascii")
    except ValueError:
        return ""


_JSON_KEY = r"\"(?:d|p|q|dp|dq|qi|k)\"\s{0,2}:\s{0,2}\"(?P<s>[\w-]{22,})(?=\")"


def _private_part(match: re.Match[str]) -> Span | None:
    return _whole(match) if '"kty"' in match.string else None


_LINE_ENDS = Pattern(r"[\r\n\t]")


def _wrapped(match: re.Match[str]) -> Span | None:
    inner = decoded(match[0])
    if not inner or not _LINE_ENDS.sub(" ", inner).isprintable():
        return None
    text = Text(inner)
    return match.span() if any(find(rule, text) for rule in _BARE.for_text(text)) else None


def _luhn(match: re.Match[str]) -> Span | None:
    digits = [int(c) for c in match[0] if c.isdigit()]
    total = sum(digits[-1::-2]) + sum(sum(divmod(2 * d, 10)) for d in digits[-2::-2])
    # The cards printed in every payment tutorial repeat one or two digits.
    return match.span() if total % 10 == 0 and len(set(digits)) > 3 else None


def _iban(match: re.Match[str]) -> Span | None:
    flat = match[0].replace(" ", "")
    number = "".join(str(int(c, 36)) for c in flat[4:] + flat[:4])
    return match.span() if 15 <= len(flat) <= 34 and int(number) % 97 == 1 else None


def _prefixed(name: str, hints: str, pattern: str, locate: Locate = _whole, run: int = SHORTEST) -> Rule:
    """A shape that begins with one of the hints."""
    return Rule(name, tuple(hints.split()), pattern, locate, run=run, starts=at_hints)


def _shape(
    name: str, hints: str, pattern: str, locate: Locate = _whole, run: int = SHORTEST, starts: Starts = anywhere
) -> Rule:
    return Rule(name, tuple(hints.split()) or ("",), pattern, locate, run=run, starts=starts)


def _among_numbers(rule: Rule, text: Text) -> Iterator[re.Match[str]]:
    return anywhere(rule, text) if text.numbered else iter(())


_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

# Providers whose tokens are a prefix of their own and a tail: the prefixes, and the whole.
_PROVIDERS: tuple[tuple[str, str], ...] = (
    ("dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{32,}"),
    ("sbp_", r"sbp_[a-f0-9]{32,}"),
    ("sb_secret_", r"sb_secret_[\w-]{20,}"),
    ("shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("sq0", r"sq0[a-z]{3}-[\w-]{22,}"),
    ("EAAA", r"EAAA[\w-]{56,}"),
    ("dapi", r"dapi[0-9a-f]{32}"),
    ("lin_api_", r"lin_api_\w{30,}"),
    ("ntn_", r"ntn_\w{40,}"),
    ("secret_", r"secret_[A-Za-z0-9]{40,}"),
    ("figd_ figo_ figu_", r"fig[dou]_[\w-]{30,}"),
    ("hvs. hvb.", r"hv[sb]\.[\w-]{20,}"),
    ("dp.", r"dp\.(?:pt|st|sa|ct|scim|audit)\.[\w.-]{30,}"),
    ("pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.-]{20,}"),
    ("PMAK-", r"PMAK-[\w-]{40,}"),
    ("NRAK-", r"NRAK-[A-Z0-9]{20,}"),
    ("sntrys_ sntryu_", r"sntry[su]_[\w+/=-]{30,}"),
    ("glsa_ glc_", r"gl(?:sa|c)_[\w=-]{30,}"),
    ("dckr_", r"dckr_[po]at_[\w-]{20,}"),
    ("rubygems_", r"rubygems_[0-9a-f]{40,}"),
    ("gsk_", r"gsk_[A-Za-z0-9]{30,}"),
    ("r8_", r"r8_[A-Za-z0-9]{30,}"),
    ("pplx-", r"pplx-[A-Za-z0-9]{30,}"),
    ("xai-", r"xai-[A-Za-z0-9]{30,}"),
    ("tvly-", r"tvly-[\w-]{20,}"),
    ("ATATT", r"ATATT[\w=-]{40,}"),
    ("ATBB", r"ATBB[\w=-]{24,}"),
    ("HRKU-", r"HRKU-[\w-]{30,}"),
    ("fm1_ fm2_", r"(?<!FlyV1 )fm[12]_[\w+/=,-]{40,}"),
    ("fo1_", r"fo1_[\w-]{30,}"),
    ("pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}"),
    ("ops_eyJ", r"ops_eyJ[\w-]{40,}"),
    ("pul-", r"pul-[0-9a-f]{40}"),
    ("nfp_", r"nfp_\w{30,}"),
    ("vercel_", r"vercel_\w{20,}"),
    ("cfut_", r"cfut_\w{30,}"),
    ("phx_ phc_", r"ph[xc]_\w{32,}"),
    ("sl.", r"sl\.[\w-]{60,}"),
    ("rnd_", r"rnd_[A-Za-z0-9]{28,}"),
    ("tskey-", r"tskey-[a-z]+-[\w-]{16,}"),
    ("nvapi-", r"nvapi-[\w-]{40,}"),
    ("fw_", r"fw_[A-Za-z0-9]{20,}"),
    ("csk-", r"csk-[a-z0-9]{30,}"),
    ("jina_", r"jina_\w{40,}"),
    ("lsv2_", r"lsv2_[a-z]{2}_\w{32,}"),
    ("waka_", r"waka_[0-9a-f-]{36}"),
    ("oy2", r"oy2[a-z0-9]{43}"),
    ("cio", r"cio[A-Za-z0-9]{32}"),
    ("AKCp", r"AKCp\w{50,}"),
    ("cmVmdGtu", r"cmVmdGtu\w{40,}"),
    ("sqp_ squ_ sqa_", r"sq[pua]_[0-9a-f]{40}"),
    ("xkeysib- xsmtpsib-", r"x(?:key|smtp)sib-[0-9a-f]{64}-\w{16}"),
    ("re_", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    ("pcsk_", r"pcsk_\w{5,8}_\w{40,}"),
    ("CFPAT-", r"CFPAT-[\w-]{40,}"),
    ("bkua_", r"bkua_[0-9a-f]{40}"),
    ("sdk- api- pat-", rf"(?:sdk|api|pat-(?:na|eu)\d)-{_UUID}"),
    ("access_token$", r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"),
    ("dt0c01. dt0s16.", r"dt0(?:c01|s16)\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}"),
    ("SWMTKN-", r"SWMTKN-1-[a-z0-9]{40,}-[a-z0-9]{20,}"),
    ("AVNS_", r"AVNS_[\w-]{15,}"),
    ("apify_api_", r"apify_api_[A-Za-z0-9]{30,}"),
    ("tgp_v1_", r"tgp_v1_[\w-]{30,}"),
    ("e2b_", r"e2b_[0-9a-f]{40}"),
    ("fc-", r"fc-[0-9a-f]{32}"),
    ("sgp_", r"sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}"),
    ("EZAK EZTK", r"EZ[AT]K[A-Za-z0-9]{54}"),
    ("aio_", r"aio_[A-Za-z0-9]{28}"),
    ("rpa_", r"rpa_[A-Z0-9]{40,}"),
    ("napi_", r"napi_[a-z0-9]{50,}"),
    ("xprv", r"xprv[1-9A-HJ-NP-Za-km-z]{90,}"),
    ("rzp_live_ rzp_test_", r"rzp_(?:live|test)_[A-Za-z0-9]{14,}"),
    ("FLWSECK", r"FLWSECK(?:_TEST)?-[0-9A-Za-z]{12,}-X"),
    ("APP_USR-", r"APP_USR-\d{10,}-\d{6}-[0-9a-f]{32}"),
    ("eyJrIjoi", r"eyJrIjoi[A-Za-z0-9]{60,}={0,2}"),
)


def _mixed_case(match: re.Match[str]) -> Span | None:
    """For tokens that may hold any letter: a name in code has not both cases and a digit so often."""
    value = match[0]
    has_all = value != value.lower() and value != value.upper() and sum(c.isdigit() for c in value) >= 3
    return _whole(match) if has_all and '"kty"' not in match.string else None


def _providers() -> tuple[Rule, ...]:
    own = tuple(_prefixed("provider_token", hints, r"(?<![A-Za-z0-9_-])" + pattern) for hints, pattern in _PROVIDERS)
    fly = Rule("provider_token", ("FlyV1 ",), r"(?<![A-Za-z0-9_-])FlyV1 fm[12]_[\w+/=,-]{40,}", _whole)
    atlas = r"(?<![A-Za-z0-9_-])[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}"
    return (*own, fly, _shape("provider_token", ".atlasv1.", atlas))


SHAPES: tuple[Rule, ...] = (
    _shape(
        "private_key",
        "PRIVATE",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<s>(?:[^-]|-(?!----))*)"
        r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr]|[\"'+,]|[A-Za-z0-9+/=]{16,})+",
        _private_key,
        run=0,
    ),
    _prefixed("private_key", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}"),
    _prefixed("private_key", "b3BlbnNzaC1rZXktd", r"b3BlbnNzaC1rZXktd[A-Za-z0-9+/=\s]{60,}"),
    _prefixed("private_key", "Private-Lines:", r"Private-Lines: \d+\s+(?P<s>(?:[A-Za-z0-9+/=]{16,}\s{0,2})+)", run=0),
    # A key as JSON; its public part stays.
    _shape("private_key", '"kty"', _JSON_KEY, _private_part, run=0),
    _prefixed(
        "slack_webhook",
        "https://hooks.slack",
        r"https://hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[\w/-]{16,}",
    ),
    _shape("discord_webhook", "/api/webhooks/", r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d+/[\w-]{20,}"),
    _shape("teams_webhook", ".webhook.office.", r"https://[\w-]+\.webhook\.office\.com/[\w/@-]{20,}"),
    _prefixed("jwt", "eyJ", r"(?<![A-Za-z0-9_-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]{4,}){0,3}"),
    _prefixed(
        "aws_access_key",
        "AKIA ASIA ABIA ACCA",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![A-Za-z0-9])",
    ),
    _prefixed(
        "aws_bedrock_key",
        "ABSK bedrock-api-key-",
        r"(?<![A-Za-z0-9_])(?:ABSK[A-Za-z0-9+/]{60,}=*|bedrock-api-key-[\w+/=-]{20,})",
    ),
    _prefixed(
        "github_token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{22,}",
    ),
    _prefixed(
        "gitlab_token",
        "glpat- glrt- gldt- glptt- glcbt- glsoat- glft- glagent- gloas- glimt-",
        r"(?<![A-Za-z0-9_])gl(?:pat|rt|dt|ptt|cbt|soat|ft|agent|oas|imt)-[\w.-]{18,}",
    ),
    _prefixed("slack_token", "xox xapp-", r"(?<![A-Za-z0-9_])(?:xox[a-z]|xoxe\.xox[bp]|xapp)-[\w-]{10,}"),
    _prefixed(
        "stripe_key",
        "sk_live_ sk_test_ rk_live_ rk_test_ whsec_",
        r"(?<![A-Za-z0-9])(?:[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[\w+/=]{16,})",
    ),
    _prefixed("anthropic_key", "sk-ant-", r"(?<![A-Za-z0-9_])sk-ant-[\w-]{16,}"),
    _prefixed("openai_key", "sk-", r"(?<![A-Za-z0-9_-])sk-(?:[a-z]{2,8}-)?(?:v1-)?[\w-]{16,}", _whole_opaque),
    _prefixed(
        "google_key",
        "AIza ya29. GOCSPX- 1//0",
        r"(?<![A-Za-z0-9])(?:AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|1//0[\w-]{30,})",
    ),
    _prefixed("npm_token", "npm_", r"(?<![A-Za-z0-9_])npm_[A-Za-z0-9]{30,}"),
    _prefixed("pypi_token", "pypi-", r"(?<![A-Za-z0-9_])pypi-[\w-]{30,}", _whole_opaque),
    _prefixed("huggingface_token", "hf_ api_org_", r"(?<![A-Za-z0-9_])(?:hf|api_org)_[A-Za-z0-9]{24,}", _whole_opaque),
    _prefixed("sendgrid_key", "SG.", r"(?<![A-Za-z0-9_.])SG\.[\w-]{16,}\.[\w-]{16,}"),
    _prefixed("twilio_key", "SK", r"(?<![A-Za-z0-9])SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    # The account's own id stays; what follows it opens it.
    _prefixed("twilio_key", "AC", r"(?<![A-Za-z0-9])AC[0-9a-f]{32}[\"']?[,:\s]{1,3}[\"']?(?P<s>[0-9a-f]{32})(?!\w)"),
    _prefixed("vault_token", "s.", r"(?<![\w.-])s\.[A-Za-z0-9]{24}(?![\w.(-])", _whole_opaque),
    _shape("azure_key", "Q~", r"(?<![\w.~-])[\w.-]{3}[78]Q~[\w.~-]{31,34}(?![\w~])"),
    _shape("google_key", ":APA91b", r"(?<![\w-])AAAA[\w-]{7}:APA91b[\w-]{80,}"),
    _shape("telegram_token", ":A", r"(?<!\d)\d{8,10}:A[A-Za-z0-9_-]{32,}"),
    _shape("discord_token", ".", r"[MNO](?<![\w.-][MNO])[\w-]{22,27}\.[\w-]{6}\.[\w-]{27,}", run=57),
    _prefixed("mailgun_key", "key-", r"(?<![A-Za-z0-9_-])key-[0-9a-f]{32}(?![\w-])"),
    _shape("mailchimp_key", "-us", r"(?<!\w)[0-9a-f]{32}-us\d{1,2}(?!\w)"),
    *_providers(),
    _prefixed("alma_token", "alma_", r"(?<![A-Za-z0-9_-])alma_[\w-]{43}(?![\w-])", _mixed_case),
    # 32 random bytes, as `secrets.token_urlsafe` writes them.
    _shape("token", "", r"(?<![\w+/=.:@%~-])[\w-]{43}(?![\w+/=.:@%~-])", _mixed_case, run=43),
    _shape("azure_key", "sig=", r"(?<=[?&]sig=)[\w%+/=-]{30,}"),
    Rule(
        "signed_url",
        ("signature=",),
        r"(?i:(?<=[?&]x-amz-signature=)|(?<=[?&]x-goog-signature=)|(?<=[?&]signature=))[\w%+/=-]{20,}",
        _whole,
        folds=True,
        run=SHORTEST,
    ),
    _shape(
        "card_number",
        "2 3 4 5 6",
        r"[2-6](?<![\w.+/-][2-6])(?:(?:(?<=4)\d{3}|(?<=5)[1-5]\d\d|(?<=2)[2-7]\d\d|(?<=6)(?:011|5\d\d))"
        r"(?P<c>[ -]?)\d{4}(?P=c)\d{4}(?P=c)\d{4}"
        r"|(?<=3)[47]\d\d(?P<a>[ -]?)\d{6}(?P=a)\d{5})(?![\w-]|\.\d)",
        _luhn,
        run=0,
        starts=_among_numbers,
    ),
    _shape(
        "iban",
        "0 1 2 3 4 5 6 7 8 9",
        r"[A-Z](?<!\w[A-Z])[A-Z]\d\d(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,4})?)(?!\w)",
        _iban,
        run=0,
        starts=_among_numbers,
    ),
    _shape(
        "wrapped_secret",
        "",
        r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{24,4000}={0,2}(?![A-Za-z0-9+/_=-])",
        _wrapped,
        run=24,
    ),
)
_BARE = Rules(tuple(rule for rule in SHAPES if rule.locate is not _wrapped))
