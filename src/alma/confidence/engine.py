"""`ConfidenceEngine` under its first module name; it is defined in `alma.confidence`."""

from . import ConfidenceEngine as ConfidenceEngine
