"""Rules that a team shares: which of a person's own are offered to a team, and local copies of the team's.

A copy is an ordinary record with the tag `team`: hooks show it and sessions count it like any other rule. Its text
comes from a server, so it is cleaned, shortened and escaped like everything that is stored, and waits for review if it
reads like an attack or weakens safety. What the person stated or forgot here takes precedence over a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from ..reading.local_rules import find_choice
from ..text import digest
from ..types.kinds import EVERYWHERE, MemoryType, Reach, RuleSource
from ..types.query import Where
from ..types.record import LIVE, Origin, Provenance, Record, Status, Trust
from .coding_sessions import weakens_safety
from .context import Engine
from .escape import find_suspicion
from .observations import OBSERVATION, draft_observation
from .rule_lines import dress_rule
from .rules import Teaching, contradicts, find_similar_rules, is_old_fix, prepare_rules, same_rule
from .transaction import Transaction, write

TEAM = "team"
SHARED_KINDS = frozenset((MemoryType.RULE, OBSERVATION))
_ABOUT = ("content", "shared_by")


class TeamRule(NamedTuple):
    """A rule or an observation as a server sends it: for an observation, `rule` worked where `failed` did not."""

    id: str
    rule: str
    trigger: str
    why: str = ""
    failed: str = ""
    shared_by: str = ""
    created_at: datetime | None = None


def list_own(engine: Engine) -> list[Record]:
    """Return the rules and observations in force that this person's sessions taught, oldest first.

    Rules of one session and rules of all projects are personal, and not among them.
    """
    where = Where(kinds=SHARED_KINDS, users={""}, sessions={""}, statuses={Status.ACTIVE})
    records = (one for one in engine.store.scan(where) if one.project != EVERYWHERE and TEAM not in one.tags)
    return [one for one in records if not is_old_fix(one)][::-1]


def list_copies(engine: Engine, projects: set[str] | None = None) -> list[Record]:
    """Return the copies of a team's rules and observations, in some projects or in all."""
    return list(engine.store.scan(Where(kinds=SHARED_KINDS, projects=projects, tagged={TEAM})))


def replace_copies(engine: Engine, team_rules: Sequence[TeamRule]) -> None:
    """Make the copies in this project those of `team_rules`; unchanged ones keep their counts and their status.

    A copy that the team no longer has is deleted, unless the person stated the same here: then it is theirs.
    """
    stored = {one.id: one for one in list_copies(engine, {engine.project})}
    fresh = {f"{'obs' if one.failed else 'rul'}_{digest(engine.project, one.id)}": one for one in team_rules}
    changed = {
        id: one
        for id, one in fresh.items()
        if id not in stored or stored[id].body["metadata"].get("content") != _digest_content(one)
    }
    drafts = list(_draft_copies(engine, changed))
    missing = [one for id, one in stored.items() if id not in fresh]
    stated = {one.id for one in missing if one.body["metadata"]["sources"]}

    def step(tx: Transaction) -> None:
        where = engine.within(*SHARED_KINDS, keys={one.key for one in drafts})
        # A candidate here hides nothing: the team has decided on it.
        own = {one.key for one in tx.scan(where) if TEAM not in one.tags and one.status is not Status.CANDIDATE}
        own |= tx.find_tombstones(one.key for one in drafts).keys()
        tx.erased += [one for one in missing if one.id not in stated]
        for draft in drafts:
            old = tx.find(draft.id)
            if old is not None:
                about = {name: draft.body["metadata"][name] for name in _ABOUT}
                body = {**draft.body, "metadata": {**old.body["metadata"], **about}}
                # A copy that was put away here stays away.
                status = draft.status if old.status in LIVE else old.status
                vectors = {"vectors": draft.vectors, "embedder": draft.embedder}
                tx.update(old, body=body, text=draft.text, key=draft.key, status=status, **vectors)
            elif draft.key not in own:
                rival = _find_rival(tx, draft) if draft.kind == MemoryType.RULE else None
                changes: dict[str, Any] = {"status": Status.SUPERSEDED, "superseded_by": rival.id} if rival else {}
                tx.put(replace(draft, **changes))
        for one in tx.get(stated):
            metadata = {name: value for name, value in one.body["metadata"].items() if name not in _ABOUT}
            body = {**one.body, "metadata": metadata}
            body = dress_rule(body) if one.kind == MemoryType.RULE else body
            tx.update(one, tags=tuple(tag for tag in one.tags if tag != TEAM), body=body)

    write(engine, step)
    engine.store.delete([one.id for one in missing if one.id not in stated])


def _find_rival(tx: Transaction, draft: Record) -> Record | None:
    """Return a rule of the person's own that says the same as a copy, or the contrary."""
    similar = (one for one in find_similar_rules(tx, draft, tx.engine.project) if one.status is Status.ACTIVE)
    own = (one for one in similar if TEAM not in one.tags)
    return next((one for one in own if same_rule(draft.body, one.body) or contradicts(draft.body, one.body)), None)


def _digest_content(rule: TeamRule) -> str:
    return digest(rule.rule, rule.trigger, rule.why, rule.failed, rule.shared_by)


def _draft_copies(engine: Engine, rules: dict[str, TeamRule]) -> Iterator[Record]:
    """Yield the records of copies, by their ids, as the texts of strangers allow."""
    source, now = Provenance(Origin.IMPORT, Trust.LEARNED, source=TEAM), engine.clock()
    places, teachings = [], []
    for id, one in rules.items():
        about = {"content": _digest_content(one), "shared_by": one.shared_by or TEAM}
        at = min(one.created_at or now, now)
        place: dict[str, Any] = {"id": id, "created_at": at, "provenance": source, "tags": (TEAM,)}
        if one.failed:
            draft = draft_observation(engine, one.failed, one.rule, trigger=one.trigger, failures=1, successes=1)
            status = Status.CANDIDATE if draft.body["concern"] else Status.ACTIVE
            metadata = {**draft.body["metadata"], **about}
            yield replace(draft, body={**draft.body, "metadata": metadata}, status=status, **place)
            continue
        prefer, avoid = find_choice(one.rule)
        teaching = Teaching(id, one.rule, Reach.PROJECT, RuleSource.IMPORT, one.trigger, one.why)
        teachings.append(teaching._replace(prefer=prefer, avoid=avoid, metadata=about))
        places.append(place)
    for place, (_, draft) in zip(places, prepare_rules(engine, teachings), strict=True):
        body = draft.body
        is_doubtful = any(map(find_suspicion, (body["rule"], body["trigger"], body["why"])))
        status = Status.CANDIDATE if is_doubtful or weakens_safety(body["rule"]) else Status.ACTIVE
        yield replace(draft, body={**body, "metadata": {**body["metadata"], "sources": []}}, status=status, **place)
