"""Imports project documents and conversations with any assistant as typed memories.

from alma.ingestion import ingest_conversations, ingest_directory

result = ingest_directory("path/to/project", agent="dev", project_id="myapp")
result = ingest_conversations("path/to/chats", agent="dev", project_id="myapp")
"""

from __future__ import annotations

from .catalogue import Plan, Planned, Skipped, Wanted
from .formats import Format
from .intake import (
    Damage,
    IngestResult,
    Progress,
    ingest,
    ingest_conversation,
    ingest_conversations,
    ingest_directory,
    ingest_file,
    plan,
)

__all__ = [
    "Damage", "Format", "IngestResult", "Plan", "Planned", "Progress", "Skipped", "Wanted", "ingest",
    "ingest_conversation", "ingest_conversations", "ingest_directory", "ingest_file", "plan",
]  # fmt: skip
