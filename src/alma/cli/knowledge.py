"""`alma ingest`, `alma learn-from` and `alma usage`: where knowledge comes from, and what models were asked for it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ValidationError
from .draw_knowledge import ingested, learnt, to_be_read, used
from .opening import Later, opened
from .output import Output
from .parser import Subparsers, add_choice, add_source, given, listed
from .reading import objects, read

if TYPE_CHECKING:
    from .. import knowledge as api
    from ..core import ALMA
else:
    api = Later("alma.knowledge")

ONLY = ("everything", "documents", "chats")
_INGEST = ("user_id", "only", "own", "branches", "max_file_bytes", "dry_run")
_PLAN = ("only", "own", "max_file_bytes")


def register(commands: Subparsers) -> None:
    _register_ingest(commands)
    _register_learn_from(commands)
    parser = listed(commands, "usage", usage, "alma usage --days 7")
    parser.add_argument("--days", metavar="N", type=int, default=30, help="the last so many days of use (default 30)")


# -- ingest


def _register_ingest(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "ingest",
        ingest,
        """
        alma ingest ~/Downloads/chatgpt-export.zip --agent dev --user ana
        alma ingest . --plan                        # what would be read as what; nothing is
        alma ingest docs --agent dev --only documents --dry-run
        alma ingest notes --agent dev --own         # my own notes: learn from them at once
        """,
    )
    parser.add_argument("path", metavar="PATH", help="a file, a folder or an export, also as a zip")
    parser.add_argument("--agent", metavar="A", help="whose memory it is")
    parser.add_argument("--user", metavar="U", dest="user_id", help="whose words the person's are")
    add_choice(parser, "--only", ONLY, "what to read", metavar="WHAT", default="everything")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument(
        "--own", action="store_true", default=None, help="these are the person's own words (default: chats are)"
    )
    whose.add_argument(
        "--not-own", dest="own", action="store_false", default=None, help="they are others': what they say waits"
    )
    parser.add_argument("--branches", action="store_true", help="keep abandoned branches of conversations, too")
    parser.add_argument(
        "--max-file-bytes", metavar="N", type=int, help="skip documents that are larger (default 2 MiB)"
    )
    parser.add_argument("--dry-run", action="store_true", help="read everything, keep nothing, say what would be kept")
    parser.add_argument("--plan", action="store_true", help="only say which files would be read, and as what")


def ingest(args: argparse.Namespace, out: Output) -> int:
    if args.plan:
        plan = api.reading(args.path, **given(args, *_PLAN))
        if not out.answered(plan):
            out.show(*to_be_read(plan))
        return 0
    if args.agent is None:
        raise ValidationError("ingest needs --agent: whose memory is it? (--plan needs none)")
    with opened(args) as alma, out.progress("reading", of_bytes=True) as progress:
        result = api.ingest(alma, args.path, args.agent, progress=progress, **given(args, *_INGEST))
    if not out.answered(result):
        out.show(*ingested(result, Path(args.path).expanduser().resolve()))
    return 0


# -- learn-from


def _register_learn_from(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "learn-from",
        learn_from,
        """
        alma learn-from chat.jsonl --agent helena --user ana
        alma learn-from minutes.md --text --agent helena --dry-run
        export_chat | alma learn-from - --agent helena --session monday --save-episode
        alma learn-from issue.json --agent helena --untrusted    # of others: it waits for you
        """,
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="messages, as a JSON list or JSON Lines ('-': standard input), each with role and content, and perhaps at "
        "and id",
    )
    parser.add_argument("--agent", metavar="A", required=True, help="whose memory it is")
    parser.add_argument("--user", metavar="U", dest="user_id", help="the person who speaks in it")
    parser.add_argument("--session", metavar="S", dest="session_id", help="which conversation it is")
    parser.add_argument("--text", action="store_true", help="FILE is no conversation but a note or a page")
    parser.add_argument("--name", metavar="NAME", help="what the note is called (default: FILE); goes with --text")
    parser.add_argument("--save-episode", action="store_true", help="keep the conversation itself, too")
    parser.add_argument(
        "--min-confidence", metavar="C", type=float, default=0.5, help="leave out what is less sure (default 0.5)"
    )
    parser.add_argument(
        "--untrusted", dest="trusted", action="store_false", help="the words of others: what they say waits for you"
    )
    add_source(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be kept")


_BOTH = ("user_id", "dry_run", "min_confidence", "trusted", "source")


def learn_from(args: argparse.Namespace, out: Output) -> int:
    _fitting(args)
    with opened(args) as alma:
        found = _from_text(args, alma) if args.text else _from_conversation(args, alma)
    if not out.answered(found):
        out.show(*learnt(found, turns=not args.text))
    return 0


def _fitting(args: argparse.Namespace) -> None:
    if args.text and (args.session_id or args.save_episode):
        option = "--session" if args.session_id else "--save-episode"
        raise ValidationError(f"{option} belongs to a conversation and does not go with --text")
    if args.name and not args.text:
        raise ValidationError("--name goes with --text; a conversation is named by --session")


def _from_text(args: argparse.Namespace, alma: ALMA) -> api.Learnt:
    name = args.name or ("standard input" if args.file == "-" else Path(args.file).name)
    return api.learn_from_text(alma, read(args.file), args.agent, name=name, **given(args, *_BOTH))


def _from_conversation(args: argparse.Namespace, alma: ALMA) -> api.Learnt:
    messages = objects(args.file, "role and content")
    if not messages:
        raise ValidationError(f"{args.file} holds no message; nothing was recorded")
    told = given(args, *_BOTH, "session_id", "save_episode")
    return api.learn_from_conversation(alma, [message for _, message in messages], args.agent, **told)


# -- usage


def usage(args: argparse.Namespace, out: Output) -> int:
    with opened(args, matching=False) as alma:
        found = api.usage(alma, args.days)
    if not out.answered(found):
        out.show(*used(found))
    return 0
