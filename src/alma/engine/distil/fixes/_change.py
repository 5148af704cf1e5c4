"""What is different between two command lines, and whether one is another form of the other."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from ._shell import Line, Part, name, plain

# Programs that do the same for somebody in need.
_ALIKE = tuple(
    frozenset(group.split())
    for group in (
        "python python3 python2 py ipython pypy pypy3",
        "pip pip3 uv pipx poetry conda mamba pdm",
        "npm pnpm yarn bun npx bunx pnpx",
        "node bun deno tsx ts-node nodejs",
        "docker-compose docker podman podman-compose nerdctl",
        "grep rg ag ack ugrep egrep fgrep findstr Select-String",
        "ls dir Get-ChildItem gci find fd fdfind tree eza exa",
        "cat type Get-Content gc bat less more head tail sed",
        "curl wget http https Invoke-WebRequest iwr Invoke-RestMethod",
        "sed gsed perl awk gawk",
        "date gdate",
        "open xdg-open start explorer",
        "make gmake nmake just task",
        "mvn mvnw gradle gradlew",
        "jest vitest mocha",
        "pytest unittest nose tox nox",
        "rm del Remove-Item rmdir",
        "cp copy Copy-Item xcopy robocopy",
        "mv move Move-Item ren Rename-Item",
        "mkdir md New-Item",
        "ps tasklist Get-Process pgrep",
        "kill taskkill Stop-Process pkill killall lsof fuser",
        "which where command type Get-Command",
        "psql pgcli", "mysql mariadb", "sqlite3 sqlite",
        "bash sh zsh dash", "pwsh powershell",
        "vi vim nvim nano", "md5 md5sum", "sha256sum shasum", "timeout gtimeout", "tac tail", "nproc sysctl",
    )
)  # fmt: skip
_INSTALLS = re.compile(
    r"\b(?:(?:pip3?|pipx|conda|mamba|brew|port|choco|scoop|winget|gem|cargo|go|uv pip|uv tool|apt(?:-get)?|dnf|yum|apk"
    r"|npm|pnpm|bun|bundle|composer|playwright|rustup component) (?:-\S+ )*(?:install|add|i|require)"
    r"|(?:npm|pnpm|bun) (?:i|ci)\b|npm ci|yarn(?: add| install)|uv (?:add|sync)|poetry (?:add|install)|pacman -S"
    r"|go (?:get|mod tidy)|bundle install|pod install|dotnet (?:restore|add)|mix deps\.get|flutter pub get)\b"
)
_ECOSYSTEM = (
    re.compile(r"\b(?:python3?|py|pytest|pip3?|uv|poetry|flask|django|manage\.py|uvicorn|mypy|ruff|black|conda)\b"),
    re.compile(r"\b(?:node|npm|npx|pnpm|yarn|bun|jest|vitest|tsc|eslint|next|vite|tsx|ts-node|playwright)\b"),
    re.compile(r"\b(?:ruby|bundle|rails|rake|gem|rspec|pod)\b"),
    re.compile(r"\b(?:go|gofmt|golangci-lint)\b"),
    re.compile(r"\b(?:cargo|rustc|rustup)\b"),
    re.compile(r"\b(?:php|composer|artisan)\b"),
)
# Flags that change how much is said, not what is done.
_LOUDNESS = re.compile(r"-[vqxs]+$|--(?:verbose|quiet|silent|no-color|color\S*|tb=\S+)$|-n?\d+$")


@dataclass(frozen=True)
class Change:
    """One part that failed beside its other form."""

    failed: Part
    worked: Part
    removed: tuple[str, ...]
    added: tuple[str, ...]
    env: tuple[str, ...]
    folder: str
    requoted: tuple[tuple[str, str], ...]

    @property
    def swapped(self) -> bool:
        """Only what the program is told changed, not the program."""
        return self.failed.program == self.worked.program

    @property
    def telling(self) -> bool:
        """Whether more than the loudness or a plain argument changed."""
        flags = [word for word in self.removed + self.added if word.startswith("-") and not _LOUDNESS.match(word)]
        return bool(self.env or flags or self.requoted or self.carried)

    @property
    def only_flags(self) -> bool:
        """Whether it is about the same things and only how it is said changed."""
        return not _free(self.failed.words, self.removed) and not _free(self.worked.words, self.added)

    @property
    def carried(self) -> bool:
        """Whether another program now runs the one that failed: `sudo docker ps`, `bash ./deploy.sh`."""
        program = self.failed.words[0]
        return program != self.worked.words[0] and program in self.worked.words


def _free(words: tuple[str, ...], chosen: tuple[str, ...]) -> bool:
    """Whether one of the chosen words is neither a flag nor the value of one."""
    return any(
        word in chosen and not word.startswith("-") and not before.startswith("-")
        for before, word in pairwise(("", *words))
    )


def alike(one: str, other: str) -> bool:
    return one == other or any(one in group and other in group for group in _ALIKE)


def installs(line: Line) -> str:
    """The command that installs something, if there is one."""
    for part in line.main:
        text = " ".join(part.bare)
        if _INSTALLS.match(text):
            return text
    return ""


def same_ecosystem(failed: Line, installed: str) -> bool:
    text = " ".join(failed.words)
    return any(ecosystem.search(text) and ecosystem.search(installed) for ecosystem in _ECOSYSTEM)


def kinship(one: Part, other: Part) -> float:
    """How much one part is another form of the other: 0 for nothing in common."""
    own, theirs = one.inner, other.inner
    if not own or not theirs:
        return 0.0
    if one.family == other.family:
        base = 1.0
    elif name(own[0]) in {name(word) for word in other.words[1:]} or name(theirs[0]) in {
        name(word) for word in one.words[1:]
    }:
        base = 0.7
    elif alike(one.program, other.program) and one.program != other.program and _same_matter(own, theirs):
        base = 0.6
    else:
        return 0.0
    return base + _shared(one.words, other.words)


def _same_matter(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    first, second = ({_matter(word) for word in words[1:] if not word.startswith("-")} for words in (one, other))
    return bool(first & second) or not first or not second


def _matter(word: str) -> str:
    """What a word is about; of a pattern, its folder."""
    bare = plain(word)
    return bare.split("*")[0].rstrip("/") if "*" in bare and not bare.startswith("*") else bare


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    first, second = set(map(plain, one)), set(map(plain, other))
    return len(first & second) / max(1, len(first | second))


def best(failed: Part, worked: Line) -> Part | None:
    """The part of the other line that comes nearest."""
    parts = worked.main if not failed.piped else worked.parts
    ranked = sorted(parts, key=lambda part: kinship(failed, part), reverse=True)
    return ranked[0] if ranked and kinship(failed, ranked[0]) > 0 else None


def change(failed: Part, worked: Part, before: Line, after: Line) -> Change:
    old, new = Counter(map(plain, failed.words)), Counter(map(plain, worked.words))
    raw = {plain(word): word for word in failed.words}
    requoted = tuple(
        (raw[plain(word)], word) for word in worked.words if plain(word) in raw and raw[plain(word)] != word
    )
    known = set(before.env)
    return Change(
        failed,
        worked,
        tuple(word for word in dict.fromkeys(failed.words) if (old - new)[plain(word)]),
        tuple(word for word in dict.fromkeys(worked.words) if (new - old)[plain(word)]),
        tuple(one for one in after.env if one not in known),
        after.folder if after.folder != before.folder else "",
        requoted,
    )
