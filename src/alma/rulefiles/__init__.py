"""Rules in git: export rules to the files that coding agents read, and import people's edits.

from alma.rulefiles import export, import_

export(alma, "agents-md")
import_(alma, "AGENTS.md")
"""

from __future__ import annotations

from .exchange import Change, ExportReport, ImportReport, LeftOut, Side, Verb, export, import_, plan
from .targets import TARGETS, Host, Limit, Target, Unit, is_rule_file

__all__ = [
    "TARGETS", "Change", "ExportReport", "Host", "ImportReport", "LeftOut", "Limit", "Side", "Target", "Unit",
    "Verb", "export", "import_", "is_rule_file", "plan",
]  # fmt: skip
