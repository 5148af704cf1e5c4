"""A strategy text as the judge sees it: content words with polarity and phase, quantities, literals, marks.

Three passes. *Tokens*: literals (flags, quoted text, identifiers) and numbers are taken out, words are lemmatised.
*Polarity*: each word gets +1 or -1; a negator reaches to the end of its phrase, and "do not X without Y" becomes
"Y before X". *Phase*: a text with an order ("A before B", "first A, then B", "A after B") has its words divided into
early and late.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from alma.engine.distil import _quantities as q
from alma.engine.distil import _words as w
from alma.engine.distil._lexicon import known, lemma

LONG = 1500  # characters; a longer text is a document, and documents are not merged on resemblance

_TOKEN = re.compile(
    r"`[^`\n]{1,200}`"
    r'|"[^"\n]{1,200}"'
    r"|(?<![\w'])'[^'\n]{1,80}'(?!\w)"
    r"|(?<![^\s(\[])--?[A-Za-z][\w-]*"
    r"|\d{1,2}:\d\d(?:\s?[ap]m\b)?|\d{1,2}\s?[ap]m\b"
    r"|\d[\d,]*(?:\.\d+)*\s?(?:[%€$]|[A-Za-z]+(?![\w.-]))?"
    r"|<\w+>"
    r"|\.?\w+(?:[-._/:'@]+\w+)*/?"
    r"|[,;.:!?()=]|[^\w\s]"
)
_FLAG = re.compile(r"(?<!\S)--?[a-z][\w-]*")
_ORDINAL = re.compile(r"\d{1,6}(?:st|nd|rd|th)\Z")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d\d))?\s?([ap]m)?\Z", re.IGNORECASE)
_LITERAL = re.compile(r"[_/@]|\w\.\w|^\.\w|[a-z]\d|\d[a-z]|::|[a-z][A-Z]")
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": ";", "‐": "-", "‑": "-"})
_CLAUSE_ENDS = frozenset({",", ";", ".", ":", "!", "?", "(", ")"})


@dataclass(frozen=True, slots=True)
class Word:
    lemma: str
    sign: int  # -1 under a negator
    soft: int  # the same, and verbs such as "remove" count too
    phase: int  # 1 early, 2 late, 0 no order
    proper: bool
    weight: float
    core: bool  # in the main clause, before any preposition or condition
    role: str  # "from", "to", "in" ...: what a preposition makes of it


@dataclass(frozen=True, slots=True)
class Parsed:
    key: str
    words: tuple[Word, ...]
    quantities: tuple[q.Quantity, ...]
    literals: frozenset[str]
    strict: frozenset[str]
    marks: frozenset[str]
    particles: frozenset[tuple[str, str]]
    joined: frozenset[str]  # neighbours written as one word: "back", "off" → "backoff"
    long: bool


@dataclass(slots=True)
class _Token:
    text: str
    content: bool = False
    proper: bool = False
    sign: int = 1
    soft: int = 1
    phase: int = 0
    core: bool = True
    role: str = ""


@dataclass(slots=True)
class _Draft:
    tokens: list[_Token] = field(default_factory=list)
    quantities: list[q.Quantity] = field(default_factory=list)
    literals: set[str] = field(default_factory=set)
    strict: set[str] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    particles: set[tuple[str, str]] = field(default_factory=set)


def normal(text: str) -> str:
    """Case, spaces, typographic quotes and final punctuation make no difference."""
    plain = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    return " ".join(plain.casefold().split()).rstrip(".!;, ")


@lru_cache(maxsize=4096)
def parse(text: str) -> Parsed:
    key = normal(text)
    draft = _Draft()
    if len(key) <= LONG:
        _tokenise(unicodedata.normalize("NFKC", text).translate(_QUOTES), draft)
        _join_particles(draft)
        _set_polarity(draft)
        _set_phases(draft)
        _set_roles(draft.tokens)
    return _finished(key, draft)


def _finished(key: str, draft: _Draft) -> Parsed:
    content = [t for t in draft.tokens if t.content]
    words = tuple(
        Word(t.text, t.sign, t.soft, t.phase, t.proper, 0.35 if t.text in w.LIGHT else 1.0, t.core, t.role)
        for t in content
    )
    plain = [t.text for t in draft.tokens]
    return Parsed(
        key,
        words,
        tuple(draft.quantities),
        frozenset(draft.literals),
        frozenset(draft.strict),
        frozenset(draft.marks),
        frozenset(draft.particles),
        frozenset(a + b for a, b in pairwise(plain) if a.isalpha() and b.isalpha()),
        len(key) > LONG,
    )


# --- tokens -----------------------------------------------------------------------------------------------------


def _phrased(text: str) -> str:
    """Set phrases replaced; the case of the rest is kept, it tells names from words."""
    low = text.lower()
    if len(low) != len(text) or not w.PHRASE_HINT.search(low):
        return text
    for pattern, replacement in w.PHRASES:
        match = pattern.search(low)
        while match is not None:
            text = text[: match.start()] + replacement + text[match.end() :]
            low = text.lower()
            match = pattern.search(low, match.start() + len(replacement))
    return text


def _tokenise(text: str, draft: _Draft) -> None:
    pieces = _TOKEN.findall(_phrased(text))
    fresh = True  # at the start of a sentence a capital says nothing
    skip = 0
    for i, piece in enumerate(pieces):
        if skip:
            skip -= 1
            continue
        if piece[0] in "`\"'" and len(piece) > 2:
            _quoted(piece[1:-1], draft)
        elif piece[0] == "-" and len(piece) > 1:
            draft.strict.add(piece.lower())
        elif piece[0].isdigit() and (number := _number(piece, pieces[i + 1 : i + 3], draft)) is not None:
            skip = number
        else:
            skip = _word(piece, pieces[i + 1 : i + 4], fresh, draft)
        fresh = piece in ".;!?:"


def _quoted(inner: str, draft: _Draft) -> None:
    plain = normal(inner).removesuffix("()")
    draft.strict.add(plain)
    draft.strict.update(_FLAG.findall(plain))
    for part in re.findall(r"[^\W_]+", _FLAG.sub("", plain))[:20]:
        draft.tokens.append(_Token(lemma(part), True))


def _number(piece: str, following: list[str], draft: _Draft) -> int | None:
    """Take a number and its unit; how many further pieces it used, or None if it is no number after all."""
    match = _CLOCK.match(piece)
    if match and (match[2] or match[3]):
        draft.quantities.append(q.clock(int(match[1]), int(match[2] or 0), (match[3] or "").lower()))
        return 0
    parts = q.split_number(piece.lower().replace(" ", ""))
    if parts is not None:
        return _with_unit(*parts, following, draft)
    digits = re.match(r"[\d.,]+", piece)
    tail = piece[digits.end() :].strip() if digits else ""
    if digits is None or not tail or " " not in piece:
        return None
    used = _with_unit(digits[0], "", [tail], draft)
    if used == 0:
        _word(tail, following, False, draft)
    return 0


def _with_unit(digits: str, unit: str, following: list[str], draft: _Draft) -> int:
    used = 0
    if q.multiplier(unit):
        digits, unit = q.scaled(digits, unit), ""
    while not unit and used < len(following):
        candidate = q.singular(following[used].lower())
        if candidate not in q.UNITS or candidate in ("b", "d"):
            break
        used += 1
        if q.multiplier(candidate):
            digits = q.scaled(digits, candidate)
        else:
            unit = candidate
    draft.quantities.append(q.quantity(digits.rstrip(".,") or "0", unit))
    draft.tokens.append(_Token("<n>"))
    return used


def _word(piece: str, following: list[str], fresh: bool, draft: _Draft) -> int:
    low = piece.lower()
    if low.endswith(("'s", "s'")):
        low = low[:-2] if low.endswith("'s") else low[:-1]
    if _counted(low, following, draft):
        return 1 if low in ("a", "an", "the", "every", "each", "per", "one", "half") else 0
    if low in q.WORDS:
        return _with_number_word(low, following, draft)
    if _LITERAL.search(piece) and low != "e2e" and not _ORDINAL.match(low):
        _literal(low, draft)
        return 0
    if low[0].isdigit():
        if _ORDINAL.match(low):
            draft.quantities.append(q.ordinal(int(low[:-2])))
        else:
            draft.literals.add(low)
        return 0
    proper = not fresh and piece[:1].isupper()
    for part in _parts(low):
        _plain(part, proper, following, draft)
    return 0


def _literal(low: str, draft: _Draft) -> None:
    name = low.removesuffix("()")
    draft.literals.add(name)
    for part in re.split(r"[\W_]+", name):
        if len(part) > 1:
            draft.tokens.append(_Token(lemma(part), True))


def _counted(low: str, following: list[str], draft: _Draft) -> bool:
    """ "a day", "every week", "the day after", "daily": one of a unit of time."""
    if low in q.PERIODS:
        draft.quantities.append(q.worded(1, q.PERIODS[low]))
        return True
    if low not in ("a", "an", "the", "every", "each", "per", "one", "half") or not following:
        return False
    unit, after = following[0].lower(), following[1].lower() if len(following) > 1 else ""
    if low == "half" and unit == "an" and after == "hour":
        draft.quantities.append(q.worded(0.5, "hour"))
        return True
    if unit not in q.UNITS or q.UNITS[unit][0] != "s" or len(unit) < 3 or unit in ("min", "sec"):
        return False
    if low == "the" and after not in ("after", "before"):
        return False
    # "a second source", "a quarter of the traffic", "the quarter report" are no times.
    if unit in ("second", "quarter") and low in ("a", "an", "one", "the") and after.isalpha():
        return False
    draft.quantities.append(q.worded(1, unit))
    return True


def _with_number_word(low: str, following: list[str], draft: _Draft) -> int:
    value = q.WORDS[low]
    used = 0
    while used < len(following) and q.multiplier(following[used].lower()):
        value *= q.UNITS[following[used].lower()][1]
        used += 1
    unit = q.singular(following[used].lower()) if used < len(following) else ""
    if unit in q.UNITS and len(unit) > 1:
        draft.quantities.append(q.worded(value, unit))
        return used + 1
    draft.quantities.append(q.worded(value, idle=value == 1))
    draft.tokens.append(_Token("<n>"))
    return used


def _parts(low: str) -> list[str]:
    """A hyphenated word as its parts; a lone letter or a prefix stays joined ("e-mail", "pre-commit")."""
    if "-" not in low:
        return (
            [w.ABBREVIATIONS.get(low, low)] if "-" not in w.ABBREVIATIONS.get(low, "") else _parts(w.ABBREVIATIONS[low])
        )
    if low.replace("-", "") in ("email", "backoff"):
        return [low.replace("-", "")]
    parts = [p for p in low.split("-") if p]
    if parts and len(parts) == 2 and (len(parts[0]) == 1 or parts[0] in ("pre", "re", "co", "anti", "sub", "post")):
        return ["".join(parts)]
    return [w.ABBREVIATIONS.get(p, p).split("-")[0] for p in parts]


def _plain(low: str, proper: bool, following: list[str], draft: _Draft) -> None:
    if low in q.WORDS:
        draft.quantities.append(q.worded(q.WORDS[low], idle=q.WORDS[low] == 1))
        return
    if low == "first" and _is_adjective(draft.tokens, following):
        draft.quantities.append(q.ordinal(1))
        return
    ordinal = q.ORDINALS.get(low, 0)
    if ordinal > 1:
        part = ordinal > 2 and following[:1] in (["of"], ["off"], ["less"], ["more"])
        draft.quantities.append(q.fraction(ordinal) if part else q.ordinal(ordinal))
        return
    if low in w.EXCLUSIVE:
        draft.marks.add("only")
    elif low in ("<max>", "<min>", "except", "unless"):
        draft.marks.add(low.strip("<>"))
    if low in w.CONCESSIVE:
        draft.marks.add("concessive")
    grammar = low in w.FUNCTION or low in w.NEGATORS or low in w.WITHOUT or low in w.PREPOSITION_ORDER
    content = not grammar and low[0].isalnum() and low not in ("only", "first", "last", "finally", "non", "percent")
    draft.tokens.append(_Token(lemma(low) if content else low, content, proper and content))


def _is_adjective(before: list[_Token], following: list[str]) -> bool:
    """ "the first meeting" is no step, "first meet" is one."""
    determined = bool(before) and before[-1].text in ("the", "a", "an", "your", "our", "their", "its")
    return determined and bool(following) and following[0].isalnum() and following[0].lower() not in ("step", "thing")


# --- particle verbs ---------------------------------------------------------------------------------------------


def _join_particles(draft: _Draft) -> None:
    """ "turn the cache on" and "turn on the cache" both become turn_on, cache."""
    tokens = draft.tokens
    for i, token in enumerate(tokens):
        if token.text not in w.PARTICLES or i == 0:
            continue
        verb = _verb_before(tokens, i)
        if verb is None:
            continue
        draft.particles.add((verb.text, token.text))
        joined = f"{verb.text}_{token.text}"
        if known(joined):
            verb.text = joined
        token.text = "<particle>"


def _verb_before(tokens: list[_Token], at: int) -> _Token | None:
    particle = tokens[at].text
    ends = at + 1 == len(tokens) or tokens[at + 1].text in w.BREAKS | {"of"} | _CLAUSE_ENDS
    loose = particle in ("on", "in", "over")
    if particle == "in" and not ends:
        return None
    for distance in range(1, 5 if ends else 2):
        if at - distance < 0:
            break
        token = tokens[at - distance]
        if token.text in _CLAUSE_ENDS or (distance > 1 and token.text in w.BREAKS):
            break
        verbal = token.content and (known(f"{token.text}_{particle}") or token.text in w.PARTICLE_VERBS)
        if verbal and (not loose or token.text in w.PARTICLE_VERBS):
            return token
    return None


# --- polarity ---------------------------------------------------------------------------------------------------


def _set_polarity(draft: _Draft) -> None:
    sign = soft = 1
    remover_open = False
    contrast = _preferred_over(draft.tokens)
    for i, token in enumerate(draft.tokens):
        text = token.text
        if text in w.BREAKS and i and (draft.tokens[i - 1].text in w.NEGATORS or draft.tokens[i - 1].text in w.WITHOUT):
            continue  # "not in components", "rather than on causes"
        if text in _CLAUSE_ENDS or text in w.BREAKS or text in w.PREPOSITION_ORDER or text.startswith("<th"):
            sign, soft, remover_open = 1, 1, False
        if i == contrast:
            sign = -1
        elif text in w.WITHOUT:
            sign, soft, remover_open = -1, 1, False
        elif text in w.NEGATORS or text == "non":
            sign = -sign
        token.sign = sign
        token.soft = sign * soft
        if token.content and text in w.REMOVERS and not remover_open:
            soft, remover_open = -1, True
    _resolve_double_negation(draft.tokens)


def _preferred_over(tokens: list[_Token]) -> int:
    """Where the rejected half of "prefer A to B" or "value A over B" begins; -1 for nowhere."""
    texts = [t.text for t in tokens]
    if not w.PREFERENCE.intersection(texts[:3]):
        return -1
    for joint in ("over", "to", "above"):
        if joint in texts[2:] and (joint != "to" or "prefer" in texts):
            return texts.index(joint, 2)
    return -1


def _resolve_double_negation(tokens: list[_Token]) -> None:
    """ "Never X without Y" and "do not X before Y" ask for Y, then X; nothing in them is refused."""
    texts = [t.text for t in tokens]
    negator = next((i for i, t in enumerate(texts) if t in ("not", "never", "no")), -1)
    joint = next((i for i, t in enumerate(texts) if t in ("without", "before", "until", "unless") and i > negator), -1)
    if negator < 0 or joint < 0 or joint == len(tokens) - 1 or _CLAUSE_ENDS.intersection(texts[negator:joint]):
        return
    for token in tokens[negator:]:
        token.sign = token.soft = 1
    texts[negator] = tokens[negator].text = "<nil>"
    tokens[joint].text = "<after>"


# --- roles ------------------------------------------------------------------------------------------------------


def _set_roles(tokens: list[_Token]) -> None:
    """The core is what is done to what; circumstances follow a preposition, or stand in front before a comma."""
    fronted = bool(tokens) and (tokens[0].text in w.BREAKS or tokens[0].text in w.PREPOSITION_ORDER)
    comma = next((i for i, t in enumerate(tokens) if t.text == ","), 0) if fronted else 0
    core, role, seen = True, "", False
    for i, token in enumerate(tokens):
        text = token.text
        if i < comma:
            token.core = False
            continue
        if seen and (text in w.BREAKS or text in w.WITHOUT or text.startswith("<") or text in w.PREPOSITION_ORDER):
            core = core and text in ("and", "or", "<particle>", "<n>", "<max>", "<min>", "<only>")
        role = "" if text in _CLAUSE_ENDS else w.DIRECTIONAL.get(text, "" if text in w.BREAKS else role)
        token.core, token.role = core, role
        seen = seen or token.content


# --- phase ------------------------------------------------------------------------------------------------------


def _set_phases(draft: _Draft) -> None:
    tokens = draft.tokens
    texts = [t.text for t in tokens]
    for mark in ("<then>", "<later>"):
        if mark in texts:
            _sequence(tokens, texts, mark)
            return
    for i, text in enumerate(texts):
        if text in ("before", "after", "once", "following", "<after>", "until") and _joins_clauses(tokens, i):
            early_first = text == "before"
            _divide(tokens, i, early_first)
            return
    if "first" in texts or "<first>" in texts:
        _lead(tokens, texts)
    elif "finally" in texts or any(
        t.text == "last" and not t.content and _closes(tokens, i) for i, t in enumerate(tokens)
    ):
        _mark(tokens, 2)


def _joins_clauses(tokens: list[_Token], at: int) -> bool:
    """Not "after 7 days", not "before 10:00"."""
    following = tokens[at + 1 : at + 6]
    return any(t.content for t in following) and following[0].text not in _CLAUSE_ENDS | {"<n>"}


def _divide(tokens: list[_Token], at: int, early_first: bool) -> None:
    first, second = (1, 2) if early_first else (2, 1)
    if any(t.content for t in tokens[:at]):
        _mark(tokens[:at], first)
        _mark(tokens[at:], second)
        return
    comma = next((i for i in range(at, len(tokens)) if tokens[i].text == ","), len(tokens))
    _mark(tokens[at:comma], second)
    _mark(tokens[comma:], first)


def _sequence(tokens: list[_Token], texts: list[str], mark: str) -> None:
    at = texts.index(mark)
    if mark == "<later>" and not any(t.content for t in tokens[at:]):
        # "A; B afterwards": the late clause ends at the mark and began after the last break.
        breaks = [i for i in range(at) if texts[i] in (";", ",", ".", "and", ":")]
        at = breaks[-1] if breaks else at
    _mark(tokens[:at], 1)
    _mark(tokens[at:], 2)


def _lead(tokens: list[_Token], texts: list[str]) -> None:
    at = texts.index("first") if "first" in texts else texts.index("<first>")
    cut = next((i for i in range(at, len(texts)) if texts[i] in (";", ",", ".", "and")), len(texts))
    _mark(tokens[:cut], 1)
    _mark(tokens[cut:], 2)


def _closes(tokens: list[_Token], at: int) -> bool:
    return at + 1 == len(tokens) or tokens[at + 1].text in _CLAUSE_ENDS


def _mark(tokens: list[_Token], phase: int) -> None:
    for token in tokens:
        token.phase = phase
