"""Stores a coding session: its turns, what they teach, what was shown, and which rules were followed.

The turns are stored first; they are known by their ids, so repeating them stores nothing twice. All that counts
something (rules, their repetition, what was followed) is stored in one transaction with the mark of how far the journal
was read: whichever process drains it, and whenever it is killed, each event counts once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ..coding.events import Attendance
from ..coding.session import NOTED, CodingSession, SessionTurn, Signal
from ..reading.local import LocalReader
from ..reading.local_rules import find_choice, word_rule
from ..reading.port import Role, RuleProposal, Turn
from ..text import digest, shorten
from ..types.kinds import Reach, RuleSource
from ..types.record import Origin, Provenance, Record, Status, Trust
from ..types.speech import quote_output
from .admit import clean, make_record
from .context import Engine
from .episodes import Conversation, Said, record_conversations
from .observations import prepare_repairs, record_repairs
from .rules import AGENT, Taught, Teaching, learn_rules, prepare_rules
from .transaction import Transaction, write

_TITLE_CHARS = 80
_TASK_CHARS = 300
_SWAP_CHARS = 60
_READER = LocalReader()
_PIECE = re.compile(r"[\w.@/-]+|\s+|[^\w\s]")
# A message and what is searched for or printed are spoken of, not run.
_SPOKEN_OF = re.compile(
    r"""((?<=\s)(?:-m|-am|--message)[= ]?)\s*(?:'[^']*'|"[^"]*")|(\b(?:echo|printf|grep|rg|ag)\b)[^|;&\n]*""",
)


class StoredSession(NamedTuple):
    turns: int
    taught: list[Taught]
    followed: int
    violated: int
    observed: list[Record]


class JournalMark(NamedTuple):
    """How far a journal was read. Another file of the same name starts anew."""

    file: str = ""
    offset: int = 0
    transcript: int = 0  # How far the host's own transcript was read, in bytes.


def mark_id(session: str) -> str:
    return f"mrk_journal_{digest(session)}"


def find_mark(engine: Engine, session: str, tx: Transaction | None = None) -> JournalMark:
    held = (tx or Transaction(engine)).find(mark_id(session))
    return JournalMark(**held.body["value"]) if held else JournalMark()


def store_session(engine: Engine, story: CodingSession, mark: JournalMark) -> StoredSession | None:
    """Take in what the story tells beyond the mark that is stored; None when somebody else already did.

    `mark` is how far the story goes.
    """
    stored = find_mark(engine, story.session)
    since = stored.offset if stored.file == mark.file else 0
    turns = [turn for turn in story.turns if turn.offset > since and turn.text.strip()]
    if turns:
        source = Provenance(Origin.IMPORT, Trust.LEARNED, source=AGENT)
        first = next((turn.text for turn in story.turns if turn.speaker == "user"), "")
        said = tuple(
            Said(speaker=turn.speaker, text=turn.text, at=_moment(turn.at), id=turn.id, provenance=source)
            for turn in turns
        )
        title = shorten(clean(first), _TITLE_CHARS)
        conversation = Conversation(agent=AGENT, session=story.session, title=title, provenance=source, turns=said)
        record_conversations(engine, [conversation])
    rules = prepare_rules(engine, find_teachings(story, since))
    repairs = prepare_repairs(engine, [one for one in story.repairs if one.offset > since])

    def step(tx: Transaction) -> StoredSession | None:
        if find_mark(engine, story.session, tx) != stored:
            return None
        taught = learn_rules(tx, rules)
        verdicts = _judge_rules(tx, story, since, taught)
        count_followed(tx, verdicts)
        for shown in story.shown:
            if shown.offset > since and shown.rules:
                task = shorten(clean(shown.text), _TASK_CHARS)
                body = {"task": task, "mode": f"hook:{shown.where}", "shown": list(shown.rules)}
                place: dict[str, Any] = {"agent": AGENT, "session": story.session, "created_at": _moment(shown.at)}
                tx.put(make_record(engine, "retrieval", body, links=tuple(shown.rules), **place))
        observed = record_repairs(tx, story.session, repairs)
        tx.set_marker(mark_id(story.session), {"value": mark._asdict()}, project="")
        followed = sum(verdicts.values())
        return StoredSession(len(turns), taught, followed, len(verdicts) - followed, observed)

    return write(engine, step)


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


