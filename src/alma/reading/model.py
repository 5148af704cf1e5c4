"""A reader that asks a language model, and believes only what it can check.

Each question is one prompt file, asked in batches. A proposal is dropped when its quote does not occur in the person's
own words, or when it names a command, number or identifier that the session does not contain. A failed call raises
ModelError; nothing is half-read.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from ..ports import Model
from ..types.asking import Prompt
from ..types.kinds import Reach, Result
from .local import remove_pasted
from .port import (
    UNSURE,
    Entities,
    GistLine,
    MemoryProposal,
    NoteToReword,
    Observation,
    Pair,
    Quote,
    Reader,
    Relation,
    Repair,
    Rewording,
    Role,
    RuleProposal,
    SpokenExchange,
    SpokenTurn,
    StoredText,
    Task,
    TaskPlan,
    Topic,
    Verdict,
)

T = TypeVar("T")

_BATCH_CHARS = 16_000
_TURN_CHARS = 2_000
_BEFORE_CHARS = 600
_OUTPUT_CHARS = 800
_MAX_KNOWN = 60
_MOST_REWORDED = 10
_MOST_EXCHANGES = 25
_EXCHANGES_CHARS = 24_000
_OVERLAP = 2  # So many exchanges of a batch are shown once more before those of the next.
_LEAST = 0.001  # A probability of 0 stands for a pair that the model left out.
_UNKNOWN_NAME = "names something that was not there"
_UNKNOWN_QUOTE = "quote not found in the person's words"
_PLACEHOLDER = re.compile(r"<[^<>\n]{1,40}>")
_SPACE = re.compile(r"\s+")
_JOINT = re.compile(r"[-/]|(?<=[^\W\d])\.(?=[^\W\d])|(?<=\d)(?:st|nd|rd|th)\b")
_LITERAL = re.compile(r"`([^`]+)`|(?<!\w)(--?\w[\w-]*|[\w.-]*[./_@\\]\w[\w./@-]*|\w*\d[\w.-]*)")


@lru_cache(maxsize=8)
def load_prompt(name: str) -> Mapping[str, Any]:
    """Return a prompt file: its version, system text, schema and answer length."""
    text = Path(__file__).with_name("prompts").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    loaded = tomllib.loads(text)
    return {**loaded, "schema": json.loads(loaded["schema"])}


class ModelReader(Reader):
    """Asks `model`. `dropped` counts the proposals that failed a check."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.dropped: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._model.name

    def find_rules(self, turns: Sequence[SpokenTurn], known: Sequence[StoredText] = ()) -> list[RuleProposal]:
        """Return the rules that the person taught; proposals without a quote in their words are dropped."""
        exchanges = []
        for index, turn in enumerate(turns):
            if turn.role is Role.USER and (own := remove_pasted(turn.text)):
                before = turns[index - 1].text if index and turns[index - 1].role is Role.ASSISTANT else ""
                exchanges.append({"n": index, "assistant": before[-_BEFORE_CHARS:], "person": own[:_TURN_CHARS]})
        vocabulary = _normalise(" ".join(turn.text for turn in turns))
        ids = {one.id for one in known}
        listed = [{"id": one.id, "rule": one.text} for one in known[:_MAX_KNOWN]]
        proposals = []
        for batch, item in self._ask_batches("rules", "rules", 25, "exchanges", exchanges, known=listed):
            if self._is_supported(item, batch, "person", vocabulary, "rule", "general"):
                is_known = item.get("known") in ids and "relation" in item
                texts = {name: item.get(name, "").strip() for name in ("rule", "quote", "trigger", "reason", "general")}
                proposals.append(
                    RuleProposal(
                        turn=item["n"],
                        reach=Reach(item["scope"]),
                        is_correction=item["kind"] == "correction",
                        known=item["known"] if is_known else "",
                        verdict=Verdict(item["relation"]) if is_known else Verdict.UNRELATED,
                        **texts,
                    )
                )
        return proposals

    def find_notes(self, exchanges: Sequence[SpokenExchange], known: Sequence[StoredText] = ()) -> list[RuleProposal]:
        """Return the notes that the exchanges teach; those without a quote in the person's words are dropped."""
        listed = describe_known(known)
        items: list[Mapping[str, Any]] = []
        for batch in _batch_exchanges(exchanges):
            items += self._ask("notes", {"known": listed, "exchanges": batch})["notes"]
        return check_notes(items, exchanges, known[:_MAX_KNOWN], self.dropped)

    def reword_notes(self, notes: Sequence[NoteToReword]) -> list[Rewording]:
        """Return each note in words that it may be made of. The caller has to check them as it checked the note."""
        entries = [{"n": n, **note._asdict()} for n, note in enumerate(notes)]
        rewordings: dict[int, Rewording] = {}
        for start in range(0, len(entries), _MOST_REWORDED):
            answer = self._ask("reword", {"refused_notes": entries[start : start + _MOST_REWORDED]})
            for item in answer["notes"]:
                rewordings[item["n"]] = Rewording(item["note"].strip(), item.get("trigger", "").strip())
        return [rewordings.get(n, Rewording("")) for n in range(len(notes))]

    def find_memories(self, turns: Sequence[SpokenTurn], known: Sequence[StoredText] = ()) -> list[MemoryProposal]:
        """Return the memories that a conversation contains; proposals without a quote in it are dropped."""
        entries = [
            {"n": index, "speaker": turn.speaker or str(turn.role), "text": own[:_TURN_CHARS]}
            for index, turn in enumerate(turns)
            if turn.role is not Role.TOOL and (own := remove_pasted(turn.text))
        ]
        vocabulary = _normalise(" ".join(f"{turn.speaker} {turn.text}" for turn in turns))
        ids = {one.id for one in known}
        listed = [{"id": one.id, "memory": one.text} for one in known[:_MAX_KNOWN]]
        names = ("text", "quote", "value", "when", "task", "strategy", "reason", "instead")
        return [
            MemoryProposal(
                turn=item["n"],
                topic=Topic(item["kind"]),
                subject=_normalise(item.get("subject", "")),
                attribute=_normalise(item.get("attribute", "")),
                result=Result(item["result"]) if "result" in item else None,
                replaces=item["replaces"] if item.get("replaces") in ids else "",
                **{name: item.get(name, "").strip() for name in names},
            )
            for batch, item in self._ask_batches("memories", "memories", 40, "turns", entries, known=listed)
            if self._is_supported(item, batch, "text", vocabulary, "text", "value", "strategy", "instead")
        ]

    def compare(self, pairs: Sequence[Pair]) -> list[Relation]:
        """Return how the texts of each pair relate."""
        entries: dict[str, list[dict[str, Any]]] = {"compare": [], "details": []}
        for n, pair in enumerate(pairs):
            texts = {"old": pair.first[:_TURN_CHARS], "new": pair.second[:_TURN_CHARS]}
            details = {"only_old": pair.only_first, "only_new": pair.only_second} if any(pair[3:]) else {}
            entries["details" if details else "compare"].append({"n": n, "about": str(pair.about), **texts, **details})
        relations: dict[int, Relation] = {}
        for name, batch in entries.items():
            for _, item in self._ask_batches(name, "pairs", 40, "pairs", batch):
                probability = min(1.0, max(_LEAST, float(item["probability"])))
                relations[item["n"]] = Relation(Verdict(item["relation"]), probability)
        return [relations.get(n, UNSURE) for n in range(len(pairs))]

    def explain_repairs(self, repairs: Sequence[Repair]) -> list[Observation]:
        """Return one observation for each repair; without a note if it teaches nothing."""
        entries = [
            {
                "n": n,
                "failed": one.failed[:_TURN_CHARS],
                "output": one.output[-_OUTPUT_CHARS:],
                "worked": one.worked[:_TURN_CHARS],
            }
            for n, one in enumerate(repairs)
        ]
        notes: dict[int, str] = {}
        for _, item in self._ask_batches("repairs", "cases", 20, "cases", entries):
            note = item.get("note", "").strip() if item["lesson"] else ""
            if note and 0 <= item["n"] < len(repairs):
                one = repairs[item["n"]]
                if _has_unknown_literal(note, _normalise(f"{one.failed} {one.output} {one.worked}")):
                    self.dropped[_UNKNOWN_NAME] += 1
                else:
                    notes[item["n"]] = note
        return [Observation(one, notes.get(n, "")) for n, one in enumerate(repairs)]

    def plan_tasks(self, prompt: str) -> TaskPlan:
        """Split a request into tasks and constraints."""
        answer = self._ask("tasks", {"request": prompt[:_BATCH_CHARS]})
        request = _normalise(prompt)
        items = {}
        for number, item in enumerate(answer["tasks"], 1):
            if _has_unknown_literal(f"{item['title']} {item.get('description', '')}", request):
                self.dropped[_UNKNOWN_NAME] += 1
            else:
                items[number] = item
        places = {number: index for index, number in enumerate(items)}
        tasks = [
            Task(
                item["title"].strip(),
                item.get("description", "").strip(),
                tuple(sorted({places[n] for n in item.get("after", ()) if n in places and n != number})),
            )
            for number, item in items.items()
        ]
        return TaskPlan(tuple(tasks), tuple(answer.get("constraints", ())))

    def find_entities(self, texts: Sequence[str], speakers: Sequence[str] = ()) -> list[Entities]:
        """Return the entities and relations of each text."""
        # A turn of a conversation is shown with its speaker, so that "I" has a name.
        texts = [
            f"{speaker}: {text}" if speaker else text for text, speaker in zip_longest(texts, speakers, fillvalue="")
        ]
        entries = [{"n": n, "text": text[:_TURN_CHARS]} for n, text in enumerate(texts)]
        entities: dict[int, Entities] = {}
        for _, item in self._ask_batches("entities", "texts", 25, "texts", entries):
            if not 0 <= item["n"] < len(texts):
                continue
            text = _normalise(texts[item["n"]])
            names = {one["name"]: one["type"] for one in item["entities"] if _normalise(one["name"]) in text}
            relations = [
                (one["subject"], _SPACE.sub("_", one["relation"].strip().lower()), one["object"])
                for one in item.get("relations", ())
                if one["subject"] in names and one["object"] in names
            ]
            entities[item["n"]] = Entities(tuple(names.items()), tuple(relations))
        return [entities.get(n, Entities()) for n in range(len(texts))]

    def write_gists(self, conversations: Sequence[Sequence[SpokenTurn]]) -> list[list[GistLine]]:
        """Return the lines of the gist of each conversation. A long one is read in parts."""
        gists = []
        for turns in conversations:
            entries = [{"n": n, "speaker": one.speaker, "text": one.text[:_TURN_CHARS]} for n, one in enumerate(turns)]
            lines = self._ask_batches("gists", "lines", 400, "turns", entries)
            gists.append([GistLine(one["text"].strip(), tuple(one["turns"]), one["quote"]) for _, one in lines])
        return gists

    def _ask(self, name: str, material: Mapping[str, Any]) -> Any:
        prompt = load_prompt(name)
        text = json.dumps(material, ensure_ascii=False, indent=1)
        fields = {field: prompt[field] for field in ("system", "schema", "max_tokens")}
        return self._model.ask(Prompt(text=text, version=f"{name} {prompt['version']}", **fields)).value

    def _ask_batches(
        self, name: str, answer: str, size: int, label: str, entries: Sequence[dict[str, Any]], **shared: Any
    ) -> Iterator[tuple[list[dict[str, Any]], Any]]:
        """Ask about the entries in batches that one call can answer; yield each item with its batch."""
        batch: list[dict[str, Any]] = []
        chars = 0
        for entry in (*entries, None):
            length = sum(len(value) for value in entry.values() if isinstance(value, str)) if entry else 0
            if batch and (entry is None or len(batch) == size or chars + length > _BATCH_CHARS):
                for item in self._ask(name, {**shared, label: batch})[answer]:
                    yield batch, item
                batch, chars = [], 0
            if entry is not None:
                batch.append(entry)
                chars += length

    def _is_supported(
        self, item: Mapping[str, Any], batch: Sequence[Mapping[str, Any]], own: str, vocabulary: str, *fields: str
    ) -> bool:
        """Return whether the quote occurs in the turn, and every literal of the given fields in the session."""
        quote = _normalise(item["quote"])
        if not quote or not any(entry["n"] == item["n"] and quote in _normalise(entry[own]) for entry in batch):
            self.dropped[_UNKNOWN_QUOTE] += 1
            return False
        if any(_has_unknown_literal(item.get(field, ""), vocabulary) for field in fields):
            self.dropped[_UNKNOWN_NAME] += 1
            return False
        return True


