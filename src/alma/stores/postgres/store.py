"""PostgresStore: the storage port over a schema of a PostgreSQL database."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple

from ...errors import ALMAError, ConfigError, CorruptStoreError
from ...types.query import Hit, Where, split_batches
from ...types.record import NONE, Record, Vector
from ...types.times import to_micros
from ..memory import decode_columns, refuse_record, refuse_version
from . import schema, search
from .database import Connection, PostgresDatabase, escape_text, restore_text
from .schema import NAMES, TIMES, prepare_schema
from .search import Searcher, WordSearcher, compile_filter, decode_vector, encode_vector

_log = logging.getLogger("alma.stores.postgres")

_PAGE = 256
_BATCH = 500  # So many records are sent with one statement.
_FIRST_ANALYSIS = 1000

_TYPES = {
    "id": "text",
    **dict.fromkeys(NAMES, "text"),
    **dict.fromkeys(TIMES, "bigint"),
    **dict.fromkeys(("version", "updated_at", "passages"), "bigint"),
    **dict.fromkeys(("superseded_by", "links", "tags", "evidence", "provenance", "text", "body"), "text"),
}


_TEXTS = ("id", *NAMES, "superseded_by", "text")


def _list_columns(names: Iterable[str], table: str = "") -> str:
    return ", ".join(f'{table}"{name}"' for name in names)


_COLUMNS = _list_columns(_TYPES)
# Arrays of arrays cannot be unnested, so those of links and tags travel as text.
_VALUES = ", ".join(f'u."{name}"' + ("::text[]" if name in ("links", "tags") else "") for name in _TYPES)
_SENT = ", ".join(f"%s::{kind}[]" for kind in _TYPES.values())
_UPSERT = (
    f"INSERT INTO record (tenant, {_COLUMNS}) SELECT %s, {_VALUES} FROM unnest({_SENT}) AS u ({_COLUMNS})"
    " ON CONFLICT (tenant, id) DO UPDATE SET "
    + ", ".join(f'"{name}" = excluded."{name}"' for name in _TYPES if name != "id")
    + " WHERE record.version < excluded.version RETURNING id"
)
_SHARED = [*NAMES, *TIMES]
_PASSAGE_COLUMNS = _list_columns(_SHARED)
_PASSAGES = (
    f"INSERT INTO passage (tenant, id, i, {_PASSAGE_COLUMNS}, dim, vec)"
    f" SELECT r.tenant, r.id, u.i, {_list_columns(_SHARED, 'r.')}, u.dim, u.vec::halfvec"
    " FROM unnest(%s::text[], %s::int[], %s::int[], %s::text[]) AS u (id, i, dim, vec)"
    " JOIN record r ON r.tenant = %s AND r.id = u.id ON CONFLICT (tenant, id, i) DO UPDATE SET "
    + ", ".join(f'"{name}" = excluded."{name}"' for name in (*_SHARED, "dim", "vec"))
    + " WHERE ({}) IS DISTINCT FROM ({})".format(
        *(", ".join(f'{table}."{name}"' for name in (*_SHARED, "dim", "vec")) for table in ("passage", "excluded"))
    )
)
_TERMS = (
    "INSERT INTO term SELECT %s, u.id, array_to_tsvector(u.terms::text[]) FROM unnest(%s::text[], %s::text[])"
    " AS u (id, terms) ON CONFLICT (tenant, id) DO UPDATE SET terms = excluded.terms"
    " WHERE term.terms IS DISTINCT FROM excluded.terms"
)
_SELECT = (
    f"SELECT {_list_columns(_TYPES, 't.')},"
    " (SELECT array_agg(coalesce(halfvec_send(p.vec), int4send(p.dim)) ORDER BY p.i) FROM passage p"
    " WHERE p.tenant = t.tenant AND p.id = t.id AND t.passages > 0) FROM record t WHERE "
)
_NEWEST = " ORDER BY t.created_at DESC, t.id DESC LIMIT %s"

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class EncodedRecord(NamedTuple):
    """The row of a record, with its passages and terms, encoded before the transaction begins."""

    record: Record
    values: tuple[Any, ...]
    passages: list[tuple[str, int, int, str | None]]
    terms: str


class PostgresStore:
    """Records, words and vectors in a PostgreSQL database; any number of threads, processes and machines may use it.

    Args:
        dsn: the connection string, such as postgresql://user:password@host:5432/database.
        schema: the schema of the tables, which is created if it does not exist.
        tenant: whose records these are; those of other tenants cannot be seen.
        pool_size: the most connections at a time.
        pooler: whether a transaction pooler such as PgBouncer is between; nothing of a session is used then.
        timeout: for how many seconds a lost connection is replaced, a lock or a free connection is waited for.
        read_only: refuse to write.
        partitions: into how many partitions new tables are divided by tenant. Later it changes nothing.
        notify: hear of changes by LISTEN; without, `revision` asks the server whether anything changed.
        exact_rows: up to so many vectors that pass the filter are ranked exactly, without the index.
        index_rows: from so many vectors of a dimension on, an index for it is built in the background.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "alma",
        tenant: str = "",
        pool_size: int = 8,
        pooler: bool = False,
        timeout: float = 30.0,
        read_only: bool = False,
        partitions: int = 0,
        notify: bool = True,
        exact_rows: int = 20_000,
        index_rows: int = 20_000,
    ) -> None:
        if not dsn or not schema or pool_size < 1 or timeout <= 0:
            raise ConfigError(
                "storage 'postgres' needs a dsn and a schema, a pool_size of at least 1 and a timeout > 0"
            )
        self._db = PostgresDatabase(dsn, schema, tenant, pool_size, timeout, read_only)
        self._hears_notices = notify and not pooler
        self._index_rows = index_rows
        self._searcher = Searcher(self._db.tenant, exact_rows, index_rows)
        self._words = WordSearcher(self._db.tenant)
        self._building = threading.Lock()
        self._written, self._next_analysis = 0, _FIRST_ANALYSIS
        prepare_schema(self._db, partitions)

    def put(self, records: Sequence[Record]) -> None:
        """Store new or newer records, all or none."""
        # A record that occurs more than once is written more than once, one statement after the other.
        rounds: list[dict[str, EncodedRecord]] = []
        for record in records:
            row = _encode_row(record, self._db.tenant)
            target = next((one for one in rounds if row.values[0] not in one), None)
            if target is None:
                rounds.append(target := {})
            target[row.values[0]] = row

        def step(connection: Connection) -> None:
            for rows in rounds:
                # Always in the order of ids, so that two writers do not wait for each other.
                ordered = [rows[name] for name in sorted(rows)]
                for batch in split_batches(ordered, _BATCH):
                    _write_rows(connection, self._db.tenant, batch)
            self._announce(connection)

        if rounds:
            self._db.write(step, list(rounds[0]), can_be_pipelined=True)
            self._written += len(records)
            if self._written >= self._next_analysis:
                # The server does so itself, but minutes later.
                self._next_analysis = 4 * self._written
                with suppress(ALMAError):  # What was put is stored all the same.
                    schema.analyze_tables(self._db)

    def get(self, ids: Sequence[str]) -> list[Record]:
        """Return the records with these ids, in order; unknown ids are left out."""
        names = [escape_text(name) for name in ids]
        if not names:
            return []
        records = {record.id: record for record in map(_decode_row, self._fetch(names))}
        return [records[name] for name in map(str.__str__, ids) if name in records]

    def delete(self, ids: Sequence[str]) -> int:
        """Delete the records with these ids and return how many existed."""
        names = [escape_text(name) for name in ids]

        def step(connection: Connection) -> int:
            lock = "SELECT id FROM record WHERE tenant = %s AND id = ANY(%s) ORDER BY id FOR UPDATE"
            present = [name for (name,) in connection.execute(lock, (self._db.tenant, names))]
            for table in ("passage", "term", "record") if present else ():
                delete = f"DELETE FROM {table} WHERE tenant = %s AND id = ANY(%s)"
                connection.execute(delete, (self._db.tenant, present))
            if present:
                self._announce(connection)
            return len(present)

        return self._db.write(step) if names else 0

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Which records is settled at the start; their content is read page by page while the caller goes on."""
        clause = compile_filter(where, self._db.tenant)
        if limit is not None and limit <= _PAGE:
            params = (*clause.params, max(limit, 0))
            return map(_decode_row, self._db.fetch(f"{_SELECT}{clause.sql}{_NEWEST}", params, binary=True))
        query = f"SELECT t.id FROM record t WHERE {clause.sql}{_NEWEST}"
        ids = [name for (name,) in self._db.fetch(query, (*clause.params, limit))]

        def read_pages() -> Iterator[Record]:
            for page in split_batches(ids, _PAGE):
                by_id = {record.id: record for record in map(_decode_row, self._fetch(page)) if where.accepts(record)}
                # It may have been deleted or changed since the scan began.
                yield from (by_id[name] for name in map(restore_text, page) if name in by_id)

        return read_pages()

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the records whose vectors are nearest, best first."""
        if limit <= 0:
            return []
        hits = self._db.read(lambda connection: self._searcher.find_nearest(connection, vector, where, limit))
        self._build_missing_index(len(vector))
        return _restore_hits(hits)

    def match(self, words: str, where: Where, limit: int) -> list[Hit]:
        """Return the records that best match the words, best first."""
        if limit <= 0:
            return []
        hits = self._db.read(lambda connection: self._words.match(connection, words, where, limit))
        return _restore_hits(hits)

    def nearest_by_kind(self, vector: Vector, where: Where, limits: Mapping[str, int]) -> dict[str, list[Hit]]:
        """Return for each kind the records whose vectors are nearest, best first."""
        positive = {kind: limit for kind, limit in limits.items() if limit > 0}
        found = self._db.read(
            lambda connection: self._searcher.find_nearest_by_kind(connection, vector, where, positive)
        )
        self._build_missing_index(len(vector))
        return {kind: _restore_hits(found.get(kind, ())) for kind in limits}

    def match_by_kind(self, words: str, where: Where, limits: Mapping[str, int]) -> dict[str, list[Hit]]:
        """Return for each kind the records that best match the words, best first."""
        positive = {kind: limit for kind, limit in limits.items() if limit > 0}
        found = self._db.read(lambda connection: self._words.match_by_kind(connection, words, where, positive))
        return {kind: _restore_hits(found.get(kind, ())) for kind in limits}

    def count(self, where: Where) -> dict[tuple[str, str, str], int]:
        """Return how many records there are of each kind, agent and status."""
        clause = compile_filter(where, self._db.tenant)
        query = f"SELECT kind, agent, status, count(*) FROM record t WHERE {clause.sql} GROUP BY kind, agent, status"
        rows = self._db.fetch(query, clause.params)
        return {(restore_text(kind), restore_text(agent), status): many for kind, agent, status, many in rows}

    def snapshot(self) -> AbstractContextManager[None]:
        """All that this thread reads inside belongs to one moment. Nothing may be written inside."""
        return self._db.snapshot()

    def revision(self) -> object:
        """Return a value that differs from an earlier one if any process wrote to the store in between."""
        return self._db.read_revision(by_notices=self._hears_notices)

    def check(self) -> list[str]:
        """Return the problems; it takes about as long as reading everything."""
        problems = self._db.read(lambda connection: schema.find_problems(connection, self._db.tenant))
        query = "SELECT id FROM record WHERE tenant = %s"
        names = [name for (name,) in self._db.fetch(query, (self._db.tenant,))]
        for page in split_batches(names, _PAGE):
            for row in self._fetch(page):
                try:
                    _decode_row(row)
                except CorruptStoreError as error:
                    problems.append(str(error))
        return problems

    def vacuum(self) -> None:
        """Leave no byte of deleted records in the tables, and give unused space back.

        The tables are locked meanwhile. Copies remain in the server's write-ahead log and backups until they expire.
        """
        schema.vacuum_tables(self._db)

    def build_indexes(self) -> list[int]:
        """Build the missing indexes of vectors now; return the dimensions for which one was built."""
        query = "SELECT dim FROM passage WHERE tenant = %s AND dim > 0 GROUP BY dim HAVING count(*) >= %s ORDER BY dim"
        rows = self._db.fetch(query, (self._db.tenant, self._index_rows))
        built = [dim for (dim,) in rows if schema.build_index(self._db, dim)]
        self._searcher.probes.clear()
        return built

    def close(self) -> None:
        """Close the store."""
        self._db.close()

    def _fetch(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        select = f"{_SELECT}t.tenant = %s AND t.id = ANY(%s::text[])"
        return self._db.fetch(select, (self._db.tenant, names), binary=True)

    def _announce(self, connection: Connection) -> None:
        # With `notify=False` too, because stores in other processes may listen.
        connection.execute("SELECT pg_notify(%s, '')", (self._db.channel,))

    def _build_missing_index(self, dim: int) -> None:
        """Build the index of a dimension in the background, if there are many vectors and none."""
        if dim not in self._searcher.lacking or self._db.read_only:
            return
        self._searcher.lacking.discard(dim)
        if not self._building.acquire(blocking=False):
            return

        def build() -> None:
            try:
                schema.build_index(self._db, dim)
                self._searcher.probes.clear()
            except ALMAError as error:
                _log.warning("no index for vectors of %d dimensions could be built: %s", dim, error)
            finally:
                self._building.release()

        threading.Thread(target=build, name="alma-index", daemon=True).start()


def _restore_hits(hits: Iterable[Hit]) -> list[Hit]:
    return [Hit(restore_text(hit.id), hit.score) for hit in hits]


# --- writing


def _encode_row(record: Record, tenant: str) -> EncodedRecord:
    try:
        values = {name: escape_text(getattr(record, name)) for name in ("id", *NAMES, "superseded_by", "text")}
        if (dim := max(map(len, record.vectors), default=0)) > schema.MOST_STORED:
            raise ValueError(f"a vector has {dim} dimensions; PostgreSQL stores at most {schema.MOST_STORED}")
        row = (
            *(values[name] for name in ("id", *NAMES)),
            *(None if (moment := getattr(record, name)) is None else to_micros(moment) for name in TIMES),
            *(record.version, to_micros(record.updated_at), len(record.vectors), values["superseded_by"]),
            *(_encode_array([escape_text(name) for name in names]) for names in (record.links, record.tags)),
            "{}" if record.evidence is NONE else _encode(record.evidence.to_json()),
            _encode(record.provenance.to_json()),
            values["text"],
            _encode(dict(record.body)),
        )
        "".join(value for value in row if isinstance(value, str)).encode()
        terms = [search.make_term(tenant, name, "l") for name in record.links]
        terms += [search.make_term(tenant, name, "t") for name in record.tags]
        if (room := search.MOST_BYTES - sum(map(len, terms))) < 0:
            raise ValueError(f"it has {len(terms)} links and tags, which are too many")
        terms += search.list_terms(record.text, search.make_prefix(tenant, values["project"]), room)
    except (TypeError, ValueError) as problem:
        raise refuse_record(record, problem) from problem
    passages = [(values["id"], i, len(vector), encode_vector(vector)) for i, vector in enumerate(record.vectors)]
    return EncodedRecord(record, row, passages, _encode_array(terms) if terms else "")


def _encode_array(names: Sequence[str]) -> str:
    """Return names as the text of an array."""
    quoted = (name.replace("\\", "\\\\").replace('"', '\\"') for name in names)
    return "{" + ",".join([f'"{name}"' for name in quoted]) + "}"


def _write_rows(connection: Connection, tenant: str, rows: Sequence[EncodedRecord]) -> None:
    columns = map(list, zip(*(row.values for row in rows), strict=True))
    stored = {name for (name,) in connection.execute(_UPSERT, (tenant, *columns))}
    for row in rows:
        if row.values[0] not in stored:
            query = "SELECT version FROM record WHERE tenant = %s AND id = %s"
            [(version,)] = connection.execute(query, (tenant, row.values[0])).fetchall()
            raise refuse_version(row.record, version)
    # What is new has nothing to be removed.
    changed = [row for row in rows if row.record.version > 1]
    delete = (
        "DELETE FROM passage p USING unnest(%s::text[], %s::int[]) AS u (id, many)"
        " WHERE p.tenant = %s AND p.id = u.id AND p.i >= u.many"
    )
    if changed:
        connection.execute(delete, ([row.values[0] for row in changed], [len(row.passages) for row in changed], tenant))
    without = [row.values[0] for row in changed if not row.terms]
    if without:
        connection.execute("DELETE FROM term WHERE tenant = %s AND id = ANY(%s)", (tenant, without))
    if passages := [passage for row in rows for passage in row.passages]:
        connection.execute(_PASSAGES, (*map(list, zip(*passages, strict=True)), tenant))
    if terms := [(row.values[0], row.terms) for row in rows if row.terms]:
        connection.execute(_TERMS, (tenant, *map(list, zip(*terms, strict=True))))


# --- reading


def _decode_row(row: tuple[Any, ...]) -> Record:
    *values, vectors = row
    fields = dict(zip(_TYPES, values, strict=True))
    count = fields.pop("passages")
    try:
        for name in _TEXTS:
            if "\1" in fields[name]:
                fields[name] = restore_text(fields[name])
        for name in ("links", "tags"):
            fields[name] = tuple(map(restore_text, fields[name]))
        decode_columns(fields)
        if count != len(vectors or ()):
            raise ValueError("vectors are missing")
        return Record(**fields, vectors=tuple(map(decode_vector, vectors or ())))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        problem = f"the record {fields['id']!r} is damaged ({error}); run `alma doctor`, or restore a backup"
        raise CorruptStoreError(problem) from error
