"""Finds statements in conversations and texts that are worth storing.

A model reads the text if there is one, otherwise the local reader. A model's quote must occur in the turn it refers to.
If the model fails, the local reader's findings are used alone, and `Extraction.failed` holds the reason. The confidence
of a finding depends on its speaker.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from weakref import WeakKeyDictionary

from ..engine import validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.search import by_meaning, by_words
from ..errors import ModelError, ValidationError, describe_type
from ..ports import Model
from ..reading.local import LocalReader
from ..reading.local_memories import find_statements
from ..reading.model import ModelReader
from ..reading.port import MemoryProposal, Role, SpokenTurn, StoredText, Topic, ask_in_time
from ..text import digest, normalise, passages
from ..types.kinds import MemoryType, Result
from ..types.query import Where
from ..types.record import Status
from ..types.speech import is_person


class Kind(StrEnum):
    """The kinds of statements that are worth storing."""

    OUTCOME = "outcome"
    PREFERENCE = "preference"
    CORRECTION = "correction"
    DECISION = "decision"
    FACT = "fact"
    ANTI_PATTERN = "anti_pattern"
    HEURISTIC = "heuristic"
    WORK_ITEM = "work_item"


class Voice(StrEnum):
    """Who made a statement."""

    PERSON = "person"
    ASSISTANT = "assistant"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """One statement that is worth storing, with the quote it came from.

    `fields` depend on the kind. FACT and DECISION: fact, domain, subject, attribute. PREFERENCE: preference, category,
    attribute. ANTI_PATTERN: pattern, why_bad, better_alternative, condition. HEURISTIC: condition, strategy. OUTCOME:
    task, strategy_used, outcome, error_message. CORRECTION: rule, why. WORK_ITEM: title.
    """

    kind: Kind
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    quote: str
    turn: int = 0  # The index of the message; 0 for a document.
    speaker: str = ""
    voice: Voice = Voice.PERSON
    confidence: float = 1.0  # 0 to 1: how likely it is that the speaker meant this, and meant it to last.
    at: datetime | None = None  # The time of the message, if known.
    when: str = ""  # A time that the statement itself mentions, as written.
    replaces: str = ""  # The id of a stored memory that this one supersedes.
    key: str = ""  # Identifies the finding, so that reading the conversation again adds nothing.
    model: str = ""  # The model that found it; empty for the local reader.


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The findings in a conversation or text, and how they were found."""

    found: tuple[Extracted, ...] = ()
    model: str = ""  # The model that was asked; empty if none is configured.
    failed: str = ""  # Why the model failed and the local reader was used instead; empty if it did not.
    dropped: Mapping[str, int] = field(default_factory=dict)  # How many proposals were dropped, by reason.
    unread: tuple[str, ...] = ()  # Sentences of people that look like statements, and that nobody understood.


@dataclass(frozen=True, slots=True)
class Message(SpokenTurn):
    """A turn with its position and key."""

    index: int = 0
    # The message's id, or a digest of its text and the text before it: stable when the conversation grows.
    key: str = ""