# -- notes


def describe_known(known: Sequence[StoredText]) -> list[dict[str, str]]:
    """Return the notes that exist already as a model is shown them."""
    return [{"id": stored.id, "note": stored.text} for stored in known[:_MAX_KNOWN]]


def describe_exchanges(exchanges: Sequence[SpokenExchange], start: int = 0, end: int | None = None) -> list[Any]:
    """Return exchanges as a model is shown them: the person's own words, and what the agent did around them."""
    has_sessions = len({exchange.session for exchange in exchanges}) > 1
    entries = []
    for n, exchange in enumerate(exchanges[:end]):
        entry: dict[str, Any] = {"n": n}
        if has_sessions:
            entry["session"] = exchange.session
        if exchange.is_old:
            entry["old"] = True
        before = exchange.did_before
        if n == start and n and not before and exchanges[n - 1].session == exchange.session:
            before = exchanges[n - 1].did_then
        if before:
            entry["did_before"] = list(before)
        entry["person"] = remove_pasted(exchange.person)[:_TURN_CHARS]
        entry["did_then"] = list(exchange.did_then)
        entries.append(entry)
    return entries[start:]


def _batch_exchanges(exchanges: Sequence[SpokenExchange]) -> Iterator[list[Any]]:
    """Yield the exchanges in batches that one call can answer. A batch begins with the end of the one before."""
    start = 0
    while start < len(exchanges):
        end, chars = start, 0
        while end < len(exchanges) and end - start < _MOST_EXCHANGES:
            chars += _count_chars(exchanges[end])
            if end > start and chars > _EXCHANGES_CHARS:
                break
            end += 1
        # What explains a batch was asked about before.
        first = max(0, start - _OVERLAP)
        shown = [exchange._replace(is_old=True) if n < start else exchange for n, exchange in enumerate(exchanges)]
        while first < start and shown[first].session != shown[start].session:
            first += 1
        if not all(exchange.is_old for exchange in shown[start:end]):
            yield describe_exchanges(shown, first, end)
        start = end


