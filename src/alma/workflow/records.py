"""What a workflow leaves behind, and how it is stored: runs, checkpoints, artifacts; and how far one may look.

A checkpoint's id follows from its run, its branch and its number, so two writers who take the same number meet a
conflict and the slower one takes the next. Its time is later than that of every checkpoint of the run that was
acknowledged before, whatever the clock says, so that the newest is always the last.

What a workflow learns carries a tag for its workflow, its run and its node; looking within one of them is looking for
the tag. A tenant's memories are a project of their own beside the shared one, so that also what is distilled from them
stays with the tenant: a tag on an outcome would not be on the heuristic that follows from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..engine import things, validate
from ..engine.admit import clean
from ..engine.context import Engine
from ..engine.search import by_words, read_snapshot
from ..engine.transaction import Transaction
from ..errors import NotFoundError, ValidationError
from ..ports import Store
from ..text import digest as make_digest
from ..types.query import Hit, Where
from ..types.record import Record
from ..types.times import to_iso
from ..types.vector import Vector

MAIN = "main"
# A drive letter (`C:\\x`) is no scheme, and a file may have a colon in its name.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|urn:")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class RunStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Scope(StrEnum):
    """How far one looks; each holds all that the ones before it hold."""

    NODE = "node"
    RUN = "run"
    WORKFLOW = "workflow"
    AGENT = "agent"
    TENANT = "tenant"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass through a workflow."""

    run_id: str
    workflow_id: str
    """Empty: nobody said which workflow it is a run of."""
    status: RunStatus
    agent: str = ""
    started_at: datetime
    ended_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state of a run after a node, on a branch."""

    id: str
    run_id: str
    workflow_id: str
    node_id: str
    branch_id: str
    number: int
    """Counts the checkpoints of a branch from 1, without gaps, whoever writes them."""
    state: dict[str, Any]
    digest: str
    size: int
    """Of the state as JSON, in bytes."""
    parent_id: str | None = None
    """The checkpoint before it on its branch, or the one that the branch began at."""
    agent: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    redacted: tuple[str, ...] = ()
    """Where in the state a secret was taken out; empty: the state is exactly what was given."""
    created_at: datetime
    unchanged: bool = False
    """Nothing was written: this checkpoint already held the same state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Something a run made that is kept elsewhere: a file, or whatever a URI names."""

    id: str
    run_id: str
    workflow_id: str
    node_id: str
    """Empty: of the run as a whole."""
    name: str
    location: str
    """An absolute path, or a URI."""
    kind: str
    digest: str | None = None
    """`sha256:` and the hexadecimal digest of the content."""
    size: int | None = None
    agent: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime
    updated_at: datetime


STORED_AS = {
    "run_id": "session", "workflow_id": "workflow", "node_id": "node", "branch_id": "branch", "parent_id": "parent",
    "location": "path",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a workflow something belongs; what is empty is not known or does not matter."""

    workflow: str = ""
    run: str = ""
    node: str = ""

    def list_tags(self) -> tuple[str, ...]:
        """Return what a memory of this place carries, so that it is found from every scope around it."""
        around = [(name, getattr(self, name)) for name in ("workflow", "run") if getattr(self, name)]
        nodes = [(*names, self.node) for names in around if self.node]
        return tuple(_make_tag(*names) for names in (*around, *nodes))

    def find_tags(self, scope: Scope) -> tuple[str, ...]:
        """Return the tag that all memories in the scope carry; none for scopes that are wider than a workflow."""
        if scope not in (Scope.NODE, Scope.RUN, Scope.WORKFLOW):
            return ()
        node = ["node"] if scope is Scope.NODE else []
        around = ("run" if self.run else "workflow") if node else str(scope)
        for part in (*node, around):
            if not getattr(self, part):
                needed = "run_id or workflow_id" if node and part == "workflow" else f"{part}_id"
                raise ValidationError(f"the scope {str(scope)!r} needs {needed}")
        return (_make_tag(around, *(getattr(self, part) for part in (around, *node))),)


def _make_tag(head: str, *names: str) -> str:
    tag = f"{head}:" + "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)
    if clean(tag) != tag:
        raise ValidationError(f"{head}_id and node_id together look like a secret; choose other names")
    return tag


def check_id(label: str, value: object) -> str:
    """Return a name chosen by the caller. One that would be redacted could no longer be told from others."""
    name = validate.name(label, value)
    if clean(name) != name:
        raise ValidationError(f"{label} looks like a secret and would not be kept as it is; choose another name")
    return name


def check_optional_id(label: str, value: object) -> str:
    """Return such a name; empty for none."""
    return "" if value in (None, "") else check_id(label, value)


def make_id(prefix: str, *parts: str) -> str:
    """Return the id of the one record there can be of these names; case and spaces make a difference."""
    return f"{prefix}_{make_digest(*(f'{len(part)}:{part}' for part in parts))}"


def choose_project(engine: Engine, tenant: str) -> Engine:
    """Return the engine of the project that a tenant's memories are in."""
    name = f"{engine.project}@{tenant.replace('%', '%25').replace('@', '%40')}"
    return replace(engine, project=name) if tenant else engine


# -- runs and checkpoints as they are stored


def find_run(engine: Engine, run: str) -> Record | None:
    return next(iter(engine.store.get([make_id("run", engine.project, run)])), None)


def get_run(engine: Engine, run: str) -> Record:
    record = find_run(engine, run)
    if record is None:
        raise NotFoundError(
            f"there is no run {run!r} in project {engine.project!r}; start_run or a checkpoint makes one"
        )
    return record


