"""`WorkflowMemory`: what a workflow needs to go on after it was interrupted, and to do better the next time.

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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..codec import decode_record
from ..engine import things, validate
from ..engine.admit import build, clean, screen
from ..engine.context import Engine
from ..engine.outcomes import learn as learn_episodes
from ..engine.retrieve.pipeline import retrieve as retrieve_memories
from ..engine.search import by_words, read_snapshot
from ..engine.transaction import Transaction, write
from ..engine.view import view
from ..errors import NotFoundError, ScopeError, ValidationError
from ..opening import Holder
from ..ports import Store
from ..text import digest as make_digest
from ..types.kinds import Outcome, Result
from ..types.query import Hit, Where
from ..types.record import Record, new_id
from ..types.slice import MemorySlice
from ..types.times import to_iso
from ..types.vector import Vector
from .states import (
    MAX_STATE_BYTES,
    UNLIMITED,
    Reducer,
    State,
    find_differences,
    merge_states,
    read_state,
    refuse_secrets,
)

if TYPE_CHECKING:
    from ..core import ALMA

MAIN = "main"
_MOST = 100_000
_TICK = timedelta(microseconds=1)
_BATCH = 500
# A drive letter (`C:\\x`) is no scheme, and a file may have a colon in its name.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|urn:")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_LOCATION = 4_000


class RunStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_ENDED = {Result.SUCCESS: RunStatus.COMPLETED, Result.PARTIAL: RunStatus.COMPLETED, Result.FAILURE: RunStatus.FAILED}


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


_STORED_AS = {
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


class WorkflowMemory(Holder):
    """Checkpoints, artifacts and scoped memories of the workflows of a project.

    Pass a memory, or the name of a project of the memory that is configured here. With `tenant_id` all that is kept
    and found is the tenant's own: no other tenant and nobody who asks without one gets to see it.
    """

    def __init__(
        self,
        alma: ALMA | str | None = None,
        project_id: str | None = None,
        *,
        tenant_id: str | None = None,
        max_state_bytes: int = MAX_STATE_BYTES,
    ) -> None:
        project = alma if isinstance(alma, str) else project_id
        named = None if project is None else validate.name("project_id", project)
        [self.tenant_id] = _check_ids(tenant_id=tenant_id)
        self.max_state_bytes = validate.whole("max_state_bytes", max_state_bytes, 1, 2**30)
        super().__init__(None if isinstance(alma, str) else alma, named)
        engine = self.alma.engine
        self._shared = engine if named is None else replace(engine, project=named)
        self.engine = _choose_project(self._shared, self.tenant_id)

    @property
    def project_id(self) -> str:
        return self._shared.project

    # -- runs

    def start_run(
        self,
        workflow_id: str,
        run_id: str | None = None,
        *,
        agent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Run:
        """Begin a run, or go on with the one of that name."""
        run = new_id("run") if run_id is None else _check_id("run_id", run_id)
        workflow, name = _check_id("workflow_id", workflow_id), self._agent(agent)
        extra = validate.metadata(metadata)
        record = write(self.engine, lambda tx: _open_run(tx, run, workflow, name, extra))
        return decode_record(Run, record, _STORED_AS)

    def end_run(self, run_id: str, status: str = RunStatus.COMPLETED) -> Run:
        """Say how a run ended: 'completed', 'failed' or 'cancelled'."""
        ending, run = validate.choice("status", status, RunStatus), _check_id("run_id", run_id)
        return decode_record(Run, write(self.engine, lambda tx: _end_run(tx, run, ending)), _STORED_AS)

    def get_run(self, run_id: str) -> Run:
        """One run by its name."""
        return decode_record(Run, _get_run(self.engine, _check_id("run_id", run_id)), _STORED_AS)

    def list_runs(self, workflow_id: str | None = None, status: str | None = None, limit: int = 50) -> list[Run]:
        """Runs, newest first."""
        most = validate.whole("limit", limit, 1, _MOST)
        [workflow] = _check_ids(workflow_id=workflow_id)
        wanted = None if status is None else validate.choice("status", status, RunStatus)
        runs = [decode_record(Run, record, _STORED_AS) for record in things.scan(self.engine, "run")]
        return [one for one in runs if wanted in (None, one.status) and workflow in ("", one.workflow_id)][:most]

    # -- checkpoints

    def checkpoint(
        self,
        run_id: str,
        node_id: str,
        state: Mapping[str, Any],
        branch_id: str = MAIN,
        *,
        workflow_id: str | None = None,
        agent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        skip_if_unchanged: bool = True,
        redact: bool = False,
    ) -> Checkpoint:
        """Keep the state of a run after a node; once this returns, it survives whatever happens to the process.

        The state is JSON and comes back exactly. One that holds a secret is refused, or with `redact` kept without it:
        `Checkpoint.redacted` then says where. A state that the newest checkpoint of the branch already holds for the
        same node is not written again, and that checkpoint is returned with `unchanged` set.
        """
        place = {
            "run": _check_id("run_id", run_id),
            "node": _check_id("node_id", node_id),
            "branch": _check_id("branch_id", branch_id),
        }
        content = read_state(state, self.max_state_bytes)
        [workflow] = _check_ids(workflow_id=workflow_id)
        body = {**place, "metadata": validate.metadata(metadata)}
        return self._save_checkpoint(body, content, agent, workflow=workflow, skip=skip_if_unchanged, redact=redact)

    def _save_checkpoint(
        self,
        body: Mapping[str, Any],
        state: State,
        agent: str | None,
        *,
        workflow: str = "",
        skip: bool = True,
        redact: bool = False,
        origin: Record | None = None,
    ) -> Checkpoint:
        """Write it, unless the newest of its branch is of the same node and holds the same state.

        The body names the run, the node and the branch; `origin` is the checkpoint that a new branch begins at.
        """
        engine, run, node, branch = self.engine, body["run"], body["node"], body["branch"]

        def find_unchanged(digest: str) -> tuple[Record | None, Checkpoint | None]:
            """Return the newest checkpoint of the branch, and its value if it holds that state."""
            last = _find_latest(engine, run, branch=branch)
            if last is None or not skip or (last.body["digest"], last.body["node"]) != (digest, node):
                return last, None
            return last, decode_record(Checkpoint, last, _STORED_AS, unchanged=True)

        if same := find_unchanged(state.digest)[1]:
            return same
        name = self._agent(agent)
        draft = things.draft("checkpoint", {**body, "state": state.value}, agent=name, session=run)
        draft = screen(engine, draft)
        places = list(find_differences(state.value, draft.body["state"]))
        if places and not redact:
            raise refuse_secrets(places)
        content = read_state(draft.body["state"], UNLIMITED) if places else state

        def step(tx: Transaction) -> Checkpoint:
            # Read first: a writer in between is met as a conflict on the number.
            last, same = find_unchanged(content.digest)
            if last is not None and origin is not None:
                raise ValidationError(f"run {run!r} already has a branch {branch!r}; choose another name")
            if same:
                return same
            owner, newest = _open_run(tx, run, workflow, name), _find_latest(engine, run)
            before, number = last or origin, last.body["number"] + 1 if last else 1
            moment = engine.clock() if newest is None else max(engine.clock(), newest.created_at + _TICK)
            whole = {
                **draft.body,
                "digest": content.digest,
                "size": content.size,
                "redacted": places,
                "workflow": owner.body["workflow"],
                "number": number,
                "parent": before and before.id,
                "base": last.body["base"] if last else origin.id if origin else None,
            }
            record = build(
                engine,
                replace(draft, body=whole),
                (),
                id=_make_id("chk", engine.project, run, branch, str(number)),
                key=_make_id("branch", run, branch),
                tags=(f"node:{node}",),
                links=(owner.id,),
                created_at=moment,
                updated_at=moment,
            )
            return decode_record(Checkpoint, tx.put(record), _STORED_AS)

        return write(engine, step)

    def resume(self, run_id: str, node_id: str | None = None, branch_id: str | None = None) -> Checkpoint | None:
        """The newest checkpoint of a run, perhaps of one node or branch; None when there is none to go on from."""
        run, (node, branch) = _check_id("run_id", run_id), _check_ids(node_id=node_id, branch_id=branch_id)
        record = _find_latest(self.engine, run, node, branch)
        return None if record is None else decode_record(Checkpoint, record, _STORED_AS)

    def history(
        self, run_id: str, node_id: str | None = None, branch_id: str | None = None, limit: int = 100
    ) -> list[Checkpoint]:
        """The checkpoints of a run, newest first."""
        run, (node, branch) = self.get_run(run_id).run_id, _check_ids(node_id=node_id, branch_id=branch_id)
        most = validate.whole("limit", limit, 1, _MOST)
        records = _find_checkpoints(self.engine, run, node, branch, most)
        return [decode_record(Checkpoint, record, _STORED_AS) for record in records]

    def cleanup_checkpoints(
        self,
        run_id: str | None = None,
        keep_latest: int = 10,
        older_than: timedelta | datetime | str | None = None,
    ) -> int:
        """Erase checkpoints beyond the newest of each branch; how many were erased.

        With `older_than` (an age or a moment) only those that are older. The newest of a branch always stays, so that
        every run can be resumed, and so does what a branch that is kept began at: it is needed to merge it. Without
        `run_id` all runs of the project are cleaned.
        """
        sessions = None if run_id is None else {self.get_run(run_id).run_id}
        keep = validate.whole("keep_latest", keep_latest, 1, _MOST)
        if isinstance(older_than, timedelta):
            if older_than < timedelta(0):
                raise ValidationError(f"older_than must be an age of at least 0, not {older_than}")
            older_than = self.engine.clock() - older_than
        before = validate.moment("older_than", older_than)
        seen: Counter[str] = Counter()
        old, bases = [], set()
        for record in things.scan(self.engine, "checkpoint", sessions=sessions):
            seen[record.key] += 1
            if seen[record.key] <= keep or (before is not None and record.created_at >= before):
                bases.add(record.body["base"])
            else:
                old.append(record.id)
        gone = [id for id in old if id not in bases]
        return sum(self.engine.store.delete(gone[start : start + _BATCH]) for start in range(0, len(gone), _BATCH))

    # -- branches

    def fork(self, run_id: str, branch_id: str, from_branch: str = MAIN, *, agent: str | None = None) -> Checkpoint:
        """Begin a branch at the newest checkpoint of another; its first checkpoint holds the same state."""
        run = _check_id("run_id", run_id)
        origin = _get_tip(self.engine, run, _check_id("from_branch", from_branch))
        branch = _check_id("branch_id", branch_id)
        body = {"run": run, "node": origin.body["node"], "branch": branch, "metadata": {}}
        state = read_state(origin.body["state"], UNLIMITED)
        return self._save_checkpoint(body, state, agent, skip=False, origin=origin)

    merge_states = staticmethod(merge_states)

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
        """Merge the newest states of branches and keep the result as a checkpoint of `into`.

        What the branches began at is known when they were forked from one checkpoint: a key that only one of them
        changed is then no conflict. If the reducers do not fit, nothing is written.
        """
        run = _check_id("run_id", run_id)
        tips = [_get_tip(self.engine, run, name) for name in validate.names("branches", branches)]
        if not tips:
            raise ValidationError("branches is empty; name at least one branch")
        origins = {tip.body["base"] for tip in tips if tip.body["base"]}
        bases = self.engine.store.get(list(origins)) if len(origins) == 1 else []
        # A branch without a beginning of its own counts only if it is the one that the others began at.
        rootless = {tip.body["branch"] for tip in tips if not tip.body["base"]}
        base = bases[0].body["state"] if bases and not rootless - {bases[0].body["branch"]} else None
        states = {tip.body["branch"]: tip.body["state"] for tip in tips}
        merged = merge_states(states, reducers, base=base, default=default)
        sources = {"merged": {tip.body["branch"]: tip.id for tip in tips}}
        return self.checkpoint(run, node_id, merged, into, agent=agent, metadata=sources)

    # -- artifacts: told apart by where they are, and known by their digest

    def link_artifact(
        self,
        run_id: str,
        location: str | os.PathLike[str],
        *,
        node_id: str | None = None,
        name: str | None = None,
        kind: str = "file",
        digest: str | None = None,
        size: int | None = None,
        agent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Artifact:
        """Note what a run made: a file, whose digest and size are taken, or a URI, which is not fetched.

        Linked again, the same place in the same run and node is one artifact, with the digest it has then.
        """
        run, [node] = _check_id("run_id", run_id), _check_ids(node_id=node_id)
        content = _read_content(location, digest, size)
        if name is not None:
            content["name"] = validate.name("name", name)
        content |= {"kind": validate.name("kind", kind), "metadata": validate.metadata(metadata)}
        engine, who = self.engine, self._agent(agent)
        id = _make_id("art", engine.project, run, node, content["path"])

        def step(tx: Transaction) -> Record:
            record = tx.find(id)
            owner = _open_run(tx, run, agent=who, resumes=False)
            body = {**content, "workflow": owner.body["workflow"], "run": run, "node": node}
            if record is None:
                draft = things.draft("artifact", body, agent=who, session=run)
                return tx.put(things.made(engine, draft, id=id, links=(owner.id,)))
            fresh = things.altered(engine, record, body)
            return record if fresh.body == record.body else tx.put(fresh)

        return decode_record(Artifact, write(engine, step), _STORED_AS)

    def get_artifacts(
        self,
        run_id: str | None = None,
        *,
        node_id: str | None = None,
        workflow_id: str | None = None,
        kind: str | None = None,
        limit: int = 100,
    ) -> list[Artifact]:
        """What was linked, newest first."""
        sessions = None if run_id is None else {self.get_run(run_id).run_id}
        most = validate.whole("limit", limit, 1, _MOST)
        wanted = _check_ids(node_id=node_id, workflow_id=workflow_id, kind=kind)
        records = things.scan(self.engine, "artifact", sessions=sessions)
        artifacts = [decode_record(Artifact, record, _STORED_AS) for record in records]
        named = [((one.node_id, one.workflow_id, one.kind), one) for one in artifacts]
        fits = (one for names, one in named if all(a in ("", b) for a, b in zip(wanted, names, strict=True)))
        return list(fits)[:most]

    # -- what is learned, and where it is found

    def learn_from_workflow(
        self,
        run_id: str,
        agent: str,
        outcome: str,
        strategy_used: str | Sequence[str],
        task: str | None = None,
        *,
        workflow_id: str | None = None,
        node_id: str | None = None,
        task_type: str | None = None,
        duration_ms: int | None = None,
        error_message: str | None = None,
        feedback: str | None = None,
        retrieval_id: str | None = None,
        user_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Outcome]:
        """Record how a run, or one node of it, went: an outcome for each strategy, retrieved like any other.

        `outcome` is 'success', 'partial' or 'failure'. Without a node the run is over. A run that nobody started is
        begun when its workflow is named.
        """
        given = dict(locals())
        for own in ("self", "run_id", "workflow_id", "node_id", "strategy_used"):
            del given[own]
        place = self._place(_check_id("run_id", run_id), workflow_id, node_id)
        if not place.workflow:
            self.get_run(place.run)
            if not task:
                raise ValidationError("task is missing, and the run does not say which workflow it is of: pass task")
        given["task"] = task or (
            f"{place.workflow}: {place.node}" if place.node else f"Run the workflow {place.workflow}"
        )
        names = {"workflow": place.workflow, "run": place.run, "node": place.node}
        given["metadata"] = {**names, **validate.metadata(metadata)}
        ways = [strategy_used] if isinstance(strategy_used, str) else list(strategy_used)
        checked = [arguments.episode(self.engine, {**given, "strategy_used": way}) for way in ways]
        if not checked:
            raise ValidationError("strategy_used is empty; name at least one strategy")
        episodes = [replace(one, session=place.run, tags=place.list_tags()) for one in checked]
        outcomes = learn_episodes(self.engine, episodes)

        def end(tx: Transaction) -> None:
            _open_run(tx, place.run, place.workflow, resumes=False)
            if not place.node:
                _end_run(tx, place.run, _ENDED[episodes[0].result])

        write(self.engine, end)
        now = self.engine.clock()
        return [value for record in outcomes if isinstance(value := view(record, now), Outcome)]

    def retrieve_scoped(
        self,
        task: str,
        agent: str,
        scope: str = Scope.AGENT,
        *,
        workflow_id: str | None = None,
        run_id: str | None = None,
        node_id: str | None = None,
        tenant_id: str | None = None,
        user_id: str | None = None,
        top_k: int | None = None,
        mode: str = "default",
        types: Iterable[str] | None = None,
    ) -> MemorySlice:
        """The memories that matter for a task, of nothing beyond the scope.

        'node' is one node of a run (or, without a run, of a workflow), 'run' one run, 'workflow' all its runs, each
        for the agent and those who share with it; 'agent' is all that the agent may read; 'tenant' is what all agents
        of a tenant know, and 'global' that and what belongs to no tenant. No scope reaches into another tenant.
        """
        wanted, [tenant] = validate.choice("scope", scope, Scope), _check_ids(tenant_id=tenant_id)
        if self.tenant_id and tenant not in ("", self.tenant_id):
            raise ScopeError(f"this memory is of tenant {self.tenant_id!r} and may not look into that of {tenant!r}")
        tenant = self.tenant_id or tenant
        if wanted is Scope.TENANT and not tenant:
            raise ValidationError("the scope 'tenant' needs tenant_id")
        engine = _choose_project(self._shared, tenant)
        place = self._place(run_id, workflow_id, node_id, engine)
        if wanted in (Scope.TENANT, Scope.GLOBAL):
            projects = {engine.project, self._shared.project} if wanted is Scope.GLOBAL else {engine.project}
            # Where agents are declared, each says itself whom it shares with, whatever the scope.
            wide = WideStore(engine.store, engine.project, frozenset(projects), everyone=not engine.scopes.agents)
            engine = replace(engine, store=wide)
        given = {"task": task, "agent": agent, "user_id": user_id, "top_k": top_k, "mode": mode, "types": types}
        request = arguments.request(engine, given | {"level": "session"})
        return retrieve_memories(engine, replace(request, tags=place.find_tags(wanted)))

    def tags(
        self, workflow_id: str | None = None, run_id: str | None = None, node_id: str | None = None
    ) -> tuple[str, ...]:
        """The tags of a place: a memory that is added or learned with them is found from the scopes around it."""
        return self._place(run_id, workflow_id, node_id).list_tags()

    def _place(
        self, run_id: str | None, workflow_id: str | None, node_id: str | None, engine: Engine | None = None
    ) -> Place:
        """Return where something belongs; a run that is known says of which workflow it is."""
        run, workflow, node = _check_ids(run_id=run_id, workflow_id=workflow_id, node_id=node_id)
        record = _find_run(engine or self.engine, run) if run else None
        return Place(_match_workflow(run, record.body["workflow"] if record else "", workflow), run, node)

    def _agent(self, agent: str | None) -> str:
        return "" if agent is None else arguments.agent(self.engine, agent)


def _check_id(label: str, value: object) -> str:
    """Return a name chosen by the caller. One that would be redacted could no longer be told from others."""
    name = validate.name(label, value)
    if clean(name) != name:
        raise ValidationError(f"{label} looks like a secret and would not be kept as it is; choose another name")
    return name


def _check_ids(**ids: object) -> list[str]:
    """Return optional names, empty where there is none."""
    return ["" if value is None or value == "" else _check_id(label, value) for label, value in ids.items()]


def _make_id(prefix: str, *parts: str) -> str:
    """Return the id of the one record there can be of these names; case and spaces make a difference."""
    return f"{prefix}_{make_digest(*(f'{len(part)}:{part}' for part in parts))}"


def _choose_project(engine: Engine, tenant: str) -> Engine:
    """Return the engine of the project that a tenant's memories are in."""
    name = f"{engine.project}@{tenant.replace('%', '%25').replace('@', '%40')}"
    return replace(engine, project=name) if tenant else engine


