"""Upkeep of a project: archive what faded or exceeds a quota, delete old notes, compress long conversations, and read
new memories together with older ones that look alike.

Decay is a pure function of a record, the time and the settings: archiving leaves the dates of a memory as they are, so
that nothing depends on when upkeep ran. Memories change their status and are never deleted; `delete` does that.

Each step works in batches, and each batch is one transaction. A killed run leaves nothing half done, and the next one
goes on. By itself, upkeep runs in one process at a time: a marker holds when it is due again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Self

from ..errors import ConfigError, ModelError, ModelUnavailableError
from ..ports import Model
from ..text import digest
from ..types.kinds import MemoryType
from ..types.query import split_batches
from ..types.record import LIVE, Origin, Record, Status
from ..types.times import from_iso, to_iso
from .calls import Progress, ignore_progress
from .changes import CHANGESET, INSTANT, REWRITTEN
from .consolidate import open_reader, reconcile
from .context import Engine
from .episodes import find_turns
from .events import DELIVERY
from .evidence import age_days, memory_strength
from .gists import compress_conversation, find_long_conversations
from .retrieve.lookalikes import FIELDS, ReadPair, read_older_pairs, store_pairs
from .transaction import T, Transaction, scan_records, write
from .view import count_records

# What was said outlives what was made of it.
_FADING = frozenset(MemoryType) - {MemoryType.EPISODE}
_MAX_COMPRESSED = 20  # Conversations in one run; the next one goes on.
_MAX_READ, _READ_AT_ONCE = 2000, 32  # New memories whose look-alikes are read in one run, and in one transaction.
_LEASE = timedelta(hours=1)  # A killed run is repeated after this time.
Reasoned = tuple[Record, str]  # A memory, and why it is archived.


class Forgotten(int):
    """How many memories were (or, in a dry run, would be) forgotten; `ids` says which."""

    ids: tuple[str, ...]

    def __new__(cls, ids: Sequence[str]) -> Self:
        self = super().__new__(cls, len(ids))
        self.ids = tuple(ids)
        return self


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """What each step of upkeep changed, or would change in a dry run. If it was not due, `skipped` says why."""

    dry_run: bool
    counts: dict[str, int] = field(default_factory=dict)
    ids: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    skipped: str = ""


@dataclass(slots=True)
class UpkeepRun:
    """One run on the project of an engine. A dry run changes nothing, and reports what would change."""

    engine: Engine
    dry_run: bool = False
    progress: Progress = ignore_progress
    open_model: Callable[[], Model | None] = lambda: None
    should_stop: Callable[[], bool] = lambda: False  # Asked before each batch.
    archived: set[str] = field(default_factory=set)  # Including what a dry run would archive.
    problems: list[str] = field(default_factory=list)
    now: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.engine.clock()

    def measure_strength(self, record: Record) -> float:
        """Return the strength of a memory at the time of this run."""
        return memory_strength(record, self.now, self.engine.settings.upkeep.half_life_days)

    def split(self, items: Sequence[T], size: int = 256) -> Iterator[Sequence[T]]:
        """Yield the items in batches until it has to stop, and report progress after each; a dry run gets none."""
        for batch in () if self.dry_run else split_batches(items, size, self.progress):
            if self.should_stop():
                return
            yield batch

    def archive(self, due: Sequence[Reasoned], size: int = 256) -> list[str]:
        """Archive memories for a reason each, and return their ids. What changed since it was read stays."""
        if not self.engine.may_approve:
            # Whoever runs this may choose the ages and quotas: what a person said, only a person puts away.
            due = [one for one in due if not (is_persons_own(one[0]) or one[0].provenance.is_from_person)]

        def step(tx: Transaction, batch: Sequence[Reasoned]) -> list[str]:
            reasons = {(record.id, record.version): why for record, why in batch}
            records = [one for one in tx.get(id for id, _ in reasons) if (one.id, one.version) in reasons]
            for record in records:
                turns = find_turns(tx, record) if record.kind == MemoryType.EPISODE else []
                for one in (record, *(turn for turn in turns if turn.status is Status.ACTIVE)):
                    tx.update(one, status=Status.ARCHIVED, updated_at=one.updated_at)
                tx.add_history(record, "archived", reasons[record.id, record.version], {"status": str(record.status)})
            return [record.id for record in records]

        ids = [record.id for record, _ in due] if self.dry_run else []
        for batch in self.split(due, size):
            ids += write(self.engine, partial(step, batch=batch))
        self.archived.update(ids)
        return ids

    def find_faded(self, unused_days: float, below: float, agents: set[str] | None = None) -> Iterator[Reasoned]:
        """Yield what was not used for so many days and has less strength, each with the reason to archive it."""
        # What was made since cannot have been unused for so long.
        try:
            made_before = self.now - timedelta(days=unused_days) + INSTANT
        except OverflowError:
            return  # Nothing is as old as that.
        where = self.engine.where(*_FADING, agents=agents, statuses=LIVE, created_to=made_before)
        for record in self.engine.store.scan(where):
            days, strength = age_days(record, self.now), self.measure_strength(record)
            if days >= unused_days and strength < below:
                yield record, f"unused for {int(days)} days, strength {strength:.2f}"

    def find_reverted(self, ids: Sequence[str], days: float) -> set[str]:
        """Return the ids of what somebody set back in the last days: that is not changed again so soon."""
        since, reverted = self.now - timedelta(days=days), set[str]()
        for batch in split_batches(ids):
            for changeset in scan_records(self.engine, CHANGESET, linked=set(batch), created_from=since):
                reverted |= set(changeset.links) if changeset.body.get("reverts") else set()
        return reverted


def forget(
    engine: Engine, agent: str | None, older_than_days: float, below_confidence: float, dry_run: bool = False
) -> Forgotten:
    """Archive memories that were not used or confirmed for long and are weak; a dry run only reports them."""
    run = UpkeepRun(engine, dry_run)
    faded = run.find_faded(older_than_days, below_confidence, None if agent is None else {agent})
    return Forgotten(run.archive(list(faded)))


# -- steps: each gets the run and returns the ids of what it changed, or would change


def prune_notes(run: UpkeepRun) -> list[str]:
    """Delete old notes of retrievals, unless a younger outcome refers to them, and old changesets of counts."""
    engine, settings = run.engine, run.engine.settings.upkeep
    before = run.now - timedelta(days=settings.retrieval_days)
    notes = scan_records(engine, "retrieval", created_to=before) if settings.retrieval_days else []
    needed: set[str] = set()
    for batch in split_batches([note.id for note in notes]):
        for outcome in scan_records(engine, MemoryType.OUTCOME, linked=set(batch)):
            needed |= set(outcome.links) if max(outcome.created_at, outcome.updated_at) >= before else set()
    before = run.now - timedelta(days=settings.history_days)
    changesets = scan_records(engine, CHANGESET, created_to=before) if settings.history_days else []
    expired = [note.id for note in notes if note.id not in needed]
    for batch in split_batches(expired.copy()):
        # A delivery repeats the question of the retrieval.
        expired += [one.id for one in scan_records(engine, DELIVERY, linked=set(batch))]
    expired += [one.id for one in changesets if REWRITTEN not in one.tags and None not in one.body["was"].values()]
    deleted = expired if run.dry_run else []
    for ids in run.split(expired):
        engine.store.delete(ids)
        deleted += ids
    return deleted


def archive_faded(run: UpkeepRun) -> list[str]:
    """Archive what was not used for long and is weak, except what a person stated."""
    settings = run.engine.settings.upkeep
    faded = run.find_faded(settings.unused_days, settings.archive_below)
    due = [one for one in faded if not is_persons_own(one[0])]
    reverted = run.find_reverted([record.id for record, _ in due], settings.unused_days)
    return run.archive([one for one in due if one[0].id not in reverted])


def archive_over_quota(run: UpkeepRun) -> list[str]:
    """Archive the weakest memories and conversations beyond their quotas.

    Outcomes go first, as strategies and lessons keep their counts, and what a person stated goes last.
    """
    settings, ids = run.engine.settings.upkeep, list[str]()
    # Conversations are archived with all their turns, so few of them in one transaction.
    for kinds, noun, most, size in (
        (_FADING, "memories", settings.max_memories, 256),
        ((MemoryType.EPISODE,), "conversations", settings.max_conversations, 8),
    ):
        where = run.engine.where(*kinds, statuses={Status.ACTIVE})
        if sum(count_records(run.engine, where).values()) <= most:
            continue
        active = [one for one in run.engine.store.scan(where) if one.id not in run.archived]
        active.sort(key=lambda one: (*_rank_for_quota(one), run.measure_strength(one), one.created_at, one.id))
        reason = f"over the quota of {most:,} {noun}"
        ids += run.archive([(one, reason) for one in active[: max(0, len(active) - most)]], size)
    return ids


def _rank_for_quota(record: Record) -> tuple[bool, ...]:
    """Return the place of a memory among those that a quota archives; the lowest go first.

    What was heard from a person goes after what others wrote, and before what a person stated. Of conversations, those
    that an agent reported go first.
    """
    is_reported = record.kind == MemoryType.EPISODE and record.provenance.origin is Origin.AGENT
    is_heard = record.provenance.is_from_person
    return is_persons_own(record), is_heard, record.kind != MemoryType.OUTCOME, not is_reported


def is_persons_own(record: Record) -> bool:
    """Return whether a person stated a memory, or let a rule take effect."""
    return record.provenance.is_persons or (record.kind == MemoryType.RULE and record.status is Status.ACTIVE)


def compress_conversations(run: UpkeepRun) -> list[str]:
    """Let a model compress long conversations that were not used for long."""
    episodes = find_long_conversations(run.engine, run.now)
    days = run.engine.settings.upkeep.compress_after_days
    excluded = run.archived | run.find_reverted([one.id for one in episodes], days)
    episodes = [one for one in episodes if one.id not in excluded]
    due, ids = episodes[:_MAX_COMPRESSED], list[str]()
    try:
        model = run.open_model() if due else None
        if due and model is None:
            raise ModelUnavailableError("no model is configured")
        for [one] in run.split(due, 1):
            ids += [one.id] if model and compress_conversation(run.engine, open_reader(model), one) else []
    except (ModelError, ConfigError) as error:
        run.problems.append(f"{len(episodes) - len(ids)} long conversations were not compressed: {error}")
        return ids
    return [one.id for one in due] if run.dry_run else ids


def merge_duplicates(run: UpkeepRun) -> list[str]:
    """Merge memories that say the same, and end outdated or deleted ones; without a model, only certain duplicates."""
    try:
        model = run.open_model()
        reader = open_reader(model) if model else None
        done = reconcile(run.engine, reader, dry_run=run.dry_run, excluded=run.archived)
    except ConfigError as error:
        run.problems.append(f"duplicates were not merged: {error}")
        return []
    if done.problem and model is not None:
        run.problems.append(f"{done.waiting} pairs were not compared: {done.problem}")
    return [*(source for merge in done.merged for source in merge.sources), *done.superseded, *done.held_back]


def read_lookalikes(run: UpkeepRun) -> list[str]:
    """Read new memories together with older ones that look alike, oldest first, so that no retrieval has to.

    A marker holds how far this went, so that each memory is looked at once, and a killed run goes on.
    """
    engine = run.engine
    read_ids: list[str] = []
    if engine.calibration is None or not engine.settings.pair_reading_ms:
        return read_ids
    unread = _list_unread(engine)[:_MAX_READ]
    due = [record for record in unread if record.id not in run.archived]
    for batch in run.split(due, _READ_AT_ONCE):
        pairs: list[ReadPair] = []
        for record in batch:
            pairs += read_older_pairs(engine, record)
        write(engine, partial(_note_read, pairs=pairs, last=batch[-1]))
        read_ids += [record.id for record in batch]
    return [record.id for record in due] if run.dry_run else read_ids


def _list_unread(engine: Engine) -> list[Record]:
    """Return the memories that are newer than the last one whose look-alikes upkeep has read, oldest first."""
    marker = next(iter(engine.store.get([_name_reading_marker(engine)])), None)
    last = None if marker is None else from_iso(marker.body["value"])
    where = engine.where(*FIELDS, statuses={Status.ACTIVE}, created_from=last)
    records = list(engine.store.scan(where))[::-1]
    if marker is None or last is None:
        return records
    newest_read = (last, marker.body["last"])
    return [record for record in records if (record.created_at, record.id) > newest_read]


def _note_read(tx: Transaction, pairs: Sequence[ReadPair], last: Record) -> None:
    store_pairs(tx, pairs)
    tx.set_marker(_name_reading_marker(tx.engine), {"value": to_iso(last.created_at), "last": last.id})


def _name_reading_marker(engine: Engine) -> str:
    return f"mrk_read_{digest(engine.project, engine.embedder_name, size=10)}"


STEPS: dict[str, Callable[[UpkeepRun], list[str]]] = {
    "notes": prune_notes,
    "faded": archive_faded,
    "over_quota": archive_over_quota,
    "compressed": compress_conversations,
    "read": read_lookalikes,
    # Last, when what faded is out of the way.
    "merged": merge_duplicates,
}
"""The steps in the order in which they run."""


def run_upkeep(run: UpkeepRun, *, if_due: bool = False) -> UpkeepReport:
    """Run all steps. With `if_due` only if the last run is older than the settings say, in one process at a time."""
    run.engine = replace(run.engine, actor="upkeep")
    period = timedelta(hours=run.engine.settings.upkeep.every_hours)
    marker_id = f"mrk_upkeep_{digest(run.engine.project, size=10)}"

    def claim(tx: Transaction) -> bool:
        marker = tx.find(marker_id)
        due = from_iso(marker.body["value"]) if marker else None
        # A date that is further away than a period comes from a clock that was wrong.
        is_due = due is None or not run.now < due <= run.now + period
        if is_due and not run.dry_run:
            tx.set_marker(marker_id, {"value": to_iso(run.now + min(period, _LEASE))})
        return is_due

    if if_due and not period:
        return UpkeepReport(run.dry_run, skipped="upkeep runs only when asked, because upkeep.every_hours is 0")
    if if_due and not write(run.engine, claim):
        return UpkeepReport(run.dry_run, skipped="not due: upkeep ran within the last upkeep.every_hours")
    ids = {name: act(run) for name, act in STEPS.items() if not run.should_stop()}
    if period and not run.dry_run and not run.should_stop():
        write(run.engine, lambda tx: tx.set_marker(marker_id, {"value": to_iso(run.now + period)}))
    counts = {name: len(changed) for name, changed in ids.items()}
    return UpkeepReport(run.dry_run, counts, ids, run.problems)
