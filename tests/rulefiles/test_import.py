"""Hand edits back into the memory."""

from __future__ import annotations

import re
from typing import Any

import pytest

from alma.errors import NotFoundError, ValidationError
from alma.rulefiles import Verb, plan
from alma.rulefiles.block import END

from .conftest import BEGIN


@pytest.fixture
def exported(desk: Any) -> Any:
    desk.rule("Use pnpm instead of npm", why="the lock file is pnpm's")
    desk.rule("Run the linter", trigger="committing")
    desk.rule("Name tests after behaviour")
    desk.export()
    return desk


def drop(desk: Any, text: str) -> None:
    lines = desk.text().splitlines(keepends=True)
    desk.file.write_text("".join(line for line in lines if text not in line))


def test_what_was_not_touched_changes_nothing(exported: Any) -> None:
    before = exported.active()
    report = exported.import_()
    assert (report.changes, report.unchanged, report.newer) == ((), 3, 0)
    assert exported.active() == before


def test_a_changed_item_changes_its_rule_and_the_history_says_by_hand(exported: Any) -> None:
    [id] = [id for id, rule in exported.active().items() if "pnpm" in rule]
    exported.edit("Use pnpm instead of npm", "Use bun instead of npm")
    report = exported.import_()
    [change] = report.changed
    assert (change.memory_id, change.line, change.done) == (id, 4, True)
    held = exported.alma.get(id)
    assert (held.rule, held.why) == ("Use bun instead of npm", "the lock file is pnpm's")
    [last] = [one for one in exported.alma.history(id) if one["verb"] == "edited"]
    assert last["why"] == "by hand in AGENTS.md"
    assert last["before"]["rule"] == "Use pnpm instead of npm"
    found = exported.alma.retrieve(task="Use bun instead of npm", agent="claude-code")
    assert "bun" in found.to_prompt()
    assert not exported.import_().changes
    assert not exported.export(check=True).hand_edits


def test_each_part_of_an_item_can_be_edited(exported: Any) -> None:
    exported.edit("**When committing:** Run the linter", "**Before pushing:** Run the linter *Why:* It is quick")
    exported.edit(" *Why:* the lock file is pnpm's", "")
    assert len(exported.import_().changed) == 2
    rules = {one.rule: one for one in exported.alma.list(memory_type="rule")}
    assert (rules["Run the linter"].trigger, rules["Run the linter"].why) == ("Before pushing", "It is quick")
    assert rules["Use pnpm instead of npm"].why == ""


def test_the_rule_of_an_agent_stays_the_agents_unless_its_text_is_edited(desk: Any) -> None:
    id = desk.rule("Run the linter", trigger="committing", source="agent")
    desk.alma.update(id, status="active")
    desk.export()
    desk.edit("**When committing:**", "**When pushing:**")
    desk.import_()
    assert (desk.alma.get(id).trigger, desk.alma.get(id).origin) == ("When pushing", "agent")
    desk.edit("Run the linter", "Run the formatter")
    desk.import_()
    assert (desk.alma.get(id).rule, desk.alma.get(id).origin) == ("Run the formatter", "user")


def test_a_new_item_is_a_rule_by_a_person(exported: Any) -> None:
    exported.edit(END, f"* **When releasing:** Tag the commit\n  and push the tag. _Why:_ The build needs it.\n{END}")
    report = exported.import_()
    [added] = report.added
    assert added.done
    assert not added.waits
    [made] = [one for one in exported.alma.list(memory_type="rule") if "Tag" in one.rule]
    assert (made.rule, made.trigger, made.why) == (
        "Tag the commit and push the tag.",
        "When releasing",
        "The build needs it.",
    )
    assert (made.status, str(made.source), made.agent) == ("active", "note", "claude-code")
    exported.export()
    assert exported.items()[-1] == "**When releasing:** Tag the commit and push the tag. *Why:* The build needs it."
    assert not exported.import_().changes


def test_a_removed_item_is_put_away_only_when_asked(exported: Any) -> None:
    drop(exported, "linter")
    [id] = [id for id, rule in exported.active().items() if "linter" in rule]
    for _ in range(2):
        [removed] = exported.import_().removed
        assert (removed.memory_id, removed.done) == (id, False)
        assert id in exported.active()
    [removed] = exported.import_(retire=True).removed
    assert removed.done
    assert id not in exported.active()
    assert exported.alma.history(id)[-1]["why"] == "removed by hand from AGENTS.md"
    assert not exported.export().changed
    assert not exported.import_(retire=True).changes


def test_what_was_learned_since_was_not_removed(exported: Any) -> None:
    exported.rule("Write the changelog by hand")
    assert not exported.import_(retire=True).removed


def test_what_had_no_room_was_not_removed(exported: Any) -> None:
    exported.export(limit=300)
    assert len(exported.items()) < 3
    assert not exported.import_(retire=True).removed
    assert len(exported.active()) == 3


