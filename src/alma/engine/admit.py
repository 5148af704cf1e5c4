"""Turn proposals into records: redact secrets, check the agent's scope, add a look-up key and vectors.

None of this needs the store; it happens before a transaction begins. `facts.add_records` stores the drafts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ScopeError
from ..text import fingerprint
from ..types.kinds import KINDS, OWN_METADATA, PROMOTED_FROM, MemoryType, OnRepeat, quoted_why
from ..types.record import Origin, Provenance, Record, Status, Trust, new_id
from .context import Engine
from .rule_lines import dress_rule

KEY_LINK = "key_"  # How the link begins that the values of an explicit key share.


def clean(value: Any) -> Any:
    """Return the same JSON value with every secret taken out."""
    # Loaded here because its many patterns take a while to compile, and importing alma must not.
    from .redact import name_value, redact

    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    cleaned = {}
    for name, item in value.items():
        # `{"password": "hunter2"}` gives itself away only by both together.
        start = f"{name_value(value, name)}="
        redacted = redact(f"{start}{item}") if isinstance(item, str) else ""
        cleaned[clean(name)] = redacted[len(start) :] if redacted.startswith(start) else clean(item)
    return cleaned


def key_of(kind: str, agent: str, user: str, body: Mapping[str, Any], *, shared: bool = False) -> str:
    """Return the look-up key that recognises a repetition; empty where every memory is a new one.

    With `shared` it is the key that all values of an explicit key have in common; empty where none was given.
    """
    unique, explicit = KINDS[kind].unique, explicit_key(kind, body)
    if not unique or (shared and not explicit):
        return ""
    return fingerprint(kind, agent, user, *(str(body[name]) for name in unique[: 1 if shared else None]), *explicit)


def explicit_key(kind: str, body: Mapping[str, Any]) -> list[str]:
    """Return the fields of the explicit key; empty if none was passed."""
    return [f"{name}={body[name]}" for name in KINDS[kind].keys if body.get(name)]


def link_key(kind: str, agent: str, user: str, body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the link by which a newer value of an explicit key finds its predecessor."""
    key = key_of(kind, agent, user, body, shared=True)
    return (f"{KEY_LINK}{key}",) if key else ()


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


def draft_record(
    engine: Engine,
    kind: str,
    body: Mapping[str, Any],
    *,
    category: str = "",
    agent: str = "",
    provenance: Provenance | None = None,
    tags: Iterable[str] = (),
    **fields: Any,
) -> Record:
    """Return a new record of a statement: without secrets, with its look-up key, not embedded yet.

    The agent's `can_learn` and `cannot_learn` are asked about the category; empty: nothing to ask. Untrusted content
    waits for a person or for evidence, and is tagged if it reads like an attempt to instruct a model. So do
    rules and preferences that the person neither stated nor accepted.
    """
    allow(engine, agent, category)
    # The names of a body's own fields are ours; only what is in them comes from outside.
    body = {name: clean(value) for name, value in body.items()}
    tags = tuple(map(clean, tags))
    # Without a provenance nobody states it: the program makes it for itself.
    is_waiting = provenance is not None and engine.must_wait(kind, provenance)
    status, provenance = Status.CANDIDATE if is_waiting else Status.ACTIVE, provenance or Provenance()
    if provenance.trust is Trust.UNTRUSTED:
        from .escape import find_suspicion

        if reasons := find_suspicion(KINDS[kind].text(body)):
            body["metadata"] = {**body.get("metadata", {}), "suspicious": list(reasons)}
            tags = (*tags, "suspicious")
    owner = (kind, agent, fields.get("user", ""), body)
    fields = {"status": status, "key": key_of(*owner), "links": link_key(*owner), **fields}
    return make_record(engine, kind, body, agent=agent, provenance=provenance, tags=tags, **fields)


def make_record(engine: Engine, kind: str, body: Mapping[str, Any], **fields: Any) -> Record:
    """Return a new record with this very body: of a kind that the engine keeps for itself, or cleaned before."""
    declared, now = KINDS[kind], engine.clock()
    derived = {"id": new_id(declared.prefix), "project": engine.project, "text": declared.text(body)}
    dated = {"provenance": Provenance(Origin.SYSTEM), "created_at": now, "updated_at": now}
    return Record(kind=kind, body=body, **{**derived, **dated, **fields})


def merge_repetition(record: Record, draft: Record, *, can_replace: bool | None = None) -> dict[str, Any]:
    """Return the body and the tags of a stored record after it was added again as this draft.

    Each field of the kind declares what a repetition does to it. A value replaces another one if its source is trusted
    at least as much; `can_replace` overrules that. An empty value replaces nothing.
    """
    if can_replace is None:
        can_replace = draft.provenance.weight >= record.provenance.weight
    body = dict(record.body)
    ways = KINDS[record.kind].on_repeat
    for name, value in draft.body.items():
        # What a kind's body holds beside the fields of its memory is replaced like them.
        way = ways.get(name, OnRepeat.REPLACE)
        is_empty = not value and value != 0
        if way is OnRepeat.REPLACE and can_replace and not is_empty:
            body[name] = value
        elif way is OnRepeat.UNION and isinstance(value, Mapping):
            stored_names = body.get(name) or {}
            new_names = {key: item for key, item in value.items() if key not in OWN_METADATA}
            body[name] = {**stored_names, **new_names} if can_replace else {**new_names, **stored_names}
    return {"body": body, "tags": tuple(dict.fromkeys((*record.tags, *draft.tags)))}


def readable_body(record: Record) -> dict[str, Any]:
    """Return the body of a record that becomes a person's: what a program gave as a reason stays quoted."""
    field = {"anti_pattern": "why_bad", "rule": "why"}.get(record.kind)
    return {**record.body, field: quoted_why(record)} if field else dict(record.body)


def embed_records(engine: Engine, records: Sequence[Record]) -> list[Record]:
    """Return the records with their vectors, all in one pass of the embedder."""
    if engine.encoder is None:
        return list(records)
    vectors = engine.encoder.encode([KINDS[one.kind].passages(one.body) for one in records])
    name = engine.embedder_name
    return [replace(one, vectors=own, embedder=name if own else "") for one, own in zip(records, vectors, strict=True)]


def place_of(record: Record) -> dict[str, Any]:
    """Return whose a record is, for another one that goes with it."""
    return {"agent": record.agent, "user": record.user, "project": record.project}


def author_of(record: Record) -> str:
    """Return the agent whose memory a record is, or was before it was promoted."""
    return str(record.body.get(PROMOTED_FROM) or record.agent)


def reword(engine: Engine, record: Record, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that change with its body: its text, vectors, key and links, and a rule's line."""
    body = dress_rule(body) if record.kind == MemoryType.RULE else body
    kind, owner = KINDS[record.kind], (record.kind, author_of(record), record.user, body)
    [vectors] = engine.encode([kind.passages(body)])
    return {
        "body": body,
        "text": kind.text(body),
        "vectors": vectors,
        "embedder": engine.embedder_name if vectors else "",
        "key": key_of(*owner) or record.key,
        "links": link_key(*owner) or record.links,
    }
