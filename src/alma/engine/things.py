"""Things that are kept as they are told and change while they are worked with: work items, sessions, checkpoints.

They go through the same door as memories: secrets are taken out, changes are read and put under a version, and two
processes that change the same thing at once both get their way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import NotFoundError
from ..types.query import Where
from ..types.record import Origin, Provenance, Record
from .admit import Draft, build, prepare, rewrite, screen
from .context import Engine
from .transaction import write

Body = Mapping[str, Any]


def draft(
    kind: str, body: Body, *, agent: str = "", user: str = "", session: str = "", tags: Sequence[str] = ()
) -> Draft:
    return Draft(
        kind=kind,
        body=body,
        agent=agent,
        user=user,
        session=session,
        tags=tuple(tags),
        provenance=Provenance(Origin.AGENT),
    )


def made(engine: Engine, given: Draft, **fields: Any) -> Record:
    """The first version of a thing, to be put by the caller: `id`, `links`, `key` and so on may be given."""
    [prepared] = prepare(engine, [given])
    return build(engine, prepared, **fields)


def add(engine: Engine, given: Draft, **fields: Any) -> Record:
    record = made(engine, given, **fields)
    return write(engine, lambda tx: tx.put(record))


def get(engine: Engine, kind: str, id: str) -> Record:
    """One of this project, or an error that says there is none."""
    found = [one for one in engine.store.get([id]) if one.kind == kind and one.project == engine.project]
    if not found:
        raise NotFoundError(f"there is no {kind.replace('_', ' ')} {id!r} in project {engine.project!r}")
    return found[0]


def scan(engine: Engine, kind: str, limit: int | None = None, **conditions: Any) -> list[Record]:
    """Newest first; the conditions are those of `Where`."""
    return list(engine.store.scan(Where(kinds={kind}, projects={engine.project}, **conditions), limit))


def altered(engine: Engine, held: Record, body: Body, **fields: Any) -> Record:
    """The next version with another body, cleaned and embedded anew where its text changed."""
    screened = screen(
        engine, draft(held.kind, body, agent=held.agent, user=held.user, session=held.session, tags=held.tags)
    )
    return rewrite(engine, held, screened.body, **fields)
