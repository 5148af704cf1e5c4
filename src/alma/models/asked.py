"""What both APIs over HTTP have in common: the ways to demand a shape, and what an answer costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ModelOutputError
from ..types.asking import Answer, Prompt
from ..types.model import Prices
from . import schema
from .answers import lenient, parse
from .endpoint import Endpoint
from .patience import NOTHING, FinalOutputError, Spent, TransientError
from .wire import Patience, RefusedError, post

# A service that does not know a way of asking says so by one of these.
_ABOUT_SHAPE = ("format", "schema", "json_object", "output_config", "structured", "strict", "grammar", "tool")


class Remote:
    """A service that is asked by one POST. Whoever derives from it says how its API puts things."""

    def __init__(
        self,
        endpoint: Endpoint,
        ways: Sequence[str],
        *,
        patience: Patience | None = None,
        prices: Prices | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._ways = list(ways)
        self._patience = patience or Patience()
        self._prices = prices
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return f"{self._endpoint.kind}:{self._endpoint.model}"

    def ask(self, prompt: Prompt) -> Answer:
        started = time.monotonic()
        way = self.way(prompt)
        try:
            told = post(self._endpoint, self.body(prompt, way), self._patience)
        except RefusedError as error:
            if self.yields(error.said.lower(), way):
                raise TransientError(f"{error}; asked in another way", NOTHING, 0.0) from error
            raise
        counted = self.counted(told)
        tokens_in, tokens_out, cost = counted or NOTHING
        try:
            value = self._value(told, prompt)
        except ModelOutputError as error:
            raise type(error)(str(error), counted) from error
        return Answer(
            value=value,
            model=said_model(told, self.name),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost=cost,
            seconds=time.monotonic() - started,
            metered=counted is not None,
        )

    def _value(self, told: Mapping[str, Any], prompt: Prompt) -> Any:
        said = self.said(told)
        value = lenient(parse(said) if isinstance(said, str) else said, prompt.schema)
        schema.check(value, prompt.schema)
        return value

    def way(self, prompt: Prompt) -> str:
        """How the shape is demanded; a shape that the API cannot express is told in words."""
        way = self._ways[0]
        return "text" if way in ("json_schema", "tool") and not self.can_demand(prompt) else way

    def yields(self, said: str, way: str) -> bool:
        """Whether there is another way of asking than the one that was refused. It is kept to from then on."""
        with self._lock:
            if not any(word in said for word in _ABOUT_SHAPE) or len(self._ways) < 2:
                return False
            if self._ways[0] == way:
                self._ways.pop(0)
            return True

    def cost(self, tokens_in: int, tokens_out: int, told: object = None) -> float:
        if self._prices is not None:
            return self._prices.of(tokens_in, tokens_out)
        return money(told)

    def can_demand(self, prompt: Prompt) -> bool:
        raise NotImplementedError

    def body(self, prompt: Prompt, way: str) -> dict[str, Any]:
        raise NotImplementedError

    def said(self, told: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def counted(self, told: Mapping[str, Any]) -> Spent | None:
        raise NotImplementedError


def said_model(told: Mapping[str, Any], name: str) -> str:
    model = told.get("model")
    return model if isinstance(model, str) and model else name


_MOST_TOKENS = 100_000_000
"""No answer takes as many: who says more is not believed, and counted with so many."""


def number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return min(max(value, 0), _MOST_TOKENS)


def money(value: object) -> float:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6
    return float(value) if sound else 0.0  # type: ignore[arg-type]


def cut_off(kind: str) -> FinalOutputError:
    return FinalOutputError(f"the answer of {kind} was cut off where it had no more room")
