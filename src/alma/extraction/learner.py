"""`AutoLearner`: a conversation or a text goes in, and what it tells is stored as memories.

`keep` stores findings, each once, however often its conversation is read. A finding leaves a mark in the same
transaction as what became of it, and a marked one is known: a deleted memory does not come back because its
conversation is read again, an outcome counts once, and an old conversation does not overrule what was said since.
Findings from a text that is not trusted, or that reads like an attempt to instruct a model, wait for a person as
candidates, each on its own: nothing that is learned takes words or standing from them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..engine import facts, outcomes, rules, validate
from ..engine.admit import Draft, OutcomeDraft, build, prepare
from ..engine.context import Engine
from ..engine.inject.escape import suspicious
from ..engine.transaction import Transaction, write
from ..engine.view import view
from ..errors import ValidationError
from ..opening import Holder
from ..ports import Model
from ..reading.port import Role
from ..text import digest, fingerprint, shorten
from ..types import kinds
from ..types.kinds import Memory, MemoryType, Result
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status, Trust, find_source
from ..types.rules import Reach, RuleSource
from ..types.speech import by_name
from . import extractor
from .extractor import FORBIDS, Extracted, Extraction, Kind, Voice

if TYPE_CHECKING:
    from ..memory import ALMA

Written = tuple[Record | None, str]  # What a finding became, and "made", "known", or why it was refused.

MIN_CONFIDENCE = 0.5
_SURE_RULE = 0.75  # A rule that was read with less confidence waits until it is repeated, confirmed or reviewed.
_QUOTE_CHARS = 500
_TITLE_CHARS = 200
_SHOWN_CHARS = 80
_DELETED = "it was deleted, and does not come back by itself"
_ORIGINS = {Voice.PERSON: Origin.USER, Voice.ASSISTANT: Origin.AGENT, Voice.DOCUMENT: Origin.IMPORT}
LISTS = tuple("domain_knowledge user_preferences anti_patterns heuristics outcomes rules work_items".split())


@dataclass(slots=True, kw_only=True)
class Kept:
    """What became of findings. The lists hold what is new."""

    domain_knowledge: list[kinds.DomainKnowledge] = field(default_factory=list)
    user_preferences: list[kinds.UserPreference] = field(default_factory=list)
    anti_patterns: list[kinds.AntiPattern] = field(default_factory=list)
    heuristics: list[kinds.Heuristic] = field(default_factory=list)
    outcomes: list[kinds.Outcome] = field(default_factory=list)
    rules: list[kinds.Rule] = field(default_factory=list)
    work_items: list[Any] = field(default_factory=list)  # `alma.progress.WorkItem`s.
    known: int = 0  # How many were stored before.
    superseded: list[str] = field(default_factory=list)  # The ids of older facts that a new one replaced.
    refused: list[str] = field(default_factory=list)  # What was not stored, and why.

    @property
    def memories(self) -> list[Memory]:
        """All new memories, without work items."""
        return [memory for name in LISTS[:-1] for memory in getattr(self, name)]

    @property
    def count(self) -> int:
        """How many memories and work items are new."""
        return len(self.memories) + len(self.work_items)

    def refuse(self, kind: Kind, text: str, reason: object) -> None:
        self.refused.append(f"{_describe(kind, text)}: {reason}")


def _describe(kind: Kind, text: str) -> str:
    return f"{kind.replace('_', ' ')} {shorten(text, _SHOWN_CHARS)!r}"


class Learned(dict[str, Any]):
    """What was learned, as plain values; `findings` and `memories` hold the objects.

    `extracted_count`: how many findings are sure enough; `new`: how many of them are new; `kept`: how many by type;
    `known`: how many were stored before; `skipped`: what was left out, and why; `model`: the model that was asked;
    `fallback`: why the local reader had to replace it; `dropped`: how many proposals were dropped, by reason.
    """

    findings: tuple[Extracted, ...]
    memories: Kept

    def __init__(self, values: Mapping[str, Any], findings: Sequence[Extracted], memories: Kept) -> None:
        super().__init__(values)
        self.findings = tuple(findings)
        self.memories = memories


class AutoLearner(Holder):
    """Learns from conversations and texts. Without `alma` it opens the configured memory, and closes it again.

    `model` is the language model that reads; without one it is the configured one, if any.
    """

    def __init__(
        self,
        alma: ALMA | None = None,
        model: Model | None = None,
        *,
        project_id: str | None = None,
        min_confidence: float = MIN_CONFIDENCE,
    ) -> None:
        super().__init__(alma, project_id)
        self.model = model
        self.min_confidence = validate.number("min_confidence", min_confidence, 0.0, 1.0)

    def learn_from_conversation(
        self,
        messages: Sequence[Mapping[str, Any]],
        agent: str,
        user_id: str | None = None,
        session_id: str | None = None,
        *,
        dry_run: bool = False,
        save_episode: bool = False,
        min_confidence: float | None = None,
        source: str = "conversation",
        trusted: bool = True,
        relayed: bool = False,
    ) -> Learned:
        """Find what a conversation tells and store it. Repeating the call adds nothing.

        A message is a mapping with `role` and `content`, and perhaps `at` and `id`. Findings less sure than
        `min_confidence` are left out. `dry_run` only reports what would be stored, `save_episode` stores the
        conversation as well. `trusted=False` is for the talk of others: what it says waits for a person.
        `relayed=True` is for a conversation that an agent reports: the person's words in it count as the agent's, and
        rules wait for a person. If the model fails, `fallback` says why, and a later call asks it again.
        """
        messages = list(validate.many("messages", messages))
        least = self._check_confidence(min_confidence)
        agent = self.alma.engine.agent(validate.name("agent", agent))
        model = self.model or self.alma.model
        spoken = extractor.read_messages(messages)
        texts = [one.text for one in spoken if one.role is Role.USER]
        known = extractor.find_known_memories(self.alma.engine, agent, user_id, texts) if model else []
        extraction = extractor.extract_conversation(messages, model=model, known=known)
        episode = ""
        if save_episode and spoken and not dry_run:
            turns = [{"speaker": one.speaker, "text": one.text, "at": one.at} for one in spoken]
            # Without a name of its own a conversation is known by how it begins.
            session = session_id or f"chat-{digest(spoken[0].speaker, spoken[0].text)[:16]}"
            # The name of a chat or file is no kind of source.
            kind = source if find_source(source) else "conversation"
            episode = self.alma.add_episode(agent, session, turns, user_id, source=kind).id
        place = {"agent": agent, "user_id": user_id, "source": source, "episode": episode}
        trust = {"trusted": trusted, "relayed": relayed}
        return self._store(extraction, least, dry_run, **place, session_id=session_id or "", **trust)

    async def alearn_from_conversation(
        self, messages: Sequence[Mapping[str, Any]], agent: str, *args: Any, **options: Any
    ) -> Learned:
        """`learn_from_conversation` for asyncio, in a worker thread."""
        return await asyncio.to_thread(self.learn_from_conversation, messages, agent, *args, **options)

    def learn_from_text(
        self,
        text: str,
        agent: str,
        user_id: str | None = None,
        name: str | None = None,
        *,
        dry_run: bool = False,
        min_confidence: float | None = None,
        trusted: bool = True,
        relayed: bool = False,
    ) -> Learned:
        """Find what a text states and store it, as `learn_from_conversation` does. `name` is its title."""
        least = self._check_confidence(min_confidence)
        agent = self.alma.engine.agent(validate.name("agent", agent))
        extraction = extractor.extract_text(text, model=self.model or self.alma.model, name=name or "")
        place = {"agent": agent, "user_id": user_id, "source": name or "text"}
        return self._store(extraction, least, dry_run, **place, trusted=trusted, relayed=relayed)

    def _check_confidence(self, given: float | None) -> float:
        return self.min_confidence if given is None else validate.number("min_confidence", given, 0.0, 1.0)

    def _store(self, extraction: Extraction, least: float, dry_run: bool, **options: Any) -> Learned:
        """Store the findings that are sure enough, and describe what became of all of them."""
        sure = [one for one in extraction.found if one.confidence >= least]
        kept = Kept() if dry_run else keep(self.alma, sure, **options)
        doubted = [
            f"{_describe(one.kind, one.text)}: less sure ({one.confidence:.2f}) than {least:g}"
            for one in extraction.found
            if one.confidence < least
        ]
        types = [*(type(one).__name__ for one in kept.memories), *("WorkItem" for _ in kept.work_items)]
        values = {
            "extracted_count": len(sure),
            "new": kept.count,
            "known": kept.known,
            "kept": dict(Counter(types)),
            "by_kind": dict(Counter(str(one.kind) for one in sure)),
            "superseded": list(kept.superseded),
            "skipped": [*doubted, *kept.refused],
            "model": extraction.model or None,
            "fallback": extraction.failed or None,
            "dropped": dict(extraction.dropped),
            "episode_id": options.get("episode") or None,
            "dry_run": dry_run,
        }
        return Learned(values, sure, kept)


# -- storing findings


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
    kept = Kept()
    items = _check_findings(target, found, trusted, relayed, kept)
    work = [one for one in items if one.kind is Kind.WORK_ITEM]
    if len(items) > len(work):
        _write_items(target, [one for one in items if one.kind is not Kind.WORK_ITEM], kept)
    if work:
        _create_work(alma, target, work, kept)
    return kept


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
    """A finding that may be stored."""

    finding: Extracted
    mark: str
    text: str
    provenance: Provenance
    user: str  # Whose preference it would be.
    owner: str  # Whose lesson, rule or fact it would be. The words of others in a file are not the user's.

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


def _check_findings(
    target: _Target, found: Sequence[Extracted], trusted: bool, relayed: bool, kept: Kept
) -> list[_Item]:
    """Return the findings that are valid, each once."""
    items: dict[str, _Item] = {}
    for one in found:
        key = one.key or digest(str(one.turn), one.kind, one.quote, one.text)
        mark = f"mrk_heard_{digest(target.engine.project, target.agent, target.user or '', target.session, key)}"
        if mark in items:
            kept.known += 1
            continue
        try:
            text = validate.text("text", one.text)
            fields = {name: validate.text(name, value) for name, value in one.fields.items() if value}
        except ValidationError as error:
            kept.refuse(one.kind, one.text, error)
            continue
        is_trusted = trusted and not suspicious("\n".join((one.quote, text, *fields.values())))
        origin = _ORIGINS[one.voice] if is_trusted else Origin.CONTENT
        provenance = Provenance(
            Origin.AGENT if relayed and origin is Origin.USER else origin,
            Trust.LEARNED if is_trusted else Trust.UNTRUSTED,
            (target.episode,) if target.episode else (),
            target.source,
        )
        # Without a user, or if others speak, it is stored for the speaker.
        is_named = by_name(one.speaker, "") != "" and one.voice is Voice.PERSON
        user = one.speaker if is_named else "user"
        if target.user and (trusted or not is_named):
            user = target.user
        owner = outcomes.group_owner(target.engine, user) if user == target.user else ""
        items[mark] = _Item(replace(one, fields=fields), mark, text, provenance, user, owner)
    return list(items.values())


def _write_items(target: _Target, items: Sequence[_Item], kept: Kept) -> None:
    """Write all items that have no mark yet, and their marks, in one transaction."""

    def step(tx: Transaction) -> tuple[dict[str, Written], list[str]]:
        groups: dict[Callable[[Transaction, _Target, Sequence[_Item]], list[Written]], list[_Item]] = {}
        for item in sorted(items, key=lambda one: one.kind is Kind.OUTCOME):
            if tx.once(item.mark, {"value": "heard"}):
                groups.setdefault(_choose_writer(item), []).append(item)
        written: dict[str, Written] = {}
        for write_group, group in groups.items():
            written |= zip((one.mark for one in group), write_group(tx, target, group), strict=True)
        return written, [one.id for one in tx.changed if one.status is Status.SUPERSEDED and one.version > 1]

    written, superseded = write(target.engine, step)
    kept.superseded += superseded
    now = target.engine.clock()
    new: set[str] = set()
    for item in items:
        record, verb = written.get(item.mark, (None, "known"))
        if record is None and verb != "known":
            kept.refuse(item.kind, item.text, verb)
        elif record is None or verb != "made" or record.id in new:
            kept.known += 1
        else:
            new.add(record.id)
            name = next(one for one in LISTS if one.startswith(record.kind))
            getattr(kept, name).append(view(record, now))


def _choose_writer(item: _Item) -> Callable[[Transaction, _Target, Sequence[_Item]], list[Written]]:
    if item.kind in (Kind.FACT, Kind.DECISION, Kind.PREFERENCE):
        return _write_facts
    if item.is_waiting:
        return _write_waiting
    return {Kind.OUTCOME: _write_outcomes, Kind.CORRECTION: _write_rules}.get(item.kind, _write_lessons)


def _describe_records(records: Sequence[Record]) -> list[Written]:
    return [(record, "made" if record.version == 1 else "known") for record in records]


def _past_time(engine: Engine, at: datetime | None) -> datetime | None:
    """Return a time unless it is in the future: another clock is wrong."""
    return at if at is not None and at <= engine.clock() else None


def _write_facts(tx: Transaction, target: _Target, items: Sequence[_Item]) -> list[Written]:
    """Write facts and preferences, without those that were said before a person deleted them."""
    drafts = prepare(tx.engine, [_make_draft(target, one) for one in items])
    stones = tx.find_tombstones([one.key for one in drafts])
    wanted = [
        at
        for at, one in enumerate(drafts)
        if one.valid_from is None or one.key not in stones or one.valid_from >= stones[one.key].created_at
    ]
    replaces = [items[at].finding.replaces for at in wanted]
    records = facts.add_facts(tx, [drafts[at] for at in wanted], replaces=replaces)
    written = dict(zip(wanted, _describe_records(records), strict=True))
    return [written.get(at, (None, _DELETED)) for at in range(len(items))]


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
        user=item.user if domain == "user" else item.owner,
        session=target.session,
        body={"domain": domain, "fact": item.field("fact", item.text), **key, "metadata": item.metadata},
        **common,
    )


def _make_statement(target: _Target, item: _Item) -> Draft:
    is_warning = item.kind is Kind.ANTI_PATTERN or (item.kind is Kind.CORRECTION and FORBIDS.match(item.text))
    body: dict[str, Any] = {"metadata": item.metadata}
    if is_warning:
        body["why_bad"] = item.field("why_bad", item.field("why"))
        body["better_alternative"] = item.field("better_alternative")
    return outcomes.draft_lesson(
        kind=MemoryType.ANTI_PATTERN if is_warning else MemoryType.HEURISTIC,
        agent=target.agent,
        condition=item.field("condition"),
        strategy=item.field("pattern" if is_warning else "strategy", item.field("rule", item.text)),
        user=item.owner,
        body=body,
        provenance=item.provenance,
        tags=item.tags,
    )


def _write_lessons(tx: Transaction, target: _Target, items: Sequence[_Item]) -> list[Written]:
    drafts = outcomes.prepare_lessons(tx.engine, [_make_statement(target, one) for one in items])
    return _describe_records(outcomes.state_lessons(tx, drafts))


def _write_rules(tx: Transaction, target: _Target, items: Sequence[_Item]) -> list[Written]:
    teachings = []
    for item in items:
        is_user = item.provenance.origin is Origin.USER
        teachings.append(
            rules.Teaching(
                id=item.mark,
                agent=target.agent,
                rule=item.field("rule", item.text),
                why=item.field("why"),
                reach=Reach.PROJECT,
                source=RuleSource.CORRECTION if is_user else RuleSource.IMPORT,
                provenance=None if is_user else item.provenance,
                said=item.finding.quote,
                session=target.session,
                user=item.owner,
                sure=is_user and item.finding.confidence >= _SURE_RULE,
                at=item.finding.at,
                episodes=(target.episode,) if target.episode else (),
                tags=item.tags,
                metadata=item.metadata,
            )
        )
    verbs = {"made": "made", "refused": _DELETED}
    taught = rules.learn_rules(tx, rules.prepare_rules(tx.engine, teachings))
    return [(one.record, verbs.get(one.verb, "known")) for one in taught]


def _make_episode(target: _Target, item: _Item) -> OutcomeDraft:
    return OutcomeDraft(
        agent=target.agent,
        task=item.field("task", item.text),
        strategy=item.field("strategy_used", item.text),
        result=Result(item.field("outcome", Result.SUCCESS)),
        error=item.field("error_message") or None,
        user=target.user or "",
        session=target.session,
        tags=item.tags,
        metadata={**item.metadata, "source": target.source},
        at=_past_time(target.engine, item.finding.at),
    )


def _write_outcomes(tx: Transaction, target: _Target, items: Sequence[_Item]) -> list[Written]:
    prepared = outcomes.prepare_outcomes(tx.engine, [_make_episode(target, one) for one in items])
    return [(record, "made") for record in outcomes.record_outcomes(tx, prepared)]


def _write_waiting(tx: Transaction, target: _Target, items: Sequence[_Item]) -> list[Written]:
    """Write lessons and outcomes that wait for a person, apart from all that was learned, each found by its key.

    A rule of others waits as a lesson, too.
    """
    drafts = [
        outcomes.draft_outcome(_make_episode(target, one))._replace(provenance=one.provenance)
        if one.kind is Kind.OUTCOME
        else _make_statement(target, one)
        for one in items
    ]
    keyed: list[Draft] = []
    for item, draft in zip(items, prepare(tx.engine, drafts), strict=True):
        parts = [item.mark]
        if item.kind is not Kind.OUTCOME:
            words = str(draft.body.get("strategy") or draft.body.get("pattern"))
            owner = [draft.user] if draft.user else []
            parts = [draft.kind, draft.agent, *owner, str(draft.body["condition"]), words]
        keyed.append(draft._replace(key=fingerprint("heard", *parts)))
    keys = {one.key for one in keyed}
    statuses = {Status.ACTIVE, Status.CANDIDATE, Status.ARCHIVED}
    where = Where(projects={tx.engine.project}, keys=keys, kinds={one.kind for one in keyed}, statuses=statuses)
    stored = {record.key: record for record in tx.scan(where)}
    deleted = tx.find_tombstones(keys)
    written: list[Written] = []
    for one in keyed:
        if one.key in deleted:
            written.append((None, _DELETED))
        elif one.key in stored:
            written.append((stored[one.key], "known"))
        else:
            stored[one.key] = tx.put(build(tx.engine, one))
            written.append((stored[one.key], "made"))
    return written


def _create_work(alma: ALMA, target: _Target, items: Sequence[_Item], kept: Kept) -> None:
    """Open work items. The tasks of others are refused: an agent would do them."""
    from ..progress import ProgressTracker

    tracker = ProgressTracker(alma=alma)
    marked = {record.id for record in target.engine.store.get([item.mark for item in items])}
    kept.known += len(marked)
    for item in items:
        if item.mark in marked:
            continue
        if item.is_waiting:
            kept.refuse(item.kind, item.text, "tasks in a text that is not trusted are not taken on")
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
        kept.known += not created
        kept.work_items += created

    def mark(tx: Transaction) -> None:
        for item in items:
            if not item.is_waiting:
                tx.once(item.mark, {"value": "heard"})

    write(target.engine, mark)


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
