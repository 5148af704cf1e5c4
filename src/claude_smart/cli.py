"""The command line of `claude-smart`: its commands, options and error messages."""

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
from alma.hooks.hosts import HOSTS
from alma.hooks.inject import UnreadableStoreError
from alma.hooks.paths import DEFAULTS, DataDir, NoHomeError

COMMANDS = {
    "install": (
        "install.install",
        "install the plugin in Claude Code or another agent; shows all changes and asks first",
    ),
    "uninstall": ("install.install", "remove the plugin; learned rules stay unless you pass --purge"),
    "update": ("install.install", "update the installed plugin to this version"),
    "doctor": ("install.doctor", "check the installation: a test correction is recorded, learned and shown again"),
    "show": (
        "excerpts.show",
        "list the rules, candidates and observations of this project, or show one with its history",
    ),
    "learn": ("rules.learn", "learn from recorded sessions now; with a note, the same as tag"),
    "notes": (
        "notes.notes",
        "for an agent, after its user typed /learn: show the exchanges to read, or hand in notes on standard input",
    ),
    "mcp": ("notes_server.serve", "run an MCP server with the tools that show these exchanges and hand in notes"),
    "tag": ("rules.tag", "store a note as a rule, verbatim; without a note, store your last message"),
    "review": ("rules.review", "accept or reject candidates; at a terminal, one at a time"),
    "edit": ("rules.edit", "change the text, trigger, reason or reach of a rule"),
    "restore": (
        "rules.restore",
        "bring back a replaced, rejected or archived rule, or undo the last change of a rule; again, redo it",
    ),
    "forget": ("excerpts.forget", "archive a rule so that it is no longer shown; with --everything, erase it"),
    "project": ("data.project", "show the project of this folder; share rules with another project or stay separate"),
    "status": ("data.status", "show what is stored for this project and whether it is learning"),
    "dashboard": (
        "dashboard.open_dashboard",
        "open the dashboard in a browser: rules, sessions and what waits",
    ),
    "usage": ("data.usage", "show the model calls by day"),
    "pause": ("data.pause", "stop recording sessions and showing rules in this project"),
    "resume": ("data.pause", "record sessions and show rules again"),
    "config": ("data.config", "show the settings, or change one"),
    "export": (
        "data.export",
        "write the rules to a file: JSON Lines, or a block in a file such as CLAUDE.md or AGENTS.md",
    ),
    "import": (
        "data.import_",
        "read rules from JSON Lines, or your edits from a file such as CLAUDE.md or AGENTS.md",
    ),
    "clear-all": (
        "data.clear_all",
        "erase everything learned and recorded in this project; rules that apply in all projects are kept",
    ),
}
"""Each command: the function that runs it, and its help."""

