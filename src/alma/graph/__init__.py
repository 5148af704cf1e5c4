"""Who and what is known, and how they hang together: entities and relationships with the times they held.

from alma.graph import EntityExtractor, create_graph_store

graph = create_graph_store("sqlite")
entities, relationships = EntityExtractor().extract("Alice from Acme Corp reviewed the PR that Bob submitted.")
graph.add_many(entities, relationships)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..ports import GraphStore
    from ..types.graph import (
        Direction,
        Entity,
        GraphStats,
        Neighbour,
        Path,
        Relationship,
        Subgraph,
        Suggestion,
    )
    from .building import Built, build, update
    from .card import Card, about
    from .extractor import EntityExtractor
    from .graph import Graph
    from .registry import create_graph_store

_HOMES = {
    "..ports": ("GraphStore",),
    "..types.graph": (
        *("Direction", "Entity", "GraphStats", "Neighbour"),
        *("Path", "Relationship", "Subgraph", "Suggestion"),
    ),
    ".building": ("Built", "build", "update"),
    ".card": ("Card", "about"),
    ".extractor": ("EntityExtractor",),
    ".graph": ("Graph",),
    ".registry": ("create_graph_store",),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Built",
    "Card",
    "Direction",
    "Entity",
    "EntityExtractor",
    "Graph",
    "GraphStats",
    "GraphStore",
    "Neighbour",
    "Path",
    "Relationship",
    "Subgraph",
    "Suggestion",
    "about",
    "build",
    "create_graph_store",
    "update",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_NAMES[name], __name__), name)
