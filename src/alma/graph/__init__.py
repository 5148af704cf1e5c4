"""Who and what is known, and how they hang together: entities and relationships with the times they held.

from alma.graph import EntityExtractor, create_graph_store

graph = create_graph_store("sqlite")
entities, relationships = EntityExtractor().extract("Alice from Acme Corp reviewed the PR that Bob submitted.")
graph.add_many(entities, relationships)
"""

from __future__ import annotations

from ..types.graph import Direction, Entity, GraphStats, Neighbour, Path, Relationship, Subgraph, Suggestion
from .building import Built, build, update
from .card import Card, about
from .extractor import EntityExtractor
from .graph import Graph, GraphStore
from .registry import create_graph_store

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