_ALL = " ".join(COMMANDS)
_ERASING = ("forget", "clear-all", "edit", "review", "restore")
"""After these, files in which agents read rules may contain one that is gone."""
_WITHOUT_PROJECT = ("install", "uninstall", "update", "project", "usage", "config", "notes", "mcp")
_RULE = "an id, the end of one (4 characters or more), or words of the rule"
OPTIONS = (
    (_ALL, "--json", "print the result as JSON"),
    (
        " ".join(name for name in COMMANDS if name not in _WITHOUT_PROJECT),
        "--project KEY",
        "use this project instead of the current folder's; `claude-smart project` prints the key",
    ),
    # It has no effect on these commands.
    (" ".join(_WITHOUT_PROJECT), "--project KEY", argparse.SUPPRESS),
    ("dashboard", "--port N", "port of a server that is started (default 3001; 0 for any free port)"),
    ("dashboard", "--read-only", "let the browser change nothing"),
    ("dashboard", "--admin", "let the browser delete memories"),
    ("dashboard", "--no-open", "print the link instead of opening a browser"),
    ("clear-all", "--everywhere", "erase all projects"),
    ("install uninstall update clear-all", "--yes", "do not ask for confirmation"),
    ("install uninstall update", "--dry-run", "show the changes without making them"),
    (
        "install uninstall",
        "--host NAMES",
        "the coding agents, separated by commas (default: Claude Code; for uninstall, all installed): "
        f"{', '.join(HOSTS)}",
    ),
    ("install uninstall", "--all", "all coding agents on this machine, or all that are installed"),
    (
        "install",
        "--model",
        "let a model read your corrections (such as `claude -p`, within a daily limit of calls); asks if omitted",
    ),
    (
        "install",
        "--settings FILE",
        "with --yes: settings in a JSON file of yours, such as model, program, environment and home",
    ),
    ("config", "--adopt", "take over the settings that variables of this terminal name; shows them and asks"),
    ("uninstall", "--purge", "also erase everything learned and recorded"),
    ("show", "what:RULE*", f"show one rule with its history: {_RULE}"),
    ("show", "--all", "include rules of other sessions, and replaced or archived ones"),
    ("show", "--evidence", "list the excerpts of earlier sessions that an agent may be shown, instead of rules"),
    ("show", "--playbook", "print the Markdown that a session starts with"),
    ("show", "--session ID", "include the rules of this session"),
    ("learn tag", "note:NOTE*", "the rule in your words; put -- before a note that contains options"),
    ("learn tag", "--everywhere", "make the rule apply in all projects"),
    ("learn", "--here", "in a session, as /learn --here: let its agent read, although a model may"),
    ("notes", "--show", "show the exchanges that the user asked to read"),
    ("notes", "--file FILE", "read the notes from a file (default: standard input); JSON or TOML"),
    ("learn", "--from-history", "propose rules from existing Claude Code transcripts"),
    ("learn", "--folder DIR", "the Claude folder (default: ~/.claude, or the recorded CLAUDE_CONFIG_DIR)"),
    ("learn", "--days N", "read only transcripts changed in the last N days"),
    ("review", "--accept ID+", "turn these candidates or observations into rules"),
    ("review", "--reject ID+", "archive these candidates"),
    ("review", "--accept-all", "accept all candidates"),
    ("review", "--reject-all", "reject all candidates"),
    ("review", "--keep-newer CONFLICT+", "of two rules that contradict each other, keep the newer one"),
    ("review", "--keep-older CONFLICT+", "keep the older one"),
    ("review", "--keep-both CONFLICT+", "keep both: they do not contradict each other"),
    ("review", "--everywhere", "make accepted rules apply in all projects"),
    ("edit", "what:RULE+", _RULE),
    ("edit", "--rule TEXT", "the new text: what to do"),
    ("edit", "--trigger TEXT", "the new trigger: when it applies, such as 'running tests'; '' for always"),
    ("edit", "--reason TEXT", "the new reason"),
    ("edit", "--reach once|session|project|always", "where it applies from now on; always means in all projects"),
    ("edit", "--session ID", "the session of a rule with reach once or session"),
    ("restore forget", "what:RULE+", _RULE),
    ("restore", "--yes", "proceed even if that replaces a rule that applies in all projects"),
    ("forget", "--everything", "erase the rule for good, with the recorded sentence it was learned from"),
    ("project", "--share KEY", "move the rules of this project to project KEY and share them from now on"),
    ("project", "--separate", "keep this folder a separate project and stop asking"),
    ("pause", "--everywhere", "pause in all projects"),
    ("resume", "--everywhere", "resume in all projects"),
    ("config", "name:NAME?", f"the setting: {', '.join(DEFAULTS)}; `claude-smart config` describes each"),
    ("config", "value:VALUE?", "its new value"),
    (
        "export",
        "file:FILE?",
        "the file to write; a name that ends in .md gets a marked block (default: standard output)",
    ),
    ("export", "--everywhere", "in a .md file, include rules that apply in all projects"),
    ("export", "--remove", "remove the block from a .md file"),
    ("export", "--force", "overwrite edits in the block that were not imported"),
    ("export", "--dry-run", "show how a .md file would change"),
    ("import", "file:FILE", "a file that export wrote, a .md file, or - for standard input"),
    (
        "import",
        "--all",
        "also turn list items outside the block of a .md file into rules, and read other folders' rows of 0.x",
    ),
    ("import", "--retire", "archive rules whose items were removed"),
    ("import", "--prefer file|memory", "which side wins if both changed"),
    ("import", "--dry-run", "show what a .md file would change"),
)
"""Each option or argument: the commands that have it, its notation, and its help.

Notation: `--flag`, `--option VALUE` or `name:ARGUMENT`. `*`, `+` and `?` set how many values, `a|b` lists the choices,
and N is a number.
"""


