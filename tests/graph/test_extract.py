"""What a text names and says. `labelled/held_out.txt` was written before the rules and never tuned on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.errors import ModelOutputError, ValidationError
from alma.graph import EntityExtractor
from alma.graph.extract.asking import SCHEMA
from alma.models.schema import check
from alma.types.asking import Answer, Prompt

LABELLED = Path(__file__).parent / "labelled"


class Sentence(NamedTuple):
    text: str
    entities: dict[str, list[str]]
    relations: set[tuple[str, ...]]


def sentences(name: str) -> list[Sentence]:
    found = []
    for block in (LABELLED / f"{name}.txt").read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            text, named, said = lines
            entities = dict(one.strip().rsplit(":", 1) for one in named[1:].split(";") if one.strip())
            relations = {tuple(part.strip() for part in one.split("|")) for one in said[1:].split(";") if one.strip()}
            found.append(Sentence(text, {key: kinds.split("|") for key, kinds in entities.items()}, relations))
    return found


def found(text: str, **options: Any) -> tuple[dict[str, str], set[tuple[str, ...]]]:
    entities, relationships = EntityExtractor().extract(text, **options)
    names = {one.id: one.name for one in entities}
    return (
        {one.name: one.type for one in entities},
        {(names[one.subject], one.type, names[one.object]) for one in relationships},
    )


def share(right: int, all: int) -> float:
    return right / all if all else 1.0


def measured(name: str) -> dict[str, float]:
    told: list[tuple[set[Any], set[Any]]] = []
    said: list[tuple[set[Any], set[Any]]] = []
    typed = kinds = 0
    for one in sentences(name):
        entities, relations = found(one.text)
        told.append((set(entities), set(one.entities)))
        said.append((relations, one.relations))
        both = entities.keys() & one.entities.keys()
        typed += sum(entities[key] in one.entities[key] for key in both)
        kinds += len(both)
    return {
        "entity precision": share(sum(len(a & b) for a, b in told), sum(len(a) for a, _ in told)),
        "entity recall": share(sum(len(a & b) for a, b in told), sum(len(b) for _, b in told)),
        "types": share(typed, kinds),
        "relation precision": share(sum(len(a & b) for a, b in said), sum(len(a) for a, _ in said)),
        "relation recall": share(sum(len(a & b) for a, b in said), sum(len(b) for _, b in said)),
    }


def test_the_labelled_sets_are_large_enough() -> None:
    assert len(sentences("tuning")) + len(sentences("held_out")) >= 110
    assert len(sentences("held_out")) == 60
    assert {one.text for one in sentences("tuning")}.isdisjoint(one.text for one in sentences("held_out"))


@pytest.mark.parametrize("name", ["tuning", "held_out"])
def test_what_is_found_is_right(name: str) -> None:
    told = measured(name)
    assert told["entity precision"] >= 0.9, told
    assert told["entity recall"] >= 0.85, told
    assert told["types"] >= 0.85, told
    assert told["relation precision"] >= 0.8, told
    assert told["relation recall"] >= 0.7, told


def test_the_sentence_everybody_knows() -> None:
    entities, relations = found("Alice from Acme Corp reviewed the PR that Bob submitted.")
    assert entities == {
        "Alice": "person", "Acme Corp": "organisation", "Bob": "person", "PR that Bob submitted": "thing"
    }  # fmt: skip
    assert relations == {
        ("Alice", "works_at", "Acme Corp"),
        ("Alice", "reviewed", "PR that Bob submitted"),
        ("Bob", "submitted", "PR that Bob submitted"),
    }


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


def test_a_first_name_is_its_full_name_where_there_is_one() -> None:
    entities, relations = found("Jane Doe joined Acme Corp. Jane leads the data team.")
    assert "Jane" not in entities
    assert ("Jane Doe", "leads", "data team") in relations


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
    with pytest.raises(ValidationError, match="must be text"):
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
    began = time.perf_counter()
    EntityExtractor().extract(text)
    assert time.perf_counter() - began < 20


# -- with a model


class Scripted:
    name = "scripted"

    def __init__(self, value: Any) -> None:
        self._value = value
        self.asked: list[Prompt] = []

    def ask(self, prompt: Prompt) -> Answer:
        self.asked.append(prompt)
        if isinstance(self._value, Exception):
            raise self._value
        check(self._value, prompt.schema)
        return Answer(value=self._value, model=self.name)


TEXT = "the falcon rewrite slipped because Bob left for Acme Corp"


def told(*relations: tuple[str, str, str], **entities: str) -> dict[str, Any]:
    return {
        "entities": [{"name": name.replace("_", " "), "type": kind} for name, kind in entities.items()],
        "relationships": [{"subject": a, "type": b, "object": c} for a, b, c in relations],
    }


def test_a_model_finds_more() -> None:
    value = told(("Bob", "moved to", "Acme Corp"), Bob="person", Acme_Corp="organisation", falcon_rewrite="thing")
    entities, relationships = EntityExtractor(Scripted(value)).extract(TEXT)
    assert {one.name for one in entities} == {"Bob", "Acme Corp", "falcon rewrite"}
    assert [(one.subject, one.type, one.object) for one in relationships] == [("bob", "moved_to", "acme corp")]
    assert all(TEXT[start:end] == one.name for one in entities for start, end in one.spans)


def test_a_model_is_believed_only_as_far_as_the_text_goes() -> None:
    value = told(
        ("Bob", "killed", "Mallory"),
        ("Bob", "x; DROP", "Acme Corp"),
        ("Bob", "is", "Bob"),
        Bob="person",
        Mallory="person",
    )
    entities, relationships = EntityExtractor(Scripted(value)).extract(TEXT)
    assert {one.name for one in entities} == {"Bob", "Acme Corp"}
    assert relationships == []


@pytest.mark.parametrize("value", [ModelOutputError("nonsense"), ["no"], {"entities": 7}, told(Bob="wizard")])
def test_a_model_that_fails_takes_nothing_away(value: Any) -> None:
    entities, _ = EntityExtractor(Scripted(value)).extract(TEXT)
    assert {one.name for one in entities} == {"Bob", "Acme Corp"}


def test_the_text_is_material_for_the_model_and_no_instruction() -> None:
    model = Scripted(told())
    EntityExtractor(model).extract(TEXT)
    [prompt] = model.asked
    assert TEXT in prompt.text
    assert TEXT not in prompt.system
    assert prompt.schema is SCHEMA
    EntityExtractor(model).extract("   ")
    assert len(model.asked) == 1


def test_a_secret_that_was_taken_out_is_nobody() -> None:
    entities, _ = EntityExtractor().extract("Maria's key is [REDACTED:anthropic_key] and Tom has [REDACTED:password].")
    assert {one.name for one in entities} == {"Maria", "Tom"}
