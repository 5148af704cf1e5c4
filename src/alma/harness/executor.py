"""Calling whatever does the work, and understanding what it says about how it went."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..engine import validate
from ..errors import ValidationError
from ..types.kinds import Result
from .types import Context, HarnessResult

Executor = Callable[..., Any]
Judge = Callable[[Any], "bool | str"]
"""Whether what was returned is a success: True, False or 'partial'."""

_REPORT = ("success", "outcome")


@dataclass(frozen=True, slots=True)
class Report:
    """What an executor's result says."""

    output: Any
    result: Result
    strategy: str | None = None
    error: str | None = None
    feedback: str | None = None


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - not whether it can be called, but what that gives
    )


def name_of(function: Callable[..., Any]) -> str:
    """What people would call it; empty when it has no name of its own."""
    inner = getattr(function, "func", function)
    name = getattr(inner, "__name__", None) or type(inner).__name__
    return "" if name in ("<lambda>", "function", "partial") else str(name)


def arguments(executor: object, prompt: str, context: Context) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call it with: the prompt, and the context where there is a place for it."""
    if not callable(executor):
        raise ValidationError(f"executor must be something that can be called, not {type(executor).__name__}")
    try:
        parameters = list(inspect.signature(executor).parameters.values())
    except (TypeError, ValueError):
        return (prompt,), {}  # some builtins do not tell
    placed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = [one for one in parameters if one.kind is one.KEYWORD_ONLY]
    open_ended = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    wanted = [one for one in placed[2:] + named if one.default is one.empty and one.name != "context"]
    if wanted or not (placed or open_ended):
        raise ValidationError(
            f"executor must take the prompt, or the prompt and the context; {name_of(executor) or 'it'} takes "
            f"({', '.join(one.name for one in parameters)})"
        )
    second = placed[1] if len(placed) > 1 else None
    if second is not None and (second.default is second.empty or second.name == "context"):
        return (prompt, context), {}
    if any(one.name == "context" for one in placed[2:] + named):
        return (prompt,), {"context": context}
    return (prompt,), {}


async def awaited(value: Awaitable[Any]) -> Any:
    return await value


def read(value: Any, judge: Judge | None = None) -> Report:
    """What a result says: a plain value is the output of a success, unless `judge` sees it otherwise."""
    if isinstance(value, HarnessResult):
        report = _told(value)
    elif isinstance(value, Mapping) and any(name in value for name in _REPORT):
        report = _told(_from_mapping(value))
    else:
        report = Report(value, Result.SUCCESS)
    if judge is None or report.result is Result.FAILURE:
        return report
    result, problem = judged(judge, report.output)
    if result is None:
        raise ValidationError(problem)
    return replace(report, result=result)


def _from_mapping(value: Mapping[str, Any]) -> HarnessResult:
    outcome = value.get("outcome")
    success = value.get("success", outcome != Result.FAILURE)
    if not isinstance(success, bool):
        raise ValidationError(f"the executor's result says success={success!r}; it must be True or False")
    return HarnessResult(
        output=value.get("output"),
        success=success,
        outcome=outcome,
        strategy=value.get("strategy") or value.get("strategy_used"),
        error=value.get("error") or value.get("error_message"),
        feedback=value.get("feedback"),
    )


def _told(value: HarnessResult) -> Report:
    for label in ("strategy", "feedback"):
        given = getattr(value, label)
        if given is not None and not isinstance(given, str):
            raise ValidationError(f"the executor's result has a {label} that is not text, but {type(given).__name__}")
    result = Result.SUCCESS if value.success else Result.FAILURE
    if value.outcome is not None:
        result = validate.choice("outcome", value.outcome, Result)
        if (value.success, result) in ((True, Result.FAILURE), (False, Result.SUCCESS)):
            raise ValidationError(
                f"the executor's result says success={value.success} and outcome={str(result)!r}: it cannot be both"
            )
    error = None if value.error is None else str(value.error)
    return Report(value.output, result, value.strategy, error, value.feedback)


def judged(judge: Judge | None, value: Any) -> tuple[Result | None, str]:
    """Success or not, as the caller's own function sees it; None and why when it could not tell."""
    if judge is None:
        return Result.SUCCESS, ""
    try:
        given = judge(value)
    except Exception as error:  # noqa: BLE001 - it is the caller's, and the work it judges is done and must not be lost
        return None, f"the function that judges success raised {error!r}"
    if isinstance(given, bool):
        return (Result.SUCCESS if given else Result.FAILURE), ""
    try:
        return validate.choice("success", given, Result), ""
    except ValidationError:
        return None, f"success must give True, False, 'success', 'partial' or 'failure', not {given!r}"
