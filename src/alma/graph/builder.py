"""From memories to the graph: what texts name and state, and what is known about one entity.

`build` reads all memories, `update` what has changed since. Relationships point at the records they come from. A record
that is replaced or archived ends what only it said; one that is deleted takes it along.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..engine import episodes, validate
from ..engine.context import Engine
from ..engine.search import by_words
from ..engine.transaction import write
from ..engine.view import view
from ..errors import ConfigError, ModelError, NotFoundError, ValidationError, unknown
from ..opening import Holder
from ..ports import Clock, Model
from ..reading.local import LocalReader
from ..reading.port import Entities
from ..text import digest, words
from ..types import speech, times
from ..types.graph import THING, Entity, Neighbour, Relationship, Span
from ..types.kinds import Memory, MemoryType
from ..types.query import Where
from ..types.record import Record, Status
from ..types.times import from_iso, to_iso
from .graph import Graph, check_limit, check_type
from .memory import RecordRows

if TYPE_CHECKING:
    from ..memory import ALMA

Statements = tuple[list[Entity], list[Relationship]]

# -- graphs by name

_ROWS = {
    "memory": (".memory", "MemoryRows", {}),
    "sqlite": (".memory", "RecordRows", {}),
    "postgres": (".postgres", "PostgresRows", {}),
    "neo4j": (".cypher", "BoltRows", {"flavour": "neo4j"}),
    "memgraph": (".cypher", "BoltRows", {"flavour": "memgraph"}),
    "kuzu": (".cypher", "KuzuRows", {}),
}


def create_graph_store(
    backend: str = "sqlite", *, project_id: str | None = None, clock: Clock | None = None, **options: Any
) -> Graph:
    """Open the graph of a project.

    `sqlite` lives in the memory that is configured here, or in the one given as `alma`; `memory` as long as the
    process; `kuzu` takes `path`; `postgres` takes `dsn`; `neo4j` and `memgraph` take `uri`, `username`, `password` and
    `database`.
    """
    if backend not in _ROWS:
        raise ConfigError(unknown("graph backend", backend, _ROWS))
    module, name, own = _ROWS[backend]
    try:
        if backend == "sqlite":
            return _open_in_memory(project_id, clock, **options)
        project = project_id or "default"
        own = own if backend == "memory" else {**own, "project": project}
        rows = getattr(import_module(module, __package__), name)(**own, **options)
    except TypeError as error:
        raise ConfigError(f"graph backend {backend!r} does not take these options: {error}") from error
    return Graph(rows, project, clock=clock or times.now)


def _open_in_memory(project_id: str | None, clock: Clock | None, *, alma: ALMA | None = None) -> Graph:
    """Open the graph in the memory that is given, or in the one that is configured here."""
    holder = Holder(alma, project_id)
    engine = holder.alma.engine
    if project_id not in (None, holder.alma.project_id):
        engine = replace(engine, project=project_id)
    return Graph(RecordRows(engine, holder.close), engine.project, clock=clock or engine.clock)


# -- entities and relationships in texts

_BY_BOTH, _BY_MODEL, _BY_LOCAL = 0.9, 0.8, 0.7
_MAX_CHARS = 100_000
_REDACTED = re.compile(r"\[REDACTED:[^\]\s]{1,60}\]")
_TYPES = {"organization": "organisation", "other": THING}


class EntityExtractor:
    """Reads texts locally, and with a model as well where there is one. What both find has more confidence.

    When the model fails, the local reading is used, `failure` says why, and the model is not asked again.
    """

    def __init__(self, model: Model | None = None) -> None:
        from ..reading.model import ModelReader

        self._model = None if model is None else ModelReader(model)
        self._answers: dict[tuple[str, str], Entities] = {}
        self.failure = ""

    @property
    def reader(self) -> str:
        """Which reader is at work: "local", or the name of the model."""
        if self._model is None:
            return "local"
        return f"local ({self._model.name} failed: {self.failure})" if self.failure else self._model.name

    def extract(self, text: str, *, speaker: str | None = None) -> Statements:
        """Return what a text names and states. `speaker` is who "I" is."""
        return self.extract_many([(text, speaker)])[0]

    def extract_many(self, texts: Sequence[tuple[str, str | None]]) -> list[Statements]:
        """Do the same for several texts with their speakers. The model sees them in batches, and each only once."""
        entries = [_check_entry(text, speaker) for text, speaker in texts]
        local = LocalReader().find_entities([text for text, _ in entries], [speaker for _, speaker in entries])
        unread = [entry for entry in dict.fromkeys(entries) if entry[0].strip() and entry not in self._answers]
        if self._model is not None and not self.failure and unread:
            try:
                answers = self._model.find_entities([text for text, _ in unread], [speaker for _, speaker in unread])
            except ModelError as error:
                self.failure = str(error)
            else:
                self._answers.update(zip(unread, answers, strict=True))
        return [
            _combine_readings(*entry, found, self._answers.get(entry, Entities()))
            for entry, found in zip(entries, local, strict=True)
        ]


def _check_entry(text: object, speaker: str | None) -> tuple[str, str]:
    if not isinstance(text, str):
        raise ValidationError(f"text must be text (str), not {type(text).__name__}")
    # A redacted secret is no name.
    readable = _REDACTED.sub(lambda found: " " * len(found[0]), text[:_MAX_CHARS]).replace("’", "'")
    return readable, validate.name("speaker", speaker) if speaker else ""


def _combine_readings(text: str, speaker: str, local: Entities, asked: Entities) -> Statements:
    entities: dict[str, Entity] = {}
    types = {name.strip(): _TYPES.get(kind, kind) for name, kind in asked.names}
    for name, kind in {**types, **dict(local.names)}.items():
        spans = tuple(match.span() for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text))
        if len(name) > 1 and (spans or name == speaker):
            specific = types.get(name, THING) if kind == THING else kind
            confidence = _rate_confidence(name in dict(local.names), name in types)
            entities[name] = Entity(name, specific, confidence=confidence, spans=spans)
    relationships: dict[str, Relationship] = {}
    for relation in dict.fromkeys((*local.relations, *asked.relations)):
        subject, kind, target = relation
        ends = entities.get(subject.strip()), entities.get(target.strip())
        if ends[0] is None or ends[1] is None or ends[0].id == ends[1].id:
            continue
        try:
            kind_name = check_type("type", kind)
        except ValidationError:
            continue
        confidence = _rate_confidence(relation in local.relations, relation in asked.relations)
        span = _find_nearest(ends[0].spans, ends[1].spans)
        one = Relationship(ends[0].id, kind_name, ends[1].id, confidence=confidence, span=span)
        relationships.setdefault(one.id, one)
    return (
        sorted({one.id: one for one in entities.values()}.values(), key=lambda one: (one.spans[:1], one.id)),
        sorted(relationships.values(), key=lambda one: (one.span or (0, 0), one.id)),
    )


def _rate_confidence(is_local: bool, is_asked: bool) -> float:
    return _BY_BOTH if is_local and is_asked else _BY_LOCAL if is_local else _BY_MODEL


def _find_nearest(first: Sequence[Span], second: Sequence[Span]) -> Span | None:
    """Return the shortest stretch of text with both ends in it; of the speaker the text has no place."""
    pairs = [(min(a[0], b[0]), max(a[1], b[1])) for a in first[:50] for b in second[:50]]
    return min(pairs or [*first, *second], key=lambda span: (span[1] - span[0], span), default=None)


# -- building

KINDS = ("domain_knowledge", "rule", "episode")  # What is read by default: facts, decisions, conversations.
READABLE = (*KINDS, "user_preference", "outcome", "heuristic", "anti_pattern")
_BATCH = 100
_MARGIN = timedelta(minutes=5)  # Clocks of several machines differ; what is read twice is not doubled.
_MAX_VERSIONS = 1_000
ReportProgress = Callable[[int, int], None]  # Receives how many records were looked at, of how many.
_NAMELESS = frozenset({"user", "human", "me", "customer", "person", "speaker", "you", "somebody else"})


@dataclass(frozen=True, slots=True)
class Built:
    """What a run did."""

    records: int  # Looked at.
    read: int  # Read for what they say, because they were new or had changed.
    entities: int
    relationships: int
    ended: int  # Relationships and entities that ended or went because their record did.
    reader: str = "local"  # The reader; "local (… failed: …)" when the model's answer could not be used.


def build(
    alma: ALMA | None = None,
    *,
    graph: Graph | None = None,
    model: Model | None = None,
    kinds: Iterable[str] = KINDS,
    progress: ReportProgress | None = None,
    project_id: str | None = None,
    everything: bool = True,
) -> Built:
    """Read all facts, decisions and conversations into the graph. Done again, it adds nothing.

    Without a memory it opens the one that is configured here; without a graph it is the one in that memory's own store.
    Without a model it asks the memory's own, if one is configured.
    """
    names = validate.names("kinds", kinds)
    for one in names:
        if one not in READABLE:
            raise ValidationError(unknown("kind", one, READABLE))
    with Holder(alma, project_id) as holder:
        memory = holder.alma
        project = memory.project_id if project_id is None else validate.name("project_id", project_id)
        engine = memory.engine if project == memory.project_id else replace(memory.engine, project=project)
        into = graph or create_graph_store("sqlite", alma=memory, project_id=project)
        return _Builder(engine, into, EntityExtractor(model or memory.model), everything).run(names, progress)


def update(
    alma: ALMA | None = None,
    *,
    graph: Graph | None = None,
    model: Model | None = None,
    kinds: Iterable[str] = KINDS,
    progress: ReportProgress | None = None,
    project_id: str | None = None,
) -> Built:
    """Do the same for what is new, changed or gone since the last run."""
    return build(
        alma, graph=graph, model=model, kinds=kinds, progress=progress, project_id=project_id, everything=False
    )


class _Builder:
    def __init__(self, engine: Engine, graph: Graph, extractor: EntityExtractor, everything: bool) -> None:
        self._engine = engine
        self._graph = graph
        self._extractor = extractor
        self._marker = f"mrk_graph_{digest(engine.project, graph.project_id, graph.rows.place, size=12)}"
        self._since: datetime | None = None
        self._versions: Mapping[str, int] = {}  # Of the records that were read shortly before, and are not again.
        self._is_empty = not graph.find(limit=1)  # Nothing can end that was not there when the run began.
        markers = [] if everything or self._is_empty else engine.store.get([self._marker])
        if markers and (last := from_iso(markers[0].body["value"])) is not None:
            self._since, self._versions = last - _MARGIN, markers[0].body.get("versions", {})
        self._counts: Counter[str] = Counter()

    def run(self, kinds: Iterable[str], progress: ReportProgress | None) -> Built:
        began = self._engine.clock()
        before = self._graph.stats()
        waiting: list[Record] = []
        records = list(self._list_records(kinds))
        for number, record in enumerate(records, 1):
            is_recent = self._since is None or record.updated_at >= self._since
            if is_recent and self._versions.get(record.id) != record.version:
                waiting.append(record)
            if len(waiting) == _BATCH:
                self._add_records(waiting)
                waiting = []
            if progress is not None:
                progress(number, len(records))
        self._add_records(waiting)
        # What came from a record that was deleted goes with it.
        for stone in self._engine.store.scan(Where(kinds={"tombstone"}, projects={self._engine.project})):
            if self._since is None or stone.updated_at >= self._since:
                self._forget(stone.body["record"])
        if not self._extractor.failure:
            # What the model could not read now is read again the next time.
            recent = [one for one in records if one.updated_at >= began - _MARGIN][-_MAX_VERSIONS:]
            body = {"value": to_iso(began), "versions": {one.id: one.version for one in recent}}
            write(self._engine, lambda tx: tx.set_marker(self._marker, body))
        after, counts = self._graph.stats(), self._counts
        return Built(
            records=len(records),
            read=counts["read"],
            # What is new is counted beside what went.
            entities=max(0, after.entities - before.entities + counts["entities gone"]),
            relationships=max(0, after.relationships - before.relationships + counts["relationships gone"]),
            ended=counts["ended"],
            reader=self._extractor.reader,
        )

    def _list_records(self, kinds: Iterable[str]) -> Iterator[Record]:
        """Oldest first, so that what was said later has the last word; without their vectors, which take room."""
        where = Where(kinds=set(kinds), projects={self._engine.project})
        ids = [id for _, id in sorted((one.created_at, one.id) for one in self._engine.store.scan(where))]
        for start in range(0, len(ids), _BATCH):
            yield from (replace(one, vectors=()) for one in self._engine.store.get(ids[start : start + _BATCH]))

    def _add_records(self, records: Sequence[Record]) -> None:
        """Add what some records say now, in one transaction, and then end what they no longer say.

        A project has one graph, which all its users see: what belongs to one of them is not read into it, unless the
        project shares what it learns.
        """
        is_shared = self._engine.settings.share_between_users
        private = {one.id for one in records if one.user and not is_shared}
        readable = [one for one in records if one.status is Status.ACTIVE and one.id not in private]
        statements = self._read_records(readable)
        entities = [one for some, _ in statements.values() for one in some]
        related = [one for _, some in statements.values() for one in some]
        stored, edges = self._graph.add_each(entities, related) if entities else ([], [])
        kept: dict[str, set[str]] = {one.id: set() for one in records}
        sources = [one.sources[0] for one in entities] + [one.sources[0] for one in related]
        for source, one in zip(sources, [*stored, *edges], strict=True):
            if one is not None:
                kept[source].add(one.id)
        self._counts["read"] += len(statements)
        for record in records if not self._is_empty else ():
            if record.id in private:
                # An earlier version read it in.
                self._forget(record.id)
            elif record.status is Status.ACTIVE:
                self._forget(record.id, keep=kept[record.id])
            elif record.status is not Status.CANDIDATE:
                self._forget(record.id, ended_at=record.valid_to or record.updated_at)

    def _forget(self, source: str, *, ended_at: datetime | None = None, keep: Iterable[str] = ()) -> None:
        entities, relationships, ended = self._graph.forget_each(source, ended_at=ended_at, keep=keep)
        self._counts["entities gone"] += entities
        self._counts["relationships gone"] += relationships
        self._counts["ended"] += entities + relationships + ended

    def _read_records(self, records: Sequence[Record]) -> dict[str, Statements]:
        """Return what each record says. All their texts are read together, so that a model is asked in batches.

        Of a conversation each turn of a person is read, with the name of who speaks.
        """
        texts: list[tuple[str, str | None]] = []
        origins: list[tuple[str, datetime, dict[str, str]]] = []
        for record in records:
            if record.kind != MemoryType.EPISODE:
                texts.append((record.text, None))
                origins.append((record.id, record.valid_from or record.created_at, {}))
                continue
            for turn in episodes.list_turns(self._engine, record):
                name = turn.body["speaker"]
                if turn.status is Status.ACTIVE and speech.is_person(name):
                    texts.append((turn.body["text"], None if str(name).casefold() in _NAMELESS else str(name)))
                    origins.append((record.id, turn.created_at, {"turn": turn.id}))
        statements: dict[str, Statements] = {record.id: ([], []) for record in records}
        for (id, at, turn_of), found in zip(origins, self._extractor.extract_many(texts), strict=True):
            statements[id][0].extend(replace(one, sources=(id,)) for one in found[0])
            statements[id][1].extend(
                replace(one, sources=(id,), valid_from=at, attributes={**one.attributes, **turn_of}, id="")
                for one in found[1]
            )
        return statements


# -- one entity

_ENDED = 50


@dataclass(frozen=True, slots=True)
class EntityProfile:
    """One entity: how it is related to others now, what has ended, and the facts that name it."""

    entity: Entity
    now: tuple[Neighbour, ...]
    ended: tuple[Relationship, ...]
    facts: tuple[Memory, ...] = ()

    def __str__(self) -> str:
        """Return a few lines for a person to read."""
        called = f", also called {', '.join(self.entity.aliases)}" if self.entity.aliases else ""
        lines = [f"{self.entity.name} ({self.entity.type}){called}"]
        for one in self.now:
            kind, name = one.relationship.type, one.entity.name
            is_outward = one.relationship.subject == self.entity.id
            lines.append(f"  {kind} {name}" if is_outward else f"  {name} {kind} this")
        lines += [f"  until {str(to_iso(one.valid_to))[:10]}: {one.type} {one.object}" for one in self.ended]
        lines += [f"  · {getattr(one, 'fact', '')}" for one in self.facts]
        return "\n".join(lines)


def about(
    name: str,
    alma: ALMA | None = None,
    *,
    graph: Graph | None = None,
    as_of: datetime | str | None = None,
    limit: int = 20,
    project_id: str | None = None,
) -> EntityProfile:
    """Return what is known about the entity with this name, alias or id: the newest, when several have it.

    The facts that name it are those of the memory; with a graph and no memory there are none.
    """
    wanted = validate.name("name", name)
    most = check_limit(limit)
    holder = Holder(alma, project_id) if alma is not None or graph is None else None
    try:
        into = graph or create_graph_store("sqlite", alma=holder.alma if holder else None, project_id=project_id)
        try:
            entity = next(iter(into.find(wanted, limit=1)), None) or into.get(wanted)
        except NotFoundError:
            raise NotFoundError(
                f"nobody and nothing is called {wanted!r} in the graph of project {into.project_id!r}; "
                "alma.graph.update() reads what is new into it"
            ) from None
        now = into.neighbours(entity.id, as_of=as_of, limit=most)
        current = {one.relationship.id for one in now}
        past = into.relationships(entity.id, history=True, limit=_ENDED)
        ended = tuple(one for one in past if one.valid_to is not None and one.id not in current)
        names = (entity.name, *entity.aliases)
        facts = _find_facts(holder.alma, into.project_id, names, most) if holder else ()
        return EntityProfile(entity, tuple(now), ended, facts)
    finally:
        if holder is not None:
            holder.close()


def _find_facts(alma: ALMA, project: str, names: Sequence[str], limit: int) -> tuple[Memory, ...]:
    engine = alma.engine
    where = Where(kinds={MemoryType.DOMAIN_KNOWLEDGE}, projects={project}, statuses={Status.ACTIVE})
    facts: dict[str, Memory] = {}
    for name in names:
        wanted = set(words(name))
        hits = by_words(engine.store, name, where, limit)
        for record in engine.store.get([hit.id for hit in hits]):
            if wanted <= set(words(record.text)):
                facts.setdefault(record.id, view(record, engine.clock()))
    return tuple(facts.values())[:limit]
