"""A field of a memory is declared once: its codec, the searched text, the passages and the schema follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from alma.types import KINDS, Belief, Evidence, Outcome, Provenance, Record
from alma.types.kinds import Kind, declare, derived_field, record_field, stored_field

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BELIEF = Belief(0.8, 0.6, 0.9)
BODY = {
    "task": "Deploy the site",
    "strategy": "Blue-green",
    "outcome": "success",
    "task_type": "deploy",
    "duration_ms": 12,
    "error": None,
    "feedback": "good",
    "retrieval": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(Outcome):
    """An outcome with new fields."""

    habitat: str = stored_field("env", searched=5, embedded=True, editable=True, unique=True, default="")
    labels: tuple[str, ...] = stored_field(read=tuple, key=True, default=())
    failures: int = record_field("evidence.failures", default=0)
    day: str = derived_field(lambda record: str(record.created_at.date()), default="")


@pytest.fixture
def kind() -> Kind:
    return declare("outcome", "out", Observed)


def make_record(body: dict[str, Any]) -> Record:
    return Record(
        id="out_1", kind="outcome", project="p", agent="a", body=body, created_at=NOW, updated_at=NOW,
        evidence=Evidence(failures=3), provenance=Provenance(source="user_stated"),
    )  # fmt: skip


def test_the_codec_reads_a_new_field(kind: Kind) -> None:
    assert kind.decode is not None
    memory = kind.decode(make_record({**BODY, "env": "staging", "labels": ["x", "y"]}), BELIEF)
    assert isinstance(memory, Observed)
    assert (memory.habitat, memory.labels, memory.failures, memory.day) == ("staging", ("x", "y"), 3, "2026-03-01")
    assert (memory.task_description, memory.duration_ms, memory.confidence) == ("Deploy the site", 12, 0.8)


def test_a_body_from_before_the_field_existed_has_its_default(kind: Kind) -> None:
    assert kind.decode is not None
    old = kind.decode(make_record(BODY), BELIEF)
    assert isinstance(old, Observed)
    assert (old.habitat, old.labels) == ("", ())


def test_a_missing_field_without_a_default_is_an_error(kind: Kind) -> None:
    assert kind.decode is not None
    with pytest.raises(KeyError):
        kind.decode(make_record({name: value for name, value in BODY.items() if name != "task"}), BELIEF)


def test_it_is_searched_and_embedded_where_it_says_so(kind: Kind) -> None:
    body = {**BODY, "env": "staging", "labels": ["x"]}
    assert kind.text(body) == "Deploy the site\nBlue-green\ngood\nstaging"
    assert kind.passages(body) == ("Deploy the site", "Blue-green", "staging")


def test_it_is_stored_edited_and_recognised_where_it_says_so(kind: Kind) -> None:
    assert set(kind.fields) == {*KINDS["outcome"].fields, "env", "labels"}
    assert (kind.editable, kind.unique, kind.keys) == (("env",), ("env",), ("labels",))


def test_the_schema_of_what_is_shown_has_it() -> None:
    pydantic = pytest.importorskip("pydantic")
    properties = pydantic.TypeAdapter(Observed).json_schema()["properties"]
    assert properties["habitat"] == {"default": "", "title": "Habitat", "type": "string"}
    assert {"labels", "failures", "task_description", "confidence"} <= set(properties)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.decode is not None])
def test_every_memory_has_its_text_and_passages_from_its_own_fields(name: str) -> None:
    kind = KINDS[name]
    body = {one: ["w"] if one in ("prefer", "avoid", "speakers") else f"value of {one}" for one in kind.fields}
    assert {*kind.editable, *kind.unique, *kind.keys} <= set(kind.fields)
    assert all(passage in kind.text(body) for passage in kind.passages(body))


def test_a_memory_can_be_replaced_like_any_dataclass(kind: Kind) -> None:
    assert kind.decode is not None
    memory = kind.decode(make_record(BODY), BELIEF)
    assert replace(memory, newer="out_2").newer == "out_2"
