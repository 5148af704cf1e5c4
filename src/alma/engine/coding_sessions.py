"""What a coding session told, kept: its turns, what they teach, what was shown, and which rules were followed.

The turns are put first; they are known by their ids, so told again nothing is doubled. All that counts something
(rules, their repetition, what was followed) is put in one transaction with the mark of how far the journal was read:
whoever drains it, and whenever they were killed, each event counts once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ..coding.events import Attendance
from ..coding.session import NOTED, CodingSession, SessionTurn, Signal
from ..reading.local import LocalReader
from ..reading.local_rules import find_choice, word_rule
from ..reading.port import Role, RuleProposal
from ..reading.port import Turn as ReadTurn
from ..text import digest, shorten
from ..types.kinds import MemoryType
from ..types.record import Origin, Provenance, Record, Status, Trust
from ..types.rules import Reach, RuleSource
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


@dataclass(frozen=True, slots=True)
class StoredSession:
    turns: int
    taught: tuple[Taught, ...]
    followed: int
    violated: int
    project: str
    session: str
    observed: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class JournalMark:
    """How far a journal was read. Another file of the same name starts anew."""

    file: str = ""
    offset: int = 0
    transcript: int = 0
    """How far the host's own transcript was read, in bytes."""


def find_mark(engine: Engine, session: str) -> JournalMark:
    return read_mark(Transaction(engine), session)


def read_mark(tx: Transaction, session: str) -> JournalMark:
    held = tx.find(_mark_id(session))
    return JournalMark(**held.body["value"]) if held else JournalMark()


def _mark_id(session: str) -> str:
    return f"mrk_journal_{digest(session)}"


def forget_mark(engine: Engine, session: str) -> None:
    """Forget how far a journal was read, when it is gone."""
    engine.store.delete([_mark_id(session)])


def store_session(engine: Engine, story: CodingSession, mark: JournalMark) -> StoredSession | None:
    """Take in what the story tells beyond the mark that is held; None when somebody else already did.

    `mark` is how far the story goes.
    """

    def find_start(held: JournalMark) -> int:
        return held.offset if held.file == mark.file else 0

    since = find_start(find_mark(engine, story.session))
    turns = [turn for turn in story.turns if turn.offset > since and turn.text.strip()]
    if turns:
        record_conversations(engine, [_make_conversation(story, turns)])
    rules = prepare_rules(engine, find_teachings(story, since))
    repairs = prepare_repairs(engine, [one for one in story.repairs if one.offset > since])

    def step(tx: Transaction) -> StoredSession | None:
        if find_start(read_mark(tx, story.session)) != since:
            return None
        taught = learn_rules(tx, rules)
        verdicts = _judge_rules(tx, story, since, taught)
        in_force = [one.id for one in tx.read_stored(verdicts) if _is_in_force(one)]
        count_followed(tx, tx.get(in_force), verdicts)
        for shown in story.shown:
            if shown.offset > since and shown.rules:
                task = shorten(clean(shown.text), _TASK_CHARS)
                body = clean({"task": task, "mode": f"hook:{shown.where}"}) | {"shown": list(shown.rules)}
                place: dict[str, Any] = {"agent": AGENT, "session": story.session, "created_at": _moment(shown.at)}
                tx.put(make_record(engine, "retrieval", body, links=tuple(shown.rules), **place))
        observed = record_repairs(tx, story.session, repairs)
        tx.set_marker(_mark_id(story.session), {"value": asdict(mark)}, project="")
        followed = sum(verdicts.values())
        judged = (followed, len(verdicts) - followed)
        return StoredSession(len(turns), tuple(taught), *judged, story.project, story.session, tuple(observed))

    return write(engine, step)


# -- what was said


def _make_conversation(story: CodingSession, turns: Sequence[Any]) -> Conversation:
    first = next((turn.text for turn in story.turns if turn.speaker == "user"), "")
    said = Provenance(Origin.IMPORT, Trust.LEARNED, source=AGENT)
    return Conversation(
        agent=AGENT,
        session=story.session,
        title=shorten(clean(first), _TITLE_CHARS),
        provenance=said,
        turns=tuple(
            Said(speaker=turn.speaker, text=turn.text, at=_moment(turn.at), id=turn.id, provenance=said)
            for turn in turns
        ),
    )


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


