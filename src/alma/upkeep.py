"""Look after a memory: see what its records rest on, move it between stores, and check that everything works.

These are for the person at this machine. They work on files here, so none is an operation for others.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from os import PathLike
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO

from alma import __version__

from . import embedders, stores
from .app import IN_A_FILE, TOKEN_FILES, read_config
from .config import Config
from .embedders.local import EXTRA
from .engine import transaction, transfer, view
from .engine.context import Settings
from .engine.transfer import ImportTrust, Taken
from .engine.upkeep import find_stale, ignore_progress
from .errors import (
    ALMAError,
    ConfigError,
    CorruptStoreError,
    MissingExtraError,
    NewerStoreError,
    ReadOnlyError,
    StorageError,
    UntrustedConfigError,
    ValidationError,
    install_command,
)
from .files import make_new_file
from .memory import ALMA
from .models.claude_cli import PATH_VARIABLE
from .models.registry import build as build_model
from .ports import Checkable, Copyable, Embedder, Store
from .types.kinds import KINDS, Episode, Memory, MemoryType, Outcome
from .types.query import Where
from .types.record import Evidence, Provenance, Record, Status

_LESSONS = (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN)
_LESSON_VERBS = ("formed", "restored", "faded", "withdrawn")
_RELATED = 5


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
    related: list[Memory] = []
    if record.links and record.kind == "turn":
        conversation = alma.get(record.links[0])
        related = [replace(conversation, turns=()) if isinstance(conversation, Episode) else conversation]
    elif record.links:
        # They share a strategy group, which is the first link of each.
        kinds = _LESSONS if record.kind == MemoryType.OUTCOME else (MemoryType.OUTCOME,)
        where = Where(kinds=kinds, projects={alma.project_id}, linked=record.links[:1])
        related = [alma.get(one.id) for one in alma.engine.store.scan(where, _RELATED)]
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
    needed: int
    """So many results make a heuristic, if they mostly worked."""


def find_groups(alma: ALMA, outcomes: Sequence[Outcome]) -> list[str]:
    """Return the ids of the strategy groups that these outcomes count for."""
    records = alma.engine.store.get([outcome.id for outcome in outcomes])
    return list(dict.fromkeys(record.links[0] for record in records if record.links))


def find_lessons(alma: ALMA, outcomes: Sequence[Outcome], since: datetime) -> list[Lesson]:
    """Return what the lessons of these outcomes' strategies went through since then, oldest first."""
    where = Where(kinds=_LESSONS, projects={alma.project_id}, linked=find_groups(alma, outcomes))
    lessons = [
        (line["at"], Lesson(line["verb"], line["why"], alma.get(record.id)))
        for record in alma.engine.store.scan(where)
        for line in alma.history(record.id)
        if line["at"] >= since and line["verb"] in _LESSON_VERBS
    ]
    return [lesson for _, lesson in sorted(lessons, key=lambda pair: pair[0])]


def count_results(alma: ALMA, outcome: Outcome) -> Tally:
    [group] = alma.engine.store.get(find_groups(alma, [outcome]))
    scope = alma.engine.scope(outcome.agent)
    needed = scope.min_occurrences_for_heuristic or alma.engine.settings.min_occurrences_for_heuristic
    return Tally(group.evidence.successes, group.evidence.results, needed)


def count_records(alma: ALMA, kind: str) -> int:
    """Count the active records of a kind in this project."""
    where = Where(kinds={kind}, projects={alma.project_id}, statuses={Status.ACTIVE})
    return sum(view.count_records(alma.engine, where).values())


def read_embedders(alma: ALMA) -> tuple[str, str]:
    """Return the embedder that made the store's vectors and the configured one; empty where there is none."""
    held = transaction.find_embedder_marker(alma.engine)
    return "" if held is None else str(held.body["value"]), alma.engine.embedder_name


def find_store_file(alma: ALMA) -> Path:
    """Return the file that can be vacuumed."""
    store = alma.engine.store
    if not hasattr(store, "vacuum"):
        raise ValidationError(f"{type(store).__name__} keeps nothing in files, so there is nothing to vacuum")
    return Path(store.path)  # type: ignore[attr-defined]


