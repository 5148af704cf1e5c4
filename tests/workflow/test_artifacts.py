"""What a run left elsewhere: where it is, what it was, and whose it is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from alma.errors import ValidationError
from alma.types.query import Where
from alma.workflow import WorkflowMemory

SHA = "sha256:" + hashlib.sha256(b"hello").hexdigest()


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.txt"
    path.write_bytes(b"hello")
    return path


def test_a_file_is_known_by_its_digest(workflow: WorkflowMemory, report: Path) -> None:
    workflow.start_run("crawl", "r")
    made = workflow.link_artifact("r", report, node_id="write", kind="report", metadata={"pages": 3})
    assert (made.digest, made.size, made.name) == (SHA, 5, "report.txt")
    assert (made.location, made.workflow_id, made.node_id) == (str(report.resolve()), "crawl", "write")
    assert workflow.get_artifacts("r") == [made]
    assert workflow.link_artifact("r", report, node_id="write", kind="report", metadata={"pages": 3}) == made


def test_linked_again_it_is_one_artifact_with_its_new_digest(workflow: WorkflowMemory, report: Path) -> None:
    first = workflow.link_artifact("r", report)
    report.write_bytes(b"hello again")
    second = workflow.link_artifact("r", report)
    assert second.id == first.id
    assert second.digest != first.digest
    assert workflow.get_artifacts("r") == [second]
    workflow.link_artifact("r", report, node_id="other")
    assert len(workflow.get_artifacts("r")) == 2


def test_what_a_uri_names_is_taken_at_its_word(workflow: WorkflowMemory) -> None:
    made = workflow.link_artifact("r", "s3://bucket/models/v7.bin", digest=SHA.upper().replace("SHA256:", ""), size=7)
    assert (made.location, made.name, made.digest, made.size) == ("s3://bucket/models/v7.bin", "v7.bin", SHA, 7)
    assert workflow.link_artifact("r", "https://example.org/a/b/").digest is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"location": "no/such/file"}, "cannot be read as a file"),
        ({"location": "."}, "cannot be read as a file"),
        ({"location": ""}, "location is empty"),
        ({"location": "https://bob:hunter2pass@example.org/x"}, "looks like a secret"),
        ({"location": "s3://b/k", "digest": "abc"}, "64 hexadecimal digits"),
        ({"location": "s3://b/k", "size": -1}, "size"),
        ({"location": "s3://b/k", "kind": ""}, "kind is empty"),
        ({"location": "s3://b/k", "run_id": ""}, "run_id is empty"),
    ],
)
def test_bad_arguments_link_nothing(workflow: WorkflowMemory, given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        workflow.link_artifact(**({"run_id": "r"} | given))
    assert list(workflow.engine.store.scan(Where())) == []


def test_a_file_that_is_not_the_one_meant_is_refused(workflow: WorkflowMemory, report: Path) -> None:
    with pytest.raises(ValidationError, match="does not match: it has 5 bytes"):
        workflow.link_artifact("r", report, digest="0" * 64)
    with pytest.raises(ValidationError, match="has 5 bytes"):
        workflow.link_artifact("r", report, size=6)
    assert workflow.link_artifact("r", report, digest=SHA, size=5).size == 5


def test_artifacts_are_found_by_run_node_workflow_and_kind(workflow: WorkflowMemory) -> None:
    workflow.start_run("crawl", "r1")
    workflow.start_run("build", "r2")
    a = workflow.link_artifact("r1", "s3://b/a", node_id="n", kind="model")
    b = workflow.link_artifact("r1", "s3://b/b")
    c = workflow.link_artifact("r2", "s3://b/a", node_id="n")
    assert {one.id for one in workflow.get_artifacts()} == {a.id, b.id, c.id}
    assert {one.id for one in workflow.get_artifacts("r1")} == {a.id, b.id}
    assert workflow.get_artifacts("r1", node_id="n") == workflow.get_artifacts(kind="model") == [a]
    assert workflow.get_artifacts(workflow_id="build") == [c]
    assert len(workflow.get_artifacts(limit=1)) == 1


def test_a_run_that_is_over_stays_over(workflow: WorkflowMemory) -> None:
    workflow.start_run("crawl", "r")
    workflow.update_run("r", status="completed")
    workflow.link_artifact("r", "s3://b/a")
    assert workflow.get_run("r").status == "completed"
