"""Corrections and preferences: what a person's turn teaches, read without a model."""

from ._names import is_program, names, rivals
from ._own import above_printout, own_words
from .reading import Reading, Standing, read
from .standing import stands_alone

__all__ = [
    "Reading",
    "Standing",
    "above_printout",
    "is_program",
    "names",
    "own_words",
    "read",
    "rivals",
    "stands_alone",
]
