"""`learns`: a function of one's own whose calls are learned from."""

from __future__ import annotations

import functools
import inspect
import logging
import re
import reprlib
import time
from collections.abc import Callable, Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ..engine.admit import allow, clean
from ..errors import ValidationError, unknown
from ..text import shorten
from ..types.kinds import Result
from . import calls
from .calls import Judge

if TYPE_CHECKING:
    from ..core import ALMA

_LOG = logging.getLogger("alma")

P = ParamSpec("P")
R = TypeVar("R")

Wording = str | Callable[..., str] | None
"""A text, in which `{name}` stands for an argument; or a function of the call's arguments."""

_TASK_CHARS = 400
_ARGUMENT_CHARS = 60
_READ_CHARS = 2_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Cut only where no secret can be cut in two: what is shown is far shorter.
_REPR = reprlib.Repr()
_REPR.maxlevel = 3
_REPR.maxstring = _REPR.maxother = _READ_CHARS


def learns(
    alma: ALMA,
    agent: str,
    task: Wording = None,
    strategy: Wording = None,
    task_type: str | None = None,
    reraise: bool = True,
    *,
    success: Judge | None = None,
    user_id: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Learn from each call of a function, sync or async: returned is a success, raised a failure.

    The task is the first line of its docstring (else its name) with the call's arguments, the strategy its name;
    give a text in which `{argument}` is filled in, or a function of the arguments, to say it better. `success` judges
    what is returned: True, False or 'partial'. An exception is raised on unchanged; with `reraise=False` the call
    returns None instead. A memory that cannot be written never changes what the call gives.
    """
    if not isinstance(agent, str):
        raise ValidationError(f"learns needs the agent's name: @alma.learns(agent='dev'), not {agent!r}")
    name = alma.engine.agent(agent)
    allow(alma.engine, name, task_type or "")

    def decorate(function: Callable[P, R]) -> Callable[P, Any]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ValidationError(
                f"{calls.find_name(function)} yields; only a function that returns can be learned from"
            )
        recorder = _Recorder(function, task, strategy)
        fixed = {"agent": name, "task_type": task_type, "user_id": user_id}

        def finish(words: dict[str, str] | None, began: float, value: Any, error: Exception | None = None) -> None:
            """Record a call, unless its arguments did not fit: that is a slip of the caller, not about the task."""
            try:
                result = Result.FAILURE if error else calls.judge_output(success, value)
            except ValidationError as problem:
                _LOG.warning("nothing was learned: %s", problem)
                return
            if words is not None:
                ended = {"outcome": str(result), "duration_ms": calls.elapsed_ms(began)}
                failed = {"error_message": calls.describe_error(error)} if error else {}
                calls.record_outcome(alma, {**fixed, **words, **ended, **failed})

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            words, began = recorder.describe_call(args, kwargs), time.perf_counter()
            try:
                value = function(*args, **kwargs)
            except Exception as error:
                finish(words, began, None, error)
                if reraise:
                    raise
                return None
            finish(words, began, value)
            return value

        @functools.wraps(function)
        async def call_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            import asyncio

            words, began = recorder.describe_call(args, kwargs), time.perf_counter()
            try:
                value = await function(*args, **kwargs)  # type: ignore[misc]
            except Exception as error:
                await asyncio.to_thread(finish, words, began, None, error)
                if reraise:
                    raise
                return None
            await asyncio.to_thread(finish, words, began, value)
            return value

        return call_async if calls.is_async(function) else call

    return decorate


class _Recorder:
    """Puts the calls of one function into words: its task and its strategy, from its own words and the arguments."""

    def __init__(self, function: Callable[..., Any], task: Wording, strategy: Wording) -> None:
        self._name = calls.find_name(function) or "function"
        self._about = (inspect.getdoc(function) or "").strip().partition("\n")[0] or self._name.replace("_", " ")
        self._signature = calls.find_signature(function)
        self._wordings = {"task": task, "strategy": strategy}
        for label, wording in self._wordings.items():
            if wording is not None and not callable(wording):
                self._check_template(label, wording)

    def _check_template(self, label: str, template: object) -> None:
        """Raise if a text names an argument that the function does not have: now, and not when it is called."""
        if not isinstance(template, str) or not template.strip():
            raise ValidationError(f"{label} must be a text or a function of the arguments, not {template!r}")
        known = list(self._signature.parameters) if self._signature else []
        try:
            names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
        except ValueError as error:
            raise ValidationError(f"{label} is not a text with {{names}} in it: {error}") from None
        for name in names:
            if name not in known:
                raise ValidationError(unknown(f"argument in the {label} of {self._name}", name, known))

    def describe_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, str] | None:
        """Return the words for a call, before it can change its arguments; None if it cannot be called so."""
        values: Mapping[str, Any] = {}
        if self._signature is not None:
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError:
                return None
            bound.apply_defaults()
            values = bound.arguments
        words = {"task": self._about, "strategy": f"Use {self._name}"}
        for label, wording in self._wordings.items():
            if callable(wording):
                words[label] = str(wording(*args, **kwargs))
            elif wording is not None:
                brief = {name: _shorten_value(name, value) for name, value in values.items()}
                words[label] = Formatter().vformat(wording, (), brief)
        named = [name for name in values if name not in ("self", "cls")]
        if named and self._wordings["task"] is None:
            shown = (f"{name}={_shorten_value(name, values[name], quoted=True)}" for name in named)
            words["task"] += f" ({', '.join(shown)})"
        strategy = calls.clean_text(words["strategy"], _TASK_CHARS) or f"Use {self._name}"
        return {"task": calls.clean_text(words["task"], _TASK_CHARS) or self._name, "strategy_used": strategy}


def _shorten_value(name: str, value: object, quoted: bool = False) -> str:
    """Return an argument in a few words that are the same for every call with the like: no address, no secret."""
    if isinstance(value, str):
        # By name and value together: a password gives itself away by what it is called.
        text = shorten(str(clean({name: value[:_READ_CHARS]}).get(name, "")), _ARGUMENT_CHARS)
        return repr(text) if quoted else text
    return shorten(str(clean(_ADDRESS.sub("", _REPR.repr(value)))), _ARGUMENT_CHARS)
