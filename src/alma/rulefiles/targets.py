"""The rule files of coding agents: their paths, front matter and size limits.

A file is read and written only inside its repository.
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
# Part of files that exist already: export --remove deletes a file only if nothing but this front matter is left.
_DESCRIPTION = "What was learned about working in this project: its conventions, corrections and pitfalls."
_CURSOR = f'description: "{_DESCRIPTION}"\nalwaysApply: true'
_USE = "Use it before writing, changing, testing or running anything here."
_SKILL = f'name: {{name}}\ndescription: "{_DESCRIPTION} {_USE}"'
_SKILL_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SKILL_NAME_CHARS = 64


class Unit(StrEnum):
    """The unit of a size limit."""

    CHARACTERS = "characters"
    BYTES = "bytes"
    LINES = "lines"

    def of(self, text: str) -> int:
        """Return the size of a text in this unit."""
        if self is Unit.LINES:
            return text.count("\n") + (not text.endswith("\n"))
        return len(text.encode("utf-8") if self is Unit.BYTES else text)


class Limit(NamedTuple):
    """How much of a file an agent reads."""

    most: int
    unit: Unit

    def __str__(self) -> str:
        return f"{self.most:,} {self.unit}"


class Host(StrEnum):
    """The agent whose rule file is written."""

    AGENTS_MD = "agents-md"
    CLAUDE_MD = "claude-md"
    CURSOR = "cursor"
    WINDSURF = "windsurf"
    COPILOT = "copilot"
    SKILL = "skill"


class Target(NamedTuple):
    """The rule file of an agent."""

    path: str  # The path in a repository; `{name}` is replaced by the name that the caller passes.
    limit: Limit
    fields: str = ""  # The front matter of a new file, as YAML.


TARGETS = {
    # Codex reads this much of all such files together.
    Host.AGENTS_MD: Target("AGENTS.md", Limit(32_768, Unit.BYTES)),
    # Longer files are followed less well.
    Host.CLAUDE_MD: Target("CLAUDE.md", Limit(200, Unit.LINES)),
    Host.CURSOR: Target(".cursor/rules/{name}.mdc", Limit(500, Unit.LINES), _CURSOR),
    # Later versions read 12,000; the rest is cut off silently.
    Host.WINDSURF: Target(".windsurf/rules/{name}.md", Limit(6_000, Unit.CHARACTERS), "trigger: always_on"),
    # Code reviews read this much.
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
    """Return the front matter of a new file; empty if it has none."""
    fields = TARGETS[host].fields
    # Of Copilot's files, only `*.instructions.md` have front matter.
    if not fields or (host is Host.COPILOT and not path.endswith(".instructions.md")):
        return ""
    return f"---\n{fields.format(name=name)}\n---\n\n"


def is_rule_file(path: PurePath) -> bool:
    """Return whether coding agents read rules from this path, at the root of a repository or in a subfolder."""
    parts = path.parts
    at = next((at for at, part in enumerate(parts) if part.startswith(".")), len(parts) - 1)
    return _RULE_FILES.fullmatch("/".join(parts[at:])) is not None


def find_rule_files(folder: Path) -> list[Path]:
    """Return the files at the root of a repository that coding agents read rules from."""
    patterns = [*(one.path for one in TARGETS.values()), _INSTRUCTIONS, "CLAUDE.local.md", ".claude/CLAUDE.md"]
    paths = {path for pattern in patterns for path in folder.glob(pattern.format(name="*")) if path.is_file()}
    return sorted(paths)


def check_name(value: str) -> str:
    """Return a valid name for a file or a skill. Raise ValidationError for any other."""
    name = validate.name("name", value)
    if not _SKILL_NAME.fullmatch(name) or len(name) > _SKILL_NAME_CHARS:
        raise ValidationError(
            f"name must consist of lowercase letters, digits and single hyphens, at most {_SKILL_NAME_CHARS} "
            f"characters, such as {NAME!r}, not {value!r}"
        )
    return name


# -- a file in a repository

MOST_BYTES = 1_000_000


class RuleFile(NamedTuple):
    """A file in a repository."""

    path: Path  # As the caller passed it.
    root: Path
    real: Path  # With links resolved.

    @property
    def name(self) -> str:
        """Return the path below the root, with slashes, the same on every machine."""
        return self.real.relative_to(self.root).as_posix()


def find_repository(folder: Path) -> Path:
    """Return the root of the repository around a folder; without one, the folder or its first existing parent."""
    here = next(above for above in (folder.absolute(), *folder.absolute().parents) if above.is_dir()).resolve()
    return next((above for above in (here, *here.parents) if (above / ".git").exists()), here)


def find_file(path: str | PathLike[str] | None, root: str | PathLike[str] | None, usual: str) -> RuleFile:
    """Return the file at a path, which may be a folder; without a path, the usual file at the root of the repository.

    Raise ValidationError for a path outside of the repository.
    """
    try:
        if root is not None and not Path(root).is_dir():
            raise ValidationError(f"root must be an existing folder, not {os.fspath(root)!r}")
        here = find_repository(Path.cwd())
        base = None if root is None else Path(root).resolve()
        target = Path(path or usual)
        if path is not None and (target.is_dir() or os.fspath(path).endswith(("/", os.sep))):
            target /= Path(usual).name
        target = (base or (Path() if path else here)) / target
        # The repository is found by the unresolved path; the resolved one must be inside it.
        is_here = Path(os.path.abspath(target)).is_relative_to(here)
        top, real = base or (here if is_here else find_repository(target.parent)), target.resolve()
        is_other = real.exists() and not real.is_file()
    except (OSError, RuntimeError, UnicodeEncodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValidationError(f"{os.fspath(path or usual)!r} is not a valid file name: {reason}") from None
    if not real.is_relative_to(top):
        raise ValidationError(f"{os.path.normpath(target)} is outside the repository {top}; choose a file inside it")
    if is_other:
        raise ValidationError(f"{target} is not a file")
    return RuleFile(target, top, real)


def read_file(file: RuleFile) -> str | None:
    """Return the text of the file with its line endings unchanged; None if it does not exist."""
    try:
        if file.real.stat().st_size > MOST_BYTES:
            raise ValidationError(f"{file.path} has more than {MOST_BYTES:,} bytes; a rule file must be smaller")
        return file.real.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ValidationError(f"{file.path} is not UTF-8 (byte {error.start}); save it as UTF-8 first") from None
    except OSError as error:
        raise ValidationError(f"{file.path} cannot be read: {error.strerror or error}") from error


def change_file(file: RuleFile, text: str | None, before: str | None) -> None:
    """Replace the content `before` with the text atomically; None deletes the file."""
    old, new = (None if one is None else one.encode("utf-8") for one in (before, text))
    try:
        apply_changes([FileChange(file.real, old, new, mode=0o644)])
    except ALMAError as error:
        raise ValidationError(str(error)) from error