def list_declared_agents(alma: ALMA) -> tuple[str, ...]:
    """Return the names of the agents that the configuration declares; none when any agent may learn."""
    return alma.engine.scopes.known()


# -- checks
# A check that depends on a broken one is left out, so that what is listed first is what to fix first. Nothing is
# changed: a store that is not there is not made, and the round trip runs on a scratch store.

OK, WARNING, FAILED = "ok", "warning", "failed"

_LITTLE_ROOM = 500 * 2**20
_NO_ROOM = 50 * 2**20
# What reading a damaged store may raise besides our own errors.
_DAMAGE = (ALMAError, sqlite3.Error, OSError, ValueError, LookupError, TypeError)


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: str
    """ok, warning or failed."""
    detail: str
    fix: str = ""


Finding = tuple[str, str] | tuple[str, str, str]
"""The state, what was found, and what to do about it."""

_FIXES: tuple[tuple[type[BaseException], str], ...] = (
    (UntrustedConfigError, "read the configuration; if you trust it, run `alma trust`"),
    (ConfigError, "correct the configuration, or write a new one: alma init --force"),
    (MissingExtraError, "install it as the message says, or set embedding_provider: auto"),
    (NewerStoreError, "update alma: git pull, then pip install . (in the checkout of alma)"),
    (ReadOnlyError, "make the file and its folder yours: chown, chmod 700 the folder, chmod 600 the file"),
    (CorruptStoreError, "restore a backup, or move the file away to begin with an empty memory"),
    (StorageError, "check the path, its owner and its mode"),
    (sqlite3.Error, "restore a backup, or move the file away to begin with an empty memory"),
    (ALMAError, "do what the message says, then run `alma doctor` again"),
)


def diagnose(config_path: str | PathLike[str] | None = None) -> Iterator[Check]:
    """Make every check that can be made, in the order in which to fix what fails."""
    running = f"Python {platform.python_version()}, alma {__version__}, SQLite {sqlite3.sqlite_version}"
    yield Check("versions", OK, running)
    try:
        path, config = read_config(None if config_path is None else os.fspath(config_path))
    except ALMAError as error:
        yield _fail("configuration", error)
        return
    yield Check("configuration", OK, f"{path} (project {config.project_id!r})")
    yield Check("sharing", OK, f"{len(config.agents)} agents declared" if config.agents else "any agent may learn")
    yield from _guard("permissions", _check_permissions(config))
    yield from _guard("tokens", _check_tokens(path.resolve().parent))
    yield from _guard("disk space", check_space(config.storage_dir))
    yield from _guard("model", _check_model(config))
    embedder, is_usable = None, True
    try:
        embedder = embedders.create(config.embedding_provider, dim=config.embedding_dim, options=config.embedding)
        for check in _guard("embedder", _check_embedder(config, embedder)):
            is_usable = check.state != FAILED
            yield check
    except ALMAError as error:
        is_usable = False
        yield _fail("embedder", error)
    try:
        yield from _check_store(config, embedder, is_usable=is_usable)
        if is_usable:
            yield from _guard("round trip", _check_round_trip(config))
    finally:
        if embedder is not None:
            embedder.close()


def _guard(name: str, findings: Iterable[Finding]) -> list[Check]:
    try:
        return [Check(name, *finding) for finding in findings]
    except _DAMAGE as error:
        return [_fail(name, error)]


def _fail(name: str, error: BaseException) -> Check:
    fix = next((fix for kind, fix in _FIXES if isinstance(error, kind)), "restore a backup of the store")
    if isinstance(error, ConfigError) and "alma init" in str(error):
        fix = "alma init"
    return Check(name, FAILED, str(error) or type(error).__name__, fix)


# -- checks around the store


def check_modes(state: str, fix: str, files: Iterable[Path]) -> list[Finding]:
    """Find the files that others can read. `fix` is the command that ends it, with `{}` for the file."""
    modes = {file: stat.S_IMODE(file.stat().st_mode) for file in files if os.name == "posix" and file.exists()}
    return [
        (state, f"{file} can be read by others (mode {mode:04o})", fix.format(shlex.quote(str(file))))
        for file, mode in modes.items()
        if mode & 0o077
    ]


