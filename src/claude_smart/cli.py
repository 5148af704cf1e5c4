"""`claude-smart`: the commands of the plug-in."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from alma import __version__
from alma.errors import ALMAError

_HOMES = {
    "install": "installing",
    "uninstall": "installing",
    "update": "installing",
    "doctor": "doctor",
    "show": "rules",
    "learn": "learning",
    "tag": "learning",
    "review": "rules",
    "edit": "rules",
    "restore": "rules",
    "forget": "rules",
    "project": "projects",
    "status": "keeping",
    "usage": "keeping",
    "pause": "keeping",
    "resume": "keeping",
    "config": "keeping",
    "export": "transfer",
    "import": "transfer",
    "clear-all": "keeping",
}
_FUNCTIONS = {"import": "import_", "clear-all": "clear_all"}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="claude-smart", description="Correct your coding agent once: it learns rules from your corrections."
    )
    made.add_argument("--version", action="version", version=f"claude-smart {__version__}")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _setting_up(commands)
    _about_rules(commands)
    _about_data(commands)
    return made


_Commands = argparse._SubParsersAction


def _command(commands: _Commands, name: str, help: str) -> argparse.ArgumentParser:  # type: ignore[type-arg]
    made: argparse.ArgumentParser = commands.add_parser(name, help=help, description=help)
    made.add_argument("--json", dest="as_json", action="store_true", help="for programs")
    made.add_argument("--project", metavar="KEY", help="another project than the one of this folder")
    return made


def _setting_up(commands: _Commands) -> None:  # type: ignore[type-arg]
    install = _command(commands, "install", "install the plug-in in Claude Code; shows what it changes, and asks")
    install.add_argument("--yes", action="store_true", help="do not ask")
    install.add_argument("--dry-run", action="store_true", help="only show what would change")
    install.add_argument(
        "--model",
        action=argparse.BooleanOptionalAction,
        help="whether Claude may read your corrections (`claude -p`, within a daily limit); asked if left out",
    )
    uninstall = _command(commands, "uninstall", "take the plug-in out again; what was learned stays")
    uninstall.add_argument("--yes", action="store_true", help="do not ask")
    uninstall.add_argument("--dry-run", action="store_true", help="only show what would change")
    uninstall.add_argument("--purge", action="store_true", help="erase what was learned and recorded, too")
    update = _command(commands, "update", "bring the installed plug-in to this version")
    update.add_argument("--yes", action="store_true", help="do not ask")
    update.add_argument("--dry-run", action="store_true", help="only show what would change")
    _command(commands, "doctor", "prove on this machine that a correction is recorded, learned and shown again")


def _about_rules(commands: _Commands) -> None:  # type: ignore[type-arg]
    show = _command(commands, "show", "what is known for this project: rules, what waits for review, observations")
    show.add_argument("what", nargs="*", metavar="RULE", help="one rule (an id or its words) with its history")
    show.add_argument("--all", action="store_true", help="also rules of other sessions, and replaced or archived ones")
    show.add_argument("--playbook", action="store_true", help="the Markdown that a session starts with")
    show.add_argument("--session", metavar="ID", help="with the rules of this session")
    learn = _command(commands, "learn", "take in now what was recorded; with a note: keep it as a rule")
    learn.add_argument("note", nargs="*", metavar="NOTE")
    learn.add_argument("--everywhere", action="store_true", help="the rule holds in all projects")
    learn.add_argument(
        "--from-history", action="store_true", help="propose rules from existing Claude Code transcripts"
    )
    learn.add_argument("--folder", metavar="DIR", help="the Claude folder (default: $CLAUDE_CONFIG_DIR or ~/.claude)")
    learn.add_argument("--days", type=int, metavar="N", help="only transcripts changed in the last N days")
    tag = _command(commands, "tag", "keep a note as a rule, as written; without one, what was said last")
    tag.add_argument("note", nargs="*", metavar="NOTE")
    tag.add_argument("--everywhere", action="store_true", help="the rule holds in all projects")
    review = _command(commands, "review", "decide about what might be a rule; at a terminal, one after the other")
    review.add_argument("--accept", nargs="+", metavar="ID", default=[])
    review.add_argument("--reject", nargs="+", metavar="ID", default=[])
    review.add_argument("--accept-all", action="store_true")
    review.add_argument("--reject-all", action="store_true")
    review.add_argument("--everywhere", action="store_true", help="what is accepted holds in all projects")
    edit = _command(commands, "edit", "change the words or the reach of a rule")
    edit.add_argument("what", nargs="+", metavar="RULE", help="an id, the end of one, or words of the rule")
    edit.add_argument("--rule", metavar="TEXT", help="what to do")
    edit.add_argument("--trigger", metavar="TEXT", help="when it applies, such as 'running tests'; '' for always")
    edit.add_argument("--reason", metavar="TEXT", help="why")
    edit.add_argument("--reach", choices=("once", "session", "project", "always"), help="how far it goes")
    edit.add_argument("--session", metavar="ID", help="the session of a rule with reach once or session")
    restore = _command(commands, "restore", "bring back a rule that is gone, or undo the last change of one")
    restore.add_argument("what", nargs="+", metavar="RULE")
    restore.add_argument("--yes", action="store_true", help="also if that replaces a rule of all projects")
    forget = _command(commands, "forget", "put a rule away: by its id, the end of it, or its words")
    forget.add_argument("what", nargs="+", metavar="RULE")
    forget.add_argument(
        "--everything", action="store_true", help="erase it for good, with the recorded sentence that it came from"
    )


def _about_data(commands: _Commands) -> None:  # type: ignore[type-arg]
    project = _command(commands, "project", "which project this folder belongs to; answer where that is in doubt")
    project.add_argument("--share", metavar="KEY", help="share the rules of this project")
    project.add_argument("--separate", action="store_true", help="keep this folder a project of its own")
    _command(commands, "status", "what is kept, and whether it is learning")
    _command(commands, "usage", "what the model was asked for, if it was allowed")
    for name, help in (
        ("pause", "record and show nothing in this project"),
        ("resume", "go on recording and showing"),
    ):
        _command(commands, name, help).add_argument("--everywhere", action="store_true", help="in all projects")
    config = _command(commands, "config", "show or change a setting")
    config.add_argument("name", nargs="?", metavar="NAME")
    config.add_argument("value", nargs="?", metavar="VALUE")
    export = _command(commands, "export", "write the rules as JSON lines, or into CLAUDE.md, AGENTS.md, …")
    export.add_argument("file", nargs="?", metavar="FILE", help="a name that ends in .md: a marked block in that file")
    export.add_argument("--everywhere", action="store_true", help="into a .md file also the rules of all projects")
    export.add_argument("--remove", action="store_true", help="take the block out of a .md file again")
    export.add_argument("--force", action="store_true", help="overwrite what was edited in the block and not imported")
    export.add_argument("--dry-run", action="store_true", help="only show how a .md file would change")
    take_in = _command(
        commands, "import", "take in rules from JSON lines, or what was edited in CLAUDE.md, AGENTS.md, …"
    )
    take_in.add_argument("file", metavar="FILE")
    take_in.add_argument("--all", action="store_true", help="also the items of lists outside the block of a .md file")
    take_in.add_argument("--retire", action="store_true", help="archive rules whose items were removed")
    take_in.add_argument("--prefer", choices=("file", "memory"), help="who is right where both changed")
    take_in.add_argument("--dry-run", action="store_true", help="only show what a .md file would change")
    clear = _command(commands, "clear-all", "erase what was learned and recorded in this project")
    clear.add_argument("--everywhere", action="store_true", help="of all projects")
    clear.add_argument("--yes", action="store_true", help="do not ask")


_NOTE_OPTIONS = {"--json": 0, "--project": 1, "--everywhere": 0, "--from-history": 0, "--folder": 1, "--days": 1}
"""The options of `learn` and `tag`, and how many values each takes."""


def separate_note(arguments: Sequence[str]) -> list[str]:
    """Put `--` before the note of `learn` and `tag`, so that a note may begin with `--` or hold an option's name."""
    if not arguments or arguments[0] not in ("learn", "tag") or {"-h", "--help"} & set(arguments):
        return list(arguments)
    options, note = [arguments[0]], []
    rest = list(arguments[1:])
    while rest:
        word = rest.pop(0)
        if word == "--":
            note += rest
            break
        if word.partition("=")[0] in _NOTE_OPTIONS:
            options.append(word)
            for _ in range(_NOTE_OPTIONS.get(word, 0)):
                options += rest[:1]
                del rest[:1]
        else:
            note.append(word)
    return [*options, "--", *note] if note else options


def main(arguments: Sequence[str] | None = None) -> int:
    args = parser().parse_args(separate_note(sys.argv[1:] if arguments is None else arguments))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a sign shows another in its place.
            stream.reconfigure(errors="replace")
    try:
        code = _run(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except ALMAError as error:
        from .desk import own_words

        return _failed(own_words(error))
    except BrokenPipeError:
        # Whoever read our output has seen enough; what Python still wants to write at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (EOFError, KeyboardInterrupt):
        return 130


def _run(args: argparse.Namespace) -> int:
    module = importlib.import_module(f"claude_smart.{_HOMES[args.command]}")
    from .desk import desk

    return int(getattr(module, _FUNCTIONS.get(args.command, args.command))(args, desk(args.as_json, args.project)))


def _failed(reason: str) -> int:
    print(f"claude-smart: {reason}", file=sys.stderr)
    return 1
