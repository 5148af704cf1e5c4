"""What is already written: project documents and chats with any assistant, read once and kept as typed memories.

from alma.ingestion import ingest_conversations, ingest_directory

result = ingest_directory("path/to/project", agent="dev", project_id="myapp")
result = ingest_conversations("path/to/chats", agent="dev", project_id="myapp")
"""

from __future__ import annotations

from .catalogue import Wanted
from .intake import ingest, ingest_conversation, ingest_conversations, ingest_directory, ingest_file, plan
from .types import Damage, Format, IngestResult, Plan, Planned, Progress, Skipped

__all__ = [
    "Damage",
    "Format",
    "IngestResult",
    "Plan",
    "Planned",
    "Progress",
    "Skipped",
    "Wanted",
    "ingest",
    "ingest_conversation",
    "ingest_conversations",
    "ingest_directory",
    "ingest_file",
    "plan",
]
