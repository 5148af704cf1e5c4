"""What a model found out about pairs of memories: one record for each pair, so that no pair is asked about twice.

A comparison belongs to the words of both memories. When one of them is edited, the pair is compared again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..reading.port import Relation, Verdict
from ..text import fingerprint
from ..types.record import Origin, Provenance, Record
from .admit import build
from .context import Engine
from .drafts import Draft

RecordPair = tuple[Record, Record]
"""The older record and the newer one."""
APART = frozenset({Verdict.VARIANT, Verdict.UNRELATED})


def comparison_id(one: Record, other: Record) -> str:
    """Return the id of the comparison of two records, whichever is the newer: restoring one does not ask again."""
    first, second = sorted((one, other), key=lambda record: record.id)
    return f"cmp_{fingerprint(first.id, second.id, first.text, second.text)}"


def find_comparisons(engine: Engine, pairs: Sequence[RecordPair]) -> dict[tuple[str, str], Verdict]:
    """Return by both ids what is known of each pair."""
    ids = {comparison_id(*pair): pair for pair in pairs}
    records = engine.store.get(list(ids)) if ids else []
    return {(ids[one.id][0].id, ids[one.id][1].id): Verdict(one.body["verdict"]) for one in records}


def find_dismissed(engine: Engine, pairs: Sequence[RecordPair]) -> Collection[tuple[str, str]]:
    """Return the ids of those pairs that are known to be about different things."""
    return {ids for ids, verdict in find_comparisons(engine, pairs).items() if verdict in APART}


def build_comparison(engine: Engine, older: Record, newer: Record, relation: Relation) -> Record:
    draft = Draft(
        kind="comparison",
        agent=newer.agent,
        user=newer.user,
        body={"verdict": str(relation.verdict), "probability": relation.probability},
        provenance=Provenance(Origin.MODEL),
    )
    links = (older.id, newer.id)
    return build(engine, draft, (), id=comparison_id(older, newer), links=links, project=engine.project)
