"""Stores, embedders and models of other packages, by their names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.packages import list_install_words

from alma import ALMA
from alma.app import read_config
from alma.embedders import EMBEDDERS
from alma.errors import ConfigError, UntrustedConfigError, ValidationError
from alma.registries import Registry
from alma.stores import STORES
from alma.types.asking import MODELS

EXAMPLE = Path(__file__).parents[1] / "examples" / "duckdb_store"

MODULE = """
from alma.embedders.hash import HashEmbedder
from alma.stores.memory import MemoryStore
from alma.types.asking import Answer


class Shelf(MemoryStore):
    def __init__(self, *, colour, size=3):
        super().__init__()
        self.colour, self.size = colour, size


class Parrot:
    name = "parrot"

    def __init__(self, settings, environ):
        self.settings = settings

    def ask(self, prompt):
        return Answer(value={"text": self.settings.model}, model=self.name)


def make_embedder(dim=64):
    return HashEmbedder(dim)


def make_nothing(*arguments, **options):
    return None
"""
ENTRY_POINTS = {
    "alma.stores": {
        "shelf": "shelves:Shelf",
        "sqlite": "shelves:Shelf",
        "gone": "shelves:Gone",
        "nothing": "shelves:make_nothing",
    },
    "alma.embedders": {"small": "shelves:make_embedder", "nothing": "shelves:make_nothing"},
    "alma.models": {"parrot": "shelves:Parrot", "nothing": "shelves:make_nothing"},
}


def install(folder: Path, package: str, entry_points: dict[str, dict[str, str]]) -> None:
    """Make a folder look as if a package with these entry points was installed into it."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines: list[str] = []
    for group, targets in entry_points.items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {target}" for name, target in targets.items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def shelves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "shelves.py").write_text(MODULE)
    install(folder, "shelves", ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "shelves", raising=False)
    return folder


def write_config(folder: Path, settings: str) -> Path:
    path = folder / ".alma" / "config.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"alma:\n  project_id: shop\n{settings}")
    return path


def test_every_built_in_part_can_be_loaded() -> None:
    for registry in (STORES, EMBEDDERS, MODELS):
        for part in registry.built_in.values():
            assert callable(part.load()), part


@pytest.mark.usefixtures("shelves")
def test_a_configuration_names_parts_of_another_package(tmp_path: Path) -> None:
    settings = "  storage: shelf\n  storage_options: {colour: red}\n  embedding_provider: small\n  embedding_dim: 32\n"
    config = write_config(tmp_path, f"{settings}  model: {{provider: parrot, model: polly}}\n")
    with ALMA.from_config(config) as alma:
        alma.add_domain_knowledge("dev", "auth", "Tokens expire in 24 hours")
        assert alma.retrieve("When do tokens expire?", "dev").total_items == 1
        assert (alma.engine.store.colour, alma.engine.store.size) == ("red", 3)  # type: ignore[attr-defined]
        assert [len(vector) for vector in alma.embed(["a", "b"])] == [32, 32]
        assert alma.embed([""]) == [[0.0] * 32]
        with pytest.raises(ValidationError, match="a list of texts"):
            alma.embed("a")
        assert alma.model is not None
        assert alma.model.name == "parrot"


@pytest.mark.usefixtures("shelves")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("  storage: shelv\n", r"Did you mean 'shelf'\?.* Added by installed packages: .*shelf \(from shelves\)"),
        ("  storage: shelf\n", "needs 'colour' in storage_options"),
        ("  storage: shelf\n  storage_options: {colour: red, sise: 1}\n", "Did you mean 'size'"),
        ("  storage: gone\n", "'gone' of the package shelves cannot be loaded from shelves:Gone"),
        ("  storage: nothing\n", "shelves:make_nothing of the package shelves is no store"),
        ("  embedding_provider: nothing\n", "returned no embedder"),
        ("  embedding_provider: small\n  embedding: {path: x}\n", "unexpected keyword argument 'path'"),
        ("  model: {provider: parrott}\n", "Did you mean 'parrot'"),
    ],
)
def test_a_mistake_is_explained(tmp_path: Path, settings: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ALMA.from_config(write_config(tmp_path, settings))


@pytest.mark.usefixtures("shelves")
def test_a_model_that_is_none_is_explained(tmp_path: Path) -> None:
    with (
        ALMA.from_config(write_config(tmp_path, "  storage: memory\n  model: {provider: nothing}\n")) as alma,
        pytest.raises(ConfigError, match="returned no model"),
    ):
        assert alma.model


@pytest.mark.usefixtures("shelves")
def test_a_built_in_name_cannot_be_replaced() -> None:
    assert STORES.find("sqlite").is_built_in
    assert [part.name for part in STORES.list_parts() if part.package == "shelves"] == ["gone", "nothing", "shelf"]


def test_two_packages_with_one_name_are_an_error(shelves: Path) -> None:
    install(shelves, "other-shelves", {"alma.stores": {"shelf": "others:Shelf"}})
    with pytest.raises(ConfigError, match="'shelf' is declared by other-shelves and shelves; uninstall"):
        STORES.load("shelf")


@pytest.mark.usefixtures("shelves")
@pytest.mark.parametrize(
    "settings", ["  storage: shelf\n", "  embedding_provider: small\n", "  model: {provider: parrot}\n"]
)
def test_an_untrusted_configuration_may_not_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str
) -> None:
    write_config(tmp_path, settings)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALMA_CONFIG", raising=False)
    with pytest.raises(UntrustedConfigError, match="not trusted"):
        read_config()
    assert "shelves" not in sys.modules


def test_built_in_names_read_no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**query: str) -> None:
        raise AssertionError("entry points were read")

    monkeypatch.setattr("importlib.metadata.entry_points", refuse)
    assert STORES.find("sqlite").target == "alma.stores.sqlite:SQLiteStore"
    assert Registry("alma.none", "part", {"here": "alma.errors:ConfigError"}).load("here") is ConfigError
    with pytest.raises(AssertionError, match="were read"):
        STORES.find("elsewhere")


@pytest.mark.system
def test_the_example_package_passes_the_contract_and_can_be_named(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    site = tmp_path / "site"
    subprocess.run([*list_install_words(site), "--no-deps", "--no-build-isolation", str(EXAMPLE)], check=True)
    environ = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-c", os.devnull, "--rootdir", str(EXAMPLE)]
    command = [sys.executable, "-m", "pytest", *options]
    result = subprocess.run(
        [*command, str(EXAMPLE / "tests")], env=environ, capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 0, result.stdout
