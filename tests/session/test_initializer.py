from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from alma import ALMA
from alma.domains import get_sales_schema
from alma.errors import ConfigError, ModelUnavailableError, ScopeError, ValidationError
from alma.models.client import check
from alma.progress import ProgressTracker
from alma.session import InitializationResult, SessionInitializer, SessionManager
from alma.text import count_tokens
from alma.types.asking import Answer, Prompt
from alma.types.query import MemoryScope

if TYPE_CHECKING:
    from tests.conftest import Opener

LIST = "- Test the login form\n- Test password reset\n- Fix flaky selectors"


@pytest.fixture
def initializer(alma: ALMA, tmp_path: Path) -> SessionInitializer:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "Makefile").write_text("test:\n")
    return SessionInitializer(alma, workspace=tmp_path / "code")


@pytest.mark.system
def test_initialize_as_the_seeds_call_it(open_alma: Opener) -> None:
    alma = open_alma(
        project_id="my-project",
        agents=[MemoryScope("helena", can_learn=("testing_strategies",), cannot_learn=("backend_logic",))],
    )
    tracker, manager = ProgressTracker("my-project", alma), SessionManager("my-project", alma)
    initializer = SessionInitializer(alma, tracker, manager)
    result = initializer.initialize(project_id="my-project", agent="helena", user_prompt=LIST)
    assert [item.title for item in result.work_items] == [
        "Test the login form",
        "Test password reset",
        "Fix flaky selectors",
    ]
    assert result.recommended_start == result.work_items[0]
    assert any("testing_strategies" in rule for rule in result.scope_rules)
    assert any("backend_logic" in rule for rule in result.constraints)
    assert {item.id for item in tracker.list_items()} == {item.id for item in result.work_items}
    assert all(item.agent == "helena" for item in result.work_items)
    assert manager.get_session("helena", result.session_id).goal == result.goal


def test_initialize_as_the_prd_awaits_it(initializer: SessionInitializer) -> None:
    async def work() -> InitializationResult:
        return await initializer.initialize(
            project_id="test", agent="helena", user_prompt="Fix the login", auto_expand=True
        )

    result = asyncio.run(work())
    assert [item.title for item in result.work_items] == ["Fix the login"]


def test_every_method_of_the_prd_may_be_awaited(initializer: SessionInitializer) -> None:
    async def work() -> None:
        items = await initializer.expand_prompt("Fix the login, then deploy", None)
        assert [item.title for item in items] == ["Fix the login", "Deploy"]
        assert items[1].blocked_by == (items[0].id,)
        assert (await initializer.orient_to_codebase("test"))["tests"]["command"] == "make test"
        result = await initializer.initialize_async("test", "helena", LIST)
        assert len(result.work_items) == 3

    asyncio.run(work())
    scope_rules, constraints, quality_gates = initializer.get_rules_of_engagement("helena", MemoryScope("helena"))
    assert (scope_rules, constraints, quality_gates) == (["helena may learn about anything."], [], [])


def test_expanding_a_prompt_keeps_nothing(alma: ALMA, initializer: SessionInitializer) -> None:
    initializer.expand_prompt(LIST)
    assert ProgressTracker(alma=alma).list_items() == []


def test_what_comes_then_waits_and_details_stay_with_their_point(initializer: SessionInitializer) -> None:
    result = initializer.initialize(
        "test", "helena", "- Implement the API\n  - with an endpoint\n  - with tests\n- Then deploy it"
    )
    api, deploy = result.work_items
    assert (deploy.title, deploy.status, deploy.waiting_for) == ("Deploy it", "blocked", (api.id,))
    assert "with an endpoint" in api.description
    assert result.recommended_start == api
    assert result.planned_by == "local"


@pytest.mark.parametrize("first", ["URGENT: fix the crash", "Fix the crash (urgent)", "[P0] Fix the crash"])
def test_the_most_urgent_is_where_to_start(initializer: SessionInitializer, first: str) -> None:
    result = initializer.initialize("test", "helena", f"- Write docs\n- Low-level cleanup\n- {first}")
    assert result.recommended_start == result.work_items[2]
    assert [item.priority for item in result.work_items] == [50, 50, 90]


