"""Fit the ranking of conversations and the relevance floor, and report the result on questions not used for fitting.

    python -m tools.fit_ranking --longmemeval FILE ... --locomo FILE ... [--unrelated FILE.jsonl:FIELD ...]
        [--found FILE] [--cache FILE] [--tries N]

Every question is asked once through the product, and the results are stored (`--found`, to be reused). Many blends are
then tried: the best blend is chosen on the questions of all folds but one and reported on that fold. The blend that is
best overall is printed, to be copied into `conversations.Blend`. The relevance floor is fitted in the same way, on
questions with an answer and on tasks that no conversation is about.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks._data import Data, Haystack, Question, locomo, longmemeval
from benchmarks._embedder import Remembering
from benchmarks._measures import all_at, any_at, mean, ndcg_at, recall
from benchmarks._product import AGENT, Product, Searching
from benchmarks._unrelated import UNRELATED

from alma.embedders.local import LocalEmbedder
from alma.engine.episodes import episode_of, number_of
from alma.engine.retrieve.conversations import (
    BLEND,
    FLOOR,
    Blend,
    RelevanceEvidence,
    RelevanceFloor,
    SearchHits,
    rank_conversations,
    rank_turns,
    search_conversations,
    weigh_conversations,
)
from alma.engine.retrieve.request import Request, RetrievalContext, prepare
from alma.types.kinds import MemoryType

FOLDS = 5
_ELSEWHERE = 0.05
"""To answer a question about other people with these people's talk is less wrong than to miss an answer."""
_FEW, _OF_MANY = 60, 4
"""How many unrelated tasks a store is asked: everything when there are few stores."""

STEPS: dict[str, Sequence[float]] = {
    "turn_words": (0.4, 0.5, 0.6, 0.7),
    "whole_words": (0.2, 0.3, 0.4, 0.5),
    "inside": (2.0, 2.5, 3.0, 4.0),
    "near": (0.6, 1.0, 1.5, 2.0),
    "after": (0.3, 0.6, 0.9),
    "part": (0.3, 0.5, 0.7, 0.9),
    "decay": (0.35, 0.5),
    "scant": (1.5, 2.0, 2.5, 3.0, 3.5),
    "words_in_turn": (0.4, 0.5, 0.6, 0.8),
    "beside": (0.15, 0.2, 0.25, 0.3, 0.4),
    "next_but_one": (0.0, 0.05, 0.1, 0.15, 0.2),
    "conversation": (0.1, 0.2, 0.3, 0.4, 0.6),
}
"""Only ratios matter, so `meaning` stays 1."""


@dataclass(frozen=True)
class Case:
    """A question and what was found for it."""

    data: str
    kind: str
    """'answerable', 'unanswerable', 'unrelated' (a task of another world) or 'elsewhere' (asked of other people)"""
    found: SearchHits
    sessions: dict[str, str]
    """By episode id."""
    turns: dict[str, list[str]]
    right_sessions: frozenset[str]
    right_turns: frozenset[str]
    signs: list[RelevanceEvidence]


def gather(data: Data, embedder: Remembering | None, tasks: Sequence[str]) -> Iterator[Case]:
    product = Product("alma", embedder)
    for number, haystack in enumerate(data.haystacks):
        with product.opened(haystack) as opened:
            yield from _cases(data, haystack, opened, number, tasks)
        print(f"\r{data.file}: {number + 1} of {len(data.haystacks)} stores", end="", file=sys.stderr)
    print(file=sys.stderr)


def _cases(data: Data, haystack: Haystack, opened: Searching, number: int, tasks: Sequence[str]) -> Iterator[Case]:
    episodes = opened.alma.list("episode", limit=100_000)
    sessions = {one.id: one.session_id for one in episodes if hasattr(one, "session_id")}
    turns = {id: opened.turns[session] for id, session in sessions.items()}
    names = {id: haystack.same(session) for id, session in sessions.items()}
    for question, kind in _questions(data, haystack, number, tasks):
        opened.clock.set(question.asked_at)
        request = Request(task=question.text, agent=AGENT, types=frozenset({MemoryType.EPISODE}), top_k=20)
        context = prepare(opened.alma.engine, request)
        found = search_conversations(context)
        yield Case(
            data.file, kind, found, names, turns, question.sessions, question.turns, _signs(context, found)
        )  # fmt: skip


def _signs(context: RetrievalContext, found: SearchHits) -> list[RelevanceEvidence]:
    return [] if context.question.idle else [one.evidence for one in weigh_conversations(context, found)]