def _check_permissions(config: Config) -> Iterator[Finding]:
    folder = config.storage_dir
    if config.storage == "memory":
        yield WARNING, "storage is 'memory': all is lost when the process ends", "storage: sqlite"
    elif os.name != "posix" or not folder.exists():
        yield OK, f"{folder} will be made when something is stored"
    else:
        problems = check_modes(WARNING, "chmod 700 {}", [folder])
        problems += check_modes(FAILED, "chmod 600 {}", sorted(folder.glob(f"{config.db_name}*")))
        yield from problems or [(OK, f"{folder} is private")]


def _check_tokens(folder: Path) -> Iterator[Finding]:
    """Check the token files; skipped where there are none."""
    files = [folder / name for name in TOKEN_FILES if (folder / name).is_file()]
    if files:
        problems = check_modes(FAILED, "chmod 600 {}, and better make new tokens: alma token add", files)
        yield from problems or [(OK, f"{', '.join(file.name for file in files)}: private")]


def check_space(folder: Path) -> Iterator[Finding]:
    folder = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(folder).free
    state = FAILED if free < _NO_ROOM else WARNING if free < _LITTLE_ROOM else OK
    yield state, f"{free / 2**30:.1f} GiB free at {folder}", "" if state == OK else "free some space"


def _check_model(config: Config) -> Iterator[Finding]:
    """Open the language model, so that what is missing shows; it is not asked."""
    settings = config.model
    if settings.provider == "none":
        yield OK, "none is asked, as configured"
        return
    try:
        model = build_model(settings, os.environ)
    except ALMAError as error:
        yield FAILED, str(error), "set what is missing, or set model: {provider: none}"
        return
    program = settings.path or os.environ.get(PATH_VARIABLE) or "claude"
    if settings.provider == "claude-cli" and not shutil.which(os.path.expanduser(program)):
        yield WARNING, f"{program} is not found, so that rules do without it", "install Claude Code"
    else:
        yield OK, f"{model.name if model is not None else settings.provider} (not asked)"


def _check_embedder(config: Config, embedder: Embedder | None) -> Iterator[Finding]:
    if embedder is None and config.embedding_provider == "none":
        yield OK, "none: memories are found by words only, as configured"
    elif embedder is None:
        fix = f"{install_command(EXTRA)}, then: alma reindex"
        yield WARNING, "none installed: memories are found by words only", fix
    else:
        # Hashes first: a damaged model should be called damaged.
        verify = getattr(embedder, "verify", None)
        if verify is not None:
            verify()
        [vector] = embedder.embed(["is everything well?"])
        verified = ", files verified" if verify is not None else ""
        yield OK, f"{embedder.name} ({len(vector)} dimensions{verified})"


# -- checks of the store


def _check_store(config: Config, embedder: Embedder | None, *, is_usable: bool) -> Iterator[Check]:
    if config.storage in IN_A_FILE and not config.path.exists():
        yield Check("store", OK, f"{config.path} will be made when something is stored")
        return
    try:
        store = stores.create(config.storage, path=config.path, options=config.storage_options)
    except _DAMAGE as error:
        yield _fail("store", error)
        return
    alma = ALMA(store, embedder if is_usable else None, project_id=config.project_id)
    try:
        yield from _guard("store", _check_figures(config, alma))
        yield from _guard("integrity", check_integrity(store))
        if is_usable:
            yield from _guard("vectors", _check_vectors(alma))
        yield from _guard("graph", _check_graph(alma))
    finally:
        store.close()


def _check_figures(config: Config, alma: ALMA) -> Iterator[Finding]:
    total = alma.get_stats()["total_count"]
    stats = getattr(alma.engine.store, "stats", None)
    version = f", format {stats()['format']}" if stats is not None else ""
    yield OK, f"{config.storage} at {config.path}{version}: {total} memories in use"


def check_integrity(store: Store) -> Iterator[Finding]:
    if not isinstance(store, Checkable):
        yield OK, "all of it could be read"
        return
    # Who may read the file is a check of its own.
    if problems := [problem for problem in store.check() if "can be read by others" not in problem]:
        yield FAILED, "; ".join(problems[:5]), "restore a backup; keep this file, most of it can still be read"
    else:
        yield OK, "the file, its words and its vectors agree"


