"""What models were used for, and what is left of today's budget: what `alma usage` shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..engine.context import Engine
from ..types.model import Limits, ModelSettings
from .budget import Day, meter


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What one model took in a day. Its money is 0 where no prices are known."""

    model: str
    calls: int
    failed: int
    dropped: int
    tokens_in: int
    tokens_out: int
    cost: float


@dataclass(frozen=True, slots=True)
class Left:
    """Of today. None: no limit."""

    calls: int | None
    tokens: int | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class Usage:
    provider: str
    model: str
    limits: Limits
    today: Day
    left: Left
    days: tuple[Day, ...]
    """Newest first."""

    def as_dict(self) -> dict[str, Any]:
        days = [{**asdict(day), "models": [asdict(one) for one in by_model(day)]} for day in self.days]
        for day in days:
            del day["used"]
        return {
            "provider": self.provider,
            "model": self.model,
            "limits": asdict(self.limits),
            "left": asdict(self.left),
            "days": days,
        }


def usage(engine: Engine, settings: ModelSettings, *, days: int = 30) -> Usage:
    """The last days on which a model was asked. Asks for no key and opens no model."""
    held = meter(engine)
    name = engine.clock().date().isoformat()
    today = next((day for day in held if day.day == name), Day(name))
    left = _left(today, settings.budget)
    return Usage(settings.provider, settings.model or "", settings.budget, today, left, tuple(held[:days]))


def by_model(day: Day) -> list[ModelUse]:
    """A day's use, most calls first."""
    found = [_use(model, calls, day.used.get(model, {})) for model, calls in day.models.items()]
    return sorted(found, key=lambda one: (-one.calls, one.model))


def _use(model: str, calls: int, used: Mapping[str, float]) -> ModelUse:
    whole = {name: int(used.get(name, 0)) for name in ("failed", "dropped", "tokens_in", "tokens_out")}
    return ModelUse(model=model, calls=calls, cost=float(used.get("cost", 0.0)), **whole)


def _left(day: Day, limits: Limits) -> Left:
    """What is set aside is not left: it may be spent already."""
    return Left(
        calls=None if limits.calls is None else max(0, limits.calls - day.calls),
        tokens=None if limits.tokens is None else max(0, limits.tokens - day.tokens - day.aside_tokens),
        cost=None if limits.cost is None else max(0.0, limits.cost - day.cost - day.aside_cost),
    )
