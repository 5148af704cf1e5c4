"""Store a coding session: its turns, what they teach, what was shown and followed, and what a model says about it.

The turns are stored first; they are known by their ids, so repeating them stores nothing twice. All that counts
something (rules, their repetition, what was followed) is stored in one transaction with the mark of how far the journal
was read: whichever process drains it, and whenever it is killed, each event counts once.

A model proposes. `ModelReader` has checked that its quote occurs in the person's own words. Here a proposal refines the
rule that the local reader made of the same turn, repeats or replaces a rule that is known, or becomes a new rule. It is
stated if the person typed its literals, and agreed if they accepted the deeds of the agent that have the others; else
it waits. All changes of one reading are stored in one transaction with the mark of how far the session was read.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple

from ..coding.events import Attendance
from ..coding.session import NOTED, CodingSession, Exchange, SessionTurn, Signal
from ..ports import Model
from ..reading.local import LocalReader
from ..reading.local_rules import find_choice, is_worth_reading, word_rule
from ..reading.model import ModelReader
from ..reading.port import Repair, Role, RuleProposal, SpokenTurn, StoredText, Verdict
from ..reading.replies import ReplyKind, is_general_question, read_reply
from ..text import digest, is_common, shorten, stems
from ..types.kinds import EVERYWHERE, LASTING, Basis, Reach, RuleSource
from ..types.query import Where
from ..types.record import LIVE, Origin, Provenance, Record, Status, Trust
from ..types.speech import quote_output
from .acceptance import AcceptanceReader
from .accounts import describe_part, is_persons, list_exchanges
from .admit import clean, key_of, make_record, reword
from .basis import ProposalBasis, collect_words, find_basis, remove_foreign
from .context import Engine
from .episodes import Conversation, TurnDraft, record_conversations
from .escape import find_suspicion
from .exchanges import OutsideWords, mark_read, prepare_exchanges, record_exchanges
from .literals import SessionWords, find_untyped
from .observations import (
    draft_observation,
    explain_observation,
    find_observation,
    prepare_repairs,
    record_repairs,
)
from .rules import (
    AGENT,
    RULE_CHARS,
    Taught,
    Teaching,
    contradicts,
    find_similar_rules,
    is_copy,
    learn_rules,
    prepare_rules,
    share_words,
    supersede_rules,
)
from .safety import find_harm
from .transaction import Transaction, write
from .typed_statements import is_limited, read_turn

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
    """The result of storing a session: how many turns, what they taught, and the observations that changed."""

    turns: int
    taught: list[Taught]
    observed: list[Record]


class JournalMark(NamedTuple):
    """How far a journal was read. Another file of the same name is read from its beginning."""

    file: str = ""
    offset: int = 0
    transcript: int = 0  # How far the host's own transcript was read, in bytes.


def mark_id(session: str) -> str:
    """Return the id of the record that marks how far a session's journal was read."""
    return f"mrk_journal_{digest(session)}"


def find_mark(engine: Engine, session: str, tx: Transaction | None = None) -> JournalMark:
    """Return how far a session's journal was read; the beginning if it was not read yet."""
    record = (tx or Transaction(engine)).find(mark_id(session))
    return JournalMark(**record.body["value"]) if record else JournalMark()


