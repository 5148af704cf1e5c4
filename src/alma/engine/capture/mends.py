"""A command that failed and then worked in another form."""

from __future__ import annotations

from dataclasses import dataclass

from ...reading.local import is_same_attempt
from .calls import Call
from .events import Event
from .words import cut

CALLS = 6
"""So many tool calls later what works is no longer an answer to what failed."""
TURNS = 1
"""So many times the person may have spoken in between."""
_ERROR_CHARS = 4000


@dataclass(frozen=True, slots=True)
class Fixed:
    """A command that failed, why, and the form in which it worked; `between` edits and other commands lay between."""

    failed: str
    error: str
    worked: str
    between: int
    at: float
    offset: int
    ids: tuple[str, str]
    edits: int = 0
    """How many of those between were edits: with many, it may be the code that was mended and not the command."""
    failures: int = 1
    """How often it failed before the other form worked."""


@dataclass(slots=True)
class _Failure:
    command: str
    error: str
    id: str
    calls: int = 0
    turns: int = 0
    edits: int = 0
    others: int = 0
    failures: int = 1


class Mends:
    """The failures of a session that still wait for what works, for each agent apart."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Failure]] = {}

    def person_spoke(self) -> None:
        for agent, waiting in self._waiting.items():
            for failure in waiting:
                failure.turns += 1
            self._waiting[agent] = [failure for failure in waiting if failure.turns <= TURNS]

    def ended(self, event: Event, call: Call) -> list[Fixed]:
        """Take in a call; what it mended."""
        waiting = self._waiting.setdefault(event.agent_id, [])
        for failure in waiting:
            failure.calls += 1
        waiting[:] = [failure for failure in waiting if failure.calls <= CALLS]
        command = call.what.strip()
        if call.edit and call.ok:
            for failure in waiting:
                failure.edits += 1
        if not call.shell or not command:
            return []
        found = self._mended(waiting, event, command) if call.ok and not call.background else []
        for failure in waiting:
            failure.others += 1
        if call.error.strip() and not call.ok and not call.stopped:
            _fails(waiting, _Failure(command, cut(call.error, _ERROR_CHARS, 0.75), event.id))
        return found

    def _mended(self, waiting: list[_Failure], event: Event, worked: str) -> list[Fixed]:
        found = []
        for failure in list(waiting):
            if same(failure.command, worked):
                # It works as it stands: something else was wrong, and no other form of it is the answer.
                waiting.remove(failure)
            elif is_same_attempt(failure.command, worked):
                waiting.remove(failure)
                found.append(_fixed(failure, event, worked))
        return found


def _fails(waiting: list[_Failure], failure: _Failure) -> None:
    """A command that fails again is one failure, as it was last, counted."""
    failure.failures += sum(one.failures for one in waiting if same(one.command, failure.command))
    waiting[:] = [*(one for one in waiting if not same(one.command, failure.command)), failure]


def _fixed(failure: _Failure, event: Event, worked: str) -> Fixed:
    return Fixed(
        failed=failure.command,
        error=failure.error,
        worked=worked,
        between=failure.edits + failure.others,
        at=event.at,
        offset=event.offset,
        ids=(failure.id, event.id),
        edits=failure.edits,
        failures=failure.failures,
    )


def same(a: str, b: str) -> bool:
    return a.split() == b.split()
