"""Rules: what a person's corrections and notes teach, and what a person does to a rule.

A rule that is taught again is the same rule, said once more: a candidate becomes active when it is said in a form that
leaves no doubt, and what held for one session holds for the project when others need it too. What was said of one
moment ("no, the other file") is no rule of the project however often it is said. A rule that contradicts an older one
of the same place takes its place; what a machine found out takes the place of nothing that a person said. One that was
deleted stays deleted unless its person states it again. Each teaching has an id, and is counted once, however often
it is sent.

A person accepts, edits, widens, narrows, puts away, brings back and erases. Each change keeps the rule as it was in its
history, so that `restore_rule` can undo it. Only `erase_rule` cannot be undone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from ..errors import NotFoundError, ValidationError
from ..reading.local import LocalReader
from ..reading.port import Pair, Relation, Verdict
from ..reading.rule_changes import find_rule_change, list_rivals
from ..text import digest, is_common, normalise, shorten, stems
from ..types.kinds import (
    EVERYWHERE,
    KINDS,
    LASTING,
    MACHINE_TAUGHT,
    NEWER,
    TEAM,
    TEAM_AGENT,
    Basis,
    MemoryType,
    Reach,
    RuleSource,
)
from ..types.query import Where
from ..types.record import LIVE, Origin, Provenance, Record, Status, Trust
from .admit import author_of, clean, draft_record, embed_records, key_of, merge_repetition, readable_body, reword
from .context import Engine
from .erase import erase_memory
from .events import DELIVERY
from .facts import comparison_id, find_rejected, find_survivors, put_comparison
from .reversals import is_negated
from .rule_lines import dress_rule
from .search import by_meaning, by_words
from .tombstones import is_binding
from .transaction import Transaction, of_owner, refuse_activation, write

AGENT = "claude-code"  # Whom the rules of a coding agent belong to.
RULE_CHARS = 600
_CHARS = {"rule": RULE_CHARS, "trigger": 240, "why": 240, "said": 500, "accepted": 300}
_ALIKE = 12
_SOURCES = 50
_HABIT = 3  # In so many sessions a person says "for this session" before it is taken for more.
_SPOKEN_SOURCES = frozenset((RuleSource.NOTE, RuleSource.CORRECTION, RuleSource.PREFERENCE, RuleSource.IMPORT))
_ORIGINS = {RuleSource.NOTE: Origin.USER, RuleSource.MODEL: Origin.MODEL, RuleSource.IMPORT: Origin.IMPORT}
_READER = LocalReader()
_FORBIDDING = re.compile(r"\A(?:please\s+)?(?:never|don['’]t|do not|stop|avoid)\s+", re.IGNORECASE)
_ASKING = re.compile(r"\A(?:please\s+|always\s+)+", re.IGNORECASE)
_FIELDS = ("rule", "trigger", "why", "prefer", "avoid", "source")
_BY_PERSON = ("edited", "accepted", "restored")
_MOST_WORDS = 0.7  # Rules that share this part of their telling words may be one rule, worded anew.
_CHANGE_CHANCE = 0.5  # How probable it is that a rule that seems to change another one does.
_LEAST_QUOTE = 12  # A shorter sentence ("use tabs") may be part of many that have nothing to do with the rule.


def is_old_fix(record: Record) -> bool:
    """Return whether a rule was made from a repaired command by an earlier version; it is an observation now."""
    return record.kind == MemoryType.RULE and record.body.get("source") == RuleSource.FIX


def is_copy(record: Record) -> bool:
    """Return whether a record is a copy of what a team's server sent: its words are nobody's here."""
    return record.provenance.source == TEAM


def name_server(record: Record) -> str:
    """Return the server that a copy came from, as this machine knows it; empty for what is the person's own."""
    return (str(record.body["metadata"].get("server", "")) or "(unknown)") if is_copy(record) else ""


# -- what is taught


class Teaching(NamedTuple):
    """A rule that a turn or note teaches, before it is stored."""

    id: str  # Of what taught it; the same id teaches once.
    rule: str
    reach: Reach
    source: RuleSource
    trigger: str = ""
    why: str = ""
    said: str = ""
    prefer: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    session: str = ""
    agent: str = AGENT
    user: str = ""  # Whose rule it is; empty: everybody's.
    sure: bool = True  # Whether it holds at once; else it waits until it is repeated, confirmed or reviewed.
    at: datetime | None = None
    provenance: Provenance | None = None  # Where it came from, if `source` does not say it.
    episodes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    supersedes: tuple[str, ...] = ()  # The ids of rules that a reader says it takes the place of.
    basis: Basis = Basis.STATED
    accepted: str = ""  # The words with which the person accepted the deeds that it names.
    turns: tuple[str, ...] = ()  # The ids of the other turns that it comes from.
    receipt: str = ""  # The id of the receipt that it is added under; empty when every call counts.

    @property
    def is_explicit(self) -> bool:
        """Return whether a person wrote it down as a rule."""
        return self.sure and self.source in (RuleSource.NOTE, RuleSource.IMPORT)

    @property
    def is_outside(self) -> bool:
        """Return whether it comes from a page or a tool: an import that is not sure."""
        return self.source is RuleSource.IMPORT and not self.sure

    @property
    def is_doubted(self) -> bool:
        """Return whether an agent may have said it in a person's name."""
        return bool(self.metadata.get("doubt"))


