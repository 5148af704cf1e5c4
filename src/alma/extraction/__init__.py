"""What people say in passing, made into memories: from conversations and texts, with a language model or without.

from alma.extraction import AutoLearner

results = AutoLearner(alma).learn_from_conversation(messages, agent="helena")
print(results["extracted_count"])
"""

from __future__ import annotations

from .extracting import extract_conversation, extract_text, from_conversation, from_text
from .keeping import keep
from .learner import AutoLearner
from .types import Extracted, Extraction, Kept, Kind, Voice

__all__ = [
    "AutoLearner",
    "Extracted",
    "Extraction",
    "Kept",
    "Kind",
    "Voice",
    "extract_conversation",
    "extract_text",
    "from_conversation",
    "from_text",
    "keep",
]
