"""What goes with a deleted memory: everything else that repeats its words.

A memory is deleted in two steps. The first puts its tombstone together with all records that stay and lose its words
(`bury`, `unquote`, `regroup`, `unlink_from_graph`); the second erases what is left (`find_remains`). Both are made from
what the store holds, so that a call that was killed in between is finished by the same call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce

from ..text import fingerprint
from ..types.evidence import Evidence
from ..types.graph import end_tags
from ..types.kinds import KINDS, MemoryType, Result
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status
from ..types.rules import EVERYWHERE
from .admit import build, make_marker, revise
from .context import Engine
from .distil.groups import Attempt, Groups, lesson_id, share_label
from .distil.lessons import Case, describe_lesson, settle, with_error
from .drafts import Draft
from .episodes import turns
from .tombstones import LESSONS, SALT_MARKER, hash_key, key_of_deleted, new_salt, read_salts, tombstone_id

_REPLACED = "a later memory took its place, and was deleted since"
_GRAPH = ("entity", "relation")


# -- first step: what stays loses the words


def bury(engine: Engine, record: Record, held: Record | None) -> list[Record]:
    """Return the tombstone to put, and the store's salt where it has none. `held`: an earlier tombstone of this id."""
    if held is not None and held.status is Status.ACTIVE:
        return []
    salts = read_salts(engine)
    fresh = [] if salts else [salt_marker(engine, [new_salt()])]
    salt = salts[0] if salts else fresh[0].body["value"][0]
    key = hash_key(salt, key_of_deleted(record))
    body = {"record": record.id, "kind": record.kind, "salt": salt}
    if held is not None:
        return [*fresh, revise(engine, held, status=Status.ACTIVE, body=body, key=key)]
    draft = Draft(kind="tombstone", agent=record.agent, user=record.user, body=body, provenance=Provenance(Origin.USER))
    return [*fresh, build(engine, draft, (), id=tombstone_id(record.id), project=record.project, key=key)]


def salt_marker(engine: Engine, salts: Sequence[str]) -> Record:
    """Return the first version of the record that holds the salts of a store."""
    return make_marker(engine, SALT_MARKER, {"value": list(salts)}, project="")


def unquote(engine: Engine, record: Record) -> list[Record]:
    """Return the history lines of other records that quote this one, without the quote."""
    projects = {engine.project, EVERYWHERE}
    lines = {one.id: one for one in find_changes(engine, [record.id]) if one.body["record"] != record.id}
    # Lines of earlier versions do not name what they quote.
    where = Where(kinds={record.kind}, projects=projects, agents={record.agent}, statuses={Status.SUPERSEDED})
    replaced = [one.id for one in engine.store.scan(where) if one.superseded_by == record.id]
    lines |= {one.id: one for one in find_changes(engine, replaced) if one.body["verb"] == "superseded"}
    return [revise(engine, one, body={**one.body, "why": _REPLACED}) for one in lines.values()]


def regroup(engine: Engine, record: Record) -> list[Record]:
    """Return the strategy group of a deleted outcome or lesson, and what was formed from it, without its words.

    A deleted outcome no longer counts for or against its strategy.
    """
    groups = Groups(engine)
    group = _find_group(engine, record)
    if group is None:
        return []
    groups.get([group.id], [group])
    sources = _find_sources(engine, group, record.id)
    strategy = group.body["strategy"]
    if not sources:
        _recommend_instead(engine, groups, group, strategy, "")
        return groups.changed()
    if record.kind == MemoryType.OUTCOME:
        value, at = Result(record.body["outcome"]).value_of, int(record.created_at.timestamp())
        group = replace(group, evidence=_without_result(group.evidence, value, at))
    group = _reword_group(engine, group, record, sources)
    groups.put(group)
    body = group.body
    case = Case(
        engine,
        groups,
        group,
        Attempt(group.agent, body["strategy"], body["task"], body["task_type"], group.vectors, group.user),
    )
    history = settle(case) if record.kind == MemoryType.OUTCOME else []
    lessons = [one for one in groups.get([lesson_id(group, kind) for kind in LESSONS]) if one.id != record.id]
    for lesson in lessons:
        if lesson.provenance.origin is Origin.OUTCOME:
            told = {**describe_lesson(case, MemoryType(lesson.kind)), "metadata": lesson.body.get("metadata", {})}
            text = KINDS[lesson.kind].text(told)
            worded = replace(lesson, text=text, vectors=group.vectors, embedder=group.embedder)
            groups.put(replace(worded, body={**lesson.body, **told}))
    if body["strategy"] != strategy:
        _recommend_instead(engine, groups, group, strategy, body["strategy"])
    gone = _words_of([record]) - _words_of([*sources, group])
    return [*groups.changed(), *history, *_without_words(engine, [one.id for one in lessons], gone)]