def store_session(engine: Engine, story: CodingSession, mark: JournalMark) -> StoredSession | None:
    """Store the part of a session after the stored mark; return None if another process already did.

    `mark` is the end of that part.
    """
    stored = find_mark(engine, story.session)
    since = stored.offset if stored.file == mark.file else 0
    turns = [turn for turn in story.turns if turn.offset > since and turn.text.strip()]
    if turns:
        source = Provenance(Origin.IMPORT, Trust.LEARNED, source=AGENT)
        first = next((turn.text for turn in story.turns if turn.speaker == "user"), "")
        drafts = tuple(
            TurnDraft(speaker=turn.speaker, text=turn.text, at=_moment(turn.at), id=turn.id, provenance=source)
            for turn in turns
        )
        title = shorten(clean(first), _TITLE_CHARS)
        conversation = Conversation(
            agent=AGENT, session=story.session, title=title, provenance=source, turns=drafts, metadata=_name_host(story)
        )
        record_conversations(engine, [conversation])
    rules = prepare_rules(engine, find_teachings(story, since))
    fresh_repairs = [repair for repair in story.repairs if repair.offset > since]
    outside = OutsideWords(story)
    repairs = prepare_repairs(engine, fresh_repairs, outside.is_foreign)
    exchanges = prepare_exchanges(engine, story, since, outside)

    def step(tx: Transaction) -> StoredSession | None:
        if find_mark(engine, story.session, tx) != stored:
            return None
        taught = learn_rules(tx, rules)
        count_followed(tx, _judge_rules(tx, story, since, taught))
        for display in story.shown_rules:
            if display.offset > since and display.rules:
                task = shorten(clean(display.text), _TASK_CHARS)
                body = {"task": task, "mode": f"hook:{display.where}", "shown": list(display.rules)}
                place: dict[str, Any] = {"agent": AGENT, "session": story.session, "created_at": _moment(display.at)}
                tx.put(make_record(engine, "retrieval", body, links=tuple(display.rules), **place))
        observed = record_repairs(tx, story.session, repairs)
        record_exchanges(tx, exchanges)
        tx.set_marker(mark_id(story.session), {"value": mark._asdict()}, project="")
        return StoredSession(len(turns), taught, observed)

    return write(engine, step)


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


# -- what it teaches


def find_teachings(story: CodingSession, since: int) -> list[Teaching]:
    """Return what the events beyond an offset teach, in the order they happened; nothing where a program spoke."""
    turns = [one for one in story.user_turns if one.offset > since]
    teachings: list[tuple[int, Teaching | None]] = []
    for proposal in _READER.find_rules([SpokenTurn(Role.USER, one.user_words) for one in turns]):
        turn = turns[proposal.turn]
        teachings.append((turn.offset, make_teaching(proposal, turn, story.session)))
    for signal in story.signals:
        if signal.offset > since and signal.attendance is not Attendance.PROGRAM:
            read = _read_note if signal.name == NOTED else _read_signal
            teachings.append((signal.offset, read(signal, story.session)))
    ordered = [one for _, one in sorted(teachings, key=lambda pair: pair[0]) if one is not None]
    return [one._replace(metadata={**one.metadata, **_name_host(story)}) for one in ordered]


def _name_host(story: CodingSession) -> dict[str, str]:
    """Return the metadata that names the coding agent of a session."""
    return {"host": story.host} if story.host else {}


def make_teaching(proposal: RuleProposal, turn: SessionTurn, session: str) -> Teaching | None:
    """Return what a reader's proposal teaches; None where a program spoke.

    A proposal is believed at once only if it is sure and a person typed the words.
    """
    if turn.attendance is Attendance.PROGRAM:
        return None
    names = ("rule", "trigger", "reach", "prefer", "avoid")
    return Teaching(
        **_describe_source(turn, session),
        **{name: getattr(proposal, name) for name in names},
        why=proposal.reason,
        source=RuleSource.CORRECTION if proposal.is_correction else RuleSource.PREFERENCE,
        said=proposal.quote,
        sure=proposal.is_sure and turn.attendance is Attendance.PERSON and turn.is_typed,
    )


def _describe_source(event: SessionTurn | Signal, session: str) -> dict[str, Any]:
    """Return the fields of a teaching that say where it comes from."""
    metadata: dict[str, Any] = {"session": session, "attended": event.attendance is Attendance.PERSON}
    if event.doubt:
        metadata["doubt"] = event.doubt
    return {"id": event.id, "session": session, "at": _moment(event.at), "metadata": metadata}


