"""Workflows: checkpoints to go on from, branches to merge, artifacts, and memories that know where they belong.

from alma.workflow import WorkflowMemory

workflow = WorkflowMemory("my-project")
workflow.checkpoint("run-7", "fetch", {"pages": 12}, workflow_id="crawl")
workflow.resume("run-7").state
"""

from __future__ import annotations

from .memory import Artifact, Checkpoint, Run, RunStatus, Scope, WorkflowMemory
from .states import MAX_STATE_BYTES, REDUCERS, merge_states

__all__ = [
    "MAX_STATE_BYTES",
    "REDUCERS",
    "Artifact",
    "Checkpoint",
    "Run",
    "RunStatus",
    "Scope",
    "WorkflowMemory",
    "merge_states",
]
