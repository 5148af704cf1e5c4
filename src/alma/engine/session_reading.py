"""What a model is asked about a coding session, how far each session was read, and what its answer changes.

A model proposes. `ModelReader` has checked that its quote occurs in the person's own words. Here it
refines the rule that the local reader made of the same turn, repeats or replaces a rule that is known, or becomes a new
rule. All changes of one reading are stored in one transaction with the mark of how far the session was read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from ..coding.calls import RepairedCommand
from ..coding.events import Attendance
from ..coding.session import CodingSession, SessionTurn
from ..ports import Model
from ..reading.local_rules import find_choice, is_worth_reading
from ..reading.model import ModelReader
from ..reading.port import Known, Repair, Role, RuleProposal, Turn, Verdict
from ..reading.words import remove_pasted
from ..text import digest, is_common, shorten, stems
from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.record import LIVE, Origin, Record, Status, Trust
from ..types.rules import EVERYWHERE, LASTING, Reach, RuleSource
from .admit import clean, key_of, reword
from .coding_sessions import count_followed, find_teachings, make_teaching, read_mark
from .context import Engine
from .observations import explain_observation, find_repair
from .rules import (
    AGENT,
    RULE_CHARS,
    Taught,
    Teaching,
    contradicts,
    dress_rule,
    find_similar_rules,
    learn_rules,
    prepare_rules,
    supersede_rules,
)
from .safety import find_weakening
from .transaction import Transaction, write

TAG = "reading"
_MAX_TURNS = 75
_MAX_KNOWN = 60
_MAX_REPAIRS = 20
_SCRIPTS = 0x2E80
"""Where the Chinese, Japanese and Korean characters begin."""
_HEARD = (RuleSource.CORRECTION, RuleSource.PREFERENCE)
_BREAK = re.compile(r"[;,.:]\s+|\s+(?:and|but|instead)\s+")
_PROHIBITION = re.compile(r"\W*(?:never|do not|don't|don’t|avoid|stop)\b(?!.*\b(?:without|unless|forget|skip)\b)", re.I)
READS_LIKE_AN_ATTACK = "reads like an instruction to the model"


# -- how far a session was read


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the model has read a session, and what became of the last attempt.

    While `is_waiting`, the journal `file` has turns beyond `offset` that a model may read. `answers` holds what the
    model answered already, by the digest of the prompt, until that is applied.
    """

    session: str
    project: str
    file: str = ""
    offset: int = 0
    is_waiting: bool = False
    has_ended: bool = False
    tries: int = 0
    next_try: float = 0.0
    error: str = ""
    failed_at: float = 0.0
    read_at: float = 0.0
    answers: Mapping[str, Any] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    def restart(self, **changes: Any) -> Progress:
        """Return it without what is noted about the last attempt, and with these changes."""
        return replace(self, tries=0, next_try=0.0, error="", failed_at=0.0, answers={}, **changes)


def read_progress(tx: Transaction, session: str) -> Progress | None:
    record = tx.find(_progress_id(session))
    return _decode_progress(record) if record else None


def list_progress(engine: Engine) -> list[Progress]:
    """Return the progress of every session of every project, oldest first."""
    return [_decode_progress(one) for one in engine.store.scan(Where(kinds={"marker"}, tagged={TAG}))][::-1]


def change_progress(engine: Engine, session: str, **changes: Any) -> None:
    """Change what is noted about a session, if anything is."""

    def step(tx: Transaction) -> None:
        stored = read_progress(tx, session)
        if stored is not None:
            _store_progress(tx, replace(stored, **changes))

    write(engine, step)


def forget_progress(engine: Engine, session: str) -> None:
    engine.store.delete([_progress_id(session)])


