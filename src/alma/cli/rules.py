"""`alma rules`: what the memory was taught, in the files that coding agents read, and back from there."""

from __future__ import annotations

import argparse
from pathlib import PurePath
from typing import TYPE_CHECKING

from ..types.kinds import MemoryType, Rule
from ..types.record import Status
from .draw_rules import exported, imported, rules_table
from .opening import Later, opened
from .output import Output
from .parser import Subparsers, add_choice, command, given, grouped

if TYPE_CHECKING:
    from ..api import memories
    from ..rulefiles import operations as api
else:
    api = Later("alma.rulefiles.operations")
    memories = Later("alma.api.memories")

TARGETS = ("agents-md", "claude-md", "cursor", "windsurf", "copilot", "skill")
SIDES = ("file", "memory")
_INCLUDED = ("rule", "heuristic", "anti_pattern", "domain_knowledge")

_EXAMPLES = """
alma rules list
alma rules export --to agents-md
alma rules import AGENTS.md
"""


def register(commands: Subparsers) -> None:
    rules = grouped(commands, "rules", _EXAMPLES)
    _register_list(rules)
    _register_export(rules)
    _register_import(rules)


# -- list


def _register_list(rules: Subparsers) -> None:
    parser = command(
        rules,
        "list",
        list_rules,
        "list the rules that hold",
        """
        alma rules list --agent claude-code
        alma rules list --status candidate      # those that wait for you
        """,
    )
    parser.add_argument("--agent", metavar="A", help="only this agent's")
    add_choice(parser, "--status", (*Status, "all"), metavar="S", default="active")
    parser.add_argument("--limit", metavar="N", type=int, default=50, help="at most so many (default 50)")


def list_rules(args: argparse.Namespace, out: Output) -> int:
    status = None if args.status == "all" else args.status
    with opened(args) as alma:
        found = memories.list_memories(alma, MemoryType.RULE, args.agent, None, status, None, args.limit)
    if not out.answered({"count": len(found), "rules": found}):
        out.show(rules_table([one for one in found if isinstance(one, Rule)]))
    return 0


# -- export


def _register_export(rules: Subparsers) -> None:
    parser = command(
        rules,
        "export",
        export,
        "write the rules of this project to the file that a coding agent reads, inside a marked block",
        """
        alma rules export --to agents-md
        alma rules export --to claude-md --check        # in a build: exit code 1 when the file is out of date
        alma rules export --to skill --name house-rules --include rule --include heuristic
        """,
    )
    add_choice(parser, "--to", TARGETS, "whose file", metavar="T", required=True)
    parser.add_argument("--path", metavar="FILE", help="another file than the usual one")
    _add_root(parser)
    parser.add_argument("--name", metavar="NAME", help="what the skill or file is called (default project-rules)")
    parser.add_argument("--limit", metavar="N", type=int, help="another limit than that of its readers, in their unit")
    parser.add_argument("--agent", metavar="A", help="only this agent's rules")
    add_choice(
        parser, "--include", _INCLUDED, "what to write, if proven; may be repeated", metavar="TYPE", action="append"
    )
    parser.add_argument("--everywhere", action="store_true", help="rules of all projects, too; they are personal")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when the file is not current")
    parser.add_argument("--force", action="store_true", help="overwrite what was edited by hand and not imported")


def _add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", metavar="DIR", help="the repository's folder (default: the one around this folder)")


_EXPORT = ("to", "path", "root", "name", "limit", "agent", "include", "everywhere", "check", "force")


def export(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        report = api.export_rules(alma, **given(args, *_EXPORT))
    if not out.answered(report):
        out.show(*exported(report, check=args.check))
    return 1 if args.check and (report.changed or report.hand_edits) else 0


# -- import


def _register_import(rules: Subparsers) -> None:
    parser = command(
        rules,
        "import",
        import_rules,
        "take over what people edited in such a file; shows what would change, and asks",
        """
        alma rules import
        alma rules import CLAUDE.md --all --dry-run
        alma rules import AGENTS.md --prefer file --retire --yes
        """,
    )
    parser.add_argument("path", metavar="FILE", nargs="?", default="AGENTS.md", help="the file (default AGENTS.md)")
    _add_root(parser)
    parser.add_argument("--agent", metavar="A", help="whose rules the new ones are (default: as most in the file)")
    parser.add_argument(
        "--all", dest="all_items", action="store_true", help="items of lists outside the block become rules, too"
    )
    parser.add_argument(
        "--untrusted", dest="trusted", action="store_false", help="a file of others: what is new waits for you"
    )
    parser.add_argument("--retire", action="store_true", help="archive rules whose items were removed")
    add_choice(parser, "--prefer", SIDES, "who is right where both changed", metavar="SIDE")
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    parser.add_argument("--yes", action="store_true", help="do not ask")


_IMPORT = ("path", "root", "agent", "all_items", "trusted", "retire", "prefer")


def import_rules(args: argparse.Namespace, out: Output) -> int:
    told = given(args, *_IMPORT)
    with opened(args) as alma:
        report = api.import_rules(alma, **told, dry_run=True)
        wanted = any(one.done for one in report.changes) and not args.dry_run
        if wanted and not args.yes and not out.as_json:
            out.show(*imported(report))
        if wanted and not (args.yes or out.confirm("Take this over?")):
            out.line("nothing was taken over")
            return 0
        # Also where nothing is different: what both agree on is noted for the next time.
        done = report if args.dry_run else api.import_rules(alma, **told)
    if not out.answered(done):
        if args.yes or not wanted:
            out.show(*imported(done))
        _say_next(out, done)
    return 1 if any(one.verb == "conflict" and not one.done for one in done.changes) else 0


def _say_next(out: Output, done: api.ImportedRules) -> None:
    taken = sum(one.done for one in done.changes)
    if done.dry_run:
        out.line("nothing was changed")
    elif taken or done.newer:
        out.line(f"took over {taken}" if taken else "nothing to take over")
        if any(one.verb == "removed" and not one.done for one in done.changes):
            out.line(
                "--retire puts away what was removed; until then an export would write it again, and asks for --force"
            )
        else:
            out.line(f"{_export_of(done.path)} brings the file up to date")


def _export_of(path: str) -> str:
    """The export that writes a file, as far as its name tells."""
    name = PurePath(path).name
    usual = {"AGENTS.md": "agents-md", "CLAUDE.md": "claude-md", "SKILL.md": "skill"}
    folders = {".cursor": "cursor", ".windsurf": "windsurf", ".github": "copilot"}
    to = usual.get(name) or folders.get(PurePath(path).parts[0], "")
    return f"alma rules export --to {to or '…'}" + ("" if path in usual else f" --path {path}")
