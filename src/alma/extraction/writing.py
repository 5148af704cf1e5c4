"""Stores findings, each once, however often its conversation is read.

A finding leaves a mark in the same transaction as what became of it, and a marked one is known: a deleted memory does
not come back because its conversation is read again, an outcome counts once, and an old conversation does not overrule
what was said since. Findings from a text that is not trusted, or that reads like an attempt to instruct a model, wait
for a person as candidates, each on its own: nothing that is learned takes words or standing from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ..engine import edit, facts, outcomes, rules, validate
from ..engine.admit import build, make_marker, screen
from ..engine.context import Engine
from ..engine.drafts import Draft, Episode, Statement
from ..engine.inject.escape import suspicious
from ..engine.transaction import Transaction, commit
from ..engine.view import view
from ..errors import ValidationError
from ..text import digest, fingerprint, shorten
from ..types.kinds import KINDS, MemoryType, Result
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status, Trust
from ..types.rules import Reach, RuleSource
from ..types.speech import by_name
from .extractor import FORBIDS
from .types import Extracted, Kept, Kind, Voice

if TYPE_CHECKING:
    from ..core import ALMA

T = TypeVar("T")
Written = tuple[Record | None, str]
"""What a finding became, and "made", "known", or why it was refused."""
Attempt = Callable[[], tuple[list[Written], list[Record]]]

_QUOTE_CHARS = 500
_TITLE_CHARS = 200
_SHOWN_CHARS = 80
_SURE_RULE = 0.75
"""A rule that was read with less confidence waits until it is repeated, confirmed or reviewed."""
_DELETED = "it was deleted, and does not come back by itself"
_LIVE = (Status.ACTIVE, Status.CANDIDATE, Status.ARCHIVED)
_ORIGINS = {Voice.PERSON: Origin.USER, Voice.ASSISTANT: Origin.AGENT, Voice.DOCUMENT: Origin.IMPORT}
_FACTS = (Kind.FACT, Kind.DECISION, Kind.PREFERENCE)
_LISTS = {
    MemoryType.DOMAIN_KNOWLEDGE: "domain_knowledge",
    MemoryType.USER_PREFERENCE: "user_preferences",
    MemoryType.ANTI_PATTERN: "anti_patterns",
    MemoryType.HEURISTIC: "heuristics",
    MemoryType.OUTCOME: "outcomes",
    MemoryType.RULE: "rules",
}


def keep(
    alma: ALMA,
    found: Sequence[Extracted],
    *,
    agent: str,
    user_id: str | None = None,
    source: str,
    episode: str = "",
    session_id: str = "",
    trusted: bool,
    relayed: bool = False,
) -> Kept:
    """Store findings and return what is new.

    `source` names where they come from, `episode` is the id of the stored conversation, if any. With `trusted=False`
    they are the words of others: they wait for a person as candidates, and tasks among them are not taken on. With
    `relayed=True` an agent reports them: a person's words count as the agent's, and rules wait.
    """
    target = _Target(
        engine=alma.engine,
        agent=alma.engine.agent(validate.name("agent", agent)),
        user=None if user_id is None else validate.name("user_id", user_id),
        source=validate.name("source", source),
        episode=episode,
        session=session_id,
    )
    tally = _Tally()
    items = _check_findings(target, found, trusted, relayed, tally)
    # Lessons and outcomes change the same groups of strategies, so they are written one after the other.
    _write(target, [one for one in items if one.kind not in (Kind.OUTCOME, Kind.WORK_ITEM)], tally)
    _write(target, [one for one in items if one.kind is Kind.OUTCOME], tally)
    _create_work(alma, target, [one for one in items if one.kind is Kind.WORK_ITEM], tally)
    return tally.summarise(target.engine)


@dataclass(frozen=True, slots=True)
class _Target:
    """Where findings are stored."""

    engine: Engine
    agent: str
    user: str | None
    source: str
    episode: str
    session: str


@dataclass(frozen=True, slots=True)
class _Item:
    """A finding that may be stored. `user` is whose preference it would be."""

    finding: Extracted
    mark: str
    text: str
    provenance: Provenance
    user: str

    @property
    def kind(self) -> Kind:
        return self.finding.kind

    @property
    def is_waiting(self) -> bool:
        return self.provenance.trust is Trust.UNTRUSTED

    @property
    def tags(self) -> tuple[str, ...]:
        return ("decision",) if self.kind is Kind.DECISION else ()

    @property
    def metadata(self) -> dict[str, Any]:
        """Where it was said, stored with the memory."""
        one = self.finding
        optional = {"when": one.when, "model": one.model}
        return {
            "quote": shorten(one.quote, _QUOTE_CHARS),
            "turn": one.turn,
            "speaker": one.speaker,
            "confidence": one.confidence,
            **{name: value for name, value in optional.items() if value},
        }

    def field(self, name: str, default: str = "") -> str:
        return self.finding.fields.get(name) or default


@dataclass(slots=True)
class _Tally:
    """What became of the findings so far."""

    new: dict[str, Record] = field(default_factory=dict)
    work: list[Any] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    known: int = 0
    refused: list[str] = field(default_factory=list)

    def refuse(self, kind: Kind, text: str, reason: object) -> None:
        self.refused.append(f"{kind.replace('_', ' ')} {shorten(text, _SHOWN_CHARS)!r}: {reason}")

    def count(self, item: _Item, record: Record | None, verb: str) -> None:
        if record is None:
            self.refuse(item.kind, item.text, verb)
        elif verb != "made" or record.id in self.new:
            self.known += 1
        else:
            self.new[record.id] = record

    def summarise(self, engine: Engine) -> Kept:
        now = engine.clock()
        lists: dict[str, list[Any]] = {name: [] for name in _LISTS.values()}
        for record in self.new.values():
            lists[_LISTS[MemoryType(record.kind)]].append(view(record, now))
        return Kept(**lists, work_items=self.work, known=self.known, superseded=self.superseded, refused=self.refused)


# -- checking


def _check_findings(
    target: _Target, found: Sequence[Extracted], trusted: bool, relayed: bool, tally: _Tally
) -> list[_Item]:
    """Return the findings that are valid and have no mark yet, each once."""
    items: dict[str, _Item] = {}
    for one in found:
        key = one.key or digest(str(one.turn), one.kind, one.quote, one.text)
        mark = f"mrk_heard_{digest(target.engine.project, target.agent, target.user or '', target.session, key)}"
        if mark in items:
            tally.known += 1
            continue
        try:
            text = validate.text("text", one.text)
            fields = {name: validate.text(name, value) for name, value in one.fields.items() if value}
        except ValidationError as error:
            tally.refuse(one.kind, one.text, error)
            continue
        is_trusted = trusted and not suspicious("\n".join((one.quote, text, *fields.values())))
        origin = _ORIGINS[one.voice] if is_trusted else Origin.CONTENT
        provenance = Provenance(
            Origin.AGENT if relayed and origin is Origin.USER else origin,
            Trust.LEARNED if is_trusted else Trust.UNTRUSTED,
            (target.episode,) if target.episode else (),
            target.source,
        )
        items[mark] = _Item(replace(one, fields=fields), mark, text, provenance, _choose_user(target, one, trusted))
    return _drop_marked(target, list(items.values()), tally)


def _choose_user(target: _Target, one: Extracted, trusted: bool) -> str:
    """Return the user that it is stored for; without one, or if others speak, the speaker's name."""
    is_named = by_name(one.speaker, "") != "" and one.voice is Voice.PERSON
    if target.user and (trusted or not is_named):
        return target.user
    return one.speaker if is_named else "user"


