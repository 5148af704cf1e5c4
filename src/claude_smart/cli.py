"""`claude-smart`: the commands of the plug-in."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, NoReturn

from alma import __version__
from alma.errors import ALMAError, ValidationError, unknown
from alma.hooks.inject import UnreadableStoreError
from alma.hooks.paths import NoHomeError

COMMANDS = {
    "install": ("install.install", "install the plug-in in Claude Code; shows what it changes, and asks"),
    "uninstall": ("install.install", "take the plug-in out again; what was learned stays"),
    "update": ("install.install", "bring the installed plug-in to this version"),
    "doctor": ("install.doctor", "prove on this machine that a correction is recorded, learned and shown again"),
    "show": ("rules.show", "what is known for this project: rules, what waits for review, observations"),
    "learn": ("rules.learn", "take in now what was recorded; with a note: keep it as a rule"),
    "tag": ("rules.tag", "keep a note as a rule, as written; without one, what was said last"),
    "review": ("rules.review", "decide about what might be a rule; at a terminal, one after the other"),
    "edit": ("rules.edit", "change the words or the reach of a rule"),
    "restore": ("rules.restore", "bring back a rule that is gone, or undo the last change of one"),
    "forget": ("rules.forget", "put a rule away: by its id, the end of it, or its words"),
    "project": ("data.project", "which project this folder belongs to; answer where that is in doubt"),
    "status": ("data.status", "what is kept, and whether it is learning"),
    "usage": ("data.usage", "what the model was asked for, if it was allowed"),
    "pause": ("data.pause", "record and show nothing in this project"),
    "resume": ("data.pause", "go on recording and showing"),
    "config": ("data.config", "show or change a setting"),
    "export": ("data.export", "write the rules as JSON lines, or into CLAUDE.md, AGENTS.md, …"),
    "import": ("data.import_", "take in rules from JSON lines, or what was edited in CLAUDE.md, AGENTS.md, …"),
    "clear-all": ("data.clear_all", "erase what was learned and recorded in this project; rules of all projects stay"),
}
"""Each command: the function that runs it, and its help."""

_ALL = " ".join(COMMANDS)
OPTIONS = (
    (_ALL, "--json", "for programs"),
    (_ALL, "--project KEY", "another project than the one of this folder"),
    ("clear-all", "--everywhere", "of all projects"),
    ("install uninstall update clear-all", "--yes", "do not ask"),
    ("install uninstall update", "--dry-run", "only show what would change"),
    (
        "install",
        "--model",
        "whether Claude may read your corrections (`claude -p`, within a daily limit); asked if left out",
    ),
    ("uninstall", "--purge", "erase what was learned and recorded, too"),
    ("show", "what:RULE*", "one rule (an id or its words) with its history"),
    ("show", "--all", "also rules of other sessions, and replaced or archived ones"),
    ("show", "--playbook", "the Markdown that a session starts with"),
    ("show", "--session ID", "with the rules of this session"),
    ("learn tag", "note:NOTE*", None),
    ("learn tag", "--everywhere", "the rule holds in all projects"),
    ("learn", "--from-history", "propose rules from existing Claude Code transcripts"),
    ("learn", "--folder DIR", "the Claude folder (default: $CLAUDE_CONFIG_DIR or ~/.claude)"),
    ("learn", "--days N", "only transcripts changed in the last N days"),
    ("review", "--accept ID+", None),
    ("review", "--reject ID+", None),
    ("review", "--accept-all", None),
    ("review", "--reject-all", None),
    ("review", "--everywhere", "what is accepted holds in all projects"),
    ("edit", "what:RULE+", "an id, the end of one, or words of the rule"),
    ("edit", "--rule TEXT", "what to do"),
    ("edit", "--trigger TEXT", "when it applies, such as 'running tests'; '' for always"),
    ("edit", "--reason TEXT", "why"),
    ("edit", "--reach once|session|project|always", "how far it goes"),
    ("edit", "--session ID", "the session of a rule with reach once or session"),
    ("restore forget", "what:RULE+", None),
    ("restore", "--yes", "also if that replaces a rule of all projects"),
    ("forget", "--everything", "erase it for good, with the recorded sentence that it came from"),
    ("project", "--share KEY", "share the rules of this project"),
    ("project", "--separate", "keep this folder a project of its own"),
    ("pause resume", "--everywhere", "in all projects"),
    ("config", "name:NAME?", None),
    ("config", "value:VALUE?", None),
    ("export", "file:FILE?", "a name that ends in .md: a marked block in that file"),
    ("export", "--everywhere", "into a .md file also the rules of all projects"),
    ("export", "--remove", "take the block out of a .md file again"),
    ("export", "--force", "overwrite what was edited in the block and not imported"),
    ("export", "--dry-run", "only show how a .md file would change"),
    ("import", "file:FILE", None),
    ("import", "--all", "also the items of lists outside the block of a .md file"),
    ("import", "--retire", "archive rules whose items were removed"),
    ("import", "--prefer file|memory", "who is right where both changed"),
    ("import", "--dry-run", "only show what a .md file would change"),
)
"""Each option or argument: the commands that have it, how it is written, and its help.

