"""What people do to single memories: state a strategy or a warning, change one, delete one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import NotFoundError, ScopeError, ValidationError, unknown
from ..types.kinds import KINDS, READABLE_KINDS, MemoryType, quoted_why
from ..types.record import Origin, Provenance, Record, Status, Trust
from ..types.rules import EVERYWHERE
from .admit import Attempting, allow, build, change, clean, key_of, revise, rewrite, screen
from .context import Engine
from .distil.groups import Attempt, Groups, lesson_id
from .drafts import Draft, Statement
from .episodes import along, without
from .erase import bury, find_changes, find_graph_remains, find_remains, regroup, unlink_from_graph, unquote
from .rules import dressed
from .tombstones import find_tombstones, lesson_key, tombstone_id
from .transaction import commit, refuse_activation


def stating(engine: Engine, statements: Sequence[Statement]) -> Attempting:
    """Each becomes the lesson of its strategy group, so that later outcomes count for or against it."""
    drafts = [screen(engine, lesson_of(statement)) for statement in statements]
    heads = [{"strategy": _strategy(draft), "task": draft.body["condition"]} for draft in drafts]
    vectors = engine.encode([KINDS["strategy"].passages(head) for head in heads])

    def attempt() -> tuple[list[Record], list[Record]]:
        groups = Groups(engine)
        names: list[str] = []
        history: list[Record] = []
        for draft, head, made in zip(drafts, heads, vectors, strict=True):
            if draft.provenance.trust is Trust.UNTRUSTED:
                # It waits on its own: nothing that is learned takes words or standing from it.
                groups.put(waiting := build(engine, draft, made))
                names.append(waiting.id)
                continue
            tried = Attempt(draft.agent, head["strategy"], head["task"], draft.body["task_type"], made, draft.user)
            group = groups.find_or_make(tried)
            history += _stated(engine, groups, draft, group)
            names.append(lesson_id(group, draft.kind))
        changed = {record.id: record for record in groups.changed()}
        return [changed[name] for name in names], [*changed.values(), *history]

    return attempt


def lesson_of(statement: Statement) -> Draft:
    name = "strategy" if statement.kind is MemoryType.HEURISTIC else "pattern"
    body = {
        "condition": statement.condition,
        name: statement.strategy,
        "task_type": statement.category,
        "metadata": {},
        **statement.body,
    }
    return Draft(
        kind=statement.kind,
        agent=statement.agent,
        user=statement.user,
        body=body,
        category=statement.category,
        provenance=statement.provenance,
        tags=statement.tags,
    )


def _strategy(draft: Draft) -> str:
    return str(draft.body.get("strategy") or draft.body.get("pattern"))


def _stated(engine: Engine, groups: Groups, draft: Draft, group: Record) -> list[Record]:
    """The lesson as it is told now, and the lines of history that follow."""
    name = lesson_id(group, draft.kind)
    held = groups.get([name])
    if held and held[0].provenance.weight > draft.provenance.weight:
        # Nobody overrules somebody who is trusted more; they may only confirm.
        groups.put(held[0])
        return []
    groups.put(group)
    opposed = _find_opposed(groups, group, draft.kind)
    # Against what a person said, an agent's word waits.
    is_outweighed = any(one.provenance.weight > draft.provenance.weight for one in opposed)
    overruled = [] if is_outweighed else _overrule(engine, groups, opposed)
    body = {**(_readable(held[0]) if held else {}), **{field: value for field, value in draft.body.items() if value}}
    body = {**draft.body, **body}
    stones = _find_stones(engine, groups, draft, name)
    by_person = draft.provenance.origin is Origin.USER
    is_active = any(one.status is Status.ACTIVE for one in held)
    for stone in stones if by_person else ():
        # A memory said again by its person is wanted again.
        groups.put(replace(stone, status=Status.RETIRED))
    record = build(
        engine,
        replace(draft, body=body),
        group.vectors,
        id=name,
        key=name,
        # Deleted memories do not come back by themselves: it waits for a person.
        status=Status.CANDIDATE if is_outweighed or (stones and not by_person and not is_active) else Status.ACTIVE,
        links=(group.id,),
        evidence=(held[0].evidence if held else group.evidence).with_results_of(group.evidence),
        created_at=held[0].created_at if held else engine.clock(),
        tags=tuple(dict.fromkeys((*(held[0].tags if held else ()), *draft.tags))),
    )
    groups.put(record)
    before = {field: held[0].body.get(field) for field in body} if held else {}
    return [*overruled, *([change(engine, record, "told again", before=before)] if held else [])]


def _find_stones(engine: Engine, groups: Groups, draft: Draft, name: str) -> list[Record]:
    """The active tombstones of a lesson: of this one, or of one in the same words."""
    key = lesson_key(draft.kind, draft.agent, draft.user, draft.body)
    same = [stone.id for stone in find_tombstones(engine, [key]).values()]
    found = groups.get(dict.fromkeys((tombstone_id(name), *same)))
    return [stone for stone in found if stone.status is Status.ACTIVE]


def _find_opposed(groups: Groups, group: Record, kind: str) -> list[Record]:
    """The active warning against what is recommended, or the active recommendation of what is warned of."""
    other = MemoryType.ANTI_PATTERN if kind == MemoryType.HEURISTIC else MemoryType.HEURISTIC
    return [held for held in groups.get([lesson_id(group, other)]) if held.status is Status.ACTIVE]


def _overrule(engine: Engine, groups: Groups, opposed: Sequence[Record]) -> list[Record]:
    """Archive the opposite lesson of a strategy that is now recommended or warned of: it never has both."""
    for held in opposed:
        groups.put(replace(held, status=Status.ARCHIVED))
    return [change(engine, held, "overruled", before={"status": str(held.status)}) for held in opposed]


def ours(engine: Engine, record: Record) -> bool:
    """A memory of this project, or a rule of all projects."""
    if record.kind == MemoryType.RULE and record.project == EVERYWHERE:
        return True
    return record.project == engine.project and record.kind in READABLE_KINDS


def find(engine: Engine, memory_id: str) -> Record:
    """A memory of this project, or an error that says there is none."""
    found = [record for record in engine.store.get([memory_id]) if ours(engine, record)]
    if not found:
        raise NotFoundError(f"there is no memory {memory_id!r} in project {engine.project!r}")
    return found[0]


def update(
    engine: Engine,
    memory_id: str,
    fields: Mapping[str, Any],
    status: Status | None,
    tags: tuple[str, ...] | None,
    editor: Provenance,
) -> Record:
    def attempt() -> tuple[Record, list[Record]]:
        held = find(engine, memory_id)
        _editable(held, fields)
        if fields or status is not None:
            _refuse_overruling(engine, held, "change")
        if status is Status.ACTIVE and not engine.may_approve and _is_waiting(engine, held):
            raise refuse_activation(held, "is a candidate")
        if held.kind == MemoryType.DOMAIN_KNOWLEDGE and "domain" in fields:
            allow(engine, held.agent, fields["domain"])
        told = clean(dict(fields))
        changes: dict[str, Any] = {} if status is None else {"status": status}
        if status is Status.ACTIVE and held.status is Status.SUPERSEDED:
            changes |= {"valid_to": None, "superseded_by": ""}
        if tags is not None:
            changes["tags"] = tags
        body = {**_readable(held), **told}
        if held.kind == MemoryType.RULE:
            body = dressed(body)
        if status is not None:
            # A lesson that a person put away stays away, whatever is learned.
            body["put_away"] = status is not Status.ACTIVE
        if told.keys() - {"metadata"}:
            fresh = rewrite(engine, held, body, provenance=_edited_by(held, editor), key=_key(held, body), **changes)
        else:
            fresh = revise(engine, held, body=body, **changes)
        followed = along(engine, held, **changes) if held.kind == MemoryType.EPISODE and changes else []
        before = {name: held.body.get(name) for name in told} | {"status": str(held.status), "tags": list(held.tags)}
        return fresh, [fresh, *followed, change(engine, fresh, "edited", before=before)]

    return commit(engine, attempt)


def _refuse_overruling(engine: Engine, held: Record, verb: str) -> None:
    """Raise ScopeError where a caller who may not approve would change or erase what a person said."""
    if not engine.may_approve and held.provenance.is_persons:
        raise ScopeError(
            f"{held.id!r} is what a person said, and only a person may {verb} it: run `alma update` or `alma delete`, "
            "use a token with the scope 'approve', or start the MCP server with --approve. What you know better you "
            "may add as another memory"
        )


def _is_waiting(engine: Engine, held: Record) -> bool:
    """Whether it waits for a person, or did when it was put away."""
    before = (
        Status(str(one.body["before"].get("status") or held.status)) for one in reversed(history(engine, held.id))
    )
    decided = (status for status in (held.status, *before) if status in (Status.CANDIDATE, Status.ACTIVE))
    return next(decided, None) is Status.CANDIDATE


def _edited_by(held: Record, editor: Provenance) -> Provenance:
    """What a person has edited is theirs; learning moves its evidence, not its words."""
    if editor.origin is Origin.USER:
        return replace(held.provenance, origin=Origin.USER, trust=Trust.TRUSTED)
    if held.kind == MemoryType.RULE:
        raise ValidationError(
            "only a person changes the words of a rule (source 'user'); add_rule proposes another one"
        )
    if held.provenance.trust is Trust.UNTRUSTED:
        return held.provenance
    return replace(held.provenance, origin=editor.origin, trust=editor.trust)


def _readable(held: Record) -> dict[str, Any]:
    """The body of a record that becomes a person's: what a program gave as a reason stays quoted."""
    if held.kind == MemoryType.ANTI_PATTERN:
        return {**held.body, "why_bad": quoted_why(held)}
    return {**held.body, "why": quoted_why(held)} if held.kind == MemoryType.RULE else dict(held.body)


