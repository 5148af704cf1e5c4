"""`alma work` and `alma progress`: what is to be done, by whom, and how far it is."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import NotFoundError, ValidationError
from .draw_work import Around, changed, changes, item_card, items_table, line_of, logs_table, next_one, summary
from .marks import counted
from .opening import Later, opened
from .output import Output
from .parser import Run, Subparsers, add_choice, add_tags, command, given, grouped, listed
from .reading import json_of

if TYPE_CHECKING:
    from ..api import work as api
    from ..api.values import WorkItem
    from ..core import ALMA
else:
    api = Later("alma.api.work")

STATUSES = ("pending", "in_progress", "blocked", "review", "done", "failed")
STRATEGIES = ("priority", "blocked_unblock", "quick_win", "fifo")
_SEVERAL = 200

_EXAMPLES = """
alma work add "Fix the login bug" --priority 80 --agent victor
alma work next --agent victor --claim
alma work status wrk_01k… done --note "it was the cache"
alma work list --status blocked
"""


def register(commands: Subparsers) -> None:
    work = grouped(commands, "work", _EXAMPLES)
    _register_add(work)
    _register_list(work)
    _register_looking(work)
    _register_next(work)
    _register_status(work)
    _register_edit(work)
    _register_blocking(work)
    _register_test(work)
    _register_claims(work)
    _register_putting_away(work)
    _register_progress(commands)


def _one(
    work: Subparsers, name: str, run: Run, help: str, examples: str, *, by: bool = False
) -> argparse.ArgumentParser:
    """A command on one item, which it names."""
    parser = command(work, name, run, help, examples)
    parser.add_argument("id", metavar="ID", help="the work item")
    if by:
        parser.add_argument("--by", metavar="A", help="who makes the change")
    return parser


# -- add and edit


def _register_add(work: Subparsers) -> None:
    parser = command(
        work,
        "add",
        add,
        "add a work item; with a blocker that is not done it begins as blocked",
        """
        alma work add "Fix the login bug" --priority 80 --agent victor --type bug
        alma work add "Write release notes" --blocked-by wrk_01k… --estimate 30
        """,
    )
    parser.add_argument("title", metavar="TITLE", help="what is to be done, in a few words")
    _add_fields(parser)
    parser.add_argument("--agent", metavar="A", help="whose it is; without it anybody's")
    parser.add_argument(
        "--blocked-by", metavar="ID", action="append", help="an item that must be done first; may be repeated"
    )
    parser.add_argument("--blocks", metavar="ID", action="append", help="an item that waits for it; may be repeated")


def _add_fields(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--description", metavar="TEXT", help="all there is to say about it")
    parser.add_argument("--type", metavar="TYPE", dest="item_type", help="such as task (default), feature or bug")
    parser.add_argument("--priority", metavar="N", type=int, help="0 to 100 (default 50); the greater, the sooner")
    parser.add_argument("--parent", metavar="ID", dest="parent_id", help="the item it is a part of")
    parser.add_argument(
        "--test", metavar="NAME", dest="tests", action="append", help="a test that must pass; may be repeated"
    )
    parser.add_argument("--estimate", metavar="MIN", dest="estimate_minutes", type=float, help="in minutes")
    add_tags(parser)
    parser.add_argument("--metadata", metavar="JSON", help="a JSON object of your own")


_FIELDS = ("title", "description", "item_type", "priority", "parent_id", "tests", "estimate_minutes", "tags")


def _told(args: argparse.Namespace, *more: str) -> dict[str, Any]:
    told = given(args, *_FIELDS, *more)
    if args.metadata is not None:
        told["metadata"] = json_of("metadata", args.metadata)
    return told


def add(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        item = api.create_work_item(alma, **_told(args, "agent", "blocked_by", "blocks"))
        return _changed(out, alma, "added", item)


def _register_edit(work: Subparsers) -> None:
    parser = _one(
        work,
        "edit",
        edit,
        "change what an item says; only what is given changes",
        """
        alma work edit wrk_01k… --priority 95 --owner victor
        alma work edit wrk_01k… --parent "" --owner ""       # a part of nothing, and anybody's
        """,
        by=True,
    )
    parser.add_argument("--title", metavar="TEXT")
    _add_fields(parser)
    parser.add_argument("--owner", metavar="A", help="whose it is from now on; '' for anybody's")


def edit(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        item = api.update_work_item(alma, args.id, agent=args.by, **_told(args, "owner"))
        return _changed(out, alma, "changed", item)


# -- looking


def _register_list(work: Subparsers) -> None:
    parser = command(
        work,
        "list",
        list_items,
        "list work items, the most urgent first",
        """
        alma work list --status pending --status blocked
        alma work list --agent victor --type bug --limit 10
        alma work list --parent wrk_01k…
        """,
    )
    add_choice(parser, "--status", STATUSES, "only these; may be repeated", metavar="S", action="append")
    parser.add_argument("--agent", metavar="A", help="only this agent's")
    parser.add_argument("--type", metavar="TYPE", dest="item_type", help="only items of this type")
    parser.add_argument("--parent", metavar="ID", dest="parent_id", help="only parts of this item")
    parser.add_argument("--tag", metavar="TAG", help="only what has this tag")
    parser.add_argument("--archived", action="store_true", help="archived ones, too")
    parser.add_argument("--limit", metavar="N", type=int, default=50, help="at most so many (default 50)")


def list_items(args: argparse.Namespace, out: Output) -> int:
    filters = given(args, "status", "agent", "item_type", "parent_id", "tag", "archived", "limit")
    with opened(args) as alma:
        items = api.list_work_items(alma, **filters)
        return _listed(out, alma, items)


def _listed(out: Output, alma: ALMA, items: Sequence[WorkItem]) -> int:
    if not out.answered({"count": len(items), "items": items}):
        out.show(items_table(items, _around(alma, items)))
    return 0


def _around(alma: ALMA, items: Iterable[WorkItem]) -> Around:
    """The items that these name, to be called by their titles."""
    known = {item.id: item for item in items}
    named = [id for item in known.values() for id in (*item.waiting_for, *([item.parent_id] if item.parent_id else []))]
    for id in list(dict.fromkeys(named))[:_SEVERAL]:
        if id not in known:
            known[id] = api.get_work_item(alma, id)
    return Around(known, alma.engine.clock())


def _register_looking(work: Subparsers) -> None:
    _one(
        work,
        "show",
        show,
        "show all that is known of an item, with its parts and its history",
        "alma work show wrk_01k…",
    )
    searching = command(
        work,
        "search",
        search,
        "find items by the words of their titles and descriptions",
        'alma work search "login" --limit 5',
    )
    searching.add_argument("query", metavar="WORDS")
    searching.add_argument("--limit", metavar="N", type=int, default=10, help="at most so many (default 10)")
    _one(work, "history", history, "show who changed what of an item, oldest first", "alma work history wrk_01k…")


def show(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        item = api.get_work_item(alma, args.id)
        parts = api.list_work_items(alma, parent_id=item.id, archived=True, limit=_SEVERAL)
        past = api.work_item_history(alma, item.id)
        if not out.answered({"item": item, "parts": parts, "history": past}):
            blocked = [api.get_work_item(alma, id) for id in (*item.blocks, *item.blocked_by)]
            around = _around(alma, [item, *parts, *blocked])
            out.show(*item_card(item, parts, around), *changes(past))
    return 0


def search(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        return _listed(out, alma, api.search_work_items(alma, args.query, args.limit))


def history(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        past = api.work_item_history(alma, args.id)
    if not out.answered({"id": args.id, "history": past}):
        out.show(*changes(past))
    return 0


# -- doing


def _register_next(work: Subparsers) -> None:
    parser = command(
        work,
        "next",
        next_item,
        "say what to work on next: nothing blocked, being worked on, or another agent's",
        """
        alma work next --agent victor
        alma work next --agent victor --claim --lease 1800
        alma work next --strategy quick_win --json
        """,
    )
    parser.add_argument("--agent", metavar="A", help="who asks; without it anybody")
    add_choice(parser, "--strategy", STRATEGIES, "what comes first", metavar="S", default="priority")
    parser.add_argument("--claim", action="store_true", help="take it at once, so that nobody else gets it")
    _add_lease(parser)


def _add_lease(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lease", metavar="SEC", dest="lease_seconds", type=float, help="claim it for so long (default 900 seconds)"
    )


def next_item(args: argparse.Namespace, out: Output) -> int:
    if args.claim and args.agent is None:
        raise ValidationError("--claim needs --agent: who takes it?")
    with opened(args) as alma:
        found = api.get_next_item(alma, **given(args, "agent", "strategy", "claim", "lease_seconds"))
        if not out.answered(found):
            around = _around(alma, [found.item] if found.item else [])
            out.show(*next_one(found.item, found.waiting, around, args.agent))
    return 0


def _register_status(work: Subparsers) -> None:
    parser = _one(
        work,
        "status",
        status,
        "move an item to another status; done frees what waited for it",
        """
        alma work status wrk_01k… in_progress --by victor
        alma work status wrk_01k… done --note "it was the cache"
        """,
        by=True,
    )
    add_choice(parser, "status", STATUSES, metavar="STATUS")
    parser.add_argument("--note", metavar="TEXT", help="a word about it")


def status(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        item = api.update_progress(alma, args.id, args.status, args.note, args.by)
        return _changed(out, alma, "now", item, _freed(alma, item))


def _freed(alma: ALMA, item: WorkItem) -> list[WorkItem]:
    """What waited for the item, and now can be begun."""
    blocked = [api.get_work_item(alma, id) for id in item.blocks] if item.status == "done" else []
    return [one for one in blocked if one.status == "pending"]


def _register_blocking(work: Subparsers) -> None:
    blocking = _one(
        work,
        "block",
        block,
        "let an item wait for another; a circle is refused",
        "alma work block ID --on BLOCKER",
        by=True,
    )
    blocking.add_argument("--on", metavar="ID", dest="blocker_id", required=True, help="what must be done first")
    freeing = _one(
        work,
        "unblock",
        unblock,
        "let an item wait for another no longer",
        "alma work unblock ID --from BLOCKER",
        by=True,
    )
    freeing.add_argument("--from", metavar="ID", dest="blocker_id", required=True, help="what it need not wait for")


def block(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        return _changed(out, alma, "now", api.add_blocker(alma, args.id, args.blocker_id, args.by))


def unblock(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        return _changed(out, alma, "now", api.remove_blocker(alma, args.id, args.blocker_id, args.by))


def _register_test(work: Subparsers) -> None:
    parser = _one(
        work,
        "test",
        test,
        "record how a test of an item went; a new name is added to its tests",
        "alma work test wrk_01k… test_login --pass",
        by=True,
    )
    parser.add_argument("test", metavar="NAME", help="the test's name")
    went = parser.add_mutually_exclusive_group(required=True)
    went.add_argument("--pass", dest="passing", action="store_true", help="it passed")
    went.add_argument("--fail", dest="passing", action="store_false", help="it failed")


def test(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        return _changed(out, alma, "tested", api.record_test(alma, args.id, args.test, args.passing, args.by))


def _register_claims(work: Subparsers) -> None:
    claiming = _one(
        work,
        "claim",
        claim,
        "take an item for an agent, so that nobody else gets it; one's own claim is renewed",
        "alma work claim wrk_01k… --agent victor --lease 1800",
    )
    claiming.add_argument("--agent", metavar="A", required=True, help="who takes it")
    _add_lease(claiming)
    releasing = _one(
        work, "release", release, "give a claimed item back unfinished", "alma work release wrk_01k… --agent victor"
    )
    releasing.add_argument("--agent", metavar="A", required=True, help="who has it")
    releasing.add_argument("--note", metavar="TEXT", help="a word about it")


def claim(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        item = api.claim_work_item(alma, args.id, args.agent, **given(args, "lease_seconds"))
        return _changed(out, alma, "claimed", item)


def release(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        return _changed(out, alma, "released", api.release_work_item(alma, args.id, args.agent, args.note))


# -- putting away


def _register_putting_away(work: Subparsers) -> None:
    parser = command(
        work,
        "archive",
        archive,
        "put an item away, or all that are done; it is neither listed nor counted",
        """
        alma work archive wrk_01k…
        alma work archive --finished --older-than 14
        """,
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="the work item")
    parser.add_argument("--by", metavar="A", help="who makes the change")
    parser.add_argument("--finished", action="store_true", help="all that are done")
    parser.add_argument("--older-than", metavar="DAYS", type=float, help="and not touched for so long (default 30)")
    _one(work, "restore", restore, "take an archived item back", "alma work restore wrk_01k…", by=True)
    deleting = _one(
        work,
        "delete",
        delete,
        "erase an item and its history; what waited for it waits no longer",
        "alma work delete wrk_01k… --yes",
        by=True,
    )
    deleting.add_argument("--yes", action="store_true", help="do not ask")


def archive(args: argparse.Namespace, out: Output) -> int:
    if (args.id is None) is not args.finished:
        raise ValidationError("archive wants the ID of an item, or --finished for all that are done; not both")
    if args.older_than is not None and not args.finished:
        raise ValidationError("--older-than goes with --finished")
    with opened(args) as alma:
        if args.id is not None:
            return _changed(out, alma, "archived", api.archive_work_item(alma, args.id, args.by))
        gone = api.archive_finished(alma, 30.0 if args.older_than is None else args.older_than)
    if not out.answered(gone):
        out.line(f"archived {counted(gone.count, 'item')}" if gone.count else "nothing to archive")
    return 0


def restore(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        return _changed(out, alma, "restored", api.restore_work_item(alma, args.id, args.by))


def delete(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        item = api.get_work_item(alma, args.id)
        if not args.yes:
            if not out.as_json:
                out.show(line_of(item))
            if not out.confirm("Erase it and its history for good?"):
                out.line("nothing was erased")
                return 0
        gone = api.delete_work_item(alma, item.id, args.by)
    if not out.answered({"deleted": gone.id}):
        out.line(f"erased {gone.id}")
    return 0


def _changed(out: Output, alma: ALMA, verb: str, item: WorkItem, freed: Sequence[WorkItem] = ()) -> int:
    if out.answered({"item": item, **({"freed": freed} if freed else {})}):
        return 0
    out.show(changed(verb, item, _around(alma, [item])))
    for one in freed:
        out.show(line_of(one, "now free  "))
    return 0


# -- progress


def _register_progress(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "progress",
        progress,
        """
        alma progress
        alma progress --agent victor
        alma progress --log --session ses_01k…
        """,
    )
    parser.add_argument("--agent", metavar="A", help="only this agent's")
    parser.add_argument("--log", action="store_true", help="where sessions stood when they noted it, newest first")
    parser.add_argument("--session", metavar="S", dest="session_id", help="with --log: only of this session")
    parser.add_argument("--limit", metavar="N", type=int, help="with --log: at most so many (default 50)")


def progress(args: argparse.Namespace, out: Output) -> int:
    if args.log:
        return _logs(args, out)
    if given(args, "session_id", "limit"):
        raise ValidationError("--session and --limit go with --log")
    with opened(args) as alma:
        found = api.progress_summary(alma, args.agent)
        if not out.answered(found):
            out.show(*summary(found, _around(alma, (*found.current, *found.blocked))))
    return 0


def _logs(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        logs = api.progress_logs(alma, **given(args, "agent", "session_id", "limit"))
        if not out.answered({"count": len(logs), "logs": logs}):
            out.show(logs_table(logs, {id: _title(alma, id) for log in logs if (id := log.current_item_id)}))
    return 0


def _title(alma: ALMA, id: str) -> str:
    """An item may have been erased since."""
    try:
        return str(api.get_work_item(alma, id).title)
    except NotFoundError:
        return id
