"""A command line as its parts: what is run, with which words, in which folder and environment.

This is no shell: it understands as much of sh, zsh and PowerShell as is needed to lay two command lines side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_TOKEN = re.compile(
    r"(?P<space>[^\S\n]+|\\\n)"
    r"|(?P<redirect>(?:\d|&)?>>?(?:&\d|[^\S\n]*[^\s|&;<>]+)|<<?<?[^\S\n]*[^\s|&;<>]+)"
    r"|(?P<operator>&&|\|\||[|;\n]|&)"
    r"|(?P<word>(?:\"(?:\\.|[^\"\\])*\"|'[^']*'|`[^`]*`|\$\((?:[^()]|\([^()]*\))*\)|\\[^\n]|[^\s|&;<>])+)"
    r"|(?P<other>.)",
    re.S,
)
_HEREDOC = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?.*?\n.*?(?:^\s*\1\s*$|\Z)", re.S | re.M)
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_COMMENT = re.compile(r"(?m)^\s*#.*\n?")
# These only carry another command.
CARRIERS = frozenset(
    "sudo doas time nohup env command exec builtin timeout gtimeout nice xvfb-run stdbuf caffeinate".split()
)
_RUNNERS = {
    "npx": 1,
    "bunx": 1,
    "pnpx": 1,
    "uvx": 1,
    "uv run": 2,
    "poetry run": 2,
    "pipenv run": 2,
    "hatch run": 2,
    "pdm run": 2,
    "bundle exec": 2,
    "yarn dlx": 2,
    "pnpm exec": 2,
    "pnpm dlx": 2,
    "npm exec": 2,
    "python -m": 2,
    "python3 -m": 2,
    "py -m": 2,
}
# Their first plain word says what they do.
_MANY = frozenset(
    "git docker podman npm pnpm yarn bun cargo go pip pip3 uv poetry gh glab aws az gcloud kubectl helm terraform"
    " brew apt apt-get dotnet mvn gradle gradlew make just task rails bundle composer php flutter dart swift conda"
    " systemctl service launchctl supabase vercel fly heroku wrangler nx turbo deno mix rake tox nox manage.py"
    " docker-compose pod adb".split()
)
# The word after one of these is its value.
_VALUED = frozenset("-C -f -p -c -H -R -n --prefix --manifest-path --project --cwd --filter -w --workspace".split())
_SIDE = frozenset(
    "cd pushd popd export set source . echo printf sleep true false : clear pwd wait read unset alias date".split()
)
_FILTERS = frozenset("head tail wc sort uniq tee less more cat column Select-Object Out-String Out-Null".split())


@dataclass(frozen=True)
class Part:
    """One program and its words, as written."""

    words: tuple[str, ...]
    env: tuple[str, ...] = ()
    piped: bool = False

    @property
    def bare(self) -> tuple[str, ...]:
        """The words without what only carries the program."""
        words = self.words
        while words and words[0] in CARRIERS:
            words = words[1:]
            while words and (words[0].startswith("-") or _ASSIGNED.match(words[0]) or re.match(r"\d+\w?$", words[0])):
                words = words[1:]
        return words

    @property
    def program(self) -> str:
        return name(self.inner[0]) if self.inner else ""

    @property
    def inner(self) -> tuple[str, ...]:
        """The words from the program that does the work: `uv run pytest -q` is `pytest -q`."""
        words = self.bare
        for start in (" ".join(words[:2]), words[0] if words else ""):
            taken = _RUNNERS.get(start)
            if taken and len(words) > taken:
                rest = words[taken:]
                while len(rest) > 1 and rest[0].startswith("-"):
                    rest = rest[1:]
                return rest
        return words

    @property
    def family(self) -> str:
        """What it is called: the program, and what it is told to do if it can do many things."""
        inner = self.inner
        if not inner:
            return ""
        words = [name(inner[0])]
        if words[0] in _MANY:
            told = [
                word for before, word in pairwise(inner) if before not in _VALUED and re.match(r"[a-z][\w:-]*$", word)
            ]
            words += told[: 2 if told[:1] in (["run"], ["compose"]) else 1]
        return " ".join(words)


@dataclass(frozen=True)
class Line:
    """A whole command line."""

    parts: tuple[Part, ...]
    folder: str
    env: tuple[str, ...]
    operators: frozenset[str]

    @property
    def main(self) -> tuple[Part, ...]:
        """The parts that do the work: not `cd`, `echo`, or the filters at the end of a pipe."""
        work = tuple(part for part in self.parts if part.words and not _aside(part))
        return work or tuple(part for part in self.parts if part.words)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for part in self.parts for word in part.words)


def _aside(part: Part) -> bool:
    return not part.bare or name(part.bare[0]) in _SIDE or (part.piped and name(part.bare[0]) in _FILTERS)


def name(word: str) -> str:
    """A program by its name alone."""
    return re.split(r"[\\/]", plain(word))[-1].removesuffix(".exe").removesuffix(".cmd").removesuffix(".bat")


def plain(word: str) -> str:
    """A word without its quotes."""
    return re.sub(r"\\([\"'`$ ])", r"\1", re.sub(r"(?<!\\)[\"']", "", word))


def parse(command: str) -> Line:
    text = _HEREDOC.sub(" ", _COMMENT.sub("", command.strip()))
    parts: list[Part] = []
    operators: set[str] = set()
    folder = ""
    exported: tuple[str, ...] = ()
    for words, piped, operator in _pieces(text):
        operators.add(operator)
        env = tuple(_leading(words))
        rest = tuple(words[len(env) :])
        if rest[:1] in (("export",), ("set",)) and len(rest) > 1 and _ASSIGNED.match(rest[1]):
            exported += rest[1:]
            continue
        if rest[:1] in (("cd",), ("pushd",), ("Set-Location",)) and len(rest) > 1:
            folder = rest[-1]
        parts.append(Part(rest, env, piped))
    env = exported + tuple(one for part in parts for one in part.env)
    return Line(tuple(parts), folder, env, frozenset(operators))


def _leading(words: list[str]) -> Iterator[str]:
    for word in words:
        if not _ASSIGNED.match(word):
            return
        yield word


def _pieces(text: str) -> Iterator[tuple[list[str], bool, str]]:
    words: list[str] = []
    piped = False
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match[0]
        if kind in ("word", "other"):
            words.append(token)
        elif kind == "operator":
            if words:
                yield words, piped, token
            words, piped = [], token == "|"
    if words:
        yield words, piped, ""
