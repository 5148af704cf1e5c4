"""Every operation works, and what it gives back is JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import ScopeError
from alma.operations import operations
from alma.schema import plain
from alma.stores.memory import MemoryStore

from .samples import BEFORE, SAMPLES, World, world


@pytest.fixture
def alma() -> Iterator[ALMA]:
    with ALMA(MemoryStore(), HashEmbedder(), project_id="app") as made:
        yield made


@pytest.fixture
def prepared(alma: ALMA, tmp_path: Path) -> World:
    return world(alma, str(tmp_path))


def test_there_is_a_sample_for_each_operation() -> None:
    assert SAMPLES.keys() == operations().keys()


@pytest.mark.parametrize("name", operations())
def test_it_works_and_answers_in_json(name: str, alma: ALMA, prepared: World) -> None:
    for one in [BEFORE[name], name] if name in BEFORE else [name]:
        answer = operations()[one].call(alma, SAMPLES[one](prepared))
    assert answer is not None
    assert json.loads(json.dumps(plain(answer), allow_nan=False)) == plain(answer)


def test_a_long_operation_tells_how_far_it_is(alma: ALMA, prepared: World) -> None:
    told: list[tuple[int, int]] = []
    operations()["calibration"].run(alma, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (4, 4)


def test_the_project_follows_a_domain_at_once(alma: ALMA) -> None:
    listed = operations()
    listed["create_domain"].call(alma, {"name": "gardening", "learning_categories": ["pruning"]})
    listed["use_domain"].run(alma, name="gardening")
    in_use = [one.name for one in listed["list_domains"].run(alma) if one.in_use]
    assert in_use == ["gardening"]
    with pytest.raises(ScopeError, match="pruning"):
        listed["add_knowledge"].call(alma, {"agent": "dev", "domain": "astronomy", "fact": "The moon is far away"})
