"""`ALMA.learn_from` takes a text, a message or a list, and says what it learned and what it skipped."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from alma import ALMA, AsyncALMA
from alma.errors import ScopeError
from alma.extraction import AutoLearner, LearningReport
from alma.operations import operations
from alma.types.query import MemoryScope

from .scripted import Scripted

WORDS = "I moved to Porto, call me Sam"
MOVED = {
    "n": 0,
    "kind": "fact",
    "text": "The user lives in Porto.",
    "quote": "I moved to Porto",
    "subject": "speaker",
    "attribute": "home city",
    "value": "Porto",
}


@pytest.mark.parametrize(
    "messages",
    [
        WORDS,
        {"role": "user", "content": WORDS},
        [{"role": "user", "content": WORDS}],
        [WORDS],
        ["I moved to Porto", {"role": "assistant", "content": "Nice."}, "call me Sam"],
    ],
)
def test_a_text_a_message_or_a_list_is_learned_from(alma: ALMA, messages: Any) -> None:
    learned = alma.learn_from(messages, user_id="sam")
    assert isinstance(learned, LearningReport)
    assert [one.fact for one in learned.domain_knowledge] == ["The user lives in Porto"]
    assert [one.preference for one in learned.user_preferences] == ["The user wants to be called Sam"]
    assert (learned.new, learned.known, learned.skipped) == (2, 0, [])
    again = alma.learn_from(messages, user_id="sam")
    assert (again.new, again.known, again.domain_knowledge) == (0, 2, [])


def test_every_kind_has_its_list(alma: ALMA) -> None:
    learned = alma.learn_from(
        "The export keeps failing when a name has an emoji. Remind me to call Bob. We decided to use Kafka. "
        "Never use npm; use pnpm instead."
    )
    [problem] = learned.anti_patterns
    assert problem.pattern == "The export when a name has an emoji"
    assert problem.why_bad == "It keeps failing"
    [task] = learned.work_items
    assert task.title == "Call Bob"
    [decision] = learned.domain_knowledge
    assert list(decision.tags) == ["decision"]
    [rule] = learned.rules
    assert rule.rule == "Never use npm; use pnpm instead"


def test_what_was_not_understood_is_named(alma: ALMA) -> None:
    long = "My " + "very " * 40 + "old boat leaks."
    learned = alma.learn_from(f"Our frogs sing on Mondays. What is a frog? Thanks! {long}")
    first, second = learned.skipped
    assert first == "'Our frogs sing on Mondays.': not understood"
    assert len(second) < 120
    many = alma.learn_from(". ".join(f"My frog number {number} sings loudly" for number in range(30)))
    assert len(many.skipped) == 21
    assert many.skipped[-1] == "10 more sentences: not understood"


def test_a_model_reads_the_same_way(open_alma: Any) -> None:
    model = Scripted({"memories": [MOVED]})
    alma = open_alma(model=model)
    learned = alma.learn_from("I moved to Porto. Our frogs sing on Mondays.", user_id="sam")
    assert learned.model == "scripted"
    assert [one.fact for one in learned.domain_knowledge] == ["The user lives in Porto."]
    assert learned.skipped == ["'Our frogs sing on Mondays.': not understood"]


def test_the_agent_has_a_default(open_alma: Any) -> None:
    assert open_alma().learn_from("I live in Rome.").domain_knowledge[0].agent == "assistant"
    only = open_alma(agents=[MemoryScope("helena")])
    assert only.learn_from("I live in Oslo.").domain_knowledge[0].agent == "helena"
    several = open_alma(agents=[MemoryScope("helena"), MemoryScope("victor")])
    with pytest.raises(ScopeError, match="unknown agent 'assistant'"):
        several.learn_from("I live in Bonn.")
    assert several.learn_from("I live in Bonn.", "victor").domain_knowledge[0].agent == "victor"


def test_it_can_be_awaited(alma: ALMA) -> None:
    learned = asyncio.run(AsyncALMA(alma).learn_from(WORDS, user_id="sam"))
    assert learned.new == 2
    assert asyncio.run(AutoLearner(alma).alearn_from(WORDS, user_id="sam"))["known"] == 2


def test_its_parameters_are_those_of_the_operation() -> None:
    method = list(inspect.signature(ALMA.learn_from).parameters)[1:]
    assert method == list(operations()["learn_from"].own_parameters)


def test_the_earlier_name_is_an_alias(alma: ALMA) -> None:
    learner = AutoLearner(alma)
    assert learner.learn_from_conversation(WORDS, user_id="sam")["new"] == 2
    assert learner.learn_from(WORDS, user_id="sam")["known"] == 2
    assert "learn_from_conversation" not in operations()
