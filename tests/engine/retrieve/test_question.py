from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alma.engine.retrieve.question import names, read


@pytest.mark.parametrize(
    "query",
    [
        "fix TypeError in src/app/main.py", "What is my dog's name?", "how do I use <context> in React?",
        "why is `a_b()` slow?", "close </div> tags?", '{"a": 1, "b": "what is it?"}', "deploy", "?", "去年我住在哪里？",
        "what does commit 3f2a9c1b7d4e5f60718293a4b5c6d7e8f9012345 change?", "a: b", "On what day? I forgot.",
    ],
)  # fmt: skip
def test_an_ordinary_question_is_left_as_it_is(query: str) -> None:
    assert read(query).text == query
    assert read(f"  {query}\n").text == query


PASTED = {
    "a reminder": ("<system-reminder>Be nice. Use tools.</system-reminder>\nHow do I deploy the API?",
                   "How do I deploy the API?"),
    "a prompt": ("You are a helpful assistant. Answer concisely.\n\nPlease answer the following question based on the "
                 "context below:\n<context>\nThe moon. Is it cheese?\n</context>\nQuestion: Where does Emily live?",
                 "Where does Emily live?"),
    "a tagged question": ("<documents>a b c</documents><question>Who is Max?</question> Answer in one word.",
                          "Who is Max?"),
    "a transcript": ("User: hi\nAssistant: hello, can I help?\nUser: what is my dog's name?\nAssistant:",
                     "what is my dog's name?"),
    "a python trace": ('Why does this fail?\nTraceback (most recent call last):\n  File "/app/main.py", line 10, in '
                       '<module>\n    run()\n  File "/app/run.py", line 3, in run\n    x = cfg["port"]\n'
                       "KeyError: 'port'", "Why does this fail? KeyError: 'port'"),
    "a java trace": ("It broke\njava.lang.NullPointerException: name is null\n\tat com.acme.Foo.bar(Foo.java:12)\n"
                     "\tat com.acme.Main.main(Main.java:5)\n\t... 3 more",
                     "It broke java.lang.NullPointerException: name is null"),
    "long code": ("Fix this:\n```\n" + "x = 1\n" * 300 + "ValueError: bad thing\n```\nwhy does it happen?",
                  "Fix this: ValueError: bad thing why does it happen?"),
    "short code": ("```python\nprint(1)\n``` what does it print?", "print(1) what does it print?"),
    "a blob": ("decode " + "QUJD" * 60 + " please", "decode please"),
    "an address": ("open https://example.com/page?" + "utm=abc&" * 30 + " and tell me",
                   "open https://example.com/page and tell me"),
    "a mail": ("Can we meet Tuesday?\n\nOn Mon, 3 May 2023, Bob wrote:\n> how are you\n> ok?", "Can we meet Tuesday?"),
    "shouting": ("what?????????? is!!!!!! this", "what? is! this"),
    "hidden characters": ("where\u200b is\x00 it", "where is it"),
    "a set phrase": ("I'm going back to our previous conversation about beer, and I was wondering if you could remind "
                     "me of the name of the brewery?", "beer, the name of the brewery?"),
    "only a set phrase": ("Can you remind me?", "Can you remind me?"),
}  # fmt: skip


@pytest.mark.parametrize(("query", "text"), PASTED.values(), ids=PASTED.keys())
def test_of_what_was_pasted_the_part_that_asks(query: str, text: str) -> None:
    assert read(query).text == text


def test_of_a_long_text_the_last_question_and_the_error() -> None:
    log = "\n".join(f"INFO step {i} took {i} ms. Was it slow?" for i in range(400))
    text = read(f"Please look at this log\n{log}\nConnectionError: refused by db-7\nWhich host is down?\nThanks").text
    assert len(text) <= 1000
    assert text.startswith("Please look at this log")
    assert "Which host is down?" in text
    assert "ConnectionError: refused by db-7" in text


FLAGS = ("several", "ordered", "latest", "asks_when", "about_assistant", "advice")


