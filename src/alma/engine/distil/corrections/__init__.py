"""Corrections and preferences: what a person's turn teaches, read without a model."""

from ._names import names, rivals
from .reading import Reading, Standing, read
from .standing import stands_alone

__all__ = ["Reading", "Standing", "names", "read", "rivals", "stands_alone"]
