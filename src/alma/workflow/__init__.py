"""Workflows: checkpoints to resume from, branches to merge, artifacts, and memories scoped to a workflow, run or node.

from alma.workflow import WorkflowMemory

workflow = WorkflowMemory("my-project")
workflow.checkpoint("run-7", "fetch", {"pages": 12}, workflow_id="crawl")
workflow.resume("run-7").state

A checkpoint's id is derived from its run, branch and number. Two writers that take the same number therefore conflict,
and the slower one takes the next number. The time of a checkpoint is always later than that of every earlier
checkpoint of the run, even if the clock goes backwards, so the newest is always the last.

Memories that a workflow learns carry tags for the workflow, run and node, and scoped retrieval filters by tag. The
memories of a tenant are in a project of their own, so that heuristics formed from a tenant's outcomes also stay with
the tenant: a heuristic does not carry the tags of its outcomes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, cast

from .. import words
from ..codec import decode_record
from ..engine import validate
from ..engine.admit import clean, draft_record
from ..engine.context import Engine
from ..engine.outcomes import build_outcome, learn_outcomes
from ..engine.retrieve.pipeline import retrieve as retrieve_memories
from ..engine.search import by_words, read_snapshot
from ..engine.transaction import Transaction, scan_records, write
from ..engine.view import to_memory
from ..errors import NotFoundError, ScopeError, ValidationError
from ..memory import ALMA, build_request
from ..opening import OwnsMemory
from ..operations import OPERATIONS, About, Effect, Group, take_as_given
from ..ports import Store
from ..text import digest as make_digest
from ..types.kinds import Outcome, Result
from ..types.query import Hit, Where
from ..types.record import Record, Vector, new_id
from ..types.slice import MemorySlice
from ..types.times import to_iso
from ..words import to_retrieved
from .states import (
    MAX_STATE_BYTES,
    REDUCERS,
    UNLIMITED,
    Reducer,
    find_redacted,
    merge_states,
    read_content,
    read_state,
    refuse_secrets,
)

__all__ = [
    "MAX_STATE_BYTES",
    "REDUCERS",
    "Artifact",
    "Checkpoint",
    "Run",
    "RunStatus",
    "Scope",
    "WorkflowMemory",
    "merge_states",
]

MAIN = "main"
_MOST = 100_000
_SHOWN = 5
_TICK = timedelta(microseconds=1)


class RunStatus(StrEnum):
    """The status of a run."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Scope(StrEnum):
    """Where to look for memories; each scope includes the ones before it."""

    NODE = "node"
    RUN = "run"
    WORKFLOW = "workflow"
    AGENT = "agent"
    TENANT = "tenant"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a workflow."""

    run_id: str
    workflow_id: str  # Empty if the workflow was never named.
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
    number: int  # Counts the checkpoints of a branch from 1, without gaps, even with several writers.
    state: dict[str, Any]
    digest: str
    size: int  # The size of the state as JSON, in bytes.
    parent_id: str | None = None  # The previous checkpoint of the branch, or the one that the branch was forked from.
    agent: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    # The places in the state where a secret was replaced; empty if the state is stored exactly as passed.
    redacted: tuple[str, ...] = ()
    created_at: datetime
    unchanged: bool = False  # True if nothing was written, because this checkpoint already had the same state.


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file or URI that a run produced. Only its location and digest are stored."""

    id: str
    run_id: str
    workflow_id: str
    node_id: str  # Empty if it belongs to the run as a whole.
    name: str
    location: str  # An absolute path, or a URI.
    kind: str
    digest: str | None = None  # `sha256:` and the hexadecimal digest of the content.
    size: int | None = None
    agent: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime
    updated_at: datetime


STORED_AS = {
    "run_id": "session", "workflow_id": "workflow", "node_id": "node", "branch_id": "branch", "parent_id": "parent",
    "location": "path",
}  # fmt: skip


