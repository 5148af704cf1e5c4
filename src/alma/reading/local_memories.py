"""Finds memories in a conversation without a model, by the plain sentence forms of memory_forms.yaml.

A sentence must match a form as a whole. Questions, guesses, conditions, quotations, pasted text, and text that is
handed over to be worked on give nothing. Of an assistant only reports of its own work are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..types.kinds import Result
from ..types.speech import by_name
from .local import join_longest_first, load_file, remove_pasted
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
        matches = [proposal for one in sentences if (proposal := _read_sentence(one, index, turn, request))]
        proposals += matches
        if turn.role is Role.USER and sentences and not matches:
            first = sentences[0]
            is_request = len(first) <= _TASK_CHARS and len(first.split()) > 1 and not first.endswith("?")
            request = (_REQUEST.sub("", first).rstrip(".! ") if is_request else "") or request
    return proposals


def _own_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a turn that are the speaker's own, on one line each."""
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


def _read_sentence(sentence: str, index: int, turn: SpokenTurn, request: str) -> MemoryProposal | None:
    forms, patterns = _load_forms()
    plain = _BULLET.sub("", sentence)
    box = _BOX.match(plain)
    if box:
        plain = f"TODO: {plain[box.end() :]}" if box[1] == " " else ""
    if not 6 <= len(plain) <= _SENTENCE_CHARS or plain.endswith("?") or _QUOTATION.search(plain):
        return None
    plain = patterns["openers"].sub("", plain.rstrip(" .!…"))
    remember = patterns["remember"].match(plain)
    if remember:
        plain = plain[remember.end() :].strip()
    if patterns["doubts"].search(plain):
        return None
    is_conditional = patterns["conditions"].search(plain) is not None
    for form in forms:
        if turn.role is Role.ASSISTANT and not form.by_any:
            continue
        match = form.pattern.fullmatch(plain)
        if match and not (is_conditional and form.topic not in _TENTATIVE):
            return _propose(form, match, plain, sentence, index, turn, request)
    if remember and turn.role is Role.USER and not is_conditional:
        return _propose_remembered(plain, sentence, index, turn)
    return None


def _propose(
    form: _Form, match: re.Match[str], plain: str, quote: str, index: int, turn: SpokenTurn, request: str
) -> MemoryProposal:
    who = turn.speaker if by_name(turn.speaker or "user", "") else form.who
    groups = {name: group.strip(" ,") for name, group in match.groupdict().items() if group}
    filled = {name: template.format_map({**groups, "who": who}) for name, template in form.templates.items()}
    fields = {name: groups[name] for name in _FIELDS if name in groups}
    if "strategy" in filled:
        fields["strategy"] = filled["strategy"]
    if form.topic is Topic.OUTCOME:
        fields.setdefault("task", request)
    text = filled.get("text") or groups.get("rule") or (fields.get("task") if form.topic is Topic.TASK else "") or plain
    attribute = filled.get("attribute", "").casefold()
    return MemoryProposal(
        turn=index,
        topic=form.topic,
        text=_capitalise(text),
        quote=quote,
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
            {name: form[name] for name in ("text", "strategy", "attribute") if name in form},
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
