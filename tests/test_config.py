from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.app import find_config
from alma.config import expand, load
from alma.errors import ConfigError, EmbedderMismatchError, ScopeError

SEED = """
alma:
  project_id: "my-project"
  storage: sqlite
  embedding_provider: hash
  storage_dir: .alma
  db_name: alma.db
  embedding_dim: 384
  agents:
    helena:
      domain: coding
      can_learn: [testing_strategies]
      cannot_learn: [backend_logic]
      min_occurrences_for_heuristic: 3
    senior_dev:
      share_with: [junior_dev, qa_agent]
    junior_dev:
      inherit_from: [senior_dev]
    loner: {}
  retrieval:
    weights: {similarity: 1, recency: 0, success: 0, confidence: 0}
    recency_half_life_days: 7
  learning:
    min_failures_for_anti_pattern: 4
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / ".alma" / "config.yaml"
    file.parent.mkdir()
    file.write_text(SEED)
    return file


def test_the_documented_file_loads(config: Path) -> None:
    found = load(config)
    assert (found.project_id, found.storage, found.embedding_provider) == ("my-project", "sqlite", "hash")
    assert [scope.agent_name for scope in found.agents] == ["helena", "senior_dev", "junior_dev", "loner"]
    assert found.agents[0].can_learn == ("testing_strategies",)
    assert found.settings.weights.shares()["similarity"] == 1.0
    assert (found.settings.recency_half_life_days, found.settings.min_failures_for_anti_pattern) == (7, 4)


def test_folders_start_beside_the_alma_folder_wherever_one_stands(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert load(config).path == config.parent / "alma.db"


def test_a_configuration_elsewhere_starts_in_its_own_folder(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "settings.yaml"
    other.write_text("project_id: p")
    assert load(other).path == tmp_path / ".alma" / "alma.db"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("storage: sqlite", "storage: sqlit", "unknown storage 'sqlit'.*Valid: sqlite.*postgres"),
        ("storage: sqlite", "storage: postgres", "postgres"),
        ("provider: hash", "provider: hsah", "hsah.*hash.*local"),
        ("embedding_dim: 384", "embedding_dm: 384", "unknown key 'embedding_dm' in alma. Did you mean 'embedding_dim'"),
        ("embedding_dim: 384", "embedding_dim: -1", "embedding_dim must be"),
        ("embedding_dim: 384", "embedding_dim: lots", "embedding_dim must be"),
        ("can_learn: [testing_strategies]", "can_lern: [x]", "'can_lern' in agents.helena"),
        ("can_learn: [testing_strategies]", "can_learn: testing", "can_learn must be a list"),
        ("recency: 0,", "recency: .nan,", "recency.*finite"),
        ("similarity: 1", "similarty: 1", "similarty.*similarity"),
        ('project_id: "my-project"', "", "project_id is missing"),
        ("db_name: alma.db", "db_name: ../alma.db", "without folders"),
        ("  retrieval:\n", "  retrieval: 7\n  x:\n", "unknown key|must be a mapping"),
        ("alma:", "alma: [", "not valid YAML"),
        ('"my-project"', "${ALMA_TEST_UNSET}", "ALMA_TEST_UNSET is not set"),
    ],
)
def test_what_is_wrong_is_named(config: Path, old: str, new: str, message: str) -> None:
    assert old in SEED
    config.write_text(SEED.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        ALMA.from_config(config).close()
    if "postgres" not in new and "hsah" not in new and "sqlit" not in new:
        assert str(config) in str(caught.value)
    assert not (config.parent / "alma.db").exists()


def test_a_missing_file_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="alma init"):
        load(tmp_path / "none.yaml")


def test_the_environment_is_expanded() -> None:
    given: Any = {"a": "${KEY}", "b": ["x-${NONE:-y}"], "c": 7, "d": "$5"}
    assert expand(given, {"KEY": "k"}) == {"a": "k", "b": ["x-y"], "c": 7, "d": "$5"}


def test_the_nearest_configuration_is_found(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = config.parent.parent / "src" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    monkeypatch.delenv("ALMA_CONFIG", raising=False)
    assert find_config() == config
    monkeypatch.setenv("ALMA_CONFIG", "other.yaml")
    assert find_config() == Path("other.yaml")
    assert find_config("given.yaml") == Path("given.yaml")


def test_inheriting_from_an_agent_that_does_not_share_is_refused(config: Path) -> None:
    config.write_text(SEED.replace("[junior_dev, qa_agent]", "[qa_agent]"))
    with pytest.raises(ConfigError, match=r"add 'junior_dev' to agents\.senior_dev\.share_with"):
        ALMA.from_config(config)
    assert not (config.parent / "alma.db").exists()


def test_agents_at_the_top_of_the_file_are_obeyed(config: Path) -> None:
    """As the product's description prints them: beside the key `alma`."""
    agents = "agents:\n  senior_dev:\n    share_with: [junior_dev]\n  junior_dev:\n    inherit_from: [senior_dev]\n"
    config.write_text(f"alma:\n  project_id: p\n  embedding_provider: hash\n{agents}")
    with ALMA.from_config(config) as alma:
        alma.add_domain_knowledge("senior_dev", "d", "Tokens expire")
        assert alma.retrieve("Tokens expire", "junior_dev").total_items == 1
        with pytest.raises(ScopeError, match="stranger"):
            alma.add_domain_knowledge("stranger", "d", "Tokens expire")


def test_agents_in_both_places_must_be_the_same(config: Path) -> None:
    config.write_text("alma: {project_id: p, agents: {a: {}}}\nagents: {a: {}}\n")
    assert [agent.agent_name for agent in load(config).agents] == ["a"]
    config.write_text("alma: {project_id: p, agents: {a: {}}}\nagents: {b: {}}\n")
    with pytest.raises(ConfigError, match="`agents` is set at the top level and under `alma`"):
        load(config)


def test_an_unknown_key_beside_alma_is_named(config: Path) -> None:
    config.write_text("alma: {project_id: p}\nagnets: {a: {}}\n")
    with pytest.raises(ConfigError, match=r"'agnets' at the top. Did you mean 'agents'\? Valid: alma, agents"):
        load(config)


def test_another_embedder_than_the_stores_is_an_error_that_says_how_to_reindex(config: Path) -> None:
    with ALMA.from_config(config) as alma:
        alma.add_domain_knowledge("loner", "d", "Tokens expire")
    config.write_text(SEED.replace("embedding_dim: 384", "embedding_dim: 128"))
    with pytest.raises(EmbedderMismatchError, match="alma reindex"):
        ALMA.from_config(config)


def test_quickstart_makes_a_memory_in_a_folder(tmp_path: Path) -> None:
    with ALMA.quickstart("p", tmp_path / "new") as alma:
        alma.learn("dev", "Fix login bug", "success", "Cleared session cache")
    with ALMA.quickstart("p", tmp_path / "new") as alma:
        assert "Cleared session cache" in alma.retrieve("Fix the login bug", "dev").to_prompt()
    assert (tmp_path / "new" / "alma.db").stat().st_mode & 0o777 == 0o600
