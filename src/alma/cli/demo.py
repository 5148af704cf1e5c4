"""`alma demo`: the whole idea in under a minute, on a scratch database. Every number comes from the engine.

Each act shows something, checks that it is so, and returns its facts.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ..app import open_config
from ..errors import ALMAError, StorageError, install_command
from ..types.kinds import Outcome, Result
from ..upkeep import Lesson, find_groups, find_lessons, read_embedders
from .derive import Call, Reply, command, extra
from .manage import write_configuration
from .render import WIDTH, Output, draw_belief, name_type

if TYPE_CHECKING:
    from ..memory import ALMA

AGENT = "ops"
TASK = "Deploy the auth service"
BLUE_GREEN = "Blue-green deployment"
ROLLING = "Rolling update"
CANARY = "Canary release, migration first"
ARRIVALS = (
    (TASK, BLUE_GREEN, ""),
    (TASK, ROLLING, "pods not ready"),
    ("Deploy the cart service", BLUE_GREEN, ""),
    ("Deploy the mail service", ROLLING, "requests dropped"),
    ("Deploy the mail service", BLUE_GREEN, ""),
    ("Deploy the cart service", BLUE_GREEN, ""),
)
SNIPPET = """\
from alma import ALMA

alma = ALMA.from_config(".alma/config.yaml")
memories = alma.retrieve(task="Deploy the auth service", agent="ops")
prompt = memories.to_prompt()            # goes into your agent's prompt
alma.learn(agent="ops", task="Deploy the auth service", outcome="success",
           strategy_used="Blue-green deployment", retrieval_id=memories.retrieval_id)"""


class DemoError(ALMAError):
    """The engine did not do what the demo promises."""


def expect(holds: object, what: str) -> None:
    if not holds:
        raise DemoError(f"the demo expected that {what}; please report this with the output of `alma doctor --json`")


class Stage:
    """Where the demo is shown: on a terminal with pauses, and nowhere when JSON was asked for."""

    def __init__(self, alma: ALMA, out: Output, fast: bool) -> None:
        self.alma = alma
        self.out = out
        self._pause = 0.3 if out.is_terminal and not fast else 0.0
        self._acts = 0
        self.lessons: list[Lesson] = []

    def begin_act(self, title: str, what: str) -> None:
        self._acts += 1
        self.lessons = []
        self.say(f"\n── {self._acts}. {title} {'─' * (WIDTH - 8 - len(title))}", "bold")
        self.say(what, "dim")

    def say(self, text: str, style: str = "") -> None:
        if not self.out.as_json:
            self.out.line(text, style)
            time.sleep(self._pause)

    def show_prompt(self, title: str, prompt: str) -> str:
        self.say(f"  {title}:", "bold")
        for line in prompt.splitlines() or ["(nothing)"]:
            for part in wrap(line, WIDTH - 4, subsequent_indent="  ") or [""]:
                self.say(f"  │ {part}")
        return prompt

    def learn(self, task: str, strategy: str, error: str = "", task_type: str = "deployment") -> Outcome:
        """Record an outcome, and say how it went and what it taught, with the confidence in blue-green."""
        since, result = datetime.now(UTC), Result.FAILURE if error else Result.SUCCESS
        outcome = self.alma.learn(AGENT, task, result, strategy, task_type=task_type, error_message=error or None)
        lessons = find_lessons(self.alma, [outcome], since)
        self.lessons += lessons
        stars = [f"  ★ {name_type(one.memory).replace('_', '-')} {one.verb}" for one in lessons]
        belief = [strategy]
        if task_type == "deployment":
            belief = [f"{strategy.split()[0]:<10}", *(draw_belief(one, 16) for one in self.find_blue_green())]
        went = f"✗ {error}" if error else "✓ success"
        self.say(f"  {'  '.join(belief)}  {went}{''.join(stars)}", "red" if error else "green")
        return outcome

    def has_lesson(self, verb: str, kind: str) -> bool:
        return any(one.verb == verb and name_type(one.memory) == kind for one in self.lessons)

    def find_blue_green(self) -> list[Any]:
        """Return the strategy's lesson, also when it has faded."""
        heuristics: list[Any] = self.alma.list("heuristic", AGENT, status=None)
        return [one for one in heuristics if one.strategy == BLUE_GREEN]


