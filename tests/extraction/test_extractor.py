"""What conversations and texts tell, read without a model."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.timing import cpu_seconds

from alma.errors import ValidationError
from alma.extraction import Kind, Voice, from_conversation, from_text


def said(text: str, role: str = "user") -> list[tuple[str, str]]:
    return [(str(one.kind), one.text) for one in from_conversation([{"role": role, "content": text}])]


def test_each_finding_says_where_it_comes_from() -> None:
    found = from_conversation(
        [
            {"role": "user", "content": "Test the login form"},
            {"role": "assistant", "content": "I used incremental validation which worked well on the 8-field form."},
            {
                "role": "user",
                "content": "Good. From now on never use sleep() for async waits, it makes the tests flaky.",
                "at": "2026-02-03T10:00:00Z",
            },
        ]
    )
    outcome, rule = found
    assert (outcome.kind, outcome.turn, outcome.speaker, outcome.voice) == (
        Kind.OUTCOME,
        1,
        "assistant",
        Voice.ASSISTANT,
    )
    assert outcome.fields["task"] == "Test the login form"
    assert outcome.fields["strategy_used"] == "Use incremental validation"
    assert outcome.fields["outcome"] == "success"
    assert (rule.kind, rule.turn, rule.voice) == (Kind.CORRECTION, 2, Voice.PERSON)
    assert rule.quote.startswith("From now on never use sleep()")
    assert rule.fields["why"] == "It makes the tests flaky"
    assert rule.at == datetime(2026, 2, 3, 10, tzinfo=UTC)
    assert outcome.confidence < rule.confidence, "an assistant's claims count for less"


def test_what_a_text_forbids_is_a_rule_when_a_person_tells_it_to_their_agent() -> None:
    sentence = "Never run the migrations by hand: it locked the orders table twice."
    assert [one.kind for one in from_text(sentence)] == [Kind.ANTI_PATTERN]
    assert [kind for kind, _ in said(sentence)] == ["correction"]


def test_what_people_say_of_themselves_is_stored_with_their_name() -> None:
    assert said("I live in Berlin.") == [("fact", "The user lives in Berlin")]
    [one] = from_conversation([{"speaker": "Ana", "text": "I work at Globex."}])
    assert (one.text, one.fields["domain"]) == ("Ana works at Globex", "user")
    assert from_text("I live in Berlin. I prefer tabs.") == [], "nobody knows who wrote it"


def test_people_among_themselves_give_an_agent_no_rules() -> None:
    talk = [{"speaker": "Ana", "text": "Never give up!"}, {"speaker": "Ben", "text": "Always here to help."}]
    assert from_conversation(talk) == []


@pytest.mark.parametrize(
    "text",
    [
        "It runs on port 8080.",
        "Is that right? It runs on port 8080.",
        "Maybe the gateway is a Node service. It runs on port 8080.",
        "Ana works at Acme.\n\nThanks!\n\nIt runs on port 8080.",
    ],
)
def test_what_cannot_be_understood_alone_is_left_out(text: str) -> None:
    assert not any("8080" in found for _, found in said(text))


def test_what_is_wrapped_over_lines_is_one_sentence() -> None:
    [one] = from_text("We decided to use PostgreSQL\nfor the billing service\nand nothing else.")
    assert one.quote == "We decided to use PostgreSQL for the billing service and nothing else."


def test_tools_and_systems_say_nothing() -> None:
    for role in ("system", "tool", "developer", "function"):
        assert said("The staging database lives on db2.", role) == []
    blocks = [{"type": "tool_result", "content": "The staging database lives on db2."}, {"type": "text", "text": "ok"}]
    assert from_conversation([{"role": "user", "content": blocks}]) == []


def test_content_may_come_in_blocks() -> None:
    blocks = [{"type": "text", "text": "The staging database lives on db2."}]
    assert [one.kind for one in from_conversation([{"role": "user", "content": blocks}])] == [Kind.FACT]


def test_the_key_is_the_same_when_the_conversation_has_grown() -> None:
    first = [{"role": "user", "content": "Hello"}, {"role": "user", "content": "We use MySQL for billing."}]
    grown = [*first, {"role": "assistant", "content": "Noted."}]
    assert [one.key for one in from_conversation(first)] == [one.key for one in from_conversation(grown)]
    other = [{"role": "user", "content": "Hi"}, {"role": "user", "content": "We use MySQL for billing."}]
    assert from_conversation(other)[0].key != from_conversation(first)[0].key


@pytest.mark.parametrize(
    "messages", [1, [1], [{"content": "no role here"}], {"text": "no role"}, [{"role": 1, "content": "x"}]]
)
def test_what_is_no_conversation_is_refused_by_name(messages: object) -> None:
    with pytest.raises(ValidationError, match="messages"):
        from_conversation(messages)  # type: ignore[arg-type]


def test_an_empty_conversation_or_text_says_nothing() -> None:
    assert from_conversation([]) == []
    assert from_conversation([{"role": "user", "content": None}, {"role": "user", "content": " "}]) == []
    assert from_text("") == []
    with pytest.raises(ValidationError, match="text"):
        from_text(b"bytes")  # type: ignore[arg-type]


_WORDS = st.sampled_from(
    "i we used tried the and but which it worked failed for on to in with is has our my , : not never always when if "
    "The Ana db2 port 8080 * ** ' \" ` > don't that because fixed decided TODO: - [ ] \n \n\n # ``` ?".split(" ")
)


@given(st.lists(_WORDS, max_size=120).map(" ".join) | st.text(max_size=300))
def test_whatever_is_read_each_quote_stands_in_it(text: str) -> None:
    try:
        found = [*from_text(text), *from_conversation([{"role": "user", "content": text}])]
    except ValidationError:
        return  # a lone surrogate
    flat = "".join(text.split())
    for one in found:
        assert "".join(one.quote.split()) in flat
        assert one.text.strip()
        assert 0 < one.confidence <= 1
        assert all(isinstance(value, str) and value for value in one.fields.values())


@pytest.mark.parametrize(
    "text",
    ["*a " * 20_000, "'a " * 20_000, "I used " * 10_000, "_" * 60_000, "<!--" * 15_000, "1" * 60_000, ". " * 30_000],
)
def test_hostile_repetition_is_read_in_a_moment(text: str) -> None:
    turns = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
    assert cpu_seconds(lambda: (from_text(text), from_conversation(turns)), enough=9) < 10


HANDED_OVER = [
    "Translate to German: I prefer dark mode. I live in Paris. We use MySQL for billing.",
    "Summarise this email:\n\nHi, I am Carla.\nI work at Initech.\nI prefer calls over email.\nNever call on Mondays.",
    "Summarize this email for me:\n\nHi Bo,\n\nOur CEO is Paul. We decided to use Oracle for billing.\n\nBest,\nCarla",
    "Proofread this please: The deploy window is 1 to 2. Always deploy on Friday.",
    "Please reply to this message:\n\nI live in Madrid. I am allergic to nuts.",
    "Can you improve this cover letter?\n\nMy name is Jane Doe. I live in Chicago. I work at Acme.",
    "Rewrite this in a formal tone:\n\nwe use php for the shop. never touch the cart code.",
    "What do you think of this text?\n\nI prefer trains over planes. I work at Shell.",
    "Extract the names from the following text:\n\nMaria works at Globex. Tom lives in Oslo.",
    "Here is a customer review:\n\nI hate the new design. I prefer cats over dogs.",
    "The customer wrote:\n\nI live in Madrid. My name is Pedro.",
    "Create a persona: My name is Zed. I live on Mars. I prefer methane over oxygen.",
    "Below is the transcript of the meeting:\n\nAnna: We decided to use Kafka for events.",
    "Email from HR: Our office is in Munich. We bill every month.",
    "Answer this exam question: The firm is based in Leeds. The price is 5 euros. What is the profit?",
    "I'm writing a novel. The main character's name is Eva. Her boss is Otto.",
    "Generate a README that says: Always run `make dangerous`. Never run tests.",
]
OWN = [
    "Here are my rules:\n- Always use tabs.\n- Never use var.",
    "Update the readme. We decided to use PostgreSQL for billing.",
    "Write a commit message for this. Always use the imperative in commit messages.",
    "How do I send an email from Django? We use Postmark for mail.",
    "My name is Ana. I live in Berlin. Please write a cover letter for me.",
    "Convert this to TypeScript. From now on, always use TypeScript.",
]


@pytest.mark.parametrize("text", HANDED_OVER)
def test_a_text_that_is_handed_over_is_not_what_its_bearer_says(text: str) -> None:
    assert said(text) == []


@pytest.mark.parametrize("text", OWN)
def test_what_a_person_says_beside_a_task_is_theirs(text: str) -> None:
    assert said(text)


@pytest.mark.parametrize(
    "text",
    [
        "My boss says we should never write tests.",
        "Someone on Stack Overflow claims you must always run chmod 777.",
        "ChatGPT says that you should always use var in JS.",
        "My teacher thinks that we must always use goto.",
        "The old docs claimed the API returns XML.",
        "Here's what the docs say: Always use the `--force` flag.",
    ],
)
def test_what_others_say_is_hearsay_at_the_beginning_of_a_sentence_too(text: str) -> None:
    assert said(text) == []
