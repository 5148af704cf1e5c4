"""What a person looks at to understand and correct a memory: what waits, sessions, changes, and whether it captures.

The answers are JSON values. The dashboard reads them, so a name that changes here changes in `http/ui`, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Annotated, Any, TypedDict, cast

from .engine import validate
from .engine.changes import CHANGESET, UNFILTERED
from .engine.coding_sessions import find_mark
from .engine.conflicts import list_conflicts
from .engine.context import Engine
from .engine.edit import ONLY_HERE, find_memory
from .engine.episodes import turn_id
from .engine.history import read_before
from .engine.observations import OBSERVATION
from .engine.outcomes import list_related
from .engine.pages import (
    CUT_BYTES,
    MAX_ORDERED,
    Selection,
    cut_memory,
    cut_text,
    list_page,
    list_selected,
    make_entry,
    shorten_title,
)
from .engine.past import FormerRecords
from .engine.rules import AGENT, is_copy
from .engine.view import count_records, recall, to_memory
from .errors import NotFoundError
from .memory import ALMA
from .operations import About, Effect, Group
from .ports import Watchable
from .schema import plain
from .text import count_tokens, digest, shorten
from .types.kinds import EVERYWHERE, KINDS, MEMORY_KINDS, MemoryType, Reach, RuleSource
from .types.query import Where
from .types.record import LIVE, Record, Status, Trust
from .types.times import from_iso, from_micros, to_micros
from .words import Health, MemoryId, Moment, Statuses

operation = Group("inspection")
_CAPTURE = timedelta(minutes=10)
_RELATED, _LISTED = 20, 10
_MAX_DISPLAYS, _MAX_RULES = 500, 500
_INBOX_BYTES, _TURN_BYTES, _CHANGE_BYTES = 30_000, 1000, 300
Cursor = Annotated[str | None, About("the `next` of the page before", check=validate.name)]
Json = dict[str, Any]


# -- one memory


class MemoryDetail(TypedDict):
    """A memory with all that is known about it."""

    entry: Json
    taught_in: str
    related: list[Json]
    shown_in: list[Json]


@operation(Effect.READS, for_models=False)
def inspect(alma: ALMA, memory_id: MemoryId) -> MemoryDetail:
    """Show one memory whole, with its evidence, where it was taught, when it was shown and what it is related to."""
    engine = alma.engine
    record = find_memory(engine, memory_id, OBSERVATION)
    displays = engine.store.scan(engine.within("retrieval", linked={record.id}), _RELATED)
    episode = _find_episode(engine, next(iter(_list_sessions(record)), ""))
    answer = {
        "entry": (_show_observation if record.kind == OBSERVATION else make_entry)(engine, record),
        "taught_in": episode.id if episode else next(iter(record.provenance.episodes), ""),
        "related": [cut_memory(to_memory(one, engine.clock())) for one in list_related(engine, record, _RELATED)],
        "shown_in": [
            {"at": one.created_at, "task": cut_text(one.body["task"]), "session_id": one.session} for one in displays
        ],
    }
    return cast(MemoryDetail, plain(answer))


def _count_corrections(record: Record, session: str) -> int:
    """Return how often a rule was taught by a correction in a session, repetitions included."""
    metadata = record.body.get("metadata", {})
    taught = metadata.get("taught")
    if not isinstance(taught, list):
        # Earlier versions kept only where it was taught first.
        taught = [[metadata.get("session"), record.body.get("source")]]
    return sum(one == [session, RuleSource.CORRECTION] for one in taught)


def _list_sessions(record: Record) -> list[str]:
    """Return the sessions that a memory was learned in; of most, one."""
    metadata = record.body.get("metadata", {})
    return (
        list(metadata["sessions"]) if record.kind == OBSERVATION else [str(metadata.get("session") or record.session)]
    )


def _find_episode(engine: Engine, session: str) -> Record | None:
    where = engine.within(MemoryType.EPISODE, sessions={session})
    return next(engine.store.scan(where, 1), None) if session else None


@operation(Effect.READS, for_models=False)
def browse_observations(
    alma: ALMA,
    words: Annotated[str, About("only those with one of these words; the best 200")] = "",
    statuses: Statuses = None,
    limit: Annotated[int, About("maximum results per page", least=1, most=100)] = 25,
    cursor: Cursor = None,
) -> RowPage:
    """List in pages what coding agents are shown about commands: one that failed, and another form that worked."""
    chosen = set(LIVE if statuses is None else statuses) or None
    selection = Selection(alma.engine.within(OBSERVATION, statuses=chosen), words)
    records, after, *_ = list_page(alma.engine, selection, limit, cursor)
    return {"items": plain([_show_observation(alma.engine, one) for one in records]), "next": after}


def _show_observation(engine: Engine, record: Record) -> Json:
    """Return an observation as the entry of a memory is returned."""
    names = ("failed", "worked", "failures", "successes", "concern", "trigger", "source", "line")
    origin = "import" if is_copy(record) else "agent"
    memory = {"type": record.kind, "origin": origin, **{name: record.body[name] for name in names}}
    memory |= {name: getattr(record, name) for name in ("id", "agent", "status", "created_at")}
    shown = count_records(engine, engine.within("retrieval", linked={record.id}))
    about = {"version": record.version, "trust": record.provenance.trust, "evidence": record.evidence}
    return {"memory": memory, **about, "shown": sum(shown.values()), "superseded_by": "", "is_cut": False}


# -- what waits


class Inbox(TypedDict):
    """What waits for a person's decision."""

    counts: dict[str, int]
    conflicts: list[Json]
    candidates: list[Json]
    untrusted: list[Json]
    promotions: list[Json]