class WorkflowPlace(NamedTuple):
    """The workflow, run and node that a memory belongs to; empty parts are unknown or irrelevant."""

    workflow: str = ""
    run: str = ""
    node: str = ""

    def make_tags(self) -> dict[str, str]:
        """Return the tags of memories of this place, by scope, so that every enclosing scope finds them."""
        workflow, run, node = (name.replace("%", "%25").replace("/", "%2F") for name in self)
        names = {"workflow": workflow, "run": run}
        names |= {f"{around}/node": f"{name}/{node}" for around, name in names.items() if name and node}
        return {around: f"{around.removesuffix('/node')}:{name}" for around, name in names.items() if name}

    def find_tags(self, scope: Scope) -> tuple[str, ...]:
        """Return the tag that all memories in the scope carry; empty for scopes wider than a workflow."""
        if scope not in _NEEDED:
            return ()
        tags = self.make_tags()
        for around in ("run/node", "workflow/node") if scope is Scope.NODE else (scope,):
            if around in tags:
                return (tags[around],)
        raise ValidationError(f"the scope {str(scope)!r} needs {_NEEDED[scope]}")


_NEEDED = {Scope.NODE: "node_id, and run_id or workflow_id", Scope.RUN: "run_id", Scope.WORKFLOW: "workflow_id"}


def check_id(label: str, value: object) -> str:
    """Return a name that the caller chose; raise ValidationError for one that would be redacted as a secret."""
    name = validate.name(label, value)
    if clean(name) != name:
        raise ValidationError(f"{label} looks like a secret and would be redacted; choose another name")
    return name


def check_optional_id(label: str, value: object) -> str:
    """Return a name as `check_id` does, or an empty string for None."""
    return "" if value in (None, "") else check_id(label, value)


def make_id(prefix: str, *parts: str) -> str:
    """Return the id that is derived from these names; case and spaces count."""
    return f"{prefix}_{make_digest(*(f'{len(part)}:{part}' for part in parts))}"


def choose_project(engine: Engine, tenant: str) -> Engine:
    """Return the engine of the project that holds a tenant's memories."""
    name = f"{engine.project}@{tenant.replace('%', '%25').replace('@', '%40')}"
    return replace(engine, project=name) if tenant else engine


# -- stored runs and checkpoints


def find_run(engine: Engine, run: str) -> Record | None:
    """Return the record of a run, or None."""
    return next(iter(engine.store.get([make_id("run", engine.project, run)])), None)


def get_run(engine: Engine, run: str) -> Record:
    """Return the record of a run; raise NotFoundError with the names of the latest runs."""
    if record := find_run(engine, run):
        return record
    names = [one.body["run"] for one in scan_records(engine, "run", _SHOWN)]
    hint = f"The latest runs: {', '.join(names)}." if names else "It has no runs yet: start one or write a checkpoint."
    raise NotFoundError(f"there is no run {run!r} in project {engine.project!r}. {hint}")


def refuse_misspelt(engine: Engine, run: str) -> None:
    """Raise NotFoundError for an unknown run, unless the project has no runs yet and this would be the first."""
    if scan_records(engine, "run", 1):
        get_run(engine, run)


def match_workflow(run: str, stored: str, workflow: str) -> str:
    """Return the workflow of a run; raise ValidationError if the caller names another one than is stored."""
    if stored and workflow and stored != workflow:
        raise ValidationError(f"run {run!r} belongs to workflow {stored!r}, not to {workflow!r}")
    return stored or workflow


def put_run(
    tx: Transaction,
    run: str,
    workflow: str = "",
    agent: str = "",
    metadata: Mapping[str, Any] | None = None,
    status: RunStatus | None = None,
) -> Record:
    """Return a run after adding or updating it. Without a status, an existing run keeps its own."""
    id, now = make_id("run", tx.engine.project, run), to_iso(tx.engine.clock())
    record = tx.find(id)
    new: dict[str, Any] = {"workflow": "", "run": run, "metadata": {}, "started_at": now}
    stored: Mapping[str, Any] = record.body if record else new
    body = {**stored, "workflow": match_workflow(run, stored["workflow"], workflow)}
    body["metadata"] = {**stored["metadata"], **(metadata or {})}
    if status is not None or record is None:
        is_over = status not in (None, RunStatus.RUNNING)
        body |= {"status": str(status or RunStatus.RUNNING), "ended_at": now if is_over else None}
    if record is None:
        return tx.add("run", body, id=id, agent=agent, session=run)
    return tx.change(record, body)


def find_checkpoints(
    engine: Engine, run: str, node: str = "", branch: str = "", limit: int | None = None
) -> list[Record]:
    """Return the checkpoints of a run, newest first."""
    keys, tags = {make_id("branch", run, branch)} if branch else None, {f"node:{node}"} if node else None
    return scan_records(engine, "checkpoint", limit, sessions={run}, keys=keys, tagged=tags)


