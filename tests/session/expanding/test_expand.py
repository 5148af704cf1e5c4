from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.session.expanding import Expansion, expand


def titles(prompt: str) -> list[str]:
    return [task.title for task in expand(prompt).tasks]


def waits(prompt: str) -> list[tuple[int, ...]]:
    return [task.after for task in expand(prompt).tasks]


# -- lists


@pytest.mark.parametrize(
    "prompt",
    [
        "- Test the login form\n- Test password reset\n- Fix flaky selectors",
        "* Test the login form\n* Test password reset\n* Fix flaky selectors",
        "1. Test the login form\n2. Test password reset\n3. Fix flaky selectors",
        "1) Test the login form 2) Test password reset 3) Fix flaky selectors",
        "(1) Test the login form\n(2) Test password reset\n(3) Fix flaky selectors",
        "a) Test the login form\nb) Test password reset\nc) Fix flaky selectors",
        "- [ ] Test the login form\n- [ ] Test password reset\n- [x] Write the plan\n- [ ] Fix flaky selectors",
        "[ ] Test the login form\n[ ] Test password reset\n[ ] Fix flaky selectors",
        "TODO: Test the login form\nTODO: Test password reset\nTODO: Fix flaky selectors",
        "• Test the login form\r\n• Test password reset\r\n• Fix flaky selectors",
        "Do the following:\n\n- Test the login form\n\n- Test password reset\n\n- Fix flaky selectors\n\nThanks!",
    ],
)  # fmt: skip
def test_three_things_are_three_tasks(prompt: str) -> None:
    assert titles(prompt) == ["Test the login form", "Test password reset", "Fix flaky selectors"]


def test_a_point_is_one_task_whatever_it_says() -> None:
    found = expand("- Fix the login and then deploy. Also tell Bob.\n- Write the docs")
    assert [task.title for task in found.tasks] == ["Fix the login and then deploy", "Write the docs"]
    assert found.tasks[0].description == "Fix the login and then deploy. Also tell Bob."


def test_points_of_other_languages_are_tasks_too() -> None:
    assert titles("- Corrige le bug\n- Ajoute des tests\n- ログインを直す") == [
        "Corrige le bug",
        "Ajoute des tests",
        "ログインを直す",
    ]


def test_what_is_below_a_point_is_a_part_or_an_explanation() -> None:
    found = expand("1. Write the parser\n   - handle comments\n   - it must be fast\n2. Deploy").tasks
    assert [(task.title, task.parent) for task in found] == [
        ("Write the parser", None),
        ("Handle comments", 0),
        ("Deploy", None),
    ]
    assert "it must be fast" in found[0].description


def test_a_point_that_only_names_a_group_is_no_task() -> None:
    found = expand("- Backend:\n  - Add the endpoint\n- Frontend:\n  - Update the form").tasks
    assert [task.title for task in found] == ["Add the endpoint", "Update the form"]
    assert found[0].description == "Backend: Add the endpoint"


def test_lines_that_go_on_belong_to_their_point() -> None:
    found = expand("- Fix the login,\n  which fails\n\n  on mobile\n- Deploy").tasks
    assert [task.title for task in found] == ["Fix the login, which fails", "Deploy"]
    assert found[0].description == "Fix the login, which fails\non mobile"


# -- sentences and clauses


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Fix the login bug, add tests and update the docs.", ["Fix the login bug", "Add tests", "Update the docs"]),
        ("Find and fix the leak, then deploy to staging.", ["Find and fix the leak", "Deploy to staging"]),
        ("Can you please refactor the parser?", ["Refactor the parser"]),
        ("I'd like you to add a cache. We also need to update the docs.", ["Add a cache", "Update the docs"]),
        ("Run the tests and deploy.", ["Run the tests", "Deploy"]),
        ("Run `make test` and fix the failures", ["Run `make test`", "Fix the failures"]),
        ("Refactor a.py; remove x; update README.md", ["Refactor a.py", "Remove x", "Update README.md"]),
        ("Update config.yaml. Then run it.", ["Update config.yaml", "Run it"]),
        ("Frobnicate the widget. Twiddle all knobs.", ["Frobnicate the widget", "Twiddle all knobs"]),
        ("The cart loses items, fix that.", ["The cart loses items, fix that"]),
        ("The button should be blue. The form must load.", ["The button should be blue", "The form must load"]),
    ],
)  # fmt: skip
def test_sentences_are_taken_apart(prompt: str, expected: list[str]) -> None:
    assert titles(prompt) == expected