def test_a_dry_run_writes_nothing(exported: Any) -> None:
    before = exported.active()
    exported.edit("Use pnpm", "Use bun")
    exported.edit(END, f"- Never force-push\n{END}")
    drop(exported, "linter")
    report = exported.import_(dry_run=True, retire=True)
    assert report.dry_run
    assert [one.verb for one in report.changes] == [Verb.CHANGED, Verb.ADDED, Verb.REMOVED]
    assert "-- Use pnpm instead of npm" in report.diff
    assert "+- Use bun instead of npm" in report.diff
    assert exported.active() == before
    assert plan(exported.alma, "AGENTS.md", root=exported.root).changes


def test_changed_on_both_sides_is_a_conflict(exported: Any) -> None:
    [id] = [id for id, rule in exported.active().items() if "pnpm" in rule]
    exported.edit("Use pnpm instead of npm", "Use bun instead of npm")
    exported.alma.update(id, rule="Use yarn instead of npm")
    report = exported.import_()
    [conflict] = report.conflicts
    assert not conflict.done
    assert ("yarn" in conflict.before, "bun" in conflict.after) == (True, True)
    assert exported.active()[id] == "Use yarn instead of npm"
    with pytest.raises(ValidationError, match="edits that were not imported"):
        exported.export()
    assert len(exported.import_().conflicts) == 1
    assert exported.import_(prefer="file").changed[0].done
    assert exported.active()[id] == "Use bun instead of npm"
    assert not exported.export(check=True).hand_edits
    with pytest.raises(ValidationError, match="file, memory"):
        exported.import_(prefer="both")


def test_the_memory_may_be_right(exported: Any) -> None:
    [id] = [id for id, rule in exported.active().items() if "pnpm" in rule]
    exported.edit("Use pnpm instead of npm", "Use bun instead of npm")
    exported.alma.update(id, rule="Use yarn instead of npm")
    assert not exported.import_(prefer="memory").conflicts[0].done
    assert not exported.import_().changes
    exported.export()
    assert exported.items()[0].startswith("Use yarn instead of npm")


def test_the_same_change_on_both_sides_is_none(exported: Any) -> None:
    [id] = [id for id, rule in exported.active().items() if "pnpm" in rule]
    exported.edit("Use pnpm instead of npm", "Use bun instead of npm")
    exported.alma.update(id, rule="Use bun instead of npm")
    assert not exported.import_().changes


def test_changed_in_the_memory_alone_waits_for_the_next_export(exported: Any) -> None:
    [id] = [id for id, rule in exported.active().items() if "pnpm" in rule]
    exported.alma.update(id, rule="Use yarn instead of npm")
    report = exported.import_()
    assert (report.changes, report.newer, report.unchanged) == ((), 1, 2)
    assert exported.active()[id] == "Use yarn instead of npm"


def test_what_the_memory_let_go_of_does_not_come_back(exported: Any) -> None:
    [put_away] = [id for id, rule in exported.active().items() if "pnpm" in rule]
    [deleted] = [id for id, rule in exported.active().items() if "linter" in rule]
    exported.alma.update(put_away, status="archived")
    exported.alma.delete(deleted)
    report = exported.import_()
    assert (report.changes, report.newer) == ((), 2)
    assert list(exported.active().values()) == ["Name tests after behaviour"]
    exported.edit("Use pnpm instead of npm", "Use bun instead of npm")
    assert exported.import_().conflicts[0].why.startswith("it is no longer in the memory")
    exported.import_(prefer="file")
    assert "Use bun instead of npm" in exported.active().values()


def test_a_teammate_shares_the_ids(exported: Any, open_alma: Any, tmp_path: Any) -> None:
    from alma import ALMA
    from alma.stores.memory import MemoryStore

    shared = exported.text()
    with ALMA(MemoryStore(), project_id="theirs") as theirs:
        exported.alma, ours = theirs, exported.alma
        exported.rule("Write the changelog by hand")
        with pytest.raises(ValidationError, match=r"\(new\)"):
            exported.export()
        assert len(exported.import_().added) == 3
        exported.export()
        assert exported.text().replace("- Write the changelog by hand", "").startswith(shared.split(END)[0])
        exported.edit("Use pnpm instead of npm", "Use bun instead of npm")
        exported.import_()
        exported.export()
        exported.alma = ours
    report = exported.import_()
    assert (len(report.changed), len(report.added)) == (1, 1)
    assert not exported.export().hand_edits


def test_other_memories_are_edited_in_their_own_words(desk: Any) -> None:
    kinds = ("rule", "heuristic", "anti_pattern", "domain_knowledge")
    desk.alma.add_heuristic("claude-code", "Deploy the service", "Blue-green deployment")
    desk.alma.add_anti_pattern("claude-code", "Push by hand", "nobody knows", "Let the build do it", "Releasing")
    desk.alma.add_domain_knowledge("claude-code", "ops", "**API:** it listens on port 8080")
    desk.export(include=kinds)
    assert desk.items() == [
        "**Deploy the service:** Blue-green deployment",
        "**Releasing:** Avoid: Push by hand *Why:* nobody knows *Instead:* Let the build do it",
        "\\**API:** it listens on port 8080",
    ]
    assert not desk.import_().changes
    desk.edit("Blue-green deployment", "Canary deployment")
    desk.edit("Let the build do it", "Let the robot do it")
    desk.edit("port 8080", "port 9090")
    assert len(desk.import_().changed) == 3
    told = {one.id: one for one in desk.alma.list()}.values()
    assert {"Canary deployment"} == {one.strategy for one in told if hasattr(one, "strategy")}
    assert {"Let the robot do it"} == {one.better_alternative for one in told if hasattr(one, "better_alternative")}
    assert {"Push by hand"} == {one.pattern for one in told if hasattr(one, "pattern")}
    assert {"**API:** it listens on port 9090"} == {one.fact for one in told if hasattr(one, "fact")}
    assert not desk.export(include=kinds, check=True).hand_edits


