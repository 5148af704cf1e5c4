"""Finds memories in conversations and texts, with the local reader or a language model, and stores them.

from alma.extraction import AutoLearner

results = AutoLearner(alma).learn_from_conversation(messages, agent="helena")
print(results["extracted_count"])
"""

from __future__ import annotations

from .extractor import (
    Extracted,
    Extraction,
    Kind,
    Voice,
    extract_conversation,
    extract_text,
    find_known_memories,
    from_conversation,
    from_text,
)
from .learner import AutoLearner, Kept, keep

__all__ = [
    "AutoLearner", "Extracted", "Extraction", "Kept", "Kind", "Voice", "extract_conversation", "extract_text",
    "find_known_memories", "from_conversation", "from_text", "keep",
]  # fmt: skip
