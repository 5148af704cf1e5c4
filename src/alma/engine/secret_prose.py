"""Secrets that people write in sentences and notes ("my password is …", "PIN: 4711", "le mot de passe est …").

A sentence about a password ("my password is too short") has the same form as one that gives it away. A value with a
digit or a sign in it is taken for a secret. A plain word is taken for one only where it ends its clause and is not a
word that people use to describe passwords. Plain words are judged in English only; in other languages they must be
in quotes.
"""

from __future__ import annotations

import re

from .secret_rule import Pattern, Rule, Span, at_matches
from .secret_values import STOP_WORDS, has_digit, is_opaque, is_placeholder, is_reference, is_secret, is_technical

_PREPOSITIONS = (
    r"for|of|to|on|at|from|in|du|de|des|pour|del|della|dello|do|da|dos|para|per|für|vom|von|zum|zur|van|voor|der|den"
)
_LINK = (
    rf"(?:(?: (?:{_PREPOSITIONS})(?: [\w./@'’-]{{1,40}}){{1,4}}?)?"
    r"(?:[^\S\n]{0,2}(?P<sign>:)[^\S\n]{1,3}|[^\S\n](?P<dash>[-–—]|->|=>|→)[^\S\n]"
    r"|(?P<is>['’]s| (?:is|was|are|becomes|will be|changed to|set to|to|est|ist|lautet|war|es|era|è|é|это))"
    r"(?: (?:now|still|just|currently|set to|jetzt|noch))?:?[^\S\n]{1,2})|[^\S\n])"
)
# Not `name=`: a field is redacted together with its name, as `name=text`.
_SEEMS_CODE = Pattern(r"[{}()<>;\[\]$]|\s=\s|==")
_LISTS_USER = Pattern(r"(?:user(?:name)?|login|account|e-?mail|id)\s{0,2}[:=]", re.I)
_OWNED = Pattern(r"\b(?:my|our|your|the|his|her|their|new|old|admin|root)\b[\w' -]*$", re.I)
_ASKED_FOR = Pattern(r"\b(?:forgot|reset|change|incorrect|wrong|enter|confirm|invalid|no|missing)\s*$", re.I)
# "we pass", "pass … to": something is handed over.
_HANDS_OVER = Pattern(
    r"\b(?:to|we|you|I|they|it|must|should|can|could|will|would|may|then|and|or|not|don't|please|always|never|also|just)\s$",
    re.I,
)
_RECEIVER = Pattern(r".?\s(?:to|as|into|in|through|via|when|instead|along|down|by)\b", re.I)
# Keys that open nothing.
_NAMING_KEY = Pattern(
    r"\b(?:public|cache|primary|foreign|partition|sort|row|object|s3|redis|lookup|map|dict|index|hash|dedup\w*|host"
    r"|idempotency|unique|group\w*|shard\w*|routing|storage|build|translation|json|react|item|lock)[ _-]$"
    r"|\b(?:fingerprint|hash|digest|checksum|sha\d*|md5|id) of (?:\w+ ){0,3}$",
    re.I,
)
_HEX = Pattern(r"[0-9a-fA-F]+$")
_BARE = Pattern(r"[^\s\"'`”“»«]{1,200}")
_WORDS = Pattern(r"[a-z]{2,20}(?:[ -][a-z]{2,20}){2,11}(?=[.,;!?)]*(?:\s*(?:\n|$)|[.,;!?)]\s))")
_CLAUSE_END = Pattern(
    r"[.,;!?)]{0,3}(?:\s*(?:\n|$)|(?<=[.,;!?)])\s|\s(?:[/|(–—-]|(?:if|and|but|until|so|for|please|now|thanks|btw)\b))"
)
_DESCRIBES = Pattern(r"(?:ed|ing|able|ible|(?<!f)ly|ful|less|ous|[st]ive|ent|ary|ory|ical|est)$", re.I)
_EMAIL = Pattern(r"[^\s@]+@[^\s@]+\.[a-z]{2,}$", re.I)
_SIGNS = frozenset("!@#$%^&*+=?~§€£")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“”", "«": "»", "»": "«", "‘": "’", "「": "」"}
_FUNCTION_WORDS = frozenset(
    """a an the of to for from in on at by with without and or but nor if when while until unless because so than then
    as is are was were be been being has have had do does did can could may might must should shall will would not no
    never always only also too very just yet still again i you he she it we they me him her us them my your his its our
    their this that these those there what which who whom whose why how where all any some each every both either
    neither more most less least many much few several other another such own same before after during since between
    through into over under about against via per using used use see ask please says said get got go enter your
    password passphrase pin""".split()
)
_DESCRIPTIONS = STOP_WORDS | frozenset(
    """right correct ok okay fine good bad short long longer shorter simple easy hard complex safe unsafe secure
    insecure public private unique different blank reset lost gone known unclear clear plain stale fresh needed enough
    mine yours ours theirs hers something anything nothing everything someone anyone whatever one two three four five
    six seven eight ten twelve sixteen numeric alphanumeric numbers digits letters characters ascii unicode text written
    read kept shown given held sent seen found taken chosen typed built made left bound due dead alive live open shut
    closed full free ready late early sacred important obsolete overkill crap terrible awful awesome great nice funny
    stupid silly bogus fake real actual local remote global internal external part down out off like later today
    tomorrow yesterday maybe perhaps often ever already generic static identical broken stolen leaked slow fast
    bcrypt scrypt argon kerberos ldap oauth json yaml base lowercase uppercase plain-text clear-text write-only
    read-only case-sensitive policy rules changeit""".split()
)


