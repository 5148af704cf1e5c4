"""The words that rules are described with."""

from __future__ import annotations

from enum import StrEnum

EVERYWHERE = "everywhere"
"""The project whose rules hold in all projects."""


class Reach(StrEnum):
    """How far a rule goes: this one time, this session, this project, or everything its person does."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    ALWAYS = "always"


LASTING = (Reach.PROJECT, Reach.ALWAYS)
"""A rule with such a reach holds beyond its session."""


class RuleSource(StrEnum):
    """What taught it."""

    NOTE = "note"
    CORRECTION = "correction"
    PREFERENCE = "preference"
    FIX = "fix"
    EDIT = "edit"
    DENIAL = "denial"
    MODEL = "model"
    IMPORT = "import"


MACHINE_TAUGHT = (RuleSource.FIX, RuleSource.DENIAL)
"""The reason of such a rule is what a program printed."""
