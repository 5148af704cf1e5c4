"""From text to entities and relationships."""

from .extractor import EntityExtractor

__all__ = ["EntityExtractor"]
