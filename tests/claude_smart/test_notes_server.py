"""The MCP server for agents without slash commands of ours: a person types /learn there as well."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.persons import person_command

from mcp import Client, StdioServerParameters, stdio_client

from .conftest import Person
from .test_notes import NOTE, TAUGHT, Agent, list_rules, write_line

pytestmark = pytest.mark.system
SECONDS = 60


def connect(person: Person, work: Callable[[Client], Awaitable[Any]]) -> Any:
    """Talk to the server as the host that runs the tests does."""
    command, *arguments = [*person_command("claude-smart"), "mcp"]

    async def run() -> Any:
        server = StdioServerParameters(command=command, args=arguments, cwd=person.folder, env=dict(os.environ))
        async with Client(stdio_client(server), mode="legacy") as client:
            return await asyncio.wait_for(work(client), SECONDS)

    return asyncio.run(run())


async def call(client: Client, name: str, **arguments: Any) -> tuple[str, bool]:
    """Call a tool. Return what it answers, and whether that is an error."""
    result = await client.call_tool(name, arguments)
    [content] = result.content
    return str(getattr(content, "text", "")), bool(result.is_error)


@pytest.fixture
def codex(person: Person, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """An agent of another host than Claude Code, which reports a slash command as a prompt."""
    agent = Agent(person, monkeypatch)
    agent.record("c1", host="codex")
    write_line(person, "c1", "UserPromptSubmit", host="codex", data={"prompt": TAUGHT, "prompt_id": "p1"})
    return agent


def type_learn(person: Person, words: str = "", **fields: Any) -> None:
    data = {"command_name": "learn", "command_args": words, "prompt": f"/learn {words}".strip()}
    write_line(person, "c1", "UserPromptExpansion", host="codex", data=data, **fields)


NO_LEARN = {
    "by a program": {"origin": "other"},
    "in a command": {"origin": "command"},
    "headless": {"entry": "headless"},
    "a note": {"words": "use pnpm instead of npm"},
}


def test_the_tools_work_once_after_a_learn_of_a_person(person: Person, codex: Agent) -> None:
    async def find_opened(client: Client) -> list[str]:
        """Return what opens the exchanges although it is no open /learn of a person."""
        opened = []
        for name, fields in NO_LEARN.items():
            type_learn(person, **fields)
            text, is_error = await call(client, "show_unread_exchanges")
            opened += [] if is_error and TAUGHT not in text else [name]
        # One of a person that is followed by another prompt.
        type_learn(person)
        data = {"prompt": "go on", "prompt_id": "p2"}
        write_line(person, "c1", "UserPromptSubmit", host="codex", data=data)
        opened += [] if (await call(client, "show_unread_exchanges"))[1] else ["typed past"]
        return opened

    async def work(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"show_unread_exchanges", "hand_in_notes"}
        assert all("After the user typed /learn" in str(tool.description) for tool in tools.values())
        schema = tools["hand_in_notes"].input_schema
        assert set(schema["properties"]["notes"]["items"]["required"]) == {"n", "note", "scope", "quote"}

        assert (await call(client, "show_unread_exchanges"))[1], "nobody asked yet"
        assert await find_opened(client) == []
        type_learn(person)
        text, is_error = await call(client, "show_unread_exchanges")
        assert not is_error, text
        assert TAUGHT in text
        text, is_error = await call(client, "hand_in_notes", notes=[{"n": 0}])
        assert is_error
        assert "'note' is missing" in text
        text, is_error = await call(client, "hand_in_notes", notes=[NOTE])
        assert not is_error, text
        assert "read, 1 note kept.\n- Learned: Indent with tabs" in text
        assert ("Indent with tabs", "active") in list_rules(person)
        for name, arguments in (("show_unread_exchanges", {}), ("hand_in_notes", {"notes": [NOTE]})):
            text, is_error = await call(client, name, **arguments)
            assert is_error
            assert text.startswith("no /learn of the user is open here")

    connect(person, work)


def test_without_the_sdk_the_install_command_is_named(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    message = person.fails("mcp")
    assert "requires the package `mcp`" in message
    assert "pip install" in message
