"""What each finding becomes: a fact, a preference, a lesson, a rule, an outcome, or something that waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..engine import edit, facts, rules
from ..engine.admit import Attempting, build, screen
from ..engine.context import Engine
from ..engine.distil import learn
from ..engine.drafts import Draft, Episode, Statement
from ..engine.text import fingerprint
from ..engine.tombstones import buried, find_tombstones
from ..types.kinds import KINDS, MemoryType, Result
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status, Trust
from ..types.rules import Reach, RuleSource
from .types import Extracted, Kind

Made = tuple[Record | None, str]
"""What something became, and how: 'made', 'known', or why it was refused."""
Preparing = Callable[[], tuple[list[Made], list[Record]]]

_LIVE = (Status.ACTIVE, Status.CANDIDATE, Status.ARCHIVED)


@dataclass(frozen=True, slots=True)
class Place:
    """Where it is kept."""

    engine: Engine
    agent: str
    user: str | None
    source: str
    episode: str
    session: str


@dataclass(frozen=True, slots=True)
class Becoming:
    """A finding on its way into the store."""

    found: Extracted
    mark: str
    text: str
    fields: Mapping[str, str]
    provenance: Provenance
    told: Mapping[str, Any]
    """Where it was heard, kept with the memory."""
    tags: tuple[str, ...]
    user: str

    @property
    def kind(self) -> Kind:
        return self.found.kind

    @property
    def waits(self) -> bool:
        return self.provenance.trust is Trust.UNTRUSTED

    def field(self, name: str, otherwise: str = "") -> str:
        return self.fields.get(name, otherwise)


def becomings(place: Place, items: Sequence[Becoming]) -> Preparing:
    """What all but outcomes and work items become, in one transaction."""
    drafts = [at for at, one in enumerate(items) if one.kind in (Kind.FACT, Kind.DECISION, Kind.PREFERENCE)]
    lessons = [at for at, one in enumerate(items) if at not in drafts]
    stated = [at for at in lessons if not items[at].waits and items[at].kind is not Kind.CORRECTION]
    taught = [at for at in lessons if not items[at].waits and items[at].kind is Kind.CORRECTION]
    waiting = [at for at in lessons if items[at].waits]
    parts = [
        (drafts, _drafted(place.engine, [_draft(place, items[at]) for at in drafts])),
        (stated, _told(edit.stating(place.engine, [_statement(place, items[at]) for at in stated]))),
        (taught, _taught(rules.teaching(place.engine, [_teaching(place, items[at]) for at in taught]))),
        (waiting, _waiting(place.engine, [_lesson(place, items[at]) for at in waiting])),
    ]

    def attempt() -> tuple[list[Made], list[Record]]:
        made: dict[int, Made] = {}
        changed: list[Record] = []
        for places, part in parts:
            if places:
                results, records = part()
                made |= zip(places, results, strict=True)
                changed += records
        return [made[at] for at in range(len(items))], changed

    return attempt


def _drafted(engine: Engine, drafts: Sequence[Draft]) -> Preparing:
    """As facts and preferences, but for those that were said before a person deleted them: an old chat that is read
    now does not say them again."""
    deleted = _deleted(engine, drafts)
    admitted = _told(facts.admitting(engine, [one for one, gone in zip(drafts, deleted, strict=True) if not gone]))

    def attempt() -> tuple[list[Made], list[Record]]:
        made, changed = admitted()
        others = iter(made)
        return [(None, _VERBS["refused"]) if gone else next(others) for gone in deleted], changed

    return attempt


def _deleted(engine: Engine, drafts: Sequence[Draft]) -> list[bool]:
    keys = [screen(engine, one).key for one in drafts]
    stones = find_tombstones(engine, keys)
    return [
        one.valid_from is not None and key in stones and one.valid_from < stones[key].created_at
        for one, key in zip(drafts, keys, strict=True)
    ]


def _told(attempting: Attempting) -> Preparing:
    def attempt() -> tuple[list[Made], list[Record]]:
        made, changed = attempting()
        return [(one, "made" if one.version == 1 else "known") for one in made], changed

    return attempt


def _taught(teaching: rules.TeachAttempt) -> Preparing:
    def attempt() -> tuple[list[Made], list[Record]]:
        taught, changed = teaching()
        return [(one.record, _VERBS.get(one.verb, "known")) for one in taught], changed

    return attempt


_VERBS = {"made": "made", "refused": "it was deleted, and does not come back by itself"}


# -- facts and preferences


def _draft(place: Place, item: Becoming) -> Draft:
    common: dict[str, Any] = {
        "provenance": item.provenance,
        "tags": item.tags,
        "valid_from": _when(place.engine, item.found.at),
    }
    if item.kind is Kind.PREFERENCE:
        body = {"category": item.field("category", "general"), "preference": item.field("preference", item.text)}
        return Draft(
            kind=MemoryType.USER_PREFERENCE, user=item.user, body={**body, "metadata": dict(item.told)}, **common
        )
    domain = item.field("domain", "decisions" if item.kind is Kind.DECISION else "project")
    return Draft(
        kind=MemoryType.DOMAIN_KNOWLEDGE,
        agent=place.agent,
        user=item.user if domain == "user" else _owner(place, item),
        session=place.session,
        body={"domain": domain, "fact": item.field("fact", item.text), "metadata": dict(item.told)},
        **common,
    )


def _owner(place: Place, item: Becoming) -> str:
    """Whose a lesson, rule or fact from this conversation is; empty: nobody's in particular.

    What others said in a file that a project brought is not the user's.
    """
    return learn.group_owner(place.engine, item.user) if item.user == place.user else ""


def _when(engine: Engine, at: datetime | None) -> datetime | None:
    """A clock of somebody else's that is ahead of ours says nothing."""
    return at if at is not None and at <= engine.clock() else None


