"""Sessions in the store: opened, noted in, ended; and those that never ended.

An open session is an active record, any other an archived one. Ending one writes the session and its handoff in one
transaction, so that there is always exactly one handoff for a session that is over. A session whose process is gone, or
which nobody has seen for long, hands over what is known; should it come back, it goes on, and what it hands over itself
takes the place of that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..engine import things
from ..engine.context import Engine
from ..engine.transaction import commit
from ..errors import NotFoundError, ValidationError
from ..text import shorten
from ..types.query import visible_users
from ..types.record import Record, Status
from ..types.times import to_iso
from . import _process, notes
from .types import LastOutcome, SessionState, read_moment

Body = Mapping[str, Any]

_KNOWN = 5
_OPEN = 100
_OUTCOMES = 50
_HANDOFFS = 20
_FAILURES = 3
NOTHING = "nothing was noted"


def begin_session(engine: Engine, agent: str, goal: str, owner: Body | None, user: str | None = None) -> Record:
    now = to_iso(engine.clock())
    lists: dict[str, Any] = {name: [] for name in ("actions", *notes.MAX_ITEMS)}
    times = {"started_at": now, "ended_at": None, "last_seen": now}
    state = {"state": str(SessionState.OPEN), "action_count": 0, "tests": {}, "confidence": None, "owner": owner}
    body = {"goal": goal, **times, **state, **lists}
    return things.add(engine, things.draft("session", body, agent=agent, user=user or ""))


def find_session(engine: Engine, agent: str, id: str) -> Record:
    """Return a session of this agent; the error names those there are."""
    held = [one for one in engine.store.get([id]) if one.kind == "session" and one.project == engine.project]
    if held and held[0].agent == agent:
        return held[0]
    whose = f": it belongs to {held[0].agent!r}" if held else ""
    latest = [f"{one.id} ({one.body['state']})" for one in things.scan(engine, "session", _KNOWN, agents={agent})]
    known = (
        f"Its latest: {', '.join(latest)}." if latest else f"{agent!r} has no session yet; start_session begins one."
    )
    raise NotFoundError(f"{agent!r} has no session {id!r} in project {engine.project!r}{whose}. {known}")


def note_session(engine: Engine, agent: str, id: str, given: Body, owner: Body | None) -> Record:
    """Add what happened since the session was last heard of; a name that is not given leaves a thing as it is."""

    def attempt() -> tuple[Record, list[Record]]:
        held = find_session(engine, agent, id)
        body, resolved, actions = held.body, given.get("resolved", ()), given["actions"]
        if body["state"] == SessionState.ENDED:
            raise ValidationError(f"session {id!r} has ended; start_session begins another")
        lists = {"files": list(dict.fromkeys((*given.get("files", ()), *body["files"])))}
        for name in ("blockers", "risks"):
            lists[name] = notes.join_lines(given.get(name, ()), notes.remove_lines(body[name], resolved))
        lists["next_steps"] = list(given.get("next_steps", body["next_steps"]))
        noted = {
            **body,
            "state": str(SessionState.OPEN),
            "ended_at": None,
            "last_seen": to_iso(engine.clock()),
            "owner": owner,
            "goal": given.get("goal", body["goal"]),
            "actions": [*body["actions"], *actions][-notes.MAX_ACTIONS :],
            "action_count": body["action_count"] + len(actions),
            "decisions": notes.merge_decisions(body["decisions"], given["decisions"]),
            **{name: lines[: notes.MAX_ITEMS[name]] for name, lines in lists.items()},
            "tests": notes.sort_tests({**body["tests"], **given.get("tests", {})}),
            "confidence": given.get("confidence", body["confidence"]),
        }
        fresh = things.altered(engine, held, noted, status=Status.ACTIVE)
        return fresh, [fresh]

    return commit(engine, attempt)


def end_session(engine: Engine, agent: str, id: str, closing: Body) -> Record:
    """Return the handoff. Ended twice, the later closing replaces the earlier, and what it leaves out stays."""

    def attempt() -> tuple[Record, list[Record]]:
        held = find_session(engine, agent, id)
        now = ended = engine.clock()
        final, before = closing, _find_handoff(engine, id)
        if held.body["state"] == SessionState.ENDED:
            ended = read_moment(held.body, "ended_at", now)
            final = closing if before is None else _merge_closings(before.body, closing)
        body = _write_handoff(held, final, list_outcomes(engine, held, now), ended)
        return _put_handoff(engine, held, body, SessionState.ENDED)

    return commit(engine, attempt)


def _find_handoff(engine: Engine, id: str) -> Record | None:
    return next(iter(things.scan(engine, "handoff", 1, sessions={id})), None)


def _merge_closings(before: Body, closing: Body) -> Body:
    dropped = ["started_at", "ended_at", "left_out"]
    # How well it goes follows from how it went, unless somebody said it.
    dropped += ["confidence"] if "last_outcome" in closing else []
    kept = {name: value for name, value in before.items() if name not in dropped}
    given = {name: value for name, value in closing.items() if value or name not in ("decisions", "files", "metadata")}
    return {**kept, **given, "tests": {**before["tests"], **closing.get("tests", {})}}


def _put_handoff(engine: Engine, held: Record, body: Body, state: SessionState) -> tuple[Record, list[Record]]:
    over = {**held.body, "state": str(state), "ended_at": body["ended_at"], "owner": None}
    session = things.altered(engine, held, over, status=Status.ARCHIVED)
    before = _find_handoff(engine, held.id)
    if before is not None:
        handoff = things.altered(engine, before, body, created_at=engine.clock())
    else:
        draft = things.draft("handoff", body, agent=held.agent, user=held.user, session=held.id)
        handoff = things.made(engine, draft, links=(held.id,))
    return handoff, [session, handoff]


def _write_handoff(held: Record, closing: Body, outcomes: Sequence[Record], ended: datetime) -> dict[str, Any]:
    """Return the body of a handoff: what was said at the end, else what was noted along the way."""
    noted, most = held.body, notes.MAX_ITEMS
    lists = {name: list(closing.get(name, noted[name])) for name in most}
    decisions = [one["what"] for one in noted["decisions"]]
    lists["decisions"] = notes.rank_decisions(closing.get("decisions", ()), decisions)
    lists["files"] = list(dict.fromkeys((*closing.get("files", ()), *noted["files"])))
    last, result = _find_last(noted, outcomes)
    result = closing.get("last_outcome") or result or str(LastOutcome.SUCCESS)
    confidence = closing.get("confidence", noted["confidence"])
    if confidence is None:
        # How it went until now, with a half on either side to begin with.
        results = [_judge(one) for one in outcomes] or [result]
        good, bad = results.count(LastOutcome.SUCCESS), results.count(LastOutcome.FAILURE)
        confidence = round((good + 1) / (good + bad + 2), 2)
    return {
        "last_action": closing.get("last_action") or last or NOTHING,
        "last_outcome": str(result),
        "goal": closing.get("goal", noted["goal"]),
        **{name: lines[: most[name]] for name, lines in lists.items()},
        "tests": notes.sort_tests({**noted["tests"], **closing.get("tests", {})}),
        "confidence": float(confidence),
        "started_at": noted["started_at"],
        "ended_at": to_iso(ended),
        "left_out": {name: len(lines) - most[name] for name, lines in lists.items() if len(lines) > most[name]},
        "metadata": dict(closing.get("metadata") or {}),
    }


def _find_last(noted: Body, outcomes: Sequence[Record]) -> tuple[str, str]:
    """Return the last thing that is known to have been done, and how it went: noted, or learned from."""
    action = noted["actions"][-1] if noted["actions"] else {"what": "", "outcome": "", "at": ""}
    if outcomes and str(to_iso(outcomes[0].created_at)) > action["at"]:
        return _describe_outcome(outcomes[0]), _judge(outcomes[0])
    return action["what"], action["outcome"]


def _describe_outcome(outcome: Record) -> str:
    return shorten(f"{outcome.body['task']}: {outcome.body['strategy']}", notes.ITEM_CHARS)


def _judge(outcome: Record) -> str:
    return str(LastOutcome.FAILURE if outcome.body["outcome"] == "failure" else LastOutcome.SUCCESS)


# -- sessions that never ended


def list_open(engine: Engine, agent: str) -> list[Record]:
    return things.scan(engine, "session", _OPEN, agents={agent}, statuses={Status.ACTIVE})


def settle_sessions(engine: Engine, agent: str, alive_for: timedelta) -> list[Record]:
    """Let every session of this agent that is not alive any more hand over what is known; return the others."""

    def attempt(id: str) -> tuple[None, list[Record]]:
        # Looked at again, because another process may have ended it, or heard of it, meanwhile.
        held = find_session(engine, agent, id)
        if held.status is not Status.ACTIVE or not _is_crashed(engine, held, alive_for):
            return None, []
        outcomes = list_outcomes(engine, held, engine.clock())
        ended = _find_last_sign(held, outcomes)
        body = _write_handoff(held, _close_interrupted(held, outcomes, ended), outcomes, ended)
        return None, _put_handoff(engine, held, body, SessionState.INTERRUPTED)[1]

    alive = []
    for one in list_open(engine, agent):
        if _is_crashed(engine, one, alive_for):
            commit(engine, lambda id=one.id: attempt(id))  # type: ignore[misc]
        else:
            alive.append(one)
    return alive


def _is_crashed(engine: Engine, held: Record, alive_for: timedelta) -> bool:
    if _process.gone(held.body["owner"]):
        return True
    now = engine.clock()
    return now - _find_last_sign(held, list_outcomes(engine, held, now)) > alive_for


def _find_last_sign(held: Record, outcomes: Sequence[Record]) -> datetime:
    """Return when a session was last seen; learning is a sign of life too."""
    noted = read_moment(held.body, "last_seen", held.updated_at)
    return max(noted, outcomes[0].created_at) if outcomes else noted


def _close_interrupted(held: Record, outcomes: Sequence[Record], ended: datetime) -> Body:
    noted = held.body
    last, _ = _find_last(noted, outcomes)
    flags = [f"This session ended without a handoff; it was last seen {ended:%Y-%m-%d %H:%M} UTC."]
    for one in [one for one in outcomes if one.body["outcome"] == "failure"][:_FAILURES]:
        error = f": {one.body['error']}" if one.body.get("error") else ""
        flags.append(shorten(f"Failed: {_describe_outcome(one)}{error}", notes.ITEM_CHARS))
    steps = [f"See how far this got: {last}"] if last else []
    steps += [f"Go on with: {noted['goal']}"] if noted["goal"] else []
    return {
        "last_action": last or "started the session",
        "last_outcome": LastOutcome.INTERRUPTED,
        "next_steps": noted["next_steps"] or [shorten(step, notes.ITEM_CHARS) for step in steps],
        "risks": notes.join_lines(flags, noted["risks"]),
    }


# -- reading


def list_outcomes(engine: Engine, held: Record, now: datetime) -> list[Record]:
    """Return what was learned during a session, newest first: until it ended, or the agent's next one began."""
    agents = {held.agent}
    later = things.scan(engine, "session", _OPEN, agents=agents, created_from=held.created_at)
    ends = [one.created_at for one in later if one.created_at > held.created_at]
    ends.append(read_moment(held.body, "ended_at", now))
    began, ended = read_moment(held.body, "started_at", held.created_at), min(ends) + timedelta(microseconds=1)
    times = {"created_from": began, "created_to": ended}
    return things.scan(engine, "outcome", _OUTCOMES, agents=agents, users=visible_users(held.user), **times)


def list_handoffs(engine: Engine, agent: str, limit: int, users: Collection[str] | None = None) -> list[Record]:
    """Return the latest, by when their sessions ended."""
    most = max(limit, _HANDOFFS)
    records = things.scan(engine, "handoff", most, agents={agent}, users=users, statuses={Status.ACTIVE})
    return sorted(records, key=lambda one: (one.body["ended_at"], one.id), reverse=True)[:limit]


def find_latest(engine: Engine, agent: str, user: str | None = None) -> Record | None:
    """Return the latest handoff that says something: a session in which nothing happened hides none before it."""
    records = list_handoffs(engine, agent, _HANDOFFS, users=visible_users(user))
    said = (*notes.MAX_ITEMS, "tests", "metadata")
    full = (one for one in records if one.body["last_action"] != NOTHING or any(one.body[name] for name in said))
    return next(full, records[0] if records else None)
