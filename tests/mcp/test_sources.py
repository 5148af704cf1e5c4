"""What an agent writes over MCP is the agent's word, whatever it calls it."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.mcp.server import build
from mcp import Client

from .conftest import Lent, answer_to, unwrapped

Talk = Callable[..., Any]


@pytest.fixture
def talk(alma: ALMA) -> Talk:
    """Runs some work with a client of a server that nobody started with --approve."""

    def talked(work: Any, **options: Any) -> Any:
        async def run() -> Any:
            # A copy, because a server limits the memory that it is given.
            held = Lent(lambda: copy.copy(alma), may_approve=False)
            async with Client(build(held, **{"tools": "all", **options}), mode="legacy") as client:
                return await answer_to(work, client)

        return unwrapped(asyncio.run(run()))

    return talked


def call(talk: Talk, name: str, **arguments: Any) -> Any:
    async def work(client: Client) -> Any:
        answer = await client.call_tool(name, arguments)
        assert not answer.is_error, answer
        return answer.structured_content

    return talk(work)


@pytest.mark.parametrize(("given", "kept"), [({}, "agent"), ({"source": "user_stated"}, "relayed")])
def test_what_it_tells_is_its_own_word(talk: Talk, alma: ALMA, given: dict[str, str], kept: str) -> None:
    call(talk, "alma_add_knowledge", agent="dev", domain="ops", fact="Logs are on host nine", **given)
    call(talk, "alma_add_preference", user_id="ana", category="style", preference="Short answers", **given)
    call(talk, "alma_add_heuristic", agent="dev", condition="Testing", strategy="Empty fields first", **given)
    found = alma.list(status=None)
    assert len(found) == 3
    assert [type(one).__name__ for one in found if str(one.status) != "active"] == ["UserPreference"]
    assert {one.origin for one in found} == {"agent"}
    assert {one.source for one in found if hasattr(one, "source")} == {kept}


def test_its_preference_is_shown_as_noted_by_an_agent_once_a_person_accepts_it(talk: Talk, alma: ALMA) -> None:
    made = call(talk, "alma_add_preference", user_id="ana", category="style", preference="Short answers")
    assert alma.retrieve("Write", "dev", user_id="ana").to_prompt() == ""
    alma.update(made["id"], status="active")
    prompt = alma.retrieve("Write", "dev", user_id="ana").to_prompt()
    assert re.search(r"^- Short answers \([0-9-]{10}, noted by an agent\)$", prompt, re.M)


@pytest.mark.parametrize("given", [{}, {"source": "user"}, {"source": "correction"}, {"source": "agent"}])
def test_its_rules_wait_for_a_person(talk: Talk, alma: ALMA, given: dict[str, str]) -> None:
    for _ in range(2):
        call(talk, "alma_add_rule", agent="dev", rule="Use pnpm instead of npm", **given)
    assert [one.status for one in alma.list("rule", status=None)] == ["candidate"]


def test_rules_in_a_conversation_it_reports_wait(talk: Talk, alma: ALMA) -> None:
    said = [
        {"role": "assistant", "content": "I ran npm install."},
        {"role": "user", "content": "No, always use pnpm instead of npm in this project."},
    ]
    for session in ("one", "two"):
        call(talk, "alma_learn_from_conversation", agent="dev", messages=said, session_id=session)
    rules = alma.list("rule", status=None)
    assert rules
    assert {(one.status, one.origin) for one in rules} == {("candidate", "agent")}


def test_it_learns_from_a_text(talk: Talk, alma: ALMA) -> None:
    learned = call(talk, "alma_learn_from", messages="I moved to Porto, call me Sam.", user_id="sam")
    assert [one["fact"] for one in learned["domain_knowledge"]] == ["The user lives in Porto"]
    assert [one["preference"] for one in learned["user_preferences"]] == ["The user wants to be called Sam"]


def test_it_edits_in_its_own_name(talk: Talk, alma: ALMA) -> None:
    fact = alma.add_domain_knowledge("dev", "ops", "Logs are on host nine", source="agent")
    rule = alma.add_rule("dev", "Use pnpm")
    call(talk, "alma_update", memory_id=fact.id, fields={"fact": "Logs are on host ten"}, source="user")
    assert alma.get(fact.id).origin == "agent"

    async def reword(client: Client) -> Any:
        return await client.call_tool("alma_update", {"memory_id": rule.id, "fields": {"rule": "Use npm"}})

    answer = talk(reword)
    assert answer.is_error
    assert "only a person" in answer.content[0].text
    assert alma.get(rule.id).rule == "Use pnpm"


def test_rules_in_files_it_imports_wait(talk: Talk, alma: ALMA, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("- Name tests after behaviour\n")
    given = {"path": "AGENTS.md", "root": str(tmp_path), "all_items": True}

    async def work(client: Client) -> Any:
        first = await client.call_tool("alma_import_rules", given)
        return first, await client.call_tool("alma_import_rules", {**given, "trusted": True})

    first, vouched = talk(work, roots=lambda: [tmp_path])
    assert not first.is_error, first
    assert "only a person" in vouched.content[0].text
    assert [one.status for one in alma.list("rule", status=None)] == ["candidate"]


def test_an_unknown_source_is_an_error(talk: Talk) -> None:
    async def work(client: Client) -> Any:
        given = {"agent": "dev", "domain": "ops", "fact": "Logs are on host nine", "source": "banana"}
        return await client.call_tool("alma_add_knowledge", given)

    answer = talk(work)
    assert answer.is_error
    assert "Valid: user, agent, tool, content, import" in answer.content[0].text