# Roles whose messages are written by neither a person nor an assistant.
_TOOLS = frozenset("system developer tool function tool_result".split())
_TEXT_BLOCKS = ("text", "input_text", "output_text")
_SECTION_CHARS = 1_900  # A model reader reads at most this much of one turn.
_CONFIDENCE = {Voice.PERSON: 0.9, Voice.DOCUMENT: 0.85, Voice.ASSISTANT: 0.6}
_KINDS = {Topic.WARNING: Kind.ANTI_PATTERN, Topic.TASK: Kind.WORK_ITEM, Topic.RULE: Kind.CORRECTION}
_SPEAKER = frozenset({"speaker", "user", "the user", "the speaker", "person", "i", "me"})
FORBIDS = re.compile(r"(?:please )?(?:never|don't|do not|avoid|no|not|stop) ", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n+")
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_SECONDS = 60.0  # The timeout of a model call; after it, the local reader's findings are used.
_CACHED = 64
_MAX_KNOWN = 40
_Reading = tuple[list[MemoryProposal], dict[str, int]]
# The latest answers of each model, by the content that it read.
_readings: WeakKeyDictionary[Model, dict[str, _Reading]] = WeakKeyDictionary()
_QUERIES = 12
_QUERY_CHARS = 500


def from_conversation(messages: Sequence[Mapping[str, Any]], *, model: Model | None = None) -> list[Extracted]:
    """Return the statements in a conversation that are worth storing, in order.

    A message is a mapping with `role` and `content` (or `speaker` and `text`), and optionally `at` and `id`.
    """
    return list(extract_conversation(messages, model=model).found)


def from_text(text: str, *, model: Model | None = None, name: str = "") -> list[Extracted]:
    """Return the statements in a note, Markdown page or plain text that are worth storing. `name` is its title."""
    return list(extract_text(text, model=model, name=name).found)


def extract_conversation(
    messages: Sequence[Mapping[str, Any]], *, model: Model | None = None, known: Sequence[StoredText] = ()
) -> Extraction:
    """Do as `from_conversation`, and report how it was read. `known` are memories that findings may supersede."""
    return extract_messages(read_messages(messages), model, known)


def extract_text(text: str, *, model: Model | None = None, name: str = "") -> Extraction:
    """Do as `from_text`, and report how it was read. A text of any length is read in full, section by section."""
    if not isinstance(text, str):
        raise ValidationError(f"text must be a string, not {describe_type(text)}")
    parts = (text[at : at + validate.MAX_TEXT] for at in range(0, len(text), validate.MAX_TEXT))
    cleaned = clean("".join(validate.output("text", part) or "" for part in parts))
    speaker = name or "document"
    sections = [Message(Role.USER, section, speaker, key="text") for section in _split_sections(cleaned)]
    return extract_messages(sections, model, is_document=True)


def _split_sections(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, joined into sections of limited length."""
    waiting = ""
    for paragraph in re.split(r"\n[ \t]*\n", text):
        for piece in passages(paragraph, _SECTION_CHARS) if len(paragraph) > _SECTION_CHARS else [paragraph]:
            if waiting and len(waiting) + len(piece) + 2 > _SECTION_CHARS:
                yield waiting
                waiting = ""
            waiting = f"{waiting}\n\n{piece}" if waiting else piece
    if waiting.strip():
        yield waiting


def find_known_memories(engine: Engine, agent: str, user: str | None, texts: Sequence[str]) -> list[StoredText]:
    """Return the stored facts and preferences of a user that are nearest to these texts."""
    where = Where(
        kinds={MemoryType.DOMAIN_KNOWLEDGE, MemoryType.USER_PREFERENCE},
        projects={engine.project},
        agents={agent, ""},
        users={user or "user", ""},
        statuses={Status.ACTIVE},
    )
    queries = [text[:_QUERY_CHARS] for text in texts[-_QUERIES:]]
    vectors = [vector for group in engine.encode([[query] for query in queries]) for vector in group]
    hits = by_meaning(engine, vectors, where, _MAX_KNOWN // 2) if vectors else []
    for query in queries:
        hits += by_words(engine.store, query, where, _MAX_KNOWN // _QUERIES)
    ids = list(dict.fromkeys(hit.id for hit in hits))[:_MAX_KNOWN]
    records = engine.store.get(ids)
    return [StoredText(record.id, str(record.body.get("fact") or record.body.get("preference"))) for record in records]


def extract_messages(
    messages: Sequence[Message], model: Model | None, stored: Sequence[StoredText] = (), *, is_document: bool = False
) -> Extraction:
    """Do as `extract_conversation`, for messages from `read_messages`."""
    proposals = LocalReader().find_memories(messages)
    people = {one.speaker for one in messages if one.role is Role.USER}
    if len(people) > 1 and not any(one.role is Role.ASSISTANT for one in messages):
        # What people ask of each other is not a rule for an agent.
        proposals = [one for one in proposals if one.topic is not Topic.RULE]
    dropped: Counter[str] = Counter()
    failed = used = ""
    if model is not None:
        try:
            answered, drops = _ask_model(model, messages, stored)
            # A model is not asked for rules and would report plain ones as preferences, so the local rules win.
            rules = [one for one in proposals if one.topic is Topic.RULE]
            proposals = [*(one for one in answered if not _is_covered(one, rules)), *rules]
            dropped.update(drops)
            used = model.name
        except ModelError as error:
            failed = f"{type(error).__name__}: {error}"
    findings: list[Extracted] = []
    keys: Counter[str] = Counter()
    for proposal in sorted(proposals, key=lambda one: one.turn):
        finding = _make_finding(proposal, messages[proposal.turn], is_document, used)
        if finding is None:
            dropped["not a person's words"] += 1
            continue
        keys[finding.key] += 1
        repeated = keys[finding.key]
        findings.append(finding if repeated == 1 else replace(finding, key=digest(finding.key, str(repeated))))
    name = model.name if model else ""
    unread = () if is_document else _list_unread(messages, proposals)
    return Extraction(found=tuple(findings), model=name, failed=failed, dropped=dropped if used else {}, unread=unread)


def _list_unread(messages: Sequence[Message], proposals: Sequence[MemoryProposal]) -> tuple[str, ...]:
    """Return the sentences that look like statements and that no proposal quotes."""
    quotes: dict[int, list[str]] = {}
    for proposal in proposals:
        quotes.setdefault(proposal.turn, []).append(normalise(proposal.quote))
    unread = []
    for turn, sentence in find_statements(messages):
        plain = normalise(sentence)
        is_quoted = any(quote in plain or plain in quote for quote in quotes.get(turn, ()))
        if not is_quoted:
            unread.append(sentence)
    return tuple(unread)


def _make_finding(proposal: MemoryProposal, message: Message, is_document: bool, model: str) -> Extracted | None:
    """Return a proposal as a finding; None if only a person may state it and the speaker is not one."""
    topic, text = proposal.topic, proposal.text
    voice = Voice.PERSON if message.role is Role.USER else Voice.ASSISTANT
    voice = Voice.DOCUMENT if is_document else voice
    names = _SPEAKER | {message.speaker.casefold()}
    begins = any(text.casefold().startswith((f"{name} ", f"{name}'s ")) for name in names - {"i", "me", "person"})
    is_own = proposal.subject in names or (not proposal.subject and topic is Topic.FACT and begins)
    is_order = topic is Topic.RULE and voice is Voice.ASSISTANT
    if voice is not Voice.PERSON and (topic is Topic.PREFERENCE or is_own or is_order):
        return None
    kind = _KINDS.get(topic) or Kind(topic)
    if topic is Topic.RULE and voice is Voice.DOCUMENT:
        # A rule in a document counts as advice; only a person in conversation states rules.
        kind = Kind.ANTI_PATTERN if FORBIDS.match(text) else Kind.HEURISTIC
    return Extracted(
        kind=kind,
        text=text,
        fields=_list_fields(kind, proposal, is_own),
        quote=proposal.quote,
        turn=message.index,
        speaker=message.speaker,
        voice=voice,
        # Facts that an assistant states are guesses.
        confidence=0.4 if voice is Voice.ASSISTANT and kind is Kind.FACT else _CONFIDENCE[voice],
        at=message.at,
        when=proposal.when,
        replaces=proposal.replaces,
        key=digest(message.key, kind, _find_sentence(message.text, proposal.quote)),
        model="" if topic is Topic.RULE else model,
    )


def _ask_model(model: Model, turns: Sequence[SpokenTurn], stored: Sequence[StoredText]) -> _Reading:
    """Return the proposals of a model, and counts of dropped ones by reason. Answers are cached by content."""
    try:
        readings = _readings.setdefault(model, {})
    except TypeError:  # The model cannot be hashed or weakly referenced.
        readings = {}
    content = digest(*(f"{turn.role}\x1e{turn.speaker}\x1e{turn.text}" for turn in turns))
    if content not in readings:
        reader = ModelReader(model)
        proposals = ask_in_time(lambda: reader.find_memories(turns, stored), _SECONDS)
        while len(readings) >= _CACHED:
            readings.pop(next(iter(readings)))
        readings[content] = proposals, dict(reader.dropped)
    return readings[content]


def _is_covered(proposal: MemoryProposal, rules: Sequence[MemoryProposal]) -> bool:
    """Return whether one of the rules was found in the same words."""
    quote = normalise(proposal.quote)
    same = [normalise(rule.quote) for rule in rules if rule.turn == proposal.turn]
    is_rule = proposal.topic in (Topic.PREFERENCE, Topic.WARNING, Topic.DECISION)
    return is_rule and any(quote in one or one in quote for one in same)


def _find_sentence(text: str, quote: str) -> str:
    """Return the sentence that a quote begins in, so that different quotes of a sentence get the same key."""
    plain_quote = normalise(quote)
    for sentence in _SENTENCE.split(text):
        plain = normalise(sentence)
        if plain and (plain_quote in plain or plain_quote.startswith(plain)):
            return " ".join(_BULLET.sub("", sentence).split())
    return plain_quote


def _list_fields(kind: Kind, one: MemoryProposal, is_own: bool) -> dict[str, str]:
    is_keyed, result = bool(one.subject and one.attribute), one.result or Result.SUCCESS
    warned = FORBIDS.sub("", one.text, count=1)
    domain = "project" if is_keyed or kind is Kind.FACT else "decisions"
    attribute = one.attribute if is_own else f"{one.subject} {one.attribute}"
    fact = {"fact": one.text, "domain": "user" if is_own and kind is Kind.FACT else domain}
    if is_keyed:
        fact |= {"subject": "user" if is_own else one.subject, "attribute": one.attribute}
    fields = {
        Kind.OUTCOME: {
            "task": one.task or one.text,
            "strategy_used": one.strategy or one.text,
            "outcome": str(result),
            "error_message": one.reason if result is Result.FAILURE else "",
        },
        Kind.PREFERENCE: {
            "preference": one.text,
            "category": "general",
            "attribute": attribute if is_keyed else "",
        },
        Kind.ANTI_PATTERN: {
            "pattern": one.strategy or warned[:1].upper() + warned[1:],
            "why_bad": one.reason,
            "better_alternative": one.instead,
            "condition": one.task,
        },
        Kind.FACT: fact,
        Kind.DECISION: fact,
        Kind.HEURISTIC: {"strategy": one.text, "condition": one.task or one.text},
        Kind.WORK_ITEM: {"title": one.text},
        Kind.CORRECTION: {"rule": one.text, "why": one.reason},
    }
    return {name: value for name, value in fields[kind].items() if value}


def read_messages(messages: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]) -> list[Message]:
    """Return the messages that have text, without secrets. Each keeps its index among all messages.

    One message may stand for a list, and a text for a message of the user.
    """
    listed = [messages] if isinstance(messages, str | Mapping) else messages
    read: list[Message] = []
    before = ""
    for index, given in enumerate(validate.many("messages", listed)):
        message = {"role": "user", "content": given} if isinstance(given, str) else given
        label = f"messages[{index}]"
        if not isinstance(message, Mapping):
            raise ValidationError(
                f"{label} must be an object with role and content (or speaker and text), not {describe_type(message)}"
            )
        if message.keys().isdisjoint(("role", "speaker", "content", "text")):
            raise ValidationError(f"{label} has no role and content; pass both (or speaker and text)")
        content = message.get("content") if message.get("text") is None else message["text"]
        text = validate.output(f"{label} content", _read_content(content)[: validate.MAX_TEXT])
        if text is None:
            continue
        speaker = validate.name(f"{label} role", message.get("speaker") or message.get("role"))
        role = Role.USER if is_person(speaker) else Role.ASSISTANT
        at = validate.moment(f"{label} at", message.get("at", message.get("timestamp")))
        id = message.get("id")
        key = digest("id", id) if isinstance(id, str) and id else digest("said", before, speaker, text)
        is_tool = speaker.casefold() in _TOOLS
        read.append(Message(Role.TOOL if is_tool else role, clean(text), speaker, at, index, key))
        before = text
    return read


def _read_content(content: object) -> str:
    """Return the text of a message: a string, or the text blocks of a list. Tool output is left out."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _read_content(content.get("text")) if content.get("type", "text") in _TEXT_BLOCKS else ""
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return "\n".join(filter(None, map(_read_content, content)))
    return ""