def _read_note(note: Signal, session: str) -> Teaching | None:
    """Return the rule of a person's note. A note without words marks the turn before it as a correction."""
    text = note.text.strip() or note.what.strip()
    if not text:
        return None
    proposal = next(iter(_READER.find_rules([SpokenTurn(Role.USER, text)])), None)
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
    """Return the candidate rule of a refusal or an edit, which say that something was wrong but seldom what."""
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
    words = shorten(clean(signal.text), _TASK_CHARS)
    return Teaching(**_describe_source(signal, session), reach=Reach.PROJECT, said=words, sure=False, **fields)


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
    offsets: dict[str, int] = {}
    for display in story.shown_rules:
        is_late = display.where == "PreToolUse"
        started = next((ran.offset for ran in story.calls if ran.offset > display.offset), 0) if is_late else 0
        for rule in display.rules:
            offsets.setdefault(rule, max(display.offset, started))
    # What was run in the answers that ended since.
    ends = [turn.offset for turn in story.turns if turn.speaker == "assistant" or turn.user_words]
    start, end = max((one for one in ends if one <= since), default=0), max(ends, default=0)
    calls = [ran for ran in story.calls if start < ran.offset <= end]
    repeated = {one.record.id for one in taught if one.record and one.verb in ("repeated", "promoted")}
    verdicts: dict[str, bool] = {}
    for one in tx.get(sorted(offsets), as_stored=True):
        if one.kind == "rule" and one.status is Status.ACTIVE:
            verdict = judge_rule(one, [ran.command for ran in calls if ran.offset > offsets[one.id]])
            if verdict is not None or one.id in repeated:
                verdicts[one.id] = verdict is True and one.id not in repeated
    return verdicts


def judge_rule(rule: Record, commands: Iterable[str]) -> bool | None:
    """Return whether commands keep to a rule, by the names that it prefers and avoids; None where neither is named."""
    preferred, avoided = ([str(name).lower() for name in rule.body[field] if name] for field in ("prefer", "avoid"))
    verdict = None
    for command in commands:
        text = _SPOKEN_OF.sub(r"\1\2 ", command).lower()
        mentioned = {
            name for name in (*preferred, *avoided) if re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", text)
        }
        # `npm test` is part of the wanted `npm test -- --run`.
        if any(
            name in mentioned and not any(name in good for good in mentioned.intersection(preferred))
            for name in avoided
        ):
            return False
        verdict = True if mentioned.intersection(preferred) else verdict
    return verdict


def count_followed(tx: Transaction, verdicts: Mapping[str, bool]) -> None:
    """Count for each rule whether it was followed. That it was not does not make it less true."""
    now = tx.engine.clock()
    for rule in tx.get(verdicts):
        evidence = replace(rule.evidence.with_result(float(verdicts[rule.id]), now), last_used=now)
        tx.update(rule, evidence=evidence, updated_at=rule.updated_at)


TAG = "reading"
_MAX_TURNS = 75
_CONTEXT = 3
"""So many exchanges that were read before are shown once more, when a session goes on."""
_MAX_KNOWN = 60
_MAX_REPAIRS = 20
_SCRIPTS = 0x2E80  # Where the Chinese, Japanese and Korean characters begin.
READS_LIKE_AN_ATTACK = "reads like an instruction to the model"


# -- how far a model has read a session


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingProgress:
    """How far the model has read a session, and what became of the last attempt.

    While `is_waiting`, the journal `file` has turns beyond `offset` that a model may read. `answers` holds what the
    model answered already, by the digest of the prompt, until that is applied. What no model may read counts as
    `unread` too: a person may still show it to the agent in front of them.
    """

    session: str
    project: str
    file: str = ""
    offset: int = 0
    is_waiting: bool = False
    has_ended: bool = False
    tries: int = 0
    outages: int = 0
    """How often in a row no model could be reached."""
    next_try: float = 0.0
    error: str = ""
    failed_at: float = 0.0
    read_at: float = 0.0
    answers: Mapping[str, Any] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    unread: int = 0
    """How many turns beyond `offset` may teach something."""
    host: str = ""
    """The coding agent of the session."""


_NO_ATTEMPT: dict[str, Any] = {"tries": 0, "outages": 0, "next_try": 0.0, "error": "", "failed_at": 0.0, "answers": {}}


def progress_id(session: str) -> str:
    """Return the id of the record that holds a model's progress in a session."""
    return f"mrk_reading_{digest(session)}"


def list_progress(engine: Engine) -> list[ReadingProgress]:
    """Return the progress of every session of every project, oldest first."""
    return [_decode(one) for one in engine.store.scan(Where(kinds={"marker"}, tagged={TAG}))][::-1]


