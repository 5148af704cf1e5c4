"""Building the graph from memories, and the profile of one entity.

`build` reads all memories, `update` only those that changed since. Relationships refer to their source records. When a
record is superseded or archived, relationships that only it supports end; when it is deleted, they are deleted.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any

from ..engine import episodes, validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.search import by_words
from ..engine.transaction import write
from ..engine.view import to_memory
from ..errors import ConfigError, ModelError, ValidationError, describe_type, unknown
from ..memory import ALMA
from ..opening import OwnsMemory
from ..operations import About, Effect, Group
from ..ports import Clock, Model
from ..reading.local import LocalReader
from ..reading.model import ModelReader
from ..reading.port import Entities
from ..text import digest
from ..text import words as split_words
from ..types import speech, times
from ..types.graph import THING, Entity, Neighbour, Relationship
from ..types.kinds import Memory, MemoryType
from ..types.query import Where
from ..types.record import Record, Status
from ..types.times import from_iso, to_iso
from .graph import AsOf, Graph, Limit, Name, check_type
from .rows import MemoryRows, RecordRows
from .servers import BoltRows, KuzuRows, PostgresRows

operation = Group("graph")

# -- graphs by name

_ROWS: dict[str, Any] = {
    "memory": MemoryRows,
    "sqlite": RecordRows,
    "postgres": PostgresRows,
    "neo4j": partial(BoltRows, "neo4j"),
    "memgraph": partial(BoltRows, "memgraph"),
    "kuzu": KuzuRows,
}


def create_graph_store(
    backend: str = "sqlite", *, project_id: str | None = None, clock: Clock | None = None, **options: Any
) -> Graph:
    """Open and return the graph of a project.

    `sqlite` stores the graph in the configured memory, or in the one passed as `alma`; `memory` lives as long as the
    process; `kuzu` takes `path`; `postgres` takes `dsn`; `neo4j` and `memgraph` take `uri`, `username`, `password` and
    `database`.
    """
    if backend not in _ROWS:
        raise ConfigError(unknown("graph backend", backend, _ROWS))
    _check_options(backend, options)
    try:
        if backend == "sqlite":
            return _open_in_memory(project_id, clock, **options)
        project = project_id or "default"
        options |= {} if backend == "memory" else {"project": project}
        return Graph(_ROWS[backend](**options), project, clock=clock or times.now)
    except TypeError as error:
        raise ConfigError(f"graph backend {backend!r} does not accept these options: {error}") from error


def _check_options(backend: str, options: Mapping[str, Any]) -> None:
    """Raise ConfigError for a missing option of a backend, or one that it does not have."""
    source = _open_in_memory if backend == "sqlite" else _ROWS[backend]
    own = ("flavour", "project", "project_id", "clock")
    parameters = {name: one for name, one in inspect.signature(source).parameters.items() if name not in own}
    for name in options:
        if name not in parameters:
            names = ", ".join(parameters) or "none"
            raise ConfigError(f"graph backend {backend!r} has no option {name!r}; its options are: {names}")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD and name not in options:
            raise ConfigError(f"graph backend {backend!r} needs the option {name!r}: pass {name}=…")


def _open_in_memory(project_id: str | None, clock: Clock | None, *, alma: ALMA | None = None) -> Graph:
    """Open the graph in the memory passed, or in the configured one."""
    holder = OwnsMemory(alma, project_id)
    engine = replace(holder.alma.engine, project=project_id or holder.alma.project_id)
    return Graph(RecordRows(engine, holder.close), engine.project, clock=clock or engine.clock)


# -- entities and relationships in texts

Statements = tuple[list[Entity], list[Relationship]]

_MAX_CHARS = 100_000
_MAX_SPANS = 50
_REDACTED = re.compile(r"\[REDACTED:[^\]\s]{1,60}\]")
_TYPES = {"organization": "organisation", "other": THING}


class EntityExtractor:
    """Finds entities and relationships in texts, with the local reader and, if one is passed, a model.

    Findings of both readers get a higher confidence. If the model fails, the local findings are used, `failure` holds
    the reason, and the model is not asked again.
    """

    def __init__(self, model: Model | None = None) -> None:
        self._model = None if model is None else ModelReader(model)
        self._answers: dict[tuple[str, str], Entities] = {}
        self.failure = ""

    @property
    def reader(self) -> str:
        """The reader in use: "local", the name of the model, or both if the model failed."""
        if self._model is None:
            return "local"
        return f"local ({self._model.name} failed: {self.failure})" if self.failure else self._model.name

    def extract(self, text: str, *, speaker: str | None = None) -> Statements:
        """Return the entities and relationships in a text. `speaker` is the person that "I" refers to."""
        return self.extract_many([(text, speaker)])[0]

    def extract_many(self, texts: Sequence[tuple[str, str | None]]) -> list[Statements]:
        """Do as `extract` for several texts with speakers. The model reads them in batches, and each only once."""
        entries = []
        for text, speaker in texts:
            if not isinstance(text, str):
                raise ValidationError(f"text must be a string, not {describe_type(text)}")
            # A model gets no secrets, and a redacted secret is not a name.
            readable = _REDACTED.sub(lambda match: " " * len(match[0]), clean(text[:_MAX_CHARS])).replace("’", "'")
            entries.append((readable, validate.name("speaker", speaker) if speaker else ""))
        local = LocalReader().find_entities([text for text, _ in entries], [speaker for _, speaker in entries])
        unread = [entry for entry in dict.fromkeys(entries) if entry[0].strip() and entry not in self._answers]
        if self._model is not None and not self.failure and unread:
            try:
                answers = self._model.find_entities([text for text, _ in unread], [speaker for _, speaker in unread])
            except ModelError as error:
                self.failure = str(error)
            else:
                self._answers.update(zip(unread, answers, strict=True))
        by_model = [self._answers.get(entry, Entities()) for entry in entries]
        return [_combine_readings(*each) for each in zip(entries, local, by_model, strict=True)]


def _combine_readings(entry: tuple[str, str], local: Entities, by_model: Entities) -> Statements:
    """Return the entities and relationships that the local reader or the model found in a text."""
    text, speaker = entry
    entities: dict[str, Entity] = {}
    own, types = dict(local.names), {name.strip(): _TYPES.get(kind, kind) for name, kind in by_model.names}
    for name in {**types, **own}:
        spans = tuple(match.span() for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text))
        if len(name) > 1 and (spans or name == speaker):
            kind = types.get(name, THING) if own.get(name, THING) == THING else own[name]
            entities[name] = Entity(name, kind, confidence=_rate_confidence(name in own, name in types), spans=spans)
    relationships: dict[str, Relationship] = {}
    for relation in dict.fromkeys((*local.relations, *by_model.relations)):
        subject, target = entities.get(relation[0].strip()), entities.get(relation[2].strip())
        if subject is None or target is None or subject.id == target.id:
            continue
        try:
            kind = check_type("type", relation[1])
        except ValidationError:
            continue
        # The shortest stretch of text that contains both ends; the speaker has no place in the text.
        first, second = subject.spans[:_MAX_SPANS], target.spans[:_MAX_SPANS]
        pairs = [(min(a[0], b[0]), max(a[1], b[1])) for a in first for b in second]
        span = min(pairs or (*first, *second), key=lambda one: (one[1] - one[0], one), default=None)
        confidence = _rate_confidence(relation in local.relations, relation in by_model.relations)
        one = Relationship(subject.id, kind, target.id, confidence=confidence, span=span)
        relationships.setdefault(one.id, one)
    return (
        sorted({one.id: one for one in entities.values()}.values(), key=lambda one: (one.spans[:1], one.id)),
        sorted(relationships.values(), key=lambda one: (one.span or (0, 0), one.id)),
    )


def _rate_confidence(is_local: bool, is_by_model: bool) -> float:
    return 0.9 if is_local and is_by_model else 0.7 if is_local else 0.8


# -- building

_KINDS = frozenset({"domain_knowledge", "rule", "episode"})  # The kinds that are read: facts, rules, conversations.
_BATCH = 100
_MARGIN = timedelta(minutes=5)  # For clocks that differ between machines; reading a record twice adds nothing.
_MAX_VERSIONS = 1_000
ReportProgress = Callable[[int, int], None]  # Receives how many records have been checked, and the total.
_NAMELESS = frozenset("user,human,me,customer,person,speaker,you,somebody else".split(","))


@dataclass(frozen=True, slots=True)
class Built:
    """The counts of a build."""

    records: int  # Records that were checked.
    read: int  # Records that were read, because they were new or had changed.
    entities: int  # Entities that were added.
    relationships: int  # Relationships that were added.
    ended: int  # Relationships and entities that ended or were removed with their record.
    reader: str = "local"  # The reader that was used, and whether the model failed.


def build(
    alma: ALMA | None = None,
    *,
    graph: Graph | None = None,
    model: Model | None = None,
    progress: ReportProgress | None = None,
    project_id: str | None = None,
    everything: bool = True,
) -> Built:
    """Read all facts, rules and conversations into the graph and return the counts. Building again adds nothing.

    The defaults are the configured memory, the graph in that memory's own store, and that memory's model, if any.
    """
    with OwnsMemory(alma, project_id) as holder:
        memory = holder.alma
        project = memory.project_id if project_id is None else validate.name("project_id", project_id)
        engine = replace(memory.engine, project=project)
        into = graph or create_graph_store("sqlite", alma=memory, project_id=project)
        return _Builder(engine, into, EntityExtractor(model or memory.model)).run(everything, progress)


def update(alma: ALMA | None = None, **options: Any) -> Built:
    """Do as `build`, with the same options, for records that were added, changed or deleted since the last run."""
    return build(alma, everything=False, **options)


@operation(Effect.ADDS, idempotent=True)
def build_graph(
    alma: ALMA,
    everything: Annotated[bool, About("read all memories again, not only those that changed")] = False,
    progress: ReportProgress | None = None,
) -> Built:
    """Add the entities and relations that facts, rules and conversations mention to the graph.

    Running it again adds nothing twice. Relations from replaced memories end; those from deleted memories are removed.
    """
    return build(alma, everything=everything, progress=progress)


class _Builder:
    def __init__(self, engine: Engine, graph: Graph, extractor: EntityExtractor) -> None:
        self._engine, self._graph, self._extractor = engine, graph, extractor
        self._is_empty = not graph.find(limit=1)  # If so, there is nothing to end or remove.
        self._gone = [0, 0, 0]  # Entities removed, relationships removed, relationships ended.

    def run(self, everything: bool, progress: ReportProgress | None) -> Built:
        engine, graph = self._engine, self._graph
        began, before = engine.clock(), graph.stats()
        marker = f"mrk_graph_{digest(engine.project, graph.project_id, graph.rows.place, size=12)}"
        least = datetime.min.replace(tzinfo=UTC)
        versions: dict[str, int] = {}  # Of records that the last run read within the margin; they are not read again.
        for last in () if everything or self._is_empty else engine.store.get([marker]):
            least = (from_iso(last.body["value"]) or began) - _MARGIN
            versions = last.body.get("versions", {})
        # Oldest first, so that later statements win; without vectors, to save memory.
        where = Where(kinds=_KINDS, projects={engine.project})
        records = [replace(one, vectors=()) for one in engine.store.scan(where)]
        records.sort(key=lambda one: (one.created_at, one.id))
        read = 0
        waiting: list[Record] = []
        for number, record in enumerate(records, 1):
            if record.updated_at >= least and versions.get(record.id) != record.version:
                waiting.append(record)
            if len(waiting) == _BATCH or number == len(records):
                read += self._add_records(waiting)
                waiting = []
            if progress is not None:
                progress(number, len(records))
        # Remove what came from deleted records.
        for stone in engine.store.scan(Where(kinds={"tombstone"}, projects={engine.project})):
            if stone.updated_at >= least:
                self._forget(stone.body["record"])
        if not self._extractor.failure:
            # Without this marker, the next run reads again what the model could not read.
            recent = [one for one in records if one.updated_at >= began - _MARGIN][-_MAX_VERSIONS:]
            body = {"value": to_iso(began), "versions": {one.id: one.version for one in recent}}
            write(engine, lambda tx: tx.set_marker(marker, body))
        after = graph.stats()
        # Additions are counted separately from removals.
        entities = max(0, after.entities - before.entities + self._gone[0])
        related = max(0, after.relationships - before.relationships + self._gone[1])
        return Built(len(records), read, entities, related, sum(self._gone), self._extractor.reader)

    def _add_records(self, records: Sequence[Record]) -> int:
        """Add what the records state in one transaction, then end what they no longer state; return how many were read.

        A project has one graph, which all its users see. Records of a single user are therefore not read, unless the
        project shares memories between all users.
        """
        is_shared = self._engine.find_visible(None) is None
        private = {one.id for one in records if one.user and not is_shared}
        readable = [one for one in records if one.status is Status.ACTIVE and one.id not in private]
        entities, related = self._read_records(readable)
        stored, edges = self._graph.add_many(entities, related) if entities else ([], [])
        stated_ids: dict[str, set[str]] = {one.id: set() for one in records}
        ids = {stated.id: one.id for stated, one in zip(entities, stored, strict=True)}
        # `add_many` leaves out relationships whose ends are the same entity.
        related = [one for one in related if ids[one.subject] != ids[one.object]]
        pairs: list[tuple[Any, Any]] = [*zip(entities, stored, strict=True), *zip(related, edges, strict=True)]
        for stated, one in pairs:
            stated_ids[stated.sources[0]].add(one.id)
        for record in records if not self._is_empty else ():
            if record.id in private:
                # An earlier version of alma may have read it.
                self._forget(record.id)
            elif record.status is Status.ACTIVE:
                self._forget(record.id, keep=stated_ids[record.id])
            elif record.status is not Status.CANDIDATE:
                self._forget(record.id, record.valid_to or record.updated_at)
        return len(readable)

    def _forget(self, source: str, ended_at: datetime | None = None, keep: Iterable[str] = ()) -> None:
        counts = self._graph.withdraw_source(source, ended_at, keep)
        self._gone = [sum(pair) for pair in zip(self._gone, counts, strict=True)]

    def _read_records(self, records: Sequence[Record]) -> Statements:
        """Return the entities and relationships in records. Their texts are read together, in batches for the model.

        In a conversation, the turns of people are read, each with the name of its speaker.
        """
        texts: list[tuple[str, str | None]] = []
        origins: list[tuple[str, datetime, dict[str, str]]] = []
        for record in records:
            if record.kind != MemoryType.EPISODE:
                texts.append((record.text, None))
                origins.append((record.id, record.valid_from or record.created_at, {}))
                continue
            for turn in episodes.list_turns(self._engine, record):
                name = str(turn.body["speaker"])
                if turn.status is Status.ACTIVE and speech.is_person(name):
                    texts.append((turn.body["text"], None if name.casefold() in _NAMELESS else name))
                    origins.append((record.id, turn.created_at, {"turn": turn.id}))
        entities: list[Entity] = []
        related: list[Relationship] = []
        for (id, at, attributes), (nodes, edges) in zip(origins, self._extractor.extract_many(texts), strict=True):
            entities += [replace(one, sources=(id,)) for one in nodes]
            related += [replace(one, sources=(id,), valid_from=at, attributes=attributes, id="") for one in edges]
        return entities, related


# -- one entity

_ENDED = 50


@dataclass(frozen=True, slots=True)
class EntityProfile:
    """One entity: its current relationships, those that have ended, and the facts that mention it."""

    entity: Entity
    now: tuple[Neighbour, ...]  # Its current relationships.
    ended: tuple[Relationship, ...]
    facts: tuple[Memory, ...] = ()  # Facts that mention it.
    text: str = ""  # The profile as a few dated lines.

    def __str__(self) -> str:
        return self.text


def about(
    name: str,
    alma: ALMA | None = None,
    *,
    graph: Graph | None = None,
    as_of: datetime | str | None = None,
    limit: int = 20,
    project_id: str | None = None,
) -> EntityProfile:
    """Return the profile of the entity with this name, alias or id; of the newest if several have that name.

    With `as_of`, it is the profile as of that time. Facts come from the memory; with a graph but no memory there are
    none.
    """
    with ExitStack() as stack:
        if alma is None and graph is None:
            alma = stack.enter_context(OwnsMemory(None, project_id)).alma
        graph = graph or create_graph_store("sqlite", alma=alma, project_id=project_id)
        entity = graph.resolve(name)
        now = graph.neighbours(entity.id, as_of=as_of, limit=limit)
        current = {one.relationship.id for one in now}
        moment, past = validate.moment("as_of", as_of), graph.neighbours(entity.id, history=True, limit=_ENDED)
        ended = [one for one in past if one.relationship.valid_to and one.relationship.id not in current]
        facts: dict[str, Memory] = {}
        where = Where(kinds={MemoryType.DOMAIN_KNOWLEDGE}, projects={graph.project_id}, statuses={Status.ACTIVE})
        if moment is not None:
            # Only relationships that had ended by then, and facts that were stored and valid, superseded since or not.
            ended = [one for one in ended if one.relationship.valid_to and one.relationship.valid_to <= moment]
            where = replace(where, statuses={Status.ACTIVE, Status.SUPERSEDED}, created_to=moment, valid_at=moment)
        for called in (entity.name, *entity.aliases):
            hits = by_words(alma.engine.store, called, where, limit) if alma else []
            for record in alma.engine.store.get([hit.id for hit in hits]) if alma else ():
                if set(split_words(called)) <= set(split_words(record.text)):
                    facts.setdefault(record.id, to_memory(record, graph.clock()))
    shown = tuple(facts.values())[:limit]
    lines = [f"{entity.name} ({entity.type})"]
    if entity.aliases:
        lines[0] += f", also called {', '.join(entity.aliases)}"
    for is_current, one in [*((True, one) for one in now), *((False, one) for one in ended)]:
        edge, names = one.relationship, (entity.name, one.entity.name)
        first, second = names if edge.subject == entity.id else names[::-1]
        word, at = ("since", edge.valid_from) if is_current else ("until", edge.valid_to)
        lines.append(f"  {first} {edge.type} {second}" + (f" ({word} {at:%Y-%m-%d})" if at else ""))
    lines += [f"  Fact ({one.created_at:%Y-%m-%d}): {getattr(one, 'fact', '')}" for one in shown]
    return EntityProfile(entity, tuple(now), tuple(one.relationship for one in ended), shown, "\n".join(lines))


@operation(Effect.READS)
def about_entity(alma: ALMA, name: Name, as_of: AsOf = None, limit: Limit = 20) -> EntityProfile:
    """Show what is known about an entity: current and past relations, and the facts that mention it."""
    return about(name, alma, as_of=as_of, limit=limit)
