"""What is to be done, and how far it is.

from alma.progress import ProgressTracker

tracker = ProgressTracker("my-project")
item = tracker.create_work_item(title="Fix the login bug", priority=80)
tracker.update_status(item.id, "in_progress")
next_item = tracker.get_next_item(strategy="priority")
"""

from __future__ import annotations

from .items import LEASE_SECONDS, ItemChange, ProgressLog, ProgressSummary, Status, Strategy, WorkItem
from .tracker import ProgressTracker

__all__ = [
    "LEASE_SECONDS",
    "ItemChange",
    "ProgressLog",
    "ProgressSummary",
    "ProgressTracker",
    "Status",
    "Strategy",
    "WorkItem",
]
