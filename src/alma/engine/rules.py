"""Rules: what a person's corrections and notes teach, and what becomes of them.

A rule that is taught again is the same rule, said once more: a candidate becomes active when it is said in a form that
leaves no doubt, and what held for one session holds for the project when others need it too. What was said of one
moment ("no, the other file") is no rule of the project however often it is said. A rule that contradicts an older one
of the same place takes its place; what a machine found out takes the place of nothing that a person said. One that was
deleted stays away unless its person states it anew. Each teaching has an id, and is counted once, however often it is
told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ..text import content_words, is_common, shorten, stem
from ..types.kinds import KINDS, MemoryType
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status, Trust, new_id
from ..types.rules import EVERYWHERE, LASTING, Reach, RuleSource
from ..types.vector import Vector
from .admit import build, change, clean, key_of, revise, screen
from .context import Engine
from .drafts import Draft
from .rule_lines import format_line
from .search import by_meaning, by_words
from .tombstones import find_tombstones

AGENT = "claude-code"
"""Whom the rules of a coding agent belong to."""
RULE_CHARS = 600
_PART_CHARS = 240
_SAID_CHARS = 500
_ALIKE = 12
_SOURCES = 50
_LIVE = (Status.ACTIVE, Status.CANDIDATE, Status.ARCHIVED)
_HABIT = 3
"""In so many sessions a person says "for this session" before it is taken for more."""
_SPOKEN = frozenset((RuleSource.NOTE, RuleSource.CORRECTION, RuleSource.PREFERENCE, RuleSource.IMPORT))


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


def teaching(engine: Engine, teachings: Sequence[Teaching]) -> Callable[[], tuple[list[Taught], list[Record]]]:
    """Prepare teachings once, so that a commit may be tried several times."""
    prepared = [_prepared(engine, one) for one in teachings]

    def attempt() -> tuple[list[Taught], list[Record]]:
        lesson = _Lesson(engine)
        return [lesson.teach(one) for one in prepared], lesson.records()

    return attempt


@dataclass(frozen=True, slots=True)
class _Prepared:
    teaching: Teaching
    draft: Draft
    vectors: tuple[Vector, ...]
    project: str


def _prepared(engine: Engine, one: Teaching) -> _Prepared:
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
    outside = one.source is RuleSource.IMPORT and not one.sure
    learned = one.source in (RuleSource.FIX, RuleSource.MODEL)
    trust = Trust.UNTRUSTED if outside else Trust.LEARNED if learned else Trust.TRUSTED
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
    screened = replace(screened, body=dressed(screened.body))
    [vectors] = engine.encode([KINDS[MemoryType.RULE].passages(screened.body)])
    return _Prepared(one, screened, vectors, EVERYWHERE if one.reach is Reach.ALWAYS else engine.project)


_ORIGINS = {
    RuleSource.NOTE: Origin.USER,
    RuleSource.CORRECTION: Origin.CORRECTION,
    RuleSource.PREFERENCE: Origin.CORRECTION,
    RuleSource.EDIT: Origin.CORRECTION,
    RuleSource.DENIAL: Origin.CORRECTION,
    RuleSource.MODEL: Origin.MODEL,
    RuleSource.IMPORT: Origin.IMPORT,
}


def is_old_fix(record: Record) -> bool:
    """Whether an earlier version stored what an agent worked out as a rule. It is an observation, and nobody's rule."""
    return record.kind == MemoryType.RULE and record.body.get("source") == RuleSource.FIX


# -- how it reads


