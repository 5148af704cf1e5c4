"""Look after a memory: see what its records rest on, and move it between stores.

These are for the person at this machine. They work on files here, so none is an operation for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO

from .engine import transaction, transfer, view
from .engine.calls import Progress, ignore_progress
from .engine.outcomes import count_needed, list_related
from .engine.transfer import ImportResult, ImportTrust
from .errors import ValidationError
from .files import make_new_file, refuse_folder
from .memory import ALMA
from .ports import Copyable, Repairable, Vacuumable
from .types.kinds import KINDS, Episode, Memory, Outcome
from .types.query import Where
from .types.record import Evidence, Provenance, Record, Status

_LESSON_VERBS = ("formed", "restored", "faded", "withdrawn")
_RELATED = 5


def repair_store(alma: ALMA) -> int:
    """Repair what a crash left behind in a store that can do so; return how much that was."""
    store = alma.engine.store
    return store.repair() if isinstance(store, Repairable) else 0


def find_ids(alma: ALMA, prefix: str, limit: int = 20) -> list[str]:
    """Return the ids of this project's records that begin with `prefix`, at most `limit`; a whole id alone."""
    if alma.engine.store.get([prefix]):
        return [prefix]
    kinds = {kind.name for kind in KINDS.values() if prefix.startswith(f"{kind.prefix}_")} or None
    records = alma.engine.store.scan(Where(kinds=kinds, projects={alma.project_id}))
    return sorted(islice((record.id for record in records if record.id.startswith(prefix)), limit))


def read_background(alma: ALMA, memory_id: str) -> tuple[Evidence, Provenance, list[Memory]]:
    """Return what a memory rests on, with the memories it is related to.

    These are the outcomes that a lesson was learned from, the lessons that an outcome counts for, or the conversation
    of a turn.
    """
    [record] = alma.engine.store.get([memory_id])
    related = [alma.get(one.id) for one in list_related(alma.engine, record, _RELATED)]
    if record.kind == "turn":
        related = [replace(alma.get(record.links[0], Episode), turns=())]
    return record.evidence, record.provenance, related


@dataclass(frozen=True, slots=True)
class Lesson:
    """A heuristic or anti-pattern, and what happened to it."""

    verb: str
    why: str
    memory: Memory


@dataclass(frozen=True, slots=True)
class Tally:
    """How an outcome's strategy is doing after it."""

    successes: int
    results: int
    needed: int  # So many results make a heuristic, if they mostly worked.


def find_groups(alma: ALMA, outcomes: Sequence[Outcome]) -> list[str]:
    """Return the ids of the strategy groups that these outcomes count for."""
    records = alma.engine.store.get([outcome.id for outcome in outcomes])
    return list(dict.fromkeys(record.links[0] for record in records if record.links))


def find_lessons(alma: ALMA, outcomes: Sequence[Outcome], since: datetime) -> list[Lesson]:
    """Return what the lessons of these outcomes' strategies went through since then, oldest first."""
    where = alma.engine.where(*transaction.LESSONS, linked=find_groups(alma, outcomes))
    lessons = [
        (line["at"], Lesson(line["verb"], line["why"], alma.get(record.id)))
        for record in alma.engine.store.scan(where)
        for line in alma.history(record.id)
        if line["at"] >= since and line["verb"] in _LESSON_VERBS
    ]
    return [lesson for _, lesson in sorted(lessons, key=lambda pair: pair[0])]


def count_results(alma: ALMA, outcome: Outcome) -> Tally:
    """Return how often the strategy of an outcome worked, and how many results a heuristic needs."""
    [group] = alma.engine.store.get(find_groups(alma, [outcome]))
    return Tally(group.evidence.successes, group.evidence.results, count_needed(alma.engine, outcome.agent))


def count_records(alma: ALMA, kind: str) -> int:
    """Count the active records of a kind in this project."""
    return sum(view.count_records(alma.engine, alma.engine.where(kind, statuses={Status.ACTIVE})).values())


def read_embedders(alma: ALMA) -> tuple[str, str]:
    """Return the embedder that made the store's vectors and the configured one; empty where there is none."""
    stored = transaction.find_embedder_marker(alma.engine)
    return "" if stored is None else str(stored.body["value"]), alma.engine.embedder_name


