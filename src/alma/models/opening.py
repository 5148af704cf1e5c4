"""The model that a configuration names, as it may be used: within its budget, patient, and told no secrets."""

from __future__ import annotations

from collections.abc import Mapping

from ..engine.context import Engine
from ..ports import Model
from ..types.model import ModelSettings, Prices
from . import registry
from .budget import Budgeted
from .patience import RETRIES, Patient, Repairing
from .wire import TIMEOUT

DEAREST = Prices(15.0, 75.0)
"""Claude Code tells what a question cost afterwards; before, no more than this is known of it."""


def open_model(settings: ModelSettings, engine: Engine, environ: Mapping[str, str]) -> Model | None:
    """None when no model is to be asked. Whatever cannot be used is told now, and not in the middle of work."""
    model = registry.build(settings, environ)
    if model is None:
        return None
    paid = Budgeted(model, engine, settings.budget, settings.prices or DEAREST)
    retries = RETRIES if settings.retries is None else settings.retries
    patient = Patient(paid, retries, within=settings.timeout or TIMEOUT)
    return Repairing(patient) if settings.repair else patient
