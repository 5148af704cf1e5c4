"""How a browser gets in, and what other pages, other ports and small scopes can not do."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from tests.http.conftest import start

from alma.http import shell

from .conftest import Dashboard, Opener, find_memory, start_service

pytestmark = [pytest.mark.browser, pytest.mark.system]

SECRET = "Do not mock the database"


@contextmanager
def serve_page(
    body: str, scripts: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve a page, and scripts by path, at another port of this machine; yield its address and the requests."""
    requests: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
            self.send_response(200)
            self.send_header("content-type", "text/javascript" if self.path in scripts else "text/html")
            self.end_headers()
            self.wfile.write(scripts.get(self.path, body).encode())

        do_POST = do_GET

        def log_message(self, *words: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()


# -- the link


def test_a_link_opens_the_dashboard_once(shared: Dashboard, open_tab: Opener) -> None:
    from playwright.sync_api import expect

    link = shared.make_link()
    first = open_tab(shared, None)
    first.page.goto(link)
    expect(first.page.locator("h1")).to_have_text("Overview")
    second = open_tab(shared, None)
    second.expected.append("401")
    second.page.goto(link)
    expect(second.page.get_by_role("alert")).to_contain_text("no longer valid")
    expect(second.page.locator("code", has_text="alma dashboard")).to_be_visible()
    assert second.page.evaluate("sessionStorage.length") == 0


def test_an_expired_link_is_refused(shared: Dashboard, open_tab: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    from playwright.sync_api import expect

    link, now = shared.make_link(), time.time()
    monkeypatch.setattr(shell.time, "time", lambda: now + 61)
    tab = open_tab(shared, None)
    tab.expected.append("401")
    tab.page.goto(link)
    expect(tab.page.get_by_role("alert")).to_contain_text("no longer valid")
    expect(tab.page.locator("code", has_text="alma dashboard")).to_be_visible()


def test_a_tab_without_a_session_shows_no_data(shared: Dashboard, open_tab: Opener) -> None:
    from playwright.sync_api import expect

    tab = open_tab(shared, None)
    tab.page.goto(f"{shared.url}/ui/#/rules")
    expect(tab.page.locator("code", has_text="alma dashboard")).to_be_visible()
    assert not [one for one in tab.requests if "/v1/" in one.url]
    assert SECRET not in tab.page.content()


def test_the_code_is_in_no_history_log_referer_cookie_or_storage(
    tmp_path: Path, open_tab: Opener, chromium: Any
) -> None:
    from playwright.sync_api import expect

    served = start(tmp_path)
    try:
        headers = {"authorization": f"Bearer {served.token}"}
        url = f"{served.url}/v1/session/code"
        code = httpx.post(url, json={}, headers=headers, trust_env=False, timeout=60).json()["code"]
        context = chromium.new_context()
        page, requests = context.new_page(), []
        page.on("request", lambda request: requests.append(request))
        page.goto(f"{served.url}/ui/enter#{code}")
        expect(page.locator("h1")).to_have_text("Overview")
        entries = page.context.new_cdp_session(page).send("Page.getNavigationHistory")["entries"]
        # The browser's own file of visited addresses keeps the link, with a code that is used up.
        assert [one["url"] for one in entries if code in one["url"]] == []
        assert code not in page.url
        assert code not in page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
        assert [one for one in requests if one.headers.get("referer") or code in one.url] == []
        assert context.cookies() == []
        page.go_back()
        assert code not in page.url
        context.close()
    finally:
        served.end()
        assert served.process.stderr is not None
        told = served.process.stderr.read()
        served.process.stderr.close()
    assert code not in served.log.read_text() + told


def test_reload_keeps_the_session_and_a_second_tab_gets_it(shared: Dashboard, open_tab: Opener) -> None:
    from playwright.sync_api import expect

    tab = open_tab(shared, None)
    tab.page.goto(shared.make_link())
    expect(tab.page.locator("h1")).to_have_text("Overview")
    tab.page.reload()
    expect(tab.page.locator("h1")).to_have_text("Overview")
    second = open_tab(shared, None, tab.page.context)
    second.page.goto(f"{shared.url}/ui/#/rules")
    expect(second.page.locator("h1")).to_have_text("Rules")
    second.page.locator("button", has_text="Sign out").click()
    for one in (tab, second):
        expect(one.page.locator("code", has_text="alma dashboard").first).to_be_visible()
        assert SECRET not in one.page.locator("body").inner_text()


WORKER = """
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => event.respondWith(fetch(event.request)));
"""
"""A service worker that sees every request of its origin, as a development server may leave one behind."""
LEFT_BEHIND = """async () => {
  const workers = await navigator.serviceWorker.getRegistrations();
  return {workers: workers.length, isWatched: Boolean(navigator.serviceWorker.controller)};
}"""


def test_a_service_worker_that_an_earlier_program_left_at_the_port_sees_no_token(
    tmp_path: Path, open_tab: Opener, chromium: Any
) -> None:
    from playwright.sync_api import expect

    context = chromium.new_context()
    page = context.new_page()
    with serve_page("<title>earlier</title>", {"/worker.js": WORKER}) as (earlier, _):
        page.goto(earlier)
        page.evaluate(
            """async () => { await navigator.serviceWorker.register("/worker.js");
               await navigator.serviceWorker.ready; }"""
        )
        page.reload()
        assert page.evaluate(LEFT_BEHIND) == {"workers": 1, "isWatched": True}
    page.goto("about:blank")
    service = start_service(tmp_path, int(earlier.rpartition(":")[2]))
    requests: list[Any] = []
    context.on("request", lambda one: requests.append(one))
    try:
        page.goto(service.make_link())
        expect(page.locator("h1")).to_have_text("Overview")
        assert page.evaluate(LEFT_BEHIND) == {"workers": 0, "isWatched": False}
        assert any("/v1/" in one.url for one in requests)
        # Before the page is loaded again, the worker passes on the page and its scripts, which anybody may read.
        seen = [one.url for one in requests if one.service_worker and (one.method != "GET" or "/v1/" in one.url)]
        assert seen == []
        assert "enter" not in page.url
    finally:
        context.close()
        service.stop()


def test_another_link_leaves_other_tabs_their_session_and_settings(shared: Dashboard, open_tab: Opener) -> None:
    """A page of another origin can open the entry page, too."""
    from playwright.sync_api import expect

    reader = open_tab(shared, None)
    reader.page.goto(shared.make_link("read"))
    expect(reader.page.locator("h1")).to_have_text("Overview")
    reader.page.get_by_label("Theme").select_option("dark")
    own = reader.page.evaluate("sessionStorage.getItem('alma.session')")
    with serve_page(f"<title>other</title><img src='{shared.url}/ui/enter'>") as (other, _):
        stranger = reader.page.context.new_page()
        stranger.goto(other)
        stranger.close()
    admin = open_tab(shared, None, reader.page.context)
    admin.page.goto(shared.make_link("admin"))
    expect(admin.page.locator("h1")).to_have_text("Overview")
    reader.page.reload()
    expect(reader.page.locator("html")).to_have_attribute("data-theme", "dark")
    reader.show("settings")
    expect(reader.page.locator("main")).to_contain_text("This session: scope read")
    assert reader.page.evaluate("sessionStorage.getItem('alma.session')") == own
    admin.page.locator("button", has_text="Sign out").click()
    expect(admin.page.get_by_role("alert")).to_contain_text("signed out")
    reader.show("rules")
    expect(reader.page.locator(".rows .title").first).to_be_visible()


# -- other pages and ports


def test_another_port_sees_neither_token_nor_storage_nor_answer(shared: Dashboard, chromium: Any) -> None:
    from playwright.sync_api import expect

    with serve_page("<title>other</title>") as (other, requests):
        context = chromium.new_context()
        page = context.new_page()
        page.goto(shared.make_link())
        expect(page.locator("h1")).to_have_text("Overview")
        token = page.evaluate("JSON.parse(sessionStorage.getItem('alma.session')).token")
        stranger = context.new_page()
        stranger.goto(other)
        assert stranger.evaluate("sessionStorage.length + localStorage.length") == 0
        assert stranger.evaluate("document.cookie") == ""
        heard = """async (token) => { const channel = new BroadcastChannel("alma"); let heard = null;
            channel.onmessage = (event) => (heard = event.data); channel.postMessage({ask: true});
            await new Promise((resolve) => setTimeout(resolve, 500)); return heard; }"""
        assert stranger.evaluate(heard, token) is None
        for path, options in (
            ("v1/browse", {"method": "POST", "body": "{}", "headers": {"content-type": "text/plain"}}),
            ("v1/browse", {"method": "POST", "body": "{}", "headers": {"authorization": f"Bearer {token}"}}),
            ("ui/session", {"method": "POST", "body": "{}"}),
            ("ui/", {}),
        ):
            read = "([url, options]) => fetch(url, options).then((one) => one.text(), () => 'refused')"
            assert stranger.evaluate(read, [f"{shared.url}/{path}", options]) == "refused"
        stranger.evaluate(f"fetch('{shared.url}/v1/stats', {{method: 'POST', mode: 'no-cors', body: '{{}}'}})")
        assert token not in str(requests)
        assert "authorization" not in str(requests)
        assert "cookie" not in str(requests)
        context.close()


def test_a_same_site_post_changes_nothing(shared: Dashboard, chromium: Any) -> None:
    code = shared.get_code()
    with serve_page("<title>other</title>") as (other, _):
        page = chromium.new_page()
        page.goto(other)
        page.evaluate(
            """([url, code]) => fetch(url, {method: "POST", mode: "no-cors", headers: {"content-type": "text/plain"},
               body: JSON.stringify({code})}).catch(() => {})""",
            [f"{shared.url}/ui/session", code],
        )
        page.close()
    answer = httpx.post(f"{shared.url}/ui/session", json={"code": code}, trust_env=False, timeout=60)
    assert answer.status_code == 200, "the code was used up by another page"


def test_the_dashboard_cannot_be_framed(shared: Dashboard, chromium: Any) -> None:
    page = chromium.new_page()
    with serve_page(f"<iframe src='{shared.url}/ui/'></iframe><object data='{shared.url}/ui/'></object>") as (
        other,
        _,
    ):
        page.goto(other)
        page.wait_for_timeout(1000)
        frames = [one for one in page.frames if one != page.main_frame]
        assert frames
        assert [one.url for one in frames if one.url.startswith(shared.url)] == []
        assert all("Loading" not in one.content() and "alma dashboard" not in one.content() for one in frames)
    page.close()


def test_an_opened_window_has_no_hold_on_the_dashboard(shared: Dashboard, chromium: Any) -> None:
    context = chromium.new_context()
    page = context.new_page()
    with serve_page("<title>other</title>") as (other, _):
        page.goto(other)
        with context.expect_page() as opened:
            page.evaluate(f"window.held = window.open('{shared.url}/ui/')")
        opened.value.wait_for_load_state()
        assert opened.value.evaluate("window.opener") is None
        page.wait_for_function("window.held.closed")
    context.close()


def test_a_foreign_host_is_refused(shared: Dashboard) -> None:
    headers = {"host": f"evil.example:{shared.port}", "authorization": f"Bearer {shared.token}"}
    paths = ("ui/", "ui/enter", "ui/app.js", "v1/session", "healthz")
    statuses = {path: shared.client.get(path, headers=headers).status_code for path in paths}
    assert statuses == dict.fromkeys(paths, 421)


def test_a_foreign_origin_is_refused(shared: Dashboard) -> None:
    token = shared.open_session()["token"]
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null"):
        assert shared.post("v1/browse", {}, token, origin=origin).status_code == 403, origin
        assert shared.post("ui/session", {"code": shared.get_code()}, origin=origin).status_code == 403, origin
    assert shared.post("v1/browse", {}, token, origin=shared.url).status_code == 200


def test_a_name_that_resolves_to_this_machine_is_refused(shared: Dashboard, chromium: Any) -> None:
    context = chromium.new_context()
    page = context.new_page()
    answer = page.goto(f"http://localhost:{shared.port}/ui/")
    assert answer is not None
    assert answer.status == 421
    context.close()


# -- scope


def test_a_read_only_token_is_refused_whatever_the_page_sends(shared: Dashboard, open_tab: Opener) -> None:
    rule = find_memory(shared, SECRET)
    tab = open_tab(shared, "read")
    tab.expected.append("403")
    tab.show(f"rules?id={rule['id']}")
    calls = {
        "update": {"memory_id": rule["id"], "fields": {"rule": "x"}, "source": "user"},
        "review": {"action": "archive", "ids": [rule["id"]]},
        "add_rule": {"agent": "dev", "rule": "x"},
        "undo": {"memory_id": rule["id"]},
        "delete": {"memory_id": rule["id"]},
    }
    send = """([operation, args]) => import("/ui/session.js").then((session) => session.call(operation, args))
        .then(() => 200, (problem) => problem.status)"""
    assert {name: tab.page.evaluate(send, [name, args]) for name, args in calls.items()} == dict.fromkeys(calls, 403)
    assert find_memory(shared, SECRET) == rule


def test_a_refusal_is_shown_and_changes_nothing(shared: Dashboard, open_tab: Opener) -> None:
    """Even where a button is there, the server decides."""
    from playwright.sync_api import expect

    rule = find_memory(shared, SECRET)
    session = shared.open_session("read")
    tab = open_tab(shared, None)
    tab.expected.append("403")
    tab.page.context.add_init_script(
        f"sessionStorage.setItem('alma.session', JSON.stringify({{...{json.dumps(session)}, scope: 'admin'}}))"
    )
    tab.show(f"rules?id={rule['id']}")
    tab.page.locator(".detail button", has_text="Archive").click()
    expect(tab.page.locator(".notes [role=alert]")).to_contain_text("scope")
    assert find_memory(shared, SECRET)["status"] == "active"


def test_an_ended_session_is_refused(shared: Dashboard, open_tab: Opener) -> None:
    from playwright.sync_api import expect

    tab = open_tab(shared)
    tab.expected += ["401"]
    tab.show("rules")
    identity = tab.page.evaluate("JSON.parse(sessionStorage.getItem('alma.session')).id")
    assert shared.post("v1/session/end", {"id": identity}).status_code == 200
    tab.page.locator("nav a", has_text="Health").click()
    expect(tab.page.locator(".error[role=alert]").first).to_contain_text("alma dashboard")
    assert tab.page.evaluate("sessionStorage.getItem('alma.session')") is None