def _decode(record: Record) -> ReadingProgress:
    names = {one.name for one in fields(ReadingProgress)}
    return ReadingProgress(**{name: value for name, value in record.body["value"].items() if name in names})


def _change(tx: Transaction, progress: ReadingProgress, **changes: Any) -> None:
    # It belongs to its project, so that it is erased with it.
    place = {"session": progress.session, "project": progress.project, "tags": (TAG,)}
    tx.set_marker(progress_id(progress.session), {"value": asdict(replace(progress, **changes))}, **place)


def change_progress(engine: Engine, session: str, **changes: Any) -> None:
    """Change what is noted about a session, if anything is."""

    def step(tx: Transaction) -> None:
        if stored := tx.find(progress_id(session)):
            _change(tx, _decode(stored), **changes)

    write(engine, step)


def queue_session(engine: Engine, story: CodingSession, file: str, since: int, *, is_allowed: bool) -> bool:
    """Note that a session has turns beyond `since` for a model to read; without leave, that it has none.

    What was recorded while no model was allowed is never read later by one. It is counted, because a person may show
    it to the agent in front of them. Return whether that count changed.
    """

    def step(tx: Transaction) -> bool:
        record = tx.find(progress_id(story.session))
        stored = _decode(record) if record else ReadingProgress(session=story.session, project=engine.project)
        is_same = stored.file == file
        changes: dict[str, Any] = {}
        offset = stored.offset if is_same else since
        start = max(since, offset)
        if is_same and stored.is_waiting:
            if not is_allowed or stored.has_ended != story.ended:
                changes = {"is_waiting": is_allowed, "has_ended": story.ended}
        elif is_allowed and count_candidates(story, start):
            offset = start
            changes = {**_NO_ATTEMPT, "project": engine.project, "has_ended": story.ended, "is_waiting": True}
        unread = count_candidates(story, offset)
        is_changed = unread != (stored.unread if is_same else 0)
        if changes or is_changed:
            _change(tx, stored, **{"file": file, "offset": offset, "unread": unread, "host": story.host, **changes})
        return is_changed

    return write(engine, step)


def count_candidates(story: CodingSession, since: int) -> int:
    """Return how many turns of the person beyond an offset may teach something."""
    return sum(turn.offset > since and is_candidate(turn) for turn in story.user_turns)


# -- what a model reads


class SessionPart(NamedTuple):
    """The exchanges of a session that a model is asked about, from one offset of its journal to another.

    Those up to `since` were read before, and explain the others. The index of a proposal is a place in `exchanges`.
    """

    story: CodingSession
    since: int
    until: int
    exchanges: list[Exchange]
    rules: list[StoredText]
    repairs: dict[str, Repair]  # Repaired commands that nobody has explained yet, by the ids of their observations.

    @property
    def turns(self) -> list[SessionTurn]:
        """Return the person's turns that were not read before."""
        return [exchange.turn for exchange in self.exchanges if exchange.turn.offset > self.since]


class CheckedProposals(NamedTuple):
    """The proposals of a model that passed the checks, and how many failed each check."""

    proposals: list[RuleProposal]
    dropped: Mapping[str, int]
    # What repaired commands show, by the id of their observation; empty when they show nothing.
    notes: Mapping[str, str] = {}
    # Whether a turn without a proposal teaches nothing.
    is_complete: bool = True


def is_candidate(turn: SessionTurn) -> bool:
    """Return whether a turn is a person's own and may teach something, also as a short reply: "keep it", "yes"."""
    if not is_persons(turn):
        return False
    if is_worth_reading(turn.user_words):
        return True
    reply = read_reply(turn.user_words) if turn.before else ReplyKind.NEITHER
    is_answer = reply is ReplyKind.ANSWERS and is_general_question(turn.before)
    return is_answer or reply in (ReplyKind.ACCEPTS, ReplyKind.OBJECTS)


