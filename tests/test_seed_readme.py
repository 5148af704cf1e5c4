"""The examples of the first README run as they are printed there; they are kept word for word in `seed_examples`."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest
import yaml
from tests.forked import share_forks

from alma import ALMA
from alma.config import load
from alma.embedders.hash import HashEmbedder
from alma.errors import ConfigError, ScopeError
from alma.stores.memory import MemoryStore
from alma.types.kinds import MemoryType

pytestmark = pytest.mark.system

TEXT = (Path(__file__).parent / "seed_examples" / "readme.md").read_text(encoding="utf-8")
FIRST = 'from alma import ALMA\nalma = ALMA.from_config(".alma/config.yaml")\n'


def example(heading: str, kind: str = "python", at: int = 0) -> str:
    part = re.split(r"\n## |\n### ", TEXT.split(f"# {heading}\n", 1)[1])
    found = re.findall(rf"```{kind}\n(.*?)```", part[0], re.DOTALL)
    return str(found[at])


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with the configuration that the README prints."""
    (tmp_path / ".alma").mkdir()
    (tmp_path / ".alma" / "config.yaml").write_text(example("Configuration", "yaml"))
    return tmp_path


def run(folder: Path, code: str, after: str = "") -> str:
    told = f"{code}\n{textwrap.dedent(after)}"
    ended = share_forks().run(told, folder)
    assert ended.code == 0, ended.err[-3000:]
    return ended.out


# -- Core Features


def test_five_memory_types() -> None:
    with ALMA(MemoryStore(), HashEmbedder()) as alma:
        alma.add_heuristic("helena", "forms with >5 fields", "test validation incrementally")
        alma.learn(agent="helena", task="Login test", outcome="success", strategy_used="JWT token strategy")
        alma.add_user_preference("ann", "output", "User prefers verbose test output")
        alma.add_domain_knowledge("helena", "auth", "Login uses OAuth 2.0 with 24h token expiry")
        alma.add_anti_pattern("helena", "use sleep() for async waits", "causes flaky tests")
        counted = alma.get_stats()["by_type"]
    five = ("heuristic", "outcome", "user_preference", "domain_knowledge", "anti_pattern")
    assert {name: counted.get(name) for name in five} == dict.fromkeys(five, 1)
    assert set(five) <= set(map(str, MemoryType))


def test_before_during_after_task() -> None:
    """The picture under "What is ALMA?"."""
    with ALMA(MemoryStore(), HashEmbedder()) as alma:
        for _ in range(3):
            alma.learn(agent="h", task="Test the forms", outcome="success", strategy_used="Use incremental validation")
        for _ in range(2):
            alma.learn(agent="h", task="Test the forms", outcome="failure", strategy_used="Use sleep()")
        alma.add_user_preference("ann", "output", "User prefers verbose output")
        found = alma.retrieve(task="Test the forms", agent="h", user_id="ann")
    assert [one.strategy for one in found.heuristics] == ["Use incremental validation"]
    assert [one.pattern for one in found.anti_patterns] == ["Use sleep()"]
    for part in ("incremental validation", "verbose output", "sleep()"):
        assert part in found.to_prompt()


def test_scoped_learning(tmp_path: Path) -> None:
    agents = yaml.safe_load(example("Scoped Learning", "yaml"))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"alma": {"project_id": "p", "storage": "memory", **agents}}))
    with ALMA.from_config(tmp_path / "config.yaml") as alma:
        told = {"agent": "helena", "task": "t", "outcome": "success", "strategy_used": "s"}
        for category in ("testing_strategies", "selector_patterns"):
            assert alma.learn(**told, task_type=category).task_type == category
        for category in ("backend_logic", "database_queries"):
            with pytest.raises(ScopeError, match=r"testing_strategies, selector_patterns"):
                alma.learn(**told, task_type=category)


# -- The Harness Pattern


