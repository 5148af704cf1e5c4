"""Learning: an outcome is kept as it is, counted for its strategy group, and the group's lesson follows its evidence.

A lesson is a heuristic or an anti-pattern; a group has never both. Somebody may also state one instead of letting it be
learned: then later outcomes count for or against it. All in one transaction, with one pass of the embedder.

An outcome that is sent again with its idempotency key is recognised by a receipt. That holds digests and the id of its
outcome, no text, and stays when the outcome is deleted: a call that is repeated after that must not count either.

A strategy group holds the outcomes of one agent and one user that are of one strategy in one sort of task. It is found
by its words and vector, and counts an outcome only if the reader says that both strategies are the same: another
wording that it is unsure about gets a group of its own. Two processes that meet a new strategy at the same moment must
not make two groups: making one also increments its owner's marker, so the slower of the two meets a conflict, looks
again, and finds the group.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from ..errors import NotFoundError, ValidationError
from ..reading.local import are_opposites
from ..reading.port import Pair
from ..text import digest, fingerprint, shorten, stems, words
from ..types.kinds import KINDS, MemoryType, Result
from ..types.query import Where, plain
from ..types.record import Evidence, Origin, Provenance, Record, Status, Trust, Vector, cosine, cosines
from ..types.speech import quote_output
from .admit import draft_record, embed_records, make_record, merge_repetition, place_of, readable_body
from .context import Engine
from .evidence import WORKS, believe, choose_lesson, success_rate
from .facts import find_rejected
from .sameness import SAME, SIMILAR, read_sameness
from .search import find_near
from .transaction import LESSONS, Transaction, lesson_key, of_owner, strategy_of, write

_LOG = logging.getLogger("alma")
_LEARNED = Provenance(Origin.OUTCOME, Trust.LEARNED)
BY_AGENT = Provenance(Origin.OUTCOME, Trust.TRUSTED)
_MAX_ERRORS = 5
_ERROR_CHARS = 240
_FEW = 12
_NEAREST = 6
_NEAR = 8
_NEAR_STRATEGY, _MAX_READ, _MAX_SIMILAR = 0.4, 3, 8
_EXAMPLES, _FEW_EXAMPLES, _EXAMPLE_CHARS, _BRIEFNESS = 12, 4, 300, 600
_OUTCOMES_OF = "outcomes of"  # By this and the id of a group, a transaction knows the outcomes that it adds to it.
_FEW_WORDS = 6
_WAYS = (("up", "down"), ("on", "off"), ("in", "out"))
# Tasks this close are of one sort; below the other, of two; in between words decide.
_ALIKE, _UNLIKE = 0.65, 0.5
# Tasks that are this close, or share this part of their words, are one task.
_SAME, _MOST_WORDS = 0.85, 0.6


# -- strategy groups


def draft_group(engine: Engine, source: Record, user: str) -> Record:
    """Return what an outcome or a stated lesson is about, one way of doing one task, as the group that it would begin.

    `user` is whose group it counts for; empty: the group without a user, which all users see.
    """
    strategy, task = strategy_of(source.body), source.body.get("task") or source.body.get("condition", "")
    body = {"strategy": strategy, "task": task, "task_type": source.body["task_type"], "errors": []}
    place: dict[str, Any] = {"agent": source.agent, "user": user, "key": fingerprint(strategy)}
    return make_record(engine, "strategy", body, provenance=_LEARNED, **place)


def is_of_task(approach: Record, record: Record) -> bool:
    """Return whether a group, or the lesson formed from it, is about the same sort of task as an approach."""
    body, alike = record.body, find_closest(approach.vectors[1:2], record.vectors[1:2])
    task = body["task"] if record.kind == "strategy" else body["condition"]
    return same_task(approach.body["task"], task, alike, approach.body["task_type"], body["task_type"])


def has_same_task(approach: Record, group: Record) -> bool:
    """Return whether a group is about the very task of an approach, and not only about a task of the same type."""
    task, types = approach.body["task"], {plain(one.body["task_type"]) for one in (approach, group)}
    if not task or len(types - {""}) > 1:
        return False
    if not is_of_task(approach, group):
        return False
    alike = find_closest(approach.vectors[1:2], group.vectors[1:2])
    if alike is not None and alike >= _SAME:
        return True
    mine = stems(task)
    for other in {group.body["task"], label_of(group)}:
        theirs = stems(other)
        if mine and len(mine & theirs) >= _MOST_WORDS * max(len(mine), len(theirs)):
            return True
    return False


def find_closest(vectors: Iterable[Vector], others: Sequence[Vector]) -> float | None:
    """Return the greatest cosine of any two that can be compared; None if there are none."""
    cosines = [cosine(one, other) for one in vectors for other in others if len(one) == len(other)]
    return max(cosines, default=None)


def same_task(task: str, other: str, alike: float | None, task_type: str = "", other_type: str = "") -> bool:
    """Return whether two tasks are of the same sort, so that evidence for one counts for the other."""
    if not task or not other:
        return True
    if task_type and other_type:
        return plain(task_type) == plain(other_type)
    if (alike is not None and alike < _UNLIKE) or (task != other and are_contrary(task, other)):
        return False
    if alike is not None and alike >= _ALIKE:
        return True
    mine, theirs = stems(task), stems(other)
    shared = len(mine & theirs)
    most = shared >= 0.6 * min(len(mine), len(theirs))
    return mine == theirs or (most and (alike is not None or shared >= 2))


@lru_cache(maxsize=4096)
def are_contrary(task: str, other: str) -> bool:
    """Return whether one task undoes the other, such as enabling and disabling, however similar the vectors are."""
    mine, theirs = set(words(task)), set(words(other))
    left, right = mine - theirs, theirs - mine
    if any((a in left and b in right) or (b in left and a in right) for a, b in _WAYS):
        return True
    is_close = len(left) <= _FEW_WORDS and len(right) <= _FEW_WORDS
    return is_close and any(are_opposites(a, b) for a in left for b in right)


def label_of(group: Record) -> str:
    """Return the task that stands for all tasks of a group."""
    return str(group.body.get("label") or group.body["task"])


def choose_example(sources: Sequence[Record]) -> str:
    """Return the task of an outcome, or the condition of a lesson, that is most like those of all the others."""
    texts: dict[str, Record] = {}
    for source in sources:
        text = str(source.body.get("task") or source.body.get("condition") or "")
        if text:
            texts.setdefault(text, source)
    brief = {text: source for text, source in texts.items() if len(text) <= _EXAMPLE_CHARS} or texts
    if len(brief) <= 1:
        return next(iter(brief), "")
    likeness = _compare_tasks(list(brief.items()))
    means = {text: sum(row) / len(row) for text, row in zip(brief, likeness, strict=True)}
    # Of two that are as good the shorter one is easier to read.
    return max(means, key=lambda text: (round(means[text] - len(text) / _BRIEFNESS, 6), -len(text)))


def _compare_tasks(tasks: Sequence[tuple[str, Record]]) -> list[list[float]]:
    """Return how similar each task is to each other one: by vectors if all have comparable ones, else by words."""
    places = [0 if source.kind == MemoryType.OUTCOME else 1 for _, source in tasks]
    vectors = [source.vectors[at : at + 1] for (_, source), at in zip(tasks, places, strict=True)]
    sizes = {len(vector) for own in vectors for vector in own}
    if len(sizes) == 1 and all(vectors):
        known = [own[0] for own in vectors]
        return cosines(known, known)
    words_of = [stems(text) for text, _ in tasks]
    return [[len(mine & other) / max(1, len(mine | other)) for other in words_of] for mine in words_of]


def _choose_label(tx: Transaction, group: Record, outcome: Record) -> str:
    """Return the example task of a group that counts a new outcome; `outcome` is not stored yet.

    It is looked for with the first few results, and whenever their number has doubled.
    """
    label, results = label_of(group), group.evidence.results
    is_due = results <= _FEW_EXAMPLES or results & (results - 1) == 0
    if outcome.body["task"] == label or not is_due:
        return label
    where = tx.engine.where(MemoryType.OUTCOME, linked={group.id})
    stored = tx.see(tx.engine.store.scan(where, _EXAMPLES))
    fresh = tx.get(tx.unindexed.get((_OUTCOMES_OF, group.id), ())[-_EXAMPLES:])
    return choose_example([outcome, *fresh, *stored]) or label


def lesson_id(group: Record, kind: str) -> str:
    """Return the id of a group's heuristic or anti-pattern: it is derived from the group's id."""
    return f"{KINDS[kind].prefix}_{group.id.split('_', 1)[1]}"


def list_related(engine: Engine, record: Record, limit: int) -> list[Record]:
    """Return the lessons that an outcome counts for, or the outcomes that a lesson was learned from, newest first."""
    kinds = LESSONS if record.kind == MemoryType.OUTCOME else (MemoryType.OUTCOME,)
    # They share a strategy group, which is the first link of each.
    group = record.links[:1] if record.kind in (MemoryType.OUTCOME, *LESSONS) else ()
    return list(engine.store.scan(engine.where(*kinds, linked=group), limit))


def find_or_make_group(tx: Transaction, approach: Record) -> Record:
    """Return the group that an approach counts for: one that is surely of this strategy, or a new one."""
    engine, strategy = tx.engine, approach.body["strategy"]
    # It counts the groups of an agent and user. Read before the search: it says as of when that found nothing.
    marker_id = f"mrk_groups_{fingerprint(engine.project, approach.agent, *filter(None, (approach.user,)))}"
    marker = tx.find(marker_id)
    where = of_owner(engine, approach, "strategy")
    fresh = _find_new(tx, approach, "strategy")
    exact = tx.see(engine.store.scan(replace(where, keys={approach.key})))
    group = _pick_same(tx, approach, [*exact, *(one for one in fresh if one.key == approach.key)])
    if group is None:
        near = [*_find_near(tx, approach, "strategy", where, _NEAR), *fresh]
        group = _pick_same(tx, approach, near)
    if group is None:
        group, similar = _read_near(tx, approach, near)
    if group is None:
        group = _link_similar(tx, tx.put(approach), similar)
        count = {"value": marker.body["value"] + 1 if marker else 1}
        tx.set_marker(marker_id, count, agent=approach.agent, user=approach.user)
        for word in stems(strategy) | stems(approach.body["task"]):
            tx.unindexed.setdefault((approach.agent, approach.user, word), []).append(group.id)
    return group


def _find_near(tx: Transaction, approach: Record, field: str, where: Where, limit: int) -> list[Record]:
    """Return the stored records that are near the strategy or the task of an approach."""
    vectors = dict(zip(("strategy", "task"), approach.vectors, strict=False))
    return tx.get(find_near(tx.engine, vectors.get(field), approach.body[field], where, limit))


def _find_new(tx: Transaction, approach: Record, field: str) -> list[Record]:
    """Return the groups made in this transaction that share words with the strategy or the task of an approach."""
    if not tx.unindexed:
        return []
    places = [(approach.agent, approach.user, word) for word in stems(approach.body[field])]
    return tx.get(id for place in places for id in tx.unindexed.get(place, ())[-_NEAR:])


def _pick_same(tx: Transaction, approach: Record, groups: Iterable[Record]) -> Record | None:
    """Return the first of the groups that is surely of this strategy, for this sort of task."""
    fitting = [group for group in groups if is_of_task(approach, group)]
    pairs = [Pair(group.body["strategy"], approach.body["strategy"]) for group in fitting]
    relations = tx.engine.reader.compare(pairs) if pairs else ()
    same = (group for group, relation in zip(fitting, relations, strict=True) if relation.is_same)
    return next(iter(follow_merges(tx.get, same)), None)


def _read_near(tx: Transaction, approach: Record, groups: Iterable[Record]) -> tuple[Record | None, list[Record]]:
    """Return the group that the embedder reads as the same strategy in other words, and those that may be the same."""
    unique = {group.id: group for group in groups if group.status is Status.ACTIVE and is_of_task(approach, group)}
    alike = {id: find_closest(approach.vectors[:1], group.vectors[:1]) or 0.0 for id, group in unique.items()}
    near = sorted((id for id in unique if alike[id] >= _NEAR_STRATEGY), key=lambda id: -alike[id])[:_MAX_READ]
    candidates = [unique[id] for id in near]
    strategies = [group.body["strategy"] for group in candidates]
    certainties = read_sameness(tx.engine, approach.body["strategy"], strategies)
    ranked = sorted(zip(certainties, near, strict=True), reverse=True)
    if ranked and ranked[0][0] >= SAME:
        return unique[ranked[0][1]], []
    return None, [unique[id] for certainty, id in ranked if certainty >= SIMILAR]


def _link_similar(tx: Transaction, group: Record, similar: Sequence[Record]) -> Record:
    """Let a group and those that may be the same strategy know each other; return it."""
    for other in similar:
        tx.update(other, body={**other.body, "similar": [*list_similar(other), group.id][-_MAX_SIMILAR:]})
    return tx.update(group, body={**group.body, "similar": [other.id for other in similar]}) if similar else group


def list_similar(group: Record) -> list[str]:
    """Return the ids of the groups that may be of the same strategy in other words; their results are counted apart."""
    return list(group.body.get("similar", ()))


def follow_merges(read: Callable[[list[str]], list[Record]], groups: Iterable[Record]) -> list[Record]:
    """Return the groups that count now: each one that was merged is replaced by the one that took its place."""
    current = ([group, *list_survivors(read, group)][-1] for group in groups)
    return list({group.id: group for group in current}.values())


def list_survivors(read: Callable[[list[str]], list[Record]], record: Record) -> list[Record]:
    """Return the record that took the place of another, the one that took its place, and so on."""
    survivors: dict[str, Record] = {}
    while record.superseded_by not in ("", *survivors) and (later := read([record.superseded_by])):
        survivors[later[0].id] = record = later[0]
    return list(survivors.values())


# -- outcomes


class OutcomeDraft(NamedTuple):
    """An outcome that is to be recorded, with its strategy group and idempotency key."""

    record: Record
    approach: Record  # The strategy group that it would begin.
    key: str | None = None  # Recorded once under this idempotency key, however often it is sent.
    receipt: str = ""  # The id of the receipt that it would be recorded under; empty when every call counts.
    arguments: str = ""  # A digest of the arguments that it is recorded with.


# What arguments of `learn` are called in a record, and the fields that each record has.
_STORED = {"strategy_used": "strategy", "error_message": "error", "retrieval_id": "retrieval"}
_FIELDS = ("task", "strategy", "task_type", "duration_ms", "error", "feedback", "retrieval")


def build_outcome(engine: Engine, call: Mapping[str, Any], provenance: Provenance = BY_AGENT) -> OutcomeDraft:
    """Return the draft that the arguments of `learn` describe, with a `session` and the moment `at` which it happened.

    One that a further field of the kind is named after is stored in it.
    """
    values = {_STORED.get(name, name): value for name, value in call.items() if value not in (None, "")}
    tags, at = values.get("tags", ()), values.get("at")
    body: dict[str, Any] = {name: values.get(name) for name in _FIELDS} | {"task_type": values.get("task_type", "")}
    body["metadata"] = dict(values.get("metadata", {}))
    more = {name: values[name] for name in KINDS["outcome"].fields if name in values.keys() - {*body, "outcome"}}
    result, place = str(values["outcome"]), {"user": values.get("user_id", ""), "session": values.get("session", "")}
    place["agent"] = engine.agent(values["agent"])
    record = draft_record(
        engine,
        MemoryType.OUTCOME,
        {**body, "outcome": result, **more},
        category=body["task_type"],
        provenance=provenance,
        tags=tags,
        **place,
    )
    if at is not None:
        record = replace(record, created_at=at, updated_at=at)
    # Whether it counts for the lessons of all users, not only for those of its own.
    is_shared = bool(values.get("shared"))
    approach = draft_group(engine, record, "" if is_shared else group_owner(engine, record.user))
    key = values.get("idempotency_key")
    if key is None and body["retrieval"] is None:
        return OutcomeDraft(record, approach)
    # A call is recognised that was first sent before there were further fields.
    sent = {**body, **place, "result": result, "shared": is_shared, "tags": tags, **({"more": more} if more else {})}
    arguments = digest(json.dumps(sent, sort_keys=True), size=20)
    parts = (engine.project, "arguments", arguments) if key is None else (engine.project, "key", key)
    return OutcomeDraft(record, approach, key, f"rcp_{digest(json.dumps(parts), size=20)}", arguments)


def learn_outcomes(engine: Engine, drafts: Sequence[OutcomeDraft]) -> list[Record]:
    """Record outcomes, in order; return them as they were stored.

    An outcome that was recorded before under the same idempotency key, or with the same retrieval and arguments, is
    not counted again: what was stored then is returned.
    """
    prepared = prepare_outcomes(engine, drafts)
    outcomes = write(engine, lambda tx: record_outcomes(tx, prepared))
    for outcome in outcomes:
        _LOG.debug("recorded %s %s for agent %s", outcome.body["outcome"], outcome.id, outcome.agent)
    return outcomes


def prepare_outcomes(engine: Engine, drafts: Sequence[OutcomeDraft]) -> list[OutcomeDraft]:
    """Embed outcomes; short ones and their groups have the same passages, which are embedded once."""
    records = iter(embed_records(engine, [record for one in drafts for record in one[:2]]))
    return [one._replace(record=next(records), approach=next(records)) for one in drafts]


def group_owner(engine: Engine, user: str) -> str:
    """Return whose strategy group an outcome or a lesson of a user counts for; empty: the group without a user."""
    return user if engine.find_visible(user) else ""


def record_outcomes(tx: Transaction, prepared: Sequence[OutcomeDraft]) -> list[Record]:
    """Record prepared outcomes, in order; return each as it is stored."""
    engine, outcomes = tx.engine, []
    for one in prepared:
        if repeated := find_repeated(tx, one.receipt, one.arguments, one.key):
            outcomes.append(repeated)
            continue
        retrieval = one.record.body["retrieval"]
        # Asked in this order: a note leaves its place only after it was stored.
        if retrieval and not engine.notes.has(retrieval, engine.project):
            note = tx.find(retrieval)
            if note is None or note.kind != "retrieval" or note.project != engine.project:
                raise NotFoundError(
                    f"there is no retrieval {retrieval!r}; pass the id that a retrieval returned, or leave it out"
                )
        outcomes.append(put_receipt(tx, one.receipt, one.arguments, _record_outcome(tx, one)))
    return outcomes


def find_repeated(tx: Transaction, receipt_id: str, arguments: str, key: str | None = None) -> Record | None:
    """Return what an earlier call with the same receipt stored; None without one. Other arguments are an error."""
    receipt = tx.find(receipt_id) if receipt_id else None
    if receipt is None:
        return None
    if receipt.body["arguments"] != arguments:
        raise ValidationError(
            f"idempotency_key{f' {key!r}' if key else ''} was already used with other arguments; "
            "pass the same arguments to repeat the call, or a new key"
        )
    record = tx.find(receipt.body["outcome"])
    if record is None:
        raise NotFoundError(
            f"{receipt.body['outcome']!r} was stored by this call and has been deleted since; it is not stored again. "
            "Pass another idempotency_key to store it as a new one"
        )
    return record


def put_receipt(tx: Transaction, receipt_id: str, arguments: str, record: Record) -> Record:
    """Store the receipt, if there is one, by which a repeated call is recognised; return the record of the call."""
    if receipt_id:
        body = {"arguments": arguments, "outcome": record.id}
        tx.put(make_record(tx.engine, "receipt", body, id=receipt_id, **place_of(record)))
    return record


def _record_outcome(tx: Transaction, one: OutcomeDraft) -> Record:
    """Store an outcome, count it for its group, and bring the lessons in line with that."""
    body = one.record.body
    # An outcome of last year weighs as one of last year.
    result, now = Result(body["outcome"]), one.record.created_at
    group = find_or_make_group(tx, one.approach)
    worked = _is_working(group, now)
    errors = list(group.body["errors"])
    if result is not Result.SUCCESS:
        errors = add_error(errors, body["error"])
    group = replace(group, evidence=group.evidence.with_result(result.value_of, now))
    label = _choose_label(tx, group, one.record)
    group = tx.update(group, body={**group.body, "label": label, "errors": errors})
    has_turned = settle_lessons(tx, group, one.approach, now)
    if has_turned or _is_working(group, now) != worked:
        _advise_warnings(tx, group, one.approach, now, has_turned)
    links = (group.id, body["retrieval"]) if body["retrieval"] else (group.id,)
    evidence = Evidence().with_result(result.value_of, now)
    tx.unindexed.setdefault((_OUTCOMES_OF, group.id), []).append(one.record.id)
    return tx.put(replace(one.record, links=links, evidence=evidence))


def add_error(errors: Sequence[str], error: str | None) -> list[str]:
    """Return what went wrong lately, each reason once, newest last."""
    if not error:
        return list(errors)
    short = shorten(error, _ERROR_CHARS)
    return [*(one for one in errors if fingerprint(one) != fingerprint(short)), short][-_MAX_ERRORS:]


def _is_working(group: Record, now: datetime) -> bool:
    return group.evidence.successes > 0 and (success_rate(group.evidence, now) or 0.0) >= WORKS


# -- lessons that are learned


def settle_lessons(tx: Transaction, group: Record, approach: Record, now: datetime) -> bool:
    """Bring a group's heuristic and anti-pattern in line with its evidence; return whether one came, went or returned.

    `approach` is what changed the evidence; the group itself, when its words may have changed.
    """
    least = count_needed(tx.engine, group.agent), tx.engine.settings.min_failures_for_anti_pattern
    verdict = choose_lesson(group.evidence, now, *least)
    ids = {kind: lesson_id(group, kind) for kind in LESSONS}
    # With its first result there can be no lesson yet.
    is_first = group.evidence.results == 1 and tx.is_new(group)
    lessons = {} if is_first else {record.id: record for record in tx.get(ids.values())}
    stated = next((lesson for lesson in lessons.values() if _is_persons_word(lesson)), None)
    has_turned = False
    for kind, id in ids.items():
        is_opposed = stated is not None and stated.kind != kind
        if id in lessons:
            has_turned |= update_lesson(tx, lessons[id], group, approach, verdict, now, is_opposed=is_opposed)
        elif verdict is kind:
            words = {"strategy": group.body["strategy"], "condition": label_of(group)}
            # It may have been deleted: this one, or one in the same words that another group had.
            if tx.find_deleted([id]) or tx.is_buried(lesson_key(kind, group.agent, group.user, words)):
                continue
            body = _describe_lesson(tx, group, approach, kind, now)
            moment: dict[str, Any] = {"created_at": now, "updated_at": now}
            own: dict[str, Any] = {"id": id, "key": id, "links": (group.id,), "provenance": _LEARNED}
            own |= {name: getattr(group, name) for name in ("agent", "user", "evidence", "vectors", "embedder")}
            own["status"] = Status.CANDIDATE if is_opposed else Status.ACTIVE
            lesson = make_record(tx.engine, kind, body, **own, **moment)
            tx.add_history(tx.put(lesson), "formed", _describe_results(group), **moment)
            has_turned = True
    return has_turned


def _is_persons_word(lesson: Record) -> bool:
    return lesson.status is Status.ACTIVE and lesson.provenance.is_persons


def count_needed(engine: Engine, agent: str) -> int:
    """Return how many results of an agent make a heuristic, if they mostly worked."""
    return engine.scopes.of(agent).min_occurrences_for_heuristic or engine.settings.min_occurrences_for_heuristic


def _describe_results(group: Record) -> str:
    return f"{group.evidence.successes} of {group.evidence.results} worked"


def update_lesson(
    tx: Transaction,
    lesson: Record,
    group: Record,
    approach: Record,
    verdict: str | None,
    now: datetime,
    *,
    is_opposed: bool = False,
) -> bool:
    """Move a lesson's evidence and standing; return whether its status changed.

    Results never end what a person stated, and a lesson that opposes it (`is_opposed`) waits for a person.
    """
    is_stated = lesson.provenance.origin is not Origin.OUTCOME
    is_active = lesson.status is Status.ACTIVE
    status, body = lesson.status, lesson.body
    is_settled = status in (Status.SUPERSEDED, Status.RETIRED) or (body.get("put_away") and not is_active)
    if not is_settled:
        is_unrefuted = is_active and is_stated and (verdict is None or lesson.provenance.is_persons)
        # What waits for a person goes on waiting, unless it is proven.
        other = status if status is Status.CANDIDATE else Status.ARCHIVED
        is_proven = verdict == lesson.kind and not is_opposed
        status = Status.ACTIVE if is_proven or is_unrefuted else other
    changes: dict[str, Any] = {"evidence": lesson.evidence.with_results_of(group.evidence), "status": status}
    # What somebody stated or edited stays as they wrote it.
    if not is_stated and (status is Status.ACTIVE or approach is group):
        described = _describe_lesson(tx, group, approach, MemoryType(lesson.kind), now)
        body = {**body, **described, "metadata": body.get("metadata", {})}
        text = KINDS[lesson.kind].text(body)
        changes |= {"body": body, "text": text, "vectors": group.vectors, "embedder": group.embedder}
    fresh = tx.update(lesson, **changes)
    status = fresh.status
    if status is lesson.status:
        return False
    ending = "faded" if lesson.kind == MemoryType.HEURISTIC else "withdrawn"
    verb = "restored" if status is Status.ACTIVE else ending
    tx.add_history(
        fresh, verb, _describe_results(group), {"status": str(lesson.status)}, created_at=now, updated_at=now
    )
    return True


def _describe_lesson(
    tx: Transaction, group: Record, approach: Record, kind: MemoryType, now: datetime
) -> dict[str, Any]:
    """Return the body of the lesson that a group teaches."""
    strategy = group.body["strategy"]
    common = {"condition": label_of(group), "task_type": group.body["task_type"], "metadata": {}}
    if kind is MemoryType.HEURISTIC:
        return {"strategy": strategy, **common}
    failed = f"failed {group.evidence.failures} of {group.evidence.results} times"
    return {
        "pattern": strategy,
        "why_bad": quote_output(*reversed(group.body["errors"])) or failed,
        "better_alternative": _find_alternative(tx, approach, (group.id,), now),
        **common,
    }


def _find_alternative(tx: Transaction, approach: Record, but: tuple[str, ...], now: datetime) -> str:
    """Return the strategy that most surely works for the same task, other than these groups'."""
    near = _find_near(tx, approach, "task", of_owner(tx.engine, approach, "strategy"), _NEAR)
    working = {
        lesson_id(group, MemoryType.HEURISTIC): group
        for group in (*near, *_find_new(tx, approach, "task"))
        if group.id not in but and has_same_task(approach, group) and _is_working(group, now)
    }
    groups = [working[id] for id in working.keys() - tx.find_deleted(working)]
    best = max(groups, key=lambda group: (believe(group, now).low, group.id), default=None)
    return str(best.body["strategy"]) if best else ""


