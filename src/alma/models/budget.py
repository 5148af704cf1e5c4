"""What models may cost in a day, and what they did cost: one record a day in the store, shared by all processes.

A question is paid for before it is asked: the call, and as many tokens and as much money as it may take at most. What
it really took is settled afterwards. A process that is killed in between has spent what it set aside, so that no
budget is ever passed. Days are those of UTC.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from ..engine.admit import build, commit, revise
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..errors import ModelError, ModelOutputError, OverBudgetError
from ..ports import Model
from ..types.asking import Answer, Prompt
from ..types.model import Limits as Limits
from ..types.model import Prices
from ..types.query import Where
from ..types.record import Origin, Provenance, Record

T = TypeVar("T")
Spent = tuple[int, int, float]

TAG = "usage"
_OVERHEAD = 2000
"""What a host and our own wording add to a question."""


@dataclass(frozen=True, slots=True)
class Day:
    day: str
    calls: int = 0
    failed: int = 0
    dropped: int = 0
    """Answers that were of no use: no JSON, another shape, a refusal. Each is a call that failed."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    aside_tokens: int = 0
    """Set aside for questions whose cost is not known: being asked, or broken off."""
    aside_cost: float = 0.0
    models: Mapping[str, int] = field(default_factory=dict)
    """How many calls went to which."""
    used: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What each took: failed, dropped, tokens_in, tokens_out, cost."""

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def __str__(self) -> str:
        dropped = f", {self.dropped} of them answered uselessly" if self.dropped else ""
        failed = f" ({self.failed} failed{dropped})" if self.failed else ""
        used = f"{self.tokens_in:,} tokens in, {self.tokens_out:,} out, ${self.cost:.4f}"
        models = ", ".join(f"{name} {calls}" for name, calls in sorted(self.models.items()))
        return f"{self.day}  {self.calls} calls{failed}  {used}  {models}"


@dataclass(frozen=True, slots=True)
class Reserved:
    day: str
    tokens: int
    cost: float
    model: str = ""


def reserve(engine: Engine, limits: Limits, model: str, tokens: int, cost: float | None = None) -> Reserved:
    """Set aside what one question may take; OverBudgetError when that would pass a limit."""
    most = limits.cost_of_a_call if cost is None else cost
    aside = most if limits.cost is not None else 0.0

    def taken(now: Day) -> tuple[Reserved, Day]:
        _afford(now, limits, tokens, aside)
        models = {**now.models, model: now.models.get(model, 0) + 1}
        after = replace(
            now,
            calls=now.calls + 1,
            aside_tokens=now.aside_tokens + tokens,
            aside_cost=now.aside_cost + aside,
            models=models,
        )
        return Reserved(now.day, tokens, aside, model), after

    return _change(engine, engine.clock().date().isoformat(), taken)


def settle(
    engine: Engine, reserved: Reserved, spent: Spent | None, *, failed: bool = False, dropped: bool = False
) -> None:
    """Replace what was set aside by what was spent; where nobody knows, it stays set aside."""

    def settled(now: Day) -> tuple[None, Day]:
        tokens_in, tokens_out, cost = spent or (0, 0, 0.0)
        took = {
            "failed": failed, "dropped": dropped, "tokens_in": tokens_in, "tokens_out": tokens_out, "cost": cost,
        }  # fmt: skip
        used = {**now.used, reserved.model: _sum(now.used.get(reserved.model, {}), took)}
        after = replace(now, failed=now.failed + failed, dropped=now.dropped + dropped, used=used)
        if spent is None:
            return None, after
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

    def __init__(self, model: Model, engine: Engine, limits: Limits, prices: Prices | None = None) -> None:
        self._model = model
        self._engine = engine
        self._limits = limits
        self._prices = prices

    @property
    def name(self) -> str:
        return self._model.name

    def ask(self, prompt: Prompt) -> Answer:
        tokens = most_tokens(prompt)
        reserved = reserve(self._engine, self._limits, self.name, tokens, self._most_cost(prompt, tokens))
        try:
            answer = self._model.ask(prompt)
        except BaseException as error:
            spent = error.spent if isinstance(error, ModelError) else None
            settle(self._engine, reserved, spent, failed=True, dropped=isinstance(error, ModelOutputError))
            raise
        settle(self._engine, reserved, (answer.tokens_in, answer.tokens_out, answer.cost) if answer.metered else None)
        return answer

    def _most_cost(self, prompt: Prompt, tokens: int) -> float | None:
        if self._prices is None:
            return None
        return self._prices.of(tokens - prompt.max_tokens, prompt.max_tokens)


def most_tokens(prompt: Prompt) -> int:
    """No text has more tokens than bytes, and a schema may be told twice: in words, and as the API wants it."""
    shape = json.dumps(prompt.schema, ensure_ascii=False)
    size = sum(len(text.encode("utf-8", "replace")) for text in (prompt.system, prompt.text, shape, shape))
    return size + _OVERHEAD + prompt.max_tokens


def _sum(held: Mapping[str, float], took: Mapping[str, float]) -> dict[str, float]:
    return {name: held.get(name, 0) + value for name, value in took.items()}


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
    """A newer version may count more than we know of, and an older one less."""
    known = {one.name for one in fields(Day)}
    return Day(**{name: value for name, value in record.body["value"].items() if name in known})
