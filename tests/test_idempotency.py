"""A call of `learn` that is repeated is counted once."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.forked import find_python

from alma import ALMA
from alma.errors import NotFoundError, ValidationError
from alma.types.query import Where

TASK = "Deploy the auth service"
GIVEN: dict[str, Any] = {"agent": "dev", "task": TASK, "outcome": "success", "strategy_used": "Blue-green deployment"}


@pytest.fixture
def alma(open_alma: Any) -> ALMA:
    opened: ALMA = open_alma()
    return opened


def count_results(alma: ALMA) -> int:
    """How many results the strategies of this memory have, whatever is listed."""
    found = alma.retrieve(TASK, "dev", mode="broad").heuristics
    return found[0].occurrence_count if found else len(alma.list("outcome"))


def test_the_same_key_is_counted_once_and_returns_the_stored_outcome(alma: ALMA) -> None:
    made = [alma.learn(**GIVEN, idempotency_key="job-1") for _ in range(5)]
    assert len({one.id for one in made}) == 1
    assert made[0] == alma.get(made[0].id)
    assert len(alma.list("outcome")) == 1
    for number in (2, 3, 4):
        alma.learn(**GIVEN, idempotency_key=f"job-{number}")
    assert count_results(alma) == 4


def test_a_key_with_other_arguments_is_an_error(alma: ALMA) -> None:
    alma.learn(**GIVEN, idempotency_key="job-1")
    with pytest.raises(ValidationError, match=r"idempotency_key 'job-1' was already used with other arguments"):
        alma.learn(**{**GIVEN, "outcome": "failure"}, idempotency_key="job-1")
    with pytest.raises(ValidationError, match="idempotency_key is empty"):
        alma.learn(**GIVEN, idempotency_key="")
    assert len(alma.list("outcome")) == 1


def test_a_batch_counts_a_repeated_key_once(alma: ALMA) -> None:
    first = alma.learn(**GIVEN, idempotency_key="job-1")
    made = alma.learn_many([{**GIVEN, "idempotency_key": key} for key in ("job-2", "job-1", "job-2")])
    assert [one.id for one in made] == [made[0].id, first.id, made[0].id]
    assert len(alma.list("outcome")) == 2
    with pytest.raises(ValidationError, match="other arguments"):
        alma.learn_many([{**GIVEN, "idempotency_key": "x"}, {**GIVEN, "task": "Other", "idempotency_key": "x"}])
    assert len(alma.list("outcome")) == 2, "all or none"


def test_a_deleted_outcome_is_not_counted_again(alma: ALMA) -> None:
    made = alma.learn(**GIVEN, idempotency_key="job-1")
    alma.delete(made.id)
    with pytest.raises(NotFoundError, match="deleted"):
        alma.learn(**GIVEN, idempotency_key="job-1")
    assert alma.list("outcome") == []


def test_receipts_have_the_form_of_earlier_versions(alma: ALMA) -> None:
    """A key that was used before an update is recognised after it."""
    outcome = alma.learn(**GIVEN, idempotency_key="job-1")
    (receipt,) = alma.engine.store.scan(Where(kinds=("receipt",)))
    assert receipt.id == "rcp_dfe433be9efffd375afacb0ef6eb84483b722fa9"
    assert receipt.body == {"arguments": "4e9b45fb32e1e715f438aebbc6ba4aec73a1f3a9", "outcome": outcome.id}


def test_projects_have_keys_of_their_own(open_alma: Any) -> None:
    one, other = open_alma(project_id="one"), open_alma(project_id="other")
    assert one.learn(**GIVEN, idempotency_key="k").id != other.learn(**GIVEN, idempotency_key="k").id


def test_identical_calls_after_one_retrieval_are_counted_once(alma: ALMA) -> None:
    shown = alma.retrieve(TASK, "dev").retrieval_id
    again = [alma.learn(**GIVEN, retrieval_id=shown) for _ in range(3)]
    assert len({one.id for one in again}) == 1
    other = alma.learn(**{**GIVEN, "strategy_used": "Rolling update"}, retrieval_id=shown)
    assert other.id != again[0].id
    assert len(alma.list("outcome")) == 2
    alma.learn(**GIVEN, retrieval_id=alma.retrieve(TASK, "dev").retrieval_id)
    assert len(alma.list("outcome")) == 3, "another retrieval is another attempt"
    alma.learn(**GIVEN)
    alma.learn(**GIVEN)
    assert len(alma.list("outcome")) == 5, "without a key and a retrieval every call counts"


LEARN = """
import sys
from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.sqlite import SQLiteStore
with ALMA(SQLiteStore(sys.argv[1]), HashEmbedder(), project_id="test") as alma:
    sys.stdin.readline()
    for number in range(10):
        print(alma.learn("dev", "Deploy the auth service", "success", "Blue-green deployment",
                         idempotency_key=f"job-{number}").id, flush=True)
"""


@pytest.mark.system
def test_processes_and_threads_count_a_key_once(tmp_path: Path) -> None:
    path = tmp_path / "alma.db"
    command = [*find_python(), LEARN, str(path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    answers = [process.communicate("go\n", timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], answers
    assert len({out for out, _ in answers}) == 1, "each process got the same outcomes"
    from alma.embedders.hash import HashEmbedder
    from alma.stores.sqlite import SQLiteStore

    with ALMA(SQLiteStore(path), HashEmbedder(), project_id="test") as alma, ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda _: alma.learn(**GIVEN, idempotency_key="threads").id, range(16)))
        assert len(ids) == 1
        assert len(alma.list("outcome")) == 11
        assert count_results(alma) == 11


def test_an_empty_slice_is_false_and_can_be_learned_from(alma: ALMA) -> None:
    found = alma.retrieve("Bake a cake", "dev")
    assert found is not None
    assert not found
    assert (len(found), list(found), found.to_prompt()) == (0, [], "")
    assert found.retrieval_id
    made = alma.learn("dev", "Bake a cake", "success", "Follow the recipe", retrieval_id=found.retrieval_id)
    assert made.retrieval_id == found.retrieval_id


def test_the_command_line_takes_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from alma.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / ".alma").mkdir(mode=0o700)
    (tmp_path / ".alma" / "config.yaml").write_text("alma:\n  project_id: shop\n  embedding_provider: hash\n")
    told = ["learn", "--agent", "dev", "--task", TASK, "--outcome", "success", "--strategy", "Blue-green"]
    ids = []
    for _ in range(2):
        assert main(["--json", *told, "--idempotency-key", "job-1"]) == 0
        ids.append(json.loads(capsys.readouterr().out)["outcome"]["id"])
    assert ids[0] == ids[1]
    assert main([*told, "--tag", "x", "--idempotency-key", "job-1"]) != 0
    assert "other arguments" in capsys.readouterr().err
    (tmp_path / "outcomes.jsonl").write_text(json.dumps({**GIVEN, "idempotency_key": "job-2"}) + "\n")
    for _ in range(2):
        assert main(["--json", "learn", "--from", "outcomes.jsonl"]) == 0
        ids += json.loads(capsys.readouterr().out)["ids"]
    assert ids[2] == ids[3]
    assert main(["learn", "--from", "outcomes.jsonl", "--idempotency-key", "job-3"]) != 0
    assert "set it in each line" in capsys.readouterr().err
