"""Commands on a whole memory: doctor, trust, reindex, vacuum, migrate, export, backup and import."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from .. import trust_register, upkeep
from ..app import list_data_files
from ..config import DEFAULT_PATH, Config, list_restricted_settings, load
from ..doctor import FAILED, diagnose
from ..errors import ConfigError, NotFoundError, ValidationError
from ..migration import PLACES, migrate_places
from ..upkeep import find_store_file, read_embedders, repair_store
from . import render
from .derive import REVIEW, Argument, Call, Reply, command, reply_value
from .render import count, count_memories, format_bytes

_IMPORTED = {
    "known": "already stored",
    "erased": "skipped (deleted here)",
    "waiting": "to review",
    "left_out": "skipped (only memories are imported from untrusted files)",
}
"""What became of the records of an import, for people."""
_WORDS_ONLY = "none (words only)"


# -- check and trust


@command("doctor", matching=False)
@Argument("--quick", "only check that the memory opens and can be searched")
def doctor(call: Call) -> Reply:
    """Check that everything works and suggest fixes. Exits with 1 if a check failed."""
    if call.args.quick:
        health = call.run("health")
        status = f"ok: {count_memories(health.memories)} in {health.project_id}"
        text = f"{status}, embedder: {health.embedder or _WORDS_ONLY}" if health.ok else "problems:"
        return Reply(health, text, health.problems, code=0 if health.ok else 1)
    checks = list(diagnose(call.args.config))
    ok = all(check.state != FAILED for check in checks)
    return Reply({"ok": ok, "checks": checks}, lambda out: render.show_checks(out, checks), code=0 if ok else 1)


_PATH = "the folder that contains .alma, a store, or a configuration (default: the nearest folder, from here up)"
_TRUST = Argument("--yes", "do not ask; for scripts, refused if an agent runs them")
_OVER_MCP = "let `alma mcp --approve` of this configuration approve memories"


@command("trust")
@Argument("PATH", _PATH, nargs="?")
@Argument("--list", "list trusted folders", group="either")
@Argument("--remove", "stop trusting the folder and its memory", group="either")
@Argument("--approve-over-mcp", _OVER_MCP, group="either")
@_TRUST
def trust(call: Call) -> Reply:
    """Trust the configuration and the memory in a folder, until the configuration changes.

    PATH may also be a store that git tracks or another user owns. Only a person may trust something, or with --yes a
    script that no agent runs.
    """
    args, here = call.args, Path.cwd()
    if args.list:
        return _list_trusted(args.path)
    nearest = next((place for place in (here, *here.parents) if (place / DEFAULT_PATH).is_file()), here)
    target = nearest if args.path is None else Path(args.path).expanduser().absolute()
    # PATH may also be the configuration file or its folder.
    for part in (DEFAULT_PATH.name, DEFAULT_PATH.parent.name):
        is_part = target.name == part and (part != DEFAULT_PATH.name or target.parent.name == DEFAULT_PATH.parent.name)
        target = target.parent if is_part else target
    if args.remove:
        files = [] if target.is_dir() else trust_register.list_store_files(target)
        removed = [trust_register.remove_folder(one) for one in dict.fromkeys((target, *files))]
        if not any(removed):
            raise NotFoundError(f"{target} is not trusted; run `alma trust --list` to see trusted folders")
        return Reply({"removed": target}, f"{target} is no longer trusted")
    if args.approve_over_mcp:
        return _allow_approval(call, target)
    call.require_person("`alma trust`", can_script=args.yes)
    if (target / DEFAULT_PATH.parent).is_dir():
        return _trust_config(call, target, target / DEFAULT_PATH)
    if target.is_file() and target.suffix in (".yaml", ".yml"):
        return _trust_config(call, target, target)
    if target.is_file() or (target.is_dir() and any((target / name).exists() for name in _OF_A_DATABASE)):
        return _trust_store(call, target)
    raise ConfigError(f"{target} has no {DEFAULT_PATH.parent} folder, so there is nothing to trust")


_OF_A_DATABASE = ("alma.lock", "chroma.sqlite3", "meta.json", "catalog.kz")
"""Files in the folders of vector databases and graphs."""


def _read_content(target: Path) -> bytes:
    """Return the configuration of a trusted folder, or of a file that was trusted itself."""
    file = target / DEFAULT_PATH if target.is_dir() else target
    return file.read_bytes() if file.is_file() else b""


def _list_trusted(path: str | None) -> Reply:
    if path is not None:
        raise ValidationError("--list takes no PATH; it lists all trusted folders")
    rows = []
    for name in sorted(trust_register.read_register().folders):
        is_same = trust_register.is_trusted(name, _read_content(Path(name)))
        rows.append({"folder": name, "state": "trusted" if is_same else "changed since it was trusted"})
    return reply_value(rows, "folders")


def _ask(call: Call, question: str, *things: Any) -> None:
    """Ask a person at a terminal, unless --yes was passed."""
    if not call.args.yes and sys.stdin.isatty():
        call.confirm(question, *things)


def _trust_config(call: Call, target: Path, file: Path) -> Reply:
    """Trust a configuration with its present content, and the memory beside it."""
    content = _read_content(target)
    restricted = list_restricted_settings(file) if content else []
    config = load(file) if content else Config(project_id="default", storage_dir=file.parent)
    files = list_data_files(file, config)
    shown = {"allowed settings": restricted, "trusted files": files}
    _ask(call, f"Trust {target}?", shown)
    links = [file] if content and file.resolve() != file else []
    tracked = trust_register.trust_folder(target, content, [*files, *links])
    names = ", ".join(os.path.relpath(one, file.parent.parent) for one in tracked)
    return Reply(
        {"folder": target, "config": file if content else None, "sets": restricted, "files": files},
        f"trusted {target} until {DEFAULT_PATH if target.is_dir() else file.name} changes",
        shown,
        f"git tracks {names}: new versions from a pull are trusted too" if tracked else "",
    )


def _trust_store(call: Call, target: Path) -> Reply:
    """Trust a store that is not in a folder `.alma`, or one file of it."""
    files = trust_register.list_store_files(target)
    _ask(call, f"Trust {target}?", {"trusted files": files})
    tracked = trust_register.trust_files(files)
    names = ", ".join(map(str, tracked))
    return Reply(
        {"store": target, "files": files},
        f"trusted {target}",
        f"git tracks {names}: new versions from a pull are trusted too" if tracked else "",
    )


def _allow_approval(call: Call, target: Path) -> Reply:
    """Let the MCP server of a configuration approve memories."""
    call.args.yes = False
    call.require_person("`alma trust --approve-over-mcp`")
    named = target / DEFAULT_PATH if target.is_dir() else target
    file = call.config[0].absolute() if call.args.path is None else named
    if not file.is_file():
        raise ConfigError(f"no configuration file {file}; create one with `alma init`")
    _ask(call, f"Let every program that starts `alma mcp --approve` for {file} approve memories?")
    trust_register.allow_approval(file)
    return Reply({"config": file, "approves": True}, f"`alma mcp --approve` may approve memories of {file}")


# -- reindex, vacuum, export, backup, import


@command("reindex", matching=False)
def reindex(call: Call) -> Reply:
    """Embed all records again with the configured embedder. If interrupted, run it again to resume.

    In a vector database, vectors that a crash left behind are repaired first; no other process may write meanwhile.
    """
    before, after = read_embedders(call.alma)
    before, after = before or "none", after or _WORDS_ONLY
    repaired = repair_store(call.alma)
    moved = call.alma.reindex(call.out.progress)
    done = f"embedded {count(moved, 'record')}" if moved else "all records are up to date"
    done += f"; repaired {count(repaired, 'vector')}" if repaired else ""
    return Reply({"from": before, "to": after, "moved": moved, "repaired": repaired}, f"from {before} to {after}", done)


@command("vacuum", matching=False)
def vacuum(call: Call) -> Reply:
    """Remove all traces of deleted memories from the store's files and free unused disk space."""
    path = find_store_file(call.alma)
    if path is None:
        call.alma.vacuum()
        return Reply({"path": None}, "removed the content of deleted memories from the database")

    def measure() -> int:
        """Return the size of the database file and its write-ahead log."""
        return sum(part.stat().st_size for part in (path, Path(f"{path}-wal")) if part.exists())

    before = measure()
    call.alma.vacuum()
    after = measure()
    freed = max(0, before - after)
    text = f"freed {format_bytes(freed)}; {path} is now {format_bytes(after)}"
    document = {"path": path, "bytes_before": before, "bytes_after": after, "bytes_freed": freed}
    return Reply(document, text if freed else f"no unused space in {path}")


