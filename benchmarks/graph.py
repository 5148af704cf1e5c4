"""Measure whether the graph helps to retrieve multi-hop evidence: `python -m benchmarks.graph --data FILE [--json]`.

The file is LoCoMo's. Every conversation goes into its own store and every question is asked with `retrieve`: that is
"graph off". For "graph on", each turn is linked to the entities in it (`EntityExtractor`) and to what they are related
to. The first three turns found then lead, over entities that the question does not mention, to further turns. These
either take the last two of ten places (`fill`) or raise the rank of turns that were found anyway (`boost`). `names`
links by entities only; `words` also links by rare words, which is more than the extractor provides. The report shows
the difference that the graph makes, with its 95 % interval (paired bootstrap).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from alma.errors import ALMAError
from alma.graph import Entity, EntityExtractor, Graph, Relationship, create_graph_store
from alma.text import content_words, is_common, stem

from ._data import Data, DataError, Haystack, Question, limited, locomo
from ._embedder import Remembering, finishing
from ._measures import all_at, any_at, mean
from ._product import Product, Searching
from ._runner import EMBEDDERS, parser

POOL = 50
CUT = 10
_FIRST = 3
_PARTICULAR = 8
"""What more turns name than this leads nowhere in particular."""
_FILLED = 2
_WEIGHTS = (0.25, 0.5, 1.0)
_DRAWS = 5000
MEASURES: dict[str, Callable[[Sequence[str], frozenset[str]], float]] = {
    "any@10": lambda ranked, right: any_at(ranked, right, CUT),
    "all@10": lambda ranked, right: all_at(ranked, right, CUT),
}
WAYS = ("fill", *(f"boost {weight:g}" for weight in _WEIGHTS))


@dataclass
class Cost:
    building: float = 0.0
    turns: int = 0
    asking: list[float] = field(default_factory=list)
    hopping: list[float] = field(default_factory=list)


@dataclass
class Linked:
    """A conversation as a graph: its turns and the entities in them."""

    graph: Graph
    names: dict[str, set[str]]
    """Of each turn."""

    def further(self, first: Sequence[str], question: str) -> Counter[str]:
        """Return the turns that share entities with the first ones, without those in the question, and how many."""
        said = {stem(word) for word in content_words(question)}
        found: Counter[str] = Counter()
        for turn in first:
            for name in sorted(self.names.get(turn, ())):
                if said.issuperset(map(stem, content_words(name))):
                    continue
                near = self.graph.neighbours(name, direction="in", types=["mentions"], limit=_PARTICULAR + 1)
                if len(near) <= _PARTICULAR:
                    found.update({one.entity.id: 1 / len(near) for one in near if one.entity.id not in first})
        return found


def linked(haystack: Haystack, words: bool) -> Linked:
    graph = create_graph_store("memory")
    extractor = EntityExtractor()
    names: dict[str, set[str]] = {}
    speakers = {turn.speaker.casefold() for session in haystack.sessions for turn in session.turns}
    for session in haystack.sessions:
        for turn in session.turns:
            entities, related = extractor.extract(turn.text, speaker=turn.speaker)
            named = [one for one in entities if one.id not in speakers]
            if words:
                rare = {stem(word) for word in content_words(turn.text) if not is_common(word) and len(word) > 3}
                named += [Entity(word) for word in sorted(rare)]
            own = Entity(turn.id, "turn", id=turn.id)
            mentions = [Relationship(turn.id, "mentions", one.id) for one in named]
            graph.add_many([own, *entities, *named], [*mentions, *related])
            names[turn.id] = {one.id for one in named}
    return Linked(graph, names)


def filled(ranked: Sequence[str], found: Counter[str]) -> list[str]:
    """Return the ranking with its last places given to the best turns that were not found otherwise."""
    kept = list(ranked[: CUT - _FILLED])
    fresh = [name for name, _ in found.most_common() if name not in kept][:_FILLED]
    return list(dict.fromkeys([*kept, *fresh, *ranked]))


def boosted(ranked: Sequence[str], found: Counter[str], weight: float) -> list[str]:
    """Return the ranking as if each linked turn had been found some places higher."""
    most = max(found.values(), default=1.0)
    places = {name: 1 / (5 + at) for at, name in enumerate(ranked)}
    worth = {name: places.get(name, 0.0) + weight * 0.1 * found[name] / most for name in {*ranked, *found}}
    return sorted(worth, key=lambda name: (-worth[name], name))


def ways(ranked: Sequence[str], found: Counter[str]) -> dict[str, list[str]]:
    told = {"off": list(ranked), "fill": filled(ranked, found)}
    return told | {f"boost {weight:g}": boosted(ranked, found, weight) for weight in _WEIGHTS}


Scores = dict[str, dict[str, list[float]]]
"""By level and measure, then by way: one value for each question."""


def answered(
    searching: Searching, graphs: dict[str, Linked], question: Question, home: dict[str, str], cost: Cost
) -> Iterator[tuple[str, str, dict[str, float]]]:
    began = time.perf_counter()
    turns = searching.search(question.text, question.asked_at, "turn", POOL)
    cost.asking.append(time.perf_counter() - began)
    sessions = searching.search(question.text, question.asked_at, "session", POOL)
    for kind, graph in graphs.items():
        began = time.perf_counter()
        found = graph.further(turns[:_FIRST], question.text)
        cost.hopping.append(time.perf_counter() - began)
        for way, ranked in ways(turns, found).items():
            yield f"{kind} {way}", "turn", {name: one(ranked, question.turns) for name, one in MEASURES.items()}
        by_session: Counter[str] = Counter()
        for turn, worth in found.items():
            by_session[home[turn]] += worth
        for way, ranked in ways(sessions, by_session).items():
            yield f"{kind} {way}", "session", {name: one(ranked, question.sessions) for name, one in MEASURES.items()}


def run(data: Data, embedder: Remembering, kinds: Sequence[str]) -> tuple[Scores, Cost]:
    scores: Scores = defaultdict(lambda: defaultdict(list))
    cost = Cost()
    product = Product("alma", embedder)
    for haystack in data.haystacks:
        asked = [one for one in haystack.questions if one.kind in kinds and one.turns]
        if not asked:
            continue
        began = time.perf_counter()
        graphs = {"names": linked(haystack, words=False)}
        cost.building += time.perf_counter() - began
        cost.turns += sum(len(session.turns) for session in haystack.sessions)
        graphs["words"] = linked(haystack, words=True)
        home = {turn.id: session.id for session in haystack.sessions for turn in session.turns}
        with product.opened(haystack) as searching:
            for question in asked:
                for way, level, values in answered(searching, graphs, question, home, cost):
                    for name, value in values.items():
                        scores[f"{level} {name}"][way].append(value)
    return scores, cost


def interval(off: Sequence[float], on: Sequence[float]) -> tuple[float, float]:
    """Return the bootstrap interval of the differences; the seed is fixed, so that a run can be repeated."""
    chance = random.Random(1)
    differences = [two - one for one, two in zip(off, on, strict=True)]
    size = len(differences)
    drawn = sorted(mean([differences[chance.randrange(size)] for _ in range(size)]) for _ in range(_DRAWS))
    return drawn[int(0.025 * _DRAWS)], drawn[int(0.975 * _DRAWS) - 1]


def told(scores: Scores, cost: Cost, file: str) -> dict[str, object]:
    rows = []
    for measure, by_way in scores.items():
        off = by_way["names off"]
        for kind in ("names", "words"):
            for way in WAYS:
                on = by_way[f"{kind} {way}"]
                low, high = interval(off, on)
                rows.append(
                    {
                        "measure": measure,
                        "graph": f"{kind}, {way}",
                        "questions": len(off),
                        "off": mean(off),
                        "on": mean(on),
                        "difference": mean(on) - mean(off),
                        "low": low,
                        "high": high,
                    }
                )
    return {
        "file": file,
        "rows": rows,
        "building_ms_per_turn": 1000 * cost.building / cost.turns,
        "hop_ms": 1000 * mean(cost.hopping),
        "retrieve_ms": 1000 * mean(cost.asking),
    }


def main(argv: Sequence[str] | None = None) -> int:
    made = parser("graph", __doc__)
    made.add_argument("--kind", action="append", help="the kind of questions (default: multi-hop; may be repeated)")
    options = made.parse_args(argv)
    try:
        figures = _measured(options)
    except ALMAError as error:
        print(f"graph: {error}", file=sys.stderr)
        return 2
    print(json.dumps(figures, indent=2) if options.json else _table(figures))
    return 0


def _measured(options: argparse.Namespace) -> dict[str, object]:
    data = limited(locomo(Path(options.data)), options.limit)
    kinds = options.kind or ["multi-hop"]
    if not any(one.kind in kinds and one.turns for one in data.questions):
        raise DataError(f"{options.data} holds no question of the kinds {', '.join(kinds)}")
    with finishing(Remembering(EMBEDDERS[options.embedder](), options.cache)) as embedder:
        scores, cost = run(data, embedder, kinds)
    return told(scores, cost, data.file)


def _table(figures: dict[str, object]) -> str:
    lines = [f"{'measure':<16}{'graph':<20}{'n':>5}{'off':>8}{'on':>8}{'difference':>12}   95 %"]
    rows = figures["rows"]
    assert isinstance(rows, list)
    for row in rows:
        lines.append(
            f"{row['measure']:<16}{row['graph']:<20}{row['questions']:>5}{row['off']:>8.3f}{row['on']:>8.3f}"
            f"{row['difference']:>+12.3f}   {row['low']:+.3f} … {row['high']:+.3f}"
        )
    lines.append(
        f"building {figures['building_ms_per_turn']:.2f} ms a turn, hop {figures['hop_ms']:.2f} ms a question, "
        f"retrieve {figures['retrieve_ms']:.1f} ms a question"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