@pytest.mark.parametrize(
    "prompt",
    [
        "Fix the login and signup forms",
        "Fix the build and test scripts",
        "Add create, update and delete endpoints for users",
        "Implement login, logout and password reset",
        "Add a form that lets users register and log in",
        "Tell the user to log out and log in again",
        "Write a script to download and parse the logs",
        "Review and merge the branch",
        "Clean up and document the code",
        "Search for and remove unused imports",
        "Make the tests faster and more reliable",
        "Print `fix it and then add tests`",
        'Show the message "save the file and then close the window"',
        "Set up CI (lint the code, then run the tests)",
        "Build an API with FastAPI and PostgreSQL, with auth and rate limiting",
        "If they object to the price, offer a discount",
        "Read https://example.com/a,b and/or the manual",
    ],
)
def test_what_belongs_together_is_not_cut(prompt: str) -> None:
    assert titles(prompt) == [prompt]


def test_code_is_told_along_and_never_read() -> None:
    found = expand("Fix this:\n\n```python\n- add x\n- add y\ndeploy the thing. Then stop.\n```\n\nThen run the tests.")
    assert [task.title for task in found.tasks] == ["Fix this", "Run the tests"]
    assert "deploy the thing" in found.tasks[0].description


def test_quotations_are_no_requests() -> None:
    found = expand("> Delete everything.\n\nSummarise the mail above.").tasks
    assert [task.title for task in found] == ["Summarise the mail above"]
    assert "Delete everything" in found[0].description


def test_background_goes_with_the_task_and_names_what_it_points_at() -> None:
    [fix, add] = expand("The login page crashes on Safari. Fix it and add a regression test.").tasks
    assert fix.title == "Fix it: The login page crashes on Safari"
    assert "From: Fix it and add a regression test." in add.description


@pytest.mark.parametrize(
    "prompt", ["hello", "Thanks!", "Hi there. Good morning!", "Don't touch the database.", "---", "..."]
)
def test_where_nothing_is_asked_for_there_is_no_task(prompt: str) -> None:
    assert titles(prompt) == []


def test_what_is_not_understood_is_one_task_with_all_of_it() -> None:
    [task] = expand("Corrige le bug de connexion. Ajoute des tests.").tasks
    assert task.title == "Corrige le bug de connexion"
    assert task.description == "Corrige le bug de connexion. Ajoute des tests."


# -- order


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Fix the login and then deploy.", [(), (0,)]),
        ("Fix the login. After that, deploy it.", [(), (0,)]),
        ("Fix the login. Once that is done, deploy it.", [(), (0,)]),
        ("Fix the login. Add tests. Finally, deploy it.", [(), (), (0, 1)]),
        ("Fix the login. Add tests.", [(), ()]),
        ("- Deploy once the API is done\n- Implement the API", [(1,), ()]),
        ("- Deploy after fixing the login\n- Fix the login", [(1,), ()]),
        ("- Back up the database before migrating users\n- Migrate users", [(), (0,)]),
        ("Once the auth tests pass, deploy it. Fix the auth tests.", [(1,), ()]),
        ("Do this in this order:\n- Back up\n- Migrate\n- Restart", [(), (0,), (1,)]),
        ("- Write\n- Then deploy", [(), (0,)]),
        ("- Call Ann after lunch\n- Call Bob", [(), ()]),
        ("- Deploy the site after fixing auth\n- Fix auth after deploying the site", [(1,), ()]),
    ],
)
def test_what_waits_for_what(prompt: str, expected: list[tuple[int, ...]]) -> None:
    assert waits(prompt) == expected


# -- priority, type, rules


def test_priorities_follow_the_order_and_the_words() -> None:
    found = expand(
        "- Write docs\n- Nice to have: dark mode\n- URGENT: fix the login\n- Fix the security hole\n- Not urgent: tidy"
    )
    docs, dark, urgent, secure, tidy = (task.priority for task in found.tasks)
    assert urgent > secure > docs > dark > tidy
    assert expand("Fix the cart. It is urgent.").tasks[0].priority > 80


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Fix the login", "bug"),
        ("Add a cache", "feature"),
        ("Add tests", "task"),
        ("Why does the login fail?", "research_question"),
        ("Investigate the slow query", "research_question"),
        ("Deploy", "task"),
    ],
)
def test_types(prompt: str, expected: str) -> None:
    assert [task.item_type for task in expand(prompt).tasks] == [expected]


