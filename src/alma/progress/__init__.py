"""What is to be done, and how far it is.

from alma.progress import ProgressTracker

tracker = ProgressTracker("my-project")
item = tracker.create_work_item(title="Fix the login bug", priority=80)
tracker.update_status(item.id, "in_progress")
next_item = tracker.get_next_item(strategy="priority")
"""

from __future__ import annotations

from .tracker import ProgressTracker
from .types import ItemChange, ProgressLog, ProgressSummary, Status, Strategy, WorkItem

__all__ = ["ItemChange", "ProgressLog", "ProgressSummary", "ProgressTracker", "Status", "Strategy", "WorkItem"]