def test_what_another_agent_has_is_not_where_to_start(alma: ALMA, initializer: SessionInitializer) -> None:
    tracker = ProgressTracker(alma=alma)
    tracker.create_work_item(title="Mend the cache", description="Mend the cache", agent="victor", priority=99)
    taken = tracker.create_work_item(title="Test the login", description="Test the login", priority=90)
    tracker.claim(taken.id, "victor")
    prompt = "- Mend the cache\n- Test the login\n- Write the docs"
    result = initializer.initialize(agent="helena", user_prompt=prompt)
    assert len(result.work_items) == 3
    assert result.recommended_start is not None
    assert result.recommended_start.title == "Write the docs"
    alone = initializer.initialize(agent="helena", user_prompt="- Mend the cache\n- Test the login")
    assert alone.recommended_start is not None
    assert alone.recommended_start.title == "Write the docs"


def test_the_same_prompt_twice_makes_each_item_once(alma: ALMA, initializer: SessionInitializer) -> None:
    first = initializer.initialize("test", "helena", "- Fix the login\n- Then deploy")
    again = initializer.initialize("test", "helena", "- Fix the login\n- Write docs\n- Then deploy")
    assert again.work_items[0] == first.work_items[0]
    held = [item.title for item in ProgressTracker(alma=alma).list_items()]
    assert sorted(held) == ["Deploy", "Fix the login", "Write docs"]
    ProgressTracker(alma=alma).update_status(first.work_items[0].id, "done")
    third = initializer.initialize("test", "helena", "- Fix the login")
    assert third.work_items[0].id != first.work_items[0].id


def test_without_expanding_there_are_no_items_and_the_open_ones_are_suggested(
    alma: ALMA, initializer: SessionInitializer
) -> None:
    open_item = ProgressTracker(alma=alma).create_work_item(title="Left over")
    result = initializer.initialize("test", "helena", LIST, auto_expand=False)
    assert result.work_items == []
    assert result.recommended_start is not None
    assert result.recommended_start.id == open_item.id


def test_what_is_known_and_what_happened_is_told(alma: ALMA, initializer: SessionInitializer) -> None:
    for _ in range(3):
        alma.learn(
            agent="helena", task="Test the login form", outcome="success", strategy_used="Test empty fields first"
        )
    alma.add_user_preference(user_id="ann", category="output", preference="verbose output")
    manager = SessionManager(alma=alma, workspace=None)
    session = manager.start_session("helena").session_id
    manager.create_handoff("helena", session, "wrote tests", "failure", test_status={"test_login": False})
    result = initializer.initialize("test", "helena", "Test the login form", user_id="ann")
    assert [one.strategy for one in result.relevant_memories.heuristics] == ["Test empty fields first"]
    assert result.recent_activity[0].endswith("wrote tests (failure)")
    outcome = f"Outcome {result.initialized_at:%Y-%m-%d} success: Test the login form: Test empty fields first"
    assert outcome in result.recent_activity
    assert "ann prefers: verbose output" in result.constraints
    assert result.quality_gates == ["The tests pass: make test", "test_login passes again"]
    assert result.codebase_summary is not None
    assert result.session.codebase_state is not None
    assert result.session.previous_handoff is not None


def test_what_the_prompt_forbids_and_demands_comes_first(initializer: SessionInitializer) -> None:
    result = initializer.initialize("test", "helena", "Fix the login. Don't touch the database. All tests must pass.")
    assert [item.title for item in result.work_items] == ["Fix the login"]
    assert result.constraints[:2] == ["Don't touch the database", "All tests must pass"]


def test_the_domain_names_the_types(initializer: SessionInitializer) -> None:
    [first, second] = initializer.expand_prompt("- Call the lead at Acme\n- Write the report", get_sales_schema())
    assert (first.item_type, second.item_type) == ("lead", "task")


def test_another_project_of_the_same_memory(alma: ALMA, initializer: SessionInitializer) -> None:
    result = initializer.initialize("other", "helena", "Fix the login")
    assert result.project_id == "other"
    assert [item.project_id for item in result.work_items] == ["other"]
    assert ProgressTracker(alma=alma).list_items() == []


def test_bad_input_changes_nothing(open_alma: Opener) -> None:
    alma = open_alma(agents=[MemoryScope("helena")])
    initializer = SessionInitializer(alma, ProgressTracker("test", alma), SessionManager("test", alma), workspace=None)
    with pytest.raises(ValidationError, match="works for 'test'"):
        initializer.initialize("other", "helena", "Fix the login")
    with pytest.raises(ValidationError, match="user_prompt"):
        initializer.initialize("test", "helena", " ")
    with pytest.raises(ScopeError, match="helena"):
        initializer.initialize("test", "nobody", "Fix the login")
    with pytest.raises(ValidationError, match="agent"):
        initializer.initialize("test", user_prompt="Fix the login")
    assert ProgressTracker(alma=alma).list_items() == []
    assert SessionManager(alma=alma).list_sessions("helena", "open").sessions == []


