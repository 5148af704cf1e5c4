"""`WorkflowMemory`: what a workflow needs to go on after it was interrupted, and to do better the next time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any

from .. import words
from ..answers import to_found
from ..codec import decode_record
from ..engine import things, validate
from ..engine.admit import build, screen
from ..engine.context import Engine
from ..engine.outcomes import learn_outcomes
from ..engine.retrieve.pipeline import retrieve as retrieve_memories
from ..engine.transaction import Transaction, write
from ..engine.view import view
from ..errors import ScopeError, ValidationError
from ..memory import build_outcome, build_request
from ..opening import Holder
from ..operations import OPERATIONS, About, Effect, Group, take_as_given
from ..types.kinds import Outcome, Result
from ..types.record import Record, new_id
from ..types.slice import MemorySlice
from . import records
from .records import (
    MAIN,
    STORED_AS,
    Artifact,
    Checkpoint,
    Place,
    Run,
    RunStatus,
    Scope,
    check_id,
    check_optional_id,
    make_id,
)
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
    from ..memory import ALMA

_MOST = 100_000
_TICK = timedelta(microseconds=1)
_BATCH = 500
_ENDED = {Result.SUCCESS: RunStatus.COMPLETED, Result.PARTIAL: RunStatus.COMPLETED, Result.FAILURE: RunStatus.FAILED}


def _check_strategies(label: str, value: Iterable[str]) -> list[str]:
    strategies = [value] if isinstance(value, str) else validate.items(label, value, "texts")
    if not strategies:
        raise ValidationError(f"{label} is empty; name at least one strategy")
    return [validate.text(label, one) for one in strategies]


operation = Group("workflows", lambda alma: WorkflowMemory(alma))

RunId = Annotated[str, About("the run's name", check=check_id)]
AnyRun = Annotated[str | None, About("only of this run", check=check_optional_id)]
NodeId = Annotated[str, About("the node's name", check=check_id)]
AnyNode = Annotated[str | None, About("only of this node", check=check_optional_id)]
Branch = Annotated[str, About("the branch", check=check_id)]
AnyBranch = Annotated[str | None, About("only of this branch", check=check_optional_id)]
WorkflowId = Annotated[str | None, About("the workflow's name", check=check_optional_id)]
By = Annotated[str | None, About("who does it", check=validate.name)]
Limit = Annotated[int, About("at most so many", least=1, most=_MOST)]
Reducers = Annotated[
    Mapping[str, Reducer] | None,
    About(
        "by key: append, extend, union, sum, max, min, last, first or merge_dict",
        check=take_as_given,
        json=dict[str, str] | None,
    ),
]
Default = Annotated[
    Reducer | None,
    About("the reducer for keys that have none", check=take_as_given, json=str | None),
]


@dataclass(frozen=True, slots=True)
class Resumed:
    checkpoint: Checkpoint | None
    """None: there is nothing to go on from."""


@dataclass(frozen=True, slots=True)
class Erased:
    count: int


@dataclass(frozen=True, slots=True)
class Merged:
    state: dict[str, Any]


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
        project_name = None if project is None else validate.name("project_id", project)
        self.tenant_id = check_optional_id("tenant_id", tenant_id)
        self.max_state_bytes = validate.whole("max_state_bytes", max_state_bytes, 1, 2**30)
        super().__init__(None if isinstance(alma, str) else alma, project_name)
        engine = self.alma.engine
        self._shared = engine if project_name is None else replace(engine, project=project_name)
        self.engine = records.choose_project(self._shared, self.tenant_id)

    @property
    def project_id(self) -> str:
        return self._shared.project

    # -- runs

    @operation(Effect.ADDS, idempotent=True)
    def start_run(
        self,
        workflow_id: Annotated[str, About("the workflow's name", check=check_id)],
        run_id: Annotated[str | None, About("a name for the run; without it one is made", check=check_id)] = None,
        *,
        agent: By = None,
        metadata: words.Metadata = None,
    ) -> Run:
        """Begin a run of a workflow, or go on with the one of that name."""
        run, name = run_id or new_id("run"), self._agent(agent)
        record = write(self.engine, lambda tx: records.open_run(tx, run, workflow_id, name, metadata))
        return decode_record(Run, record, STORED_AS)

    @operation(Effect.CHANGES, idempotent=True)
    def end_run(
        self,
        run_id: RunId,
        status: Annotated[
            str,
            About("how it ended", tuple(RunStatus)[1:], check=lambda name, one: validate.choice(name, one, RunStatus)),
        ] = "completed",
    ) -> Run:
        """Say how a run ended."""
        record = write(self.engine, lambda tx: records.end_run(tx, run_id, RunStatus(status)))
        return decode_record(Run, record, STORED_AS)

    def get_run(self, run_id: str) -> Run:
        """One run by its name."""
        return decode_record(Run, records.get_run(self.engine, check_id("run_id", run_id)), STORED_AS)

    @operation(Effect.READS)
    def list_runs(
        self,
        workflow_id: WorkflowId = None,
        status: Annotated[RunStatus | str | None, About("only these")] = None,
        limit: Limit = 50,
    ) -> list[Run]:
        """List the runs of workflows, newest first."""
        runs = [decode_record(Run, record, STORED_AS) for record in things.scan(self.engine, "run")]
        fits = (one for one in runs if workflow_id in (None, "", one.workflow_id) and status in (None, one.status))
        return list(fits)[:limit]

    # -- checkpoints

    @operation(Effect.ADDS, idempotent=True)
    def checkpoint(
        self,
        run_id: RunId,
        node_id: NodeId,
        state: Annotated[
            Mapping[str, Any],
            About("the state as a JSON object; it comes back exactly", check=take_as_given, json=dict[str, Any]),
        ],
        branch_id: Branch = MAIN,
        *,
        workflow_id: WorkflowId = None,
        agent: By = None,
        metadata: words.Metadata = None,
        skip_if_unchanged: Annotated[bool, About("", for_python=True)] = True,
        redact: Annotated[bool, About("keep a state that holds secrets without them, instead of refusing it")] = False,
    ) -> Checkpoint:
        """Keep the state of a run after a node, so that it can go on from there whatever happens.

        Notes:
            Once this returns, it survives whatever happens to the process. A state that holds a secret is refused, or
            with `redact` kept without it: `Checkpoint.redacted` then says where. A state that the newest checkpoint of
            the branch already holds for the same node is not written again, and that checkpoint is returned with
            `unchanged` set.
        """
        content = read_state(state, self.max_state_bytes)
        body = {"run": run_id, "node": node_id, "branch": branch_id, "metadata": dict(metadata or {})}
        return self._save_checkpoint(
            body, content, agent, workflow=workflow_id or "", skip=skip_if_unchanged, redact=redact
        )

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
            last = records.find_latest(engine, run, branch=branch)
            if last is None or not skip or (last.body["digest"], last.body["node"]) != (digest, node):
                return last, None
            return last, decode_record(Checkpoint, last, STORED_AS, unchanged=True)

        if same := find_unchanged(state.digest)[1]:
            return same
        name = self._agent(agent)
        draft = screen(engine, things.draft("checkpoint", {**body, "state": state.value}, agent=name, session=run))
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
            owner, newest = records.open_run(tx, run, workflow, name), records.find_latest(engine, run)
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
                id=make_id("chk", engine.project, run, branch, str(number)),
                key=make_id("branch", run, branch),
                tags=(f"node:{node}",),
                links=(owner.id,),
                created_at=moment,
                updated_at=moment,
            )
            return decode_record(Checkpoint, tx.put(record), STORED_AS)

        return write(engine, step)

    @operation(Effect.READS, answer=Resumed)
    def resume(self, run_id: RunId, node_id: AnyNode = None, branch_id: AnyBranch = None) -> Checkpoint | None:
        """The newest checkpoint of a run, to go on from.

        Notes:
            None when there is none of that run, node or branch.
        """
        record = records.find_latest(self.engine, run_id, node_id or "", branch_id or "")
        return None if record is None else decode_record(Checkpoint, record, STORED_AS)

    @operation(Effect.READS, "checkpoint_history")
    def history(
        self, run_id: RunId, node_id: AnyNode = None, branch_id: AnyBranch = None, limit: Limit = 100
    ) -> list[Checkpoint]:
        """The checkpoints of a run, newest first."""
        run = self.get_run(run_id).run_id
        checkpoints = records.find_checkpoints(self.engine, run, node_id or "", branch_id or "", limit)
        return [decode_record(Checkpoint, record, STORED_AS) for record in checkpoints]

    @operation(Effect.ERASES, idempotent=True, answer=Erased)
    def cleanup_checkpoints(
        self,
        run_id: AnyRun = None,
        keep_latest: Annotated[int, About("so many of each branch stay", least=1, most=_MOST)] = 10,
        older_than: Annotated[
            timedelta | datetime | str | None,
            About("only those from before this moment", check=take_as_given, json=str | None),
        ] = None,
    ) -> int:
        """Erase old checkpoints. The newest of each branch always stays.

        Notes:
            `older_than` may also be an age. Every run can be resumed afterwards, and what a branch that is kept began
            at stays, too: it is needed to merge it. Without `run_id` all runs of the project are cleaned.
        """
        sessions = {self.get_run(run_id).run_id} if run_id else None
        if isinstance(older_than, timedelta):
            if older_than < timedelta(0):
                raise ValidationError(f"older_than must be an age of at least 0, not {older_than}")
            older_than = self.engine.clock() - older_than
        before = validate.moment("older_than", older_than)
        seen: Counter[str] = Counter()
        old, bases = [], set()
        for record in things.scan(self.engine, "checkpoint", sessions=sessions):
            seen[record.key] += 1
            if seen[record.key] <= keep_latest or (before is not None and record.created_at >= before):
                bases.add(record.body["base"])
            else:
                old.append(record.id)
        gone = [id for id in old if id not in bases]
        return sum(self.engine.store.delete(gone[start : start + _BATCH]) for start in range(0, len(gone), _BATCH))

    # -- branches

    @operation(Effect.ADDS, "fork_branch")
    def fork(self, run_id: RunId, branch_id: Branch, from_branch: Branch = MAIN, *, agent: By = None) -> Checkpoint:
        """Begin a branch of a run at the newest checkpoint of another branch.

        Notes:
            Its first checkpoint holds the same state.
        """
        origin = records.get_tip(self.engine, run_id, from_branch)
        body = {"run": run_id, "node": origin.body["node"], "branch": branch_id, "metadata": {}}
        state = read_state(origin.body["state"], UNLIMITED)
        return self._save_checkpoint(body, state, agent, skip=False, origin=origin)

    merge_states = staticmethod(merge_states)

    @operation(Effect.READS, "merge_states", answer=Merged)
    def _merge_states(
        self,
        states: Annotated[list[dict[str, Any]], About("the states of the branches")],
        reducers: Reducers = None,
        base: Annotated[dict[str, Any] | None, About("the state that all of them began at")] = None,
        default: Default = None,
    ) -> dict[str, Any]:
        """One state from those of several branches, key by key. Nothing is stored."""
        return merge_states(states, reducers, base=base, default=default)

    @operation(Effect.ADDS)
    def merge_branches(
        self,
        run_id: RunId,
        branches: Annotated[Iterable[str], About("the branches to merge", check=validate.names)],
        node_id: NodeId,
        into: Branch = MAIN,
        reducers: Reducers = None,
        *,
        default: Default = None,
        agent: By = None,
    ) -> Checkpoint:
        """Merge the newest states of branches and keep the result as a checkpoint.

        Notes:
            What the branches began at is known when they were forked from one checkpoint: a key that only one of them
            changed is then no conflict. If the reducers do not fit, nothing is written.
        """
        tips = [records.get_tip(self.engine, run_id, name) for name in branches]
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
        return self.checkpoint(run_id, node_id, merged, into, agent=agent, metadata=sources)

    # -- artifacts: told apart by where they are, and known by their digest

    @operation(Effect.ADDS, idempotent=True)
    def link_artifact(
        self,
        run_id: RunId,
        location: Annotated[str | PathLike[str], About("a file, or a URI, which is not fetched", local=True, uri=True)],
        *,
        node_id: AnyNode = None,
        name: Annotated[str | None, About("a name for it", check=validate.name)] = None,
        kind: Annotated[str, About("what sort of thing it is", check=validate.name)] = "file",
        digest: Annotated[str | None, About("`sha256:` and the digest; of a file it is taken")] = None,
        size: Annotated[int | None, About("in bytes; of a file it is taken", least=0, most=2**63)] = None,
        agent: By = None,
        metadata: words.Metadata = None,
    ) -> Artifact:
        """Note what a run made: a file or a URI.

        Notes:
            Linked again, the same place in the same run and node is one artifact, with the digest it has then.
        """
        content = records.read_content(location, digest, size) | {"kind": kind, "metadata": dict(metadata or {})}
        if name is not None:
            content["name"] = name
        engine, who, node = self.engine, self._agent(agent), node_id or ""
        id = make_id("art", engine.project, run_id, node, content["path"])

        def step(tx: Transaction) -> Record:
            record = tx.find(id)
            owner = records.open_run(tx, run_id, agent=who, resumes=False)
            body = {**content, "workflow": owner.body["workflow"], "run": run_id, "node": node}
            if record is None:
                draft = things.draft("artifact", body, agent=who, session=run_id)
                return tx.put(things.made(engine, draft, id=id, links=(owner.id,)))
            fresh = things.altered(engine, record, body)
            return record if fresh.body == record.body else tx.put(fresh)

        return decode_record(Artifact, write(engine, step), STORED_AS)

    @operation(Effect.READS)
    def get_artifacts(
        self,
        run_id: AnyRun = None,
        *,
        node_id: AnyNode = None,
        workflow_id: WorkflowId = None,
        kind: Annotated[str | None, About("only of this sort")] = None,
        limit: Limit = 100,
    ) -> list[Artifact]:
        """What runs made, newest first."""
        sessions = {self.get_run(run_id).run_id} if run_id else None
        artifacts = things.scan(self.engine, "artifact", sessions=sessions)
        for name, value in (("node", node_id), ("workflow", workflow_id), ("kind", kind)):
            artifacts = [record for record in artifacts if value in (None, "", record.body[name])]
        return [decode_record(Artifact, record, STORED_AS) for record in artifacts[:limit]]

    # -- what is learned, and where it is found

    @operation(Effect.ADDS, "workflow_learn")
    def learn_from_workflow(
        self,
        run_id: RunId,
        agent: words.Agent,
        outcome: words.OutcomeOf,
        strategy_used: Annotated[
            str | Iterable[str],
            About(
                "how it was done; an outcome is recorded for each",
                check=_check_strategies,
                shown_as="strategies_used",
                json=list[str],
            ),
        ],
        task: Annotated[
            str | None, About("what was to be done; by default the run of its workflow, or its node")
        ] = None,
        *,
        workflow_id: WorkflowId = None,
        node_id: Annotated[
            str | None, About("how one node of it went; without it the run is over", check=check_optional_id)
        ] = None,
        task_type: Annotated[str | None, About("the sort of task")] = None,
        duration_ms: Annotated[int | None, About("how long it took", least=0, most=10**15)] = None,
        error_message: Annotated[str | None, About("what went wrong", check=validate.output)] = None,
        feedback: Annotated[str | None, About("what the user said about it")] = None,
        retrieval_id: Annotated[str | None, About("the retrieval whose memories were followed")] = None,
        user_id: words.User = None,
        metadata: words.Metadata = None,
    ) -> list[Outcome]:
        """Record how a run of a workflow, or one node of it, went. It is retrieved like any other outcome.

        Notes:
            A run that nobody started is begun when its workflow is named.
        """
        given = dict(locals())
        for own in ("self", "run_id", "workflow_id", "node_id", "strategy_used"):
            del given[own]
        place = self._place(run_id, workflow_id, node_id)
        if not place.workflow:
            self.get_run(place.run)
            if not task:
                raise ValidationError("task is missing, and the run does not say which workflow it is of: pass task")
        usual = f"{place.workflow}: {place.node}" if place.node else f"Run the workflow {place.workflow}"
        names = {"workflow": place.workflow, "run": place.run, "node": place.node}
        given |= {"task": task or usual, "metadata": {**names, **(metadata or {})}}
        checked = [
            build_outcome(self.engine, OPERATIONS["learn"].complete({**given, "strategy_used": one}))
            for one in strategy_used
        ]
        episodes = [replace(one, session=place.run, tags=place.list_tags()) for one in checked]
        outcomes = learn_outcomes(self.engine, episodes)

        def end(tx: Transaction) -> None:
            records.open_run(tx, place.run, place.workflow, resumes=False)
            if not place.node:
                records.end_run(tx, place.run, _ENDED[episodes[0].result])

        write(self.engine, end)
        now = self.engine.clock()
        return [value for record in outcomes if isinstance(value := view(record, now), Outcome)]

    @operation(Effect.READS, answer=to_found)
    def retrieve_scoped(
        self,
        task: words.Task,
        agent: words.Agent,
        scope: Annotated[Scope | str, About("how far to look; each holds those before it")] = Scope.AGENT,
        *,
        workflow_id: WorkflowId = None,
        run_id: AnyRun = None,
        node_id: AnyNode = None,
        tenant_id: Annotated[
            str | None, About("whose memories; no scope reaches into another tenant", check=check_optional_id)
        ] = None,
        user_id: words.User = None,
        top_k: Annotated[int | None, About("at most so many of each type", least=1, most=1000)] = None,
        mode: words.Mode = "default",
        types: words.Types = None,
    ) -> MemorySlice:
        """Find the memories that matter for a task, of nothing beyond a scope: a node, a run, a workflow, an agent…

        Notes:
            'node' is one node of a run (or, without a run, of a workflow), 'run' one run, 'workflow' all its runs, each
            for the agent and those who share with it; 'agent' is all that the agent may read; 'tenant' is what all
            agents of a tenant know, and 'global' that and what belongs to no tenant. No scope reaches into another
            tenant.
        """
        if self.tenant_id and tenant_id not in (None, "", self.tenant_id):
            raise ScopeError(f"this memory is of tenant {self.tenant_id!r} and may not look into that of {tenant_id!r}")
        tenant = self.tenant_id or tenant_id or ""
        if scope == Scope.TENANT and not tenant:
            raise ValidationError("the scope 'tenant' needs tenant_id")
        engine = records.choose_project(self._shared, tenant)
        place = self._place(run_id, workflow_id, node_id, engine)
        if scope in (Scope.TENANT, Scope.GLOBAL):
            projects = {engine.project, self._shared.project} if scope == Scope.GLOBAL else {engine.project}
            # Where agents are declared, each says itself whom it shares with, whatever the scope.
            everyone = not engine.scopes.agents
            engine = replace(
                engine, store=records.WideStore(engine.store, engine.project, frozenset(projects), everyone)
            )
        given = {"task": task, "agent": agent, "user_id": user_id, "top_k": top_k, "mode": mode, "types": types}
        request = build_request(engine, given | {"level": "session"})
        return retrieve_memories(engine, request._replace(tags=place.find_tags(Scope(scope))))

    def tags(
        self, workflow_id: str | None = None, run_id: str | None = None, node_id: str | None = None
    ) -> tuple[str, ...]:
        """The tags of a place: a memory that is added or learned with them is found from the scopes around it."""
        names = {"run_id": run_id, "workflow_id": workflow_id, "node_id": node_id}
        run, workflow, node = (check_optional_id(label, value) for label, value in names.items())
        return self._place(run, workflow, node).list_tags()

    def _place(self, run: str | None, workflow: str | None, node: str | None, engine: Engine | None = None) -> Place:
        """Return where something belongs; a run that is known says of which workflow it is."""
        record = records.find_run(engine or self.engine, run) if run else None
        known = record.body["workflow"] if record else ""
        return Place(records.match_workflow(run or "", known, workflow or ""), run or "", node or "")

    def _agent(self, agent: str | None) -> str:
        return "" if agent is None else self.engine.agent(agent)