# -- runs and checkpoints as they are stored


def _find_run(engine: Engine, run: str) -> Record | None:
    return next(iter(engine.store.get([_make_id("run", engine.project, run)])), None)


def _get_run(engine: Engine, run: str) -> Record:
    record = _find_run(engine, run)
    if record is None:
        raise NotFoundError(
            f"there is no run {run!r} in project {engine.project!r}; start_run or a checkpoint makes one"
        )
    return record


def _match_workflow(run: str, known: str, workflow: str) -> str:
    if known and workflow and known != workflow:
        raise ValidationError(f"run {run!r} is one of workflow {known!r}, not of {workflow!r}")
    return known or workflow


def _open_run(
    tx: Transaction,
    run: str,
    workflow: str = "",
    agent: str = "",
    metadata: Mapping[str, Any] | None = None,
    *,
    resumes: bool = True,
) -> Record:
    """Return a run, made if it is new. With `resumes`, one that had ended goes on."""
    id = _make_id("run", tx.engine.project, run)
    record = tx.find(id)
    known: Mapping[str, Any] = record.body if record else {"workflow": "", "run": run, "metadata": {}}
    body = {**known, "workflow": _match_workflow(run, known["workflow"], workflow)}
    body["metadata"] = {**known["metadata"], **(metadata or {})}
    if resumes or record is None:
        body |= {"status": str(RunStatus.RUNNING), "ended_at": None}
    if record is None:
        draft = things.draft("run", body | {"started_at": to_iso(tx.engine.clock())}, agent=agent, session=run)
        return tx.put(things.made(tx.engine, draft, id=id))
    return record if body == known else tx.put(things.altered(tx.engine, record, body))


