"""A deleted memory comes back through no writer, in its own words or in others, unless a person brings it back."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA, rulefiles
from alma.coding.events import Attendance, Event
from alma.coding.session import RepairedCommand, build_session
from alma.embedders.hash import HashEmbedder
from alma.engine import erase, exchanges, observations, rules, team, transfer
from alma.engine.history import revert_change
from alma.engine.rules import Teaching
from alma.engine.transaction import write
from alma.engine.transfer import ImportTrust
from alma.extraction import AutoLearner
from alma.graph import build, create_graph_store
from alma.migration import Migration
from alma.operations import Effect, operations
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.types.kinds import MEMORY_KINDS, Reach, RuleSource
from alma.types.query import Where
from alma.types.record import Record
from alma.workflow import WorkflowMemory

SOURCE = Path(__file__).parent.parent / "src"
OWNER = {"user_preference": {"user_id": "ana"}, "rule": {"agent": rules.AGENT}}
EXACT: dict[str, dict[str, str]] = {
    "domain_knowledge": {"domain": "infra", "fact": "The staging database listens on port 5433 in Frankfurt"},
    "user_preference": {"category": "tone", "preference": "Answer in short sentences without any jargon"},
    "rule": {"rule": "Run the linter before every commit on main"},
    "heuristic": {"condition": "Deploying the web shop", "strategy": "Blue-green deployment with smoke tests"},
    "anti_pattern": {"pattern": "Restart all cache nodes at once", "why_bad": "It drops the sessions"},
}
REWORDED: dict[str, dict[str, str]] = {
    "domain_knowledge": {"domain": "databases", "fact": "In Frankfurt the staging database is listening on port 5433"},
    "user_preference": {"category": "style", "preference": "Without any jargon, and answered in short sentences!"},
    "rule": {"rule": "Before every commit on main, run the linter"},
    "heuristic": {"condition": "Web shop deploying", "strategy": "Smoke tests with blue-green deployment"},
    "anti_pattern": {"pattern": "All cache nodes restarted at once", "why_bad": "Users lose sessions"},
}
FORMS = {"exact": EXACT, "reworded": REWORDED}
Words = dict[str, str]


@pytest.fixture
def alma(tmp_path: Path) -> Iterator[ALMA]:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="app") as opened:
        yield opened


def state(alma: ALMA, kind: str, words: Words, source: str) -> Any:
    [made] = alma.add_many([{"type": kind, **OWNER.get(kind, {"agent": "dev"}), **words, "source": source}])
    return made


def state_and_delete(alma: ALMA, kind: str) -> None:
    alma.delete(state(alma, kind, EXACT[kind], "user").id)


def list_active(alma: ALMA, kind: str) -> list[str]:
    return [memory.id for memory in alma.list(kind)]  # type: ignore[call-overload]


# -- writers that are told a value


def add_one(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    names = {"domain_knowledge": "add_knowledge", "user_preference": "add_preference"}
    arguments = {**OWNER.get(kind, {"agent": "dev"}), **words, "source": "agent"}
    operations()[names.get(kind, f"add_{kind}")].call(alma, arguments)


def add_many(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    state(alma, kind, words, "agent")


def add_again_and_again(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    for source in ("agent", "tool_output", "agent", "import"):
        state(alma, kind, words, source)


def change_another(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    if kind == "rule":
        return  # Only a person may reword a rule.
    other = {name: f"Something else about {name} number 7" for name in words}
    made = state(alma, kind, other, "agent")
    alma.update(made.id, words, source="agent")


def import_as(trust: ImportTrust) -> Callable[[ALMA, str, Words, Path], None]:
    def import_file(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
        with ALMA(MemoryStore(), HashEmbedder(), project_id="app") as other:
            # Somebody else's own words, or what an agent of theirs wrote down.
            state(other, kind, words, "user" if words == EXACT[kind] else "agent")
            lines = list(transfer.export_lines(other.engine))
        transfer.import_records(alma.engine, transfer.read_records(lines, "export"), len(lines), trust=trust)

    import_file.__name__ = f"import_{trust}"
    return import_file


def state_with_evidence(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    """The results say that an agent's lesson works, or does not: it still waits for a person."""
    state(alma, kind, words, "agent")
    if kind in ("heuristic", "anti_pattern"):
        learn_outcomes(alma, kind, words, folder)