# -- what it teaches


def find_teachings(story: CodingSession, since: int) -> list[Teaching]:
    """Return what the events beyond an offset teach, in the order they happened."""
    heard = [one for one in story.heard if one.offset > since]
    proposals = _READER.find_rules([ReadTurn(Role.USER, one.heard) for one in heard])
    candidates = [(heard[one.turn].offset, make_teaching(one, heard[one.turn], story.session)) for one in proposals]
    candidates += [
        (one.offset, (_of_note if one.name == NOTED else _of_signal)(story, one))
        for one in story.signals
        if one.offset > since
    ]
    return [one for _, one in sorted(candidates, key=lambda pair: pair[0]) if one is not None]


def make_teaching(proposal: RuleProposal, heard: SessionTurn, session: str) -> Teaching | None:
    """Return what a reader's proposal teaches; None where a program spoke.

    A proposal is believed at once only if it is sure and a person typed the words.
    """
    if heard.attendance is Attendance.PROGRAM:
        return None
    is_person = heard.attendance is Attendance.PERSON
    return Teaching(
        id=heard.id,
        rule=proposal.rule,
        trigger=proposal.trigger,
        why=proposal.reason,
        reach=proposal.reach,
        source=RuleSource.CORRECTION if proposal.is_correction else RuleSource.PREFERENCE,
        prefer=proposal.prefer,
        avoid=proposal.avoid,
        said=proposal.quote,
        session=session,
        sure=proposal.is_sure and is_person and heard.is_typed,
        at=_moment(heard.at),
        metadata={"session": session, "attended": is_person},
    )


def _of_note(story: CodingSession, note: Signal) -> Teaching | None:
    """A person's explicit note is a rule as written; without words it flags the turn before as a correction."""
    text = note.text.strip() or note.what.strip()
    if note.attendance is Attendance.PROGRAM or not text:
        return None
    proposal = next(iter(_READER.find_rules([ReadTurn(Role.USER, text)])), None)
    prefer, avoid = find_choice(text)
    is_flag = not note.text.strip()
    return Teaching(
        id=note.id,
        rule=shorten(clean(word_rule(text)), _TASK_CHARS) if is_flag else text,
        trigger=proposal.trigger if proposal and is_flag else "",
        why=proposal.reason if proposal and is_flag else "",
        reach=Reach.ALWAYS if proposal and proposal.reach is Reach.ALWAYS else Reach.PROJECT,
        source=RuleSource.NOTE,
        prefer=prefer,
        avoid=avoid,
        said=text,
        session=story.session,
        sure=note.attendance is Attendance.PERSON,
        at=_moment(note.at),
        metadata=_attended(story, note),
    )


def _attended(story: CodingSession, what: Signal | Signal) -> dict[str, Any]:
    return {"session": story.session, "attended": what.attendance is Attendance.PERSON}