class _WideFormatter(argparse.HelpFormatter):
    """Leaves room for the longest command, so that its help starts on the same line."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._action_max_length = max(map(len, COMMANDS)) + self._indent_increment * 2


class _OneLineParser(argparse.ArgumentParser):
    """Reports wrong arguments on one line, with the command's own help as the next step."""

    def error(self, message: str) -> NoReturn:
        message = message.replace("the following arguments are required:", "missing argument:").rstrip(".")
        option, _, problem = message.removeprefix("argument ").partition(": ")
        value = problem.partition(": ")[2]
        if problem.startswith("invalid choice: "):
            value, _, choices = value.rstrip(")").partition(" (choose from ")
            choices = choices.replace("'", "")
            message = f"unknown value {value} for {option}. Valid: {choices}"
        elif problem.startswith("invalid int value: "):
            message = f"{option} must be a whole number, not {value}"
        elif problem.startswith("expected "):
            message = f"{option} needs {problem.removeprefix('expected ').replace('argument', 'value')}"
        self.exit(2, f"claude-smart: {message.rstrip('.')}. See {self.prog} --help\n")


def _list_options(command: str) -> list[tuple[str, str]]:
    """Return the notation and the help of each option and argument of a command."""
    return [(notation, help) for names, notation, help in OPTIONS if command in names.split()]


