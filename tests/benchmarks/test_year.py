"""The simulated year: its texts, its generator, and the replay on a few of the texts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from benchmarks._data import DataError
from benchmarks._product import Clock
from benchmarks._year_replay import TableComparer, YearReplay
from benchmarks._year_world import DATA, KINDS, PARTS, YearTexts, generate_events, load_year, plan_year

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.reading.port import UNSURE, Pair, Relation, Verdict
from alma.stores.sqlite import SQLiteStore
from benchmarks import year

CONTENT: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
TEXTS = load_year()
SAME, REPLACES = Relation(Verdict.SAME, 0.9), Relation(Verdict.REPLACES, 0.9)
LITERALS = re.compile(r"\d+(?:[.:]\d+)*|(?<![\w-])--?[a-z][\w-]*|#[\w-]+")
NAMES = re.compile(
    r"\b(mara|jonas|priya|tomasz|aiko|diego|production|staging|preview|sandbox|checkout|ledger|courier|portal|atlas|"
    r"paylane|kafka|redis|main|safari|firefox|birch|lokta|flagstone|vaultline)(?:s|'s)?\b"
)


def read_marks(text: str) -> tuple[set[str], set[str]]:
    """Return the numbers, options, channels and the like of a text, and the names in it."""
    return set(LITERALS.findall(text)), set(NAMES.findall(re.sub(r"\bprod\b", "production", text.casefold())))


def read_words(text: str) -> set[str]:
    return set(re.findall(r"[\w.:-]*\w", text.casefold()))


# -- texts


@pytest.mark.parametrize("name", ["statements", "strategies"])
def test_a_random_half_is_held_out(name: str) -> None:
    rows = CONTENT[name]
    held_out = set(Random(7).sample(range(len(rows)), len(rows) // 2))
    assert [row["part"] for row in rows] == [PARTS[number in held_out] for number in range(len(rows))]


def test_the_texts_are_as_many_as_they_should_be() -> None:
    statements = CONTENT["statements"]
    assert len(statements) == 120
    assert all(5 <= len(row["wordings"]) <= 7 for row in statements)
    assert sum("near_miss" in row for row in statements) >= 40
    assert sum("update" in row for row in statements) >= 30
    assert (len(CONTENT["sorts"]), len(CONTENT["strategies"]), len(CONTENT["questions"])) == (12, 40, 50)
    assert DATA.stat().st_size < 120_000


def test_wordings_of_one_meaning_have_the_same_numbers_options_and_names() -> None:
    for one in (*TEXTS.meanings.values(), *TEXTS.strategies.values()):
        first, *others = map(read_marks, one.wordings)
        assert all(other == first for other in others), one


@pytest.mark.parametrize("suffix", ["near", "update"])
def test_what_looks_alike_says_something_else(suffix: str) -> None:
    for meaning in TEXTS.meanings.values():
        if meaning.id.endswith(f"/{suffix}"):
            base_words = set().union(*map(read_words, TEXTS.meanings[meaning.base].wordings))
            assert all(read_words(text) - base_words for text in meaning.wordings), meaning.id


def test_the_documented_figures_are_about_these_texts() -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "benchmarks.md"
    assert TEXTS.sha256 in page.read_text(encoding="utf-8")


def test_no_text_has_two_meanings() -> None:
    meanings = [*TEXTS.meanings.values(), *TEXTS.strategies.values()]
    counts = Counter(text.casefold().rstrip(".") for one in meanings for text in one.wordings)
    assert [text for text, number in counts.items() if number > 1] == []


# -- events


def test_a_year_is_the_same_for_the_same_seed() -> None:
    first, again, other = (list(generate_events(TEXTS, 1500, seed)) for seed in (7, 7, 8))
    assert first == again
    assert first != other
    assert len(first) == len(other) == 1500


def test_events_are_in_order_and_say_what_their_truth_says() -> None:
    events = list(generate_events(TEXTS, 3000))
    assert events == sorted(events, key=lambda event: event.at)
    assert {event.kind for event in events} == set(KINDS)
    for event in events:
        if event.kind == "statement":
            meaning = TEXTS.meanings[event.truth]
            assert event.text in meaning.wordings
            assert (event.user if meaning.kind == "preference" else event.agent) in meaning.owners
        elif event.kind == "outcome":
            strategy = TEXTS.strategies[event.truth]
            assert event.text in strategy.wordings
            assert event.sort == strategy.sort
        elif event.kind == "conversation":
            assert 20 <= len(event.turns) <= 60
            said = " ".join(text for _, text in event.turns)
            assert all(any(text in said for text in TEXTS.meanings[id].wordings) for id in event.mentions)


def test_first_statements_do_not_depend_on_the_number_of_events() -> None:
    def list_first(count: int) -> list[tuple[str, str, str]]:
        stated = [event for event in generate_events(TEXTS, count) if event.kind == "statement"]
        return list(dict.fromkeys((event.text, event.agent, event.user) for event in stated))

    assert list_first(plan_year(TEXTS).size) == list_first(6000)


def test_an_old_value_is_not_stated_after_its_update() -> None:
    first_update: dict[tuple[str, str, str], Any] = {}
    for event in generate_events(TEXTS, 6000):
        if event.kind == "statement":
            base, _, suffix = event.truth.partition("/")
            if suffix == "update":
                first_update.setdefault((base, event.agent, event.user), event.at)
            assert suffix or (base, event.agent, event.user) not in first_update
    assert len(first_update) > 60


def test_what_a_person_deleted_is_repeated_only_by_agents_and_imports() -> None:
    deleted: dict[tuple[str, str, str], set[str]] = {}
    for event in generate_events(TEXTS, 6000):
        key = (event.truth, event.agent, event.user)
        if event.kind == "deletion":
            deleted[key] = set()
        elif event.kind == "statement" and key in deleted:
            deleted[key].add(event.source)
    assert len(deleted) == 12
    assert all(sources and sources <= {"agent", "import"} for sources in deleted.values())


def test_too_few_events_are_an_error() -> None:
    with pytest.raises(DataError, match="at least"):
        next(generate_events(TEXTS, 100))


# -- replay


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a few of the texts, for a year that takes seconds."""
    kinds = {"fact": 5, "preference": 3, "rule": 2, "warning": 2}
    statements = []
    for kind, number in kinds.items():
        statements += [row for row in CONTENT["statements"] if row["kind"] == kind][:number]
    few: dict[str, Any] = {
        "statements": statements,
        "sorts": CONTENT["sorts"][:2],
        "talks": CONTENT["talks"] | {"count": 2},
    }
    sorts = {row["id"] for row in few["sorts"]}
    few["strategies"] = [row for row in CONTENT["strategies"] if row["sort"] in sorts]
    path = tmp_path_factory.mktemp("year") / "few.json"
    path.write_text(json.dumps(CONTENT | few), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def few(data: Path) -> YearTexts:
    return load_year(data)


@pytest.fixture
def hash_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the year run without a model."""
    monkeypatch.setattr("benchmarks._year_replay.ALMA", HashedALMA)


class HashedALMA(ALMA):
    @classmethod
    def quickstart(cls, project_id: str, storage_dir: Path, clock: Clock) -> ALMA:  # type: ignore[override]
        """Open a memory with the embedder that needs no model."""
        return ALMA(SQLiteStore(storage_dir / "alma.db"), HashEmbedder(), project_id=project_id, clock=clock)


@dataclass(frozen=True)
class FakeReport:
    merged: int
    counts: dict[str, int]
    problems: tuple[str, ...] = ()


@pytest.fixture
def upkeep_days(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Give `ALMA` an upkeep that does nothing, and return the days on which it ran."""
    days: list[Any] = []

    def upkeep(self: ALMA, *, dry_run: bool) -> FakeReport:
        assert not dry_run
        days.append(self.engine.clock().date())
        return FakeReport(merged=1, counts={"archived": 2}, problems=("no model",))

    monkeypatch.setattr(ALMA, "upkeep", upkeep)
    return days


@pytest.mark.usefixtures("hash_embedder")
def test_a_year_is_replayed_and_measured(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], upkeep_days: list[Any]
) -> None:
    chart = tmp_path / "year.svg"
    assert year.main(["--data", str(data), "--events", "600", "--json", "--plot", str(chart)]) == 0
    report = json.loads(capsys.readouterr().out)
    [run] = report["runs"]
    figures = run["figures"]
    assert re.fullmatch(r"[0-9a-f]{64}", report["sha256"])
    assert sum(run["events"][kind] for kind in KINDS) == 600
    assert figures["outcomes acknowledged"] == run["events"]["outcome"] > 300
    lost = ("outcomes lost", "statements lost", "conversations lost", "outcomes counted too often")
    assert [figures[name] for name in lost] == [0, 0, 0, 0]
    assert figures["deleted, back in the same words"] == 0
    assert figures["mean tokens of the prompt"] > 0
    assert len(upkeep_days) == len(set(upkeep_days)) == len(run["snapshots"]) == 53
    assert run["upkeep"] == {"merged": 53, "archived": 106, "problems": 53}
    assert run["notes"] == ["in 53 weeks: no model"]
    assert chart.read_text().count("<polyline") == 4


