"""Measure whether prompts find rules they share no word with: `python -m benchmarks.rule_prompts [--hook N]`.

Each half of tests/hooks/data/meaning.jsonl is a project of forty rules in eight languages: some that two labelled
prompts each need, none of which shares a content word with its rule, and some that no prompt needs. Other prompts need
no rule. Parameters are chosen on the development half. At most three rules are shown by meaning.

With `--hook N`, N prompts that a warm worker can answer are also sent to the real hook, beside a running worker: the
table shows how many of them were answered in time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import claude_smart
from alma.engine.context import Engine
from alma.engine.rules import Teaching, teach
from alma.hooks import worker
from alma.hooks.drain import ProjectMemories, recall_rules
from alma.hooks.inject import ReadOnlyRules
from alma.hooks.paths import DataDir
from alma.hooks.relevance import find_relevant, read_prompt
from alma.reading.local_rules import find_choice
from alma.types.kinds import Reach, RuleSource
from alma.types.query import Where
from alma.types.record import cosine

from ._hook_world import PROJECT, repository
from ._measures import percentile

DATA = Path(__file__).parents[1] / "tests" / "hooks" / "data" / "meaning.jsonl"
HALVES = ("development", "held-out")
SHOWN = 3
_ASKED = 20
_COSINES = (0.35, 0.45)
_HOOK = str(Path(claude_smart.__file__).with_name("hook.py"))
_SECONDS = 60.0
Finder = Callable[[str], Sequence[str]]


class Case(NamedTuple):
    """A prompt and the rule it needs; empty if it needs none."""

    prompt: str
    rule: str


class Score(NamedTuple):
    """What a finder did with the prompts of a half."""

    half: str
    finder: str
    found: int
    needed: int
    others: int
    """Rules that were shown beside the one that was needed, or in its place."""
    disturbed: int
    silent: int
    """Prompts that need no rule, and `disturbed` those of them that were shown one."""


def read_half(half: str) -> tuple[list[str], list[Case]]:
    """Return the rules of a project, and the prompts in it."""
    rules: list[str] = []
    cases: list[Case] = []
    for line in DATA.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["half"] in (half, "both"):
            rules += [row["rule"]] if row["rule"] else []
            cases += [Case(prompt, row["rule"]) for prompt in row["prompts"]]
    return rules, cases


def store_rules(engine: Engine, rules: Sequence[str]) -> dict[str, str]:
    """Store the rules as a person stated them; return their texts by id."""
    teachings = []
    for number, rule in enumerate(rules):
        prefer, avoid = find_choice(rule)
        source = RuleSource.CORRECTION
        teachings.append(Teaching(f"t{number}", rule, Reach.PROJECT, source, said=rule, prefer=prefer, avoid=avoid))
    texts: dict[str, str] = {}
    for rule, lesson in zip(rules, teach(engine, teachings), strict=True):
        assert lesson.record is not None
        texts[lesson.record.id] = rule
    return texts


def score_half(half: str) -> list[Score]:
    """Return the scores of all finders on one half."""
    rules, cases = read_half(half)
    with tempfile.TemporaryDirectory() as home:
        data_dir = DataDir(home)
        with ProjectMemories(data_dir) as memory:
            engine = memory.engine(PROJECT)
            texts = store_rules(engine, rules)
            finders: dict[str, Finder] = {"words, as without a worker": find_by_words(data_dir)}
            finders |= {f"cosine ≥ {least}": find_by_cosine(engine, least) for least in _COSINES}
            finders["by meaning"] = lambda prompt: [id for id, _ in recall_rules(memory, PROJECT, "s", prompt, _ASKED)]
            return [score_finder(half, name, finder, texts, cases) for name, finder in finders.items()]


def find_by_words(data_dir: DataDir) -> Finder:
    def find(prompt: str) -> list[str]:
        with ReadOnlyRules(data_dir, PROJECT) as rules:
            return [rule.id for rule in find_relevant(rules, read_prompt(prompt), set(), SHOWN)]

    return find


def find_by_cosine(engine: Engine, least: float) -> Finder:
    records = engine.store.get([record.id for record in engine.store.scan(Where(kinds={"rule"}))])

    def find(prompt: str) -> list[str]:
        [vectors] = engine.encode([(prompt,)])
        near = {one.id: max(cosine(vector, own) for vector in vectors for own in one.vectors) for one in records}
        return sorted((id for id in near if near[id] >= least), key=lambda id: -near[id])

    return find


def score_finder(half: str, name: str, finder: Finder, texts: dict[str, str], cases: Sequence[Case]) -> Score:
    found = others = disturbed = 0
    for case in cases:
        shown = [texts[id] for id in finder(case.prompt)[:SHOWN]]
        if case.rule:
            found += case.rule in shown
            others += len(shown) - (case.rule in shown)
        else:
            disturbed += bool(shown)
    needed = sum(bool(case.rule) for case in cases)
    return Score(half, name, found, needed, others, disturbed, len(cases) - needed)


# -- the real hook, beside a running worker


class Answers(NamedTuple):
    """How often the hook showed what the worker can find, at the first prompt and at the others, and its times."""

    first: bool
    in_time: int
    sent: int
    median_ms: float
    p95_ms: float


@contextmanager
def run_worker(data_dir: DataDir) -> Iterator[None]:
    """Run a worker process, and wait until it can be asked."""
    command = [sys.executable, "-I", worker.FILE, "--home", data_dir.home]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + _SECONDS
        while not os.path.exists(data_dir.worker):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the worker did not start")
            time.sleep(0.01)
        yield
    finally:
        process.terminate()
        process.wait()


def measure_hook(runs: int, pause: float) -> Answers:
    """Send prompts that need a rule to the hook; `pause` is how long after the worker's start the first comes."""
    rules, cases = read_half(HALVES[0])
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        home.mkdir(mode=0o700)
        (home / "config.json").write_text('{"model": "off"}')
        folder = repository(Path(scratch) / "app")
        data_dir = DataDir(str(home))
        with ProjectMemories(data_dir) as memory:
            texts = store_rules(memory.engine(PROJECT), rules)
            prompts = []
            for case in cases:
                shown = [texts[id] for id, _ in recall_rules(memory, PROJECT, "s", case.prompt, _ASKED)][:SHOWN]
                prompts += [case] if case.rule and case.rule in shown else []
        with run_worker(data_dir):
            time.sleep(pause)
            sent = [send_prompt(data_dir, folder, prompts[number % len(prompts)], number) for number in range(runs + 1)]
    times = [milliseconds for _, milliseconds in sent[1:]]
    in_time = sum(is_shown for is_shown, _ in sent[1:])
    return Answers(sent[0][0], in_time, runs, median(times), percentile(times, 0.95))


