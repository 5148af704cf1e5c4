"""The values that operations give, for those who show them; nothing here is loaded to call an operation."""

from __future__ import annotations

from ..confidence import Bin, ConfidenceSignal, OpportunitySignal, Report, RiskSignal
from ..domains import DomainSchema
from ..engine.feedback import FeedbackReport
from ..engine.view import Stats
from ..progress import ItemChange, ProgressLog, ProgressSummary, WorkItem
from ..rulefiles import ExportReport
from ..session.handoff import Session, SessionContext, SessionHandoff
from ..workflow import Artifact, Checkpoint, Run

__all__ = [
    "Artifact",
    "Bin",
    "Checkpoint",
    "ConfidenceSignal",
    "DomainSchema",
    "ExportReport",
    "FeedbackReport",
    "ItemChange",
    "OpportunitySignal",
    "ProgressLog",
    "ProgressSummary",
    "Report",
    "RiskSignal",
    "Run",
    "Session",
    "SessionContext",
    "SessionHandoff",
    "Stats",
    "WorkItem",
]
