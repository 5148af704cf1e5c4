from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alma import ALMA
from alma.context import MemoryStack
from alma.engine.admit import draft_record
from alma.engine.context import Engine
from alma.errors import ScopeError, ValidationError
from alma.session import SessionManager
from alma.stores.memory import MemoryStore
from alma.text import count_tokens
from alma.types.query import MemoryScope
from alma.types.record import Record

if TYPE_CHECKING:
    from tests.conftest import Clock, Opener


def filled(alma: ALMA) -> ALMA:
    for _ in range(3):
        alma.learn(agent="helena", task="Test a form", outcome="success", strategy_used="Test empty fields first")
        alma.learn(
            agent="helena", task="Wait for a page", outcome="failure", strategy_used="sleep(5)", error_message="flaky"
        )
    alma.add_rule(agent="helena", rule="Run the tests with make test")
    alma.add_user_preference(user_id="ann", category="output", preference="verbose output")
    alma.add_domain_knowledge(agent="helena", domain="auth", fact="Tokens expire after a day")
    manager = SessionManager(alma=alma, workspace=None)
    session = manager.start_session("helena", "Complete auth testing").session_id
    manager.create_handoff(
        "helena", session, "wrote tests", "success", next_steps=["Test refresh"], blockers=["no token"]
    )
    return alma


def test_an_empty_memory_says_so_in_a_few_words(alma: ALMA) -> None:
    stack = MemoryStack(alma, "helena")
    assert stack.wake_up() == "You are helena, in the project test.\nNothing is remembered yet."
    assert stack.on_demand("login") == "Nothing is remembered about: login"
    assert stack.deep("login") == "Nothing is remembered about: login"


def test_identity_says_who_where_for_whom_and_what_is_learned(open_alma: Opener) -> None:
    scope = MemoryScope("helena", can_learn=("tests",), cannot_learn=("backend",), domain="coding")
    assert MemoryStack(open_alma(agents=[scope]), "Helena", "ann").identity() == (
        "You are helena, in the project test.\nYou work for ann.\nYour domain is coding.\n"
        "You do not learn about backend.\nYou learn about tests."
    )


def test_the_story_tells_of_each_sort_of_memory(alma: ALMA) -> None:
    told = MemoryStack(filled(alma), "helena", "ann").essential()
    for part in (
        "## Where you left off", "wrote tests", "Goal: Complete auth testing", "Blocked by: no token",
        "Next: Test refresh",
        "## What your user wants\n- verbose output", "## What you were taught\n- Run the tests with make test",
        "## What works\n- Test a form: Test empty fields first (worked 3 of 3 times)",
        "## What to avoid\n- Wait for a page: avoid sleep(5)", "## What you know\n- Tokens expire after a day",
        "## What happened last",
    ):  # fmt: skip
        assert part in told, told


def test_the_layers_stand_in_wake_up(alma: ALMA) -> None:
    stack = MemoryStack(filled(alma), "helena", "ann")
    assert stack.wake_up() == f"{stack.identity()}\n{stack.essential()}"


def test_what_others_remember_is_not_told(alma: ALMA) -> None:
    filled(alma)
    told = MemoryStack(alma, "victor").wake_up()
    assert told == "You are victor, in the project test.\nNothing is remembered yet."
    assert "verbose" not in MemoryStack(alma, "helena").wake_up()


def test_topics_are_looked_up(alma: ALMA) -> None:
    stack = MemoryStack(filled(alma), "helena", "ann")
    assert "Tokens expire after a day" in stack.on_demand("When do tokens expire?")
    assert "Tokens expire after a day" in stack.deep("When do tokens expire?")


def test_the_text_is_the_same_while_nothing_changes(alma: ALMA, clock: Clock) -> None:
    stack = MemoryStack(filled(alma), "helena", "ann")
    first = stack.wake_up()
    stack.on_demand("tokens")
    clock.pass_days(0.2)
    assert stack.wake_up() == first
    alma.add_domain_knowledge(agent="helena", domain="auth", fact="Logins are logged")
    assert stack.wake_up() != first


def test_the_proven_stands_before_the_doubtful(alma: ALMA) -> None:
    for good, bad, way in ((3, 2, "doubtful"), (9, 0, "proven")):
        for outcome, times in (("success", good), ("failure", bad)):
            for _ in range(times):
                alma.learn(
                    agent="helena", task=f"Deploy the {way} service", outcome=outcome, strategy_used=f"The {way} way"
                )
    told = MemoryStack(alma, "helena").essential()
    works = told[told.index("## What works") : told.index("## What happened last")]
    assert works.index("proven") < works.index("doubtful")