@command("migrate")
@Argument("--from SOURCE", f"the store to move: {PLACES}", dest="source", required=True)
@Argument("--to TARGET", "the store to move it to, in the same forms; created if it does not exist", required=True)
@Argument("--project P", "move only this project (default: all projects)")
@Argument("--merge", "keep records that exist only in the target")
@Argument("--dry-run", "only report what would be copied")
@_TRUST
def migrate(call: Call) -> Reply:
    """Move a memory to another store while it is in use, and compare both. If interrupted, run it again to resume.

    Do not use the target before the command has finished. Rules stay active, so only a person may move them, or with
    --yes a script that no agent runs.
    """
    args = call.args
    if not args.dry_run:
        call.require_person("`alma migrate`", can_script=args.yes)
    options = {name: getattr(args, name) for name in ("project", "merge", "dry_run")}
    report = migrate_places(args.source, args.to, **options, progress=call.out.progress)
    done = f"{'would copy' if args.dry_run else 'copied'} {count(report.copied, 'record')}"
    done += "".join(f", {number} {what}" for number, what in (
        (report.unchanged, "already there"), (report.deleted, "deleted"), (report.kept, "newer in the target, kept"),
    ) if number)  # fmt: skip
    searches = ", ".join(f"by {name} {share:.1%}" for name, share in report.agreement.items())
    compared = f"both stores agree: {count(report.records, 'record')}, checksum {report.checksum}"
    return Reply(
        {"dry_run": args.dry_run, **asdict(report)},
        done,
        "" if args.dry_run else compared,
        f"sample searches with the same hits: {searches}" if searches else "",
        {"projects": report.projects},
        "" if args.dry_run else "Now set `storage` in your configuration.",
    )


