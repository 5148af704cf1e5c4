"""The scripts in `examples/migrate` bring memories of other products into a store, and bring them once."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from alma import ALMA
from alma.doctor import diagnose

pytestmark = pytest.mark.system

ROOT = Path(__file__).parent.parent
TABLES = {
    "heuristics": "id agent project_id condition strategy confidence metadata created_at",
    "outcomes": "id agent project_id task_type task_description success strategy_used duration_ms error_message "
    "user_feedback timestamp metadata",
    "preferences": "id user_id category preference source timestamp metadata",
    "domain_knowledge": "id agent project_id domain fact source last_verified metadata",
    "anti_patterns": "id agent project_id pattern why_bad better_alternative created_at metadata",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".alma").mkdir()
    (tmp_path / ".alma/config.yaml").write_text("alma:\n  project_id: my-project\n  embedding_provider: none\n")
    return tmp_path


def run_script(project: Path, name: str, *arguments: str) -> str:
    script = ROOT / "examples" / "migrate" / name
    command = [sys.executable, "-W", "error", str(script), *arguments]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


def find_blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / "docs/how-to" / page).read_text(encoding="utf-8"), re.DOTALL)


def test_mem0_memories_become_facts_and_preferences_once(project: Path) -> None:
    [sample] = find_blocks("migrate-from-mem0.md", "json")
    (project / "mem0.json").write_text(sample)
    assert [run_script(project, "import_mem0.py", "mem0.json")] == find_blocks("migrate-from-mem0.md", "text")
    assert run_script(project, "import_mem0.py", "mem0.json") == "memories read: 3, added: 0\n"
    with ALMA.from_config(project / ".alma/config.yaml") as alma:
        prompt = alma.retrieve("Book a night train to Porto for Ana", agent="travel", user_id="ana").to_prompt()
        [preference] = alma.list("user_preference", user_id="ana")
        health = alma.list("domain_knowledge", agent="assistant")
    assert "21:30" in prompt
    assert "window seats" in prompt
    assert preference.metadata["mem0_id"] == "5f0c1d22"
    assert [(fact.domain, fact.user_id) for fact in health] == [("health", "ana")]


def test_mem0_lists_are_read_as_well(project: Path) -> None:
    (project / "mem0.json").write_text('[{"id": "1", "memory": "Likes sci-fi films", "user_id": "ben"}]')
    assert run_script(project, "import_mem0.py", "mem0.json") == "memories read: 1, added: 1\n"


def write_old_database(file: Path) -> None:
    deploy = {"agent": "helena", "project_id": "my-project", "task_description": "Deploy auth service"}
    rows: list[tuple[str, dict[str, object]]] = []
    for _ in range(4):
        rows.append(("outcomes", {"success": 1, "strategy_used": "Blue-green deployment", **deploy}))
    for _ in range(2):
        rows.append(("outcomes", {"success": 0, "strategy_used": "Rolling update", "error_message": "lost", **deploy}))
    owner = {"agent": "helena", "project_id": "my-project"}
    rows.append(("heuristics", {"condition": "deploys", "strategy": "Blue-green deployment", **owner}))
    rows.append(("heuristics", {"condition": "forms", "strategy": "Validate incrementally", **owner}))
    rows.append(("anti_patterns", {"pattern": "Rolling update", "why_bad": "lost", **owner}))
    rows.append(("domain_knowledge", {"domain": "auth", "fact": "Tokens expire in 24 hours", **owner}))
    rows.append(("domain_knowledge", {"domain": "auth", "fact": "Of another project", **owner, "project_id": "x"}))
    rows.append(("preferences", {"user_id": "ana", "category": "output", "preference": "Verbose test output"}))
    with sqlite3.connect(file) as database:
        for table, columns in TABLES.items():
            database.execute(f"CREATE TABLE {table} ({', '.join(columns.split())})")
        for number, (table, row) in enumerate(rows):
            named = {"id": f"{table}_{number}", **row}
            marks = ", ".join("?" * len(named))
            database.execute(f"INSERT INTO {table} ({', '.join(named)}) VALUES ({marks})", list(named.values()))
    database.close()


def test_an_old_database_is_learned_again_once(project: Path) -> None:
    write_old_database(project / "old-alma.db")
    first = run_script(project, "import_alma_0.py", "old-alma.db", "--project", "my-project")
    again = run_script(project, "import_alma_0.py", "old-alma.db", "--project", "my-project")
    assert "read 6 outcomes" in first
    assert first.splitlines()[1] == again.splitlines()[1]
    with ALMA.from_config(project / ".alma/config.yaml") as alma:
        strategies = {one.strategy: one.occurrence_count for one in alma.list("heuristic")}
        [warning] = alma.list("anti_pattern")
        facts = [one.fact for one in alma.list("domain_knowledge")]
        [preference] = alma.list("user_preference", user_id="ana")
    assert strategies["Blue-green deployment"] == 4
    assert "Validate incrementally" in strategies
    assert (warning.pattern, warning.better_alternative) == ("Rolling update", "Blue-green deployment")
    assert facts == ["Tokens expire in 24 hours"]
    assert preference.preference == "Verbose test output"


def test_an_old_database_is_not_opened_as_a_store(project: Path) -> None:
    from alma.errors import ALMAError

    write_old_database(project / ".alma/alma.db")
    database = project / ".alma/alma.db"
    with pytest.raises(ALMAError, match=r"database of alma-memory 0\.x.*import_alma_0\.py") as error:
        ALMA.from_config(project / ".alma/config.yaml", trust=True).retrieve("Deploy", agent="helena")
    assert "backup" not in str(error.value)
    with sqlite3.connect(database) as opened:
        assert opened.execute("SELECT count(*) FROM outcomes").fetchone() == (6,)
    opened.close()
    checks = {check.name: check for check in diagnose(project / ".alma/config.yaml")}
    assert "migrate-from-alma-0.md" in checks["store"].fix
    moved = database.rename(project / "old-alma.db")
    command = [sys.executable, "-m", "alma", "import", str(moved)]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120)
    assert run.returncode == 1
    assert "is a database, not an export" in run.stderr
    assert "import_alma_0.py" in run.stderr


AGENTS = """\
  agents:
    helena: {domain: coding, can_learn: [testing_strategies, selector_patterns]}
    backend-dev: {can_learn: [api_patterns]}
    developer: {}
