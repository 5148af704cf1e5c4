"""What models may cost in a day, and what they did cost: one record a day in the store, shared by all processes.

A call is paid for before it is made: as many tokens and as much money as it may take at most are reserved, and settled
afterwards with what it took. A process that is killed in between has spent its reservation, so that no budget is ever
exceeded. Days are those of UTC.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from ..engine.context import Engine
from ..engine.transaction import Transaction, write
from ..errors import ModelError, ModelOutputError, OverBudgetError
from ..ports import Model
from ..types.asking import Answer, BudgetLimits, ModelSettings, Prices, Prompt
from ..types.query import Where
from ..types.record import Record

Spent = tuple[int, int, float]  # Tokens in, tokens out, US dollars.
NOTHING: Spent = (0, 0, 0.0)

TAG = "usage"
_OTHER = "other"  # The purpose of a prompt without a name.
_OVERHEAD = 2000  # Tokens that a host and our own wording add to a prompt.


@dataclass(frozen=True, slots=True)
class Day:
    """What models used on one day."""

    day: str
    calls: int = 0
    failed: int = 0
    dropped: int = 0  # Answers that could not be used: no JSON, another shape, a refusal. Each is a call that failed.
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    aside_tokens: int = 0  # Reserved for calls whose cost is not known: running, or broken off.
    aside_cost: float = 0.0
    models: Mapping[str, int] = field(default_factory=dict)  # How many calls went to which model.
    # What each took: failed, dropped, tokens_in, tokens_out, cost.
    used: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # The same for each question that was asked, with the number of calls.
    purposes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Return all tokens, in and out."""
        return self.tokens_in + self.tokens_out

    def __str__(self) -> str:
        failed = f" ({self.failed} failed, {self.dropped} of them answered uselessly)" if self.failed else ""
        used = f"{self.tokens_in:,} tokens in, {self.tokens_out:,} out, ${self.cost:.4f}"
        models = ", ".join(f"{name} {calls}" for name, calls in sorted(self.models.items()))
        return f"{self.day}  {self.calls} calls{failed}  {used}  {models}"


Reserved = tuple[str, str, int, float]  # What was set aside for a call: its day, model, tokens and US dollars.


class Budget(NamedTuple):
    """A daily budget, stored with the memories."""

    engine: Engine
    limits: BudgetLimits
    prices: Prices | None = None

    def pay(self, model: str, prompt: Prompt, ask: Callable[[], Answer]) -> Answer:
        """Make one call within the day's budget; OverBudgetError when it might exceed a limit."""
        tokens = most_tokens(prompt)
        cost = self.prices.of(tokens - prompt.max_tokens, prompt.max_tokens) if self.prices else None
        reserved = reserve(self.engine, self.limits, model, tokens, cost)
        finish = partial(settle, self.engine, reserved, purpose=prompt.version.partition(" ")[0])
        try:
            answer = ask()
        except BaseException as error:
            spent = error.spent if isinstance(error, ModelError) else None
            finish(spent, failed=True, dropped=isinstance(error, ModelOutputError))
            raise
        finish((answer.tokens_in, answer.tokens_out, answer.cost) if answer.metered else None)
        return answer


class Budgeted:
    """Any model, asked only as often as a day's budget allows."""

    def __init__(self, model: Model, engine: Engine, limits: BudgetLimits, prices: Prices | None = None) -> None:
        self.name = model.name
        self._model = model
        self._budget = Budget(engine, limits, prices)

    def ask(self, prompt: Prompt) -> Answer:
        """Return the model's answer, or raise OverBudgetError without asking."""
        return self._budget.pay(self.name, prompt, lambda: self._model.ask(prompt))


def most_tokens(prompt: Prompt) -> int:
    """Return an upper bound: no text has more tokens than bytes, and a schema may be sent twice."""
    text = prompt.system + prompt.text + 2 * json.dumps(prompt.schema, ensure_ascii=False)
    return len(text.encode("utf-8", "replace")) + _OVERHEAD + prompt.max_tokens


def reserve(engine: Engine, limits: BudgetLimits, model: str, tokens: int, cost: float | None = None) -> Reserved:
    """Set aside what one call may take; OverBudgetError when that would exceed a limit."""
    aside = 0.0 if limits.cost is None else limits.cost_of_a_call if cost is None else cost

    def add(now: Day) -> Day:
        for name, used, more, text in (
            ("calls", now.calls, 1, "{:,} of {:,} calls"),
            ("tokens", now.tokens + now.aside_tokens, tokens, "{:,} of {:,} tokens; this call needs {:,}"),
            ("cost", now.cost + now.aside_cost, aside, "${:.4f} of ${:.2f}; this call needs ${:.4f}"),
        ):
            limit = getattr(limits, name)
            if limit is not None and used + more > limit:
                over = text.format(used, limit, more)
                message = (
                    f"today's model budget is used up ({over}); raise `model.budget.{name}`, or wait until 00:00 UTC"
                )
                raise OverBudgetError(message, NOTHING)
        return replace(
            now,
            calls=now.calls + 1,
            aside_tokens=now.aside_tokens + tokens,
            aside_cost=now.aside_cost + aside,
            models={**now.models, model: now.models.get(model, 0) + 1},
        )

    day = engine.clock().date().isoformat()
    _change_day(engine, day, add)
    return day, model, tokens, aside


