"""Rules that a team shares: which of a person's own are offered to a team, and local copies of the team's.

A copy is a record of the agent `TEAM_AGENT` with the source `TEAM`: nothing takes it for a rule that the person stated.
Its texts come from a server, so they are cleaned, shortened and escaped like everything that is stored, and a copy
waits for review if one of them reads like an attack or weakens safety. Copies that were screened by other patterns are
screened again. What the person stated or forgot here takes precedence over a copy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, NamedTuple

from ..reading.local_rules import find_choice
from ..text import digest, shorten
from ..types.kinds import EVERYWHERE, TEAM, TEAM_AGENT, MemoryType, Reach, RuleSource
from ..types.query import Where
from ..types.record import LIVE, Origin, Provenance, Record, Status, Trust
from ..types.times import from_iso, to_iso
from .admit import key_of
from .coding_sessions import weakens_safety
from .context import Engine
from .escape import find_suspicion, fold_letters
from .observations import OBSERVATION, draft_observation
from .rules import (
    AGENT,
    Teaching,
    find_rival,
    is_copy,
    is_old_fix,
    prepare_rules,
    read_advice,
    resemble,
    share_words,
    silence_copies,
)
from .transaction import Transaction, write

SHARED_KINDS = frozenset((MemoryType.RULE, OBSERVATION))
_TEXTS = ("trigger", "rule", "why", "failed", "worked")  # In the order in which a line shows them.
_SPEAKS_FOR_USER = re.compile(
    r"\b(?:user|owner|nutzer|benutzer|utilisateur|usuario|utente|person)(?:['’]?s|in|en)?\b[\W_]*(?:\w+\W+){0,3}?"
    r"(?:rule|preference|instruction|statement|wish|regel|r[eè]gle|regla|regol)"
    r"|(?:rule|preference|instruction|statement|regel|r[eè]gle|regla|regol)\w*\W+(?:\w+\W+){0,4}?"
    r"(?:user|owner|nutzer|benutzer|utilisateur|usuario|utente)s?\b"
    r"|\brules?\s+(?:\w+\s+){0,2}?(?:above|before|earlier|previously)\b|\b(?:above|earlier|previous|own)\s+rules?\b"
    r"|\b(?:as|like)\s+(?:you|i)\s+(?:told|said|stated|asked|agreed|wanted)\b|\bi\W+(?:am\W+)?the\s+user\b"
    r"|\bmy\s+(?:own\s+)?(?:preference|wish|rule)"
    r"|\b(?:user|nutzer|benutzer|utilisateur|usuario|utente)\W+(?:(?:has|have|already)\W+)*(?:wants?|wishes|prefers|agreed"
    r"|told|said|quiere|prefiere|vuole|preferisce|veut|souhaite|prefere|mochte|wunscht)\b",
    re.I,
)
_ABOUT = ("content", "screen", "server", "shared_by")
_SCREENS = (
    *("safety.json", "safety.py", "suspicion.json", "escape.json", "escape.py"),
    *("observations.py", "coding_sessions.py", "team.py"),
)
_NAME_CHARS = 40
_MOST_COMPARED = 12
_OLDEST = timedelta(days=3650)


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
    records = (one for one in engine.store.scan(where) if one.project != EVERYWHERE and not is_copy(one))
    return [one for one in records if not is_old_fix(one)][::-1]


def list_copies(engine: Engine, projects: set[str] | None = None) -> list[Record]:
    """Return the copies of a team's rules and observations, in some projects or in all."""
    where = Where(kinds=SHARED_KINDS, projects=projects)
    # Earlier versions only tagged them.
    scans = (replace(where, agents={TEAM_AGENT}), replace(where, agents={AGENT}, tagged={TEAM}))
    return [one for scan in scans for one in engine.store.scan(scan) if is_copy(one)]


@lru_cache(maxsize=1)
def find_screen_version() -> str:
    """Return a digest of all that decides whether a copy may be shown."""
    parts = []
    for name in _SCREENS:
        with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
            parts.append(file.read())
    return digest(*parts, size=8)


def replace_copies(engine: Engine, team_rules: Sequence[TeamRule], server: str = "") -> None:
    """Make the copies in this project those of `team_rules`; unchanged ones keep their counts and their status.

    `server` is the name by which this machine knows the server. A copy that the team no longer has is deleted, unless
    the person put it away: then it stays there, so that it is recognised when it comes back.
    """
    stored = {one.id: one for one in list_copies(engine, {engine.project})}
    fresh = {f"{'obs' if one.failed else 'rul'}_{digest(engine.project, one.id)}": one for one in team_rules}
    changed = {id: one for id, one in fresh.items() if id not in stored or _is_outdated(stored[id], one, server)}
    drafts = list(_draft_copies(engine, changed, server))
    missing = [one for id, one in stored.items() if id not in fresh]
    kept_ids = {one.id for one in missing if one.body.get("put_away") or one.body["metadata"].get("sources")}

    def step(tx: Transaction) -> None:
        tx.erased += [one for one in missing if one.id not in kept_ids]
        # Earlier versions counted what a person stated as well for the copy.
        for one in tx.get(kept_ids):
            if one.status in LIVE:
                tx.update(one, status=Status.ARCHIVED, body={**one.body, "put_away": True})
        _put_copies(tx, drafts)
        _silence_since_last_time(tx)

    write(engine, step)
    engine.store.delete([one.id for one in missing if one.id not in kept_ids])