# -- files written by hand

HAND_WRITTEN = """\
# Working here

Read this first.

- Use pnpm, not npm
- Never commit to main

## Tests

1. Run `pytest -x` before
   you push
"""


def test_a_file_written_by_hand_is_only_read_when_asked(desk: Any) -> None:
    desk.file.write_text(HAND_WRITTEN)
    with pytest.raises(ValidationError, match="--all"):
        desk.import_()
    report = desk.import_(all=True)
    assert [one.after for one in report.added] == [
        "- Use pnpm, not npm",
        "- Never commit to main",
        "- Run `pytest -x` before you push",
    ]
    assert set(desk.active().values()) == {
        "Use pnpm, not npm",
        "Never commit to main",
        "Run `pytest -x` before you push",
    }
    assert not desk.import_(all=True).changes
    assert desk.export().items == 0
    assert desk.text() == HAND_WRITTEN


def test_from_an_untrusted_repository_everything_waits(desk: Any) -> None:
    desk.file.write_text(HAND_WRITTEN)
    report = desk.import_(all=True, trusted=False)
    assert all(one.done and one.waits for one in report.added)
    assert desk.active() == {}
    assert len(desk.alma.list(memory_type="rule", status="candidate")) == 3
    assert desk.export().items == 0
    assert not desk.import_(all=True, trusted=False).changes
    assert len(desk.import_(all=True).changed) == 3
    assert len(desk.active()) == 3


def test_an_untrusted_block_changes_no_rule(exported: Any) -> None:
    before = exported.active()
    exported.edit("Use pnpm instead of npm", "Use bun instead of npm")
    drop(exported, "linter")
    report = exported.import_(trusted=False, retire=True, prefer="file")
    assert [(one.verb, one.done, one.waits) for one in report.changes] == [
        (Verb.CHANGED, True, True),
        (Verb.REMOVED, False, False),
    ]
    assert exported.active() == before
    [waiting] = exported.alma.list(memory_type="rule", status="candidate")
    assert waiting.metadata["in_place_of"] == report.changes[0].memory_id
    assert not exported.import_(trusted=False).changed
    assert len(exported.import_().changed) == 1


def test_secrets_do_not_come_in(desk: Any) -> None:
    desk.file.write_text("- Log in with password=hunter2hunter2 and token ghp_9fK2xQ7vLm3RtYw8ZpBn5sDc1HjG6uEa0oXi\n")
    desk.import_(all=True)
    assert not [rule for rule in desk.active().values() if "ghp_9" in rule or "hunter2hunter2" in rule]


def test_a_new_rule_ends_what_it_contradicts_outside_the_file_only(desk: Any) -> None:
    desk.rule("Use npm, never pnpm")
    desk.file.write_text(f"{BEGIN}\n- Use pnpm, never npm\n{END}\n")
    report = desk.import_()
    assert list(desk.active().values()) == ["Use pnpm, never npm"]
    assert len(report.replaced) == 1


# -- bad input


def test_what_cannot_be_kept_is_refused_and_the_rest_is_taken(exported: Any) -> None:
    exported.edit(
        END, f"- {'x' * 601}\n- Use   PNPM instead of npm.\n-\n- Never force-push\n- never force-push!\n{END}"
    )
    report = exported.import_()
    assert [one.after for one in report.added] == ["- Never force-push"]
    assert [one.why for one in report.refused] == [
        "the rule has 601 characters; the limit is 600. Split it into two items",
        "the file contains it twice",
        "the file contains it twice",
    ]


def test_prose_in_the_block_is_told(exported: Any) -> None:
    exported.edit(END, f"Some prose\n{END}")
    assert exported.import_().ignored == ("line 7: Some prose",)


def test_a_copied_item_is_a_new_rule(exported: Any) -> None:
    line = next(line for line in exported.text().splitlines() if "linter" in line)
    exported.edit(line, f"{line}\n{line.replace('Run the linter', 'Run the type checker')}")
    report = exported.import_()
    assert [one.after for one in report.added] == ["- **When committing:** Run the type checker"]
    exported.export()
    ids = re.findall(r"<!-- (\w{8}) ", exported.text())
    assert len(ids) == len(set(ids)) == 4


def test_bad_files_are_named(desk: Any) -> None:
    with pytest.raises(NotFoundError, match=r"nowhere\.md"):
        desk.import_("nowhere.md")
    desk.file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValidationError, match="UTF-8"):
        desk.import_()
