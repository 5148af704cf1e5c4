"""Calling whatever does the work, reading how it went, and recording that."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..engine import validate
from ..engine.admit import clean
from ..errors import ALMAError, ValidationError
from ..text import shorten
from ..types.kinds import Outcome, Result
from .types import Context, HarnessResult

if TYPE_CHECKING:
    from ..core import ALMA

Executor = Callable[..., Any]
Judge = Callable[[Any], "bool | str"]
"""Whether what was returned is a success: True, False or 'partial'."""

_LOG = logging.getLogger("alma")
_ERROR_CHARS = 2_000


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - not whether it can be called, but what that gives
    )


def find_name(function: Callable[..., Any]) -> str:
    """Return what people would call it; empty when it has no name of its own."""
    inner = getattr(function, "func", function)
    name = getattr(inner, "__name__", None) or type(inner).__name__
    return "" if name in ("<lambda>", "function", "partial") else str(name)


def find_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature; None for builtins that have none."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def bind_executor(executor: object, prompt: str, context: Context) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what to call it with: the prompt, and the context where there is a place for it."""
    if not callable(executor):
        raise ValidationError(f"executor must be something that can be called, not {type(executor).__name__}")
    signature = find_signature(executor)
    if signature is None:
        return (prompt,), {}
    parameters = list(signature.parameters.values())
    placed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    later = placed[2:] + [one for one in parameters if one.kind is one.KEYWORD_ONLY]
    open_ended = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    if any(one.default is one.empty and one.name != "context" for one in later) or not (placed or open_ended):
        raise ValidationError(
            f"executor must take the prompt, or the prompt and the context; {find_name(executor) or 'it'} takes "
            f"({', '.join(one.name for one in parameters)})"
        )
    if any(one.default is one.empty or one.name == "context" for one in placed[1:2]):
        return (prompt, context), {}
    return (prompt,), {"context": context} if any(one.name == "context" for one in later) else {}


def read_result(value: Any, judge: Judge | None = None) -> HarnessResult:
    """Return what a result says, with its outcome: a plain value is the output of a success, unless `judge` sees it
    otherwise."""
    if isinstance(value, Mapping) and ("success" in value or "outcome" in value):
        success = value.get("success", value.get("outcome") != Result.FAILURE)
        if not isinstance(success, bool):
            raise ValidationError(f"the executor's result says success={success!r}; it must be True or False")
        report = HarnessResult(
            output=value.get("output"),
            success=success,
            outcome=value.get("outcome"),
            strategy=value.get("strategy") or value.get("strategy_used"),
            error=value.get("error") or value.get("error_message"),
            feedback=value.get("feedback"),
        )
    else:
        report = value if isinstance(value, HarnessResult) else HarnessResult(output=value)
    result = _check_report(report)
    if judge is not None and result is not Result.FAILURE:
        result = judge_output(judge, report.output)
    return replace(report, outcome=result)


def _check_report(report: HarnessResult) -> Result:
    for label in ("strategy", "feedback"):
        text = getattr(report, label)
        if text is not None and not isinstance(text, str):
            raise ValidationError(f"the executor's result has a {label} that is not text, but {type(text).__name__}")
    if report.outcome is None:
        return Result.SUCCESS if report.success else Result.FAILURE
    result = validate.choice("outcome", report.outcome, Result)
    if (report.success, result) in ((True, Result.FAILURE), (False, Result.SUCCESS)):
        raise ValidationError(
            f"the executor's result says success={report.success} and outcome={str(result)!r}: it cannot be both"
        )
    return result


def judge_output(judge: Judge | None, output: Any) -> Result:
    """Return how the caller's own function sees it; raise ValidationError when it cannot tell."""
    try:
        verdict = True if judge is None else judge(output)
    except Exception as error:  # noqa: BLE001 - it is the caller's, and the work it judges is done and must not be lost
        raise ValidationError(f"the function that judges success raised {error!r}") from None
    if isinstance(verdict, bool):
        return Result.SUCCESS if verdict else Result.FAILURE
    if verdict not in list(Result):
        raise ValidationError(f"success must give True, False, 'success', 'partial' or 'failure', not {verdict!r}")
    return Result(verdict)


def elapsed_ms(began: float) -> int:
    """Return the milliseconds since a value of `time.perf_counter`."""
    return max(0, round((time.perf_counter() - began) * 1000))


def describe_error(error: BaseException) -> str:
    """Return an exception in a line, whatever its own text does; without secrets."""
    from traceback import format_exception_only

    return clean_text("".join(format_exception_only(error)), _ERROR_CHARS)


def clean_text(text: str, most: int) -> str:
    """Return a text from outside as it may be stored: valid, without colours and secrets, not too long."""
    valid = text[: 4 * most].encode("utf-8", "replace").decode()
    return shorten(clean(validate.output("text", valid) or ""), most)


def record_outcome(alma: ALMA, fields: Mapping[str, Any]) -> tuple[Outcome | None, str | None]:
    """Return what was learned, or why nothing was: work that is done is not lost because it could not be recorded."""
    try:
        return alma.learn(**fields), None
    except ALMAError as error:
        problem = f"the outcome could not be learned: {error}"
        _LOG.warning("%s", problem)
        return None, problem