def _find_group(engine: Engine, record: Record) -> Record | None:
    if record.kind not in (MemoryType.OUTCOME, *LESSONS):
        return None
    found = [one for one in engine.store.get(record.links[:1]) if one.kind == "strategy"]
    return found[0] if found else None


def _find_sources(engine: Engine, group: Record, but: str) -> list[Record]:
    """Return what gives a group its words, oldest first: outcomes, and lessons that somebody stated or edited."""
    where = Where(kinds={MemoryType.OUTCOME, *LESSONS}, projects={engine.project}, linked={group.id})
    return [
        one
        for one in engine.store.scan(where)
        if one.id != but and (one.kind == MemoryType.OUTCOME or one.provenance.origin is not Origin.OUTCOME)
    ][::-1]


def _reword_group(engine: Engine, group: Record, record: Record, sources: Sequence[Record]) -> Record:
    """Return the group with words and errors that a source still has."""
    fresh = group
    if (group.body["strategy"], group.body["task"]) not in {_attempted(one)[:2] for one in sources}:
        strategy, task, task_type = _attempted(sources[0])
        fresh = replace(group, body={**group.body, "strategy": strategy, "task": task, "task_type": task_type})
    label = reduce(share_label, (_attempted(one)[1] for one in sources))
    fresh = replace(fresh, body={**fresh.body, "label": label})
    if record.body.get("error"):
        fresh = replace(fresh, body={**fresh.body, "errors": []})
        for one in sources:
            failed = one.kind == MemoryType.OUTCOME and one.body["outcome"] != Result.SUCCESS
            fresh = with_error(fresh, one.body["error"]) if failed else fresh
    if KINDS["strategy"].passages(fresh.body) == KINDS["strategy"].passages(group.body):
        return fresh
    [vectors] = engine.encode([KINDS["strategy"].passages(fresh.body)])
    return replace(
        fresh,
        key=fingerprint(fresh.body["strategy"]),
        text=KINDS["strategy"].text(fresh.body),
        vectors=vectors,
        embedder=engine.embedder_name if vectors else "",
    )


def _attempted(source: Record) -> tuple[str, str, str]:
    """Return the strategy, the task and its type of an outcome or a lesson."""
    body = source.body
    strategy = str(body.get("strategy") or body.get("pattern"))
    return strategy, str(body.get("task") or body.get("condition") or ""), str(body["task_type"])


def _without_result(evidence: Evidence, value: float, at: int) -> Evidence:
    name = "successes" if value >= 1.0 else "failures" if value <= 0.0 else "partials"
    recent = list(evidence.recent)
    near = [entry for entry in recent if entry[1] == value]
    if near:
        recent.remove(min(near, key=lambda entry: abs(entry[0] - at)))
    return replace(evidence, **{name: max(0, getattr(evidence, name) - 1)}, recent=tuple(recent))


def _recommend_instead(engine: Engine, groups: Groups, group: Record, strategy: str, instead: str) -> None:
    """Change the warnings that recommend the strategy of a group by its old words."""
    where = Where(kinds={MemoryType.ANTI_PATTERN}, projects={engine.project}, agents={group.agent}, users={group.user})
    found = [one for one in engine.store.scan(where) if one.body["better_alternative"] == strategy]
    for warning in groups.get([one.id for one in found], found):
        if warning.provenance.origin is Origin.OUTCOME and warning.body["better_alternative"] == strategy:
            groups.put(replace(warning, body={**warning.body, "better_alternative": instead}))


