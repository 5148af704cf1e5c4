"""What comes over HTTP is an agent's word, whatever it calls itself."""

from __future__ import annotations

from tests.http.conftest import Site


def test_facts_are_the_agents(site: Site) -> None:
    for given in ({}, {"source": "user"}):
        fact = {"agent": "dev", "domain": "ops", "fact": f"Logs are on host {len(given)}", **given}
        assert site.post("add_knowledge", fact).json()["origin"] == "agent"
    made = {"type": "domain_knowledge", "agent": "dev", "domain": "ops", "fact": "Mails go out at noon"}
    many = [made, {**made, "fact": "Backups are in Porto", "source": "user"}]
    assert [one["origin"] for one in site.post("add_many", {"memories": many}).json()["result"]] == ["agent", "agent"]


def test_rules_wait_for_a_person(site: Site) -> None:
    rule = {"agent": "dev", "rule": "Use pnpm instead of npm", "source": "user_stated"}
    assert site.post("add_rule", rule).json()["status"] == "candidate"
    many = {"memories": [{"type": "rule", "agent": "dev", "rule": "Never use tabs in code"}]}
    assert [one["status"] for one in site.post("add_many", many).json()["result"]] == ["candidate"]


def test_an_unknown_source_is_refused(site: Site) -> None:
    answer = site.post("add_knowledge", {"agent": "dev", "domain": "d", "fact": "f", "source": "banana"})
    assert answer.status_code in (400, 422)
    assert "Valid: user, agent, tool, content, import" in answer.text