def dressed(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the line that hosts are shown and the words that make it relevant."""
    return {**body, "line": format_line(body), "cues": cues(body)}


def cues(body: Mapping[str, Any]) -> list[str]:
    """The telling words of a rule, and the names it prefers and avoids."""
    names = [str(name).lower() for name in (*body["prefer"], *body["avoid"])]
    said = [word for word in content_words(f"{body['trigger']} {body['rule']}") if not is_common(word)]
    return list(dict.fromkeys((*names, *map(stem, said))))[:24]


# -- teaching


class _Lesson:
    """The rules as they are and as they become while several teachings are taken in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changed: dict[str, Record] = {}
        self._held: dict[str, Record] = {}
        self._history: list[Record] = []

    def records(self) -> list[Record]:
        return [*self._changed.values(), *self._history]

    def teach(self, one: _Prepared) -> Taught:
        known = self._alike(one)
        same = self._joined(one, [held for held in known if self._same(one, held)])
        if same is not None:
            return self._again(one, same)
        stone = self._stone(one)
        if stone is not None and not one.teaching.explicit and not _after(one.teaching, stone):
            return Taught(one.teaching, None, "refused")
        record = self._new(one, buried=stone is not None)
        if stone is not None and one.teaching.explicit:
            self._put(revise(self._engine, stone, status=Status.RETIRED))
        named = one.teaching.supersedes
        replaced = self._supersede(record, known, named) if record.status is Status.ACTIVE else ()
        return Taught(one.teaching, record, "made", replaced)

    def _new(self, one: _Prepared, *, buried: bool) -> Record:
        given = one.teaching
        # Deleted rules do not come back by themselves: said again, such a rule waits for its person.
        waits = not given.sure or (buried and not given.explicit)
        record = build(
            self._engine,
            one.draft,
            one.vectors,
            id=new_id(KINDS[MemoryType.RULE].prefix),
            project=one.project,
            status=Status.CANDIDATE if waits else Status.ACTIVE,
            links=given.episodes,
        )
        self._put(record)
        return record

    def _joined(self, one: _Prepared, same: Sequence[Record]) -> Record | None:
        """Which of the records that say the same it adds to: none, while it may be a wish of several moments."""
        near = [
            held
            for held in same
            if held.session in ("", one.draft.session) or one.teaching.id in held.body["metadata"]["sources"]
        ]
        if near or not one.draft.session:
            return next(iter(near or same), None)
        sessions = {held.session for held in same} | {one.draft.session}
        asked = {Reach(held.body["reach"]) for held in same} | {one.teaching.reach}
        needed = _HABIT if Reach.SESSION in asked else 2
        return same[0] if len(sessions) >= needed and _lasts(one) else None

    def _again(self, one: _Prepared, held: Record) -> Taught:
        given, metadata = one.teaching, dict(held.body.get("metadata", {}))
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
        may_activate = self._engine.may_activate(held)
        is_waiting = held.status is not Status.ACTIVE and not held.body.get("put_away")
        if may_activate and is_waiting and _confirms(given):
            changes["status"] = Status.ACTIVE
            verb = "confirmed" if verb == "repeated" else verb
        if may_activate and given.explicit:
            body |= {"source": str(given.source), "rule": one.draft.body["rule"], "put_away": False}
            changes["status"] = Status.ACTIVE
            if one.draft.provenance.weight > held.provenance.weight:
                changes["provenance"] = one.draft.provenance
        body = dressed(body)
        key = key_of(held.kind, held.agent, held.user, body)
        fresh = revise(self._engine, held, body=body, text=KINDS[held.kind].text(body), key=key, **changes)
        if body["rule"] != held.body["rule"]:
            fresh = replace(fresh, vectors=one.vectors, embedder=self._engine.embedder_name if one.vectors else "")
        self._put(fresh)
        self._note(fresh, verb, given.said or given.rule, held)
        further = held.status is not Status.ACTIVE or (held.session, held.project) != (fresh.session, fresh.project)
        is_ending = (further or given.supersedes) and fresh.status is Status.ACTIVE
        replaced = self._supersede(fresh, self._alike(one), given.supersedes) if is_ending else ()
        return Taught(given, fresh, verb, replaced)

    def _supersede(self, record: Record, known: Iterable[Record], named: tuple[str, ...] = ()) -> tuple[str, ...]:
        # Loaded here, as below: what compares and reads rules takes longer to load than all of alma.
        from .rule_pairs import contradicts

        gone = []
        for held in {one.id: one for one in (*known, *self._engine.store.get(list(named)))}.values():
            held = self._changed.get(held.id, held)
            standing = held.status in (Status.ACTIVE, Status.CANDIDATE) and held.id != record.id
            if standing and _may_end(record, held) and (held.id in named or contradicts(record.body, held.body)):
                now = self._engine.clock()
                self._put(
                    revise(
                        self._engine,
                        held,
                        status=Status.SUPERSEDED,
                        superseded_by=record.id,
                        valid_to=now if held.valid_from is None or held.valid_from < now else None,
                    )
                )
                is_named = held.id in named
                why = "the model says that a later rule replaces it" if is_named else "a later rule contradicts it"
                self._note(held, "superseded", f"{why}: {record.body['rule']}", held, record.id)
                gone.append(held.id)
        return tuple(gone)

    def end(self, record: Record, named: tuple[str, ...] = ()) -> None:
        near = self._near((record.agent, record.user), record.key, record.body, record.vectors)
        self._supersede(record, near, named)

    # -- what is held

    def _alike(self, one: _Prepared) -> list[Record]:
        return self._near((one.draft.agent, one.draft.user), one.draft.key, one.draft.body, one.vectors)

    def _near(
        self, owner: tuple[str, str], key: str, body: Mapping[str, Any], vectors: tuple[Vector, ...]
    ) -> list[Record]:
        """Rules of the same agent and user that might be the same or contradict it, likeliest first."""
        engine, (agent, user) = self._engine, owner
        where = Where(
            kinds={MemoryType.RULE},
            projects={engine.project, EVERYWHERE},
            agents={agent},
            users={user},
            statuses=_LIVE,
        )
        found = dict.fromkeys(record.id for record in engine.store.scan(replace(where, keys={key})))
        for text in (f"{body['trigger']} {body['rule']}", *body["prefer"], *body["avoid"]):
            found |= dict.fromkeys(hit.id for hit in by_words(engine.store, str(text), where, _ALIKE))
        if vectors and engine.encoder is not None:
            found |= dict.fromkeys(hit.id for hit in by_meaning(engine, vectors, where, _ALIKE))
        fresh = [name for name, record in self._changed.items() if record.kind == MemoryType.RULE]
        held = {record.id: record for record in engine.store.get(list(found))} | self._changed
        return [held[name] for name in dict.fromkeys((*found, *fresh)) if name in held and where.accepts(held[name])]

    def _same(self, one: _Prepared, held: Record) -> bool:
        from .rule_pairs import same_rule

        if held.kind != MemoryType.RULE:
            return False
        return held.key == one.draft.key or same_rule(one.draft.body, held.body)

    def _stone(self, one: _Prepared) -> Record | None:
        return find_tombstones(self._engine, [one.draft.key]).get(one.draft.key)

    def _put(self, record: Record) -> None:
        held = self._changed.get(record.id)
        # Changed twice before it is put once: the store takes one step.
        self._changed[record.id] = record if held is None else replace(record, version=held.version)

    def _note(self, record: Record, verb: str, why: str, before: Record, quoted: str = "") -> None:
        told = {"status": str(before.status), "reach": before.body.get("reach"), "rule": before.body.get("rule")}
        self._history.append(change(self._engine, record, verb, shorten(clean(why), _SAID_CHARS), told, quoted))


def contradicted(engine: Engine, record: Record, named: tuple[str, ...] = ()) -> list[Record]:
    """What a rule that now holds takes the place of, and the rules `named`: as they become, and their history."""
    lesson = _Lesson(engine)
    lesson.end(record, named)
    return lesson.records()


def _after(teaching: Teaching, stone: Record) -> bool:
    return teaching.at is not None and teaching.at > stone.created_at


def _lasts(one: _Prepared) -> bool:
    """Whether what was said of a moment can be meant for others as well."""
    from ..reading.local_rules import is_self_contained

    given = one.teaching
    return bool(given.prefer and given.avoid) or is_self_contained(given.rule)


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


def _may_end(record: Record, held: Record) -> bool:
    """What is said for one session ends no rule of the project; a rule of a project ends none of all projects."""
    if held.body["source"] in _SPOKEN and record.body["source"] not in _SPOKEN:
        return False
    if record.session:
        return held.session == record.session
    return held.project == record.project or record.project == EVERYWHERE
