"""How a browser gets in: fixed files, one-time codes, sessions, and what each may do."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from alma import ALMA
from alma.http import shell, tokens
from alma.http.app import GateRules
from alma.http.tokens import TokenScope

from .conftest import HOST, Site, make_site

FILES = {
    "index.html": "<!doctype html><title>alma</title>",
    "app.js": "export {};",
    "pages/rules.js": "export {};",
    "secret.py": "print()",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    folder = tmp_path / "ui"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(shell, "_FOLDER", folder)
    shell.list_files.cache_clear()
    return make_site(tmp_path)


@pytest.fixture(autouse=True)
def _forget_files() -> Any:
    yield
    shell.list_files.cache_clear()


def open_browser(site: Site, **headers: str) -> TestClient:
    """Return a browser without a token."""
    return TestClient(site.app, base_url=f"http://{HOST}", headers={"host": HOST, **headers}, follow_redirects=False)


def get_code(site: Site, name: str = "admin", **body: Any) -> str:
    answer = site.client(name).post("/v1/session/code", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["code"])


def enter(site: Site, code: str, **headers: str) -> httpx.Response:
    return open_browser(site, **headers).post("/ui/session", json={"code": code})


def log_in(site: Site, name: str = "admin", **body: Any) -> dict[str, Any]:
    answer = enter(site, get_code(site, name, **body))
    assert answer.status_code == 200, answer.text
    session: dict[str, Any] = answer.json()
    site.secrets[f"browser of {name}"] = session["token"]
    return session


# -- files


def test_files_are_served_with_the_policy_and_without_a_token(site: Site) -> None:
    browser = open_browser(site)
    kinds = {"/ui/": "text/html", "/ui/app.js": "text/javascript", "/ui/pages/rules.js": "text/javascript"}
    for path, kind in kinds.items():
        answer = browser.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
            "trusted-types 'none'"
        )
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "clear-site-data" not in answer.headers
        assert "set-cookie" not in answer.headers


def test_only_the_files_of_the_folder_are_served(site: Site) -> None:
    browser = open_browser(site)
    for path in ("/ui/secret.py", "/ui/../app.py", "/ui/%2e%2e/tokens.py", "/ui/nothing.js", "/ui/pages/", "/ui/ENTER"):
        answer = browser.get(path)
        assert answer.status_code in (401, 404), path
        assert "print" not in answer.text
    for path in ("/", "/ui"):
        assert browser.get(path).headers["location"] == "/ui/"
    assert browser.post("/ui/app.js").status_code == 405


def test_files_are_asked_for_again_only_when_they_changed(site: Site) -> None:
    browser = open_browser(site)
    first = browser.get("/ui/app.js")
    assert first.headers["cache-control"] == "no-cache"
    again = browser.get("/ui/app.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_entry_page_alone_clears_what_an_earlier_program_left(site: Site) -> None:
    answer = open_browser(site).get("/ui/enter")
    assert answer.headers["clear-site-data"] == '"cache"', "storage would end the sessions of other tabs"
    assert answer.headers["cache-control"] == "no-store"


def test_the_entry_page_is_served_only_as_a_page(site: Site) -> None:
    browser = open_browser(site)
    for target, status in (("document", 200), ("image", 403), ("iframe", 403), ("script", 403), ("empty", 403)):
        answer = browser.get("/ui/enter", headers={"sec-fetch-dest": target, "sec-fetch-site": "same-site"})
        assert answer.status_code == status
        assert ("clear-site-data" in answer.headers) is (status == 200)


def test_data_is_never_stored_by_the_browser(site: Site) -> None:
    log_in(site)
    assert site.post("stats", name="browser of admin").headers["cache-control"] == "no-store"


# -- codes


def test_a_code_opens_one_session(site: Site) -> None:
    code = get_code(site, project="web-shop")
    session = enter(site, code).json()
    assert session["scope"] == "approve"
    assert session["projects"] is None
    assert session["project"] == "web-shop"
    assert session["token"].startswith("alma_ui_")
    again = enter(site, code)
    assert again.status_code == 401
    assert again.json()["type"] == "urn:alma:error:InvalidCode"
    assert "alma dashboard" in again.json()["detail"]


def test_a_code_expires_after_a_minute(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    code, now = get_code(site), time.time()
    monkeypatch.setattr(shell.time, "time", lambda: now + 61)
    assert enter(site, code).status_code == 401


def test_a_session_ends_when_it_is_idle_or_old(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    log_in(site)
    now = time.time()
    for minutes in range(0, 12 * 60 - 1, 90):
        monkeypatch.setattr(shell.time, "time", lambda at=now + 60 * minutes: at)
        assert site.post("stats", name="browser of admin").status_code == 200
    monkeypatch.setattr(shell.time, "time", lambda: now + 12 * 3600 + 1)
    old = site.post("stats", name="browser of admin")
    assert old.status_code == 401
    assert "run `alma dashboard`" in old.json()["detail"]
    monkeypatch.setattr(shell.time, "time", lambda: now)
    log_in(site)
    monkeypatch.setattr(shell.time, "time", lambda: now + 2 * 3600 + 1)
    assert site.post("stats", name="browser of admin").status_code == 401


@pytest.mark.parametrize("site_named", ["cross-site", "same-site", "none"])
def test_another_page_cannot_open_a_session(site: Site, site_named: str) -> None:
    code = get_code(site)
    assert enter(site, code, **{"sec-fetch-site": site_named}).status_code == 403
    assert enter(site, code, **{"sec-fetch-site": "same-origin"}).status_code == 200


def test_a_foreign_host_or_origin_gets_nothing(site: Site) -> None:
    code = get_code(site)
    assert enter(site, code, origin="http://127.0.0.1:9999").status_code == 403
    assert enter(site, code, host="evil.example").status_code == 421
    assert open_browser(site, host="evil.example").get("/ui/").status_code == 421
    assert enter(site, code, origin=f"http://{HOST}").status_code == 200


def test_only_json_is_taken(site: Site) -> None:
    code = get_code(site)
    browser = open_browser(site)
    plain = {"content-type": "text/plain"}
    assert browser.post("/ui/session", content=json.dumps({"code": code}), headers=plain).status_code == 415
    assert browser.post("/ui/session", json={"code": 7}).status_code == 401
    assert browser.post("/ui/session", json={"code": "x" * 10_000}).status_code == 401
    assert browser.get("/ui/session").status_code in (404, 405)
    assert enter(site, code).status_code == 200


def test_codes_cannot_be_guessed_quickly(site: Site) -> None:
    code = get_code(site)
    assert [enter(site, "wrong").status_code for _ in range(10)] == [401] * 10
    refused = enter(site, "wrong")
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "more than 0.167 requests per second" in refused.text, "ten in a minute"
    assert enter(site, code).status_code == 200, "a right code is not locked out by wrong ones"


# -- what a session may do


def test_a_session_may_do_no_more_than_its_token(site: Site) -> None:
    site.token("reader", "read", "app")
    session = log_in(site, "reader", scope="admin")
    assert (session["scope"], session["projects"]) == ("read", ["app"])
    fact = site.alma.add_domain_knowledge("dev", "ops", "The window is open")
    assert site.post("browse", name="browser of reader").status_code == 200
    refused = site.post("update", {"memory_id": fact.id, "status": "archived"}, name="browser of reader")
    assert refused.status_code == 403
    other = site.post("browse", name="browser of reader", **{"alma-project": "other"})
    assert other.status_code == 403


def test_a_read_only_session_changes_nothing(site: Site) -> None:
    log_in(site, scope="read")
    rule = site.alma.add_rule("dev", "Use pnpm", source="agent")
    refused = site.post("review", {"action": "approve", "ids": [rule.id]}, name="browser of admin")
    assert refused.status_code == 403
    assert site.alma.get(rule.id).status == "candidate"


def test_the_usual_session_approves_and_does_not_erase(site: Site) -> None:
    log_in(site)
    rule = site.alma.add_rule("dev", "Use pnpm", source="agent")
    approved = site.post("review", {"action": "approve", "ids": [rule.id]}, name="browser of admin")
    assert approved.json()["count"] == 1
    assert site.post("delete", {"memory_id": rule.id}, name="browser of admin").status_code == 403
    log_in(site, scope="admin")
    assert site.post("delete", {"memory_id": rule.id}, name="browser of admin").status_code == 200


def test_changes_name_the_dashboard(site: Site) -> None:
    log_in(site)
    rule = site.alma.add_rule("dev", "Use pnpm", source="agent")
    site.post("review", {"action": "approve", "ids": [rule.id]}, name="browser of admin")
    site.token("ana", "approve")
    log_in(site, "ana")
    site.post("review", {"action": "archive", "ids": [rule.id]}, name="browser of ana")
    lines = [one for one in site.alma.history(rule.id) if one["by"]]
    assert [(one["verb"], one["by"]) for one in lines] == [("accepted", "dashboard"), ("archived", "dashboard of ana")]


def test_sessions_are_listed_and_ended(site: Site) -> None:
    first = log_in(site)
    site.token("reader", "read")
    second = log_in(site, "reader")
    listed = site.client().get("/v1/sessions").json()["sessions"]
    assert [one["id"] for one in listed] == [first["id"], second["id"]]
    assert "token" not in json.dumps(listed)
    own = site.client("browser of reader").get("/v1/sessions").json()["sessions"]
    assert [one["id"] for one in own] == [second["id"]]
    other = site.client("browser of reader").post("/v1/session/end", json={"id": first["id"]})
    assert other.status_code == 403
    assert site.client("browser of reader").post("/v1/session/end", json={}).json() == {"ended": True}
    assert site.client("browser of reader").get("/v1/sessions").status_code == 401
    assert site.client().post("/v1/session/end", json={"id": first["id"]}).status_code == 200
    assert site.post("stats", name="browser of admin").status_code == 401


def test_a_session_ends_with_its_token(site: Site) -> None:
    site.token("guest", "write")
    log_in(site, "guest")
    assert site.post("stats", name="browser of guest").status_code == 200
    tokens.revoke(site.tokens, "guest")
    assert site.post("stats", name="browser of guest").status_code == 401


def test_a_session_cannot_open_others(site: Site) -> None:
    log_in(site)
    assert site.client("browser of admin").post("/v1/session/code", json={}).status_code == 403


def test_tokens_are_listed_for_administrators_without_secrets(site: Site) -> None:
    site.token("reader", "read")
    listed = site.client().get("/v1/tokens")
    assert [one["name"] for one in listed.json()["tokens"]] == ["admin", "reader"]
    assert not any(secret in listed.text for secret in site.secrets.values())
    assert "sha256" not in listed.text
    assert site.client("reader").get("/v1/tokens").status_code == 403


def test_secrets_are_kept_as_hashes(site: Site) -> None:
    sessions = shell.DashboardSessions(tokens.Tokens(site.tokens))
    [token] = tokens.list_tokens(site.tokens)
    code = sessions.make_code(token, TokenScope.READ, None)
    assert code not in repr(vars(sessions))
    opened = sessions.open_session(code)
    assert opened is not None
    assert opened[0] not in repr(vars(sessions))


# -- two editors


def test_a_change_of_an_old_version_is_refused_with_the_present_memory(site: Site) -> None:
    rule = site.alma.add_rule("dev", "Use pnpm")
    [entry] = site.post("browse", {"types": ["rule"]}).json()["items"]
    site.alma.update(rule.id, rule="Use pnpm 9")
    arguments = {"memory_id": rule.id, "fields": {"rule": "Use yarn"}, "source": "user"}
    arguments["expected_version"] = entry["version"]
    refused = site.post("update", arguments)
    assert refused.status_code == 409
    problem = refused.json()
    assert problem["type"] == "urn:alma:error:StaleVersionError"
    assert problem["present"]["memory"]["rule"] == "Use pnpm 9"
    assert site.alma.get(rule.id).rule == "Use pnpm 9"  # type: ignore[attr-defined]
    arguments["expected_version"] = problem["present"]["version"]
    assert site.post("update", arguments).json()["rule"] == "Use yarn"


def test_a_bulk_decision_on_a_changed_list_is_refused(site: Site) -> None:
    for number in range(3):
        site.alma.add_rule("dev", f"Use tool {number}", source="agent")
    chosen = {"types": ["rule"], "statuses": ["candidate"]}
    count = site.post("browse", chosen).json()["count"]
    site.alma.add_rule("dev", "Use another tool", source="agent")
    refused = site.post("review", {"action": "approve", "selection": chosen, "expected_count": count})
    assert (refused.status_code, refused.json()["present"]) == (409, {"count": 4})
    assert site.post("browse", chosen).json()["count"] == 4


def test_hostile_words_come_back_as_they_were_stored(site: Site) -> None:
    text = "<script>window.__xss=1</script> javascript:alert(1) \u202egnp.exe {{constructor}}"
    rule = site.alma.add_rule("dev", text, trigger=text, why=text)
    [entry] = site.post("browse", {"types": ["rule"]}).json()["items"]
    assert entry["memory"]["rule"] == rule.rule
    assert site.post("browse", {"types": ["rule"]}).headers["content-type"] == "application/json"


def test_the_answers_of_a_store_with_long_texts_stay_small(tmp_path: Path) -> None:
    site = make_site(tmp_path, GateRules(hosts=frozenset({HOST}), rate=0))
    for number in range(30):
        site.alma.add_domain_knowledge("dev", f"d{number}", f"{number} " + "words and more " * 3000)
    answer = site.post("browse", {"types": ["domain_knowledge"]})
    assert len(answer.content) < 100_000
    entry = answer.json()["items"][0]
    assert entry["is_cut"]
    whole = site.post("inspect", {"memory_id": entry["memory"]["id"]}).json()["entry"]
    assert len(whole["memory"]["fact"]) > 40_000


@pytest.mark.system
def test_the_longest_texts_fit_into_every_answer_of_a_page(tmp_path: Path) -> None:
    site = make_site(tmp_path, GateRules(hosts=frozenset({HOST}), rate=0))
    long = '"東京" \U0001f5fc ' * 9_990
    assert len(long) > 60_000
    texts = {"trigger": long, "why": long, "metadata": {"note": long[:40_000]}, "tags": ["x" * 200]}
    rows: list[dict[str, Any]] = []
    for number in range(13):
        words = f"Answer in {number} words, by {{}}"
        fact = {"type": "domain_knowledge", "agent": "dev", "domain": "ops", "attribute": f"at{number}"}
        rows += [
            {"type": "rule", "agent": "dev", "rule": words.format(one), "source": one, **texts}
            for one in ("user", "agent", "content")
        ]
        rows += [{**fact, "fact": f"{number} {long}", "source": one} for one in ("user", "agent")]
    site.alma.add_many(rows)
    for one in site.alma.list("domain_knowledge"):
        site.alma.update(one.id, fact=f"{long} once more")
    site.alma.add_episode("dev", "s1", [{"speaker": "user", "text": f"{number} {long}"} for number in range(25)])
    for operation, arguments in (
        ("browse", {"limit": 25}),
        ("browse", {"types": ["rule"], "limit": 25}),
        ("inbox", {}),
        ("overview", {}),
        ("list_changes", {"limit": 25}),
        ("explain_task", {"task": "Answer in words", "agent": "dev"}),
        ("browse_sessions", {}),
        ("show_session", {"session": "s1"}),
    ):
        answer = site.post(operation, arguments)
        assert answer.status_code == 200
        assert len(answer.content) < 100_000, (operation, len(answer.content))
    refused = site.post("add_rule", {"agent": "dev", "rule": "Use pnpm", "why": "x" * 1_000_000})
    assert (refused.status_code, refused.json()["detail"]) == (
        400,
        "why has 1,000,000 characters; at most 100,000 are allowed: split or shorten it",
    )


def test_a_bounded_token_sees_only_its_projects(site: Site, tmp_path: Path) -> None:
    other = ALMA(site.alma.engine.store, project_id="other")
    other.add_rule("dev", "A secret of the other project")
    site.alma.add_rule("dev", "Use pnpm")
    site.token("bound", "read", "app")
    assert site.post("configuration", name="bound").json()["projects"] == ["app"]
    assert site.post("configuration").json()["projects"] == ["app", "other"]
    for operation in ("browse", "inbox", "overview", "list_changes", "browse_sessions"):
        assert "secret" not in site.post(operation, name="bound").text
