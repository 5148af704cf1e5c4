"""Opening and closing: with a memory that is given, or with the one that is configured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from alma import ALMA
from alma.errors import StorageError, ValidationError
from alma.stores.memory import MemoryStore
from alma.workflow import WorkflowMemory

CONFIG = "alma:\n  project_id: mine\n  storage: sqlite\n  embedding_provider: mock\n  storage_dir: .alma\n"


def test_a_project_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".alma").mkdir()
    (tmp_path / ".alma" / "config.yaml").write_text(CONFIG)
    with WorkflowMemory("my-project") as workflow:
        workflow.checkpoint("r", "n", {"a": 1})
        assert workflow.project_id == "my-project"
    with pytest.raises(StorageError):
        workflow.resume("r")
    with WorkflowMemory() as other:
        assert other.project_id == "mine"
        assert other.resume("r") is None
    with WorkflowMemory(project_id="my-project") as again:
        held = again.resume("r")
        assert held is not None
        assert held.state == {"a": 1}


def test_a_memory_that_was_given_stays_open() -> None:
    alma = ALMA(MemoryStore(), project_id="p")
    with WorkflowMemory(alma) as workflow:
        workflow.checkpoint("r", "n", {})
    assert alma.get_stats()["total_count"] == 0


@pytest.mark.parametrize("given", [{"project_id": ""}, {"tenant_id": 3}, {"max_state_bytes": 0}])
def test_bad_settings_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        WorkflowMemory(ALMA(MemoryStore()), **given)  # type: ignore[arg-type]


@pytest.mark.system
@pytest.mark.parametrize("module", ["alma.workflow", "alma.harness"])
def test_importing_it_loads_nothing_heavy(module: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert not {"numpy", "yaml", "rich", "onnxruntime", "asyncio"} & set(found.stdout.split())


def test_an_ended_run_stays_so_until_it_is_taken_up_again() -> None:
    workflow = WorkflowMemory(ALMA(MemoryStore()))
    workflow.start_run("release", "r1")
    workflow.update_run("r1", status="completed")
    assert workflow.update_run("r1", metadata={"by": "ci"}).status == "completed"
    assert workflow.start_run("release", "r1").status == "running"


def test_a_run_is_named_or_looked_for() -> None:
    workflow = WorkflowMemory(ALMA(MemoryStore()))
    workflow.start_run("release", "r1")
    with pytest.raises(ValidationError, match="not both"):
        workflow.list_runs(status="failed", run_id="r1")
