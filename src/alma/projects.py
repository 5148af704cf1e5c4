"""The memory behind a server: opened on demand, for several projects, limited to what a caller may use."""

from __future__ import annotations

import copy
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .domains import SCHEMA_KIND, apply_stored_schema, find_schema_record
from .engine import validate
from .engine.changes import CHANGESET
from .engine.context import Notes, Settings
from .engine.events import DELIVERY
from .engine.retention import UpkeepRun, run_upkeep
from .errors import ScopeError, ValidationError
from .events import deliver_in_background
from .operations import Operation, Parameter
from .ports import (
    Countable,
    FindsAllWords,
    FindsNearestByKind,
    MatchesByKind,
    Searchable,
    Store,
    Vacuumable,
    Watchable,
)
from .types.kinds import EVERYWHERE
from .types.query import Hit, Scopes, Where
from .types.record import RELAYED, Record, Vector, find_source
from .words import AGENT

if TYPE_CHECKING:
    from .memory import ALMA

Bounds = frozenset[str] | None
"""The only projects that may be read and written; None for all."""
Opener = Callable[[], "ALMA"]
_STORE = ""
"""Markers that belong to the store itself, such as the name of its embedder, have no project."""


class LazyMemory:
    """One memory for all threads, opened by the first call."""

    def __init__(self, opener: Opener, *, may_approve: bool = True, has_siblings: bool = False) -> None:
        """`may_approve` is whether calls may activate memories from outside content.

        `has_siblings` is whether other processes answer the same clients: then nothing waits in this one.
        """
        self._opener = opener
        self.may_approve = may_approve
        self._has_siblings = has_siblings
        self._lock = threading.Lock()
        self._alma: ALMA | None = None

    def get(self) -> ALMA:
        """Return the memory, opening it if needed. If opening fails, the next call tries again."""
        with self._lock:
            if self._alma is None:
                self._alma = self._opener()
                notes = Notes(can_wait=not self._has_siblings)
                self._alma.engine = replace(
                    self._alma.engine, may_approve=self.may_approve, approves_calls=self.may_approve, notes=notes
                )
            return self._alma

    def close(self) -> None:
        """Close the memory."""
        with self._lock:
            if self._alma is not None:
                self._alma.close()
            self._alma = None


def open_configured(config: str | None) -> ALMA:
    """Open the memory of a configuration file; without one, of the configuration found from here up."""
    from .app import open_memory, read_config

    return deliver_in_background(open_memory(read_config(config)[1]))


def limit_memory(alma: ALMA, actor: str) -> ALMA:
    """Return the memory for a caller who may not approve; `actor` is who its changes are by."""
    alma.engine = replace(alma.engine, may_approve=False, actor=actor)
    return alma


