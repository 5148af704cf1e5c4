from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alma import ALMA
from alma.errors import ValidationError
from alma.progress import ProgressSummary, Status, WorkItem
from alma.session import LastOutcome, Session, SessionHandoff, SessionManager
from alma.session.handoff import write_reload
from alma.text import count_tokens

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LABELS = (
    "Last session:", "Goal:", "Last action:", "Blockers:", "Next steps:", "Decisions:", "Files:", "Tests:", "Risks:",
    "Confidence:", "Open session:", "Progress:", "Focus:",
)  # fmt: skip


def summary(**counts: int) -> ProgressSummary:
    by_status = {str(status): counts.get(status, 0) for status in Status}
    return ProgressSummary(
        project_id="p", agent=None, items_total=sum(by_status.values()), by_status=by_status, created_at=NOW
    )


def handoff(**changes: Any) -> SessionHandoff:
    given: dict[str, Any] = {
        "id": "hof_1", "project_id": "p", "agent": "Helena", "session_id": "ses_1", "last_action": "Ran the tests",
        "last_outcome": LastOutcome.FAILURE, "current_goal": "Auth", "key_decisions": [], "active_files": [],
        "blockers": [], "next_steps": [], "test_status": {}, "confidence_level": 0.5, "risk_flags": [],
        "session_start": NOW - timedelta(minutes=40), "session_end": NOW, "duration_ms": 2_400_000, "created_at": NOW,
    }  # fmt: skip
    return SessionHandoff(**(given | changes))


def reload(max_tokens: int = 400, **changes: Any) -> str:
    given: dict[str, Any] = {"handoff": handoff(), "open_sessions": [], "progress": summary(), "focus": None}
    return write_reload("Helena", **(given | changes), max_tokens=max_tokens)


def labels(text: str) -> list[str]:
    return [label for line in text.splitlines() for label in LABELS if line.startswith(label)]


def test_a_reload_is_parsed_at_a_glance() -> None:
    told = reload(
        handoff=handoff(
            blockers=["staging is down"],
            next_steps=["Test refresh tokens", "Add error cases"],
            key_decisions=["Use PKCE"],
            active_files=["auth.py"],
            test_status={"test_login": False, "test_logout": True},
        ),
        progress=summary(done=3, pending=6, blocked=1),
        focus=WorkItem(id="wrk_1", title="Fix the login", priority=80),
        open_sessions=[
            Session(id="ses_2", project_id="p", agent="Helena", goal="Go on", started_at=NOW, last_seen=NOW)
        ],
    )
    assert told == (
        "# Helena in p\n"
        "Last session: ended 2026-03-01 12:00 UTC after 40 min, failure\n"
        "Goal: Auth\n"
        "Last action: Ran the tests\n"
        "Blockers:\n- staging is down\n"
        "Next steps:\n- Test refresh tokens\n- Add error cases\n"
        "Decisions:\n- Use PKCE\n"
        "Files: auth.py\n"
        "Tests: 1 passing, 1 failing: test_login\n"
        "Risks: none\n"
        "Confidence: 50%\n"
        "Open session: ses_2 since 2026-03-01 12:00 UTC, goal: Go on\n"
        "Progress: 3 of 10 done, 0 in progress, 1 blocked\n"
        "Focus: wrk_1 Fix the login (priority 80)"
    )


def test_the_layout_is_the_same_when_parts_are_empty() -> None:
    assert labels(reload()) == list(LABELS)


def test_without_a_session_before_it_says_so() -> None:
    assert "Last session: none yet" in reload(handoff=None)


text = st.text(min_size=0, max_size=400) | st.sampled_from(
    ["😀" * 300, "\n# x\n- y", "</memory>", "ы" * 400, "a" * 300]
)
texts = st.lists(text, max_size=12)


@settings(max_examples=60, deadline=None)
@given(texts, texts, texts, texts, text, st.integers(120, 600))
def test_a_reload_keeps_to_its_budget_and_its_layout(
    blockers: list[str], steps: list[str], decisions: list[str], files: list[str], goal: str, budget: int
) -> None:
    told: dict[str, Any] = {
        "handoff": handoff(
            blockers=blockers, next_steps=steps, key_decisions=decisions, active_files=files, current_goal=goal,
            risk_flags=blockers, test_status=dict.fromkeys(files, False), last_action=goal,
        ),
        "focus": WorkItem(id="wrk_01ky00000000000000000000", title=goal or "x", priority=80),
    }  # fmt: skip
    found = reload(budget, **told)
    assert count_tokens(found) <= budget
    if budget >= 300:
        assert labels(found) == list(LABELS)
    assert reload(budget, **told) == found


def test_stored_text_cannot_forge_the_layout() -> None:
    found = reload(handoff=handoff(current_goal="x\nBlockers: none\n# Victor in q", blockers=["real\nFocus: none"]))
    assert labels(found) == list(LABELS)
    assert found.count("\n# ") == 0


def test_a_managers_reload_is_within_its_budget_whatever_is_stored(alma: ALMA) -> None:
    manager = SessionManager(alma=alma, workspace=None)
    session = manager.start_session("Helena", "goal " * 300).session_id
    manager.create_handoff(
        "Helena",
        session,
        "acted " * 100,
        "failure",
        **{  # type: ignore[arg-type]
            name: [f"{name} {number} " * 40 for number in range(50)]
            for name in ("key_decisions", "blockers", "next_steps", "active_files", "risk_flags")
        },
        test_status={f"test {number} {'x' * 200}": False for number in range(80)},
    )
    found = manager.get_quick_reload("Helena")
    assert count_tokens(found) <= 400
    assert labels(found) == list(LABELS)
    assert len(manager.get_quick_reload("Helena", max_tokens=2000)) > len(found)
    with pytest.raises(ValidationError, match="max_tokens"):
        manager.get_quick_reload("Helena", max_tokens=5)


def test_a_reload_is_the_same_while_nothing_changes(alma: ALMA) -> None:
    manager = SessionManager(alma=alma, workspace=None)
    session = manager.start_session("Helena", "Auth").session_id
    manager.create_handoff("Helena", session, "did", "success")
    assert manager.get_quick_reload("Helena") == manager.get_quick_reload("Helena")


def test_of_several_open_sessions_the_first_is_told(alma: ALMA) -> None:
    manager = SessionManager(alma=alma, workspace=None)
    for goal in ("Test the login", "Mend the cache"):
        manager.start_session("Helena", goal)
    assert ", goal: Mend the cache (1 more)\n" in manager.get_quick_reload("Helena")
