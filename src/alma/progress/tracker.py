"""`ProgressTracker` under its first module name; it is defined in `alma.progress`."""

from . import ProgressTracker as ProgressTracker
