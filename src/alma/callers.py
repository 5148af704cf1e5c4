"""What callers may not do who are not the person at this machine.

Programs may name files only inside folders that the user named, callers on other machines none at all; and only a
person speaks with a person's words. All of it works on the checked arguments of a call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import ScopeError, ValidationError
from .operations import Operation, Parameter
from .rulefiles import is_rule_file
from .types.record import RELAYED, find_source
from .words import AGENT

Roots = Sequence[Path] | None
"""Resolved folders in which files may be used; relative paths start at the first one. None: the caller is on another
machine and names no files of this one."""
_NO_ROOTS = "this server may use no files; start it with --root FOLDER"
_URI = re.compile(r"\s*(?:(?!file:)[A-Za-z][A-Za-z0-9+.-]+://|urn:)", re.IGNORECASE)


def limit_call(operation: Operation, arguments: Mapping[str, Any], roots: Roots, may_approve: bool) -> dict[str, Any]:
    """Return the checked arguments of a call as its caller may give them. ScopeError for what it may not do.

    Without `may_approve` no person stands behind the call: a person's words are recorded as relayed by the agent, and
    what is read waits for a person.
    """
    allowed = dict(arguments)
    if not may_approve:
        if "source" in allowed:
            allowed["source"] = _relay_source(allowed["source"])
        if operation.name == "add_many":
            memories = allowed["memories"]
            allowed["memories"] = [{**one, "source": _relay_source(one.get("source") or AGENT)} for one in memories]
        for one in operation.parameters:
            if one.about.vouches and allowed.get(one.name):
                raise ScopeError(
                    f"{one.name}=true takes outside content for a person's own words, which only a person may do: "
                    "use a token with the scope 'approve', or start the MCP server with --approve"
                )
            if one.about.vouches:
                allowed[one.name] = False
    paths = [one for one in operation.parameters if one.about.local]
    if roots is not None:
        return allowed | _confine_paths(operation, paths, allowed, roots) if paths else allowed
    for one in paths:
        value = allowed.get(one.name)
        for path in value if isinstance(value, list) else [value]:
            if path is not None and not (one.about.uri and isinstance(path, str) and _URI.match(path)):
                instead = "a URI such as https://example.org/report.txt" if one.about.uri else "null"
                raise ValidationError(
                    f"{one.name} would be a path on the server; over the network it must be {instead}"
                )
        if not one.needed:
            allowed.setdefault(one.name, None)
    return allowed


def _relay_source(source: Any) -> Any:
    return RELAYED if isinstance(source, str) and find_source(source) == "user" else source


def _confine_paths(
    operation: Operation, paths: Sequence[Parameter], arguments: Mapping[str, Any], roots: Sequence[Path]
) -> dict[str, Any]:
    """Return absolute paths inside the roots. ScopeError for any other path.

    Relative paths start at the repository that the arguments name, else at the first root. A folder that was left out
    is the first root, or none where there are no roots.
    """
    confined: dict[str, Any] = {}
    base = roots[0] if roots else None
    for one in sorted(paths, key=lambda one: not one.about.is_root):
        value = arguments.get(one.name, one.default)
        if not isinstance(value, str) or (one.about.uri and _URI.match(value)):
            continue
        if base is None and one.name not in arguments and not operation.on_files:
            confined[one.name] = None
            continue
        if base is None:
            raise ScopeError(_NO_ROOTS)
        place = _find_file(one, value, base, roots)
        confined[one.name] = str(place)
        base = place if one.about.is_root else base
    for one in paths:
        if one.about.is_root and {**arguments, **confined}.get(one.name) is None:
            if not roots:
                raise ScopeError(_NO_ROOTS)
            path = confined.get("path")
            around = (root for root in roots if path is not None and Path(path).is_relative_to(root))
            confined[one.name] = str(next(around, roots[0]))
    return confined


def _find_file(parameter: Parameter, value: str, base: Path, roots: Sequence[Path]) -> Path:
    """Return the file that a path means, where it may be used."""
    named = Path(os.path.normpath(base / value))
    try:
        real = named.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ValidationError(f"{parameter.name}: no file can have this name: {error}") from None
    # A hidden name is refused even where its link leads to a visible file.
    for place in [real, named] if any(named.is_relative_to(root) for root in roots) else [real]:
        within = [place.relative_to(root) for root in roots if place.is_relative_to(root)]
        refusal = ""
        if not within:
            refusal = f"is or leads outside of {', '.join(map(str, roots))}; --root allows other folders"
        elif parameter.about.rule_file and not any(map(is_rule_file, within)):
            refusal = (
                "is no file that coding agents read rules from, such as AGENTS.md, CLAUDE.md, "
                ".github/copilot-instructions.md or .cursor/rules/NAME.mdc"
            )
        elif not parameter.about.rule_file and all(any(part[0] == "." for part in one.parts) for one in within):
            refusal = "is or lies in a hidden file or folder, which are not used"
        if refusal:
            raise ScopeError(f"{parameter.name}: {value!r} {refusal}")
    return real


def find_project_folder(config: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder of the project that a configuration belongs to; None where that would be too much.

    That is the folder around `.alma`, or that of the file. A home folder and the root of a disk are no projects.
    """
    folder = Path.cwd() if config is None else Path(config).resolve().parent
    if config is not None and folder.name == ".alma":
        folder = folder.parent
    is_too_wide = folder in (folder.parent, Path.home().resolve())
    return None if is_too_wide or not folder.is_dir() else folder