def send_prompt(data_dir: DataDir, folder: Path, case: Case, number: int) -> tuple[bool, float]:
    """Return whether the hook showed the rule, and how long it took in milliseconds."""
    event = {"session_id": f"s{number}", "cwd": str(folder), "hook_event_name": "UserPromptSubmit"}
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "CLAUDE_CODE_ENTRYPOINT": "cli"}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-I", "-S", _HOOK, "--home", data_dir.home],
        input=json.dumps({**event, "prompt": case.prompt}).encode(),
        capture_output=True,
        env=environ,
        check=True,
    )
    milliseconds = (time.perf_counter() - began) * 1000
    context = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""
    return case.rule[:20] in context.replace("\\", ""), milliseconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rule_prompts", description=__doc__)
    parser.add_argument("--half", choices=HALVES, action="append", help="only this half")
    parser.add_argument("--hook", type=int, default=0, metavar="N", help="also send N prompts to the real hook")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds from the worker's start to the first prompt")
    options = parser.parse_args()
    for half in options.half or HALVES:
        for score in score_half(half):
            share = f"{score.found} of {score.needed} found, {score.others} others shown"
            print(f"{half:12} {score.finder:28} {share}; {score.disturbed} of {score.silent} disturbed")
    if options.hook:
        answers = measure_hook(options.hook, options.pause)
        first = "answered" if answers.first else "not answered in time"
        print(f"hook: first prompt {options.pause:g} s after the worker's start {first}")
        cost = f"median {answers.median_ms:.0f} ms, p95 {answers.p95_ms:.0f} ms"
        print(f"hook: {answers.in_time} of {answers.sent} later prompts answered in time; {cost}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
