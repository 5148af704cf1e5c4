"""A memory that can be read but not written: a read-only mount, a folder or a file of somebody else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import ReadOnlyError
from alma.stores.file import FileStore
from alma.stores.sqlite import SQLiteStore

TASK = "Deploy the auth service"
CONFIG = "alma:\n  project_id: p\n  storage: {}\n  storage_dir: .alma\n  embedding_provider: hash\n"
STORES = {"sqlite": SQLiteStore, "file": FileStore}

FILL = """
import os, signal, sys
from alma import ALMA
alma = ALMA.from_config(".alma/config.yaml")
for _ in range(3):
    alma.learn("dev", "Deploy the auth service", "success", "Blue-green deployment")
alma.add_domain_knowledge("dev", "ops", "Tokens of the auth service expire after an hour")
alma.retrieve("Deploy the auth service", "dev")
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
alma.close()
"""

Mount = Callable[[Path], Path]


@pytest.fixture
def mount_read_only(tmp_path: Path) -> Iterator[Mount]:
    mounted: list[Path] = []

    def mount(folder: Path) -> Path:
        place = tmp_path / "mounted"
        place.mkdir()
        made = shutil.which("mount") and subprocess.run(
            ["mount", "--bind", folder, place], check=False, capture_output=True
        )
        if not made or made.returncode:
            pytest.skip("NOT PROVEN HERE that a read-only mount can be read: mount --bind is not permitted")
        mounted.append(place)
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (place / "probe").touch()
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", place], check=True)


def make_memory(folder: Path, end: str = "closed", storage: str = "sqlite") -> Path:
    (folder / ".alma").mkdir(parents=True, mode=0o700)
    (folder / ".alma" / "config.yaml").write_text(CONFIG.format(storage))
    ran = subprocess.run([sys.executable, "-c", FILL, end], cwd=folder, check=False, timeout=60)
    assert ran.returncode == (-signal.SIGKILL if end == "killed" else 0)
    return folder


def store_file(folder: Path) -> Path:
    [found] = [one for one in folder.rglob("*") if one.suffix in (".db", ".jsonl")]
    return found


def run_command(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "alma", "--json", *args]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ALMA")}
    # Mounted elsewhere, it is a folder that this machine has not seen before.
    environ["ALMA_CONFIG"] = str(folder / ".alma" / "config.yaml")
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=60)


def assert_readable(folder: Path, elsewhere: Path) -> None:
    def answer(*args: str) -> Any:
        ran = run_command(folder, *args)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout) if ran.stdout.strip() else None

    found = answer("retrieve", TASK, "--agent", "dev")
    assert {one["type"] for one in found["memories"]} >= {"heuristic", "domain_knowledge"}
    assert found["retrieval_id"] is None, "what could not be recorded has no id"
    assert answer("search", "tokens")
    assert answer("list")
    assert answer("stats")["total_count"] == 5
    answer("export", str(elsewhere / "export.jsonl"))
    assert "Tokens of the auth service" in (elsewhere / "export.jsonl").read_text()
    refused = run_command(folder, "learn", "--agent", "dev", "--task", "t", "--outcome", "success", "--strategy", "s")
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr
    assert json.loads(refused.stdout)["error"]["type"] == "ReadOnlyError", refused.stdout


@pytest.mark.parametrize("storage", ["sqlite", "file"])
def test_a_read_only_mount(mount_read_only: Mount, tmp_path: Path, storage: str) -> None:
    assert_readable(mount_read_only(make_memory(tmp_path / "made", storage=storage)), tmp_path)


def test_a_read_only_mount_of_what_a_killed_process_left(mount_read_only: Mount, tmp_path: Path) -> None:
    made = make_memory(tmp_path / "made", "killed")
    file = store_file(made)
    assert file.with_name(f"{file.name}-wal").stat().st_size > 0
    assert_readable(mount_read_only(made), tmp_path)


def test_a_read_only_mount_that_is_written_from_elsewhere(mount_read_only: Mount, tmp_path: Path) -> None:
    """As when one container writes and another has the same folder mounted read-only."""
    made = make_memory(tmp_path / "made")
    place = mount_read_only(made)
    with ALMA(SQLiteStore(store_file(place)), HashEmbedder(), project_id="p") as reader:
        assert len(reader.list("outcome")) == 3
        with ALMA(SQLiteStore(store_file(made)), HashEmbedder(), project_id="p") as writer:
            writer.learn("dev", TASK, "success", "Blue-green deployment")
            assert len(reader.list("outcome")) == 4
            assert reader.retrieve(TASK, "dev").heuristics[0].occurrence_count == 4
            writer.learn("dev", TASK, "success", "Blue-green deployment")
            assert len(reader.list("outcome")) == 5
        assert len(reader.list("outcome")) == 5
        with pytest.raises(ReadOnlyError):
            reader.learn("dev", TASK, "success", "Blue-green deployment")
        assert reader.engine.store.check() == []  # type: ignore[attr-defined]
        reader.engine.store.backup(tmp_path / "copy.db")  # type: ignore[attr-defined]
    with ALMA(SQLiteStore(tmp_path / "copy.db"), HashEmbedder(), project_id="p") as copy:
        assert len(copy.list("outcome")) == 5


AS_NOBODY = """
import logging, sys
from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import ReadOnlyError
from alma.stores.file import FileStore
from alma.stores.sqlite import SQLiteStore
store = {"sqlite": SQLiteStore, "file": FileStore}[sys.argv[1]](sys.argv[2], trust=True)
with ALMA(store, HashEmbedder(), project_id="p") as alma:
    found = alma.retrieve("Deploy the auth service", "dev")
    assert found.heuristics and found.retrieval_id is None
    assert len(alma.list("outcome")) == 3
    assert alma.get_stats()["total_count"] == 5
    try:
        alma.add_domain_knowledge("dev", "ops", "The sky is blue")
    except ReadOnlyError as error:
        print(error)
"""


@pytest.mark.parametrize("storage", ["sqlite", "file"])
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o755), (0o666, 0o555), (0o444, 0o777)])
def test_without_permission_to_write(tmp_path: Path, storage: str, file_mode: int, folder_mode: int) -> None:
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("NOT PROVEN HERE that a file of another user can be read: needs root and setpriv")
    made = make_memory(tmp_path / "made", storage=storage)
    file = store_file(made)
    shared = Path(str(shutil.copytree(made / ".alma", f"/tmp/alma-read-only-{os.getpid()}")))
    try:
        file = shared / file.name
        file.chmod(file_mode)
        shared.chmod(folder_mode)
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        # The interpreter and the sources must be readable for nobody as well.
        if subprocess.run([*user, sys.executable, "-c", "import alma"], check=False, capture_output=True).returncode:
            pytest.skip("NOT PROVEN HERE that a file of another user can be read: nobody cannot run this Python")
        ran = subprocess.run(
            [*user, sys.executable, "-B", "-c", AS_NOBODY, storage, str(file)],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
        assert "written" in ran.stdout
    finally:
        shutil.rmtree(shared)


def test_a_store_that_becomes_writable_again_is_written(mount_read_only: Mount, tmp_path: Path) -> None:
    place = mount_read_only(make_memory(tmp_path / "made"))
    with ALMA(SQLiteStore(store_file(place)), HashEmbedder(), project_id="p") as alma:
        with pytest.raises(ReadOnlyError, match="nothing was changed"):
            alma.learn("dev", TASK, "success", "Blue-green deployment")
        subprocess.run(["mount", "-o", "remount,bind,rw", place], check=True)
        alma.learn("dev", TASK, "success", "Blue-green deployment")
        assert len(alma.list("outcome")) == 4
