"""Conditions as SQL, nearest vectors and words: filter first, then rank.

Few rows that pass the filter are ranked exactly. Many are searched by the index of vectors, which returns the nearest
rows one by one until enough of them pass the filter. How many will pass is estimated by the planner. In both ways more
rows are fetched than are wanted, and ranked by their codes, so that the order does not depend on rounding.

Words are weighed by how rare they are. Records with rare words are all ranked; the words that are too common for that
fill up the answer, and then only the newest records are searched for them.
"""

from __future__ import annotations

import json
import math
import re
import struct
import sys
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import accumulate
from itertools import count as count_up
from typing import Any, NamedTuple

from ...errors import ValidationError
from ...text import stem
from ...types.query import Hit, Where
from ...types.record import Vector, cosines
from ...types.times import to_micros
from .database import Connection, escape_text, restore_text, set_locally
from .schema import MOST_INDEXED, NAMES, find_index

_COLUMNS = {"statuses" if name == "status" else f"{name}s": name for name in NAMES}  # By the name of the condition.


class SqlCondition(NamedTuple):
    """Conditions on the table `t`, and the values of their parameters."""

    sql: str
    params: tuple[Any, ...]


def compile_filter(where: Where, tenant: str, *, expression: str = "t.{}") -> SqlCondition:
    """Return the conditions of a `Where`, for `record` or for `passage`.

    `expression` is that for a column of `record`, with {} for its name.
    """
    conditions: list[tuple[str, Any]] = [("t.tenant = %s", tenant)]
    for name, column in _COLUMNS.items():
        if (names := getattr(where, name)) is not None:
            values = [escape_text(one) for one in names]
            one = len(values) == 1
            conditions.append((f't."{column}" = {"%s" if one else "ANY(%s::text[])"}', values[0] if one else values))
    if where.origins is not None:
        origin = f"({_BODY.format(expression.format('provenance'))}) ->> 'origin'"
        conditions.append((f"{origin} = ANY(%s::text[])", [escape_text(one) for one in where.origins]))
    for mark, names in (("l", where.linked), ("t", where.tagged)):
        if names is not None:
            terms = [make_term(tenant, one, mark) for one in names]
            conditions.append(("t.id IN (SELECT f.id FROM find_terms(%s::text[], 2147483647) f)", terms))
    for moment, condition in (
        (where.created_from, "t.created_at >= %s"),
        (where.created_to, "t.created_at < %s"),
        (where.valid_at, "(t.valid_from IS NULL OR t.valid_from <= %s)"),
        (where.valid_at, "(t.valid_to IS NULL OR t.valid_to > %s)"),
    ):
        if moment is not None:
            conditions.append((condition, to_micros(moment)))
    sql, params = [one for one, _ in conditions], [value for _, value in conditions]
    for name, value in (where.fields or {}).items():
        # To Python 1, 1.0 and True are equal.
        values = [value, *((bool(value), int(value)) if value in (0, 1) and not isinstance(value, str) else ())]
        sql.append(f"coalesce(({_BODY.format(expression.format('body'))}) -> %s, 'null') = ANY(%s::jsonb[])")
        params += [json.loads(_encode_json(name)), [_encode_json(one) for one in values]]
    return SqlCondition(" AND ".join(sql), tuple(params))


# A body may contain an escaped NUL, which jsonb cannot hold. The same stands for it in the values compared with.
_INSTEAD = "\ue000\uf8ff\ue000"
# After an even number of backslashes it is a NUL; after an odd number it is text that looks like one.
_ESCAPED_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_BODY = (
    r"CASE WHEN strpos({0}, '\u0000') = 0 THEN {0}"
    f" ELSE regexp_replace({{0}}, '{_ESCAPED_NUL.pattern}', '\\1{_INSTEAD}', 'g') END::jsonb"
)
OF_RECORD = "(SELECT r.{} FROM record r WHERE r.tenant = t.tenant AND r.id = t.id)"  # A column, for a passage.