"""


@pytest.mark.parametrize("version", ["0.4.0", "0.10.0", "0.11.0"])
def test_databases_that_the_old_packages_made(project: Path, version: str) -> None:
    """`fixtures/v0` was written by these versions, with the calls of their README and the agents above.

    They derived the task type "testing", which the agent may not learn, and stored a heuristic again each time it
    counted.
    """
    packed = ROOT / "tests/fixtures/v0" / f"alma-{version}.db.gz"
    (project / "old.db").write_bytes(gzip.decompress(packed.read_bytes()))
    with (project / ".alma/config.yaml").open("a") as config:
        config.write(AGENTS)
    first = run_script(project, "import_alma_0.py", "old.db", "--project", "my-project")
    again = run_script(project, "import_alma_0.py", "old.db", "--project", "my-project")
    read = "11 outcomes" if version == "0.11.0" else "12 outcomes"
    assert f"read {read}, 2 other memories" in first
    assert "changed: 4 × task type 'testing' is not one that 'helena' may learn: recorded without it" in first
    assert ("not imported: 2 rows of checkpoints" in first) == (version != "0.4.0")
    assert again.splitlines()[1] == first.splitlines()[1]
    with ALMA.from_config(project / ".alma/config.yaml") as alma:
        counted = {one.strategy: one.occurrence_count for one in alma.list("heuristic")}
        [warning] = alma.list("anti_pattern")
        prompt = alma.retrieve("Test the login form", agent="helena").to_prompt()
        wishes = alma.list("user_preference", user_id="u1")
    assert counted == {"Tested empty fields, invalid email, valid submission": 4, "Blue-green deployment": 4}
    assert warning.pattern == "Rolling update"
    assert "sessions dropped" in warning.why_bad
    assert "Tested empty fields" in prompt
    assert [one.preference for one in wishes] == ["Prefer verbose output, Python 3.12, dark theme"]


def test_a_folder_of_the_old_file_storage_is_read_and_what_is_not_allowed_is_listed(project: Path) -> None:
    row = {"id": "1", "agent": "bob", "project_id": "p", "metadata": {}}
    rows = {
        "outcomes": [{**row, "task_description": "Deploy", "success": True, "strategy_used": "Canary"}],
        "domain_knowledge": [{**row, "agent": "helena", "domain": "auth", "fact": "Tokens expire in 24 hours"}],
        "preferences": [{"id": "2", "user_id": "ana", "category": "output", "preference": "Verbose output"}],
        "heuristics": [],
        "anti_patterns": [],
    }
    (project / "old").mkdir()
    for name, content in rows.items():
        (project / f"old/{name}.json").write_text(json.dumps(content))
    with (project / ".alma/config.yaml").open("a") as config:
        config.write(AGENTS)
    command = [sys.executable, str(ROOT / "examples/migrate/import_alma_0.py"), "old"]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120)
    assert run.returncode == 1
    assert run.stdout.splitlines() == ["read 0 outcomes, 1 other memories", "stored now: 1 memories"]
    assert "left out: 1 × outcome: unknown agent 'bob'" in run.stderr
    assert "left out: 1 × domain knowledge: agent 'helena' may not learn 'auth'" in run.stderr
    assert "Traceback" not in run.stderr
