"""How people answer what an agent has done. Half of the replies were held back when the forms were written."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.reading import Count, read_rows

from alma.reading.replies import ReplyKind, asks_question, find_objection, read_quoted_reply, read_reply

ROWS = read_rows(Path(__file__).parent / "data" / "replies.jsonl")
DONE = "ran `./bin/check --fast` before the release of the stylesheet"


@pytest.mark.parametrize(("part", "least"), [("dev", 0.95), ("held", 0.9)])
def test_replies_are_told_apart(part: str, least: float) -> None:
    rows = [row for row in ROWS if row["set"] == part]
    kinds = [read_reply(row["text"], DONE) for row in rows]
    accepted = [kind in (ReplyKind.ACCEPTS, ReplyKind.ANSWERS) for kind in kinds]
    acceptance = Count.of((row["label"] == "accepts", answer) for row, answer in zip(rows, accepted, strict=True))
    assert acceptance.precision >= 0.97, "in doubt nothing is accepted"
    assert acceptance.recall >= least
    objection = Count.of(
        (row["label"] == "objects", kind is ReplyKind.OBJECTS) for row, kind in zip(rows, kinds, strict=True)
    )
    assert objection.recall >= 0.95
    assert objection.precision >= least
    always = Count.of((row["label"] == "accepts", True) for row in rows)
    assert always.precision < 0.5, "always accepted"


@pytest.mark.parametrize(
    ("text", "quote", "kind"),
    [
        ("perfect. now the docs", "perfect", ReplyKind.ACCEPTS),
        ("perfect. now the docs", "now the docs", ReplyKind.NEITHER),
        ("yes. and the docs", "yes", ReplyKind.ANSWERS),
        ("is it perfect?", "perfect", ReplyKind.NEITHER),
        ("oh great, perfect", "perfect", ReplyKind.NEITHER),
        ("perfect", "", ReplyKind.NEITHER),
        ("now the docs", "perfect", ReplyKind.NEITHER),
        ("ok works", "ok works", ReplyKind.ACCEPTS),
        ("works for me, thanks", "works for me", ReplyKind.ACCEPTS),
        ("works only without the cache", "works", ReplyKind.NEITHER),
        ("ok works?", "works", ReplyKind.NEITHER),
        ("ship it", "ship it", ReplyKind.ACCEPTS),
        ("thanks, now the docs", "thanks", ReplyKind.ACCEPTS),
        ("danke, weiter mit den Farben", "danke", ReplyKind.ACCEPTS),
        ("спасибо, теперь документация", "спасибо", ReplyKind.ACCEPTS),
        ("ありがとう。次は文書です", "ありがとう", ReplyKind.ACCEPTS),
        ("👍 now the docs", "👍", ReplyKind.ACCEPTS),
        ("läuft", "läuft", ReplyKind.ACCEPTS),
        ("thanks", "thanks", ReplyKind.NEITHER),
        ("thanks, but use the other one", "thanks", ReplyKind.NEITHER),
        ("gracias, pero con el otro", "gracias", ReplyKind.NEITHER),
        ("thanks for nothing", "thanks", ReplyKind.NEITHER),
        ("cheers, you broke the build", "cheers", ReplyKind.NEITHER),
        ("ship it to the other team as well?", "ship it", ReplyKind.NEITHER),
        ("push the button to the left", "push", ReplyKind.NEITHER),
    ],
)
def test_only_the_quoted_sentence_accepts(text: str, quote: str, kind: ReplyKind) -> None:
    assert read_quoted_reply(text, quote) is kind


@pytest.mark.parametrize(
    ("text", "is_objection"),
    [
        ("now add the footer, don't touch the header", False),
        ("now add the footer, don't run the check again", True),
        ("don't do that", True),
        ("why do orders take so long?", False),
        ("why do you check that?", True),
        ("no problem, go on with the footer", False),
    ],
)
def test_a_no_objects_if_it_may_be_about_what_was_done(text: str, is_objection: bool) -> None:
    assert bool(find_objection(text, DONE)) is is_objection


@pytest.mark.parametrize(
    ("message", "question"),
    [
        ("Done. Should I always do it like this?", "Should I always do it like this?"),
        ("Why? Because it was slow. I changed it. It is fast now. All tests pass.", ""),
        ("Done.", ""),
    ],
)
def test_the_question_at_the_end_of_a_message_is_found(message: str, question: str) -> None:
    assert asks_question(message) == question