def _encode_json(value: Any) -> str:
    try:
        return _ESCAPED_NUL.sub(rf"\1{_INSTEAD}", json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValidationError(f"records cannot be searched for a field that is {value!r}: it is not JSON") from error


# --- vectors

_MOST_BY_INDEX = 2000  # More rows than this are ranked exactly.
_WIDENINGS = 2
_ROUNDING = 1e-12  # Up to 1,024 dimensions a dot product of codes is an integer that the server computes exactly.
_COARSE_ROUNDING = 1e-5
_PROBE_SECONDS = 30.0
_LEAST_CANDIDATES, _MOST_SCANNED = 200, 100_000  # What the index compares at least and at most.

_DIGITS = [str(code - 256 if code > 127 else code) for code in range(256)]
_HALVES = {struct.unpack("=H", struct.pack(">e", float(text)))[0]: code for code, text in enumerate(_DIGITS)}


def encode_vector(vector: Vector) -> str | None:
    """Return a vector as pgvector reads it; None for one without a direction, which no index could hold."""
    return f"[{','.join([_DIGITS[code] for code in vector])}]" if any(vector) else None


def _decode_all(sent: Sequence[bytes]) -> list[Vector]:
    """Return what `decode_vector` makes of each of many vectors of one length."""
    numpy = sys.modules.get("numpy")
    sizes = set(map(len, sent))
    if numpy is None or len(sizes) != 1 or 4 in sizes:
        return list(map(decode_vector, sent))
    [size] = sizes
    halves = numpy.frombuffer(b"".join(sent), ">f2").reshape(len(sent), size // 2)
    return [row.tobytes() for row in halves[:, 2:].astype(numpy.int8)]


def decode_vector(data: bytes) -> Vector:
    """Return the codes of a vector as `halfvec_send` sends it, or of a zero vector as `int4send` sends its length."""
    if len(data) == 4:
        return bytes(int.from_bytes(data, "big"))
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return bytes(map(_HALVES.__getitem__, memoryview(data)[4:].cast("H")))
    codes: Vector = numpy.frombuffer(data, ">f2", offset=4).astype(numpy.int8).tobytes()
    return codes


class Searcher:
    """Searches by vector, and remembers which dimensions have an index."""

    def __init__(self, tenant: str, exact_rows: int, index_rows: int) -> None:
        self._tenant, self._exact_rows, self._index_rows = tenant, exact_rows, index_rows
        self.lacking: set[int] = set()  # Dimensions with many vectors and no index.
        self.probes: dict[int, tuple[bool, float]] = {}  # Whether a dimension has an index, and when that was asked.

    def find_nearest(self, connection: Connection, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the records whose best vector is nearest, best first; ties by id."""
        clause = compile_filter(where, self._tenant, expression=OF_RECORD)
        clause = SqlCondition(f"{clause.sql} AND t.dim = {len(vector)}", clause.params)
        wanted = 2 * limit + 16  # A record may have several vectors among the best.
        is_indexed = any(vector) and wanted <= _MOST_BY_INDEX and self._has_index(connection, len(vector))
        is_indexed = is_indexed and estimate_rows(connection, clause) > self._exact_rows
        for widening in count_up():
            most = wanted * 8**widening
            is_indexed = is_indexed and most <= _MOST_BY_INDEX
            rows = (_fetch_by_index if is_indexed else _fetch_exactly)(connection, vector, clause, most)
            hits = _rank_rows(vector, rows)[:limit]
            if is_indexed and (len(rows) < most or hits[-1].score <= 0.0):
                is_indexed = False  # It gave up, or zero vectors count, which it does not hold.
            elif len(rows) < most or _is_certain(hits, limit, rows[-1][2], vector):
                break
            elif len(hits) == limit and widening == _WIDENINGS:
                break  # There are very many ties.
        return hits

    def find_nearest_by_kind(
        self, connection: Connection, vector: Vector, where: Where, limits: Mapping[str, int]
    ) -> dict[str, list[Hit]]:
        """Return what `find_nearest` finds of each kind, with one query where the vectors are ranked exactly."""
        wheres = {kind: replace(where, kinds={kind}) for kind in limits}
        clause = compile_filter(replace(where, kinds=set(limits)), self._tenant, expression=OF_RECORD)
        clause = SqlCondition(f"{clause.sql} AND t.dim = {len(vector)}", clause.params)
        if self._has_index(connection, len(vector)) and estimate_rows(connection, clause) > self._exact_rows:
            return {kind: self.find_nearest(connection, vector, wheres[kind], limits[kind]) for kind in limits}
        wanted = {kind: 2 * limit + 16 for kind, limit in limits.items()}
        params = (encode_vector(vector), *clause.params, list(map(escape_text, wanted)), list(wanted.values()))
        select = _NEAREST_BY_KIND.format(clause.sql)
        rows_by_kind: dict[str, list[PassageRow]] = {kind: [] for kind in limits}
        for kind, *row in connection.execute(select, params, binary=True):
            rows_by_kind[restore_text(kind)].append((row[0], row[1], row[2]))
        found: dict[str, list[Hit]] = {}
        for kind, rows in rows_by_kind.items():
            found[kind] = _rank_rows(vector, rows)[: limits[kind]]
            is_full = len(rows) == wanted[kind]
            if is_full and not _is_certain(found[kind], limits[kind], rows[-1][2], vector):
                found[kind] = self.find_nearest(connection, vector, wheres[kind], limits[kind])
        return found

    def _has_index(self, connection: Connection, dim: int) -> bool:
        has_index, moment = self.probes.get(dim, (False, -math.inf))
        if not has_index and moment + _PROBE_SECONDS < time.monotonic() and dim <= MOST_INDEXED:
            place = find_index(connection, self._tenant, dim)
            has_index = place is not None and place[2]
            self.probes[dim] = (has_index, time.monotonic())
            everything = SqlCondition(f"t.tenant = %s AND t.dim = {dim}", (self._tenant,))
            if not has_index and estimate_rows(connection, everything) >= self._index_rows:
                self.lacking.add(dim)
        return has_index


def estimate_rows(connection: Connection, clause: SqlCondition) -> int:
    """Return how many vectors the planner expects to meet the conditions."""
    explain = f"EXPLAIN (FORMAT JSON) SELECT 1 FROM passage t WHERE {clause.sql}"
    [(plan,)] = connection.execute(explain, clause.params).fetchall()
    return int(plan[0]["Plan"]["Plan Rows"])


PassageRow = tuple[str, bytes, float]  # The id, the vector as it is sent, and its distance.
_SELECT = (
    "SELECT s.id, coalesce(halfvec_send(s.vec), int4send(s.dim)), s.d FROM"
    " (SELECT t.id, t.vec, t.dim, {} AS d FROM passage t WHERE {} ORDER BY {} LIMIT %s) s"
)


_NEAREST_BY_KIND = (
    "SELECT s.kind, s.id, coalesce(halfvec_send(s.vec), int4send(s.dim)), s.d FROM"
    " (SELECT n.*, row_number() OVER (PARTITION BY n.kind ORDER BY n.d, n.id) AS place FROM"
    " (SELECT t.kind, t.id, t.vec, t.dim, coalesce(t.vec <=> %s::halfvec, 1.0) AS d FROM passage t WHERE {}) n) s"
    " JOIN unnest(%s::text[], %s::int[]) AS w (kind, most) ON w.kind = s.kind AND s.place <= w.most"
    " ORDER BY s.kind, s.place"
)


def _fetch_exactly(connection: Connection, vector: Vector, clause: SqlCondition, most: int) -> list[PassageRow]:
    # The distance is no bare operator here, so no index is taken for it.
    select = _SELECT.format("coalesce(t.vec <=> %s::halfvec, 1.0)", clause.sql, "d, t.id")
    params = (encode_vector(vector), *clause.params, most)
    return connection.execute(select, params, binary=True).fetchall()


def _fetch_by_index(connection: Connection, vector: Vector, clause: SqlCondition, most: int) -> list[PassageRow]:
    settings = {
        "hnsw.ef_search": str(min(1000, max(_LEAST_CANDIDATES, 2 * most))),
        "hnsw.iterative_scan": "relaxed_order",
        "hnsw.max_scan_tuples": str(_MOST_SCANNED),
        "hnsw.scan_mem_multiplier": "8",
        # No other plan gives the order without sorting.
        "enable_sort": "off",
    }
    connection.execute("SELECT " + ", ".join(set_locally(*setting) for setting in settings.items()))
    distance = f"t.vec::halfvec({len(vector)}) <=> %s::halfvec({len(vector)})"
    select = _SELECT.format(distance, clause.sql, distance)
    query = encode_vector(vector)
    rows = connection.execute(select, (query, *clause.params, query, most), binary=True).fetchall()
    # In a snapshot other queries follow.
    connection.execute(f"SELECT {set_locally('enable_sort', 'on')}")
    return sorted(rows, key=lambda row: row[2])


def _rank_rows(vector: Vector, rows: Sequence[PassageRow]) -> list[Hit]:
    best: dict[str, float] = {}
    [scores] = cosines([vector], _decode_all([row[1] for row in rows])) or [[]]
    for (name, _, _), score in zip(rows, scores, strict=True):
        best[name] = max(best.get(name, -math.inf), score)
    return [Hit(name, score) for name, score in sorted(best.items(), key=lambda item: (-item[1], item[0]))]


def _is_certain(hits: list[Hit], limit: int, last: float, vector: Vector) -> bool:
    """Return whether no row beyond the last one could be among the best."""
    margin = _ROUNDING if len(vector) <= 1024 else _COARSE_ROUNDING
    # Of a zero vector all scores are 0, and the rows come by their ids.
    return len(hits) == limit and (not any(vector) or hits[-1].score > 1.0 - last + margin)


# --- words

BUDGET = 4_000  # So many entries of rare words are ranked.
POOL = 2_000  # So many of the newest records are searched for common words.
SAMPLE = 5_000  # About so many entries are read to estimate how common a word is.
_REMEMBER_SECONDS = 300.0
MOST_BYTES = 1_000_000  # Of all words, links and tags: a tsvector holds a megabyte.
_LONGEST = 200  # Longer words are cut.
_FIRST = 200
_PIVOT = 24  # About as many different words has a record.
_WORD = re.compile(r"[^\W_]+")


def make_term(tenant: str, name: str, mark: str) -> str:
    """Return the term for a link or a tag."""
    return f"{mark}:{blake2b(repr((tenant, escape_text(name))).encode(), digest_size=10).hexdigest()}"


def make_prefix(tenant: str, project: str) -> str:
    """Return what the terms of a project begin with: so the index finds them without those of all others."""
    return f"{blake2b(repr((tenant, project)).encode(), digest_size=4).hexdigest()}:"


def list_terms(text: str, prefix: str = "", room: int = MOST_BYTES) -> list[str]:
    """Return the different words of a text, by their stems, as they are indexed; no more than there is room for."""
    if not text.isascii():
        text = "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))
    terms = dict[str, None]()
    for word in _WORD.findall(text.casefold()):
        if len(word) > _LONGEST:
            word = f"{word[:20]}{blake2b(word.encode(), digest_size=16).hexdigest()}"
        term = prefix + stem(word)
        if term not in terms:
            room -= len(term.encode())
            if room < 0:
                break
            terms[term] = None
    return list(terms)


_PROJECTS = """WITH RECURSIVE p AS ((SELECT project FROM record WHERE tenant = %(tenant)s ORDER BY project LIMIT 1)
    UNION ALL SELECT (SELECT project FROM record WHERE tenant = %(tenant)s AND project > p.project ORDER BY project
    LIMIT 1) FROM p WHERE p.project IS NOT NULL) SELECT project FROM p WHERE project IS NOT NULL"""
# Without OFFSET 0 the planner, which misjudges how many rows a policy hides, might read all entries for each record.
_NEWEST = """(WITH w AS (SELECT * FROM unnest(%s::text[]) WITH ORDINALITY AS u (term, n))
    SELECT w.n, e.id, length(e.terms) AS size FROM
    (SELECT x.id, x.terms
        FROM (SELECT t.id FROM record t WHERE {} ORDER BY t.created_at DESC, t.id DESC LIMIT %s) p
        CROSS JOIN LATERAL (SELECT id, terms FROM term WHERE tenant = %s AND id = p.id OFFSET 0) x OFFSET 0) e
    JOIN w ON e.terms @@ quote_literal(w.term)::tsquery)"""
_COUNT_ENTRIES = """SELECT coalesce(sum(reltuples), 0)::int8 FROM pg_class WHERE reltuples > 0 AND relkind = 'r'
    AND (oid = 'term'::regclass OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'term'::regclass))"""
_SAMPLE = """SELECT w.n, count(*) FROM unnest(%s::text[]) WITH ORDINALITY AS w (term, n)
    JOIN term e TABLESAMPLE SYSTEM (%s) ON e.terms @@ quote_literal(w.term)::tsquery
    WHERE e.tenant = %s GROUP BY w.n"""


_MATCH_BY_KIND = (
    "SELECT s.kind, s.id, s.score FROM"
    " (SELECT t.kind, n.id, n.score, row_number() OVER (PARTITION BY t.kind ORDER BY n.score DESC, n.id DESC) AS place"
    f" FROM (SELECT f.id, sum(w.weight) / (1.4 + 0.6 * max(f.size) / {_PIVOT}.0) AS score"
    " FROM find_terms(%s::text[], %s) f JOIN unnest(%s::float8[]) WITH ORDINALITY AS w (weight, n) ON w.n = f.n"
    " GROUP BY f.id) n JOIN record t ON t.id = n.id AND {}) s"
    " JOIN unnest(%s::text[], %s::int[]) AS w (kind, most) ON w.kind = s.kind AND s.place <= w.most"
    " ORDER BY s.kind, s.place"
)

WeighedTerms = list[tuple[int, list[str]]]  # For each word: how many records have it, and its terms.


class WordSearcher:
    """Searches by words, and remembers for some minutes how many records have them."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._counts: dict[str, int] = {}
        self._records = 0
        self._since = -math.inf

    def match(self, connection: Connection, words: str, where: Where, limit: int) -> list[Hit]:
        """Return the records that have at least one of the words, best first; among equals the newest."""
        weighed, affordable = self._weigh_words(connection, words, where)
        clause = compile_filter(where, self._tenant)
        hits: list[Hit] = []
        if affordable:
            source = SqlCondition("find_terms(%s::text[], %s)", (4 * BUDGET,))
            hits = self._rank(connection, source, weighed[:affordable], clause, limit)
        for pool in (POOL, None):
            if affordable == len(weighed) or len(hits) >= limit:
                break
            source = SqlCondition(_NEWEST.format(clause.sql), (*clause.params, pool, self._tenant))
            present = {hit.id for hit in hits}
            more = self._rank(connection, source, weighed, clause, limit + len(hits))
            hits += [hit for hit in more if hit.id not in present]
            hits.sort(key=lambda hit: -hit.score)
        return hits[:limit]

    def match_by_kind(
        self, connection: Connection, words: str, where: Where, limits: Mapping[str, int]
    ) -> dict[str, list[Hit]]:
        """Return what `match` finds of each kind, with one query for all whose best hold rare words."""
        hits: dict[str, list[Hit]] = {kind: [] for kind in limits}
        weighed, affordable = self._weigh_words(connection, words, where)
        if affordable:
            clause = compile_filter(replace(where, kinds=set(limits)), self._tenant)
            terms, weights = self._list_weights(weighed[:affordable])
            params = (terms, 4 * BUDGET, weights, *clause.params, list(map(escape_text, limits)), list(limits.values()))
            for kind, id, score in connection.execute(_MATCH_BY_KIND.format(clause.sql), params):
                hits[restore_text(kind)].append(Hit(id, float(score)))
        for kind, limit in limits.items():
            if affordable < len(weighed) and len(hits[kind]) < limit:
                hits[kind] = self.match(connection, words, replace(where, kinds={kind}), limit)
        return hits

    def _weigh_words(self, connection: Connection, words: str, where: Where) -> tuple[WeighedTerms, int]:
        """Return the terms of each word with how many records have them, rare words first, and how many are ranked."""
        projects = [escape_text(name) for name in where.projects or ()]
        if where.projects is None:
            projects = [name for (name,) in connection.execute(_PROJECTS, {"tenant": self._tenant})]
        prefixes = [make_prefix(self._tenant, name) for name in projects]
        groups = [[prefix + word for prefix in prefixes] for word in list_terms(words)]
        counts = self._count_terms(connection, [term for group in groups for term in group])
        weighed = sorted((sum(counts[term] for term in group), group) for group in groups if group)
        return weighed, sum(total <= BUDGET for total in accumulate(count for count, _ in weighed))

    def _list_weights(self, weighed: WeighedTerms) -> tuple[list[str], list[float]]:
        """Return the terms of all words, and the weight of each."""
        total = max(self._records, weighed[-1][0])
        terms: list[str] = []
        weights: list[float] = []
        for count, group in weighed:
            terms += group
            weights += len(group) * [math.log(1.0 + (total - count + 0.5) / (count + 0.5))]
        return terms, weights

    def _rank(
        self, connection: Connection, source: SqlCondition, weighed: WeighedTerms, clause: SqlCondition, limit: int
    ) -> list[Hit]:
        """Return the best of the (n, id, size) that a source gives, where n is the number of a term, from 1."""
        terms, weights = self._list_weights(weighed)
        params = (terms, *source.params, weights)
        # As BM25 does, if each word occurs once.
        select = (
            f"SELECT f.id, sum(w.weight) / (1.4 + 0.6 * max(f.size) / {_PIVOT}.0) AS score FROM {source.sql} f"
            " JOIN unnest(%s::float8[]) WITH ORDINALITY AS w (weight, n) ON w.n = f.n{}"
            " GROUP BY f.id ORDER BY score DESC, f.id DESC LIMIT %s"
        )
        most = max(_FIRST, 8 * limit)
        best = connection.execute(select.format(""), (*params, most)).fetchall()
        query = f"SELECT t.id FROM record t WHERE {clause.sql} AND t.id = ANY(%s)"
        passing = {name for (name,) in connection.execute(query, (*clause.params, [name for name, _ in best]))}
        rows = [row for row in best if row[0] in passing][:limit]
        if len(rows) < limit and len(best) == most:
            # Too few of the best pass the filter: all are asked about.
            join = f" JOIN record t ON t.id = f.id AND {clause.sql}"
            rows = connection.execute(select.format(join), (*params, *clause.params, limit)).fetchall()
        return [Hit(name, float(score)) for name, score in rows]

    def _count_terms(self, connection: Connection, terms: Iterable[str]) -> Mapping[str, int]:
        """Return how many records have each term, counted up to a bound; beyond it a sample estimates."""
        if time.monotonic() > self._since + _REMEMBER_SECONDS:
            self._counts, self._since = {}, time.monotonic()
            [(self._records,)] = connection.execute(_COUNT_ENTRIES)
        # Another thread may begin to count anew meanwhile.
        known = self._counts
        unknown = [term for term in terms if term not in known]
        if not unknown:
            return known
        query = "SELECT n, count(*) FROM find_terms(%s::text[], %s) GROUP BY n"
        counts: dict[int, int] = dict(connection.execute(query, (unknown, BUDGET)).fetchall())
        common = []
        for n, term in enumerate(unknown, 1):
            known[term] = counts.get(n, 0)
            if known[term] >= BUDGET:
                common.append(term)
        if common:
            known.update(self._estimate_counts(connection, common))
        return known

    def _estimate_counts(self, connection: Connection, common: Sequence[str]) -> dict[str, int]:
        """Return about how many records have each of some common terms.

        The planner cannot be asked: it uses no statistics of a column whose rows are hidden by a policy.
        """
        percent = 100.0 * min(1.0, SAMPLE / max(self._records, 1))
        params = (common, percent, self._tenant)
        sampled: dict[int, int] = dict(connection.execute(_SAMPLE, params).fetchall())
        estimates = {}
        for n, term in enumerate(common, 1):
            estimates[term] = max(BUDGET + 1, round(sampled.get(n, 0) * 100.0 / percent))
        return estimates