@operation(Effect.READS, for_models=False)
def inbox(alma: ALMA, limit: Annotated[int, About("maximum results of each sort", least=1, most=100)] = 10) -> Inbox:
    """List what waits for a person's decision: conflicts, candidates, untrusted memories and possible promotions."""
    engine = alma.engine
    conflicts, candidates, untrusted, promotions = (some[:limit] for some in _list_waiting(engine).values())
    # A conflict has two memories.
    most = min(CUT_BYTES, _INBOX_BYTES // (5 * limit))
    answer = {
        "counts": _count_waiting(engine),
        "conflicts": [
            replace(one, older=cut_memory(one.older, most), newer=cut_memory(one.newer, most)) for one in conflicts
        ],
        "candidates": [make_entry(engine, one, most) for one in candidates],
        "untrusted": [make_entry(engine, one, most) for one in untrusted],
        "promotions": [{"entry": make_entry(engine, one, most), "why": why} for one, why in promotions],
    }
    return cast(Inbox, plain(answer))


def _list_waiting(engine: Engine) -> dict[str, list[Any]]:
    """Return what waits, newest first; of candidates the newest 2,000."""

    def find() -> dict[str, list[Any]]:
        where = engine.within(*MEMORY_KINDS, statuses={Status.CANDIDATE})
        conflicts = list_conflicts(engine)
        ids = {one.id for conflict in conflicts for one in (conflict.older, conflict.newer)}
        # What is decided as a conflict is not listed once more.
        pool = [one for one in list_selected(engine, Selection(where))[0] if one.id not in ids]
        return {
            "conflicts": conflicts,
            "candidates": [one for one in pool if one.provenance.trust is not Trust.UNTRUSTED],
            "untrusted": [one for one in pool if one.provenance.trust is Trust.UNTRUSTED],
            "promotions": _list_promotions(engine),
        }

    return recall(engine, ("waiting", engine.project), find)


def _count_waiting(engine: Engine) -> dict[str, int]:
    return {name: len(some) for name, some in _list_waiting(engine).items()}


def _list_promotions(engine: Engine) -> list[tuple[Record, str]]:
    """Return the rules of this project that other projects have in the same words, each with the reason."""
    where = Where(kinds={MemoryType.RULE}, statuses={Status.ACTIVE})
    own = engine.store.scan(replace(where, projects={engine.project}), _MAX_RULES)
    stated = [one for one in own if one.body["reach"] == Reach.PROJECT and not is_copy(one)]
    rules = {one.key: one for one in stated if not one.body.get(ONLY_HERE)}
    places = defaultdict(set)
    for one in engine.store.scan(replace(where, keys=set(rules)), MAX_ORDERED) if rules else ():
        if not is_copy(one):
            places[one.key].add(one.project)
    shared = [(rules[key], names) for key, names in places.items() if len(names) > 1 and EVERYWHERE not in names]
    return [(one, f"taught in {len(names)} projects: {', '.join(sorted(names))}") for one, names in shared]


# -- sessions


class RowPage(TypedDict):
    """Some sessions or changes, and how to go on."""

    items: list[Json]
    next: str | None


@operation(Effect.READS, for_models=False)
def browse_sessions(
    alma: ALMA,
    words: Annotated[str, About("only sessions with one of these words; the best 200")] = "",
    limit: Annotated[int, About("maximum results per page", least=1, most=100)] = 25,
    cursor: Cursor = None,
) -> RowPage:
    """List the recorded sessions of all agents in pages, newest first, with what was learned and shown in each."""
    engine = alma.engine
    where = engine.within(MemoryType.EPISODE, statuses={*LIVE, Status.ARCHIVED})
    records, after, *_ = list_page(engine, Selection(where, words), limit, cursor)
    return {"items": [_summarize(engine, one) for one in records], "next": after}


def _list_rules(engine: Engine) -> list[Record]:
    """Return the newest rules and observations of all statuses, from which those of a session are picked."""
    where = engine.within(MemoryType.RULE, OBSERVATION)
    return recall(engine, ("rules", engine.project), lambda: list(engine.store.scan(where, MAX_ORDERED)))


def _list_displays(engine: Engine, session: str, **period: Any) -> list[Record]:
    """Return when memories were shown in a session, oldest first."""
    where = engine.where("retrieval", sessions={session}, **period)
    return list(engine.store.scan(where, _MAX_DISPLAYS))[::-1] if session else []


def _summarize(engine: Engine, episode: Record) -> Json:
    """Return a session with what memory did in it; the tokens that this took are an estimate."""
    rules, body = _list_rules(engine), episode.body
    own = [one for one in rules if episode.session in _list_sessions(one)]
    lines = {one.id: count_tokens(str(one.body["line"])) for one in rules}
    shown = [id for one in _list_displays(engine, episode.session) for id in one.links]
    summary = {
        "id": episode.id,
        "session_id": episode.session,
        "title": cut_text(body["title"]),
        "host": body.get("metadata", {}).get("host") or episode.agent,
        "started_at": episode.created_at,
        "ended_at": from_iso(body["ended_at"]) or episode.created_at,
        "turns": body["turns"],
        "corrections": sum(_count_corrections(one, episode.session) for one in rules if one.kind == MemoryType.RULE),
        # What later sessions get. What held in this session only, or was put away, is not learned.
        "learned": sum(one.status is Status.ACTIVE and not one.session for one in own),
        "waiting": sum(one.status is Status.CANDIDATE for one in own),
        "shown": len(set(shown)),
        "shown_tokens": sum(lines.get(id, 0) for id in shown),
    }
    return dict(plain(summary))


class SessionDetail(TypedDict):
    """A session and some of its turns; pass `next` as `start` to continue."""

    session: Json
    turns: list[Json]
    next: int | None


@operation(Effect.READS, for_models=False)
def show_session(
    alma: ALMA,
    session: Annotated[str, About("the id of the session or of its conversation", check=validate.name)],
    start: Annotated[int, About("the number of the first turn", least=0)] = 0,
    limit: Annotated[int, About("maximum number of turns", least=1, most=100)] = 50,
) -> SessionDetail:
    """Show the turns of a recorded session, with what was shown at each and what was learned from it."""
    engine = alma.engine
    episode = next(iter(engine.store.get([session])), None) or _find_episode(engine, session)
    if episode is None or episode.kind != MemoryType.EPISODE or episode.project != engine.project:
        raise NotFoundError(
            f"there is no session {session!r} in project {engine.project!r}; list them: `alma browse sessions`"
        )
    end = start + limit
    turns = engine.store.get([turn_id(episode.id, number) for number in range(start, end)])
    later = engine.store.get([turn_id(episode.id, end)])
    learned = defaultdict(list)
    for rule in _list_rules(engine):
        for source in rule.body["metadata"].get("sources", ()):
            learned[digest(episode.id[4:], "id", str(source).partition(":")[0])].append(_mention(rule))
    first, last = (turns[0].created_at if turns and start else None), (later[0].created_at if later else None)
    displays = _list_displays(engine, episode.session, created_from=first, created_to=last)
    memories = engine.store.get(list({id for one in displays for id in one.links}))
    # In the words that they had then.
    former = FormerRecords(engine, memories, displays[0].created_at if displays else episode.created_at)
    shown: dict[str, list[Json]] = defaultdict(list)
    for display in displays if turns else ():
        # At the last turn before it.
        before = [one for one in turns if one.created_at <= display.created_at] or turns[:1]
        where = str(display.body["mode"]).removeprefix("hook:")
        then = [former.find(id, display.created_at) for id in display.links]
        mentions = [_mention(one) for one in then if one is not None]
        shown[before[-1].id] += [{**one, "where": where} for one in mentions]
    answers = [
        {
            **{name: one.body[name] for name in ("index", "speaker")},
            "id": one.id,
            "text": (text := cut_text(one.body["text"], _TURN_BYTES)),
            "is_cut": text != one.body["text"],
            "said_at": one.created_at,
            "shown": shown[one.id],
            "learned": learned[one.key],
        }
        for one in turns
    ]
    is_last = end >= int(episode.body["next"])
    return {"session": _summarize(engine, episode), "turns": plain(answers), "next": None if is_last else end}


def _mention(record: Record) -> Json:
    mention = {"id": record.id, "type": record.kind, "text": shorten_title(record), "status": str(record.status)}
    return {**mention, "session_id": record.session if record.kind == MemoryType.RULE else ""}


# -- what changed


@operation(Effect.READS, for_models=False)
def list_changes(
    alma: ALMA,
    since: Annotated[Moment, About("only changes from this time on", check=validate.moment)] = None,
    until: Annotated[Moment, About("only changes before this time", check=validate.moment)] = None,
    limit: Annotated[int, About("maximum results per page", least=1, most=100)] = 50,
    cursor: Cursor = None,
) -> RowPage:
    """List the changes of a project in pages, newest first: when, by whom, and what they did to each memory.

    `before` and `after` of a memory are its values before and after the change; long texts are cut.
    """
    engine = alma.engine
    selection = Selection(engine.within(CHANGESET, created_from=since, created_to=until))
    records, after, *_ = list_page(engine, selection, limit, cursor)
    ids = {id for one in records for id in list(one.body["was"])[:_MAX_RULES]}
    memories = {one.id: one for one in engine.store.get(list(ids)) if one.kind in (*MEMORY_KINDS, OBSERVATION)}
    keys = {one.key for one in records}
    lines = engine.store.scan(engine.within("change", keys=keys), MAX_ORDERED) if keys else ()
    reasons = {(one.key, one.body["record"]): one.body for one in lines}
    values = _follow_values(engine, memories, records) if memories else {}

    def describe(changeset: Record) -> Json:
        """Return a change: who made it, and for each memory the verb, what it says now, why, and its values."""
        body, changed = changeset.body, []
        for id, was in body["was"].items():
            if id not in memories:
                continue
            line = reasons.get((changeset.key, id), {})
            is_counted = was is not None and not was.keys() - UNFILTERED
            verb = "added" if was is None else "counted" if is_counted else line.get("verb", "changed")
            before, later = values.get((changeset.id, id), ({}, {}))
            pairs = {name: _cut_pair(one, later[name]) for name, one in before.items()}
            about = {"id": id, "kind": memories[id].kind, "verb": verb, "text": shorten_title(memories[id])}
            about |= {
                side: {name: one[at] for name, one in pairs.items()} for at, side in enumerate(("before", "after"))
            }
            changed.append({**about, "why": shorten(str(line.get("why", "")), 200)})
        change = {"change": changeset.key, "at": changeset.created_at, "by": body["by"], "call": body["call"]}
        change |= {"is_undone": bool(body.get("undone")), "reverts": body.get("reverts", "")}
        return dict(plain({**change, "memories": changed[:_LISTED], "more": max(0, len(changed) - _LISTED)}))

    items = [one for one in map(describe, records) if one["memories"]]
    return {"items": items, "next": after}


def _follow_values(
    engine: Engine, memories: Mapping[str, Record], changesets: Sequence[Record]
) -> dict[tuple[str, str], tuple[Json, Json]]:
    """Return, by changeset and memory, the values before and after. The latter are what the next change found."""
    known = {id: {**one.body, "status": str(one.status), "tags": list(one.tags)} for id, one in memories.items()}
    where = engine.within(CHANGESET, linked=set(memories), created_from=min(one.created_at for one in changesets))
    values = {}
    for changeset in engine.store.scan(where, MAX_ORDERED):
        for id in memories.keys() & changeset.body["was"].keys():
            shown = (*KINDS[memories[id].kind].editable, "status", "tags")
            before = {name: one for name, one in read_before(changeset.body["was"][id] or {}).items() if name in shown}
            values[changeset.id, id] = before, {name: known[id].get(name) for name in before}
            known[id] |= before
    return values


def _cut_pair(*values: Any) -> tuple[Any, ...]:
    """Return two values; of long texts, what is around their first difference."""
    if not all(isinstance(one, str) for one in values):
        return values
    same = next((at for at, (one, other) in enumerate(zip(*values, strict=False)) if one != other), 0)
    return tuple("…" * (same > 100) + cut_text(one[same - 60 if same > 100 else 0 :], _CHANGE_BYTES) for one in values)


# -- the whole memory


class Overview(TypedDict):
    """Whether a memory captures and works, what waits in it, and how much is stored."""

    is_capturing: bool | None
    last_captured_at: str | None
    captured_after_ms: int | None
    last_shown_at: str | None
    rules_in_use: int
    waiting: dict[str, int]
    stats: Json
    health: Health


_LATEST_TURNS = 1000  # Among so many of the newest turns is one that a program reported, if there is any.


def _is_ingested(turn: Record) -> bool:
    """Return whether a turn comes from an imported document or chat, by the name of its conversation."""
    return turn.session.startswith(f"{turn.provenance.source}:")


@operation(Effect.READS, for_models=False)
def overview(alma: ALMA) -> Overview:
    """Report whether sessions are captured now, what waits, and how much is stored.

    `is_capturing` says whether something that was said in the last ten minutes was captured; null if nothing ever was.
    `captured_after_ms` is the delay until the last turn that a hook captured could be read.
    """
    engine = alma.engine

    def find_newest(kind: str, **conditions: Any) -> Record | None:
        return next(engine.store.scan(engine.where(kind, **conditions), 1), None)

    display, heard = find_newest("retrieval"), find_newest("turn", agents={AGENT})
    # A document or a chat that was imported just now was not captured.
    turns = engine.store.scan(engine.where("turn"), _LATEST_TURNS)
    reported = next((record for record in turns if not _is_ingested(record)), None)
    turn = max(filter(None, (heard, reported)), key=lambda record: record.created_at, default=None)
    # Only what a hook wrote down was said just before it was stored.
    lag = heard.updated_at - heard.created_at if heard and find_mark(engine, heard.session).file else None
    answer = {
        "is_capturing": turn and engine.clock() - turn.created_at <= _CAPTURE,
        "last_captured_at": turn and turn.created_at,
        "captured_after_ms": None if lag is None else max(0, round(lag.total_seconds() * 1000)),
        "last_shown_at": display and display.created_at,
        # Rules of one session are in use in that session only.
        "rules_in_use": sum(1 for one in _list_rules(engine) if _is_in_use(one)),
        "waiting": _count_waiting(engine),
        "stats": alma.get_stats(),
        "health": alma.health(),
    }
    return cast(Overview, plain(answer))


def _is_in_use(record: Record) -> bool:
    """Return whether later sessions get a rule."""
    return record.kind == MemoryType.RULE and record.status is Status.ACTIVE and not record.session


class ConfigurationView(TypedDict):
    """What is configured, without secrets and paths."""

    project_id: str
    projects: list[str]
    embedder: str
    model: Json
    agents: list[str]
    teams: list[str]
    webhooks: list[str]
    settings: Json
    exclusions: dict[str, list[str]]


@operation(Effect.READS, for_models=False)
def configuration(alma: ALMA) -> ConfigurationView:
    """Show what is configured, without secrets and paths, and the projects with recent changes."""
    engine, model = alma.engine, alma.model_settings
    answer = {
        "project_id": engine.project,
        "projects": recall(engine, ("projects",), lambda: _list_projects(engine)),
        "embedder": engine.embedder_name,
        "model": {
            "provider": model.provider if model else "none",
            "name": (model and model.model) or "",
            "limits": asdict(model.budget) if model else {},
        },
        "agents": engine.scopes.known(),
        "teams": [one.name for one in engine.scopes.teams],
        "webhooks": [one.site for one in engine.events.webhooks],
        "settings": asdict(engine.settings),
        "exclusions": {
            name: sorted(one.cannot_learn) for name, one in engine.scopes.agents.items() if one.cannot_learn
        },
    }
    return cast(ConfigurationView, plain(answer))


def _list_projects(engine: Engine) -> list[str]:
    kinds = ({CHANGESET}, {MemoryType.RULE}, {MemoryType.EPISODE})
    scans = [engine.store.scan(Where(kinds=some), _MAX_RULES) for some in kinds]
    return sorted({one.project for some in scans for one in some} - {EVERYWHERE, ""} | {engine.project})


# -- what happens from now on

_OVERLAP = timedelta(seconds=5)
_MAX_NOTICES, _MAX_NAMED = 200, 50
_NOTICED = (*MEMORY_KINDS, OBSERVATION, "comparison")
_KINDS_BY_PREFIX = {kind.prefix: name for name, kind in KINDS.items()}


class ChangeFeed:
    """What changes in a project from now on, whichever process writes: ids and kinds, no text."""

    def __init__(self, alma: ALMA, after: int | None = None) -> None:
        """With `after`, the position of an earlier notice, changes since then follow; the last ones may be repeated."""
        self._engine = alma.engine
        self.position = to_micros(self._engine.clock()) if after is None else after
        self._revision: object = None
        self._seen = {one.id for one in self._scan()} if after is None else set()

    def _scan(self) -> list[Record]:
        # Another process may store a change later than one that it made after it.
        since = from_micros(max(0, self.position)) - _OVERLAP
        where = self._engine.within(CHANGESET, "tombstone", created_from=since)
        return list(self._engine.store.scan(where, _MAX_NOTICES + 1))

    def read_notices(self) -> list[tuple[str, Json]]:
        """Return what happened since the last call: `change`, or `reset` if it is too much to list."""
        store = self._engine.store
        if isinstance(store, Watchable):
            revision, self._revision = self._revision, store.revision()
            if revision == self._revision:
                return []
        records = self._scan()
        fresh = [one for one in reversed(records) if one.id not in self._seen]
        self._seen = {one.id for one in records}
        self.position = max([self.position, *(to_micros(one.created_at) for one in fresh)])
        if len(records) > _MAX_NOTICES and fresh:
            return [("reset", {})]
        notices = []
        for one in fresh:
            if is_deletion := one.kind == "tombstone":
                what = {one.body["record"]: "deleted"}
            else:
                what = {id: "added" if was is None else "changed" for id, was in one.body["was"].items()}
            kinds = {id: _KINDS_BY_PREFIX.get(id.partition("_")[0], "") for id in what}
            noticed = [id for id in what if is_deletion or kinds[id] in _NOTICED]
            named = [{"id": id, "kind": kinds[id], "what": what[id]} for id in noticed[:_MAX_NAMED]]
            if named:
                notices.append(("change", {"change": one.id if is_deletion else one.key, "records": named}))
        return notices
