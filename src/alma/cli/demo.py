"""`alma demo`: the whole idea in under a minute, on a scratch database. Every number comes from the engine.

Each act shows something, checks that it is so, and returns its facts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ALMAError, StorageError, install_command
from ..types.kinds import AntiPattern, Heuristic, Memory, Outcome
from .render import (
    PIPED_WIDTH,
    STYLES,
    Output,
    Piece,
    describe_memory,
    draw_belief,
    name_type,
    show_factors,
)

if TYPE_CHECKING:
    from ..inspection import Lesson
    from ..memory import ALMA

AGENT = "ops"
TASK = "Deploy the auth service"
BLUE_GREEN = "Blue-green deployment"
ROLLING = "Rolling update"
CANARY = "Canary release, migration first"
INCOMPATIBLE = "database migration not compatible"
_PAUSE = 0.3
_MOST_FAILURES = 12


class DemoError(ALMAError):
    """The engine did not do what the demo promises."""


def expect(holds: object, what: str) -> None:
    if not holds:
        raise DemoError(f"the demo expected that {what}; please report this with the output of `alma doctor --json`")


@dataclass(frozen=True, slots=True)
class Attempt:
    task: str
    strategy: str
    error: str | None = None

    @property
    def result(self) -> Piece:
        return (f"✗ {self.error}", "red") if self.error else ("✓ success", "green")


class Stage:
    """Where the demo is shown: on a terminal with pauses, and nowhere when JSON was asked for."""

    def __init__(self, out: Output, fast: bool) -> None:
        self.out = out
        self._pause = _PAUSE if out.is_terminal and not (fast or out.as_json) else 0.0
        self._acts = 0

    def act(self, title: str, what: str) -> None:
        self._acts += 1
        self.say((f"\n── {self._acts}. {title} {'─' * (PIPED_WIDTH - 8 - len(title))}", "bold"))
        self.say((what, "dim"))

    def say(self, *pieces: Piece) -> None:
        if not self.out.as_json:
            self.out.line(*pieces)
            time.sleep(self._pause)

    def panel(self, text: str, title: str) -> None:
        self.say((f"  {title}:", "bold"))
        for line in text.splitlines() or ["(nothing)"]:
            for part in wrap(line, PIPED_WIDTH - 4, subsequent_indent="  ") or [""]:
                self.say(("  │ ", "blue"), part)

    def show(self, show: Callable[..., None], *values: Any) -> None:
        if not self.out.as_json:
            show(self.out, *values)


def learn(alma: ALMA, attempt: Attempt, task_type: str = "deployment") -> tuple[Outcome, list[Lesson]]:
    from ..inspection import find_lessons

    since = datetime.now(UTC)
    result: Literal["failure", "success"] = "failure" if attempt.error else "success"
    outcome = alma.learn(
        AGENT, attempt.task, result, attempt.strategy, task_type=task_type, error_message=attempt.error
    )
    return outcome, find_lessons(alma, [outcome], since)


def name_lessons(lessons: Sequence[Lesson]) -> list[Piece]:
    return [
        (
            f"  ★ {name_type(one.memory).replace('_', '-')} {one.verb}",
            f"bold {STYLES[name_type(one.memory)] if one.verb in ('formed', 'restored') else 'yellow'}",
        )
        for one in lessons
    ]


def has_lesson(lessons: Sequence[Lesson], verb: str, kind: type[Memory]) -> bool:
    return any(one.verb == verb and isinstance(one.memory, kind) for one in lessons)


def find_blue_green(alma: ALMA) -> Heuristic:
    """Return the strategy's lesson, also when it has faded."""
    heuristics = [one for one in alma.list("heuristic", AGENT, status=None) if isinstance(one, Heuristic)]
    found = [one for one in heuristics if one.strategy == BLUE_GREEN]
    expect(len(found) == 1, "there is one heuristic for one strategy")
    return found[0]


def summarise(memory: Memory) -> dict[str, Any]:
    return {"confidence": memory.confidence, "interval": memory.confidence_interval, "status": memory.status}


# -- the acts


def before(alma: ALMA, stage: Stage) -> dict[str, Any]:
    from ..inspection import read_embedders

    stage.act("An agent without memory", f'The agent {AGENT!r} is asked: "{TASK}". What does it know?')
    if not read_embedders(alma)[1]:
        hint = f"(no embedder is installed: words only. For meaning too: {install_command('local')})"
        stage.say((hint, "yellow"))
    prompt = alma.retrieve(TASK, AGENT).to_prompt()
    expect(not prompt, "an empty memory gives an empty prompt")
    stage.panel(prompt, "the prompt before")
    return {"prompt": prompt}