def _count_chars(exchange: SpokenExchange) -> int:
    lines = (*exchange.did_before, *exchange.did_then)
    return len(exchange.person[:_TURN_CHARS]) + sum(map(len, lines))


def check_notes(
    items: Sequence[Mapping[str, Any]],
    exchanges: Sequence[SpokenExchange],
    known: Sequence[StoredText],
    dropped: Counter[str],
) -> list[RuleProposal]:
    """Return the notes of an answer as proposals, without those that the exchanges do not support.

    The quote must be the person's own words, and all literals must have been seen. `dropped` counts the others by
    reason. A deed or an acceptance that cannot be found is left out: without it the engine may doubt the note.
    """
    own = [_normalise(remove_pasted(exchange.person)) for exchange in exchanges]
    accounts = [_normalise(" ".join((*exchange.did_before, *exchange.did_then))) for exchange in exchanges]
    vocabulary = _normalise(" ".join((*own, *accounts, *(stored.text for stored in known))))
    ids = {stored.id for stored in known}
    proposals: dict[str, RuleProposal] = {}
    for item in items:
        turn = _find_quoted(item["quote"], item["n"], own)
        text = item["note"].strip()
        if turn is None:
            dropped[_UNKNOWN_QUOTE] += 1
        elif _has_unknown_literal(_PLACEHOLDER.sub(" ", text), vocabulary):
            dropped[_UNKNOWN_NAME] += 1
        elif text and not exchanges[turn].is_old:
            is_known = item.get("known") in ids and "relation" in item
            proposals.setdefault(
                _normalise(text),
                RuleProposal(
                    turn=turn,
                    rule=text,
                    reach=_read_scope(item),
                    quote=item["quote"].strip(),
                    is_correction=turn > 0 or bool(exchanges[turn].did_before),
                    trigger=item.get("trigger", "").strip(),
                    reason=item.get("reason", "").strip(),
                    known=item["known"] if is_known else "",
                    verdict=Verdict(item["relation"]) if is_known else Verdict.UNRELATED,
                    deeds=_find_deeds(item.get("deeds", ()), accounts),
                    accepted=_find_acceptance(item.get("accepted"), own),
                ),
            )
    return list(proposals.values())