def queue_session(engine: Engine, story: CodingSession, file: str, since: int, *, is_allowed: bool) -> None:
    """Note that a session has turns beyond `since` for a model to read; without leave, that it has none.

    What was recorded while no model was allowed is never read later.
    """
    stored = read_progress(Transaction(engine), story.session) or Progress(
        session=story.session, project=engine.project
    )
    if stored.file == file and stored.is_waiting:
        if not is_allowed or stored.has_ended != story.ended:
            change_progress(engine, story.session, is_waiting=is_allowed, has_ended=story.ended)
        return
    start = max(since, stored.offset) if stored.file == file else since
    if is_allowed and any(one.offset > start and is_candidate(one) for one in story.heard):
        fresh = stored.restart(project=engine.project, file=file, offset=start, is_waiting=True, has_ended=story.ended)
        write(engine, lambda tx: _store_progress(tx, fresh))


def _progress_id(session: str) -> str:
    return f"mrk_reading_{digest(session)}"


def _store_progress(tx: Transaction, progress: Progress) -> None:
    # It belongs to its project, so that it is erased with it.
    place = {"session": progress.session, "project": progress.project, "tags": (TAG,)}
    tx.set_marker(_progress_id(progress.session), {"value": asdict(progress)}, **place)


def _decode_progress(record: Record) -> Progress:
    known = {one.name for one in fields(Progress)}
    return Progress(**{name: value for name, value in record.body["value"].items() if name in known})


# -- what is read


@dataclass(frozen=True, slots=True)
class Part:
    """The turns of a session that a model is asked about, from one offset of its journal to another."""

    story: CodingSession
    since: int
    until: int
    heard: tuple[SessionTurn, ...]
    known: tuple[Known, ...]
    repairs: tuple[tuple[str, RepairedCommand], ...] = ()
    """Repaired commands that nobody has explained yet, with the ids of their observations."""

    def list_turns(self) -> list[Turn]:
        """Return two turns for each exchange; the person's has the odd index."""
        pairs = ((Turn(Role.ASSISTANT, clean(one.before)), Turn(Role.USER, clean(one.heard))) for one in self.heard)
        return [turn for pair in pairs for turn in pair]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a model proposed that passed the checks, and how many proposals failed each of them."""

    proposals: tuple[RuleProposal, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    """What repaired commands show, by the id of their observation; empty when they show nothing."""


def is_candidate(heard: SessionTurn) -> bool:
    """Return whether a turn is a person's own and may teach something."""
    if heard.attendance is not Attendance.PERSON or not heard.is_typed:
        return False
    return is_worth_reading(heard.heard)


def collect_part(engine: Engine, story: CodingSession, since: int, until: int) -> Part:
    """Return what a model is asked about: candidate turns, and the rules that are known where they were said."""
    tx = Transaction(engine)
    heard = tuple(one for one in story.heard if since < one.offset <= until and is_candidate(one))[-_MAX_TURNS:]
    ids = {one.id for one in heard}
    known = [
        one
        for one in _find_rules(tx)
        if one.session in ("", story.session)
        and one.agent == AGENT
        and one.body["source"] != RuleSource.MODEL
        and one.provenance.trust is not Trust.UNTRUSTED
        and not ids.issuperset(one.body["metadata"].get("sources", [""]))
    ]
    known.sort(key=lambda one: one.status is not Status.ACTIVE)
    fixed = [one for one in story.repairs if since < one.offset <= until][-_MAX_REPAIRS:]
    observed = ((find_repair(tx, one), one) for one in fixed)
    repairs = {one.id: repair for one, repair in observed if one is not None and "note" not in one.body["metadata"]}
    listed = tuple(Known(one.id, one.body["rule"]) for one in known[:_MAX_KNOWN])
    return Part(story, since, until, heard, listed, tuple(repairs.items()))


def read_part(model: Model, part: Part) -> Reading:
    """Ask the model about a part of a session. Raises ModelError when there is no usable answer."""
    from .inject.escape import suspicious

    reader = ModelReader(model)
    proposals = []
    for one in reader.find_rules(part.list_turns(), part.known):
        if any(suspicious(text) for text in (one.rule, one.trigger, one.reason, one.general)):
            reader.dropped[READS_LIKE_AN_ATTACK] += 1
        else:
            proposals.append(one)
    return Reading(tuple(proposals), dict(reader.dropped))