def _check_vectors(alma: ALMA) -> Iterator[Finding]:
    stored, configured = read_embedders(alma)
    waiting = len(find_stale(alma.engine))
    if stored and configured and stored != configured:
        detail = f"the store was embedded by {stored!r}, but {configured!r} is configured"
        yield FAILED, detail, "alma reindex, or set the embedder back"
    elif waiting:
        what = "are not embedded by" if configured else "still have vectors, without"
        yield WARNING, f"{waiting} records {what} {configured or 'an embedder'}", "alma reindex"
    else:
        yield OK, f"all by {configured}" if configured else "none, as configured"


def _check_graph(alma: ALMA) -> Iterator[Finding]:
    entities, relations = (count_records(alma, kind) for kind in ("entity", "relation"))
    empty = "none yet; `alma graph build` reads memories into it"
    yield OK, f"{entities} entities, {relations} relations" if entities or relations else empty


def _check_round_trip(config: Config) -> Iterator[Finding]:
    """Learn thrice on a scratch store, see a heuristic formed, find it again, read it in the prompt."""
    task, strategy = "Restart the web server", "Drain the connections first"
    with tempfile.TemporaryDirectory(prefix="alma-doctor-") as folder:
        plain = replace(config, project_id="doctor", storage_dir=Path(folder), agents=(), settings=Settings())
        options = {name: value for name, value in plain.storage_options.items() if name != "read_only"}
        store = stores.create(plain.storage, path=plain.path, options=options)
        embedder = embedders.create(plain.embedding_provider, dim=plain.embedding_dim, options=plain.embedding)
        with ALMA(store, embedder, project_id=plain.project_id) as alma:
            outcome = {"agent": "doctor", "task": task, "outcome": "success", "strategy_used": strategy}
            alma.learn_many([outcome] * 3)
            memories = alma.retrieve(task, "doctor")
    bug = "this is a bug in alma: please report it with this output"
    if not memories.heuristics:
        yield FAILED, "three successes did not become a heuristic that is found again", bug
    elif strategy not in memories.to_prompt():
        yield FAILED, "the heuristic is missing in the prompt", bug
    else:
        yield OK, "learned, formed a heuristic, found it, and it is in the prompt"


# -- the whole memory out of the store and in again, and copies of it

Progress = Callable[[int, int], None]
Confirm = Callable[[list[Record]], bool]
_TRUST = {True: ImportTrust.OWN, None: ImportTrust.IMPORTED, False: ImportTrust.NONE}
_IN_MEMORY = 8 * 2**20
_NO_RECORDS = 2
"""Lines of an export: the first and the last."""


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
) -> tuple[Taken, str, int]:
    """Take in an export. Return what became of its records, its project, and how many of them still wait.

    All of it is read and found sound before anything is written.

    `trusted=True` takes an export of one's own exactly as it is, `trusted=False` lets all memories of somebody else's
    wait for a person. None is for a file of unknown origin: when it claims active rules or a person's own words,
    `confirm` gets these records and decides whether it is one's own; otherwise its rules wait for a person, and nothing
    in it counts as a person's own words or replaces what is held.

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
        taken = transfer.take(engine, read_records(), total, trust=trust, dry_run=dry_run, progress=progress)
        if trust is not ImportTrust.OWN or not taken.known:
            return taken, project, 0
        # Those of an earlier import that did not trust the file: a record that is held is not replaced by the same.
        ids = [one.id for one in read_records() if one.status is Status.ACTIVE]
        return taken, project, sum(one.status is Status.CANDIDATE for one in engine.store.get(ids))


def backup(alma: ALMA, target: Path, progress: Progress | None = None) -> int:
    """Copy the store, as it is at this moment, to a new file, and return its size; others may go on writing."""
    store = alma.engine.store
    if not isinstance(store, Copyable):
        raise ValidationError(f"{type(store).__name__} has no file to copy; `alma export` writes all it holds")
    store.backup(target, progress)
    return target.stat().st_size
