"""A run goes on where it was: what was acknowledged is there, in order, and exactly as it was."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from alma import ALMA
from alma.engine.admit import clean
from alma.errors import NotFoundError, ValidationError
from alma.operations import operations
from alma.stores.memory import MemoryStore
from alma.testing import FrozenClock
from alma.types.query import Where
from alma.workflow import RunStatus, WorkflowMemory

from .test_states import STATES, same


def stored(workflow: WorkflowMemory) -> int:
    return len(list(workflow.engine.store.scan(Where(kinds={"checkpoint", "run"}))))


def test_a_run_resumes_at_its_newest_checkpoint(workflow: WorkflowMemory) -> None:
    run = workflow.start_run("crawl", agent="dev")
    assert workflow.resume(run.run_id) is None
    workflow.checkpoint(run.run_id, "fetch", {"pages": [1, 2.5, None, "é"]})
    last = workflow.checkpoint(run.run_id, "parse", {"pages": [], "done": True})
    assert workflow.resume(run.run_id) == last
    first = workflow.resume(run.run_id, node_id="fetch")
    assert first is not None
    assert (first.state, first.number, first.workflow_id) == ({"pages": [1, 2.5, None, "é"]}, 1, "crawl")
    assert last.parent_id == first.id


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STATES)
def test_a_state_comes_back_exactly(workflow: WorkflowMemory, state: dict[str, Any]) -> None:
    if clean(state) != state:
        return
    workflow.checkpoint("run", "node", state, skip_if_unchanged=False)
    resumed = workflow.resume("run")
    assert resumed is not None
    assert same(resumed.state, state)


def test_an_unchanged_state_is_not_written_again(workflow: WorkflowMemory) -> None:
    first = workflow.checkpoint("r", "fetch", {"a": 1, "b": 2})
    again = workflow.checkpoint("r", "fetch", {"b": 2, "a": 1})
    assert again.unchanged
    assert again.id == first.id
    assert stored(workflow) == 2
    assert workflow.checkpoint("r", "parse", {"a": 1, "b": 2}).number == 2, "another node has come as far"
    assert workflow.checkpoint("r", "fetch", {"a": 1, "b": 2}, "other").number == 1, "another branch has, too"
    assert workflow.checkpoint("r", "parse", {"a": 1.0, "b": 2}).number == 3
    assert workflow.checkpoint("r", "parse", {"a": 1.0, "b": 2}, skip_if_unchanged=False).number == 4


def test_the_order_does_not_depend_on_the_clock(workflow: WorkflowMemory, clock: FrozenClock) -> None:
    for number in range(5):
        workflow.checkpoint("r", "n", {"number": number})
        clock.advance(seconds=-1)
    assert [one.state["number"] for one in workflow.list_runs(run_id="r").checkpoints] == [4, 3, 2, 1, 0]
    resumed = workflow.resume("r")
    assert resumed is not None
    assert resumed.state == {"number": 4}


def test_what_a_caller_does_to_its_state_afterwards_changes_nothing(workflow: WorkflowMemory) -> None:
    state: dict[str, Any] = {"items": [1]}
    made = workflow.checkpoint("r", "n", state)
    state["items"].append(2)
    made.state["items"].append(3)
    resumed = workflow.resume("r")
    assert resumed is not None
    assert resumed.state == {"items": [1]}


def test_branches_and_runs_are_kept_apart(workflow: WorkflowMemory) -> None:
    workflow.checkpoint("r", "n", {"at": "main"})
    workflow.checkpoint("r", "n", {"at": "b"}, "b")
    workflow.checkpoint("R", "n", {"at": "R"})
    assert [one.state["at"] for one in workflow.list_runs(run_id="r").checkpoints] == ["b", "main"]
    assert [one.state["at"] for one in workflow.list_runs(run_id="r", branch_id="main").checkpoints] == ["main"]
    newest = workflow.resume("r", branch_id="main")
    assert newest is not None
    assert newest.state == {"at": "main"}
    assert workflow.resume("r", node_id="other") is None


def test_a_secret_is_refused_and_nothing_is_written(workflow: WorkflowMemory) -> None:
    with pytest.raises(
        ValidationError, match=r"secret at state\.login\.password, so it was not stored\..*`redact`"
    ) as refused:
        workflow.checkpoint("r", "n", {"login": {"user": "bob", "password": "hunter2"}})
    assert "hunter2" not in str(refused.value)
    assert stored(workflow) == 0


def test_a_secret_may_be_left_out_and_that_is_told(workflow: WorkflowMemory) -> None:
    state = {"login": {"user": "bob", "password": "hunter2"}}
    made = workflow.checkpoint("r", "n", state, redact=True)
    resumed = workflow.resume("r")
    assert resumed == made
    assert made.redacted == ("state.login.password",)
    assert made.state == {"login": {"user": "bob", "password": "[REDACTED:password]"}}
    assert workflow.checkpoint("r", "n", state, redact=True).unchanged
    assert "hunter2" not in repr(list(workflow.engine.store.scan(Where())))


@pytest.mark.parametrize(
    ("value", "name"),
    [("39961d3a151252aa0b1c2d3e4f5061728394a5b6", "commit"), ("1500", "tokens"), ("name", "sort_key"), ("a1b2", "id")],
)
def test_what_only_resembles_a_secret_is_kept(workflow: WorkflowMemory, value: str, name: str) -> None:
    assert workflow.checkpoint("r", "n", {name: value}).state == {name: value}


def test_a_state_over_the_limit_is_refused(alma: ALMA) -> None:
    workflow = WorkflowMemory(alma, max_state_bytes=100)
    with pytest.raises(ValidationError, match=r"has 208 bytes as JSON, but a checkpoint holds at most 100"):
        workflow.checkpoint("r", "n", {"a": "x" * 200})
    assert stored(workflow) == 0


@pytest.mark.parametrize(
    "given",
    [
        {"run_id": ""},
        {"run_id": 3},
        {"node_id": " "},
        {"branch_id": "x" * 300},
        {"state": "{}"},
        {"metadata": {"a": object()}},
        {"run_id": "sk-abcdefghijklmnopqrstuvwxyz123456"},
    ],
)
def test_bad_arguments_write_nothing(workflow: WorkflowMemory, given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        workflow.checkpoint(**({"run_id": "r", "node_id": "n", "state": {}} | given))
    assert stored(workflow) == 0


def test_unknown_runs_are_named(workflow: WorkflowMemory) -> None:
    for ask in (
        workflow.get_run,
        workflow.update_run,
        workflow.get_artifacts,
        lambda run: workflow.list_runs(run_id=run),
    ):
        with pytest.raises(NotFoundError, match="no run 'nope' in project 'p'"):
            ask("nope")
    with pytest.raises(NotFoundError, match="no run 'nope'"):
        workflow.cleanup_checkpoints("nope")


def test_the_operation_resume_names_the_runs_there_are(alma: ALMA, workflow: WorkflowMemory) -> None:
    run = workflow.start_run("crawl", "run-7")
    assert operations()["resume"].call(alma, {"run_id": run.run_id}).checkpoint is None
    with pytest.raises(NotFoundError, match=r"no run 'run-8' in project 'p'\..*run-7"):
        operations()["resume"].call(alma, {"run_id": "run-8"})
    assert workflow.resume("run-8") is None


def test_a_run_knows_its_workflow_and_its_end(workflow: WorkflowMemory) -> None:
    run = workflow.start_run("crawl", "r", agent="dev", metadata={"by": "cron"})
    assert workflow.start_run("crawl", "r") == run, "started again it goes on"
    with pytest.raises(ValidationError, match="belongs to workflow 'crawl', not to 'build'"):
        workflow.start_run("build", "r")
    with pytest.raises(ValidationError, match="not to 'build'"):
        workflow.checkpoint("r", "n", {}, workflow_id="build")
    assert workflow.update_run("r", status="failed").status is RunStatus.FAILED
    assert workflow.get_run("r").ended_at is not None
    workflow.checkpoint("r", "n", {})
    assert workflow.get_run("r").status == "running"
    assert [one.run_id for one in workflow.list_runs("crawl", "running").runs] == ["r"]
    assert workflow.list_runs("build").runs == []
    with pytest.raises(ValidationError, match="Valid: running, completed, failed, cancelled"):
        workflow.update_run("r", status="banana")


# -- branches


def test_a_fork_begins_where_the_other_branch_is(workflow: WorkflowMemory) -> None:
    origin = workflow.checkpoint("r", "plan", {"a": 1, "b": 1})
    left = workflow.fork("r", "left")
    assert (left.state, left.parent_id, left.number, left.node_id) == (origin.state, origin.id, 1, "plan")
    with pytest.raises(ValidationError, match="already has a branch 'left'"):
        workflow.fork("r", "left")
    with pytest.raises(NotFoundError, match="no checkpoint on branch 'nope'"):
        workflow.fork("r", "x", "nope")


def test_branches_merge_into_a_checkpoint(workflow: WorkflowMemory) -> None:
    workflow.checkpoint("r", "plan", {"a": 1, "b": 1, "found": []})
    for branch in ("left", "right"):
        workflow.fork("r", branch)
    workflow.checkpoint("r", "search", {"a": 2, "b": 1, "found": ["x"]}, "left")
    workflow.checkpoint("r", "search", {"a": 1, "b": 3, "found": ["y"]}, "right")
    merged = workflow.merge_branches("r", ["left", "right"], "join", reducers={"found": "extend"})
    assert (merged.state, merged.branch_id, merged.number) == ({"a": 2, "b": 3, "found": ["x", "y"]}, "main", 2)
    assert set(merged.metadata["merged"]) == {"left", "right"}


def test_a_merge_that_does_not_fit_writes_nothing(workflow: WorkflowMemory) -> None:
    workflow.checkpoint("r", "plan", {"a": 1})
    workflow.fork("r", "left")
    workflow.checkpoint("r", "n", {"a": "x"}, "left")
    before = stored(workflow)
    with pytest.raises(ValidationError, match="does not fit its values"):
        workflow.merge_branches("r", ["main", "left"], "join", reducers={"a": "sum"})
    with pytest.raises(NotFoundError):
        workflow.merge_branches("r", ["main", "nope"], "join")
    with pytest.raises(ValidationError, match="branches is empty"):
        workflow.merge_branches("r", [], "join")
    assert stored(workflow) == before
    assert workflow.merge_branches("r", ["main", "left"], "join").state == {"a": "x"}, "only left changed it"


def test_branches_of_two_beginnings_have_none_in_common(workflow: WorkflowMemory) -> None:
    workflow.checkpoint("r", "n", {"a": 1}, "left")
    workflow.checkpoint("r", "n", {"a": 2}, "right")
    with pytest.raises(ValidationError, match="has no reducer"):
        workflow.merge_branches("r", ["left", "right"], "join")
    assert workflow.merge_branches("r", ["left", "right"], "join", default="max").state == {"a": 2}


# -- cleaning up


def test_the_newest_of_each_branch_always_stay(workflow: WorkflowMemory) -> None:
    for number in range(6):
        workflow.checkpoint("r", "n", {"number": number})
        workflow.checkpoint("r", "n", {"number": number}, "b")
        workflow.checkpoint("other", "n", {"number": number})
    assert workflow.cleanup_checkpoints("r", keep_latest=2) == 8
    assert [one.number for one in workflow.list_runs(run_id="r", branch_id="b").checkpoints] == [6, 5]
    assert len(workflow.list_runs(run_id="other").checkpoints) == 6
    assert workflow.cleanup_checkpoints(keep_latest=1) == 2 + 5
    assert workflow.checkpoint("r", "n", {"number": 9}).number == 7, "numbers are never used again"
    for bad in (0, -1, True, "1"):
        with pytest.raises(ValidationError, match="keep_latest"):
            workflow.cleanup_checkpoints(keep_latest=bad)  # type: ignore[arg-type]


def test_only_what_is_older_is_erased(workflow: WorkflowMemory, clock: FrozenClock) -> None:
    for number in range(4):
        workflow.checkpoint("r", "n", {"number": number})
        clock.advance(days=1)
    assert workflow.cleanup_checkpoints("r", keep_latest=1, older_than=timedelta(days=2, hours=12)) == 2
    assert [one.number for one in workflow.list_runs(run_id="r").checkpoints] == [4, 3]
    clock.advance(days=100)
    assert workflow.cleanup_checkpoints("r", keep_latest=1, older_than="2026-12-01") == 1
    assert len(workflow.list_runs(run_id="r").checkpoints) == 1
    with pytest.raises(ValidationError, match="older_than"):
        workflow.cleanup_checkpoints("r", older_than="yesterday")
    with pytest.raises(ValidationError, match="older_than"):
        workflow.cleanup_checkpoints("r", older_than=timedelta(days=-1))


def test_where_a_branch_began_stays_as_long_as_the_branch(workflow: WorkflowMemory) -> None:
    workflow.checkpoint("r", "plan", {"a": 1, "b": 1})
    workflow.fork("r", "left")
    workflow.checkpoint("r", "n", {"a": 2, "b": 1}, "left")
    workflow.checkpoint("r", "n", {"a": 1, "b": 2})
    workflow.checkpoint("r", "n", {"a": 1, "b": 3})
    assert workflow.cleanup_checkpoints("r", keep_latest=1) == 2
    assert workflow.merge_branches("r", ["main", "left"], "join").state == {"a": 2, "b": 3}


def test_a_project_does_not_see_the_runs_of_another() -> None:
    alma = ALMA(MemoryStore(), project_id="p")
    WorkflowMemory(alma).checkpoint("r", "n", {"a": 1})
    other = WorkflowMemory(alma, "q")
    assert other.project_id == "q"
    assert other.resume("r") is None
    assert other.checkpoint("r", "n", {"a": 2}).number == 1
    assert other.cleanup_checkpoints(keep_latest=1) == 0
