"""Finds memories in a conversation without a model, by the plain sentence forms of memory_forms.yaml.

A sentence, or each of its two clauses, must match a form as a whole. Rules are also read as in coding sessions, where
they are sure. Questions, guesses, conditions, quotations, pasted text, and text that is handed over to be worked on
give nothing. Of an assistant only reports of its own work are read. `find_statements` lists the sentences that look
like statements, so that callers can report those that nobody understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..types.kinds import Reach, Result
from ..types.speech import by_name
from .local import join_longest_first, load_file, remove_pasted
from .local_rules import read_turn
from .port import MemoryProposal, Role, SpokenTurn, Topic

_SENTENCE_CHARS = 300
_TASK_CHARS = 120
_SLOT = re.compile(r"<(\w+)>")
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_BOX = re.compile(r"^\[([ xX])\]\s+")
_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+")
_QUOTATION = re.compile(r"[\"“«„](?:[^\"“”«»„\s]+\s+){2,}[^\"”»]*[\"”»]|^[\"“«„]")
_REQUEST = re.compile(r"^(?:(?:please|can you|could you|would you|now|ok(?:ay)?|bitte),? )+", re.IGNORECASE)
_TENTATIVE = frozenset((Topic.RULE, Topic.WARNING, Topic.TASK))
"""Topics whose sentences may name a condition: "If the tests fail, …" is part of the rule."""
_PLAIN_SLOTS = ("tail", "because", "place", "unplaced")
_PLACE_OPENERS = frozenset(("new", "st", "old", "east", "west", "north", "south", "uk", "usa", "us", "la"))
"""Words of entities.json that are no names by themselves, but begin or are the name of a place."""
_FIELDS = ("value", "strategy", "reason", "instead", "task")
_TEMPLATES = ("text", "strategy", "reason", "attribute")
_LASTING = (Reach.PROJECT, Reach.ALWAYS)
_MIN_WORDS = 4
_JOINS = 3
_PRONOUN = re.compile(r"(?:i|we|ich|wir|je|nous|ik)(?:'\w+)?", re.IGNORECASE)
_NO_RULE = re.compile(r"(?:i|we|remember|don't forget)\b|no \w", re.IGNORECASE)
_MOMENT = re.compile(r"\b(?:this|next time)\b", re.IGNORECASE)
_FROM_NOW = re.compile(r"(?:from (?:now|today|here) on|going forward|ab jetzt|à partir de maintenant)$", re.IGNORECASE)
_ALTERNATIVE = re.compile(r"\w+ .{1,120} instead[.!]?", re.IGNORECASE)
_PROHIBITION = re.compile(r"(?:please )?(?:never|don't|do not|stop|avoid) ", re.IGNORECASE)
_PLEASE = re.compile(r",? (?:please|thanks|thank you|bitte|por favor|s'il te plaît|per favore)$", re.IGNORECASE)


class _Form(NamedTuple):
    pattern: re.Pattern[str]
    topic: Topic
    by_any: bool
    who: str
    result: Result | None
    templates: Mapping[str, str]


def find_local_memories(turns: Sequence[SpokenTurn]) -> list[MemoryProposal]:
    """Return what the turns say in plain forms. An outcome belongs to the last request before it."""
    proposals = []
    request = ""
    for index, turn in enumerate(turns):
        if turn.role is Role.TOOL:
            continue
        sentences = list(_own_sentences(turn.text))
        matches = []
        for sentence in sentences:
            matches += _read_sentence(sentence, index, turn, request)
        proposals += matches
        if turn.role is Role.USER and sentences and not matches:
            first = sentences[0]
            is_request = len(first) <= _TASK_CHARS and len(first.split()) > 1 and not first.endswith("?")
            request = (_REQUEST.sub("", first).rstrip(".! ") if is_request else "") or request
    return proposals


def find_statements(turns: Sequence[SpokenTurn]) -> list[tuple[int, str]]:
    """Return the sentences of people that look like statements, each with the index of its turn.

    Questions, small talk and conditions are left out. Whether a reader understood a sentence is for the caller to say.
    """
    patterns = _load_forms()[1]
    statements = []
    for index, turn in enumerate(turns):
        if turn.role is not Role.USER:
            continue
        for sentence in _own_sentences(turn.text):
            plain = _drop_opener(sentence)
            is_readable = bool(plain) and len(plain.split()) >= _MIN_WORDS
            if is_readable and patterns["statements"].search(plain) and not patterns["no_statements"].search(plain):
                statements.append((index, sentence))
    return statements


def _own_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a turn that are the speaker's own, on one line each.

    "Never do X. Do Y instead." is yielded as one sentence.
    """
    waiting = ""
    for sentence in _split_sentences(text):
        if waiting and _PROHIBITION.match(waiting) and _ALTERNATIVE.fullmatch(sentence):
            yield f"{waiting} {sentence}"
            waiting = ""
            continue
        if waiting:
            yield waiting
        waiting = sentence
    if waiting:
        yield waiting


