"""The dashboard in a real Chromium, over a service in this process.

The tests need playwright and a browser (`tools.browser` finds or fetches one). Without them the run says at its end
that they did not run, and why.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
from tools.browser import BrowserMissingError, find_libraries, find_small_browser
from tools.dashboard_sample import AGENT, OTHER, PROJECT, store_sample

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.http import tokens
from alma.http.app import App, GateRules, build
from alma.projects import LazyMemory, Projects
from alma.stores.sqlite import SQLiteStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Request

FOLDER = Path(__file__).parent
PAGES = {
    "overview": "Overview",
    "inbox": "Inbox",
    "rules": "Rules",
    "strategies": "Strategies",
    "sessions": "Sessions",
    "sessions?session=session-0": "Fix the total of the cart",
    "profiles": "Profiles",
    "profiles?of=facts": "Profiles",
    "why": "Why?",
    "why?task=run+the+tests&agent=claude-code": "Why?",
    "effect": "Effect",
    "history": "History",
    "health": "Health",
    "spend": "Spend",
    "settings": "Settings",
}
"""Each page, by what follows `#/` in its address, and its heading."""
SECONDS = 30
NO_TLS = ssl.create_default_context()
"""Made once: a client that makes its own spends most of its time on it."""
FIRST_SCRIPT = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
const startTimer = window.setTimeout;
window.setTimeout = (action, pause, ...rest) =>
  startTimer(action, String(action).includes("setNote(null)") ? 12 * pause : pause, ...rest);
"""
"""Records violations of the policy. A message with its undo stays longer than its ten seconds, for slow machines."""
TWO_FRAMES = """
() => new Promise((done) =>
  requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(() =>
    setTimeout(() => done(Boolean(document.querySelector("[aria-busy=true]"))))))))
"""
"""Whether it loads anything. What a page loads for its new address, it begins to load after it was drawn."""
ARGUMENTS = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]
"""No page reaches another machine."""
_KEY = "alma.session"


# -- the service


@dataclass
class Dashboard:
    """A service in a thread of this process, with what its tests need."""

    folder: Path
    alma: ALMA
    app: App
    port: int
    token: str
    server: uvicorn.Server
    thread: threading.Thread
    stopping: threading.Event

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def client(self) -> httpx.Client:
        """Connections of another program to the service."""
        return httpx.Client(base_url=self.url, timeout=60, trust_env=False, verify=NO_TLS)

    def post(self, path: str, body: Any = None, token: str = "", **headers: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {token or self.token}", **headers}
        return self.client.post(path, json=body or {}, headers=headers)

    def call(self, operation: str, **arguments: Any) -> Any:
        """Call an operation as another program would; return its answer."""
        answer = self.post(f"v1/{operation}", arguments)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        return body["result"] if set(body) == {"result"} else body

    def get_code(self, scope: str = "approve", project: str = PROJECT) -> str:
        return str(self.post("v1/session/code", {"scope": scope, "project": project}).json()["code"])

    def make_link(self, scope: str = "approve") -> str:
        return f"{self.url}/ui/enter#{self.get_code(scope)}"

    def open_session(self, scope: str = "approve", project: str = PROJECT) -> dict[str, Any]:
        body = {"code": self.get_code(scope, project)}
        answer = self.client.post("ui/session", json=body)
        assert answer.status_code == 200, answer.text
        session: dict[str, Any] = answer.json()
        return session

    def stop(self) -> None:
        self.client.close()
        self.stopping.set()
        self.server.should_exit = True
        self.thread.join(SECONDS)


def start_service(folder: Path, port: int = 0, watchers: tuple[Any, ...] = ()) -> Dashboard:
    """Serve the store of a folder on loopback."""
    listener = socket.create_server(("127.0.0.1", port))
    port = listener.getsockname()[1]
    store = SQLiteStore(folder / "alma.db")
    alma = ALMA(store, HashEmbedder(), project_id=PROJECT)
    projects = Projects(LazyMemory(partial(_get_itself, alma)))
    file = folder / tokens.FILE
    secret = tokens.add(file, f"test{port}{time.monotonic_ns()}", "admin", ())
    stopping = threading.Event()
    rules = GateRules(hosts=frozenset({f"127.0.0.1:{port}"}), rate=0)
    app = build(projects, tokens.Tokens(file), rules, watchers, stopping)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + SECONDS
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started
    return Dashboard(folder, alma, app, port, secret, server, thread, stopping)


def _get_itself(alma: ALMA) -> ALMA:
    return alma


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Dashboard]:
    """A service over a store without memories."""
    service = start_service(tmp_path)
    yield service
    service.stop()


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database file of the sample, with one of its rules also in another project. Tests serve copies of it."""
    file = tmp_path_factory.mktemp("sample") / "alma.db"
    with (
        ALMA(SQLiteStore(file), HashEmbedder(), project_id=PROJECT) as alma,
        ALMA(SQLiteStore(file), HashEmbedder(), project_id=OTHER) as other,
    ):
        store_sample(alma, other)
    return file


@pytest.fixture
def service(sample: Path, tmp_path: Path) -> Iterator[Dashboard]:
    """A service over a copy of the sample."""
    shutil.copy(sample, tmp_path)
    service = start_service(tmp_path)
    yield service
    service.stop()


@pytest.fixture(scope="module")
def shared(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """A service over a copy of the sample for the tests of a module that change nothing."""
    folder = tmp_path_factory.mktemp("shared")
    shutil.copy(sample, folder)
    service = start_service(folder)
    yield service
    service.stop()


# -- the browser


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Start the browser once. It ends with the last test here: playwright keeps an event loop in this thread."""
    from playwright.sync_api import expect, sync_playwright

    try:
        path = find_small_browser()
    except BrowserMissingError as error:
        pytest.skip(f"BROWSER TESTS DID NOT RUN: {error}")
    # Not the five seconds of the default: a busy machine needs more for one answer.
    expect.set_options(timeout=1000 * SECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, env=find_libraries(path))
        yield browser
        browser.close()


