"""The files that coding agents read their rules from: where they are, what they begin with, and how much is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

from ..engine import validate
from ..errors import ValidationError

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
        if self is Unit.BYTES:
            return len(text.encode("utf-8"))
        return text.count("\n") + (not text.endswith("\n")) if self is Unit.LINES else len(text)


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of a file its readers take in."""

    most: int
    unit: Unit

    def __str__(self) -> str:
        return f"{self.most:,} {self.unit}"


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    path: str
    """Where the file is in a repository; `{name}` is what the caller calls it."""
    limit: Limit
    fields: str = ""
    """The fields that a new file begins with, as YAML."""

    def front(self, path: str, name: str) -> str:
        """Return what a new file begins with."""
        # Only the files beside Copilot's main one say which files of code they are about.
        if not self.fields or (self.name == "copilot" and not path.endswith(".instructions.md")):
            return ""
        return f"---\n{self.fields.format(name=name)}\n---\n\n"


TARGETS = {
    target.name: target
    for target in (
        # What Codex takes in of all such files together.
        Target("agents-md", "AGENTS.md", Limit(32_768, Unit.BYTES)),
        # Longer files are followed less well.
        Target("claude-md", "CLAUDE.md", Limit(200, Unit.LINES)),
        Target("cursor", ".cursor/rules/{name}.mdc", Limit(500, Unit.LINES), _CURSOR),
        # Later versions read 12,000; the rest is cut off without a word.
        Target("windsurf", ".windsurf/rules/{name}.md", Limit(6_000, Unit.CHARACTERS), "trigger: always_on"),
        # So much is read in code reviews.
        Target("copilot", ".github/copilot-instructions.md", Limit(4_000, Unit.CHARACTERS), 'applyTo: "**"'),
        Target("skill", ".claude/skills/{name}/SKILL.md", Limit(500, Unit.LINES), _SKILL),
    )
}


class Host(StrEnum):
    """Whose file is written."""

    AGENTS_MD = "agents-md"
    CLAUDE_MD = "claude-md"
    CURSOR = "cursor"
    WINDSURF = "windsurf"
    COPILOT = "copilot"
    SKILL = "skill"


_INSTRUCTIONS = ".github/instructions/{name}.instructions.md"
_RULE_FILES = re.compile(
    "|".join(
        re.escape(path).replace(re.escape("{name}"), "[^/]+")
        for path in (*(one.path for one in TARGETS.values()), _INSTRUCTIONS)
    )
)


def is_rule_file(path: PurePath) -> bool:
    """Whether coding agents read rules from a file of this path, at the top of a repository or in a folder of it."""
    parts = path.parts
    at = next((at for at, part in enumerate(parts) if part.startswith(".")), len(parts) - 1)
    return _RULE_FILES.fullmatch("/".join(parts[at:])) is not None


def target(given: object) -> Target:
    return TARGETS[validate.choice("target", given, Host)]


def file_name(given: str) -> str:
    """A name for a file or a skill: small letters, digits and single hyphens, at most 64 of them."""
    name = validate.name("name", given)
    if not _SKILL_NAME.fullmatch(name) or len(name) > _SKILL_NAME_CHARS:
        raise ValidationError(
            f"name must be small letters, digits and single hyphens, at most {_SKILL_NAME_CHARS} of them, such as "
            f"{NAME!r}; not {given!r}"
        )
    return name


def skill_name(path: PurePath, name: str) -> str:
    """A skill is called what its folder is called."""
    return file_name(path.parent.name) if path.name == "SKILL.md" else name
