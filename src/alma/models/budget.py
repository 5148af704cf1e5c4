"""What models may cost in a day, and what they did cost: one record a day in the store, shared by all processes.

A question is paid for before it is asked: the call, and as many tokens and as much money as it may take at most. What
it really took is settled afterwards. A process that is killed in between has spent what it set aside, so that no
budget is ever passed. Days are those of UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from ..engine.admit import build, commit, revise
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..errors import ModelError, OverBudgetError
from ..ports import Model
from ..types.asking import Answer, Prompt
from ..types.query import Where
from ..types.record import Origin, Provenance, Record

T = TypeVar("T")

TAG = "usage"
_CHARS_PER_TOKEN = 2
"""No text takes more tokens than this makes of it, but for the rarest scripts."""
_OVERHEAD = 2000
"""What a host adds to a question."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A day's most. None: as much as you like."""

    calls: int | None = 20
    tokens: int | None = None
    cost: float | None = None
    """In US dollars."""
    cost_of_a_call: float = 0.05
    """What one question may take at most; set aside while it is asked."""


@dataclass(frozen=True, slots=True)
class Day:
    day: str
    calls: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    aside_tokens: int = 0
    """Set aside for questions whose cost is not known: being asked, or broken off."""
    aside_cost: float = 0.0
    models: Mapping[str, int] = field(default_factory=dict)
    """How many calls went to which."""

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def __str__(self) -> str:
        failed = f" ({self.failed} failed)" if self.failed else ""
        used = f"{self.tokens_in:,} tokens in, {self.tokens_out:,} out, ${self.cost:.4f}"
        models = ", ".join(f"{name} {calls}" for name, calls in sorted(self.models.items()))
        return f"{self.day}  {self.calls} calls{failed}  {used}  {models}"


@dataclass(frozen=True, slots=True)
class Reserved:
    day: str
    tokens: int
    cost: float


def reserve(engine: Engine, limits: Limits, model: str, tokens: int) -> Reserved:
    """Set aside what one question may take; OverBudgetError when that would pass a limit."""
    cost = limits.cost_of_a_call if limits.cost is not None else 0.0

    def taken(now: Day) -> tuple[Reserved, Day]:
        _afford(now, limits, tokens, cost)
        models = {**now.models, model: now.models.get(model, 0) + 1}
        after = replace(
            now,
            calls=now.calls + 1,
            aside_tokens=now.aside_tokens + tokens,
            aside_cost=now.aside_cost + cost,
            models=models,
        )
        return Reserved(now.day, tokens, cost), after

    return _change(engine, engine.clock().date().isoformat(), taken)


def settle(engine: Engine, reserved: Reserved, spent: tuple[int, int, float] | None, *, failed: bool) -> None:
    """Replace what was set aside by what was spent; where nobody knows, it stays set aside."""

    def settled(now: Day) -> tuple[None, Day]:
        after = replace(now, failed=now.failed + failed)
        if spent is None:
            return None, after
        tokens_in, tokens_out, cost = spent
        return None, replace(
            after,
            tokens_in=now.tokens_in + tokens_in,
            tokens_out=now.tokens_out + tokens_out,
            cost=now.cost + cost,
            aside_tokens=max(0, now.aside_tokens - reserved.tokens),
            aside_cost=max(0.0, now.aside_cost - reserved.cost),
        )

    _change(engine, reserved.day, settled)


def meter(engine: Engine) -> list[Day]:
    """What was used, newest day first."""
    found = engine.store.scan(Where(kinds={"marker"}, tagged={TAG}))
    return sorted((_day(record) for record in found), key=lambda day: day.day, reverse=True)


class Budgeted:
    """A model that is asked only as often as a day's budget allows."""

    def __init__(self, model: Model, engine: Engine, limits: Limits) -> None:
        self._model = model
        self._engine = engine
        self._limits = limits

    @property
    def name(self) -> str:
        return self._model.name

    def ask(self, prompt: Prompt) -> Answer:
        reserved = reserve(self._engine, self._limits, self.name, most_tokens(prompt))
        try:
            answer = self._model.ask(prompt)
        except BaseException as error:
            spent = error.spent if isinstance(error, ModelError) else None
            settle(self._engine, reserved, spent, failed=True)
            raise
        settle(self._engine, reserved, (answer.tokens_in, answer.tokens_out, answer.cost), failed=False)
        return answer


def most_tokens(prompt: Prompt) -> int:
    chars = len(prompt.system) + len(prompt.text) + len(str(prompt.schema))
    return chars // _CHARS_PER_TOKEN + _OVERHEAD + prompt.max_tokens


def _afford(now: Day, limits: Limits, tokens: int, cost: float) -> None:
    if limits.calls is not None and now.calls + 1 > limits.calls:
        raise _over(f"{now.calls} of {limits.calls} model calls", now)
    if limits.tokens is not None and now.tokens + now.aside_tokens + tokens > limits.tokens:
        raise _over(f"{now.tokens + now.aside_tokens} of {limits.tokens} tokens, and this call may take {tokens}", now)
    if limits.cost is not None and now.cost + now.aside_cost + cost > limits.cost:
        spent = f"${now.cost + now.aside_cost:.4f} of ${limits.cost:.2f}"
        raise _over(f"{spent}, and this call may take ${cost:.4f}", now)


def _over(what: str, now: Day) -> OverBudgetError:
    return OverBudgetError(f"the budget of {now.day} (UTC) is used up: {what}; raise the limit, or wait", (0, 0, 0.0))


def _change(engine: Engine, day: str, change: Callable[[Day], tuple[T, Day]]) -> T:
    def attempt() -> tuple[T, list[Record]]:
        held = engine.store.get([_id(day)])
        result, after = change(_day(held[0]) if held else Day(day))
        body = {"value": asdict(after)}
        return result, [revise(engine, held[0], body=body) if held else _first(engine, day, body)]

    return commit(engine, attempt)


def _first(engine: Engine, day: str, body: Mapping[str, Any]) -> Record:
    draft = Draft(kind="marker", body=body, provenance=Provenance(Origin.SYSTEM), tags=(TAG,))
    return build(engine, draft, (), id=_id(day), project="")


def _id(day: str) -> str:
    return f"mrk_usage_{day}"


def _day(record: Record) -> Day:
    """A newer version may count more than we know of."""
    known = {one.name for one in fields(Day)}
    return Day(**{name: value for name, value in record.body["value"].items() if name in known})