def _of_signal(story: CodingSession, signal: Signal) -> Teaching | None:
    """A refusal or an edit says something was wrong, seldom what: it waits until it comes again."""
    if signal.attendance is Attendance.PROGRAM:
        return None
    waiting = Teaching(
        id=signal.id,
        rule="",
        reach=Reach.PROJECT,
        source=RuleSource.DENIAL if signal.name == "denied" else RuleSource.EDIT,
        said=shorten(clean(signal.text), _TASK_CHARS),
        session=story.session,
        sure=False,
        at=_moment(signal.at),
        metadata=_attended(story, signal),
    )
    if signal.name == "denied":
        what = shorten(clean(signal.what or signal.tool).replace("`", "'"), _TASK_CHARS // 2)
        reason = signal.text.rpartition(f"{signal.what}`")[2].lstrip("`: ") if signal.what else signal.text
        return waiting._replace(rule=f"Do not try `{what}`: it was not permitted", why=quote_output(reason))
    pair = _find_swap(signal.text) if signal.name == "edited" else None
    if pair is None:
        return None
    old, new = pair
    _, dot, ending = signal.what.rpartition(".")
    trigger = f"writing .{ending} files" if dot and ending.isalnum() else ""
    return waiting._replace(rule=f"Write `{new}` rather than `{old}`", trigger=trigger, prefer=(new,), avoid=(old,))


def _find_swap(change: str) -> tuple[str, str] | None:
    """Return what a person's edit of the agent's lines (`-` and `+`) replaced, and by what, if it is one small thing.

    A longer rewrite says that something was wrong, and not what; only a swap of a few words can be the beginning of a
    rule, and even that waits until the person makes it again.
    """
    lines = change.splitlines()
    old = [line[1:] for line in lines if line.startswith("-")]
    new = [line[1:] for line in lines if line.startswith("+")]
    if not old or len(old) != len(new):
        return None
    swaps = set()
    for before, after in zip(old, new, strict=True):
        a, b = _PIECE.findall(before), _PIECE.findall(after)
        steps = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        swaps |= {("".join(a[i:j]).strip(), "".join(b[k:m]).strip()) for tag, i, j, k, m in steps if tag != "equal"}
    if len(swaps) != 1:
        return None
    [(first, second)] = swaps
    return (first, second) if first and second and max(len(first), len(second)) <= _SWAP_CHARS else None


# -- what became of the rules that were shown


def _judge_rules(tx: Transaction, story: CodingSession, since: int, taught: Sequence[Taught]) -> dict[str, bool]:
    """Return True for a rule that was followed, False for one that was shown and had to be repeated or was broken."""
    known: dict[str, int] = {}
    """From where on each rule that was shown can be followed: shown as a command starts, it comes too late for that."""
    for shown in story.shown:
        is_late = shown.where == "PreToolUse"
        started = next((ran.offset for ran in story.calls if ran.offset > shown.offset), 0) if is_late else 0
        for rule in shown.rules:
            known.setdefault(rule, max(shown.offset, started))
    rules = [one for one in tx.read_stored(sorted(known)) if _is_in_force(one)]
    starts = [one.offset for one in story.heard]
    ends = [turn.offset for turn in story.turns if turn.speaker == "assistant"]
    verdicts: dict[str, bool] = {}
    for place, start in enumerate(starts):
        # What was run in answer to this turn of a person, where the answer ends beyond the offset.
        following = starts[place + 1] if place + 1 < len(starts) else None
        end = next((one for one in ends if one > start and (following is None or one < following)), following)
        if end is None or end <= since:
            continue
        answer = [ran for ran in story.calls if start < ran.offset <= end]
        for one in rules:
            verdicts |= judge_commands([one], [ran.command for ran in answer if ran.offset > known[one.id]])
    verdicts |= {
        one.record.id: False
        for one in taught
        if one.verb in ("repeated", "promoted") and one.record is not None and one.record.id in known
    }
    return verdicts


def _is_in_force(record: Record) -> bool:
    return record.kind == MemoryType.RULE and record.status is Status.ACTIVE


def judge_commands(rules: Iterable[Record], commands: Sequence[str]) -> dict[str, bool]:
    """Return for each rule that the commands had to do with whether it was followed.

    That is judged by the names that a rule prefers and avoids; one without such names cannot be judged so, and is not.
    """
    verdicts: dict[str, bool] = {}
    commands = [_SPOKEN_OF.sub(r"\1\2 ", command).lower() for command in commands]

    def mentions(command: str, name: str) -> bool:
        return re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", command) is not None

    for rule in rules:
        wanted, unwanted = (
            [str(name).lower() for name in rule.body.get(field, ()) if str(name).strip()]
            for field in ("prefer", "avoid")
        )
        # Named what it should not, and not as a part of what it should: `npm test -- --run` holds `npm test`.
        if any(
            mentions(command, name) and not any(name in good and mentions(command, good) for good in wanted)
            for command in commands
            for name in unwanted
        ):
            verdicts[rule.id] = False
        elif any(mentions(command, name) for command in commands for name in wanted):
            verdicts[rule.id] = True
    return verdicts


def count_followed(tx: Transaction, rules: Iterable[Record], verdicts: Mapping[str, bool]) -> None:
    """Count for each rule whether it was followed. That it was not does not make it less true."""
    now = tx.engine.clock()
    for rule in rules:
        evidence = replace(rule.evidence.with_result(1.0 if verdicts[rule.id] else 0.0, now), last_used=now)
        tx.update(rule, evidence=evidence, updated_at=rule.updated_at)