def _split_sentences(text: str) -> Iterator[str]:
    patterns = _load_forms()[1]
    own = remove_pasted(text).replace("’", "'")
    if patterns["play"].search(own[:_SENTENCE_CHARS]):
        return
    lines: list[str] = []
    for line in own.splitlines():
        goes_on = bool(lines) and lines[-1] != "" and lines[-1][-1] not in ".!?:;" and line[:1].islower()
        lines[-1:] = [f"{lines[-1]} {line.strip()}"] if goes_on else [*lines[-1:], line.strip()]
    for line in lines:
        for sentence in _END.split(line):
            if patterns["handed_over"].search(sentence[:_SENTENCE_CHARS]):
                return
            yield " ".join(sentence.split())


def _drop_opener(sentence: str) -> str:
    """Return a sentence without its bullet, "by the way" and closing mark; "" if it is no statement of the speaker."""
    plain = _BULLET.sub("", sentence)
    box = _BOX.match(plain)
    if box:
        plain = f"TODO: {plain[box.end() :]}" if box[1] == " " else ""
    if not 6 <= len(plain) <= _SENTENCE_CHARS or plain.endswith("?") or _QUOTATION.search(plain):
        return ""
    return _load_forms()[1]["openers"].sub("", plain.rstrip(" .!…"))


class _Sentence(NamedTuple):
    """A sentence that is read, and where it was said."""

    quote: str
    position: int
    turn: SpokenTurn
    request: str
    is_conditional: bool


def _read_sentence(sentence: str, index: int, turn: SpokenTurn, request: str) -> list[MemoryProposal]:
    """Return what a sentence states: one proposal, or one for each of its clauses."""
    patterns = _load_forms()[1]
    plain = _drop_opener(sentence)
    remember = patterns["remember"].match(plain)
    if remember:
        plain = plain[remember.end() :].strip()
    if not plain or patterns["doubts"].search(plain):
        return []
    is_conditional = patterns["conditions"].search(plain) is not None
    place = _Sentence(sentence, index, turn, request, is_conditional)
    proposals = _read_clauses(plain, place, _JOINS)
    if proposals or turn.role is not Role.USER:
        return proposals
    if remember and not is_conditional:
        return [_propose_remembered(plain, sentence, index, turn)]
    rule = _read_rule(sentence, place)
    return [rule] if rule else []


def _read_clauses(plain: str, place: _Sentence, joins: int) -> list[MemoryProposal]:
    """Return what both clauses of a sentence state, or else the sentence as a whole.

    The second clause may have clauses in turn; `joins` limits at how many places the sentence is divided.
    """
    patterns = _load_forms()[1]
    for join in islice(patterns["joins"].finditer(plain), joins):
        first, second = plain[: join.start()], plain[join.end() :]
        has_subject = patterns["subjects"].search(second) is not None
        first_proposal = _match_form(first, place)
        wordings = _word_second_clause(first, second, has_subject)
        readings = (_read_clauses(wording, place, joins - 1) for wording in wordings)
        second_proposals = next(filter(None, readings), [])
        if first_proposal and second_proposals:
            return [first_proposal, *second_proposals]
    whole = _match_form(plain, place)
    return [whole] if whole else []


def _word_second_clause(first: str, second: str, has_subject: bool) -> list[str]:
    """Return how a second clause may be completed. Without a subject of its own, it has that of the first clause."""
    if has_subject:
        return [second]
    subject = first.split(" ", 1)[0]
    if _PRONOUN.fullmatch(subject):
        pronoun = subject.split("'", 1)[0]
        return [f"{subject} {second}", f"{pronoun} {second}"]
    # Many languages need no pronoun: "Vivo en Lima y trabajo en Acme".
    return [second]


def _match_form(plain: str, place: _Sentence) -> MemoryProposal | None:
    """Return what a clause states, by the first form that it matches as a whole."""
    polite = _PLEASE.sub("", plain)
    for form in _load_forms()[0]:
        if place.turn.role is Role.ASSISTANT and not form.by_any:
            continue
        if place.is_conditional and form.topic not in _TENTATIVE:
            continue
        match = form.pattern.fullmatch(polite)
        if match:
            return _propose(form, match, polite, place)
    is_order = place.turn.role is Role.USER and _FROM_NOW.search(polite)
    return _read_rule(polite, place) if is_order else None


