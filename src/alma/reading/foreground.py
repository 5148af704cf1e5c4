"""Asks a model while the caller waits: in time, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

from ..errors import ModelTimeoutError

T = TypeVar("T")


def ask_in_time(question: Callable[[], T], seconds: float) -> T:
    """Return what `question` returns, or raise ModelTimeoutError. A late answer is discarded."""
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
            answer.set_exception(error)

    Thread(target=ask, name="alma-foreground", daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError as error:
        raise ModelTimeoutError(f"it did not answer within {seconds:g} seconds") from error
