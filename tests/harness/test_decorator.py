"""`@learns`: a function goes on being what it is, and each call teaches something."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import ScopeError, ValidationError
from alma.harness import learns
from alma.stores.memory import MemoryStore
from alma.types.kinds import Outcome
from alma.types.query import MemoryScope


def learned(alma: ALMA) -> list[Outcome]:
    """Oldest first."""
    return [one for one in reversed(alma.list("outcome")) if isinstance(one, Outcome)]


def test_a_call_that_returns_is_a_success(alma: ALMA) -> None:
    @learns(alma, agent="dev")
    def deploy_service(name: str, region: str = "eu") -> str:
        """Deploy a service.

        With all that belongs to it.
        """
        return f"{name} in {region}"

    assert deploy_service("auth") == "auth in eu"
    [made] = learned(alma)
    assert (made.outcome, made.agent, made.strategy_used) == ("success", "dev", "Use deploy_service")
    assert made.task_description == "Deploy a service. (name='auth', region='eu')"
    assert made.duration_ms is not None


def test_an_exception_goes_on_unchanged_and_is_a_failure(alma: ALMA) -> None:
    error = ConnectionError("refused, token=ghp_" + "a1B2" * 9)

    @learns(alma, agent="dev")
    def reach(host: str) -> None:
        raise error

    with pytest.raises(ConnectionError) as raised:
        reach("db")
    assert raised.value is error
    assert raised.value.__context__ is None
    [made] = learned(alma)
    assert made.outcome == "failure"
    assert made.task_description == "reach (host='db')"
    assert made.error_message is not None
    assert made.error_message.startswith("ConnectionError: refused")
    assert "a1B2" not in made.error_message


def test_async_functions_are_awaited(alma: ALMA) -> None:
    @learns(alma, agent="dev", strategy="Wait")
    async def fetch(page: int) -> int:
        await asyncio.sleep(0.01)
        if page < 0:
            raise ValueError("no such page")
        return page

    assert inspect.iscoroutinefunction(fetch)
    assert asyncio.run(fetch(3)) == 3
    with pytest.raises(ValueError, match="no such page"):
        asyncio.run(fetch(-1))
    good, bad = learned(alma)
    assert (good.outcome, bad.outcome, good.strategy_used) == ("success", "failure", "Wait")
    assert good.duration_ms is not None
    assert good.duration_ms >= 9


def test_the_function_stays_what_it_was(alma: ALMA) -> None:
    def original(a: int, *, b: str = "x") -> list[str]:
        """What it does."""
        return [b] * a

    wrapped = learns(alma, agent="dev")(original)
    assert inspect.signature(wrapped) == inspect.signature(original)
    assert wrapped.__annotations__ == original.__annotations__
    assert (wrapped.__name__, wrapped.__doc__) == ("original", "What it does.")
    assert wrapped(2, b="y") == ["y", "y"]


def test_methods_and_callables(alma: ALMA) -> None:
    class Robot:
        @learns(alma, agent="dev")
        def walk(self, steps: int) -> int:
            return steps

        @staticmethod
        @learns(alma, agent="dev")
        def stop() -> str:
            return "stopped"

    assert Robot().walk(3) == 3
    assert Robot.stop() == "stopped"
    walked, stopped = learned(alma)
    assert (walked.task_description, stopped.task_description) == ("walk (steps=3)", "stop")
    assert learns(alma, agent="dev")(functools.partial(max, 3))(5) == 5


@pytest.mark.parametrize(
    ("task", "strategy", "told"),
    [
        ("Deploy {name}", "Roll out to {region}", ("Deploy auth", "Roll out to eu")),
        ("Deploy it", None, ("Deploy it", "Use deploy")),
        (lambda name, region: f"{name}!", lambda name, region: region, ("auth!", "eu")),
        ("{{literal}} {name}", "x", ("{literal} auth", "x")),
    ],
)
def test_task_and_strategy_may_be_told_better(alma: ALMA, task: Any, strategy: Any, told: tuple[str, str]) -> None:
    @learns(alma, agent="dev", task=task, strategy=strategy, task_type="deployment")
    def deploy(name: str, region: str) -> None:
        """Something else."""

    deploy("auth", region="eu")
    [made] = learned(alma)
    assert (made.task_description, made.strategy_used, made.task_type) == (*told, "deployment")


def test_a_judge_decides(alma: ALMA) -> None:
    @learns(alma, agent="dev", success=lambda value: value if isinstance(value, str) else value > 1)
    def give(value: Any) -> Any:
        return value

    assert [give(value) for value in (1, 2, "partial")] == [1, 2, "partial"]
    assert [one.outcome for one in learned(alma)] == ["failure", "success", "partial"]


def test_a_judge_that_fails_loses_nothing(alma: ALMA, caplog: pytest.LogCaptureFixture) -> None:
    @learns(alma, agent="dev", success=lambda value: value["ok"])
    def give() -> int:
        return 3

    with caplog.at_level(logging.WARNING, "alma"):
        assert give() == 3
    assert "judges success raised TypeError" in caplog.text
    assert learned(alma) == []


def test_an_exception_may_be_kept_back(alma: ALMA) -> None:
    @learns(alma, agent="dev", reraise=False)
    def broken() -> int:
        raise ValueError("x")

    assert broken() is None
    assert [one.outcome for one in learned(alma)] == ["failure"]


def test_a_memory_that_fails_changes_nothing(alma: ALMA, caplog: pytest.LogCaptureFixture) -> None:
    @learns(alma, agent="dev")
    def give(value: int) -> int:
        return 10 // value

    alma.engine.store.close()
    with caplog.at_level(logging.WARNING, "alma"):
        assert give(5) == 2
        with pytest.raises(ZeroDivisionError):
            give(0)
    assert caplog.text.count("cannot learn the outcome") == 2


def test_a_wrong_call_and_an_interruption_teach_nothing(alma: ALMA) -> None:
    @learns(alma, agent="dev")
    def give(value: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        give()  # type: ignore[call-arg]
    with pytest.raises(KeyboardInterrupt):
        give(1)
    assert learned(alma) == []


@dataclass
class Account:
    name: str
    api_key: str


class Opaque:
    pass


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


SECRET = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


@pytest.mark.parametrize(
    "given",
    [
        {"password": "hunter2"},
        {"config": {"password": "hunter2"}},
        {"key": SECRET},
        {"text": "x " * 900 + SECRET + " y" * 900},
        {"text": "x " * 22 + SECRET + " y"},
        {"items": ["a", SECRET, "b"]},
        {"account": Account("bob", SECRET)},
        {"nested": {"a": [{"token": SECRET}]}},
    ],
)
def test_no_secret_is_told(alma: ALMA, given: dict[str, Any]) -> None:
    @learns(alma, agent="dev")
    def call(**arguments: Any) -> None:
        pass

    name, value = next(iter(given.items()))
    namespace: dict[str, Any] = {}
    exec(f"def own({name}): pass", namespace)
    learns(alma, agent="dev")(namespace["own"])(value)
    call(**given)
    for made in learned(alma):
        assert "hunter2" not in made.task_description
        assert not any(SECRET[at : at + 12] in made.task_description for at in range(3, len(SECRET) - 12))


def test_no_secret_is_told_where_its_name_is_not(alma: ALMA) -> None:
    @learns(alma, agent="dev", task="Log {user} in with {password}")
    def login(user: str, password: str) -> None:
        pass

    login("bob", "hunter2")
    assert learned(alma)[0].task_description == "Log bob in with [REDACTED:password]"


def test_arguments_are_told_briefly_and_alike(alma: ALMA) -> None:
    @learns(alma, agent="dev")
    def take(*things: Any) -> None:
        """Take things."""

    take(Opaque(), Broken(), print, "x" * 10_000)
    take(Opaque(), Broken(), print, "x" * 10_000)
    take("y" * 100_000, list(range(10_000)))
    first, second, third = learned(alma)
    assert first.task_description == second.task_description
    assert "0x" not in first.task_description
    assert all(len(one.task_description) <= 400 for one in (first, third))


def test_slips_are_found_when_the_function_is_made(alma: ALMA) -> None:
    def function(name: str) -> None:
        pass

    def yields() -> Any:
        yield 1

    with pytest.raises(
        ValidationError, match=r"task of function may only use .* placeholders for name: KeyError\('nam'\)"
    ):
        learns(alma, agent="dev", task="Deploy {nam}")(function)
    with pytest.raises(ValidationError, match="strategy of function may only use"):
        learns(alma, agent="dev", strategy="Deploy {name")(function)
    with pytest.raises(ValidationError, match="yields"):
        learns(alma, agent="dev")(yields)
    with pytest.raises(ValidationError, match="agent must be a name"):
        learns(alma, function)  # type: ignore[call-overload]
    scoped = ALMA(MemoryStore(), HashEmbedder(), agents=[MemoryScope("dev", can_learn=("testing",))])
    with pytest.raises(ScopeError, match="unknown agent"):
        learns(scoped, agent="nobody")
    with pytest.raises(ScopeError, match="may not learn 'cooking'"):
        learns(scoped, agent="dev", task_type="cooking")


def test_what_a_function_does_to_its_arguments_is_not_told(alma: ALMA) -> None:
    @learns(alma, agent="dev")
    def drain(items: list[int]) -> None:
        items.clear()

    drain([1, 2])
    assert learned(alma)[0].task_description == "drain (items=[1, 2])"


def test_repeated_calls_become_a_strategy(alma: ALMA) -> None:
    @learns(alma, agent="dev", task="Deploy {service}", strategy="Blue-green deployment")
    def deploy(service: str) -> None:
        pass

    for _ in range(3):
        deploy("auth")
    assert [one.strategy for one in alma.retrieve("Deploy auth", "dev").heuristics] == ["Blue-green deployment"]