# -- what it teaches


def find_teachings(story: CodingSession, since: int) -> list[Teaching]:
    """Return what the events beyond an offset teach, in the order they happened; nothing where a program spoke."""
    heard = [one for one in story.heard if one.offset > since]
    teachings: list[tuple[int, Teaching | None]] = []
    for proposal in _READER.find_rules([Turn(Role.USER, one.heard) for one in heard]):
        turn = heard[proposal.turn]
        teachings.append((turn.offset, make_teaching(proposal, turn, story.session)))
    for signal in story.signals:
        if signal.offset > since and signal.attendance is not Attendance.PROGRAM:
            read = _read_note if signal.name == NOTED else _read_signal
            teachings.append((signal.offset, read(signal, story.session)))
    return [one for _, one in sorted(teachings, key=lambda pair: pair[0]) if one is not None]


def make_teaching(proposal: RuleProposal, heard: SessionTurn, session: str) -> Teaching | None:
    """Return what a reader's proposal teaches; None where a program spoke.

    A proposal is believed at once only if it is sure and a person typed the words.
    """
    if heard.attendance is Attendance.PROGRAM:
        return None
    return Teaching(
        **_describe_source(heard, session),
        rule=proposal.rule,
        trigger=proposal.trigger,
        why=proposal.reason,
        reach=proposal.reach,
        source=RuleSource.CORRECTION if proposal.is_correction else RuleSource.PREFERENCE,
        prefer=proposal.prefer,
        avoid=proposal.avoid,
        said=proposal.quote,
        sure=proposal.is_sure and heard.attendance is Attendance.PERSON and heard.is_typed,
    )


def _describe_source(event: SessionTurn | Signal, session: str) -> dict[str, Any]:
    """Return the fields of a teaching that say where it comes from."""
    metadata = {"session": session, "attended": event.attendance is Attendance.PERSON}
    return {"id": event.id, "session": session, "at": _moment(event.at), "metadata": metadata}


def _read_note(note: Signal, session: str) -> Teaching | None:
    """A person's explicit note is a rule as written; without words it flags the turn before as a correction."""
    text = note.text.strip() or note.what.strip()
    if not text:
        return None
    proposal = next(iter(_READER.find_rules([Turn(Role.USER, text)])), None)
    is_flag = not note.text.strip()
    prefer, avoid = find_choice(text)
    return Teaching(
        **_describe_source(note, session),
        rule=shorten(clean(word_rule(text)), _TASK_CHARS) if is_flag else text,
        trigger=proposal.trigger if proposal and is_flag else "",
        why=proposal.reason if proposal and is_flag else "",
        reach=Reach.ALWAYS if proposal and proposal.reach is Reach.ALWAYS else Reach.PROJECT,
        source=RuleSource.NOTE,
        prefer=prefer,
        avoid=avoid,
        said=text,
        sure=note.attendance is Attendance.PERSON,
    )


