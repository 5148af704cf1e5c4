"""Facts are found under every name that the graph knows somebody by."""

from __future__ import annotations

from pathlib import Path

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.graph import build, create_graph_store
from alma.stores.sqlite import SQLiteStore


@pytest.fixture(params=["words", "vectors"])
def alma(tmp_path: Path, request: pytest.FixtureRequest) -> ALMA:
    embedder = HashEmbedder() if request.param == "vectors" else None
    memory = ALMA(SQLiteStore(tmp_path / "alma.db"), embedder, project_id="p")
    for text in (
        "Robert Smith leads the payments team in Oslo.",
        "Robert Smith plays chess.",
        "The payments team uses Kafka.",
        "Bob is Ingrid's mentor.",
        "The canteen closes at two.",
        "Lena prefers tea.",
    ):
        memory.add_domain_knowledge("dev", "people", text)
    build(memory)
    return memory


def facts(alma: ALMA, question: str, **options: str) -> list[str]:
    return [one.fact for one in alma.retrieve(question, agent="dev", **options).domain_knowledge]


def test_before_they_are_one_the_other_name_is_not_looked_for(alma: ALMA) -> None:
    assert "Robert Smith leads the payments team in Oslo." not in facts(alma, "What does Bob do?")


def test_asked_about_one_name_the_facts_of_the_other_are_found(alma: ALMA) -> None:
    create_graph_store("sqlite", alma=alma).merge("robert smith", "bob")
    found = alma.retrieve("What does Bob lead in Oslo?", agent="dev")
    assert "Robert Smith leads the payments team in Oslo." in [one.fact for one in found.domain_knowledge]
    assert "Lena prefers tea." not in [one.fact for one in found.domain_knowledge]


def test_why_it_is_there_is_told(alma: ALMA) -> None:
    create_graph_store("sqlite", alma=alma).merge("robert smith", "bob")
    found = alma.retrieve("Whom does Bob mentor?", agent="dev")
    reasons = [one.reason for one in found.explanations]
    assert any(reason == "about Robert Smith, who is Bob" for reason in reasons), reasons


def test_over_what_the_first_results_name(alma: ALMA) -> None:
    if alma.engine.encoder is not None:
        pytest.skip("what such vectors find far from the question stays out")
    create_graph_store("sqlite", alma=alma).merge("robert smith", "bob")
    assert any("Robert Smith" in fact for fact in facts(alma, "Who is Ingrid's mentor?"))


def test_precise_does_without(alma: ALMA) -> None:
    create_graph_store("sqlite", alma=alma).merge("robert smith", "bob")
    assert not any("chess" in fact for fact in facts(alma, "Who is Ingrid's mentor?", mode="precise"))


def test_a_name_of_two_leads_to_neither(alma: ALMA) -> None:
    graph = create_graph_store("sqlite", alma=alma)
    alma.add_domain_knowledge("dev", "people", "Robert Jones repairs bicycles.")
    build(alma)
    for id in ("robert smith", "robert jones"):
        graph.add_entity(graph.get(id).__class__(graph.get(id).name, aliases=("Bobby",)))
    assert not any("Robert" in fact for fact in facts(alma, "What is Bobby up to?"))
