"""The graph in a file of Kùzu, or of Ladybug, which carries Kùzu on. One process at a time opens it for writing."""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from ..errors import MissingExtraError, StorageError
from ..files import make_private_folder
from .cypher import CypherReading, CypherWriting
from .rows import Attempt

T = TypeVar("T")
_PACKAGES = ("ladybug", "kuzu")
_TABLES = (
    """CREATE NODE TABLE IF NOT EXISTS AlmaEntity(pk STRING PRIMARY KEY, project STRING, id STRING, name STRING,
    type STRING, sources STRING[], created INT64, data STRING)""",
    "CREATE NODE TABLE IF NOT EXISTS AlmaName(pk STRING PRIMARY KEY)",
    "CREATE REL TABLE IF NOT EXISTS AlmaNames(FROM AlmaName TO AlmaEntity)",
    """CREATE REL TABLE IF NOT EXISTS AlmaRelates(FROM AlmaEntity TO AlmaEntity, pk STRING, project STRING, id STRING,
    type STRING, sources STRING[], valid_from INT64, valid_to INT64, created INT64, data STRING)""",
)


class Engine:
    """An open database. Its queries run one after the other."""

    def __init__(self, path: str) -> None:
        self._package = _package()
        if path != ":memory:":
            make_private_folder(Path(path).parent)
        try:
            self._database = self._package.Database(path)
            self._connection = self._package.Connection(self._database)
        except RuntimeError as error:
            raise StorageError(f"{path} could not be opened: {error}") from error
        self.lock = threading.RLock()
        self._closed = False
        for statement in _TABLES:
            self.run(statement)

    def run(self, query: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        with self.lock:
            if self._closed:
                raise StorageError("this graph is closed")
            try:
                found = self._connection.execute(query, values or {})
            except RuntimeError as error:
                raise StorageError(f"{self._package.__name__} could not do it: {error}") from error
            names = found.get_column_names()
            rows = []
            while found.has_next():
                rows.append(dict(zip(names, found.get_next(), strict=True)))
            found.close()
            return rows

    def close(self) -> None:
        with self.lock:
            if not self._closed:
                self._closed = True
                self._connection.close()
                self._database.close()


def _package() -> Any:
    for name in _PACKAGES:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise MissingExtraError(_PACKAGES[0], "kuzu", "The graph in Kùzu")


class KuzuRows(CypherReading):
    """`path` is the file, made when it is missing; `:memory:` keeps nothing. An open engine may be given instead."""

    def __init__(self, path: str, project: str, engine: Engine | None = None) -> None:
        self._engine = engine or Engine(str(path))
        super().__init__(self._engine.run, project)
        self.place = f"kuzu:{path}"

    def change(self, attempt: Attempt[T]) -> T:
        writing = CypherWriting(self._engine.run, self._project)
        with self._engine.lock:
            self._engine.run("BEGIN TRANSACTION")
            try:
                result, change = attempt(writing)
                writing.write(change)
            except BaseException:
                self._engine.run("ROLLBACK")
                raise
            self._engine.run("COMMIT")
            return result

    def close(self) -> None:
        self._engine.close()