def _read_scope(item: Mapping[str, Any]) -> Reach:
    """Return how far a note reaches: not beyond its case if the model can name no other task that needs it."""
    reach = Reach(item["scope"])
    return Reach.ONCE if reach is Reach.PROJECT and not item.get("elsewhere", "-").strip() else reach


def _find_quoted(quote: str, n: int, texts: Sequence[str]) -> int | None:
    """Return which text contains a quote: the n-th, or the only one that does."""
    wanted = _normalise(quote)
    if not wanted:
        return None
    places = [place for place, text in enumerate(texts) if wanted in text]
    if n in places:
        return n
    return places[0] if len(places) == 1 else None


def _find_deeds(items: Sequence[Mapping[str, Any]], accounts: Sequence[str]) -> tuple[Quote, ...]:
    """Return the named deeds that the accounts contain."""
    found = []
    for item in items:
        turn = _find_quoted(item["text"], item["n"], accounts)
        if turn is not None:
            found.append(Quote(turn, item["text"].strip()))
    return tuple(found)


def _find_acceptance(item: Mapping[str, Any] | None, own: Sequence[str]) -> Quote | None:
    turn = _find_quoted(item["quote"], item["n"], own) if item else None
    return None if item is None or turn is None else Quote(turn, item["quote"].strip())


def _normalise(text: str) -> str:
    return _SPACE.sub(" ", text.replace("’", "'").replace("`", "")).strip().casefold()


def _has_unknown_literal(text: str, vocabulary: str) -> bool:
    """Return whether a text names a command, flag, path, number or identifier that does not occur in `vocabulary`."""
    words = (word for match in _LITERAL.finditer(text) for word in _normalise(match[1] or match[2]).split())
    return any(not _occurs(literal, vocabulary) for word in words if (literal := word.strip(".,;:!?'\"()")))


def _occurs(literal: str, vocabulary: str) -> bool:
    """Return whether a literal occurs as a whole, or, unless it is a flag, in parts: "1-hour" where "1 hour" does."""
    if literal in vocabulary:
        return True
    return not literal.startswith("-") and all(part in vocabulary for part in _JOINT.split(literal) if part)
