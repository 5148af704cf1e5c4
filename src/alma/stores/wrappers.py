"""Stores over other stores: a cache, retries with a circuit breaker, and read-only access.

A wrapper implements the optional protocols that the inner store implements.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from datetime import timedelta
from functools import lru_cache
from itertools import chain, islice
from random import uniform
from typing import Any, ClassVar, Self, cast

from ..errors import BusyError, ConfigError, ConflictError, ReadOnlyError, StorageError, UnavailableError
from ..forks import hold_at_fork
from ..ports import (
    Checkable,
    Copyable,
    Countable,
    FindsAllWords,
    FindsNearestByKind,
    Limited,
    MatchesByKind,
    Repairable,
    Searchable,
    Snapshots,
    Store,
    Vacuumable,
    Watchable,
)
from ..retry import call_with_retries
from ..types.query import Hit, Where
from ..types.record import Record, Vector, to_json
from ..types.storage import CacheSettings, RetrySettings
from .memory import copy_record

_PROTOCOLS = (
    *(Searchable, FindsAllWords, FindsNearestByKind, MatchesByKind, Snapshots, Checkable, Repairable, Countable),
    *(Copyable, Vacuumable, Watchable),
)
# The method of each optional protocol.
_OPTIONAL = {next(name for name in vars(protocol) if not name.startswith("_")): protocol for protocol in _PROTOCOLS}
_WRITES = ("put", "delete", "vacuum", "repair")
_CACHED = ("get", "scan", "nearest", "nearest_by_kind", "match", "match_by_kind", "match_all", "count")
_TRANSIENT = (BusyError, UnavailableError)


class Wrapper:
    """A store over another one. A subclass changes `_call`, single methods, or `_NAME` for an optional method.

    The class of an instance has the optional methods that the inner store has, so that `isinstance` with the protocols
    of `alma.ports` is true for the same ones.
    """

    hidden: ClassVar[tuple[str, ...]] = ()  # Optional methods that are not passed on.

    def __new__(cls, store: Store, *_: object, **__: object) -> Self:
        names = [name for name, protocol in _OPTIONAL.items() if isinstance(store, protocol)]
        names += ["limits"] if isinstance(store, Limited) else []
        kind: Any = _derive_class(cast(Any, cls), tuple(name for name in names if name not in cls.hidden))
        wrapper: Self = object.__new__(kind)
        return wrapper

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        # What single stores have beside the protocols, such as `path`.
        if name.startswith("_") or name in _OPTIONAL or name == "limits":
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self._store, name)

    def _call(self, name: str, *args: Any) -> Any:
        return getattr(self._store, name)(*args)

    def put(self, records: Sequence[Record]) -> None:
        """Store new or newer records, all or none."""
        self._call("put", records)

    def get(self, ids: Sequence[str]) -> list[Record]:
        """Return the records with these ids, in order; unknown ids are left out."""
        records: list[Record] = self._call("get", ids)
        return records

    def delete(self, ids: Sequence[str]) -> int:
        """Delete the records with these ids and return how many existed."""
        return int(self._call("delete", ids))

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Yield the records that meet the conditions, newest first."""
        records: Iterator[Record] = self._call("scan", where, limit)
        return records

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the records whose vectors are nearest, best first."""
        hits: list[Hit] = self._call("nearest", vector, where, limit)
        return hits

    def close(self) -> None:
        """Close the store."""
        self._store.close()


@lru_cache(maxsize=256)
def _derive_class(cls: type, names: tuple[str, ...]) -> type:
    """Return the class with these optional methods."""

    def pass_on(name: str) -> Callable[..., Any]:
        return lambda self, *args: self._call(name, *args)

    methods = {name: getattr(cls, f"_{name}", None) or pass_on(name) for name in names}
    if "limits" in methods:
        methods["limits"] = property(lambda self: self._store.limits)
    return type(cls.__name__, (cls,), {"__doc__": cls.__doc__, "__module__": cls.__module__, **methods})


class ReadOnlyStore(Wrapper):
    """A store that can only be read."""

    def _call(self, name: str, *args: Any) -> Any:
        if name in _WRITES:
            raise ReadOnlyError(
                "the configuration sets read_only, so nothing can be written; remove it, or use another configuration"
            )
        return super()._call(name, *args)


class CachedStore(Wrapper):
    """A store that keeps its recent answers until any process writes to it.

    Inside a snapshot, answers are kept and used if nothing was written while the snapshot was opened.
    """

    def __init__(self, store: Store, settings: CacheSettings | None = None) -> None:
        if not isinstance(store, Watchable):
            raise ConfigError(
                f"a {type(store).__name__} does not notice what other processes write, so it cannot be cached; "
                "remove `cache` from the configuration"
            )
        super().__init__(store)
        self._size = (settings or CacheSettings()).size
        self._lock = hold_at_fork(threading.Lock())
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._weight = self._writes = 0
        self._valid_at: object = None  # The revision that the answers belong to.
        self._snapshots = threading.local()

    def _call(self, name: str, *args: Any) -> Any:
        if name in _WRITES:
            try:
                return super()._call(name, *args)
            finally:
                # The notice of our own write may come later than its end.
                with self._lock:
                    self._writes += 1
        if name not in _CACHED:
            return super()._call(name, *args)
        key, is_pinned = (name, *map(_make_key, args)), getattr(self._snapshots, "is_open", False)
        revision = self._snapshots.revision if is_pinned else self._find_revision()
        if revision is None:
            return super()._call(name, *args)
        answer = self._find_answer(key, revision, is_pinned=is_pinned)
        if answer is None:
            answer = super()._call(name, *args)
            if isinstance(answer, Iterator):
                start = list(islice(answer, self._size // 4 + 1))
                if len(start) > self._size // 4:
                    return chain(start, answer)
                answer = start
            if is_pinned or self._find_revision() == revision:
                self._keep_answer(key, answer, revision)
        if isinstance(answer, Mapping):
            return dict(answer)
        copies = [copy_record(one) if isinstance(one, Record) else one for one in answer]
        return iter(copies) if name == "scan" else copies

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        local = self._snapshots
        with ExitStack() as stack:
            if getattr(local, "is_open", False):
                stack.enter_context(self._store.snapshot())  # type: ignore[attr-defined]
            else:
                before = self._find_revision()
                stack.enter_context(self._store.snapshot())  # type: ignore[attr-defined]
                self._store.get([""])  # A snapshot begins with its first read.
                local.revision = before if self._find_revision() == before else None
                local.is_open = True
                stack.callback(setattr, local, "is_open", False)
            yield

    def _find_revision(self) -> tuple[int, object]:
        return self._writes, self._store.revision()  # type: ignore[attr-defined]

    def _find_answer(self, key: Hashable, revision: object, *, is_pinned: bool) -> Any:
        with self._lock:
            if self._valid_at != revision:
                if not is_pinned:
                    self._answers.clear()
                    self._weight, self._valid_at = 0, revision
                return None
            if key in self._answers:
                self._answers.move_to_end(key)
            return self._answers.get(key)

    def _keep_answer(self, key: Hashable, answer: Any, revision: object) -> None:
        with self._lock:
            if self._valid_at == revision and key not in self._answers and len(answer) < self._size:
                self._answers[key] = answer
                self._weight += len(answer) + 1
                while self._weight > self._size:
                    self._weight -= len(self._answers.popitem(last=False)[1]) + 1


def _make_key(value: Any) -> Hashable:
    """Return a value that is equal for arguments that ask for the same."""
    if isinstance(value, Where):
        return tuple(_make_key(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, Mapping):
        return frozenset((name, repr(item)) for name, item in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(map(str, value))
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return value if value is None or isinstance(value, str | int) or not hasattr(value, "__iter__") else tuple(value)


class RetryingStore(Wrapper):
    """A store whose calls are repeated while the database is busy or cannot be reached.

    After an unknown outcome, a put is repeated only as far as its records are not stored, and a delete returns the
    count of its last try, without records that an earlier one deleted. Inside a snapshot nothing is repeated, because a
    second try would read another moment. After many failures in a row calls fail at once for a while (a circuit
    breaker), then one of them tries again.
    """

    def __init__(self, store: Store, settings: RetrySettings | None = None) -> None:
        super().__init__(store)
        self._settings = settings or RetrySettings()
        self._lock = hold_at_fork(threading.Lock())
        self._failures = 0  # In a row.
        self._next_try = 0.0  # By the monotonic clock, while the database counts as down.
        self._snapshots = threading.local()

    def put(self, records: Sequence[Record]) -> None:
        """Store new or newer records, all or none."""
        is_unknown = False

        def write() -> None:
            nonlocal is_unknown
            rest = self._list_unwritten(records) if is_unknown else records
            if is_unknown and not rest:
                return
            try:
                self._try("put", rest)
            except UnavailableError:
                is_unknown = True
                raise
            except ConflictError:
                # A put that seemed lost may have arrived after all.
                if not is_unknown or self._list_unwritten(records):
                    raise

        self._repeat(write)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Yield the records that meet the conditions, newest first. After a failure it goes on where it stopped."""
        records = self._call("scan", where, limit)

        def read() -> Iterator[Record]:
            nonlocal records
            last, count, attempt = None, 0, 0
            while True:
                try:
                    for record in records:
                        yield record
                        last, count, attempt = record, count + 1, 0
                    return
                except _TRANSIENT as error:
                    pause = self._choose_pause(attempt, error)
                    if pause is None or attempt + 1 >= self._settings.attempts:
                        raise
                    attempt += 1
                time.sleep(pause)
                if last is None:
                    records = self._call("scan", where, limit)
                else:
                    records = islice(self._scan_after(last, where), None if limit is None else limit - count)

        return read()

    def _scan_after(self, last: Record, where: Where) -> Iterator[Record]:
        end = last.created_at + timedelta(microseconds=1)
        end = end if where.created_to is None else min(end, where.created_to)
        records = self._call("scan", replace(where, created_to=end), None)
        return (one for one in records if (one.created_at, one.id) < (last.created_at, last.id))

    def _call(self, name: str, *args: Any) -> Any:
        return self._repeat(lambda: self._try(name, *args))

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        with ExitStack() as stack:
            self._repeat(lambda: stack.enter_context(self._try("snapshot")))
            depth = self._get_depth()
            self._snapshots.depth = depth + 1
            stack.callback(setattr, self._snapshots, "depth", depth)
            yield

    def _repeat(self, call: Callable[[], Any]) -> Any:
        return call_with_retries(call, _TRANSIENT, self._settings.attempts - 1, self._choose_pause)

    def _try(self, name: str, *args: Any) -> Any:
        """Call the store once, unless it counts as down."""
        limit = self._settings.failures
        with self._lock:
            if self._failures >= limit:
                wait = self._next_try - time.monotonic()
                if wait > 0:
                    raise UnavailableError(
                        f"the database failed {self._failures} times in a row; it is tried again in {wait:.1f} s"
                    )
                # This call is the trial; others fail until it ends.
                self._next_try = time.monotonic() + self._settings.rest
        try:
            answer = super()._call(name, *args)
        except UnavailableError:
            with self._lock:
                self._failures += 1
                self._next_try = time.monotonic() + self._settings.rest
            raise
        except StorageError:
            self._failures = 0
            raise
        self._failures = 0
        return answer

    def _choose_pause(self, attempt: int, _: Exception) -> float | None:
        if self._failures >= self._settings.failures or self._get_depth():
            return None
        longest = self._settings.pause * 2.0**attempt
        return min(self._settings.longest_pause, longest) * uniform(0.5, 1.0)

    def _get_depth(self) -> int:
        """Return how many snapshots this thread is in."""
        return int(vars(self._snapshots).get("depth", 0))

    def _list_unwritten(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return which records of a put with an unknown outcome must still be written."""
        sent = {record.id: record for record in records}
        stored = {record.id: record for record in self._try("get", list(sent))}
        # As JSON, because a store may return a list for a tuple in a body.
        if any(_encode_record(stored[id]) == _encode_record(sent[id]) for id in stored):
            if not isinstance(self._store, Limited) or "atomic" not in self._store.limits:
                return []
            # A store that does not write all or none may lack some of it.
            return [one for id, one in sent.items() if id not in stored or stored[id].version < one.version]
        newer = [id for id, record in stored.items() if record.version >= sent[id].version]
        if newer:
            raise StorageError(
                f"the connection was lost during a write, and {newer[0]} was changed since by another process; read it "
                "again to see whether the write was stored"
            )
        return records


def _encode_record(record: Record) -> str:
    return json.dumps(to_json(record), sort_keys=True)
