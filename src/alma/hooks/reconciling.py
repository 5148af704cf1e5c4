"""Look-alikes among the rules of a project, compared by the model after a session: where it is allowed, in one call."""

from __future__ import annotations

import os
from dataclasses import replace

from ..engine.context import Engine
from ..engine.upkeep.reconcile import reconcile_by_model
from ..models import registry
from ..models.budget import Budgeted, Limits
from ..types.rules import EVERYWHERE
from . import settings
from .place import Place

_ONE_CALL = 40


def compare_lookalikes(place: Place, engine: Engine) -> str:
    """Ask how rules that look alike relate. Returns what went wrong, if anything; then it is asked again later."""
    limits = settings.read(place)
    model = registry.create("claude-cli", {"model": limits.text("model_name")}, os.environ)
    if model is None:
        return ""
    budgeted = Budgeted(model, replace(engine, project=EVERYWHERE), Limits(calls=limits.number("daily_calls")))
    return reconcile_by_model(engine, budgeted, _ONE_CALL).problem
