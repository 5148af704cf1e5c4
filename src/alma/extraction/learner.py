"""`AutoLearner` finds memories in conversations and texts and stores them.

`keep` stores each finding once, no matter how often its conversation is read. Each finding writes a marker in the same
transaction as its memory, and a marked finding is skipped. A deleted memory therefore does not come back when its
conversation is read again, an outcome counts once, and an old conversation does not overwrite newer statements.
Findings in an untrusted text, or in one that reads like an attempt to instruct a model, become candidates that a person
must approve. Learned memories take neither words nor evidence from candidates.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from .. import words
from ..engine import facts, outcomes, rules, validate
from ..engine.admit import draft_record, embed_records
from ..engine.calls import CALL, IMPORT, RUN, name_import
from ..engine.escape import find_suspicion
from ..engine.tombstones import is_binding
from ..engine.transaction import Transaction, write
from ..engine.view import to_memory
from ..errors import ValidationError
from ..opening import OwnsMemory
from ..operations import About, Effect, Group, take_as_given
from ..ports import Model
from ..progress import ProgressTracker, WorkItem
from ..reading.port import Role
from ..text import digest, fingerprint, shorten
from ..types import kinds
from ..types.kinds import Memory, MemoryType, Reach, Result, RuleSource
from ..types.record import QUOTED, Origin, Provenance, Record, Status, Trust
from ..types.speech import by_name
from .extractor import (
    FORBIDS,
    Extracted,
    Extraction,
    Kind,
    Voice,
    extract_messages,
    extract_text,
    find_known_memories,
    read_messages,
)

if TYPE_CHECKING:
    from ..memory import ALMA


Written = Sequence[Record | None]  # The records of findings; None for a memory that was deleted and stays deleted.

MIN_CONFIDENCE = 0.5
_SURE_RULE = 0.75  # A rule with less confidence stays a candidate until it is repeated, confirmed or reviewed.
_SHOWN_CHARS = 80
_SHOWN_UNREAD = 20
DEFAULT_AGENT = "assistant"
_ORIGINS = {Voice.PERSON: Origin.USER, Voice.ASSISTANT: Origin.AGENT, Voice.DOCUMENT: Origin.IMPORT}
_FACTS = (Kind.FACT, Kind.DECISION, Kind.PREFERENCE)
LISTS = tuple("domain_knowledge user_preferences anti_patterns heuristics outcomes rules work_items".split())


@dataclass(slots=True, kw_only=True)
class Kept:
    """The result of storing findings. The lists hold new memories."""

    domain_knowledge: list[kinds.DomainKnowledge] = field(default_factory=list)
    user_preferences: list[kinds.UserPreference] = field(default_factory=list)
    anti_patterns: list[kinds.AntiPattern] = field(default_factory=list)
    heuristics: list[kinds.Heuristic] = field(default_factory=list)
    outcomes: list[kinds.Outcome] = field(default_factory=list)
    rules: list[kinds.Rule] = field(default_factory=list)
    work_items: list[Any] = field(default_factory=list)  # `alma.progress.WorkItem`s.
    known: int = 0  # How many findings were already stored.
    superseded: list[str] = field(default_factory=list)  # The ids of facts that a new one superseded.
    refused: list[str] = field(default_factory=list)  # Findings that were not stored, with the reasons.

    @property
    def memories(self) -> list[Memory]:
        """The new memories, without work items."""
        return [memory for name in LISTS[:-1] for memory in getattr(self, name)]

    @property
    def count(self) -> int:
        """The number of new memories and work items."""
        return len(self.memories) + len(self.work_items)

    def refuse(self, finding: Extracted, reason: object) -> None:
        """Record that a finding was not stored."""
        text = shorten(finding.text, _SHOWN_CHARS)
        self.refused.append(f"{finding.kind.replace('_', ' ')} {text!r}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningReport:
    """What was learned from a conversation or text. The lists hold the new memories."""

    domain_knowledge: list[kinds.DomainKnowledge]
    user_preferences: list[kinds.UserPreference]
    anti_patterns: list[kinds.AntiPattern]
    heuristics: list[kinds.Heuristic]
    outcomes: list[kinds.Outcome]
    rules: list[kinds.Rule]
    work_items: list[WorkItem]
    extracted_count: int  # Findings with enough confidence.
    new: int
    known: int  # Findings that were already stored.
    kept: dict[str, int]  # New memories by type.
    by_kind: dict[str, int]  # Findings by kind.
    superseded: list[str]  # Ids of facts that a new one superseded.
    skipped: list[str]  # Findings that were not stored and statements that were not understood, with the reasons.
    model: str | None
    fallback: str | None  # Why the model failed and the local reader was used instead.
    dropped: dict[str, int]  # Proposals of the model that were dropped, by reason.
    episode_id: str | None
    dry_run: bool
    findings: list[dict[str, Any]]


class LearningResult(dict[str, Any]):
    """What was learned, by the names of `LearningReport`; `memories` holds its lists, and `findings` the objects."""

    findings: Sequence[Extracted]
    memories: Kept


def describe_learned(learned: LearningResult | LearningReport) -> LearningReport:
    """Return a learning result as a report; a report, as a remote memory returns it, stays as it is."""
    if isinstance(learned, LearningReport):
        return learned
    names = ("text", "quote", "turn", "confidence")
    findings = [{"kind": str(one.kind)} | {name: getattr(one, name) for name in names} for one in learned.findings]
    lists = {name: getattr(learned.memories, name) for name in LISTS}
    return LearningReport(**lists, **learned, findings=findings)


Messages = Annotated[
    str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
    About(
        "a text, a message with role and content (optionally at and id), or a list of them; a text is the user's",
        check=take_as_given,
    ),
]
DryRun = Annotated[bool, About("only report what would be stored")]
Sureness = Annotated[float | None, About("leave out memories below this confidence, 0 to 1", json=float)]
_OPTIONS: dict[str, Any] = {
    "defaults": {"source": words.AGENT, "min_confidence": MIN_CONFIDENCE},
    "answer": describe_learned,
}
operation = Group("knowledge", lambda alma: AutoLearner(alma))


class AutoLearner(OwnsMemory):
    """Learns from conversations and texts.

    Without `alma` it opens the configured memory, and `close` closes it. `model` is the language model that reads; by
    default it is the configured one, if any.
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

    @property
    def call_elsewhere(self) -> Callable[..., Any] | None:
        """How operations run on a remote memory, which return `LearningReport`s; None for one that is open here."""
        return getattr(self.alma, "call_elsewhere", None)

    @operation(Effect.ADDS, idempotent=True, **_OPTIONS)
    def learn_from(
        self,
        messages: Messages,
        agent: words.AgentOrDefault = None,
        user_id: words.User = None,
        session_id: Annotated[str | None, About("the conversation's id")] = None,
        dry_run: DryRun = False,
        save_episode: Annotated[bool, About("also store the conversation itself")] = False,
        min_confidence: Sureness = None,
        trusted: Annotated[
            bool, About("false if others wrote it: its memories stay candidates until a person accepts them")
        ] = True,
        source: words.Source = "user",
    ) -> LearningResult:
        """Learn from messages: store the facts, preferences, rules, problems, decisions and tasks in them.

        Reading them again adds nothing twice. A configured language model finds more, but none is needed. The
        report names what looked like a statement and was not understood. Rules in a conversation reported by an agent
        stay candidates until a person accepts them.
        """
        agent, model = self._choose_agent(agent), self.model or self.alma.model
        spoken = read_messages(messages)
        texts = [one.text for one in spoken if one.role is Role.USER]
        stored = find_known_memories(self.alma.engine, agent, user_id, texts) if model else []
        extraction = extract_messages(spoken, model, stored)
        episode = ""
        if save_episode and spoken and not dry_run:
            turns = [{"speaker": one.speaker, "text": one.text, "at": one.at} for one in spoken]
            # A conversation without a session id is identified by its first message.
            session = session_id or f"chat-{digest(spoken[0].speaker, spoken[0].text)[:16]}"
            episode = self.alma.add_episode(agent, session, turns, user_id, source="conversation").id
        place = {"agent": agent, "user_id": user_id, "episode": episode, "session_id": session_id or ""}
        return self._store(extraction, min_confidence, source, trusted, dry_run, **place, source="conversation")

    def learn_from_conversation(self, *args: Any, **options: Any) -> LearningResult:
        """Run `learn_from`; this is its earlier name."""
        return self.learn_from(*args, **options)

    async def alearn_from(self, *args: Any, **options: Any) -> LearningResult:
        """Run `learn_from` with the same arguments in a worker thread."""
        return await asyncio.to_thread(self.learn_from, *args, **options)

    async def alearn_from_conversation(self, *args: Any, **options: Any) -> LearningResult:
        """Run `alearn_from`; this is its earlier name."""
        return await self.alearn_from(*args, **options)

    @operation(Effect.ADDS, idempotent=True, **_OPTIONS)
    def learn_from_text(
        self,
        text: Annotated[str, About("a note, a Markdown page or minutes", check=take_as_given)],
        agent: words.AgentOrDefault = None,
        user_id: words.User = None,
        name: Annotated[str | None, About("the text's name, such as decisions.md")] = None,
        dry_run: DryRun = False,
        min_confidence: Sureness = None,
        trusted: Annotated[
            bool,
            About("false if others wrote it: its memories stay candidates until a person accepts them", vouches=True),
        ] = True,
        source: words.Source = "user",
    ) -> LearningResult:
        """Extract memories from a text and store them.

        Finds decisions, facts, strategies, warnings and tasks. Reading it again adds nothing twice. To read files, use
        ingest.
        """
        extraction = extract_text(text, model=self.model or self.alma.model, name=name or "")
        place = {"agent": self._choose_agent(agent), "user_id": user_id, "source": name or "text"}
        return self._store(extraction, min_confidence, source, trusted, dry_run, **place)

    def _choose_agent(self, agent: str | None) -> str:
        """Return the declared name of an agent; without one the only declared agent, or else `DEFAULT_AGENT`."""
        engine = self.alma.engine
        declared = engine.scopes.known()
        only_agent = declared[0] if len(declared) == 1 else DEFAULT_AGENT
        return engine.agent(agent or only_agent)

    def _store(
        self,
        extraction: Extraction,
        confidence: float | None,
        said_by: str,
        trusted: bool,
        dry_run: bool,
        **place: Any,
    ) -> LearningResult:
        """Store the findings with enough confidence, and return what became of all of them.

        Findings from an agent count as relayed; those from tools and content become candidates.
        """
        threshold = self.min_confidence if confidence is None else confidence
        least = validate.number("min_confidence", threshold, 0.0, 1.0)
        origin = validate.provenance("source", said_by).canonical_source
        sure = [one for one in extraction.found if one.confidence >= least]
        place |= {"trusted": trusted and origin not in QUOTED, "relayed": origin != "user", "dry_run": dry_run}
        stored = keep(self.alma, sure, **place)
        doubtful = Kept()
        for one in extraction.found:
            if one.confidence < least:
                doubtful.refuse(one, f"its confidence ({one.confidence:.2f}) is below {least:g}")
        learned = LearningResult(
            extracted_count=len(sure),
            new=stored.count,
            known=stored.known,
            kept=dict(Counter(type(one).__name__ for one in (*stored.memories, *stored.work_items))),
            by_kind=dict(Counter(str(one.kind) for one in sure)),
            superseded=stored.superseded,
            skipped=[*doubtful.refused, *stored.refused, *_describe_unread(extraction.unread)],
            model=extraction.model or None,
            fallback=extraction.failed or None,
            dropped=dict(extraction.dropped),
            episode_id=place.get("episode") or None,
            dry_run=dry_run,
        )
        learned.findings, learned.memories = sure, stored
        return learned


