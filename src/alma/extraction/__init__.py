"""Finds memories in conversations and texts, with the local reader or a language model, and stores them.

from alma.extraction import AutoLearner

learned = alma.learn_from(messages, user_id="sam")
print(learned.user_preferences, learned.skipped)

`AutoLearner` takes a model of your own, and returns the same by name.
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
from .learner import AutoLearner, Kept, LearningReport, keep

__all__ = [
    "AutoLearner", "Extracted", "Extraction", "Kept", "Kind", "LearningReport", "Voice", "extract_conversation",
    "extract_text", "find_known_memories", "from_conversation", "from_text", "keep",
]  # fmt: skip
