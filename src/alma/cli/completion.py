"""`alma completion`: a script for a shell, made from the parser, so that it knows every command and option."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .output import Output
from .parser import VALUES, Subparsers, build_parser, listed

_FILES = {"FILE", "DIR", "FILE|URI"}


def register(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "completion",
        completion,
        """
        source <(alma completion bash)                # in ~/.bashrc
        source <(alma completion zsh)                 # in ~/.zshrc, after compinit
        alma completion fish > ~/.config/fish/completions/alma.fish
        """,
    )
    parser.add_argument("shell", metavar="SHELL", choices=tuple(SCRIPTS), help=", ".join(SCRIPTS))


def completion(args: argparse.Namespace, out: Output) -> int:
    script = SCRIPTS[args.shell](list(places(build_parser())))
    if not out.answered({"shell": args.shell, "script": script}):
        out.line(script.rstrip("\n"))
    return 0


# -- what there is


@dataclass(frozen=True, slots=True)
class Argument:
    flags: tuple[str, ...]
    """None for an argument that is told by its place."""
    help: str
    takes: bool
    """A value follows."""
    values: tuple[str, ...] = ()
    files: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A command, or the point where one is still to be named."""

    path: str
    """The words that lead there, such as `work list`."""
    commands: Mapping[str, str]
    """What may be named next, with its help."""
    options: tuple[Argument, ...]
    positional: tuple[Argument, ...]

    @property
    def words(self) -> list[str]:
        """What may stand here that is no option."""
        return [*self.commands, *(value for one in self.positional for value in one.values)]

    @property
    def files(self) -> bool:
        return any(one.files for one in self.positional)


def places(parser: argparse.ArgumentParser, path: str = "") -> Iterator[Place]:
    below: dict[str, argparse.ArgumentParser] = {}
    helps: dict[str, str] = {}
    options: list[Argument] = []
    positional: list[Argument] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = dict(action.choices)
            helps = {one.dest: one.help or "" for one in action._choices_actions}
        else:
            (options if action.option_strings else positional).append(_argument(action))
    yield Place(path, helps, tuple(options), tuple(positional))
    for name, sub in below.items():
        yield from places(sub, f"{path} {name}".strip())


def _argument(action: argparse.Action) -> Argument:
    return Argument(
        flags=tuple(action.option_strings),
        help=(action.help or "").partition(";")[0],
        takes=action.nargs != 0,
        values=tuple(VALUES.get(action) or map(str, action.choices or ())),
        files=action.metavar in _FILES,
    )


def _branches(found: Sequence[Place]) -> list[str]:
    """Every way to a command: only such words lead further."""
    return [place.path for place in found if place.path]


def _with_value(found: Sequence[Place]) -> Iterator[tuple[str, Argument]]:
    """`work list:--status` and the like: after these a value stands."""
    for place in found:
        for option in place.options:
            if option.takes:
                yield from ((f"{place.path}:{flag}", option) for flag in option.flags)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# -- bash

_WALK = """\
    # The words before this one that are commands lead to where we are; the value of an option is none.
    for (( i = {first}; i < {end}; i++ )); do
        word="${{{words}[i]}}"
        case "$at:$last" in
            {taking}) last=""; continue ;;
        esac
        case "${{at:+$at }}$word" in
            {branches}) at="${{at:+$at }}$word" ;;
        esac
        last="$word"
    done
"""


def _walk(found: Sequence[Place], words: str, first: str, end: str) -> str:
    taking = "|".join(_quoted(key) for key, _ in _with_value(found))
    branches = "|".join(_quoted(path) for path in _branches(found))
    return _WALK.format(words=words, first=first, end=end, taking=taking, branches=branches)