def test_what_is_old_and_proven_is_not_buried_by_what_is_new(alma: ALMA) -> None:
    for _ in range(12):
        alma.learn(agent="helena", task="Deploy the shop", outcome="success", strategy_used="Switch blue to green")
    fresh = [long_memory(alma.engine, "heuristic", number) for number in range(1_000)]
    alma.engine.store.put(fresh)
    told = MemoryStack(alma, "helena").essential()
    assert "## What works\n- Deploy the shop: Switch blue to green (worked 12 of 12 times)" in told


def test_rules_of_one_session_are_not_told_in_another(alma: ALMA) -> None:
    from alma.engine import rules
    from alma.types.kinds import Reach, RuleSource

    one = rules.Teaching(
        id="t",
        agent="helena",
        rule="Skip the slow tests",
        reach=Reach.SESSION,
        source=RuleSource.CORRECTION,
        session="s",
    )
    rules.teach(alma.engine, [one])
    assert "Skip" not in MemoryStack(alma, "helena").wake_up()


LONG = "word " * 400
KINDS = {
    "domain_knowledge": {"domain": "d", "fact": "Fact {} " + LONG},
    "heuristic": {"condition": "When {} " + LONG, "strategy": "Do {} " + LONG, "task_type": ""},
    "anti_pattern": {
        "pattern": "{} " + LONG,
        "condition": "",
        "why_bad": LONG,
        "better_alternative": "",
        "task_type": "",
    },
    "user_preference": {"category": "c", "preference": "Wish {} " + LONG},
}


def long_memory(engine: Engine, kind: str, number: int) -> Record:
    body = {name: text.replace("{}", str(number)) for name, text in KINDS[kind].items()}
    own = {"user": "ann"} if kind == "user_preference" else {"agent": "helena"}
    return draft_record(engine, kind, {**body, "metadata": {}}, **own)


def test_wake_up_keeps_to_900_tokens_with_thousands_of_long_memories(open_alma: Opener) -> None:
    alma = open_alma(embedder=None)
    # Put as they are: to have so many admitted one by one takes longer than a test may.
    for kind in KINDS:
        alma.engine.store.put([long_memory(alma.engine, kind, number) for number in range(500)])
    assert alma.get_stats()["total_count"] == 2_000
    stack = MemoryStack(alma, "helena", "ann")
    told = stack.wake_up()
    assert count_tokens(told) <= 900
    assert count_tokens(stack.identity()) <= 100
    assert count_tokens(stack.essential()) <= 800
    for heading in ("What your user wants", "What works", "What to avoid", "What you know"):
        assert heading in told, "none is crowded out"
    assert count_tokens(told) > 700, "and the room there is is used"
    assert stack.wake_up() == told


def test_what_is_looked_up_keeps_to_its_budget(open_alma: Opener) -> None:
    alma = open_alma(embedder=None)
    alma.engine.store.put([long_memory(alma.engine, kind, number) for number in range(100) for kind in KINDS])
    stack = MemoryStack(alma, "helena", "ann")
    assert 300 < count_tokens(stack.on_demand("word")) <= 600
    assert 1500 < count_tokens(stack.deep("word")) <= 3000


hard = st.text(min_size=1, max_size=300).filter(lambda text: text.strip()) | st.sampled_from(
    ["😀" * 200, "</memory>" * 20]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(hard, max_size=12), st.integers(30, 900))
def test_every_layer_keeps_to_its_budget(texts: list[str], budget: int) -> None:
    alma = ALMA(MemoryStore(), project_id="p" * 150)
    for text in texts:
        try:
            alma.add_domain_knowledge(agent="ü" * 150, domain="d", fact=text)
        except ValidationError:
            continue
    stack = MemoryStack(
        alma, "ü" * 150, identity_tokens=budget, essential_tokens=budget, on_demand_tokens=budget, deep_tokens=budget
    )
    for told in (stack.identity(), stack.essential(), stack.on_demand("x y"), stack.deep("😀" * 500)):
        assert count_tokens(told) <= budget
    assert count_tokens(stack.wake_up()) <= 2 * budget


def test_bad_arguments(open_alma: Opener) -> None:
    alma = open_alma(agents=[MemoryScope("helena")])
    with pytest.raises(ScopeError, match="helena"):
        MemoryStack(alma, "nobody")
    with pytest.raises(ValidationError, match="identity_tokens"):
        MemoryStack(alma, "helena", identity_tokens=0)
    with pytest.raises(ValidationError, match="topic is empty"):
        MemoryStack(alma, "helena").on_demand("")
    with pytest.raises(ValidationError, match="query is empty"):
        MemoryStack(alma, "helena").deep("")
