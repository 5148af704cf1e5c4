"""`alma demo`: what alma does, in under a minute, on a temporary database.

All numbers come from the engine, and each act checks what it claims.
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
from ..files import create_private
from ..schema import type_of
from ..types.kinds import Outcome, Result
from ..types.slice import MemorySlice
from ..upkeep import find_groups, find_lessons, read_embedders
from .derive import Argument, Call, Reply, command
from .manage import write_configuration
from .render import WIDTH, Output, draw_belief

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
NEXT = """\
alma init      create a memory for this folder
alma doctor    check that everything works
docs/tutorial  the same steps in Python:"""
SNIPPET = """\
    from alma import ALMA

    alma = ALMA.from_config(".alma/config.yaml")
    memories = alma.retrieve(task="Deploy the auth service", agent="ops")
    prompt = memories.to_prompt()            # goes into your agent's prompt
    alma.learn(agent="ops", task="Deploy the auth service", outcome="success",
               strategy_used="Blue-green deployment", retrieval_id=memories.retrieval_id)"""


class DemoError(ALMAError):
    """The engine did not behave as the demo promises."""


def expect(holds: object, what: str) -> None:
    """Raise DemoError unless the engine did what the demo says."""
    if not holds:
        raise DemoError(
            f"the demo expected that {what}; please report this bug with the output of `alma doctor --json`"
        )


class Stage:
    """Shows the demo: on a terminal with pauses, and silently with --json."""

    def __init__(self, alma: ALMA, out: Output, fast: bool) -> None:
        self.alma = alma
        self.out = out
        self._pause = 0.3 if out.is_terminal and not fast else 0.0
        self.acts: list[str] = []
        self.lessons: set[str] = set()
        """Lessons of this act, such as `heuristic formed`."""

    def begin_act(self, title: str, what: str) -> None:
        """Start an act with a title and a sentence."""
        self.acts.append(title)
        self.lessons.clear()
        self.say(f"\n── {len(self.acts)}. {title} {'─' * (WIDTH - 8 - len(title))}", "bold")
        self.say(what, "dim")

    def say(self, text: str, style: str = "") -> None:
        """Print a line, unless the output is JSON."""
        if not self.out.as_json:
            self.out.line(text, style)
            time.sleep(self._pause)

    def show_prompt(self, title: str, task: str) -> MemorySlice:
        """Retrieve for a task, print the prompt and return the memories."""
        memories = self.alma.retrieve(task, AGENT)
        self.say(f"  {title}:", "bold")
        for line in memories.to_prompt().splitlines() or ["(empty)"]:
            for part in wrap(line, WIDTH - 4, subsequent_indent="  ") or [""]:
                self.say(f"  │ {part}")
        return memories

    def learn(self, task: str, strategy: str, error: str = "", task_type: str = "deployment") -> Outcome:
        """Record an outcome, and print the result, what was learned, and the confidence in blue-green."""
        since, result = datetime.now(UTC), Result.FAILURE if error else Result.SUCCESS
        outcome = self.alma.learn(AGENT, task, result, strategy, task_type=task_type, error_message=error or None)
        changes = find_lessons(self.alma, [outcome], since)
        lessons = [f"{type_of(one.memory).replace('_', '-')} {one.verb}" for one in changes]
        self.lessons.update(lessons)
        belief = [strategy]
        if task_type == "deployment":
            belief = [f"{strategy.split()[0]:<10}", *(draw_belief(one, 16) for one in self.find_blue_green())]
        shown = [*belief, f"✗ {error}" if error else "✓ success", *(f"★ {lesson}" for lesson in lessons)]
        self.say(f"  {'  '.join(shown)}", "red" if error else "green")
        return outcome

    def find_blue_green(self) -> list[Any]:
        """Return the heuristic of the blue-green strategy, even if it has faded."""
        heuristics: list[Any] = self.alma.list("heuristic", AGENT, status=None)
        return [one for one in heuristics if one.strategy == BLUE_GREEN]


# -- the acts


def learn_what_works(stage: Stage) -> None:
    """Show acts 1 to 4: an empty memory, outcomes, the prompt after them, and growing confidence."""
    stage.begin_act("An agent without memory", f'The agent {AGENT!r} gets a task: "{TASK}". Its memory is empty.')
    if not read_embedders(stage.alma)[1]:
        stage.say(
            f"(No embedder is installed, so search uses words only. To search by meaning: {install_command('local')})",
            "yellow",
        )
    expect(not stage.show_prompt("the prompt before", TASK).to_prompt(), "an empty memory gives an empty prompt")

    what = "After each task, the agent records what it tried and whether it worked."
    stage.begin_act("The agent records outcomes", what)
    for attempt in ARRIVALS:
        stage.learn(*attempt)
    expect("heuristic formed" in stage.lessons, "three successes form a heuristic")
    expect("anti-pattern formed" in stage.lessons, "two failures form an anti-pattern")

    stage.begin_act("The prompt after", f'The same task again: "{TASK}".')
    memories = stage.show_prompt("the prompt after", TASK)
    expect(BLUE_GREEN in memories.to_prompt(), "the strategy that worked is in the prompt")
    why = next(one for one in memories.explain() if one.memory_id == memories.heuristics[0].id)
    stage.say("How the strategy was scored:", "dim")
    stage.out.show({} if stage.out.as_json else why.factors)

    what = "Each success raises the confidence and narrows its interval (the scale runs from 0 to 1)."
    stage.begin_act("Confidence grows with evidence", what)
    [before] = stage.find_blue_green()
    for service in ("auth", "mail", "cart", "auth"):
        stage.learn(f"Deploy the {service} service", BLUE_GREEN)
    [after] = stage.find_blue_green()
    expect(after.confidence > before.confidence, "successes raise the confidence")


def turn_evidence(stage: Stage) -> None:
    """Show act 5: a strategy stops working and another one replaces it."""
    what = "After a database change, blue-green starts to fail (the bar is its confidence) and canary works."
    stage.begin_act("The evidence changes", what)
    for number in range(12):
        # Blue-green fails until a warning forms; meanwhile three canary releases succeed.
        if "anti-pattern formed" not in stage.lessons:
            stage.learn(TASK, BLUE_GREEN, "database migration not compatible")
        if number in (1, 3, 5):
            stage.learn(TASK, CANARY)
    expect("heuristic faded" in stage.lessons, "a heuristic that stopped working fades")
    expect("anti-pattern formed" in stage.lessons, "repeated failures form an anti-pattern")
    memories = stage.show_prompt("the prompt now", TASK)
    expect([one.strategy for one in memories.heuristics] == [CANARY], "the new strategy has replaced the old one")


def give_feedback(stage: Stage) -> None:
    """Show act 6: feedback changes the order of two facts."""
    question, alma = "Where are the deploy logs?", stage.alma
    what = f'Two facts answer "{question}" Ratings decide which comes first.'
    stage.begin_act("Feedback changes the ranking", what)
    texts = ("The deploy logs are in the observability console", "The deploy logs are on the bastion host")
    facts = {alma.add_domain_knowledge(AGENT, "operations", text).id: text for text in texts}

    def score_facts() -> dict[str, float]:
        """Return the scores of the facts by their ids, best first."""
        return {one.memory_id: one.score for one in alma.retrieve(question, AGENT).explain() if one.memory_id in facts}

    earlier = score_facts()
    expect(len(earlier) == 2, "both facts are found")
    first, second = earlier
    for _ in range(3):
        alma.record_feedback(first, signal="thumbs_down")
        alma.record_feedback(second, signal="thumbs_up")
    later = score_facts()
    for id, thumbs in ((first, "3 down"), (second, "3 up")):
        places = " → ".join(str([*scores].index(id) + 1) for scores in (earlier, later))
        stage.say(f"  {facts[id]:<50}  {thumbs:<6}  {earlier[id]:.3f} → {later[id]:.3f}  rank {places}")
    if earlier[first] < earlier[second]:
        stage.say("  (Of two similar facts, the newer one comes first until ratings change that.)", "dim")
    expect([*later] == [second, first], "the fact with the thumbs up comes first")


def tell_apart(stage: Stage) -> None:
    """Show acts 7 and 8: an unrelated task, and rewordings of a strategy."""
    task = "Write a birthday poem for grandmother"
    stage.begin_act("An unrelated task", f'"{task}": nothing about deployments is retrieved.')
    expect(not stage.show_prompt("the prompt", task).total_items, "nothing is retrieved for an unrelated task")

    what = "Rewordings count as one strategy. A negation shares nearly every word, but is kept apart."
    stage.begin_act("The same strategy in other words", what)
    clear = ("Clear the session cache", "Clearing the session cache", "We cleared the session cache.")
    names: dict[str, str] = {}
    for strategy in (*clear, "Don't clear the session cache"):
        [group] = find_groups(stage.alma, [stage.learn("Fix the login test", strategy, task_type="testing")])
        stage.say(f"  {strategy:<30}  strategy {names.setdefault(group, 'ABCD'[len(names)])}")
        expect(len(names) == 1 + (strategy not in clear), "light rewordings count together, and the negation apart")


@command("demo")
@Argument("--keep DIR", "keep the database in this new folder")
@Argument("--fast", "do not pause")
def play(call: Call) -> Reply:
    """Watch alma learn, using a temporary database."""
    keep = call.args.keep
    try:
        if keep:
            Path(keep).mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise StorageError(f"{keep} already exists; --keep requires a new folder") from None
    except OSError as error:
        raise StorageError(f"cannot create {keep}: {error.strerror}") from error
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="alma-demo-") as folder:
        file = Path(folder) / "config.yaml"
        create_private(file, write_configuration("demo", "sqlite", "auto", "."))
        with open_config(file) as alma:
            stage = Stage(alma, call.out, call.args.fast)
            learn_what_works(stage)
            turn_evidence(stage)
            give_feedback(stage)
            tell_apart(stage)
            stage.begin_act("Where to go next", NEXT)
            stage.say(SNIPPET)
            embedder = read_embedders(alma)[1] or None
    document = {"ok": True, "embedder": embedder, "acts": stage.acts, "kept": keep}
    return Reply(document, f"\nThe database was kept. To look at it: alma --config {file} list" if keep else "")