def read_repairs(model: Model, part: Part) -> dict[str, str]:
    """Ask the model what the repaired commands of a part show. Raises ModelError when there is no usable answer."""
    from .inject.escape import suspicious

    reader = ModelReader(model)
    observations = reader.explain_repairs([Repair(one.failed, one.error, one.worked) for _, one in part.repairs])
    notes = {name: one.note for (name, _), one in zip(part.repairs, observations, strict=True)}
    # A note that was dropped does not say that there is no lesson.
    return {name: note for name, note in notes.items() if (note or not reader.dropped) and not suspicious(note)}


def _find_rules(tx: Transaction, statuses: Iterable[Status] = LIVE) -> list[Record]:
    projects = {tx.engine.project, EVERYWHERE}
    return tx.scan(Where(kinds={MemoryType.RULE}, projects=projects, statuses=set(statuses)))


# -- what it changes


@dataclass(frozen=True, slots=True)
class Applied:
    """What a reading changed."""

    taught: tuple[Taught, ...] = ()
    refined: tuple[Record, ...] = ()
    archived: tuple[Record, ...] = ()


def apply_reading(engine: Engine, part: Part, reading: Reading, progress: Progress) -> Applied | None:
    """Store what a reading teaches, and that the session was read so far. None when somebody else was faster."""
    local = {one.id: one.rule for one in find_teachings(part.story, part.since)}

    def step(tx: Transaction) -> Applied | None:
        stored = read_progress(tx, part.story.session)
        if stored is None or (stored.file, stored.offset) != (progress.file, part.since):
            return None
        applied = _apply_proposals(tx, part, reading, local)
        for one in tx.get(reading.notes):
            if "note" not in one.body["metadata"]:
                explain_observation(tx, one, reading.notes[one.id])
        mark = read_mark(tx, stored.session)
        # More of the session may have been taken in while the model was reading.
        is_waiting = mark.file == stored.file and mark.offset > part.until
        dropped = dict(Counter(stored.dropped) + Counter(reading.dropped))
        read_at = engine.clock().timestamp()
        done = stored.restart(offset=part.until, is_waiting=is_waiting, read_at=read_at, dropped=dropped)
        _store_progress(tx, done)
        return applied

    return write(engine, step)


@dataclass(frozen=True, slots=True)
class _Refinement:
    """The words of a proposal for the rule that the local reader made of the same turn."""

    local: Record
    proposal: RuleProposal
    heard: SessionTurn
    known: Record | None


