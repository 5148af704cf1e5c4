"""Things that are kept as they are told and change while they are worked with: work items, sessions, checkpoints.

They go through the same door as memories: secrets are taken out, changes are read and put under a version, and two
processes that change the same thing at once both get their way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..types.query import Where
from ..types.record import Record
from .admit import Draft, build, clean, prepare, rewrite
from .context import Engine

Body = Mapping[str, Any]


def draft(
    kind: str, body: Body, *, agent: str = "", user: str = "", session: str = "", tags: Sequence[str] = ()
) -> Draft:
    return Draft(kind=kind, body=body, agent=agent, user=user, session=session, tags=tuple(tags))


def made(engine: Engine, given: Draft, **fields: Any) -> Record:
    """The first version of a thing, to be put by the caller: `id`, `links`, `key` and so on may be given."""
    [prepared] = prepare(engine, [given])
    return build(engine, prepared, **fields)


def scan(engine: Engine, kind: str, limit: int | None = None, **conditions: Any) -> list[Record]:
    """Newest first; the conditions are those of `Where`."""
    return list(engine.store.scan(Where(kinds={kind}, projects={engine.project}, **conditions), limit))


def altered(engine: Engine, held: Record, body: Body, **fields: Any) -> Record:
    """The next version with another body, cleaned and embedded anew where its text changed."""
    return rewrite(engine, held, {name: clean(value) for name, value in body.items()}, **fields)