def _read_rule(text: str, place: _Sentence) -> MemoryProposal | None:
    """Return a sentence or clause as a rule that lasts, if the reader of coding sessions is sure of it."""
    is_other = _NO_RULE.match(text) or _MOMENT.search(text)
    rule = None if is_other else read_turn(text, place.position)
    if rule is None or not rule.is_sure or rule.reach not in _LASTING:
        return None
    return MemoryProposal(turn=place.position, topic=Topic.RULE, text=rule.rule, quote=place.quote, reason=rule.reason)


def _propose(form: _Form, match: re.Match[str], plain: str, place: _Sentence) -> MemoryProposal:
    speaker = place.turn.speaker
    who = speaker if by_name(speaker or "user", "") else form.who
    groups = {name: group.strip(" ,") for name, group in match.groupdict().items() if group}
    filled = {name: template.format_map({**groups, "who": who}) for name, template in form.templates.items()}
    fields = {name: groups[name] for name in _FIELDS if name in groups}
    for name in ("strategy", "reason"):
        if name in filled:
            fields[name] = filled[name]
    if form.topic is Topic.OUTCOME:
        fields.setdefault("task", place.request)
    text = filled.get("text") or groups.get("rule") or (fields.get("task") if form.topic is Topic.TASK else "") or plain
    attribute = filled.get("attribute", "").casefold()
    return MemoryProposal(
        turn=place.position,
        topic=form.topic,
        text=_capitalise(text),
        quote=place.quote,
        subject="speaker" if attribute else "",
        attribute=attribute,
        result=form.result,
        **{"value": groups.get("name", ""), **{name: _capitalise(one) for name, one in fields.items()}},
    )


def _propose_remembered(plain: str, quote: str, index: int, turn: SpokenTurn) -> MemoryProposal:
    """Return a fact that the speaker asked to keep. In the first person it needs the speaker's name."""
    text = _capitalise(plain)
    words = set(re.findall(r"[^\W\d_]+(?:'m)?", plain.casefold()))
    for language in _load_file()["languages"]:
        if words & set(language["first_person"].split("|")):
            who = turn.speaker if by_name(turn.speaker or "user", "") else language["who"]
            text = language["said"].format(who=who, sentence=plain)
            break
    return MemoryProposal(turn=index, topic=Topic.FACT, text=text, quote=quote)


def _capitalise(text: str) -> str:
    """Return a sentence that begins with a capital, unless its first word is a name or a command."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


@lru_cache(maxsize=1)
def _load_file() -> Mapping[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = Path(__file__).with_name("memory_forms.yaml").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = yaml.load(text, Loader=loader)
    return loaded


@lru_cache(maxsize=1)
def _load_forms() -> tuple[tuple[_Form, ...], Mapping[str, re.Pattern[str]]]:
    """Return the forms of all languages, and the other patterns of the file by name."""
    data, names = _load_file(), load_file("entities.json")
    others = {*names["products"], *names["organisations"], *names["not_names"]} - _PLACE_OPENERS
    # A known place, and the condition that a name is not known as something else.
    place, other = (join_longest_first(map(re.escape, sorted(words))) for words in (names["places"], others))
    slots = data["slots"] | {"place": rf"(?P<name>{place})(?!\w)", "unplaced": rf"(?!(?:{other})(?![\w'-]))"}

    def fill(match: re.Match[str]) -> str:
        if match.string[: match.start()].endswith("(?P"):
            return match[0]  # A group of the expression itself, (?P<name>…), is no slot.
        name = match[1]
        return f"(?:{slots[name]})" if name in _PLAIN_SLOTS else f"(?P<{name}>{slots[name]})"

    forms = [
        _Form(
            re.compile(_SLOT.sub(fill, form["is"]), re.IGNORECASE),
            Topic(form["topic"]),
            form.get("by") == "any",
            language["who"],
            Result(form["result"]) if "result" in form else None,
            {name: form[name] for name in _TEMPLATES if name in form},
        )
        for language in data["languages"]
        for form in language["forms"]
    ]
    # Folded lines of the file leave a space before each bar.
    raw = {name: data[name].replace(" |", "|") for name in data if isinstance(data[name], str)}
    raw |= {name: rf"\b(?:{raw[name]})\b" for name in ("doubts", "conditions")}
    raw |= {
        "openers": rf"^(?:(?:{raw['openers']})\b[,.!:;]*(?: -)? +)+",
        "remember": rf"^(?:{raw['remember']})\s",
    }
    return tuple(forms), {name: re.compile(one, re.IGNORECASE) for name, one in raw.items()}
