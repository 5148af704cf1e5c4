"""Rules: what a person's corrections and notes teach, and what becomes of them.

A rule that is taught again is the same rule, said once more: a candidate becomes active when it is said in a form that
leaves no doubt, and what held for one session holds for the project when others need it too. What was said of one
moment ("no, the other file") is no rule of the project however often it is said. A rule that contradicts an older one
of the same place takes its place; what a machine found out takes the place of nothing that a person said. One that was
deleted stays away unless its person states it anew. Each teaching has an id, and is counted once, however often it is
told.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ..reading.local import LocalReader
from ..reading.port import Pair
from ..text import content_words, is_common, shorten, stem, stems
from ..types.kinds import KINDS, MemoryType
from ..types.query import Where
from ..types.record import LIVE, Origin, Provenance, Record, Status, Trust
from ..types.rules import EVERYWHERE, LASTING, Reach, RuleSource
from .admit import Draft, build, clean, key_of, screen
from .context import Engine
from .rule_lines import format_line
from .search import by_meaning, by_words
from .transaction import Transaction, write

AGENT = "claude-code"
"""Whom the rules of a coding agent belong to."""
RULE_CHARS = 600
_PART_CHARS = 240
_SAID_CHARS = 500
_ALIKE = 12
_SOURCES = 50
_HABIT = 3
"""In so many sessions a person says "for this session" before it is taken for more."""
_SPOKEN = frozenset((RuleSource.NOTE, RuleSource.CORRECTION, RuleSource.PREFERENCE, RuleSource.IMPORT))
_ORIGINS = {
    RuleSource.NOTE: Origin.USER,
    RuleSource.CORRECTION: Origin.CORRECTION,
    RuleSource.PREFERENCE: Origin.CORRECTION,
    RuleSource.EDIT: Origin.CORRECTION,
    RuleSource.DENIAL: Origin.CORRECTION,
    RuleSource.MODEL: Origin.MODEL,
    RuleSource.IMPORT: Origin.IMPORT,
}
_READER = LocalReader()
_FORBIDDING = re.compile(r"\A(?:please\s+)?(?:never|don['’]t|do not|stop|avoid)\s+", re.IGNORECASE)
_ASKING = re.compile(r"\A(?:please\s+|always\s+)+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Teaching:
    """What one turn or note teaches."""

    id: str
    """Of what taught it; the same id teaches once."""
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
    user: str = ""
    """Whose rule it is; empty: everybody's."""
    sure: bool = True
    """Whether it holds at once; else it waits until it is repeated, confirmed or reviewed."""
    at: datetime | None = None
    provenance: Provenance | None = None
    """Where it came from, if `source` does not say it."""
    episodes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    supersedes: tuple[str, ...] = ()
    """The ids of rules that a reader says it takes the place of."""

    @property
    def explicit(self) -> bool:
        """Whether somebody who may make rules wrote it down as one."""
        return self.sure and self.source in (RuleSource.NOTE, RuleSource.IMPORT)


@dataclass(frozen=True, slots=True)
class Taught:
    """What became of a teaching."""

    teaching: Teaching
    record: Record | None
    """None: it was refused."""
    verb: str
    """made | repeated | confirmed | promoted | known | refused"""
    replaced: tuple[str, ...] = ()
    """The ids of rules it contradicts and took the place of."""


@dataclass(frozen=True, slots=True)
class PreparedRule:
    """A teaching, and the rule that it would become."""

    teaching: Teaching
    draft: Draft


def teach(engine: Engine, teachings: Sequence[Teaching]) -> list[Taught]:
    """Store what is taught, in one transaction."""
    prepared = prepare_rules(engine, teachings)
    return write(engine, lambda tx: learn_rules(tx, prepared))