def set_exact(stream: IO[str], encoding: str) -> IO[str]:
    """Set a stream to read or write exactly like a file, whatever the terminal's encoding."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding=encoding, errors="strict", newline="\n")
    return stream


_OTHER_FORMATS = frozenset((".csv", ".tsv", ".xlsx", ".xls", ".parquet", ".yaml", ".yml", ".xml", ".md", ".db", ".zip"))


@command("export", matching=False)
@Argument("FILE", "the new file to write ('-' for standard output)")
@Argument("--no-vectors", "leave out embeddings; the import computes them again")
def export(call: Call) -> Reply | int:
    """Export the whole memory as JSON Lines."""
    target, vectors = Path(call.args.file), not call.args.no_vectors
    if target.suffix.lower() in _OTHER_FORMATS:
        raise ValidationError(
            f"{target.name} would not be {target.suffix[1:].upper()}: `alma export` writes JSON Lines; "
            f"name the file {target.stem}.jsonl"
        )
    if call.args.file == "-":
        stream = set_exact(sys.stdout, "utf-8")
        for line in upkeep.export_lines(call.alma, vectors=vectors):
            stream.write(f"{line}\n")
        return 0
    records = upkeep.export_to(call.alma, target, vectors=vectors, progress=call.out.progress)
    size = target.stat().st_size
    text = f"wrote {count(records, 'record')} to {target} ({format_bytes(size)})"
    return Reply({"path": target, "records": records, "bytes": size}, text)


@command("backup", matching=False)
@Argument("FILE", "the new file to write; existing files are not overwritten")
def backup(call: Call) -> Reply:
    """Copy the store to a new file while it is in use."""
    path = Path(call.args.file)
    size = upkeep.backup(call.alma, path, call.out.progress)
    return Reply({"path": path, "bytes": size}, f"copied to {path} ({format_bytes(size)})")


def _describe_binary(path: str) -> str:
    """Return how to bring the memories of a database along; empty if the file is none."""
    with suppress(OSError), open(path, "rb") as file:
        if file.read(16) == b"SQLite format 3\0":
            return (
                f"{path} is a database, not an export. Move a store with `alma migrate --from sqlite:{path} --to …`; "
                "for one of alma-memory 0.x, run: python examples/migrate/import_alma_0.py PATH (in alma's clone)"
            )
    return ""


@command("import")
@Argument("FILE", "a file written by `alma export` ('-' for standard input)")
@Argument("--dry-run", "only report what would be imported")
@Argument("--trusted", "the file is your own export: import it unchanged", group="either")
@Argument("--yes", "same as --trusted", group="either", dest="trusted")
@Argument("--untrusted", "the file is not your own: everything waits for your review", group="either")
@Argument("--keep-project", "keep the project of the exported memories")
def import_(call: Call) -> Reply:
    """Import a file written by `alma export`. Importing it again changes nothing.

    On a terminal, you are asked whether the file is your own export.
    """
    args, out = call.args, call.out
    if args.trusted and not args.dry_run:
        call.require_person("`alma import --trusted`")
    # Deletions in a file that an agent wrote are not the person's.
    is_untrusted = args.untrusted or bool(call.agent_above)
    source = "standard input" if args.file == "-" else args.file
    can_ask = args.file != "-" and not args.dry_run and not out.as_json and sys.stdin.isatty()
    can_ask = can_ask and not call.why_limited
    claims = ""

    def confirm(records: list[Any]) -> bool:
        nonlocal claims
        rules = [one.body["line"] for one in records if one.kind == "rule" and one.status == "active"]
        own = count_memories(len(records) - len(rules))
        claims = f"{count(len(rules), 'active rule')} and {own} stated by a person"
        if can_ask:
            out.section("active rules", rules)
        question = "Is it your own export? y imports it unchanged, n imports its memories for review."
        return can_ask and out.confirm(f"The file contains {claims}. {question}")

    try:
        text: Any = nullcontext(set_exact(sys.stdin, "utf-8-sig"))
        with text if args.file == "-" else open(args.file, encoding="utf-8-sig", newline="\n") as lines:
            taken, project, still_waiting = upkeep.import_from(
                call.alma,
                lines,
                source,
                trusted=True if args.trusted else False if is_untrusted else None,
                keep_project=args.keep_project,
                dry_run=args.dry_run,
                confirm=confirm,
                progress=out.progress,
            )
    except UnicodeDecodeError as error:
        raise ValidationError(_describe_binary(source) or f"cannot read {source}: {error}") from error
    except OSError as error:
        raise ValidationError(f"cannot read {source}: {error.strerror}") from error
    numbers = asdict(taken)
    done = ", ".join(f"{number} {_IMPORTED.get(name, name)}" for name, number in numbers.items() if number)
    if done and not taken.added + taken.updated + taken.embedded:
        done = f"nothing {'would change' if args.dry_run else 'changed'}: {done}"
    elif args.dry_run:
        done = f"would import: {done}"
    review = f"{claims}: not trusted, so rules wait for your review. If the export is your own, pass --trusted"
    waiting = f"still waiting for your review: {still_waiting} (importing again does not change that)"
    elsewhere = f"they belong to project {project!r}; to see them, use a configuration with that project_id"
    return Reply(
        {"dry_run": args.dry_run, **numbers},
        done if any(numbers.values()) else "nothing to import",
        review if claims and not can_ask else "",
        f"{waiting}: {REVIEW}" if still_waiting and not args.dry_run else "",
        elsewhere if project != call.alma.project_id else "",
    )
