"""A model's second look at what a session taught: only where it is allowed, once a session, within the budget."""

from __future__ import annotations

import os
from dataclasses import replace

from ..engine import refine
from ..engine.admit import build, commit
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..errors import ConflictError, ModelError, OverBudgetError
from ..models import registry
from ..models.budget import Budgeted, Limits
from ..types.asking import Prompt
from ..types.record import Origin, Provenance, Record
from ..types.rules import EVERYWHERE
from . import settings
from .place import Place, digest

_ANSWER_TOKENS = 2000


def is_allowed(place: Place) -> bool:
    """By the settings, unless the environment says otherwise."""
    said = os.environ.get("CLAUDE_SMART_USE_LOCAL_CLI", "")
    if said in ("0", "1"):
        return said == "1"
    return settings.read(place).text("model") == "claude"


def look_again(place: Place, engine: Engine, session: str) -> str:
    """Let the model refine what a session taught. Returns what went wrong, if anything; then nothing was changed."""
    rules = refine.waiting(engine, session)
    if not rules or not _first(engine, session):
        return ""
    limits = settings.read(place)
    model = registry.create("claude-cli", {"model": limits.text("model_name")}, os.environ)
    if model is None:
        return ""
    shared = replace(engine, project=EVERYWHERE)
    asked = Budgeted(model, shared, Limits(calls=limits.number("daily_calls")))
    prompt = Prompt(system=refine.SYSTEM, text=refine.question(rules), schema=refine.SCHEMA, max_tokens=_ANSWER_TOKENS)
    try:
        answer = asked.ask(prompt)
    except OverBudgetError:
        return ""
    except ModelError as error:
        return f"the model could not be asked: {error}"
    commit(engine, lambda: (None, refine.refined(engine, session, answer.value)))
    return ""


def _first(engine: Engine, session: str) -> bool:
    """Whoever puts the mark may ask; nobody ever asks twice about a session."""
    draft = Draft(kind="marker", body={"value": True}, provenance=Provenance(Origin.SYSTEM))
    mark: Record = replace(build(engine, draft, ()), id=f"mrk_refined_{digest(session)}", project="")
    try:
        engine.store.put([mark])
    except ConflictError:
        return False
    return True
