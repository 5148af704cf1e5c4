"""What a model is shown of a session: each turn of the person between the accounts of what the agent did.

A command is shown whole with its result, an edit with the lines that it added, and a message with its beginning and
its end. What only looked at something gives way first where an account is long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..coding.events import Attendance, cut_text
from ..coding.exchanges import Account, Deed
from ..coding.session import CodingSession, Exchange, SessionTurn
from ..reading.port import SpokenExchange
from .admit import clean

_COMMAND_CHARS = 600
_OUTPUT_CHARS = 300
_WRITTEN_CHARS = 400
_MESSAGE_CHARS = 1200
_DEEDS_CHARS = 2400
LOOKING = re.compile(
    r"\s*(?:(?:ls|ll|cat|head|tail|less|pwd|cd|echo|grep|rg|ag|find|fd|wc|tree|which|stat|file|sleep|true)\b"
    r"|sed -n\b|git (?:status|diff|log|show|branch|blame)\b)[^|;&]*$"
)
"""Commands that only look at something."""


def is_persons(turn: SessionTurn) -> bool:
    """Return whether a person typed a turn."""
    return turn.attendance is Attendance.PERSON and turn.is_typed


def list_exchanges(story: CodingSession) -> list[Exchange]:
    """Return the exchanges of a session. What the agent did after a turn without words belongs to the one before."""
    exchanges: list[Exchange] = []
    for exchange in story.exchanges:
        if exchange.turn.user_words.strip():
            exchanges.append(exchange)
        elif exchanges:
            exchanges[-1] = exchanges[-1]._replace(then=_join_accounts(exchanges[-1].then, exchange.then))
    for number, exchange in enumerate(exchanges[1:]):
        exchanges[number + 1] = exchange._replace(before=exchanges[number].then)
    return exchanges


def _join_accounts(first: Account, second: Account) -> Account:
    offset = second.offset or first.offset
    return Account([*first.deeds, *second.deeds], [*first.messages, *second.messages], offset)


def describe_part(exchanges: Sequence[Exchange], since: int) -> list[SpokenExchange]:
    """Return the exchanges as a model is shown them; those up to an offset of the journal were read before."""
    described: list[SpokenExchange] = []
    previous = None
    for exchange in exchanges:
        is_next = previous is not None and previous.then is exchange.before
        described.append(
            SpokenExchange(
                person=str(clean(exchange.turn.user_words)),
                did_before=() if is_next else describe_account(exchange.before),
                did_then=describe_account(exchange.then),
                is_old=exchange.turn.offset <= since,
            )
        )
        previous = exchange
    return described


def describe_account(account: Account) -> tuple[str, ...]:
    """Return what the agent did, line by line and in order, and then what it said."""
    deeds = account.deeds
    if sum(len(_describe_deed(deed)) for deed in deeds) > _DEEDS_CHARS:
        deeds = [deed for deed in deeds if not (deed.ok and LOOKING.match(deed.command))]
    lines: list[str] = []
    room = _DEEDS_CHARS
    for deed in reversed(deeds):
        line = _describe_deed(deed)
        if lines and len(line) > room:
            lines.append("…")
            break
        lines.append(line)
        room -= len(line)
    lines.reverse()
    message = str(clean("\n".join(account.messages))).strip()
    if message:
        lines.append(f"said: {cut_text(message, _MESSAGE_CHARS)}")
    return tuple(lines)


def _describe_deed(deed: Deed) -> str:
    if deed.path:
        if not deed.ok:
            return str(clean(f"tried to write in {deed.path}, which failed"))
        lines = "\n".join(list_added_lines(deed))
        return str(clean(f"wrote in {deed.path}: {cut_text(lines, _WRITTEN_CHARS)}"))
    command = cut_text(deed.command.strip(), _COMMAND_CHARS)
    if deed.ok:
        return str(clean(f"ran `{command}`: ok"))
    output = " ".join(deed.error.split())[-_OUTPUT_CHARS:]
    return str(clean(f"ran `{command}`: failed: {output}"))


def list_added_lines(deed: Deed) -> list[str]:
    """Return the lines that an edit added."""
    removed = {line.strip() for line in deed.removed.splitlines()}
    return [line for line in deed.written.splitlines() if line.strip() and line.strip() not in removed]