def summarise(curve: list[Any]) -> list[dict[str, Any]]:
    return [{"confidence": one.confidence, "interval": one.confidence_interval, "status": one.status} for one in curve]


# -- the acts


def before(stage: Stage) -> dict[str, Any]:
    stage.begin_act("An agent without memory", f'The agent {AGENT!r} is asked: "{TASK}". What does it know?')
    if not read_embedders(stage.alma)[1]:
        stage.say(f"(no embedder is installed: words only. For meaning too: {install_command('local')})", "yellow")
    prompt = stage.show_prompt("the prompt before", stage.alma.retrieve(TASK, AGENT).to_prompt())
    expect(not prompt, "an empty memory gives an empty prompt")
    return {"prompt": prompt}


def outcomes(stage: Stage) -> dict[str, Any]:
    what = "After each task the agent records what it tried and how it went, nothing else."
    stage.begin_act("Outcomes come in", what)
    for attempt in ARRIVALS:
        stage.learn(*attempt)
    expect(stage.has_lesson("formed", "heuristic"), "three successes form a heuristic")
    expect(stage.has_lesson("formed", "anti_pattern"), "two failures form an anti-pattern")
    return {"learned": stage.lessons}


def after(stage: Stage) -> dict[str, Any]:
    stage.begin_act("The prompt after", f'The same question again: "{TASK}".')
    found = stage.alma.retrieve(TASK, AGENT)
    prompt = stage.show_prompt("the prompt after", found.to_prompt())
    expect(BLUE_GREEN in prompt, "the strategy that worked is in the prompt")
    why = next(one for one in found.explain() if one.memory_id == found.heuristics[0].id)
    stage.say("Why the strategy is there:", "dim")
    stage.out.show_parts({} if stage.out.as_json else why.factors)
    return {"prompt": prompt, "explanation": why}


def confidence(stage: Stage) -> dict[str, Any]:
    what = "Each success raises the confidence and narrows the interval around it (0 is left, 1 is right)."
    stage.begin_act("Belief is earned", what)
    curve = stage.find_blue_green()
    for service in ("auth", "mail", "cart", "auth"):
        stage.learn(f"Deploy the {service} service", BLUE_GREEN)
        curve += stage.find_blue_green()
    expect(curve[-1].confidence > curve[0].confidence, "successes raise the confidence")
    return {"curve": summarise(curve)}


def turn(stage: Stage) -> dict[str, Any]:
    what = "After a database change blue-green begins to fail (the bar is its confidence); something else works."
    stage.begin_act("The evidence turns", what)
    curve: list[Any] = []
    for number in range(12):
        # Failures until there is a warning of blue-green; in between, three canary releases that work.
        attempts = [] if stage.has_lesson("formed", "anti_pattern") else [BLUE_GREEN]
        for strategy in [*attempts, CANARY] if number in (1, 3, 5) else attempts:
            stage.learn(TASK, strategy, "database migration not compatible" if strategy == BLUE_GREEN else "")
            curve += stage.find_blue_green()
    expect(stage.has_lesson("faded", "heuristic"), "a heuristic that stopped working fades")
    expect(stage.has_lesson("formed", "anti_pattern"), "what fails again and again becomes an anti-pattern")
    found = stage.alma.retrieve(TASK, AGENT)
    expect([one.strategy for one in found.heuristics] == [CANARY], "the new strategy has replaced the old one")
    prompt = stage.show_prompt("the prompt now", found.to_prompt())
    return {"learned": stage.lessons, "curve": summarise(curve), "prompt": prompt}


