"""The table of promises in `seed_examples/promises.toml`, and small promises that need no test file of their own."""

from __future__ import annotations

import ast
import importlib.util
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.hooks.drain import choose_embedder
from alma.hooks.paths import DataDir
from alma.operations import operations
from alma.reading.local_rules import read_turn
from alma.stores import STORES
from alma.stores.memory import MemoryStore

ROOT = Path(__file__).parent.parent
MOST_ABSENT = 3
LEAST_EXACT = 230


@cache
def read_rows() -> list[tuple[str, str, str]]:
    table = tomllib.loads((ROOT / "tests/seed_examples/promises.toml").read_text(encoding="utf-8"))
    return [tuple(row) for section in table["section"] for row in section["rows"]]


@cache
def find_tests(file: str) -> set[str]:
    path = ROOT / file
    if not path.is_file():
        return set()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_promise_has_a_test_or_a_reason() -> None:
    problems = []
    for kind, promise, proof in read_rows():
        file, _, name = proof.partition("::")
        if kind == "exact" and name not in find_tests(file):
            problems.append(f"{promise}: there is no test {proof}")
        if kind != "exact" and (len(proof) < 10 or "::" in proof):
            problems.append(f"{promise}: the reason is missing")
    assert problems == []


def test_the_table_is_whole() -> None:
    rows = read_rows()
    counts = Counter(kind for kind, _, _ in rows)
    assert set(counts) <= {"exact", "differs", "absent"}
    assert counts["exact"] >= LEAST_EXACT
    assert counts["absent"] <= MOST_ABSENT


def test_corrections_of_the_examples_become_rules() -> None:
    expected = {
        "stop running npm test without --run, it hangs on watch mode": "Don't run npm test without --run",
        "always pass --run to npm test": "Always pass --run to npm test",
        "no, use vitest instead of jest": "Use vitest instead of jest",
    }
    rules = {text: read_turn(text) for text in expected}
    assert {text: rule.rule if rule else None for text, rule in rules.items()} == expected


def test_the_embedder_of_claude_smart_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = DataDir(str(tmp_path))
    monkeypatch.delenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", raising=False)
    assert choose_embedder(place) == "auto"
    monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")
    assert choose_embedder(place) == "none"


def find_small_problems() -> dict[str, Any]:
    """Return each small promise with what is missing; empty values mean that it holds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    tools = """retrieve learn add_preference add_knowledge forget stats health create_domain create_work_item
    update_progress get_next_item start_session end_session quick_reload assess_confidence""".split()
    stores = "sqlite file memory postgres qdrant chroma pinecone azure".split()
    with ALMA(MemoryStore(), HashEmbedder()) as alma:
        created_at = alma.add_domain_knowledge("dev", "auth", "Tokens expire in 24 hours").created_at
    license_text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    return {
        "the benchmark's module": importlib.util.find_spec("benchmarks.longmemeval.runner") is None,
        "extras": {"local", "postgres", "qdrant", "pinecone", "chroma", "azure", "all"} - set(extras),
        "tools": set(tools) - set(operations()),
        "stores": set(stores) - set(STORES.built_in),
        "license": "MIT License" not in license_text,
        "one dependency": project["dependencies"][1:],
        "a time zone": created_at.tzinfo is None,
        "Python 3.13": project["requires-python"] != ">=3.11",
        "files": [name for name in ("CONTRIBUTING.md", "CHANGELOG.md") if not (ROOT / name).is_file()],
    }


def test_small_promises() -> None:
    assert {name: problem for name, problem in find_small_problems().items() if problem} == {}
