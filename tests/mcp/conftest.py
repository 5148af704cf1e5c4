"""A folder with a memory in it, and the server over it: in this process, over stdio, over HTTP."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.api.samples import World, world
from tests.forked import find_command

from alma import ALMA
from alma.app import open_config
from alma.embedders.hash import HashEmbedder
from alma.mcp.server import build
from alma.projects import LazyMemory
from alma.stores.memory import MemoryStore
from mcp import Client, StdioServerParameters, stdio_client

T = TypeVar("T")
Work = Callable[[Client], Awaitable[T]]

CONFIG = "alma:\n  project_id: app\n  storage: sqlite\n  storage_dir: .\n  embedding_provider: none\n"
TOKEN = "a-token-for-tests-only"
SECONDS = 60


@dataclass(frozen=True)
class Place:
    """A project with a memory."""

    folder: Path
    world: World

    @property
    def config(self) -> Path:
        return self.folder / ".alma" / "config.yaml"

    @property
    def arguments(self) -> list[str]:
        return ["--config", str(self.config)]

    @property
    def command(self) -> list[str]:
        """The server in an interpreter of its own."""
        return [sys.executable, "-m", "alma.mcp", *self.arguments]

    @property
    def forked_command(self) -> list[str]:
        """The server in a fork of a process that has loaded it."""
        return [*find_command("alma-mcp"), *self.arguments]

    def over_stdio(self, work: Work[T], *options: str, mode: str = "legacy") -> T:
        [command, *arguments] = [*self.forked_command, *options]

        async def run() -> T:
            server = StdioServerParameters(command=command, args=arguments, cwd=self.folder, env=dict(os.environ))
            async with Client(stdio_client(server), mode=mode) as client:
                return await asyncio.wait_for(work(client), SECONDS)

        return asyncio.run(run())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    config = tmp_path / ".alma" / "config.yaml"
    config.parent.mkdir()
    config.write_text(CONFIG)
    with open_config(config) as alma:
        made = world(alma, str(tmp_path))
    return Place(tmp_path, made)


@pytest.fixture
def alma() -> Iterator[ALMA]:
    with ALMA(MemoryStore(), HashEmbedder(), project_id="app") as made:
        yield made


Talk = Callable[..., Any]


class Lent(LazyMemory):
    """A memory that outlives the server."""

    def close(self) -> None:
        pass


async def answer_to(work: Work[T], client: Client) -> T | MCPError:
    """A refusal leaves the client as a value: raised, it would come out of its task groups wrapped."""
    try:
        return await asyncio.wait_for(work(client), SECONDS)
    except MCPError as error:
        return error


def unwrapped(answer: T | MCPError) -> T:
    if isinstance(answer, MCPError):
        raise answer
    return answer


@pytest.fixture
def talk(alma: ALMA) -> Talk:
    """Runs some work with a client of a server in this process: `talk(work, tools="core", agent="dev")`."""

    def talked(work: Work[T], mode: str = "legacy", **options: Any) -> T:
        async def run() -> T | MCPError:
            async with Client(build(Lent(lambda: alma), **{"tools": "all", **options}), mode=mode) as client:
                return await answer_to(work, client)

        return unwrapped(asyncio.run(run()))

    return talked


# -- over HTTP


@dataclass(frozen=True)
class Site:
    url: str
    place: Place
    process: subprocess.Popen[str]

    def talk(self, work: Work[T], mode: str = "legacy") -> T:
        async def run() -> T:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http,
                Client(streamable_http_client(self.url, http_client=http), mode=mode) as client,
            ):
                return await asyncio.wait_for(work(client), SECONDS)

        return asyncio.run(run())


@pytest.fixture
def site(place: Place) -> Iterator[Site]:
    command = [*place.forked_command, "--tools", "all", "--transport", "http", "--port", "0"]
    environ = {**os.environ, "ALMA_MCP_TOKEN": TOKEN}
    with subprocess.Popen(command, cwd=place.folder, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        try:
            assert "http://" in line, line + process.stderr.read()
            yield Site(line.split()[-1], place, process)
        finally:
            process.terminate()
            process.wait(SECONDS)
