"""What of a project is not worth reading, or is not its people's: tools' folders, generated files, what git ignores."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from pathlib import Path

FOLDERS = frozenset(
    """node_modules bower_components jspm_packages __pycache__ venv env virtualenv site-packages vendor third_party
    thirdparty dist build out target bin obj coverage htmlcov _build _site tmp temp logs cache egg-info
    DerivedData Pods""".split()
)
HISTORIES = frozenset({".specstory", ".aider.chat.history.md"})
"""Hidden, but somebody's conversations."""
HOSTS = frozenset({".claude", ".codex", ".gemini", ".cursor", ".qwen"})
"""Hidden folders in which hosts keep conversations."""

_NAMES = re.compile(
    r"(?:.*[-.]lock|.*lock\.(?:json|ya?ml)|requirements.*\.txt|constraints.*\.txt|cmakelists\.txt|robots\.txt|.*\.min\..*"
    r"|(?:licen[cs]e|copying|notice|unlicense)(?:[-._].*)?|third[-_]party.*|.*\.(?:map|snap|pyc|svg))",
    re.I,
)
_GENERATED = re.compile(
    r"@generated\b|\bauto-?generated\b|\bgenerated (?:by|from|file)\b.*\bdo not edit\b|\bdo not edit\b", re.I
)
_IGNORE_BYTES = 256 * 1024


def folder(name: str) -> str:
    """Why a folder is not entered; empty when it is."""
    if name in FOLDERS or name.endswith(".egg-info"):
        return "a folder of tools or of what they made"
    return "hidden" if name.startswith(".") and name not in HISTORIES else ""


def file(name: str) -> str:
    """Why a file is not read; empty when it is."""
    if name in HISTORIES:
        return ""
    if name.startswith("."):
        return "hidden"
    return "a lock file, a licence or a list for tools" if _NAMES.fullmatch(name) else ""


def generated(head: str) -> bool:
    """Whether a file says of itself, at its beginning, that nobody wrote it."""
    return bool(_GENERATED.search("\n".join(head[:1_000].split("\n")[:5])))


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    keeps: bool
    folders_only: bool


class Ignored:
    """What the `.gitignore` of a folder, and of those above it, leaves out."""

    def __init__(self, folder: Path, above: Ignored | None = None) -> None:
        self._folder = folder
        self._above = above
        self._rules = _rules(folder / ".gitignore")

    def leaves_out(self, path: Path, *, is_folder: bool) -> bool:
        verdict = self._above.leaves_out(path, is_folder=is_folder) if self._above else False
        if not self._rules:
            return verdict
        inside = path.relative_to(self._folder).as_posix()
        for rule in self._rules:
            if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(inside):
                verdict = not rule.keeps
        return verdict


def _rules(file: Path) -> list[_Rule]:
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _IGNORE_BYTES:
            return []
        written = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [rule for line in written.splitlines() if (rule := _rule(line)) is not None]


def _rule(line: str) -> _Rule | None:
    told = line.rstrip()
    keeps = told.startswith("!")
    told = told.removeprefix("!")
    if not told or told.startswith("#"):
        return None
    folders_only = told.endswith("/")
    told = told.strip("/") if not told.startswith("/") else "/" + told.strip("/")
    anchored = "/" in told
    return _Rule(_pattern(told.lstrip("/"), anchored), keeps, folders_only)


@lru_cache(maxsize=2048)
def _pattern(told: str, anchored: bool) -> re.Pattern[str]:
    """As git reads it: `*` stays within a name, `**` does not, and a pattern without a slash matches at any depth."""
    pieces = []
    for piece in told.split("/"):
        if piece == "**":
            pieces.append("(?:[^/]+/)*")
        else:
            # `translate` wraps what it makes into groups of its own; only its `.` may cross a slash.
            inner = translate(piece).removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z")
            pieces.append(inner.replace(".*", "[^/]*") + "/")
    made = "".join(pieces).removesuffix("/")
    return re.compile(made if anchored else f"(?:[^/]+/)*{made}", re.S)
