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

_NO_ROOTS = "this server may use no files; start it with --root FOLDER"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|urn:")


def is_uri(text: str) -> bool:
    """Whether a text is a URI that names no file of this machine."""
    stripped = text.strip()
    return _URI.match(stripped) is not None and not stripped.lower().startswith("file:")


# -- files


class Roots:
    """Folders named by the user. Relative paths start at the first one."""

    def __init__(self, folders: Sequence[str | os.PathLike[str]] = ()) -> None:
        self.folders = tuple(Path(one).resolve() for one in folders)

    def confine(self, operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the checked arguments with absolute paths inside the roots. ScopeError for any other path.

        Relative paths start at the repository that the arguments name, else at the first root. A folder that was left
        out is the first root, or none where there are no roots.
        """
        confined = dict(arguments)
        paths = [one for one in operation.parameters if one.about.local]
        base = self.folders[0] if self.folders else None
        for parameter in sorted(paths, key=lambda one: not one.about.is_root):
            value = arguments.get(parameter.name, parameter.default)
            if not isinstance(value, str) or (parameter.about.uri and is_uri(value)):
                continue
            if base is None and parameter.name not in arguments and not operation.on_files:
                confined[parameter.name] = None
                continue
            found = self._find(parameter, value, base)
            confined[parameter.name] = str(found)
            if parameter.about.is_root:
                base = found
        for parameter in paths:
            if parameter.about.is_root and confined.get(parameter.name) is None:
                if not self.folders:
                    raise ScopeError(_NO_ROOTS)
                path = confined.get("path")
                around = (one for one in self.folders if path is not None and Path(path).is_relative_to(one))
                confined[parameter.name] = str(next(around, self.folders[0]))
        return confined

    def _find(self, parameter: Parameter, value: str, base: Path | None) -> Path:
        if base is None:
            raise ScopeError(_NO_ROOTS)
        named = Path(os.path.normpath(base / value))
        try:
            real = named.resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ValidationError(f"{parameter.name}: no file can have this name: {error}") from None
        self._refuse_outside(parameter, value, real)
        if named != real and any(named.is_relative_to(one) for one in self.folders):
            # A hidden name is refused even where its link leads to a visible file.
            self._refuse_outside(parameter, value, named)
        return real

    def _refuse_outside(self, parameter: Parameter, value: str, place: Path) -> None:
        within = [place.relative_to(root) for root in self.folders if place.is_relative_to(root)]
        if not within:
            folders = ", ".join(map(str, self.folders))
            raise ScopeError(
                f"{parameter.name}: {value!r} is or leads outside of {folders}; --root allows other folders"
            )
        if parameter.about.rule_file:
            if not any(map(is_rule_file, within)):
                raise ScopeError(
                    f"{parameter.name}: {value!r} is no file that coding agents read rules from, such as AGENTS.md, "
                    "CLAUDE.md, .github/copilot-instructions.md or .cursor/rules/NAME.mdc"
                )
        elif all(any(part.startswith(".") for part in one.parts) for one in within):
            raise ScopeError(f"{parameter.name}: {value!r} is or lies in a hidden file or folder, which are not used")


def find_project_folder(config: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder of the project that a configuration belongs to; None where that would be too much.

    That is the folder around `.alma`, or that of the file. A home folder and the root of a disk are no projects.
    """
    if config is None:
        folder = Path.cwd()
    else:
        folder = Path(config).resolve().parent
        folder = folder.parent if folder.name == ".alma" else folder
    is_too_wide = folder == folder.parent or folder == Path.home().resolve()
    return None if is_too_wide or not folder.is_dir() else folder


def refuse_paths(operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as a caller on another machine may give them: a path is null, or a URI where one will do."""
    allowed = dict(arguments)
    for one in operation.parameters:
        if not one.about.local:
            continue
        value = allowed.get(one.name)
        for path in value if isinstance(value, list) else [value]:
            if path is not None and not (one.about.uri and isinstance(path, str) and is_uri(path)):
                instead = "a URI such as https://example.org/report.txt" if one.about.uri else "null"
                raise ValidationError(
                    f"{one.name} would be a path on the server; over the network it must be {instead}"
                )
        if not one.needed:
            allowed.setdefault(one.name, None)
    return allowed


# -- a person's words


def relay_sources(operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as an agent may give them: a person's words are recorded as relayed by the agent."""

    def relay(source: Any) -> Any:
        return RELAYED if isinstance(source, str) and find_source(source) == "user" else source

    relayed = dict(arguments)
    if "source" in relayed:
        relayed["source"] = relay(relayed["source"])
    if operation.name == "add_many":
        relayed["memories"] = [{**one, "source": relay(one.get("source") or AGENT)} for one in relayed["memories"]]
    return relayed


def refuse_vouching(operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked arguments of a caller who may not approve: what is read waits for a person."""
    allowed = dict(arguments)
    for parameter in operation.parameters:
        if not parameter.about.vouches:
            continue
        if allowed.get(parameter.name):
            raise ScopeError(
                f"{parameter.name}=true takes outside content for a person's own words, which only a person may do: "
                "use a token with the scope 'approve', or start the MCP server with --approve"
            )
        allowed[parameter.name] = False
    return allowed
