"""The files that coding agents read their rules from: where they are, what they begin with, and how much is read.

A file is read and written inside its repository, and never outside of it.
"""

from __future__ import annotations

import os
import re
from enum import StrEnum
from os import PathLike
from pathlib import Path, PurePath
from typing import NamedTuple

from ..engine import validate
from ..errors import ALMAError, ValidationError
from ..files import FileChange, apply_changes

NAME = "project-rules"
_DESCRIPTION = "What was learned about working in this project: its conventions, corrections and pitfalls."
_CURSOR = f'description: "{_DESCRIPTION}"\nalwaysApply: true'
_USE = "Use it before writing, changing, testing or running anything here."
_SKILL = f'name: {{name}}\ndescription: "{_DESCRIPTION} {_USE}"'
_SKILL_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SKILL_NAME_CHARS = 64


class Unit(StrEnum):
    CHARACTERS = "characters"
    BYTES = "bytes"
    LINES = "lines"

    def of(self, text: str) -> int:
        if self is Unit.LINES:
            return text.count("\n") + (not text.endswith("\n"))
        return len(text.encode("utf-8") if self is Unit.BYTES else text)


class Limit(NamedTuple):
    """How much of a file its readers take in."""

    most: int
    unit: Unit

    def __str__(self) -> str:
        return f"{self.most:,} {self.unit}"


class Host(StrEnum):
    """Whose file is written."""

    AGENTS_MD = "agents-md"
    CLAUDE_MD = "claude-md"
    CURSOR = "cursor"
    WINDSURF = "windsurf"
    COPILOT = "copilot"
    SKILL = "skill"


class Target(NamedTuple):
    path: str  # Where the file is in a repository; `{name}` is what the caller calls it.
    limit: Limit
    fields: str = ""  # The fields that a new file begins with, as YAML.


TARGETS = {
    # What Codex takes in of all such files together.
    Host.AGENTS_MD: Target("AGENTS.md", Limit(32_768, Unit.BYTES)),
    # Longer files are followed less well.
    Host.CLAUDE_MD: Target("CLAUDE.md", Limit(200, Unit.LINES)),
    Host.CURSOR: Target(".cursor/rules/{name}.mdc", Limit(500, Unit.LINES), _CURSOR),
    # Later versions read 12,000; the rest is cut off without a word.
    Host.WINDSURF: Target(".windsurf/rules/{name}.md", Limit(6_000, Unit.CHARACTERS), "trigger: always_on"),
    # So much is read in code reviews.
    Host.COPILOT: Target(".github/copilot-instructions.md", Limit(4_000, Unit.CHARACTERS), 'applyTo: "**"'),
    Host.SKILL: Target(".claude/skills/{name}/SKILL.md", Limit(500, Unit.LINES), _SKILL),
}
_INSTRUCTIONS = ".github/instructions/{name}.instructions.md"
_RULE_FILES = re.compile(
    "|".join(
        re.escape(path).replace(re.escape("{name}"), "[^/]+")
        for path in (*(one.path for one in TARGETS.values()), _INSTRUCTIONS)
    )
)


def make_front(host: Host, path: str, name: str) -> str:
    """Return what a new file begins with."""
    fields = TARGETS[host].fields
    # Only the files beside Copilot's main one say which files of code they are about.
    if not fields or (host is Host.COPILOT and not path.endswith(".instructions.md")):
        return ""
    return f"---\n{fields.format(name=name)}\n---\n\n"


def is_rule_file(path: PurePath) -> bool:
    """Whether coding agents read rules from a file of this path, at the top of a repository or in a folder of it."""
    parts = path.parts
    at = next((at for at, part in enumerate(parts) if part.startswith(".")), len(parts) - 1)
    return _RULE_FILES.fullmatch("/".join(parts[at:])) is not None


def check_name(value: str) -> str:
    """Return a name for a file or a skill: small letters, digits and single hyphens, at most 64 of them."""
    name = validate.name("name", value)
    if not _SKILL_NAME.fullmatch(name) or len(name) > _SKILL_NAME_CHARS:
        raise ValidationError(
            f"name must be small letters, digits and single hyphens, at most {_SKILL_NAME_CHARS} of them, such as "
            f"{NAME!r}; not {value!r}"
        )
    return name


# -- a file in a repository

MOST_BYTES = 1_000_000


class RuleFile(NamedTuple):
    """A file in a repository."""

    path: Path  # As it was named.
    root: Path
    real: Path  # Where it really is, links followed.

    @property
    def name(self) -> str:
        """Below the root, with slashes, the same on every machine."""
        return self.real.relative_to(self.root).as_posix()


def find_repository(folder: Path) -> Path:
    """Return the root of the repository that a folder is in; or the folder itself, or the first above that exists."""
    here = next(above for above in (folder.absolute(), *folder.absolute().parents) if above.is_dir()).resolve()
    return next((above for above in (here, *here.parents) if (above / ".git").exists()), here)


def find_file(path: str | PathLike[str] | None, root: str | PathLike[str] | None, usual: str) -> RuleFile:
    """Find a file by its path, which may be a folder; without a path, the usual one at the root of the repository."""
    try:
        if root is not None and not Path(root).is_dir():
            raise ValidationError(f"root must be a folder, and {os.fspath(root)!r} is none")
        here = find_repository(Path.cwd())
        base = None if root is None else Path(root).resolve()
        named = Path(path or usual)
        if path is not None and (named.is_dir() or os.fspath(path).endswith(("/", os.sep))):
            named /= Path(usual).name
        named = (base or (Path() if path else here)) / named
        # The repository that it is in by its name: where links on the way lead is checked against it.
        is_here = Path(os.path.abspath(named)).is_relative_to(here)
        top, real = base or (here if is_here else find_repository(named.parent)), named.resolve()
        is_other = real.exists() and not real.is_file()
    except (OSError, RuntimeError, UnicodeEncodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValidationError(f"no file can have this name: {reason}") from None
    if not real.is_relative_to(top):
        raise ValidationError(f"{named} lies outside of {top}; a link must not lead out of the repository")
    if is_other:
        raise ValidationError(f"{named} is not a file")
    return RuleFile(named, top, real)


def read_file(file: RuleFile) -> str | None:
    """Return what the file holds, every line break as it is; None when there is none."""
    try:
        if file.real.stat().st_size > MOST_BYTES:
            raise ValidationError(f"{file.path} has more than {MOST_BYTES:,} bytes; that is no file of rules")
        return file.real.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ValidationError(f"{file.path} is not UTF-8 (byte {error.start}); save it as UTF-8 first") from None
    except OSError as error:
        raise ValidationError(f"{file.path} cannot be read: {error.strerror or error}") from error


def change_file(file: RuleFile, text: str | None, before: str | None) -> None:
    """Put the text in place of `before`, all of it or nothing; None deletes the file."""
    old, new = (None if one is None else one.encode("utf-8") for one in (before, text))
    try:
        apply_changes([FileChange(file.real, old, new, mode=0o644)])
    except ALMAError as error:
        raise ValidationError(str(error)) from error