def _questions(data: Data, haystack: Haystack, number: int, tasks: Sequence[str]) -> Iterator[tuple[Question, str]]:
    for question in haystack.questions:
        yield question, "answerable" if question.answerable else "unanswerable"
    at = max((question.asked_at for question in haystack.questions if question.asked_at), default=None)
    each = len(tasks) if len(data.haystacks) < _FEW else _OF_MANY
    for place in range(number * each, (number + 1) * each):
        text = tasks[place % len(tasks)]
        yield Question(text, "unrelated", text, at, False, frozenset()), "unrelated"
    others = [one for other in data.haystacks if other is not haystack for one in other.questions if one.answerable]
    if data.kind == "conversation" and others:
        for question in random.Random(number).sample(others, min(_FEW, len(others))):
            yield replace(question, asked_at=at), "elsewhere"


# -- ranking


def rankings(case: Case, blend: Blend) -> dict[str, tuple[list[str], frozenset[str]]]:
    """For each level the names in order, and the right ones."""
    ranked = rank_conversations(case.found, blend)
    out = {"session": (list(dict.fromkeys(case.sessions[one.id] for one in ranked)), case.right_sessions)}
    if case.right_turns:
        spoken = [(case.turns[episode_of(one.id)], number_of(one.id)) for one in rank_turns(case.found, ranked, blend)]
        out["turn"] = ([names[number] for names, number in spoken if number < len(names)], case.right_turns)
    return out


def worth(case: Case, blend: Blend) -> float:
    """What is to be made large: the right ones high, and all of them among the first."""
    scores = []
    for level, (ranked, right) in rankings(case, blend).items():
        cut = 5 if level == "session" else 10
        scores.append((ndcg_at(ranked, right, 10) + all_at(ranked, right, cut) + any_at(ranked, right, cut)) / 3)
    return mean(scores)


def blends(tries: int, seed: int = 5) -> list[Blend]:
    """The present one, and others drawn at random, half of them near it."""
    draw = random.Random(seed)
    made = [BLEND]
    for number in range(tries):
        names = list(STEPS) if number % 2 else draw.sample(list(STEPS), 3)
        made.append(BLEND._replace(**{name: draw.choice(STEPS[name]) for name in names}))
    return made


def fit_blend(cases: Sequence[Case], tries: int) -> Blend:
    answerable = [case for case in cases if case.kind == "answerable" and case.right_sessions]
    random.Random(1).shuffle(answerable)
    tried = blends(tries)
    table = []
    for number, blend in enumerate(tried, 1):
        table.append([worth(case, blend) for case in answerable])
        print(f"\r{number} of {len(tried)} blends", end="", file=sys.stderr)
    print(file=sys.stderr)
    shares = _shares(answerable)
    held_out: list[tuple[Case, Blend]] = []
    for fold in range(FOLDS):
        best = _best(table, shares, lambda at, fold=fold: at % FOLDS != fold)
        held_out += [(case, tried[best]) for at, case in enumerate(answerable) if at % FOLDS == fold]
    best = _best(table, shares, lambda at: True)
    _tell("as it is", [(case, BLEND) for case in answerable])
    _tell("fitted on the other folds", held_out)
    _tell("fitted on all, in sample", [(case, tried[best]) for case in answerable])
    return tried[best]


def _shares(cases: Sequence[Case]) -> list[float]:
    """Each data set counts the same, however many questions it has."""
    sizes = {name: sum(case.data == name for case in cases) for name in {case.data for case in cases}}
    return [1 / sizes[case.data] for case in cases]


def _best(table: Sequence[Sequence[float]], shares: Sequence[float], wanted: Any) -> int:
    totals = [
        sum(share * score for at, (share, score) in enumerate(zip(shares, row, strict=True)) if wanted(at))
        for row in table
    ]
    return max(range(len(table)), key=totals.__getitem__)


def _tell(title: str, chosen: Sequence[tuple[Case, Blend]]) -> None:
    print(f"\n{title}")
    answers: dict[tuple[str, str], list[tuple[list[str], frozenset[str]]]] = {}
    for case, blend in chosen:
        for level, answer in rankings(case, blend).items():
            answers.setdefault((case.data, level), []).append(answer)
    for (name, level), some in sorted(answers.items()):
        figures = " ".join(f"{measure} {value:.3f}" for measure, value in recall(some).items())
        print(f"  {name:28} {level:8} {len(some):4}  {figures}")


# -- silence


def speaks(floor: RelevanceFloor, case: Case) -> bool:
    return any(floor.passes(sign) for sign in case.signs)


def floors(words_only: bool) -> list[RelevanceFloor]:
    if words_only:
        return [
            RelevanceFloor(words_only=least / 100, known_name=known)
            for least in range(20, 80, 2)
            for known in (0.0, 0.1, 0.2, 0.3)
        ]
    return [
        RelevanceFloor(least=least / 100, small=(least - less) / 100, personal=personal, unknown_name=strange)
        for personal in (0.0, 0.04, 0.08, 0.12)
        for strange in (0.05, 0.11)
        for less in (0, 5, 10, 15)
        for least in range(46, 72, 2)
    ]