@dataclass
class Tab:
    """A page that records what must not happen: errors, violations of the policy, requests to other origins."""

    page: Page
    service: Dashboard
    problems: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Parts of messages that a test provokes, such as a refused request."""

    def show(self, address: str, heading: str | None = None) -> None:
        """Go to a page by its address after `#/`, and wait until it is complete."""
        from playwright.sync_api import expect

        self.page.goto(f"{self.service.url}/ui/#/{address}")
        expect(self.page.locator("main h1")).to_contain_text(heading or PAGES.get(address, ""))
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is being loaded."""
        from playwright.sync_api import expect

        if self.page.evaluate(TWO_FRAMES):
            expect(self.page.locator("[aria-busy=true]")).to_have_count(0)

    def check(self) -> None:
        """Fail on everything that was recorded."""
        violations = self.page.evaluate("window.__violations ?? []") if not self.page.is_closed() else []
        unexpected = [one for one in self.problems if not any(part in one for part in self.expected)]
        assert unexpected + violations == []


Opener = Callable[..., Tab]


@pytest.fixture
def open_tab(chromium: Browser) -> Iterator[Opener]:
    """Open tabs signed in to a service; each is checked at the end of the test."""
    tabs: list[Tab] = []
    with ExitStack() as contexts:

        def opener(
            service: Dashboard, scope: str | None = "approve", context: BrowserContext | None = None, **options: Any
        ) -> Tab:
            if context is None:
                options = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", **options}
                context = chromium.new_context(**options)
                contexts.callback(context.close)
                context.set_default_timeout(1000 * SECONDS)
                context.add_init_script(FIRST_SCRIPT)
                if scope:
                    session = json.dumps(json.dumps(service.open_session(scope)))
                    script = f"if (!sessionStorage.getItem('{_KEY}')) sessionStorage.setItem('{_KEY}', {session});"
                    context.add_init_script(script)
            tabs.append(watch_page(context.new_page(), service))
            return tabs[-1]

        yield opener
        for tab in tabs:
            tab.check()


def watch_page(page: Page, service: Dashboard) -> Tab:
    """Record what must not happen on a page."""
    tab = Tab(page, service)

    def record(request: Request) -> None:
        tab.requests.append(request)
        if not request.url.startswith((f"{service.url}/", "about:")):
            tab.problems.append(f"request to another origin: {request.url}")

    page.on("console", lambda line: tab.problems.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: tab.problems.append(f"error: {error}"))
    page.on("request", record)
    return tab


@pytest.fixture
def tab(service: Dashboard, open_tab: Opener) -> Tab:
    """A tab over the sample, with the usual scope."""
    return open_tab(service)


def find_memory(service: Dashboard, text: str) -> dict[str, Any]:
    """Return the memory of the sample whose text contains some words, of any status."""
    items = service.call("browse", statuses=[], limit=100)["items"]
    [entry] = [one for one in items if text in json.dumps(one["memory"], ensure_ascii=False)]
    memory: dict[str, Any] = entry["memory"]
    return memory


__all__ = ["AGENT", "Dashboard", "Opener", "Tab", "find_memory", "start_service"]
