"""What the dashboard, `undo` and `Why?` say is so."""

from __future__ import annotations

from typing import Any

import pytest

from alma import ALMA
from alma.cli.render import Output, show_reverted
from alma.engine.calls import name_call
from alma.engine.rules import Reach, RuleSource, Teaching, teach
from alma.operations import operations


def call(alma: ALMA, name: str, **arguments: Any) -> Any:
    return operations()[name].call(alma, arguments)


def hear(alma: ALMA, session: str, rule: str, reach: Reach = Reach.PROJECT, **more: Any) -> str:
    """Return the id of the rule that a correction in a session teaches."""
    turns = [{"speaker": "user", "text": f"No, {rule}", "id": f"{session}-1"}]
    alma.add_episode("claude-code", session, turns)
    metadata = {"session": session, "attended": True}
    given = {"said": rule, "session": session, "metadata": metadata, **more}
    [taught] = teach(alma.engine, [Teaching(f"{session}-1", rule, reach, RuleSource.CORRECTION, **given)])
    assert taught.record is not None
    return taught.record.id


def count(alma: ALMA, session: str) -> dict[str, int]:
    [one] = [one for one in call(alma, "browse_sessions")["items"] if one["session_id"] == session]
    return {name: one[name] for name in ("corrections", "learned", "waiting")}


def test_learned_in_a_session_is_what_the_next_one_gets(alma: ALMA) -> None:
    hear(alma, "s1", "Use pnpm instead of npm")
    hear(alma, "s2", "Answer in one line", Reach.SESSION)
    hear(alma, "s3", "Sign the commits", sure=False)
    assert count(alma, "s1") == {"corrections": 1, "learned": 1, "waiting": 0}
    assert count(alma, "s2") == {"corrections": 1, "learned": 0, "waiting": 0}
    assert count(alma, "s3") == {"corrections": 1, "learned": 0, "waiting": 1}
    assert call(alma, "overview")["rules_in_use"] == 1
    [turn] = call(alma, "show_session", session="s2")["turns"]
    assert [(one["status"], one["session_id"]) for one in turn["learned"]] == [("active", "s2")]


def test_a_repeated_correction_counts_in_its_session(alma: ALMA) -> None:
    first = hear(alma, "s1", "Use pnpm instead of npm")
    assert hear(alma, "s2", "Use pnpm instead of npm") == first
    assert count(alma, "s1") == {"corrections": 1, "learned": 1, "waiting": 0}
    assert count(alma, "s2") == {"corrections": 1, "learned": 0, "waiting": 0}


def test_a_rule_was_last_shown_when_it_was_shown(alma: ALMA) -> None:
    rule = alma.add_rule("dev", "Use pnpm instead of npm", source="user")
    assert call(alma, "inspect", memory_id=rule.id)["entry"]["last_shown"] is None
    alma.retrieve("Install the packages with npm or pnpm", "dev")
    entry = call(alma, "inspect", memory_id=rule.id)["entry"]
    assert entry["shown"] == 1
    assert entry["last_shown"] == call(alma, "inspect", memory_id=rule.id)["shown_in"][0]["at"]


def test_why_names_the_rules_that_sessions_start_with(alma: ALMA) -> None:
    for number in range(9):
        alma.add_rule("claude-code", f"Rule {number} about widgets of sort {number}", source="user")
    answer = call(alma, "explain_task", task="Paint the fence", agent="claude-code")
    left_out = [one for one in answer.candidates if one.rank is None]
    assert left_out
    assert all(one.at_start and "sessions of coding agents start with it" in one.explanation.reason for one in left_out)


def test_undo_says_what_it_leaves(alma: ALMA, capsys: pytest.CaptureFixture[str]) -> None:
    with name_call("ingest"):
        for number in range(3):
            alma.add_domain_knowledge("dev", "numbers", f"Fact {number} is about the number {number}{number}")
    undone = alma.undo()
    assert (undone.rest, len(undone.memories)) == (2, 1)
    show_reverted(Output(), undone)
    printed = capsys.readouterr().out
    assert "undid one of 3 changes of ingest" in printed
    assert "the other 2 still hold" in printed
    assert alma.undo().rest == 1