def collect_part(engine: Engine, story: CodingSession, since: int, until: int) -> SessionPart:
    """Return what a model is asked about: what the person typed, and the rules that are known where they said it.

    Nothing, if no turn may teach something.
    """
    tx = Transaction(engine)
    own = [exchange for exchange in list_exchanges(story) if is_persons(exchange.turn)]
    new = [exchange for exchange in own if since < exchange.turn.offset <= until][-_MAX_TURNS:]
    if not any(is_candidate(exchange.turn) for exchange in new):
        new = []
    old = [exchange for exchange in own if exchange.turn.offset <= since][-_CONTEXT:]
    exchanges = [*old, *new] if new else []
    ids = {exchange.turn.id for exchange in new}
    rules = [
        one
        for one in find_live_rules(tx)
        if one.session in ("", story.session)
        and one.agent == AGENT
        and one.body["source"] != RuleSource.MODEL
        and one.provenance.trust is not Trust.UNTRUSTED
        and not ids.issuperset(one.body["metadata"].get("sources", [""]))
    ]
    rules.sort(key=lambda one: one.status is not Status.ACTIVE)
    repairs = {}
    for repair in [one for one in story.repairs if since < one.offset <= until][-_MAX_REPAIRS:]:
        observation = find_observation(tx, draft_observation(engine, repair.failed, repair.worked))
        if observation is not None and "note" not in observation.body["metadata"]:
            repairs[observation.id] = Repair(repair.failed, repair.error, repair.worked)
    known = [StoredText(one.id, one.body["rule"]) for one in rules[:_MAX_KNOWN]]
    return SessionPart(story, since, until, exchanges, known, repairs)


def find_live_rules(tx: Transaction, *more: Status) -> list[Record]:
    """Return the rules of the person's own: a model must not take a copy of a team's rule for their words."""
    rules = tx.scan(tx.engine.within("rule", statuses={*LIVE, *more}))
    return [one for one in rules if not is_copy(one)]


def read_part(model: Model, part: SessionPart) -> CheckedProposals:
    """Ask the model about a part of a session. Raises ModelError when there is no usable answer."""
    reader = ModelReader(model)
    proposals = []
    for proposal in reader.find_notes(describe_part(part.exchanges, part.since), part.rules):
        if reads_like_attack(proposal):
            reader.dropped[READS_LIKE_AN_ATTACK] += 1
        else:
            proposals.append(proposal)
    return CheckedProposals(proposals, dict(reader.dropped))


def reads_like_attack(proposal: RuleProposal) -> bool:
    """Return whether a text of a proposal reads like an instruction to the model."""
    return any(map(find_suspicion, (proposal.rule, proposal.trigger, proposal.reason)))


def read_repairs(model: Model, part: SessionPart) -> dict[str, str]:
    """Ask the model what the repaired commands of a part show. Raises ModelError when there is no usable answer."""
    reader = ModelReader(model)
    notes = [one.note for one in reader.explain_repairs(list(part.repairs.values()))]
    # A note that was dropped does not say that there is no lesson.
    return {
        id: note
        for id, note in zip(part.repairs, notes, strict=True)
        if (note or not reader.dropped) and not find_suspicion(note)
    }


# -- what the model's answer changes


class Changes(NamedTuple):
    """The rules that a reading taught, refined and archived."""

    taught: list[Taught]
    refined: list[Record]
    archived: list[Record]


