"""What a coding session told, kept: its turns, what they teach, what was shown, and which rules were followed.

The turns are put first; they are known by their ids, so told again nothing is doubled. All that counts something
(rules, their repetition, what was followed) is put in one transaction with the mark of how far the journal was read:
whoever drains it, and whenever they were killed, each event counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ..coding.calls import ToolCall
from ..coding.events import Attendance
from ..coding.session import NOTED, CodingSession, SessionTurn, ShownRules, Signal
from ..reading.local import LocalReader
from ..reading.local_rules import find_choice, word_rule
from ..reading.port import Role, RuleProposal
from ..reading.port import Turn as ReadTurn
from ..text import digest, shorten
from ..types.kinds import MemoryType
from ..types.quoting import quote_output
from ..types.record import Origin, Provenance, Record, Status, Trust
from ..types.rules import Reach, RuleSource
from .admit import build, clean, make_marker
from .context import Engine
from .distil import edits
from .drafts import Draft
from .episodes import Conversation, Said, record
from .follow import judged, verdicts
from .observations import observe_repairs
from .rules import AGENT, Taught, Teaching, teaching
from .transaction import commit

_TITLE_CHARS = 80
_TASK_CHARS = 300
_READER = LocalReader()


@dataclass(frozen=True, slots=True)
class Kept:
    turns: int
    taught: tuple[Taught, ...]
    followed: int
    violated: int
    project: str
    session: str
    observed: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a journal was read. Another file of the same name starts anew."""

    file: str = ""
    offset: int = 0
    transcript: int = 0
    """How far the host's own transcript was read, in bytes."""


def mark_of(engine: Engine, session: str) -> Mark:
    held = engine.store.get([_mark_id(session)])
    return Mark(**held[0].body["value"]) if held else Mark()


def _mark_id(session: str) -> str:
    return f"mrk_journal_{digest(session)}"


def unmark(engine: Engine, session: str) -> None:
    """Forget how far a journal was read, when it is gone."""
    engine.store.delete([_mark_id(session)])


def _make_mark(engine: Engine, session: str, mark: Mark) -> Record:
    held = next(iter(engine.store.get([_mark_id(session)])), None)
    return make_marker(engine, _mark_id(session), {"value": asdict(mark)}, held, project="")


def keep(engine: Engine, story: CodingSession, mark: Mark) -> Kept | None:
    """Take in what the story tells beyond the mark that is held; None when somebody else already did.

    `mark` is how far the story goes.
    """
    since = _since(mark_of(engine, story.session), mark)
    turns = [turn for turn in story.turns if turn.offset > since and turn.text.strip()]
    if turns:
        record(engine, [_conversation(story, turns)])
    taught = teaching(engine, teachings(story, since))
    repairs = [one for one in story.repairs if one.offset > since]

    def attempt() -> tuple[Kept | None, list[Record]]:
        held = mark_of(engine, story.session)
        if _since(held, mark) != since:
            return None, []
        made, records = taught()
        found = _found(engine, story, since, made)
        changed = {one.id: one for one in records}
        rules = [changed.get(one.id, one) for one in _rules(engine, list(found))]
        changed |= {one.id: _one_step(changed, one) for one in judged(engine, rules, found)}
        notes = [_retrieval(engine, story, shown) for shown in story.shown if shown.offset > since and shown.rules]
        followed = sum(found.values())
        observed = observe_repairs(engine, story.session, repairs)
        kept = Kept(
            len(turns), tuple(made), followed, len(found) - followed, story.project, story.session, tuple(observed)
        )
        return kept, [*changed.values(), *observed, *notes, _make_mark(engine, story.session, mark)]

    return commit(engine, attempt)


def _since(held: Mark, mark: Mark) -> int:
    return held.offset if held.file == mark.file else 0


def _one_step(changed: Mapping[str, Record], record: Record) -> Record:
    """Changed and judged in one transaction, it is still one version further."""
    held = changed.get(record.id)
    return record if held is None else replace(record, version=held.version)


# -- what was said


def _conversation(story: CodingSession, turns: Sequence[Any]) -> Conversation:
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


