"""The tables, how an older schema becomes a newer one, the indexes of vectors, and the search for damage.

`record` has a row for each record and `passage` one for each vector, with copies of the columns that are filtered by,
so that a search by vector reads one table. `term` has the words, links and tags of a record for an index.

Row-level security hides the rows of other tenants from every role but superusers, even if a statement forgets to.

PostgreSQL uses an index below a policy only for conditions that are leakproof, and `@@`, which compares words, is not.
The policy of `term` may use every index, however. So the word to find is a setting, `alma.words`, and the policy
contains the comparison: it returns the rows of the tenant that have the word, or all of them if no word is set.
`find_terms` sets one word after the other. It runs with the rights of its caller.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from ...errors import BusyError, ConfigError, NewerStoreError, ReadOnlyError
from .database import Connection, PostgresDatabase, quote_name

# What can be filtered by: columns of `record` and of `passage`.
NAMES = ("kind", "project", "agent", "user", "session", "status", "key", "embedder")
TIMES = ("created_at", "valid_from", "valid_to")

TABLES = ("record", "passage", "term")
MOST_INDEXED = 4000  # The most dimensions that pgvector can index.
MOST_STORED = 16_000

_NAME_COLUMNS = ", ".join(f'"{name}" text COLLATE "C" NOT NULL' for name in NAMES)
_TIME_COLUMNS = "created_at bigint NOT NULL, valid_from bigint, valid_to bigint"
_TENANT = "tenant = substr(nullif(current_setting('alma.tenant', true), ''), 2)"

_TABLES = f"""
CREATE UNLOGGED TABLE incarnation (value text NOT NULL);
CREATE TABLE record (
    tenant text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, {_NAME_COLUMNS}, {_TIME_COLUMNS},
    version bigint NOT NULL, updated_at bigint NOT NULL, superseded_by text NOT NULL, passages int NOT NULL,
    links text[] NOT NULL, tags text[] NOT NULL, evidence text NOT NULL, provenance text NOT NULL,
    text text NOT NULL, body text NOT NULL, PRIMARY KEY (tenant, id)
) {{partitioned}};
CREATE INDEX ON record (tenant, project, kind, created_at DESC);
CREATE INDEX ON record (tenant, created_at DESC);
CREATE INDEX ON record (tenant, key) WHERE key <> '';
CREATE INDEX ON record (tenant, session, created_at) WHERE session <> '';

CREATE TABLE passage (
    tenant text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, i int NOT NULL, {_NAME_COLUMNS}, {_TIME_COLUMNS},
    dim int NOT NULL, vec {{vector}}.halfvec, PRIMARY KEY (tenant, id, i)
) {{partitioned}};
CREATE INDEX ON passage (tenant, dim, project, kind, agent);
CREATE STATISTICS passage_groups (dependencies, mcv) ON tenant, dim, project, kind, agent, status, "user" FROM passage;

CREATE TABLE term (
    tenant text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, terms tsvector NOT NULL, PRIMARY KEY (tenant, id)
) {{partitioned}};
CREATE INDEX term_terms ON term USING gin (terms) WITH (fastupdate = off);

CREATE FUNCTION find_terms(wanted text[], most int) RETURNS TABLE (n int, id text, size int)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = {{schema}}, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    FOR n IN 1 .. cardinality(wanted) LOOP
        -- An expression instead of the column: no index of tenants must be combined with that of terms.
        RETURN QUERY SELECT n, t.id, length(t.terms) FROM term t
            WHERE t.terms @@ quote_literal(wanted[n])::tsquery AND '' || t.{_TENANT} LIMIT most;
    END LOOP;
END $$;
"""


# A query that every row answers: `list_terms` makes no term with such a sign.
_EVERY_ROW = "!'~'"
_HAS_WORD = f"terms @@ coalesce(nullif(current_setting('alma.words', true), ''), $${_EVERY_ROW}$$)::tsquery"
# An expression instead of the column: no index of tenants must be combined with that of terms.
_TERM_POLICY = f"USING ('' || {_TENANT} AND {_HAS_WORD}) WITH CHECK ({_TENANT})"
_TERM_SEARCH = """
DROP FUNCTION find_terms(text[], int);
CREATE FUNCTION find_terms(wanted text[], most int) RETURNS TABLE (n int, id text, size int)
LANGUAGE plpgsql VOLATILE ROWS 100
SET search_path = {schema}, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    FOR n IN 1 .. cardinality(wanted) LOOP
        PERFORM set_config('alma.words', quote_literal(wanted[n]), true);
        RETURN QUERY SELECT n, t.id, length(t.terms) FROM term t LIMIT most;
    END LOOP;
    PERFORM set_config('alma.words', '', true);
