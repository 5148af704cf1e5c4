"""Readers of LongMemEval's and LoCoMo's public files into one form: haystacks of sessions, with questions.

Entries that cannot be used are counted in the notes that a report prints.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from alma.errors import ALMAError

KINDS = ("s", "pool")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_ADVERSARIAL = 5
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_WEEKDAY = re.compile(r"\s*\([A-Za-z]+\)\s*")
_SESSION = re.compile(r"session_(\d+)")

Notes = Counter[str]
Entry = Mapping[str, Any]


class DataError(ALMAError):
    """A data file cannot be read, or has another format than expected."""


@dataclass(frozen=True)
class Turn:
    id: str
    speaker: str
    text: str
    at: datetime | None


@dataclass(frozen=True)
class Session:
    id: str
    turns: tuple[Turn, ...]

    @property
    def at(self) -> datetime | None:
        return self.turns[0].at

    @property
    def text(self) -> str:
        return "\n".join(f"{turn.speaker}: {turn.text}" for turn in self.turns)

    @property
    def own(self) -> tuple[Turn, ...]:
        """What the user said to an assistant; between two people, everything."""
        return tuple(turn for turn in self.turns if turn.speaker == "user") or self.turns


@dataclass(frozen=True)
class Question:
    """A question; `sessions` and `turns` are the ids of its evidence, and an unanswerable one should find nothing."""

    id: str
    kind: str
    text: str
    asked_at: datetime | None
    answerable: bool
    sessions: frozenset[str]
    turns: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Haystack:
    """The sessions of one store, and the questions about them."""

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]
    twins: Mapping[str, str] = field(default_factory=dict)
    """For a session whose text is there under another id too, that other id: finding either is right."""

    def same(self, session: str) -> str:
        return self.twins.get(session, session)


@dataclass(frozen=True)
class Data:
    file: str
    sha256: str
    kind: str
    haystacks: tuple[Haystack, ...]
    notes: Notes

    @property
    def questions(self) -> list[Question]:
        return [question for haystack in self.haystacks for question in haystack.questions]


def load(path: Path) -> tuple[Any, str]:
    """Return the JSON of a file, optionally gzipped, and the file's SHA-256."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    sha256 = hashlib.sha256(raw).hexdigest()
    try:
        return json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw), sha256
    except (ValueError, EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is neither JSON nor gzipped JSON: {error}") from error


def limited(data: Data, limit: int | None) -> Data:
    """Return at most this many questions, spread over the whole file, with only the stores they need."""
    if limit is None or limit >= len(data.questions):
        return data
    total = len(data.questions)
    kept = {number * total // limit for number in range(limit)}
    haystacks, number = [], 0
    for haystack in data.haystacks:
        own = tuple(one for at, one in enumerate(haystack.questions, number) if at in kept)
        number += len(haystack.questions)
        if own:
            haystacks.append(replace(haystack, questions=own))
    return replace(data, haystacks=tuple(haystacks))


# -- LongMemEval


def longmemeval(path: Path, kind: str | None = None) -> Data:
    """Return each question with its own haystack (`s`), or all over one (`pool`); by default as in the file."""
    content, sha256 = load(path)
    notes: Notes = Counter()
    try:
        haystacks = _longmemeval(content, kind, notes)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not in LongMemEval's format: {error!r} is missing or of another sort") from error
    return Data(path.name, sha256, kind or ("pool" if isinstance(content, dict) else "s"), tuple(haystacks), notes)


def _longmemeval(content: Any, kind: str | None, notes: Notes) -> list[Haystack]:
    if isinstance(content, dict):
        if kind == "s":
            raise DataError("this file holds one haystack for all questions: use --kind pool")
        return [_pool([content["haystack"]], content["questions"], notes)]
    if kind == "pool":
        return [_pool(content, content, notes)]
    return [_own(entry, notes) for entry in content]


def _pool(haystacks: Iterable[Entry], questions: Iterable[Entry], notes: Notes) -> Haystack:
    """Return all sessions in one store; a text that was published under several ids is stored once."""
    held: dict[str, Session] = {}
    for entry in haystacks:
        for session in _sessions(entry, notes):
            held.setdefault(session.id, session)
    twins = _twins(held.values())
    kept = tuple(session for session in held.values() if session.id not in twins)
    notes["sessions left out of the pool because their text is there under another id"] += len(held) - len(kept)
    return _asked("pool", kept, twins, questions, notes)


def _own(entry: Entry, notes: Notes) -> Haystack:
    held: dict[str, Session] = {}
    for session in _sessions(entry, notes):
        if held.setdefault(session.id, session) is not session:
            notes["sessions left out because their id came twice in one haystack"] += 1
    return _asked(entry["question_id"], tuple(held.values()), _twins(held.values()), [entry], notes)


def _twins(sessions: Iterable[Session]) -> dict[str, str]:
    """Return, for every session that repeats an earlier text, the id of the first session with that text."""
    first: dict[str, str] = {}
    found = {session.id: first.setdefault(session.text, session.id) for session in sessions}
    return {name: other for name, other in found.items() if name != other}


def _asked(
    name: str, sessions: tuple[Session, ...], twins: Mapping[str, str], entries: Iterable[Entry], notes: Notes
) -> Haystack:
    held = {session.id for session in sessions} | set(twins)
    questions = [_question(entry, held, twins, notes) for entry in entries]
    return Haystack(name, sessions, tuple(questions), twins)


def _question(entry: Entry, held: set[str], twins: Mapping[str, str], notes: Notes) -> Question:
    answerable = not entry["question_id"].endswith("_abs")
    right = entry["answer_session_ids"]
    missing = [name for name in right if name not in held]
    if answerable and missing:
        notes["right sessions that are not in the haystack under this id, not counted as right"] += len(missing)
    return Question(
        id=entry["question_id"],
        kind=entry["question_type"],
        text=entry["question"],
        asked_at=_slashed(entry.get("question_date")),
        answerable=answerable,
        sessions=frozenset(twins.get(name, name) for name in right if name in held),
    )


def _sessions(entry: Entry, notes: Notes) -> Iterable[Session]:
    dates = entry.get("haystack_dates") or [None] * len(entry["haystack_session_ids"])
    for name, date, turns in zip(entry["haystack_session_ids"], dates, entry["haystack_sessions"], strict=True):
        said = [(turn["role"], turn["content"]) for turn in turns]
        ids = [f"{name}:{number}" for number in range(len(said))]
        yield from _session(name, _slashed(date), ids, said, notes)


def _session(
    name: str, at: datetime | None, ids: Sequence[str], said: Sequence[tuple[str, str]], notes: Notes
) -> Iterable[Session]:
    """Return a session of the non-empty turns, one second apart, so that their order is preserved."""
    turns = [
        Turn(own, speaker, text, at and at + timedelta(seconds=number))
        for number, (own, (speaker, text)) in enumerate(zip(ids, said, strict=True))
        if text.strip()
    ]
    notes["turns left out because they are empty"] += len(said) - len(turns)
    if turns:
        yield Session(name, tuple(turns))
    else:
        notes["sessions left out because they are empty"] += 1


def _slashed(stamp: str | None) -> datetime | None:
    """Parse a time such as `2023/04/10 (Mon) 23:07`."""
    return _moment(_WEEKDAY.sub(" ", stamp).strip(), "%Y/%m/%d %H:%M") if stamp else None


def _moment(stamp: str, form: str) -> datetime:
    try:
        return datetime.strptime(stamp, form).replace(tzinfo=UTC)
    except ValueError as error:
        raise DataError(f"the date {stamp!r} is not of the form {form}") from error


# -- LoCoMo


def locomo(path: Path) -> Data:
    """Return one haystack per conversation."""
    content, sha256 = load(path)
    notes: Notes = Counter()
    try:
        haystacks = tuple(_conversation(sample, notes) for sample in content)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not in LoCoMo's format: {error!r} is missing or of another sort") from error
    return Data(path.name, sha256, "conversation", haystacks, notes)


def _conversation(sample: Entry, notes: Notes) -> Haystack:
    told = sample["conversation"]
    names = sorted((name for name in told if _SESSION.fullmatch(name)), key=lambda name: int(name.split("_")[1]))
    sessions = [session for name in names for session in _talk(name, told, notes)]
    where = {turn.id: session.id for session in sessions for turn in session.turns}
    last = max((session.at for session in sessions if session.at), default=None)
    asked_at = last and last + timedelta(days=1)
    questions = tuple(
        _locomo_question(f"{sample['sample_id']}:{number}", qa, asked_at, where, notes)
        for number, qa in enumerate(sample["qa"])
    )
    return Haystack(sample["sample_id"], tuple(sessions), questions)


def _talk(name: str, told: Entry, notes: Notes) -> Iterable[Session]:
    stamp = told.get(f"{name}_date_time")
    at = _moment(stamp, "%I:%M %p on %d %B, %Y") if stamp else None
    turns = told[name]
    return _session(name, at, [turn["dia_id"] for turn in turns], [(t["speaker"], _said(t)) for t in turns], notes)


def _said(turn: Entry) -> str:
    """Return the text of a turn, and the description of a picture shared with it."""
    caption = turn.get("blip_caption")
    return f"{turn['text']} [shares {caption}]".strip() if caption else turn["text"]


def _locomo_question(
    name: str, qa: Entry, asked_at: datetime | None, where: Mapping[str, str], notes: Notes
) -> Question:
    answerable = qa["category"] != _ADVERSARIAL
    turns = frozenset(evidence(qa.get("evidence", ()), where, notes if answerable else Counter()))
    return Question(
        id=name,
        kind=CATEGORIES[qa["category"]],
        text=qa["question"],
        asked_at=asked_at,
        answerable=answerable,
        sessions=frozenset(where[turn] for turn in turns),
        turns=turns,
    )


def evidence(told: Iterable[str], known: Mapping[str, str], notes: Notes) -> list[str]:
    """Return the turns that the evidence lists, in any of its spellings: "D8:6; D9:17", "D:11:26", "D1:18 "."""
    found = []
    for text in told:
        names = [f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(text)]
        notes["pieces of evidence that could not be read"] += not names
        notes["pieces of evidence that name a turn which is not there"] += sum(name not in known for name in names)
        found += [name for name in names if name in known]
    return found
