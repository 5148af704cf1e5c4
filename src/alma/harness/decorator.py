"""`learns`: a function of one's own whose calls are learned from."""

from __future__ import annotations

import functools
import inspect
import logging
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from ..engine.admit import allow, clean
from ..engine.text import shorten
from ..errors import ValidationError, unknown
from ..types.kinds import Result
from .executor import Judge, is_async, judged, name_of
from .telling import Stopwatch, described, learn, spoken

if TYPE_CHECKING:
    from ..core import ALMA

_LOG = logging.getLogger("alma")

P = ParamSpec("P")
R = TypeVar("R")

Telling = str | Callable[..., str] | None
"""A text, in which `{name}` stands for an argument; or a function of the call's arguments."""

_TASK_CHARS = 400
_ARGUMENT_CHARS = 60
_READ_CHARS = 2_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Cut only where no secret can be cut in two: what is shown is far shorter.
_REPR = reprlib.Repr()
_REPR.maxlevel = 3
_REPR.maxstring = _REPR.maxother = _READ_CHARS


@overload
def learns(
    alma: ALMA,
    agent: str,
    task: Telling = None,
    strategy: Telling = None,
    task_type: str | None = None,
    reraise: Literal[True] = True,
    *,
    success: Judge | None = None,
    user_id: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@overload
def learns(
    alma: ALMA,
    agent: str,
    task: Telling = None,
    strategy: Telling = None,
    task_type: str | None = None,
    *,
    reraise: Literal[False],
    success: Judge | None = None,
    user_id: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R | None]]: ...
def learns(
    alma: ALMA,
    agent: str,
    task: Telling = None,
    strategy: Telling = None,
    task_type: str | None = None,
    reraise: bool = True,
    *,
    success: Judge | None = None,
    user_id: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, Any]]:
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
            raise ValidationError(f"{name_of(function)} yields; only a function that returns can be learned from")
        story = Story(function, task, strategy)
        fixed = {"agent": name, "task_type": task_type, "user_id": user_id}
        teller = Teller(alma, story, fixed, success)
        wrap = _async if is_async(function) else _sync
        return wrap(function, teller, reraise)

    return decorate


def _sync(function: Callable[P, R], teller: Teller, reraise: bool) -> Callable[P, R | None]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
        told = teller.told(args, kwargs)
        watch = Stopwatch()
        try:
            value = function(*args, **kwargs)
        except Exception as error:
            teller.failed(told, error, watch.read())
            if reraise:
                raise
            return None
        teller.returned(told, value, watch.read())
        return value

    return call


def _async(function: Callable[P, Any], teller: Teller, reraise: bool) -> Callable[P, Any]:
    import asyncio

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        told = teller.told(args, kwargs)
        watch = Stopwatch()
        try:
            value = await function(*args, **kwargs)
        except Exception as error:
            await asyncio.to_thread(teller.failed, told, error, watch.read())
            if reraise:
                raise
            return None
        await asyncio.to_thread(teller.returned, told, value, watch.read())
        return value

    return call


Told = dict[str, Any] | None


class Teller:
    """Tells the memory how the calls of one function went."""

    def __init__(self, alma: ALMA, story: Story, fixed: Mapping[str, Any], judge: Judge | None) -> None:
        self._alma = alma
        self._story = story
        self._fixed = fixed
        self._judge = judge

    def told(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Told:
        """What a call is about, put into words before it can change its arguments. None: it cannot be called so,
        which is a slip of the caller and nothing about the task."""
        if not self._story.fits(args, kwargs):
            return None
        words = {"task": self._story.task(args, kwargs), "strategy_used": self._story.strategy(args, kwargs)}
        return {**self._fixed, **words}

    def returned(self, told: Told, value: object, took: int) -> None:
        result, problem = judged(self._judge, value)
        if told is not None and result is not None:
            learn(self._alma, {**told, "outcome": str(result), "duration_ms": took})
        elif problem:
            _LOG.warning("nothing was learned: %s", problem)

    def failed(self, told: Told, error: Exception, took: int) -> None:
        if told is not None:
            ended = {"outcome": str(Result.FAILURE), "duration_ms": took, "error_message": described(error)}
            learn(self._alma, {**told, **ended})


class Story:
    """How the calls of one function are told: its task and its strategy, from its own words and the arguments."""

    def __init__(self, function: Callable[..., Any], task: Telling, strategy: Telling) -> None:
        self._name = name_of(function) or "function"
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            self._signature = None  # some builtins do not tell
        self._task = self._checked("task", task)
        self._strategy = self._checked("strategy", strategy)
        self._about = (inspect.getdoc(function) or "").strip().partition("\n")[0] or self._name.replace("_", " ")

    def _checked(self, label: str, given: Telling) -> Telling:
        """A name that no argument has is a slip, found when the function is made and not when it is called."""
        if given is None or callable(given):
            return given
        if not isinstance(given, str) or not given.strip():
            raise ValidationError(f"{label} must be a text or a function of the arguments, not {given!r}")
        known = list(self._signature.parameters) if self._signature else []
        for name in _fields(label, given):
            if name not in known:
                raise ValidationError(unknown(f"argument in the {label} of {self._name}", name, known))
        return given

    def task(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        told = self._told(self._task, args, kwargs)
        if told is None:
            shown = ", ".join(self._arguments(args, kwargs))
            told = f"{self._about} ({shown})" if shown else self._about
        return spoken(told, _TASK_CHARS) or self._name

    def strategy(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        told = self._told(self._strategy, args, kwargs)
        return spoken(f"Use {self._name}" if told is None else told, _TASK_CHARS) or f"Use {self._name}"

    def fits(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        try:
            self._bind(args, kwargs)
        except TypeError:
            return False
        return True

    def _told(self, telling: Telling, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        if telling is None:
            return None
        if callable(telling):
            return str(telling(*args, **kwargs))
        brief = {name: brief_of(name, value) for name, value in self._bind(args, kwargs).items()}
        return Formatter().vformat(telling, (), brief)

    def _arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[str]:
        for name, value in self._bind(args, kwargs).items():
            if name not in ("self", "cls"):
                yield f"{name}={brief_of(name, value, quoted=True)}"

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if self._signature is None:
            return {}
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments


def _fields(label: str, template: str) -> Iterator[str]:
    try:
        for _, field, _, _ in Formatter().parse(template):
            if field is not None:
                yield field
    except ValueError as error:
        raise ValidationError(f"{label} is not a text with {{names}} in it: {error}") from None


def brief_of(name: str, value: object, quoted: bool = False) -> str:
    """An argument in a few words that are the same for every call with the like: no address, no secret."""
    if isinstance(value, str):
        # By name and value together: a password gives itself away by what it is called.
        text = str(clean({name: value[:_READ_CHARS]}).get(name, ""))
        return repr(shorten(text, _ARGUMENT_CHARS)) if quoted else shorten(text, _ARGUMENT_CHARS)
    return shorten(str(clean(_ADDRESS.sub("", _REPR.repr(value)))), _ARGUMENT_CHARS)
