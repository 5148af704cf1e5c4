"""Facts: what repeats, what replaces its predecessor by an explicit key, and what is added."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from alma import ALMA
from alma.engine.admit import draft_record
from alma.engine.edit import add_memories
from alma.errors import ValidationError
from alma.types.record import Origin, Provenance, Record, Trust

PERSON = Provenance(Origin.USER, Trust.LEARNED)
AGENT = Provenance(Origin.AGENT, Trust.LEARNED)
OTHERS = Provenance(Origin.TOOL, Trust.UNTRUSTED)
KEY = "value"

Tell = Callable[..., Record]


@pytest.fixture
def tell(alma: ALMA) -> Tell:
    def told(
        fact: str, provenance: Provenance = PERSON, at: datetime | None = None, key: str = KEY, **more: Any
    ) -> Record:
        body = {"domain": "project", "fact": fact, "metadata": {}} | ({"attribute": key} if key else {})
        fields = {"agent": "dev", "provenance": provenance, "valid_from": at, **more}
        draft = draft_record(alma.engine, "domain_knowledge", fields.pop("body", body), **fields)
        [made] = add_memories(alma.engine, [draft], compare_texts=True)
        return made

    return told


def facts_of(alma: ALMA, status: str | None = "active") -> list[str]:
    return sorted(one.fact for one in alma.list("domain_knowledge", status=status))  # type: ignore[attr-defined]


def test_the_older_fact_ends_when_the_newer_begins(alma: ALMA, tell: Tell) -> None:
    old = tell("The deploy window is 9 to 17")
    new = tell("The deploy window is 8 to 18")
    [ended] = alma.engine.store.get([old.id])
    assert (ended.status, ended.superseded_by, ended.valid_to) == ("superseded", new.id, new.created_at)
    assert facts_of(alma) == ["The deploy window is 8 to 18"]
    [_, line] = alma.history(old.id)
    assert line["verb"] == "superseded"
    assert "8 to 18" in line["why"]


def test_what_was_known_then_is_still_there(alma: ALMA, tell: Tell) -> None:
    spring, summer = datetime(2025, 3, 1, tzinfo=UTC), datetime(2025, 7, 1, tzinfo=UTC)
    tell("The deploy window is 9 to 17", at=spring)
    tell("The deploy window is 8 to 18", at=summer)
    then = alma.retrieve("When is the deploy window?", "dev", as_of=summer - timedelta(days=1)).to_prompt()
    now = alma.retrieve("When is the deploy window?", "dev").to_prompt()
    assert "9 to 17" in then
    assert "8 to 18" not in then
    assert "8 to 18" in now
    assert "9 to 17" not in now


def test_an_older_fact_told_later_goes_straight_to_history(alma: ALMA, tell: Tell) -> None:
    new = tell("The deploy window is 8 to 18", at=datetime(2025, 7, 1, tzinfo=UTC))
    old = tell("The deploy window is 9 to 17", at=datetime(2025, 3, 1, tzinfo=UTC))
    assert (old.status, old.superseded_by, old.valid_to) == ("superseded", new.id, new.valid_from)
    assert facts_of(alma) == ["The deploy window is 8 to 18"]


def test_facts_of_one_batch_follow_on_each_other(alma: ALMA) -> None:
    drafts = [
        draft_record(
            alma.engine,
            "domain_knowledge",
            {"domain": "p", "fact": fact, "attribute": KEY, "metadata": {}},
            agent="dev",
            provenance=PERSON,
        )
        for fact in ("The retry limit is 3", "The retry limit is 5", "The retry limit is 7")
    ]
    add_memories(alma.engine, drafts, compare_texts=True)
    assert facts_of(alma) == ["The retry limit is 7"]
    assert len(facts_of(alma, None)) == 3


def test_said_again_it_is_the_same_fact(alma: ALMA, tell: Tell) -> None:
    assert tell("The retry limit is 3").id == tell("The retry limit is 3.").id
    assert len(facts_of(alma, None)) == 1


def test_changed_back_it_holds_again(alma: ALMA, tell: Tell) -> None:
    for fact in ("The retry limit is 3", "The retry limit is 5", "The retry limit is 3"):
        tell(fact)
    assert facts_of(alma) == ["The retry limit is 3"]


def test_nobody_ends_what_somebody_trusted_more_has_said(alma: ALMA, tell: Tell) -> None:
    alma.add_domain_knowledge("dev", "project", "The deploy window is 9 to 17", attribute=KEY)
    agent = tell("The deploy window is 8 to 18", AGENT)
    other = tell("The deploy window is 7 to 19", OTHERS)
    assert agent.status == other.status == "candidate"
    assert "disputes" in agent.body["metadata"]
    assert facts_of(alma) == ["The deploy window is 9 to 17"]
    tell("The deploy window is 6 to 20")
    assert facts_of(alma) == ["The deploy window is 6 to 20"], "the person themselves may"


def test_what_others_say_ends_nothing(alma: ALMA, tell: Tell) -> None:
    tell("The deploy window is 9 to 17", AGENT)
    assert tell("The deploy window is 8 to 18", OTHERS).status == "candidate"
    assert facts_of(alma) == ["The deploy window is 9 to 17"]


def test_facts_of_another_agent_or_user_are_theirs(alma: ALMA, tell: Tell) -> None:
    tell("The retry limit is 3")
    tell("The retry limit is 5", agent="other")
    tell("The retry limit is 7", user="ana")
    assert len(facts_of(alma)) == 3


def test_a_value_replaces_only_what_has_its_key(alma: ALMA, tell: Tell) -> None:
    for key in ("web", "api"):
        tell("The port is 80", key=key)
    tell("The port is 81", key="web")
    tell("The port is 82", key="")
    assert facts_of(alma) == ["The port is 80", "The port is 81", "The port is 82"]


def test_a_key_given_later_takes_over_what_was_stated_without_one(alma: ALMA, tell: Tell) -> None:
    tell("The port is 80", key="")
    tell("The port is 80.", key="port")
    assert len(facts_of(alma)) == 1
    tell("The port is 81", key="port")
    assert facts_of(alma) == ["The port is 81"]


def test_a_light_rewording_refreshes_the_fact(alma: ALMA) -> None:
    first = alma.add_domain_knowledge("dev", "api", "The API doesn't support lists")
    again = alma.add_domain_knowledge("dev", "API", "the API does not support lists.", tags=["checked"])
    assert (again.id, again.tags) == (first.id, ("checked",))
    assert again.last_verified > first.last_verified
    assert facts_of(alma, None) == ["The API doesn't support lists"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The office was in Berlin", "The office is in Berlin"),
        ("The user has a cat", "The user has cats"),
        ("We used Kafka", "We use Kafka"),
        ("The request timeout is 20 seconds", "The request timeout is 30 seconds"),
        ("The API is public", "The API is not public"),
        ("Ana reports to Ben", "Ben reports to Ana"),
    ],
)
def test_facts_that_differ_are_both_kept(alma: ALMA, one: str, other: str) -> None:
    for fact in (one, other):
        alma.add_domain_knowledge("dev", "project", fact)
    assert facts_of(alma) == sorted([one, other])


def test_facts_about_different_things_all_remain(alma: ALMA) -> None:
    cities = ("Oslo", "Rome", "Paris", "Berlin", "Madrid", "Vienna", "Lisbon", "Dublin", "Athens", "Prague")
    routes = [
        f"The route from {start} to {end} costs {10 * at + to}"
        for at, start in enumerate(cities)
        for to, end in enumerate(cities)
        if start != end
    ]
    for route in routes:
        alma.add_domain_knowledge("dev", "travel", route)
    assert sorted(one.fact for one in alma.list("domain_knowledge", limit=1000)) == sorted(routes)  # type: ignore[attr-defined]


def test_many_facts_replace_by_key_as_well(alma: ALMA) -> None:
    memory = {"type": "domain_knowledge", "agent": "dev", "domain": "api", "subject": "gateway", "attribute": "port"}
    alma.add_many([{**memory, "fact": "The gateway listens on 80"}, {**memory, "fact": "The gateway listens on 81"}])
    alma.add_many([{**memory, "fact": "The gateway listens on 82"}])
    assert facts_of(alma) == ["The gateway listens on 82"]
    assert len(facts_of(alma, None)) == 3


def test_a_subject_needs_an_attribute(alma: ALMA) -> None:
    with pytest.raises(ValidationError, match="`subject` requires `attribute`"):
        alma.add_domain_knowledge("dev", "api", "The gateway listens on 80", subject="gateway")
