"""How likely a strategy is to work in the context at hand, and how far such predictions can be trusted."""

from .calibration import Bin, Report, calibration
from .engine import ConfidenceEngine
from .types import ConfidenceSignal, OpportunitySignal, RiskSignal

__all__ = [
    "Bin",
    "ConfidenceEngine",
    "ConfidenceSignal",
    "OpportunitySignal",
    "Report",
    "RiskSignal",
    "calibration",
]
