"""Screen commands and rules for harm: what weakens safety, destroys, runs foreign code, conceals or sends data out.

The command counts, not its typography: a text is read with quotes, backticks and bold as spaces, and once more
without them, as a shell joins what quotes part. The patterns are not bound to the start of a command, so a chain,
`sh -c`, `sudo` or a sentence around a command makes no difference. In doubt a text counts as harmful: it waits for a
person. A rule that only forbids something does no harm; `is_forbidden` tells when a text surely does that.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from .escape import find_suspicion, fold_letters, read_patterns, remove_unseen

_MOST_CHARS = 1000
_MOST_PLAIN_CHARS = 2 * _MOST_CHARS
"""Of a text in plain characters: some signs stand for many."""
_TOO_LONG = "too long to check"
_LEAD_WORDS = 4
_MARKS = "`\"“”„‘’«»「」『』‹›[]'"
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]{0,12}(?:\s[^<>]{0,80})?/?>")
_EMPHASIS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)|~~")
_QUOTES = re.compile(r"(?<![A-Za-z])['’]|['’](?![A-Za-z])|[`\"“”„‘«»「」『』‹›\[\]]")
_SHELL_QUOTES = re.compile(r"[`\"“”„‘’«»'\\]|\$@|\$\*")
_FIELD_SEPARATOR = re.compile(r"\$\{?IFS\}?(?:\$\d)?|\\\n")
_BRACES = re.compile(r"\{([^{}\s]{1,200},[^{}\s]{0,200})\}")
_DASH = re.compile(r"(?<!\S)[–—―](?=(\w?)(\w?))")
WIDE_EDGE = re.compile(r"(?<=[\u2e80-\uffef])(?=[!-~])|(?<=[!-~])(?=[\u2e80-\uffef])")
_WIDE_STOPS = str.maketrans({"，": ", ", "；": "; ", "：": ": ", "！": "! ", "？": "? ", "。": ". ", "、": ", "})
_WIDE_WORD = re.compile(r"\S*[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]\S*")
_LATIN = re.compile("[A-Za-z0-9\u00c0-\u024f]")
_LISTED_CODE = re.compile(r"\s*`[^`\n]{1,400}`[\s.]*")
_CODE = re.compile(r"`[^`\n]{1,400}`")
_SENTENCE_IN_CODE = re.compile(r"[.!?]\s+[A-Z]")
_SENTENCE_END = re.compile(r"[.!?。！？]")
_BAR = re.compile(r"\|")
_GAP = re.compile(r"(?:\[\^[|;&]*\\n\]|(?<!\))\.)\*(?![?+])")
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.S)


class Finding(NamedTuple):
    """A harmful part of a text: what is wrong with it, and where it stands."""

    reason: str
    start: int
    end: int


class Statement(NamedTuple):
    """A part of a text between two breaks, with the parts before and after it."""

    text: str
    before: str = ""
    after: str = ""


class Chain(NamedTuple):
    """Parts that follow one another in a text, with anything but a stop between them.

    `git … push … --force` as one regular expression would try each `push` for each `git`. Here each part is searched
    for once from the end of the part before it, so the time is linear. A chain of one part is an ordinary pattern.
    """

    reason: str
    parts: tuple[re.Pattern[str], ...]
    stops: str = ""


@lru_cache(maxsize=1)
def _load_commands() -> list[Chain]:
    return _compile_reasons("weakening")


@lru_cache(maxsize=1)
def _load_practices() -> list[Chain]:
    return _compile_reasons("practices")


def _compile_reasons(section: str) -> list[Chain]:
    chains = []
    for reason, patterns in read_patterns("safety")[section].items():
        for pattern in patterns:
            chains += compile_chains(reason, "".join(pattern))
    return chains


def compile_chains(reason: str, pattern: str) -> list[Chain]:
    """Return a pattern as chains: one for each alternative that has gaps, and one for all others together."""
    chains = []
    plain = []
    for alternative in _split_top_level(pattern, _BAR):
        parts = _split_top_level(alternative, _GAP)
        gaps = {gap for gap in _GAP.findall(alternative) if gap}
        if len(parts) == 1:
            plain.append(alternative)
            continue
        if len(gaps) > 1:
            raise ValueError(f"a pattern has gaps that end at different signs: {alternative}")
        stops = "\n" if gaps == {".*"} else gaps.pop()[2:-2].replace("\\n", "\n")
        chains.append(Chain(reason, tuple(re.compile(part, re.I) for part in parts), stops))
    if plain:
        chains.append(Chain(reason, (re.compile("|".join(plain), re.I),)))
    return chains


def _split_top_level(pattern: str, separator: re.Pattern[str]) -> list[str]:
    """Split a pattern at a separator that stands outside of all groups and classes."""
    parts = []
    depth = start = position = 0
    while position < len(pattern):
        cut = separator.match(pattern, position) if depth == 0 else None
        if cut:
            parts.append(pattern[start:position])
            start = position = cut.end()
            continue
        token = _TOKEN.match(pattern, position)
        assert token is not None
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        position = token.end()
    return [*parts, pattern[start:]]


@lru_cache(maxsize=1)
def _load_stance() -> dict[str, re.Pattern[str]]:
    stance = read_patterns("safety")["stance"]
    return {name: re.compile("".join(pattern), re.I) for name, pattern in stance.items()}


# -- typography


def _read_letters(text: str) -> str:
    """Return a text in plain characters: no entities, invisible signs, wide forms or look-alikes of Latin letters.

    Words in another script stay as they are.
    """
    visible = remove_unseen(html.unescape(text))
    if visible.isascii():
        return visible
    # Where letters are wide, signs are wide letters as well: a colon there ends no statement.
    visible = _WIDE_WORD.sub(lambda word: unicodedata.normalize("NFKC", word[0]), visible)
    visible = unicodedata.normalize("NFKC", visible.translate(_WIDE_STOPS))
    visible = _DASH.sub(lambda dash: "-" if dash[1] and not dash[2] else "--" if dash[1] else dash[0], visible)
    tokens = re.split(r"(\s+)", visible)
    plain = "".join(fold_letters(one) if _LATIN.search(one) else one for one in tokens)
    return WIDE_EDGE.sub(" ", plain)


def _list_readings(text: str) -> Iterator[str]:
    """Yield a text as it is, with marks as spaces, and without the marks that a shell removes."""
    yield text
    bare = _EMPHASIS.sub(" ", _TAG.sub(" ", text))
    yield _QUOTES.sub(" ", bare)
    expanded = _BRACES.sub(lambda braces: braces[1].replace(",", " "), _FIELD_SEPARATOR.sub(" ", bare))
    yield _SHELL_QUOTES.sub("", expanded)


# -- statements and their stance


def split_statements(text: str) -> list[Statement]:
    """Split a text where another statement begins; what stands in backticks stays whole, unless it is prose."""

    def mask(code: re.Match[str]) -> str:
        return code[0] if _SENTENCE_IN_CODE.search(code[0]) else "x" * len(code[0])

    parts, start = [], 0
    for match in _load_stance()["split"].finditer(_CODE.sub(mask, text)):
        parts.append(text[start : match.start()])
        start = match.end()
    parts = [one for one in (*parts, text[start:]) if one.strip()]
    # The last of the longer lists has no part of its own.
    neighbours = zip(["", *parts], parts, [*parts[1:], ""], strict=False)
    return [Statement(one, before, after) for before, one, after in neighbours]


def is_forbidden(statement: Statement, start: int, end: int) -> bool:
    """Return whether a statement surely forbids what stands in it between two positions.

    It does so by a negator ("never", "do not") and then nothing, or a verb such as "run" ("never skip" does not), by
    contrast with the statement before it ("… instead of"), or by what comes right after ("is forbidden"). Words that
    may turn it round ("without", "forget", "only", another negator) make it doubtful.
    """
    stance = _load_stance()
    if stance["exception"].match(statement.after):
        return False
    before, after = statement.text[:start], statement.text[end:]
    negator = stance["negator"].search(before)
    if negator is None:
        is_contrast = (contrast := stance["contrast"].match(before)) and _is_filler(before[contrast.end() :])
        if is_contrast and not stance["negator"].search(statement.before):
            return not stance["inverter"].search(after)
        return bool(stance["forbidden_after"].match(after)) and not stance["inverter"].search(before)
    lead, rest = before[: negator.start()], before[negator.end() :]
    if any(stance["inverter"].search(one) or stance["negator"].search(one) for one in (lead, rest)):
        return False
    if len(lead.split()) > _LEAD_WORDS or stance["inverter"].search(after):
        return False
    if rest.rstrip(" `'\"*").endswith(" to"):
        return False
    is_verb = stance["verb"].match(rest.lstrip()) or stance["verb"].match(_drop_filler(rest))
    return _is_filler(rest) or bool(is_verb)


def may_invert(text: str) -> bool:
    """Return whether a text has a word that may turn round what a negation says: "without", "hesitate", "only"."""
    return _load_stance()["inverter"].search(text) is not None


def _is_filler(text: str) -> bool:
    return not _drop_filler(text)


def _drop_filler(text: str) -> str:
    match = _load_stance()["filler"].match(text)
    return text[match.end() :] if match else text


# -- findings


@lru_cache(maxsize=512)
def _find_harms(text: str, *, with_practices: bool) -> tuple[Finding, ...]:
    """Return the harmful parts of a text; remembered, since the readings of a plain text are the same."""
    chains = [*_load_commands(), *_load_practices()] if with_practices else _load_commands()
    findings = []
    for chain in chains:
        # Most chains do not even begin in a text.
        if chain.parts[0].search(text) is None:
            continue
        findings += [Finding(chain.reason, start, end) for start, end in find_chain(text, chain)]
    return tuple(findings)


def find_chain(text: str, chain: Chain) -> Iterator[tuple[int, int]]:
    """Yield where a chain starts and ends in a text, each time as early and as long as possible."""
    if len(chain.parts) == 1:
        for match in chain.parts[0].finditer(text):
            yield match.start(), match.end()
        return
    position = 0
    while first := chain.parts[0].search(text, position):
        end, reached = _follow_chain(text, chain, first.end())
        if end:
            yield first.start(), end
        # A later start before the stop that ended this one would end there, too.
        position = max(end or reached, first.start() + 1)


def _follow_chain(text: str, chain: Chain, position: int) -> tuple[int, int]:
    """Return the end of a chain whose first part ends at a position, or 0 and where the next one can start."""
    stop = _find_stop(text, chain.stops, position)
    *middle, last = chain.parts[1:]
    for part in middle:
        match = part.search(text, position)
        if match is None:
            return 0, len(text)
        if match.start() > stop:
            return 0, _find_last_stop(text, chain.stops, match.start())
        position = match.end()
        if position > stop:
            stop = _find_stop(text, chain.stops, position)
    end = 0
    for match in last.finditer(text, position):
        if match.start() > stop:
            return end, _find_last_stop(text, chain.stops, match.start())
        end = match.end()
    return end, len(text)


def _find_stop(text: str, stops: str, position: int) -> int:
    """Return where the first stop from a position on stands, or the end of the text."""
    places = [text.find(stop, position) for stop in stops]
    return min((place for place in places if place >= 0), default=len(text))


def _find_last_stop(text: str, stops: str, position: int) -> int:
    """Return where the last stop before a position stands."""
    return max(text.rfind(stop, 0, position) for stop in stops)


def find_weakening(command: str) -> str:
    """Return how a command line weakens safety, in two or three words; empty when it does not seem to."""
    if len(command) > _MOST_CHARS:
        return _TOO_LONG
    plain = _read_letters(command)
    if len(plain) > _MOST_PLAIN_CHARS:
        return _TOO_LONG
    for reading in _list_readings(plain):
        for finding in _find_harms(reading, with_practices=False):
            return finding.reason
    return ""


def find_harm(rule: str) -> str:
    """Return what harm a rule asks for, in a few words: by a command or by a practice; empty when it seems to do none.

    A rule that only forbids it does none.
    """
    if len(rule) > _MOST_CHARS:
        return _TOO_LONG
    plain = _read_letters(rule)
    if len(plain) > _MOST_PLAIN_CHARS:
        return _TOO_LONG
    known = set()
    is_list = False
    end = 0
    for statement in split_statements(plain):
        start = plain.index(statement.text, end)
        # "Never skip tests. rm -rf ~" is no list of what is forbidden.
        is_list = is_list and not _SENTENCE_END.search(plain[end:start])
        end = start + len(statement.text)
        found, is_list = _screen_statement(statement, is_list)
        if any(not is_excused for _, is_excused in found):
            return next(reason for reason, is_excused in found if not is_excused)
        known |= {reason for reason, _ in found}
    for reading in _list_readings(plain):
        # A harm that only the whole text shows was parted by a break, or began with the words that forbid.
        for finding in _find_harms(reading, with_practices=True):
            if finding.reason not in known:
                return finding.reason
    # What is forbidden reads like an instruction, too: "never use sudo".
    return "reads like an instruction" if not known and find_suspicion(rule) else ""


def _screen_statement(statement: Statement, is_list: bool) -> tuple[list[tuple[str, bool]], bool]:
    """Return the harms of a statement and whether each is forbidden, and whether a list of forbidden things goes on.

    `is_list` is whether the statement before forbade a harm: then one that is nothing but a harm is forbidden, too.
    """
    found = []
    is_code = is_list and _LISTED_CODE.fullmatch(statement.text) is not None
    before, after = (list(_list_readings(one)) for one in (statement.before, statement.after))
    for number, reading in enumerate(_list_readings(statement.text)):
        view = Statement(reading, before[number], after[number])
        for finding in _find_harms(reading, with_practices=True):
            start, end = _widen_to_words(reading, finding.start, finding.end)
            is_all = is_list and not (reading[:start] + reading[end:]).strip(_MARKS + " *.")
            found.append((finding.reason, is_code or is_all or is_forbidden(view, start, end)))
    return found, bool(found) and all(is_excused for _, is_excused in found)


def _widen_to_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Return positions moved to the edges of words, without white space."""
    while start < end and text[start].isspace():
        start += 1
    while start > 0 and not text[start - 1].isspace():
        start -= 1
    while end < len(text) and not text[end].isspace():
        end += 1
    return start, end
