"""Exchanges as evidence: what the agent had done, the person's words, and what the agent did then.

Evidence is shown word for word where nothing was distilled from it yet, so it must be no channel for others. The
person's half is what they typed, without pastes and quotations. The agent's half is what it did: commands that it ran
and text that it wrote into files, and sentences of its messages that name nothing else. What also came from outside (a
tool's output, a page, a file, a paste, another agent) is left out of it, and both halves pass the screens that rules
pass. An exchange that fails them is stored and not shown.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache

from ..coding.events import Attendance, cut_text
from ..coding.exchanges import Account, Deed
from ..coding.session import CodingSession, Exchange
from ..reading.local import remove_pasted
from ..reading.teaching import rate_turn
from ..text import shorten, stems
from ..types.record import LIVE, Origin, Provenance, Record, Status, Trust
from ..word_prints import list_words, print_word
from .accounts import LOOKING, list_added_lines
from .admit import clean, draft_record, embed_records
from .context import Engine
from .escape import find_suspicion
from .literals import find_literals, is_vocabulary
from .rules import AGENT, EVIDENCE_ENDS, ReaderFinding, exchange_id, list_turns
from .safety import find_harm
from .transaction import Transaction
from .typed_statements import is_ordinary, remove_quotations

EXCHANGE = "exchange"
BEFORE_CHARS = 170
PERSON_CHARS = 300
THEN_CHARS = 270
_DEED_CHARS = 220
_LAST_DEEDS = 5
"""How many of the last deeds before a turn it may name."""
_MESSAGE_CHARS = 200
_LONGEST_TURN = 1200
_QUERY_CHARS = 2000
_READABLE = 0.8
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_SIGN = re.compile(r"[\d_./:@$~%#&+\\-]")
_JOINT = re.compile(r"[:@#&?=]")
_NAME_JOINT = re.compile(r"[:@#&?=./]")
_CLOSING = re.compile(
    r"\s*(?:(?:git|jj|hg) (?:add|commit|push|stash|pull|fetch|checkout|switch)\b"
    r"|\w+ (?:pr|mr|submit|land|publish)\b|mkdir\b|touch\b)"
)
"""Commands that begin or end most tasks."""
_LEAST_HALF = 4
_MOST_NAME_PARTS = 8
NOT_ATTENDED = "no person is known to have typed it"
NO_WORDS = "nothing is left of it without what was pasted"


def prepare_exchanges(engine: Engine, story: CodingSession, since: int, outside: OutsideWords) -> list[Record]:
    """Return the records of the exchanges that began or went on after an offset of the journal."""
    drafts = []
    for exchange in story.exchanges:
        is_new = exchange.turn.offset > since or exchange.then.offset > since
        if is_new and exchange.turn.user_words.strip():
            drafts.append(_draft_exchange(engine, story, exchange, outside))
    return embed_records(engine, drafts)


def record_exchanges(tx: Transaction, drafts: Sequence[Record]) -> list[Record]:
    """Store exchanges, and what was added to known ones. One that was deleted stays away."""
    stored = []
    for draft in drafts:
        known = tx.find(draft.id)
        if known is None:
            if not tx.is_buried(draft.key):
                stored.append(tx.put(draft))
        elif any(known.body.get(name) != value for name, value in draft.body.items()):
            stored.append(_update_exchange(tx, known, draft))
    return stored


def _update_exchange(tx: Transaction, known: Record, draft: Record) -> Record:
    """Store what was added to an exchange. What was decided about it holds on."""
    body = {**known.body, **draft.body}
    changes = {name: getattr(draft, name) for name in ("text", "vectors", "embedder", "status")}
    if known.body["concern"] in EVIDENCE_ENDS:
        body["concern"], changes["status"] = known.body["concern"], known.status
    return tx.update(known, body=body, **changes)


def mark_read(tx: Transaction, turns: Iterable[str], taught: Iterable[Record]) -> None:
    """Note what a model found in the exchanges of these turns."""
    found: dict[str, ReaderFinding] = {}
    order = list(ReaderFinding)
    for rule in taught:
        if rule.status in LIVE:
            result = _judge_finding(rule)
            for turn in list_turns(rule):
                found[turn] = max(result, found.get(turn, result), key=order.index)
    for record in tx.get([exchange_id(turn) for turn in turns]):
        result = found.get(record.body["turn"], ReaderFinding.NOTHING)
        tx.update(record, body={**record.body, "found": str(result)}, updated_at=record.updated_at)


def _judge_finding(rule: Record) -> ReaderFinding:
    if rule.session:
        return ReaderFinding.MOMENTARY
    if rule.status is Status.CANDIDATE:
        return ReaderFinding.WAITING
    return ReaderFinding.PARTLY if rule.body["metadata"].get("partial") else ReaderFinding.RULE


def find_near_exchanges(engine: Engine, text: str, limit: int) -> list[tuple[str, float]]:
    """Return the ids of this project's exchanges that are nearest to a text in meaning, with the cosine, nearest first.

    None if the embedder cannot read the text: to a model of English all texts in other letters look alike.
    """
    if sum(map(str.isascii, text)) < _READABLE * len(text):
        return []
    where = engine.where(EXCHANGE, agents={AGENT}, statuses={Status.ACTIVE})
    [vectors] = engine.encode([(text[:_QUERY_CHARS],)])
    cosines: dict[str, float] = {}
    for vector in vectors:
        for hit in engine.store.nearest(vector, where, limit):
            cosines[hit.id] = max(hit.score, cosines.get(hit.id, -1.0))
    nearest = sorted(cosines.items(), key=lambda item: (-item[1], item[0]))
    return nearest[:limit]


def _draft_exchange(engine: Engine, story: CodingSession, exchange: Exchange, outside: OutsideWords) -> Record:
    turn = exchange.turn
    person = find_own_words(turn.user_words)
    likely = _rate_exchange(person, exchange)
    concern = ""
    if turn.attendance is not Attendance.PERSON or not turn.is_typed:
        concern = turn.doubt or NOT_ATTENDED
    elif not person:
        concern = NO_WORDS
    else:
        concern = _find_concern(person)
    topics = stems(person)
    before = _describe_account(exchange.before, topics, outside, BEFORE_CHARS, is_end=True)
    then = _describe_account(exchange.then, topics, outside, THEN_CHARS, is_end=False)
    body = {
        "turn": turn.id,
        "number": exchange.number,
        "before": before,
        "person": cut_text(person, PERSON_CHARS, 0.35),
        "then": then,
        "likely": round(likely, 3),
        "concern": concern,
        "host": story.host,
    }
    draft = draft_record(
        engine,
        EXCHANGE,
        body,
        agent=AGENT,
        session=story.session,
        provenance=Provenance(Origin.IMPORT, Trust.LEARNED, source=AGENT),
        id=exchange_id(turn.id),
        created_at=datetime.fromtimestamp(turn.at, UTC),
    )
    return replace(draft, status=Status.RETIRED) if concern else draft


def _rate_exchange(person: str, exchange: Exchange) -> float:
    """Return how likely an exchange teaches something that matters in later sessions."""
    deeds = [deed.command or deed.path for deed in exchange.before.deeds[-_LAST_DEEDS:]]
    said = exchange.before.messages[-1] if exchange.before.messages else ""
    answer = "\n".join(exchange.then.messages)
    return rate_turn(person, number=exchange.number, before=said, deeds="\n".join(deeds), then=answer)


# -- the person's half


def find_own_words(text: str) -> str:
    """Return what a person typed themselves: without pastes, quotations, and what follows a line that announces one."""
    own = []
    lines = remove_pasted(text).splitlines()
    for number, line in enumerate(lines):
        own.append(line)
        if line.rstrip().endswith((":", "：")) and any(rest.strip() for rest in lines[number + 1 :]):
            break
    words = " ".join(remove_quotations("\n".join(own)).split())
    return words if len(words) <= _LONGEST_TURN else ""


def _find_concern(text: str) -> str:
    """Return why a text must not be shown: it asks for harm, or reads like an instruction to the model."""
    if find_suspicion(text):
        return "reads like an instruction"
    return find_harm(text)


# -- the agent's half


class OutsideWords:
    """Tells which words of an agent came from outside before the agent used them, and the person did not type."""

    def __init__(self, story: CodingSession) -> None:
        self._outside = story.outside
        self._typed: set[bytes] = set()
        self._own: dict[bytes, int] = {}
        self._spoken: set[bytes] = set()
        self._firsts: dict[bytes, int | None] = {}
        accounts: list[Account] = []
        for exchange in story.exchanges:
            accounts += [exchange.before, exchange.then]
            turn = exchange.turn
            if turn.attendance is Attendance.PERSON and turn.is_typed:
                typed = find_own_words(turn.user_words or turn.text)
                self._typed.update(map(print_word, _list_names(typed)))
        for account in accounts:
            for message in account.messages:
                self._spoken.update(map(print_word, _list_names(message)))
            for deed in account.deeds:
                for name in _list_names(" ".join((deed.command, deed.path, deed.written))):
                    self._own.setdefault(print_word(name), deed.offset)

    def is_foreign(self, token: str, offset: int) -> bool:
        """Return whether a word of a command or an edit names something that came from outside.

        It is read more strictly than for evidence: what comes of it is shown as agreed. Numbers count.
        """
        for name in _list_names(token):
            is_name = len(name) > 1 and (name.isdigit() or _is_telling(name))
            if is_name and self._is_outside(name, offset):
                return True
        return False

    def is_foreign_word(self, word: str) -> bool:
        """Return whether a word that a reader uses after the session came from outside."""
        return self._is_outside(word.casefold(), sys.maxsize)

    def is_spoken(self, word: str) -> bool:
        """Return whether the agent used a word in a message."""
        return print_word(word.casefold()) in self._spoken

    def includes(self, text: str, offset: int) -> bool:
        """Return whether a text of the agent at an offset names something that came from outside."""
        return any(self._is_outside(name, offset) for name in _list_names(text) if _is_telling(name))

    def is_own(self, word: str) -> bool:
        """Return whether the person typed a word, or the agent used it in something that it did."""
        mark = print_word(word)
        return mark in self._typed or mark in self._own

    def _is_outside(self, name: str, offset: int) -> bool:
        """Return whether a name, or two names that it is joined of, came from outside first."""
        mark = print_word(name)
        first = self._find_first(mark)
        if first is None or first >= offset:
            first = self._find_first_halves(name, offset)
        if first is None:
            first = self._outside.cut_at
        if first is None or first >= offset or mark in self._typed:
            return False
        return self._own.get(mark, offset) > first

    def _find_first(self, mark: bytes) -> int | None:
        if mark not in self._firsts:
            self._firsts[mark] = self._outside.find_first(mark)
        return self._firsts[mark]

    def _find_first_halves(self, name: str, offset: int) -> int | None:
        """Return where two names that make up this one had both come from outside; None unless one tells something."""
        for middle in range(_LEAST_HALF, len(name) - _LEAST_HALF + 1) if name.isalpha() else ():
            halves = name[:middle], name[middle:]
            places = [self._find_first(print_word(half)) for half in halves]
            known = [place for place in places if place is not None and place < offset]
            if len(known) == len(halves) and any(map(_is_telling, halves)):
                return max(known)
        return None


@lru_cache(maxsize=4096)
def _list_names(text: str) -> tuple[str, ...]:
    """Return the words of a text and the names that they are made of.

    These are a flag without its dashes, the host of an address, the package in front of a version, and the parts of a
    longer name: "unlock-vault" of "unlock-vault-now".
    """
    names: dict[str, None] = {}
    for word in list_words(text):
        found = [word, word.lstrip("-"), *_JOINT.split(word)]
        first = word.partition("/")[0]
        found.append(first if "." in first else "")
        # Of a path, the folders are no names; of an address or a package, they are.
        if "/" not in word or "@" in word or "://" in word:
            found += [part for part in _NAME_JOINT.split(word) if len(part) > 3]
        parts = word.strip("-").split("-")
        if 2 < len(parts) <= _MOST_NAME_PARTS:
            for start in range(len(parts) - 1):
                found += ["-".join(parts[start:end]) for end in range(start + 2, len(parts) + 1)]
        names.update(dict.fromkeys(filter(None, found)))
    return tuple(names)


@lru_cache(maxsize=8192)
def _is_telling(word: str) -> bool:
    """Return whether a word may name something: not an ordinary word, a common program or a small number."""
    if word.isdigit():
        return len(word) > 2
    return _SIGN.search(word) is not None or not (is_ordinary(word) or is_vocabulary(word))


def _describe_account(
    account: Account, topics: frozenset[str], outside: OutsideWords, most: int, *, is_end: bool
) -> str:
    """Return what the agent did and said in at most `most` characters: the end of it, or the beginning.

    `topics` are the stems of the person's words. The most telling deeds come first into the room, whatever the order.
    """
    ranks = _rank_deeds(account.deeds, topics)
    places = range(len(ranks))
    chosen: dict[int, str] = {}
    room = most
    for place in sorted(reversed(places) if is_end else places, key=ranks.__getitem__):
        text = _describe_deed(account.deeds[place], outside)
        # The screens take time, so what has no room is not screened.
        if text and text not in chosen.values() and len(text) + 2 <= room and not _is_screened_out(text):
            chosen[place] = text
            room -= len(text) + 2
    done = "; ".join(chosen[place] for place in sorted(chosen))
    said = _describe_messages(account, outside, min(room, _MESSAGE_CHARS), is_end=is_end)
    return " ".join(filter(None, (f"[{done}]" if done else "", said)))


def _rank_deeds(deeds: Sequence[Deed], topics: frozenset[str]) -> list[int]:
    """Return how early each deed is to be named: 0 is first.

    First come deeds that share words with the person, and a command that worked after another of the same program had
    failed. Last come failures that were repaired, and before them steps that end any task, such as a commit.
    """
    first_failed: dict[str, int] = {}
    last_worked: dict[str, int] = {}
    for place, deed in enumerate(deeds):
        if deed.ok:
            last_worked[_find_program(deed.command)] = place
        else:
            first_failed.setdefault(_find_program(deed.command), place)
    ranks: list[int] = []
    for place, deed in enumerate(deeds):
        program = _find_program(deed.command)
        is_repair = deed.ok and bool(program) and first_failed.get(program, place) < place
        is_named = not topics.isdisjoint(stems(f"{deed.command} {deed.path} {deed.written}"))
        if not deed.ok:
            ranks.append(3 if last_worked.get(program, -1) > place else 1)
        elif is_repair or is_named:
            ranks.append(0)
        else:
            ranks.append(2 if _CLOSING.match(deed.command) else 1)
    return ranks


def _find_program(command: str) -> str:
    """Return the program of a command; empty for an edit."""
    return command.split(maxsplit=1)[0] if command.strip() else ""


def _describe_deed(deed: Deed, outside: OutsideWords) -> str:
    """Return a deed in words; empty for one that only looked at something, or that came from outside."""
    if deed.path:
        lines = _list_written_lines(deed, outside)
        if not lines or not deed.ok:
            return ""
        path = "a file" if outside.includes(deed.path, deed.offset) else f"`{_quote(deed.path)}`"
        text = f"wrote in {path}: `{_quote(' ⏎ '.join(lines))}`"
    else:
        command = " ".join(deed.command.split())
        if len(command) > _DEED_CHARS or LOOKING.match(command) or outside.includes(command, deed.offset):
            return ""
        text = f"ran `{_quote(command)}`{'' if deed.ok else ', which failed'}"
    return str(clean(text))


def _is_screened_out(text: str) -> bool:
    return bool(_find_concern(text.replace("`", "")) or _find_concern(text))


def _list_written_lines(deed: Deed, outside: OutsideWords) -> list[str]:
    """Return the lines that an edit added, as many as may be shown."""
    lines = []
    room = _DEED_CHARS - len(deed.path) - 12
    for line in list_added_lines(deed):
        text = line.strip()
        if outside.includes(text, deed.offset):
            continue
        if len(text) + 3 > room:
            break
        lines.append(text)
        room -= len(text) + 3
    return lines


def _quote(text: str) -> str:
    return text.replace("`", "'")


def _describe_messages(account: Account, outside: OutsideWords, most: int, *, is_end: bool) -> str:
    """Return the sentences of the agent's messages at the end, or the beginning, that may be shown."""
    sentences = [
        sentence
        for message in account.messages
        for sentence in _SENTENCE_END.split(remove_pasted(message))
        if _may_show_sentence(sentence, account, outside)
    ]
    chosen: list[str] = []
    room = most
    for sentence in reversed(sentences) if is_end else sentences:
        text = shorten(sentence, 160)
        if len(text) + 1 > room:
            break
        chosen.append(text)
        room -= len(text) + 1
    if is_end:
        chosen.reverse()
    return str(clean(" ".join(chosen)))


def _may_show_sentence(sentence: str, account: Account, outside: OutsideWords) -> bool:
    if not sentence.strip() or outside.includes(sentence, account.offset + 1):
        return False
    if any(not outside.is_own(word) for word in _list_literal_words(sentence)):
        return False
    return not _find_concern(sentence)


def _list_literal_words(text: str) -> Iterator[str]:
    """Yield the telling words of the literals in a text."""
    for literal in find_literals(text):
        for word in list_words(" ".join(literal.words)):
            if _is_telling(word):
                yield word
