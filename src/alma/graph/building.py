"""From what is remembered to the graph: `build` reads everything, `update` what has changed since.

Relations point at the records they come from. A record that is replaced or put away ends what only it said; one that is
deleted takes it along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING

from ..engine import episodes, validate
from ..engine.admit import build as built
from ..engine.admit import commit, revise
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..errors import ValidationError, unknown
from ..ports import Model
from ..types import speech
from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status
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


@dataclass(frozen=True, slots=True)
class _Passage:
    """A text of a record. `turn` is set where it is a turn of a conversation."""

    source: str
    at: datetime
    text: str
    speaker: str | None = None
    turn: str = ""


@dataclass(frozen=True, slots=True)
class _Run:
    """When to read from, and the versions of the records that were read shortly before: they are not read again."""

    since: datetime | None = None
    versions: Mapping[str, int] = field(default_factory=dict)


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
) -> Built:
    """Read all facts, decisions and conversations into the graph. Done again, it adds nothing.

    Without a memory it opens the one that is configured here; without a graph it is the one in that memory's own store.
    Without a model it asks the memory's own, if one is configured.
    """
    return _run(alma, graph, model, kinds, progress, project_id, since_last=False)


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
    return _run(alma, graph, model, kinds, progress, project_id, since_last=True)


def _run(
    alma: ALMA | None,
    graph: Graph | None,
    model: Model | None,
    kinds: Iterable[str],
    progress: Progress | None,
    project_id: str | None,
    *,
    since_last: bool,
) -> Built:
    wanted = _kinds(kinds)
    opened = alma
    if opened is None:
        from ..app import open_default

        opened = open_default(project_id)
    try:
        named = opened.project_id if project_id is None else validate.name("project_id", project_id)
        engine = opened.engine if named == opened.project_id else replace(opened.engine, project=named)
        into = graph or create_graph_store("sqlite", alma=opened, project_id=named)
        last = _find_last_run(engine, into) if since_last else None
        return _Builder(engine, into, EntityExtractor(model or opened.model), last or _Run(), progress).run(wanted)
    finally:
        if alma is None:
            opened.close()


def _kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    wanted = validate.names("kinds", kinds)
    for one in wanted:
        if one not in READABLE:
            raise ValidationError(unknown("kind", one, READABLE))
    return wanted


class _Builder:
    def __init__(
        self,
        engine: Engine,
        graph: Graph,
        extractor: EntityExtractor,
        last: _Run,
        progress: Progress | None,
    ) -> None:
        self._engine = engine
        self._graph = graph
        self._extractor = extractor
        self._since = last.since
        self._versions = last.versions
        self._progress = progress
        self._empty = False
        """Nothing was held when the run began, so that nothing can have ended."""
        self._counts = {"records": 0, "read": 0, "entities": 0, "relationships": 0, "ended": 0}
        self._gone = [0, 0]
        """Entities and relationships that went: what is new is counted beside them."""

    def run(self, kinds: tuple[str, ...]) -> Built:
        began = self._engine.clock()
        before = self._graph.stats()
        self._empty = not before.entities
        waiting: list[Record] = []
        records = list(self._records(kinds))
        for number, record in enumerate(records, 1):
            self._counts["records"] += 1
            is_recent = self._since is None or record.updated_at >= self._since
            if is_recent and self._versions.get(record.id) != record.version:
                waiting.append(record)
            if len(waiting) == _BATCH:
                self._take(waiting)
                waiting = []
            if self._progress is not None:
                self._progress(number, len(records))
        self._take(waiting)
        self._bury()
        if not self._extractor.failure:
            # What the model could not read now is read again the next time.
            recent = [one for one in records if one.updated_at >= began - _MARGIN][-_MAX_VERSIONS:]
            _remember(self._engine, self._graph, _Run(began, {one.id: one.version for one in recent}))
        after = self._graph.stats()
        self._counts["entities"] = max(0, after.entities - before.entities + self._gone[0])
        self._counts["relationships"] = max(0, after.relationships - before.relationships + self._gone[1])
        return Built(**self._counts, reader=self._extractor.reader)

    def _records(self, kinds: tuple[str, ...]) -> Iterator[Record]:
        """Oldest first, so that what was said later has the last word; without their vectors, which take room.

        A project has one graph, which all its users see: what belongs to one of them is not read into it, unless the
        project shares what it learns.
        """
        where = Where(kinds=set(kinds), projects={self._engine.project})
        found = [(one.created_at, one.id) for one in self._engine.store.scan(where)]
        for start in range(0, len(found), _BATCH):
            ids = [id for _, id in sorted(found)[start : start + _BATCH]]
            yield from (replace(one, vectors=()) for one in self._engine.store.get(ids))

    def _take(self, records: list[Record]) -> None:
        """What some records say now, in one transaction, and then an end to what they no longer say."""
        for one in records if not self._empty else ():
            if not self._is_for_all(one):
                # An earlier version read it in.
                self._forget(one.id)
        records = [one for one in records if self._is_for_all(one)]
        said = self._read_all([one for one in records if one.status is Status.ACTIVE])
        entities = [one for some, _ in said.values() for one in some]
        related = [one for _, some in said.values() for one in some]
        made, joined = self._graph.add_each(entities, related) if entities else ([], [])
        kept: dict[str, set[str]] = {id: set() for id in said}
        for told, held in zip(entities, made, strict=True):
            kept[told.sources[0]].add(held.id)
        for said_too, held_too in zip(related, joined, strict=True):
            if held_too is not None:
                kept[said_too.sources[0]].add(held_too.id)
        self._counts["read"] += len(said)
        for record in records:
            if self._empty:
                continue
            if record.status is Status.ACTIVE:
                self._forget(record.id, keep=kept[record.id])
            elif record.status is not Status.CANDIDATE:
                ended = record.valid_to or record.updated_at
                self._forget(record.id, ended_at=ended)

    def _is_for_all(self, record: Record) -> bool:
        return not record.user or self._engine.settings.share_between_users

    def _forget(self, source: str, *, ended_at: datetime | None = None, keep: Iterable[str] = ()) -> None:
        entities, relationships, ended = self._graph.forget_each(source, ended_at=ended_at, keep=keep)
        self._gone[0] += entities
        self._gone[1] += relationships
        self._counts["ended"] += entities + relationships + ended

    def _read_all(self, records: Sequence[Record]) -> dict[str, Extracted]:
        """Return what each record says. All their texts are read together, so that a model is asked in batches."""
        passages = [one for record in records for one in self._passages(record)]
        readings = self._extractor.extract_many([(one.text, one.speaker) for one in passages])
        said: dict[str, Extracted] = {record.id: ([], []) for record in records}
        for one, (entities, relationships) in zip(passages, readings, strict=True):
            said[one.source][0].extend(replace(entity, sources=(one.source,)) for entity in entities)
            said[one.source][1].extend(
                replace(
                    relation,
                    sources=(one.source,),
                    valid_from=one.at,
                    attributes={**relation.attributes, **({"turn": one.turn} if one.turn else {})},
                    id="",
                )
                for relation in relationships
            )
        return said

    def _passages(self, record: Record) -> Iterator[_Passage]:
        """Yield the texts of a record: of a conversation each turn of a person, with the name of who speaks."""
        if record.kind != MemoryType.EPISODE:
            yield _Passage(record.id, record.valid_from or record.created_at, record.text)
            return
        for turn in episodes.turns(self._engine, record):
            if turn.status is Status.ACTIVE and speech.is_person(turn.body["speaker"]):
                name = str(turn.body["speaker"])
                speaker = None if name.casefold() in _NAMELESS else name
                yield _Passage(record.id, turn.created_at, turn.body["text"], speaker, turn.id)

    def _bury(self) -> None:
        """What came from a record that was deleted goes with it."""
        where = Where(kinds={"tombstone"}, projects={self._engine.project})
        for stone in self._engine.store.scan(where):
            if self._since is None or stone.updated_at >= self._since:
                self._forget(stone.body["record"])


_NAMELESS = frozenset({"user", "human", "me", "customer", "person", "speaker", "you", "somebody else"})


def _marker(engine: Engine, graph: Graph) -> str:
    told = f"{engine.project}\x1f{graph.project_id}\x1f{graph.rows.place}"
    return f"mrk_graph_{blake2b(told.encode(), digest_size=12).hexdigest()}"


def _find_last_run(engine: Engine, graph: Graph) -> _Run | None:
    held = engine.store.get([_marker(engine, graph)])
    if not held or not graph.find(limit=1):
        return None
    at = from_iso(held[0].body["value"])
    return None if at is None else _Run(at - _MARGIN, held[0].body.get("versions", {}))


def _remember(engine: Engine, graph: Graph, run: _Run) -> None:
    name = _marker(engine, graph)

    def attempt() -> tuple[None, list[Record]]:
        held = engine.store.get([name])
        value = {"value": to_iso(run.since), "versions": dict(run.versions)}
        if held:
            return None, [revise(engine, held[0], body=value)]
        draft = Draft(kind="marker", body=value, provenance=Provenance(Origin.SYSTEM))
        return None, [built(engine, draft, (), id=name)]

    commit(engine, attempt)
