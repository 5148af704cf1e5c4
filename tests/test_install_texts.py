"""What people are told to install: from the checkout, and only extras that exist."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.forked import Ended, share_forks

pytestmark = pytest.mark.system

ROOT = Path(__file__).parent.parent
PLACES = ("README.md", "CONTRIBUTING.md", "docs", "plugin", ".claude-plugin", "examples", "src", "tools", "benchmarks")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# The name of the distribution is taken on the public index, by another project.
FROM_THE_INDEX = re.compile(
    r"alma-memory\s*\[|(?:(?:pip3?|pipx) install|uv (?:pip|add|tool)|uvx --from) "
    r"[^\n`]*\b(?:alma-memory|claude-smart)\b"
)
FROM_THE_CHECKOUT = re.compile(r"pip install '\.\[([\w,]+)\]'")


def list_texts() -> list[Path]:
    files: list[Path] = []
    for place in PLACES:
        path = ROOT / place
        files += [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    return [file for file in files if file.suffix in (".md", ".py", ".json", ".sh", ".yaml", ".toml", "")]


def test_no_text_installs_the_package_of_another_project() -> None:
    found = []
    for file in list_texts():
        text = file.read_text(encoding="utf-8", errors="replace")
        found += [f"{file.relative_to(ROOT)}: {match[0]}" for match in FROM_THE_INDEX.finditer(text)]
    assert not found


def test_every_extra_that_is_named_exists() -> None:
    named = {
        extra
        for file in list_texts()
        for match in FROM_THE_CHECKOUT.finditer(file.read_text(encoding="utf-8", errors="replace"))
        for extra in match[1].split(",")
    }
    assert "local" in named
    assert named <= EXTRAS.keys()


def test_the_tutorial_installs_from_the_checkout() -> None:
    tutorial = (ROOT / "docs" / "tutorial" / "first-memory.md").read_text()
    assert "pip install '.[local]'" in tutorial
    assert "-m venv" in tutorial


@pytest.mark.parametrize(("target", "extras"), [("demo", "local"), ("docs", "docs"), ("test", "all,dev")])
def test_make_installs_what_a_target_needs(target: str, extras: str) -> None:
    command = ["make", "--dry-run", target, "VENV=.venv-that-is-not-there"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    except OSError:
        pytest.skip("no make")
    assert set(re.findall(r"-e '\.\[([\w,]+)\]'", done.stdout)) == {extras}
    assert "pip install --quiet" not in done.stdout


# -- without the extras

_BLOCKED = "mcp mcp_types anyio starlette uvicorn fastapi httpx litellm neo4j psycopg ladybug kuzu pydantic".split()
_BLOCKED += ["tokenizers"]
_BLOCK = f"""import sys
assert not {set(_BLOCKED)} & sys.modules.keys()
for name in {_BLOCKED}: sys.modules[name] = None
"""
_COMMAND = "from alma.cli import main\nsys.exit(main({!r}))\n"
_CALL = "from alma import ALMA\nfrom alma.graph import create_graph_store\n{}\n"


def run_without_extras(code: str, folder: Path) -> Ended:
    return share_forks().run(_BLOCK + code, folder, environ={**os.environ, "KEY": "k"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".alma").mkdir()
    (tmp_path / ".alma" / "config.yaml").write_text("project_id: p\nembedding_provider: hash\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["mcp"], "mcp"),
        (["mcp", "--transport", "http"], "mcp"),
        (["mcp", "install", "--client", "claude-code", "--yes"], "mcp"),
        (["mcp", "install", "--client", "cursor", "--tools", "core", "--dry-run"], "mcp"),
        (["serve"], "http"),
        (["postgres", "status"], "postgres"),
    ],
    ids=" ".join,
)
def test_a_command_names_the_extra_it_needs(folder: Path, words: list[str], extra: str) -> None:
    done = run_without_extras(_COMMAND.format(words), folder)
    assert done.code == 1
    assert f"pip install '.[{extra}]'" in done.err
    assert "Traceback" not in done.err
    assert not (folder / ".mcp.json").exists()


def test_what_needs_no_extra_works_without(folder: Path) -> None:
    # The last looks like a command that needs an extra.
    others = (["token", "add", "t"], ["list"], ["--help"], ["search", "postgres"])
    for words in (["mcp", "uninstall", "--client", "cursor"], *others):
        done = run_without_extras(_COMMAND.format(words), folder)
        assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        ("ALMA.connect('http://127.0.0.1:1', token='t' * 40)", "http"),
        ("create_graph_store('kuzu', path='graph')", "kuzu"),
        ("create_graph_store('postgres', dsn='x')", "postgres"),
        ("create_graph_store('neo4j', uri='bolt://127.0.0.1')", "neo4j"),
        ("create_graph_store('memgraph', uri='bolt://127.0.0.1')", "neo4j"),
    ],
)
def test_a_call_names_the_extra_it_needs(folder: Path, call: str, extra: str) -> None:
    done = run_without_extras(_CALL.format(call), folder)
    assert f"pip install '.[{extra}]'" in done.err.splitlines()[-1]
    assert "MissingExtraError" in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("section", "extra"),
    [
        ("model: {provider: anthropic, model: m, api_key_env: KEY}", "models"),
        ("model: {provider: openai, model: m, api_key_env: KEY}", "models"),
        ("model: {provider: litellm, model: m}", "litellm"),
        ("embedding_provider: openai\nembedding: {api_key: k}", "openai"),
        ("embedding_provider: onnx\nembedding: {path: model}", "onnx"),
    ],
)
def test_a_provider_names_the_extra_it_needs(folder: Path, section: str, extra: str) -> None:
    (folder / "own.yaml").write_text(f"project_id: p\n{section}\n")
    done = run_without_extras(_COMMAND.format(["--config", "own.yaml", "doctor", "--json"]), folder)
    assert done.code == 1
    assert f"pip install '.[{extra}]'" in done.out
