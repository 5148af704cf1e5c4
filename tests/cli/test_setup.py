"""alma init and alma doctor."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma.config import load

Run = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "My shop"
    made.mkdir()
    monkeypatch.chdir(made)
    monkeypatch.delenv("ALMA_CONFIG", raising=False)
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_init_writes_one_private_file_and_says_what_is_next(folder: Path, run: Run) -> None:
    ran = run("init")
    assert ran.code == 0
    assert [line.split()[1] for line in ran.out.splitlines()[1:]] == ["learn", "retrieve"]
    assert sorted(path.name for path in folder.rglob("*")) == [".alma", ".gitignore", "config.yaml"]
    assert (mode(folder / ".alma"), mode(folder / ".alma" / "config.yaml")) == (0o700, 0o600)
    config = load(folder / ".alma" / "config.yaml")
    assert (config.project_id, config.storage, config.embedding_provider) == ("My shop", "sqlite", "auto")
    assert config.path == folder / ".alma" / "alma.db"


@pytest.mark.parametrize("embedding", ["auto", "local", "onnx", "openai", "azure", "hash", "none"])
@pytest.mark.parametrize("storage", ["sqlite", "file"])
def test_every_choice_loads(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, embedding: str, storage: str
) -> None:
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    made = run("init", "--embedding", embedding, "--storage", storage, "--project-id", 'a: "b" #ü', "--json").json
    assert made["embedding"] == embedding
    config = load(made["config"])
    assert (config.project_id, config.storage, config.embedding_provider) == ('a: "b" #ü', storage, embedding)


def test_the_commands_it_prints_work(folder: Path, run: Run) -> None:
    run("init", "--embedding", "hash", "--storage", "file")
    assert run("learn", "--agent", "dev", "--task", "t", "--outcome", "success", "--strategy", "s").code == 0
    assert run("retrieve", "t", "--agent", "dev").code == 0
    assert mode(folder / ".alma" / "alma.jsonl") == 0o600


def test_init_refuses_to_overwrite_unless_forced(folder: Path, run: Run) -> None:
    run("init")
    ran = run("init", "--project-id", "other")
    assert ran.code == 1
    assert "--force" in ran.err
    assert load(".alma/config.yaml").project_id == "My shop"
    assert run("init", "--project-id", "other", "--force").code == 0
    assert load(".alma/config.yaml").project_id == "other"


def test_init_elsewhere_keeps_the_database_beside_it(folder: Path, run: Run) -> None:
    ran = run("init", "--dir", "memory")
    assert f"alma --config {Path('memory/config.yaml')} learn" in ran.out
    config = load("memory/config.yaml")
    assert config.path == folder / "memory" / "alma.db"
    assert config.project_id == "memory"


def test_a_project_id_that_would_not_load_is_not_written(folder: Path, run: Run) -> None:
    ran = run("init", "--project-id", "${NOT_SET_ANYWHERE}")
    assert ran.code == 1
    assert [path.name for path in (folder / ".alma").iterdir()] == [".gitignore"]


def test_a_blank_project_id_is_refused(folder: Path, run: Run) -> None:
    for blank in ("", "  "):
        ran = run("init", "--project-id", blank)
        assert (ran.code, "--project-id" in ran.err) == (1, True)
    assert not (folder / ".alma").exists()


def test_init_where_nothing_can_be_written(folder: Path, run: Run) -> None:
    Path("file").write_text("")
    ran = run("init", "--dir", "file/.alma")
    assert ran.code == 1
    assert "cannot create" in ran.err


def test_a_healthy_memory(project: Path, deployed: dict[str, str], run: Run) -> None:
    ran = run("doctor")
    assert ran.code == 0, ran.out
    assert "✗" not in ran.out
    assert ran.out.count("✓") >= 9
    document = run("doctor", "--json").json
    assert document["ok"] is True
    assert {"name", "state", "detail", "fix"} == set(document["checks"][0])


def test_a_broken_one_is_exit_1_with_the_fix(project: Path, run: Run) -> None:
    (project / ".alma" / "config.yaml").write_text("alma: [")
    ran = run("doctor")
    assert ran.code == 1
    assert "✗ configuration" in ran.out
    assert "→" in ran.out
    assert "Traceback" not in ran.err
    assert run("doctor", "--json").json["ok"] is False


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_init_makes_an_existing_folder_private(folder: Path, run: Run) -> None:
    (folder / ".alma").mkdir(mode=0o755)
    run("init")
    assert mode(folder / ".alma") == 0o700


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--storage", "postgres"), "error: unknown storage 'postgres'. Valid: sqlite, file. Run `alma init --help`"),
        (("--storage", "sqlit"), "unknown storage 'sqlit'. Did you mean 'sqlite'? Valid: sqlite, file."),
        (("--embedding", "minilm"), "unknown embedder 'minilm'. Valid: auto, local, onnx, openai, azure, hash, none."),
    ],
)
def test_an_unknown_value_of_an_option_lists_the_valid_ones(run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run("init", *argv)
    assert ran.code == 2
    assert message in ran.err


def test_wrong_usage_is_reported_as_json_too(run: Run) -> None:
    error = run("--json", "list", "--limit", "many").json["error"]
    assert error["type"] == "UsageError"
    assert error["message"].startswith("--limit must be a whole number, not 'many'.")
