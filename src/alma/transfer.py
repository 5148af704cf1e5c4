"""The whole memory out of the store and in again, and copies of it. Files of this machine: no operation for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO

from .engine import transfer
from .engine.transfer import ImportTrust, Taken
from .engine.upkeep import ignore_progress
from .errors import StorageError, ValidationError
from .files import make_new_file
from .memory import ALMA
from .ports import Copyable
from .types.record import Record

Progress = Callable[[int, int], None]
Confirm = Callable[[list[Record]], bool]
_TRUST = {True: ImportTrust.OWN, None: ImportTrust.IMPORTED, False: ImportTrust.NONE}
_IN_MEMORY = 8 * 2**20
_NO_RECORDS = 2
"""Lines of an export: the first and the last."""

__all__ = ["Backup", "Taken", "backup", "export_lines", "export_to", "import_from"]


def export_lines(alma: ALMA, *, vectors: bool = True, progress: Progress = ignore_progress) -> Iterator[str]:
    """The memory as JSON Lines, without line ends."""
    return transfer.lines(alma.engine, vectors=vectors, progress=progress)


def export_to(alma: ALMA, target: Path, *, vectors: bool = True, progress: Progress = ignore_progress) -> int:
    """Write the memory to a new file that only its owner can read, and return how many records."""
    count = -_NO_RECORDS
    try:
        with make_new_file(target) as part, part.open("w", encoding="utf-8", newline="\n") as file:
            for line in export_lines(alma, vectors=vectors, progress=progress):
                file.write(f"{line}\n")
                count += 1
    except OSError as error:
        raise StorageError(f"{target.parent} cannot be written: {error.strerror}; choose another place") from error
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
) -> Taken:
    """Take in an export. All of it is read and found sound before anything is written.

    `trusted=True` takes an export of one's own exactly as it is, `trusted=False` lets all memories of somebody else's
    wait for a person. None is for a file of unknown origin: when it claims active rules or a person's own words,
    `confirm` gets these records and decides whether it is one's own; otherwise its rules wait for a person, and nothing
    in it counts as a person's own words or replaces what is held.

    A file of another project is refused unless `keep_project`: its memories are then found when that project is opened.
    """
    with ExitStack() as stack:
        file = source
        if not source.seekable():
            # What is piped in can be read once only, and must be read twice.
            file = stack.enter_context(SpooledTemporaryFile(_IN_MEMORY, mode="w+", encoding="utf-8", newline="\n"))
            for line in source:
                file.write(line)
            file.seek(0)

        def read_records() -> Iterator[Record]:
            file.seek(0)
            return transfer.read(iter(file.readline, ""), place)

        project = transfer.project_of(file.readline(), place)
        if project != alma.project_id and not keep_project:
            raise ValidationError(
                f"{place} holds the memories of project {project!r}, and this one is {alma.project_id!r}: open that "
                "project, or take them in as its own (--keep-project)"
            )
        # What was erased is asked of the project that the records belong to.
        engine = replace(alma.engine, project=project)
        total = sum(1 for _ in read_records())
        trust = _TRUST[trusted]
        if trusted is None and confirm is not None:
            claims = transfer.find_claims(engine, read_records())
            trust = ImportTrust.OWN if claims and confirm(claims) else trust
        return transfer.take(engine, read_records(), total, trust=trust, dry_run=dry_run, progress=progress)


@dataclass(frozen=True, slots=True)
class Backup:
    path: Path
    bytes: int


def backup(alma: ALMA, target: Path, progress: Progress | None = None) -> Backup:
    """Copy the store, as it is at this moment, to a new file; others may go on writing."""
    store = alma.engine.store
    if not isinstance(store, Copyable):
        raise ValidationError(f"{type(store).__name__} has no file to copy; `alma export` writes all it holds")
    store.backup(target, progress)
    return Backup(target, target.stat().st_size)
