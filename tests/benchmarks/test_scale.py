from __future__ import annotations

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from alma.testing import make_record
from benchmarks import _scale_world as world_of
from benchmarks import scale

THINGS = "harbour kettle ladder meadow orchard pebble quarry ribbon saddle tunnel violin window".split()
DEEDS = "carries hides mends paints sells shakes turns warms washes weighs".split()


def sentences(count: int) -> list[str]:
    chance = random.Random(1)
    made = {
        f"The {chance.choice(THINGS)} {chance.choice(DEEDS)} a {chance.choice(THINGS)} at {n}" for n in range(count)
    }
    return sorted(made)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> world_of.World:
    monkeypatch.setattr(world_of, "LESSONS", 2)
    chance = np.random.default_rng(2)
    said = sentences(120)
    return world_of.World(said, chance.integers(-127, 128, (len(said), 384)).astype("i1"), said[:60])


def ignore(done: int, of: int) -> None:
    pass


def warm(p50: float) -> scale.Warm:
    costs = scale.Costs(p50, 2 * p50, p50, p50, 1.0, 1.0)
    return scale.Warm(costs, scale.Floor(3.0, 1.0, 0.5, 4.0, {"Chroma": 1.7}), 1.0, 1.0, 100.0, 120.0)


def at(size: int, p50: float, recall: float = 1.0) -> scale.At:
    return scale.At(size, scale.Filled(5000.0, 1.0, 1.0), warm(p50), 0.4, 0.3, {"none": recall, "tag": recall})


def test_no_two_memories_say_the_same(world: world_of.World) -> None:
    said = world_of.texts(world, 0, 5000)
    assert len(set(said)) == 5000
    assert said[:100] == world_of.texts(world, 0, 100)


def test_vectors_are_the_same_each_time_and_near_both_sentences(world: world_of.World) -> None:
    made = world_of.codes(world, 50, 90)
    assert (made == world_of.codes(world, 50, 90)).all()
    for (one, other), row in zip(world_of.pairs(world, 50, 90), made, strict=True):
        near = world_of.unit(world.codes) @ world_of.unit(row[None])[0]
        assert set(np.argsort(near)[-2:].tolist()) == {one, other}


def test_a_filter_is_the_same_for_the_store_and_by_hand() -> None:
    for name, chosen in scale.selections(2000).items():
        held = [number for number in range(2000) if chosen.where.accepts(_record(number))]
        assert held == np.flatnonzero(chosen.holds).tolist(), name
        assert name == "none" or 10 <= len(held) <= 40


def _record(number: int):  # type: ignore[no-untyped-def]
    fact = world_of._fact(number, "text")
    made = make_record(str(number), kind=fact["type"], agent=fact["agent"], tags=tuple(fact["tags"]))
    stamped = world_of.stamped(made, number)
    assert world_of.number_of(stamped) == number
    return stamped


def test_recall_counts_what_was_missed() -> None:
    scores, every = np.linspace(0, 1, 100), np.ones(100, bool)
    assert scale._part(scores, every, list(range(90, 100))) == 1.0
    assert scale._part(scores, every, [0, *range(91, 100)]) == 0.9
    assert scale._part(scores, every, []) == 0.0
    few = np.arange(100) % 50 == 0
    assert scale._part(scores, few, [0, 50]) == 1.0
    assert scale._part(scores, few, [0, 51]) == 0.0, "not within the filter"


def test_a_store_is_filled_once_and_finds_what_is_nearest(world: world_of.World, tmp_path: Path) -> None:
    folder, said = tmp_path / "300", []
    first = scale.fill(world, folder, 300, lambda done, of: said.append((done, of)))
    assert said == [(300, 300)]
    assert first.ingest_per_s > 0
    assert first.file_mb > 0
    assert scale.fill(world, folder, 300, ignore) == first
    with world_of.opened(folder / "alma.db") as alma:
        assert len(alma.list("domain_knowledge", status=None, limit=1000)) == 300
    found = scale.recall(replace(world, queries=world.sentences[:60]), folder, 300, ignore)
    assert found == dict.fromkeys(scale.selections(300), 1.0)


def test_recall_sees_a_store_that_answers_wrongly(
    world: world_of.World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale.fill(world, tmp_path / "300", 300, ignore)
    nearest = world_of.SQLiteStore.nearest
    monkeypatch.setattr(world_of.SQLiteStore, "nearest", lambda *asked: nearest(*asked)[:5])
    assert scale.recall(world, tmp_path / "300", 300, ignore)["none"] == 0.5


def test_the_floor_is_measured_beside_retrievals(world: world_of.World, tmp_path: Path) -> None:
    assert 1 < scale.measure_ratio(tmp_path, 100, world, runs=3) < 10_000


def test_growth_is_told_between_sizes() -> None:
    (step,) = scale.growth([at(1000, 10.0), at(10_000, 25.0)])
    assert (step["size"], step["p50"]) == (10.0, 2.5)


def test_the_table_marks_what_does_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    found = [at(100_000, 70.0), at(1_000_000, 900.0, recall=0.98)]
    told = {"machine": {"cpus": 2}, "sentences": {"many": 5}, "growth": scale.growth(found)}
    scale._table(found, told)
    shown = capsys.readouterr().out
    for problem in ("70 (asked 45)", "900 (asked 120)", "0.98 (asked 0.99)", "12.86 (asked 10)"):
        assert problem in shown
    assert "mixtures" in shown


def test_the_plot_has_a_line_for_each_way_of_asking(tmp_path: Path) -> None:
    scale._plot(str(tmp_path / "scale.svg"), [at(1000, 10.0), at(10_000, 25.0)])
    drawn = (tmp_path / "scale.svg").read_text()
    assert drawn.count("<polyline") == 3
    assert "cold process" in drawn


def test_sizes_are_whole_numbers_in_order() -> None:
    assert scale._sizes("10000,1000") == [1000, 10_000]
    with pytest.raises(argparse.ArgumentTypeError, match="from 50 on"):
        scale._sizes("5")


@pytest.mark.quality
def test_the_whole_run_in_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(world_of, "SENTENCES", 60)
    monkeypatch.setattr(world_of, "QUERIES", 60)
    monkeypatch.setattr(world_of, "LESSONS", 2)
    data = tmp_path / "texts.json"
    data.write_text(json.dumps([{"said": said} for said in sentences(140)]))
    asked = ["scale", "--sizes", "200", "--data", str(data), "--keep", str(tmp_path / "kept"), "--json"]
    monkeypatch.setattr("sys.argv", asked)
    assert scale.main() == 0
    told = json.loads(capsys.readouterr().out)
    (found,) = told["sizes"]
    assert found["recall"]["none"] == 1.0
    assert found["warm_p50_ms"] > 0 < found["cold_s"]
    assert found["peak_mb"] >= found["rss_mb"] > 10
    assert told["sentences"]["from"] == "texts.json"
    assert (tmp_path / "kept" / "200" / "alma.db").exists()