ARRIVALS = (
    Attempt("Deploy the auth service", BLUE_GREEN),
    Attempt("Deploy the auth service", ROLLING, "pods not ready"),
    Attempt("Deploy the cart service", BLUE_GREEN),
    Attempt("Deploy the mail service", ROLLING, "requests dropped"),
    Attempt("Deploy the mail service", BLUE_GREEN),
    Attempt("Deploy the cart service", BLUE_GREEN),
)


def outcomes(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act("Outcomes come in", "After each task the agent records what it tried and how it went. Nothing else.")
    learned: list[Lesson] = []
    for attempt in ARRIVALS:
        _, lessons = learn(alma, attempt)
        learned += lessons
        stage.say(f"  {attempt.task}  {attempt.strategy:<21}  ", attempt.result, *name_lessons(lessons))
    expect(has_lesson(learned, "formed", Heuristic), "three successes form a heuristic")
    expect(has_lesson(learned, "formed", AntiPattern), "two failures form an anti-pattern")
    return {"learned": learned}


def after(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act("The prompt after", f'The same question again: "{TASK}".')
    found = alma.retrieve(TASK, AGENT)
    prompt = found.to_prompt()
    expect(BLUE_GREEN in prompt, "the strategy that worked is in the prompt")
    expect(any(BLUE_GREEN in one.better_alternative for one in found.anti_patterns), "the warning says what to do")
    stage.panel(prompt, "the prompt after")
    why = next(one for one in found.explain() if one.memory_id == found.heuristics[0].id)
    stage.say(("Why the strategy is there:", "dim"))
    stage.show(show_factors, why, describe_memory(found.heuristics[0]))
    return {"prompt": prompt, "explanation": why}


def confidence(alma: ALMA, stage: Stage) -> dict[str, Any]:
    what = "Each success raises the confidence and narrows the interval around it (0 is left, 1 is right)."
    stage.act("Belief is earned", what)
    curve = [find_blue_green(alma)]
    stage.say(f"  {curve[0].occurrence_count:>2} outcomes  ", (draw_belief(curve[0], 40), "green"))
    for service in ("auth", "mail", "cart", "auth"):
        learn(alma, Attempt(f"Deploy the {service} service", BLUE_GREEN))
        curve.append(find_blue_green(alma))
        stage.say(f"  {curve[-1].occurrence_count:>2} outcomes  ", (draw_belief(curve[-1], 40), "green"))
    first, last = (one.confidence_interval for one in (curve[0], curve[-1]))
    expect(curve[-1].confidence > curve[0].confidence, "successes raise the confidence")
    expect(last[1] - last[0] < first[1] - first[0], "more evidence narrows the interval")
    return {"curve": [summarise(one) for one in curve]}


def turn(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act(
        "The evidence turns",
        "After a database change blue-green begins to fail (the bar is its confidence); something else works.",
    )
    learned: list[Lesson] = []
    curve: list[Heuristic] = []
    canaries = 0
    for number in range(_MOST_FAILURES):
        # Failures until there is a warning of blue-green; in between, three canary releases that work.
        is_warned = has_lesson(learned, "formed", AntiPattern)
        attempts = [] if is_warned else [Attempt(TASK, BLUE_GREEN, INCOMPATIBLE)]
        if number % 2 and canaries < 3:
            canaries += 1
            attempts.append(Attempt(TASK, CANARY))
        for attempt in attempts:
            _, lessons = learn(alma, attempt)
            learned += lessons
            curve.append(find_blue_green(alma))
            belief = (draw_belief(curve[-1], 16), "green" if curve[-1].status == "active" else "dim")
            short, pieces = attempt.strategy.split()[0], name_lessons(lessons)
            stage.say(f"  {short:<10}  ", belief, "  ", attempt.result, *pieces)
    expect(has_lesson(learned, "faded", Heuristic), "a heuristic that stopped working fades")
    expect(has_lesson(learned, "formed", AntiPattern), "what fails again and again becomes an anti-pattern")
    replaced = alma.retrieve(TASK, AGENT)
    prompt = replaced.to_prompt()
    expect([one.strategy for one in replaced.heuristics] == [CANARY], "the new strategy has replaced the old one")
    stage.panel(prompt, "the prompt now")
    return {"learned": learned, "curve": [summarise(one) for one in curve], "prompt": prompt}


def feedback(alma: ALMA, stage: Stage) -> dict[str, Any]:
    question = "Where are the deploy logs?"
    facts = ("The deploy logs are in the observability console", "The deploy logs are on the bastion host")
    stage.act("Feedback moves the ranking", f'Two facts are about "{question}" A few thumbs decide which comes first.')
    for fact in facts:
        alma.add_domain_knowledge(AGENT, "operations", fact)

    def rank() -> list[dict[str, Any]]:
        found = alma.retrieve(question, AGENT)
        scores = {why.memory_id: why.score for why in found.explain()}
        held = [one for one in found.domain_knowledge if one.fact in facts]
        expect(len(held) == 2, "both facts are found")
        return [
            {"id": one.id, "fact": one.fact, "rank": place, "score": scores[one.id], "confidence": one.confidence}
            for place, one in enumerate(held, 1)
        ]

    first, second = rank()
    for _ in range(3):
        alma.record_feedback(first["id"], signal="thumbs_down")
        alma.record_feedback(second["id"], signal="thumbs_up")
    later = rank()
    for old, thumbs in ((first, "3 down"), (second, "3 up")):
        new = next(one for one in later if one["id"] == old["id"])
        scores = f"{old['score']:.3f} → {new['score']:.3f}"
        stage.say(f"  {old['fact']:<50}  {thumbs:<6}  {scores}  ", (f"rank {old['rank']} → {new['rank']}", "bold"))
    expect(later[0]["id"] == second["id"], "the fact with the thumbs up comes first")
    return {"before": [first, second], "after": later}


def silence(alma: ALMA, stage: Stage) -> dict[str, Any]:
    task = "Write a birthday poem for grandmother"
    stage.act("An unrelated task", f'"{task}": deployments have no business in that prompt.')
    found = alma.retrieve(task, AGENT)
    expect(not found.total_items, "nothing is retrieved for an unrelated task")
    stage.panel(found.to_prompt(), "the prompt")
    return {"total_items": found.total_items}


def similar(alma: ALMA, stage: Stage) -> dict[str, Any]:
    from ..inspection import find_groups

    stage.act(
        "The same in other words",
        "Light rewordings count together. A negation shares nearly every word with them, and is kept apart.",
    )
    said = (
        "Clear the session cache",
        "Clearing the session cache",
        "We cleared the session cache.",
        "Don't clear the session cache",
    )
    groups: list[str] = []
    for strategy in said:
        outcome, lessons = learn(alma, Attempt("Fix the login test", strategy), "testing")
        groups += find_groups(alma, [outcome])
        place = list(dict.fromkeys(groups)).index(groups[-1])
        stage.say(f"  {strategy:<30}  ", (f"strategy {'ABCD'[place]}", "bold"), *name_lessons(lessons))
    expect(len(set(groups[:3])) == 1, "light rewordings count together")
    expect(groups[3] not in groups[:3], "the negation is kept apart")
    return {"said": said, "groups": [list(dict.fromkeys(groups)).index(group) for group in groups]}


_SNIPPET = """\
from alma import ALMA

alma = ALMA.from_config(".alma/config.yaml")
memories = alma.retrieve(task="Deploy the auth service", agent="ops")
prompt = memories.to_prompt()            # goes into your agent's prompt
alma.learn(agent="ops", task="Deploy the auth service", outcome="success",
           strategy_used="Blue-green deployment", retrieval_id=memories.retrieval_id)"""


def next_steps(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act("Where to go next", "alma init      a memory for this folder\nalma doctor    check that everything works")
    stage.say(("docs/tutorial  the same, step by step, in Python:", "dim"))
    for line in _SNIPPET.splitlines():
        stage.say(f"    {line}")
    return {"snippet": _SNIPPET}


ACTS = (before, outcomes, after, confidence, turn, feedback, silence, similar, next_steps)


def play(out: Output, *, keep: str | None, fast: bool) -> int:
    from ..app import open_config
    from ..inspection import read_embedders
    from . import manage

    stage = Stage(out, fast)
    with _make_folder(keep) as folder:
        file = folder / "config.yaml"
        file.write_text(manage.write_configuration("demo", "sqlite", "auto", "."), encoding="utf-8")
        file.chmod(0o600)
        with open_config(file) as alma:
            facts = [{"act": act.__name__, **act(alma, stage)} for act in ACTS]
            embedder = read_embedders(alma)[1] or None
        if keep:
            stage.say((f"\nThe database is kept: alma --config {file} list", "dim"))
    out.answers_json({"ok": True, "embedder": embedder, "acts": facts, "kept": keep})
    return 0


@contextmanager
def _make_folder(keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="alma-demo-") as scratch:
            yield Path(scratch)
        return
    folder = Path(keep)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise StorageError(f"{folder} is there already; --keep wants a new folder") from None
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}") from error
    yield folder