def _words_of(records: Iterable[Record]) -> set[str]:
    names = ("strategy", "pattern", "task", "condition", "error", "feedback", "why_bad", "better_alternative")
    return {str(one.body[name]) for one in records for name in names if one.body.get(name)}


def _without_words(engine: Engine, ids: Collection[str], gone: Collection[str]) -> list[Record]:
    """Return the history lines of these records that hold such words, without them."""
    fresh = []
    for line in find_changes(engine, ids) if gone else ():
        before = line.body["before"]
        kept = {name: value for name, value in before.items() if not any(text in str(value) for text in gone)}
        if kept != before:
            fresh.append(revise(engine, line, body={**line.body, "before": kept}))
    return fresh


def unlink_from_graph(engine: Engine, ids: Collection[str], gone: Collection[str]) -> list[Record]:
    """Return the entities and relations that stay (all but `gone`) without their links to deleted memories."""
    return [
        revise(engine, one, links=tuple(link for link in one.links if link not in ids))
        for one in _find_in_graph(engine, ids)
        if one.id not in gone
    ]


# -- second step: the rest is erased


def find_remains(engine: Engine, record: Record) -> list[str]:
    """Return the ids of all that is erased with a memory: its history, its turns, and what only it had formed."""
    ids = [record.id]
    if record.kind == MemoryType.EPISODE:
        ids += [turn.id for turn in turns(engine, record)]
    group = _find_group(engine, record)
    if group is not None and not _find_sources(engine, group, record.id):
        lessons = engine.store.get([lesson_id(group, kind) for kind in LESSONS])
        ids += [group.id, *(one.id for one in lessons)]
    lines = [one.id for one in find_changes(engine, ids) if one.body["record"] in ids]
    lines += [one.id for one in engine.store.scan(Where(kinds={"comparison"}, linked=set(ids)))]
    return list(
        dict.fromkeys((*ids, *lines, *find_graph_remains(engine, [record.id]), *_named_in_turn(engine, record)))
    )


def find_changes(engine: Engine, ids: Collection[str]) -> list[Record]:
    """Return the lines of history that belong to these records or quote them, newest first."""
    if not ids:
        return []
    where = Where(kinds={"change"}, projects={engine.project, EVERYWHERE}, linked=set(ids))
    return list(engine.store.scan(where))


def _find_in_graph(engine: Engine, sources: Collection[str]) -> list[Record]:
    return list(engine.store.scan(Where(kinds=_GRAPH, projects={engine.project}, linked=set(sources))))


def find_graph_remains(engine: Engine, ids: Collection[str]) -> list[str]:
    """Return the ids of entities and relations that came from deleted memories alone."""
    lone = [one for one in _find_in_graph(engine, ids) if set(one.links) <= set(ids)]
    return _without_spoken_of(engine, lone)


def _named_in_turn(engine: Engine, turn: Record) -> list[str]:
    """Return the ids of entities and relations that only this turn of a conversation names.

    The graph links the conversation, not its turns.
    """
    episodes = engine.store.get(turn.links[:1]) if turn.kind == "turn" else []
    if not episodes:
        return []
    said = "\n".join(one.text for one in turns(engine, episodes[0]) if one.id != turn.id).casefold()
    lone = [
        one
        for one in _find_in_graph(engine, [episodes[0].id])
        if len(one.links) == 1
        and (
            one.body["attributes"].get("turn") == turn.id
            if one.kind == "relation"
            else one.body["name"].casefold() not in said
        )
    ]
    return _without_spoken_of(engine, lone)


def _without_spoken_of(engine: Engine, lone: Sequence[Record]) -> list[str]:
    """Return the ids of these relations, and of those entities that no other relation speaks of."""
    gone = {one.id for one in lone if one.kind == "relation"}
    for entity in (one for one in lone if one.kind == "entity"):
        where = Where(kinds={"relation"}, projects={engine.project}, tagged=set(end_tags(entity.body["entity"])))
        if all(one.id in gone for one in engine.store.scan(where, len(gone) + 1)):
            gone.add(entity.id)
    return list(gone)