def test_the_harness_pattern(workspace: Path) -> None:
    told = run(
        workspace,
        FIRST + example("The Harness Pattern"),
        """
        print(result.prompt)
        assert result.success is None, "nobody did the work yet"
        done = harness.run(Context(task="Test the login form validation", project_id="my-app"), lambda prompt: "passed")
        assert done.success and done.outcome is not None
        """,
    )
    assert "Test the login form validation" in told


# -- Advanced Features


def test_domain_memory_factory(workspace: Path) -> None:
    told = run(
        workspace,
        example("Domain Memory Factory"),
        """
        print(alma.project_id, schema.name, [one.name for one in schema.entity_types], len(schema.learning_categories))
        alma.learn(agent="helena", task="Review papers", outcome="success", strategy_used="Snowball citations")
        assert alma.retrieve(task="Review papers", agent="helena").total_items == 1
        print(*factory.list_schemas())
        """,
    )
    first, second = told.splitlines()
    assert first == "my-research-project sales ['lead', 'objection'] 3"
    assert second.split() == ["coding", "research", "sales", "general", "customer_support", "content_creation"]


def test_progress_tracking(workspace: Path) -> None:
    told = run(
        workspace,
        example("Progress Tracking"),
        """
        assert next_task is None, "the only item is being worked on"
        print(item.title, item.priority, item.agent, tracker.get_item(item.id).status)
        """,
    )
    assert told == "Fix authentication bug 80 victor in_progress\n"


def test_session_handoff(workspace: Path) -> None:
    assert run(workspace, example("Session Handoff")) == ""
    assert run(workspace, example("Session Handoff")) == "Last action: completed_oauth_tests\nBlockers: []\n"


def test_confidence_engine(workspace: Path) -> None:
    unknown = run(workspace, FIRST + example("Confidence Engine"))
    assert "Recommendation: neutral" in unknown
    taught = """
for task in ("Test a 5-field signup form", "Test the registration form"):
    for _ in range(4):
        alma.learn(agent="Helena", task=task, outcome="success", strategy_used="Use incremental validation")
"""
    known = run(workspace, FIRST + taught + example("Confidence Engine"))
    [confidence] = re.findall(r"^Confidence: (\d+)%$", known, re.MULTILINE)
    assert int(confidence) >= 70
    assert re.search(r"^Recommendation: (strong_)?yes$", known, re.MULTILINE)


def test_llm_powered_fact_extraction(workspace: Path) -> None:
    """Without any model, and found again afterwards."""
    told = run(
        workspace,
        FIRST + example("LLM-Powered Fact Extraction"),
        """
        print(alma.retrieve(task="Test the login form", agent="helena").to_prompt())
        """,
    )
    [count] = re.findall(r"^Extracted (\d+) facts$", told, re.MULTILINE)
    assert int(count) >= 1
    assert "incremental validation" in told.partition("\n")[2]


def test_graph_memory(workspace: Path) -> None:
    """As printed but for the server, which nobody has at hand: the graph is kept in the process."""
    printed = example("Graph Memory")
    server = re.search(r"graph = create_graph_store\(\n.*?\n\)\n", printed, re.DOTALL)
    assert server is not None
    told = run(
        workspace,
        printed.replace(server[0], 'graph = create_graph_store("memory")\n'),
        """
        print(*sorted(entity.name for entity in entities), sep="\\n")
        assert relationships
        """,
    )
    assert {"Alice", "Acme Corp", "Bob"} <= set(told.splitlines())


def test_graph_memory_without_its_server_says_what_is_missing(workspace: Path) -> None:
    """The package is not there, or the server is not: an error that names it, and no silent other graph."""
    code = "from alma.errors import ALMAError\ntry:\n"
    code += textwrap.indent(example("Graph Memory"), "    ") + "except ALMAError as error:\n    print(error)\n"
    assert "neo4j" in run(workspace, code)


# -- Configuration