def build_parser(command: str = "") -> argparse.ArgumentParser:
    """Return the parser of the command line: of all commands, or of this one, which takes a tenth of the time."""
    root = _OneLineParser(
        prog="claude-smart",
        description="Correct your coding agent once: claude-smart learns rules from your corrections.",
        formatter_class=_WideFormatter,
        epilog="Run claude-smart COMMAND --help for the options of a command.",
    )
    root.add_argument("--version", action="version", version=f"claude-smart {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command_name in [command] if command in COMMANDS else COMMANDS:
        _, help = COMMANDS[command_name]
        subparser = commands.add_parser(command_name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        for notation, meaning in _list_options(command_name):
            name, _, value = notation.partition(" " if notation.startswith("--") else ":")
            settings: dict[str, Any] = {"metavar": value.rstrip("*+?"), "type": int if value == "N" else str}
            if not value:
                settings = {"action": argparse.BooleanOptionalAction if name == "--model" else "store_true"}
            elif "|" in value:
                settings = {"choices": tuple(value.split("|"))}
            elif value[-1] in "*+?":
                settings |= {"nargs": value[-1], "default": None if value[-1] == "?" else []}
            subparser.add_argument(name, help=meaning, **settings)
    return root


def separate_note(arguments: Sequence[str]) -> list[str]:
    """Put `--` before the note of `learn` and `tag`, so that a note may contain words such as `--no-verify`.

    Raise ValidationError for an option of another command that changes rules and for a misspelled option: they are
    hardly part of the note.
    """
    command, *rest = arguments or [""]
    if command not in ("learn", "tag") or {"-h", "--help"} & set(rest):
        return list(arguments)
    notations = ((notation for notation, _ in _list_options(name)) for name in (command, "learn", "edit"))
    own, *others = (dict(notation.partition(" ")[::2] for notation in some) for some in notations)
    options, words = [command], iter(rest)
    note: list[str] = []
    for word in words:
        option = word.partition("=")[0]
        if word == "--":
            note += words
        elif option in own:
            options += [word, *islice(words, 1)] if own.get(word) else [word]
        elif any(option in one for one in others) or (
            option.startswith("--") and get_close_matches(option, own, 1, 0.8)
        ):
            problem = _describe_option(option, command)
            raise ValidationError(f"{problem} Put -- before a note that contains it: `claude-smart {command} -- NOTE`")
        else:
            note.append(word)
    return [*options, "--", *note] if note else options


def _describe_option(option: str, command: str) -> str:
    """Return the error message for an option that a command does not have, with those that it has."""
    options = [notation for notation, help in _list_options(command) if help != argparse.SUPPRESS]
    valid = [notation.split()[0] for notation in options if notation.startswith("--")]
    close = get_close_matches(option, valid, 1, 0.75)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"unknown option {option!r}.{hint} Valid: {', '.join(valid)}."


def reword_error(error: Exception) -> str:
    """Return an error's message with the commands of this program. The store's messages name those of `alma`."""
    return str(error).replace("`alma doctor`", "`claude-smart doctor`").replace("alma rules ", "claude-smart ")


def _refuse_arguments(root: argparse.ArgumentParser, command: str, extra: Sequence[str]) -> NoReturn:
    """Exit with one line that says which arguments a command does not take, and what it takes instead."""
    option = next((word.partition("=")[0] for word in extra if word.startswith("-")), "")
    if option:
        problem = _describe_option(option, command)
    elif command == "review":
        verbs = [extra[0]] if extra[0] in ("accept", "reject") else ["accept", "reject"]
        ids = extra[1:] if len(verbs) == 1 else extra
        values = "-all" if [*ids] == ["all"] else f" {' '.join(ids) or 'ID'}"
        choices = " or ".join(f"--{verb}{values}" for verb in verbs)
        problem = f"review takes no argument {' '.join(extra)!r}; decide with {choices}"
    else:
        problem = f"{command} takes no argument {' '.join(extra)!r}"
    root.exit(2, f"claude-smart: {problem.rstrip('.')}. See claude-smart {command} --help\n")


def main(arguments: Sequence[str] | None = None, data_dir: DataDir | None = None, folder: str = "") -> int:
    """Run a command. Return its exit code; wrong arguments exit with code 2.

    `data_dir` and `folder` are used instead of those of the home folder and the current folder.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    root = build_parser(arguments[0] if arguments else "")
    try:
        words = separate_note(arguments)
    except ValidationError as error:
        root.exit(2, f"claude-smart: {error}. See claude-smart {arguments[0]} --help\n")
    option = words[0].partition("=")[0] if words else ""
    if option in {notation.split()[0] for _, notation, _ in OPTIONS if notation.startswith("--")}:
        command = next((word for word in words if word in COMMANDS), "COMMAND")
        root.error(f"{option} comes after the command: `claude-smart {command} {option} …`")
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        root.error(unknown("command", words[0], COMMANDS))
    args, extra = root.parse_known_args(words)
    if extra:
        _refuse_arguments(root, args.command, extra)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the terminal cannot show are replaced.
            stream.reconfigure(errors="replace")
    module, _, function = COMMANDS[args.command][0].rpartition(".")
    try:
        from .rules import open_context

        run = getattr(importlib.import_module(f"claude_smart.{module}"), function)
        context = open_context(args.json, args.project, data_dir, folder)
        answer = run(args, context)
        if args.command in _ERASING:
            from .aider import refresh_rules

            refresh_rules(context.data_dir)
        if args.json:
            print(json.dumps(answer, indent=2))
        sys.stdout.flush()
        return context.exit_code
    except (ALMAError, NoHomeError, UnreadableStoreError) as error:
        reason = reword_error(error)
    except BrokenPipeError:
        # The reader closed the output; discard what Python still writes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except (EOFError, KeyboardInterrupt):
        return 130
    print(f"claude-smart: {reason}", file=sys.stderr)
    return 1