def _name_import() -> dict[str, str]:
    """Return the import that a work item comes from, as it is stored with it: undoing the import does not remove it."""
    return {"import": name_import(RUN.get())} if CALL.get() == IMPORT else {}


def _describe_unread(sentences: Sequence[str]) -> list[str]:
    """Return the sentences that were not understood, shortened, with this reason."""
    lines = [f"{shorten(sentence, _SHOWN_CHARS)!r}: not understood" for sentence in sentences[:_SHOWN_UNREAD]]
    more = len(sentences) - len(lines)
    return [*lines, f"{more} more sentences: not understood"] if more else lines


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
    dry_run: bool = False,
    repository: str = "",
) -> Kept:
    """Store findings and return what is new; with `dry_run`, store nothing and return what would be new.

    `source` names their origin, and `episode` is the id of the stored conversation, if any. Pass `trusted=False` for
    texts of others: their findings become candidates, and tasks in them are not stored. Pass `relayed=True` if an agent
    reports the texts: a person's words then count as the agent's, and rules become candidates. Rules keep the name of
    the `repository` that they were stated in, and the time.
    """
    keeper = _Keeper(alma, agent, user_id, source, episode, session_id)
    keeper.repository = repository
    items = list(keeper.check_findings(found, trusted, relayed))
    work = [one for one in items if one.finding.kind is Kind.WORK_ITEM]
    if len(items) > len(work):
        keeper.write_items([one for one in items if one.finding.kind is not Kind.WORK_ITEM], dry_run)
    if work:
        keeper.create_work(work, dry_run)
    return keeper.kept


