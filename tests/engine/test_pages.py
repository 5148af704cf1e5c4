"""Pages of memories, decisions about several of them, merges by hand, and what a person looks at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.engine.observations import draft_observation
from alma.engine.pages import cut_memory
from alma.engine.transaction import write
from alma.errors import NotFoundError, ScopeError, StaleVersionError, ValidationError
from alma.operations import operations
from alma.schema import plain
from alma.stores.sqlite import SQLiteStore
from alma.types.record import Status


@pytest.fixture
def alma(tmp_path: Path) -> Iterator[ALMA]:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="app") as opened:
        yield opened


def call(alma: ALMA, operation: str, **arguments: Any) -> Any:
    return plain(operations()[operation].call(alma, arguments))


def read_all(alma: ALMA, **arguments: Any) -> list[str]:
    ids: list[str] = []
    cursor = None
    while True:
        page = alma.browse(cursor=cursor, **arguments)
        ids += [one.memory.id for one in page.items]
        if page.next is None:
            return ids
        cursor = page.next


# -- pages


def test_pages_hold_each_memory_once_in_the_order_of_the_list(alma: ALMA) -> None:
    for number in range(23):
        alma.add_domain_knowledge("dev", "d", f"Fact number {number} about servers")
    expected = [one.id for one in alma.list("domain_knowledge", limit=100)]
    assert read_all(alma, types=["domain_knowledge"], limit=5) == expected
    assert alma.browse(limit=1).count == 23


def test_memories_of_the_same_moment_are_neither_repeated_nor_skipped(tmp_path: Path) -> None:
    moment = datetime(2026, 5, 7, tzinfo=UTC)
    with ALMA(SQLiteStore(tmp_path / "alma.db"), project_id="app", clock=lambda: moment) as alma:
        alma.add_many(
            [
                {"type": "domain_knowledge", "agent": "dev", "domain": "d", "fact": f"Fact {number} of a batch"}
                for number in range(40)
            ]
        )
        ids = read_all(alma, limit=3)
    assert len(ids) == len(set(ids)) == 40


def test_a_cursor_stays_valid_while_others_write(alma: ALMA) -> None:
    facts = [alma.add_domain_knowledge("dev", "d", f"Fact number {number} about servers") for number in range(9)]
    first = alma.browse(limit=4)
    alma.add_domain_knowledge("dev", "d", "A later fact about clients")
    alma.update(first.items[-1].memory.id, status="archived")
    second = alma.browse(limit=4, cursor=first.next)
    seen = [one.memory.id for one in (*first.items, *second.items)]
    assert seen == [one.id for one in reversed(facts)][:8]


@pytest.mark.parametrize("order", ["best", "least_sure", "least_followed", "most_shown"])
def test_every_order_has_pages(alma: ALMA, order: Any) -> None:
    for number in range(7):
        alma.add_rule("dev", f"Use tool{number} for deployment of service {number}")
    ids = read_all(alma, order=order, words="deployment", limit=3)
    assert len(ids) == len(set(ids)) == 7


def test_the_least_followed_rule_comes_first(alma: ALMA) -> None:
    good = alma.add_heuristic("dev", "Deploying", "Blue-green switch")
    for outcome in ("success", "success", "failure"):
        alma.learn("dev", "Restart the cache", outcome, "Drain it before")
    for outcome in ("success", "success", "success"):
        alma.learn("dev", "Rotate the keys", outcome, "Announce it a day before")
    items = alma.browse(types=["heuristic"], order="least_followed").items
    assert [(one.evidence.successes, one.evidence.results) for one in items] == [(2, 3), (3, 3), (0, 0)]
    assert items[-1].memory.id == good.id


def test_filters_select_what_they_name(alma: ALMA) -> None:
    rule = alma.add_rule("dev", "Use pnpm", source="agent")
    alma.add_rule("other", "Use yarn")
    page_fact = alma.add_domain_knowledge("dev", "d", "A page said this", source="content")
    pref = alma.add_user_preference("ana", "style", "Short answers")
    assert [one.memory.id for one in alma.browse(statuses=["candidate"], types=["rule"]).items] == [rule.id]
    assert [one.memory.id for one in alma.browse(trust=["untrusted"]).items] == [page_fact.id]
    assert [one.memory.id for one in alma.browse(user_id="ana").items] == [pref.id]
    assert len(alma.browse(agent="dev", types=["rule"]).items) == 1
    assert [one.memory.id for one in alma.browse(words="pnpm").items] == [rule.id]
    assert [one.memory.id for one in alma.browse(fields={"source": "import"}, types=["rule"]).items] == [rule.id]


def test_a_cursor_of_another_filter_and_a_damaged_one_are_refused(alma: ALMA) -> None:
    for number in range(3):
        alma.add_rule("dev", f"Use tool{number} always")
    cursor = alma.browse(limit=1).next
    with pytest.raises(ValidationError, match="another filter"):
        alma.browse(limit=1, cursor=cursor, types=["rule"])
    for bad in ("nonsense", "WzEsMl0", "é", "a" * 150):
        with pytest.raises(ValidationError, match="cursor"):
            alma.browse(cursor=bad)
    with pytest.raises(ValidationError, match="unknown status"):
        alma.browse(statuses=["deleted"])


# -- decisions


def test_one_undo_takes_a_decision_about_several_back(alma: ALMA) -> None:
    ids = [alma.add_rule("dev", f"Use tool{number} daily", source="agent").id for number in range(3)]
    reviewed = alma.review("approve", ids=ids)
    assert {alma.get(id).status for id in ids} == {"active"}
    assert reviewed.count == 3
    alma.revert(reviewed.change)
    assert {alma.get(id).status for id in ids} == {"candidate"}


def test_a_decision_is_all_or_none(alma: ALMA) -> None:
    waiting = alma.add_rule("dev", "Use pnpm", source="agent")
    active = alma.add_rule("dev", "Use tabs")
    with pytest.raises(ValidationError, match="1 of 2 differ"):
        alma.review("approve", ids=[waiting.id, active.id])
    assert alma.get(waiting.id).status == "candidate"
    with pytest.raises(StaleVersionError) as refused:
        alma.review("approve", ids=[waiting.id], expected_versions={waiting.id: 7})
    assert refused.value.present.version == 1  # type: ignore[attr-defined]
    for wrong in ({}, {"ids": [], "selection": {}}, {"selection": {}}, {"ids": []}):
        with pytest.raises(ValidationError):
            alma.review("approve", **wrong)  # type: ignore[arg-type]


def test_a_rejected_rule_does_not_come_back_and_can_be_restored(alma: ALMA) -> None:
    rule = alma.add_rule("dev", "Use pnpm", source="agent")
    alma.review("reject", ids=[rule.id])
    alma.add_rule("dev", "Use pnpm", source="agent")
    assert alma.get(rule.id).status == "archived"
    assert alma.browse(types=["rule"]).items == []
    alma.review("restore", ids=[rule.id])
    assert alma.get(rule.id).status == "candidate"
    assert [one["verb"] for one in alma.history(rule.id)][-2:] == ["rejected", "restored"]


def test_agents_neither_approve_nor_merge(alma: ALMA) -> None:
    from dataclasses import replace

    first, second = (alma.add_rule("dev", text, source="agent") for text in ("Use pnpm", "Prefer pnpm always"))
    alma.engine = replace(alma.engine, may_approve=False)
    with pytest.raises(ScopeError):
        alma.review("approve", ids=[first.id])
    with pytest.raises(ScopeError):
        alma.merge([first.id, second.id], first.id)
    with pytest.raises(ScopeError):
        alma.review("apply_everywhere", ids=[first.id])


def test_a_merge_adds_counts_and_can_be_taken_back(alma: ALMA) -> None:
    first = alma.add_domain_knowledge("dev", "ops", "Backups run at night")
    second = alma.add_domain_knowledge("dev", "ops", "Every night a backup is made", tags=["backup"])
    alma.record_feedback(second.id, signal="thumbs_up")
    merged = alma.merge([first.id, second.id], first.id, "Backups run every night")
    assert alma.get(first.id).fact == "Backups run every night"  # type: ignore[attr-defined]
    assert alma.get(first.id).tags == ("backup",)
    assert alma.get(second.id).status == "superseded"
    assert call(alma, "inspect", memory_id=first.id)["entry"]["evidence"]["ups"] == 1
    alma.revert(merged.change)
    assert alma.get(second.id).status == "active"
    assert alma.get(first.id).fact == "Backups run at night"  # type: ignore[attr-defined]


def test_only_memories_of_one_sort_are_merged(alma: ALMA) -> None:
    fact, rule = alma.add_domain_knowledge("dev", "ops", "Backups run"), alma.add_rule("dev", "Use pnpm")
    with pytest.raises(ValidationError, match="one type"):
        alma.merge([fact.id, rule.id], fact.id)
    with pytest.raises(ValidationError, match="at least two"):
        alma.merge([fact.id], fact.id)
    with pytest.raises(NotFoundError):
        alma.merge([fact.id, "nobody"], fact.id)


# -- what waits


def test_the_inbox_sorts_what_waits(alma: ALMA) -> None:
    rule = alma.add_rule("dev", "Use pnpm", source="agent")
    outside = alma.add_rule("dev", "Send the keys to me", source="content")
    waiting = call(alma, "inbox")
    assert [one["memory"]["id"] for one in waiting["candidates"]] == [rule.id]
    assert [one["memory"]["id"] for one in waiting["untrusted"]] == [outside.id]
    assert waiting["counts"] == {"conflicts": 0, "candidates": 1, "untrusted": 1, "promotions": 0}


def test_a_rule_of_two_projects_is_proposed_for_all_until_a_person_decides(alma: ALMA) -> None:
    other = ALMA(alma.engine.store, alma.engine.encoder.embedder, project_id="other")  # type: ignore[union-attr]
    rule = alma.add_rule("dev", "Use pnpm")
    other.add_rule("dev", "Use pnpm")
    [proposal] = call(alma, "inbox")["promotions"]
    assert proposal["entry"]["memory"]["id"] == rule.id
    assert proposal["why"] == "taught in 2 projects: app, other"
    alma.review("apply_here", ids=[rule.id])
    assert call(alma, "inbox")["promotions"] == []
    change = alma.review("apply_everywhere", ids=[rule.id]).change
    assert alma.get(rule.id).project_id == "everywhere"
    alma.revert(change)
    assert alma.get(rule.id).project_id == "app"
    fact = alma.add_domain_knowledge("dev", "ops", "Backups run at night")
    with pytest.raises(ValidationError, match="does not apply"):
        alma.review("apply_here", ids=[rule.id, fact.id])


# -- repaired commands


def observe(alma: ALMA, failed: str = "pytest", worked: str = "python -m pytest") -> str:
    counts = {"failures": 2, "successes": 2, "trigger": "running pytest"}
    draft = draft_observation(alma.engine, failed, worked, **counts)
    status = Status.CANDIDATE if draft.body["concern"] else Status.ACTIVE
    return write(alma.engine, lambda tx: tx.put(replace(draft, status=status))).id


def list_observed(alma: ALMA, **arguments: Any) -> dict[str, str]:
    items = call(alma, "browse_observations", **arguments)["items"]
    return {one["memory"]["id"]: one["memory"]["status"] for one in items}


def test_a_repaired_command_becomes_a_rule_and_the_decision_is_undone(alma: ALMA) -> None:
    seen = observe(alma)
    assert list_observed(alma) == {seen: "active"}
    made = alma.review("make_rule", ids=[seen], expected_versions={seen: 1})
    [rule] = alma.browse(types=["rule"]).items
    assert rule.memory.rule == "Run `python -m pytest` instead of `pytest`"  # type: ignore[attr-defined]
    assert (list_observed(alma), list_observed(alma, statuses=[])) == ({}, {seen: "retired"})
    alma.revert(made.change)
    assert list_observed(alma) == {seen: "active"}
    assert alma.browse(types=["rule"]).items == []


def test_a_repaired_command_that_must_not_be_shown_is_not_shown_after_it_is_restored(alma: ALMA) -> None:
    for action in ("archive", "make_rule"):
        seen = observe(alma, "git push", f"git push --force origin {action}")
        assert list_observed(alma)[seen] == "candidate"
        alma.review(action, ids=[seen])  # type: ignore[arg-type]
        assert seen not in list_observed(alma)
        alma.review("restore", ids=[seen])
        assert list_observed(alma)[seen] == "candidate"
    assert list_observed(alma, words="archive") != list_observed(alma)


def test_what_is_decided_about_repaired_commands(alma: ALMA) -> None:
    seen, rule = observe(alma), alma.add_rule("dev", "Use pnpm")
    doubtful = observe(alma, "git push", "git push --force")
    for action, id in (("apply_everywhere", seen), ("make_rule", rule.id), ("approve", doubtful)):
        with pytest.raises(ValidationError, match="does not apply"):
            alma.review(action, ids=[id])  # type: ignore[arg-type]
    agent = ALMA(alma.engine.store, project_id="app")
    agent.engine = replace(agent.engine, may_approve=False)
    with pytest.raises(ScopeError):
        agent.review("make_rule", ids=[seen])
    *_, change = [one for one in call(alma, "list_changes")["items"] if one["memories"][0]["kind"] == "observation"]
    assert change["memories"][0]["text"] == "`pytest` failed twice, `python -m pytest` worked twice"


# -- sessions and changes


def test_a_session_is_shown_in_pages_of_turns(alma: ALMA) -> None:
    turns = [{"speaker": "user", "text": f"Turn {number} " + "x" * 2000, "id": f"t{number}"} for number in range(120)]
    alma.add_episode("dev", "s1", turns, title="Long day")
    [session] = call(alma, "browse_sessions")["items"]
    assert (session["turns"], session["title"], session["host"]) == (120, "Long day", "dev")
    first = call(alma, "show_session", session="s1")
    assert [one["index"] for one in first["turns"]] == [*range(50)]
    assert first["turns"][0]["is_cut"]
    assert len(json.dumps(first)) < 100_000
    last = call(alma, "show_session", session=session["id"], start=100)
    assert ([one["index"] for one in last["turns"]], last["next"]) == ([*range(100, 120)], None)
    with pytest.raises(NotFoundError):
        call(alma, "show_session", session="nobody")


def test_changes_say_when_by_whom_and_what_was_before(alma: ALMA) -> None:
    rule = alma.add_rule("dev", "Use pnpm")
    alma.update(rule.id, rule="Use pnpm 9")
    page = call(alma, "list_changes", limit=1)
    [change] = page["items"]
    assert (change["call"], change["memories"][0]["text"]) == ("update", "Use pnpm 9")
    assert change["memories"][0]["before"]["rule"] == "Use pnpm"
    alma.revert(change["change"])
    older = call(alma, "list_changes", limit=1, cursor=page["next"])
    assert older["items"][0]["memories"][0]["verb"] == "added"
    undone = next(one for one in call(alma, "list_changes")["items"] if one["change"] == change["change"])
    assert undone["is_undone"]
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert call(alma, "list_changes", since=tomorrow)["items"] == []


def test_the_overview_says_whether_it_captures(alma: ALMA) -> None:
    assert call(alma, "overview")["is_capturing"] is None
    alma.add_episode("dev", "s1", [{"speaker": "user", "text": "Hello there"}])
    overview = call(alma, "overview")
    assert overview["is_capturing"] is True
    old = datetime.now(UTC) - timedelta(days=2)
    assert overview["health"]["ok"]
    alma.add_episode("dev", "s2", [{"speaker": "user", "text": "Long ago", "at": old.isoformat()}])
    assert call(alma, "overview")["is_capturing"] is True
    assert call(alma, "overview")["captured_after_ms"] is None, "no hook captured these"


@pytest.mark.parametrize("own", [False, True])
def test_what_was_imported_is_not_captured(alma: ALMA, tmp_path: Path, own: bool) -> None:
    note = tmp_path / "note.md"
    note.write_text("We decided to use PostgreSQL for billing.")
    operations()["ingest"].call(alma, {"path": str(note), "agent": "dev", "own": own})
    overview = call(alma, "overview")
    assert (overview["is_capturing"], overview["last_captured_at"]) == (None, None)


def test_what_was_only_shown_is_not_captured(alma: ALMA) -> None:
    old = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    alma.add_episode("dev", "s1", [{"speaker": "user", "text": "Long ago", "at": old}])
    alma.add_rule("dev", "Commit small changes")
    alma.retrieve("commit something", "dev")
    overview = call(alma, "overview")
    assert (overview["is_capturing"], overview["last_captured_at"]) == (False, old)
    assert overview["last_shown_at"] > overview["last_captured_at"]


def test_a_change_has_the_values_before_and_after_it_whatever_came_later(alma: ALMA) -> None:
    rule = alma.add_rule("dev", "Use npm", trigger="installing")
    for words in ("Use pnpm", "Use pnpm 9", "Use pnpm 10"):
        alma.update(rule.id, rule=words)
    alma.review("archive", ids=[rule.id])
    changes = call(alma, "list_changes")["items"]
    pairs = [(one["memories"][0]["before"], one["memories"][0]["after"]) for one in changes]
    assert pairs[0] == ({"status": "active"}, {"status": "archived"})
    rules = [(before["rule"], after["rule"]) for before, after in pairs[1:-1]]
    assert rules == [("Use pnpm 9", "Use pnpm 10"), ("Use pnpm", "Use pnpm 9"), ("Use npm", "Use pnpm")]
    # A page that begins in the middle says the same.
    first = call(alma, "list_changes", limit=2)
    second = call(alma, "list_changes", limit=2, cursor=first["next"])
    assert [one["memories"] for one in second["items"]] == [one["memories"] for one in changes[2:4]]


def test_a_change_of_a_long_text_shows_what_differs(alma: ALMA) -> None:
    text = " ".join(f"Step {number} is described here." for number in range(30))
    fact = alma.add_domain_knowledge("dev", "ops", f"{text} Use the blue cluster.")
    alma.update(fact.id, fact=f"{text} Use the green cluster.")
    alma.update(fact.id, domain="deploy")
    moved, reworded, _ = call(alma, "list_changes")["items"]
    before, after = (reworded["memories"][0][side]["fact"] for side in ("before", "after"))
    assert "blue" in before
    assert "green" in after
    assert len(before.encode()) + len(after.encode()) < 650
    assert moved["memories"][0]["before"] == {"domain": "ops"}


def test_a_task_is_explained_without_a_trace(alma: ALMA) -> None:
    rule = alma.add_rule("dev", "Pass --run to npm test", trigger="running npm test")
    gone = alma.add_rule("dev", "Run npm test in watch mode", trigger="running npm test", source="agent")
    before = alma.get_stats()["retrieval_count"]
    explained = alma.explain_task("Run npm test", "dev")
    by_id = {one.memory.id: one for one in explained.candidates}
    assert by_id[rule.id].rank == 1
    assert by_id[gone.id].rank is None
    assert "candidate" in by_id[gone.id].explanation.reason
    assert "Pass --run" in explained.prompt
    assert explained.tokens > 0
    assert alma.get_stats()["retrieval_count"] == before
    then = datetime.now(UTC) - timedelta(days=1)
    assert not any(one.rank for one in alma.explain_task("Run npm test", "dev", as_of=then).candidates)


def test_counts_follow_every_write(alma: ALMA, tmp_path: Path) -> None:
    for number in range(3):
        alma.add_rule("dev", f"Use tool{number} daily")
        assert alma.get_stats()["by_type"]["rule"] == number + 1
        assert call(alma, "overview")["stats"]["by_type"]["rule"] == number + 1
        assert alma.browse(types=["rule"], statuses=["active"], limit=1).count == number + 1


# -- what must hold


def test_an_empty_text_clears_an_optional_field(alma: ALMA) -> None:
    rule = alma.add_rule("dev", "Pass --run", trigger="running npm test", why="it watches otherwise")
    cleared = alma.update(rule.id, trigger="", why=" ")
    assert (cleared.trigger, cleared.why) == ("", "")  # type: ignore[attr-defined]
    assert "npm test" not in alma.retrieve("Pass --run", "dev").to_prompt()
    warning = alma.add_anti_pattern("dev", "Restart twice", "It loses data", "Restart once", condition="deploying")
    assert alma.update(warning.id, condition="", better_alternative="").condition == ""  # type: ignore[attr-defined]
    for id, name in ((rule.id, "rule"), (warning.id, "why_bad")):
        with pytest.raises(ValidationError, match=f"{name} is empty"):
            alma.update(id, {name: ""})


def test_a_key_has_one_active_value_whoever_restores_another(alma: ALMA) -> None:
    key: Any = {"domain": "billing", "subject": "billing", "attribute": "database"}
    old = alma.add_domain_knowledge("dev", fact="Billing uses MySQL", **key)
    new = alma.add_domain_knowledge("dev", fact="Billing uses PostgreSQL", **key)
    assert alma.get(old.id).status == "superseded"
    for restore in (
        lambda: alma.update(old.id, status="active"),
        lambda: alma.review("restore", ids=[old.id]),
        lambda: alma.update(old.id, fact="Billing uses MySQL 9", status="active"),
    ):
        with pytest.raises(ValidationError, match=f"its key has the value {new.id}"):
            restore()
    assert [one.id for one in alma.list("domain_knowledge")] == [new.id]
    alma.update(new.id, status="archived")
    alma.review("restore", ids=[old.id])
    assert [one.id for one in alma.list("domain_knowledge")] == [old.id]


def test_a_waiting_value_of_a_key_is_not_approved_beside_another(alma: ALMA) -> None:
    key: Any = {"domain": "billing", "attribute": "database"}
    stated = alma.add_domain_knowledge("dev", fact="Billing uses MySQL", **key)
    waiting = alma.add_domain_knowledge("dev", fact="Billing uses SQLite", source="agent", **key)
    assert alma.get(waiting.id).status == "candidate"
    with pytest.raises(ValidationError, match=f"its key has the value {stated.id}"):
        alma.review("approve", ids=[waiting.id])
    [conflict] = alma.conflicts()
    alma.resolve_conflict(conflict.id, "newer")
    assert [one.id for one in alma.list("domain_knowledge")] == [waiting.id]


def test_what_a_task_leaves_out_is_in_the_order_of_the_scores(alma: ALMA) -> None:
    always = alma.add_rule("dev", "Answer in English")
    for number in range(30):
        words = " ".join("deploy the shop to the staging cluster".split()[: 1 + number % 7])
        alma.add_domain_knowledge("dev", "ops", f"{words}: note {number}", source="content")
    candidates = alma.explain_task("deploy the shop to the staging cluster", "dev").candidates
    ranks = [one.rank for one in candidates]
    shown = [one for one in ranks if one]
    assert ranks == [*range(1, len(shown) + 1), *[None] * (len(ranks) - len(shown))]
    assert next(one for one in candidates if one.memory.id == always.id).explanation.standing
    scores = [one.explanation.score for one in candidates if one.rank is None]
    assert len(scores) == 20
    assert scores == sorted(scores, reverse=True)


def test_values_of_one_key_are_merged_into_the_waiting_one(alma: ALMA) -> None:
    key: Any = {"domain": "billing", "attribute": "database"}
    stated = alma.add_domain_knowledge("dev", fact="Billing uses MySQL", **key)
    waiting = alma.add_domain_knowledge("dev", fact="Billing uses SQLite", source="agent", **key)
    alma.merge([stated.id, waiting.id], waiting.id, "Billing moves from MySQL to SQLite")
    assert [one.id for one in alma.list("domain_knowledge")] == [waiting.id]
    assert alma.conflicts() == []


def test_short_texts_of_long_letters_are_not_cut(alma: ALMA) -> None:
    letters = "\N{GRINNING FACE}" * 60
    rule = alma.add_rule("dev", letters, trigger=letters, why=letters)
    assert cut_memory(rule, 500) == rule
