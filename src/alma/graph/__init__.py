"""The knowledge graph: entities, and relationships with the times at which they were true.

from alma.graph import EntityExtractor, create_graph_store

graph = create_graph_store("sqlite")
entities, relationships = EntityExtractor().extract("Alice from Acme Corp reviewed the PR that Bob submitted.")
graph.add_many(entities, relationships)
"""

from __future__ import annotations

from ..types.graph import Direction, Entity, GraphStats, Neighbour, Path, Relationship, Subgraph, Suggestion
from .builder import Built, EntityExtractor, EntityProfile, about, build, create_graph_store, update
from .graph import Graph, GraphStore

Card = EntityProfile  # The former name.

__all__ = [
    "Built", "Card", "Direction", "Entity", "EntityExtractor", "EntityProfile", "Graph", "GraphStats",
    "GraphStore", "Neighbour", "Path", "Relationship", "Subgraph", "Suggestion", "about", "build",
    "create_graph_store", "update",
]  # fmt: skip
