"""A memory that can be read but not written: a read-only mount, a folder or a file of somebody else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Ended, Forks, share_forks

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import ReadOnlyError
from alma.stores.file import FileStore
from alma.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.system

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
def forks() -> Forks:
    return share_forks()


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


def make_memory(forks: Forks, folder: Path, end: str = "closed", storage: str = "sqlite") -> Path:
    (folder / ".alma").mkdir(parents=True, mode=0o700)
    (folder / ".alma" / "config.yaml").write_text(CONFIG.format(storage))
    ended = forks.run(FILL, folder, arguments=[end])
    assert ended.code == (-signal.SIGKILL if end == "killed" else 0), ended.err
    return folder


def store_file(folder: Path) -> Path:
    [found] = [one for one in folder.rglob("*") if one.suffix in (".db", ".jsonl")]
    return found


def run_command(forks: Forks, folder: Path, *args: str) -> Ended:
    code = "import sys\nfrom alma.cli import main\nsys.exit(main(sys.argv[1:]))"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ALMA")}
    # Mounted elsewhere, it is a folder that this machine has not seen before.
    environ["ALMA_CONFIG"] = str(folder / ".alma" / "config.yaml")
    return forks.run(code, folder, arguments=["--json", *args], environ=environ)


def assert_readable(forks: Forks, folder: Path, elsewhere: Path) -> None:
    def answer(*args: str) -> Any:
        ended = run_command(forks, folder, *args)
        assert ended.code == 0, ended.err
        return json.loads(ended.out) if ended.out.strip() else None

    found = answer("retrieve", TASK, "--agent", "dev")
    assert {one["type"] for one in found["memories"]} >= {"heuristic", "domain_knowledge"}
    assert found["retrieval_id"] is None, "what could not be recorded has no id"
    assert answer("search", "tokens")
    assert answer("list")
    assert answer("stats")["total_count"] == 5
    answer("export", str(elsewhere / "export.jsonl"))
    assert "Tokens of the auth service" in (elsewhere / "export.jsonl").read_text()
    learn = ("learn", "--agent", "dev", "--task", "t", "--outcome", "success", "--strategy", "s")
    refused = run_command(forks, folder, *learn)
    assert refused.code != 0
    assert "Traceback" not in refused.err
    assert json.loads(refused.out)["error"]["type"] == "ReadOnlyError", refused.out


@pytest.mark.parametrize("storage", ["sqlite", "file"])
def test_a_read_only_mount(forks: Forks, mount_read_only: Mount, tmp_path: Path, storage: str) -> None:
    made = make_memory(forks, tmp_path / "made", storage=storage)
    assert_readable(forks, mount_read_only(made), tmp_path)


def test_a_read_only_mount_of_what_a_killed_process_left(forks: Forks, mount_read_only: Mount, tmp_path: Path) -> None:
    made = make_memory(forks, tmp_path / "made", "killed")
    file = store_file(made)
    assert file.with_name(f"{file.name}-wal").stat().st_size > 0
    assert_readable(forks, mount_read_only(made), tmp_path)


def test_a_read_only_mount_that_is_written_from_elsewhere(forks: Forks, mount_read_only: Mount, tmp_path: Path) -> None:
    """As when one container writes and another has the same folder mounted read-only."""
    made = make_memory(forks, tmp_path / "made")
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


@cache
def can_run_python(user: tuple[str, ...]) -> bool:
    """Return whether another user can read the interpreter and the sources as well."""
    command = [*user, sys.executable, "-c", "import alma"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("storage", ["sqlite", "file"])
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o755), (0o666, 0o555), (0o444, 0o777)])
def test_without_permission_to_write(
    forks: Forks, tmp_path: Path, storage: str, file_mode: int, folder_mode: int
) -> None:
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("NOT PROVEN HERE that a file of another user can be read: needs root and setpriv")
    made = make_memory(forks, tmp_path / "made", storage=storage)
    file = store_file(made)
    shared = Path(str(shutil.copytree(made / ".alma", f"/tmp/alma-read-only-{os.getpid()}")))
    try:
        file = shared / file.name
        file.chmod(file_mode)
        shared.chmod(folder_mode)
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if not can_run_python(tuple(user)):
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


def test_a_store_that_becomes_writable_again_is_written(forks: Forks, mount_read_only: Mount, tmp_path: Path) -> None:
    place = mount_read_only(make_memory(forks, tmp_path / "made"))
    with ALMA(SQLiteStore(store_file(place)), HashEmbedder(), project_id="p") as alma:
        with pytest.raises(ReadOnlyError, match="nothing was changed"):
            alma.learn("dev", TASK, "success", "Blue-green deployment")
        subprocess.run(["mount", "-o", "remount,bind,rw", place], check=True)
        alma.learn("dev", TASK, "success", "Blue-green deployment")
        assert len(alma.list("outcome")) == 4