def _drop_marked(target: _Target, items: Sequence[_Item], tally: _Tally) -> list[_Item]:
    marked = {record.id for record in target.engine.store.get([item.mark for item in items])}
    tally.known += len(marked)
    return [item for item in items if item.mark not in marked]


def _build_marks(engine: Engine, items: Sequence[_Item]) -> list[Record]:
    return [make_marker(engine, item.mark, {"value": "heard"}) for item in items]


# -- writing


def _write(target: _Target, items: list[_Item], tally: _Tally) -> None:
    """Write all items and their marks in one transaction; those that another process wrote meanwhile are known."""
    engine = target.engine
    while items:
        prepared = _prepare(target, items)

        def attempt(
            items: Sequence[_Item] = items, prepared: Attempt = prepared
        ) -> tuple[tuple[list[Written], list[str]] | None, list[Record]]:
            if engine.store.get([item.mark for item in items]):
                return None, []
            written, changed = prepared()
            ended = [one.id for one in changed if one.status is Status.SUPERSEDED and one.version > 1]
            return (written, ended), [*changed, *_build_marks(engine, items)]

        result = commit(engine, attempt)
        if result is not None:
            written, ended = result
            tally.superseded += ended
            for item, (record, verb) in zip(items, written, strict=True):
                tally.count(item, record, verb)
            return
        items = _drop_marked(target, items, tally)


