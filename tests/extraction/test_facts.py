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
    ("The office is in Berlin", "The office is now in Munich"),
    ("The repo lives on GitHub", "The repo lives on GitLab"),
    ("The cluster runs on Hetzner", "The cluster runs on AWS"),
    ("The job runs on db2", "The job runs on db3"),
    ("The region is eu-west-1", "The region is us-east-1"),
    ("The shell is zsh", "The shell is fish"),
    ("We use Redis for queues", "We replaced Redis with RabbitMQ for queues"),
    ("The job is scheduled for May", "The job is scheduled for June"),
    ("My brother lives in Rome", "My brother lives in Oslo now"),
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
    ("The API is in Go", "The API is in the monorepo"),
    ("Maria works at Globex", "Maria works for Tom"),
    ("Maria lives in Berlin", "Maria lives in Germany"),
    ("My sister is called Anna", "My sister is called Ann by everyone"),
    ("My sister's name is Anna", "My sister's name is Lea"),
    ("My daughter is called Mia", "My daughter is called Lena"),
    ("The backend uses FastAPI", "The backend uses Flask for the admin pages"),
    ("Billing uses Stripe", "Billing uses PayPal in Brazil"),
    ("The logs are in /var/log/app", "The logs are in JSON"),
    ("Tests are in tests/", "Tests are in pytest style"),
    ("Our customers are in Europe", "Our customers are on annual plans"),
    ("I work at Acme", "I work at night"),
    ("I work for Acme", "I work for myself on weekends"),
    ("I work at Acme", "I work at home"),
    ("I prefer Python over Ruby", "I prefer Rust over Python"),
    ("Call me Al", "My name is Alexander"),
    ("The API accepts JSON", "The API accepts XML"),
    ("The project is run by volunteers", "The project is run in Docker"),
    ("The release is scheduled for May", "The release is scheduled by cron"),
    ("The server is in Frankfurt", "The server is in maintenance mode"),
    ("The server is on Debian", "The server is on fire"),
    ("The database is Postgres", "The database is encrypted at rest"),
    ("The CEO is Ann", "The CEO is from Texas"),
    ("The domain is example.com", "The domain is registered at Gandi"),
    ("The lead is Tom", "The lead is very strict about tests"),
    ("Maria is at Globex", "Maria is at lunch"),
    ("The app runs on AWS", "The app runs on Kubernetes"),
    ("The server listens on 80 for http", "The server listens on 443 for https"),
    ("We use npm for the API", "We switched from npm to pnpm in the web app"),
    ("The queue is RabbitMQ", "The queue is long"),
    ("The database is Postgres", "The database is encrypted"),
    ("The cache is Redis", "The cache is cold after deploys"),
    ("The API returns 200", "The API returns 404"),
    ("My friend lives in Rome", "My friend lives in Oslo"),
    ("My colleague works at Acme", "My colleague works at Globex"),
    ("My dog is called Rex", "My dog is called Bella"),
    ("A customer is based in Rome", "A customer is based in Oslo"),
    ("The team uses Slack", "The team uses Teams for calls with customers"),
    ("I work for Acme", "I work for Globex as a contractor"),
    ("The server is in Frankfurt", "The server is now in maintenance mode"),
    ("The key is in Vault", "The key is in PEM format"),
    ("Maria is on holiday", "Maria is on call"),
    ("Maria lives in Texas", "Maria lives in Austin"),
    ("Maria lives in Europe", "Maria lives in Spain"),
    ("Maria lives on campus", "Maria lives in Boston"),
    ("Maria lives in Boston", "Maria lives in the suburbs"),
    ("The package requires numpy", "The package requires pandas"),
    ("The site runs on WordPress", "The site runs on PHP"),
    ("Our framework is Django", "Our framework is lightweight"),
    ("The project name is Apollo", "The project name is secret"),
    ("My role is tech lead", "My role is remote"),
    ("My partner is Sam", "My partner is vegetarian"),
    ("My partner is Sam", "My partner is German"),
    ("My wife is Anna", "My wife is pregnant"),
    ("The platform is Linux", "The platform is x86"),
    ("The bucket is logs-prod", "The bucket is versioned"),
    ("The cache is redis", "The cache is write-through"),
    ("The storage is S3", "The storage is cheap"),
    ("The docs are in /docs", "The docs are in English"),
    ("The house is on Elm Street", "The house is on fire"),
    ("The frontend is on Vercel", "The frontend is on Next.js"),
    ("The VPN is on WireGuard", "The VPN is on by default"),
    ("The hook is called twice", "The hook is called hourly"),
    ("Our provider is Hetzner", "Our provider is German"),
    ("The contract ends in May", "The contract ends automatically"),
    ("The club allows dogs", "The club allows kids"),
    ("Ben is in Paris", "Ben is in Rome"),
    ("Ben is in Paris", "Ben is now in sales"),
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
    assert (ended.status, ended.superseded_by, ended.valid_to) == ("superseded", new.id, new.created_at)
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
