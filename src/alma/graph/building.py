"""From what is remembered to the graph: `build` reads everything, `update` what has changed since.

Relations point at the records they come from. A record that is replaced or put away ends what only it said; one that is
deleted takes it along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING

from ..engine import admit, episodes, transaction, validate
from ..engine.context import Engine
from ..errors import ValidationError, unknown
from ..ports import Model
from ..types import speech
from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.record import Record, Status
from ..types.times import from_iso, to_iso
from .extractor import EntityExtractor, Extracted
from .graph import Graph
from .registry import create_graph_store

if TYPE_CHECKING:
    from ..core import ALMA

KINDS = ("domain_knowledge", "rule", "episode")
"""What is read unless something else is asked for: facts, decisions, conversations."""
READABLE = (*KINDS, "user_preference", "outcome", "heuristic", "anti_pattern")
_BATCH = 100
_MARGIN = timedelta(minutes=5)
"""Clocks of several machines differ; what is read twice is not doubled."""
_MAX_VERSIONS = 1_000
Progress = Callable[[int, int], None]
"""How many records were looked at, of how many."""
_NAMELESS = frozenset({"user", "human", "me", "customer", "person", "speaker", "you", "somebody else"})


@dataclass(frozen=True, slots=True)
class Built:
    """What a run did."""

    records: int
    """Looked at."""
    read: int
    """Read for what they say, because they were new or had changed."""
    entities: int
    relationships: int
    ended: int
    """Relations and entities that ended or went because their record did."""
    reader: str = "local"
    """Which reader was at work; "local (… failed: …)" when the model's answer could not be used."""


def build(
    alma: ALMA | None = None,
    *,
    graph: Graph | None = None,
    model: Model | None = None,
    kinds: Iterable[str] = KINDS,
    progress: Progress | None = None,
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
    opened = alma
    if opened is None:
        from ..app import open_default

        opened = open_default(project_id)
    try:
        project = opened.project_id if project_id is None else validate.name("project_id", project_id)
        engine = opened.engine if project == opened.project_id else replace(opened.engine, project=project)
        into = graph or create_graph_store("sqlite", alma=opened, project_id=project)
        return _Builder(engine, into, EntityExtractor(model or opened.model), everything).run(names, progress)
    finally:
        if alma is None:
            opened.close()


def update(
    alma: ALMA | None = None,
    *,
    graph: Graph | None = None,
    model: Model | None = None,
    kinds: Iterable[str] = KINDS,
    progress: Progress | None = None,
    project_id: str | None = None,
) -> Built:
    """The same for what is new, changed or gone since the last run."""
    return build(
        alma, graph=graph, model=model, kinds=kinds, progress=progress, project_id=project_id, everything=False
    )


class _Builder:
    def __init__(self, engine: Engine, graph: Graph, extractor: EntityExtractor, everything: bool) -> None:
        self._engine = engine
        self._graph = graph
        self._extractor = extractor
        place = f"{engine.project}\x1f{graph.project_id}\x1f{graph.rows.place}"
        self._marker = f"mrk_graph_{blake2b(place.encode(), digest_size=12).hexdigest()}"
        self._since: datetime | None = None
        self._versions: Mapping[str, int] = {}
        """Of the records that were read shortly before: they are not read again."""
        self._is_empty = not graph.find(limit=1)
        """Nothing was held when the run began, so that nothing can have ended."""
        markers = [] if everything or self._is_empty else engine.store.get([self._marker])
        if markers and (last := from_iso(markers[0].body["value"])) is not None:
            self._since, self._versions = last - _MARGIN, markers[0].body.get("versions", {})
        self._counts: Counter[str] = Counter()

    def run(self, kinds: Iterable[str], progress: Progress | None) -> Built:
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
            self._remember_run(began, {one.id: one.version for one in recent})
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

    def _read_records(self, records: Sequence[Record]) -> dict[str, Extracted]:
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
            for turn in episodes.turns(self._engine, record):
                name = turn.body["speaker"]
                if turn.status is Status.ACTIVE and speech.is_person(name):
                    texts.append((turn.body["text"], None if str(name).casefold() in _NAMELESS else str(name)))
                    origins.append((record.id, turn.created_at, {"turn": turn.id}))
        statements: dict[str, Extracted] = {record.id: ([], []) for record in records}
        for (id, at, turn_of), found in zip(origins, self._extractor.extract_many(texts), strict=True):
            statements[id][0].extend(replace(one, sources=(id,)) for one in found[0])
            statements[id][1].extend(
                replace(one, sources=(id,), valid_from=at, attributes={**one.attributes, **turn_of}, id="")
                for one in found[1]
            )
        return statements

    def _remember_run(self, began: datetime, versions: Mapping[str, int]) -> None:
        engine = self._engine

        def attempt() -> tuple[None, list[Record]]:
            body = {"value": to_iso(began), "versions": versions}
            marker = next(iter(engine.store.get([self._marker])), None)
            return None, [admit.make_marker(engine, self._marker, body, marker)]

        transaction.commit(engine, attempt)
