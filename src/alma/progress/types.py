"""The classes of work items under their first module name; they are defined in `alma.progress.items`."""

from .items import ProgressLog as ProgressLog
from .items import ProgressSummary as ProgressSummary
from .items import WorkItem as WorkItem
