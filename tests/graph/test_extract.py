"""What texts name and state. The scores on labelled sentences are in tests/reading/test_scoreboard.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.timing import cpu_seconds

from alma.errors import ModelOutputError, ValidationError
from alma.graph import EntityExtractor
from alma.models.client import check
from alma.types.asking import Answer, Prompt


def found(text: str, **options: Any) -> tuple[dict[str, str], set[tuple[str, ...]]]:
    entities, relationships = EntityExtractor().extract(text, **options)
    names = {one.id: one.name for one in entities}
    return (
        {one.name: one.type for one in entities},
        {(names[one.subject], one.type, names[one.object]) for one in relationships},
    )


def test_the_sentence_of_the_seed() -> None:
    entities, relations = found("Alice from Acme Corp reviewed the PR that Bob submitted.")
    assert entities == {"Alice": "person", "Acme Corp": "organisation", "Bob": "person"}
    assert relations == {("Alice", "works_at", "Acme Corp")}
    assert found("Alice from Oslo reviewed the PR.")[1] == set(), "nobody works at a city"


@pytest.mark.parametrize(
    "text",
    [
        "Did Alice join Acme Corp?",
        "Alice did not join Acme Corp.",
        "Alice never joined Acme Corp.",
        "Alice didn't join Acme Corp.",
        "Alice will join Acme Corp.",
        "Alice might join Acme Corp.",
        "Alice wants to join Acme Corp.",
        "If Alice joined Acme Corp, nobody told us.",
        "Bob thinks Alice joined Acme Corp.",
        "Bob said that Alice joined Acme Corp.",
        'The note says "Alice joined Acme Corp".',
        "I heard that Alice joined Acme Corp.",
        "Maybe Alice joined Acme Corp.",
    ],
)
def test_what_is_not_a_fact_is_not_a_relation(text: str) -> None:
    entities, relations = found(text)
    assert relations == set()
    assert {"Alice", "Acme Corp"} <= entities.keys()


def test_each_has_its_place() -> None:
    text = "Hm. Bob fixed #12 after Bob saw src/a/b.py."
    entities, [relation] = EntityExtractor().extract(text)
    assert {one.name: [text[start:end] for start, end in one.spans] for one in entities} == {
        "Bob": ["Bob", "Bob"], "#12": ["#12"], "src/a/b.py": ["src/a/b.py"]
    }  # fmt: skip
    assert relation.span is not None
    assert text[slice(*relation.span)] == "Bob fixed #12"
    assert all(0 < one.confidence <= 1 for one in entities)


def test_i_is_who_speaks() -> None:
    assert found("I joined Initech last week.")[1] == set()
    entities, relations = found("I joined Initech last week.", speaker="Jon")
    assert relations == {("Jon", "joined", "Initech")}
    assert entities["Jon"] == "person"


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("open ./run.sh now", "./run.sh", "file"),
        ("in docs/a.md, see", "docs/a.md", "file"),
        ("see https://x.io/a(b), ok", "https://x.io/a(b", "url"),
        ("fixed in GH-12", "GH-12", "issue"),
        ("then npm install left-pad", "left-pad", "package"),
        ("run `git push --force`", "git push --force", "command"),
        ("ask @bob-smith", "@bob-smith", "person"),
    ],
)
def test_what_is_known_by_how_it_is_written(text: str, name: str, kind: str) -> None:
    assert found(text)[0] == {name: kind}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "and/or",
        "he/she",
        "1/2",
        "UTF-8 or SHA-256",
        "e.g. this",
        "SHOUTING IS NOT NAMING",
        "v1.2.3",
        "a@b.co",
    ],
)
def test_what_names_nobody(text: str) -> None:
    assert found(text) == ({}, set())


def test_a_password_in_an_address_is_not_kept() -> None:
    entities, _ = found("clone https://bob:hunter2@git.example.com/x.git today")
    assert not any("hunter2" in name for name in entities)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ValidationError, match="must be a string"):
        EntityExtractor().extract(b"Bob")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="speaker"):
        EntityExtractor().extract("I left.", speaker="\x00")


WORDS = [
    *"the that who from reviewed is , and . ? not PR was by works at of to I manager".split(),
    *("Alice", "Bob's", "Acme Corp", '"', "#12", "`git x`", "a/b.py", "\n", "🙂", "’s"),
]


@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join) | st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    entities, relationships = EntityExtractor().extract(text, speaker="Zoe")
    ids = {one.id for one in entities}
    for one in entities:
        assert one.name.strip()
        assert all(0 <= start < end <= len(text) for start, end in one.spans)
    for relation in relationships:
        assert {relation.subject, relation.object} <= ids
        assert relation.subject != relation.object


@pytest.mark.parametrize(
    "text", ["Alice and Bob, " * 8000, "that " * 20_000, "a/" * 50_000, "A" * 100_000, "Ab " * 33_000]
)
def test_a_long_text_takes_no_age(text: str) -> None:
    assert cpu_seconds(lambda: EntityExtractor().extract(text), enough=19) < 20


# -- with a model


class Scripted:
    name = "scripted"

    def __init__(self, *values: Any) -> None:
        self._values = list(values)
        self.asked: list[Prompt] = []

    def ask(self, prompt: Prompt) -> Answer:
        self.asked.append(prompt)
        value = self._values.pop(0)
        if isinstance(value, Exception):
            raise value
        check(value, prompt.schema)
        return Answer(value=value, model=self.name)


TEXT = "the falcon rewrite slipped because Bob left for Acme Corp"


def answer(*relations: tuple[str, str, str], n: int = 0, **entities: str) -> dict[str, Any]:
    return {
        "n": n,
        "entities": [{"name": name.replace("_", " "), "type": kind} for name, kind in entities.items()],
        "relations": [{"subject": a, "relation": b, "object": c} for a, b, c in relations],
    }


def test_a_model_finds_more() -> None:
    value = answer(("Bob", "moved to", "Acme Corp"), Bob="person", Acme_Corp="organization", falcon_rewrite="other")
    extractor = EntityExtractor(Scripted({"texts": [value]}))
    entities, relationships = extractor.extract(TEXT)
    assert {one.name: one.type for one in entities} == {
        "Bob": "person", "Acme Corp": "organisation", "falcon rewrite": "thing"
    }  # fmt: skip
    assert [(one.subject, one.type, one.object) for one in relationships] == [("bob", "moved_to", "acme corp")]
    assert all(TEXT[start:end] == one.name for one in entities for start, end in one.spans)
    sure = {one.name: one.confidence for one in entities}
    assert sure["Bob"] > sure["falcon rewrite"], "what both readers find is surer"
    assert extractor.reader == "scripted"


def test_a_model_is_believed_only_as_far_as_the_text_goes() -> None:
    relations = (("Bob", "killed", "Mallory"), ("Bob", "x; DROP", "Acme Corp"), ("Bob", "is", "Bob"))
    value = answer(*relations, Bob="person", Mallory="person", Acme_Corp="organization")
    entities, relationships = EntityExtractor(Scripted({"texts": [value]})).extract(TEXT)
    assert {one.name for one in entities} == {"Bob", "Acme Corp"}
    assert relationships == []


@pytest.mark.parametrize("value", [ModelOutputError("nonsense"), ["no"], {"texts": 7}])
def test_when_the_model_fails_the_local_reading_is_used(value: Any) -> None:
    model = Scripted(value)
    extractor = EntityExtractor(model)
    assert {one.name for one in extractor.extract(TEXT)[0]} == {"Bob", "Acme Corp"}
    assert extractor.reader.startswith("local (scripted failed: ")
    extractor.extract("Maria left")
    assert len(model.asked) == 1, "and it is not asked again"


def test_texts_are_read_together_and_each_once() -> None:
    model = Scripted({"texts": [answer(n=1, falcon="project")]})
    extractor = EntityExtractor(model)
    texts = [("I left.", "Jon"), ("the falcon", None), ("the falcon", None), ("  ", None)]
    readings = extractor.extract_many(texts)
    assert [[one.name for one in entities] for entities, _ in readings] == [[], ["falcon"], ["falcon"], []]
    extractor.extract("the falcon")
    [prompt] = model.asked
    assert "Jon: I left." in prompt.text
    assert "falcon" not in prompt.system


def test_a_redacted_secret_is_no_name() -> None:
    entities, _ = EntityExtractor().extract("Maria's key is [REDACTED:anthropic_key] and Tom has [REDACTED:password].")
    assert {one.name for one in entities} == {"Maria", "Tom"}


def test_a_model_gets_no_secrets() -> None:
    model = Scripted({"texts": [answer(Tom="person")]})
    EntityExtractor(model).extract("Tom's password is hunter2secret9, and Tom works at Acme Corp.")
    assert "Acme Corp" in model.asked[0].text
    assert "hunter2secret9" not in model.asked[0].text
