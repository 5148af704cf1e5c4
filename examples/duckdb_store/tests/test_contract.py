"""The contract of alma's stores, and the name in a configuration."""

from __future__ import annotations

from pathlib import Path

from alma_duckdb import DuckDBStore

from alma import ALMA
from alma.ports import Store
from alma.testing import StoreContract


class TestDuckDBStore(StoreContract):
    histories = 4
    many = 150
    crowd = 60

    def make_store(self) -> Store:
        return DuckDBStore(path=str(self.folder / "memory"))

    def open_again(self, store: Store) -> Store:
        return self.make_store()


def test_a_configuration_names_it(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "alma: {project_id: shop, storage: duckdb, embedding_provider: hash, storage_options: {path: memories}}"
    )
    with ALMA.from_config(config) as alma:
        alma.add_domain_knowledge(agent="dev", domain="auth", fact="Tokens expire in 24 hours")
    with ALMA.from_config(config) as alma:
        assert "24 hours" in alma.retrieve("When do tokens expire?", agent="dev").to_prompt()
    assert list((tmp_path / "memories").glob("*.duckdb"))