def apply_reading(
    engine: Engine, part: SessionPart, reading: CheckedProposals, progress: ReadingProgress
) -> Changes | None:
    """Store what a reading teaches, and that the session was read so far. None if another process was faster."""
    local_texts = {one.id: one.rule for one in find_teachings(part.story, part.since)}

    def step(tx: Transaction) -> Changes | None:
        record = tx.find(progress_id(progress.session))
        stored = _decode(record) if record else progress
        if record is None or (stored.file, stored.offset) != (progress.file, part.since):
            return None
        changes = _apply_proposals(tx, part, reading, local_texts)
        # A rule that was shown in the session and that the person had to repeat was not followed.
        shown_ids = {rule for one in part.story.shown_rules for rule in one.rules}
        again = {one.record.id for one in changes.taught if one.record and one.verb in ("repeated", "promoted")}
        count_followed(tx, dict.fromkeys(again & shown_ids, False))
        rules = [one.record for one in changes.taught if one.record] + changes.refined
        mark_read(tx, [turn.id for turn in part.turns], rules)
        for one in tx.get(reading.notes):
            if "note" not in one.body["metadata"]:
                explain_observation(tx, one, reading.notes[one.id])
        mark = find_mark(engine, stored.session, tx)
        # More of the session may have been imported while the model was reading.
        is_waiting = stored.is_waiting and mark.file == stored.file and mark.offset > part.until
        now_read = count_candidates(part.story, part.since) - count_candidates(part.story, part.until)
        unread = max(0, stored.unread - now_read)
        dropped = dict(Counter(stored.dropped) + Counter(reading.dropped))
        read_at = engine.clock().timestamp()
        changed = {"offset": part.until, "is_waiting": is_waiting, "read_at": read_at, "dropped": dropped}
        _change(tx, stored, **_NO_ATTEMPT, **changed, unread=unread)
        return changes

    return write(engine, step)


def _apply_proposals(
    tx: Transaction, part: SessionPart, reading: CheckedProposals, local_texts: Mapping[str, str]
) -> Changes:
    """Store what proposals teach. `local_texts` holds, by the id of the turn, what the local reader read there."""
    rules = {one.id: one for one in find_live_rules(tx)}
    local, settled = _find_local_rules(tx, part, local_texts)
    words = collect_words(part.story, part.until)
    acceptance = AcceptanceReader(part.story)
    refining = _find_refining(part, reading.proposals, local)
    taught: list[Taught] = []
    refined, archived = [], []
    proposed: set[str] = set()
    for number, proposal in enumerate(reading.proposals):
        spoken_turn = part.exchanges[proposal.turn].turn
        own = local.get(spoken_turn.id) if number in refining else None
        is_first = spoken_turn.id not in proposed and (own is not None or spoken_turn.id not in local)
        id = spoken_turn.id if is_first else f"{spoken_turn.id}:{number}"
        proposed.add(spoken_turn.id)
        stored = rules.get(proposal.known)
        if spoken_turn.id in settled or (proposal.known and stored is None):
            continue
        if stored is not None and StoredText(stored.id, stored.body["rule"]) not in part.rules:
            # It was changed since the model was asked.
            stored = None
        finding = find_basis(part.exchanges, proposal, words, stored, acceptance)
        proposal = finding.proposal
        untyped = finding.untyped
        prefer, avoid = find_choice(proposal.rule)
        is_sure = not untyped and _is_sound(proposal, spoken_turn, finding)
        checked = proposal._replace(is_sure=is_sure, prefer=prefer, avoid=avoid)
        lesson = _make_lesson(part.story, checked, spoken_turn, finding)._replace(id=id)
        lessons = []
        is_superseding = False
        if proposal.verdict is Verdict.SAME and stored is not None:
            # The known rule in its own words, said once more.
            own_words = {"rule": stored.body["rule"], "trigger": stored.body["trigger"], "why": ""}
            is_sure, reach = _may_confirm(stored, finding.words), Reach(stored.body["reach"])
            basis = Basis.AGREED if find_untyped((stored.body["rule"], stored.body["trigger"]), words) else Basis.STATED
            lessons.append(lesson._replace(id=spoken_turn.id, **own_words, reach=reach, sure=is_sure, basis=basis))
            is_held = is_sure or stored.status is Status.ACTIVE
            if own is not None and not stored.session and is_held and share_words(own.body, stored.body):
                why = f"the model says that it repeats: {stored.body['rule']}"
                tx.add_history(own, "superseded", why, {"status": str(own.status)}, stored.id)
                tx.update(own, status=Status.SUPERSEDED, superseded_by=stored.id)
        elif proposal.verdict is not Verdict.SAME and own is None:
            lessons.append(lesson._replace(supersedes=(stored.id,) if stored else ()))
        elif own is not None and proposal.verdict is not Verdict.SAME and untyped:
            # It waits beside the person's own rule, which keeps its words and its reach.
            lessons.append(lesson._replace(id=f"{spoken_turn.id}:words", reach=Reach(own.body["reach"])))
        elif own is not None and proposal.verdict is not Verdict.SAME and finding.deeds:
            # It stands beside the person's own rule, whose words it does not change.
            supersedes = (stored.id,) if stored else ()
            lessons.append(lesson._replace(id=f"{spoken_turn.id}:deeds", supersedes=supersedes))
            is_superseding = own.status is Status.CANDIDATE
        elif own is not None and proposal.verdict is not Verdict.SAME:
            refined += _refine_rule(tx, part, own, checked, stored)
        learned = learn_rules(tx, prepare_rules(tx.engine, lessons))
        taught += learned
        fresh = learned[0].record if learned and is_superseding else None
        if own is not None and fresh is not None and fresh.status is Status.ACTIVE and fresh.id != own.id:
            tx.supersede(own, fresh, f"the model read the same words as: {fresh.body['rule']}")
    # Only a complete reading says that a turn taught nothing. A person can restore these rules.
    for turn, own in local.items() if reading.is_complete and not reading.dropped else ():
        if turn not in proposed and own.status is Status.CANDIDATE and not tx.is_changed(own.id):
            tx.add_history(own, "doubted", "by the model: it is no rule")
            archived.append(tx.update(own, status=Status.ARCHIVED))
    return Changes(taught, refined, archived)