def bash(found: Sequence[Place]) -> str:
    lines = [
        "# Completion of alma for bash.",
        "_alma_files() {",
        "    local one",
        '    while IFS= read -r one; do COMPREPLY+=( "$one" ); done < <(compgen -f -- "$cur")',
        "}",
        "_alma() {",
        '    local at="" last="" word="" i cur="${COMP_WORDS[COMP_CWORD]}"',
        "    COMPREPLY=()",
        _walk(found, "COMP_WORDS", "1", "COMP_CWORD").rstrip("\n"),
        '    case "$at:$last" in',
    ]
    for key, option in _with_value(found):
        lines.append(f"        {_quoted(key)}) {_bash_value(option)} return ;;")
    lines += ["    esac", '    case "$at" in']
    for place in found:
        flags = " ".join(flag for option in place.options for flag in option.flags)
        files = " _alma_files;" if place.files else ""
        lines += [
            f"        {_quoted(place.path)})",
            f'            if [[ "$cur" == -* ]]; then COMPREPLY=( $(compgen -W "{flags}" -- "$cur") );',
            f'            else COMPREPLY=( $(compgen -W "{" ".join(place.words)}" -- "$cur") );{files}',
            "            fi ;;",
        ]
    lines += ["    esac", "}", "complete -o filenames -F _alma alma"]
    return "\n".join(lines) + "\n"


def _bash_value(option: Argument) -> str:
    if option.values:
        return f'COMPREPLY=( $(compgen -W "{" ".join(option.values)}" -- "$cur") );'
    return "_alma_files;" if option.files else ""


# -- zsh


def zsh(found: Sequence[Place]) -> str:
    lines = [
        "#compdef alma",
        "# Completion of alma for zsh.",
        "_alma() {",
        '    local at="" last="" word="" i',
        "    local -a here",
        _walk(found, "words", "2", "CURRENT").rstrip("\n"),
        '    case "$at:$last" in',
    ]
    for key, option in _with_value(found):
        lines.append(f"        {_quoted(key)}) {_zsh_value(option)} return ;;")
    lines += ["    esac", '    case "$at" in']
    for place in found:
        lines += [
            f"        {_quoted(place.path)})",
            *(f"            {one}" for one in _zsh_place(place)),
            "            ;;",
        ]
    # From a folder of completions it is run at once, and sourced it only waits.
    lines += ["    esac", "}", "compdef _alma alma", 'if [[ "${funcstack[1]}" == _alma ]]; then _alma; fi']
    return "\n".join(lines) + "\n"


def _zsh_value(option: Argument) -> str:
    if option.values:
        return f"compadd -- {' '.join(map(_quoted, option.values))};"
    return "_files;" if option.files else ""


def _zsh_place(place: Place) -> Iterator[str]:
    told = {flag: option.help for option in place.options for flag in option.flags}
    yield f'if [[ "$PREFIX" == -* ]]; then here=({_described(told)}); _describe -o option here; else'
    words = dict.fromkeys(place.words, "") | dict(place.commands)
    yield f"here=({_described(words)}); _describe command here;{' _files;' if place.files else ''} fi"


def _described(told: Mapping[str, str]) -> str:
    return " ".join(_quoted(f"{name}:{help}" if help else name) for name, help in told.items())


# -- fish


def fish(found: Sequence[Place]) -> str:
    taking = " ".join(_fished(key) for key, _ in _with_value(found))
    branches = " ".join(_fished(path) for path in _branches(found))
    lines = [
        "# Completion of alma for fish.",
        "function __alma_at",
        "    # The words that are commands lead to where we are; the value of an option is none.",
        "    set -l at ''",
        "    set -l last ''",
        "    set -l words (commandline -opc)",
        "    set -e words[1]",
        "    for word in $words",
        f'        if contains -- "$at:$last" {taking}',
        "            set last ''",
        "            continue",
        "        end",
        '        set -l next (string trim -- "$at $word")',
        f'        if contains -- "$next" {branches}',
        '            set at "$next"',
        "        end",
        '        set last "$word"',
        "    end",
        '    test "$at" = "$argv"',
        "end",
        "complete -c alma -f",
    ]
    for place in found:
        lines += _fish_place(place)
    return "\n".join(lines) + "\n"


def _fish_place(place: Place) -> Iterator[str]:
    here = f"complete -c alma -n {_fished(f'__alma_at {place.path}'.strip())}"
    for name, help in place.commands.items():
        yield f"{here} -a {_fished(name)} -d {_fished(help)}"
    for one in place.positional:
        if one.values:
            yield f"{here} -a {_fished(' '.join(one.values))}"
        if one.files:
            yield f"{here} -F"
    for option in place.options:
        flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
        value = f" -x -a {_fished(' '.join(option.values))}" if option.values else " -r -F" if option.files else " -x"
        yield f"{here} {flags}{value if option.takes else ''} -d {_fished(option.help)}"


def _fished(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS: Mapping[str, Callable[[Sequence[Place]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