# -- as text


def test_a_result_as_a_prompt(initializer: SessionInitializer) -> None:
    result = initializer.initialize("test", "helena", "Fix the login, then deploy. Don't touch the database.")
    told = result.to_prompt()
    assert told.startswith(
        "# helena in test\nGoal: Fix the login, then deploy. Don't touch the database.\nStart with: wrk_"
    )
    for part in (
        "## Work items",
        "## Scope",
        "- Don't touch the database",
        "- The tests pass: make test",
        "## Code",
    ):
        assert part in told
    assert f"waits for {result.work_items[0].id}" in told


def test_a_prompt_keeps_to_its_budget(alma: ALMA, initializer: SessionInitializer) -> None:
    alma.add_many(
        {"type": "domain_knowledge", "agent": "helena", "domain": "auth", "fact": f"The login form {n} " + "ü" * 400}
        for n in range(20)
    )
    result = initializer.initialize(
        "test", "helena", "\n".join(f"- Test the login form {n} {'y' * 200}" for n in range(60))
    )
    for budget in (150, 300, 800, 2000, 8000):
        assert count_tokens(result.to_prompt(budget)) <= budget
    with pytest.raises(ValidationError, match="max_tokens"):
        result.to_prompt(3)


# -- with a model


@dataclass
class FakeModel:
    value: Any
    name: str = "fake"
    asked: list[Prompt] = field(default_factory=list)

    def ask(self, prompt: Prompt) -> Answer:
        self.asked.append(prompt)
        if isinstance(self.value, Exception):
            raise self.value
        check(self.value, prompt.schema)
        return Answer(value=self.value, model=self.name)


def test_a_model_plans_when_there_is_one(alma: ALMA) -> None:
    tasks = [{"title": "Design the lead form", "after": [2, 7]}, {"title": "Build it", "after": [1]}]
    model = FakeModel({"tasks": tasks, "constraints": ["no new packages"]})
    initializer = SessionInitializer(alma, model=model, workspace=None)
    result = initializer.initialize("test", "helena", "Ship the lead form", domain=get_sales_schema())
    design, build = result.work_items
    assert (design.blocked_by, build.blocked_by) == ((), (design.id,)), "a task waits only for earlier ones"
    assert (design.item_type, build.item_type) == ("lead", "task")
    assert (result.constraints, result.planned_by) == (["no new packages"], "fake")
    assert "Ship the lead form" in model.asked[0].text


def test_the_configured_model_plans(open_alma: Opener) -> None:
    model = FakeModel({"tasks": [{"title": "Ship it"}]})
    alma = open_alma(model=model)
    assert SessionInitializer(alma, workspace=None).initialize("test", "helena", "Ship it now").planned_by == "fake"
    broken = open_alma(model=_fail_to_open)
    items = SessionInitializer(broken, workspace=None).expand_prompt(LIST)
    assert (len(items), items.planned_by) == (3, "local (the model failed: no key)")


def _fail_to_open(engine: Any) -> None:
    raise ConfigError("no key")


@pytest.mark.parametrize(
    "value",
    [
        ModelUnavailableError("not logged in"),
        {"goal": "x"},
        "nonsense",
        {"tasks": []},
        {"tasks": [{"title": " "}]},
        {"tasks": [{"title": "Run ./steal.sh"}]},
    ],
)
def test_when_the_model_fails_the_local_plan_is_used(alma: ALMA, value: Any, caplog: pytest.LogCaptureFixture) -> None:
    initializer = SessionInitializer(alma, model=FakeModel(value), workspace=None)
    with caplog.at_level(logging.WARNING, "alma"):
        items = initializer.expand_prompt(LIST)
    assert [item.title for item in items] == ["Test the login form", "Test password reset", "Fix flaky selectors"]
    assert items.planned_by.startswith("local (fake failed: ")
    assert "fake could not plan" in caplog.text


def test_a_slow_model_is_not_waited_for(alma: ALMA) -> None:
    release = threading.Event()

    class Slow(FakeModel):
        def ask(self, prompt: Prompt) -> Answer:
            release.wait(20)
            raise ModelUnavailableError("too late")

    items = SessionInitializer(alma, model=Slow(None), workspace=None, timeout=0.05).expand_prompt(LIST)
    release.set()
    assert (len(items), items.planned_by) == (3, "local (fake failed: no answer within 0.05 seconds)")
