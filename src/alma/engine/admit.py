"""The one door for writing: redact → scope → trust → tombstone → duplicate → merge or insert → put.

`screen` does what needs no store; `inserting` prepares drafts. `transaction.write` puts what they become.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..errors import ScopeError
from ..text import fingerprint
from ..types.evidence import Evidence
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Origin, Provenance, Record, Status, Trust, new_id
from ..types.scope import MemoryScope
from ..types.vector import Vector
from .context import Engine
from .drafts import Draft
from .tombstones import find_tombstones

_SHORT = 48


def clean(value: Any) -> Any:
    """The same JSON value with every secret taken out."""
    if isinstance(value, str):
        return _clean_short(value) if len(value) < _SHORT else _clean_text(value)
    if isinstance(value, Mapping):
        return {clean(name): _clean_named(str(name), item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return value


def _clean_named(name: str, value: Any) -> Any:
    """`{"password": "hunter2"}` gives itself away only by both together."""
    if not isinstance(value, str):
        return clean(value)
    told = _clean_text(f"{name}={value}")
    return told.removeprefix(f"{name}=") if told.startswith(f"{name}=") else clean(value)


def _clean_text(text: str) -> str:
    # Loaded here because its many patterns take a while to compile, and importing alma must not.
    from .redact import redact

    return redact(text).text


# Names, domains and tags are short and come again and again.
_clean_short = lru_cache(maxsize=4096)(_clean_text)


def key_of(kind: str, agent: str, user: str, body: Mapping[str, Any]) -> str:
    unique = KINDS[kind].unique
    if not unique:
        return ""
    return fingerprint(kind, agent, user, *(str(body[name]) for name in unique), *explicit_key(kind, body))


def explicit_key(kind: str, body: Mapping[str, Any]) -> list[str]:
    """The fields of the explicit key that somebody gave; empty when there is none."""
    return [f"{name}={body[name]}" for name in KINDS[kind].keys if body.get(name)]


def key_link(kind: str, agent: str, user: str, body: Mapping[str, Any]) -> tuple[str, ...]:
    """The link that all records with the same explicit key share, so that a newer value finds its predecessor."""
    given = explicit_key(kind, body)
    place = str(body[KINDS[kind].unique[0]]) if given else ""
    return (f"key_{fingerprint(kind, agent, user, place, *given)}",) if given else ()


def allow(engine: Engine, agent: str, category: str) -> None:
    scope = engine.scope(agent)
    if category and not scope.is_allowed(category):
        raise ScopeError(f"agent {agent!r} may not learn {category!r}. It may learn: {_learnable(scope)}.")


def _learnable(scope: MemoryScope) -> str:
    if not scope.can_learn:
        return f"anything but {', '.join(scope.cannot_learn)}"
    return ", ".join(filter(scope.is_allowed, scope.can_learn)) or "nothing that has a category"


def screen(engine: Engine, draft: Draft) -> Draft:
    allow(engine, draft.agent, draft.category)
    # The names of a body's own fields are ours; only what is in them comes from outside.
    body = {name: clean(value) for name, value in draft.body.items()}
    key = key_of(draft.kind, draft.agent, draft.user, body)
    cleaned = replace(draft, body=body, tags=tuple(map(clean, draft.tags)), key=key)
    return _doubted(cleaned) if draft.provenance.trust is Trust.UNTRUSTED else cleaned


def _doubted(draft: Draft) -> Draft:
    """Untrusted content that reads like an attempt to instruct the model says so to whoever reviews it."""
    from .inject.escape import suspicious

    reasons = suspicious(KINDS[draft.kind].text(draft.body))
    if not reasons:
        return draft
    metadata = {**draft.body.get("metadata", {}), "suspicious": list(reasons)}
    return replace(draft, body={**draft.body, "metadata": metadata}, tags=(*draft.tags, "suspicious"))


def build(engine: Engine, draft: Draft, vectors: tuple[Vector, ...], **changes: Any) -> Record:
    """The first version of the record that a screened draft becomes."""
    kind = KINDS[draft.kind]
    now = engine.clock()
    made: dict[str, Any] = {
        "id": new_id(kind.prefix),
        "kind": draft.kind,
        "project": engine.project,
        "agent": draft.agent,
        "user": draft.user,
        "session": draft.session,
        # What comes from untrusted content waits for a person or for evidence.
        "status": Status.CANDIDATE if draft.provenance.trust is Trust.UNTRUSTED else Status.ACTIVE,
        "key": draft.key,
        "text": kind.text(draft.body),
        "body": draft.body,
        "provenance": draft.provenance,
        "links": key_link(draft.kind, draft.agent, draft.user, draft.body),
        "tags": draft.tags,
        "valid_from": draft.valid_from,
        "valid_to": draft.valid_to,
        "created_at": now,
        "updated_at": now,
        "embedder": engine.embedder_name if vectors else "",
        "vectors": vectors,
    }
    return Record(**(made | changes))


Attempting = Callable[[], tuple[list[Record], list[Record]]]
"""What is to be put, made from what is held now: the records a caller asked for, and all that change with them."""


def inserting(engine: Engine, drafts: Sequence[Draft]) -> Attempting:
    """Admit drafts; a repeated one confirms the memory that is there instead of doubling it."""
    screened = [screen(engine, draft) for draft in drafts]
    vectors = engine.encode([KINDS[draft.kind].passages(draft.body) for draft in screened])

    def attempt() -> tuple[list[Record], list[Record]]:
        held = _held(engine, screened)
        stones = find_tombstones(engine, [draft.key for draft in screened])
        batch = _Batch(engine, held, set(stones))
        out = [batch.add(draft, embedded) for draft, embedded in zip(screened, vectors, strict=True)]
        lifted = [stones[key] for key in batch.wanted if key in stones]
        # A memory said again by its person is wanted again.
        return out, [*batch.changed.values(), *(revise(engine, stone, status=Status.RETIRED) for stone in lifted)]

    return attempt


class _Batch:
    """The records that a list of drafts becomes, given what is held."""

    def __init__(self, engine: Engine, held: dict[str, Record], buried: set[str]) -> None:
        self.changed: dict[str, Record] = {}
        self.wanted: set[str] = set()
        self._engine = engine
        self._held = held
        self._buried = buried
        self._fresh: set[str] = set()

    def add(self, draft: Draft, vectors: tuple[Vector, ...]) -> Record:
        known = self._held.get(draft.key) if draft.key else None
        record = self._new(draft, vectors) if known is None else self._confirm(known, draft)
        self.changed[record.id] = record
        if draft.key:
            self._held[draft.key] = record
        return record

    def _new(self, draft: Draft, vectors: tuple[Vector, ...]) -> Record:
        record = build(self._engine, draft, vectors)
        self._fresh.add(record.id)
        if draft.key in self._buried:
            if draft.provenance.origin is Origin.USER:
                self.wanted.add(draft.key)
            else:
                # Deleted memories do not come back by themselves: it waits for a person.
                record = replace(record, status=Status.CANDIDATE)
        return record

    def _confirm(self, known: Record, draft: Draft) -> Record:
        tags = tuple(dict.fromkeys((*known.tags, *draft.tags)))
        if known.id in self._fresh:
            return replace(known, tags=tags)
        may_change = draft.provenance.trust is not Trust.UNTRUSTED and self._engine.may_activate(known)
        # Deleted before, and now stated by somebody else: it stays a candidate until a person accepts it.
        is_unwanted = draft.key in self._buried and draft.provenance.origin is not Origin.USER
        status = Status.ACTIVE if may_change and not is_unwanted else known.status
        # Said by somebody who is trusted more, it is theirs.
        is_heavier = may_change and draft.provenance.weight > known.provenance.weight
        provenance = draft.provenance if is_heavier else known.provenance
        return revise(self._engine, known, tags=tags, status=status, provenance=provenance)


def _held(engine: Engine, drafts: Iterable[Draft]) -> dict[str, Record]:
    keys = {draft.key for draft in drafts if draft.key}
    if not keys:
        return {}
    live = (Status.ACTIVE, Status.CANDIDATE, Status.ARCHIVED)
    where = Where(projects={engine.project}, keys=keys, statuses=live, kinds={draft.kind for draft in drafts})
    return {record.key: record for record in engine.store.scan(where)}


def revise(engine: Engine, record: Record, **changes: Any) -> Record:
    """The next version of a record."""
    return replace(record, updated_at=engine.clock(), version=record.version + 1, **changes)


def make_marker(engine: Engine, id: str, body: Mapping[str, Any], held: Record | None = None, **fields: Any) -> Record:
    """Return a marker with this body: the next version of `held`, or a new record with these fields."""
    if held is not None:
        return revise(engine, held, body=body)
    draft = Draft(kind="marker", body=body, provenance=Provenance(Origin.SYSTEM))
    return build(engine, draft, (), id=id, **fields)


def rewrite(engine: Engine, record: Record, body: Mapping[str, Any], **changes: Any) -> Record:
    """The next version with another body, its text and vectors along with it."""
    kind = KINDS[record.kind]
    [vectors] = engine.encode([kind.passages(body)])
    changes = {"links": key_link(record.kind, record.agent, record.user, body) or record.links, **changes}
    return revise(
        engine,
        record,
        body=body,
        text=kind.text(body),
        vectors=vectors,
        embedder=engine.embedder_name if vectors else "",
        **changes,
    )


def change(
    engine: Engine,
    record: Record,
    verb: str,
    why: str = "",
    before: Mapping[str, Any] | None = None,
    quoted: str = "",
) -> Record:
    """A line of a record's history. `quoted` is the id of another record whose words stand in `why`."""
    body = {"record": record.id, "verb": verb, "why": why, "before": dict(before or {})}
    draft = Draft(kind="change", agent=record.agent, user=record.user, body=body, provenance=Provenance(Origin.SYSTEM))
    links = (record.id, quoted) if quoted else (record.id,)
    return build(engine, draft, (), links=links, project=record.project)


def counted(evidence: Evidence, **more: int) -> Evidence:
    return replace(evidence, **{name: getattr(evidence, name) + by for name, by in more.items()})
