"""Files that version 1.0 wrote still open and behave: databases, an export, journals, and a rule file.

`tests/fixtures/v1` was written once by that version and is never written again.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.cli import main
from alma.embedders.hash import HashEmbedder
from alma.hooks.drain import drain
from alma.hooks.paths import DataDir
from alma.stores.file import FileStore
from alma.stores.sqlite import SQLiteStore

OLD = Path(__file__).parent / "fixtures" / "v1"
EXPECTED: dict[str, Any] = json.loads((OLD / "expected.json").read_text(encoding="utf-8"))


def unpack(name: str, folder: Path) -> Path:
    target = folder / Path(name).stem
    target.write_bytes(gzip.decompress((OLD / name).read_bytes()))
    return target


@pytest.fixture(params=["sqlite", "file"])
def alma(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        store: Any = SQLiteStore(unpack("alma.db.gz", tmp_path))
    else:
        store = FileStore(unpack("alma.json.gz", tmp_path))
    with ALMA(store, HashEmbedder(), project_id="app") as opened:
        yield opened


def test_every_memory_is_there(alma: ALMA) -> None:
    assert {kind: len(alma.list(kind)) for kind in EXPECTED["counts"]} == EXPECTED["counts"]


def test_what_was_learned_is_retrieved(alma: ALMA) -> None:
    prompt = alma.retrieve("Deploy the auth service", "dev", user_id="ana").to_prompt()
    assert "Blue-green deployment (worked 3 of 3, last" in prompt
    assert "avoid Rolling update (failed 3 of 3, last" in prompt
    assert "The deploy window is 9 to 17 h" in prompt
    assert prompt.index("Prefer spaces over tabs") < prompt.index("Prefer tabs over spaces")


def test_learning_goes_on_where_it_was(alma: ALMA) -> None:
    alma.learn("dev", "Deploy the auth service", "success", "Blue-green deployment")
    [heuristic] = [one for one in alma.list("heuristic") if one.strategy == "Blue-green deployment"]
    assert (heuristic.occurrence_count, heuristic.success_count) == (4, 4)


def test_old_memories_can_be_updated_and_deleted(alma: ALMA) -> None:
    for fact in alma.list("domain_knowledge"):
        alma.update(fact.id, fact=f"{fact.fact} (checked)")
        alma.delete(fact.id)
    assert alma.list("domain_knowledge") == []


def test_what_was_deleted_stays_deleted(alma: ALMA) -> None:
    assert all("deleted later" not in one.fact for one in alma.list("domain_knowledge"))


def test_an_export_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("alma:\n  project_id: app\n  embedding_provider: hash\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALMA_CONFIG", str(config))
    assert main(["import", str(OLD / "export.jsonl"), "--yes"]) == 0
    with ALMA.from_config(str(config)) as alma:
        assert {kind: len(alma.list(kind)) for kind in EXPECTED["counts"]} == EXPECTED["counts"]


def test_a_rule_file_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".alma").mkdir()
    unpack("alma.db.gz", tmp_path / ".alma")
    config = tmp_path / ".alma" / "config.yaml"
    config.write_text("alma:\n  project_id: app\n  embedding_provider: hash\n", encoding="utf-8")
    text = (OLD / "AGENTS.md").read_text(encoding="utf-8")
    (tmp_path / "AGENTS.md").write_text(text.replace("Use tabs", "Always use tabs"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALMA_CONFIG", str(config))
    assert main(["rules", "import", "--yes"]) == 0
    with ALMA.from_config(str(config)) as alma:
        assert "Always use tabs instead of spaces" in [rule.rule for rule in alma.list("rule")]


def test_a_plug_in_s_store_and_journals_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")
    home = tmp_path / "home"
    shutil.copytree(OLD / "home", home)
    home.chmod(0o700)
    unpack("home/memory.db.gz", home)
    report = drain(DataDir(str(home)))
    assert report.sessions == 1
    assert report.problems == []
    with ALMA(SQLiteStore(home / "memory.db"), None, project_id="git:github.com/acme/app") as alma:
        rules = {rule.rule: status for status in ("active", "candidate") for rule in alma.list("rule", status=status)}
    assert rules["Use pnpm instead of npm"] == "active"
    assert rules["Never commit directly to main in this repo"] == "active"
    # Recorded without the host's entry point: nobody knows that a person said it.
    assert [status for rule, status in rules.items() if "ruff" in rule] == ["candidate"]
