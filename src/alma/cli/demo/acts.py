"""What happens in the demo, act by act. Each act shows something, checks that it is so, and returns its facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import install_command
from ...schema import type_of
from ...types.kinds import AntiPattern, Heuristic, Memory, Outcome, Result
from ..draw import factors, lesson
from ..learned import Learned, learned_since
from ..marks import STYLES, belief, sentence
from ..shapes import Line, line, stacked, table
from .stage import Row, Stage, expect

if TYPE_CHECKING:
    from ...core import ALMA

Act = Callable[["ALMA", Stage], dict[str, Any]]

AGENT = "ops"
TASK = "Deploy the auth service"
BLUE_GREEN = "Blue-green deployment"
ROLLING = "Rolling update"
CANARY = "Canary release, migration first"
INCOMPATIBLE = "database migration not compatible"


@dataclass(frozen=True, slots=True)
class Tried:
    task: str
    strategy: str
    outcome: str
    error: str | None = None

    @property
    def success(self) -> bool:
        return self.outcome == "success"


@dataclass(slots=True)
class Seen:
    """What became of a strategy's outcomes, one by one."""

    learned: list[Learned] = field(default_factory=list)

    def first(self, verb: str, kind: type[Memory]) -> Memory | None:
        return next((one.memory for one in self.learned if one.verb == verb and isinstance(one.memory, kind)), None)


def _learn(alma: ALMA, tried: Tried, task_type: str = "deployment") -> tuple[Outcome, list[Learned]]:
    since = alma.engine.clock()
    outcome = alma.learn(
        AGENT, tried.task, Result(tried.outcome), tried.strategy, task_type=task_type, error_message=tried.error
    )
    return outcome, learned_since(alma, [outcome], since)


def _result(tried: Tried) -> Line:
    if tried.success:
        return line("✓ success", "green")
    return line(f"✗ {tried.error}", "red")


def _lessons(learned: Sequence[Learned]) -> Line:
    return stacked(
        line(f"★ {type_of(one.memory).replace('_', '-')} {one.verb}", f"bold {_color(one)}") for one in learned
    )


def _color(one: Learned) -> str:
    return STYLES[type_of(one.memory)] if one.verb in ("formed", "restored") else "yellow"


# -- the acts


