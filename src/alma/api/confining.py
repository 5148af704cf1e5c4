"""The folders that a server may read and write files in. Nothing outside of them, and nothing hidden inside."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ScopeError, ValidationError
from ..rulefiles import is_rule_file
from .elsewhere import is_uri
from .operation import Operation, Parameter

_NO_ROOTS = "this server may use no files; start it with --root FOLDER"


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
                confined[parameter.name] = str(self._root_of(confined.get("path")))
        return confined

    def _root_of(self, path: str | None) -> Path:
        if not self.folders:
            raise ScopeError(_NO_ROOTS)
        return next(
            (one for one in self.folders if path is not None and Path(path).is_relative_to(one)), self.folders[0]
        )

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