def check_fields(engine: Engine, memory_id: str, fields: Iterable[str]) -> None:
    """Raise ValidationError unless the memory has these fields, and they may be changed."""
    _editable(find(engine, memory_id), fields)


def _editable(held: Record, fields: Iterable[str]) -> None:
    allowed = (*KINDS[held.kind].editable, "metadata")
    for name in fields:
        if name not in allowed:
            raise ValidationError(unknown(f"field of a {held.kind}", name, allowed))


def _key(held: Record, body: Mapping[str, Any]) -> str:
    return key_of(held.kind, held.agent, held.user, body) or held.key


def delete(engine: Engine, memory_id: str) -> None:
    """Remove a memory for good, with everything that repeats its words, and keep it from being learned again by itself.

    Killed at any moment, the same call finishes the work; an outcome is taken out of its strategy's count once.
    """
    record = find(engine, memory_id)
    _refuse_overruling(engine, record, "delete")

    def attempt() -> tuple[None, list[Record]]:
        stones = engine.store.get([tombstone_id(record.id)])
        held = stones[0] if stones else None
        fresh = bury(engine, record, held)
        if record.kind != MemoryType.OUTCOME or held is None:
            fresh += regroup(engine, record)
        if record.kind == "turn":
            fresh += without(engine, record)
        ids = [record.id]
        unlinked = unlink_from_graph(engine, ids, find_graph_remains(engine, ids))
        return None, [*fresh, *unquote(engine, record), *unlinked]

    commit(engine, attempt)
    engine.store.delete(find_remains(engine, record))


def history(engine: Engine, memory_id: str) -> list[Record]:
    """What happened to a memory, oldest first."""
    return [one for one in find_changes(engine, [memory_id]) if one.body["record"] == memory_id][::-1]
