"""Corrections and preferences: what a person's turn teaches, read without a model."""

from .reading import Reading, Standing, read

__all__ = ["Reading", "Standing", "read"]