class Projects:
    """One memory for each project, opened on first use. The most recently used ones stay open."""

    def __init__(self, memory: LazyMemory, settings: Settings | None = None, most: int = 64) -> None:
        """`settings` are those of the configuration, without changes by its project's domain."""
        self._memory = memory
        self._settings = settings
        self._most = most
        self._opened: OrderedDict[tuple[str, Bounds, bool], tuple[Any, ALMA]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def configured(self) -> str:
        """The configured project."""
        return self._memory.get().project_id

    def get(self, project: str | None = None, bounds: Bounds = None, *, may_approve: bool = True) -> ALMA:
        """Return the memory of a project, by default of the configured one.

        `may_approve` is whether calls may activate memories from outside content.
        """
        base = self._memory.get()
        name = base.project_id if project is None else validate.name("project", project)
        if project is not None and name == EVERYWHERE:
            raise ValidationError(f"{EVERYWHERE!r} means all projects; name a single project")
        if bounds is not None and name not in bounds:
            raise ScopeError(f"the token may not use project {name!r}. Allowed: {', '.join(sorted(bounds))}.")
        key = (name, bounds, may_approve)
        # Any process may have changed the project's schema since the last call.
        record = find_schema_record(base.engine.store, name)
        schema = record and (record.version, record.updated_at)
        with self._lock:
            opened = self._opened.get(key)
        alma = opened[1] if opened and opened[0] == schema else self._open(base, name, bounds, may_approve)
        with self._lock:
            self._opened[key] = schema, alma
            self._opened.move_to_end(key)
            while len(self._opened) > self._most:
                self._opened.popitem(last=False)
        return alma

    def run_upkeep(self, should_stop: Callable[[], bool]) -> None:
        """Run upkeep in the projects that are open, where it is due."""
        with self._lock:
            names = dict.fromkeys(name for name, _, _ in self._opened)
        for name in names:
            if not should_stop():
                alma = self.get(name)
                open_model = partial(getattr, alma, "model")
                run_upkeep(UpkeepRun(alma.engine, open_model=open_model, should_stop=should_stop), if_due=True)

    def _open(self, base: ALMA, project: str, bounds: Bounds, may_approve: bool) -> ALMA:
        engine = base.engine
        alma = copy.copy(base)
        # A model is opened for its own engine.
        alma.__dict__.pop("model", None)
        alma.engine = replace(
            engine,
            store=engine.store if bounds is None else Fence(engine.store, bounds),
            project=project,
            scopes=Scopes(engine.scopes.agents, teams=engine.scopes.teams),
            settings=self._settings or engine.settings,
            may_approve=may_approve,
            approves_calls=may_approve,
            answers={},
        )
        return apply_stored_schema(alma)

    def close(self) -> None:
        """Close all memories."""
        with self._lock:
            self._opened.clear()
        self._memory.close()


# -- the fence


class Fence:
    """A view of a store that contains only some projects and what applies to all projects.

    Domain schemas shared by all projects are hidden, because other projects wrote them. It searches by words, counts
    and vacuums if the store does.
    """

    def __init__(self, store: Store, projects: Collection[str]) -> None:
        self._store = store
        self._projects = frozenset(projects)
        self._readable = self._projects | {EVERYWHERE, _STORE}
        if isinstance(store, Searchable):
            self.match = lambda words, where, limit: store.match(words, self._within(where), limit)
        if isinstance(store, FindsAllWords):
            self.match_all = lambda words, where, limit: store.match_all(words, self._within(where), limit)
        if isinstance(store, FindsNearestByKind):
            self.nearest_by_kind = lambda vector, where, limits: store.nearest_by_kind(
                vector, self._within(where), limits
            )
        if isinstance(store, MatchesByKind):
            self.match_by_kind = lambda words, where, limits: store.match_by_kind(words, self._within(where), limits)
        if isinstance(store, Countable):
            self.count = lambda where: store.count(self._within(where))
        if isinstance(store, Watchable):
            self.revision = store.revision
        if isinstance(store, Vacuumable):
            self.vacuum = store.vacuum

    def put(self, records: Sequence[Record]) -> None:
        """Store records. Raise ScopeError for records of other projects."""
        # A record of version 1 replaces nothing.
        replaced = [one.id for one in records if one.version > 1]
        stored = {one.id: one for one in self._store.get(replaced)} if replaced else {}
        for one in records:
            old = stored.get(one.id)
            if one.project == EVERYWHERE and (one.kind == DELIVERY or (one.kind == CHANGESET and old is None)):
                is_allowed = True
            elif old is not None and old.project == one.project == EVERYWHERE:
                # Evidence of a rule for all projects may be updated here, but not its text.
                is_allowed = replace(one, evidence=old.evidence, version=old.version) == old
            else:
                is_allowed = all(
                    each is None or each.project in self._projects or (each.project == _STORE and each.kind == "marker")
                    for each in (one, old)
                )
            if not is_allowed:
                raise self._refuse(one)
        self._store.put(records)

    def get(self, ids: Sequence[str]) -> list[Record]:
        """Return the visible records with these ids."""
        return [one for one in self._store.get(ids) if one.project in self._readable and not _is_shared_schema(one)]

    def delete(self, ids: Sequence[str]) -> int:
        """Delete records. Raise ScopeError for records of other projects."""
        for one in self._store.get(ids):
            if one.project not in self._projects and (one.project, one.kind) != (EVERYWHERE, DELIVERY):
                raise self._refuse(one)
        return self._store.delete(ids)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Yield the visible records that match."""
        records = self._store.scan(self._within(where), limit)
        return (one for one in records if not _is_shared_schema(one))

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the visible records nearest to a vector."""
        return self._store.nearest(vector, self._within(where), limit)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _within(self, where: Where) -> Where:
        projects = self._readable if where.projects is None else self._readable & set(where.projects)
        return replace(where, projects=projects)

    def _refuse(self, record: Record) -> ScopeError:
        names = ", ".join(sorted(self._projects))
        return ScopeError(
            f"memory {record.id!r} also belongs to projects outside your scope; the token may only use: {names}"
        )


def _is_shared_schema(record: Record) -> bool:
    return record.project == EVERYWHERE and record.kind == SCHEMA_KIND


# -- limits of callers
# Local programs may use files only inside the roots, remote callers no files at all, and only a person may make
# statements as a person. These functions work on the checked arguments of a call.

Roots = Sequence[Path] | None
"""Resolved folders in which files may be used; relative paths start at the first one. None for remote callers, who may
use no files."""
_NO_ROOTS = "this server may not use files; start it with --root FOLDER to allow a folder"
_URI = re.compile(r"\s*(?:(?!file:)[A-Za-z][A-Za-z0-9+.-]+://|urn:)", re.IGNORECASE)


def _limit_row(row: Any, may_approve: bool, caller: str) -> Any:
    """Return a row of `add_many` as its caller may pass it. The operation refuses rows that are invalid."""
    if not isinstance(row, Mapping):
        return row
    metadata = row.get("metadata") or {}
    if caller and row.get("type") == "rule" and isinstance(metadata, Mapping):
        row = {**row, "metadata": {**metadata, "shared_by": caller}}
    return row if may_approve else {**row, "source": _relay_source(row.get("source") or AGENT)}


def limit_statements(
    operation: Operation, arguments: Mapping[str, Any], may_approve: bool, caller: str = ""
) -> dict[str, Any]:
    """Return the arguments of a call with the statements that its caller may make. Raise ScopeError for others.

    Without `may_approve`, no person is behind the call: statements of a person are recorded as relayed by the agent,
    and memories from outside content wait for review. Rules are marked as shared by the `caller`.
    """
    allowed = dict(arguments)
    if caller and operation.name == "add_rule":
        allowed["metadata"] = {**(allowed.get("metadata") or {}), "shared_by": caller}
    if operation.name == "add_many":
        allowed["memories"] = [_limit_row(one, may_approve, caller) for one in allowed["memories"]]
    if not may_approve:
        if "source" in allowed:
            allowed["source"] = _relay_source(allowed["source"])
        for one in operation.parameters:
            if one.about.vouches and allowed.get(one.name):
                raise ScopeError(
                    f"{one.name}=true declares outside content as a person's own, which only a person may do: "
                    "use a token with the scope 'approve', or start the MCP server with --approve"
                )
            if one.about.vouches:
                allowed[one.name] = False
    return allowed


def limit_call(
    operation: Operation, arguments: Mapping[str, Any], roots: Roots, may_approve: bool, caller: str = ""
) -> dict[str, Any]:
    """Return the arguments of a call as its caller may pass them. Raise ScopeError for what is not allowed.

    This limits statements as `limit_statements` does, and files to the roots.
    """
    allowed = limit_statements(operation, arguments, may_approve, caller)
    paths = [one for one in operation.parameters if one.about.local]
    if roots is not None:
        return allowed | _confine_paths(operation, paths, allowed, roots)
    for one in paths:
        value = allowed.get(one.name)
        for path in value if isinstance(value, list) else [value]:
            if path is not None and not (one.about.uri and isinstance(path, str) and _URI.match(path)):
                instead = "a URI such as https://example.org/report.txt" if one.about.uri else "null"
                raise ValidationError(
                    f"{one.name} is a path on the server, which remote callers may not pass; it must be {instead}"
                )
        if not one.needed:
            allowed.setdefault(one.name, None)
    return allowed


def _relay_source(source: Any) -> Any:
    return RELAYED if isinstance(source, str) and find_source(source) == "user" else source


def _confine_paths(
    operation: Operation, paths: Sequence[Parameter], arguments: Mapping[str, Any], roots: Sequence[Path]
) -> dict[str, Any]:
    """Return absolute paths inside the roots. Raise ScopeError for any other path.

    Relative paths start at the repository in the arguments, or at the first root. A folder that was left out is the
    first root, or None if there are no roots.
    """
    confined: dict[str, Any] = {}
    base = roots[0] if roots else None
    for one in sorted(paths, key=lambda one: not one.about.is_root):
        value = arguments.get(one.name, one.default)
        if not isinstance(value, str) or (one.about.uri and _URI.match(value)):
            continue
        if base is None and one.name not in arguments and not operation.on_files:
            confined[one.name] = None
            continue
        if base is None:
            raise ScopeError(_NO_ROOTS)
        place = _find_file(one, value, base, roots)
        confined[one.name] = str(place)
        base = place if one.about.is_root else base
    for one in paths:
        if one.about.is_root and {**arguments, **confined}.get(one.name) is None:
            if not roots:
                raise ScopeError(_NO_ROOTS)
            path = confined.get("path")
            around = (root for root in roots if path is not None and Path(path).is_relative_to(root))
            confined[one.name] = str(next(around, roots[0]))
    return confined


def _find_file(parameter: Parameter, value: str, base: Path, roots: Sequence[Path]) -> Path:
    """Return the file that a path means. Raise ScopeError if it may not be used."""
    path = Path(os.path.normpath(base / value))
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ValidationError(f"{parameter.name}: invalid file name: {error}") from None
    # A hidden name is refused even if it links to a visible file.
    for place in [real, path] if any(path.is_relative_to(root) for root in roots) else [real]:
        within = [place.relative_to(root) for root in roots if place.is_relative_to(root)]
        refusal = ""
        if not within:
            refusal = f"is outside {', '.join(map(str, roots))}; start the server with --root to allow other folders"
        elif (is_rule_file := parameter.about.is_rule_file) and not any(map(is_rule_file, within)):
            refusal = (
                "is not a rule file of a coding agent, such as AGENTS.md, CLAUDE.md, "
                ".github/copilot-instructions.md or .cursor/rules/NAME.mdc"
            )
        elif not parameter.about.is_rule_file and all(any(part[0] == "." for part in one.parts) for one in within):
            refusal = "is a hidden file or in a hidden folder, which is not allowed"
        if refusal:
            raise ScopeError(f"{parameter.name}: {value!r} {refusal}")
    return real
