"""Corrections and preferences: what a person's turn teaches, read without a model."""

from ._names import names
from ._own import above_printout, own_words
from .reading import Reading, Standing, read
from .standing import stands_alone

__all__ = ["Reading", "Standing", "above_printout", "names", "own_words", "read", "stands_alone"]