def find_latest(engine: Engine, run: str, node: str = "", branch: str = "") -> Record | None:
    """Return the newest checkpoint of a run, optionally of one node or branch, or None."""
    return next(iter(find_checkpoints(engine, run, node, branch, 1)), None)


def get_tip(engine: Engine, run: str, branch: str) -> Record:
    """Return the newest checkpoint of a branch; raise NotFoundError with the run's branches if there is none."""
    if record := find_latest(engine, run, branch=branch):
        return record
    get_run(engine, run)
    branches = dict.fromkeys(one.body["branch"] for one in find_checkpoints(engine, run))
    hint = f"Its branches: {', '.join(branches)}." if branches else "It has no checkpoints yet."
    raise NotFoundError(f"run {run!r} has no checkpoint on branch {branch!r}. {hint}")


_BY_KIND = ("nearest_by_kind", "match_by_kind")
"""The optional searches of a store over several kinds."""


@dataclass(frozen=True, slots=True)
class WideStore:
    """A store that searches several projects, and optionally the memories of all agents, in place of one project."""

    store: Store
    project: str
    projects: set[str]
    everyone: bool

    def _widen(self, where: Where) -> Where:
        if where.projects is None or self.project not in where.projects:
            return where
        agents = None if self.everyone else where.agents
        return replace(where, projects=self.projects | set(where.projects), agents=agents)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        if name in _BY_KIND:
            return lambda query, where, limits: method(query, self._widen(where), limits)
        return method

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Yield the matching records of all projects, newest first."""
        return self.store.scan(self._widen(where), limit)

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the matching records of all projects that are nearest to a vector."""
        return self.store.nearest(vector, self._widen(where), limit)

    def match(self, words: str, where: Where, limit: int) -> list[Hit]:
        """Return the matching records of all projects that contain the words."""
        return by_words(self.store, words, self._widen(where), limit)

    def snapshot(self) -> AbstractContextManager[None]:
        """Return a context in which all reads see the same state of the store."""
        return read_snapshot(self.store)


_ENDED = {Result.SUCCESS: RunStatus.COMPLETED, Result.PARTIAL: RunStatus.COMPLETED, Result.FAILURE: RunStatus.FAILED}


def _check_strategies(label: str, value: Iterable[str]) -> list[str]:
    strategies = [value] if isinstance(value, str) else validate.items(label, value, "texts")
    if not strategies:
        raise ValidationError(f"{label} is empty; pass at least one strategy")
    return [validate.text(label, one) for one in strategies]


operation = Group("workflows", lambda alma: WorkflowMemory(alma))

RunId = Annotated[str, About("the run's name", check=check_id)]
AnyRun = Annotated[str | None, About("only this run", check=check_optional_id)]
NodeId = Annotated[str, About("the node's name", check=check_id)]
AnyNode = Annotated[str | None, About("only this node", check=check_optional_id)]
Branch = Annotated[str, About("the branch", check=check_id)]
AnyBranch = Annotated[str | None, About("only this branch", check=check_optional_id)]
WorkflowId = Annotated[str | None, About("the workflow's name", check=check_optional_id)]
By = Annotated[str | None, About("the agent", check=validate.name)]
Limit = Annotated[int, About("maximum results", least=1, most=_MOST)]


@dataclass(frozen=True, slots=True)
class Resumed:
    """The checkpoint to resume from."""

    checkpoint: Checkpoint | None  # None if the run, node or branch has no checkpoint.


@dataclass(frozen=True, slots=True)
class Erased:
    """How many checkpoints were erased."""

    count: int


