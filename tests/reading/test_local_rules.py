"""Rules that a person states in an explicit form, read without a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alma.coding.events import Attendance
from alma.coding.session import SessionTurn
from alma.engine.coding_sessions import make_teaching
from alma.reading.local import LocalReader
from alma.reading.local_rules import find_choice, is_worth_reading
from alma.reading.port import Role, RuleProposal, SpokenTurn, StoredText, Verdict
from alma.types.kinds import Reach

DATA = Path(__file__).parent / "data"
LASTING = (Reach.PROJECT, Reach.ALWAYS)


def read_rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def read_turn(text: str) -> RuleProposal | None:
    proposals = LocalReader().find_rules([SpokenTurn(Role.ASSISTANT, "Done."), SpokenTurn(Role.USER, text)])
    assert all(one.turn == 1 for one in proposals)
    return proposals[0] if proposals else None


def is_lasting(proposal: RuleProposal | None) -> bool:
    return proposal is not None and proposal.is_sure and proposal.reach in LASTING


@pytest.mark.parametrize("row", read_rows("plain_corrections.jsonl"), ids=lambda row: row["turn"][:40])
def test_a_plain_correction_is_a_sure_rule(row: dict[str, Any]) -> None:
    proposal = read_turn(row["turn"])
    assert proposal is not None
    assert proposal.is_sure
    assert all(piece in proposal.rule for piece in row["must_contain"])
    assert row["must_not_forbid"] not in proposal.avoid


def test_explicit_turns_in_eight_languages() -> None:
    """Written by an author who did not know the forms. On the half that no form was written after: recall .58."""
    answers = [(bool(row["lasting"]), is_lasting(read_turn(row["turn"]))) for row in read_rows("explicit_turns.jsonl")]
    hits = sum(gold and answer for gold, answer in answers)
    assert hits >= 0.95 * sum(answer for _, answer in answers)
    assert hits >= 0.65 * sum(gold for gold, _ in answers)


def test_look_alikes_of_rules_are_rarely_sure() -> None:
    """By another author: 110 lasting rules, most inside a longer message, and 150 turns that look like one.

    The forms were mended after half of the rows; on the other half 13 of 15 sure rules are right.
    """
    rows = [(bool(row["lasting"]), is_lasting(read_turn(row["text"]))) for row in read_rows("lookalike_turns.jsonl")]
    assert sum(gold and answer for gold, answer in rows) >= 30
    assert sum(answer and not gold for gold, answer in rows) <= 2


def test_the_reason_stands_apart_and_the_command_itself_is_not_forbidden() -> None:
    rule = read_turn("stop running npm test without --run because it hangs")
    assert rule is not None
    assert (rule.rule, rule.reason) == ("Don't run npm test without --run", "it hangs")
    assert (rule.prefer, rule.avoid, rule.reach, rule.is_sure) == ((), (), Reach.PROJECT, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no, use pnpm instead of npm", "Use pnpm instead of npm"),
        ("we use ruff, not flake8", "Use ruff, not flake8"),
        ("pnpm, not npm", "Use pnpm, not npm"),
        ("please don't use console.log in this repo", "Don't use console.log"),
        ("from now on run the linter before you commit", "Run the linter before you commit"),
        ("remember to update the changelog", "Update the changelog"),
        ("no, I said pnpm instead of npm", "Use pnpm instead of npm"),
        ("I already told you to never push to main", "Never push to main"),
        ("use python3 instead of python for this one command", "Use python3 instead of python"),
        ("use 5 instead of 4 as the limit in this test", "Use 5 instead of 4 as the limit in this test"),
        ("don't edit generated files, they get overwritten", "Don't edit generated files"),
        ("wir benutzen ruff, nicht flake8", "Verwende ruff, nicht flake8"),
        ("а не забывай: мы используем ruff, а не flake8", "Используй ruff, а не flake8"),
    ],
)
def test_a_rule_reads_like_a_line_of_an_instruction_file(text: str, expected: str) -> None:
    rule = read_turn(text)
    assert rule is not None
    assert rule.rule == expected


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("No direct pushes to main, ever.", "No direct pushes to main, ever"),
        ("no console.log in this repo, ever", "No console.log in this repo, ever"),
        ("No use of lodash here, ever", "No use of lodash here, ever"),
        ("no, always use pnpm", "Always use pnpm"),
        ("no use pnpm instead of npm", "Use pnpm instead of npm"),
    ],
)
def test_a_no_that_forbids_something_is_part_of_the_rule(text: str, rule: str) -> None:
    proposal = read_turn(text)
    assert proposal is not None
    assert (proposal.rule, proposal.is_sure) == (rule, True)


def test_a_no_that_forbids_something_is_part_of_the_rule_in_russian() -> None:
    proposal = read_turn("нет прямых пушей в main, никогда")
    assert proposal is not None
    assert proposal.rule.startswith("Нет прямых пушей")


def test_only_for_this_session_is_no_part_of_the_rule() -> None:
    expected = {
        "for this session only, answer in French": "Answer in French",
        "only for this session, use tabs": "Use tabs",
        "answer in French, just for this conversation": "Answer in French",
        "for now only, use yarn": "Use yarn",
        "for this session, only answer in French": "Only answer in French",
        "nur für diese Sitzung: antworte auf Deutsch": "Antworte auf Deutsch",
        "pour cette session seulement, réponds en français": "Réponds en français",
        "solo por esta sesión, responde en español": "Responde en español",
        "apenas nesta sessão, responda em português": "Responda em português",
    }
    rules = {text: read_turn(text) for text in expected}
    found = {text: (rule.rule, rule.reach) if rule else None for text, rule in rules.items()}
    assert found == {text: (rule, Reach.SESSION) for text, rule in expected.items()}


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("in all my projects, answer in German", Reach.ALWAYS),
        ("for this session answer in French, not in English", Reach.SESSION),
        ("never push to main", Reach.PROJECT),
        ("use the red one instead of the blue one", Reach.ONCE),
        ("stop adding comments everywhere", Reach.PROJECT),
        ("en todos mis proyectos, usa pnpm en vez de npm", Reach.ALWAYS),
    ],
)
def test_how_far_a_rule_goes(text: str, reach: Reach) -> None:
    rule = read_turn(text)
    assert rule is not None
    assert rule.reach is reach


@pytest.mark.parametrize(
    "rest", [". npm fails", ", npm breaks the lock file", "; npm fails", ", npm only for publishing"]
)
def test_a_choice_that_says_more_about_its_names_holds_in_the_project(rest: str) -> None:
    rule = read_turn(f"no, use pnpm instead of npm{rest}")
    assert rule is not None
    assert (rule.rule, rule.reach, rule.is_sure) == (f"Use pnpm instead of npm{rest}", Reach.PROJECT, True)


def test_a_choice_that_goes_on_with_another_step_is_about_this_case() -> None:
    rule = read_turn("no, use api.py instead of main.py, then run the tests")
    assert rule is not None
    assert rule.reach is Reach.ONCE


@pytest.mark.parametrize(
    "text",
    [
        "maybe use pnpm instead of npm",
        "don't push to main yet",
        "Bob: never use docker in this repo.",
        "**Always** use tabs instead of spaces in this repo",
        "never use yarn here\nnever use npm here",
        "users must never see raw errors, always use the error page instead",
        "Don't use venv, he said",
        "should we always use tabs?",
        "nunca uses npm, dijo mi jefe",
        "nie npm verwenden, meinte mein Chef",
        "rename UserStore to AccountStore everywhere",
        "> always use tabs",
        "don't run the tests now, I'm in a meeting",
        "remember to buy milk",
    ],
)
def test_in_doubt_no_rule_is_sure(text: str) -> None:
    assert not is_lasting(read_turn(text))


def test_a_rejection_without_a_form_is_a_candidate_for_once() -> None:
    rule = read_turn("no, call it load_settings")
    assert rule is not None
    assert (rule.rule, rule.reach, rule.is_sure) == ("Call it load_settings", Reach.ONCE, False)


@pytest.mark.parametrize(
    "text",
    [
        "thanks",
        "run the tests",
        "why is it slow?",
        "",
        "never mind",
        "```\nnever do it\n```",
        "no more emojis please",
        "no need to use a class instead of a function",
    ],
)
def test_ordinary_turns_state_no_rule(text: str) -> None:
    assert read_turn(text) is None


def test_a_trigger_is_given_where_it_is_stated() -> None:
    rule = read_turn("when writing tests, always use vitest")
    assert rule is not None
    assert (rule.rule, rule.trigger) == ("When writing tests, always use vitest", "writing tests")


def test_a_known_rule_is_recognised() -> None:
    known = [StoredText("r1", "Use tabs"), StoredText("r2", "Use pnpm instead of npm.")]
    [rule] = LocalReader().find_rules([SpokenTurn(Role.USER, "no, use pnpm instead of npm")], known)
    assert (rule.known, rule.verdict) == ("r2", Verdict.SAME)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use pnpm, not npm", (("pnpm",), ("npm",))),
        ("Use `npm test --run`, not `npm test`", (("npm test --run",), ())),
        ("用 pnpm 而不是 npm", (("pnpm",), ("npm",))),
        ("Write short functions", ((), ())),
    ],
)
def test_the_names_of_a_choice(text: str, expected: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    assert find_choice(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes", False),
        ("", False),
        ("go on", False),
        ("```\nTraceback\n```", False),
        ("> quoted words of somebody", False),
        ("that is the old endpoint", True),
        ("测试放在 spec 目录", True),
    ],
)
def test_which_turns_could_teach(text: str, expected: bool) -> None:
    assert is_worth_reading(text) is expected


@pytest.mark.parametrize(
    ("attendance", "is_typed", "expected"),
    [
        (Attendance.PERSON, True, True),
        (Attendance.PERSON, False, False),
        (Attendance.UNKNOWN, True, False),
        (Attendance.PROGRAM, True, None),
    ],
)
def test_a_proposal_is_believed_only_where_a_person_typed_it(
    attendance: Attendance, is_typed: bool, expected: bool | None
) -> None:
    said = "never push to main"
    proposal = read_turn(said)
    assert proposal is not None
    heard = SessionTurn("t1", "user", said, 0.0, 1, user_words=said, attendance=attendance, is_typed=is_typed)
    teaching = make_teaching(proposal, heard, "s1")
    assert (teaching.sure if teaching else None) is expected
