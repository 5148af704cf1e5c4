"""Workflows: go on after an interruption, merge branches, keep track of what was made, and do better the next time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from .. import words
from ..answers import Found
from ..answers import to_found as found
from ..core import ALMA
from ..types.kinds import Outcome
from ..workflow import WorkflowMemory
from ..workflow.memory import MAIN, Artifact, Checkpoint, Run, RunStatus, Scope
from .operation import About, Effect, operation

RunId = Annotated[str, About("the run's name")]
AnyRun = Annotated[str | None, About("only of this run")]
NodeId = Annotated[str, About("the node's name")]
AnyNode = Annotated[str | None, About("only of this node")]
Branch = Annotated[str, About("the branch")]
AnyBranch = Annotated[str | None, About("only of this branch")]
WorkflowId = Annotated[str | None, About("the workflow's name")]
By = Annotated[str | None, About("who does it")]
State = dict[str, Any]
Reducers = Annotated[
    dict[str, str] | None,
    About("by key: append, extend, union, sum, max, min, last, first or merge_dict"),
]


def _memory(alma: ALMA) -> WorkflowMemory:
    return WorkflowMemory(alma=alma)


@operation(Effect.ADDS, idempotent=True)
def start_run(
    alma: ALMA,
    workflow_id: Annotated[str, About("the workflow's name")],
    run_id: Annotated[str | None, About("a name for the run; without it one is made")] = None,
    agent: By = None,
    metadata: words.Metadata = None,
) -> Run:
    """Begin a run of a workflow, or go on with the one of that name."""
    return _memory(alma).start_run(workflow_id, run_id, agent=agent, metadata=metadata)


@operation(Effect.CHANGES, idempotent=True)
def end_run(
    alma: ALMA, run_id: RunId, status: Annotated[str, About("how it ended", tuple(RunStatus)[1:])] = "completed"
) -> Run:
    """Say how a run ended."""
    return _memory(alma).end_run(run_id, status)


@operation(Effect.READS)
def list_runs(
    alma: ALMA,
    workflow_id: WorkflowId = None,
    status: Annotated[str | None, About("only these", tuple(RunStatus))] = None,
    limit: words.Limit = 50,
) -> list[Run]:
    """List the runs of workflows, newest first."""
    return _memory(alma).list_runs(workflow_id, status, limit)


@operation(Effect.ADDS, idempotent=True)
def checkpoint(
    alma: ALMA,
    run_id: RunId,
    node_id: NodeId,
    state: Annotated[State, About("the state as a JSON object; it comes back exactly")],
    branch_id: Branch = MAIN,
    workflow_id: WorkflowId = None,
    agent: By = None,
    metadata: words.Metadata = None,
    redact: Annotated[bool, About("keep a state that holds secrets without them, instead of refusing it")] = False,
) -> Checkpoint:
    """Keep the state of a run after a node, so that it can go on from there whatever happens."""
    return _memory(alma).checkpoint(
        run_id, node_id, state, branch_id, workflow_id=workflow_id, agent=agent, metadata=metadata, redact=redact
    )


@dataclass(frozen=True, slots=True)
class Resumed:
    checkpoint: Checkpoint | None
    """None: there is nothing to go on from."""


@operation(Effect.READS)
def resume(alma: ALMA, run_id: RunId, node_id: AnyNode = None, branch_id: AnyBranch = None) -> Resumed:
    """The newest checkpoint of a run, to go on from."""
    return Resumed(_memory(alma).resume(run_id, node_id, branch_id))


@operation(Effect.READS)
def checkpoint_history(
    alma: ALMA, run_id: RunId, node_id: AnyNode = None, branch_id: AnyBranch = None, limit: words.Limit = 100
) -> list[Checkpoint]:
    """The checkpoints of a run, newest first."""
    return _memory(alma).history(run_id, node_id, branch_id, limit)


@dataclass(frozen=True, slots=True)
class Erased:
    count: int


@operation(Effect.ERASES, idempotent=True)
def cleanup_checkpoints(
    alma: ALMA,
    run_id: AnyRun = None,
    keep_latest: Annotated[int, About("so many of each branch stay")] = 10,
    older_than: Annotated[str | None, About("only those from before this moment")] = None,
) -> Erased:
    """Erase old checkpoints. The newest of each branch always stays."""
    return Erased(_memory(alma).cleanup_checkpoints(run_id, keep_latest, older_than))


@operation(Effect.ADDS)
def fork_branch(
    alma: ALMA, run_id: RunId, branch_id: Branch, from_branch: Branch = MAIN, agent: By = None
) -> Checkpoint:
    """Begin a branch of a run at the newest checkpoint of another branch."""
    return _memory(alma).fork(run_id, branch_id, from_branch, agent=agent)


@dataclass(frozen=True, slots=True)
class Merged:
    state: State


@operation(Effect.READS)
def merge_states(
    alma: ALMA,
    states: Annotated[list[State], About("the states of the branches")],
    reducers: Reducers = None,
    base: Annotated[State | None, About("the state that all of them began at")] = None,
    default: Annotated[str | None, About("the reducer for keys that have none")] = None,
) -> Merged:
    """One state from those of several branches, key by key. Nothing is stored."""
    return Merged(WorkflowMemory.merge_states(states, reducers, base=base, default=default))


@operation(Effect.ADDS)
def merge_branches(
    alma: ALMA,
    run_id: RunId,
    branches: Annotated[list[str], About("the branches to merge")],
    node_id: NodeId,
    into: Branch = MAIN,
    reducers: Reducers = None,
    default: Annotated[str | None, About("the reducer for keys that have none")] = None,
    agent: By = None,
) -> Checkpoint:
    """Merge the newest states of branches and keep the result as a checkpoint."""
    return _memory(alma).merge_branches(run_id, branches, node_id, into, reducers, default=default, agent=agent)


@operation(Effect.ADDS, idempotent=True)
def link_artifact(
    alma: ALMA,
    run_id: RunId,
    location: Annotated[str, About("a file, or a URI, which is not fetched", local=True, uri=True)],
    node_id: AnyNode = None,
    name: Annotated[str | None, About("a name for it")] = None,
    kind: Annotated[str, About("what sort of thing it is")] = "file",
    digest: Annotated[str | None, About("`sha256:` and the digest; of a file it is taken")] = None,
    size: Annotated[int | None, About("in bytes; of a file it is taken")] = None,
    agent: By = None,
    metadata: words.Metadata = None,
) -> Artifact:
    """Note what a run made: a file or a URI."""
    given = {name_: value for name_, value in locals().items() if name_ not in ("alma", "run_id", "location")}
    return _memory(alma).link_artifact(run_id, location, **given)


@operation(Effect.READS)
def get_artifacts(
    alma: ALMA,
    run_id: AnyRun = None,
    node_id: AnyNode = None,
    workflow_id: WorkflowId = None,
    kind: Annotated[str | None, About("only of this sort")] = None,
    limit: words.Limit = 100,
) -> list[Artifact]:
    """What runs made, newest first."""
    return _memory(alma).get_artifacts(run_id, node_id=node_id, workflow_id=workflow_id, kind=kind, limit=limit)


@operation(Effect.ADDS)
def workflow_learn(
    alma: ALMA,
    run_id: RunId,
    agent: words.Agent,
    outcome: words.OutcomeOf,
    strategies_used: Annotated[list[str], About("how it was done; an outcome is recorded for each")],
    task: Annotated[str | None, About("what was to be done; by default the run of its workflow, or its node")] = None,
    workflow_id: WorkflowId = None,
    node_id: Annotated[str | None, About("how one node of it went; without it the run is over")] = None,
    task_type: Annotated[str | None, About("the sort of task")] = None,
    duration_ms: Annotated[int | None, About("how long it took")] = None,
    error_message: Annotated[str | None, About("what went wrong")] = None,
    feedback: Annotated[str | None, About("what the user said about it")] = None,
    retrieval_id: Annotated[str | None, About("the retrieval whose memories were followed")] = None,
    user_id: words.User = None,
    metadata: words.Metadata = None,
) -> list[Outcome]:
    """Record how a run of a workflow, or one node of it, went. It is retrieved like any other outcome."""
    given = {name: value for name, value in locals().items() if name not in ("alma", "strategies_used")}
    return _memory(alma).learn_from_workflow(strategy_used=strategies_used, **given)


@operation(Effect.READS)
def retrieve_scoped(
    alma: ALMA,
    task: words.Task,
    agent: words.Agent,
    scope: Annotated[str, About("how far to look; each holds those before it", tuple(Scope))] = Scope.AGENT,
    workflow_id: WorkflowId = None,
    run_id: AnyRun = None,
    node_id: AnyNode = None,
    tenant_id: Annotated[str | None, About("whose memories; no scope reaches into another tenant")] = None,
    user_id: words.User = None,
    top_k: Annotated[int | None, About("at most so many of each type")] = None,
    mode: Annotated[
        str, About("how widely to look", ("default", "precise", "broad", "recent", "learning"))
    ] = "default",
    types: words.Types = None,
    max_tokens: words.MaxTokens = 2000,
) -> Found:
    """Find the memories that matter for a task, of nothing beyond a scope: a node, a run, a workflow, an agent…"""
    slice_ = _memory(alma).retrieve_scoped(
        task,
        agent,
        scope,
        workflow_id=workflow_id,
        run_id=run_id,
        node_id=node_id,
        tenant_id=tenant_id,
        user_id=user_id,
        top_k=top_k,
        mode=mode,
        types=types,
    )
    return found(slice_, max_tokens)
