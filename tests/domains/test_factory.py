from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from alma import ALMA, domains
from alma.domains import PRESETS, DomainMemoryFactory, get_research_schema, get_sales_schema, schema_of
from alma.errors import NotFoundError, ScopeError, ValidationError
from alma.progress import ProgressTracker
from alma.stores.memory import MemoryStore
from alma.types.query import MemoryScope

pytestmark = pytest.mark.system

CONFIG = "alma:\n  project_id: my-project\n  storage: sqlite\n  embedding_provider: hash\n"

AS_PRINTED = """
from alma.domains import DomainMemoryFactory, get_research_schema

# Pre-built schemas
factory = DomainMemoryFactory()
alma = factory.create_alma(get_research_schema(), "my-research-project")

# Or create custom domains
schema = factory.create_schema("sales", {
    "entity_types": [
        {"name": "lead", "attributes": ["stage", "value"]},
        {"name": "objection", "attributes": ["type", "response"]},
    ],
    "learning_categories": [
        "objection_handling",
        "closing_techniques",
        "qualification_patterns",
    ],
})
alma.learn(agent="agent", task="Review papers on memory", outcome="success", strategy_used="Snowball citations")
print(alma.retrieve(task="Review papers on agent memory", agent="agent").total_items, schema.name)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, entered."""
    (tmp_path / ".alma").mkdir()
    (tmp_path / ".alma" / "config.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_domain_memory_factory_as_printed(folder: Path) -> None:
    assert run(AS_PRINTED, folder).split() == ["1", "sales"]
    listed = "from alma.domains import DomainMemoryFactory as F\ns = F().get_schema('sales')\n"
    told = run(listed + "print([e.attributes for e in s.entity_types], len(F().list_schemas()))", folder)
    assert told.strip() == "[('stage', 'value'), ('type', 'response')] 6"


def test_every_preset_gives_a_memory_that_works(folder: Path) -> None:
    for name in PRESETS:
        given = getattr(domains, f"get_{name}_schema")()
        assert given == getattr(DomainMemoryFactory, f"get_{name}_schema")() == DomainMemoryFactory.get_schema(name)
        with DomainMemoryFactory().create_alma(given, f"project-{name}") as alma:
            alma.learn("agent", "Do the first task", "success", "Step by step")
            assert alma.retrieve("Do the first task", "agent").outcomes
            assert schema_of(alma) == given
    assert (folder / ".alma" / "alma.db").exists()


def test_categories_gate_what_may_be_learned(open_alma) -> None:
    factory = DomainMemoryFactory(open_alma())
    alma = factory.create_alma("research", "papers")
    alma.learn("a", "Read", "success", "Slowly", task_type="citation_patterns")
    alma.learn("a", "Read", "success", "Slowly", task_type=" Citation_Patterns ")
    alma.learn("a", "Read", "success", "Slowly")
    for category in ("closing_techniques", "participant_data"):
        with pytest.raises(ScopeError, match="may not learn.*citation_patterns"):
            alma.learn("a", "Read", "success", "Slowly", task_type=category)
        with pytest.raises(ScopeError):
            alma.add_domain_knowledge("a", category, "A fact")
        with pytest.raises(ScopeError):
            alma.add_heuristic("a", "When reading", "Slowly", category)
        with pytest.raises(ScopeError):
            alma.add_anti_pattern("a", "Skimming", "Misses much", category=category)
    assert alma.get_stats()["by_type"]["outcome"] == 3
    assert alma.get_stats()["by_type"]["domain_knowledge"] == 0


def test_a_general_memory_learns_all_but_what_is_excluded(open_alma) -> None:
    alma = DomainMemoryFactory(open_alma()).create_alma("general", "any")
    alma.learn("a", "Bake", "success", "Slowly", task_type="baking")
    with pytest.raises(ScopeError, match="anything but credentials"):
        alma.learn("a", "Log in", "success", "By hand", task_type="credentials")


def test_thresholds_and_decay_come_from_the_schema(open_alma, clock) -> None:
    factory = DomainMemoryFactory(open_alma())
    quick = factory.create_schema("quick", {"min_occurrences_for_heuristic": 1, "confidence_decay_days": 7})
    slow = factory.create_schema("slow", {"min_occurrences_for_heuristic": 4})
    for schema, formed in ((quick, 1), (slow, 0)):
        alma = factory.create_alma(schema, schema.name)
        alma.learn("a", "Deploy", "success", "Blue-green")
        assert alma.get_stats()["by_type"]["heuristic"] == formed
        assert alma.engine.settings.recency_half_life_days == schema.confidence_decay_days


def test_declared_agents_are_held_to_both(open_alma) -> None:
    declared = [
        MemoryScope("reader", can_learn=("citation_patterns", "gossip"), domain="research"),
        MemoryScope("coder", can_learn=("testing_strategies",), cannot_learn=("source_evaluation",), domain="coding"),
    ]
    alma = DomainMemoryFactory(open_alma(agents=declared)).create_alma("research", "papers")
    alma.learn("reader", "Read", "success", "Slowly", task_type="citation_patterns")
    for category in ("gossip", "source_evaluation"):
        with pytest.raises(ScopeError):
            alma.learn("reader", "Read", "success", "Slowly", task_type=category)
    # What was declared for another domain says nothing about this one, but for what is forbidden.
    alma.learn("coder", "Read", "success", "Slowly", task_type="citation_patterns")
    with pytest.raises(ScopeError):
        alma.learn("coder", "Read", "success", "Slowly", task_type="source_evaluation")
    with pytest.raises(ScopeError, match="unknown agent"):
        alma.learn("stranger", "Read", "success", "Slowly")


def test_an_agent_that_could_learn_nothing_there_is_an_error(open_alma) -> None:
    declared = [MemoryScope("seller", can_learn=("closing",), domain="research")]
    base = open_alma(agents=declared)
    with pytest.raises(ValidationError, match="'seller' is declared to learn closing.*allows none of these"):
        DomainMemoryFactory(base).create_alma("research", "papers")
    assert base.get_stats()["total_count"] == 0, "the shared store was closed"


def test_an_agent_that_does_not_fit_is_warned_of_when_the_project_is_opened_again(caplog) -> None:
    store = MemoryStore()
    DomainMemoryFactory().create_alma("research", "papers", store)
    declared = [MemoryScope("seller", can_learn=("closing",)), MemoryScope("reader")]
    alma = DomainMemoryFactory().open_alma("papers", store, agents=declared)
    assert "'seller' is declared to learn closing" in caplog.text
    alma.learn("reader", "Read", "success", "Slowly", task_type="citation_patterns")
    with pytest.raises(ScopeError, match="nothing that has a category"):
        alma.learn("seller", "Read", "success", "Slowly", task_type="closing")


def test_agents_can_be_given_in_place_of_the_configured(folder: Path) -> None:
    agents = [MemoryScope("reader", can_learn=("citation_patterns",))]
    alma = DomainMemoryFactory().create_alma("research", "papers", agents=agents)
    with alma, pytest.raises(ScopeError, match="unknown agent"):
        alma.learn("other", "Read", "success", "Slowly")


def test_another_process_opens_the_memory_under_its_schema(folder: Path) -> None:
    with DomainMemoryFactory() as factory:
        schema = factory.create_schema("legal", {"learning_categories": ["drafting"], "description": "Contracts"})
        factory.create_alma(schema, "contracts").close()
    code = (
        "from alma.domains import DomainMemoryFactory\n"
        "factory = DomainMemoryFactory()\n"
        "print('legal' in factory.list_schemas(), factory.get_schema('legal').description)\n"
        "alma = factory.open_alma('contracts')\n"
        "try:\n"
        "    alma.learn('a', 'Sell', 'success', 'Loudly', task_type='closing')\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    told = run(code, folder)
    assert told.startswith("True Contracts\n")
    assert "may not learn 'closing'. It may learn: drafting" in told


def test_a_project_without_a_schema_says_so(folder: Path) -> None:
    with pytest.raises(NotFoundError, match="has no schema"):
        DomainMemoryFactory().open_alma("nothing")


def test_schemas_are_kept_once_per_store_and_the_newest_holds(open_alma) -> None:
    alma = open_alma()
    factory = DomainMemoryFactory(alma)
    factory.create_schema("legal", {"description": "first"})
    second = factory.create_schema("legal", {"description": "second"})
    elsewhere = DomainMemoryFactory(DomainMemoryFactory(alma).create_alma("sales", "another project"))
    assert elsewhere.get_schema("legal") == second
    assert elsewhere.list_schemas() == [*PRESETS, "legal"]
    factory.delete_schema("legal")
    assert elsewhere.list_schemas() == list(PRESETS)
    with pytest.raises(NotFoundError, match="'legal'"):
        factory.delete_schema("legal")
    assert factory.create_schema("legal", {}) == elsewhere.get_schema("legal")


def test_a_schema_with_the_name_of_a_preset_stands_before_it(open_alma) -> None:
    factory = DomainMemoryFactory(open_alma())
    own = factory.create_schema("sales", {"learning_categories": ["closing"]})
    assert factory.get_schema("sales") == own
    assert get_sales_schema() != own
    assert factory.list_schemas() == list(PRESETS)


def test_a_preset_leaves_no_copy_of_itself(open_alma) -> None:
    factory = DomainMemoryFactory(open_alma())
    factory.create_alma(get_research_schema(), "papers")
    assert factory.list_schemas() == list(PRESETS)
    assert factory.get_schema("research") is get_research_schema()


def test_on_the_class_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert DomainMemoryFactory.create_schema("legal", {}).name == "legal"
    assert DomainMemoryFactory.list_schemas() == list(PRESETS)
    assert DomainMemoryFactory().list_schemas() == list(PRESETS)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_schema_names_the_known_ones(open_alma) -> None:
    factory = DomainMemoryFactory(open_alma())
    factory.create_schema("legal", {})
    with pytest.raises(ValidationError, match="Did you mean 'research'.*content_creation, legal"):
        factory.create_alma("reserch", "x")
    with pytest.raises(ValidationError, match="DomainSchema or the name"):
        factory.create_alma(5, "x")  # type: ignore[arg-type]


def test_storage_is_a_folder_or_a_store(tmp_path: Path) -> None:
    factory = DomainMemoryFactory()
    with factory.create_alma("sales", "p", tmp_path / "here") as alma:
        alma.learn("a", "Call", "success", "Early")
    with factory.open_alma("p", tmp_path / "here") as alma:
        assert alma.retrieve("Call", "a").outcomes
    with factory.create_alma("sales", "p", MemoryStore()) as alma:
        assert alma.engine.encoder is None
        alma.learn("a", "Call the lead", "success", "Early", task_type="follow_up_timing")
        assert alma.retrieve("Call a lead", "a").outcomes


def test_progress_of_the_same_project_is_in_the_same_memory(folder: Path) -> None:
    with DomainMemoryFactory().create_alma("sales", "campaign") as alma, ProgressTracker("campaign") as tracker:
        tracker.create_work_item(title="Call Acme")
        assert ProgressTracker(alma=alma).get_next_item().title == "Call Acme"


def test_secrets_do_not_get_into_a_schema(open_alma) -> None:
    secret = "ghp_" + "a1B2" * 9
    schema = DomainMemoryFactory(open_alma()).create_schema("x", {"description": f"use {secret}"})
    assert secret not in schema.description


def test_a_governed_memory_can_be_asked_for_its_schema(alma: ALMA) -> None:
    assert schema_of(alma) is None
    assert domains.apply_stored_schema(alma) is alma
    domains.apply_schema(alma, get_sales_schema())
    assert schema_of(alma) == get_sales_schema()
