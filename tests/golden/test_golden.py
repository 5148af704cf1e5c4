"""Every operation answers as it did before: in the library, over MCP, over HTTP, and as `--json` on the command line.

The snapshots lie beside this file. After an intended change, `ALMA_UPDATE_GOLDEN=1 pytest tests/golden` writes them
again, and the diff is part of the review. Ids are numbered in order of appearance; the clock is fixed.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.api.samples import BEFORE, SAMPLES, World, world
from tests.cli import test_reached
from tests.http.conftest import make_site
from tests.mcp.conftest import Lent

from alma import ALMA
from alma.cli import main
from alma.embedders.hash import HashEmbedder
from alma.mcp.server import build
from alma.operations import operations
from alma.schema import plain
from alma.stores.sqlite import SQLiteStore
from mcp import Client

FOLDER = Path(__file__).parent
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UPDATE = bool(os.environ.get("ALMA_UPDATE_GOLDEN"))
_ID = re.compile(r"\b([a-z]{3})_[0-9a-z]{20,40}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?|\d{4}-\d\d-\d\d")
_DIGEST = re.compile(r"\b[0-9a-f]{40,64}\b|(?<=<!-- )[0-9a-z]{8}(?= )")
_MEASURED = re.compile(r"(_ms|bytes|request_id)$")


class Normaliser:
    """Replaces what differs between two runs, consistently within one answer."""

    def __init__(self, folder: Path, *, times: bool) -> None:
        self._folder = str(folder)
        self._times = times
        self._names: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                self(key): "<measured>" if _MEASURED.search(key) and item is not None else self(item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self(item) for item in value]
        if isinstance(value, float):
            return round(value, 3)
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        text = text.replace(self._folder, "<folder>").replace(sys.prefix, "<environment>")
        text = text.replace(platform.python_version(), "<python>")
        text = _ID.sub(lambda match: self._names.setdefault(match[0], f"<{match[1]} {len(self._names)}>"), text)
        text = _DIGEST.sub("<digest>", text)
        # The clock of these tests stands at 2026-03-01; every other day comes from the machine's clock.
        return _TIME.sub(lambda match: "<time>" if self._times or match[0][:7] != "2026-03" else match[0], text)


def assert_golden(name: str, answers: Any) -> None:
    file = FOLDER / f"{name}.json"
    text = json.dumps(answers, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if UPDATE:
        file.write_text(text, encoding="utf-8")
    assert file.exists(), f"there is no snapshot {file.name}; ALMA_UPDATE_GOLDEN=1 writes it"
    assert text == file.read_text(encoding="utf-8")


Call = Callable[[ALMA, str, dict[str, Any]], Any]


def call_library(alma: ALMA, name: str, arguments: dict[str, Any]) -> Any:
    return plain(operations()[name].call(alma, arguments))


def call_mcp(alma: ALMA, name: str, arguments: dict[str, Any]) -> Any:
    async def run() -> Any:
        async with Client(build(Lent(lambda: alma), tools="all"), mode="legacy") as client:
            answer = await client.call_tool(f"alma_{name}", arguments)
            return {"error": answer.is_error, "structured": answer.structured_content}

    return asyncio.run(run())


def call_http(alma: ALMA, name: str, arguments: dict[str, Any]) -> Any:
    folder = Path(os.environ["GOLDEN_FOLDER"])
    client: TestClient = make_site(folder, alma=alma).client()
    answer = client.post(f"/v1/{name}", json=arguments)
    return {"status": answer.status_code, "body": answer.json()}


def open_memory(folder: Path) -> ALMA:
    return ALMA(SQLiteStore(folder / "alma.db"), HashEmbedder(), project_id="app", clock=lambda: NOW)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Fill a folder once; each call gets a copy of it."""
    folder = tmp_path_factory.mktemp("template")
    with open_memory(folder) as alma:
        return world(alma, str(folder))


def copy_world(template: World, folder: Path) -> World:
    shutil.copytree(template.folder, folder)
    file = template.file.replace(template.folder, str(folder))
    return replace(template, folder=str(folder), file=file)


# Erasing a user starts a process.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.system) if name == "erase_user" else name for name in operations()]
)
def test_operation_answers_as_before(
    name: str, template: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = operations()[name]
    faces: dict[str, Call] = {"library": call_library, "http": call_http}
    if operation.for_models:
        faces["mcp"] = call_mcp
    answers: dict[str, Any] = {}
    for face, call in faces.items():
        folder = tmp_path / face
        prepared = copy_world(template, folder)
        monkeypatch.setenv("GOLDEN_FOLDER", str(folder))
        monkeypatch.chdir(folder)
        with open_memory(folder) as alma:
            if name in BEFORE:
                call_library(alma, BEFORE[name], SAMPLES[BEFORE[name]](prepared))
            answer = call(alma, name, SAMPLES[name](prepared))
        answers[face] = Normaliser(folder, times=False)(json.loads(json.dumps(answer)))
    assert_golden(f"operations/{name}", answers)


class Recorder:
    """Runs commands with `--json` and keeps their answers."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys
        self.answers: list[Any] = []

    def __call__(self, *argv: str) -> Any:
        code = main([*argv, "--json"])
        out = self._capsys.readouterr().out
        assert code == 0, (argv, out)
        answer = json.loads(out)
        normalise = Normaliser(self._folder, times=True)
        self.answers.append({"command": normalise(list(argv)), "answer": normalise(answer)})
        return answer


# Some commands start a process.
# Not `_graph`: entities that were found within one millisecond come in any order.
@pytest.mark.system
@pytest.mark.parametrize("group", ["_memories", "_work", "_sessions", "_workflows", "_knowledge", "_rules", "_domains"])
def test_commands_answer_as_before(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALMA_CONFIG", raising=False)
    (tmp_path / "config.yaml").write_text("alma:\n  project_id: shop\n  embedding_provider: hash\n")
    monkeypatch.setenv("ALMA_CONFIG", str(tmp_path / "config.yaml"))
    record = Recorder(tmp_path, capsys)
    if group == "_rules":
        test_reached._memories(record)  # type: ignore[arg-type]
        record.answers.clear()
    getattr(test_reached, group)(record)
    assert_golden(f"commands/{group.strip('_')}", record.answers)