`--flag`, `--option VALUE` or `name:ARGUMENT`; `*`, `+` and `?` say how many, `a|b` are the choices, N is a number.
"""


class _Parser(argparse.ArgumentParser):
    """Reports wrong arguments on one line, with the command's own help as the next step."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"claude-smart: {message.rstrip('.')}. See {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    root = _Parser(
        prog="claude-smart",
        description="Correct your coding agent once: claude-smart learns rules from your corrections.",
        epilog="Run claude-smart COMMAND --help for the options of a command.",
    )
    root.add_argument("--version", action="version", version=f"claude-smart {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, (_, help) in COMMANDS.items():
        one = commands.add_parser(command, help=help, description=help)
        for names, notation, meaning in OPTIONS:
            if command not in names.split():
                continue
            name, _, value = notation.partition(" " if notation.startswith("--") else ":")
            settings: dict[str, Any] = {"metavar": value.rstrip("*+?"), "type": int if value == "N" else str}
            if not value:
                settings = {"action": argparse.BooleanOptionalAction if name == "--model" else "store_true"}
            elif "|" in value:
                settings = {"choices": tuple(value.split("|"))}
            elif value[-1] in "*+?":
                settings |= {"nargs": value[-1], "default": None if value[-1] == "?" else []}
            one.add_argument(name, help=meaning, **settings)
    return root


def separate_note(arguments: Sequence[str]) -> list[str]:
    """Put `--` before the note of `learn` and `tag`, so that a note may contain words such as `--no-verify`.

    Raise ValidationError for an option of `edit` and for a misspelled option: they are hardly part of the note.
    """
    command, *rest = arguments or [""]
    if command not in ("learn", "tag") or {"-h", "--help"} & set(rest):
        return list(arguments)
    own, of_edit = (
        dict(notation.partition(" ")[::2] for names, notation, _ in OPTIONS if name in names.split())
        for name in ("learn", "edit")
    )
    options, words = [command], iter(rest)
    note: list[str] = []
    for word in words:
        option = word.partition("=")[0]
        if word == "--":
            note += words
        elif option in own:
            options += [word, *islice(words, 1)] if own.get(word) else [word]
        elif option in of_edit or (option.startswith("--") and get_close_matches(option, own, 1, 0.8)):
            problem = unknown("option", option, [name for name in own if name.startswith("--")])
            raise ValidationError(f"{problem} Put -- before a note that contains it: claude-smart {command} -- NOTE")
        else:
            note.append(word)
    return [*options, "--", *note] if note else options


def reword_error(error: Exception) -> str:
    """Return what went wrong. The store names its own program, which is not the one that a person has here."""
    return str(error).replace("`alma doctor`", "`claude-smart doctor`").replace("alma rules ", "claude-smart ")


def _refuse_arguments(root: argparse.ArgumentParser, command: str, extra: Sequence[str]) -> NoReturn:
    """Exit with one line that says which arguments a command does not take, and what it takes instead."""
    own = [notation.split()[0] for names, notation, _ in OPTIONS if command in names.split()]
    options = [option for option in own if option.startswith("--")]
    option = next((word.partition("=")[0] for word in extra if word.startswith("-")), "")
    if option:
        problem = unknown("option", option, options)
    elif command == "review":
        ids = " ".join(extra)
        problem = f"review takes no argument {ids!r}; decide with --accept {ids} or --reject {ids}"
    else:
        problem = f"{command} takes no argument {' '.join(extra)!r}"
    root.exit(2, f"claude-smart: {problem.rstrip('.')}. See claude-smart {command} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Return its exit code; wrong arguments exit with code 2."""
    root = build_parser()
    try:
        words = separate_note(sys.argv[1:] if arguments is None else arguments)
    except ValidationError as error:
        root.error(str(error))
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        root.error(unknown("command", words[0], COMMANDS))
    args, extra = root.parse_known_args(words)
    if extra:
        _refuse_arguments(root, args.command, extra)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a sign shows another instead.
            stream.reconfigure(errors="replace")
    module, _, function = COMMANDS[args.command][0].rpartition(".")
    try:
        from .rules import open_context

        run = getattr(importlib.import_module(f"claude_smart.{module}"), function)
        context = open_context(args.json, args.project)
        answer = run(args, context)
        if args.json:
            print(json.dumps(answer, indent=2))
        sys.stdout.flush()
        return context.exit_code
    except (ALMAError, NoHomeError, UnreadableStoreError) as error:
        reason = reword_error(error)
    except BrokenPipeError:
        # The reader of the output has closed it; what Python still writes at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except (EOFError, KeyboardInterrupt):
        return 130
    print(f"claude-smart: {reason}", file=sys.stderr)
    return 1
