"""Learning: an episode is kept as it is, counted for its strategy group, and the group's lesson follows its evidence.

All in one transaction, with one pass of the embedder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from ...errors import NotFoundError
from ...types.evidence import Evidence
from ...types.kinds import KINDS, MemoryType, Result
from ...types.record import Origin, Provenance, Record, Trust
from ...types.vector import Vector
from ..admit import Attempting, build, screen
from ..context import Engine
from ..drafts import Draft, Episode
from ..transaction import commit
from .groups import Attempt, Groups, label_of, share_label
from .lessons import Case, advise, settle, with_error, works
from .receipts import Receipts, claim_receipt


def learn(engine: Engine, episodes: Sequence[Episode]) -> list[Record]:
    """Record episodes, in order; the outcomes as they were stored.

    An episode that was recorded before under the same idempotency key, or with the same retrieval and arguments, is
    not counted again: its stored outcome is returned.
    """
    return commit(engine, learning(engine, episodes))


def learning(engine: Engine, episodes: Sequence[Episode], times: Sequence[datetime | None] | None = None) -> Attempting:
    """What recording these episodes puts. `times` says when each happened; None: now."""
    drafts = [screen(engine, outcome_of(episode)) for episode in episodes]
    vectors = engine.encode([_passages(draft) for draft in drafts for _passages in _VIEWS])
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    moments = [_back_then(engine, at) for at in times or [None] * len(drafts)]
    claims = [claim_receipt(engine, episode) for episode in episodes]

    owners = [group_owner(engine, episode.user, shared=episode.shared) for episode in episodes]

    def attempt() -> tuple[list[Record], list[Record]]:
        groups = Groups(engine)
        history: list[Record] = []
        receipts = Receipts(engine, claims)
        outcomes: list[Record] = []
        recorded: list[Record] = []
        for episode, draft, owner, (own, shared), then, claim in zip(
            episodes, drafts, owners, pairs, moments, claims, strict=True
        ):
            outcome = receipts.find_outcome(claim)
            if outcome is None:
                _check_retrieval(engine, episode)
                outcome = _fold(then, groups, draft, owner, own, shared, history)
                receipts.add(claim, outcome)
                recorded.append(outcome)
            outcomes.append(outcome)
        return outcomes, [*recorded, *receipts.added, *groups.changed(), *history]

    return attempt


def group_owner(engine: Engine, user: str, *, shared: bool = False) -> str:
    """Return whose strategy group an outcome or a lesson of a user counts for; empty: that of nobody in particular."""
    return "" if shared or engine.settings.share_between_users else user


def _back_then(engine: Engine, at: datetime | None) -> Engine:
    """An outcome of last year weighs as one of last year."""
    return engine if at is None else replace(engine, clock=lambda: at)


def outcome_of(episode: Episode) -> Draft:
    body = {
        "task": episode.task,
        "strategy": episode.strategy,
        "outcome": str(episode.result),
        "task_type": episode.task_type,
        "duration_ms": episode.duration_ms,
        "error": episode.error,
        "feedback": episode.feedback,
        "retrieval": episode.retrieval,
        "metadata": dict(episode.metadata),
    }
    return Draft(
        kind=MemoryType.OUTCOME,
        agent=episode.agent,
        user=episode.user,
        session=episode.session,
        body=body,
        category=episode.task_type,
        provenance=Provenance(Origin.OUTCOME, Trust.TRUSTED),
        tags=episode.tags,
    )


def _outcome_passages(draft: Draft) -> tuple[str, ...]:
    return KINDS[MemoryType.OUTCOME].passages(draft.body)


def _group_passages(draft: Draft) -> tuple[str, ...]:
    return KINDS["strategy"].passages(draft.body)


# For short texts the two hold the same passages, which are embedded once.
_VIEWS = (_outcome_passages, _group_passages)


def _check_retrieval(engine: Engine, episode: Episode) -> None:
    if not episode.retrieval or engine.notes.has(episode.retrieval, engine.project):
        return
    held = engine.store.get([episode.retrieval])
    if not any(record.kind == "retrieval" and record.project == engine.project for record in held):
        raise NotFoundError(f"there is no retrieval {episode.retrieval!r}; pass the retrieval_id of a MemorySlice")


def _fold(
    engine: Engine,
    groups: Groups,
    draft: Draft,
    owner: str,
    own: tuple[Vector, ...],
    shared: tuple[Vector, ...],
    history: list[Record],
) -> Record:
    body = draft.body
    attempt = Attempt(draft.agent, body["strategy"], body["task"], body["task_type"], shared, owner)
    result = Result(body["outcome"])
    group = groups.find_or_make(attempt)
    worked = works(group, engine.clock())
    seen = group.evidence.with_result(result.value_of, engine.clock())
    label = share_label(label_of(group), body["task"])
    group = replace(group, evidence=seen, body={**group.body, "label": label})
    group = with_error(group, None if result is Result.SUCCESS else body["error"])
    groups.put(group)
    case = Case(engine, groups, group, attempt)
    turned = settle(case)
    history += turned
    if turned or works(group, engine.clock()) != worked:
        advise(case, bool(turned))
    links = (group.id, body["retrieval"]) if body["retrieval"] else (group.id,)
    return build(engine, draft, own, links=links, evidence=Evidence().with_result(result.value_of, engine.clock()))
