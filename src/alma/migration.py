"""Move a memory from one store to another while it is in use.

The records of the source are copied unchanged: with versions, history, tombstones, markers and vectors. Then the
source is read again, and what was written or deleted meanwhile is brought along, until a pass finds nothing. Finally
the target is read as a whole and compared.

An interrupted move is resumed by running it again: what is equal in the target is not written again. A marker in the
target, which is deleted at the end, tells an unfinished copy, whose extra records may be deleted, from a memory in use.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from . import stores
from .app import open_store
from .config import Config, load
from .engine.calls import Progress, ignore_progress
from .engine.context import Engine
from .engine.tombstones import GUARDED
from .engine.transaction import EMBEDDER_MARKER, SALT_MARKER, Transaction
from .errors import EmbedderMismatchError, ReadOnlyError, StorageError, ValidationError, unknown
from .ports import Countable, Searchable, Store
from .stores.memory import MemoryStore
from .types import times
from .types.query import Hit, Where, split_batches
from .types.record import Record, to_json

_MARKER = "mrk_migration"
_NO_PROJECT = ".migration"  # The project of the marker; no memory has this name.
_SHARED = ""  # The project of records that all projects of a store have in common.
_BATCH = 256
_MOST_PASSES = 20
_SAMPLES, _HITS, _MATCHES, _WORDS = 50, 10, 200, 3
_LEAST_AGREEMENT = {"vectors": 0.95, "words": 0.9}
PLACES = (
    "a configuration file, sqlite:PATH, file:PATH, postgres:DSN, postgresql://…, qdrant:PATH-or-URL, chroma:PATH-or-URL"
)


@dataclass(slots=True)
class MigrationReport:
    """What was moved, and how both stores compare."""

    records: int = 0  # Records of the source.
    copied: int = 0
    unchanged: int = 0  # Records that the target had already.
    deleted: int = 0  # Records that were deleted in the source since they were copied.
    kept: int = 0  # Records of the target that were not replaced, because they are newer or shared with other projects.
    passes: int = 0
    is_resumed: bool = False
    projects: list[str] = field(default_factory=list)
    checksum: str = ""  # Of all moved records; the same in both stores.
    agreement: dict[str, float] = field(default_factory=dict)
    """The share of hits that both stores have in common, over sample searches by vectors and by words."""


def describe_place(place: str) -> Config:
    """Return the configuration of a store that is given by its configuration file, or as `sqlite:PATH` and so on."""
    name, colon, rest = place.partition(":")
    if place.startswith(("postgresql://", "postgres://")):
        return Config(project_id=_NO_PROJECT, storage="postgres", storage_options={"dsn": place})
    if not colon or Path(place).is_file():
        if not Path(place).is_file():
            # What follows "=" may be a password.
            raise ValidationError(f"{place.partition('=')[0]!r} is neither a file nor a store. Valid: {PLACES}")
        return load(place)
    if name not in ("sqlite", "file", "postgres", "qdrant", "chroma") or not rest:
        known = rest and name in stores.STORES
        hint = f"name its options in a configuration file and pass that. Valid: {PLACES}"
        raise ValidationError(f"{name}: {hint}" if known else unknown("store", name.partition("=")[0], [PLACES]))
    if name in stores.IN_A_FILE:
        path = Path(rest).expanduser().absolute()
        return Config(project_id=_NO_PROJECT, storage=name, storage_dir=path.parent, db_name=path.name)
    option = "dsn" if name == "postgres" else "url" if "://" in rest else "path"
    return Config(project_id=_NO_PROJECT, storage=name, storage_options={option: rest})


def migrate_places(
    source: str,
    target: str,
    *,
    project: str | None = None,
    merge: bool = False,
    dry_run: bool = False,
    progress: Progress = ignore_progress,
) -> MigrationReport:
    """Move all records, or those of a project, from one place to another (see `describe_place`)."""
    places = describe_place(source), describe_place(target)
    identities = [repr((one.storage, one.path, one.storage_options)) for one in places]
    if identities[0] == identities[1]:
        raise ValidationError("the source and the target are the same store")
    origin = hashlib.sha256(f"{identities[0]} {project}".encode()).hexdigest()[:32]
    is_missing = places[1].storage in stores.IN_A_FILE and not places[1].path.exists()
    with ExitStack() as opened:
        reading = opened.enter_context(closing(_open_source(places[0])))
        # A preview does not create the file.
        writing = MemoryStore() if dry_run and is_missing else open_store(places[1])
        opened.callback(writing.close)
        move = Migration(reading, writing, project=project, merge=merge, origin=origin, progress=progress)
        return move.preview() if dry_run else move.run()


def _open_source(config: Config) -> Store:
    """Open an existing store; raise ValidationError instead of creating one."""
    is_file = config.storage in stores.IN_A_FILE
    path = config.path if is_file else config.storage_options.get("path")
    if path and not Path(str(path)).expanduser().exists():
        raise ValidationError(f"{path} does not exist, so there is nothing to move")
    try:
        # A file is opened for writing, so that an older format is updated.
        return open_store(config if is_file else replace(config, read_only=True))
    except ReadOnlyError as error:
        raise ValidationError(f"there is nothing to move: {error}") from error


class Migration:
    """A move of records from one store to another. `origin` identifies the source when a move is resumed."""

    def __init__(
        self,
        source: Store,
        target: Store,
        *,
        project: str | None = None,
        merge: bool = False,
        origin: str = "",
        progress: Progress = ignore_progress,
    ) -> None:
        self.source, self.target, self.merge, self.origin, self.progress = source, target, merge, origin, progress
        self.where = Where() if project is None else Where(projects={project, _SHARED})
        self.report = MigrationReport()
        self.digests: dict[str, bytes] = {}  # Of the records of the source, as they were last read.
        self.exempt: set[str] = set()  # Ids of records of the target that stay as they are.
        self.projects: set[str] = set()
        self.can_write = True

    def preview(self) -> MigrationReport:
        """Return what a move would do, without writing anything."""
        self.can_write = False
        self._prepare()
        self._copy_changes()
        return self.report

    def run(self) -> MigrationReport:
        """Move everything, compare both stores and return the figures. Raise StorageError if they differ."""
        self._prepare()
        if not self.merge and not self.report.is_resumed:
            now, body = times.now(), {"origin": self.origin}
            self.target.put(
                [Record(id=_MARKER, kind="marker", project=_NO_PROJECT, body=body, created_at=now, updated_at=now)]
            )
        problems: list[str] = []
        for _ in range(_MOST_PASSES):
            if self._copy_changes():
                continue
            before, problems = problems, self._compare_stores()
            if not problems:
                self.target.delete([_MARKER])
                return self.report
            if problems == before:
                raise StorageError(f"the target does not agree with the source: {'; '.join(problems)}")
        raise StorageError(
            f"after {_MOST_PASSES} passes the source is still being written; stop what writes to it, then run the same "
            "command again to move the rest"
        )

    # -- what the target has already

    def _prepare(self) -> None:
        if self.source.get([_MARKER]):
            raise ValidationError("the source is the target of an unfinished move; finish that first")
        if marker := self.target.get([_MARKER]):
            if marker[0].body.get("origin") != self.origin:
                raise ValidationError("the target has an unfinished move from another source; finish that, or empty it")
            self.report.is_resumed = not self.merge
        ours, theirs = (next(iter(store.get([EMBEDDER_MARKER])), None) for store in (self.source, self.target))
        if ours and theirs and ours.body != theirs.body and not self.report.is_resumed:
            raise EmbedderMismatchError(
                f"the source was embedded by {ours.body['value']!r} and the target by {theirs.body['value']!r}; run "
                "`alma reindex` on one of them first"
            )
        if self.merge or self.report.is_resumed:
            return
        own_projects: dict[str, bool] = {_SHARED: False}
        for batch in _split_batches(self.target.scan(self.where)):
            source = {record.id: record for record in self.source.get([record.id for record in batch])}
            for record in batch:
                if record.project not in own_projects:
                    own_projects[record.project] = any(self.source.scan(Where(projects={record.project}), 1))
                other = source.get(record.id)
                is_older = other is not None and (other.version > record.version or _digest(other) == _digest(record))
                if own_projects[record.project] and not is_older:
                    raise ValidationError(
                        f"the target has other records of the project {record.project!r} (such as {record.id}); pass "
                        "--merge to keep them beside those of the source, or choose an empty target"
                    )

    # -- copying

    def _copy_changes(self) -> int:
        """Read the source once, write what is new or changed to the target, and return how much that was."""
        report, changes = self.report, 0
        seen: set[str] = set()
        total = sum(self.source.count(self.where).values()) if isinstance(self.source, Countable) else len(self.digests)
        report.passes += 1
        for batch in _split_batches(self.source.scan(self.where)):
            digests = {record.id: _digest(record) for record in batch}
            changed = [record for record in batch if self.digests.get(record.id) != digests[record.id]]
            changes += self._write_records(changed, digests)
            self.digests |= digests
            self.projects |= {record.project for record in batch}
            seen |= digests.keys()
            self.progress(len(seen), max(total, len(seen)))
        gone = self.digests.keys() - seen
        if report.passes == 1 and report.is_resumed:
            where = Where(projects=self.projects - {_SHARED})
            gone |= {record.id for record in self.target.scan(where) if record.id not in self.digests}
        for ids in split_batches(sorted(gone)):
            existing = {record.id for record in self.source.get(ids)}
            ended = [id for id in ids if id not in existing and id not in self.exempt]
            for id in ended:
                self.digests.pop(id, None)
            deleted = self.target.delete(ended) if self.can_write else len(ended)
            report.deleted += deleted
            changes += deleted
        report.records, report.projects = len(self.digests), sorted(self.projects - {_SHARED})
        return changes if self.can_write else 0

    def _write_records(self, records: Sequence[Record], digests: dict[str, bytes]) -> int:
        present = {record.id: record for record in self.target.get([record.id for record in records])}
        if self.merge:
            # Memories that were deleted in the target do not come back with a merge.
            fresh = [one for one in records if one.id not in present and one.kind in GUARDED]
            deleted: set[str] = set()
            for project in {one.project for one in fresh}:
                tx = Transaction(Engine(store=self.target, project=project))
                deleted |= tx.find_buried([one for one in fresh if one.project == project])
            self.exempt |= deleted
            records = [record for record in records if record.id not in deleted]
        puts, outdated = [], []
        for record in records:
            old = present.get(record.id)
            if old is not None and _digest(old) == digests[record.id]:
                self.report.unchanged += record.id not in self.digests
                continue
            is_foreign = old is not None and record.id not in self.digests and not self.report.is_resumed
            if old is not None and (record.id in self.exempt or (is_foreign and self._keeps_own(record))):
                combined = _combine_records(old, record)
                (self.exempt.discard if combined is record else self.exempt.add)(record.id)
                if combined is None:
                    self.report.kept += record.id not in self.digests
                    continue
                record = combined
            elif old is not None and old.version >= record.version:
                # It was deleted in the source and created again.
                outdated.append(record.id)
            puts.append(record)
        self.report.copied += len(puts)
        if self.can_write:
            if outdated:
                self.target.delete(outdated)
            if puts:
                self.target.put(puts)
        return len(puts)

    def _keeps_own(self, record: Record) -> bool:
        return self.merge or record.project == _SHARED

    # -- comparing

    def _compare_stores(self) -> list[str]:
        """Return how the target differs from what was read of the source."""
        where = Where(projects=self.projects)
        expected = {id: digest for id, digest in self.digests.items() if id not in self.exempt}
        target: dict[str, bytes] = {}
        extra, counts = [], Counter[tuple[str, str, str]]()
        for record in self.target.scan(where):
            counts[record.kind, record.agent, str(record.status)] += 1
            if record.id in expected:
                target[record.id] = _digest(record)
            elif record.id not in self.exempt and not self._keeps_own(record):
                extra.append(record.id)
        problems = _describe_ids("missing", expected.keys() - target.keys())
        problems += _describe_ids("different", [id for id in target if target[id] != expected[id]])
        problems += _describe_ids("only in the target", extra)
        if isinstance(self.target, Countable) and dict(self.target.count(where)) != counts:
            problems.append("the target's counts by kind, agent and status do not agree with its records")
        digests = b"".join(target[id] for id in sorted(target))
        self.report.checksum = hashlib.blake2b(digests, digest_size=16).hexdigest()
        return problems or self._compare_searches(sorted(expected))

    def _compare_searches(self, ids: Sequence[str]) -> list[str]:
        """Search for random records by their own vectors and words in both stores."""
        shares: dict[str, list[float]] = {"vectors": [], "words": []}
        chance = random.Random(self.report.checksum)
        can_match = isinstance(self.source, Searchable) and isinstance(self.target, Searchable)
        for record in self.source.get(chance.sample(ids, min(len(ids), 20 * _SAMPLES))):
            words = sorted(set(re.findall(r"\w{4,}", record.text)), key=lambda word: (-len(word), word))[:_WORDS]
            if record.vectors and len(shares["vectors"]) < _SAMPLES:
                near = Where(projects={record.project}, embedders={record.embedder})
                hits = [store.nearest(record.vectors[0], near, _HITS) for store in (self.source, self.target)]
                shares["vectors"].append(self._share_hits(record, hits, _HITS))
            if can_match and words and len(shares["words"]) < _SAMPLES:
                where = Where(projects={record.project}, kinds={record.kind}, agents={record.agent})
                hits = [
                    store.match(" ".join(words), where, _MATCHES)  # type: ignore[attr-defined]
                    for store in (self.source, self.target)
                ]
                shares["words"].append(self._share_hits(record, hits, _MATCHES if len(hits[0]) < _MATCHES else 0))
        self.report.agreement = {name: round(sum(some) / len(some), 4) for name, some in shares.items() if some}
        return [
            f"searches by {name} agree by {share:.0%} only"
            for name, share in self.report.agreement.items()
            if share < _LEAST_AGREEMENT[name]
        ]

    def _share_hits(self, record: Record, hits: Sequence[Sequence[Hit]], limit: int) -> float:
        """Return how far two answers agree; where the target has further records, whether it finds this one."""
        ours, theirs = ({hit.id for hit in some} for some in hits)
        if self.merge or self.exempt or not limit:
            return float(record.id in theirs or record.id not in ours)
        return len(ours & theirs) / (len(ours | theirs) or 1)


def _combine_records(old: Record, record: Record) -> Record | None:
    """Return what replaces a record that both stores have; None if the target's own stays."""
    if record.id == SALT_MARKER:
        # Tombstones are recognised by the salts of the store in which they were made.
        salts = list(dict.fromkeys([*old.body["value"], *record.body["value"]]))
        version = max(old.version, record.version) + 1
        return None if salts == old.body["value"] else replace(old, body={"value": salts}, version=version)
    return record if record.version > old.version else None


def _digest(record: Record) -> bytes:
    data = json.dumps(to_json(record), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(data.encode(), digest_size=16).digest()


def _split_batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    iterator = (record for record in records if record.id != _MARKER)
    return iter(lambda: list(islice(iterator, _BATCH)), [])


def _describe_ids(what: str, ids: Iterable[str]) -> list[str]:
    names = sorted(ids)
    return [f"{what}: {len(names)} records (such as {', '.join(names[:3])})"] if names else []