@pytest.mark.usefixtures("hash_embedder")
def test_people_get_a_table(data: Path, capsys: pytest.CaptureFixture[str], upkeep_days: list[Any]) -> None:
    assert year.main(["--data", str(data), "--events", "120"]) == 0
    text = capsys.readouterr().out
    assert "duplicates, stated, held_out" in text
    assert load_year(data).sha256 in text.replace("\n", "")


def answer_prompts(prompts: Path, texts: YearTexts, target: Path, *, is_right: bool) -> Path:
    """Answer dumped prompts from the ground truth, or with "same" throughout."""
    meanings = {text: one for one in texts.meanings.values() for text in one.wordings}
    lines = []
    for row in map(json.loads, prompts.read_text(encoding="utf-8").splitlines()):
        pairs = []
        for pair in json.loads(row["text"])["pairs"]:
            old, new = meanings[pair["old"]].id, meanings[pair["new"]].id
            relation = "replaces" if new == f"{old}/update" else "same" if old == new else "unrelated"
            pairs.append({"n": pair["n"], "relation": relation if is_right else "same", "probability": 0.95})
        lines.append(json.dumps({"id": row["id"], "value": {"pairs": pairs}}))
    target.write_text("\n".join(lines), encoding="utf-8")
    return target


@pytest.mark.quality
def test_recorded_answers_merge_what_says_the_same(
    data: Path, few: YearTexts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(year, "DUMP_EVENTS", plan_year(few).size)
    prompts = tmp_path / "prompts.jsonl"
    assert year.main(["--data", str(data), "--dump", str(prompts)]) == 0
    answers = answer_prompts(prompts, few, tmp_path / "right.jsonl", is_right=True)
    capsys.readouterr()
    options = ["--data", str(data), "--events", "150", "--answers", str(answers)]
    assert year.main([*options, "--without", "--json"]) == 0
    merged, plain = (run["figures"] for run in json.loads(capsys.readouterr().out)["runs"])
    for part in PARTS:
        assert merged[f"duplicates, stated, {part}"] < plain[f"duplicates, stated, {part}"]
        assert merged[f"wrong merges, {part}"] == 0
    assert merged["updates whose old value is still in use"] < plain["updates whose old value is still in use"]
    assert merged["statements lost"] == 0
    assert plain["current meanings that no memory in use says"] == 0

    wrong = answer_prompts(prompts, few, tmp_path / "wrong.jsonl", is_right=False)
    table = year.join_answers(prompts, wrong)
    figures = year.run_year(few, plan_year(few).size, table=table)["figures"]
    assert sum(figures[f"wrong merges, {part}"] for part in PARTS) > 0
    assert figures["examples"]


def test_the_table_answers_in_both_directions_but_for_replacements() -> None:
    comparer = TableComparer({("a", "b", False): SAME, ("c", "d", False): REPLACES})
    pairs = [Pair("a", "b"), Pair("b", "a"), Pair("c", "d"), Pair("d", "c"), Pair("a", "d")]
    assert comparer.compare(pairs) == [SAME, SAME, REPLACES, UNSURE, UNSURE]
    assert (comparer.known, comparer.unknown) == (3, {("d", "c", False): pairs[3], ("a", "d", False): pairs[4]})


@pytest.mark.usefixtures("hash_embedder")
def test_a_lost_outcome_and_a_lost_statement_are_noticed(few: YearTexts, tmp_path: Path) -> None:
    replay = YearReplay(few, tmp_path, has_upkeep=False)
    replay.run(generate_events(few, 150), lambda done: None)
    stated = [id for id in replay.ledger.stated if id.startswith("kno") and id not in replay.ledger.deleted]
    gone = [next(iter(replay.ledger.outcomes)), stated[0]]
    replay.alma.engine.store.delete(gone)
    figures = year.measure_year(replay)
    replay.alma.close()
    assert (figures["outcomes lost"], figures["statements lost"]) == (1, 1)