# -- lessons and rules


def _statement(place: Place, item: Becoming) -> Statement:
    warns = item.kind is Kind.ANTI_PATTERN or (item.kind is Kind.CORRECTION and _forbids(item.text))
    body: dict[str, Any] = {"metadata": dict(item.told)}
    if warns:
        body |= {
            "why_bad": item.field("why_bad", item.field("why")),
            "better_alternative": item.field("better_alternative"),
        }
    strategy = item.field("pattern" if warns else "strategy", item.field("rule", item.text))
    return Statement(
        kind=MemoryType.ANTI_PATTERN if warns else MemoryType.HEURISTIC,
        agent=place.agent,
        condition=item.field("condition", item.field("trigger")),
        strategy=strategy,
        user=_owner(place, item),
        body=body,
        provenance=item.provenance,
        tags=item.tags,
    )


def _forbids(text: str) -> bool:
    return text.lower().startswith(("never ", "don't ", "do not ", "avoid ", "no ", "not ", "stop "))


def _teaching(place: Place, item: Becoming) -> rules.Teaching:
    preferred = item.field("label") == "preference"
    reach = Reach(item.field("reach", Reach.PROJECT))
    spoken = RuleSource.PREFERENCE if preferred else RuleSource.CORRECTION
    by_person = item.provenance.origin is Origin.USER
    return rules.Teaching(
        id=item.mark,
        agent=place.agent,
        rule=item.field("rule", item.text),
        trigger=item.field("trigger"),
        why=item.field("why"),
        reach=reach if reach in (Reach.PROJECT, Reach.ALWAYS) else Reach.PROJECT,
        source=spoken if by_person else RuleSource.IMPORT,
        provenance=None if by_person else item.provenance,
        said=item.found.quote,
        session=place.session,
        user=_owner(place, item),
        sure=by_person and item.found.confidence >= _SURE,
        at=item.found.at,
        episodes=(place.episode,) if place.episode else (),
        tags=item.tags,
        metadata=dict(item.told),
    )


_SURE = 0.75
"""A rule that was read with less waits until it is repeated, confirmed or reviewed."""


@dataclass(frozen=True, slots=True)
class _Lesson:
    draft: Draft
    key: str


def _lesson(place: Place, item: Becoming) -> _Lesson:
    """A lesson that waits, on its own and apart from all that was learned. A rule of others waits as one, too."""
    draft = screen(place.engine, edit.lesson_of(_statement(place, item)))
    body = draft.body
    words = str(body.get("strategy") or body.get("pattern"))
    owner = [draft.user] if draft.user else []
    return _Lesson(draft, fingerprint("heard", draft.kind, draft.agent, *owner, str(body["condition"]), words))


def _waiting(engine: Engine, lessons: Sequence[_Lesson]) -> Preparing:
    vectors = engine.encode([KINDS[one.draft.kind].passages(one.draft.body) for one in lessons])

    def attempt() -> tuple[list[Made], list[Record]]:
        keys = {one.key for one in lessons}
        where = Where(projects={engine.project}, keys=keys, kinds={one.draft.kind for one in lessons}, statuses=_LIVE)
        held = {record.key: record for record in engine.store.scan(where)} if keys else {}
        gone = buried(engine, keys)
        made: list[Made] = []
        fresh: list[Record] = []
        for one, passages in zip(lessons, vectors, strict=True):
            if one.key in gone:
                made.append((None, _VERBS["refused"]))
            elif one.key in held:
                made.append((held[one.key], "known"))
            else:
                held[one.key] = build(engine, one.draft, passages, key=one.key)
                fresh.append(held[one.key])
                made.append((held[one.key], "made"))
        return made, fresh

    return attempt


# -- outcomes


def learning(place: Place, items: Sequence[Becoming]) -> Preparing:
    """Those that are believed count for their strategy; others wait, and count for nothing."""
    believed = [at for at, one in enumerate(items) if not one.waits]
    waiting = [at for at, one in enumerate(items) if one.waits]
    counted = _counted(
        place.engine, [_episode(place, items[at]) for at in believed], [items[at].found.at for at in believed]
    )
    apart = _waiting(place.engine, [_untold(place, items[at]) for at in waiting])

    def attempt() -> tuple[list[Made], list[Record]]:
        made: dict[int, Made] = {}
        first, changed = counted()
        made |= zip(believed, first, strict=True)
        second, more = apart()
        made |= zip(waiting, second, strict=True)
        return [made[at] for at in range(len(items))], [*changed, *more]

    return attempt


def _episode(place: Place, item: Becoming) -> Episode:
    return Episode(
        agent=place.agent,
        task=item.field("task", item.text),
        strategy=item.field("strategy_used", item.text),
        result=Result(item.field("outcome", Result.SUCCESS)),
        error=item.fields.get("error_message"),
        user=place.user or "",
        session=place.session,
        tags=item.tags,
        metadata={**item.told, "source": place.source},
    )


def _counted(engine: Engine, episodes: Sequence[Episode], times: Sequence[datetime | None]) -> Preparing:
    learned = learn.learning(engine, episodes, [_when(engine, at) for at in times])

    def attempt() -> tuple[list[Made], list[Record]]:
        made, changed = learned()
        return [(one, "made") for one in made], changed

    return attempt


def _untold(place: Place, item: Becoming) -> _Lesson:
    draft = replace(learn.outcome_of(_episode(place, item)), provenance=item.provenance)
    screened = screen(place.engine, draft)
    return _Lesson(screened, fingerprint("heard", item.mark))