def screen_copies(engine: Engine) -> None:
    """Screen the stored copies again that other patterns let pass, in all projects. No server is asked."""
    version = find_screen_version()
    stale = [one for one in list_copies(engine) if one.body["metadata"].get("screen") != version]
    for project in {one.project for one in stale}:
        place = replace(engine, project=project)
        drafts = [_draft_again(place, one) for one in stale if one.project == project]
        write(place, partial(_put_copies, drafts=drafts))


def _draft_again(engine: Engine, copy: Record) -> Record:
    """Return a stored copy as it would be stored now. It stays what the server sent: its texts were shortened."""
    stored = copy.body["metadata"]
    [draft] = _draft_copies(engine, {copy.id: _read_copy(copy)}, str(stored.get("server", "")))
    metadata = {**draft.body["metadata"], "content": stored.get("content", "")}
    return replace(draft, body={**draft.body, "metadata": metadata})


def _read_copy(copy: Record) -> TeamRule:
    """Return a stored copy in the form in which it was sent."""
    body, sharer = copy.body, str(copy.body["metadata"].get("shared_by", ""))
    if copy.kind == OBSERVATION:
        return TeamRule(copy.id, body["worked"], body["trigger"], "", body["failed"], sharer, copy.created_at)
    return TeamRule(copy.id, body["rule"], body["trigger"], body["why"], "", sharer, copy.created_at)


def _is_outdated(copy: Record, rule: TeamRule, server: str) -> bool:
    metadata = copy.body["metadata"]
    about = (metadata.get("content"), metadata.get("screen"))
    return about != (_digest_content(rule, server), find_screen_version()) or copy.agent != TEAM_AGENT


def _digest_content(rule: TeamRule, server: str) -> str:
    return digest(server, rule.rule, rule.trigger, rule.why, rule.failed)


# -- storing


def _put_copies(tx: Transaction, drafts: Sequence[Record]) -> None:
    """Store new copies and changed ones, unless the person said or forgot the same here."""
    where = Where(kinds=SHARED_KINDS, projects={tx.engine.project, EVERYWHERE}, users={""}, sessions={""})
    stored = tx.scan(where) if drafts else []
    # A candidate here hides nothing: the team has decided on it.
    own = [one for one in stored if one.status is Status.ACTIVE and not is_copy(one)]
    put_away = [one for one in stored if one.body.get("put_away")]
    own_keys = {one.key for one in (*own, *put_away) if not is_copy(one)}
    for draft in drafts:
        old = tx.find(draft.id)
        if (old is not None and not is_copy(old)) or _is_forgotten(tx, draft):
            # A record of the person's own, or what they deleted: no server gets at it.
            if old is not None and is_copy(old) and old.status in LIVE:
                tx.update(old, status=Status.ARCHIVED, body={**old.body, "put_away": True})
            continue
        is_known = _own_key(draft) in own_keys
        rival = _find_rival(draft, own)
        away = None if rival else _find_same(draft, put_away)
        changes: dict[str, Any] = {}
        if rival or is_known:
            changes = {"status": Status.SUPERSEDED, "superseded_by": rival.id if rival else ""}
        elif away:
            changes = {"status": Status.ARCHIVED, "body": {**draft.body, "put_away": True}}
        fresh = replace(draft, **changes)
        if old is not None:
            _update_copy(tx, old, fresh)
        elif not is_known:
            tx.put(fresh)


def _update_copy(tx: Transaction, old: Record, fresh: Record) -> None:
    """Store a copy over an older form of it, with its counts. One that was put away or superseded here stays so."""
    about = {name: fresh.body["metadata"][name] for name in _ABOUT}
    metadata = {**old.body["metadata"], **about}
    is_same = all(old.body.get(name) == fresh.body.get(name) for name in _TEXTS)
    is_accepted = metadata.get("accepted", "") == about["content"]
    status, place = fresh.status, {"superseded_by": fresh.superseded_by}
    if old.status not in LIVE:
        status, place = old.status, {"superseded_by": old.superseded_by}
    elif is_accepted and status is Status.CANDIDATE:
        status = Status.ACTIVE
    elif is_same and status is Status.ACTIVE:
        # Patterns that let it pass now do not decide for the person, who was asked.
        status = old.status
    is_away = old.body.get("put_away", False) or fresh.body.get("put_away", False)
    body = {**fresh.body, "metadata": metadata, "put_away": is_away}
    if is_accepted:
        tx.accepted.add(old.id)
    own = {"agent": TEAM_AGENT, "provenance": fresh.provenance, "tags": fresh.tags, "project": tx.engine.project}
    vectors = {"vectors": fresh.vectors, "embedder": fresh.embedder}
    tx.update(old, body=body, text=fresh.text, key=fresh.key, status=status, **place, **own, **vectors)