def _prepare(target: _Target, items: Sequence[_Item]) -> Attempt:
    """Prepare each group of items by its own function; together they give what became of all, in order."""
    groups: dict[Callable[[_Target, Sequence[_Item]], Attempt], list[_Item]] = {}
    for item in items:
        groups.setdefault(_choose_preparation(item), []).append(item)
    prepared = [(part, prepare(target, part)) for prepare, part in groups.items()]

    def attempt() -> tuple[list[Written], list[Record]]:
        written: dict[str, Written] = {}
        changed: list[Record] = []
        for part, attempting in prepared:
            results, records = attempting()
            written |= zip((one.mark for one in part), results, strict=True)
            changed += records
        return [written[one.mark] for one in items], changed

    return attempt


def _choose_preparation(item: _Item) -> Callable[[_Target, Sequence[_Item]], Attempt]:
    if item.kind in _FACTS:
        return _prepare_facts
    if item.kind is Kind.OUTCOME:
        return _prepare_waiting_outcomes if item.is_waiting else _prepare_counted_outcomes
    if item.is_waiting:
        return _prepare_waiting_lessons
    return _prepare_rules if item.kind is Kind.CORRECTION else _prepare_lessons


def _as_attempt(attempting: Callable[[], tuple[list[T], list[Record]]], describe: Callable[[T], Written]) -> Attempt:
    def attempt() -> tuple[list[Written], list[Record]]:
        results, changed = attempting()
        return [describe(one) for one in results], changed

    return attempt


def _describe_record(record: Record) -> Written:
    return record, "made" if record.version == 1 else "known"


def _describe_rule(taught: rules.Taught) -> Written:
    return taught.record, {"made": "made", "refused": _DELETED}.get(taught.verb, "known")


# -- facts and preferences


def _prepare_facts(target: _Target, items: Sequence[_Item]) -> Attempt:
    """Prepare facts and preferences, without those that were said before a person deleted them."""
    engine = target.engine
    drafts = [_make_draft(target, one) for one in items]
    keys = [screen(engine, one).key for one in drafts]
    stones = Transaction(engine).find_tombstones(keys)
    deleted = [
        one.valid_from is not None and key in stones and one.valid_from < stones[key].created_at
        for one, key in zip(drafts, keys, strict=True)
    ]
    wanted = [at for at, is_deleted in enumerate(deleted) if not is_deleted]
    replaces = [items[at].finding.replaces for at in wanted]
    admitted = _as_attempt(facts.admitting(engine, [drafts[at] for at in wanted], replaces=replaces), _describe_record)

    def attempt() -> tuple[list[Written], list[Record]]:
        written, changed = admitted()
        others = iter(written)
        return [(None, _DELETED) if is_deleted else next(others) for is_deleted in deleted], changed

    return attempt


