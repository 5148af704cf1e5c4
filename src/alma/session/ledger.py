"""Sessions in the store: opened, noted in, ended; and those that never ended.

An open session is an active record, any other an archived one. Ending one writes the session and its handoff in one
transaction, so that there is always exactly one handoff for a session that is over. A session whose process is gone, or
which nobody has seen for long, hands over what is known; should it come back, it goes on, and what it hands over itself
takes the place of that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..engine import things
from ..engine.admit import commit
from ..engine.context import Engine
from ..engine.text import shorten
from ..errors import NotFoundError, ValidationError
from ..types.query import Where, visible_users
from ..types.record import Record, Status
from ..types.times import to_iso
from . import _process, weighing
from ._codec import moment
from .types import LastOutcome, SessionState

Body = Mapping[str, Any]

_KNOWN = 5
_OPEN = 100
_OUTCOMES = 50
_HANDOFFS = 20
_FAILURES = 3
NOTHING = "nothing was noted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What happened since a session was last heard of; None leaves a thing as it is."""

    actions: Sequence[Mapping[str, Any]] = ()
    decisions: Sequence[Mapping[str, Any]] = ()
    files: Sequence[str] = ()
    blockers: Sequence[str] = ()
    resolved: Sequence[str] = ()
    next_steps: Sequence[str] | None = None
    risks: Sequence[str] = ()
    tests: Mapping[str, bool] | None = None
    confidence: float | None = None
    goal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What is said at the end; None: what was noted along the way."""

    last_action: str | None = None
    last_outcome: LastOutcome | None = None
    goal: str | None = None
    decisions: Sequence[str] = ()
    files: Sequence[str] = ()
    blockers: Sequence[str] | None = None
    next_steps: Sequence[str] | None = None
    risks: Sequence[str] | None = None
    tests: Mapping[str, bool] | None = None
    confidence: float | None = None
    metadata: Mapping[str, Any] | None = None


def begin(engine: Engine, agent: str, goal: str, owner: Body | None, user: str | None = None) -> Record:
    now = to_iso(engine.clock())
    body: dict[str, Any] = {
        "goal": goal,
        "started_at": now,
        "ended_at": None,
        "last_seen": now,
        "state": str(SessionState.OPEN),
        "actions": [],
        "action_count": 0,
        "decisions": [],
        "files": [],
        "blockers": [],
        "next_steps": [],
        "risks": [],
        "tests": {},
        "confidence": None,
        "owner": owner,
    }
    return things.add(engine, things.draft("session", body, agent=agent, user=user or ""))


def find(engine: Engine, agent: str, id: str) -> Record:
    """A session of this agent; the error names those there are."""
    held = [one for one in engine.store.get([id]) if one.kind == "session" and one.project == engine.project]
    if held and held[0].agent == agent:
        return held[0]
    whose = f": it belongs to {held[0].agent!r}" if held else ""
    raise NotFoundError(
        f"{agent!r} has no session {id!r} in project {engine.project!r}{whose}. {_known(engine, agent)}"
    )


def _known(engine: Engine, agent: str) -> str:
    found = things.scan(engine, "session", _KNOWN, agents={agent})
    if not found:
        return f"{agent!r} has no session yet; start_session begins one."
    return "Its latest: " + ", ".join(f"{one.id} ({one.body['state']})" for one in found) + "."


def note(engine: Engine, agent: str, id: str, notes: Notes, owner: Body | None) -> Record:
    def attempt() -> tuple[Record, list[Record]]:
        held = find(engine, agent, id)
        if held.body["state"] == SessionState.ENDED:
            raise ValidationError(f"session {id!r} has ended; start_session begins another")
        fresh = things.altered(engine, held, _noted(engine, held.body, notes, owner), status=Status.ACTIVE)
        return fresh, [fresh]

    return commit(engine, attempt)


def _noted(engine: Engine, body: Body, notes: Notes, owner: Body | None) -> dict[str, Any]:
    return {
        **body,
        "state": str(SessionState.OPEN),
        "ended_at": None,
        "last_seen": to_iso(engine.clock()),
        "owner": owner,
        "goal": body["goal"] if notes.goal is None else notes.goal,
        "actions": [*body["actions"], *notes.actions][-weighing.ACTIONS :],
        "action_count": body["action_count"] + len(notes.actions),
        "decisions": weighing.noted(body["decisions"], notes.decisions),
        "files": list(dict.fromkeys((*notes.files, *body["files"])))[: weighing.FILES],
        "blockers": weighing.joined(notes.blockers, weighing.without(body["blockers"], notes.resolved))[
            : weighing.BLOCKERS
        ],
        "next_steps": body["next_steps"] if notes.next_steps is None else list(notes.next_steps)[: weighing.STEPS],
        "risks": weighing.joined(notes.risks, weighing.without(body["risks"], notes.resolved))[: weighing.RISKS],
        "tests": weighing.failing_first({**body["tests"], **(notes.tests or {})}),
        "confidence": body["confidence"] if notes.confidence is None else notes.confidence,
    }


def end(engine: Engine, agent: str, id: str, closing: Closing) -> Record:
    """The handoff. Said twice, the later word takes the place of the earlier, and what it leaves out stays."""

    def attempt() -> tuple[Record, list[Record]]:
        held = find(engine, agent, id)
        now = engine.clock()
        again = held.body["state"] == SessionState.ENDED
        ended = moment(held.body, "ended_at", now) if again else now
        said = _said_again(closing, _handoff_of(engine, id)) if again else closing
        body = _handed_over(held, said, outcomes(engine, held, now), ended)
        return _put(engine, held, body, SessionState.ENDED)

    return commit(engine, attempt)


def _handoff_of(engine: Engine, id: str) -> Record | None:
    return next(iter(things.scan(engine, "handoff", 1, sessions={id})), None)


def _said_again(closing: Closing, before: Record | None) -> Closing:
    if before is None:
        return closing
    said = before.body
    # How well it goes follows from how it went, unless somebody said it.
    level = said["confidence"] if closing.last_outcome is None else None
    return Closing(
        last_action=closing.last_action or said["last_action"],
        last_outcome=closing.last_outcome or LastOutcome(said["last_outcome"]),
        goal=said["goal"] if closing.goal is None else closing.goal,
        decisions=closing.decisions or said["decisions"],
        files=closing.files or said["files"],
        blockers=said["blockers"] if closing.blockers is None else closing.blockers,
        next_steps=said["next_steps"] if closing.next_steps is None else closing.next_steps,
        risks=said["risks"] if closing.risks is None else closing.risks,
        tests={**said["tests"], **(closing.tests or {})},
        confidence=level if closing.confidence is None else closing.confidence,
        metadata=closing.metadata or said.get("metadata"),
    )


def _put(engine: Engine, held: Record, body: Body, state: SessionState) -> tuple[Record, list[Record]]:
    over = {**held.body, "state": str(state), "ended_at": body["ended_at"], "owner": None}
    session = things.altered(engine, held, over, status=Status.ARCHIVED)
    before = _handoff_of(engine, held.id)
    if before is not None:
        handoff = things.altered(engine, before, body, created_at=engine.clock())
    else:
        handoff = things.made(
            engine, things.draft("handoff", body, agent=held.agent, user=held.user, session=held.id), links=(held.id,)
        )
    return handoff, [session, handoff]


def _handed_over(held: Record, closing: Closing, seen: Sequence[Record], ended: datetime) -> dict[str, Any]:
    noted = held.body
    named = {
        "decisions": weighing.weightiest(closing.decisions, [one["what"] for one in noted["decisions"]]),
        "files": list(dict.fromkeys((*closing.files, *noted["files"]))),
        "blockers": list(noted["blockers"] if closing.blockers is None else closing.blockers),
        "next_steps": list(noted["next_steps"] if closing.next_steps is None else closing.next_steps),
        "risks": list(noted["risks"] if closing.risks is None else closing.risks),
    }
    tests = noted["tests"] if closing.tests is None else {**noted["tests"], **closing.tests}
    last, outcome = _last(noted, seen)
    outcome = closing.last_outcome or outcome or LastOutcome.SUCCESS
    return {
        "last_action": closing.last_action or last or NOTHING,
        "last_outcome": str(outcome),
        "goal": noted["goal"] if closing.goal is None else closing.goal,
        **{name: found[: _MOST[name]] for name, found in named.items()},
        "tests": weighing.failing_first(tests),
        "confidence": _confidence(noted, closing, seen, outcome),
        "started_at": noted["started_at"],
        "ended_at": to_iso(ended),
        "left_out": {name: len(found) - _MOST[name] for name, found in named.items() if len(found) > _MOST[name]},
        "metadata": dict(closing.metadata or {}),
    }


_MOST = {
    "decisions": weighing.DECISIONS,
    "files": weighing.FILES,
    "blockers": weighing.BLOCKERS,
    "next_steps": weighing.STEPS,
    "risks": weighing.RISKS,
}


def _last(noted: Body, seen: Sequence[Record]) -> tuple[str, LastOutcome | None]:
    """The last thing that is known to have been done, and how it went: noted, or learned from."""
    action = noted["actions"][-1] if noted["actions"] else None
    learned = seen[0] if seen else None
    if learned is not None and (action is None or str(to_iso(learned.created_at)) > action["at"]):
        return _told(learned), _how(learned.body["outcome"])
    if action is None:
        return "", None
    return action["what"], LastOutcome(action["outcome"]) if action["outcome"] else None


def _told(outcome: Record) -> str:
    return shorten(f"{outcome.body['task']}: {outcome.body['strategy']}", weighing.ITEM_CHARS)


def _how(result: str) -> LastOutcome:
    return LastOutcome.FAILURE if result == "failure" else LastOutcome.SUCCESS


def _confidence(noted: Body, closing: Closing, seen: Sequence[Record], outcome: LastOutcome) -> float:
    """As it was said; else how it went until now, with a half on either side to begin with."""
    said = closing.confidence if closing.confidence is not None else noted["confidence"]
    if said is not None:
        return float(said)
    results = [_how(one.body["outcome"]) for one in seen] or [outcome]
    good = sum(one is LastOutcome.SUCCESS for one in results)
    bad = sum(one is LastOutcome.FAILURE for one in results)
    return round((good + 1) / (good + bad + 2), 2)


# -- those that never ended


def open_ones(engine: Engine, agent: str) -> list[Record]:
    return things.scan(engine, "session", _OPEN, agents={agent}, statuses={Status.ACTIVE})


def settle(engine: Engine, agent: str, alive_for: timedelta) -> list[Record]:
    """Let every session of this agent that is not alive any more hand over what is known; the rest are given back."""
    going_on = []
    for one in open_ones(engine, agent):
        if _crashed(engine, one, alive_for):
            commit(engine, lambda id=one.id: _interrupting(engine, agent, id, alive_for))  # type: ignore[misc]
        else:
            going_on.append(one)
    return going_on


def _crashed(engine: Engine, held: Record, alive_for: timedelta) -> bool:
    if _process.gone(held.body["owner"]):
        return True
    now = engine.clock()
    return now - _last_seen(held, outcomes(engine, held, now)) > alive_for


def _last_seen(held: Record, seen: Sequence[Record]) -> datetime:
    """Learning is a sign of life too."""
    noted = moment(held.body, "last_seen", held.updated_at)
    return max(noted, seen[0].created_at) if seen else noted


def _interrupting(engine: Engine, agent: str, id: str, alive_for: timedelta) -> tuple[None, list[Record]]:
    """Looked at again, because another process may have ended it, or heard of it, meanwhile."""
    held = find(engine, agent, id)
    if held.status is not Status.ACTIVE or not _crashed(engine, held, alive_for):
        return None, []
    seen = outcomes(engine, held, engine.clock())
    ended = _last_seen(held, seen)
    closing = _what_is_known(held, seen, ended)
    return None, _put(engine, held, _handed_over(held, closing, seen, ended), SessionState.INTERRUPTED)[1]


def _what_is_known(held: Record, seen: Sequence[Record], ended: datetime) -> Closing:
    noted = held.body
    last, _ = _last(noted, seen)
    failed = [one for one in seen if one.body["outcome"] == "failure"][:_FAILURES]
    flags = [f"This session ended without a handoff; it was last seen {ended:%Y-%m-%d %H:%M} UTC."]
    flags += [_failure(one) for one in failed]
    return Closing(
        last_action=last or "started the session",
        last_outcome=LastOutcome.INTERRUPTED,
        next_steps=noted["next_steps"] or _go_on(noted["goal"], last),
        risks=weighing.joined(flags, noted["risks"]),
    )


def _failure(outcome: Record) -> str:
    error = f": {outcome.body['error']}" if outcome.body.get("error") else ""
    return shorten(f"Failed: {_told(outcome)}{error}", weighing.ITEM_CHARS)


def _go_on(goal: str, last: str) -> list[str]:
    steps = [f"See how far this got: {last}"] if last else []
    steps += [f"Go on with: {goal}"] if goal else []
    return [shorten(step, weighing.ITEM_CHARS) for step in steps]


# -- reading


def outcomes(engine: Engine, held: Record, now: datetime) -> list[Record]:
    """What was learned during a session, newest first: until it ended, or the agent's next one began."""
    until = moment(held.body, "ended_at", now)
    later = Where(kinds={"session"}, projects={engine.project}, agents={held.agent}, created_from=held.created_at)
    begun = [one.created_at for one in engine.store.scan(later, _OPEN) if one.created_at > held.created_at]
    where = Where(
        kinds={"outcome"},
        projects={engine.project},
        agents={held.agent},
        users=visible_users(held.user),
        created_from=moment(held.body, "started_at", held.created_at),
        created_to=min([until, *begun]) + timedelta(microseconds=1),
    )
    return list(engine.store.scan(where, _OUTCOMES))


def handoffs(engine: Engine, agent: str, limit: int, users: Collection[str] | None = None) -> list[Record]:
    """The latest, by when their sessions ended."""
    most = max(limit, _HANDOFFS)
    found = things.scan(engine, "handoff", most, agents={agent}, users=users, statuses={Status.ACTIVE})
    return sorted(found, key=lambda one: (one.body["ended_at"], one.id), reverse=True)[:limit]


def left_off(engine: Engine, agent: str, user: str | None = None) -> Record | None:
    """The latest handoff that says something: a session in which nothing happened hides none before it."""
    found = handoffs(engine, agent, _HANDOFFS, users=visible_users(user))
    return next(filter(_says_something, found), found[0] if found else None)


def _says_something(handoff: Record) -> bool:
    body = handoff.body
    return body["last_action"] != NOTHING or any(body[name] for name in (*_MOST, "tests", "metadata"))