def _own_key(draft: Record) -> str:
    """Return the key that the same statement has as a record of the person's own."""
    return key_of(draft.kind, AGENT, "", draft.body)


def _is_forgotten(tx: Transaction, draft: Record) -> bool:
    """Return whether the person deleted it here, as a copy or as an own rule, in these words or similar ones."""
    own = replace(draft, agent=AGENT, key=_own_key(draft), id="")
    return any(any(tx.tombstones.find(tx, one, one.key)) for one in (draft, own))


def _find_rival(draft: Record, own: Sequence[Record]) -> Record | None:
    """Return a rule of the person's own that repeats or contradicts a copy."""
    advice = read_advice(draft)
    shared = {one.id: share_words(advice, one.body) for one in own if one.kind == MemoryType.RULE}
    likely = sorted((one for one in own if shared.get(one.id)), key=lambda one: -shared[one.id])
    return find_rival(advice, likely[:_MOST_COMPARED])


def _find_same(draft: Record, put_away: Sequence[Record]) -> Record | None:
    """Return what the person put away here that says the same as a copy, whatever its id."""
    others = (one for one in put_away if one.id != draft.id and one.kind == draft.kind)
    if draft.kind != MemoryType.RULE:
        return next((one for one in others if one.key == draft.key), None)
    return next((one for one in others if share_words(draft.body, one.body) and resemble(draft.body, one.body)), None)


def _silence_since_last_time(tx: Transaction) -> None:
    """Silence the copies that own rules overrule which were stored since the last exchange, here or everywhere."""
    marker_id = f"mrk_team_{digest(tx.engine.project, size=8)}"
    marker = tx.find(marker_id)
    last = from_iso(marker.body["value"]) if marker else None
    own = tx.scan(tx.engine.within(MemoryType.RULE, users={""}, sessions={""}, statuses={Status.ACTIVE}))
    recent = [one for one in own if last is None or one.updated_at >= last]
    if recent:
        silence_copies(tx, recent)
        tx.set_marker(marker_id, {"value": to_iso(max(one.updated_at for one in recent))})


# -- drafting


def _draft_copies(engine: Engine, rules: Mapping[str, TeamRule], server: str) -> Iterator[Record]:
    """Yield the records of copies, by their ids, as the texts of strangers allow."""
    source = Provenance(Origin.IMPORT, Trust.LEARNED, source=TEAM)
    places, teachings = [], []
    for id, one in rules.items():
        about = {"content": _digest_content(one, server), "screen": find_screen_version(), "server": server}
        about["shared_by"] = shorten(one.shared_by, _NAME_CHARS)
        place: dict[str, Any] = {"id": id, "created_at": _limit_date(engine, one.created_at)}
        place |= {"provenance": source, "tags": (TEAM,), "agent": TEAM_AGENT}
        if one.failed:
            draft = draft_observation(engine, one.failed, one.rule, trigger=one.trigger, failures=1, successes=1)
            metadata = {**draft.body["metadata"], **about}
            body = {**draft.body, "metadata": metadata}
            body["concern"] = body["concern"] or _find_concern(body)
            yield _finish(replace(draft, body=body, **place))
            continue
        prefer, avoid = find_choice(one.rule)
        teaching = Teaching(id, one.rule, Reach.PROJECT, RuleSource.IMPORT, one.trigger, one.why)
        teachings.append(teaching._replace(prefer=prefer, avoid=avoid, metadata=about, agent=TEAM_AGENT))
        places.append(place)
    for place, (_, draft) in zip(places, prepare_rules(engine, teachings), strict=True):
        body = {**draft.body, "metadata": {**draft.body["metadata"], "sources": []}}
        yield _finish(replace(draft, body=body, **place))


def _finish(draft: Record) -> Record:
    concern = draft.body.get("concern") or _find_concern(draft.body)
    key = key_of(draft.kind, TEAM_AGENT, "", draft.body)
    return replace(draft, key=key, status=Status.CANDIDATE if concern else Status.ACTIVE)


def _find_concern(body: Mapping[str, Any]) -> str:
    """Return why a person has to see a copy before a model does; empty if nothing in its texts speaks against it."""
    texts = [str(body[name]) for name in _TEXTS if body.get(name)]
    # Two harmless halves may be one instruction.
    texts.append(" ".join(texts))
    if any(map(find_suspicion, texts)):
        return "reads like an instruction"
    # A colleague's rule is about the work, not about what this user wants or has said.
    if any(_SPEAKS_FOR_USER.search(fold_letters(text)) for text in texts):
        return "speaks for the user"
    return "weakens safety" if any(map(weakens_safety, texts)) else ""


def _limit_date(engine: Engine, created_at: datetime | None) -> datetime:
    """Return when a server says that a rule was stated, if that is possible; else now."""
    now = engine.clock()
    return created_at if created_at and now - _OLDEST <= created_at <= now else now
