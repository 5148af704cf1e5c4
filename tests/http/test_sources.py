"""What comes over HTTP is an agent's word, whatever it calls itself, unless its token may approve."""

from __future__ import annotations

from tests.http.conftest import Site


def test_facts_are_the_agents(site: Site) -> None:
    site.token("agent", "write")
    for given in ({}, {"source": "user"}):
        fact = {"agent": "dev", "domain": "ops", "fact": f"Logs are on host {len(given)}", **given}
        assert site.post("add_knowledge", fact, "agent").json()["origin"] == "agent"
    made = {"type": "domain_knowledge", "agent": "dev", "domain": "ops", "fact": "Mails go out at noon"}
    many = [made, {**made, "fact": "Backups are in Porto", "source": "user"}]
    answer = site.post("add_many", {"memories": many}, "agent").json()
    assert [one["origin"] for one in answer["result"]] == ["agent", "agent"]


def test_a_person_s_token_speaks_for_the_person(site: Site) -> None:
    site.token("ana", "approve")
    rule = {"agent": "dev", "rule": "Use pnpm instead of npm"}
    assert site.post("add_rule", rule, "ana").json()["status"] == "candidate"
    assert site.post("add_rule", {**rule, "source": "user"}, "ana").json()["status"] == "active"


def test_rules_wait_for_a_person(site: Site) -> None:
    site.token("agent", "write")
    rule = {"agent": "dev", "rule": "Use pnpm instead of npm", "source": "user_stated"}
    assert site.post("add_rule", rule, "agent").json()["status"] == "candidate"
    many = {"memories": [{"type": "rule", "agent": "dev", "rule": "Never use tabs in code"}]}
    assert [one["status"] for one in site.post("add_many", many, "agent").json()["result"]] == ["candidate"]


def test_an_unknown_source_is_refused(site: Site) -> None:
    answer = site.post("add_knowledge", {"agent": "dev", "domain": "d", "fact": "f", "source": "banana"})
    assert answer.status_code in (400, 422)
    assert "Valid: user, agent, tool, content, import" in answer.text
