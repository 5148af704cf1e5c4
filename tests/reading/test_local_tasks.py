"""How a request is split without a model. The scores on labelled requests are in test_scoreboard.py."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.timing import cpu_seconds

from alma.reading.local import LocalReader
from alma.reading.port import TaskPlan


def plan(prompt: str) -> TaskPlan:
    return LocalReader().plan_tasks(prompt)


def titles(prompt: str) -> list[str]:
    return [task.title for task in plan(prompt).tasks]


def test_a_point_is_one_task_whatever_it_says() -> None:
    found = plan("- Fix the login and then deploy. Also tell Bob.\n- Write the docs").tasks
    assert [task.title for task in found] == ["Fix the login and then deploy", "Write the docs"]
    assert found[0].description == "Fix the login and then deploy. Also tell Bob."


def test_code_and_quotations_are_kept_with_their_task_and_never_read() -> None:
    found = plan("Fix this:\n\n```python\n- add x\ndeploy it. Then stop.\n```\n> Delete all.\n\nRun the tests.").tasks
    assert [task.title for task in found] == ["Fix this", "Run the tests"]
    assert "deploy it" in found[0].description
    assert "Delete all" in found[0].description


def test_what_comes_after_then_is_a_task_of_its_own() -> None:
    first, second = plan("Test the login form, then mend the flaky selectors").tasks
    assert (first.title, second.title, second.after) == ("Test the login form", "Mend the flaky selectors", (0,))
    assert len(titles("Add a page that is slow at first, then in the evening fast")) == 1


def test_background_goes_with_the_task() -> None:
    [task] = plan("The login page crashes on Safari. Fix it.").tasks
    assert task.description == "The login page crashes on Safari.\nFix it."


def test_a_request_without_structure_is_one_task_with_all_of_it() -> None:
    text = "Corrige le bug de connexion. Ajoute des tests."
    [task] = plan(text).tasks
    assert (task.title, task.description) == ("Corrige le bug de connexion", text)


def test_what_comes_last_waits_for_everything() -> None:
    assert [task.after for task in plan("Fix the login. Add tests. Finally, deploy it.").tasks] == [(), (), (0, 1)]


def test_titles_are_short_and_descriptions_whole() -> None:
    text = "Implement " + "a very long thing " * 20
    [task] = plan(text).tasks
    assert len(task.title) <= 100
    assert task.title.endswith("…")
    assert task.description == text.strip()


def test_of_very_many_the_last_are_kept_together() -> None:
    found = plan("\n".join(f"- Fix bug {number}" for number in range(250))).tasks
    assert len(found) == 100
    assert found[-1].title == "The remaining 151 points of the request"
    assert "Fix bug 249" in found[-1].description


_PIECES = (
    "fix the bug", "and ", "then ", "- ", "\n", "`", '"', "(", ")", ". ", "add ", "# ", "1. ", "2) ", ", ", "[ ] ",
    "finally ", "don't ", ":", "```", "> ", "it ", "    ", "\t", "urgent ", "é", "。", "? ", "TODO: ", "**", "but ",
)  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=60).map("".join) | st.text(max_size=300))
@example(". fix the bug")
def test_any_request_can_be_read(prompt: str) -> None:
    for at, task in enumerate(plan(prompt).tasks):
        assert task.title.strip()
        assert len(task.title) <= 100
        assert "\n" not in task.title
        assert all(first < at for first in task.after)


@pytest.mark.parametrize(
    "prompt",
    [
        "please " * 15_000,
        "- " + " " * 100_000,
        "fix a, " * 15_000,
        "(" * 100_000,
        "finally fix it. " * 6_000,
        "`" * 99_999,
    ],
)
def test_a_long_request_is_read_quickly(prompt: str) -> None:
    assert cpu_seconds(lambda: plan(prompt), enough=9) < 10
