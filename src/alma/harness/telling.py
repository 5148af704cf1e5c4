"""What a run tells the memory, and what becomes of it when the memory cannot listen."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from ..engine import validate
from ..engine.admit import clean
from ..engine.text import shorten
from ..errors import ALMAError
from ..types.kinds import Outcome

if TYPE_CHECKING:
    from ..core import ALMA

_LOG = logging.getLogger("alma")
_ERROR_CHARS = 2_000


class Stopwatch:
    """Counts milliseconds from when it is made."""

    __slots__ = ("_began",)

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def read(self) -> int:
        return max(0, round((time.perf_counter() - self._began) * 1000))


def described(error: BaseException) -> str:
    """An exception in a line, whatever its own text does; without secrets."""
    from traceback import format_exception_only

    return spoken("".join(format_exception_only(error)), _ERROR_CHARS)


def spoken(text: str, most: int) -> str:
    """A text from outside as it may be kept and shown: valid, without colours and secrets, not too long."""
    valid = text[: 4 * most].encode("utf-8", "replace").decode()
    return shorten(clean(validate.output("text", valid) or ""), most)


def learn(alma: ALMA, given: dict[str, Any]) -> tuple[Outcome | None, str | None]:
    """What was learned, or why nothing was: the work is done, and must not be lost because nobody could note it."""
    try:
        return alma.learn(**given), None
    except ALMAError as error:
        problem = f"the outcome could not be learned: {error}"
        _LOG.warning("%s", problem)
        return None, problem
