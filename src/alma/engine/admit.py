"""What is proposed becomes a record: without secrets, within the agent's scope, with a look-up key and vectors.

All of it needs no store, and happens before a transaction begins. `facts.add_records` adds what was prepared here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from ..errors import ScopeError
from ..text import fingerprint
from ..types.kinds import KINDS, Result
from ..types.record import Origin, Provenance, Record, Status, Trust, Vector, new_id
from .context import Engine


class Draft(NamedTuple):
    """A memory to be stored as it is stated."""

    kind: str
    body: Mapping[str, Any]
    agent: str = ""
    user: str = ""
    session: str = ""
    category: str = ""  # What the agent's `can_learn` and `cannot_learn` are asked about; empty: nothing to ask.
    key: str = ""  # The look-up key that recognises a repetition; set when the draft is screened.
    provenance: Provenance = Provenance()
    tags: tuple[str, ...] = ()
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    vectors: tuple[Vector, ...] = ()  # Set when the draft is prepared.


class OutcomeDraft(NamedTuple):
    """A task that was done: how, and how it went."""

    agent: str
    task: str
    strategy: str
    result: Result
    task_type: str = ""
    duration_ms: int | None = None
    error: str | None = None
    feedback: str | None = None
    retrieval: str | None = None
    idempotency_key: str | None = None  # Recorded once under this key, however often it is sent.
    user: str = ""
    shared: bool = False  # Whether it counts for the lessons of all users, not only for those of its own.
    session: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    at: datetime | None = None  # When it happened; None: now.
    more: Mapping[str, Any] = {}  # Further fields that the kind of outcomes declares, as they are stored.


def clean(value: Any) -> Any:
    """Return the same JSON value with every secret taken out."""
    # Loaded here because its many patterns take a while to compile, and importing alma must not.
    from .redact import redact

    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    cleaned = {}
    for name, item in value.items():
        # `{"password": "hunter2"}` gives itself away only by both together.
        named = redact(f"{name}={item}") if isinstance(item, str) else ""
        cleaned[clean(name)] = named[len(f"{name}=") :] if named.startswith(f"{name}=") else clean(item)
    return cleaned


def key_of(kind: str, agent: str, user: str, body: Mapping[str, Any], *, shared: bool = False) -> str:
    """Return the look-up key that recognises a repetition; empty where every memory is a new one.

    With `shared` it is the key that all values of an explicit key have in common; empty where none was given.
    """
    unique, given = KINDS[kind].unique, explicit_key(kind, body)
    if not unique or (shared and not given):
        return ""
    return fingerprint(kind, agent, user, *(str(body[name]) for name in unique[: 1 if shared else None]), *given)


def explicit_key(kind: str, body: Mapping[str, Any]) -> list[str]:
    """Return the fields of the explicit key that somebody gave; empty when there is none."""
    return [f"{name}={body[name]}" for name in KINDS[kind].keys if body.get(name)]


def link_key(kind: str, agent: str, user: str, body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the link by which a newer value of an explicit key finds its predecessor."""
    key = key_of(kind, agent, user, body, shared=True)
    return (f"key_{key}",) if key else ()


def allow(engine: Engine, agent: str, category: str) -> None:
    """Raise ScopeError unless the agent may learn something of this category."""
    scope = engine.scopes.of(agent)
    if not category or not (scope.can_learn or scope.cannot_learn) or scope.is_allowed(category):
        return
    if scope.can_learn:
        learnable = ", ".join(filter(scope.is_allowed, scope.can_learn)) or "nothing that has a category"
    else:
        learnable = f"anything but {', '.join(scope.cannot_learn)}"
    raise ScopeError(f"agent {agent!r} may not learn {category!r}. It may learn: {learnable}.")


def screen(engine: Engine, draft: Draft) -> Draft:
    """Return the draft without secrets and with its look-up key.

    Untrusted content that reads like an attempt to instruct a model is tagged for its reviewer.
    """
    allow(engine, draft.agent, draft.category)
    # The names of a body's own fields are ours; only what is in them comes from outside.
    body = {name: clean(value) for name, value in draft.body.items()}
    tags = tuple(map(clean, draft.tags))
    if draft.provenance.trust is Trust.UNTRUSTED:
        from .escape import suspicious

        if reasons := suspicious(KINDS[draft.kind].text(body)):
            body["metadata"] = {**body.get("metadata", {}), "suspicious": list(reasons)}
            tags = (*tags, "suspicious")
    return draft._replace(body=body, tags=tags, key=key_of(draft.kind, draft.agent, draft.user, body))


def prepare(engine: Engine, drafts: Iterable[Draft]) -> list[Draft]:
    """Screen drafts and embed them, all in one pass of the embedder."""
    return embed_drafts(engine, [screen(engine, draft) for draft in drafts])


def embed_drafts(engine: Engine, drafts: Sequence[Draft]) -> list[Draft]:
    """Return screened drafts with their vectors."""
    if engine.encoder is None:
        return list(drafts)
    vectors = engine.encoder.encode([KINDS[draft.kind].passages(draft.body) for draft in drafts])
    return [draft._replace(vectors=own) for draft, own in zip(drafts, vectors, strict=True)]


def build(engine: Engine, draft: Draft, vectors: tuple[Vector, ...] = (), **changes: Any) -> Record:
    """Return the first version of the record that a screened draft becomes."""
    kind = KINDS[draft.kind]
    now = engine.clock()
    vectors = vectors or draft.vectors
    fields: dict[str, Any] = {
        **draft._asdict(),
        "project": engine.project,
        # What comes from untrusted content waits for a person or for evidence.
        "status": Status.CANDIDATE if draft.provenance.trust is Trust.UNTRUSTED else Status.ACTIVE,
        "text": kind.text(draft.body),
        "created_at": now,
        "updated_at": now,
        "embedder": engine.embedder_name if vectors else "",
        "vectors": vectors,
        **changes,
    }
    del fields["category"]
    if "id" not in changes:
        fields["id"] = new_id(kind.prefix)
    if "links" not in changes and any(map(draft.body.get, kind.keys)):
        fields["links"] = link_key(draft.kind, draft.agent, draft.user, draft.body)
    return Record(**fields)


def make_record(
    engine: Engine, kind: str, body: Mapping[str, Any], origin: Origin = Origin.SYSTEM, **fields: Any
) -> Record:
    """Return a new record of a kind that the engine keeps for itself."""
    return build(engine, Draft(kind=kind, body=body, provenance=Provenance(origin)), **fields)


def place_of(record: Record) -> dict[str, Any]:
    """Return whose a record is, for another one that goes with it."""
    return {"agent": record.agent, "user": record.user, "project": record.project}


def reword(engine: Engine, record: Record, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that change with its body: its text, vectors and links."""
    kind = KINDS[record.kind]
    [vectors] = engine.encode([kind.passages(body)])
    return {
        "body": body,
        "text": kind.text(body),
        "vectors": vectors,
        "embedder": engine.embedder_name if vectors else "",
        "links": link_key(record.kind, record.agent, record.user, body) or record.links,
    }


def rewrite(engine: Engine, record: Record, body: Mapping[str, Any], **changes: Any) -> Record:
    """Return the next version with another body, its text and vectors along with it."""
    fields = {**reword(engine, record, body), "updated_at": engine.clock(), "version": record.version + 1}
    return replace(record, **(fields | changes))
