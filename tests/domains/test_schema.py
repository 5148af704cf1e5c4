from __future__ import annotations

from typing import Any

import pytest

from alma.domains import (
    PRESETS,
    DomainMemoryFactory,
    DomainSchema,
    EntityType,
    RelationshipType,
    from_json,
    preset,
    to_json,
)
from alma.errors import ValidationError

create_schema = DomainMemoryFactory.create_schema

SALES: dict[str, Any] = {
    "entity_types": [
        {"name": "lead", "attributes": ["stage", "value"]},
        {"name": "objection", "attributes": ["type", "response"]},
    ],
    "relationship_types": [{"name": "raised_by", "source_type": "objection", "target_type": "lead"}],
    "learning_categories": ["objection_handling", "closing_techniques", "qualification_patterns"],
}


def test_the_types_have_the_fields_that_are_asked_for() -> None:
    schema = DomainSchema(
        id="dom_1",
        name="legal",
        description="Contracts",
        entity_types=(EntityType("clause", "A part of a contract", ("topic",)),),
        relationship_types=(RelationshipType("refers_to", "clause", "clause"),),
        learning_categories=("drafting",),
        excluded_categories=("client_names",),
    )
    assert (schema.min_occurrences_for_heuristic, schema.confidence_decay_days, schema.metadata) == (3, 30.0, {})
    assert schema.created_at.tzinfo is not None


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_whole(name: str) -> None:
    schema = preset(name)
    assert schema.name == name
    assert schema.description
    assert len(schema.entity_types) >= 3
    assert all(kind.attributes and kind.description for kind in schema.entity_types)
    assert schema.relationship_types
    assert schema.excluded_categories
    assert from_json(to_json(schema)) == schema


def test_the_presets_hold_what_the_requirements_list() -> None:
    coding, research, sales = preset("coding"), preset("research"), preset("sales")
    assert coding.entity_type("bug").attributes == ("severity", "reproduction", "fix")
    assert {"testing_strategies", "selector_patterns", "api_design_patterns"} <= set(coding.learning_categories)
    assert research.entity_type("paper").attributes == ("title", "authors", "year", "citations")
    assert "citation_patterns" in research.learning_categories
    assert sales.entity_type("lead").attributes == ("stage", "value", "next_action")
    assert "follow_up_timing" in sales.learning_categories


def test_entity_types_are_written_in_several_ways() -> None:
    kinds = [{"name": "a", "attributes": ["x"]}, {"b": {"attributes": ["y"]}}, "c", EntityType("d")]
    schema = create_schema("any", {"entity_types": kinds})
    assert [(kind.name, kind.attributes) for kind in schema.entity_types] == [
        ("a", ("x",)), ("b", ("y",)), ("c", ()), ("d", ()),
    ]  # fmt: skip


def test_a_thing_of_the_domain_is_checked() -> None:
    schema = create_schema("sales", SALES)
    lead = schema.entity("lead", stage="new", value=5000)
    assert lead.text == "lead (stage: new, value: 5000)"
    assert lead.as_knowledge()["metadata"] == {
        "entity": {"type": "lead", "attributes": {"stage": "new", "value": 5000}}
    }
    with pytest.raises(ValidationError, match="unknown entity type 'leed' of sales. Did you mean 'lead'"):
        schema.entity("leed")
    with pytest.raises(ValidationError, match="unknown attribute 'stge' of 'lead'. Did you mean 'stage'"):
        schema.entity("lead", stge="new")
    for value in (None, {"a": 1}, object(), "", float("nan")):
        with pytest.raises(ValidationError):
            schema.entity("lead", stage=value)


def test_how_things_stand_to_each_other_is_checked() -> None:
    schema = create_schema("sales", SALES)
    lead, objection = schema.entity("lead"), schema.entity("objection", type="price")
    assert schema.relationship("raised_by", objection, lead).text == "objection (type: price) raised by lead"
    with pytest.raises(ValidationError, match="unknown relationship 'raised_by: lead → objection'.*objection → lead"):
        schema.relationship("raised_by", lead, objection)
    with pytest.raises(ValidationError, match="unknown relationship"):
        schema.relationship("likes", objection, lead)


def test_categories_are_known_by_any_case() -> None:
    schema = create_schema("x", {"learning_categories": ["Closing"], "excluded_categories": ["Prices"]})
    assert schema.allows(" closing ")
    assert not schema.allows("prices")
    assert not schema.allows("opening")
    assert create_schema("y", {"excluded_categories": ["Prices"]}).allows("anything else")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"entity_type": []}, "unknown key 'entity_type' in schema 'x'. Did you mean 'entity_types'"),
        ({"entity_types": "lead"}, "must be a list"),
        ({"entity_types": [{"attributes": []}]}, "must be a string|must be a JSON object"),
        ({"entity_types": [{"name": "a"}, {"name": "a"}]}, "entity type 'a' twice"),
        ({"entity_types": [{"name": "a", "colour": 1}]}, "unknown key"),
        ({"relationship_types": [{"name": "r", "source_type": "a", "target_type": "b"}]}, "unknown entity type"),
        ({"learning_categories": ["a"], "excluded_categories": ["A"]}, "both"),
        ({"learning_categories": "a"}, "must be a list"),
        ({"min_occurrences_for_heuristic": 0}, "from 1"),
        ({"confidence_decay_days": 0}, "at least 0.01"),
        ({"metadata": {"a": object()}}, "JSON"),
        ({"name": "y"}, "named 'x', but its configuration names it 'y'"),
        ([], "must be a JSON object"),
    ],
)
def test_what_is_no_schema(config: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        create_schema("x", config)


@pytest.mark.parametrize("name", ["", " ", 5, None])
def test_a_schema_needs_a_name(name: Any) -> None:
    with pytest.raises(ValidationError, match="name"):
        create_schema(name, {})