def _make_draft(target: _Target, item: _Item) -> Draft:
    key = {name: item.field(name) for name in ("subject", "attribute") if item.field(name)}
    common: dict[str, Any] = {
        "provenance": item.provenance,
        "tags": item.tags,
        "valid_from": _past_time(target.engine, item.finding.at),
    }
    if item.kind is Kind.PREFERENCE:
        body = {"category": item.field("category", "general"), "preference": item.field("preference", item.text), **key}
        return Draft(
            kind=MemoryType.USER_PREFERENCE, user=item.user, body={**body, "metadata": item.metadata}, **common
        )
    domain = item.field("domain", "decisions" if item.kind is Kind.DECISION else "project")
    return Draft(
        kind=MemoryType.DOMAIN_KNOWLEDGE,
        agent=target.agent,
        user=item.user if domain == "user" else _find_owner(target, item),
        session=target.session,
        body={"domain": domain, "fact": item.field("fact", item.text), **key, "metadata": item.metadata},
        **common,
    )


def _find_owner(target: _Target, item: _Item) -> str:
    """Return the user that a lesson, rule or fact belongs to. The words of others in a file are not the user's."""
    return outcomes.group_owner(target.engine, item.user) if item.user == target.user else ""


def _past_time(engine: Engine, at: datetime | None) -> datetime | None:
    """Return a time unless it is in the future: another clock is wrong."""
    return at if at is not None and at <= engine.clock() else None


# -- lessons, rules and outcomes


def _make_statement(target: _Target, item: _Item) -> Statement:
    is_warning = item.kind is Kind.ANTI_PATTERN or (item.kind is Kind.CORRECTION and FORBIDS.match(item.text))
    body: dict[str, Any] = {"metadata": item.metadata}
    if is_warning:
        body["why_bad"] = item.field("why_bad", item.field("why"))
        body["better_alternative"] = item.field("better_alternative")
    return Statement(
        kind=MemoryType.ANTI_PATTERN if is_warning else MemoryType.HEURISTIC,
        agent=target.agent,
        condition=item.field("condition"),
        strategy=item.field("pattern" if is_warning else "strategy", item.field("rule", item.text)),
        user=_find_owner(target, item),
        body=body,
        provenance=item.provenance,
        tags=item.tags,
    )


def _prepare_rules(target: _Target, items: Sequence[_Item]) -> Attempt:
    return _as_attempt(rules.teaching(target.engine, [_make_teaching(target, one) for one in items]), _describe_rule)


def _make_teaching(target: _Target, item: _Item) -> rules.Teaching:
    is_user = item.provenance.origin is Origin.USER
    return rules.Teaching(
        id=item.mark,
        agent=target.agent,
        rule=item.field("rule", item.text),
        why=item.field("why"),
        reach=Reach.PROJECT,
        source=RuleSource.CORRECTION if is_user else RuleSource.IMPORT,
        provenance=None if is_user else item.provenance,
        said=item.finding.quote,
        session=target.session,
        user=_find_owner(target, item),
        sure=is_user and item.finding.confidence >= _SURE_RULE,
        at=item.finding.at,
        episodes=(target.episode,) if target.episode else (),
        tags=item.tags,
        metadata=item.metadata,
    )


def _prepare_lessons(target: _Target, items: Sequence[_Item]) -> Attempt:
    return _as_attempt(edit.stating(target.engine, [_make_statement(target, one) for one in items]), _describe_record)


def _prepare_waiting_lessons(target: _Target, items: Sequence[_Item]) -> Attempt:
    """Prepare lessons that wait apart from all that was learned. A rule of others waits as one, too."""
    drafts = []
    for item in items:
        draft = screen(target.engine, edit.lesson_of(_make_statement(target, item)))
        words = str(draft.body.get("strategy") or draft.body.get("pattern"))
        owner = [draft.user] if draft.user else []
        key = fingerprint("heard", draft.kind, draft.agent, *owner, str(draft.body["condition"]), words)
        drafts.append(replace(draft, key=key))
    return _prepare_waiting(target.engine, drafts)