def _find_quoted(text: str, pos: int) -> Span | None:
    """Where the text inside the quotes that open at `pos` starts and ends."""
    closing = _QUOTES.get(text[pos : pos + 1])
    if closing is None:
        return None
    line = text[pos + 1 : pos + 160].partition("\n")[0]
    ends = [at for sign in closing if (at := line.find(sign)) > 0]
    if not ends:
        return None
    inner = line[: min(ends)]
    start = pos + 1 + len(inner) - len(inner.lstrip())
    return start, start + len(inner.strip())


def _is_description(word: str) -> bool:
    return word in _DESCRIPTIONS or word in _FUNCTION_WORDS or (len(word) > 4 and _DESCRIBES.search(word) is not None)


def _is_phrase(value: str) -> bool:
    """Whether these words are a passphrase: prose of that length has a function word or two descriptions in it."""
    words = re.split("[ -]", value)
    return _FUNCTION_WORDS.isdisjoint(words) and sum(map(_is_description, words)) <= len(words) // 4


def _is_opaque_value(value: str, family: str) -> bool:
    """Whether it has a digit or a sign where no word has one."""
    if not (has_digit(value) or (family == "password" and not _SIGNS.isdisjoint(value[:-1]))):
        return False
    return not is_technical(value) and not _EMAIL.match(value) and is_secret(value, family, True, False)


def _find_password(match: re.Match[str]) -> Span | None:
    text, start = match.string, match.end()
    is_said, is_listed = match["is"] is not None, match["sign"] is not None
    quoted = _find_quoted(text, start) if is_said or is_listed else None
    if quoted:
        value = text[slice(*quoted)]
        words = value.lower().split()
        if len(words) > 1:
            is_phrase = "phrase" in (match["en"] or "").lower() and not _is_description(words[0])
            is_value = (is_phrase or _FUNCTION_WORDS.isdisjoint(words)) and (is_said or len(words) > 2)
        else:
            is_value = is_said and len(value) >= 4 and not _is_description(value.lower())
        return quoted if is_value and not is_placeholder(value) and not is_reference(value) else None
    bare = _BARE.match(text, start)
    if bare is None:
        return _find_quoted_beside(match)
    value = bare[0].rstrip(".,;:)")
    if _is_opaque_value(value, "password"):
        return start, start + len(value)
    value = value.rstrip("!?.")
    span = start, start + len(value)
    if not (is_said or is_listed) or not match["en"]:
        return None
    line_start = text.rfind("\n", 0, match.start()) + 1
    before = text[max(line_start, match.start() - 120) : match.start()]
    rest = text[start : start + 160]
    line = before + rest.partition("\n")[0]
    if (words_match := _WORDS.match(rest)) and not _SEEMS_CODE.search(line):
        phrase = words_match[0]
        least = 3 if "phrase" in match["en"].lower() or "-" in phrase else 4
        if len(re.split("[ -]", phrase)) >= least and _is_phrase(phrase):
            return start, start + len(phrase)
    if not _CLAUSE_END.match(text, span[1]) or len(value) < 4 or value.lower() in _DESCRIPTIONS | _FUNCTION_WORDS:
        return None
    if is_placeholder(value) or _SEEMS_CODE.search(line) or _ASKED_FOR.search(before):
        return None
    if is_listed and _LISTS_USER.search(before):
        return span if value.replace("_", "").replace("-", "").isalpha() else None
    if not value.isalpha() or _is_description(value.lower()):
        return None
    return span if (value.islower() and len(value) >= 5 if is_listed else _OWNED.search(before)) else None


def _find_quoted_beside(match: re.Match[str]) -> Span | None:
    """Where the value in quotes right after the word is: `ssh pass "…"`, but not `pass "…" to the parser`."""
    text = match.string
    span = _find_quoted(text, match.end()) if match["en"] else None
    value = text[slice(*span)] if span else ""
    if not value or value[0] == "-" or is_technical(value) or not is_secret(value, "password", False, False):
        return None
    if match["en"].lower() != "pass":
        return span
    is_handed_over = _HANDS_OVER.search(text[max(0, match.start() - 10) : match.start()]) or (
        span and _RECEIVER.match(text, span[1])
    )
    is_mixed = value != value.lower() and value != value.upper()
    is_random = (is_opaque(value) and is_mixed) or (has_digit(value) and not set("!#$%^&§€£").isdisjoint(value))
    return span if is_random and not is_handed_over else None


