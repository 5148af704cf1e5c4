"""The pair mode of the local model, and the data and the build behind it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tools.training.build import ADAPTERS, READER_WEIGHTS, build, build_below, build_reader, read_weights
from tools.training.examples import FOLDER as DATA
from tools.training.examples import HELD_OUT, read_examples, read_world

from alma.embedders.local import BELOW, FOLDER, PAIRS, READER, SHIPPED, LocalEmbedder
from alma.ports import ActionProbabilities, Calibration, FactProbabilities, PairReader, PairScores, RelevanceWeights
from alma.reading.local import LocalReader
from alma.reading.port import Pair, PairKind, Verdict

WRITTEN = Path(__file__).parents[1] / "reading" / "written"


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.mark.parametrize(
    ("task", "matters", "idle"),
    [
        ("When can I ship to prod?", "Production deploys happen Tuesdays at 10:00", "The cat is called Milo"),
        ("Order lunch for the team", "Priya is vegetarian", "The printer is on the second floor"),
        ("Write the release notes", "Keep public texts free of ticket numbers", "Backups run at night"),
    ],
)
def test_a_memory_that_matters_scores_higher(embedder: LocalEmbedder, task: str, matters: str, idle: str) -> None:
    needed, other = embedder.read_pairs([(task, matters), (task, idle)])
    assert needed.relevance > other.relevance


@pytest.mark.parametrize(
    ("task", "matters", "idle"),
    [
        ("When can I ship to prod?", "Production deploys happen Tuesdays at 10:00", "The cat is called Milo"),
        ("Write the release notes", "Keep public texts free of ticket numbers", "Backups run at night"),
    ],
)
def test_the_reader_finds_what_matters(embedder: LocalEmbedder, task: str, matters: str, idle: str) -> None:
    needed, other = embedder.score_relevance([(task, matters), (task, idle)])
    assert needed > other


def test_the_relevance_does_not_depend_on_what_was_read_before(embedder: LocalEmbedder) -> None:
    task, memory = "Book a table", "Priya is vegetarian"
    pairs = [(task, memory), (task, "The printer is broken"), ("Fix the printer", memory), (memory, task)]
    together = embedder.score_relevance(pairs)
    alone = [LocalEmbedder().score_relevance([pair])[0] for pair in pairs]
    assert together == alone
    assert len(set(together)) == len(pairs)


def test_probabilities_add_up_and_are_the_same_each_time(embedder: LocalEmbedder) -> None:
    pair = ("Retry the upload", "Never retry the upload")
    [first] = embedder.read_pairs([pair])
    [fresh] = LocalEmbedder().read_pairs([pair])
    assert first == fresh
    assert sum(first.action) == pytest.approx(1)
    assert sum(first.fact) == pytest.approx(1)


def test_any_text_can_be_read(embedder: LocalEmbedder) -> None:
    texts = ("", " ", "word " * 5000, "数据库每晚备份", "\x00", "[SEP]")
    pairs = [(one, other) for one in texts for other in texts]
    assert all(np.isfinite(scores.relevance) for scores in embedder.read_pairs(pairs))
    assert np.isfinite(embedder.score_relevance(pairs)).all()


def test_few_texts_are_kept(embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alma.embedders.local.MANY_TEXTS", 2)
    fresh = LocalEmbedder()
    pairs = [("Book a table", f"Guest {number} is late") for number in range(4)]
    assert [fresh.score_relevance([pair])[0] for pair in pairs] == embedder.score_relevance(pairs)


def test_the_model_with_all_its_files_is_small() -> None:
    assert sum((FOLDER / shipped.name).stat().st_size for shipped in SHIPPED) <= 30_000_000


def test_the_shipped_file_is_built_from_the_trained_weights() -> None:
    text = (FOLDER / "model.onnx").read_bytes()
    assert build(text, read_weights(ADAPTERS)) == (FOLDER / PAIRS.name).read_bytes()


def test_the_reader_is_built_from_the_trained_weights() -> None:
    text = (FOLDER / "model.onnx").read_bytes()
    assert build_below(text) == (FOLDER / BELOW.name).read_bytes()
    assert build_reader(text, read_weights(READER_WEIGHTS)) == (FOLDER / READER.name).read_bytes()


def test_a_changed_data_file_is_noticed() -> None:
    from tools.training.examples import hash_files

    assert json.loads((FOLDER / "MANIFEST.json").read_text())["pairs"]["data"] == hash_files()


def test_training_data_is_large_split_by_author_and_not_in_the_development_sets() -> None:
    train, held_out = (read_examples(is_held_out=one) for one in (False, True))
    assert len(train.worlds) + len(held_out.worlds) >= 120
    assert len(train.families) >= 1200
    assert len(train.conflicts) >= 3000
    assert not {row["author"] for row in (*train.families, *train.conflicts)} & HELD_OUT
    written = [json.loads(line) for line in (WRITTEN / "families.jsonl").read_text().splitlines()]
    known = {text.casefold() for row in written for text in row["same"]}
    own = {text.casefold() for row in (*train.families, *held_out.families) for text in row["same"]}
    assert not known & own


def test_worlds_refer_to_memories_that_exist() -> None:
    rows = [json.loads(line) for line in (DATA / "worlds.jsonl").read_text().splitlines()]
    for row in rows:
        world = read_world(row)
        assert len(world.questions) == len(world.about) >= 30
        assert any(not about for about in world.about)
        assert world.updates


class FixedPairs:
    """Scores that a test sets; counts what is read."""

    calibration = Calibration(
        known=RelevanceWeights((0, 1, 0), (0, 0)), unknown=RelevanceWeights((0, 1, 0), (0, 0)),
        same=0.9, opposite=0.9, agrees=0.9, replaces=0.9, alike=(0, 0, 1),
    )  # fmt: skip

    def __init__(self, action: ActionProbabilities, fact: FactProbabilities) -> None:
        self.scores, self.count = PairScores(0.0, action, fact), 0

    def prepare_pairs(self) -> None:
        pass

    def read_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScores]:
        self.count += len(pairs)
        return [self.scores] * len(pairs)

    def score_relevance(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [self.scores.relevance] * len(pairs)


@pytest.mark.parametrize(
    ("action", "fact", "about", "verdict"),
    [
        (ActionProbabilities(0.95, 0.02, 0.02, 0.01), FactProbabilities(0, 1, 0), PairKind.ACTION, Verdict.SAME),
        (ActionProbabilities(0.02, 0.95, 0.02, 0.01), FactProbabilities(0, 1, 0), PairKind.ACTION, Verdict.CONTRADICTS),
        (ActionProbabilities(0.60, 0.10, 0.20, 0.10), FactProbabilities(1, 0, 0), PairKind.ACTION, Verdict.UNSURE),
        (ActionProbabilities(1, 0, 0, 0), FactProbabilities(0.05, 0.92, 0.03), PairKind.FACT, Verdict.REPLACES),
        (ActionProbabilities(0, 0, 0, 1), FactProbabilities(0.92, 0.05, 0.03), PairKind.FACT, Verdict.SAME),
        (ActionProbabilities(1, 0, 0, 0), FactProbabilities(0.40, 0.40, 0.20), PairKind.FACT, Verdict.UNSURE),
    ],
)
def test_the_reader_acts_on_sure_scores_only(
    action: ActionProbabilities, fact: FactProbabilities, about: PairKind, verdict: Verdict
) -> None:
    pairs = FixedPairs(action, fact)
    assert isinstance(pairs, PairReader)
    assert LocalReader(pairs).compare([Pair("Use tabs", "Indent by hand", about)])[0].verdict is verdict


def test_what_words_decide_is_not_read() -> None:
    pairs = FixedPairs(ActionProbabilities(0, 1, 0, 0), FactProbabilities(0, 1, 0))
    relations = LocalReader(pairs).compare([Pair("Run the tests", "Ran the tests"), Pair("Run the tests", "Sleep")])
    assert [one.verdict for one in relations] == [Verdict.SAME, Verdict.CONTRADICTS]
    assert pairs.count == 2


def test_a_call_reads_few_pairs() -> None:
    pairs = FixedPairs(ActionProbabilities(0, 0, 0, 1), FactProbabilities(0, 0, 1))
    LocalReader(pairs).compare([Pair(f"Try way {number}", "Do nothing") for number in range(50)])
    assert pairs.count == 8
