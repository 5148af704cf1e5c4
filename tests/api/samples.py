"""A small world, and for every operation arguments that work in it. Each door calls all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from alma import ALMA
from alma.progress import ProgressTracker
from alma.session import SessionManager
from alma.workflow import WorkflowMemory

AGENT = "dev"
TASK = "Deploy the auth service"
STRATEGY = "Blue-green deployment"


@dataclass(frozen=True)
class World:
    fact: str
    heuristic: str
    item: str
    other: str
    finished: str
    session: str
    file: str
    folder: str
    change: str
    rule: str
    other_fact: str


def world(alma: ALMA, folder: str) -> World:
    for _ in range(3):
        alma.learn(AGENT, TASK, "success", STRATEGY)
    alma.learn(AGENT, TASK, "failure", "Rolling update", error_message="timeout")
    # An agent may change what an agent noted, and not what a person said.
    fact = alma.add_domain_knowledge(AGENT, "deployment", "The deploy window is 9 to 17 h", source="agent")
    other_fact = alma.add_domain_knowledge(AGENT, "people", "Alice from Acme Corp reviewed the PR that Bob submitted.")
    rule = alma.add_rule(AGENT, "Use tabs instead of spaces")
    [heuristic] = alma.list("heuristic")
    tracker = ProgressTracker(alma.project_id, alma)
    item = tracker.create_work_item(title="Rotate the signing keys", agent=AGENT)
    other = tracker.create_work_item(title="Write the release notes")
    finished = tracker.create_work_item(title="Buy the domain")
    for status in ("in_progress", "done"):
        tracker.update_status(finished.id, status)
    manager = SessionManager(alma.project_id, alma, workspace=None, held=False)
    session = manager.start_session(AGENT, "Release 2.0").session_id
    workflow = WorkflowMemory(alma=alma)
    workflow.start_run("release", "run-1")
    workflow.checkpoint("run-1", "build", {"step": 1})
    workflow.fork("run-1", "left")
    workflow.fork("run-1", "right")
    file = f"{folder}/report.txt"
    with open(file, "w", encoding="utf-8") as out:
        out.write("all well")
    change = alma.history(fact.id)[0]["change"]
    return World(
        fact.id, heuristic.id, item.id, other.id, finished.id, session, file, folder, change, rule.id, other_fact.id
    )


Arguments = Callable[[World], dict[str, Any]]

SAMPLES: dict[str, Arguments] = {
    "retrieve": lambda w: {"task": TASK, "agent": AGENT},
    "learn": lambda w: {"agent": AGENT, "task": TASK, "outcome": "success", "strategy_used": STRATEGY},
    "record_usage": lambda w: {"retrieved_memory_ids": [w.fact, w.heuristic], "used_memory_ids": [w.fact]},
    "record_feedback": lambda w: {"memory_id": w.fact, "signal": "thumbs_up"},
    "add_preference": lambda w: {"user_id": "ana", "category": "style", "preference": "Short answers"},
    "add_knowledge": lambda w: {"agent": AGENT, "domain": "deployment", "fact": "Staging is db2"},
    "add_heuristic": lambda w: {"agent": AGENT, "condition": "Testing forms", "strategy": "Empty fields first"},
    "add_anti_pattern": lambda w: {"agent": AGENT, "pattern": "Deploy on Friday", "why_bad": "Nobody is there"},
    "add_rule": lambda w: {"agent": AGENT, "rule": "Use pnpm instead of npm"},
    "add_episode": lambda w: {
        "agent": AGENT,
        "session_id": "standup-7",
        "turns": [{"speaker": "Ana", "text": "The release moves to Friday."}],
    },
    "list": lambda w: {"memory_type": "heuristic"},
    "search": lambda w: {"query": "deploy window", "agent": AGENT},
    "explain": lambda w: {"memory_id": w.heuristic, "task": TASK, "agent": AGENT},
    "get": lambda w: {"memory_id": w.heuristic},
    "promote": lambda w: {"memory_id": w.heuristic, "to": "project"},
    "update": lambda w: {"memory_id": w.fact, "fields": {"fact": "The deploy window is 8 to 18 h"}},
    "delete": lambda w: {"memory_id": w.fact},
    "erase_user": lambda w: {"user_id": "ana"},
    "history": lambda w: {"memory_id": w.heuristic},
    "blame": lambda w: {"text": "deploy window"},
    "diff": lambda w: {"since": "2026-01-01"},
    "undo": lambda w: {"dry_run": True},
    "revert": lambda w: {"change": w.change, "dry_run": True},
    "bisect": lambda w: {"task": TASK, "agent": AGENT},
    "forget": lambda w: {"dry_run": True},
    "upkeep": lambda w: {"dry_run": True},
    "consolidate": lambda w: {"limit": 10},
    "conflicts": lambda w: {},
    "resolve_conflict": lambda w: {"conflict_id": "cmp_", "keep": "newer"},
    "browse": lambda w: {"types": ["heuristic"], "words": "deploy", "limit": 5},
    "explain_task": lambda w: {"task": TASK, "agent": AGENT},
    "inspect": lambda w: {"memory_id": w.heuristic},
    "inbox": lambda w: {},
    "browse_sessions": lambda w: {},
    "browse_observations": lambda w: {},
    "show_session": lambda w: {"session": "standup-7"},
    "list_changes": lambda w: {"since": "2026-01-01", "limit": 100},
    "overview": lambda w: {},
    "configuration": lambda w: {},
    "stats": lambda w: {},
    "playbook": lambda w: {},
    "health": lambda w: {},
    "create_work_item": lambda w: {"title": "Fix the login bug", "priority": 80, "blocked_by": [w.item]},
    "get_next_item": lambda w: {"agent": AGENT, "claim": True},
    "update_progress": lambda w: {"item_id": w.item, "status": "in_progress", "notes": "begun"},
    "list_work_items": lambda w: {"status": ["pending"]},
    "claim_work_item": lambda w: {"item_id": w.item, "agent": AGENT},
    "release_work_item": lambda w: {"item_id": w.item, "agent": AGENT},
    "archive_finished": lambda w: {"older_than_days": 0},
    "delete_work_item": lambda w: {"item_id": w.other},
    "progress_summary": lambda w: {},
    "progress_logs": lambda w: {},
    "log_progress": lambda w: {"agent": AGENT, "session_id": w.session, "current_action": "testing"},
    "start_session": lambda w: {"agent": AGENT, "goal": "Deploy the auth service", "workspace": None},
    "update_session": lambda w: {
        "agent": AGENT,
        "session_id": w.session,
        "action": "ran the tests",
        "outcome": "success",
        "blockers": ["staging is down"],
    },
    "end_session": lambda w: {"agent": AGENT, "session_id": w.session, "next_steps": ["Tag the release"]},
    "quick_reload": lambda w: {"agent": AGENT},
    "list_sessions": lambda w: {"agent": AGENT},
    "initialize": lambda w: {"agent": AGENT, "user_prompt": "- Fix login\n- Write docs", "workspace": None},
    "wake_up": lambda w: {"agent": AGENT},
    "update_run": lambda w: {"workflow_id": "release", "run_id": "run-2"},
    "list_runs": lambda w: {"workflow_id": "release"},
    "checkpoint": lambda w: {"run_id": "run-1", "node_id": "test", "state": {"step": 2, "seen": ["a"]}},
    "resume": lambda w: {"run_id": "run-1"},
    "cleanup_checkpoints": lambda w: {"run_id": "run-1", "keep_latest": 1},
    "merge_states": lambda w: {"states": [{"n": 1}, {"n": 2}], "reducers": {"n": "sum"}},
    "link_artifact": lambda w: {"run_id": "run-1", "location": w.file},
    "get_artifacts": lambda w: {"run_id": "run-1"},
    "workflow_learn": lambda w: {
        "run_id": "run-1",
        "agent": AGENT,
        "outcome": "success",
        "strategies_used": ["Build before test"],
    },
    "retrieve_scoped": lambda w: {"task": TASK, "agent": AGENT, "scope": "workflow", "workflow_id": "release"},
    "list_domains": lambda w: {"name": "research"},
    "create_domain": lambda w: {"name": "gardening", "entity_types": [{"name": "plant", "attributes": ["height"]}]},
    "use_domain": lambda w: {"name": "general"},
    "delete_domain": lambda w: {"name": "gardening"},
    "assess_confidence": lambda w: {"strategy": STRATEGY, "context": TASK, "agent": AGENT},
    "rank_strategies": lambda w: {"strategies": [STRATEGY, "Rolling update"], "context": TASK, "agent": AGENT},
    "calibration": lambda w: {"limit": 10},
    "learn_many": lambda w: {
        "outcomes": [{"agent": AGENT, "task": TASK, "outcome": "success", "strategy_used": STRATEGY}]
    },
    "add_many": lambda w: {
        "memories": [
            {"type": "domain_knowledge", "agent": AGENT, "domain": "ops", "attribute": "backups", **one}
            for one in (
                {"fact": "Backups run at night", "source": "user"},
                {"fact": "Backups run at noon", "source": "agent"},
            )
        ]
    },
    "add_episodes": lambda w: {
        "conversations": [{"agent": AGENT, "session_id": "s1", "turns": [{"speaker": "Ana", "text": "Hello there."}]}]
    },
    "learn_from": lambda w: {
        "messages": [
            {"role": "user", "content": "Test the login form"},
            {"role": "assistant", "content": "I used incremental validation which worked well."},
            {"role": "user", "content": "From now on never use sleep() for async waits."},
        ],
        "agent": AGENT,
    },
    "learn_from_text": lambda w: {"text": "We decided to use PostgreSQL for the billing service.", "agent": AGENT},
    "ingest": lambda w: {"path": w.file, "agent": AGENT},
    "usage": lambda w: {},
    "build_graph": lambda w: {},
    "about_entity": lambda w: {"name": "Alice"},
    "find_entities": lambda w: {"name": "Alice"},
    "traverse_graph": lambda w: {"name": "Alice", "to": "Acme Corp"},
    "merge_entities": lambda w: {"keep": "Alice", "others": ["Bob"]},
    "graph_stats": lambda w: {"suggestions": 20},
    "export_rules": lambda w: {"to": "agents-md", "root": w.folder},
    "import_rules": lambda w: {"path": "AGENTS.md", "root": w.folder},
    "deliver_events": lambda w: {},
    "list_deliveries": lambda w: {"state": "dead"},
    "retry_deliveries": lambda w: {},
    "test_webhooks": lambda w: {},
    "review": lambda w: {"action": "archive", "ids": [w.heuristic]},
    "merge": lambda w: {"ids": [w.fact, w.other_fact], "into": w.fact},
}

BEFORE: dict[str, str] = {
    "release_work_item": "claim_work_item",
    "delete_domain": "create_domain",
    "about_entity": "build_graph",
    "find_entities": "build_graph",
    "traverse_graph": "build_graph",
    "merge_entities": "build_graph",
    "import_rules": "export_rules",
    "conflicts": "add_many",
    "resolve_conflict": "add_many",
    "show_session": "add_episode",
}
"""What must have been called before, with its own sample."""