def fit_floor(cases: Sequence[Case], most_false_speech: float) -> None:
    """The floor with the least false silence among those that speak falsely at most so often; cross-validated."""
    heard = [case for case in cases if case.kind != "unanswerable"]
    random.Random(2).shuffle(heard)
    words_only = all(sign.cosine is None for case in heard for sign in case.signs)
    tried = floors(words_only)
    table = [[speaks(floor, case) for case in heard] for floor in tried]
    outcome: list[tuple[Case, bool]] = []
    for fold in range(FOLDS):
        best = _quietest(heard, table, most_false_speech, lambda at, fold=fold: at % FOLDS != fold)
        outcome += [(case, table[best][at]) for at, case in enumerate(heard) if at % FOLDS == fold]
    print(f"\nfloor fitted on the other folds: {_silence(outcome)}")
    best = _quietest(heard, table, most_false_speech, lambda at: True)
    print(f"floor fitted on all, in sample: {tried[best]}: {_silence(list(zip(heard, table[best], strict=True)))}")
    now = [(case, speaks(FLOOR, case)) for case in cases]
    for name in sorted({case.data for case in cases}):
        print(f"as it is, {name}: {_silence([one for one in now if one[0].data == name])}")


def _quietest(cases: Sequence[Case], table: Sequence[Sequence[bool]], limit: float, wanted: Any) -> int:
    def judged(row: Sequence[bool]) -> tuple[float, float]:
        """The worst data set counts: a floor that suits many small stores may be wrong for a large one."""
        own = [(case, spoke) for at, (case, spoke) in enumerate(zip(cases, row, strict=True)) if wanted(at)]
        each = [_rates([one for one in own if one[0].data == name]) for name in sorted({case.data for case in cases})]
        wrong, silent, elsewhere = (max(rates) for rates in zip(*each, strict=True))
        return (max(0.0, wrong - limit), silent + _ELSEWHERE * elsewhere)

    return min(range(len(table)), key=lambda at: judged(table[at]))


def _rates(outcome: Sequence[tuple[Case, bool]]) -> tuple[float, float, float]:
    """False speech, false silence, and speech about other people."""

    def share(kind: str, said: bool) -> float:
        some = [float(spoke == said) for case, spoke in outcome if case.kind == kind]
        return mean(some) if some else 0.0

    return share("unrelated", True), share("answerable", False), share("elsewhere", True)


def _silence(outcome: Sequence[tuple[Case, bool]]) -> str:
    told = []
    for kind, what in (
        ("unrelated", "spoke"),
        ("elsewhere", "spoke"),
        ("unanswerable", "spoke"),
        ("answerable", "silent"),
    ):
        some = [spoke if what == "spoke" else not spoke for case, spoke in outcome if case.kind == kind]
        if some:
            told.append(f"{what} on {sum(some)} of {len(some)} {kind} ({mean([float(one) for one in some]):.1%})")
    return ", ".join(told)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longmemeval", type=Path, nargs="*", default=[])
    parser.add_argument("--locomo", type=Path, nargs="*", default=[])
    parser.add_argument("--unrelated", nargs="*", default=[], metavar="FILE.jsonl:FIELD", help="tasks of another world")
    parser.add_argument("--found", type=Path, help="what was found, kept here; read if it is there")
    parser.add_argument("--cache", type=Path, help="vectors, kept here")
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--words-only", action="store_true", help="without an embedder")
    parser.add_argument("--most-false-speech", type=float, default=0.03)
    options = parser.parse_args()
    held = options.found and options.found.exists()
    if not (held or options.longmemeval or options.locomo):
        parser.error("name data with --longmemeval or --locomo, or what was found before with --found")
    cases = _cases_of(options)
    if options.tries:
        best = fit_blend(cases, options.tries)
        changed = [name for name in Blend._fields if getattr(best, name) != getattr(BLEND, name)]
        print("\nbest:", best._asdict(), "changed:", changed)
    fit_floor(cases, options.most_false_speech)
    return 0


def _cases_of(options: argparse.Namespace) -> list[Case]:
    if options.found and options.found.exists():
        held: list[Case] = pickle.loads(options.found.read_bytes())
        return held
    embedder = None if options.words_only else Remembering(LocalEmbedder(), options.cache)
    tasks = [*UNRELATED, *(task for file in options.unrelated for task in _tasks(file))]
    cases: list[Case] = []
    for data in [*map(longmemeval, options.longmemeval), *map(locomo, options.locomo)]:
        print(f"{data.file}: sha256 {data.sha256}")
        cases += gather(data, embedder, tasks)
    if embedder is not None:
        embedder.finish()
    if options.found:
        options.found.write_bytes(pickle.dumps(cases))
    return cases


def _tasks(source: str, most: int = 150) -> list[str]:
    """Some of the texts that a field of a JSONL file holds: `FILE:FIELD`."""
    file, _, field = source.rpartition(":")
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    found = list(dict.fromkeys(str(json.loads(line)[field]) for line in lines if line.strip()))
    return random.Random(3).sample(found, min(most, len(found)))


if __name__ == "__main__":
    sys.exit(main())
