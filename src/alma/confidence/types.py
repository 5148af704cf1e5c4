"""The classes of predictions under their first module name; they are defined in `alma.confidence`."""

from . import ConfidenceSignal as ConfidenceSignal
from . import OpportunitySignal as OpportunitySignal
from . import RiskSignal as RiskSignal
