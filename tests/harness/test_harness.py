"""Memory goes into the prompt, any callable does the work, and how it went is learned."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import BusyError, ScopeError, StorageError, ValidationError
from alma.harness import Agent, Context, Harness, HarnessResult, MemorySchema, Setting, Tool, create_harness
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.types.kinds import Outcome
from alma.types.query import MemoryScope, Where

TASK = "Test the login form validation"
CODING = MemorySchema("coding", ("testing_strategies", "error_handling", "api_design_patterns"), ("credentials",))


@pytest.fixture
def harness(alma: ALMA) -> Harness:
    return create_harness(CODING, "helena", alma)


def context(**more: Any) -> Context:
    return Context(task=TASK, project_id="my-app", **more)


def outcomes(alma: ALMA) -> list[Outcome]:
    return [one for one in alma.list("outcome") if isinstance(one, Outcome)]


def teach(alma: ALMA, times: int = 3) -> None:
    for _ in range(times):
        alma.learn(agent="helena", task=TASK, outcome="success", strategy_used="Test empty fields first")


# -- as the seeds show it


def test_the_harness_pattern(alma: ALMA) -> None:
    harness = create_harness("coding", "helena", alma)
    result = harness.run(Context(
        task="Test the login form validation",
        project_id="my-app",
    ))  # fmt: skip
    assert result.success is None
    assert TASK in result.prompt
    assert outcomes(alma) == [], "nothing was executed, so nothing is learned"


def test_memory_goes_into_the_prompt_and_the_outcome_is_learned(alma: ALMA) -> None:
    teach(alma)
    seen = {}

    def executor(prompt: str, *_: object, **__: object) -> str:
        seen["prompt"] = prompt
        return "passed"

    result = create_harness("coding", "helena", alma).run(context(), executor=executor)
    assert result.success is True
    assert result.output == "passed"
    assert "empty fields first" in seen["prompt"]
    assert seen["prompt"] == result.prompt
    made = outcomes(alma)[0]
    assert made == result.outcome
    assert (made.outcome, made.strategy_used, made.task_type) == ("success", "Use executor", "")
    assert made.retrieval_id == result.retrieval_id is not None
    assert made.metadata == {"domain": "coding", "project_id": "my-app"}
    assert made.duration_ms == result.duration_ms is not None


@pytest.mark.parametrize("name", ["coding", "research", "sales", "general", "customer_support", "content_creation"])
def test_every_preset_has_a_harness(alma: ALMA, name: str) -> None:
    assert create_harness(name, "agent", alma).run(context(), executor=str.upper).success


def test_an_unknown_domain_names_the_valid_ones(alma: ALMA) -> None:
    with pytest.raises(ValidationError, match=r"'codin'. Did you mean 'coding'\?.*research"):
        create_harness("codin", "helena", alma)
    with pytest.raises(ValidationError, match="domain"):
        create_harness(3, "helena", alma)  # type: ignore[arg-type]


def test_a_domain_of_ones_own(alma: ALMA) -> None:
    from alma.domains import DomainMemoryFactory

    DomainMemoryFactory(alma).create_schema("baking", {"learning_categories": ["kneading", "proving"]})
    harness = create_harness("baking", "baker", alma)
    asked = Context(task="How long is the kneading to take?", task_type="Kneading")
    result = harness.run(asked, executor=lambda prompt: "10 min")
    assert result.outcome is not None
    assert result.outcome.task_type == "kneading"


# -- the prompt


def test_the_prompt_has_all_that_is_known(alma: ALMA) -> None:
    teach(alma)
    setting = Setting(
        tools=["pytest", Tool("browser", "opens pages")],
        constraints=["Never push to main"],
        environment={"python": "3.12"},
    )
    who = Agent("helena", role="You test frontends.")
    harness = create_harness(CODING, who, alma, setting=setting)
    prompt = harness.run(context(inputs={"url": "http://x", "tries": 3}, constraints=["Be quick"])).prompt
    assert prompt.startswith(
        "You are helena. You test frontends.\n\n## Setting\nEnvironment:\n- python: 3.12\nTools:\n- pytest\n"
        "- browser: opens pages\nConstraints:\n- Never push to main\n- Be quick\n\n## Your Task\n" + TASK
    )
    assert "Project: my-app\nInputs:\n- url: http://x\n- tries: 3\n\n## Knowledge from Past Runs\n###" in prompt


def test_an_empty_memory_leaves_no_heading(harness: Harness) -> None:
    assert harness.run(Context(task=TASK)).prompt == f"## Your Task\n{TASK}"


def test_the_memories_stay_within_their_budget(alma: ALMA) -> None:
    for number in range(30):
        alma.add_domain_knowledge("helena", "login", f"Test the login form validation of field number {number}")

    def length(most: int) -> int:
        harness = create_harness(MemorySchema("coding", max_tokens=most, top_k=30), "helena", alma)
        return len(harness.run(Context(task=TASK)).prompt) - len(
            f"## Your Task\n{TASK}\n\n## Knowledge from Past Runs\n"
        )

    assert 0 < length(60) <= 60 * 3.5
    assert length(60) < length(200) <= 200 * 3.5
    assert length(2000) > 1000


def test_only_what_the_schema_injects_is_shown(alma: ALMA) -> None:
    teach(alma)
    alma.add_domain_knowledge("helena", "login", "The login form validation runs in the browser")
    found = create_harness(MemorySchema("coding", inject=["domain_knowledge"]), "helena", alma).run(context()).memories
    assert found is not None
    assert found.domain_knowledge
    assert not found.heuristics
    with pytest.raises(ValidationError, match="heuristic"):
        MemorySchema("coding", inject=["dreams"])


def test_another_users_memories_are_not_shown(alma: ALMA, harness: Harness) -> None:
    alma.add_user_preference("ann", "style", "Ann likes verbose output")
    assert "Ann likes" in harness.run(context(user_id="ann")).prompt
    assert "Ann likes" not in harness.run(context(user_id="bob")).prompt


# -- executors of all sorts


class Worker:
    def __call__(self, prompt: str) -> str:
        return f"worked on {len(prompt)}"

    def method(self, prompt: str, context: Context) -> str:
        return context.task


async def slowly(prompt: str, context: Context) -> str:
    await asyncio.sleep(0)
    return context.task


def two(prompt: str, situation: Context) -> str:
    return situation.task


def tuned(prompt: str, temperature: float = 0.2) -> float:
    return temperature


def keyword(prompt: str, *, context: Context, depth: int = 1) -> str:
    return context.task


def anything(*args: Any) -> int:
    return len(args)


EXECUTORS: list[tuple[Callable[..., Any], Any, str]] = [
    (lambda prompt: "x", "x", "Do it without a named strategy"),
    (Worker().method, TASK, "Use method"),
    (slowly, TASK, "Use slowly"),
    (two, TASK, "Use two"),
    (tuned, 0.2, "Use tuned"),
    (keyword, TASK, "Use keyword"),
    (anything, 1, "Use anything"),
    (partial(tuned, temperature=0.9), 0.9, "Use tuned"),
    (lambda prompt: slowly(prompt, context()), TASK, "Do it without a named strategy"),
]


@pytest.mark.parametrize(("executor", "output", "strategy"), EXECUTORS)
def test_any_callable_is_called_with_what_it_takes(
    harness: Harness, executor: Callable[..., Any], output: object, strategy: str
) -> None:
    for result in (harness.run(context(), executor), asyncio.run(harness.arun(context(), executor))):
        assert (result.success, result.output, result.strategy) == (True, output, strategy)
        assert result.problem is None
    worked = harness.run(context(), Worker())
    assert worked.strategy == "Use Worker"


@pytest.mark.parametrize("executor", [lambda: 1, lambda a, b, c: 1, lambda a, *, key: 1, "not callable", 3])
def test_what_cannot_be_called_so_is_refused_before_anything_happens(
    alma: ALMA, harness: Harness, executor: Any
) -> None:
    with pytest.raises(ValidationError, match="executor must"):
        harness.run(context(), executor)
    assert list(alma.engine.store.scan(Where())) == []


def test_a_harness_may_have_an_executor_of_its_own(alma: ALMA) -> None:
    harness = create_harness(CODING, "helena", alma, executor=lambda prompt: "own")
    assert harness.run(context()).output == "own"
    assert harness.run(context(), lambda prompt: "other").output == "other"


@pytest.mark.parametrize(
    ("value", "success", "output", "strategy", "error", "result"),
    [
        (None, True, None, None, None, "success"),
        (False, True, False, None, None, "success"),
        ({"answer": 42}, True, {"answer": 42}, None, None, "success"),
        ({"success": True, "output": 7, "strategy": "By hand"}, True, 7, "By hand", None, "success"),
        ({"success": False, "error": "no luck"}, False, None, None, "no luck", "failure"),
        ({"outcome": "partial", "output": 1, "strategy_used": "Half"}, False, 1, "Half", None, "partial"),
        (HarnessResult(output=1, strategy="By hand"), True, 1, "By hand", None, "success"),
        (HarnessResult(success=False, error="no luck"), False, None, None, "no luck", "failure"),
        (HarnessResult(outcome="partial", output=2), False, 2, None, None, "partial"),
    ],
)
def test_what_a_result_says_is_what_is_learned(
    alma: ALMA, harness: Harness, value: object, success: bool, output: object, strategy: str, error: str, result: str
) -> None:
    found = harness.run(context(), lambda prompt: value, strategy="Given")
    assert (found.success, found.output, found.error) == (success, output, error)
    [made] = outcomes(alma)
    assert (made.outcome, made.strategy_used, made.error_message) == (result, strategy or "Given", error)


@pytest.mark.parametrize(
    "value",
    [
        {"success": "false"},
        {"outcome": "banana"},
        {"success": True, "outcome": "failure"},
        {"success": True, "strategy": ["a"]},
        HarnessResult(outcome="perhaps"),
    ],
)
def test_a_report_that_cannot_be_understood_is_returned_and_not_learned(
    alma: ALMA, harness: Harness, value: object
) -> None:
    result = harness.run(context(), lambda prompt: value)
    assert (result.success, result.output, result.outcome) == (None, value, None)
    assert result.problem is not None
    assert result.problem.startswith("nothing was learned")
    assert outcomes(alma) == []


def test_the_strategy_is_the_results_else_the_arguments_else_the_contexts(harness: Harness) -> None:
    told = context(strategy="The context's")
    assert "How: The context's" in harness.run(told).prompt
    assert harness.run(told, lambda prompt: 1).strategy == "The context's"
    assert harness.run(told, lambda prompt: 1, strategy="The argument's").strategy == "The argument's"
    result = harness.run(told, lambda prompt: HarnessResult(strategy="Its own"), strategy="The argument's")
    assert result.strategy == "Its own"


def test_a_judge_decides(alma: ALMA, harness: Harness) -> None:
    assert harness.run(context(), lambda prompt: 3, success=lambda value: value > 5).success is False
    assert harness.run(context(), lambda prompt: 3, success=lambda value: "partial").outcome.outcome == "partial"  # type: ignore[union-attr]
    broken = harness.run(context(), lambda prompt: 3, success=lambda value: value["ok"])
    assert (broken.success, broken.output) == (None, 3)
    assert "judges success raised TypeError" in str(broken.problem)
    assert len(outcomes(alma)) == 2


# -- failures


def test_an_exception_is_a_failure_without_its_secrets(alma: ALMA, harness: Harness) -> None:
    def broken(prompt: str) -> None:
        raise ConnectionError("login failed: password=hunter2xyz \x1b[31mred\x1b[0m")

    for result in (harness.run(context(), broken), asyncio.run(harness.arun(context(), broken))):
        assert result.success is False
        assert result.error == "ConnectionError: login failed: password=[REDACTED:password] red"
        assert isinstance(result.exception, ConnectionError)
        assert "hunter2xyz" not in repr(result)
    made = outcomes(alma)
    assert [one.outcome for one in made] == ["failure"] * 2
    assert made[0].error_message == result.error
    assert made[0].strategy_used == "Use broken"
    assert alma.retrieve(TASK, "helena").anti_patterns, "two failures are a warning"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error", [Mute(), ValueError(), ValueError("x" * 10**6), ValueError("\ud800"), ScopeError("mine")]
)
def test_whatever_an_exception_says_it_is_learned(alma: ALMA, harness: Harness, error: Exception) -> None:
    def broken(prompt: str) -> None:
        raise error

    result = harness.run(context(), broken)
    assert result.exception is error
    assert result.problem is None
    assert result.error is not None
    assert len(result.error) <= 2000
    assert len(outcomes(alma)) == 1


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interruption_teaches_nothing(alma: ALMA, harness: Harness, stop: type[BaseException]) -> None:
    def interrupted(prompt: str) -> None:
        raise stop

    with pytest.raises(stop):
        harness.run(context(), interrupted)
    assert outcomes(alma) == []


def test_a_cancelled_run_teaches_nothing(alma: ALMA, harness: Harness) -> None:
    async def cancelled() -> None:
        running = asyncio.create_task(harness.arun(context(), lambda prompt: asyncio.sleep(30)))
        await asyncio.sleep(0.05)
        running.cancel()
        await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert outcomes(alma) == []


def test_an_async_executor_in_a_running_loop_is_sent_to_arun(alma: ALMA, harness: Harness) -> None:
    called = []

    async def executor(prompt: str) -> None:
        called.append(prompt)

    async def within() -> None:
        for one in (executor, lambda prompt: executor(prompt)):
            with pytest.raises(ValidationError, match="await harness.arun"):
                harness.run(context(), one)
        assert (await harness.arun(context(), executor)).success

    asyncio.run(within())
    assert len(called) == 1
    assert len(outcomes(alma)) == 1


def test_a_strange_strategy_does_not_lose_the_outcome(alma: ALMA, harness: Harness) -> None:
    result = harness.run(
        context(),
        lambda prompt: HarnessResult(strategy="Use\x00 \x1b[1mtoken=ghp_" + "a1B2" * 9 + "\ud800" + "z" * 9999),
    )
    assert result.problem is None
    assert result.outcome is not None
    assert "a1B2a1B2" not in result.outcome.strategy_used
    assert len(result.outcome.strategy_used) <= 2000


# -- a memory that fails


def test_a_locked_store_does_not_lose_the_result(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.db"
    with ALMA(SQLiteStore(path, busy_timeout=0.1), HashEmbedder(), project_id="p") as alma:
        teach(alma, 1)
        harness = create_harness(CODING, "helena", alma)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        result = harness.run(context(), lambda prompt: "the work of an hour")
        other.execute("ROLLBACK")
        other.close()
        assert (result.success, result.output, result.outcome) == (True, "the work of an hour", None)
        assert "cannot learn the outcome" in str(result.problem)
        # What is locked for writing can be read all the same.
        assert "could not be read" not in str(result.problem)
        assert "cannot learn the outcome" in caplog.text
        assert harness.run(context(), lambda prompt: "again").problem is None


def test_a_memory_that_closes_while_the_work_is_done(alma: ALMA, harness: Harness) -> None:
    def executor(prompt: str) -> str:
        alma.engine.store.close()
        return "done"

    result = harness.run(context(), executor)
    assert (result.success, result.output) == (True, "done")
    assert "store is closed" in str(result.problem)


def test_an_error_that_is_learned_too_late_does_not_hide_the_first(alma: ALMA, harness: Harness) -> None:
    def executor(prompt: str) -> str:
        alma.engine.store.close()
        raise BusyError("its own")

    result = harness.run(context(), executor)
    assert result.error == "alma.errors.BusyError: its own"
    assert isinstance(result.exception, StorageError)


# -- what may be learned


def test_a_category_that_is_not_of_the_domain_is_refused_before_the_run(alma: ALMA, harness: Harness) -> None:
    def never(prompt: str) -> None:
        raise AssertionError("it ran")

    for bad in ("cooking", "credentials"):
        with pytest.raises(ValidationError, match="Valid: testing_strategies, error_handling, api_design_patterns"):
            harness.run(context(task_type=bad), never)
    outcome = harness.run(context(task_type=" Error_Handling"), lambda prompt: 1).outcome
    assert outcome is not None
    assert outcome.task_type == "error_handling"


def test_an_agent_learns_only_what_it_may() -> None:
    scope = MemoryScope("helena", can_learn=("testing_strategies", "selectors"), cannot_learn=("error_handling",))
    alma = ALMA(MemoryStore(), HashEmbedder(), agents=[scope])
    harness = create_harness(CODING, "Helena", alma)
    assert harness.agent.name == "helena"
    with pytest.raises(ValidationError, match="Valid: testing_strategies, selectors"):
        harness.run(context(task_type="error_handling"), lambda prompt: 1)
    for category in (None, "testing_strategies", "selectors"):
        result = harness.run(context(task_type=category), lambda prompt: 1)
        assert result.outcome is not None, result.problem
        assert result.outcome.task_type == (category or "")
    with pytest.raises(ScopeError, match="unknown agent 'nobody'"):
        create_harness(CODING, "nobody", alma)


@pytest.mark.parametrize(
    "given",
    [
        {"task": ""},
        {"task": 3},
        {"task": TASK, "user_id": ""},
        {"task": TASK, "inputs": [1]},
        {"task": TASK, "constraints": "one text"},
        {"task": TASK, "strategy": " "},
    ],
)
def test_bad_contexts_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Context(**given)


def test_run_takes_a_context(harness: Harness) -> None:
    with pytest.raises(ValidationError, match=r"Context\(task=...\), not str"):
        harness.run(TASK)  # type: ignore[arg-type]


def test_without_a_memory_the_configured_one_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".alma").mkdir()
    (tmp_path / ".alma" / "config.yaml").write_text("alma:\n  project_id: mine\n  embedding_provider: mock\n")
    with create_harness("coding", "helena") as harness:
        assert harness.run(context(), lambda prompt: 1).problem is None
        assert harness.alma.project_id == "mine"
    with pytest.raises(StorageError):
        harness.alma.get_stats()
