"""The expansion's specification: its data models, its interfaces and its schemas are what the product has.

The listings are kept word for word in `seed_examples/prd.md`, and are read from there.
"""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import importlib
import inspect
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.forked import find_python

from alma import ALMA
from alma.domains import DomainMemoryFactory, DomainSchema, get_coding_schema, get_general_schema, get_research_schema
from alma.embedders.hash import HashEmbedder
from alma.errors import ScopeError
from alma.progress import ProgressTracker, WorkItem
from alma.session import SessionInitializer, SessionManager
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.types.query import MemoryScope
from alma.types.slice import MemorySlice

TEXT = (Path(__file__).parent / "seed_examples" / "prd.md").read_text(encoding="utf-8")
HOMES = ("alma.domains", "alma.progress", "alma.session", "alma.confidence")
FEATURES = {
    "Feature 1: Domain Memory Factory": ("DomainSchema", "EntityType", "RelationshipType", "DomainMemoryFactory"),
    "Feature 2: Progress Tracking": ("WorkItem", "ProgressLog", "ProgressTracker"),
    "Feature 3: Session Handoff & Quick Reload": ("SessionHandoff", "SessionContext", "SessionManager"),
    "Feature 4: Initializer Agent Pattern": ("InitializationResult", "SessionInitializer"),
    "Feature 5: Forward-Looking Confidence (Value Function)": (
        "ConfidenceSignal",
        "RiskSignal",
        "OpportunitySignal",
        "ConfidenceEngine",
    ),
}


def blocks(feature: str, heading: str, kind: str = "python") -> list[str]:
    section = TEXT.split(f"### {feature}\n", 1)[1].split("\n### ", 1)[0]
    part = section.split(f"#### {heading}\n", 1)[1].split("\n#### ", 1)[0]
    return re.findall(rf"```{kind}\n(.*?)```", part, re.DOTALL)


