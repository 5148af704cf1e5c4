"""Memories are selected by the fields that their kinds declare, in every store and every face."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA, Outcome
from alma.embedders.hash import HashEmbedder
from alma.errors import ValidationError
from alma.operations import operations
from alma.ports import Store
from alma.stores.file import FileStore
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore

STORES: list[Callable[[Path], Store]] = [
    lambda folder: MemoryStore(),
    lambda folder: SQLiteStore(folder / "alma.db"),
    lambda folder: FileStore(folder / "alma.jsonl"),
]


@pytest.fixture(params=STORES, ids=["memory", "sqlite", "file"])
def alma(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with ALMA(request.param(tmp_path), HashEmbedder()) as alma:
        for number, kind in enumerate(("deploy", "deploy", "test")):
            alma.learn("dev", f"Task {number}", "success", "Use a canary", task_type=kind, duration_ms=number)
        alma.learn("dev", "Task 3", "failure", "Use a canary", error_message='Say "no"')
        alma.add_domain_knowledge("dev", "deploy", "Task 4 is a canary")
        yield alma


@pytest.mark.parametrize(
    ("fields", "tasks"),
    [
        ({}, ["Task 0", "Task 1", "Task 2", "Task 3"]),
        ({"task_type": "deploy"}, ["Task 0", "Task 1"]),
        ({"task_type": "deploy", "duration_ms": 1.0}, ["Task 1"]),
        ({"duration_ms": 0}, ["Task 0"]),
        ({"duration_ms": None}, ["Task 3"]),
        ({"outcome": "failure"}, ["Task 3"]),
        ({"error_message": 'Say "no"'}, ["Task 3"]),
        ({"task_type": "dep"}, []),
    ],
)
def test_only_what_has_these_values_is_found(alma: ALMA, fields: dict[str, Any], tasks: list[str]) -> None:
    listed = alma.list(Outcome, fields=fields)
    assert sorted(one.task_description for one in listed) == tasks
    matches = [one.memory for one in alma.search("Task canary", "outcome", fields=fields)]
    assert sorted(one.task_description for one in matches if isinstance(one, Outcome)) == tasks
    retrieved = alma.retrieve("Task with a canary", "dev", types=["outcome"], fields=fields, top_k=9).outcomes
    assert {one.task_description for one in retrieved} <= {*tasks}
    assert bool(retrieved) is bool(tasks)


def test_kinds_without_the_field_are_left_out(alma: ALMA) -> None:
    assert {type(one).__name__ for one in alma.list(fields={"domain": "deploy"})} == {"DomainKnowledge"}
    found = alma.retrieve("Task with a canary", "dev", fields={"domain": "deploy"})
    assert [type(one).__name__ for one in found] == ["DomainKnowledge"]


def test_what_is_no_field_is_named(alma: ALMA) -> None:
    with pytest.raises(ValidationError, match=r"unknown field 'task_typ'. Did you mean 'task_type'\? Valid: task_type"):
        alma.list("outcome", fields={"task_typ": "deploy"})
    with pytest.raises(ValidationError, match="unknown field 'fact'"):
        alma.search("x", fields={"task_type": "deploy", "fact": "x"})
    with pytest.raises(ValidationError, match="unknown field 'title'"):
        alma.retrieve("x", "dev", fields={"title": "x"})
    with pytest.raises(ValidationError, match="duration_ms must be a whole number"):
        alma.list("outcome", fields={"duration_ms": "1"})
    with pytest.raises(ValidationError, match="Valid: success, partial, failure"):
        alma.list("outcome", fields={"outcome": "brilliant"})


def test_every_face_offers_it(alma: ALMA) -> None:
    fields = {"task_type": "test"}
    found = operations()["list"].call(alma, {"memory_type": "outcome", "fields": json.loads(json.dumps(fields))})
    assert [one.task_description for one in found] == ["Task 2"]
    for name in ("list", "search", "retrieve"):
        assert "fields" in operations()[name].input_schema()["properties"]
