"""An administrator of some projects: it manages these, and learns nothing of the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.api.samples import world

from alma.http import shell, tokens
from alma.http.app import list_offered
from alma.operations import Effect

from .conftest import Site
from .samples import OVER_HTTP, order
from .test_dashboard import enter, get_code, log_in

MARK = "zanzibar"
"""A word of the project that the bound token must not reach."""


@pytest.fixture
def shared(site: Site) -> Site:
    """Tokens of one project, of two, and of all; `clerk` administers `shop` and `web`."""
    for name, scope, projects in (
        ("clerk", "admin", ("shop", "web")),
        ("shop-reader", "read", ("shop",)),
        ("same", "write", ("web", "shop")),
        ("wider", "read", ("shop", "bank")),
        ("bank", "admin", ("bank",)),
        ("anybody", "read", ()),
    ):
        site.token(name, scope, *projects)
    return site


def list_names(site: Site, name: str, path: str) -> list[str]:
    listed = site.client(name).get(f"/v1/{path}").json()[path]
    return [entry["name"] for entry in listed]


def test_it_lists_only_tokens_of_its_own_projects(shared: Site) -> None:
    assert list_names(shared, "clerk", "tokens") == ["clerk", "shop-reader", "same"]
    assert list_names(shared, "bank", "tokens") == ["bank"]
    everybody = ["admin", "clerk", "shop-reader", "same", "wider", "bank", "anybody"]
    assert list_names(shared, "admin", "tokens") == everybody


def test_the_session_of_a_bound_administrator_lists_no_more(shared: Site) -> None:
    log_in(shared, "clerk", scope="admin")
    assert list_names(shared, "browser of clerk", "tokens") == ["clerk", "shop-reader", "same"]
    log_in(shared, "admin", scope="admin")
    assert list_names(shared, "browser of clerk", "sessions") == ["dashboard of clerk"]


def test_a_reader_who_opens_many_sessions_ends_none_of_others(shared: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "_MOST", 8)
    monkeypatch.setattr(shell, "_MOST_OF_TOKEN", 4, raising=False)
    log_in(shared, "admin", scope="admin")
    code = get_code(shared, "anybody")
    for _ in range(10):
        log_in(shared, "shop-reader")
    assert list_names(shared, "browser of admin", "sessions").count("dashboard of shop-reader") == 4
    assert enter(shared, code).status_code == 200


def test_it_sees_and_ends_only_sessions_in_its_own_projects(shared: Site) -> None:
    sessions = {name: log_in(shared, name) for name in ("admin", "shop-reader", "wider", "bank", "anybody")}
    assert list_names(shared, "clerk", "sessions") == ["dashboard of shop-reader"]
    clerk = shared.client("clerk")
    unknown = clerk.post("/v1/session/end", json={"id": "0" * 16})
    for name in ("admin", "wider", "bank", "anybody"):
        id = sessions[name]["id"]
        refused = clerk.post("/v1/session/end", json={"id": id})
        assert refused.status_code == 404
        assert refused.json()["detail"].replace(id, "") == unknown.json()["detail"].replace("0" * 16, "")
        assert shared.client(f"browser of {name}").get("/v1/sessions").status_code == 200
    assert clerk.post("/v1/session/end", json={"id": sessions["shop-reader"]["id"]}).status_code == 200
    assert shared.client("browser of shop-reader").get("/v1/sessions").status_code == 401
    assert len(list_names(shared, "admin", "sessions")) == 4


def test_its_sessions_are_bound_as_it_is(shared: Site) -> None:
    session = log_in(shared, "clerk", scope="admin", project="web")
    assert session["projects"] == ["shop", "web"]
    refused = shared.client("clerk").post("/v1/session/code", json={"project": "bank"})
    assert (refused.status_code, "bank" in refused.json()["detail"]) == (403, True)
    assert shared.post("stats", name="browser of clerk", **{"alma-project": "bank"}).status_code == 403


@pytest.mark.parametrize("path", ["tokens", "token", "tokens/add", "tokens/revoke", "token/add", "token/revoke"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nobody_creates_or_revokes_a_token_over_the_network(shared: Site, method: str, path: str) -> None:
    before = [token.name for token in tokens.list_tokens(shared.tokens)]
    answer = shared.client("clerk").request(method, f"/v1/{path}", json={"name": "new", "scope": "admin"})
    assert answer.status_code in (404, 405)
    assert [token.name for token in tokens.list_tokens(shared.tokens)] == before


def test_a_session_ends_when_its_token_is_limited(shared: Site) -> None:
    for change in ({"projects": ["shop"]}, {"scope": "write", "projects": ["shop", "web"]}):
        log_in(shared, "clerk", scope="admin")
        assert shared.post("stats", name="browser of clerk", **{"alma-project": "web"}).status_code == 200
        content = json.loads(shared.tokens.read_text())
        [entry] = [entry for entry in content["tokens"] if entry["name"] == "clerk"]
        entry.update(change)
        shared.tokens.write_text(json.dumps(content))
        refused = shared.post("stats", name="browser of clerk", **{"alma-project": "shop"})
        assert refused.status_code == 401
        entry.update(projects=["shop", "web"], scope="admin")
        shared.tokens.write_text(json.dumps(content))


def fill_bank(site: Site, folder: Path) -> None:
    """Store memories of every sort in the project that is named with the mark."""
    bank = site.projects.get(MARK)
    folder.mkdir()
    prepared = world(bank, str(folder))
    headers = {"alma-project": MARK}
    for name in order():
        if list_offered()[name].effect is not Effect.ERASES:
            site.post(name, OVER_HTTP[name](prepared), **headers)
    # The same words as in the other project would show as a rule of two projects.
    bank.add_rule("dev", "Use tabs instead of spaces")
    for text in (f"The vault of {MARK}", f"Alice opened {MARK} for Bob"):
        bank.add_domain_knowledge("dev", "vault", text)
    site.post("learn", {"agent": MARK, "task": MARK, "outcome": "success", "strategy_used": MARK}, **headers)
    site.post("create_work_item", {"title": f"Guard {MARK}"}, **headers)
    site.post("start_session", {"agent": MARK, "goal": MARK}, **headers)
    turns = [{"speaker": "Ana", "text": f"Meet in {MARK}"}]
    site.post("add_episode", {"agent": MARK, "session_id": MARK, "turns": turns}, **headers)


def test_no_operation_tells_an_administrator_of_one_project_about_another(site: Site, tmp_path: Path) -> None:
    fill_bank(site, tmp_path / "bank")
    site.token("clerk", "admin", "app")
    site.token(MARK, "admin", MARK)
    log_in(site, MARK)
    prepared = world(site.alma, str(tmp_path))
    for name in order():
        answer = site.post(name, OVER_HTTP[name](prepared), name="clerk")
        assert answer.status_code in (200, 403, 404), (name, answer.text)
        assert MARK not in answer.text, name
    clerk = site.client("clerk")
    for path in ("/metrics", "/v1/tokens", "/v1/sessions", "/v1/operations", "/openapi.json"):
        assert MARK not in clerk.get(path).text, path


def test_questions_about_another_project_find_nothing(site: Site, tmp_path: Path) -> None:
    fill_bank(site, tmp_path / "bank")
    site.token("clerk", "admin", "app")
    empty = {"browse": {}, "inbox": {}, "overview": {}, "configuration": {}, "list_changes": {}, "list_deliveries": {}}
    questions: dict[str, dict[str, Any]] = {
        **empty,
        "browse_sessions": {},
        "find_entities": {"name": MARK},
        "search": {"query": MARK},
        "usage": {},
        "conflicts": {},
        "graph_stats": {},
        "calibration": {},
    }
    for operation, arguments in questions.items():
        answer = site.post(operation, arguments, name="clerk")
        words = answer.text.replace(f'"query":"{MARK}"', "")
        assert MARK not in words, (operation, answer.text)


def test_a_stream_and_figures_of_another_project_are_refused(shared: Site) -> None:
    clerk = shared.client("clerk")
    for path in ("/v1/events", "/metrics"):
        assert clerk.get(path, headers={"alma-project": "bank"}).status_code == 403


def test_a_bound_administrator_gets_no_code_of_the_owner(shared: Site) -> None:
    """A code that the owner asked for opens the owner's session once, and is listed nowhere."""
    code = get_code(shared, "admin", scope="admin")
    assert list_names(shared, "clerk", "sessions") == []
    assert code not in shared.client("clerk").get("/v1/sessions").text
    assert enter(shared, code).json()["projects"] is None