def feedback(stage: Stage) -> dict[str, Any]:
    question, alma = "Where are the deploy logs?", stage.alma
    what = f'Two facts are about "{question}" A few thumbs decide which comes first.'
    stage.begin_act("Feedback moves the ranking", what)
    for fact in ("The deploy logs are in the observability console", "The deploy logs are on the bastion host"):
        alma.add_domain_knowledge(AGENT, "operations", fact)

    def rank() -> list[dict[str, Any]]:
        found = alma.retrieve(question, AGENT)
        scores = {why.memory_id: why.score for why in found.explain()}
        facts = [one for one in found.domain_knowledge if one.domain == "operations"]
        expect(len(facts) == 2, "both facts are found")
        return [
            {"id": one.id, "fact": one.fact, "rank": place, "score": scores[one.id], "confidence": one.confidence}
            for place, one in enumerate(facts, 1)
        ]

    first, second = rank()
    for _ in range(3):
        alma.record_feedback(first["id"], signal="thumbs_down")
        alma.record_feedback(second["id"], signal="thumbs_up")
    later = rank()
    for old, thumbs in ((first, "3 down"), (second, "3 up")):
        new = next(one for one in later if one["id"] == old["id"])
        ranks = f"rank {old['rank']} → {new['rank']}"
        stage.say(f"  {old['fact']:<50}  {thumbs:<6}  {old['score']:.3f} → {new['score']:.3f}  {ranks}")
    expect(later[0]["id"] == second["id"], "the fact with the thumbs up comes first")
    return {"before": [first, second], "after": later}


def silence(stage: Stage) -> dict[str, Any]:
    task = "Write a birthday poem for grandmother"
    stage.begin_act("An unrelated task", f'"{task}": deployments have no business in that prompt.')
    found = stage.alma.retrieve(task, AGENT)
    expect(not found.total_items, "nothing is retrieved for an unrelated task")
    stage.show_prompt("the prompt", found.to_prompt())
    return {"total_items": found.total_items}


def similar(stage: Stage) -> dict[str, Any]:
    what = "Light rewordings count together. A negation shares nearly every word with them, and is kept apart."
    stage.begin_act("The same in other words", what)
    clear = ("Clear the session cache", "Clearing the session cache", "We cleared the session cache.")
    strategies = (*clear, "Don't clear the session cache")
    made = [stage.learn("Fix the login test", strategy, task_type="testing") for strategy in strategies]
    groups = [group for one in made for group in find_groups(stage.alma, [one])]
    numbers = [list(dict.fromkeys(groups)).index(group) for group in groups]
    for strategy, number in zip(strategies, numbers, strict=True):
        stage.say(f"  {strategy:<30}  strategy {'ABCD'[number]}")
    expect(numbers == [0, 0, 0, 1], "light rewordings count together, and the negation is kept apart")
    return {"said": strategies, "groups": numbers}


def next_steps(stage: Stage) -> dict[str, Any]:
    commands = "alma init      a memory for this folder\nalma doctor    check that everything works"
    stage.begin_act("Where to go next", commands)
    stage.say("docs/tutorial  the same, step by step, in Python:", "dim")
    for line in SNIPPET.splitlines():
        stage.say(f"    {line}")
    return {"snippet": SNIPPET}


ACTS = (before, outcomes, after, confidence, turn, feedback, silence, similar, next_steps)


@command(
    "demo", extra("--keep", "DIR", "keep the scratch database in this new folder"), extra("--fast", "", "no pauses")
)
def play(call: Call) -> Reply:
    """Watch it learn, on a scratch database."""
    keep = call.args.keep
    try:
        if keep:
            Path(keep).mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise StorageError(f"{keep} is there already; --keep wants a new folder") from None
    except OSError as error:
        raise StorageError(f"{keep} cannot be made: {error.strerror}") from error
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="alma-demo-") as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(write_configuration("demo", "sqlite", "auto", "."), encoding="utf-8")
        file.chmod(0o600)
        with open_config(file) as alma:
            stage = Stage(alma, call.out, call.args.fast)
            facts = [{"act": act.__name__, **act(stage)} for act in ACTS]
            embedder = read_embedders(alma)[1] or None
    document = {"ok": True, "embedder": embedder, "acts": facts, "kept": keep}
    return Reply(document, f"\nThe database is kept: alma --config {file} list" if keep else "")
