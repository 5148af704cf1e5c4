from __future__ import annotations

from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.timing import cpu_seconds

from alma.reading.questions import cut_pasted, find_names, read_question, split_parts


@pytest.mark.parametrize(
    "question",
    ["fix TypeError in src/app/main.py", "What is my dog's name?", "how do I use <context> in React?", "deploy", "?",
     "close </div> tags?", '{"a": 1, "b": "what is it?"}', "去年我住在哪里？", "a: b", "On what day? I forgot."],
)  # fmt: skip
def test_an_ordinary_question_stays_as_it_is(question: str) -> None:
    assert cut_pasted(question) == question
    assert cut_pasted(f"  {question}\n") == question


@pytest.mark.parametrize(
    ("prompt", "question"),
    [
        ("<system-reminder>Be nice. Use tools.</system-reminder>\nHow do I deploy?", "How do I deploy?"),
        ("<documents>a b c</documents><question>Who is Max?</question> Answer in one word.", "Who is Max?"),
        ("User: hi\nAssistant: hello, can I help?\nUser: what is my dog's name?\nAssistant:", "what is my dog's name?"),
        ("where\u200b is\x00 it", "where is it"),
    ],
)
def test_context_around_a_question_is_cut_off(prompt: str, question: str) -> None:
    assert cut_pasted(prompt) == question


def test_a_long_prompt_keeps_its_start_its_question_and_its_error() -> None:
    log = "\n".join(f"12:00:01 step {number} took {number} ms" for number in range(400))
    text = cut_pasted(f"Please look at this log\n{log}\nConnectionError: refused by db-7\nWhich host is down?\nThanks")
    assert len(text) <= 1000
    assert text.startswith("Please look at this log")
    assert "Which host is down?" in text
    assert "ConnectionError: refused by db-7" in text


def test_a_long_prompt_loses_its_code() -> None:
    text = cut_pasted("Fix this:\n```\n" + "x = 1\n" * 300 + "ValueError: bad thing\n```\nwhy does it happen?")
    assert text == "Fix this: why does it happen? ValueError: bad thing"


@pytest.mark.parametrize(
    ("question", "several"),
    [
        ("How many bikes do I own?", True),
        ("List the books I read", True),
        ("What are the names of my cats?", True),
        ("Which service did I use most recently?", False),
        ("How much did I spend on a handbag?", False),
    ],
)
def test_a_count_or_a_list_asks_for_several_memories(question: str, several: bool) -> None:
    assert read_question(question).several is several


@pytest.mark.parametrize(
    ("question", "personal"),
    [
        ("Where does my sister live?", True),
        ("What did I say about the garden?", True),
        ("What was the shop you recommended?", True),
        ("Wie heißt mein Hund?", True),
        ("How do I deploy the API?", False),
        ("Refactor the parser", False),
        ("What is the capital of France?", False),
    ],
)
def test_a_question_about_oneself_is_personal(question: str, personal: bool) -> None:
    assert read_question(question).personal is personal


def test_small_talk_is_idle() -> None:
    assert read_question("ok, thanks, go ahead").idle
    assert not read_question("deploy the API").idle
    assert not read_question("and Anna?").idle


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Which did I get first, the Samsung Galaxy S22 or the Dell XPS 13?", ("Samsung Galaxy S22", "Dell XPS 13")),
        ("Did I finish 'The Hitchhiker's Guide' by Douglas Adams?", ("The Hitchhiker's Guide", "Douglas Adams")),
        ("Emma's dog bit me in Paris. Painting is fun.", ("Emma", "Paris")),
        ("fix TypeError in src/app/main.py with foo_bar()", ("TypeError", "src/app/main.py", "foo_bar()")),
        ("my visit to the Museum of Modern Art and St. Mary's Church", ("Museum of Modern Art", "St. Mary's Church")),
        ("the Café Ünlü in Österreich", ("Café Ünlü", "Österreich")),
        ("WHY IS THE BUILD BROKEN", ()),
        ("What did I do on Tuesday in May, e.g. at home?", ()),
        ("去年我住在哪里", ()),
    ],
)
def test_names_are_found_as_they_are_written(text: str, names: tuple[str, ...]) -> None:
    assert find_names(text) == names


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("How many days between my visit to the museum and the concert?", ("my visit to the museum", "the concert")),
        ("Which did I buy first, the kayak or the tent pegs?", ("the kayak", "the tent pegs")),
        ("What is the name of my dog?", ()),
        ("", ()),
    ],
)
def test_each_thing_asked_about_is_a_part(question: str, parts: tuple[str, ...]) -> None:
    assert split_parts(question) == parts


_PIECES = st.sampled_from(
    ["User: ", "Assistant:", "\n", " ", "<context>", "</context>", "<question>", "</question>", "```", "> ", "????",
     "what is it?", "a", "Bo", "KeyError: x", '  File "a.py", line 1\n', "x" * 90, "\x00", "\u200b", "{", "y " * 300]
)  # fmt: skip


@given(st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=12).map("".join)))
@example("\n")
@example("{\n" * 1000)
@example("a" * 5000)
def test_a_prompt_is_never_cut_to_nothing(prompt: str) -> None:
    question = read_question(prompt)
    assert bool(question.text) == bool(prompt)
    assert len(question.text) <= 1000
    assert all(part in question.text for part in question.parts)


@pytest.mark.parametrize(
    "piece",
    ["'", '"', "<context>", "<context></context>", "<question>", "User: a\n", "```", "a", "> a\n", "A ", "{\n", "a? ",
     "error ", "-", 'File "a", line 1\n', "\n", " ", "A.b_c/", "_", "<a ", "@", "between a and ", ", a or ", "é"],
)  # fmt: skip
def test_a_long_text_is_read_fast(piece: str) -> None:
    text = piece * (60_000 // len(piece))
    for prompt in (f"{text}a", f"why????? {text} error: a", f"a\n{text}\nUser: a"):
        assert read_question(prompt).text
        calls = (partial(read_question, prompt), partial(find_names, prompt), partial(split_parts, prompt[:1000]))
        assert sum(cpu_seconds(call, 10, enough=0.15) for call in calls) < 0.5
