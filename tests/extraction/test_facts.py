"""Facts that take each other's place, and facts that do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from alma import ALMA
from alma.engine import facts
from alma.engine.admit import commit
from alma.engine.claims import claim, conflict
from alma.engine.drafts import Draft
from alma.types.record import Origin, Provenance, Record, Trust

LATER = [
    ("The deploy window is 9 to 17", "The deploy window is 8 to 18"),
    ("We use MySQL for billing", "We moved billing to PostgreSQL"),
    ("We use MySQL for the billing service", "We decided to use PostgreSQL for billing"),
    ("The staging database lives on db2", "The staging database is now on db3"),
    ("The staging database lives on db2", "We moved the staging database to db3"),
    ("Ana works at Acme", "Ana works at Beta Corp"),
    ("The user lives in Berlin", "The user lives in Munich"),
    ("The product owner is Lena", "The product owner is Tom"),
    ("The request timeout is 20 seconds", "The request timeout is 30 seconds"),
    ("The enterprise plan costs 500 euros a month", "The enterprise plan costs 600 euros a month"),
    ("Our CI is Jenkins", "Our CI is GitHub Actions"),
    ("The default branch is called main", "The default branch is called trunk"),
    ("We use npm", "We switched from npm to pnpm"),
    ("We use MySQL for billing", "We no longer use MySQL for billing"),
    ("The users table is called users", "The users table was renamed to accounts"),
    ("The admin panel listens on port 8443", "The admin panel listens on port 9443"),
    ("The owner of the payments module is Priya", "The payments module owner is Omar"),
    ("We release every two weeks", "We release every three weeks"),
    ("Our log retention is 30 days", "Our log retention was raised to 90 days"),
    ("I prefer tabs over spaces in this repo", "I prefer spaces over tabs"),
    ("Call me Ana", "Please call me Anna"),
]
APART = [
    ("Ana works at Acme", "Ben works at Acme"),
    ("Ana speaks French", "Ana speaks German"),
    ("We use Python for the backend", "We use Django for the backend"),
    ("We use Python for the backend", "We use Redis for caching"),
    ("The API is fast", "The API is written in Go"),
    ("The gateway is a Node service", "The gateway is the entry point"),
    ("The deploy window is 9 to 17", "The freeze window is 8 to 18"),
    ("Server 1 has 4 GB", "Server 2 has 8 GB"),
    ("The deploy window is 9 to 17 on weekdays", "The deploy window is 10 to 12 on weekends"),
    ("The user has a dog called Rex", "The user has two cats"),
    ("Our customer is Acme", "Our customer is Beta"),
    ("The service runs on Kubernetes", "The service runs on port 80"),
    ("We use PostgreSQL for billing", "We use PostgreSQL 15 for billing"),
    ("The request timeout is 20 seconds", "The request limit is 100"),
    ("We deploy on Tuesdays", "We deploy on Fridays"),
    ("The user likes tea", "The user likes coffee"),
    ("Ana lives in Berlin", "Ana works in Munich"),
    ("The user lives in Berlin", "The user is in Rome"),
    ("Ana is vegetarian", "Ana is German"),
    ("The API returns JSON", "The API returns 404 for unknown ids"),
    ("The user's brother is Tom", "The user's brother is Ben"),
    ("The staging database lives on db2", "The production database lives on db3"),
    ("We support Firefox", "We support Chrome"),
    ("Ticket 12 is closed", "Ticket 13 is open"),
    ("Tests live in tests/unit", "Fixtures live in tests/data"),
    ("The team is based in Lisbon", "The team is called Falcon"),
    ("I like tea", "I like coffee"),
    ("It runs on port 80", "It runs on port 81"),
]


@pytest.mark.parametrize(("old", "new"), LATER)
def test_another_value_for_the_same_thing_takes_its_place(old: str, new: str) -> None:
    assert conflict(new, old), (claim(old), claim(new))


@pytest.mark.parametrize(("one", "other"), APART)
def test_what_may_both_hold_is_left_alone(one: str, other: str) -> None:
    assert not conflict(one, other), (claim(one), claim(other))
    assert not conflict(other, one), (claim(one), claim(other))


def test_a_fact_does_not_conflict_with_itself() -> None:
    for one in {text for pair in (*LATER, *APART) for text in pair}:
        assert not conflict(one, one.upper())


PERSON = Provenance(Origin.USER, Trust.LEARNED)
AGENT = Provenance(Origin.AGENT, Trust.LEARNED)
OTHERS = Provenance(Origin.TOOL, Trust.UNTRUSTED)

Tell = Callable[..., Record]


@pytest.fixture
def tell(alma: ALMA) -> Tell:
    def told(fact: str, provenance: Provenance = PERSON, at: datetime | None = None, **more: Any) -> Record:
        draft = Draft(
            kind="domain_knowledge",
            agent="dev",
            body={"domain": "project", "fact": fact, "metadata": {}},
            provenance=provenance,
            valid_from=at,
        )
        [made] = commit(alma.engine, facts.admitting(alma.engine, [replace(draft, **more)]))
        return made

    return told


def facts_of(alma: ALMA, status: str | None = "active") -> list[str]:
    return sorted(one.fact for one in alma.list("domain_knowledge", status=status))  # type: ignore[attr-defined]


def test_the_older_fact_ends_when_the_newer_begins(alma: ALMA, tell: Tell) -> None:
    old = tell("The deploy window is 9 to 17")
    new = tell("The deploy window is 8 to 18")
    [ended] = alma.engine.store.get([old.id])
    assert (ended.status, ended.superseded_by, ended.valid_to) == ("superseded", new.id, new.valid_from)
    assert facts_of(alma) == ["The deploy window is 8 to 18"]
    [line] = alma.history(old.id)
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
        Draft(
            kind="domain_knowledge", agent="dev", provenance=PERSON, body={"domain": "p", "fact": fact, "metadata": {}}
        )
        for fact in ("The retry limit is 3", "The retry limit is 5", "The retry limit is 7")
    ]
    commit(alma.engine, facts.admitting(alma.engine, drafts))
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
    alma.add_domain_knowledge("dev", "project", "The deploy window is 9 to 17")
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
