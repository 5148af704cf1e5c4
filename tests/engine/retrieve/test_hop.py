from __future__ import annotations

from alma import ALMA
from alma.stores.memory import MemoryStore

FACTS = ("Maria's manager is Tom Becker", "Tom Becker's office is in Oslo", "The build runs on Jenkins")


def memory(*facts: str) -> ALMA:
    alma = ALMA(MemoryStore())
    for fact in facts:
        alma.add_domain_knowledge("dev", "people", fact)
    return alma


def found(alma: ALMA, task: str, **options: str) -> list[str]:
    return [one.fact for one in alma.retrieve(task, "dev", **options).domain_knowledge]


def test_what_is_known_about_somebody_the_first_result_names_comes_after_it() -> None:
    assert found(memory(*FACTS), "Where does Maria's manager work?") == list(FACTS[:2])


def test_the_reason_says_by_whom_it_was_reached() -> None:
    *_, last = memory(*FACTS).retrieve("Where does Maria's manager work?", "dev").explain()
    assert last.reason == "about Tom Becker, whom the first results name"


def test_nothing_is_reached_from_nothing() -> None:
    assert found(memory(*FACTS), "Tune the garbage collector") == []


def test_precise_does_without() -> None:
    assert found(memory(*FACTS), "Where does Maria's manager work?", mode="precise") == [FACTS[0]]


def test_a_name_that_many_facts_hold_leads_nowhere() -> None:
    many = [f"Tom Becker reviewed change {number}" for number in range(8)]
    assert found(memory(FACTS[0], *many), "Who is Maria's manager?") == [FACTS[0]]


def test_a_fact_of_another_agent_is_not_reached() -> None:
    alma = memory(FACTS[0])
    alma.add_domain_knowledge("ops", "people", FACTS[1])
    assert found(alma, "Where does Maria's manager work?") == [FACTS[0]]
