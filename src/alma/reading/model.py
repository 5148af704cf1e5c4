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
    Observation,
    Pair,
    Reader,
    Relation,
    Repair,
    Role,
    RuleProposal,
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
_LEAST = 0.001  # A probability of 0 stands for a pair that the model left out.
_UNKNOWN_NAME = "names something that was not there"
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
            self.dropped["quote not found in the person's words"] += 1
            return False
        if any(_has_unknown_literal(item.get(field, ""), vocabulary) for field in fields):
            self.dropped[_UNKNOWN_NAME] += 1
            return False
        return True


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