@pytest.mark.parametrize(
    ("query", "flags"),
    [
        ("How many bikes do I own?", "several"),
        ("List the books I read", "several"),
        ("What is the total cost of the bowl and the cup?", "several"),
        ("How much did I spend on the car wash and the parking ticket?", "several"),
        ("How much did I spend on a handbag?", ""),
        ("How much time do I practise every day?", ""),
        ("What are the names of my cats?", "several"),
        ("Which came first, the bike or the car?", "several ordered"),
        ("Which book did I finish first, 'The Crown' or 'Emma'?", "several ordered"),
        ("In what order did I visit them?", "several ordered"),
        ("Did I move before or after the wedding?", "several ordered"),
        ("What was the first issue with my car?", ""),
        ("What is my current record?", "latest"),
        ("Where do I currently live?", "latest"),
        ("Which service did I start using most recently?", "latest"),
        ("Which phone do I use these days?", "latest"),
        ("When did I book the flat?", "asks_when"),
        ("How many weeks ago did I meet Anna?", "asks_when"),
        ("How many days passed between the race and the party?", "several asks_when"),
        ("How long ago was the race?", "asks_when"),
        ("What was the name of the shop you recommended?", "about_assistant"),
        ("Remind me what you said about beer", "about_assistant"),
        ("I'm looking back at our previous chat. What was the fifth bottle?", "about_assistant"),
        ("Can you recommend a show to watch?", "advice"),
        ("My kitchen is a mess. Any tips?", "advice"),
        ("What should I cook?", "advice"),
        ("I've got some free time tonight, any documentary recommendations?", "advice"),
        ("Where does my sister Emily live?", ""),
        ("", ""),
    ],
)
def test_the_kind_of_a_question(query: str, flags: str) -> None:
    found = read(query)
    assert " ".join(flag for flag in FLAGS if getattr(found, flag)) == flags


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Which did I get first, the Samsung Galaxy S22 or the Dell XPS 13?", ("Samsung Galaxy S22", "Dell XPS 13")),
        ("Did I finish 'The Hitchhiker's Guide' by Douglas Adams?", ("The Hitchhiker's Guide", "Douglas Adams")),
        ("Caroline went to Paris with Mel. Painting is fun. Then I left.", ("Caroline", "Paris", "Mel")),
        ("Emma's dog bit me.", ("Emma",)),
        ("Rachel likes tea. I met Rachel on Tuesday in May.", ("Rachel",)),
        ("fix TypeError in src/app/main.py", ("TypeError", "src/app/main.py")),
        ("call foo_bar() and os.path on @bob's #tag", ("foo_bar()", "os.path", "@bob", "#tag")),
        ("my visit to the Museum of Modern Art (MoMA)", ("Museum of Modern Art", "MoMA")),
        ("see Dr. Smith at St. Mary's Church", ("Dr. Smith", "St. Mary's Church")),
        ("the Café Ünlü in Österreich", ("Café Ünlü", "Österreich")),
        ("WHY IS THE BUILD BROKEN", ()),
        ("What time do I wake up?", ()),
        ("I'm sure I've seen it, e.g. in March 15th and/or on Fridays", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_names_as_written(text: str, found: tuple[str, ...]) -> None:
    assert names(text) == found


def test_no_more_names_than_wanted() -> None:
    assert names("we met Anna, Ben, Cleo and Dora", 2) == ("Anna", "Ben")


_PIECES = st.sampled_from(
    ["User: ", "Assistant:", "\n", " ", "<context>", "</context>", "<question>", "</question>", "```", "> ", "????",
     "Can you remind me", "I was wondering", "you are a helpful assistant", "what is it?", "a", "Bo", "KeyError: x",
     '  File "a.py", line 1\n', "x" * 90, "\x00", "\u200b", "https://a.b/c?" + "d" * 80, "{", "}", "----", ".", "-",
     "On a wrote:", "y " * 300, "answer the question", ":"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=12).map("".join)))
@example("\n")
@example("{\n" * 1000)
@example("a" * 5000)
def test_what_is_asked_is_never_empty_and_asked_again_the_same(query: str) -> None:
    text = read(query).text
    assert bool(text) == bool(query)
    assert len(text) <= 1000
    assert read(text).text == text
    assert all(name in text for name in read(query).names)


@pytest.mark.parametrize(
    "piece",
    ["'", '"', "<context>", "</context>", "<context></context>", "User: a\n", "```", "a", "> a\n", "A ", "{\n", "a? ",
     "I was wondering ", "at a.b(\n", "error ", "-", 'File "a", line 1\n', "\n", " ", "\n ", "A.b_c/", "_", "<a ", "@",
     "answer the question ", "based on the following ", "On ", "é", "you are a "],
)  # fmt: skip
def test_long_input_takes_no_long_time(piece: str) -> None:
    hostile = piece * (200_000 // len(piece))
    for query in (f"{hostile}a", f"why????? {hostile} error: a", f"a\n{hostile}\nUser: a"):
        began = time.process_time()
        assert read(query).text
        names(query)
        assert time.process_time() - began < 0.5
