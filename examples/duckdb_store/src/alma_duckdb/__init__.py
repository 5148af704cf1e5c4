"""A store for alma that keeps memories in DuckDB.

`alma.stores.documents` does what all databases of documents have in common: versions, conditions, ranking and repair.
What is left for this package is to write, read, find and search documents.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import duckdb

from alma.errors import ConfigError, StorageError
from alma.stores.documents import NAMED, NUMBERED, Condition, Document, DocumentStore, lock_folder

_LISTS = ("links", "tags")
_FILE_NAME = "memories.duckdb"


class DuckDBStore(DocumentStore):
    """A store in a folder. One process at a time can open it, because DuckDB locks its file."""

    def __init__(self, *, path: str = "", trust: bool = False) -> None:
        """With `trust`, the folder is opened even if git tracks files in it or another user owns it."""
        if not path:
            raise ConfigError("duckdb needs the option `path`: the folder of the database")
        super().__init__(DuckDBDocuments(Path(path).expanduser(), trust=trust))


class DuckDBDocuments:
    """The documents in the database of a folder: one table, a row for each document."""

    is_locked = True

    def __init__(self, folder: Path, *, trust: bool = False) -> None:
        self._place = f"the DuckDB folder {folder}"
        self._lock = threading.Lock()
        with ExitStack() as stack:
            stack.enter_context(lock_folder(folder, trust=trust))
            self._database = self._connect(folder / _FILE_NAME)
            stack.callback(self._database.close)
            with self._transaction() as database:
                database.execute(_describe_table())
            self._stack = stack.pop_all()

    def list_spaces(self) -> list[int]:
        """Return the dimensions of the vectors that are stored."""
        with self._transaction() as database:
            rows = database.execute("SELECT DISTINCT space FROM documents WHERE space > 0").fetchall()
        return [space for (space,) in rows]

    def write(self, space: int, documents: Sequence[Document]) -> None:
        """Add or replace documents."""
        latest = {document.key: document for document in documents}
        if not latest:
            return
        columns = ("space", "id", "content", "fields", "vector", *NAMED, *NUMBERED)
        places = ", ".join("?" for _ in columns)
        rows = [_make_row(space, document) for document in latest.values()]
        with self._transaction() as database:
            _delete_rows(database, space, list(latest))
            database.executemany(f"INSERT INTO documents ({_join_names(columns)}) VALUES ({places})", rows)

    def read(self, space: int, keys: Sequence[str]) -> list[Document]:
        """Return the documents with these keys."""
        query = "SELECT id, fields, content FROM documents WHERE space = ? AND id IN (SELECT unnest(?::VARCHAR[]))"
        with self._transaction() as database:
            return [_make_document(row) for row in database.execute(query, [space, list(keys)]).fetchall()]

    def remove(self, space: int, keys: Sequence[str]) -> None:
        """Remove the documents with these keys."""
        with self._transaction() as database:
            _delete_rows(database, space, list(keys))

    def find(self, space: int, conditions: Sequence[Condition]) -> Iterator[Document]:
        """Yield the documents that meet the conditions."""
        where, values = _compile(conditions)
        query = f"SELECT id, fields, content FROM documents WHERE space = ?{where}"
        with self._transaction() as database:
            rows = database.execute(query, [space, *values]).fetchall()
        yield from map(_make_document, rows)

    def search(
        self, space: int, vector: Sequence[float], conditions: Sequence[Condition], limit: int
    ) -> list[tuple[Document, float]]:
        """Return the nearest documents that meet the conditions, best first."""
        where, values = _compile(conditions)
        query = (
            "SELECT id, fields, content, list_cosine_similarity(vector, ?::FLOAT[]) AS score FROM documents "
            f"WHERE space = ?{where} ORDER BY score DESC, id LIMIT ?"
        )
        with self._transaction() as database:
            rows = database.execute(query, [list(vector), space, *values, limit]).fetchall()
        return [(_make_document(row[:3]), row[3]) for row in rows]

    def close(self) -> None:
        """Close the database and unlock its folder."""
        with self._lock:
            self._stack.close()

    def _connect(self, file: Path) -> duckdb.DuckDBPyConnection:
        try:
            return duckdb.connect(str(file))
        except duckdb.Error as error:
            raise StorageError(f"{self._place} cannot be opened: {error}") from error

    @contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield the connection inside a transaction, which is committed at the end or rolled back."""
        with self._lock:
            try:
                self._database.begin()
                try:
                    yield self._database
                except BaseException:
                    self._database.rollback()
                    raise
                self._database.commit()
            except duckdb.Error as error:
                raise StorageError(f"{self._place}: {error}") from error


def _describe_table() -> str:
    named = [f'"{name}" {"VARCHAR[]" if name in _LISTS else "VARCHAR"}' for name in NAMED]
    numbered = [f'"{name}" BIGINT' for name in NUMBERED]
    columns = ["space INTEGER", "id VARCHAR", "content VARCHAR", "fields VARCHAR", "vector FLOAT[]"]
    return f"CREATE TABLE IF NOT EXISTS documents ({', '.join([*columns, *named, *numbered])})"


def _join_names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _make_row(space: int, document: Document) -> list[Any]:
    fields = document.fields
    searched = [fields.get(name) for name in (*NAMED, *NUMBERED)]
    return [space, document.key, document.content, json.dumps(dict(fields)), list(document.vector), *searched]


def _make_document(row: Sequence[Any]) -> Document:
    key, fields, content = row
    return Document(key, json.loads(fields), content)


def _delete_rows(database: duckdb.DuckDBPyConnection, space: int, keys: list[str]) -> None:
    database.execute("DELETE FROM documents WHERE space = ? AND id IN (SELECT unnest(?::VARCHAR[]))", [space, keys])


def _compile(conditions: Sequence[Condition]) -> tuple[str, list[Any]]:
    """Return SQL that follows a first condition, and its values."""
    terms: list[str] = []
    values: list[Any] = []
    for condition in conditions:
        column = f'"{condition.field}"'
        if condition.names is not None:
            match = (
                f"list_has_any({column}, ?::VARCHAR[])"
                if condition.field in _LISTS
                else f"list_contains(?::VARCHAR[], {column})"
            )
            terms.append(match)
            values.append(list(condition.names))
        if condition.at_least is not None:
            terms.append(f"{column} >= ?")
            values.append(condition.at_least)
        if condition.at_most is not None:
            terms.append(f"{column} <= ?")
            values.append(condition.at_most)
    return "".join(f" AND {term}" for term in terms), values
