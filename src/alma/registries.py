"""Parts of alma by name: built in, or added by installed packages with an entry point.

A package adds a store, an embedder or a model in its pyproject.toml:

    [project.entry-points."alma.stores"]
    duckdb = "alma_duckdb:DuckDBStore"

Built-in parts are declared in the same form and cannot be replaced. Entry points are read only when somebody asks for
a name that is not built in, because reading them costs more than opening a memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from .errors import ConfigError, unknown

OWN_PACKAGE = "alma-memory"


@dataclass(frozen=True, slots=True)
class Part:
    """A registered name, the object that it stands for as "module:attribute", and the package that declares it."""

    name: str
    target: str
    package: str

    @property
    def is_built_in(self) -> bool:
        """Whether alma itself declares it."""
        return self.package == OWN_PACKAGE

    def load(self) -> Any:
        """Import the module and return the object. Raise ConfigError if the package of somebody else is broken."""
        module, _, attribute = self.target.partition(":")
        if self.is_built_in:
            return getattr(import_module(module), attribute)
        try:
            return getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"{self.name!r} of the package {self.package} cannot be loaded from {self.target}: {error}"
            ) from error


class Registry:
    """The parts of one sort. `noun` is what an error calls them, `group` is the group of their entry points."""

    def __init__(self, group: str, noun: str, built_in: Mapping[str, str], *, unlisted: Iterable[str] = ()) -> None:
        self.group = group
        self.noun = noun
        self.built_in = {name: Part(name, target, OWN_PACKAGE) for name, target in built_in.items()}
        self._unlisted = frozenset(unlisted)
        """Second names, which an error does not offer."""

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or bool(self._find_added(str(name)))

    def find(self, name: str) -> Part:
        """Return the part of that name; raise ConfigError if there is none, or if two packages declare it."""
        if name in self.built_in:
            return self.built_in[name]
        candidates = self._find_added(name)
        if not candidates:
            raise ConfigError(self._describe_unknown(name))
        if len(candidates) > 1:
            packages = " and ".join(sorted(part.package for part in candidates))
            raise ConfigError(f"the {self.noun} {name!r} is declared by {packages}; uninstall all of them but one")
        return candidates[0]

    def load(self, name: str) -> Any:
        """Import the part of that name and return it."""
        return self.find(name).load()

    def list_parts(self) -> list[Part]:
        """Return the built-in parts, then those of installed packages by name."""
        return [*self.built_in.values(), *self._list_added()]

    def _find_added(self, name: str) -> list[Part]:
        return [part for part in self._list_added() if part.name == name]

    def _list_added(self) -> list[Part]:
        """Return what installed packages declare. A name that is built in is not theirs to declare."""
        from importlib.metadata import entry_points  # Costs more than all of this module.

        added: dict[tuple[str, str], Part] = {}
        for entry in entry_points(group=self.group):
            package = entry.dist.name if entry.dist is not None else entry.module
            if entry.name not in self.built_in:
                # The same package may be found twice, such as an installed and an editable copy.
                added[(entry.name, package)] = Part(entry.name, f"{entry.module}:{entry.attr}", package)
        return [added[key] for key in sorted(added)]

    def _describe_unknown(self, name: str) -> str:
        own = [built_in for built_in in self.built_in if built_in not in self._unlisted]
        added = self._list_added()
        message = unknown(self.noun, name, [*own, *(part.name for part in added)])
        if not added:
            return message
        sources = ", ".join(f"{part.name} (from {part.package})" for part in added)
        return f"{message} Added by installed packages: {sources}."
