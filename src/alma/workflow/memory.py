"""`WorkflowMemory`: what a workflow needs to go on after it was interrupted, and to do better the next time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..engine import things, validate
from ..engine.context import Engine
from ..engine.distil.learn import learn as learn_episodes
from ..engine.drafts import Draft
from ..engine.retrieve.pipeline import retrieve as retrieve_memories
from ..engine.transaction import commit
from ..engine.view import view
from ..errors import ValidationError
from ..opening import Holder
from ..types.kinds import Outcome, Result
from ..types.record import new_id
from ..types.slice import MemorySlice
from . import records
from .scopes import Place, check_id, check_ids, choose_tenant, for_tenant, widen_engine
from .states import MAX_STATE_BYTES, UNLIMITED, Reducer, merge_states, read_state
from .types import MAIN, Artifact, Checkpoint, Run, RunStatus, Scope, decode_record

if TYPE_CHECKING:
    from ..core import ALMA

_ENDED = {Result.SUCCESS: RunStatus.COMPLETED, Result.PARTIAL: RunStatus.COMPLETED, Result.FAILURE: RunStatus.FAILED}
_MOST = 100_000


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
        [self.tenant_id] = check_ids(tenant_id=tenant_id)
        self.max_state_bytes = validate.whole("max_state_bytes", max_state_bytes, 1, 2**30)
        super().__init__(None if isinstance(alma, str) else alma, named)
        engine = self.alma.engine
        self._shared = engine if named is None else replace(engine, project=named)
        self.engine = for_tenant(self._shared, self.tenant_id)

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
        run = new_id("run") if run_id is None else check_id("run_id", run_id)
        workflow, name = check_id("workflow_id", workflow_id), self._agent(agent)
        extra = validate.metadata(metadata)
        return records.decode_run(
            commit(self.engine, lambda: records.open_run(self.engine, run, workflow, name, extra))
        )

    def end_run(self, run_id: str, status: str = RunStatus.COMPLETED) -> Run:
        """Say how a run ended: 'completed', 'failed' or 'cancelled'."""
        ending = validate.choice("status", status, RunStatus)
        return records.decode_run(records.end_run(self.engine, check_id("run_id", run_id), ending))

    def get_run(self, run_id: str) -> Run:
        """One run by its name."""
        return records.decode_run(records.get_run(self.engine, check_id("run_id", run_id)))

    def list_runs(self, workflow_id: str | None = None, status: str | None = None, limit: int = 50) -> list[Run]:
        """Runs, newest first."""
        most = validate.whole("limit", limit, 1, _MOST)
        [workflow] = check_ids(workflow_id=workflow_id)
        wanted = None if status is None else validate.choice("status", status, RunStatus)
        runs = [run for run in map(records.decode_run, things.scan(self.engine, "run")) if wanted in (None, run.status)]
        return [run for run in runs if workflow in ("", run.workflow_id)][:most]

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
        run, node, branch = (
            check_id("run_id", run_id),
            check_id("node_id", node_id),
            check_id("branch_id", branch_id),
        )
        read = read_state(state, self.max_state_bytes)
        [workflow] = check_ids(workflow_id=workflow_id)
        draft = self._draft(run, node, branch, agent, metadata)
        return records.save_checkpoint(
            self.engine, draft, read, workflow=workflow, skip=skip_if_unchanged, redact=redact
        )

    def _draft(
        self, run: str, node: str, branch: str, agent: str | None, metadata: Mapping[str, Any] | None = None
    ) -> Draft:
        body = {"run": run, "node": node, "branch": branch, "metadata": validate.metadata(metadata)}
        return things.draft("checkpoint", body, agent=self._agent(agent), session=run)

    def resume(self, run_id: str, node_id: str | None = None, branch_id: str | None = None) -> Checkpoint | None:
        """The newest checkpoint of a run, perhaps of one node or branch; None when there is none to go on from."""
        run, (node, branch) = check_id("run_id", run_id), check_ids(node_id=node_id, branch_id=branch_id)
        record = records.find_latest(self.engine, run, node, branch)
        return None if record is None else records.decode_checkpoint(record)

    def history(
        self, run_id: str, node_id: str | None = None, branch_id: str | None = None, limit: int = 100
    ) -> list[Checkpoint]:
        """The checkpoints of a run, newest first."""
        run, (node, branch) = self.get_run(run_id).run_id, check_ids(node_id=node_id, branch_id=branch_id)
        most = validate.whole("limit", limit, 1, _MOST)
        found = records.find_checkpoints(self.engine, run, node, branch, most)
        return [records.decode_checkpoint(record) for record in found]

    def cleanup_checkpoints(
        self,
        run_id: str | None = None,
        keep_latest: int = 10,
        older_than: timedelta | datetime | str | None = None,
    ) -> int:
        """Erase checkpoints beyond the newest of each branch; how many were erased.

        With `older_than` (an age or a moment) only those that are older. The newest of a branch always stays, so that
        every run can be resumed; without `run_id` all runs of the project are cleaned.
        """
        run = "" if run_id is None else self.get_run(run_id).run_id
        keep = validate.whole("keep_latest", keep_latest, 1, _MOST)
        if isinstance(older_than, timedelta):
            if older_than < timedelta(0):
                raise ValidationError(f"older_than must be an age of at least 0, not {older_than}")
            older_than = self.engine.clock() - older_than
        return records.erase_checkpoints(self.engine, run, keep, validate.moment("older_than", older_than))

    # -- branches

    def fork(self, run_id: str, branch_id: str, from_branch: str = MAIN, *, agent: str | None = None) -> Checkpoint:
        """Begin a branch at the newest checkpoint of another; its first checkpoint holds the same state."""
        run = check_id("run_id", run_id)
        origin = records.get_tip(self.engine, run, check_id("from_branch", from_branch))
        draft = self._draft(run, origin.body["node"], check_id("branch_id", branch_id), agent)
        state = read_state(origin.body["state"], UNLIMITED)
        return records.save_checkpoint(self.engine, draft, state, skip=False, origin=origin)

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
        run = check_id("run_id", run_id)
        tips = [records.get_tip(self.engine, run, name) for name in validate.names("branches", branches)]
        if not tips:
            raise ValidationError("branches is empty; name at least one branch")
        states = {tip.body["branch"]: tip.body["state"] for tip in tips}
        merged = merge_states(states, reducers, base=records.find_common_base(self.engine, tips), default=default)
        sources = {"merged": {tip.body["branch"]: tip.id for tip in tips}}
        return self.checkpoint(run, node_id, merged, into, agent=agent, metadata=sources)

    # -- artifacts

    def link_artifact(
        self,
        run_id: str,
        location: str | PathLike[str],
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
        run, [node] = check_id("run_id", run_id), check_ids(node_id=node_id)
        content = records.read_content(location, digest, size)
        content = content if name is None else content._replace(name=validate.name("name", name))
        fields = {"kind": validate.name("kind", kind), "metadata": validate.metadata(metadata)}
        return decode_record(
            Artifact, records.save_artifact(self.engine, run, node, self._agent(agent), content, **fields)
        )

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
        names = ("node_id", "workflow_id", "kind")
        wanted = dict(zip(names, check_ids(node_id=node_id, workflow_id=workflow_id, kind=kind), strict=True))
        found = [decode_record(Artifact, one) for one in things.scan(self.engine, "artifact", sessions=sessions)]
        return [one for one in found if all(wanted[name] in ("", getattr(one, name)) for name in names)][:most]

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
        run = self._place(check_id("run_id", run_id), workflow_id, node_id)
        if not run.workflow:
            self.get_run(run.run)
            if not task:
                raise ValidationError("task is missing, and the run does not say which workflow it is of: pass task")
        usual = f"{run.workflow}: {run.node}" if run.node else f"Run the workflow {run.workflow}"
        common = {
            "agent": agent,
            "task": task or usual,
            "outcome": outcome,
            "task_type": task_type,
            "duration_ms": duration_ms,
            "error_message": error_message,
            "feedback": feedback,
            "retrieval_id": retrieval_id,
            "user_id": user_id,
            "metadata": {"workflow": run.workflow, "run": run.run, "node": run.node, **validate.metadata(metadata)},
        }
        ways = [strategy_used] if isinstance(strategy_used, str) else list(strategy_used)
        checked = [arguments.episode(self.engine, {**common, "strategy_used": way}) for way in ways]
        if not checked:
            raise ValidationError("strategy_used is empty; name at least one strategy")
        episodes = [replace(one, session=run.run, tags=run.list_tags()) for one in checked]
        outcomes = learn_episodes(self.engine, episodes)
        commit(self.engine, lambda: records.open_run(self.engine, run.run, run.workflow, resumes=False))
        if not run.node:
            records.end_run(self.engine, run.run, _ENDED[episodes[0].result])
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
        wanted = validate.choice("scope", scope, Scope)
        tenant = choose_tenant(self.tenant_id, *check_ids(tenant_id=tenant_id))
        engine = widen_engine(self._shared, tenant, wanted)
        place = self._place(run_id, workflow_id, node_id, for_tenant(self._shared, tenant))
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
        run, workflow, node = check_ids(run_id=run_id, workflow_id=workflow_id, node_id=node_id)
        record = records.find_run(engine or self.engine, run) if run else None
        known = record.body["workflow"] if record else ""
        if known and workflow and known != workflow:
            raise ValidationError(f"run {run!r} is one of workflow {known!r}, not of {workflow!r}")
        return Place(known or workflow, run, node)

    def _agent(self, agent: str | None) -> str:
        return "" if agent is None else arguments.agent(self.engine, agent)