def _end_run(tx: Transaction, run: str, status: RunStatus) -> Record:
    record = tx.find(_make_id("run", tx.engine.project, run)) or _get_run(tx.engine, run)
    ended = None if status is RunStatus.RUNNING else to_iso(tx.engine.clock())
    return tx.update(record, body={**record.body, "status": str(status), "ended_at": ended})


def _find_checkpoints(
    engine: Engine, run: str, node: str = "", branch: str = "", limit: int | None = None
) -> list[Record]:
    """Return the checkpoints of a run, newest first."""
    keys = {_make_id("branch", run, branch)} if branch else None
    tagged = {f"node:{node}"} if node else None
    return things.scan(engine, "checkpoint", limit, sessions={run}, keys=keys, tagged=tagged)


def _find_latest(engine: Engine, run: str, node: str = "", branch: str = "") -> Record | None:
    return next(iter(_find_checkpoints(engine, run, node, branch, 1)), None)


def _get_tip(engine: Engine, run: str, branch: str) -> Record:
    """Return the newest checkpoint of a branch that must have one."""
    record = _find_latest(engine, run, branch=branch)
    if record is None:
        raise NotFoundError(f"run {run!r} has no checkpoint on branch {branch!r}")
    return record


def _read_content(location: str | os.PathLike[str], digest: str | None, size: int | None) -> dict[str, Any]:
    """Read a file for its digest; what a URI names is taken at the caller's word and never fetched."""
    place = validate.text("location", os.fspath(location), _MAX_LOCATION).strip()
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
