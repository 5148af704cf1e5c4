"""Looking after the whole: forget, reconcile, stats, reindex, vacuum, erase-user."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ValidationError
from .draw import counts, listing
from .marks import amount, counted
from .opening import Later, opened
from .output import Output
from .parser import Subparsers, listed

if TYPE_CHECKING:
    from ..api import memories as api
else:
    api = Later("alma.api.memories")

_SHOWN = 50
_WORDS_ONLY = "none (words only)"


def register(commands: Subparsers) -> None:
    _register_forget(commands)
    reconciling = listed(commands, "reconcile", reconcile, "alma reconcile --limit 40")
    reconciling.add_argument("--limit", metavar="N", type=int, default=400, help="compare at most N pairs; default 400")
    stats_parser = listed(commands, "stats", stats, "alma stats --agent ops")
    stats_parser.add_argument("--agent", metavar="A")
    stats_parser.add_argument("--user", metavar="U", dest="user_id", help="only what this user sees")
    listed(commands, "health", health, "alma health --json")
    listed(
        commands,
        "reindex",
        reindex,
        "alma reindex",
    )
    listed(
        commands,
        "vacuum",
        vacuum,
        "alma vacuum",
    )
    erasing = listed(commands, "erase-user", erase_user, "alma erase-user ana --yes")
    erasing.add_argument("user_id", metavar="USER")
    erasing.add_argument("--yes", action="store_true", help="do not ask")


def _register_forget(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "forget",
        forget,
        """
        alma forget --dry-run
        alma forget --agent ops --older-than-days 30 --below-confidence 0.5 --yes
        """,
    )
    parser.add_argument("--agent", metavar="A")
    parser.add_argument("--older-than-days", metavar="DAYS", type=float, default=90.0, help="default 90")
    parser.add_argument("--below-confidence", metavar="C", type=float, default=0.3, help="default 0.3")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be forgotten")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def forget(args: argparse.Namespace, out: Output) -> int:
    policy = (args.agent, args.older_than_days, args.below_confidence)
    with opened(args) as alma:
        due = api.forget(alma, *policy, dry_run=True).ids
        if not out.as_json and due:
            shown = [api.get_memory(alma, one) for one in due[:_SHOWN]]
            out.show(listing(shown, more=max(0, len(due) - _SHOWN)))
        if args.dry_run or not due:
            return _forgotten(out, due, dry_run=args.dry_run)
        if not (args.yes or out.confirm(f"Archive {_memories(len(due))}?")):
            out.line("nothing was forgotten")
            return 0
        return _forgotten(out, api.forget(alma, *policy).ids, dry_run=False)


def _forgotten(out: Output, ids: Sequence[str], *, dry_run: bool) -> int:
    if not out.answered({"dry_run": dry_run, "count": len(ids), "ids": ids}):
        verb = "would be archived" if dry_run else "archived"
        out.line(f"{_memories(len(ids))} {verb}" if ids else "nothing to forget")
    return 0


def reconcile(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        done = api.reconcile(alma, args.limit)
    if not out.answered(done):
        compared = f"{counted(done.compared, 'pair', 'pairs')} compared, {_memories(len(done.superseded))} superseded"
        out.line(f"{compared}, {done.apart} apart, {done.waiting} waiting")
        if done.problem:
            out.line(done.problem)
    return 0


def _memories(count: int) -> str:
    return counted(count, "memory", "memories")


def stats(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = api.stats(alma, args.agent, args.user_id)
    if not out.answered(found):
        out.show(*counts(found))
    return 0


def health(args: argparse.Namespace, out: Output) -> int:
    with opened(args, matching=False) as alma:
        found = api.health(alma)
    if not out.answered(found):
        how = f"embedder: {found.embedder or _WORDS_ONLY}"
        well = f"well: {_memories(found.memories)} of {found.project_id}, {how}"
        out.line(well if found.ok else f"not well: {'; '.join(found.problems)}")
    return 0 if found.ok else 1


def reindex(args: argparse.Namespace, out: Output) -> int:
    from ..doctor import embedded_by

    with opened(args, matching=False) as alma:
        before = embedded_by(alma) or "none"
        after = alma.engine.embedder_name or _WORDS_ONLY
        if not out.as_json:
            out.line(f"from {before} to {after}")
        with out.progress("embedding") as progress:
            moved = alma.reindex(progress)
    if not out.answered({"from": before, "to": after, "moved": moved}):
        out.line(f"{moved} records embedded anew" if moved else "everything is embedded already")
    return 0


def vacuum(args: argparse.Namespace, out: Output) -> int:
    with opened(args, matching=False) as alma:
        store: Any = alma.engine.store
        if not hasattr(store, "vacuum"):
            raise ValidationError(f"{type(store).__name__} keeps nothing in files, so there is nothing to vacuum")
        path = Path(store.path)
        before = _size(path)
        alma.vacuum()
        after = _size(path)
    freed = max(0, before - after)
    if not out.answered({"path": path, "bytes_before": before, "bytes_after": after, "bytes_freed": freed}):
        out.line(f"{amount(freed)} came back; {path} takes {amount(after)}" if freed else _NOTHING_FREED.format(path))
    return 0


def erase_user(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        if not (
            args.yes or out.confirm(f"Erase everything of the user {args.user_id!r} in {alma.project_id} for good?")
        ):
            out.line("nothing was erased")
            return 0
        erased = api.erase_user(alma, args.user_id)
    if not out.answered(erased):
        kinds = ", ".join(f"{count} {kind}" for kind, count in erased.counts.items())
        out.line(f"erased {_memories(sum(erased.counts.values()))} of {args.user_id}{f' ({kinds})' if kinds else ''}")
    return 0


_NOTHING_FREED = "there was no unused space in {}"


def _size(path: Path) -> int:
    """The file and what waits beside it to be written into it."""
    return sum(part.stat().st_size for part in (path, Path(f"{path}-wal")) if part.exists())