def learn_outcomes(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    for _ in range(4):
        alma.learn("dev", words.get("condition", "Restart the cache"), **describe_outcome(words))


def learn_many(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    task = {"agent": "dev", "task": words.get("condition", "Restart the cache")}
    alma.learn_many([{**task, **describe_outcome(words)} for _ in range(4)])


def learn_in_workflow(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    workflow = WorkflowMemory(alma=alma)
    workflow.start_run("shop", "run-1")
    told = describe_outcome(words)
    for _ in range(4):
        task = words.get("condition", "Restart the cache")
        workflow.learn_from_workflow("run-1", "dev", told["outcome"], [told["strategy_used"]], task)


def describe_outcome(words: Words) -> dict[str, str]:
    is_warning = "pattern" in words
    return {
        "outcome": "failure" if is_warning else "success",
        "strategy_used": words["pattern" if is_warning else "strategy"],
    }


def correct_agent(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    """A correction is heard in three sessions after the deletion."""
    for number in range(3):
        at = alma.engine.clock() + timedelta(hours=number)
        one = Teaching(f"t{number}", words["rule"], Reach.PROJECT, RuleSource.CORRECTION, at=at)
        rules.teach(alma.engine, [one])


def copy_from_team(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    team.replace_copies(alma.engine, [team.TeamRule("r1", words["rule"], "")])


def merge_stores(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    with ALMA(MemoryStore(), HashEmbedder(), project_id="app") as other:
        state(other, kind, words, "user")
        Migration(other.engine.store, alma.engine.store, merge=True).run()


def import_rule_file(alma: ALMA, kind: str, words: Words, folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "NOTES.md").write_text(f"# Notes\n\n- {words['rule']}\n", encoding="utf-8")
    rulefiles.import_(alma, "NOTES.md", root=str(folder), all=True)


ALL = tuple(EXACT)
LESSONS = ("heuristic", "anti_pattern")
WRITERS: dict[str, tuple[Callable[[ALMA, str, Words, Path], None], tuple[str, ...], tuple[str, ...]]] = {
    # For each writer the kinds that it can make, and the forms that it must not bring back.
    "add": (add_one, ALL, ("exact", "reworded")),
    "add many": (add_many, ALL, ("exact", "reworded")),
    "repeat": (add_again_and_again, ALL, ("exact", "reworded")),
    "change": (change_another, ALL, ("exact", "reworded")),
    "import own": (import_as(ImportTrust.OWN), ALL, ("exact",)),
    "import": (import_as(ImportTrust.IMPORTED), ALL, ("exact", "reworded")),
    "import untrusted": (import_as(ImportTrust.NONE), ALL, ("exact", "reworded")),
    "learn": (learn_outcomes, LESSONS, ("exact", "reworded")),
    "learn many": (learn_many, LESSONS, ("exact", "reworded")),
    "learn in a workflow": (learn_in_workflow, LESSONS, ("exact", "reworded")),
    "evidence": (state_with_evidence, LESSONS, ("exact", "reworded")),
    "correct": (correct_agent, ("rule",), ("exact", "reworded")),
    "team": (copy_from_team, ("rule",), ("exact", "reworded")),
    "merge": (merge_stores, ALL, ("exact",)),
    "rule file": (import_rule_file, ("rule",), ("exact",)),
}
CASES = [
    pytest.param(writer, kind, form, id=f"{name}-{kind}-{form}")
    for name, (writer, kinds, forms) in WRITERS.items()
    for kind in kinds
    for form in forms
]


@pytest.mark.parametrize(("writer", "kind", "form"), CASES)
def test_no_writer_brings_a_deleted_value_back(
    alma: ALMA, tmp_path: Path, writer: Callable[[ALMA, str, Words, Path], None], kind: str, form: str
) -> None:
    state_and_delete(alma, kind)
    before = list_active(alma, kind)
    writer(alma, kind, FORMS[form][kind], tmp_path)
    assert list_active(alma, kind) == before


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("form", FORMS)
def test_a_person_brings_it_back_with_a_statement(alma: ALMA, kind: str, form: str) -> None:
    state_and_delete(alma, kind)
    state(alma, kind, FORMS[form][kind], "agent")
    assert state(alma, kind, FORMS[form][kind], "user").status == "active"
    assert len(list_active(alma, kind)) == 1


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("form", FORMS)
def test_a_candidate_says_why_it_waits_until_a_person_accepts_it(alma: ALMA, kind: str, form: str) -> None:
    state_and_delete(alma, kind)
    waiting = state(alma, kind, FORMS[form][kind], "agent")
    assert waiting.status == "candidate"
    if kind != "rule":  # The rules of agents wait in any case.
        assert waiting.metadata["resembles"] == "a deleted memory"
    accepted = alma.update(waiting.id, status="active")
    assert accepted.status == "active"
    assert "resembles" not in accepted.metadata
    assert state(alma, kind, FORMS[form][kind], "agent").status == "active", "a repetition changes nothing"


def test_what_was_said_before_the_deletion_does_not_take_it_back(alma: ALMA) -> None:
    learner = AutoLearner(alma)
    said = "Our log retention is 30 days on all of the servers."
    learner.learn_from_conversation([{"role": "user", "content": said, "at": "2025-05-01T10:00:00Z"}], "dev", "ana")
    [fact] = alma.list("domain_knowledge")
    alma.delete(fact.id)
    other = "On all of the servers our log retention is 30 days."
    for number, text in enumerate((said, other)):
        message = {"role": "user", "content": text, "at": f"2025-06-0{number + 1}T10:00:00Z"}
        learner.learn_from_conversation([message], "dev", "ana", f"session {number}")
        assert list_active(alma, "domain_knowledge") == []


def test_what_a_reader_finds_again_stays_away(alma: ALMA, tmp_path: Path) -> None:
    text = "We decided to use PostgreSQL for the billing service."
    learner = AutoLearner(alma)
    for number in (1, 2):
        (tmp_path / f"notes{number}.md").write_text(f"# Billing {number}\n\n{text}\n", encoding="utf-8")
    readers: dict[str, Callable[[int], Any]] = {
        "learn_from_text": lambda number: learner.learn_from_text(text, "dev", name=f"note {number}", source="agent"),
        "learn_from": lambda number: learner.learn_from(
            [{"role": "user", "content": text}], "dev", session_id=f"s{number}", source="agent"
        ),
        "ingest": lambda number: operations()["ingest"].call(
            alma, {"path": str(tmp_path / f"notes{number}.md"), "agent": "dev"}
        ),
    }
    for name, reader in readers.items():
        reader(1)
        memories = alma.list("domain_knowledge", status=None)
        assert memories, name
        for memory in memories:
            alma.delete(memory.id)
        reader(2)
        assert list_active(alma, "domain_knowledge") == [], name


def test_a_deleted_conversation_and_a_deleted_turn_stay_away(alma: ALMA) -> None:
    turns = [{"speaker": "Ana", "text": "I play the tuba."}, {"speaker": "Ana", "text": "Goodbye"}]
    first = alma.add_episode("dev", "s1", turns)
    second = alma.add_episode("dev", "s2", turns)
    alma.delete(first.id)
    alma.delete(alma.get(second.id).turns[0].id)  # type: ignore[attr-defined]
    alma.add_episode("dev", "s1", turns)
    alma.add_episodes([{"agent": "dev", "session_id": "s2", "turns": turns}])
    assert [one.text for one in alma.get(second.id).turns] == ["Goodbye"]  # type: ignore[attr-defined]
    assert [one.id for one in alma.list("episode")] == [second.id]


def test_a_deleted_observation_stays_away(alma: ALMA) -> None:
    repair = RepairedCommand("npm test", "unknown option: use --run", ("a", "b"), "npm test -- --run")
    prepared = observations.prepare_repairs(alma.engine, [repair], lambda program, offset: False)
    [record] = write(alma.engine, lambda tx: observations.record_repairs(tx, "s1", prepared))
    erase.erase_memory(alma.engine, record)
    again = [(replace(repair, ids=("c", "d")), draft, telling) for _, draft, telling in prepared]
    assert write(alma.engine, lambda tx: observations.record_repairs(tx, "s2", again)) == []
    [stone] = alma.engine.store.scan(Where(kinds={"tombstone"}))
    assert stone.key != record.key


def prepare_exchanges(alma: ALMA, events: list[Event]) -> list[Record]:
    story = build_session(events)
    return exchanges.prepare_exchanges(alma.engine, story, 0, exchanges.OutsideWords(story))


def test_a_deleted_exchange_stays_away_also_when_its_session_goes_on(alma: ALMA) -> None:
    place: dict[str, Any] = {"session": "s1", "attendance": Attendance.PERSON, "is_sealed": True}
    said = Event("e1", "UserPromptSubmit", 1_790_000_000.0, data={"prompt": "we never log in here"}, offset=1, **place)
    answer = Event("e2", "Stop", 1_790_000_001.0, data={"last_assistant_message": "Ok."}, offset=2, **place)
    drafts = prepare_exchanges(alma, [said])
    [record] = write(alma.engine, lambda tx: exchanges.record_exchanges(tx, drafts))
    erase.erase_memory(alma.engine, record)
    for events in ([said], [said, answer]):
        drafts = prepare_exchanges(alma, events)
        assert write(alma.engine, partial(exchanges.record_exchanges, drafts=drafts)) == []
    [stone] = alma.engine.store.scan(Where(kinds={"tombstone"}))
    assert stone.key != record.key


def test_the_graph_has_nothing_of_a_deleted_fact(alma: ALMA) -> None:
    made = alma.add_domain_knowledge("dev", "people", "Maria works at Globex.")
    alma.delete(made.id)
    alma.add_domain_knowledge("dev", "people", "Maria works at Globex.", source="agent")
    build(alma)
    assert not create_graph_store("sqlite", alma=alma).find("Globex")


def test_a_value_that_waits_replaces_nothing(alma: ALMA) -> None:
    key = {"subject": "staging", "attribute": "host"}
    alma.delete(alma.add_domain_knowledge("dev", "hosts", "The staging host is alpha", "agent", **key).id)
    current = alma.add_domain_knowledge("dev", "hosts", "The staging host is beta", "agent", **key)
    assert alma.add_domain_knowledge("dev", "hosts", "The staging host is alpha", "agent", **key).status == "candidate"
    assert alma.get(current.id).status == "active"
    warning = alma.add_anti_pattern(
        "dev", "Rolling update", "It drops sessions", condition="Deploy the shop", source="agent"
    )
    alma.delete(alma.add_heuristic("dev", "Deploy the ship", "Blue-green deployment").id)
    alma.add_heuristic("dev", "Deploy the ship", "Blue-green deployment", source="agent")
    assert alma.get(warning.id).status == "active"


def test_a_change_that_is_taken_back_does_not_bring_a_deleted_value_back(alma: ALMA) -> None:
    exact, other = EXACT["domain_knowledge"]["fact"], REWORDED["domain_knowledge"]["fact"]
    made = alma.add_domain_knowledge("dev", "databases", other, source="agent")
    alma.update(made.id, fact="Production listens on port 5432", source="agent")
    change = alma.history(made.id)[-1]["change"]
    alma.delete(alma.add_domain_knowledge("dev", "infra", exact).id)
    revert_change(alma.engine, change)
    assert alma.get(made.id).status == "candidate"


def test_an_agent_restores_nothing_that_was_deleted(alma: ALMA) -> None:
    exact, other = EXACT["domain_knowledge"]["fact"], REWORDED["domain_knowledge"]["fact"]
    made = alma.add_domain_knowledge("dev", "databases", other, source="agent")
    alma.update(made.id, status="archived", source="agent")
    alma.delete(alma.add_domain_knowledge("dev", "infra", exact).id)
    caller = ALMA(alma.engine.store, HashEmbedder(), project_id="app")
    caller.engine = replace(caller.engine, may_approve=False)
    assert caller.update(made.id, status="active", source="agent").status == "candidate"


def test_deleted_once_it_is_deleted_in_this_place_only(alma: ALMA) -> None:
    state_and_delete(alma, "domain_knowledge")
    words = EXACT["domain_knowledge"]
    others = [
        alma.add_domain_knowledge("ops", **words, source="agent"),
        alma.add_domain_knowledge("dev", **words, source="agent", user_id="ana"),
        alma.add_heuristic("dev", "Connecting to staging", words["fact"], source="agent"),
    ]
    with ALMA(alma.engine.store, HashEmbedder(), project_id="another") as another:
        others.append(another.add_domain_knowledge("dev", **words, source="agent"))
        assert [one.status for one in others] == ["active"] * 4


def test_a_promoted_memory_is_deleted_for_the_agent_that_it_came_from(alma: ALMA) -> None:
    made = alma.add_domain_knowledge("dev", **EXACT["domain_knowledge"], source="agent")
    alma.promote(made.id, "project")
    alma.delete(made.id)
    for words in (EXACT, REWORDED):
        assert alma.add_domain_knowledge("dev", **words["domain_knowledge"], source="agent").status == "candidate"


# -- no writer is forgotten

HARMLESS = "writes no memory, or only its counts"
SHARES = "shows an active memory to others"
GIST = "repeats turns that are stored, and is deleted with them"
ENDS = "only ends, archives or erases"
BY_OPERATION = {
    "learn": "learn", "learn_many": "learn many", "workflow_learn": "learn in a workflow", "add_many": "add many",
    **dict.fromkeys(("add_preference", "add_knowledge", "add_heuristic", "add_anti_pattern", "add_rule"), "add"),
    "update": "change", "import_rules": "rule file",
    **dict.fromkeys(("add_episode", "add_episodes"), test_a_deleted_conversation_and_a_deleted_turn_stay_away),
    **dict.fromkeys(
        ("learn_from_text", "learn_from", "ingest"), test_what_a_reader_finds_again_stays_away
    ),
    **dict.fromkeys(("undo", "revert"), test_a_change_that_is_taken_back_does_not_bring_a_deleted_value_back),
    "build_graph": test_the_graph_has_nothing_of_a_deleted_fact,
    **dict.fromkeys(("delete", "erase_user", "forget", "consolidate", "upkeep"), ENDS),
    "promote": SHARES,
    **dict.fromkeys(("resolve_conflict", "review", "merge"), "a person does it"),
    **dict.fromkeys(
        """record_usage record_feedback create_work_item get_next_item update_progress claim_work_item release_work_item
        archive_finished delete_work_item log_progress start_session update_session end_session initialize update_run
        checkpoint cleanup_checkpoints link_artifact create_domain use_domain delete_domain merge_entities
        export_rules deliver_events retry_deliveries test_webhooks""".split(),
        HARMLESS,
    ),
}  # fmt: skip
BY_FUNCTION = {
    "alma/engine/coding_sessions.py": {
        "apply_reading": "correct", "store_session": "correct", "change_progress": HARMLESS, "queue_session": HARMLESS,
    },
    "alma/engine/edit.py": {
        "add_memories": "add", "record_feedback": HARMLESS, "update_memory": "change",
        "review_memories": "a person does it",
    },
    "alma/engine/episodes.py": dict.fromkeys(
        ("_grow_episode", "record_conversations"), test_a_deleted_conversation_and_a_deleted_turn_stay_away
    ),
    "alma/engine/erase.py": dict.fromkeys(("_bury", "erase_memory", "erase_user"), ENDS),
    "alma/engine/conflicts.py": {"resolve_conflict": "a person does it"},
    "alma/engine/consolidate.py": {
        **dict.fromkeys(("reconcile", "_hold_back_returned"), ENDS), "merge_memories": "a person does it",
    },
    "alma/engine/exchanges.py": {
        "record_exchanges": test_a_deleted_exchange_stays_away_also_when_its_session_goes_on,
    },
    "alma/engine/facts.py": {"add_records": "repeat", "put_comparison": HARMLESS},
    "alma/engine/gists.py": dict.fromkeys(("_store_gist", "compress_conversation"), GIST),
    "alma/engine/history.py": {"revert_change": test_a_change_that_is_taken_back_does_not_bring_a_deleted_value_back},
    "alma/engine/observations.py": dict.fromkeys(
        ("adopt_old_fixes", "record_repairs"), test_a_deleted_observation_stays_away
    ),
    "alma/engine/outcomes.py": {
        "_record_outcome": "learn", "_state_lesson": "evidence", "find_or_make_group": HARMLESS,
        "learn_outcomes": "learn", "put_receipt": HARMLESS, "settle_lessons": "learn", "state_lessons": "add",
    },
    "alma/engine/promotion.py": {"promote_memory": SHARES},
    "alma/engine/retention.py": {
        **dict.fromkeys(("UpkeepRun.archive", "run_upkeep"), ENDS), "read_lookalikes": HARMLESS,
    },
    "alma/engine/retrieve/lookalikes.py": {"store_pairs": HARMLESS},
    "alma/engine/rules.py": {
        "_learn_rule": "correct", "teach": "correct", "change_rule": "a person does it",
        "restore_rule": "a person does it", "erase_rule": ENDS,
    },
    "alma/engine/team.py": dict.fromkeys(("replace_copies", "_put_copies", "screen_copies"), "team"),
    "alma/engine/transaction.py": dict.fromkeys(
        ("Transaction.add", "Transaction.add_history", "Transaction.set_marker", "Transaction.update", "write"),
        "the one way to write",
    ),
    "alma/engine/transfer.py": {"_import_batch": "import", "import_records": "import"},
    "alma/engine/upkeep.py": {"reindex": "writes vectors only"},
    "alma/extraction/learner.py": dict.fromkeys(
        ("_Keeper.write_items", "_Keeper.create_work"), test_what_a_reader_finds_again_stays_away
    ),
    "alma/migration.py": {"Migration._write_records": "merge", "Migration.run": HARMLESS},
    "alma/projects.py": {"Fence.put": "passes records on"},
    "alma/rulefiles/exchange.py": {"export": HARMLESS, "import_": "rule file"},
    "claude_smart/data.py": {"_share_project": "a person does it"},
    "claude_smart/rules.py": {"accept_rule": "a person does it"},
    **dict.fromkeys(
        """alma/domains/__init__.py alma/engine/context.py alma/engine/retrieve/pipeline.py alma/events.py
        alma/graph/builder.py alma/graph/rows.py alma/hooks/drain.py alma/hooks/learn_requests.py
        alma/ingestion/intake.py alma/models/budget.py alma/progress/__init__.py
        alma/progress/items.py alma/session/__init__.py alma/session/handoff.py alma/workflow/__init__.py""".split(),
        HARMLESS,
    ),
}  # fmt: skip


def find_writers() -> set[tuple[str, str]]:
    """Return the file and the function of everything that stores records."""
    writers = set()

    def walk(node: ast.AST, file: str, inside: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = inside
            if isinstance(child, ast.ClassDef) or (isinstance(child, ast.FunctionDef) and not is_function(inside)):
                name = f"{inside}.{child.name}".lstrip(".")
            if isinstance(child, ast.Call):
                called = ast.unparse(child.func).split(".")
                is_put = (
                    called[-1] in ("put", "add") and called[-2:-1] and called[-2] in ("tx", "store", "_store", "target")
                )
                if (
                    called == ["write"]
                    or is_put
                    or (inside.startswith("Transaction.") and called[:1] == ["self"] and called[-1] == "put")
                ):
                    writers.add((file, name))
            walk(child, file, name)

    def is_function(inside: str) -> bool:
        return bool(inside) and not inside.rsplit(".", 1)[-1].lstrip("_")[:1].isupper()

    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        if not file.startswith(("alma/stores/", "alma/testing/")):
            walk(ast.parse(path.read_text(encoding="utf-8")), file, "")
    return writers


def test_every_operation_is_classified() -> None:
    changing = {name for name, one in operations().items() if one.effect is not Effect.READS}
    assert changing == BY_OPERATION.keys(), "say by which test a new operation brings no deleted value back"


def test_every_function_that_stores_records_is_classified() -> None:
    writers = find_writers()
    unclassified = {
        (file, function)
        for file, function in writers
        if file not in BY_FUNCTION or (isinstance(functions := BY_FUNCTION[file], dict) and function not in functions)
    }
    assert not unclassified, "say by which test a new writer brings no deleted value back"
    known = {(file, one) for file, functions in BY_FUNCTION.items() if isinstance(functions, dict) for one in functions}
    assert known <= writers, "these are no writers any more"


def test_each_classification_names_a_test() -> None:
    reasons = {
        HARMLESS,
        ENDS,
        GIST,
        SHARES,
        "a person does it",
        "the one way to write",
        "writes vectors only",
        "passes records on",
    }
    named = [
        *BY_OPERATION.values(),
        *(one for some in BY_FUNCTION.values() if isinstance(some, dict) for one in some.values()),
    ]
    assert {one for one in named if isinstance(one, str)} <= WRITERS.keys() | reasons


def test_all_kinds_of_memories_are_tried() -> None:
    assert {*EXACT, "outcome", "episode"} == {*MEMORY_KINDS}


def test_the_text_of_an_undone_merge_goes_with_each_of_its_sources(tmp_path: Path) -> None:
    for number in (0, 1):
        folder = tmp_path / str(number)
        with ALMA.quickstart("p", folder) as alma:
            texts = ("Alpha uses zebra storage", "The alpha service stores in zebra")
            facts = [alma.add_domain_knowledge("dev", "storage", text, source="user") for text in texts]
            alma.merge([one.id for one in facts], into=facts[0].id, text="Quagga is what alpha uses")
            alma.undo()
            alma.delete(facts[number].id)
            alma.vacuum()
        assert b"Quagga" not in b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())
