"""A service on loopback that speaks Anthropic's API and OpenAI's, and does what it is told, or does not."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.packages import list_install_words

from alma.engine.context import Engine
from alma.models.registry import open_model
from alma.stores.memory import MemoryStore
from alma.testing import FrozenClock
from alma.types.asking import BudgetLimits, ModelSettings, Prices, Prompt

KEY = "sk-very-secret-0123456789"
SCHEMA = {
    "type": "object",
    "properties": {
        "rules": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 40}},
        "why": {"type": "string"},
    },
    "required": ["rules"],
    "additionalProperties": False,
}
GOOD = {"rules": ["use pnpm"]}


@dataclass
class Reply:
    """What the service answers; `body` None means a good answer of the API that was asked."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drip: float = 0.0
    """Seconds between two bytes."""
    drip_headers: float = 0.0
    cut: int | None = None
    """Close the connection after so many bytes."""
    measured: bool = True
    """Say how long it is; else it ends where the connection does."""


@dataclass
class Seen:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Service(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[Seen] = []
        self.script: list[Reply] = []
        self.always: Reply | None = None
        self.said: Any = GOOD

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is part of the tests."""

    def good(self, path: str, said: Any = None, **more: Any) -> dict[str, Any]:
        value = self.said if said is None else said
        text = value if isinstance(value, str) else json.dumps(value)
        if "messages" in path:
            return {
                "type": "message",
                "model": "served-1",
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 100, "output_tokens": 20},
            } | more
        return {
            "model": "served-1",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20},
        } | more


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append(Seen(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        reply = self.server.script.pop(0) if self.server.script else self.server.always or Reply()
        time.sleep(reply.delay)
        content = self.server.good(self.path) if reply.body is None else reply.body
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        length = {"content-length": str(len(data))} if reply.measured else {"connection": "close"}
        head = {"content-type": "application/json", **length, **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} Said", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        self.spell("\r\n".join(lines).encode(), reply.drip_headers)
        self.spell(data if reply.cut is None else data[: reply.cut], reply.drip)
        self.close_connection = True

    def spell(self, data: bytes, pause: float) -> None:
        for piece in [data] if not pause else [data[at : at + 1] for at in range(len(data))]:
            self.wfile.write(piece)
            self.wfile.flush()
            time.sleep(pause)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def _served() -> Any:
    with Service() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def service() -> Any:
    yield from _served()


@pytest.fixture
def reply() -> type[Reply]:
    return Reply


@pytest.fixture
def another_service() -> Any:
    yield from _served()


@pytest.fixture(params=["anthropic", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine() -> Engine:
    return Engine(MemoryStore(), "p", clock=FrozenClock())


@pytest.fixture
def prompt() -> Prompt:
    return Prompt(system="Find the rules.", text="no, use pnpm", schema=SCHEMA, max_tokens=500)


@pytest.fixture
def settings(service: Service, provider: str) -> ModelSettings:
    return ModelSettings(
        provider=provider,
        model="small",
        base_url=f"{service.url}/v1",
        api_key_env="TEST_KEY",
        timeout=20,
        retries=0,
        repair=False,
        prices=Prices(1.0, 5.0),
        budget=BudgetLimits(calls=None),
    )


@pytest.fixture
def opened(settings: ModelSettings, engine: Engine) -> Any:
    """Opens the model of the settings, with changes."""
    from dataclasses import replace

    def go(**changes: Any) -> Any:
        return open_model(replace(settings, **changes), engine, {"TEST_KEY": KEY})

    return go


# -- what is too large for every run

DOWNLOADS = "ALMA_TEST_DOWNLOADS"


@pytest.fixture(scope="session")
def downloaded() -> Callable[..., Path]:
    """Installs packages once into a cache folder of their own. Large, so only where `ALMA_TEST_DOWNLOADS` is 1."""

    def folder_of(name: str, *packages: str) -> Path:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "alma-tests"
        folder = base / name
        if folder.exists():
            return folder
        if os.environ.get(DOWNLOADS) != "1":
            pytest.skip(f"NOT TESTED WITH {name}: set {DOWNLOADS}=1 to install it ({', '.join(packages)})")
        try:
            _install(folder, packages)
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"NOT TESTED WITH {name}: it could not be installed ({error})")
        return folder

    return folder_of


def _install(folder: Path, packages: tuple[str, ...]) -> None:
    """Whole or not at all, also when several test processes do it at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        fresh = Path(scratch) / "packages"
        command = [*list_install_words(fresh), *packages]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise OSError(f"installation failed: {done.stderr.strip()[-400:]}")
        try:
            fresh.rename(folder)
        except OSError:
            if not folder.exists():
                raise