def _apply_proposals(tx: Transaction, part: Part, reading: Reading, local_texts: Mapping[str, str]) -> Applied:
    """Store what proposals teach. `local_texts` holds, by the id of the turn, what the local reader read there."""
    rules = {one.id: one for one in _find_rules(tx)}
    local = _find_local_rules(part, rules.values())
    settled = _find_settled_turns(tx, part, local, local_texts)
    shown_texts = {one.id: one.text for one in part.known}
    heard_at = {2 * index + 1: one for index, one in enumerate(part.heard)}
    proposed: set[str] = set()
    lessons: list[Teaching] = []
    repeated: list[tuple[Record, Record]] = []
    refinements: list[_Refinement] = []
    for proposal in reading.proposals:
        heard = heard_at[proposal.turn]
        is_first = heard.id not in proposed
        proposed.add(heard.id)
        if heard.id in settled or (proposal.known and proposal.known not in rules):
            continue
        known = rules.get(proposal.known)
        if known is not None and known.body["rule"] != shown_texts.get(known.id):
            # It was changed since the model was asked.
            known = None
        own = local.get(heard.id) if is_first else None
        if proposal.verdict is Verdict.SAME:
            if known is not None:
                lessons.append(_repeat_rule(part, known, heard))
                if own is not None and not known.session:
                    repeated.append((own, known))
        elif own is not None:
            refinements.append(_Refinement(own, proposal, heard, known))
        else:
            lesson = _teach_rule(part, proposal, heard, known)
            lessons.append(lesson if is_first else replace(lesson, id=f"{lesson.id}:{len(lessons)}"))
        if proposal.general:
            lessons.append(_suggest_general(part, proposal, heard))
    taught = learn_rules(tx, prepare_rules(tx.engine, lessons))
    # What was taught counts for more than what is only refined, repeated or doubted.
    for own, known in repeated:
        if not tx.is_changed(own.id):
            why = f"the model says that it repeats: {known.body['rule']}"
            tx.add_history(own, "superseded", why, {"status": str(own.status)}, known.id)
            tx.update(own, status=Status.SUPERSEDED, superseded_by=known.id)
    refined = _refine_rules(tx, part, refinements)
    archived = []
    # Only a complete reading says that a turn taught nothing. A person can restore these rules.
    for turn, own in local.items() if not reading.dropped else ():
        if turn not in proposed and own.status is Status.CANDIDATE and not tx.is_changed(own.id):
            tx.add_history(own, "doubted", "by the model: it is no rule")
            archived.append(tx.update(own, status=Status.ARCHIVED))
    _end_contradicted(tx, refinements, refined)
    # A rule that was shown in the session and that the person had to repeat was not followed.
    shown = {rule for one in part.story.shown for rule in one.rules}
    for one in taught:
        if one.record is not None and one.verb in ("repeated", "promoted") and one.record.id in shown:
            count_followed(tx, tx.get([one.record.id]), {one.record.id: False})
    return Applied(tuple(taught), tuple(tx.get(refined)), tuple(archived))


def _find_local_rules(part: Part, rules: Iterable[Record]) -> dict[str, Record]:
    """Return by turn the rules that the local reader made of single turns of this part, as nobody has changed them."""
    turns = {one.id for one in part.heard}
    local = {}
    for one in rules:
        sources = list(one.body["metadata"].get("sources", ()))
        is_untouched = one.provenance.origin is not Origin.USER and not one.body.get("put_away")
        if len(sources) == 1 and sources[0] in turns and one.body["source"] in _HEARD and is_untouched:
            local[sources[0]] = one
    return local


def _find_settled_turns(
    tx: Transaction, part: Part, local: Mapping[str, Record], local_texts: Mapping[str, str]
) -> set[str]:
    """Return the turns whose rule a person deleted or edited, or that count for another rule already.

    In other words, such a rule would come back or stand there twice.
    """
    turns = {one.id for one in part.heard}
    counted = {
        turn
        for one in _find_rules(tx, (*LIVE, Status.ARCHIVED, Status.SUPERSEDED))
        for turn in one.body["metadata"].get("sources", ())
        if turn in turns and turn not in local
    }
    keys = {
        turn: key_of(MemoryType.RULE, AGENT, "", {"rule": shorten(clean(text), RULE_CHARS)})
        for turn, text in local_texts.items()
    }
    gone = tx.find_tombstones(keys.values())
    return counted | {turn for turn, key in keys.items() if key in gone and turn not in local}


def _teach_rule(part: Part, proposal: RuleProposal, heard: SessionTurn, known: Record | None) -> Teaching:
    prefer, avoid = find_choice(proposal.rule)
    checked = proposal._replace(is_sure=_is_sound(proposal, heard), prefer=prefer, avoid=avoid)
    lesson = make_teaching(checked, heard, part.story.session)
    assert lesson is not None, "only turns of a person are read"
    supersedes = (known.id,) if known is not None else ()
    return replace(lesson, metadata={**lesson.metadata, "reader": "model"}, supersedes=supersedes)


