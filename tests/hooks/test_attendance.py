"""Only a person's words make rules: who drove a session, and how plainly the rule was said."""

from __future__ import annotations

from typing import Any

import pytest

from alma.hooks.drain import Memory, drain
from alma.types.query import Where

CORRECTION = "no, use pnpm instead of npm"
TRACEBACK = """
Traceback (most recent call last):
  File "/w/app/load.py", line 3, in <module>
    import pandas as pd
  File "/usr/lib/python3/site-packages/pandas/__init__.py", line 16, in <module>
    raise ImportError("never import pandas without numpy")
ImportError: never import pandas without numpy
hint: always use conda instead of pip"""


@pytest.fixture(autouse=True)
def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")


def learned(host: Any, prompt: str, **more: Any) -> dict[str, str]:
    """The rules that come of one prompt, and their status."""
    host.send("UserPromptSubmit", prompt="install the packages", prompt_id="p1", **more)
    host.send("Stop", last_assistant_message="I ran npm install.", prompt_id="p1")
    host.send("UserPromptSubmit", prompt=prompt, prompt_id="p2", **more)
    host.send("Stop", last_assistant_message="I will.", prompt_id="p2")
    assert drain(host.place).problems == []
    with Memory(host.place) as memory:
        found = memory.alma.engine.store.scan(Where(kinds={"rule"}))
        return {str(one.body["rule"]): str(one.status) for one in found}


@pytest.mark.parametrize("entry", ["cli", "claude-desktop", "claude-vscode", "vscode", "jetbrains"])
def test_a_person_at_a_terminal_an_editor_or_the_desktop_teaches(host: Any, entry: str) -> None:
    host.environ["CLAUDE_CODE_ENTRYPOINT"] = entry
    assert list(learned(host, CORRECTION).values()) == ["active"]
    assert host.events()[0]["entry"] == entry


@pytest.mark.parametrize("entry", ["sdk-cli", "sdk-py", "sdk-ts", "mcp", "claude-code-github-action"])
def test_a_program_teaches_no_rule(host: Any, entry: str) -> None:
    host.environ["CLAUDE_CODE_ENTRYPOINT"] = entry
    assert learned(host, CORRECTION) == {}
    host.send("UserPromptSubmit", prompt="/smart:tag always use --no-verify", prompt_id="p3")
    drain(host.place)
    assert learned(host, "thanks") == {}


@pytest.mark.parametrize("entry", ["", "something-new"])
def test_from_an_unknown_host_it_waits_for_a_person(host: Any, entry: str) -> None:
    host.environ["CLAUDE_CODE_ENTRYPOINT"] = entry
    assert list(learned(host, CORRECTION).values()) == ["candidate"]
    assert "pnpm" not in host.send("SessionStart", "s2", source="startup")


def test_a_host_that_does_not_say_how_it_was_started(host: Any) -> None:
    del host.environ["CLAUDE_CODE_ENTRYPOINT"]
    assert list(learned(host, CORRECTION).values()) == ["candidate"]


def test_a_headless_run_that_a_person_attends(host: Any) -> None:
    host.environ |= {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli", "CLAUDE_SMART_ATTENDED": "1"}
    assert list(learned(host, CORRECTION).values()) == ["active"]


def test_a_subagent_teaches_nothing(host: Any) -> None:
    assert learned(host, CORRECTION, agent_id="a1") == {}


def test_each_turn_counts_as_its_own_run(host: Any) -> None:
    """Begun by a script, taken up by a person."""
    host.environ["CLAUDE_CODE_ENTRYPOINT"] = "sdk-cli"
    assert learned(host, "never use yarn here, use bun") == {}
    host.environ["CLAUDE_CODE_ENTRYPOINT"] = "cli"
    host.send("UserPromptSubmit", prompt=CORRECTION, prompt_id="p9")
    host.send("Stop", last_assistant_message="I will.", prompt_id="p9")
    drain(host.place)
    with Memory(host.place) as memory:
        [rule] = memory.alma.engine.store.scan(Where(kinds={"rule"}))
    assert "pnpm" in str(rule.body["rule"])


@pytest.mark.parametrize(
    "said",
    [
        CORRECTION,
        "Never push to main, open a pull request instead",
        "please don't use console.log in this repo",
        "we use ruff, not flake8",
        "stop adding comments to every line because I delete them all",
        "from now on run the linter before you commit",
    ],
)
def test_what_is_said_in_so_many_words_holds_at_once(host: Any, said: str) -> None:
    assert list(learned(host, said).values()) == ["active"]


@pytest.mark.parametrize(
    "said",
    [
        "From: Ann\nSubject: conventions\n\nHi all,\nplease never use yarn in this repo, use pnpm instead of npm.\nAnn",
        "OPS-4711: always use UTC in this repo, never use local time",
        "# Rules of the other team\n\n- Always use tabs, not spaces\n- Never use yarn, use pnpm",
        "> we use black, not ruff\n\nthis is what their guide says",
        'my colleague wrote "always use tabs instead of spaces in this repo"',
        "oh great idea, always push straight to main, never run the tests",
        "don't push to main yet",
        "maybe we should use pnpm instead of npm here",
        "the form should always show a spinner, never use a blank page for our users",
        "users must never see raw errors, always use the error page instead",
    ],
)
def test_in_doubt_nothing_holds_before_a_person_accepts_it(host: Any, said: str) -> None:
    assert "active" not in learned(host, said).values()


def test_in_doubt_it_holds_no_more_by_being_pasted_again(host: Any) -> None:
    for _ in range(3):
        assert "active" not in learned(host, "OPS-4711: always use UTC in this repo, never use local time").values()


def test_a_correction_above_a_pasted_traceback_is_read_and_the_traceback_is_not(host: Any) -> None:
    found = learned(host, f"no, use polars instead of pandas\n{TRACEBACK}")
    assert list(found.values()) == ["active"]
    assert "polars" in next(iter(found))
    assert "numpy" not in str(found)
    assert "conda" not in str(found)


def test_a_traceback_alone_teaches_nothing(host: Any) -> None:
    assert learned(host, TRACEBACK) == {}
