"""Several projects over one store, and tokens that are bound to some of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from alma.http import HttpOptions
from alma.http.app import open_projects

from .conftest import CONFIG, Site


def fact(text: str) -> dict[str, Any]:
    return {"agent": "dev", "domain": "deployment", "fact": text}


def in_project(name: str) -> dict[str, str]:
    return {"alma-project": name}


@pytest.fixture
def two(site: Site) -> Site:
    """`app` and `shop` each hold something; `clerk` may do everything in `shop` and nothing elsewhere."""
    site.post("add_knowledge", fact("The app is deployed from nine to five"))
    site.post("add_knowledge", fact("The shop is deployed at night"), **in_project("shop"))
    site.token("clerk", "admin", "shop")
    return site


def texts(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [one["fact"] for one in answer.json()["result"]]


def ids(site: Site, project: str) -> list[str]:
    return [one["id"] for one in site.post("list", **in_project(project)).json()["result"]]


def test_the_header_chooses_the_project(two: Site) -> None:
    assert texts(two.post("list")) == ["The app is deployed from nine to five"]
    assert texts(two.post("list", **in_project("shop"))) == ["The shop is deployed at night"]
    assert texts(two.post("list", **in_project("new"))) == []


def test_a_name_is_percent_encoded(two: Site) -> None:
    two.post("add_knowledge", fact("Köln is far"), **in_project("K%C3%B6ln%20West"))
    assert two.post("stats", **in_project("K%C3%B6ln%20West")).json()["project_id"] == "Köln West"


@pytest.mark.parametrize("name", ["", "%00", "%ff", "everywhere", "a" * 300])
def test_a_strange_project_is_refused(two: Site, name: str) -> None:
    assert two.post("list", **in_project(name)).status_code == 400


def test_a_bound_token_needs_not_name_its_only_project(two: Site) -> None:
    assert texts(two.post("list", name="clerk")) == ["The shop is deployed at night"]
    assert texts(two.post("list", name="clerk", **in_project("shop"))) == ["The shop is deployed at night"]


@pytest.mark.parametrize("name", ["app", "new", "shop@tenant", "everywhere"])
def test_a_bound_token_is_kept_out_of_other_projects(two: Site, name: str) -> None:
    answer = two.post("list", name="clerk", **in_project(name))
    assert answer.status_code in (400, 403)
    assert two.client("clerk", **in_project(name)).get("/metrics").status_code in (400, 403)


def test_a_token_of_several_projects_names_one(two: Site) -> None:
    two.token("manager", "write", "shop", "store")
    answer = two.post("list", name="manager")
    assert answer.status_code == 400
    assert "shop, store" in answer.json()["detail"]
    assert len(texts(two.post("list", name="manager", **in_project("shop")))) == 1


def test_a_token_of_several_projects_takes_the_configured_one(two: Site) -> None:
    two.token("manager", "write", "shop", "app")
    assert texts(two.post("list", name="manager")) == ["The app is deployed from nine to five"]


def test_what_has_an_id_in_another_project_is_not_there(two: Site) -> None:
    [foreign] = ids(two, "app")
    calls: dict[str, dict[str, Any]] = {
        "get": {"memory_id": foreign},
        "history": {"memory_id": foreign},
        "explain": {"memory_id": foreign, "task": "Deploy", "agent": "dev"},
        "update": {"memory_id": foreign, "status": "archived"},
        "delete": {"memory_id": foreign},
    }
    for operation, arguments in calls.items():
        answer = two.post(operation, arguments, name="clerk")
        assert answer.status_code == 404, (operation, answer.text)
    told = two.post("record_feedback", {"memory_id": foreign}, name="clerk").json()
    assert told == {"recorded": [], "unknown": [foreign]}
    assert texts(two.post("list")) == ["The app is deployed from nine to five"]


def test_work_and_runs_of_another_project_are_not_there(two: Site) -> None:
    item = two.post("create_work_item", {"title": "Secret plan"}).json()["id"]
    session = two.post("start_session", {"agent": "dev"}).json()["session_id"]
    for operation, arguments in {
        "list_work_items": {"item_id": item},
        "history": {"memory_id": item},
        "update_progress": {"item_id": item, "status": "in_progress"},
        "delete_work_item": {"item_id": item},
        "list_sessions": {"agent": "dev", "session_id": session},
        "end_session": {"agent": "dev", "session_id": session},
    }.items():
        assert two.post(operation, arguments, name="clerk").status_code == 404, operation


@pytest.mark.parametrize("scope", ["agent", "global", "tenant"])
def test_the_widest_retrieval_does_not_look_over_the_fence(two: Site, scope: str) -> None:
    asked = {"task": "When is the app deployed?", "agent": "dev", "scope": scope}
    if scope == "tenant":
        asked["tenant_id"] = "acme"
    answer = two.post("retrieve_scoped", asked, name="clerk")
    assert "nine to five" not in answer.text
    assert answer.status_code == (403 if scope == "tenant" else 200)
    found = two.post("search", {"query": "deployed"}, name="clerk").json()["result"]
    assert [one["memory"]["fact"] for one in found] == ["The shop is deployed at night"]


def test_figures_are_of_its_own_project(two: Site) -> None:
    two.post("add_knowledge", fact("Another of the app"))
    figures = two.client("clerk").get("/metrics").text
    assert 'alma_memories{project="shop",type="domain_knowledge"} 1' in figures
    assert "project=" in figures
    assert 'project="app"' not in figures


def test_a_bound_token_makes_nothing_that_holds_everywhere(two: Site) -> None:
    rule = {"agent": "dev", "rule": "Use pnpm instead of npm", "reach": "always"}
    assert two.post("add_rule", rule, name="clerk").status_code == 403
    assert two.post("create_domain", {"name": "gardening"}, name="clerk").status_code == 403
    held = two.post("add_rule", {**rule, "source": "user"}).json()["id"]
    assert two.post("update", {"memory_id": held, "status": "archived"}, name="clerk").status_code == 403
    assert two.post("delete", {"memory_id": held}, name="clerk").status_code == 403
    assert two.post("get", {"memory_id": held}).json()["status"] == "active"


def test_a_bound_token_sees_no_domain_schemas_of_others(two: Site) -> None:
    two.post("create_domain", {"name": "secret_launch", "description": "What the launch is about"})
    two.post("create_domain", {"name": "retail", "learning_categories": ["shelves"]})
    two.post("use_domain", {"name": "retail"}, **in_project("shop"))
    everything = {one["name"] for one in two.post("list_domains").json()["result"]}
    assert {"secret_launch", "retail", "coding"} <= everything
    seen = {one["name"]: one["in_use"] for one in two.post("list_domains", name="clerk").json()["result"]}
    assert "secret_launch" not in seen
    assert "coding" in seen
    assert seen["retail"]
    refused = two.post("list_domains", {"name": "secret_launch"}, name="clerk")
    assert refused.status_code == 400
    assert "launch" not in refused.text.replace("'secret_launch'", "")
    assert two.post("use_domain", {"name": "secret_launch"}, name="clerk").status_code == 400
    [retail] = two.post("list_domains", {"name": "retail"}, name="clerk").json()["result"]
    assert retail["schema"]["learning_categories"] == ["shelves"]
    assert two.post("use_domain", {"name": "retail"}, name="clerk").status_code == 200
    assert two.post("delete_domain", {"name": "secret_launch"}, name="clerk").status_code == 404


def test_what_holds_everywhere_is_seen_and_may_be_judged(two: Site) -> None:
    held = two.post("add_rule", {"agent": "dev", "rule": "Use pnpm instead of npm", "reach": "always"}).json()["id"]
    assert two.post("get", {"memory_id": held}, name="clerk").status_code == 200
    assert two.post("record_feedback", {"memory_id": held}, name="clerk").json()["recorded"] == [held]


def test_a_bound_token_works_in_its_own_project(two: Site) -> None:
    for _ in range(3):
        learned = {"agent": "dev", "task": "Deploy the shop", "outcome": "success", "strategy_used": "At night"}
        assert two.post("learn", learned, name="clerk").status_code == 200
    found = two.post("retrieve", {"task": "Deploy the shop", "agent": "dev"}, name="clerk").json()
    assert "At night" in found["prompt"]
    assert two.post("use_domain", {"name": "coding"}, name="clerk").status_code == 200


def test_a_project_follows_its_own_domain(two: Site) -> None:
    two.post("create_domain", {"name": "gardening", "learning_categories": ["pruning"]})
    two.post("use_domain", {"name": "gardening"}, **in_project("garden"))
    refused = two.post("add_knowledge", fact("The moon is far"), **in_project("garden"))
    assert refused.status_code == 403
    two.token("gardener", "write", "garden")
    assert two.post("add_knowledge", fact("The moon is far"), name="gardener").status_code == 403
    assert two.post("add_knowledge", fact("The moon is far")).status_code == 200


def test_only_so_many_projects_are_kept_at_hand(site: Site) -> None:
    for at in range(100):
        assert site.post("stats", **in_project(f"p{at}")).json()["project_id"] == f"p{at}"
    assert len(site.projects._opened) == 64
    assert site.post("stats", **in_project("p0")).json()["project_id"] == "p0"


@pytest.mark.parametrize(("workers", "can_wait"), [(1, True), (2, False)])
def test_retrievals_are_noted_later_only_where_one_process_answers(
    tmp_path: Path, workers: int, can_wait: bool
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    _, projects = open_projects(HttpOptions(config=str(config), workers=workers), None)
    try:
        assert projects.get().engine.notes.can_wait is can_wait
    finally:
        projects.close()
