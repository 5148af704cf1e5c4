"""Finds names in a text by how they are written, and relations in plain forms such as "Maria works at Globex".

A sentence that asks, denies, supposes or reports what somebody else said states no relation. Everything else that the
forms do not cover is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from .local import join_longest_first, load_vocabulary
from .port import Entities

_words = partial(load_vocabulary, "entities.json")
_MAX_CHARS = 100_000
_SENTENCE_CHARS = 1_000
_MAX_NAME_WORDS = 8
_OPEN, _CLOSE = "\ue000", "\ue001"
_PERSON, _ORGANISATION, _THING = "person", "organisation", "thing"
_TOKEN = re.compile(r"(?P<word>[^\W_][\w&+-]*(?:[.'][^\W\d_]{2,20})*)(?P<end>'s?\b|\.(?=\s|$))?")
_SENTENCE_START = re.compile(r"(?:\A|[.!?:\n]['\")”]?)[\s*•>-]{0,10}\Z")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)|\n+")
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”")
_NOT_ISSUE = re.compile(r"(?:UTF|ISO|SHA|RFC|MD|AES|RSA|HTTP|TLS|IEEE|COVID|GPT|CVE)-\d+")


@dataclass(frozen=True, slots=True)
class _Mention:
    """A name where the text has it. One that is not `is_sure` counts only as an end of a relation."""

    start: int
    end: int
    name: str
    type: str
    is_sure: bool = True


def find_entities(text: str, speaker: str = "") -> Entities:
    """Return the names of a text and what it states about them. `speaker` is who "I" is."""
    text = text[:_MAX_CHARS].replace("’", "'").replace(_OPEN, " ").replace(_CLOSE, " ")
    mentions = _find_mentions(text)
    types = {one.name: one.type for one in mentions if one.is_sure}
    own = _Mention(0, 0, speaker, _PERSON)
    relations: dict[tuple[str, str, str], None] = {}
    for sentence in _mask_sentences(text, mentions, bool(speaker)):
        for first, (relation, *expected), second in _match_relations(sentence):
            subject, target = (mentions[number - 1] if number else own for number in (first, second))
            known_types = [types.get(one.name, one.type) for one in (subject, target)]
            if subject.name == target.name or any(map(_is_misplaced, known_types, expected)):
                continue
            for one, old, new in zip((subject, target), known_types, expected, strict=True):
                types[one.name] = new if new and old == _THING else old
            relations[subject.name, relation, target.name] = None
    return Entities(tuple(types.items()), tuple(relations))


def _is_misplaced(actual: str, expected: str) -> bool:
    """Return whether a relation has a place where it needs a person or organisation, or the other way round."""
    return bool(expected) and actual not in (expected, _THING) and "place" in (actual, expected)


def _find_mentions(text: str) -> list[_Mention]:
    """Return what is named, from left to right, none inside another."""
    covered = bytearray(len(text))
    mentions = []
    for one in (*_find_written_forms(text), *_find_names(text)):
        if not any(covered[one.start : one.end]):
            covered[one.start : one.end] = b"\x01" * (one.end - one.start)
            mentions.append(one)
    again = {one.name for one in mentions if one.is_sure}
    mentions = [replace(one, is_sure=True) if one.name in again else one for one in mentions if one.name]
    return sorted(mentions, key=lambda one: one.start)


def _find_written_forms(text: str) -> Iterator[_Mention]:
    for kind, pattern in _words("written").items():
        for match in re.finditer(pattern, text):
            name = match["name"].rstrip(".,;:!?")
            if kind == "code":
                first = name.split(" ", 1)[0]
                kind_here = "command" if first in _words("programs") else "file" if "/" in first else _THING
                # Other code is no name, and nothing in it is one.
                name = name if kind_here == "command" or " " not in name else ""
                yield _Mention(match.start(), match.end(), name, kind_here)
            elif kind != "issue" or not _NOT_ISSUE.fullmatch(name):
                # An address with a password in it is passed over.
                is_private = kind == "url" and "@" in name.split("/")[2]
                start = match.start("name")
                yield _Mention(start, start + len(name), "" if is_private else name, kind)


def _find_names(text: str) -> Iterator[_Mention]:
    if text.isupper():
        return
    words = set(re.findall(r"[^\W\d_]+", text[:_SENTENCE_CHARS]))
    has_capital_nouns = len(words & _words("capitalised_nouns")) > 1
    for run in _find_runs(text):
        titles = [word for _, word in run if word.lower() in _words("titles")]
        while run and run[0][1].lower() in _words("not_names") | _words("titles"):
            run = run[1:]
        while run and (run[-1][1].lower() in _words("not_names") or run[-1][1][0].islower()):
            run = run[:-1]
        if len(run) > 1 and not _find_type(run[0][1]) and _find_type(run[1][1]) == _PERSON and _opens(text, run[0][0]):
            # "Ask Maria": the first word of a sentence is no part of her name.
            run = run[1:]
        if not run:
            continue
        start, end = run[0][0], run[-1][0] + len(run[-1][1])
        name = text[start:end]
        kind = _PERSON if titles else _find_type(name)
        is_word = (name[1:].islower() and _opens(text, start)) or name.isupper()
        if len(name) > 1:
            yield _Mention(start, end, name, kind or _THING, bool(kind) or not (is_word or has_capital_nouns))


def _find_runs(text: str) -> Iterator[list[tuple[int, str]]]:
    """Yield runs of capitalised words, as positions and words. A possessive or a full stop ends a run."""
    run: list[tuple[int, str]] = []
    end, is_over = 0, False
    for token in _TOKEN.finditer(text):
        word = token["word"]
        is_part = word[0].isupper() or word in _words("name_joints")
        if run and (is_over or not is_part or text[end : token.start()] != " " or len(run) == _MAX_NAME_WORDS):
            yield run
            run = []
        if run or word[0].isupper():
            run.append((token.start(), word))
        end = token.end()
        is_over = bool(token["end"]) and word.lower() not in _words("titles")
    if run:
        yield run


def _opens(text: str, start: int) -> bool:
    return bool(_SENTENCE_START.search(text[max(0, start - 12) : start]))


def _find_type(name: str) -> str:
    """Return the type of a name that the vocabulary knows or whose form shows it, else nothing."""
    lower = name.lower()
    first, last = lower.split()[0], lower.split()[-1]
    for kind in ("place", "product", "organisation"):
        if lower in _words(f"{kind}s"):
            return kind
    if first != last and last in _words("organisation_endings"):
        return _ORGANISATION
    if first != last and last in _words("place_endings"):
        return "place"
    if first in _words("people") and len(lower.split()) < 4:
        return _PERSON
    has_inner_capital = name[1:] != name[1:].lower() and not name.isupper() and " " not in name
    is_project = first in ("project", "operation") and first != last
    return _THING if has_inner_capital or is_project else ""


def _mask_sentences(text: str, mentions: list[_Mention], has_speaker: bool) -> Iterator[str]:
    """Yield each sentence that states a fact, with a number in place of each mention: 0 is the speaker."""
    masked, at = [], 0
    for number, one in enumerate(mentions, 1):
        masked += [text[at : one.start], f"{_OPEN}{number}{_CLOSE}"]
        at = one.end
    for sentence in _SENTENCE_END.split("".join([*masked, text[at:]])):
        words = set(re.findall(r"[\w']+", sentence.lower()))
        is_unsure = words & _words("unsure") or any(word.endswith("n't") for word in words)
        if len(sentence) > _SENTENCE_CHARS or is_unsure or sentence.rstrip("\"')” ").endswith("?"):
            continue
        sentence = _QUOTED.sub(" ", sentence)
        if has_speaker:
            sentence = re.sub(r"\bI(?='m\b|\s)", f"{_OPEN}0{_CLOSE}", sentence)
            sentence = re.sub(r"\b[Mm]y\b", f"{_OPEN}0{_CLOSE}'s", sentence.replace(f"{_CLOSE}'m ", f"{_CLOSE} is "))
        yield sentence


_Match = tuple[int, tuple[str, str, str], int]


def _match_relations(sentence: str) -> Iterator[_Match]:
    for match in _forms()["verb"].finditer(sentence):
        words = match["verb"].lower()
        relation = _words("relations").get(words) or _words("passive")[words.split(" ", 1)[1]]
        for subject in re.findall(r"\d+", match["subject"]):
            for target in re.findall(r"\d+", match["object"]):
                ends = (int(subject), int(target))
                yield (ends[0], relation, ends[1]) if words in _words("relations") else (ends[1], relation, ends[0])
    for name in ("role_is", "is_role", "role_of"):
        for match in _forms()[name].finditer(sentence):
            role = match["role"].lower()
            of = _ORGANISATION if role in _words("leaders") else _PERSON
            yield int(match["subject"]), (f"{role.replace('-', '')}_of", _PERSON, of), int(match["object"])
    for match in _forms()["from"].finditer(sentence):
        yield int(match["subject"]), ("works_at", _PERSON, _ORGANISATION), int(match["object"])


@lru_cache(maxsize=1)
def _forms() -> Mapping[str, re.Pattern[str]]:
    adverbs, roles, relations, passive = (
        join_longest_first(_words(name)) for name in ("adverbs", "roles", "relations", "passive")
    )
    one, adverb = rf"{_OPEN}\d+{_CLOSE}", rf"(?:(?:{adverbs}) )?"
    many = rf"{one}(?:(?:, and |, | and ){one}){{0,9}}"
    article = r"(?:(?:the|a|an|our|their|its|issue|bug|PR|team|company|project|package|library|city of) ){0,2}"
    begin = rf"(?:\A\W*|[,;:] |\b(?:and|but|while|because|so) ){adverb}(?:(?:the|our|this|their) )?"
    number = r"{0}(?P<{1}>\d+){2}"
    subject, target = (number.format(_OPEN, name, _CLOSE) for name in ("subject", "object"))
    role, end = rf"(?P<role>{roles})", r"(?!'s|\w)"
    verbs = rf"{relations}|(?:is|are|was|were) (?:{passive})"
    patterns = {
        "verb": rf"{begin}(?P<subject>{many})(?: from {one})? {adverb}(?P<verb>{verbs}) {article}"
        rf"(?P<object>{many}){end}",
        "role_is": rf"{begin}{target}'s {role} (?:is|was)(?: called| named)? {subject}{end}",
        "is_role": rf"{begin}{subject} (?:is|was) {target}'s {role}\b",
        "role_of": rf"{begin}{subject} (?:is|was) (?:the |a |an )?{role} (?:of|at) {article}{target}{end}",
        "from": rf"{begin}{subject} from {target} ",
    }
    return {name: re.compile(pattern, re.IGNORECASE) for name, pattern in patterns.items()}