class Taught(NamedTuple):
    """The result of a teaching: the stored rule, and what was done with it."""

    teaching: Teaching
    record: Record | None  # None: it was refused.
    verb: str  # made | repeated | confirmed | promoted | known | refused
    replaced: tuple[str, ...] = ()  # The ids of rules it contradicts and took the place of.


def teach(engine: Engine, teachings: Sequence[Teaching]) -> list[Taught]:
    """Store what is taught, in one transaction."""
    prepared = prepare_rules(engine, teachings)
    return write(engine, lambda tx: learn_rules(tx, prepared))


def prepare_rules(engine: Engine, teachings: Sequence[Teaching]) -> list[tuple[Teaching, Record]]:
    """Screen and embed the rules that teachings would become."""
    drafts = []
    for one in teachings:
        body: dict[str, Any] = {name: shorten(clean(getattr(one, name)), most) for name, most in _CHARS.items()}
        body |= {"reach": str(one.reach), "source": str(one.source), "prefer": list(one.prefer)}
        body |= {"avoid": list(one.avoid), "basis": str(one.basis)}
        body["metadata"] = {**one.metadata, "sources": list(dict.fromkeys((one.id, *one.turns))), "repeats": 0}
        if one.session:
            body["metadata"]["taught"] = [[one.session, str(one.source)]]
        is_learned = one.source in (RuleSource.FIX, RuleSource.MODEL)
        trust = Trust.UNTRUSTED if one.is_outside else Trust.LEARNED if is_learned else Trust.TRUSTED
        origin = _ORIGINS.get(one.source, Origin.CORRECTION)
        draft = draft_record(
            engine,
            MemoryType.RULE,
            body,
            agent=one.agent,
            user=one.user,
            session="" if one.reach in LASTING else one.session,
            provenance=one.provenance or Provenance(origin, trust, one.episodes, str(one.source)),
            tags=one.tags,
        )
        drafts.append(replace(draft, body=dress_rule(draft.body)))
    return list(zip(teachings, embed_records(engine, drafts), strict=True))


# -- the same, or contrary: in doubt they are two rules