def _find_key(match: re.Match[str]) -> Span | None:
    value = match["s"]
    is_mixed = value != value.lower() and value != value.upper()
    if sum(sign.isdigit() for sign in value) < 3 or not (is_mixed or _HEX.match(value)):
        return None
    if _NAMING_KEY.search(match.string[max(0, match.start() - 40) : match.start()]):
        return None
    return match.span("s") if is_opaque(value) and not is_placeholder(value) else None


def _find_pin(match: re.Match[str]) -> Span | None:
    return None if len(set(match["s"].strip("#*"))) < 2 else match.span("s")


def _find_token(match: re.Match[str]) -> Span | None:
    start = match.end()
    quoted = _find_quoted(match.string, start)
    bare = None if quoted else _BARE.match(match.string, start)
    span = quoted or ((start, start + len(bare[0].rstrip(".,;:)!?"))) if bare else None)
    return span if span and _is_opaque_value(match.string[slice(*span)], "token") else None


def _find_mixed(match: re.Match[str]) -> Span | None:
    value = match["s"].rstrip(".,;:)!?")
    start = match.start("s")
    return (start, start + len(value)) if has_digit(value) and is_secret(value, "password", True, False) else None


_CODES = ("door", "gate", "alarm", "entry", "access", "security", "unlock", "safe", "garage", "verification")

PROSE: tuple[Rule, ...] = (
    Rule(
        "password",
        ("as the pass", "as my pass", "as your pass", "as pass"),
        r"(?i:(?<!\w)(?:use|enter|type|take|choose|set)) [\"'`“]?(?P<s>[!-~]{4,60}?)[\"'`”]? "
        r"(?i:as (?:(?:the|my|your) )?pass)",
        lambda match: match.span("s") if _is_opaque_value(match["s"], "password") else None,
        folds=True,
    ),
    Rule(
        "password",
        ("pass", "pw", "mdp", "kennwort", "contrase", "clave", "d'ordine", "senha", "wachtwoord", "пароль"),
        r"(?i:(?<!\w)(?:(?P<en>password|passwd|pass ?phrase|pass ?code|pwd|pw|pass)"
        r"|mot de passe|phrase de passe|mdp|passwort|kennwort|contrase[ñn]a|clave|parola d'ordine|senha"
        r"|palavra[- ]passe|wachtwoord|пароль)"
        rf"{_LINK})",
        _find_password,
        folds=True,
        starts=at_matches(
            r"p(?<!\w.)(?:ass|w|alavra[- ]passe|hrase de passe|arola d')|m(?<!\w.)(?:ot de passe|dp)|kennwort"
            r"|contrase[ñn]a|clave|senha|wachtwoord|пароль"
        ),
    ),
    Rule(
        "pin",
        ("pin", *(f"{place} code" for place in _CODES)),
        r"(?<!\w)(?:(?i:(?:code )?pin(?:[ -]?(?:code|nummer|number))?"
        rf"|(?:{'|'.join(_CODES)}) code)(?i:{_LINK})(?<!(?i:pin)\s)(?<!(?i:code)\s)|PIN )"
        r"[\"'`“„«]?\s?(?P<s>\d{4,8}[#*]?)(?![\w-]|[.,:]\d)",
        _find_pin,
        folds=True,
        # Looked for without being consumed: "security code pin" holds three beginnings.
        starts=at_matches(rf"(?=(?:code )?pin(?![a-bd-mo-z])|(?:{'|'.join(_CODES)}) code)"),
    ),
    Rule(
        "",
        ("token", "key", "secret"),
        rf"(?i:(?<!\w)(?:api[ -]key|access key|secret(?: key)?|(?:access |auth )?token){_LINK})",
        _find_token,
        folds=True,
        starts=at_matches(
            r"a(?<!\w.)(?:pi(?=[ -]key)|ccess(?= key| token)|uth(?= token))|secret(?<!\w......)|token(?<!\w.....)"
        ),
    ),
    Rule(
        "",
        ("key",),
        r"(?i:(?<!\w)key(?:['’]s| (?:is|was)(?: now)?|\s?:):?[^\S\n]{1,3})[\"'`“„«]?"
        r"(?P<s>[A-Za-z0-9+/_]{20,200}={0,2})(?![\w+/=@-]|[.:]\w)",
        _find_key,
        folds=True,
        run=20,
        starts=at_matches(r"key(?=['’]s| is| was|\s?:)"),
    ),
    Rule(
        "password",
        ("密码", "密碼", "口令", "パスワード", "비밀번호"),
        r"(?:密码|密碼|口令|パスワード|비밀번호)\s{0,2}[是为為は：:는은]?\s{0,2}[\"'`“「]?(?P<s>[!-~]{5,200})",
        _find_mixed,
        starts=at_matches("密码|密碼|口令|パスワード|비밀번호"),
    ),
)