def teachings(story: CodingSession, since: int) -> list[Teaching]:
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


def _attended(story: CodingSession, what: Signal) -> dict[str, Any]:
    return {"session": story.session, "attended": what.attendance is Attendance.PERSON}


def _of_signal(story: CodingSession, signal: Signal) -> Teaching | None:
    """A refusal or an edit says something was wrong, seldom what: it waits until it comes again."""
    if signal.attendance is Attendance.PROGRAM:
        return None
    if signal.name == "denied":
        what = shorten(clean(signal.what or signal.tool).replace("`", "'"), _TASK_CHARS // 2)
        reason = signal.text.rpartition(f"{signal.what}`")[2].lstrip("`: ") if signal.what else signal.text
        return _waiting(
            story, signal, f"Do not try `{what}`: it was not permitted", RuleSource.DENIAL, quote_output(reason)
        )
    found = edits.swap(signal.text, signal.what) if signal.name == "edited" else None
    if found is None:
        return None
    made = _waiting(story, signal, f"Write `{found.new}` rather than `{found.old}`", RuleSource.EDIT)
    trigger = f"writing {found.ending} files" if found.ending else ""
    return replace(made, trigger=trigger, prefer=(found.new,), avoid=(found.old,))


def _waiting(story: CodingSession, signal: Signal, rule: str, source: RuleSource, why: str = "") -> Teaching:
    return Teaching(
        id=signal.id,
        rule=rule,
        why=why,
        reach=Reach.PROJECT,
        source=source,
        said=shorten(clean(signal.text), _TASK_CHARS),
        session=story.session,
        sure=False,
        at=_moment(signal.at),
        metadata=_attended(story, signal),
    )


# -- what became of the rules that were shown


def _found(engine: Engine, story: CodingSession, since: int, made: Sequence[Taught]) -> dict[str, bool]:
    """True for a rule that was followed, False for one that was shown and had to be repeated or was broken."""
    found: dict[str, bool] = {}
    known = _known_from(story)
    rules = _rules(engine, sorted(known)) if known else []
    for answer in _answers(story, since):
        for rule in rules:
            found |= verdicts([rule], [ran.command for ran in answer if ran.offset > known[rule.id]])
    shown = {rule for one in story.shown for rule in one.rules}
    found |= {
        one.record.id: False
        for one in made
        if one.verb in ("repeated", "promoted") and one.record is not None and one.record.id in shown
    }
    return found


def _known_from(story: CodingSession) -> dict[str, int]:
    """From where on each rule that was shown can be followed: told as a command starts, it comes too late for that."""
    known: dict[str, int] = {}
    for shown in story.shown:
        late = shown.where == "PreToolUse"
        started = next((ran.offset for ran in story.calls if ran.offset > shown.offset), 0) if late else 0
        for rule in shown.rules:
            known.setdefault(rule, max(shown.offset, started))
    return known


def _answers(story: CodingSession, since: int) -> list[list[ToolCall]]:
    """What was run in answer to each person's turn, where the answer ends beyond the offset."""
    starts = [one.offset for one in story.heard]
    ends = [turn.offset for turn in story.turns if turn.speaker == "assistant"]
    answers = []
    for place, start in enumerate(starts):
        following = starts[place + 1] if place + 1 < len(starts) else None
        end = next((one for one in ends if one > start and (following is None or one < following)), following)
        if end is not None and end > since:
            answers.append([ran for ran in story.calls if start < ran.offset <= end])
    return answers


def _rules(engine: Engine, ids: Sequence[str]) -> list[Record]:
    return [one for one in engine.store.get(ids) if one.kind == MemoryType.RULE and one.status is Status.ACTIVE]


def _retrieval(engine: Engine, story: CodingSession, shown: ShownRules) -> Record:
    body = clean({"task": shorten(clean(shown.text), _TASK_CHARS), "mode": f"hook:{shown.where}"}) | {
        "shown": list(shown.rules)
    }
    draft = Draft(kind="retrieval", agent=AGENT, session=story.session, body=body, provenance=Provenance(Origin.SYSTEM))
    return build(engine, draft, (), links=tuple(shown.rules), created_at=_moment(shown.at))