def test_configuration(workspace: Path) -> None:
    config = load(workspace / ".alma" / "config.yaml")
    assert (config.project_id, config.storage, config.embedding_provider) == ("my-project", "sqlite", "local")
    assert config.path == (workspace / ".alma" / "alma.db").resolve()
    assert config.embedding_dim == 384
    assert [scope.agent_name for scope in config.agents] == ["helena", "victor"]
    assert config.agents[0].cannot_learn == ("backend_logic",)


# -- Troubleshooting


def test_debug_logging(workspace: Path) -> None:
    """The two printed lines alone show what is retrieved; a program that configures logging gets each line once."""
    retrieve = FIRST + 'alma.learn(agent="helena", task="Deploy", outcome="success", strategy_used="Canary")\n'
    retrieve += 'alma.retrieve(task="Deploy", agent="helena")\n'
    silent = share_forks().run(retrieve, workspace)
    printed = share_forks().run(example("Debug Logging") + retrieve, workspace)
    configured = "import logging\nlogging.basicConfig()\n" + example("Debug Logging") + retrieve
    once = share_forks().run(configured, workspace)
    assert [run.code for run in (silent, printed, once)] == [0, 0, 0], once.err
    assert "candidates" not in silent.err
    assert printed.err.count("retrieve for agent helena") == 1
    assert once.err.count("retrieve for agent helena") == 1
    assert "Canary" not in printed.err + once.err


def test_embeddings_dimension_mismatch(workspace: Path) -> None:
    """Said by name, and not found out by wrong results."""
    wrong = example("Configuration", "yaml").replace("embedding_dim: 384", "embedding_dim: 1536")
    (workspace / ".alma" / "config.yaml").write_text(wrong)
    with pytest.raises(ConfigError, match=r"embedding_dim.*384|384.*embedding_dim"):
        ALMA.from_config(workspace / ".alma" / "config.yaml")


def test_the_examples_are_all_here() -> None:
    """Each heading with an example is tested above or in `test_quick_starts`, or belongs to a part of its own."""
    elsewhere = {"Installation", "1. Set Up Configuration", "2. Use ALMA in Your Code", "MCP Server Integration"}
    elsewhere |= {"Common Issues"}
    tested = {
        "LLM-Powered Fact Extraction",
        "Graph Memory",
        "Scoped Learning",
        "The Harness Pattern",
        "Domain Memory Factory",
        "Progress Tracking",
        "Session Handoff",
    }
    tested |= {"Confidence Engine", "Configuration", "Debug Logging"}
    headings = re.findall(r"^#{2,3} (.+)\n\n```", TEXT, re.MULTILINE)
    assert set(headings) == elsewhere | tested
    assert json.loads(example("MCP Server Integration", "json").partition("\n")[2])


def test_the_example_of_a_configuration_can_be_copied(tmp_path: Path) -> None:
    (tmp_path / ".alma").mkdir()
    example = Path(__file__).parent.parent / "config.yaml.example"
    (tmp_path / ".alma" / "config.yaml").write_bytes(example.read_bytes())
    with ALMA.from_config(tmp_path / ".alma" / "config.yaml") as alma:
        assert alma.project_id == "my-project"


def test_first_names_of_modules_and_methods_are_there() -> None:
    from alma import ALMAError, StorageError, ValidationError, errors, exceptions, storage
    from alma.ports import Store

    assert exceptions.StorageError is errors.StorageError is StorageError
    assert issubclass(StorageError, ALMAError)
    assert issubclass(ValidationError, ALMAError)
    assert exceptions.ScopeViolationError is errors.ScopeError
    assert storage.StorageBackend is Store
    with ALMA(MemoryStore(), HashEmbedder()) as alma:
        rows = [{"agent": "dev", "task": "Deploy", "outcome": "success", "strategy_used": "Canary"}]
        assert [one.success for one in alma.batch_save_outcomes(rows)] == [True]
        fact = {"agent": "dev", "domain": "people", "fact": "Bob likes tea"}
        strategy = {"agent": "dev", "condition": "Testing", "strategy": "Twice"}
        assert len(alma.batch_save_domain_knowledge([fact]) + alma.batch_save_heuristics([strategy])) == 2