def prepare_rules(engine: Engine, teachings: Sequence[Teaching]) -> list[PreparedRule]:
    """Screen and embed the rules that teachings would become."""
    drafts = []
    for one in teachings:
        body = {
            "rule": shorten(clean(one.rule), RULE_CHARS),
            "trigger": shorten(clean(one.trigger), _PART_CHARS),
            "why": shorten(clean(one.why), _PART_CHARS),
            "reach": str(one.reach),
            "source": str(one.source),
            "said": shorten(clean(one.said), _SAID_CHARS),
            "prefer": list(one.prefer),
            "avoid": list(one.avoid),
            "metadata": {**one.metadata, "sources": [one.id], "repeats": 0},
        }
        # What a page or a tool says comes as an import that is not sure.
        is_outside = one.source is RuleSource.IMPORT and not one.sure
        is_learned = one.source in (RuleSource.FIX, RuleSource.MODEL)
        trust = Trust.UNTRUSTED if is_outside else Trust.LEARNED if is_learned else Trust.TRUSTED
        draft = Draft(
            kind=MemoryType.RULE,
            agent=one.agent,
            user=one.user,
            session="" if one.reach in LASTING else one.session,
            body=body,
            provenance=one.provenance or Provenance(_ORIGINS[one.source], trust, one.episodes, str(one.source)),
            tags=one.tags,
        )
        screened = screen(engine, draft)
        drafts.append(replace(screened, body=dress_rule(screened.body)))
    vectors = engine.encode([KINDS[MemoryType.RULE].passages(draft.body) for draft in drafts])
    return [
        PreparedRule(one, replace(draft, vectors=own))
        for one, draft, own in zip(teachings, drafts, vectors, strict=True)
    ]


def is_old_fix(record: Record) -> bool:
    """Whether an earlier version stored what an agent worked out as a rule. It is an observation, and nobody's rule."""
    return record.kind == MemoryType.RULE and record.body.get("source") == RuleSource.FIX