def match_workflow(run: str, known: str, workflow: str) -> str:
    if known and workflow and known != workflow:
        raise ValidationError(f"run {run!r} is one of workflow {known!r}, not of {workflow!r}")
    return known or workflow


def open_run(
    tx: Transaction,
    run: str,
    workflow: str = "",
    agent: str = "",
    metadata: Mapping[str, Any] | None = None,
    *,
    resumes: bool = True,
) -> Record:
    """Return a run, made if it is new. With `resumes`, one that had ended goes on."""
    id = make_id("run", tx.engine.project, run)
    record = tx.find(id)
    known: Mapping[str, Any] = record.body if record else {"workflow": "", "run": run, "metadata": {}}
    body = {**known, "workflow": match_workflow(run, known["workflow"], workflow)}
    body["metadata"] = {**known["metadata"], **(metadata or {})}
    if resumes or record is None:
        body |= {"status": str(RunStatus.RUNNING), "ended_at": None}
    if record is None:
        draft = things.draft("run", body | {"started_at": to_iso(tx.engine.clock())}, agent=agent, session=run)
        return tx.put(things.made(tx.engine, draft, id=id))
    return record if body == known else tx.put(things.altered(tx.engine, record, body))


def end_run(tx: Transaction, run: str, status: RunStatus) -> Record:
    record = tx.find(make_id("run", tx.engine.project, run)) or get_run(tx.engine, run)
    ended = None if status is RunStatus.RUNNING else to_iso(tx.engine.clock())
    return tx.update(record, body={**record.body, "status": str(status), "ended_at": ended})


def find_checkpoints(
    engine: Engine, run: str, node: str = "", branch: str = "", limit: int | None = None
) -> list[Record]:
    """Return the checkpoints of a run, newest first."""
    keys = {make_id("branch", run, branch)} if branch else None
    tagged = {f"node:{node}"} if node else None
    return things.scan(engine, "checkpoint", limit, sessions={run}, keys=keys, tagged=tagged)


def find_latest(engine: Engine, run: str, node: str = "", branch: str = "") -> Record | None:
    return next(iter(find_checkpoints(engine, run, node, branch, 1)), None)


def get_tip(engine: Engine, run: str, branch: str) -> Record:
    """Return the newest checkpoint of a branch that must have one."""
    record = find_latest(engine, run, branch=branch)
    if record is None:
        raise NotFoundError(f"run {run!r} has no checkpoint on branch {branch!r}")
    return record


def read_content(location: str | os.PathLike[str], digest: str | None, size: int | None) -> dict[str, Any]:
    """Read a file for its digest; what a URI names is taken at the caller's word and never fetched."""
    place = validate.text("location", os.fspath(location), 4_000).strip()
    if clean(place) != place:
        raise ValidationError(
            "location holds what looks like a secret and would not be kept as it is; link it without credentials"
        )
    if digest is not None:
        text = validate.name("digest", digest).lower()
        text = text if ":" in text else f"sha256:{text}"
        if not _DIGEST.fullmatch(text):
            raise ValidationError(f"digest must be the 64 hexadecimal digits of a SHA-256, not {digest!r}")
        digest = text
    if size is not None:
        validate.whole("size", size, 0, 2**63)
    path = Path(place).expanduser()
    if place.lower().startswith("file:"):
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        path = Path(url2pathname(urlsplit(place).path))
    elif _URI.match(place):
        return {"name": place.rstrip("/").rpartition("/")[2] or place, "path": place, "size": size, "digest": digest}
    return _read_file(path, digest, size)


def _read_file(path: Path, digest: str | None, size: int | None) -> dict[str, Any]:
    import hashlib

    try:
        with path.open("rb") as file:
            actual = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
            length = file.tell()
    except OSError as error:
        raise ValidationError(
            f"location {str(path)!r} is not a file that can be read ({error.strerror}); pass a file or a URI"
        ) from None
    if digest not in (None, actual):
        raise ValidationError(f"{str(path)!r} has the digest {actual}, not {digest}: it is not the file that was meant")
    if size is not None and size != length:
        raise ValidationError(f"{str(path)!r} has {length:,} bytes, not {size:,}: it is not the file that was meant")
    return {"name": path.name, "path": str(path.resolve()), "size": length, "digest": actual}


@dataclass(frozen=True, slots=True)
class WideStore:
    """A store that also looks into other projects, and at the memories of all agents, when one project is asked for."""

    store: Store
    project: str
    projects: frozenset[str]
    everyone: bool

    def _widen(self, where: Where) -> Where:
        if where.projects is None or self.project not in where.projects:
            return where
        agents = None if self.everyone else where.agents
        return replace(where, projects=self.projects | set(where.projects), agents=agents)

    def put(self, records: Sequence[Record]) -> None:
        self.store.put(records)

    def get(self, ids: Sequence[str]) -> list[Record]:
        return self.store.get(ids)

    def delete(self, ids: Sequence[str]) -> int:
        return self.store.delete(ids)

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        return self.store.scan(self._widen(where), limit)

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        return self.store.nearest(vector, self._widen(where), limit)

    def match(self, words: str, where: Where, limit: int) -> list[Hit]:
        return by_words(self.store, words, self._widen(where), limit)

    def snapshot(self) -> AbstractContextManager[None]:
        return read_snapshot(self.store)

    def close(self) -> None:
        self.store.close()