def test_a_rule_for_all_projects_does_not_tell_where_it_was_made(site: Site) -> None:
    headers = {"alma-project": MARK}
    site.token("clerk", "admin", "app")
    given = {"agent": "dev", "rule": "Sign every release", "source": "user", "reach": "always"}
    rule = site.post("add_rule", given, **headers).json()["id"]
    update = {"memory_id": rule, "fields": {"why": "customers verify it"}, "source": "user"}
    assert site.post("update", update, **headers).status_code == 200
    chosen = {"memory_id": rule}
    questions: dict[str, dict[str, Any]] = {
        "get": chosen,
        "inspect": chosen,
        "history": chosen,
        "blame": {"text": "Sign every release"},
        "diff": {"since": "2020-01-01T00:00:00Z"},
        "list": {},
        "browse": {},
        "list_changes": {},
        "list_deliveries": {},
        "playbook": {},
        "retrieve": {"task": "Sign the release", "agent": "dev"},
        "explain_task": {"task": "Sign the release", "agent": "dev"},
    }
    answers = {name: site.post(name, arguments, name="clerk") for name, arguments in questions.items()}
    assert "Sign every release" in answers["get"].text
    assert [name for name, answer in answers.items() if MARK in answer.text] == []
    assert [name for name, answer in answers.items() if answer.status_code != 200] == []