def _repeat_rule(part: Part, known: Record, heard: SessionTurn) -> Teaching:
    """The known rule in its own words, said once more."""
    return Teaching(
        id=heard.id,
        rule=known.body["rule"],
        trigger=known.body["trigger"],
        reach=Reach(known.body["reach"]),
        source=RuleSource.CORRECTION,
        said=remove_pasted(heard.heard),
        session=known.session,
        sure=not weakens_safety(known.body["rule"]),
        at=datetime.fromtimestamp(heard.at, UTC),
        metadata={"session": part.story.session, "attended": True},
    )


def _suggest_general(part: Part, proposal: RuleProposal, heard: SessionTurn) -> Teaching:
    return Teaching(
        id=f"{heard.id}:general",
        rule=proposal.general,
        reach=Reach.PROJECT,
        source=RuleSource.MODEL,
        said=proposal.quote,
        session=part.story.session,
        sure=False,
        at=datetime.fromtimestamp(heard.at, UTC),
        metadata={"session": part.story.session, "attended": True, "reader": "model"},
    )


def _refine_rules(tx: Transaction, part: Part, refinements: Sequence[_Refinement]) -> list[str]:
    """Take the model's words for local rules. They never turn a rule round, and never widen an active one.

    Returns the ids of the rules that changed.
    """
    refined = []
    for one in refinements:
        local, proposal = one.local, one.proposal
        is_sound = _is_sound(proposal, one.heard)
        is_active = local.status is Status.ACTIVE
        if tx.is_changed(local.id) or (is_active and not is_sound):
            continue
        if contradicts({**local.body, "rule": proposal.rule}, local.body):
            continue
        reach = Reach(local.body["reach"]) if is_active else proposal.reach
        # What the model writes may hold a secret that it saw.
        texts = clean({"rule": proposal.rule, "trigger": proposal.trigger, "why": proposal.reason})
        body = {**local.body, **texts, "why": texts["why"] or local.body["why"], "reach": str(reach)}
        body["metadata"] = {**local.body["metadata"], "reader": "model"}
        fresh = tx.update(
            local,
            **reword(tx.engine, local, dress_rule(body)),
            status=Status.ACTIVE if is_active or is_sound else local.status,
            session="" if reach in LASTING else part.story.session,
            project=EVERYWHERE if reach is Reach.ALWAYS else local.project,
            key=key_of(local.kind, local.agent, local.user, body),
        )
        tx.add_history(fresh, "refined", "by the model", {"rule": local.body["rule"]})
        refined.append(fresh.id)
    return refined


def _end_contradicted(tx: Transaction, refinements: Sequence[_Refinement], refined: Collection[str]) -> None:
    """Let each refined rule that now holds take the place of those that it contradicts, or that the model named."""
    for one in refinements:
        if one.local.id not in refined:
            continue
        [fresh] = tx.get([one.local.id])
        if fresh.status is Status.ACTIVE and (one.local.status is not Status.ACTIVE or one.known is not None):
            similar = find_similar_rules(tx, fresh, tx.engine.project)
            named = [one.known.id] if one.known is not None and not tx.is_changed(one.known.id) else []
            supersede_rules(tx, fresh, [held for held in similar if not tx.is_changed(held.id)], named)


def _is_sound(proposal: RuleProposal, heard: SessionTurn) -> bool:
    """Return whether a proposal may be active at once: in words of the session, and no weaker safety."""
    if weakens_safety(proposal.rule):
        return False
    said = f"{heard.heard} {heard.before}"
    words = stems(proposal.rule)
    telling = {word for word in words if not is_common(word)} or words
    # Scripts without spaces have no words to compare.
    return not telling.isdisjoint(stems(said)) or any(sign in said for sign in proposal.rule if ord(sign) > _SCRIPTS)


def weakens_safety(rule: str) -> bool:
    """Return whether a rule asks for a command that weakens safety. One that only forbids it does not."""
    return any(find_weakening(clause) and not _PROHIBITION.match(clause) for clause in _BREAK.split(rule[:RULE_CHARS]))
