"""How far one may look: each scope holds what the narrower ones hold, and nothing of its neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import NotFoundError, ScopeError, ValidationError
from alma.stores.memory import MemoryStore
from alma.types.kinds import Memory
from alma.types.query import MemoryScope
from alma.workflow import Scope, WorkflowMemory

TASK = "Deploy the payment service"


def learned(workflow: WorkflowMemory, run: str, node: str | None, way: str, agent: str = "dev", **more: str) -> None:
    workflow.learn_from_workflow(run, agent, "success", way, TASK, node_id=node, **more)  # type: ignore[arg-type]


def ways(found: Iterable[Memory]) -> set[str]:
    return {one.strategy_used for one in found if hasattr(one, "strategy_used")}


@pytest.fixture
def told(workflow: WorkflowMemory) -> WorkflowMemory:
    for name, run in (("deploy", "r1"), ("deploy", "r2"), ("other", "r3")):
        workflow.start_run(name, run)
    learned(workflow, "r1", "build", "alpha way")
    learned(workflow, "r1", "ship", "bravo way")
    learned(workflow, "r2", "build", "charlie way")
    learned(workflow, "r3", "build", "delta way")
    learned(workflow, "r1", "build", "echo way", agent="ops")
    return workflow


@pytest.mark.parametrize(
    ("scope", "place", "expected"),
    [
        ("node", {"run_id": "r1", "node_id": "build"}, {"alpha"}),
        ("node", {"run_id": "r1", "node_id": "ship"}, {"bravo"}),
        ("node", {"workflow_id": "deploy", "node_id": "build"}, {"alpha", "charlie"}),
        ("node", {"workflow_id": "other", "node_id": "build"}, {"delta"}),
        ("node", {"run_id": "r2", "node_id": "ship"}, set()),
        ("node", {"run_id": "r1", "node_id": "buil"}, set()),
        ("run", {"run_id": "r1"}, {"alpha", "bravo"}),
        ("workflow", {"workflow_id": "deploy"}, {"alpha", "bravo", "charlie"}),
        ("workflow", {"run_id": "r2"}, {"alpha", "bravo", "charlie"}),
        ("agent", {}, {"alpha", "bravo", "charlie", "delta"}),
        ("global", {}, {"alpha", "bravo", "charlie", "delta", "echo"}),
    ],
)
def test_a_scope_holds_its_own_and_nothing_else(
    told: WorkflowMemory, scope: str, place: dict[str, str], expected: set[str]
) -> None:
    found = told.retrieve_scoped(TASK, "dev", scope, top_k=20, **place)  # type: ignore[arg-type]
    assert ways(found) == {f"{name} way" for name in expected}


def test_a_wider_scope_holds_what_a_narrower_one_holds(alma: ALMA) -> None:
    workflow = WorkflowMemory(alma, tenant_id="acme")
    workflow.start_run("deploy", "r1")
    workflow.start_run("deploy", "r2")
    for run, node, way, agent in (
        ("r1", "build", "alpha way", "dev"),
        ("r1", "ship", "bravo way", "dev"),
        ("r2", "build", "charlie way", "dev"),
        ("r2", "build", "delta way", "ops"),
    ):
        learned(workflow, run, node, way, agent)
    alma.learn("dev", TASK, "success", "echo way")
    seen = [
        ways(workflow.retrieve_scoped(TASK, "dev", scope, run_id="r1", node_id="build", top_k=20)) for scope in Scope
    ]
    assert [len(one) for one in seen] == [1, 2, 3, 3, 4, 5]
    assert all(narrow <= wide for narrow, wide in itertools.pairwise(seen))


def test_names_with_slashes_are_not_mistaken_for_others(workflow: WorkflowMemory) -> None:
    workflow.start_run("a/b", "r1")
    workflow.start_run("a", "r2")
    learned(workflow, "r1", "c", "alpha way")
    learned(workflow, "r2", "b/c", "bravo way")
    found = workflow.retrieve_scoped(TASK, "dev", "node", workflow_id="a", node_id="b/c")
    assert ways(found) == {"bravo way"}


def test_outcomes_of_workflows_are_retrieved_and_distilled_like_others(alma: ALMA, workflow: WorkflowMemory) -> None:
    for number in range(3):
        workflow.start_run("deploy", f"r{number}")
        [made] = workflow.learn_from_workflow(f"r{number}", "dev", "success", "Blue-green deployment", TASK)
        assert made.tags == ("workflow:deploy", f"run:r{number}")
        assert workflow.get_run(f"r{number}").status == "completed"
    found = alma.retrieve(TASK, "dev")
    assert ways(found) == {"Blue-green deployment"}
    assert [one.strategy for one in found.heuristics] == ["Blue-green deployment"]


def test_any_memory_may_be_given_a_place(alma: ALMA, workflow: WorkflowMemory) -> None:
    workflow.start_run("deploy", "r1")
    fact = "Deploying the payment service needs the vault"
    alma.add_domain_knowledge("dev", "deployment", fact, tags=workflow.tags(run_id="r1", node_id="build"))
    for scope, node, count in (("node", "build", 1), ("node", "ship", 0), ("run", None, 1), ("workflow", None, 1)):
        found = workflow.retrieve_scoped(TASK, "dev", scope, run_id="r1", node_id=node)
        assert len(found.domain_knowledge) == count, (scope, node)


# -- tenants


def test_no_scope_reaches_into_another_tenant(alma: ALMA) -> None:
    acme, globex, shared = (
        WorkflowMemory(alma, tenant_id="acme"),
        WorkflowMemory(alma, tenant_id="globex"),
        WorkflowMemory(alma),
    )
    for memory, name in ((acme, "acme"), (globex, "globex"), (shared, "shared")):
        memory.start_run("deploy", "r1")
        for _ in range(3):
            learned(memory, "r1", "build", f"{name} way")
        memory.checkpoint("r1", "build", {"of": name})
        memory.link_artifact("r1", f"s3://{name}/a")
    for scope in Scope:
        found = acme.retrieve_scoped(TASK, "dev", scope, run_id="r1", node_id="build", top_k=50)
        text = found.to_prompt()
        assert "globex" not in text
        assert ("shared" in text) == (scope is Scope.GLOBAL)
        assert "acme" in text
    assert "globex" not in alma.retrieve(TASK, "dev", top_k=50).to_prompt(), "nor does one who asks without a tenant"
    assert [one.location for one in acme.get_artifacts()] == ["s3://acme/a"]
    resumed = acme.resume("r1")
    assert resumed is not None
    assert resumed.state == {"of": "acme"}


def test_a_tenant_memory_refuses_to_look_into_another(alma: ALMA) -> None:
    acme = WorkflowMemory(alma, tenant_id="acme")
    with pytest.raises(ScopeError, match="tenant 'acme' and may not read that of 'globex'"):
        acme.retrieve_scoped(TASK, "dev", "tenant", tenant_id="globex")
    assert acme.retrieve_scoped(TASK, "dev", "tenant", tenant_id="acme").total_items == 0


def test_a_tenant_may_be_named_when_asking(alma: ALMA) -> None:
    acme = WorkflowMemory(alma, tenant_id="acme")
    acme.start_run("deploy", "r1")
    learned(acme, "r1", "build", "alpha way")
    shared = WorkflowMemory(alma)
    assert ways(shared.retrieve_scoped(TASK, "ops", "tenant", tenant_id="acme")) == {"alpha way"}
    assert ways(shared.retrieve_scoped(TASK, "dev", "workflow", tenant_id="acme", run_id="r1")) == {"alpha way"}
    assert ways(shared.retrieve_scoped(TASK, "dev", "global")) == set()


def test_tenants_whose_names_resemble_each_other_are_two() -> None:
    alma = ALMA(MemoryStore(), HashEmbedder(), project_id="p")
    one, two = WorkflowMemory(alma, tenant_id="a@b"), WorkflowMemory(alma, "p@a", tenant_id="b")
    one.checkpoint("r", "n", {"of": "one"})
    assert two.resume("r") is None


def test_declared_agents_are_read_only_with_their_consent() -> None:
    agents = [MemoryScope("dev"), MemoryScope("ops", share_with=("dev",)), MemoryScope("legal")]
    alma = ALMA(MemoryStore(), HashEmbedder(), project_id="p", agents=agents)
    workflow = WorkflowMemory(alma)
    workflow.start_run("deploy", "r")
    for agent in ("dev", "ops", "legal"):
        learned(workflow, "r", "build", f"{agent} way", agent)
    for scope in (Scope.RUN, Scope.AGENT, Scope.GLOBAL):
        found = workflow.retrieve_scoped(TASK, "dev", scope, run_id="r")
        assert ways(found) == {"dev way", "ops way"}, scope
    with pytest.raises(ScopeError, match="unknown agent"):
        workflow.retrieve_scoped(TASK, "nobody", "global")


# -- bad input


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"scope": "planet"}, "Valid: node, run, workflow, agent, tenant, global"),
        ({"scope": "node"}, "needs node_id"),
        ({"scope": "node", "node_id": "n"}, "run_id or workflow_id"),
        ({"scope": "run"}, "needs run_id"),
        ({"scope": "workflow"}, "needs workflow_id"),
        ({"scope": "tenant"}, "needs tenant_id"),
        ({"scope": "run", "run_id": "r1", "workflow_id": "build"}, "belongs to workflow 'deploy', not to 'build'"),
        ({"scope": "agent", "task": ""}, "task is empty"),
        ({"scope": "agent", "top_k": 0}, "top_k"),
    ],
)
def test_bad_questions_say_what_is_missing(workflow: WorkflowMemory, given: dict[str, str], told: str) -> None:
    workflow.start_run("deploy", "r1")
    with pytest.raises(ValidationError, match=told):
        workflow.retrieve_scoped(**({"task": TASK, "agent": "dev"} | given))  # type: ignore[arg-type]


def test_a_run_that_does_not_exist_is_named_with_those_that_do(told: WorkflowMemory) -> None:
    with pytest.raises(NotFoundError, match=r"no run 'r33' in project 'p'. The latest runs: r\d, r\d, r\d\."):
        told.retrieve_scoped(TASK, "dev", "run", run_id="r33")
    with pytest.raises(NotFoundError, match="no run 'r33'"):
        told.link_artifact("r33", "s3://bucket/a")
    assert len(told.list_runs().runs) == 3
    assert told.resume("r33") is None


def test_bad_outcomes_change_nothing(alma: ALMA, workflow: WorkflowMemory) -> None:
    with pytest.raises(NotFoundError, match="no run 'r'"):
        learned(workflow, "r", None, "alpha way")
    with pytest.raises(ValidationError, match="success"):
        workflow.learn_from_workflow("r", "dev", "banana", "alpha way", workflow_id="deploy")
    with pytest.raises(ValidationError, match="strategy_used is empty"):
        workflow.learn_from_workflow("r", "dev", "success", [], workflow_id="deploy")
    assert workflow.list_runs().runs == []
    assert alma.get_stats()["total_count"] == 0
    made = workflow.learn_from_workflow("r", "dev", "failure", ["alpha way", "bravo way"], workflow_id="deploy")
    assert [one.task_description for one in made] == ["Run the workflow deploy"] * 2
    assert workflow.get_run("r").status == "failed"
    workflow.checkpoint("free", "n", {})
    with pytest.raises(ValidationError, match="pass `task`"):
        workflow.learn_from_workflow("free", "dev", "success", "alpha way")
