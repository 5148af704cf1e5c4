"""The settings of stores: options, vectors elsewhere, wrappers and encryption, opened the same way everywhere."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from alma import ALMA
from alma.app import open_store
from alma.cli import main
from alma.config import Config, list_restricted_settings, load, load_found
from alma.doctor import Check, diagnose
from alma.errors import ConfigError, ReadOnlyError, UntrustedConfigError
from alma.stores.encryption import EncryptedStore
from alma.stores.sqlite import SQLiteStore
from alma.stores.wrappers import CachedStore, ReadOnlyStore, RetryingStore, Wrapper
from alma.testing.contract import refused
from alma.types.storage import CacheSettings, EncryptionSettings, RetrySettings

pytestmark = pytest.mark.system

KEY = base64.b64encode(bytes(range(32))).decode()


def write_config(folder: Path, **settings: Any) -> Path:
    path = folder / ".alma" / "config.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({"alma": {"project_id": "p", "embedding_provider": "hash", **settings}}))
    return path


def list_layers(store: Any) -> list[str]:
    names = [type(store).__name__]
    return names + (list_layers(store._store) if isinstance(store, Wrapper) else [])


def test_switches_and_sections_are_read(tmp_path: Path) -> None:
    plain = load(write_config(tmp_path))
    assert (plain.cache, plain.retry, plain.encryption, plain.read_only, plain.vectors) == (None, None, None, False, "")
    config = load(write_config(tmp_path, cache=True, retry={"attempts": 2, "rest": 1.5}, read_only=True))
    assert (config.cache, config.retry) == (CacheSettings(), RetrySettings(attempts=2, rest=1.5))
    assert config.read_only
    encrypted = load(write_config(tmp_path, cache=False, encryption={"key_file": "keys/alma"}))
    assert encrypted.cache is None
    assert encrypted.encryption == EncryptionSettings(key_file=tmp_path / "keys/alma")


def test_relative_paths_of_databases_start_at_the_project(tmp_path: Path) -> None:
    options = {"path": ".alma/qdrant"}
    config = load(write_config(tmp_path, storage_options=options, vectors="qdrant", vector_options=options))
    assert config.storage_options == config.vector_options == {"path": str(tmp_path / ".alma/qdrant")}
    config = load(write_config(tmp_path, storage="qdrant", storage_options={"path": ":memory:"}))
    assert config.storage_options == {"path": ":memory:"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"cache": {"seize": 5}}, "Did you mean 'size'"),
        ({"cache": {"size": -1}}, "greater than 0"),
        ({"retry": {"attempts": 1.5}}, "a whole number"),
        ({"retry": 5}, "attempts, pause"),
        ({"read_only": "yes"}, "true or false"),
        ({"encryption": {}}, "key_env"),
        ({"encryption": {"key_env": "A", "key_file": "b"}}, "one of"),
        ({"encryption": {"keyfile": "b"}}, "key_file"),
        ({"vector_options": ["x"]}, "a mapping"),
    ],
)
def test_wrong_settings_are_answered_with_the_valid_ones(tmp_path: Path, settings: Any, reason: str) -> None:
    assert reason in str(refused(ConfigError, load, write_config(tmp_path, **settings)))


@pytest.mark.parametrize("section", ["hunter2", {"key": "hunter2"}])
def test_a_key_in_the_configuration_is_refused_and_not_shown(tmp_path: Path, section: Any) -> None:
    problem = str(refused(ConfigError, load, write_config(tmp_path, encryption=section)))
    assert "do not belong in the configuration" in problem
    assert "hunter2" not in problem


def test_a_folder_that_is_not_trusted_may_set_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    settings: dict[str, Any] = {
        "vectors": "qdrant",
        "vector_options": {"path": "x"},
        "storage_options": {"path": "x"},
        "cache": True,
        "retry": True,
        "read_only": True,
        "encryption": {"key_env": "HOME"},
    }
    for name, value in settings.items():
        path = write_config(tmp_path, **{name: value})
        assert name in str(refused(UntrustedConfigError, load_found, path))
        assert list_restricted_settings(path) == [name]


def test_wrappers_are_put_around_the_store_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALMA_TEST_KEY", KEY)
    everything = {"cache": True, "retry": True, "read_only": True, "encryption": {"key_env": "ALMA_TEST_KEY"}}
    names = [one.__name__ for one in (ReadOnlyStore, CachedStore, EncryptedStore, RetryingStore)]
    store = open_store(load(write_config(tmp_path, storage="file", **everything)))
    assert list_layers(store) == [*names, "FileStore"]
    store.close()
    # SQLite encrypts its whole file instead, and is opened to be read.
    config = load(write_config(tmp_path, **everything))
    SQLiteStore(config.path, encryption_keys=[bytes(range(32))]).close()
    store = open_store(config)
    assert list_layers(store) == [*(name for name in names if name != "EncryptedStore"), "SQLiteStore"]
    refused(ReadOnlyError, store.delete, ["a"])
    store.close()


def test_an_encrypted_memory_is_used_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALMA_TEST_KEY", KEY)
    for storage in ("sqlite", "file"):
        config = write_config(
            tmp_path, storage=storage, db_name=f"{storage}.db", cache=True, encryption={"key_env": "ALMA_TEST_KEY"}
        )
        with ALMA.from_config(config) as alma:
            alma.add_domain_knowledge("dev", "plants", "The magnolia flowers in spring")
        with ALMA.from_config(config) as alma:
            assert alma.retrieve("When does the magnolia flower?", "dev").total_items == 1
        assert b"magnolia" not in (tmp_path / ".alma" / f"{storage}.db").read_bytes()


def test_vectors_can_be_kept_in_a_vector_database(tmp_path: Path) -> None:
    config = write_config(tmp_path, vectors="qdrant", vector_options={"path": ".alma/qdrant"}, cache=True)
    with ALMA.from_config(config) as alma:
        assert list_layers(alma.engine.store) == ["CachedStore", "PairedStore"]
        alma.add_domain_knowledge("dev", "plants", "The magnolia flowers in spring")
        assert alma.retrieve("When does the magnolia flower?", "dev").total_items == 1
    assert (tmp_path / ".alma/qdrant").is_dir()
    checks = check_all(config)
    assert "vectors in qdrant" in checks["store"].detail
    assert checks["integrity"].state == "ok"


def test_vectors_beside_a_vector_database_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    for settings, reason in (
        ({"vectors": "qdrnt"}, "Did you mean 'qdrant'"),
        ({"storage": "qdrant", "vectors": "chroma"}, "keeps its vectors itself"),
    ):
        config = load(write_config(tmp_path, **settings))
        assert reason in str(refused(ConfigError, open_store, config))
    assert not list((tmp_path / ".alma").glob("*.db"))


# --- doctor


def check_all(config: Path) -> dict[str, Check]:
    return {check.name: check for check in diagnose(config)}


def test_the_doctor_checks_a_store_that_has_no_file(tmp_path: Path) -> None:
    config = write_config(tmp_path, storage="qdrant", storage_options={"path": ".alma/qdrant"})
    with ALMA.from_config(config) as alma:
        alma.add_domain_knowledge("dev", "plants", "The magnolia flowers in spring")
    checks = check_all(config)
    assert all(check.state == "ok" for check in checks.values()), checks
    assert checks["store"].detail == "qdrant: 1 active memory"
    assert not any("alma.db" in check.detail for check in checks.values())
    assert checks["integrity"].state == "ok"
    assert "disk space" not in checks


def test_the_doctor_reports_a_database_that_cannot_be_reached(tmp_path: Path) -> None:
    config = write_config(tmp_path, storage="qdrant", storage_options={"url": "http://127.0.0.1:9", "timeout": 1})
    check = check_all(config)["store"]
    assert check.state == "failed"
    assert "127.0.0.1" in check.detail
    assert "address" in check.fix


def test_the_doctor_reports_a_missing_key_and_checks_an_encrypted_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_config(tmp_path, encryption={"key_env": "ALMA_TEST_KEY"}, cache=True, retry=True)
    SQLiteStore(tmp_path / ".alma/alma.db", encryption_keys=[bytes(range(32))]).close()
    assert "$ALMA_TEST_KEY" in check_all(config)["store"].detail
    monkeypatch.setenv("ALMA_TEST_KEY", KEY)
    (tmp_path / ".alma").chmod(0o700)
    assert all(check.state == "ok" for check in check_all(config).values()), check_all(config)


def test_settings_can_be_given_in_python(tmp_path: Path) -> None:
    store = open_store(Config(project_id="p", storage_dir=tmp_path, cache=CacheSettings(size=10)))
    assert list_layers(store) == ["CachedStore", "SQLiteStore"]
    store.close()


def test_a_memory_in_postgres_is_looked_after_by_its_configuration_alone(
    tmp_path: Path, postgres_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, storage="postgres", storage_options={"dsn": postgres_dsn}, cache=True, retry=True)
    with ALMA.from_config(config) as alma:
        alma.add_domain_knowledge("dev", "plants", "The magnolia flowers in spring")
        assert alma.retrieve("When does the magnolia flower?", "dev").total_items == 1
    for words in (["vacuum"], ["stats"], ["search", "magnolia"], ["doctor"]):
        assert main(["--config", str(config), *words]) == 0, capsys.readouterr()
    assert "postgres: 1 active memory" in capsys.readouterr().out
    config = write_config(tmp_path, storage="postgres", storage_options={"dsn": postgres_dsn}, read_only=True)
    with ALMA.from_config(config) as alma:
        assert alma.retrieve("When does the magnolia flower?", "dev").total_items == 1
        refused(ReadOnlyError, alma.add_domain_knowledge, "dev", "plants", "The rose flowers in summer")


def test_the_doctor_shows_no_password_of_a_server_that_cannot_be_reached(tmp_path: Path) -> None:
    dsn = "postgresql://alma:hunter2@127.0.0.1:9/alma"
    check = check_all(write_config(tmp_path, storage="postgres", storage_options={"dsn": dsn}))["store"]
    assert check.state == "failed"
    assert "hunter2" not in f"{check.detail} {check.fix}"
    assert "address" in check.fix