def _find_refining(part: SessionPart, proposals: Sequence[RuleProposal], local: Mapping[str, Record]) -> frozenset[int]:
    """Return which proposals word the rules that the local reader made: of each turn, the one most like its rule."""
    nearest: dict[str, tuple[int, int]] = {}
    for number, proposal in enumerate(proposals):
        id = part.exchanges[proposal.turn].turn.id
        if own := local.get(id):
            shared = share_words({"rule": proposal.rule}, own.body)
            if id not in nearest or shared > nearest[id][0]:
                nearest[id] = (shared, number)
    return frozenset(number for _, number in nearest.values())


def _make_lesson(story: CodingSession, proposal: RuleProposal, turn: SessionTurn, finding: ProposalBasis) -> Teaching:
    """Return what a model's proposal teaches; it says which literals nobody typed, and which deeds were accepted."""
    lesson = make_teaching(proposal, turn, story.session)
    assert lesson is not None, "only turns of a person are read"
    metadata = {**lesson.metadata, **_name_host(story), "reader": "model"}
    if finding.untyped:
        metadata["untyped"] = finding.untyped
    if proposal.is_partial:
        metadata["partial"] = True
    lesson = lesson._replace(metadata=metadata)
    if not finding.deeds:
        return lesson
    turns = tuple(dict.fromkeys(id for deed in finding.deeds for id in deed.turns if id != turn.id))
    return lesson._replace(basis=Basis.AGREED, accepted=finding.deeds[0].quote, turns=turns)


def _find_local_rules(
    tx: Transaction, part: SessionPart, local_texts: Mapping[str, str]
) -> tuple[dict[str, Record], Collection[str]]:
    """Return by turn the rules that the local reader made of single turns, and the turns that are settled.

    A turn is settled if a person deleted or edited its rule, or if it counts for another rule: in other words, such a
    rule would come back or stand there twice.
    """
    turns = {one.id for one in part.turns}
    local, counted = {}, set()
    for one in find_live_rules(tx, Status.ARCHIVED, Status.SUPERSEDED):
        sources = turns.intersection(one.body["metadata"].get("sources", ()))
        is_heard = one.body["source"] in (RuleSource.CORRECTION, RuleSource.PREFERENCE)
        is_untouched = one.provenance.origin is not Origin.USER and not one.body.get("put_away")
        if one.status in LIVE and is_heard and is_untouched and list(sources) == one.body["metadata"].get("sources"):
            local[sources.pop()] = one
        counted |= sources
    keys = {
        key_of("rule", AGENT, "", {"rule": shorten(clean(text), RULE_CHARS)}): turn
        for turn, text in local_texts.items()
    }
    counted |= {keys[key] for key, stone in tx.find_tombstones(keys).items() if stone.provenance.is_persons}
    return local, counted - local.keys()