def find_store_file(alma: ALMA) -> Path | None:
    """Return the file that can be vacuumed; None if the store is a database that can be vacuumed."""
    store = alma.engine.store
    if not isinstance(store, Vacuumable):
        raise ValidationError("this store has no file, so there is nothing to vacuum")
    path = getattr(store, "path", None)
    return None if path is None else Path(path)


def list_declared_agents(alma: ALMA) -> tuple[str, ...]:
    """Return the names of the agents that the configuration declares; none when any agent may learn."""
    return alma.engine.scopes.known()


# -- the whole memory out of the store and in again, and copies of it

Confirm = Callable[[list[Record]], bool]
_TRUST = {True: ImportTrust.OWN, None: ImportTrust.IMPORTED, False: ImportTrust.NONE}
_IN_MEMORY = 8 * 2**20
_NO_RECORDS = 2
"""Lines of an export: the first and the last."""


def export_lines(alma: ALMA, *, vectors: bool = True, progress: Progress = ignore_progress) -> Iterator[str]:
    """Return the memory as JSON Lines, without line ends."""
    return transfer.export_lines(alma.engine, vectors=vectors, progress=progress)


def export_to(alma: ALMA, target: Path, *, vectors: bool = True, progress: Progress = ignore_progress) -> int:
    """Write the memory to a new file that only its owner can read, and return how many records."""
    count = -_NO_RECORDS
    try:
        with make_new_file(target) as part, part.open("w", encoding="utf-8", newline="\n") as file:
            for line in export_lines(alma, vectors=vectors, progress=progress):
                file.write(f"{line}\n")
                count += 1
    except OSError as error:
        raise refuse_folder(target.parent, error) from error
    return count


def import_from(
    alma: ALMA,
    source: IO[str],
    place: str,
    *,
    trusted: bool | None = True,
    keep_project: bool = False,
    dry_run: bool = False,
    confirm: Confirm | None = None,
    progress: Progress = ignore_progress,
) -> tuple[ImportResult, str, int]:
    """Take in an export. Return what became of its records, its project, and how many of them still wait.

    The whole file is read and checked before anything is written.

    `trusted=True` takes an export of one's own exactly as it is, `trusted=False` lets all memories of somebody else's
    wait for a person. None is for a file of unknown origin: when it claims active rules or preferences, or a person's
    own words, `confirm` gets these records and decides whether it is one's own; otherwise its rules and preferences
    wait for a person, and nothing in it counts as a person's own words or replaces what is held.

    A file of another project is refused unless `keep_project`: its memories are then found when that project is opened.
    """
    with SpooledTemporaryFile(_IN_MEMORY, mode="w+", encoding="utf-8", newline="\n") as copy:
        if not source.seekable():
            # What is piped in can be read once only, and must be read twice.
            copy.writelines(source)
            copy.seek(0)
        file = source if source.seekable() else copy

        def read_records() -> Iterator[Record]:
            file.seek(0)
            return transfer.read_records(iter(file.readline, ""), place)

        project = transfer.project_of(file.readline(), place)
        if project != alma.project_id and not keep_project:
            raise ValidationError(
                f"{place} contains the memories of project {project!r}, but this project is {alma.project_id!r}: "
                f"pass --config of that project, or --keep-project to import them into project {project!r}"
            )
        # What was erased is asked of the project that the records belong to.
        engine = replace(alma.engine, project=project)
        total = sum(1 for _ in read_records())
        trust = _TRUST[trusted]
        if trusted is None and confirm is not None:
            claims = transfer.find_claims(engine, read_records())
            trust = ImportTrust.OWN if claims and confirm(claims) else trust
        orphans = transfer.find_orphans(engine, read_records())
        result = transfer.import_records(
            engine, read_records(), total, trust=trust, orphans=orphans, dry_run=dry_run, progress=progress
        )
        if trust is not ImportTrust.OWN or not result.known:
            return result, project, 0
        # Those of an earlier import that did not trust the file: a record that is held is not replaced by the same.
        ids = [one.id for one in read_records() if one.status is Status.ACTIVE]
        return result, project, sum(one.status is Status.CANDIDATE for one in engine.store.get(ids))


def backup(alma: ALMA, target: Path, progress: Progress | None = None) -> int:
    """Copy the current state of the store to a new file and return its size; other processes may keep writing."""
    store = alma.engine.store
    if not isinstance(store, Copyable):
        raise ValidationError(
            "this store has no database file to copy; use `alma export` to write its content to a file"
        )
    store.backup(target, progress)
    return target.stat().st_size