def before(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act("An agent without memory", f'The agent {AGENT!r} is asked: "{TASK}". What does it know?')
    if alma.engine.encoder is None:
        stage.say(f"(no embedder is installed: words only. For meaning too: {install_command('local')})", "yellow")
    prompt = alma.retrieve(TASK, AGENT).to_prompt()
    expect(not prompt, "an empty memory gives an empty prompt")
    stage.panel(prompt, "the prompt before")
    return {"prompt": prompt}


_ARRIVALS = (
    Tried("Deploy the auth service", BLUE_GREEN, "success"),
    Tried("Deploy the auth service", ROLLING, "failure", "pods not ready"),
    Tried("Deploy the cart service", BLUE_GREEN, "success"),
    Tried("Deploy the mail service", ROLLING, "failure", "requests dropped"),
    Tried("Deploy the mail service", BLUE_GREEN, "success"),
    Tried("Deploy the cart service", BLUE_GREEN, "success"),
)


def outcomes(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act("Outcomes come in", "After each task the agent records what it tried and how it went. Nothing else.")
    seen = Seen()

    def rows() -> Iterator[Row]:
        for number, tried in enumerate(_ARRIVALS, 1):
            _, learned = _learn(alma, tried)
            seen.learned += learned
            yield str(number), tried.task, tried.strategy, _result(tried), _lessons(learned)

    stage.grow(table("", "task", "strategy", "result", "learned"), rows())
    expect(seen.first("formed", Heuristic), "three successes form a heuristic")
    expect(seen.first("formed", AntiPattern), "two failures form an anti-pattern")
    stage.show(*map(lesson, seen.learned))
    return {"learned": seen.learned}


def after(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act("The prompt after", f'The same question again: "{TASK}".')
    found = alma.retrieve(TASK, AGENT)
    prompt = found.to_prompt()
    expect(BLUE_GREEN in prompt, "the strategy that worked is in the prompt")
    expect(any(BLUE_GREEN in one.better_alternative for one in found.anti_patterns), "the warning says what to do")
    stage.panel(prompt, "the prompt after")
    why = next(one for one in found.explain() if one.memory_id == found.heuristics[0].id)
    stage.say("Why the strategy is there:")
    stage.show(factors(why, sentence(found.heuristics[0])))
    return {"prompt": prompt, "explanation": why}


def confidence(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act(
        "Belief is earned",
        "Each success raises the confidence and narrows the interval around it (0 is left, 1 is right).",
    )
    heuristic = _blue_green(alma)
    curve = [heuristic]

    def rows() -> Iterator[Row]:
        yield str(heuristic.occurrence_count), line("so far", "dim"), line(belief(heuristic, 40), "green")
        for service in ("auth", "mail", "cart", "auth"):
            tried = Tried(f"Deploy the {service} service", BLUE_GREEN, "success")
            _learn(alma, tried)
            curve.append(_blue_green(alma))
            yield str(curve[-1].occurrence_count), _result(tried), line(belief(curve[-1], 40), "green")

    stage.grow(table("outcomes", "result", "confidence"), rows())
    expect(curve[-1].confidence > curve[0].confidence, "successes raise the confidence")
    expect(_width(curve[-1]) < _width(curve[0]), "more evidence narrows the interval")
    return {"curve": [_belief(one) for one in curve]}


def _blue_green(alma: ALMA) -> Heuristic:
    """The strategy's lesson, also when it has faded."""
    found = [
        one
        for one in alma.list("heuristic", AGENT, status=None)
        if isinstance(one, Heuristic) and one.strategy == BLUE_GREEN
    ]
    expect(len(found) == 1, "there is one heuristic for one strategy")
    return found[0]


def _width(memory: Memory) -> float:
    low, high = memory.confidence_interval
    return high - low


def _belief(memory: Memory) -> dict[str, Any]:
    return {"confidence": memory.confidence, "interval": memory.confidence_interval, "status": memory.status}


_MOST_FAILURES = 12


def turn(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act(
        "The evidence turns",
        "After a database change blue-green begins to fail (the bar is its confidence); something else works.",
    )
    seen = Seen()
    curve: list[Heuristic] = []

    def rows() -> Iterator[Row]:
        for tried in _turning(seen):
            _, learned = _learn(alma, tried)
            seen.learned += learned
            curve.append(_blue_green(alma))
            short = tried.strategy.split()[0]
            yield short, _result(tried), line(belief(curve[-1], 16), _faded(curve[-1])), _lessons(learned)

    stage.grow(table("tried", "result", "blue-green", "learned"), rows())
    expect(seen.first("faded", Heuristic), "a heuristic that stopped working fades")
    expect(seen.first("formed", AntiPattern), "what fails again and again becomes an anti-pattern")
    replaced = alma.retrieve(TASK, AGENT)
    prompt = replaced.to_prompt()
    expect([one.strategy for one in replaced.heuristics] == [CANARY], "the new strategy has replaced the old one")
    stage.panel(prompt, "the prompt now")
    return {"learned": seen.learned, "curve": [_belief(one) for one in curve], "prompt": prompt}


def _turning(seen: Seen) -> Iterator[Tried]:
    """Failures until blue-green is warned of; in between, three canary releases that work."""
    canaries = 0
    for number in range(_MOST_FAILURES):
        if seen.first("formed", AntiPattern) and canaries >= 3:
            return
        if not seen.first("formed", AntiPattern):
            yield Tried(TASK, BLUE_GREEN, "failure", INCOMPATIBLE)
        if number % 2 and canaries < 3:
            canaries += 1
            yield Tried(TASK, CANARY, "success")


def _faded(memory: Memory) -> str:
    return "green" if memory.status == "active" else "dim"


_FACTS = ("The deploy logs are in the observability console", "The deploy logs are on the bastion host")
_QUESTION = "Where are the deploy logs?"


def feedback(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act("Feedback moves the ranking", f'Two facts are about "{_QUESTION}" A few thumbs decide which comes first.')
    for fact in _FACTS:
        alma.add_domain_knowledge(AGENT, "operations", fact)
    first, second = _ranked(alma)
    for _ in range(3):
        alma.record_feedback(first["id"], signal="thumbs_down")
        alma.record_feedback(second["id"], signal="thumbs_up")
    later = _ranked(alma)
    made = table("fact", "score before", "thumbs", "score after", "rank")
    for old, thumbs in ((first, "3 down"), (second, "3 up")):
        new = next(one for one in later if one["id"] == old["id"])
        ranks = f"{old['rank']} → {new['rank']}"
        made.add(old["fact"], f"{old['score']:.3f}", thumbs, f"{new['score']:.3f}", line(ranks, "bold"))
    stage.show(made)
    expect(later[0]["id"] == second["id"], "the fact with the thumbs up comes first")
    return {"before": [first, second], "after": later}


def _ranked(alma: ALMA) -> list[dict[str, Any]]:
    found = alma.retrieve(_QUESTION, AGENT)
    scores = {why.memory_id: why.score for why in found.explain()}
    facts = [one for one in found.domain_knowledge if one.fact in _FACTS]
    expect(len(facts) == 2, "both facts are found")
    return [
        {"id": one.id, "fact": one.fact, "rank": rank, "score": scores[one.id], "confidence": one.confidence}
        for rank, one in enumerate(facts, 1)
    ]


_UNRELATED = "Write a birthday poem for grandmother"


def silence(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act("An unrelated task", f'"{_UNRELATED}": deployments have no business in that prompt.')
    found = alma.retrieve(_UNRELATED, AGENT)
    expect(not found.total_items, "nothing is retrieved for an unrelated task")
    stage.panel(found.to_prompt(), "the prompt")
    return {"total_items": found.total_items}


_SAID = (
    "Clear the session cache",
    "Clearing the session cache",
    "We cleared the session cache.",
    "Don't clear the session cache",
)


def similar(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act(
        "The same in other words",
        "Light rewordings count together. A negation shares nearly every word with them, and is kept apart.",
    )
    tried = [Tried("Fix the login test", said, "success") for said in _SAID]
    groups: list[str] = []

    def rows() -> Iterator[Row]:
        for one in tried:
            outcome, learned = _learn(alma, one, "testing")
            [record] = alma.engine.store.get([outcome.id])
            groups.append(record.links[0])
            place = list(dict.fromkeys(groups)).index(groups[-1])
            yield one.strategy, line(f"strategy {'ABCD'[place]}", "bold"), _lessons(learned)

    stage.grow(table("what was tried", "counted for", "learned"), rows())
    expect(len(set(groups[:3])) == 1, "light rewordings count together")
    expect(groups[3] not in groups[:3], "the negation is kept apart")
    return {"said": _SAID, "groups": [list(dict.fromkeys(groups)).index(group) for group in groups]}


_SNIPPET = """\
from alma import ALMA

alma = ALMA.from_config(".alma/config.yaml")
memories = alma.retrieve(task="Deploy the auth service", agent="ops")
prompt = memories.to_prompt()            # goes into your agent's prompt
alma.learn(agent="ops", task="Deploy the auth service", outcome="success",
           strategy_used="Blue-green deployment", retrieval_id=memories.retrieval_id)"""


def next_steps(alma: ALMA, stage: Stage) -> dict[str, Any]:
    stage.act("Where to go next", "alma init      a memory for this folder\nalma doctor    check that everything works")
    stage.say("docs/tutorial  the same, step by step, in Python:")
    stage.panel(_SNIPPET, "python")
    return {"snippet": _SNIPPET}


ACTS: tuple[Act, ...] = (before, outcomes, after, confidence, turn, feedback, silence, similar, next_steps)