def _advise_warnings(tx: Transaction, group: Record, approach: Record, now: datetime, has_turned: bool) -> None:
    """Keep the other warnings for this task true to what works.

    A strategy that begins to work may be what a warning without an alternative was waiting for; one whose standing has
    turned may be what another warning recommends.
    """
    where = of_owner(tx.engine, approach, MemoryType.ANTI_PATTERN, statuses={Status.ACTIVE})
    warnings = tx.see(tx.engine.store.scan(where, _FEW + 1))
    if len(warnings) > _FEW:
        warnings = _find_near(tx, approach, "task", where, _NEAREST)
    for warning in warnings:
        alternative = warning.body["better_alternative"]
        if warning.provenance.origin is not Origin.OUTCOME or (alternative and not has_turned):
            continue
        if group.id in warning.links or not is_of_task(approach, warning):
            continue
        # What it recommends has to work for the warning's own task.
        warned_groups = tx.get(warning.links[:1]) or [approach]
        better = _find_alternative(tx, warned_groups[0], warning.links, now)
        if better != alternative:
            tx.update(warning, body={**warning.body, "better_alternative": better})


# -- lessons that are stated


def prepare_lessons(engine: Engine, drafts: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Return each stated lesson, embedded as its strategy group is, with the group that it would begin."""
    groups = embed_records(engine, [draft_group(engine, draft, draft.user) for draft in drafts])
    pairs = zip(drafts, groups, strict=True)
    return [(replace(draft, vectors=group.vectors, embedder=group.embedder), group) for draft, group in pairs]


def state_lessons(tx: Transaction, prepared: Sequence[tuple[Record, Record]]) -> list[Record]:
    """Make each draft the lesson of its strategy group, so that later outcomes count for or against it."""
    ids = []
    for draft, approach in prepared:
        if draft.provenance.trust is Trust.UNTRUSTED:
            # It waits on its own: nothing that is learned takes words or standing from it.
            ids.append(tx.put(draft).id)
        else:
            ids.append(_state_lesson(tx, draft, find_or_make_group(tx, approach)))
    return [tx.get([id])[0] for id in ids]


def _state_lesson(tx: Transaction, draft: Record, group: Record) -> str:
    """Store the lesson of a group as it is stated now; return its id."""
    id, weight = lesson_id(group, draft.kind), draft.provenance.weight
    existing = tx.find(id)
    is_rejected = not draft.provenance.is_persons and id in find_rejected(tx, {id})
    if existing is not None and (is_rejected or existing.provenance.weight > weight):
        # A less trusted source may confirm this lesson, not overrule it.
        tx.update(existing, **merge_repetition(existing, draft, can_replace=False))
        return id
    tx.update(group)
    [other] = [kind for kind in LESSONS if kind != draft.kind]
    opposed = [one for one in tx.get([lesson_id(group, other)]) if one.status is Status.ACTIVE]
    # Against what a person said, an agent's word waits.
    is_outweighed = any(one.provenance.weight > weight for one in opposed)
    body, tags = draft.body, draft.tags
    if existing is not None:
        kept_body = {**draft.body, **_take_over_values(existing, weight)}
        merged = merge_repetition(replace(existing, body=kept_body), draft)
        body, tags = merged["body"], merged["tags"]
    record = replace(
        draft,
        body=body,
        text=KINDS[draft.kind].text(body),
        tags=tags,
        vectors=group.vectors,
        embedder=group.embedder,
        agent=existing.agent if existing else draft.agent,
        id=id,
        key=id,
        status=Status.CANDIDATE if is_outweighed else Status.ACTIVE,
        links=(group.id,),
        evidence=(existing or group).evidence.with_results_of(group.evidence),
        created_at=existing.created_at if existing else tx.engine.clock(),
    )
    record = tx.put(record)
    for one in opposed if record.status is Status.ACTIVE else ():
        # A strategy is recommended or warned of, never both.
        tx.update(one, status=Status.ARCHIVED)
        tx.add_history(one, "overruled", before={"status": str(one.status)})
    if existing is not None:
        changed = [name for name in body if existing.body.get(name) != record.body.get(name)]
        tx.add_history(record, "repeated", before={name: existing.body.get(name) for name in changed})
    return id


def _take_over_values(lesson: Record, weight: int) -> dict[str, Any]:
    """Return the values of a lesson that one with this weight takes over.

    What somebody who is trusted less gave as a reason or an alternative is not taken over; what results showed is.
    """
    values = readable_body(lesson)
    if lesson.provenance.origin is not Origin.OUTCOME and lesson.provenance.weight < weight:
        return {name: value for name, value in values.items() if name not in ("why_bad", "better_alternative")}
    return values