END $$;
REVOKE ALL ON FUNCTION find_terms(text[], int) FROM PUBLIC;
"""


def _create_tables(connection: Connection, names: dict[str, str], partitions: int) -> None:
    partitioned = "PARTITION BY HASH (tenant)" if partitions else ""
    connection.execute(_TABLES.format(**names, partitioned=partitioned))
    for table in TABLES:
        for number in range(partitions):
            bounds = f"(MODULUS {partitions}, REMAINDER {number})"
            connection.execute(f"CREATE TABLE {table}_{number} PARTITION OF {table} FOR VALUES WITH {bounds}")
        for one in (table, *(f"{table}_{number}" for number in range(partitions))):
            connection.execute(f"CREATE POLICY tenant ON {one} USING ({_TENANT}) WITH CHECK ({_TENANT})")
            connection.execute(f"ALTER TABLE {one} ENABLE ROW LEVEL SECURITY")
            if table != "term":
                connection.execute(f"ALTER TABLE {one} FORCE ROW LEVEL SECURITY")


def _hide_terms(connection: Connection, names: dict[str, str], partitions: int) -> None:
    """Apply row-level security to the owner of `term` too; before, the owner could read the words of all tenants."""
    query = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'term'::regclass"
    tables = ["term", *(table for (table,) in connection.execute(query))]
    for table in tables:
        connection.execute(f"DROP POLICY tenant ON {table}")
        connection.execute(f"CREATE POLICY tenant ON {table} {_TERM_POLICY}")
        connection.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    connection.execute(_TERM_SEARCH.format(**names))
    # Before, everybody could execute the function; those who read the table still need to.
    query = (
        "SELECT DISTINCT rolname FROM pg_class, aclexplode(relacl) JOIN pg_roles r ON r.oid = grantee"
        " WHERE pg_class.oid = 'term'::regclass AND privilege_type = 'SELECT'"
    )
    for (role,) in connection.execute(query).fetchall():
        connection.execute(f"GRANT EXECUTE ON FUNCTION find_terms(text[], int) TO {quote_name(role)}")


# Migration number i brings a schema from version i to i + 1. Only ever append.
MIGRATIONS: list[Callable[[Connection, dict[str, str], int], None]] = [_create_tables, _hide_terms]


def prepare_schema(db: PostgresDatabase, partitions: int) -> None:
    """Create the tables or bring them up to date, one process at a time, and find out where pgvector is."""
    if not 0 <= partitions <= 1024:
        raise ConfigError(f"partitions is {partitions}; it takes a number from 0 (none) to 1024")
    version = db.read(lambda connection: _read_version(connection, db))
    if version < len(MIGRATIONS):
        if db.read_only:
            problem = "has no tables yet" if version == 0 else f"has format {version}, older than {len(MIGRATIONS)}"
            raise ReadOnlyError(f"{db.place}, schema {db.schema} {problem}; open it once for writing")
        try:
            db.write(lambda connection: _migrate(connection, db, partitions))
        except ReadOnlyError as error:
            advice = "to create the tables a role needs CREATE on the database"
            if version > 0:
                advice = "open the store once as the owner of its tables, which then get the format of this alma"
            raise ReadOnlyError(f"{error}; {advice}") from error


def _read_version(connection: Connection, db: PostgresDatabase) -> int:
    """Return the version of the schema, 0 if there is none; raise if it is newer than this program."""
    query = "SELECT nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
    if row := connection.execute(query).fetchone():
        db.set_vector_schema(row[0])
    meta = f"{quote_name(db.schema)}.meta"
    if connection.execute("SELECT to_regclass(%s)", (meta,)).fetchone() == (None,):
        return 0
    [(version,)] = connection.execute(f"SELECT value FROM {meta} WHERE name = 'version'").fetchall()
    if version > len(MIGRATIONS):
        problem = f"has format {version}, but this version of alma reads up to {len(MIGRATIONS)}; update alma"
        raise NewerStoreError(f"{db.place}, schema {db.schema} {problem}")
    return int(version)


def _migrate(connection: Connection, db: PostgresDatabase, partitions: int) -> None:
    """To be called inside a write transaction: another process may have been faster."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"alma {db.schema}",))
    schema = quote_name(db.schema)
    if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (db.schema,)).fetchone():
        connection.execute(f"CREATE SCHEMA {schema}")
    _create_extension(connection, db)
    version = _read_version(connection, db)
    names = {"schema": schema, "vector": quote_name(db.vector_schema)}
    connection.execute(f"SET LOCAL search_path = {schema}, {names['vector']}")
    if version == 0:
        connection.execute("CREATE TABLE meta (name text PRIMARY KEY, value bigint NOT NULL)")
        connection.execute("INSERT INTO meta VALUES ('version', 0), ('partitions', %s)", (partitions,))
    for number in range(version, len(MIGRATIONS)):
        MIGRATIONS[number](connection, names, partitions)
        connection.execute("UPDATE meta SET value = %s WHERE name = 'version'", (number + 1,))