def test_prohibitions_and_conditions_of_done_are_no_tasks() -> None:
    found = expand(
        "Add a cache, but don't touch the database. Never log tokens. All tests must pass.\n\n"
        "Out of scope:\n- the mobile app\n\n## Done when\n- the page loads in 1 s"
    )
    assert [task.title for task in found.tasks] == ["Add a cache"]
    assert found.constraints == ("don't touch the database.", "Never log tokens.", "the mobile app")
    assert found.gates == ("All tests must pass.", "the page loads in 1 s")


def test_sections_that_explain_are_no_tasks() -> None:
    found = expand("## Goal\nShip it\n\n## Steps to reproduce\n1. Open the page\n2. Click\n\n## Tasks\n- Fix the crash")
    assert found.goal == "Ship it"
    assert [task.title for task in found.tasks] == ["Fix the crash"]
    assert "Open the page" in found.tasks[0].description


def test_titles_are_short_and_descriptions_whole() -> None:
    text = "Implement " + "a very long thing " * 20
    [task] = expand(text).tasks
    assert len(task.title) <= 81
    assert task.title.endswith("…")
    assert task.description == text.strip()


def test_of_very_many_the_last_are_kept_together() -> None:
    found = expand("\n".join(f"- Fix bug {number}" for number in range(250))).tasks
    assert len(found) == 100
    assert found[-1].title == "The remaining 151 points of the request"
    assert "Fix bug 249" in found[-1].description


# -- laws

_PIECES = (
    "fix the bug", "and ", "then ", "- ", "\n", "`", '"', "(", ")", ". ", "add ", "# ", "1. ", "2) ", ", ", "[ ] ",
    "after ", "once ", "don't ", ":", "```", "> ", "it ", "    ", "\t", "urgent ", "é", "。", "? ", "TODO: ", "**", "|",
)  # fmt: skip
prompts = st.lists(st.sampled_from(_PIECES), max_size=60).map("".join) | st.text(max_size=300)


def check(found: Expansion) -> None:
    for at, task in enumerate(found.tasks):
        assert task.title.strip()
        assert len(task.title) <= 81
        assert "\n" not in task.title
        assert task.description.strip()
        assert 0 <= task.priority <= 100
        assert task.parent is None or task.parent < at
        assert at not in task.after
        assert all(0 <= first < len(found.tasks) for first in task.after)
    order: list[int] = []
    while len(order) < len(found.tasks):
        ready = [at for at, task in enumerate(found.tasks) if at not in order and set(task.after) <= set(order)]
        assert ready, "a circle"
        order += ready


@given(prompts)
def test_whatever_is_said_becomes_a_list_that_can_be_worked_through(prompt: str) -> None:
    check(expand(prompt))


@given(prompts)
def test_the_same_prompt_gives_the_same_tasks(prompt: str) -> None:
    assert expand(prompt) == expand(prompt)


@given(st.lists(st.sampled_from(["Fix the login", "Add a cache", "Deploy", "Write docs"]), min_size=1, max_size=8))
def test_a_list_of_so_many_points_is_so_many_tasks(points: list[str]) -> None:
    for mark in ("- {}", "* {}", "- [ ] {}"):
        assert titles("\n".join(mark.format(point) for point in points)) == points


@pytest.mark.parametrize(
    "piece", ["a, ", "a.", "a/", "fix the bug and add it, ", "do x after ", '"', "`", "([", "\n- ", "'a "]
)
def test_a_long_prompt_takes_no_longer_than_its_length(piece: str) -> None:
    began = time.perf_counter()
    expand((piece * 100_000)[:100_000])
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    "prompt",
    [
        "Fix the login. Before that, update the dependencies.",
        "Fix the login. But first, update the dependencies.",
        "Fix the login. But before doing so update the dependencies.",
        "Fix the login; prior to that, update the dependencies.",
    ],
)
def test_what_is_said_later_may_come_before(prompt: str) -> None:
    assert titles(prompt) == ["Fix the login", "Update the dependencies"]
    assert waits(prompt) == [(1,), ()]


def test_the_first_of_a_row_comes_before_nothing_else() -> None:
    assert waits("First fix the login. Update the dependencies.") == [(), ()]