def dress_rule(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with the line that hosts are shown, and the words and names that make it relevant."""
    names = [str(name).lower() for name in (*body["prefer"], *body["avoid"])]
    said = [stem(word) for word in content_words(f"{body['trigger']} {body['rule']}") if not is_common(word)]
    return {**body, "line": format_line(body), "cues": list(dict.fromkeys((*names, *said)))[:24]}


# -- the same, or contrary: in doubt they are two rules


def same_rule(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two rules say the same, by the local reader, or prefer and avoid the same names."""
    if contradicts(a, b) or _apply_elsewhere(a, b):
        return False
    names = _read_names(a)
    return _concern_same_command(a["rule"], b["rule"]) or (names == _read_names(b) and all(names))


def contradicts(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether one rule prefers what the other avoids, or forbids exactly what the other asks for."""
    if _apply_elsewhere(a, b):
        return False
    (prefer, avoid), (other_prefer, other_avoid) = _read_names(a), _read_names(b)
    if prefer & other_avoid or avoid & other_prefer:
        return True
    forbids_one = bool(_FORBIDDING.match(a["rule"])) != bool(_FORBIDDING.match(b["rule"]))
    return forbids_one and _concern_same_command(a["rule"], b["rule"])


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


def _describe_similar(rule: Draft | Record, project: str) -> Where:
    return Where(
        kinds={MemoryType.RULE},
        projects={project, EVERYWHERE},
        agents={rule.agent},
        users={rule.user},
        statuses={*LIVE, Status.ARCHIVED},
    )


def find_similar_rules(tx: Transaction, rule: Draft | Record, project: str) -> list[Record]:
    """Return the rules of the same agent and user that might be the same or contradict it, likeliest first."""
    engine, body = tx.engine, rule.body
    where = _describe_similar(rule, project)
    ids = dict.fromkeys(record.id for record in tx.see(engine.store.scan(replace(where, keys={rule.key}))))
    for text in (f"{body['trigger']} {body['rule']}", *body["prefer"], *body["avoid"]):
        ids |= dict.fromkeys(hit.id for hit in by_words(engine.store, str(text), where, _ALIKE))
    if rule.vectors and engine.encoder is not None:
        ids |= dict.fromkeys(hit.id for hit in by_meaning(engine, rule.vectors, where, _ALIKE))
    return tx.select(tx.read_stored(ids), where)


# -- learning


def learn_rules(tx: Transaction, prepared: Sequence[PreparedRule]) -> list[Taught]:
    """Add each rule, count it as repeated, or let it replace the rules it contradicts."""
    return [_learn_rule(tx, one.teaching, one.draft) for one in prepared]


def _learn_rule(tx: Transaction, given: Teaching, draft: Draft) -> Taught:
    project = tx.engine.project
    exact = tx.scan(replace(_describe_similar(draft, project), keys={draft.key}))
    joined = next((held for held in exact if held.session in ("", draft.session)), None)
    if joined is not None:
        # It is known in these very words: nothing like it needs to be looked for.
        return _repeat_rule(tx, given, draft, joined, None)
    similar = find_similar_rules(tx, draft, project)
    same = [held for held in similar if held.key == draft.key or same_rule(draft.body, held.body)]
    joined = _pick_joined(given, draft, same)
    if joined is not None:
        return _repeat_rule(tx, given, draft, joined, similar)
    stone = tx.find_tombstones([draft.key]).get(draft.key)
    is_after = stone is not None and given.at is not None and given.at > stone.created_at
    if stone is not None and not given.explicit and not is_after:
        return Taught(given, None, "refused")
    # Deleted rules do not come back by themselves: said again, such a rule waits for its person.
    is_waiting = not given.sure or (stone is not None and not given.explicit)
    record = tx.put(
        build(
            tx.engine,
            draft,
            project=EVERYWHERE if given.reach is Reach.ALWAYS else tx.engine.project,
            status=Status.CANDIDATE if is_waiting else Status.ACTIVE,
            links=given.episodes,
        )
    )
    if stone is not None and given.explicit:
        tx.update(stone, status=Status.RETIRED)
    replaced = () if is_waiting else supersede_rules(tx, record, similar, given.supersedes)
    return Taught(given, record, "made", replaced)


def _pick_joined(given: Teaching, draft: Draft, same: Sequence[Record]) -> Record | None:
    """Return which of the rules that say the same it adds to: none, while it may be a wish of several moments."""
    near = [
        held for held in same if held.session in ("", draft.session) or given.id in held.body["metadata"]["sources"]
    ]
    if near or not draft.session:
        return next(iter(near or same), None)
    sessions = {held.session for held in same} | {draft.session}
    reaches = {Reach(held.body["reach"]) for held in same} | {given.reach}
    if len(sessions) < (_HABIT if Reach.SESSION in reaches else 2):
        return None
    # What was said of a moment must make sense at others as well.
    from ..reading.local_rules import is_self_contained

    return same[0] if (given.prefer and given.avoid) or is_self_contained(given.rule) else None


def _repeat_rule(
    tx: Transaction, given: Teaching, draft: Draft, held: Record, similar: Sequence[Record] | None
) -> Taught:
    """Count a rule as taught once more, which may activate it or make it reach further."""
    metadata = dict(held.body.get("metadata", {}))
    sources = list(metadata.get("sources", ()))
    if given.id in sources or (given.source is RuleSource.IMPORT and not given.sure):
        # A page or an agent that says it again is no second voice.
        return Taught(given, held, "known")
    metadata |= {"sources": [*sources, given.id][-_SOURCES:], "repeats": int(metadata.get("repeats", 0)) + 1}
    body = {**held.body, "metadata": metadata}
    changes: dict[str, Any] = {}
    verb = "repeated"
    if held.session and (given.reach in LASTING or given.session != held.session):
        reach = given.reach if given.reach in LASTING else Reach.PROJECT
        body["reach"] = str(reach)
        changes |= {"session": "", "project": EVERYWHERE if reach is Reach.ALWAYS else held.project}
        verb = "promoted"
    elif given.reach is Reach.ALWAYS and held.project != EVERYWHERE and given.explicit:
        body["reach"] = str(Reach.ALWAYS)
        changes |= {"project": EVERYWHERE}
        verb = "promoted"
    may_activate = tx.engine.may_activate(held)
    is_waiting = held.status is not Status.ACTIVE and not held.body.get("put_away")
    if may_activate and is_waiting and _confirms(given):
        changes["status"] = Status.ACTIVE
        verb = "confirmed" if verb == "repeated" else verb
    if may_activate and given.explicit:
        body |= {"source": str(given.source), "rule": draft.body["rule"], "put_away": False}
        changes["status"] = Status.ACTIVE
        if draft.provenance.weight > held.provenance.weight:
            changes["provenance"] = draft.provenance
    body = dress_rule(body)
    if body["rule"] != held.body["rule"]:
        changes |= {"vectors": draft.vectors, "embedder": tx.engine.embedder_name if draft.vectors else ""}
    key = key_of(held.kind, held.agent, held.user, body)
    fresh = tx.update(held, body=body, text=KINDS[held.kind].text(body), key=key, **changes)
    _add_line(tx, fresh, verb, given.said or given.rule, held)
    reaches_further = (held.session, held.project) != (fresh.session, fresh.project)
    is_ending = held.status is not Status.ACTIVE or reaches_further or given.supersedes
    is_active = fresh.status is Status.ACTIVE
    replaced = supersede_rules(tx, fresh, similar, given.supersedes) if is_active and is_ending else ()
    return Taught(given, fresh, verb, replaced)


def _confirms(given: Teaching) -> bool:
    """Whether a repetition makes a rule of what was waiting."""
    if given.source is RuleSource.DENIAL:
        # What refuses is a machine, and it refuses again what is tried again.
        return False
    if given.source is RuleSource.EDIT:
        # A person who changes the same thing again means it.
        return given.reach in LASTING
    # Heard again in words that were in doubt before, it is still in doubt.
    return given.sure


def _add_line(tx: Transaction, record: Record, verb: str, why: str, before: Record, quoted: str = "") -> None:
    old = {"status": str(before.status), "reach": before.body.get("reach"), "rule": before.body.get("rule")}
    tx.add_history(record, verb, shorten(clean(why), _SAID_CHARS), old, quoted)


def find_ended_rules(
    tx: Transaction, record: Record, similar: Sequence[Record], named: Collection[str] = ()
) -> list[Record]:
    """Return the rules that end when this one holds: those `named`, and those of `similar` that it contradicts."""
    ended = []
    for held in tx.get([*(one.id for one in similar), *named]):
        if held.id == record.id or held.status not in LIVE:
            continue
        # What a machine found out takes the place of nothing that a person said.
        if held.body["source"] in _SPOKEN and record.body["source"] not in _SPOKEN:
            continue
        # What is said for one session ends no rule of the project; a rule of a project ends none of all projects.
        is_near = held.project == record.project or record.project == EVERYWHERE
        if not (held.session == record.session if record.session else is_near):
            continue
        if held.id in named or contradicts(record.body, held.body):
            ended.append(held)
    return ended


def supersede_rules(
    tx: Transaction, record: Record, similar: Sequence[Record] | None = None, named: Collection[str] = ()
) -> tuple[str, ...]:
    """Let a rule that now holds take the place of those that it contradicts, and of those `named`; return their ids."""
    if similar is None:
        similar = find_similar_rules(tx, record, tx.engine.project)
    now = tx.engine.clock()
    ended = find_ended_rules(tx, record, similar, named)
    for held in ended:
        end = now if held.valid_from is None or held.valid_from < now else None
        tx.update(held, status=Status.SUPERSEDED, superseded_by=record.id, valid_to=end)
        is_named = held.id in named
        why = "the model says that a later rule replaces it" if is_named else "a later rule contradicts it"
        _add_line(tx, held, "superseded", f"{why}: {record.body['rule']}", held, record.id)
    return tuple(held.id for held in ended)