def same_rule(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Return whether two rules say the same, by the local reader, or prefer and avoid the same names."""
    if contradicts(a, b) or _apply_elsewhere(a, b):
        return False
    names = _read_names(a)
    return _concern_same_command(a["rule"], b["rule"]) or (names == _read_names(b) and all(names))


def contradicts(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Return whether one rule prefers what the other avoids, or forbids exactly what the other asks for."""
    if _apply_elsewhere(a, b):
        return False
    (prefer, avoid), (other_prefer, other_avoid) = _read_names(a), _read_names(b)
    if prefer & other_avoid or avoid & other_prefer:
        return True
    forbids_one = bool(_FORBIDDING.match(a["rule"])) != bool(_FORBIDDING.match(b["rule"]))
    return forbids_one and _concern_same_command(a["rule"], b["rule"])


def read_change(older: Record, newer: Record) -> Verdict:
    """Return whether a person's newer rule replaces an older one, or seems to contradict it; else UNRELATED.

    What holds only on an occasion is an exception beside the rule that always holds.
    """
    spoken = all(one.body["source"] in _SPOKEN_SOURCES and not is_copy(one) for one in (older, newer))
    lasting = not older.session and not newer.session
    is_own = newer.provenance.is_persons and older.provenance.is_persons
    triggers = [frozenset(stems(str(one.body.get("trigger", "")))) for one in (older, newer)]
    is_exception = bool(triggers[1]) and not triggers[0]
    if not (spoken and lasting and is_own) or is_exception or _apply_elsewhere(older.body, newer.body):
        return Verdict.UNRELATED
    verdict = find_rule_change(str(older.body["rule"]), str(newer.body["rule"]))
    is_agreed = Basis.AGREED in (older.body.get("basis"), newer.body.get("basis"))
    is_doubtful = is_agreed or triggers[0] != triggers[1]
    return Verdict.CONTRADICTS if verdict is Verdict.REPLACES and is_doubtful else verdict


def _concern_same_command(first: str, second: str) -> bool:
    """Return whether two rules ask for the same or forbid the same, or one asks for what the other forbids."""
    first, second = (_ASKING.sub("", _FORBIDDING.sub("", rule)) for rule in (first, second))
    return _READER.compare([Pair(first, second)])[0].is_same


def _read_names(rule: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Return the names that a rule prefers and avoids: as stored, or else as its words state them."""
    # Loaded here, as below: what reads rules takes longer to load than all of alma.
    from ..reading.local_rules import find_choice

    stored = (rule.get("prefer", ()), rule.get("avoid", ()))
    prefer, avoid = stored if any(stored) else find_choice(str(rule["rule"]))
    return {str(name).lower() for name in prefer}, {str(name).lower() for name in avoid}


def _apply_elsewhere(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Return whether both rules say when they apply, without a telling word in common."""
    first, second = ({word for word in stems(str(rule.get("trigger", ""))) if not is_common(word)} for rule in (a, b))
    return bool(first and second) and not first & second


def _describe_similar(engine: Engine, rule: Record, project: str) -> Where:
    author = author_of(rule)
    conditions = {"projects": {project, EVERYWHERE}, "statuses": {*LIVE, Status.ARCHIVED}}
    return of_owner(engine, rule, MemoryType.RULE, agents={author, *engine.scopes.spaces(author)}, **conditions)


def find_similar_rules(tx: Transaction, rule: Record, project: str) -> list[Record]:
    """Return the rules of the same agent and user that might be the same or contradict it, likeliest first."""
    engine, body = tx.engine, rule.body
    where = _describe_similar(engine, rule, project)
    ids = dict.fromkeys(record.id for record in tx.see(engine.store.scan(replace(where, keys={rule.key}))))
    names = (*body["prefer"], *body["avoid"], *list_rivals(str(body["rule"])))
    for text in (f"{body['trigger']} {body['rule']}", *names):
        ids |= dict.fromkeys(hit.id for hit in by_words(engine.store, str(text), where, _ALIKE))
    if rule.vectors and engine.encoder is not None:
        ids |= dict.fromkeys(hit.id for hit in by_meaning(engine, rule.vectors, where, _ALIKE))
    found = tx.select(tx.get(ids, as_stored=True), where)
    # Copies that earlier versions stored belong to the same agent.
    return [one for one in found if author_of(one) == author_of(rule) and is_copy(one) == is_copy(rule)]


# -- learning


def learn_rules(tx: Transaction, prepared: Sequence[tuple[Teaching, Record]]) -> list[Taught]:
    """Add each rule, count it as repeated, or let it replace the rules it contradicts."""
    return [_learn_rule(tx, teaching, draft) for teaching, draft in prepared]


def _learn_rule(tx: Transaction, teaching: Teaching, draft: Record) -> Taught:
    project = tx.engine.project
    tx.watch_keys([draft.key])
    where = replace(_describe_similar(tx.engine, draft, project), keys={draft.key})
    # A copy never joins a person's statement: its words, now and later, are those of a server.
    exact = [rule for rule in tx.scan(where) if not is_copy(rule)]
    if draft.provenance.is_persons:
        exact += find_survivors(tx, where).values()
    exact = [rule for rule in exact if not _is_others_proposal(teaching, draft, rule)]
    joined = next((rule for rule in exact if rule.session in ("", draft.session)), None)
    if joined is not None:
        # It is known in these very words: nothing like it needs to be looked for.
        return _repeat_rule(tx, teaching, draft, joined, None)
    if not draft.provenance.is_persons and (rejected := find_rejected(tx, {draft.key})):
        return Taught(teaching, rejected[draft.key], "known")
    similar = find_similar_rules(tx, draft, project)
    same = [rule for rule in similar if rule.key == draft.key or same_rule(draft.body, rule.body)]
    proposals = [rule for rule in same if _is_others_proposal(teaching, draft, rule)]
    joined = _pick_joined(teaching, draft, [rule for rule in same if rule not in proposals])
    if joined is not None:
        return _repeat_rule(tx, teaching, draft, joined, similar)
    stone = tx.find_tombstones([draft.key]).get(draft.key)
    if stone is not None and not is_binding(stone, draft.provenance):
        stone = None
    is_later = stone is not None and teaching.at is not None and teaching.at > stone.updated_at
    if stone is not None and not teaching.is_explicit and not is_later:
        return Taught(teaching, None, "refused")
    status = Status.ACTIVE if teaching.sure else Status.CANDIDATE
    project = EVERYWHERE if teaching.reach is Reach.ALWAYS else tx.engine.project
    record = tx.put(replace(draft, project=project, status=status, links=teaching.episodes))
    tx.claim_keys([draft.key])
    is_active = record.status is Status.ACTIVE
    for rule in proposals if is_active else ():
        if rule.status is Status.CANDIDATE:
            tx.supersede(rule, record, "a person stated it in their own words")
    if not is_active:
        # What waits ends nothing; the person sees what it would change.
        file_conflicts(tx, record, similar)
        return Taught(teaching, record, "made")
    return Taught(teaching, record, "made", supersede_rules(tx, record, similar, teaching.supersedes))


def _is_others_proposal(teaching: Teaching, draft: Record, rule: Record) -> bool:
    """Return whether a rule waits that no person stated, while a person states the same.

    The person's words do not accept those of an agent or a page: its reason, its details and its reach may differ.
    """
    is_doubted = bool(rule.body.get("metadata", {}).get("doubt"))
    is_weaker = is_doubted or rule.provenance.weight < draft.provenance.weight
    if rule.status is Status.ACTIVE or not (draft.provenance.is_persons and is_weaker and teaching.sure):
        return False
    # What a person put away comes back only if a person writes it down.
    return teaching.is_explicit or not rule.body.get("put_away")


def _pick_joined(teaching: Teaching, draft: Record, same: Sequence[Record]) -> Record | None:
    """Return which of the rules that say the same it adds to: none, while it may be a wish of several moments."""
    near = [
        rule for rule in same if rule.session in ("", draft.session) or teaching.id in rule.body["metadata"]["sources"]
    ]
    if near or not draft.session:
        return next(iter(near or same), None)
    sessions = {rule.session for rule in same} | {draft.session}
    reaches = {Reach(rule.body["reach"]) for rule in same} | {teaching.reach}
    if len(sessions) < (_HABIT if Reach.SESSION in reaches else 2):
        return None
    # What was said of a moment must make sense at others as well.
    from ..reading.local_rules import is_self_contained

    return same[0] if (teaching.prefer and teaching.avoid) or is_self_contained(teaching.rule) else None


def _repeat_rule(
    tx: Transaction, teaching: Teaching, draft: Record, rule: Record, similar: Sequence[Record] | None
) -> Taught:
    """Count a rule as taught once more, which may activate it or make it reach further."""
    merged = _merge_teaching(teaching, draft, rule)
    metadata = dict(merged["body"].get("metadata", {}))
    sources = list(metadata.get("sources", ()))
    if teaching.id in sources or teaching.is_doubted:
        return Taught(teaching, rule, "known")
    if teaching.is_outside:
        # A page or an agent that says it again is no second voice; what it adds is kept.
        return Taught(teaching, _store_addition(tx, rule, merged, draft), "known")
    sources += [id for id in (teaching.id, *teaching.turns) if id not in sources]
    metadata |= {"sources": sources[-_SOURCES:], "repeats": int(metadata.get("repeats", 0)) + 1}
    if teaching.session:
        before = metadata.get("taught", [[metadata.get("session", ""), str(rule.body["source"])]])
        metadata["taught"] = [*before, [teaching.session, str(teaching.source)]][-_SOURCES:]
    body = {**merged["body"], "metadata": metadata}
    changes: dict[str, Any] = {"tags": merged["tags"]}
    verb = "repeated"
    is_lasting = teaching.reach in LASTING
    is_wider = teaching.reach is Reach.ALWAYS and rule.project != EVERYWHERE and teaching.is_explicit
    if (rule.session and (is_lasting or teaching.session != rule.session)) or (not rule.session and is_wider):
        reach = teaching.reach if is_lasting else Reach.PROJECT
        body["reach"] = str(reach)
        changes |= {"session": "", "project": EVERYWHERE if reach is Reach.ALWAYS else rule.project}
        verb = "promoted"
    # What refuses is a machine, and it refuses again what is tried again. A person who changes the same thing again
    # means it. Heard again in words that were in doubt before, it is still in doubt.
    confirms = (
        is_lasting if teaching.source is RuleSource.EDIT else teaching.sure and teaching.source is not RuleSource.DENIAL
    )
    if tx.engine.may_activate(rule):
        if confirms and rule.status is not Status.ACTIVE and not rule.body.get("put_away"):
            changes["status"] = Status.ACTIVE
            verb = "confirmed" if verb == "repeated" else verb
            metadata.pop("doubt", None)
            body |= {"basis": str(teaching.basis), "accepted": shorten(clean(teaching.accepted), _CHARS["accepted"])}
        if teaching.is_explicit:
            tx.accepted.add(rule.id)
            body |= {"source": str(teaching.source), "rule": draft.body["rule"], "put_away": False}
            body["basis"] = str(Basis.STATED)
            changes["status"] = Status.ACTIVE
            if draft.provenance.weight > rule.provenance.weight:
                changes["provenance"] = draft.provenance
    if teaching.sure and teaching.basis is Basis.STATED and draft.key == rule.key:
        # What was agreed is now in the person's own words.
        body["basis"] = str(Basis.STATED)
    body = dress_rule(body)
    if any(body[name] != rule.body[name] for name in ("rule", "trigger")):
        changes |= {"vectors": draft.vectors, "embedder": draft.embedder}
    key = key_of(rule.kind, author_of(rule), rule.user, body)
    fresh = tx.update(rule, body=body, text=KINDS[rule.kind].text(body), key=key, **changes)
    before = {"status": str(rule.status), "reach": rule.body.get("reach"), "rule": rule.body.get("rule")}
    before |= {name: rule.body[name] for name in ("trigger", "why") if body[name] != rule.body[name]}
    tx.add_history(fresh, verb, shorten(clean(teaching.said or teaching.rule), _CHARS["said"]), before)
    reaches_further = (rule.session, rule.project) != (fresh.session, fresh.project)
    is_ending = rule.status is not Status.ACTIVE or reaches_further or teaching.supersedes
    if fresh.status is not Status.ACTIVE or not is_ending:
        return Taught(teaching, fresh, verb)
    similar = find_similar_rules(tx, fresh, tx.engine.project) if similar is None else similar
    return Taught(teaching, fresh, verb, supersede_rules(tx, fresh, similar, teaching.supersedes))


def _merge_teaching(teaching: Teaching, draft: Record, rule: Record) -> dict[str, Any]:
    """Return the body and tags of a rule that is taught once more.

    Only who writes a rule down changes its words, and nobody but a person those of a rule in force.
    """
    is_written = teaching.source in (RuleSource.NOTE, RuleSource.IMPORT)
    is_allowed = draft.provenance.is_persons or rule.status is Status.CANDIDATE
    is_outweighed = draft.provenance.weight < rule.provenance.weight
    return merge_repetition(
        replace(rule, body=readable_body(rule)), draft, can_replace=is_written and is_allowed and not is_outweighed
    )


def _store_addition(tx: Transaction, rule: Record, merged: Mapping[str, Any], draft: Record) -> Record:
    """Store what a repetition adds to a rule without counting it as taught again."""
    body = dress_rule(merged["body"])
    if (body, merged["tags"]) == (rule.body, rule.tags):
        return rule
    changes: dict[str, Any] = {"body": body, "tags": merged["tags"], "text": KINDS[rule.kind].text(body)}
    if (body["rule"], body["trigger"]) != (rule.body["rule"], rule.body["trigger"]):
        changes |= {"vectors": draft.vectors, "embedder": draft.embedder}
        changes["key"] = key_of(rule.kind, author_of(rule), rule.user, body)
    return tx.update(rule, **changes)


def supersede_rules(
    tx: Transaction, record: Record, similar: Sequence[Record], replaced_ids: Collection[str] = ()
) -> tuple[str, ...]:
    """Let a rule that now holds take the place of those that it contradicts, and of those `named`; return their ids.

    Copies of a team's rules that repeat or contradict it are silenced as well.
    """
    ended = _find_contradicted(tx, record, similar, replaced_ids)
    for rule in ended:
        reason = (
            "the model says that a later rule replaces it" if rule.id in replaced_ids else "a later rule contradicts it"
        )
        tx.supersede(rule, record, f"{reason}: {record.body['rule']}")
        settle_evidence(tx, tx.get([rule.id])[0])
    file_conflicts(tx, record, similar)
    return (*(rule.id for rule in ended), *silence_copies(tx, [record]))


def file_conflicts(tx: Transaction, record: Record, similar: Iterable[Record]) -> None:
    """File a conflict with each older rule that this one seems to change; a person decides which of them holds.

    Both stay in force. The older one is marked with the id of the newer one.
    """
    for rule in tx.get(one.id for one in similar):
        is_near = rule.project == record.project or EVERYWHERE in (rule.project, record.project)
        if rule.id == record.id or rule.status is not Status.ACTIVE or not is_near:
            continue
        is_marked = rule.body["metadata"].get(NEWER) == record.id
        verdict = read_change(rule, record)
        is_conflict = verdict is not Verdict.UNRELATED
        known = tx.find(comparison_id(rule, record)) if is_conflict else None
        if known is not None and known.status is Status.ACTIVE:
            continue
        if is_conflict:
            put_comparison(tx, (rule, record), Relation(verdict, _CHANGE_CHANCE), Origin.SYSTEM)
        if is_conflict or is_marked:
            metadata = {name: value for name, value in rule.body["metadata"].items() if name != NEWER}
            metadata |= {NEWER: record.id} if is_conflict else {}
            tx.update(rule, body={**rule.body, "metadata": metadata}, updated_at=rule.updated_at)


def drop_marks(tx: Transaction, record: Record) -> None:
    """Remove the marks of older rules that a reworded one was found to change."""
    where = Where(kinds={"comparison"}, projects={tx.engine.project}, linked={record.id}, statuses={Status.ACTIVE})
    older_ids = {one.links[0] for one in tx.scan(where)} - {record.id}
    for rule in tx.get(older_ids):
        metadata = dict(rule.body.get("metadata", {}))
        if metadata.pop(NEWER, "") == record.id:
            tx.update(rule, body={**rule.body, "metadata": metadata}, updated_at=rule.updated_at)


def silence_copies(tx: Transaction, rules: Sequence[Record]) -> list[str]:
    """Supersede the copies in this project that repeat or contradict one of these own rules."""
    holding = [one for one in rules if one.status is Status.ACTIVE and not one.session and not is_copy(one)]
    kinds = {MemoryType.RULE, "observation"}
    where = Where(kinds=kinds, projects={tx.engine.project}, agents={TEAM_AGENT}, statuses=LIVE)
    silenced = []
    for copy in tx.scan(where) if holding else ():
        advice = read_advice(copy)
        if rule := find_rival(advice, [one for one in holding if share_words(one.body, advice)]):
            tx.supersede(copy, rule, f"a rule of the person's own repeats or contradicts it: {rule.body['rule']}")
            silenced.append(copy.id)
    return silenced


def read_advice(copy: Record) -> Mapping[str, Any]:
    """Return the body of a copy as that of a rule; an observation advises the command that worked."""
    return copy.body if "rule" in copy.body else {**copy.body, "rule": copy.body["worked"]}


def find_rival(advice: Mapping[str, Any], rules: Iterable[Record]) -> Record | None:
    """Return the first of these own rules that repeats or contradicts what a team advises.

    In doubt it is the contrary: the cost of that is advice of a team that is not shown.
    """
    for one in rules:
        own = one.body
        if contradicts(advice, own) or _may_forbid(own, advice) or _may_forbid(advice, own) or same_rule(advice, own):
            return one
    return None


def _may_forbid(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Return whether a rule forbids something, and another asks for something that has all telling words of it."""
    if not _FORBIDDING.match(a["rule"]) or _FORBIDDING.match(b["rule"]) or _apply_elsewhere(a, b):
        return False
    words = {word for word in stems(_FORBIDDING.sub("", a["rule"])) if not is_common(word)}
    avoided = {part for name in b.get("avoid", ()) for part in (str(name).lower(), *stems(str(name)))}
    return bool(words) and words <= list_telling_words(b) - avoided


def resemble(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Return whether two rules are equal or share most of their content words, both asking or both forbidding."""
    first, second = (list_telling_words(rule) for rule in (a, b))
    is_like = bool(first and second) and len(first & second) >= _MOST_WORDS * max(len(first), len(second))
    forbids_one = bool(_FORBIDDING.match(a["rule"])) != bool(_FORBIDDING.match(b["rule"]))
    return same_rule(a, b) or (is_like and not forbids_one and not contradicts(a, b))


def share_words(a: Mapping[str, Any], b: Mapping[str, Any]) -> int:
    """Return how many telling words two rules share; 1 where one has no words that can be compared."""
    first, second = (list_telling_words(rule) for rule in (a, b))
    return len(first & second) if first and second else 1


def list_telling_words(rule: Mapping[str, Any]) -> set[str]:
    """Return the stems and names by which a rule may be about the same as another."""
    names = {str(name).lower() for name in (*rule.get("prefer", ()), *rule.get("avoid", ()))}
    return names | {word for word in stems(str(rule["rule"])) if not is_common(word)}


def _find_contradicted(
    tx: Transaction, record: Record, similar: Sequence[Record], replaced_ids: Collection[str] = ()
) -> list[Record]:
    """Return the rules that end when this one holds: those `named`, and those of `similar` that it contradicts.

    What the person stated ends for deeds that they accepted only if their own words contradict it. What was taught in
    the same turn stays: an exception, and the usual way beside it.
    """
    ended = []
    for rule in tx.get([*(one.id for one in similar), *replaced_ids]):
        # What a machine found out takes the place of nothing that a person said.
        is_weaker = rule.body["source"] in _SPOKEN_SOURCES and record.body["source"] not in _SPOKEN_SOURCES
        # What is said for one session ends no rule of the project; a rule of a project ends none of all projects.
        is_near = rule.project == record.project or record.project == EVERYWHERE
        is_of_place = rule.session == record.session if record.session else is_near
        can_end = rule.id != record.id and rule.status in LIVE and is_of_place and not is_weaker
        is_ended = rule.id in replaced_ids or contradicts(record.body, rule.body)
        is_ended = is_ended or (can_end and read_change(rule, record) is Verdict.REPLACES)
        if can_end and is_ended and not _share_turn(record, rule) and _may_end(record, rule, rule.id in replaced_ids):
            ended.append(rule)
    return ended


def _share_turn(first: Record, second: Record) -> bool:
    """Return whether a rule of one session only and one that lasts were taught in the same turn."""
    if bool(first.session) == bool(second.session):
        return False
    own, other = ({str(id) for id in rule.body["metadata"].get("sources", ())} for rule in (first, second))
    return any(id == turn or id.startswith(f"{turn}:") or turn.startswith(f"{id}:") for id in own for turn in other)


def _may_end(record: Record, rule: Record, is_named: bool) -> bool:
    """Return whether a rule may end another: one that was agreed needs words of the person against a stated one."""
    is_agreed = record.body.get("basis") == Basis.AGREED and rule.body.get("basis", Basis.STATED) == Basis.STATED
    if not is_agreed or rule.status is not Status.ACTIVE:
        return True
    prefer, avoid = _read_names({"rule": record.body["said"]})
    spoken = {"rule": record.body["said"], "prefer": tuple(prefer), "avoid": tuple(avoid)}
    # "Push it" asks for a push, and ends no rule about pushing.
    is_against = is_named and is_negated(record.body["said"]) and share_words(spoken, rule.body) > 0
    return is_against or contradicts(spoken, rule.body)


# -- the exchanges that taught a rule

FORGOTTEN = "you forgot what it taught"
OUTDATED = "a later rule replaces what it taught"
EVIDENCE_ENDS = (FORGOTTEN, OUTDATED)
"""Why an exchange is not shown any more, beside what speaks against itself."""


class ReaderFinding(StrEnum):
    """What a model found in an exchange that it read; of several things, the last of these counts."""

    NOTHING = "nothing"
    MOMENTARY = "momentary"
    """Only what held for that session."""
    RULE = "rule"
    """A rule that is shown itself."""
    PARTLY = "partly"
    """A rule that had to leave names out, so the exchange is shown beside it."""
    WAITING = "waiting"
    """What would last, but waits for the person. Until they decide, the exchange is shown in its place."""


def exchange_id(turn_id: str) -> str:
    """Return the id of the exchange of a turn."""
    return f"exc_{digest(turn_id, size=13)}"


def list_turns(rule: Record) -> list[str]:
    """Return the ids of the turns that taught a rule."""
    sources = rule.body.get("metadata", {}).get("sources", ())
    return [str(source).partition(":")[0] for source in sources]


def settle_evidence(tx: Transaction, rule: Record) -> None:
    """Stop showing the exchanges that taught only rules that are over, or show them again.

    A session would otherwise be shown, as an excerpt, what a person forgot.
    """
    turns = set(list_turns(rule))
    records = tx.get([exchange_id(turn) for turn in turns])
    if not records:
        return
    holding: set[str] = set()
    waiting: set[str] = set()
    for other in tx.scan(Where(kinds={MemoryType.RULE}, projects={rule.project, EVERYWHERE}, statuses=LIVE)):
        holding.update(list_turns(other))
        if other.status is Status.CANDIDATE and not other.session:
            waiting.update(list_turns(other))
    for record in records:
        if record.body.get("found") == ReaderFinding.WAITING and record.body["turn"] not in waiting:
            record = tx.update(record, body={**record.body, "found": str(ReaderFinding.RULE)})
        is_held = record.body["turn"] in holding
        is_ended = record.body["concern"] in EVIDENCE_ENDS
        if is_held and is_ended:
            tx.update(record, body={**record.body, "concern": ""}, status=Status.ACTIVE)
        elif not is_held and not record.body["concern"]:
            concern = OUTDATED if rule.status is Status.SUPERSEDED else FORGOTTEN
            tx.update(record, body={**record.body, "concern": concern}, status=Status.RETIRED)


# -- what a person does to a rule


def change_rule(
    engine: Engine,
    rule_id: str,
    verb: str,
    *,
    words: Mapping[str, str] | None = None,
    reach: Reach | None = None,
    status: Status | None = None,
    session: str = "",
) -> tuple[Record, list[Record]]:
    """Change a rule for a person; return it and the rules that it replaces from now on.

    `words` holds new values of `rule`, `trigger` and `why`. `session` is where a rule of reach once or session holds.
    """
    fields = {name: " ".join(str(clean(value)).split()) for name, value in (words or {}).items()}
    check_lengths(fields)
    if not fields.get("rule", "rule"):
        raise ValidationError("a rule cannot be empty; delete it instead")

    def step(tx: Transaction) -> tuple[Record, list[Record]]:
        record = _get_rule(tx, rule_id)
        own = reach or Reach(record.body["reach"])
        return apply_rule_change(tx, record, verb, fields, own, status or record.status, session)

    return write(engine, step)


def check_lengths(fields: Mapping[str, Any]) -> None:
    """Raise ValidationError if a text of a rule is too long."""
    for name, most in _CHARS.items():
        if len(fields.get(name, "")) > most:
            raise ValidationError(f"the {name} has {len(fields[name]):,} characters; shorten it to at most {most:,}")


def restore_rule(engine: Engine, rule_id: str) -> tuple[Record, list[Record]]:
    """Undo the last change of a rule; return the rule and the rules that it replaces.

    A rule that was replaced or put away is in force again, or waits again if it did before. A rule in force gets the
    words, the reach and the status that it had before a person last changed it.
    """

    def step(tx: Transaction) -> tuple[Record, list[Record]]:
        record = _get_rule(tx, rule_id)
        body, lines = record.body, [one.body for one in reversed(tx.read_history(rule_id))]
        if record.status not in LIVE:
            before: dict[str, Any] = {"status": tx.find_live_status(record) or Status.ACTIVE}
            if record.status is Status.SUPERSEDED and not body.get("put_away"):
                before["reach"] = body["reach"] if body["reach"] in LASTING else Reach.PROJECT
        else:
            before = next((one["before"] for one in lines if one["verb"] in _BY_PERSON and one["before"]), {})
        fields = {name: before[name] for name in _FIELDS if before.get(name, body[name]) != body[name]}
        reach, status = Reach(before.get("reach", body["reach"])), Status(before.get("status", record.status))
        if not fields and (str(reach), status) == (body["reach"], record.status):
            raise ValidationError("this rule has no change to undo")
        session, project = before.get("session", record.session), before.get("project", "")
        return apply_rule_change(tx, record, "restored", fields, reach, status, session, project)

    return write(engine, step)


def find_ended(tx: Transaction, rule: Record, successor: str) -> list[Record]:
    """Return the rules in force that end when this one holds: its successor, if it has one, and what it contradicts."""
    similar = find_similar_rules(tx, rule, rule.project)
    ids = filter(None, [successor, *(one.id for one in _find_contradicted(tx, rule, similar))])
    return [one for one in tx.get(ids) if one.kind == MemoryType.RULE and one.status in LIVE]


def _get_rule(tx: Transaction, rule_id: str) -> Record:
    record = tx.find(rule_id)
    if record is None or record.kind != MemoryType.RULE:
        raise NotFoundError(f"rule {rule_id!r} no longer exists")
    return record


def apply_rule_change(
    tx: Transaction,
    record: Record,
    verb: str,
    fields: Mapping[str, Any],
    reach: Reach,
    status: Status,
    session: str,
    project: str = "",
) -> tuple[Record, list[Record]]:
    """Change a rule for a person, in a transaction; return it and the rules that it replaces from now on."""
    # Loaded here: what reads rules takes longer to load than all of alma.
    from ..reading.local_rules import find_choice

    if is_copy(record):
        is_changed = bool(fields) or reach is not Reach.PROJECT
        refuse_copy_change(tx, record, is_changed=is_changed, is_accepted=status is Status.ACTIVE)
    session = "" if reach in LASTING else record.session or session
    if reach not in LASTING and not session:
        raise ValidationError(f"reach {str(reach)!r} needs a session: pass its id, or use 'project' or 'always'")
    own = project or (record.project if record.project != EVERYWHERE else tx.engine.project)
    body: dict[str, Any] = {**record.body, **fields, "reach": str(reach), "put_away": status not in LIVE}
    changes: dict[str, Any] = {"project": EVERYWHERE if reach is Reach.ALWAYS else own, "session": session}
    body = claim_words(record, body, fields, status)
    if fields:
        body["wordings"] = {} if "rule" in fields else body.get("wordings", {})
        body["metadata"] = {name: value for name, value in body.get("metadata", {}).items() if name != NEWER}
        if "rule" in fields and "prefer" not in fields:
            prefer, avoid = find_choice(body["rule"])
            body |= {"prefer": list(prefer), "avoid": list(avoid)}
        if "why" in fields and "source" not in fields and body["source"] in MACHINE_TAUGHT:
            # The reason is no longer what a program printed.
            body["source"] = str(RuleSource.NOTE)
        changes |= reword(tx.engine, record, body)
        if "rule" in fields or record.provenance.is_persons:
            changes["provenance"] = replace(record.provenance, origin=Origin.USER, trust=Trust.TRUSTED)
    if status is Status.ACTIVE:
        tx.accepted.add(record.id)
        body = accept_words(record, body)
    fresh = tx.update(record, status=status, superseded_by="", valid_to=None, **{"body": body, **changes})
    before = {name: record.body[name] for name in (*_FIELDS, "reach")}
    before |= {"status": str(record.status), "session": record.session, "project": record.project}
    tx.add_history(fresh, verb, "by a person", before)
    ended = find_ended(tx, fresh, record.superseded_by) if status is Status.ACTIVE else []
    for one in ended:
        tx.supersede(one, fresh, f"a person {verb}: {fresh.body['rule']}")
        settle_evidence(tx, tx.get([one.id])[0])
    if fields:
        drop_marks(tx, fresh)
    if status is Status.ACTIVE:
        file_conflicts(tx, fresh, find_similar_rules(tx, fresh, fresh.project))
    settle_evidence(tx, fresh)
    silence_copies(tx, [fresh])
    return fresh, ended


def refuse_copy_change(tx: Transaction, copy: Record, *, is_changed: bool, is_accepted: bool) -> None:
    """Raise an error if a copy of a team's rule would get other words or another reach, or overrule an own rule.

    Its words come from a server, which may change them at any time. What a person words is a rule of their own.
    """
    if is_changed:
        raise ValidationError("this rule is a copy of a team's rule, which cannot be changed here; state your own rule")
    if not is_accepted:
        return
    if not tx.engine.may_approve:
        raise refuse_activation(copy, "is a copy of a team's rule")
    own = tx.scan(tx.engine.within(MemoryType.RULE, users={""}, sessions={""}, statuses={Status.ACTIVE}))
    advice = read_advice(copy)
    rival = find_rival(advice, [one for one in own if not is_copy(one) and share_words(one.body, advice)])
    if rival is not None:
        raise ValidationError(
            f"your rule {rival.body['rule']!r} [{rival.id[-8:]}] says the same as this rule of the team, or the "
            "contrary; forget yours first"
        )


def claim_words(
    record: Record, body: Mapping[str, Any], fields: Iterable[str], status: Status | None
) -> dict[str, Any]:
    """Return the body of a rule that a person changes: what they accept or word is stated by them from now on."""
    is_accepted = status is Status.ACTIVE and record.status is not Status.ACTIVE
    is_worded = not {"rule", "trigger", "why"}.isdisjoint(fields)
    is_changed = (is_accepted or is_worded) and body.get("basis") == Basis.AGREED
    return {**body, "basis": str(Basis.STATED)} if is_changed else dict(body)


def accept_words(record: Record, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a record that a person accepts; a copy of a team's rule is accepted in these words only."""
    if not is_copy(record):
        return dict(body)
    metadata = body.get("metadata", {})
    return {**body, "metadata": {**metadata, "accepted": metadata.get("content", "")}}


# -- erasing


def erase_rule(engine: Engine, rule: Record) -> int:
    """Erase a rule, its history and every recorded turn that holds the sentence it came from; return how many turns.

    The exchanges that quote the sentence go with them. It cannot be undone. The caller erases the sentence from
    journals, and vacuums.
    """
    erase_memory(replace(engine, project=rule.project), rule)
    quotes = find_quotes(rule)
    # A rule of all projects may have been taught in any of them.
    projects = None if rule.project == EVERYWHERE else {rule.project}
    recorded = engine.store.scan(Where(kinds={"turn", "exchange"}, projects=projects))
    quoting = [record for record in recorded if has_quote(record.text, quotes)]
    for record in quoting:
        erase_memory(replace(engine, project=record.project), record)
    notes = engine.store.scan(Where(kinds={"retrieval", DELIVERY}, projects=projects))
    texts = {one.id: (one.body.get("task", ""), *map(str, one.body.get("event", {}).values())) for one in notes}
    engine.store.delete([id for id, own in texts.items() if any(has_quote(text, quotes) for text in own)])

    def forget_words(tx: Transaction) -> None:
        tx.is_erasing = True
        for one in tx.scan(Where(kinds={MemoryType.RULE}, projects=projects)):
            if has_quote(one.body["said"], quotes):
                tx.update(one, body={**one.body, "said": ""})

    write(engine, forget_words)
    return sum(record.kind == "turn" for record in quoting)


def find_quotes(rule: Record) -> list[str]:
    """Return the sentences by which a recorded turn is recognised as one that taught this rule."""
    return list(dict.fromkeys(normalise(str(rule.body[name])) for name in ("said", "rule") if rule.body[name]))


def has_quote(text: str, quotes: Sequence[str]) -> bool:
    """Return whether a text holds one of these sentences; a short one only counts when it is the whole text."""
    plain = normalise(text)
    return any(one == plain or (len(one) >= _LEAST_QUOTE and one in plain) for one in quotes)