def classes(heading: str) -> list[tuple[str, ast.ClassDef]]:
    found = []
    for feature in FEATURES:
        for text in blocks(feature, heading):
            found += [(feature, node) for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    return found


def ours(name: str) -> Any:
    for home in HOMES:
        module = importlib.import_module(home)
        if hasattr(module, name):
            return getattr(module, name)
    raise AssertionError(f"{name} is in none of {', '.join(HOMES)}")


def literal(node: ast.expr) -> Any:
    """A default as a plain value: `field(default_factory=list)` stands for an empty one."""
    if isinstance(node, ast.Call):
        return {"list": (), "dict": {}}[node.keywords[0].value.id]  # type: ignore[attr-defined]
    return ast.literal_eval(node)


def value_of(field: dataclasses.Field[Any]) -> Any:
    made = field.default if field.default is not dataclasses.MISSING else field.default_factory()  # type: ignore[misc]
    return tuple(made) if isinstance(made, list | tuple) else made


def plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# -- the listings


def test_every_class_of_the_listings_is_read() -> None:
    read = {name.name for heading in ("Data Model", "API") for _, name in classes(heading)}
    assert read == {name for names in FEATURES.values() for name in names}


@pytest.mark.parametrize(("feature", "listing"), classes("Data Model"), ids=lambda one: getattr(one, "name", ""))
def test_data_model(feature: str, listing: ast.ClassDef) -> None:
    held = {field.name: field for field in dataclasses.fields(ours(listing.name))}
    asked = [node for node in listing.body if isinstance(node, ast.AnnAssign)]
    assert asked
    for node in asked:
        name = node.target.id  # type: ignore[union-attr]
        assert name in held, f"{listing.name} has no field {name!r}"
        if node.value is not None:
            assert value_of(held[name]) == plain(literal(node.value)), f"{listing.name}.{name}"


def methods(listing: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in listing.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize(
    ("owner", "method"),
    [(listing.name, method) for _, listing in classes("API") for method in methods(listing)],
    ids=lambda one: getattr(one, "name", one),
)
def test_api(owner: str, method: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    signature = inspect.signature(getattr(ours(owner), method.name))
    asked = [one for one in method.args.args if one.arg not in ("self", "cls")]
    defaults = dict(zip([one.arg for one in reversed(asked)], reversed(method.args.defaults), strict=False))
    for one in asked:
        assert one.arg in signature.parameters, f"{owner}.{method.name} takes no {one.arg!r}"
        held = signature.parameters[one.arg]
        assert held.kind is not inspect.Parameter.POSITIONAL_ONLY
        if one.arg in defaults:
            assert held.default == literal(defaults[one.arg]), f"{owner}.{method.name}({one.arg})"
    # Called by the names of the listing, no argument is missing.
    signature.bind_partial(**{one.arg: "" for one in asked})
    needed = {
        name
        for name, one in signature.parameters.items()
        if one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL) and name != "self"
    }
    assert needed <= {one.arg for one in asked}


MODULES = {
    "alma.core": "ALMA",
    "alma.types": "Heuristic Outcome MemorySlice",
    "alma.domains.schema": "DomainSchema EntityType RelationshipType",
    "alma.domains.factory": "DomainMemoryFactory",
    "alma.domains.presets.coding": "get_coding_schema",
    "alma.domains.presets.research": "get_research_schema",
    "alma.domains.presets.general": "get_general_schema",
    "alma.progress.types": "WorkItem ProgressLog",
    "alma.progress.tracker": "ProgressTracker",
    "alma.session.types": "SessionHandoff SessionContext InitializationResult",
    "alma.session.manager": "SessionManager",
    "alma.session.initializer": "SessionInitializer",
    "alma.confidence.types": "ConfidenceSignal RiskSignal OpportunitySignal",
    "alma.confidence.engine": "ConfidenceEngine",
    "alma.mcp.tools": "PREFIX",
    "alma.storage.base": "StorageBackend",
}


def test_modules_of_the_file_structure() -> None:
    """Each module has its names, which are the same objects as in the package and, for classes, in `alma`."""
    wrong = []
    for module, names in MODULES.items():
        for name in names.split():
            value = getattr(importlib.import_module(module), name, None)
            package = importlib.import_module(module.rpartition(".")[0])
            if value is None or getattr(package, name, value) is not value:
                wrong.append(f"{module}.{name}")
    assert wrong == []


def test_new_classes_are_exported_by_alma() -> None:
    import alma

    listed = {name for names in FEATURES.values() for name in names}
    assert [name for name in listed if getattr(alma, name) is not ours(name)] == []


# -- Feature 1: Domain Memory Factory


@pytest.mark.parametrize(
    "text", blocks("Feature 1: Domain Memory Factory", "Pre-built Schemas", "yaml"), ids=["coding", "research", "sales"]
)
def test_pre_built_schemas(text: str) -> None:
    listed = yaml.safe_load(text)
    schema = DomainMemoryFactory.get_schema(listed["name"])
    for entity in listed["entity_types"]:
        [(name, rest)] = entity.items()
        assert list(schema.entity_type(name).attributes) == rest["attributes"]
    assert set(listed["learning_categories"]) <= set(schema.learning_categories)
    again = DomainMemoryFactory.create_schema(listed["name"], listed)
    assert [one.name for one in again.entity_types] == [next(iter(one)) for one in listed["entity_types"]]
    assert list(again.learning_categories) == listed["learning_categories"]


def test_domain_memory_factory_creates_memories_for_any_storage(tmp_path: Path) -> None:
    presets = (get_coding_schema(), get_research_schema(), get_general_schema())
    for at, schema in enumerate(presets):
        storage = MemoryStore() if at else SQLiteStore(tmp_path / "alma.db")
        with DomainMemoryFactory().create_alma(schema=schema, project_id="p", storage=storage) as alma:
            alma.learn(agent="a", task="Begin", outcome="success", strategy_used="Read first")
            assert alma.retrieve(task="Begin", agent="a").total_items == 1


def test_what_agents_in_a_domain_can_not_learn() -> None:
    schema = DomainMemoryFactory.create_schema(
        "sales", {"learning_categories": ["closing_techniques"], "excluded_categories": ["credentials"]}
    )
    with DomainMemoryFactory().create_alma(schema, "p", MemoryStore()) as alma:
        for category in ("credentials", "cooking"):
            with pytest.raises(ScopeError, match="closing_techniques"):
                alma.learn(agent="a", task="t", outcome="success", strategy_used="s", task_type=category)


# -- Feature 2: Progress Tracking


@pytest.fixture
def alma() -> Any:
    agents = [
        MemoryScope("helena", can_learn=("testing_strategies",), cannot_learn=("backend_logic",), domain="coding")
    ]
    with ALMA(MemoryStore(), HashEmbedder(), project_id="my-project", agents=agents) as opened:
        yield opened


def test_read_progress_pick_something_to_work_on(alma: ALMA) -> None:
    tracker = ProgressTracker(alma=alma)
    first = tracker.create_work_item(item=WorkItem(title="Build the parser", item_type="feature", priority=60))
    then = tracker.create_work_item(item=WorkItem(title="Use it", blocked_by=(first,), priority=90))
    quick = tracker.create_work_item(item=WorkItem(title="Fix a typo", item_type="bug", priority=10))
    chosen = {
        strategy: tracker.get_next_item(project_id="my-project", agent=None, strategy=strategy)
        for strategy in ("priority", "blocked_unblock", "quick_win")
    }
    assert all(chosen.values())
    assert chosen["priority"].id == chosen["blocked_unblock"].id == first  # type: ignore[union-attr]
    assert tracker.update_status(item_id=first, status="done", notes="It parses.")
    assert tracker.get_item(then).status == "pending"
    summary = tracker.get_progress_summary(project_id="my-project", agent=None)
    assert (summary.items_total, summary.items_done, summary.items_blocked) == (3, 1, 0)
    assert isinstance(quick, str)
    assert tracker.get_item(quick).status in ("pending", "in_progress", "blocked", "review", "done", "failed")


def test_every_status_of_the_listing_is_one(alma: ALMA) -> None:
    [text] = [one for one in blocks("Feature 2: Progress Tracking", "Data Model") if "WorkItem" in one]
    [listed] = re.findall(r"status: Literal\[(.*?)\]", text)
    tracker = ProgressTracker(alma=alma)
    for status in ast.literal_eval(f"[{listed}]"):
        assert tracker.list_items(status=status) == []
    with pytest.raises(ValueError, match=r"pending.*in_progress.*blocked.*review.*done.*failed"):
        tracker.list_items(status="banana")


def test_progress_snapshot_for_a_session(alma: ALMA) -> None:
    tracker = ProgressTracker(alma=alma)
    tracker.create_work_item(title="One")
    log = tracker.log_session_progress(project_id="my-project", agent="helena", session_id="ses_1")
    assert (log.items_total, log.items_done, log.session_id, log.agent) == (1, 0, "ses_1", "helena")


# -- Feature 3: Session Handoff & Quick Reload


def test_pick_up_where_they_left_off(alma: ALMA) -> None:
    manager = SessionManager(alma=alma, workspace=None)
    begun = manager.start_session(project_id="my-project", agent="helena")
    assert begun.previous_handoff is None
    handoff = manager.create_handoff(
        project_id="my-project",
        agent="helena",
        session_id=begun.session_id,
        last_action="wrote the tests",
        last_outcome="interrupted",
        current_goal="Test the login form",
        key_decisions=[f"decision {number}" for number in range(30)],
        active_files=["tests/test_login.py"],
        blockers=["staging is down"],
        next_steps=["run them"],
        test_status={"test_login": False},
        confidence_level=0.4,
        risk_flags=["flaky"],
    )
    assert len(handoff.key_decisions) == 10
    assert handoff.duration_ms >= 0
    assert handoff.session_end >= handoff.session_start
    again = manager.start_session(project_id="my-project", agent="helena")
    assert again.previous_handoff is not None
    assert again.previous_handoff.id == handoff.id
    told = manager.get_quick_reload(project_id="my-project", agent="helena")
    for part in ("wrote the tests", "staging is down", "run them", "test_login", "Test the login form"):
        assert part in told
    assert [one.id for one in manager.get_previous_sessions(project_id="my-project", agent="helena")] == [handoff.id]
    # By position, too, where that is unambiguous.
    by_position: Any = manager
    assert by_position.get_quick_reload("my-project", "helena") == told
    assert [one.id for one in by_position.get_previous_sessions("my-project", "helena")] == [handoff.id]
    assert [one.id for one in by_position.get_previous_sessions("my-project", "helena", 1)] == [handoff.id]
    assert [one.id for one in manager.get_previous_sessions("helena", 1)] == [handoff.id]
    begun_in_order = by_position.start_session("my-project", "helena")
    assert (begun_in_order.project_id, begun_in_order.agent, begun_in_order.goal) == ("my-project", "helena", "")
    with_goal = by_position.start_session("helena", "Test the login form")
    assert (with_goal.agent, with_goal.goal) == ("helena", "Test the login form")
    another = manager.start_session("helena")
    ended = by_position.create_handoff("my-project", "helena", another.session_id, "Wrote the tests", "success")
    assert ended.last_action == "Wrote the tests"


@pytest.mark.system
def test_agents_resume_within_5_seconds_of_context_reload(tmp_path: Path) -> None:
    begin = """
from alma.session import SessionManager
manager = SessionManager("my-project")
context = manager.start_session(agent="Helena", goal="Complete auth testing")
manager.create_handoff("Helena", context.session_id, last_action="tested", last_outcome="success")
"""
    resume = """
from alma.session import SessionManager
print(SessionManager("my-project").get_quick_reload("Helena"))
"""
    subprocess.run([*find_python(), begin], cwd=tmp_path, check=True, timeout=120)
    started = time.monotonic()
    done = subprocess.run(
        [*find_python(), resume], cwd=tmp_path, check=True, timeout=120, capture_output=True, text=True
    )
    assert "tested" in done.stdout
    assert time.monotonic() - started < 20


# -- Feature 4: Initializer Agent Pattern


def test_stage_manager_sets_the_stage(alma: ALMA, tmp_path: Path) -> None:
    async def prepared() -> None:
        initializer = SessionInitializer(alma, workspace=tmp_path)
        result = await initializer.initialize(
            project_id="my-project",
            agent="helena",
            user_prompt="Test the login form, then fix the flaky selectors. Don't touch the backend.",
        )
        assert result.session_id
        assert [item.title for item in result.work_items] == ["Test the login form", "Fix the flaky selectors"]
        assert result.recommended_start is not None
        assert result.recommended_start.title == "Test the login form"
        assert isinstance(result.relevant_memories, MemorySlice)
        assert any("testing_strategies" in rule for rule in result.scope_rules)
        assert any("backend_logic" in rule for rule in result.constraints)
        items = await initializer.expand_prompt(user_prompt="- Test it\n- Ship it", domain=get_coding_schema())
        assert [item.title for item in items] == ["Test it", "Ship it"]
        assert isinstance(await initializer.orient_to_codebase(project_id="my-project"), dict)
        told = initializer.get_rules_of_engagement(agent="helena", scope=alma.engine.scopes.of("helena"))
        assert len(told) == 3
        assert all(isinstance(part, list) for part in told)

    asyncio.run(prepared())


# -- Feature 5: Forward-Looking Confidence


def test_this_will_likely_work_now(alma: ALMA) -> None:
    from alma.confidence import ConfidenceEngine

    for _ in range(6):
        alma.learn(agent="helena", task="Test a form", outcome="success", strategy_used="Validate field by field")
        alma.learn(agent="helena", task="Test a form", outcome="failure", strategy_used="Submit all at once")
    engine = ConfidenceEngine(alma)
    asked = {"context": "Test a form", "agent": "helena"}
    good = engine.assess_strategy(strategy="Validate field by field", heuristic=None, **asked)
    bad = engine.assess_strategy(strategy="Submit all at once", **asked)
    assert good.recommendation in ("strong_yes", "yes")
    assert bad.recommendation in ("caution", "avoid")
    ranked = engine.rank_strategies(strategies=["Submit all at once", "Validate field by field"], **asked)
    assert [name for name, _ in ranked] == ["Validate field by field", "Submit all at once"]
    risks = engine.detect_risks(strategy="Submit all at once", **asked)
    chances = engine.detect_opportunities(strategy="Validate field by field", **asked)
    assert risks
    assert all(0 <= one.severity <= 1 for one in risks)
    assert chances
    assert all(0 <= one.strength <= 1 for one in chances)


# -- Goals & Success Criteria


def test_domain_agnostic_memory_has_three_or_more_schemas() -> None:
    made = [DomainMemoryFactory.get_schema(name) for name in DomainMemoryFactory.list_schemas()]
    assert {"coding", "research", "general"} <= {one.name for one in made}
    assert all(isinstance(one, DomainSchema) for one in made)
