"""Sketches of deleted texts: what they recognise, what they keep apart, and what they do not give away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma import ALMA, embedders
from alma.embedders.hash import HashEmbedder
from alma.engine import transaction, transfer
from alma.engine.admit import make_record
from alma.engine.context import Engine
from alma.engine.tombstones import Sketch, sketch_record
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.types.query import Where
from benchmarks import rewordings

ENGINE = Engine(store=MemoryStore(), project="p")
SALTS = rewordings.SALTS[:10]
FACT = "The payments gateway of the shop refuses cards from banks outside of Europe"


def sketch(text: str, salt: str = rewordings.SALTS[0]) -> Sketch:
    made = sketch_record(ENGINE, make_record(ENGINE, "domain_knowledge", {"domain": "x", "fact": text}), salt)
    assert made is not None
    return made


def share_near(one: str, other: str) -> float:
    """With how many of the salts two texts are taken for one value."""
    return mean(sketch(one, salt).is_near(sketch(other, salt)) for salt in SALTS)


class TestFigures:
    """`python -m benchmarks.rewordings` prints them. The thresholds were not chosen on the held-out part."""

    def test_words_alone_with_few_salts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rewordings, "SALTS", SALTS[:5])
        score = rewordings.measure_sketches("development", HashEmbedder())
        baseline = rewordings.measure_baseline("development")
        assert score.precision >= max(0.9, baseline.precision)
        assert score.recall >= max(0.6, baseline.recall)

    @pytest.mark.quality
    @pytest.mark.parametrize(("part", "precision", "recall"), [("development", 0.9, 0.6), ("held_out", 0.82, 0.4)])
    def test_words_alone(self, part: str, precision: float, recall: float) -> None:
        score, baseline = rewordings.measure_sketches(part, HashEmbedder()), rewordings.measure_baseline(part)
        assert score.precision >= max(precision, baseline.precision)
        assert score.recall >= max(recall, baseline.recall)

    @pytest.mark.quality
    @pytest.mark.parametrize(("part", "precision", "recall"), [("development", 0.87, 0.8), ("held_out", 0.87, 0.65)])
    def test_words_and_meaning(self, part: str, precision: float, recall: float) -> None:
        embedder = embedders.create("auto", dim=None, options={})
        if embedder is None:
            pytest.skip("the local embedder is not installed")
        score = rewordings.measure_sketches(part, embedder)
        assert score.precision >= precision
        assert score.recall >= recall

    def test_a_third_of_the_pairs_is_held_out(self) -> None:
        counts = {part: len(rewordings.read_pairs(part)) for part in rewordings.PARTS}
        assert counts == {"development": 93, "held_out": 47}


class TestApart:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Retry the payment call 3 times before giving up", "Retry the payment call 5 times before giving up"),
            ("Retry the payment call three times in a row", "Retry the payment call two times in a row"),
            (
                "Run the release script with --force on the server",
                "Run the release script with --dry-run on the server",
            ),
            ("Run the release script with -f on the server", "Run the release script on the server"),
            ("The importer may write to the archive bucket", "The importer may not write to the archive bucket"),
            ("Always squash the commits of a feature branch", "Never squash the commits of a feature branch"),
            ("The report of the sales team goes to Maria first", "The report of the sales team goes to Jonas first"),
            (
                "The nightly job copies rows from billing to archive",
                "The nightly job copies rows from archive to billing",
            ),
            (
                "Use tabs instead of spaces in all our source files",
                "Use spaces instead of tabs in all our source files",
            ),
            (
                "Write the exported report to out/report.csv at night",
                "Write the exported report to out/totals.csv at night",
            ),
        ],
    )
    def test_another_value_is_another_value(self, one: str, other: str) -> None:
        assert share_near(one, one) == 1
        assert share_near(one, other) <= 0.1

    def test_unrelated_texts_are_never_near(self) -> None:
        texts = [
            row[name] for part in rewordings.PARTS for row in rewordings.read_pairs(part) for name in ("deleted", "new")
        ]
        sketches = [sketch(" ".join(text)) for text in texts]
        words = [frozenset(" ".join(text).lower().split()) for text in texts]
        for at, one in enumerate(sketches):
            for number, other in enumerate(sketches[:at]):
                if len(words[at] & words[number]) < 2:
                    assert not one.is_near(other), (texts[at], texts[number])

    @given(
        st.lists(st.sampled_from("alpha bravo charlie delta echo foxtrot golf hotel".split()), min_size=1, unique=True)
    )
    def test_the_order_of_words_makes_no_difference(self, words: list[str]) -> None:
        assert sketch(" ".join(words)).words == sketch(" ".join(reversed(words))).words

    @given(st.text(min_size=1, max_size=300))
    def test_every_text_is_near_to_itself(self, text: str) -> None:
        record = make_record(ENGINE, "domain_knowledge", {"domain": "x", "fact": text})
        made = sketch_record(ENGINE, record, rewordings.SALTS[0])
        assert made is None or made.is_near(made)


class TestPrivacy:
    def test_a_tombstone_holds_no_word(self, alma: ALMA) -> None:
        alma.delete(alma.add_domain_knowledge("dev", "cards", FACT).id)
        [stone] = alma.engine.store.scan(Where(kinds={"tombstone"}))
        stored = json.dumps(dict(stone.body)).lower()
        assert not [word for word in FACT.lower().split() if len(word) > 4 and word in stored]

    def test_the_same_text_has_other_bits_in_another_store(self) -> None:
        one, other = (sketch(FACT, salt) for salt in rewordings.SALTS[:2])
        assert 80 < (one.words ^ other.words).bit_count() < 176

    def test_names_numbers_and_options_leave_one_byte(self) -> None:
        for mark in sketch("Call Maria at 5550199 and pass --quiet").marks:
            assert len(mark) == 2

    def test_no_single_word_can_be_confirmed(self) -> None:
        """The bits of a text are as far from those of its own words as from those of any other words."""
        others = "garden window violin mountain bicycle lantern orchard harbour pepper thunder".split()
        own, far = (
            [(sketch(FACT, salt).words ^ sketch(word, salt).words).bit_count() for word in words for salt in SALTS]
            for words in ("payments gateway shop refuses cards banks outside europe".split(), others)
        )
        assert abs(mean(own) - mean(far)) < 4


class TestReading:
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Iterator[list[ALMA]]:
        stores = [SQLiteStore(tmp_path / "alma.db") for _ in range(2)]
        memories = [ALMA(store, HashEmbedder(), project_id="app") for store in stores]
        yield memories
        for alma in memories:
            alma.close()

    def test_what_another_process_deletes_is_known_at_once(self, opened: list[ALMA]) -> None:
        one, other = opened
        for number in range(3):
            text = f"{FACT} in case {number}"
            one.delete(one.add_domain_knowledge("dev", "cards", text).id)
            assert other.add_domain_knowledge("dev", "cards", text, source="agent").status == "candidate"
        again = one.add_domain_knowledge("dev", "cards", f"{FACT} in case 1")
        assert again.status == "active"
        assert other.add_domain_knowledge("dev", "cards", f"{FACT} in case 1", source="agent").status == "active"
        one.delete(again.id)
        assert other.add_domain_knowledge("dev", "cards", f"{FACT} in case 1", source="agent").status == "candidate"

    def test_beyond_the_newest_tombstones_the_same_words_are_still_known(
        self, alma: ALMA, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in (transaction, __import__("alma.engine.tombstones", fromlist=["x"])):
            monkeypatch.setattr(module, "MOST_COMPARED", 3)
        for number in range(6):
            alma.delete(alma.add_domain_knowledge("dev", "cards", f"{FACT} in case {number}").id)
        for number in range(6):
            made = alma.add_domain_knowledge("dev", "cards", f"{FACT} in case {number}", source="agent")
            assert made.status == "candidate"

    @pytest.mark.parametrize("broken", [None, 7, "x", [], [1], [[{}], "zz", "", ""], [["a1"], "f", None, ""], {"a": 1}])
    def test_a_sketch_that_cannot_be_read_is_ignored(self, alma: ALMA, broken: Any) -> None:
        alma.delete(alma.add_domain_knowledge("dev", "cards", FACT).id)
        lines = list(transfer.export_lines(alma.engine))
        with ALMA(MemoryStore(), HashEmbedder(), project_id=alma.project_id) as other:
            records = []
            for record in transfer.read_records(lines, "export"):
                body = {**record.body, "sketch": broken} if record.kind == "tombstone" else record.body
                records.append(record.__class__(**{**{n: getattr(record, n) for n in record.__slots__}, "body": body}))
            transfer.import_records(other.engine, records, len(records))
            assert other.add_domain_knowledge("dev", "cards", FACT, source="agent").status == "candidate"
            assert other.add_domain_knowledge("dev", "cards", f"Yes: {FACT}", source="agent").status == "active"

    def test_tombstones_travel_with_their_salts(self, alma: ALMA) -> None:
        alma.delete(alma.add_domain_knowledge("dev", "cards", FACT).id)
        lines = list(transfer.export_lines(alma.engine))
        with ALMA(MemoryStore(), HashEmbedder(), project_id=alma.project_id) as other:
            other.delete(other.add_domain_knowledge("dev", "x", "Something else entirely about lamps").id)
            transfer.import_records(other.engine, transfer.read_records(lines, "export"), len(lines))
            turned = "From banks outside of Europe, cards are refused by the payments gateway of the shop"
            assert other.add_domain_knowledge("dev", "cards", turned, source="agent").status == "candidate"
