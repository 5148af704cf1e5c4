"""The quick starts that people find in the product's descriptions, as they are printed there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.forked import share_forks

pytestmark = pytest.mark.system

CONFIG = """\
alma:
  project_id: "my-project"
  storage: sqlite
  embedding_provider: local
  storage_dir: .alma
  db_name: alma.db
  embedding_dim: 384
"""

FIX_THE_LOGIN_BUG = """
from alma import ALMA

alma = ALMA.from_config(".alma/config.yaml")

# Retrieve what the agent learned
memories = alma.retrieve(task="Fix the login bug", agent="developer", top_k=5)

# Inject into your prompt
prompt = f"## Context from past runs\\n{memories.to_prompt()}\\n\\n## Task\\nFix the login bug"

# After the task, learn from the outcome
alma.learn(agent="developer", task="Fix login bug",
           outcome="success", strategy_used="Cleared session cache")

from alma.types import MemoryType, FeedbackSignal

# Record which memories were useful
alma.record_usage(
    retrieved_memory_ids=["m1", "m2", "m3"],
    used_memory_ids=["m1", "m3"],
    memory_type=MemoryType.HEURISTIC,
    agent="dev-agent",
)

# Explicit feedback
alma.record_feedback(
    memory_id="m1",
    memory_type=MemoryType.HEURISTIC,
    signal=FeedbackSignal.THUMBS_UP,
    agent="dev-agent",
)
print(prompt)
"""

DEPLOY_AUTH = """
from alma import ALMA

alma = ALMA.from_config(".alma/config.yaml")

# Before task: What strategies worked for this type of problem?
memories = alma.retrieve(task="Deploy auth service", agent="backend-dev")
# Returns: heuristics, past outcomes, anti-patterns, domain knowledge

# After task: Record what happened so next time is better
alma.learn(agent="backend-dev", task="Deploy auth service",
           outcome="success", strategy_used="Blue-green deployment")
print(memories.to_prompt())
"""

TEST_THE_LOGIN_FORM = '''
from alma import ALMA

# Initialize
alma = ALMA.from_config(".alma/config.yaml")

# Before task: Get relevant memories
memories = alma.retrieve(
    task="Test the login form validation",
    agent="helena",
    top_k=5
)

# Inject into your prompt
prompt = f"""
## Your Task
Test the login form validation

## Knowledge from Past Runs
{memories.to_prompt()}
"""

# After task: Learn from outcome
alma.learn(
    agent="helena",
    task="Test login form",
    outcome="success",
    strategy_used="Tested empty fields, invalid email, valid submission",
)
print(prompt)
'''
HELENA = """\
  agents:
    helena:
      domain: coding
      can_learn:
        - testing_strategies
        - selector_patterns
      cannot_learn:
        - backend_logic
      min_occurrences_for_heuristic: 3

    victor:
      domain: coding
      can_learn:
        - api_patterns
        - database_queries
      cannot_learn:
        - frontend_selectors
"""


@pytest.mark.parametrize(
    ("code", "agents", "learned"),
    [
        (FIX_THE_LOGIN_BUG, "", "Cleared session cache"),
        (DEPLOY_AUTH, "", "Blue-green deployment"),
        (TEST_THE_LOGIN_FORM, HELENA, "Tested empty fields, invalid email, valid submission"),
    ],
    ids=["fix the login bug", "deploy auth", "test the login form"],
)
def test_every_run_gets_smarter(tmp_path: Path, code: str, agents: str, learned: str) -> None:
    (tmp_path / ".alma").mkdir()
    (tmp_path / ".alma" / "config.yaml").write_text(CONFIG + agents)
    runs = [share_forks().run(code, tmp_path) for _ in range(4)]
    assert [run.code for run in runs] == [0, 0, 0, 0], runs[0].err[-2000:]
    assert learned not in runs[0].out
    assert learned in runs[1].out
    assert "worked 3 of 3, last" in runs[3].out


def test_debug_logging_has_a_logger_of_that_name(caplog: pytest.LogCaptureFixture) -> None:
    from alma import ALMA
    from alma.embedders.hash import HashEmbedder
    from alma.stores.memory import MemoryStore

    with ALMA(MemoryStore(), HashEmbedder()) as alma, caplog.at_level("WARNING", logger="alma"):
        alma.record_feedback("m1")
    assert "m1" in caplog.text


def test_debug_logging_shows_why_a_memory_is_retrieved(caplog: pytest.LogCaptureFixture) -> None:
    from alma import ALMA
    from alma.embedders.hash import HashEmbedder
    from alma.stores.memory import MemoryStore

    with ALMA(MemoryStore(), HashEmbedder()) as alma:
        with caplog.at_level("DEBUG", logger="alma"):
            outcome = alma.learn(agent="dev", task="Deploy auth", outcome="success", strategy_used="Canary")
            fact = alma.add_domain_knowledge("dev", "kitchen", "Bread needs yeast")
            memories = alma.retrieve(task="Deploy auth", agent="dev")
        lines = [record.getMessage() for record in caplog.records]
        expected = [
            rf"recorded success {outcome.id} for agent dev",
            r"retrieve for agent dev, .*: 2 candidates",
            rf"outcome {outcome.id}: cosine .*: near enough",
            rf"domain_knowledge {fact.id}: cosine .*: not near enough",
            rf"retrieval {memories.retrieval_id} for agent dev: 1 memories in .* ms",
        ]
        missing = [pattern for pattern in expected if not any(re.search(pattern, line) for line in lines)]
        assert not missing, lines
        assert "Canary" not in caplog.text
        caplog.clear()
        with caplog.at_level("INFO", logger="alma"):
            alma.retrieve(task="Deploy auth", agent="dev")
        assert caplog.text == ""