def _prepare_waiting(engine: Engine, drafts: Sequence[Draft]) -> Attempt:
    """Prepare drafts that wait for a person, each found again by its key."""
    vectors = engine.encode([KINDS[one.kind].passages(one.body) for one in drafts])

    def attempt() -> tuple[list[Written], list[Record]]:
        keys = {one.key for one in drafts}
        where = Where(projects={engine.project}, keys=keys, kinds={one.kind for one in drafts}, statuses=_LIVE)
        stored = {record.key: record for record in engine.store.scan(where)}
        deleted = Transaction(engine).find_tombstones(keys)
        written: list[Written] = []
        fresh: list[Record] = []
        for one, embedded in zip(drafts, vectors, strict=True):
            if one.key in deleted:
                written.append((None, _DELETED))
            elif one.key in stored:
                written.append((stored[one.key], "known"))
            else:
                stored[one.key] = build(engine, one, embedded)
                fresh.append(stored[one.key])
                written.append((stored[one.key], "made"))
        return written, fresh

    return attempt


def _prepare_counted_outcomes(target: _Target, items: Sequence[_Item]) -> Attempt:
    times = [_past_time(target.engine, one.finding.at) for one in items]
    learned = outcomes.learning(target.engine, [_make_episode(target, one) for one in items], times)
    return _as_attempt(learned, lambda record: (record, "made"))


def _prepare_waiting_outcomes(target: _Target, items: Sequence[_Item]) -> Attempt:
    drafts = []
    for item in items:
        draft = replace(outcomes.outcome_of(_make_episode(target, item)), provenance=item.provenance)
        drafts.append(replace(screen(target.engine, draft), key=fingerprint("heard", item.mark)))
    return _prepare_waiting(target.engine, drafts)


def _make_episode(target: _Target, item: _Item) -> Episode:
    return Episode(
        agent=target.agent,
        task=item.field("task", item.text),
        strategy=item.field("strategy_used", item.text),
        result=Result(item.field("outcome", Result.SUCCESS)),
        error=item.field("error_message") or None,
        user=target.user or "",
        session=target.session,
        tags=item.tags,
        metadata={**item.metadata, "source": target.source},
    )


# -- work items


def _create_work(alma: ALMA, target: _Target, items: Sequence[_Item], tally: _Tally) -> None:
    """Open work items. The tasks of others are refused: an agent would do them."""
    from ..progress import ProgressTracker

    tracker = ProgressTracker(alma=alma)
    wanted = [item for item in items if not item.is_waiting]
    for item in items:
        if item.is_waiting:
            tally.refuse(item.kind, item.text, "tasks in a text that is not trusted are not taken on")
            continue
        id = _choose_work_id(target, item)
        work = {
            "id": id,
            "title": shorten(item.field("title", item.text), _TITLE_CHARS),
            "description": item.finding.quote,
            "agent": target.agent,
            "tags": ["extracted"],
            "metadata": {**item.metadata, "source": target.source},
        }
        try:
            created = list(tracker.create_work_items([work])) if id else []
        except ValidationError:
            # Another process may have opened the same at this moment.
            if not target.engine.store.get([str(id)]):
                raise
            created = []
        tally.known += not created
        tally.work += created
    if wanted:
        engine = target.engine
        commit(engine, lambda: (None, _build_marks(engine, _drop_marked(target, wanted, _Tally()))))


def _choose_work_id(target: _Target, item: _Item) -> str | None:
    """Return an id that follows from the task, so that nothing is opened twice; None while it is open.

    A task that was done and is asked for again is new work.
    """
    name = f"wrk_{fingerprint(target.engine.project, target.agent, item.field('title', item.text))[:24]}"
    again = f"wrk_{item.mark[-24:]}"
    stored = {record.id: record for record in target.engine.store.get([name, again])}
    if name not in stored:
        return name
    is_done = stored[name].body["status"] == "done" or stored[name].status is not Status.ACTIVE
    return again if is_done and again not in stored else None
