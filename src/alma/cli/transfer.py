"""`alma export`, `alma import` and `alma backup`: the whole memory, elsewhere."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ..errors import ValidationError
from ..types.kinds import MemoryType
from ..types.record import Record, Status
from .marks import amount, counted
from .opening import Later, opened
from .output import Output
from .parser import Subparsers, listed
from .shapes import line

if TYPE_CHECKING:
    from .. import transfer as api
else:
    api = Later("alma.transfer")


_SHOWN = 20


def register(commands: Subparsers) -> None:
    _register_export(commands)
    _register_import(commands)
    parser = listed(commands, "backup", backup, "alma backup alma-2026-05-07.db")
    parser.add_argument("file", metavar="FILE", help="a new file; nothing is overwritten")


def _register_export(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "export",
        export,
        """
        alma export memory.jsonl
        alma export - | gzip > memory.jsonl.gz
        """,
    )
    parser.add_argument("file", metavar="FILE", help="a new file ('-': standard output)")
    parser.add_argument(
        "--no-vectors", action="store_true", help="leave the embeddings out; whoever takes it in makes them anew"
    )


def _register_import(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "import",
        take_in,
        """
        alma import memory.jsonl --dry-run
        alma import memory.jsonl --trusted      # my own export: take it in exactly as it is
        gunzip -c memory.jsonl.gz | alma import - --trusted
        """,
    )
    parser.add_argument("file", metavar="FILE", help="what `alma export` wrote ('-': standard input)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would become of it")
    trust = parser.add_mutually_exclusive_group()
    trust.add_argument(
        "--trusted",
        "--yes",
        action="store_true",
        help="it is your own export: take its rules and your own words as they are, without asking",
    )
    trust.add_argument(
        "--untrusted",
        action="store_true",
        help="it is somebody else's: let it wait for your review, and obey none of it",
    )
    parser.add_argument(
        "--keep-project", action="store_true", help="take in another project's memories as that project's"
    )


def export(args: argparse.Namespace, out: Output) -> int:
    with opened(args, matching=False) as alma:
        if args.file == "-":
            _exact(sys.stdout, "utf-8")
            for line in api.export_lines(alma, vectors=not args.no_vectors):
                sys.stdout.write(f"{line}\n")
            return 0
        target = Path(args.file)
        with out.progress("exporting") as progress:
            count = api.export_to(alma, target, vectors=not args.no_vectors, progress=progress)
    if not out.answered({"path": target, "records": count, "bytes": target.stat().st_size}):
        out.line(f"wrote {counted(count, 'record')} to {target} ({amount(target.stat().st_size)})")
    return 0


def take_in(args: argparse.Namespace, out: Output) -> int:
    claims: list[Record] = []

    def confirm(found: list[Record]) -> bool:
        claims.extend(found)
        return _is_own(found, out) if _can_ask(args, out) else False

    with opened(args) as alma, _read(args.file) as source, out.progress("importing") as progress:
        taken = api.import_from(
            alma,
            source,
            "standard input" if args.file == "-" else args.file,
            trusted=True if args.trusted else False if args.untrusted else None,
            keep_project=args.keep_project,
            dry_run=args.dry_run,
            confirm=confirm,
            progress=progress,
        )
    if not out.answered({"dry_run": args.dry_run, **_told(taken)}):
        would = "would be " if args.dry_run else ""
        said = [f"{count} {name.replace('_', ' ')}" for name, count in _told(taken).items() if count]
        out.line(f"{would}{', '.join(said)}" if said else "there was nothing in it")
        if claims and not _can_ask(args, out):
            out.line(
                f"{_claimed(claims)} not taken as such: rules wait for your review. --trusted takes your own export"
            )
    return 0


def _can_ask(args: argparse.Namespace, out: Output) -> bool:
    return args.file != "-" and not args.dry_run and not out.as_json and sys.stdin.isatty()


def _is_own(claims: list[Record], out: Output) -> bool:
    rules = [one for one in claims if one.kind == MemoryType.RULE and one.status is Status.ACTIVE]
    for rule in rules[:_SHOWN]:
        out.show(line(f"  {rule.body['line']}"))
    if len(rules) > _SHOWN:
        out.line(f"  and {len(rules) - _SHOWN} more")
    return out.confirm(f"The file holds {_claimed(claims)}. Is it your own export, to be taken in as it is?")


def _claimed(claims: list[Record]) -> str:
    rules = sum(one.kind == MemoryType.RULE and one.status is Status.ACTIVE for one in claims)
    own, words = len(claims) - rules, "recorded as a person's own words"
    parts = [counted(rules, "active rule")] if rules else []
    parts += [f"{counted(own, 'memory', 'memories')} {words}"] if own else []
    return " and ".join(parts)


def _told(taken: api.Taken) -> dict[str, int]:
    return {
        "added": taken.added,
        "updated": taken.updated,
        "known": taken.known,
        "erased": taken.erased,
        "embedded": taken.embedded,
        "waiting": taken.waiting,
        "left_out": taken.left_out,
    }


@contextmanager
def _read(source: str) -> Iterator[IO[str]]:
    try:
        if source == "-":
            _exact(sys.stdin, "utf-8-sig")
            yield sys.stdin
        else:
            with open(source, encoding="utf-8-sig", newline="\n") as file:
                yield file
    except (OSError, UnicodeDecodeError) as error:
        name = "standard input" if source == "-" else source
        raise ValidationError(f"{name} cannot be read: {error}") from error


def _exact(stream: IO[str], encoding: str) -> None:
    """As in a file, whatever the terminal speaks: no character is lost, no line end changed."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding=encoding, errors="strict", newline="\n")


def backup(args: argparse.Namespace, out: Output) -> int:
    with opened(args, matching=False) as alma, out.progress("copying") as progress:
        made = api.backup(alma, Path(args.file), progress)
    if not out.answered(made):
        out.line(f"copied to {made.path} ({amount(made.bytes)})")
    return 0