def settle(
    engine: Engine,
    reserved: Reserved,
    spent: Spent | None,
    *,
    failed: bool = False,
    dropped: bool = False,
    purpose: str = "",
) -> None:
    """Replace a reservation by what was spent; where that is not known, it stays reserved."""
    day, model, aside_tokens, aside_cost = reserved
    names = ("failed", "dropped", "tokens_in", "tokens_out", "cost")
    took = dict(zip(names, (failed, dropped, *(spent or NOTHING)), strict=True))
    if spent is None:
        aside_tokens, aside_cost = 0, 0.0

    def add(now: Day) -> Day:
        before, asked = now.used.get(model, {}), now.purposes.get(purpose or _OTHER, {})
        counted = {"calls": 1, **took}
        return replace(
            now,
            **{name: getattr(now, name) + value for name, value in took.items()},
            aside_tokens=max(0, now.aside_tokens - aside_tokens),
            aside_cost=max(0.0, now.aside_cost - aside_cost),
            used={**now.used, model: {name: before.get(name, 0) + value for name, value in took.items()}},
            purposes={
                **now.purposes,
                purpose or _OTHER: {name: asked.get(name, 0) + value for name, value in counted.items()},
            },
        )

    _change_day(engine, day, add)


def _change_day(engine: Engine, day: str, change: Callable[[Day], Day]) -> None:
    identity = f"mrk_usage_{day}"

    def step(tx: Transaction) -> None:
        stored = tx.find(identity)
        after = change(_read_day(stored) if stored else Day(day))
        tx.set_marker(identity, {"value": asdict(after)}, tags=(TAG,), project="")

    write(engine, step)


def _read_day(record: Record) -> Day:
    """Return the stored values that this version knows; other versions may store more or fewer."""
    stored = record.body["value"]
    return Day(**{one.name: stored[one.name] for one in fields(Day) if one.name in stored})


def meter(engine: Engine) -> list[Day]:
    """Return what was used, newest day first."""
    records = engine.store.scan(Where(kinds={"marker"}, tagged={TAG}))
    return sorted(map(_read_day, records), key=lambda day: day.day, reverse=True)


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What one model used today."""

    model: str
    calls: int
    failed: int
    dropped: int
    tokens_in: int
    tokens_out: int
    cost: float  # In US dollars; 0 where no prices are known.


@dataclass(frozen=True, slots=True)
class Usage:
    """The configured model, its budget, and what was used today."""

    provider: str
    model: str
    limits: BudgetLimits
    today: Day
    left: BudgetLimits  # Of today.
    days: tuple[Day, ...]  # Newest first.


def usage(engine: Engine, settings: ModelSettings, *, days: int = 30) -> Usage:
    """Return what was used in the last days, as far as a model was asked. Needs no key and opens no model."""
    used = meter(engine)
    dates = [(engine.clock() - timedelta(days=ago)).date().isoformat() for ago in (0, min(days, 10_000) - 1)]
    date = dates[0]
    today = next((day for day in used if day.day == date), Day(date))
    limits = settings.budget
    # A reservation is not left: it may be spent already.
    left = BudgetLimits(
        calls=None if limits.calls is None else max(0, limits.calls - today.calls),
        tokens=None if limits.tokens is None else max(0, limits.tokens - today.tokens - today.aside_tokens),
        cost=None if limits.cost is None else max(0.0, limits.cost - today.cost - today.aside_cost),
    )
    return Usage(
        settings.provider, settings.model or "", limits, today, left, tuple(one for one in used if one.day >= dates[1])
    )


def by_model(day: Day) -> list[ModelUse]:
    """Return a day's use, most calls first."""
    uses = []
    for model, calls in day.models.items():
        used = day.used.get(model, {})
        whole = {name: int(used.get(name, 0)) for name in ("failed", "dropped", "tokens_in", "tokens_out")}
        uses.append(ModelUse(model, calls, cost=float(used.get("cost", 0.0)), **whole))
    return sorted(uses, key=lambda use: (-use.calls, use.model))