def _refine_rule(
    tx: Transaction, part: SessionPart, local: Record, proposal: RuleProposal, stored: Record | None
) -> list[Record]:
    """Take the model's words for a local rule; return the rule if it changed. They never turn it round, nor widen it.

    A rule that only now holds takes the place of those that it contradicts, or that the model named.
    """
    is_active = local.status is Status.ACTIVE
    is_contrary = contradicts({**local.body, "rule": proposal.rule}, local.body)
    if tx.is_changed(local.id) or (is_active and not proposal.is_sure) or is_contrary:
        return []
    reach = Reach(local.body["reach"]) if is_active else proposal.reach
    # What the model writes may hold a secret that it saw.
    texts = clean({"rule": proposal.rule, "trigger": proposal.trigger, "why": proposal.reason})
    body = {**local.body, **texts, "why": texts["why"] or local.body["why"], "reach": str(reach)}
    body["metadata"] = {**local.body["metadata"], "reader": "model"}
    fresh = tx.update(
        local,
        **reword(tx.engine, local, body),
        status=Status.ACTIVE if proposal.is_sure else local.status,
        session="" if reach in LASTING else part.story.session,
        project=EVERYWHERE if reach is Reach.ALWAYS else local.project,
    )
    tx.add_history(fresh, "refined", "by the model", {"rule": local.body["rule"], "status": str(local.status)})
    if fresh.status is Status.ACTIVE and (not is_active or stored is not None):
        similar = [one for one in find_similar_rules(tx, fresh, tx.engine.project) if not tx.is_changed(one.id)]
        supersede_rules(tx, fresh, similar, [stored.id] if stored and not tx.is_changed(stored.id) else [])
    return [fresh]


def _may_confirm(stored: Record, words: SessionWords) -> bool:
    """Return whether a model may say that the person repeated a rule, if that makes a candidate active.

    The person must have typed the literals of the candidate, now or when it was heard.
    """
    if _asks_for_harm(*(stored.body[name] for name in ("trigger", "rule", "why"))):
        return False
    if stored.status is Status.ACTIVE:
        return True
    is_heard = stored.body["source"] in (RuleSource.CORRECTION, RuleSource.PREFERENCE, RuleSource.NOTE)
    words = words._replace(typed=(*words.typed, stored.body["said"])) if is_heard else words
    return not find_untyped((stored.body["rule"], stored.body["trigger"], stored.body["why"]), words)


def _is_sound(proposal: RuleProposal, turn: SessionTurn, finding: ProposalBasis) -> bool:
    """Return whether a proposal may be active at once: in words of the session, and no weaker safety.

    One that shares no word with the person's turn may say no more than what the agent said and did before it. Words
    that were for the moment make no rule that lasts.
    """
    text = f"{turn.user_words} {turn.before}"
    words = stems(proposal.rule)
    telling = {word for word in words if not is_common(word)} or words
    sentences = chain.from_iterable(map(read_turn, finding.words.typed))
    licensed = [sentence.text for sentence in sentences if sentence.is_licensing]
    known = stems(" ".join((text, *licensed)))
    is_said = not telling.isdisjoint(stems(remove_foreign(turn.user_words))) or telling <= known
    # Scripts without spaces have no words to compare.
    is_said = is_said or any(ord(sign) > _SCRIPTS and sign in text for sign in proposal.rule)
    # What names an accepted deed is in its words.
    is_said = is_said or bool(finding.deeds)
    if proposal.reach in LASTING and is_limited(remove_foreign(turn.user_words), proposal.quote):
        return False
    # More lines than one are a list or a heading, and would be joined to one.
    is_line = "\n" not in proposal.rule
    return is_said and is_line and not _asks_for_harm(proposal.trigger, proposal.rule, proposal.reason)


def _asks_for_harm(*texts: str) -> bool:
    """Return whether one of the texts that a rule's line shows asks for harm, or all of them in that order."""
    stated = [text for text in texts if text]
    return any(map(weakens_safety, (*stated, " ".join(stated))))


def weakens_safety(rule: str) -> bool:
    """Return whether a rule asks for harm: see `find_harm`. One that only forbids it does not."""
    return bool(find_harm(rule[:RULE_CHARS]))