def _read_signal(signal: Signal, session: str) -> Teaching | None:
    """A refusal or an edit says something was wrong, seldom what: it waits until it comes again."""
    fields: dict[str, Any]
    if signal.name == "denied":
        what = shorten(clean(signal.what or signal.tool).replace("`", "'"), _TASK_CHARS // 2)
        reason = signal.text.rpartition(f"{signal.what}`")[2].lstrip("`: ") if signal.what else signal.text
        rule = f"Do not try `{what}`: it was not permitted"
        fields = {"rule": rule, "why": quote_output(reason), "source": RuleSource.DENIAL}
    elif signal.name == "edited" and (pair := _find_swap(signal.text)):
        old, new = pair
        _, dot, ending = signal.what.rpartition(".")
        trigger = f"writing .{ending} files" if dot and ending.isalnum() else ""
        fields = {"rule": f"Write `{new}` rather than `{old}`", "trigger": trigger, "source": RuleSource.EDIT}
        fields |= {"prefer": (new,), "avoid": (old,)}
    else:
        return None
    said = shorten(clean(signal.text), _TASK_CHARS)
    return Teaching(**_describe_source(signal, session), reach=Reach.PROJECT, said=said, sure=False, **fields)


def _find_swap(change: str) -> tuple[str, str] | None:
    """Return what a person's edit of the agent's lines (`-` and `+`) replaced, and by what, if it is one small thing.

    A longer rewrite says that something was wrong, and not what.
    """
    old, new = ([line[1:] for line in change.splitlines() if line.startswith(sign)] for sign in "-+")
    swaps = set()
    for before, after in zip(old, new, strict=False):
        a, b = _PIECE.findall(before), _PIECE.findall(after)
        steps = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        swaps |= {("".join(a[i:j]).strip(), "".join(b[k:m]).strip()) for tag, i, j, k, m in steps if tag != "equal"}
    first, second = swaps.pop() if len(swaps) == 1 and len(old) == len(new) else ("", "")
    return (first, second) if first and second and max(len(first), len(second)) <= _SWAP_CHARS else None


# -- what became of the rules that were shown


def _judge_rules(tx: Transaction, story: CodingSession, since: int, taught: Sequence[Taught]) -> dict[str, bool]:
    """Return True for a rule that was followed, False for one that was shown and had to be repeated or was broken."""
    # From where on each rule that was shown can be followed: shown as a command starts, it comes too late for that.
    known: dict[str, int] = {}
    for shown in story.shown:
        is_late = shown.where == "PreToolUse"
        started = next((ran.offset for ran in story.calls if ran.offset > shown.offset), 0) if is_late else 0
        for rule in shown.rules:
            known.setdefault(rule, max(shown.offset, started))
    # What was run in the answers that ended since.
    ends = [turn.offset for turn in story.turns if turn.speaker == "assistant" or turn.heard]
    start, end = max((one for one in ends if one <= since), default=0), max(ends, default=0)
    calls = [ran for ran in story.calls if start < ran.offset <= end]
    repeated = {one.record.id for one in taught if one.record and one.verb in ("repeated", "promoted")}
    verdicts: dict[str, bool] = {}
    for one in tx.read_stored(sorted(known)):
        if one.kind == "rule" and one.status is Status.ACTIVE:
            verdict = judge_rule(one, [ran.command for ran in calls if ran.offset > known[one.id]])
            if verdict is not None or one.id in repeated:
                verdicts[one.id] = verdict is True and one.id not in repeated
    return verdicts


def judge_rule(rule: Record, commands: Iterable[str]) -> bool | None:
    """Return whether commands keep to a rule, by the names that it prefers and avoids; None where neither is named."""
    wanted, unwanted = ([str(name).lower() for name in rule.body[field] if name] for field in ("prefer", "avoid"))
    verdict = None
    for command in commands:
        text = _SPOKEN_OF.sub(r"\1\2 ", command).lower()
        named = {name for name in (*wanted, *unwanted) if re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", text)}
        # `npm test` is part of the wanted `npm test -- --run`.
        if any(name in named and not any(name in good for good in named.intersection(wanted)) for name in unwanted):
            return False
        verdict = True if named.intersection(wanted) else verdict
    return verdict


def count_followed(tx: Transaction, verdicts: Mapping[str, bool]) -> None:
    """Count for each rule whether it was followed. That it was not does not make it less true."""
    now = tx.engine.clock()
    for rule in tx.get(verdicts):
        evidence = replace(rule.evidence.with_result(float(verdicts[rule.id]), now), last_used=now)
        tx.update(rule, evidence=evidence, updated_at=rule.updated_at)
