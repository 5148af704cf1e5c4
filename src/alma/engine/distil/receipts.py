"""Receipts: which outcomes were recorded under an idempotency key, so that a repeated call counts nothing.

A receipt holds digests and the id of its outcome, no text. It stays when the outcome is deleted, because a call that is
repeated after that must not count either.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields

from ...errors import NotFoundError, ValidationError
from ...types.record import Origin, Provenance, Record
from ..admit import build
from ..context import Engine
from ..drafts import Draft, Episode


@dataclass(frozen=True, slots=True)
class Claim:
    """The receipt that an episode would be recorded under, and the arguments it would be recorded with."""

    id: str
    arguments: str
    """A digest."""
    key: str | None


def claim_receipt(engine: Engine, episode: Episode) -> Claim | None:
    """Return what an episode is recognised by when it is sent again; None when every call counts."""
    if episode.idempotency_key is None and episode.retrieval is None:
        return None
    values = {field.name: getattr(episode, field.name) for field in fields(episode) if field.name != "idempotency_key"}
    arguments = _digest(values)
    named = ["key", episode.idempotency_key] if episode.idempotency_key is not None else ["arguments", arguments]
    return Claim(f"rcp_{_digest([engine.project, *named])}", arguments, episode.idempotency_key)


def _digest(value: object) -> str:
    # Loaded here because most processes that import this learn nothing.
    import hashlib

    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=20).hexdigest()


class Receipts:
    """The receipts that claims find in the store, and those that are added to it."""

    def __init__(self, engine: Engine, claims: Sequence[Claim | None]) -> None:
        self.added: list[Record] = []
        self._engine = engine
        ids = list(dict.fromkeys(claim.id for claim in claims if claim is not None))
        receipts = engine.store.get(ids) if ids else []
        self._receipts = {receipt.id: receipt for receipt in receipts}
        wanted = [str(receipt.body["outcome"]) for receipt in receipts]
        self._outcomes = {record.id: record for record in (engine.store.get(wanted) if wanted else [])}

    def find_outcome(self, claim: Claim | None) -> Record | None:
        """Return the outcome that was recorded for a claim; None when there is none yet."""
        receipt = None if claim is None else self._receipts.get(claim.id)
        if claim is None or receipt is None:
            return None
        if receipt.body["arguments"] != claim.arguments:
            raise ValidationError(
                f"idempotency_key {claim.key!r} was used before with other arguments; "
                "repeat a call with the same arguments, and give another outcome a key of its own"
            )
        outcome = self._outcomes.get(str(receipt.body["outcome"]))
        if outcome is None:
            raise NotFoundError(
                f"outcome {receipt.body['outcome']!r} was recorded for this call and deleted since; it is not recorded "
                "again, pass another idempotency_key to record it anew"
            )
        return outcome

    def add(self, claim: Claim | None, outcome: Record) -> None:
        if claim is None:
            return
        body = {"arguments": claim.arguments, "outcome": outcome.id}
        draft = Draft(
            kind="receipt", agent=outcome.agent, user=outcome.user, body=body, provenance=Provenance(Origin.SYSTEM)
        )
        receipt = build(self._engine, draft, (), id=claim.id)
        self.added.append(receipt)
        self._receipts[receipt.id] = receipt
        self._outcomes[outcome.id] = outcome