class _Item(NamedTuple):
    """A finding that may be stored."""

    finding: Extracted
    fields: Mapping[str, str]  # With defaults that follow from its text; missing fields are "".
    mark: str
    provenance: Provenance
    is_waiting: bool
    user: str  # The user to store it for if it is a preference.
    owner: str  # The user to store it for if it is a strategy, rule or fact; empty for the words of others in a file.
    metadata: dict[str, Any]  # Where it was said, stored with the memory.
    tags: tuple[str, ...]


class _Keeper:
    """Stores findings for an agent and a user."""

    def __init__(self, alma: ALMA, agent: str, user: str | None, source: str, episode: str, session: str) -> None:
        self._alma = alma
        self._engine = alma.engine
        self._agent = alma.engine.agent(validate.name("agent", agent))
        self._user = "" if user is None else validate.name("user_id", user)
        self._source = validate.name("source", source)
        self._episodes = (episode,) if episode else ()
        self._session = session
        self.repository = ""  # The repository that a session of a coding agent worked in, if known.
        self.kept = Kept()

    def check_findings(self, findings: Sequence[Extracted], trusted: bool, relayed: bool) -> Iterator[_Item]:
        """Yield the valid findings without duplicates, prepared for storing."""
        marks: set[str] = set()
        for one in findings:
            key = one.key or digest(str(one.turn), one.kind, one.quote, one.text)
            # What waited as the words of others is learned if a person later declares them as their own.
            key = key if trusted else f"{key}:others"
            mark = f"mrk_heard_{digest(self._engine.project, self._agent, self._user, self._session, key)}"
            if mark in marks:
                self.kept.known += 1
                continue
            try:
                text = validate.text("text", one.text)
                fields = {name: validate.text(name, value) for name, value in one.fields.items() if value}
            except ValidationError as error:
                self.kept.refuse(one, error)
                continue
            marks.add(mark)
            is_trusted = trusted and not find_suspicion("\n".join((one.quote, text, *fields.values())))
            origin = _ORIGINS[one.voice] if is_trusted else Origin.CONTENT
            origin = Origin.AGENT if relayed and origin is Origin.USER else origin
            trust = Trust.LEARNED if is_trusted else Trust.UNTRUSTED
            # Without a user, or if somebody else speaks, the finding is stored for the speaker.
            is_named = by_name(one.speaker, "") != "" and one.voice is Voice.PERSON
            user = one.speaker if is_named else "user"
            if self._user and (trusted or not is_named):
                user = self._user
            metadata = {"quote": shorten(one.quote, 500), "turn": one.turn, "speaker": one.speaker}
            optional = {"when": one.when, "model": one.model}
            metadata |= {"confidence": one.confidence, **{name: value for name, value in optional.items() if value}}
            if one.kind is Kind.CORRECTION:
                metadata |= self._describe_place(one)
            is_decision = one.kind is Kind.DECISION
            defaults = dict.fromkeys("fact preference rule title task strategy_used".split(), text)
            defaults |= {"domain": "decisions" if is_decision else "project", "category": "general"}
            yield _Item(
                replace(one, text=text),
                defaultdict(str, {**defaults, "outcome": Result.SUCCESS, **fields}),
                mark,
                Provenance(origin, trust, self._episodes, self._source),
                not is_trusted,
                user,
                outcomes.group_owner(self._engine, user) if user == self._user else "",
                metadata,
                ("decision",) if is_decision else (),
            )

    def _describe_place(self, finding: Extracted) -> dict[str, str]:
        """Return where and when a rule was stated, as far as that is known."""
        stated_at = "" if finding.at is None else finding.at.isoformat()
        place = {"repository": self.repository, "stated_at": stated_at}
        return {name: value for name, value in place.items() if value}

    def write_items(self, items: Sequence[_Item], dry_run: bool) -> None:
        """Write all items without a marker, and their markers, in one transaction; a dry run writes nothing."""

        def step(tx: Transaction) -> tuple[dict[str, tuple[Record | None, bool]], list[str]]:
            groups = defaultdict(list)
            writers = {Kind.OUTCOME: self._write_outcomes, Kind.CORRECTION: self._write_rules}
            for item in sorted(items, key=lambda one: one.finding.kind is Kind.OUTCOME):
                if tx.once(item.mark, {"value": "heard"}):
                    is_drafted = item.is_waiting or item.finding.kind in _FACTS
                    writer = self._write_drafts if is_drafted else writers.get(item.finding.kind, self._write_lessons)
                    groups[writer].append(item)
            written = {}
            for write_group, group in groups.items():
                for item, record in zip(group, write_group(tx, group), strict=True):
                    written[item.mark] = record, record is not None and tx.is_new(record)
            return written, [one.id for one in tx.changed if one.status is Status.SUPERSEDED and one.version > 1]

        written, self.kept.superseded = step(Transaction(self._engine)) if dry_run else write(self._engine, step)
        new: set[str] = set()
        for item in items:
            record, is_new = written.get(item.mark, (None, False))
            if record is None and item.mark in written:
                self.kept.refuse(item.finding, "it was deleted earlier, and is not restored automatically")
            elif record is None or not is_new or record.id in new:
                self.kept.known += 1
            else:
                new.add(record.id)
                name = next(one for one in LISTS if one.startswith(record.kind))
                getattr(self.kept, name).append(to_memory(record, self._engine.clock()))

    def _find_time(self, item: _Item) -> datetime | None:
        """Return the time of the statement; None if it is unknown or in the future."""
        at = item.finding.at
        return at if at is not None and at <= self._engine.clock() else None

    def _write_drafts(self, tx: Transaction, items: Sequence[_Item]) -> Written:
        """Write facts, preferences and candidates, without merging them with learned memories.

        A deleted fact comes back only if it was stated after its deletion; a deleted candidate never does.
        """
        drafts = []
        for item, draft in zip(items, embed_records(tx.engine, list(map(self._make_draft, items))), strict=True):
            if item.finding.kind is Kind.OUTCOME:
                draft = replace(draft, key=fingerprint("heard", item.mark))
            elif item.finding.kind not in _FACTS:
                words = (str(draft.body["condition"]), str(draft.body.get("strategy") or draft.body.get("pattern")))
                owner = [draft.user] if draft.user else []
                draft = replace(draft, key=fingerprint("heard", draft.kind, draft.agent, *owner, *words))
            drafts.append(draft)
        stones = tx.find_tombstones([one.key for one in drafts])
        indexes = []
        for at, (item, one) in enumerate(zip(items, drafts, strict=True)):
            stone, is_fact = stones.get(one.key), item.finding.kind in _FACTS
            is_later = is_fact and stone is not None and (not one.valid_from or one.valid_from >= stone.updated_at)
            if stone is None or is_later or not is_binding(stone, one.provenance):
                indexes.append(at)
        replaces = [items[at].finding.replaces for at in indexes]
        records = facts.add_facts(tx, [drafts[at] for at in indexes], replaces=replaces)
        written = dict(zip(indexes, records, strict=True))
        return [written.get(at) for at in range(len(items))]

    def _make_draft(self, item: _Item) -> Record:
        fields, is_preference = item.fields, item.finding.kind is Kind.PREFERENCE
        if item.finding.kind is Kind.OUTCOME:
            return self._draft_outcome(item, item.provenance).record
        if item.finding.kind not in _FACTS:
            # A candidate rule from others is stored as a strategy or anti-pattern.
            return self._draft_lesson(item)
        names = ("category", "preference") if is_preference else ("domain", "fact")
        keys = [name for name in ("subject", "attribute") if fields[name]]
        return draft_record(
            self._engine,
            MemoryType.USER_PREFERENCE if is_preference else MemoryType.DOMAIN_KNOWLEDGE,
            {name: fields[name] for name in (*names, *keys)} | {"metadata": item.metadata},
            user=item.user if is_preference or fields["domain"] == "user" else item.owner,
            provenance=item.provenance,
            tags=item.tags,
            valid_from=self._find_time(item),
            agent="" if is_preference else self._agent,
            session="" if is_preference else self._session,
        )

    def _draft_lesson(self, item: _Item) -> Record:
        kind, fields = item.finding.kind, item.fields
        is_warning = kind is Kind.ANTI_PATTERN or (kind is Kind.CORRECTION and FORBIDS.match(item.finding.text))
        advice = {"why_bad": fields["why_bad"] or fields["why"], "better_alternative": fields["better_alternative"]}
        name = "pattern" if is_warning else "strategy"
        words = {"condition": fields["condition"], name: fields[name] or fields["rule"], "task_type": ""}
        return draft_record(
            self._engine,
            MemoryType.ANTI_PATTERN if is_warning else MemoryType.HEURISTIC,
            {**words, "metadata": item.metadata, **(advice if is_warning else {})},
            agent=self._agent,
            user=item.owner,
            provenance=item.provenance,
            tags=item.tags,
        )

    def _write_lessons(self, tx: Transaction, items: Sequence[_Item]) -> Written:
        return outcomes.state_lessons(tx, outcomes.prepare_lessons(tx.engine, list(map(self._draft_lesson, items))))

    def _write_rules(self, tx: Transaction, items: Sequence[_Item]) -> Written:
        teachings = []
        for item in items:
            is_user = item.provenance.origin is Origin.USER
            teachings.append(
                rules.Teaching(
                    id=item.mark,
                    agent=self._agent,
                    rule=item.fields["rule"],
                    why=item.fields["why"],
                    reach=Reach.PROJECT,
                    source=RuleSource.CORRECTION if is_user else RuleSource.IMPORT,
                    provenance=None if is_user else item.provenance,
                    said=item.finding.quote,
                    session=self._session,
                    user=item.owner,
                    sure=is_user and item.finding.confidence >= _SURE_RULE,
                    at=item.finding.at,
                    episodes=self._episodes,
                    tags=item.tags,
                    metadata=item.metadata,
                )
            )
        taught = rules.learn_rules(tx, rules.prepare_rules(tx.engine, teachings))
        return [one.record for one in taught]

    def _draft_outcome(self, item: _Item, provenance: Provenance = outcomes.BY_AGENT) -> outcomes.OutcomeDraft:
        names = ("task", "strategy_used", "outcome", "error_message")
        arguments: dict[str, Any] = {name: item.fields[name] for name in names}
        arguments |= {"agent": self._agent, "user_id": self._user, "session": self._session, "tags": item.tags}
        arguments |= {"metadata": {**item.metadata, "source": self._source}, "at": self._find_time(item)}
        return outcomes.build_outcome(self._engine, arguments, provenance)

    def _write_outcomes(self, tx: Transaction, items: Sequence[_Item]) -> Written:
        drafts = outcomes.prepare_outcomes(tx.engine, list(map(self._draft_outcome, items)))
        return outcomes.record_outcomes(tx, drafts)

    def create_work(self, items: Sequence[_Item], dry_run: bool) -> None:
        """Create work items. Tasks in untrusted texts are refused, because an agent would carry them out."""
        tracker, store = ProgressTracker(alma=self._alma), self._engine.store
        marked = {record.id for record in store.get([item.mark for item in items])}
        for item in items:
            if item.mark not in marked and item.is_waiting:
                self.kept.refuse(item.finding, "tasks in an untrusted text are not stored")
                continue
            id = None if item.mark in marked else self._choose_work_id(item)
            work: dict[str, Any] = {
                "id": id,
                "title": shorten(item.fields["title"], 200),
                "description": item.finding.quote,
                "agent": self._agent,
                "tags": ["extracted"],
                "metadata": {**item.metadata, "source": self._source, **_name_import()},
            }
            try:
                created = [] if id is None else [WorkItem(**work)] if dry_run else tracker.create_work_items([work])
            except ValidationError:
                # Another process may have created the same item at this moment.
                if not store.get([str(id)]):
                    raise
                created = []
            self.kept.known += not created
            self.kept.work_items += created
            marked.add(item.mark)
        if not dry_run:
            write(self._engine, lambda tx: [tx.once(mark, {"value": "heard"}) for mark in marked])

    def _choose_work_id(self, item: _Item) -> str | None:
        """Return an id that is derived from the task, so that it is created once; None if it is already open.

        A task that was done and is requested again gets a new id.
        """
        name = f"wrk_{fingerprint(self._engine.project, self._agent, item.fields['title'])[:24]}"
        again = f"wrk_{item.mark[-24:]}"
        stored = {record.id: record for record in self._engine.store.get([name, again])}
        if name not in stored:
            return name
        is_done = stored[name].body["status"] == "done" or stored[name].status is not Status.ACTIVE
        return again if is_done and again not in stored else None
