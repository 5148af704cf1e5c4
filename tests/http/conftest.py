"""A service over a memory: in this process, and as a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient
from tests.api.samples import World, world
from tests.forked import Running, share_server_forks

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.http import tokens
from alma.http.app import App, GateRules, build
from alma.projects import LazyMemory, Projects
from alma.stores.sqlite import SQLiteStore

CONFIG = "alma:\n  project_id: app\n  storage: sqlite\n  storage_dir: .alma\n  embedding_provider: none\n"
HOST = "memory.test"
SECONDS = 60


@dataclass
class Site:
    """A service in this process."""

    app: App
    tokens: Path
    projects: Projects
    alma: ALMA
    secrets: dict[str, str] = field(default_factory=dict)

    def client(self, name: str = "admin", **headers: str) -> TestClient:
        told = {"authorization": f"Bearer {self.secrets[name]}", "host": HOST} | headers
        return TestClient(self.app, base_url=f"http://{HOST}", headers=told, raise_server_exceptions=True)

    def post(self, operation: str, arguments: Any = None, name: str = "admin", **headers: str) -> httpx.Response:
        return self.client(name, **headers).post(f"/v1/{operation}", json={} if arguments is None else arguments)

    def token(self, name: str, scope: str = "read", *projects: str) -> str:
        self.secrets[name] = tokens.add(self.tokens, name, scope, projects)
        return self.secrets[name]


def _same(alma: ALMA) -> ALMA:
    return alma


def make_site(
    folder: Path, rules: GateRules | None = None, watchers: tuple[Any, ...] = (), alma: ALMA | None = None
) -> Site:
    alma = alma or ALMA(SQLiteStore(folder / "alma.db"), HashEmbedder(), project_id="app")
    projects = Projects(LazyMemory(partial(_same, alma)))
    file = folder / tokens.FILE
    app = build(projects, tokens.Tokens(file), rules or GateRules(hosts=frozenset({HOST}), rate=0), watchers)
    site = Site(app, file, projects, alma)
    site.token("admin", "admin")
    return site


class Within(httpx.BaseTransport):
    """Requests go to a service in this process."""

    def __init__(self, site: Site) -> None:
        self._client = site.client()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name != "host"}
        made = self._client.request(
            request.method, request.url.raw_path.decode(), content=request.read(), headers=headers
        )
        return httpx.Response(made.status_code, headers=made.headers, content=made.content)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Fill a folder once; each test gets a copy of it."""
    folder = tmp_path_factory.mktemp("template")
    site = make_site(folder)
    made = world(site.alma, str(folder))
    site.alma.close()
    return made


@pytest.fixture
def prepared(template: World, tmp_path: Path) -> World:
    """What lies in the memory of `site`."""
    shutil.copytree(template.folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(tokens.FILE))
    file = template.file.replace(template.folder, str(tmp_path))
    return replace(template, folder=str(tmp_path), file=file)


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    if "prepared" in request.fixturenames:
        request.getfixturevalue("prepared")
    made = make_site(tmp_path)
    yield made
    made.alma.close()


# -- as a process


@dataclass
class Served:
    url: str
    token: str
    folder: Path
    process: Running | subprocess.Popen[str]
    log: Path
    told: str
    """What it said when it started."""

    @property
    def config(self) -> Path:
        return self.folder / ".alma" / "config.yaml"

    def connect(self, **options: Any) -> Any:
        return ALMA.connect(self.url, self.token, **options)

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(SECONDS)


def start_process(arguments: list[str], folder: Path) -> Running | subprocess.Popen[str]:
    """Start the server: forked where that is possible, because a fresh interpreter takes most of a second."""
    if hasattr(os, "fork"):
        code = "import sys; from alma.http import main; sys.exit(main())"
        return share_server_forks().start(code, folder, arguments=arguments)
    command = [sys.executable, "-W", "error", "-m", "alma.http", *arguments]
    return subprocess.Popen(command, cwd=folder, env=dict(os.environ), stderr=subprocess.PIPE, text=True)


def start(folder: Path, *options: str) -> Served:
    config = folder / ".alma" / "config.yaml"
    if not config.exists():
        config.parent.mkdir(parents=True)
        config.write_text(CONFIG)
    log = folder / "requests.log"
    arguments = ["--config", str(config), "--port", "0", "--log-file", str(log), "--rate", "0", *options]
    process = start_process(arguments, folder)
    assert process.stderr is not None
    told = []
    while "://" not in (line := process.stderr.readline()):
        told.append(line)
        assert line, "".join(told)
    token = (config.parent / tokens.FIRST_FILE).read_text().strip()
    return Served(line.split()[-1], token, folder, process, log, "".join([*told, line]))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = start(tmp_path)
    yield made
    if made.process.poll() is None:
        made.end()
    assert made.process.stderr is not None
    made.process.stderr.close()
