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
    "show": "learning",
    "learn": "learning",
    "tag": "learning",
    "forget": "learning",
    "review": "learning",
    "restore": "learning",
    "project": "projects",
    "status": "keeping",
    "usage": "keeping",
    "pause": "keeping",
    "resume": "keeping",
    "config": "keeping",
    "export": "keeping",
    "import": "keeping",
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
    show = _command(commands, "show", "the rules of this project, as a session is told them")
    show.add_argument("--all", action="store_true", help="also what waits for review and what was put away")
    show.add_argument("--session", metavar="ID", help="with the profile of this session")
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
    forget = _command(commands, "forget", "erase a rule: by its id, the end of it, or its words")
    forget.add_argument("what", nargs="+", metavar="RULE")
    review = _command(commands, "review", "decide about what might be a rule")
    review.add_argument("--accept", nargs="+", metavar="ID", default=[])
    review.add_argument("--reject", nargs="+", metavar="ID", default=[])
    review.add_argument("--accept-all", action="store_true")
    review.add_argument("--reject-all", action="store_true")
    review.add_argument("--everywhere", action="store_true", help="what is accepted holds in all projects")
    restore = _command(commands, "restore", "bring back a rule that was replaced or put away")
    restore.add_argument("what", nargs="+", metavar="RULE")
    restore.add_argument("--yes", action="store_true", help="also if that replaces a rule of all projects")


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
    _command(commands, "export", "the rules as JSON lines").add_argument("file", nargs="?", metavar="FILE")
    _command(commands, "import", "take in rules from JSON lines").add_argument("file", metavar="FILE")
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