@dataclass(frozen=True, slots=True)
class Merged:
    """The state that several branches were merged into."""

    state: dict[str, Any]
    sources: dict[str, str] = field(default_factory=dict)  # By branch: the checkpoint that was merged.


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs, newest first; or one run with its checkpoints."""

    runs: list[Run]
    checkpoints: list[Checkpoint]  # Filled only if one run was requested.


class WorkflowMemory(OwnsMemory):
    """Checkpoints, artifacts and scoped memories of the workflows of a project.

    Pass a memory, or the name of a project of the configured memory. With `tenant_id`, everything is stored and
    retrieved for that tenant only: it is invisible to other tenants and to callers without a tenant.
    """

    def __init__(
        self,
        alma: ALMA | str | None = None,
        project_id: str | None = None,
        *,
        tenant_id: str | None = None,
        max_state_bytes: int = MAX_STATE_BYTES,
    ) -> None:
        if isinstance(alma, str):
            alma, project_id = None, alma
        name = None if project_id is None else validate.name("project_id", project_id)
        self.tenant_id = check_optional_id("tenant_id", tenant_id)
        self.max_state_bytes = validate.whole("max_state_bytes", max_state_bytes, 1, 2**30)
        super().__init__(alma, name)
        self._shared = replace(self.alma.engine, project=name or self.alma.project_id)
        self.engine = choose_project(self._shared, self.tenant_id)

    @property
    def project_id(self) -> str:
        """The project whose workflows these are, without the tenant."""
        return self._shared.project

    # -- runs

    @operation(Effect.CHANGES, idempotent=True)
    def update_run(
        self,
        run_id: Annotated[str | None, About("the run's name (default: a new name)", check=check_id)] = None,
        workflow_id: WorkflowId = None,
        status: Annotated[RunStatus | str | None, About("the new status, or leave it out to keep it")] = None,
        *,
        agent: By = None,
        metadata: words.Metadata = None,
    ) -> Run:
        """Start a run of a workflow, continue one, or record how it ended.

        Notes:
            An unknown run is started if its workflow is named.
        """
        if run_id and not workflow_id:
            self.get_run(run_id)
        elif not workflow_id:
            raise ValidationError("pass workflow_id to start a run, or run_id to continue one")
        run, name, state = run_id or new_id("run"), self._agent(agent), RunStatus(status) if status else None
        record = write(self.engine, lambda tx: put_run(tx, run, workflow_id or "", name, metadata, state))
        return decode_record(Run, record, STORED_AS)

    def start_run(
        self,
        workflow_id: str,
        run_id: str | None = None,
        *,
        agent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Run:
        """Start a run of a workflow, or continue the run with that id, and return it."""
        workflow = check_id("workflow_id", workflow_id)
        return self.update_run(run_id, workflow, RunStatus.RUNNING, agent=agent, metadata=metadata)

    def get_run(self, run_id: str) -> Run:
        """Return one run; raise NotFoundError if it does not exist."""
        return decode_record(Run, get_run(self.engine, check_id("run_id", run_id)), STORED_AS)

    @operation(Effect.READS)
    def list_runs(
        self,
        workflow_id: WorkflowId = None,
        status: Annotated[RunStatus | str | None, About("only this status")] = None,
        limit: Limit = 50,
        *,
        run_id: Annotated[str | None, About("list the checkpoints of this run", check=check_optional_id)] = None,
        node_id: Annotated[str | None, About("only checkpoints of this node", check=check_optional_id)] = None,
        branch_id: Annotated[str | None, About("only checkpoints of this branch", check=check_optional_id)] = None,
    ) -> RunList:
        """List runs of workflows, newest first; or one run's checkpoints, newest first."""
        if run_id and (workflow_id or status):
            raise ValidationError("pass run_id to show one run, or workflow_id and `status` to list runs, not both")
        if run_id:
            records = find_checkpoints(self.engine, run_id, node_id or "", branch_id or "", limit)
            checkpoints = [decode_record(Checkpoint, record, STORED_AS) for record in records]
            return RunList([self.get_run(run_id)], checkpoints)
        if node_id or branch_id:
            raise ValidationError("node_id and branch_id select checkpoints of one run: pass run_id with them")
        runs = [decode_record(Run, record, STORED_AS) for record in scan_records(self.engine, "run")]
        fits = (one for one in runs if workflow_id in (None, "", one.workflow_id) and status in (None, one.status))
        return RunList(list(fits)[:limit], [])

    # -- checkpoints

    @operation(Effect.ADDS, idempotent=True)
    def checkpoint(
        self,
        run_id: RunId,
        node_id: NodeId,
        state: Annotated[
            Mapping[str, Any],
            About("the state, a JSON object", check=take_as_given, json=dict[str, Any]),
        ],
        branch_id: Branch = MAIN,
        *,
        workflow_id: WorkflowId = None,
        agent: By = None,
        metadata: words.Metadata = None,
        from_branch: Annotated[
            str | None, About("the branch that a new branch starts from", check=check_optional_id)
        ] = None,
        skip_if_unchanged: Annotated[bool, About("", for_python=True)] = True,
        redact: Annotated[bool, About("remove secrets instead of refusing the state")] = False,
    ) -> Checkpoint:
        """Save the state of a run after a node, so that the run can resume from there.

        Notes:
            The checkpoint is durable once this returns. A state that contains a secret is refused, or stored without
            it if `redact` is set; `Checkpoint.redacted` then lists where. If the newest checkpoint of the branch has
            the same node and state, nothing is written and that checkpoint is returned with `unchanged` set.
        """
        body = {"run": run_id, "node": node_id, "branch": branch_id, "metadata": metadata or {}, "state": state}
        origin = get_tip(self.engine, run_id, from_branch) if from_branch else None
        return self._write_checkpoint(body, agent, origin, workflow_id or "", skip=skip_if_unchanged, redact=redact)

    def _write_checkpoint(
        self, body: Mapping[str, Any], agent: str | None, origin: Record | None, workflow: str = "", *,
        skip: bool = False, redact: bool = False, is_fork: bool = False,
    ) -> Checkpoint:  # fmt: skip
        """Write a checkpoint and return it.

        With `skip`, nothing is written if the newest checkpoint of the branch has the same node and state. `origin` is
        the checkpoint that a new branch is forked from.
        """
        engine, who, run, branch, node = self.engine, self._agent(agent), body["run"], body["branch"], body["node"]
        state, digest, size = read_state(body["state"], UNLIMITED if is_fork else self.max_state_bytes)
        draft = draft_record(engine, "checkpoint", {**body, "state": state}, agent=who, session=run)
        places = find_redacted(state, draft.body["state"])
        if places and not redact:
            raise refuse_secrets(places)
        if places:
            _, digest, size = read_state(draft.body["state"], UNLIMITED)

        def step(tx: Transaction) -> Checkpoint:
            # Read first, so that a writer in between shows up as a conflict on the number.
            last = find_latest(engine, run, branch=branch)
            if last and is_fork:
                raise ValidationError(f"run {run!r} already has a branch {branch!r}; choose another branch name")
            if last and skip and (last.body["digest"], last.body["node"]) == (digest, node):
                return decode_record(Checkpoint, last, STORED_AS, unchanged=True)
            owner = put_run(tx, run, workflow, who, status=RunStatus.RUNNING)
            newest, before = find_latest(engine, run), last or origin
            number = last.body["number"] + 1 if last else 1
            whole = {**draft.body, "digest": digest, "size": size, "redacted": places, "number": number}
            whole |= {"workflow": owner.body["workflow"], "parent": before and before.id}
            whole["base"] = last.body["base"] if last else origin and origin.id
            moment = max([engine.clock(), *([newest.created_at + _TICK] if newest else [])])
            record = replace(
                draft,
                id=make_id("chk", engine.project, run, branch, str(number)),
                key=make_id("branch", run, branch),
                tags=(f"node:{node}",),
                links=(owner.id,),
                body=whole,
                created_at=moment,
                updated_at=moment,
            )
            return decode_record(Checkpoint, tx.put(record), STORED_AS)

        return write(engine, step)

    def resume(self, run_id: str, node_id: str | None = None, branch_id: str | None = None) -> Checkpoint | None:
        """Return the newest checkpoint of a run, or None if that run, node or branch has none."""
        node, branch = check_optional_id("node_id", node_id), check_optional_id("branch_id", branch_id)
        record = find_latest(self.engine, check_id("run_id", run_id), node, branch)
        return None if record is None else decode_record(Checkpoint, record, STORED_AS)

    @operation(Effect.READS, "resume", answer=Resumed)
    def find_checkpoint(self, run_id: RunId, node_id: AnyNode = None, branch_id: AnyBranch = None) -> Checkpoint | None:
        """Return the newest checkpoint of a run, to resume from.

        Notes:
            Returns None if the run, node or branch has no checkpoint.
        """
        self.get_run(run_id)
        return self.resume(run_id, node_id, branch_id)

    @operation(Effect.ERASES, idempotent=True, answer=Erased)
    def cleanup_checkpoints(
        self,
        run_id: AnyRun = None,
        keep_latest: Annotated[int, About("checkpoints to keep per branch", least=1, most=_MOST)] = 10,
        older_than: Annotated[
            timedelta | datetime | str | None,
            About("only checkpoints from before this time", check=take_as_given, json=str | None),
        ] = None,
    ) -> int:
        """Delete old checkpoints. The newest checkpoint of each branch is always kept.

        Notes:
            `older_than` may also be an age. Every run can still be resumed afterwards, and the checkpoint a kept
            branch was forked from is kept for merging. Without `run_id`, cleans all runs of the project.
        """
        sessions = {self.get_run(run_id).run_id} if run_id else None
        if isinstance(older_than, timedelta):
            if older_than < timedelta(0):
                raise ValidationError(f"older_than must be a time, or an age of at least 0, not {older_than}")
            older_than = self.engine.clock() - older_than
        before = validate.moment("older_than", older_than)
        seen: Counter[str] = Counter()
        old, bases = [], set()
        for record in scan_records(self.engine, "checkpoint", sessions=sessions):
            seen[record.key] += 1
            if seen[record.key] <= keep_latest or (before is not None and record.created_at >= before):
                bases.add(record.body["base"])
            else:
                old.append(record.id)
        return self.engine.store.delete([id for id in old if id not in bases])

    # -- branches

    def fork(self, run_id: str, branch_id: str, from_branch: str = MAIN, *, agent: str | None = None) -> Checkpoint:
        """Fork a branch from the newest checkpoint of another one; return its first checkpoint, with the same state."""
        run, branch = check_id("run_id", run_id), check_id("branch_id", branch_id)
        tip = get_tip(self.engine, run, check_id("from_branch", from_branch))
        body = {"run": run, "node": tip.body["node"], "branch": branch, "metadata": {}, "state": tip.body["state"]}
        return self._write_checkpoint(body, agent, tip, is_fork=True)

    merge_states = staticmethod(merge_states)

    @operation(Effect.READS, "merge_states")
    def combine_states(
        self,
        states: Annotated[list[dict[str, Any]] | None, About("the states of the branches")] = None,
        reducers: Annotated[
            Mapping[str, Reducer] | None,
            About(f"how to merge, by key: {', '.join(REDUCERS)}", check=take_as_given, json=dict[str, str] | None),
        ] = None,
        base: Annotated[dict[str, Any] | None, About("the state all branches started from")] = None,
        default: Annotated[
            Reducer | None, About("the reducer for all other keys", check=take_as_given, json=str | None)
        ] = None,
        *,
        run_id: Annotated[str | None, About("merge branches of this run instead", check=check_id)] = None,
        branches: Annotated[Iterable[str] | None, About("the branches to merge", check=validate.names)] = None,
    ) -> Merged:
        """Merge the states of several branches into one, key by key. Nothing is stored.

        Notes:
            If the branches of a run were forked from one checkpoint, a key that only one of them changed is not a
            conflict.
        """
        if (run_id is None) is (states is None):
            raise ValidationError("pass `states`, or run_id with `branches`, not both")
        if run_id is None:
            return Merged(merge_states(states or [], reducers, base=base, default=default))
        tips = [get_tip(self.engine, run_id, name) for name in branches or ()]
        if not tips:
            raise ValidationError("branches is empty; pass at least one branch")
        origins = {tip.body["base"] for tip in tips if tip.body["base"]}
        bases = self.engine.store.get(list(origins)) if len(origins) == 1 else []
        # The common base is known only if every branch was forked from it, or is the branch it is on.
        rootless = {tip.body["branch"] for tip in tips if not tip.body["base"]}
        if base is None and bases and not rootless - {bases[0].body["branch"]}:
            base = bases[0].body["state"]
        merged = merge_states(
            {tip.body["branch"]: tip.body["state"] for tip in tips}, reducers, base=base, default=default
        )
        return Merged(merged, {tip.body["branch"]: tip.id for tip in tips})

    def merge_branches(
        self,
        run_id: str,
        branches: Iterable[str],
        node_id: str,
        into: str = MAIN,
        reducers: Mapping[str, Reducer] | None = None,
        *,
        default: Reducer | None = None,
        agent: str | None = None,
    ) -> Checkpoint:
        """Merge the newest states of branches and store the result as a checkpoint of `into`.

        Raises ValidationError, and stores nothing, if a key is in conflict or a reducer does not fit its values.
        """
        merged = self.combine_states(reducers=reducers, default=default, run_id=run_id, branches=branches)
        return self.checkpoint(run_id, node_id, merged.state, into, agent=agent, metadata={"merged": merged.sources})

    # -- artifacts: identified by their location, compared by their digest

    @operation(Effect.ADDS, idempotent=True)
    def link_artifact(
        self,
        run_id: RunId,
        location: Annotated[
            str | os.PathLike[str], About("a file or a URI; URIs are not fetched", local=True, uri=True)
        ],
        *,
        node_id: Annotated[str | None, About("the node that created it", check=check_optional_id)] = None,
        name: Annotated[str | None, About("the artifact's name", check=validate.name)] = None,
        kind: Annotated[str, About("the kind of artifact", check=validate.name)] = "file",
        digest: Annotated[str | None, About("its SHA-256")] = None,
        size: Annotated[int | None, About("its size in bytes", least=0, most=2**63)] = None,
        agent: By = None,
        metadata: words.Metadata = None,
    ) -> Artifact:
        """Record an artifact of a run: a file or a URI.

        Notes:
            The digest and size of a file are computed. Linking the same location in the same run and node again
            updates the artifact's digest.
        """
        content = read_content(location, digest, size)
        content |= {"kind": kind, "metadata": metadata or {}, "name": name or content["name"]}
        engine, who, node = self.engine, self._agent(agent), node_id or ""
        refuse_misspelt(engine, run_id)
        id = make_id("art", engine.project, run_id, node, content["path"])

        def step(tx: Transaction) -> Record:
            record = tx.find(id)
            owner = put_run(tx, run_id, agent=who)
            body = {**content, "workflow": owner.body["workflow"], "run": run_id, "node": node}
            if record is None:
                return tx.add("artifact", body, id=id, agent=who, session=run_id, links=(owner.id,))
            return tx.change(record, body)

        return decode_record(Artifact, write(engine, step), STORED_AS)

    @operation(Effect.READS)
    def get_artifacts(
        self,
        run_id: AnyRun = None,
        *,
        node_id: AnyNode = None,
        workflow_id: WorkflowId = None,
        kind: Annotated[str | None, About("only this kind")] = None,
        limit: Limit = 100,
    ) -> list[Artifact]:
        """List the artifacts of runs, newest first."""
        sessions = {self.get_run(run_id).run_id} if run_id else None
        artifacts = scan_records(self.engine, "artifact", sessions=sessions)
        for name, value in (("node", node_id), ("workflow", workflow_id), ("kind", kind)):
            artifacts = [record for record in artifacts if value in (None, "", record.body[name])]
        return [decode_record(Artifact, record, STORED_AS) for record in artifacts[:limit]]

    # -- learning and retrieving

    @operation(Effect.ADDS, "workflow_learn")
    def learn_from_workflow(
        self,
        run_id: RunId,
        agent: words.Agent,
        outcome: words.OutcomeOf,
        strategy_used: Annotated[
            str | Iterable[str],
            About(
                "how it was done; one outcome is recorded for each strategy",
                check=_check_strategies,
                shown_as="strategies_used",
                json=list[str],
            ),
        ],
        task: Annotated[str | None, About("the task (default: the workflow or node)")] = None,
        *,
        workflow_id: WorkflowId = None,
        node_id: Annotated[
            str | None,
            About("record it for this node only; if omitted, the run is ended too", check=check_optional_id),
        ] = None,
        task_type: Annotated[str | None, About("the kind of task")] = None,
        duration_ms: Annotated[int | None, About("duration in milliseconds", least=0, most=10**15)] = None,
        error_message: Annotated[str | None, About("the error message, if it failed", check=validate.output)] = None,
        feedback: Annotated[str | None, About("what the user said about the result")] = None,
        retrieval_id: Annotated[str | None, About("the retrieval whose memories you used")] = None,
        user_id: words.User = None,
        tenant_id: Annotated[str | None, About("the tenant it is stored for", check=check_optional_id)] = None,
        metadata: words.Metadata = None,
    ) -> list[Outcome]:
        """Record the outcome of a workflow run, or of one of its nodes.

        Notes:
            It is retrieved like any other outcome. A run that was not started is started if its workflow is named.
        """
        arguments = dict(locals())
        if tenant_id and tenant_id != self.tenant_id:
            if self.tenant_id:
                raise ScopeError(
                    f"this memory belongs to tenant {self.tenant_id!r} and may not write for {tenant_id!r}"
                )
            theirs = WorkflowMemory(self.alma, self.project_id, tenant_id=tenant_id)
            del arguments["self"]
            return theirs.learn_from_workflow(**arguments)
        place = self._place(run_id, workflow_id, node_id)
        for own in ("self", "run_id", "workflow_id", "node_id", "strategy_used", "tenant_id"):
            del arguments[own]
        if not place.workflow:
            self.get_run(run_id)
            if not task:
                raise ValidationError("task is required, because the run has no workflow to name it after: pass `task`")
        usual = f"{place.workflow}: {place.node}" if place.node else f"Run the workflow {place.workflow}"
        arguments |= {"task": task or usual, "metadata": {**place._asdict(), **(metadata or {})}}
        calls = [OPERATIONS["learn"].complete({**arguments, "strategy_used": one}) for one in strategy_used]
        place_fields = {"session": run_id, "tags": tuple(place.make_tags().values())}
        outcomes = learn_outcomes(self.engine, [build_outcome(self.engine, {**one, **place_fields}) for one in calls])

        status = None if place.node else _ENDED[Result(calls[0]["outcome"])]
        write(self.engine, lambda tx: put_run(tx, run_id, place.workflow, status=status))
        now = self.engine.clock()
        return [value for record in outcomes if isinstance(value := to_memory(record, now), Outcome)]

    @operation(Effect.READS, answer=to_retrieved)
    def retrieve_scoped(
        self,
        task: words.Task,
        agent: words.Agent,
        scope: Annotated[Scope | str, About("how widely to search; each scope includes those before it")] = Scope.AGENT,
        *,
        workflow_id: WorkflowId = None,
        run_id: AnyRun = None,
        node_id: AnyNode = None,
        tenant_id: Annotated[str | None, About("the tenant's name", check=check_optional_id)] = None,
        user_id: words.User = None,
        top_k: Annotated[int | None, About("maximum results per type", least=1, most=1000)] = None,
        mode: words.Mode = "default",
        types: words.Types = None,
    ) -> MemorySlice:
        """Find memories relevant to a task within a scope, such as a node, run or workflow.

        Notes:
            'node' is one node of a run (or of a workflow, if no run is named), 'run' is one run, and 'workflow' is all
            runs of a workflow, each for the agent and those that share with it. 'agent' is everything the agent may
            read, 'tenant' is what all agents of a tenant know, and 'global' adds what belongs to no tenant. No scope
            includes another tenant.
        """
        if self.tenant_id and tenant_id not in (None, "", self.tenant_id):
            raise ScopeError(f"this memory belongs to tenant {self.tenant_id!r} and may not read that of {tenant_id!r}")
        tenant = self.tenant_id or tenant_id or ""
        if scope == Scope.TENANT and not tenant:
            raise ValidationError("the scope 'tenant' needs tenant_id")
        engine = choose_project(self._shared, tenant)
        if run_id:
            refuse_misspelt(engine, run_id)
        place = self._place(run_id, workflow_id, node_id, engine)
        if scope in (Scope.TENANT, Scope.GLOBAL):
            projects = {engine.project, self._shared.project} if scope == Scope.GLOBAL else {engine.project}
            # Where agents are declared, their own sharing rules apply in every scope.
            everyone = not engine.scopes.agents
            store = WideStore(engine.store, engine.project, projects, everyone)
            engine = replace(engine, store=cast(Store, store))
        options = {"task": task, "agent": agent, "user_id": user_id, "top_k": top_k, "mode": mode, "types": types}
        request = build_request(engine, options | {"level": "session"})
        return retrieve_memories(engine, request._replace(tags=place.find_tags(Scope(scope))))

    def tags(self, workflow_id: str = "", run_id: str = "", node_id: str = "") -> tuple[str, ...]:
        """Return the tags of a place; memories stored with them are retrieved from every enclosing scope."""
        return tuple(self._place(run_id, workflow_id, node_id).make_tags().values())

    def _place(
        self, run: str | None, workflow: str | None, node: str | None, engine: Engine | None = None
    ) -> WorkflowPlace:
        """Return the place of a memory; a stored run supplies its workflow."""
        record = find_run(engine or self.engine, run) if run else None
        stored = record.body["workflow"] if record else ""
        return WorkflowPlace(match_workflow(run or "", stored, workflow or ""), run or "", node or "")

    def _agent(self, agent: str | None) -> str:
        return "" if agent is None else self.engine.agent(agent)
