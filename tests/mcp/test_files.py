"""File tools stay in the folders that the user named, see nothing hidden, and write only files that hold rules."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult

import alma.mcp as command
from alma import ALMA
from alma.mcp.tools import CORE_NAMES
from alma.operations import operations
from alma.text import count_tokens
from mcp import Client

from .conftest import Place, Site, Talk

pytestmark = pytest.mark.system

SECRET = "the vault opens at noon"
FILE_TOOLS = {"alma_ingest", "alma_export_rules", "alma_import_rules"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project beside things that are nobody's business."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "notes.md").write_text(f"# Notes\n\nRemember: {SECRET}.\n")
    made = tmp_path / "project"
    for folder in (".git/hooks", ".ssh", "docs"):
        (made / folder).mkdir(parents=True)
    (made / ".env").write_text("TOKEN=x\n")
    (made / ".ssh" / "notes.md").write_text(f"# Notes\n\n{SECRET}\n")
    (made / "docs" / "notes.md").write_text("# Notes\n\nWe decided to deploy on Mondays.\n")
    return made


Call = Any


@pytest.fixture
def call(talk: Talk, project: Path) -> Call:
    def called(tool: str, roots: list[Path] | None = None, **arguments: Any) -> CallToolResult:
        async def work(client: Client) -> CallToolResult:
            return await client.call_tool(f"alma_{tool}", arguments)

        result: CallToolResult = talk(work, roots=lambda: [project] if roots is None else roots)
        return result

    return called


def refusal(result: CallToolResult) -> str:
    assert result.is_error, result.structured_content
    return str(result.content[0].text)


READERS = [
    ("ingest", "path", {"agent": "dev"}),
    ("link_artifact", "location", {"run_id": "r"}),
    ("start_session", "workspace", {"agent": "dev"}),
    ("initialize", "workspace", {"agent": "dev", "user_prompt": "Fix the login"}),
    ("import_rules", "path", {}),
    ("export_rules", "path", {"to": "agents-md"}),
    ("export_rules", "root", {"to": "agents-md"}),
]


def test_the_cases_are_all_there_are() -> None:
    local = {(name, one.name) for name, made in operations().items() for one in made.parameters if one.about.local}
    assert local == {(tool, name) for tool, name, _ in READERS} | {("import_rules", "root")}


ELSEWHERE = (
    "../outside/notes.md",
    "/etc/passwd",
    "/",
    "..",
    "~/.bashrc",
    ".git/hooks/pre-commit",
    ".env",
    ".ssh/notes.md",
    "a\0b",
)


def test_a_path_elsewhere_or_hidden_is_refused(talk: Talk, project: Path) -> None:
    before = sorted(project.rglob("*"))

    async def work(client: Client) -> list[tuple[str, str]]:
        failures = []
        for tool, name, more in READERS:
            for path in ELSEWHERE:
                absolute = path if path.startswith("/") else str(project / path)
                for value in {path, absolute}:
                    result = await client.call_tool(f"alma_{tool}", {name: value, **more})
                    if not result.is_error or sorted(project.rglob("*")) != before:
                        failures.append((tool, value))
        return failures

    assert talk(work, roots=lambda: [project]) == []


def test_the_refusal_says_what_is_allowed(call: Call, project: Path) -> None:
    told = refusal(call("ingest", path="../outside/notes.md", agent="dev"))
    assert str(project) in told
    assert "--root" in told
    assert "hidden" in refusal(call("ingest", path=".ssh/notes.md", agent="dev"))
    assert "AGENTS.md" in refusal(call("export_rules", to="agents-md", path="src/main.py"))


@pytest.mark.skipif(os.name != "posix", reason="NOT TESTED HERE: links need rights elsewhere")
def test_a_link_leads_nowhere_else(call: Call, project: Path) -> None:
    (project / "linked").symlink_to(project.parent / "outside")
    (project / "visible.md").symlink_to(project / ".ssh" / "notes.md")
    (project / "CLAUDE.md").symlink_to(project / ".git" / "hooks" / "post-commit")
    assert "outside" in refusal(call("ingest", path="linked", agent="dev"))
    assert "outside" in refusal(call("ingest", path="linked/notes.md", agent="dev"))
    assert "hidden" in refusal(call("ingest", path="visible.md", agent="dev"))
    assert call("export_rules", to="claude-md").is_error
    assert call("export_rules", to="claude-md", path="CLAUDE.md").is_error
    assert not list((project / ".git" / "hooks").iterdir())


def test_files_of_the_project_are_read(call: Call, project: Path) -> None:
    for path in ("docs", "docs/notes.md", str(project / "docs" / "notes.md"), "."):
        result = call("ingest", path=path, agent="dev", dry_run=True)
        assert not result.is_error, result.content
    linked = call("link_artifact", run_id="r", location="docs/notes.md")
    assert linked.structured_content["location"] == str(project / "docs" / "notes.md")
    assert not call("link_artifact", run_id="r", location="https://example.org/x").is_error


@pytest.mark.parametrize(
    ("to", "path", "written"),
    [
        ("agents-md", None, "AGENTS.md"),
        ("claude-md", "CLAUDE.md", "CLAUDE.md"),
        ("agents-md", "docs/AGENTS.md", "docs/AGENTS.md"),
        ("copilot", None, ".github/copilot-instructions.md"),
        ("cursor", None, ".cursor/rules/project-rules.mdc"),
        ("skill", None, ".claude/skills/project-rules/SKILL.md"),
    ],
)
def test_rules_are_written_where_agents_read_them(
    alma: ALMA, call: Call, project: Path, to: str, path: str | None, written: str
) -> None:
    alma.add_rule("dev", "Use pnpm instead of npm")
    result = call("export_rules", to=to, **({} if path is None else {"path": path}))
    assert not result.is_error, result.content
    assert "pnpm" in (project / written).read_text()


@pytest.mark.parametrize("path", [".bashrc", "Makefile", "docs/notes.md", ".cursor/mcp.json", ".claude/settings.json"])
def test_rules_are_written_nowhere_else(call: Call, project: Path, path: str) -> None:
    call("add_rule", agent="dev", rule="Use pnpm instead of npm")
    before = {one: one.read_bytes() for one in project.rglob("*") if one.is_file()}
    answer = refusal(call("export_rules", to="agents-md", path=path))
    assert "is not a rule file of a coding agent" in answer
    assert {one: one.read_bytes() for one in project.rglob("*") if one.is_file()} == before


def test_several_roots(alma: ALMA, call: Call, project: Path) -> None:
    roots = [project, project.parent / "outside"]
    path = str(roots[1] / "notes.md")
    assert not call("ingest", roots, path=path, agent="dev", dry_run=True).is_error
    alma.add_rule("dev", "Use pnpm instead of npm")
    assert not call("export_rules", roots, to="agents-md", path=str(roots[1] / "AGENTS.md")).is_error
    assert (roots[1] / "AGENTS.md").exists()


def test_without_a_root_no_file_is_used(call: Call) -> None:
    for tool, name, more in READERS:
        assert "--root" in refusal(call(tool, [], **{name: "AGENTS.md"}, **more))
    assert "--root" in refusal(call("export_rules", [], to="agents-md"))
    assert not call("start_session", [], agent="dev").is_error


# -- as a process


async def ingested(client: Client, path: str) -> CallToolResult:
    return await client.call_tool("alma_ingest", {"path": path, "agent": "dev", "dry_run": True})


def test_the_default_root_is_the_projects_folder(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (place.folder / "notes.md").write_text("# Notes\n\nWe decided to deploy on Mondays.\n")
    (other / "notes.md").write_text(f"# Notes\n\n{SECRET}\n")
    own = str(place.folder / "notes.md")

    async def work(client: Client) -> list[bool]:
        results = [await ingested(client, path) for path in ("notes.md", own, str(other / "notes.md"))]
        return [bool(result.is_error) for result in results]

    assert place.over_stdio(work, "--tools", "all") == [False, False, True]
    roots = ("--root", str(other), "--root", str(place.folder))
    assert place.over_stdio(work, "--tools", "all", *roots) == [False, False, False]


def test_named_roots_replace_the_default(talk: Talk, tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        (folder / "notes.md").write_text("# Notes\n\nWe decided to deploy on Mondays.\n")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options = command.McpOptions.read(parser.parse_args(["--root", str(other)]), str(own / "config.yaml"))

    async def work(client: Client) -> list[bool]:
        results = [await ingested(client, path) for path in ("notes.md", str(own / "notes.md"))]
        return [bool(result.is_error) for result in results]

    assert talk(work, roots=lambda: command._find_roots(options)) == [False, True]


def test_over_http_there_are_no_file_tools(site: Site) -> None:
    async def work(client: Client) -> tuple[set[str], CallToolResult]:
        names = {tool.name for tool in (await client.list_tools()).tools}
        return names, await client.call_tool("alma_start_session", {"agent": "dev", "workspace": "."})

    names, started = site.talk(work)
    assert not names & FILE_TOOLS
    assert "remote callers may not pass" in refusal(started)


# -- which tools


def test_a_bare_server_lists_the_usual_tools(talk: Talk) -> None:
    async def work(client: Client) -> list[str]:
        return [tool.name.removeprefix("alma_") for tool in (await client.list_tools()).tools]

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    usual = command.McpOptions.read(parser.parse_args([]), None).tools
    names = talk(work, tools=usual)
    assert set(CORE_NAMES) <= set(names)
    assert len(names) == 28
    assert not {f"alma_{name}" for name in names} & FILE_TOOLS
    assert len(talk(work, tools="core")) == 8
    assert len(talk(work, tools="all")) > 60
    assert len(talk(work, tools="core,ingest")) == 9


def test_the_lists_are_short(talk: Talk) -> None:
    async def work(client: Client) -> int:
        return len((await client.list_tools()).model_dump_json(by_alias=True, exclude_none=True))

    assert talk(work, tools="core") < 11_000
    assert talk(work, tools="default") < 30_000


def test_the_core_descriptions_fit_1500_tokens(talk: Talk) -> None:
    async def work(client: Client) -> list[str]:
        tools = (await client.list_tools()).tools
        members = [member for tool in tools for member in tool.input_schema["properties"].values()]
        return [*(tool.description or "" for tool in tools), *(member.get("description", "") for member in members)]

    texts = talk(work, tools="core")
    assert all(texts[:8])
    # The estimate of `to_prompt` is on the safe side: about 3.5 bytes to a token.
    assert sum(count_tokens(text) for text in texts) <= 1500