def _create_extension(connection: Connection, db: PostgresDatabase) -> None:
    query = "SELECT installed_version, default_version FROM pg_available_extensions WHERE name = 'vector'"
    row = connection.execute(query).fetchone()
    if row is None:
        raise ConfigError(f"{db.place} has no pgvector; install pgvector 0.8 or newer on the server")
    try:
        if row[0] is None:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    except psycopg.errors.InsufficientPrivilege as error:
        problem = "may not install pgvector; ask its administrator to run CREATE EXTENSION vector"
        raise ConfigError(f"the role of {db.place} {problem}") from error
    if tuple(map(int, (row[0] or row[1]).split(".")[:2])) < (0, 8):
        raise ConfigError(f"{db.place} has pgvector {row[0] or row[1]}; install 0.8 and ALTER EXTENSION vector UPDATE")


# --- indexes of vectors


def find_index(connection: Connection, tenant: str, dim: int) -> tuple[str, str, bool] | None:
    """Return the table that holds the vectors, the name of its index for this dimension, and whether that is ready.

    None when there are no such vectors.
    """
    query = "SELECT tableoid::regclass::text FROM passage WHERE tenant = %s AND dim = %s LIMIT 1"
    row = connection.execute(query, (tenant, dim)).fetchone()
    if row is None:
        return None
    name = f"{row[0].rpartition('.')[2]}_hnsw_{dim}"
    query = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
    valid = connection.execute(query, (name,)).fetchone()
    return row[0], name, bool(valid and valid[0])


def build_index(db: PostgresDatabase, dim: int) -> bool:
    """Build the index of a dimension while others go on; False if it is there, or being built."""
    place = db.read(lambda connection: find_index(connection, db.tenant, dim))
    if place is None or place[2] or dim > MOST_INDEXED:
        return False
    schema, vector = (quote_name(name) for name in (db.schema, db.vector_schema))
    table, name = place[0] if "." in place[0] else f"{schema}.{place[0]}", place[1]
    if db.fetch("SELECT 1 FROM pg_stat_progress_create_index WHERE relid = to_regclass(%s)", (table,)):
        return False
    # What a crash left of an earlier attempt.
    db.execute_alone(f"DROP INDEX CONCURRENTLY IF EXISTS {schema}.{name}")
    db.execute_alone(
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table}"
        f" USING hnsw ((vec::{vector}.halfvec({dim})) {vector}.halfvec_cosine_ops) WHERE dim = {dim}"
    )
    analyze_tables(db)
    return True


def analyze_tables(db: PostgresDatabase) -> None:
    """Tell the planner how many rows there are: before it knows, it takes wrong indexes."""
    db.execute_alone("ANALYZE " + ", ".join(f"{quote_name(db.schema)}.{table}" for table in TABLES))


# --- damage

_PROBLEMS = {
    "passages without a record": "passage p LEFT JOIN record r USING (tenant, id) WHERE r.id IS NULL",
    "entries of words without a record": "term t LEFT JOIN record r USING (tenant, id) WHERE r.id IS NULL",
    "records with missing passages": "record WHERE passages <>"
    " (SELECT count(*) FROM passage p WHERE p.tenant = record.tenant AND p.id = record.id)",
    "passages whose columns differ from those of their record": "record r JOIN passage p USING (tenant, id) WHERE "
    + "({}) IS DISTINCT FROM ({})".format(*(", ".join(f'{t}."{name}"' for name in NAMES + TIMES) for t in "rp")),
    "vectors of another dimension than noted": "passage WHERE vector_dims(vec) <> dim",
}


def find_problems(connection: Connection, tenant: str) -> list[str]:
    """Return what is wrong with the rows of a tenant and with the indexes."""
    problems = []
    for what, rows in _PROBLEMS.items():
        [(count,)] = connection.execute(f"SELECT count(*) FROM {rows} AND tenant = %s", (tenant,)).fetchall()
        if count:
            problems.append(f"{count} {what}")
    query = (
        "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON oid = indrelid"
        " WHERE relnamespace = quote_ident(current_schema())::regnamespace AND NOT (indisvalid AND indisready)"
        " AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_create_index p WHERE p.index_relid = indexrelid)"
    )
    for (name,) in connection.execute(query).fetchall():
        problems.append(f"the index {name} is not valid: run REINDEX INDEX CONCURRENTLY {name}")
    return problems


def vacuum_tables(db: PostgresDatabase) -> None:
    """Rewrite the tables without deleted rows; BusyError if another session still needs some of them."""
    remaining: list[str] = []

    def watch(notice: psycopg.errors.Diagnostic) -> None:
        detail = notice.message_detail or ""
        if notice.severity_nonlocalized == "WARNING":
            remaining.append("the role may not do it")
        elif detail[:1].isdigit() and not detail.startswith("0 "):
            remaining.append(detail)

    for table in TABLES:
        db.execute_alone(f"VACUUM (FULL, VERBOSE, ANALYZE) {quote_name(db.schema)}.{table}", watch)
    if "the role may not do it" in remaining:
        raise ReadOnlyError(f"only the owner of the tables in {db.place} can vacuum them")
    if remaining:
        raise BusyError(f"{db.place}: another session still reads deleted rows; vacuum again once it has finished")
