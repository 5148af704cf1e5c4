"""What a model is asked about a coding session, how far each session was read, and what its answer changes.

A model proposes. `ModelReader` has checked that its quote occurs in the person's own words. Here it
refines the rule that the local reader made of the same turn, repeats or replaces a rule that is known, or becomes a new
rule. All changes of one reading are stored in one transaction with the mark of how far the session was read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from ..coding.calls import RepairedCommand
from ..coding.events import Attendance
from ..coding.session import CodingSession, SessionTurn
from ..ports import Model
from ..reading.local_rules import find_choice, is_worth_reading
from ..reading.model import ModelReader
from ..reading.pasted import remove_pasted
from ..reading.port import Known, Repair, Role, RuleProposal, Turn, Verdict
from ..text import digest, is_common, shorten, stems
from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.record import LIVE, Origin, Record, Status, Trust
from ..types.rules import EVERYWHERE, LASTING, Reach, RuleSource
from .admit import change, clean, key_of, make_marker, revise, rewrite
from .context import Engine
from .follow import judged
from .keep import make_teaching, mark_of, teachings
from .observations import explain_observation, find_repair
from .rules import AGENT, RULE_CHARS, Taught, Teaching, contradicted, dressed, teaching
from .safety import find_weakening
from .tombstones import find_deleted_keys
from .transaction import commit

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


def load_progress(engine: Engine, session: str) -> Progress | None:
    records = engine.store.get([_progress_id(session)])
    return _decode_progress(records[0]) if records else None


def list_progress(engine: Engine) -> list[Progress]:
    """Return the progress of every session of every project, oldest first."""
    return [_decode_progress(one) for one in engine.store.scan(Where(kinds={"marker"}, tagged={TAG}))][::-1]


def change_progress(engine: Engine, session: str, **changes: Any) -> None:
    """Change what is noted about a session, if anything is."""

    def attempt() -> tuple[None, list[Record]]:
        stored = load_progress(engine, session)
        return None, [] if stored is None else [_progress_record(engine, replace(stored, **changes))]

    commit(engine, attempt)


def forget_progress(engine: Engine, session: str) -> None:
    engine.store.delete([_progress_id(session)])


def queue_session(engine: Engine, story: CodingSession, file: str, since: int, *, is_allowed: bool) -> None:
    """Note that a session has turns beyond `since` for a model to read; without leave, that it has none.

    What was recorded while no model was allowed is never read later.
    """
    stored = load_progress(engine, story.session) or Progress(session=story.session, project=engine.project)
    if stored.file == file and stored.is_waiting:
        if not is_allowed or stored.has_ended != story.ended:
            change_progress(engine, story.session, is_waiting=is_allowed, has_ended=story.ended)
        return
    start = max(since, stored.offset) if stored.file == file else since
    if is_allowed and any(one.offset > start and is_candidate(one) for one in story.heard):
        fresh = Progress(
            session=story.session,
            project=engine.project,
            file=file,
            offset=start,
            is_waiting=True,
            has_ended=story.ended,
            read_at=stored.read_at,
            dropped=stored.dropped,
        )
        commit(engine, lambda: (None, [_progress_record(engine, fresh)]))


def _progress_id(session: str) -> str:
    return f"mrk_reading_{digest(session)}"


def _progress_record(engine: Engine, progress: Progress) -> Record:
    name = _progress_id(progress.session)
    stored = next(iter(engine.store.get([name])), None)
    # It belongs to its project, so that it is erased with it.
    place = {"session": progress.session, "project": progress.project, "tags": (TAG,)}
    return make_marker(engine, name, {"value": asdict(progress)}, stored, **place)


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
    heard = tuple(one for one in story.heard if since < one.offset <= until and is_candidate(one))[-_MAX_TURNS:]
    ids = {one.id for one in heard}
    known = [
        one
        for one in _find_rules(engine)
        if one.session in ("", story.session)
        and one.agent == AGENT
        and one.body["source"] != RuleSource.MODEL
        and one.provenance.trust is not Trust.UNTRUSTED
        and not ids.issuperset(one.body["metadata"].get("sources", [""]))
    ]
    known.sort(key=lambda one: one.status is not Status.ACTIVE)
    fixed = [one for one in story.repairs if since < one.offset <= until][-_MAX_REPAIRS:]
    observed = ((find_repair(engine, one), one) for one in fixed)
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


def _find_rules(engine: Engine) -> list[Record]:
    where = Where(kinds={MemoryType.RULE}, projects={engine.project, EVERYWHERE}, statuses=set(LIVE))
    return list(engine.store.scan(where))


# -- what it changes


@dataclass(frozen=True, slots=True)
class Applied:
    """What a reading changed."""

    taught: tuple[Taught, ...] = ()
    refined: tuple[Record, ...] = ()
    archived: tuple[Record, ...] = ()


def apply_reading(engine: Engine, part: Part, reading: Reading, progress: Progress) -> Applied | None:
    """Store what a reading teaches, and that the session was read so far. None when somebody else was faster."""

    def attempt() -> tuple[Applied | None, list[Record]]:
        stored = load_progress(engine, part.story.session)
        if stored is None or (stored.file, stored.offset) != (progress.file, part.since):
            return None, []
        changes = _Changes(engine, part)
        for proposal in reading.proposals:
            changes.take_proposal(proposal)
        applied, records = changes.finish(is_complete=not reading.dropped)
        mark = mark_of(engine, stored.session)
        done = Progress(
            session=stored.session,
            project=stored.project,
            file=stored.file,
            offset=part.until,
            # More of the session may have been taken in while the model was reading.
            is_waiting=mark.file == stored.file and mark.offset > part.until,
            has_ended=stored.has_ended,
            read_at=engine.clock().timestamp(),
            dropped=dict(Counter(stored.dropped) + Counter(reading.dropped)),
        )
        observations = [
            explain_observation(engine, one, reading.notes[one.id])
            for one in engine.store.get(list(reading.notes))
            if "note" not in one.body["metadata"]
        ]
        return applied, [*records, *observations, _progress_record(engine, done)]

    return commit(engine, attempt)


class _Changes:
    """What the proposals of one reading change, made from what is stored now."""

    def __init__(self, engine: Engine, part: Part) -> None:
        self._engine = engine
        self._part = part
        self._turns = {one.id for one in part.heard}
        self._heard = {2 * index + 1: one for index, one in enumerate(part.heard)}
        self._rules = {one.id: one for one in _find_rules(engine)}
        self._shown_texts = {one.id: one.text for one in part.known}
        self._local = self._find_local_rules()
        self._settled = self._find_settled_turns()
        self._proposed: set[str] = set()
        self._updates: dict[str, tuple[Record, Record]] = {}
        """Rules as they become, each with its line of history."""
        self._teachings: list[Teaching] = []

    def take_proposal(self, proposal: RuleProposal) -> None:
        heard = self._heard[proposal.turn]
        is_first = heard.id not in self._proposed
        self._proposed.add(heard.id)
        if heard.id in self._settled or (proposal.known and proposal.known not in self._rules):
            return
        known = self._find_known(proposal)
        local = self._local.get(heard.id) if is_first else None
        if proposal.verdict is Verdict.SAME:
            if known is not None:
                self._teachings.append(self._repeat_rule(known, heard))
                self._end_duplicate(known, local)
        elif local is not None:
            self._refine_rule(local, proposal, heard, known)
        else:
            lesson = self._teach_rule(proposal, heard, known)
            self._teachings.append(lesson if is_first else replace(lesson, id=f"{lesson.id}:{len(self._teachings)}"))
        if proposal.general:
            self._teachings.append(self._suggest_general(proposal, heard))

    def finish(self, *, is_complete: bool) -> tuple[Applied, list[Record]]:
        """Return what changed, and all records to store. Only a complete reading says that a turn taught nothing."""
        taught, records = teaching(self._engine, self._teachings)()
        if is_complete:
            self._archive_doubted()
        changed = {one.id: one for one in records}
        updated = [pair for name, pair in self._updates.items() if name not in changed]
        changed |= {one.id: one for pair in updated for one in pair}
        self._count_violations(taught, changed)
        refined = [fresh for fresh, line in updated if line.body["verb"] == "refined"]
        archived = [fresh for fresh, line in updated if line.body["verb"] == "doubted"]
        return Applied(tuple(taught), tuple(refined), tuple(archived)), list(changed.values())

    def _find_local_rules(self) -> dict[str, Record]:
        """Return the rules that the local reader made of single turns of this part, as nobody has changed them."""
        local = {}
        for one in self._rules.values():
            sources = list(one.body["metadata"].get("sources", ()))
            is_untouched = one.provenance.origin is not Origin.USER and not one.body.get("put_away")
            if len(sources) == 1 and sources[0] in self._turns and one.body["source"] in _HEARD and is_untouched:
                local[sources[0]] = one
        return local

    def _find_settled_turns(self) -> set[str]:
        """Return the turns whose rule a person deleted or edited, or that count for another rule already.

        In other words, such a rule would come back or stand there twice.
        """
        statuses = {*LIVE, Status.ARCHIVED, Status.SUPERSEDED}
        where = Where(kinds={MemoryType.RULE}, projects={self._engine.project, EVERYWHERE}, statuses=statuses)
        counted = {
            turn
            for one in self._engine.store.scan(where)
            for turn in one.body["metadata"].get("sources", ())
            if turn in self._turns and turn not in self._local
        }
        keys = {
            one.id: key_of(MemoryType.RULE, AGENT, "", {"rule": shorten(clean(one.rule), RULE_CHARS)})
            for one in teachings(self._part.story, self._part.since)
        }
        gone = find_deleted_keys(self._engine, keys.values())
        return counted | {turn for turn, key in keys.items() if key in gone and turn not in self._local}

    def _find_known(self, proposal: RuleProposal) -> Record | None:
        """Return the known rule that a proposal is about, unless it was changed since the model was asked."""
        known = self._rules.get(proposal.known)
        return known if known is not None and known.body["rule"] == self._shown_texts.get(known.id) else None

    def _teach_rule(self, proposal: RuleProposal, heard: SessionTurn, known: Record | None) -> Teaching:
        prefer, avoid = find_choice(proposal.rule)
        checked = replace(proposal, is_sure=_is_sound(proposal, heard), prefer=prefer, avoid=avoid)
        lesson = make_teaching(checked, heard, self._part.story.session)
        assert lesson is not None, "only turns of a person are read"
        supersedes = (known.id,) if known is not None else ()
        return replace(lesson, metadata={**lesson.metadata, "reader": "model"}, supersedes=supersedes)

    def _repeat_rule(self, known: Record, heard: SessionTurn) -> Teaching:
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
            metadata={"session": self._part.story.session, "attended": True},
        )

    def _end_duplicate(self, known: Record, local: Record | None) -> None:
        """Let a known rule take the place of the local one that says the same."""
        if local is not None and not known.session:
            why = f"the model says that it repeats: {known.body['rule']}"
            line = change(self._engine, local, "superseded", why, {"status": str(local.status)}, known.id)
            fresh = revise(self._engine, local, status=Status.SUPERSEDED, superseded_by=known.id)
            self._updates[local.id] = (fresh, line)

    def _suggest_general(self, proposal: RuleProposal, heard: SessionTurn) -> Teaching:
        return Teaching(
            id=f"{heard.id}:general",
            rule=proposal.general,
            reach=Reach.PROJECT,
            source=RuleSource.MODEL,
            said=proposal.quote,
            session=self._part.story.session,
            sure=False,
            at=datetime.fromtimestamp(heard.at, UTC),
            metadata={"session": self._part.story.session, "attended": True, "reader": "model"},
        )

    def _refine_rule(self, local: Record, proposal: RuleProposal, heard: SessionTurn, known: Record | None) -> None:
        """Take the model's words for a local rule. They never turn it round, and never widen an active one."""
        from .rule_pairs import contradicts

        is_sound = _is_sound(proposal, heard)
        is_active = local.status is Status.ACTIVE
        if (is_active and not is_sound) or contradicts({**local.body, "rule": proposal.rule}, local.body):
            return
        reach = Reach(local.body["reach"]) if is_active else proposal.reach
        # What the model writes may hold a secret that it saw.
        texts = clean({"rule": proposal.rule, "trigger": proposal.trigger, "why": proposal.reason})
        body = {**local.body, **texts, "why": texts["why"] or local.body["why"], "reach": str(reach)}
        body["metadata"] = {**local.body["metadata"], "reader": "model"}
        fresh = rewrite(
            self._engine,
            local,
            dressed(body),
            status=Status.ACTIVE if is_active or is_sound else local.status,
            session="" if reach in LASTING else self._part.story.session,
            project=EVERYWHERE if reach is Reach.ALWAYS else local.project,
            key=key_of(local.kind, local.agent, local.user, body),
        )
        line = change(self._engine, fresh, "refined", "by the model", {"rule": local.body["rule"]})
        self._updates[fresh.id] = (fresh, line)
        if fresh.status is Status.ACTIVE and (not is_active or known is not None):
            records = contradicted(self._engine, fresh, (known.id,) if known is not None else ())
            ended = {one.id: one for one in records if one.kind == MemoryType.RULE}
            lines = {one.body["record"]: one for one in records if one.kind == "change"}
            self._updates |= {name: (one, lines[name]) for name, one in ended.items() if name not in self._updates}

    def _archive_doubted(self) -> None:
        """Archive the possible rules of turns in which the model found none. A person can restore them."""
        for turn, one in self._local.items():
            if turn not in self._proposed and one.status is Status.CANDIDATE:
                line = change(self._engine, one, "doubted", "by the model: it is no rule")
                self._updates[one.id] = (revise(self._engine, one, status=Status.ARCHIVED), line)

    def _count_violations(self, taught: Sequence[Taught], changed: dict[str, Record]) -> None:
        """Count a rule as violated if it was shown in the session and the person had to repeat it."""
        shown = {rule for one in self._part.story.shown for rule in one.rules}
        for one in taught:
            record = one.record
            if record is not None and one.verb in ("repeated", "promoted") and record.id in shown:
                [counted] = judged(self._engine, [changed[record.id]], {record.id: False})
                changed[record.id] = replace(counted, version=changed[record.id].version)


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
