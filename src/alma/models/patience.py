"""Asking again: a little later when a service was busy, and once more when the answer had the wrong shape.

Both ask through the budget, so that every try is paid for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace

from ..errors import ModelOutputError, ModelUnavailableError, OverBudgetError
from ..ports import Model
from ..types.asking import Answer, Prompt

RETRIES = 2
BACKOFF = 0.5
LONGEST_WAIT = 30.0
Spent = tuple[int, int, float]
NOTHING: Spent = (0, 0, 0.0)


class TransientError(ModelUnavailableError):
    """Worth another try; `after` is the number of seconds that the service asked for."""

    def __init__(self, message: str, spent: Spent | None = None, after: float | None = None) -> None:
        super().__init__(message, spent)
        self.after = after


class FinalOutputError(ModelOutputError):
    """Asking again would bring the same: it refused, or had no room."""


class Patient:
    """A model that is asked again after a pause when it was busy, out of order or out of reach."""

    def __init__(
        self,
        model: Model,
        retries: int = RETRIES,
        *,
        within: float,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._model = model
        self._retries = retries
        self._within = within
        self._sleep = sleep
        self._draw = draw

    @property
    def name(self) -> str:
        return self._model.name

    def ask(self, prompt: Prompt) -> Answer:
        begun = time.monotonic()
        first: TransientError | None = None
        for attempt in range(self._retries + 1):
            try:
                return self._model.ask(prompt)
            except TransientError as error:
                first = first or error
                pause = self._pause(attempt, error.after)
                late = time.monotonic() + pause > begun + self._within
                if attempt == self._retries or pause > LONGEST_WAIT or late:
                    raise
            except OverBudgetError:
                # The first try was paid for and failed; that there is nothing left for another is not what went wrong.
                if first is None:
                    raise
                raise first from None
            self._sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _pause(self, attempt: int, asked: float | None) -> float:
        """Full jitter: many who failed together do not come back together. Never earlier than the service said."""
        drawn = self._draw(0.0, min(LONGEST_WAIT, BACKOFF * 2**attempt))
        return drawn if asked is None else asked + min(drawn, BACKOFF)


class Repairing:
    """A model that may mend an answer of the wrong shape, once, when the budget allows another question."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def ask(self, prompt: Prompt) -> Answer:
        try:
            return self._model.ask(prompt)
        except FinalOutputError:
            raise
        except ModelOutputError as error:
            first = error
        # What is wrong is told without the answer: it may have repeated anything.
        told = f"{prompt.system}\n\nAn earlier answer could not be used: {first}. Answer with JSON that fits."
        try:
            return self._model.ask(replace(prompt, system=told))
        except OverBudgetError:
            raise first from None
