"""The line for the person: what was learned is said once, in their terminal, and never to the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from alma.hooks.drain import ProjectMemories, drain
from alma.hooks.news import note_rules, note_taught
from alma.types.query import Where
from claude_smart.cli import main

from .conftest import PROJECT, Host, use_home

CORRECTION = "no, use pnpm instead of npm, because npm breaks the lock file"


@pytest.fixture(autouse=True)
def decided(home: Path) -> None:
    """The person has decided about the model reader, so that it has no notice."""
    set_up(home)


def set_up(home: Path, **settings: Any) -> None:
    (home / "config.json").write_text(json.dumps({"model": "off", "learn_offer": "off", **settings}))


def answer(host: Host, event: str = "UserPromptSubmit", session: str = "later", **given: Any) -> dict[str, Any]:
    """Return what a hook answers."""
    payload = {"session_id": session, "cwd": str(host.cwd), "hook_event_name": event, "prompt": "go on", **given}
    printed = host.deliver(json.dumps(payload).encode())
    return dict(json.loads(printed)) if printed else {}


def read_notice(host: Host, event: str = "UserPromptSubmit", session: str = "later", **given: Any) -> str:
    return str(answer(host, event, session, **given).get("systemMessage", ""))


def talk(host: Host, *prompts: str, session: str = "s1") -> None:
    """Say something in a session, and let it be imported."""
    host.send("SessionStart", session, source="startup")
    for number, prompt in enumerate(prompts):
        id = f"{session}{number}{prompt[:9]}"
        host.send("UserPromptSubmit", session, prompt=prompt, prompt_id=id)
        host.send("Stop", session, last_assistant_message="I ran npm install.", prompt_id=id)
    assert drain(host.place, wait=5.0).problems == []


def test_what_was_learned_is_said_once_with_the_way_to_undo_it(host: Host) -> None:
    talk(host, "install the packages", CORRECTION)
    with ProjectMemories(host.place) as memory:
        [rule] = memory.alma.engine.store.scan(Where(kinds={"rule"}))
    told = answer(host, prompt="what is in the folder src?", session="s1")
    assert told["systemMessage"] == f"claude-smart: learned 'Use pnpm instead of npm' · undo: /forget {rule.id[-8:]}"
    assert "systemMessage" not in answer(host, session="s1")
    assert read_notice(host, "SessionStart", source="startup") == ""


def test_it_is_also_said_when_the_next_session_starts_and_not_to_the_model(host: Host) -> None:
    talk(host, "install the packages", CORRECTION)
    told = answer(host, "SessionStart", source="startup")
    assert told["systemMessage"].startswith("claude-smart: learned 'Use pnpm instead of npm' · undo: /forget ")
    assert "claude-smart:" not in json.dumps(told["hookSpecificOutput"])
    assert "pnpm" in told["hookSpecificOutput"]["additionalContext"]
    assert all("claude-smart: learned" not in json.dumps(line) for line in host.lines("later"))


def test_several_are_joined_in_one_line(host: Host) -> None:
    talk(host, "install it", CORRECTION, "never commit to main", "always run make check before you commit")
    line = read_notice(host)
    assert line.startswith("claude-smart: learned '")
    assert line.endswith("' and 2 more · see: /show")


def note(host: Host, teach: Callable[..., str], rule: str, state: str, **given: Any) -> str:
    """Put a rule into the store and note it."""
    id = teach(rule, **given)
    note_rules(host.place, PROJECT, {id: state})
    return id[-8:]


def test_a_candidate_waits_and_a_rule_of_one_session_is_kept_for_it(host: Host, teach: Callable[..., str]) -> None:
    note(host, teach, "Use ruff", "waiting", status="candidate")
    assert read_notice(host) == "claude-smart: waiting for your review: 'Use ruff' · decide: /smart:review"
    id = note(host, teach, "Do not push", "kept", session="s1")
    assert read_notice(host, session="s1") == f"claude-smart: kept for this session: 'Do not push' · undo: /forget {id}"
    id = note(host, teach, "Skip the docs", "kept", session="s1")
    line = "claude-smart: kept only for the session where you said it: 'Skip the docs' · keep it: /smart:edit"
    assert read_notice(host, session="s2") == f"{line} {id} --reach project"
    note(host, teach, "Use ruff", "waiting", status="candidate")
    note(host, teach, "Do not push", "kept", session="s1")
    note(host, teach, "Use tabs", "learned")
    line = "claude-smart: learned 'Use tabs', 1 kept for this session, 1 waiting for your review · see: /show"
    assert read_notice(host, session="s1") == line


def test_learned_is_not_said_of_what_the_agent_reads_in_its_own_file(host: Host, teach: Callable[..., str]) -> None:
    (host.cwd / "CLAUDE.md").write_text("# Rules\n\n- Use tabs\n")
    note(host, teach, "Use tabs", "learned")
    assert read_notice(host).startswith("claude-smart: already in your rule files: 'Use tabs' · undo: ")


def test_what_was_decided_in_the_meantime_is_not_announced(
    host: Host, teach: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_home(monkeypatch, host.home)
    monkeypatch.chdir(host.cwd)
    forgotten = note(host, teach, "Use tabs", "learned")
    accepted = note(host, teach, "Use ruff", "waiting", status="candidate")
    assert main(["forget", forgotten]) == 0
    assert main(["review", "--accept", accepted]) == 0
    assert read_notice(host) == ""


@pytest.mark.parametrize("entry", ["sdk-cli", "sdk-py", "claude-vscode", ""])
def test_nothing_is_said_where_no_person_sees_it_and_it_goes_on_waiting(
    host: Host, teach: Callable[..., str], entry: str
) -> None:
    note(host, teach, "Use tabs", "learned")
    host.environ["CLAUDE_CODE_ENTRYPOINT"] = entry
    assert read_notice(host) == read_notice(host, "SessionStart", source="startup") == ""
    host.environ["CLAUDE_CODE_ENTRYPOINT"] = "cli"
    assert read_notice(host, agent_id="a1") == ""
    assert read_notice(host, prompt="<task-notification>done</task-notification>") == ""
    assert "Use tabs" in read_notice(host)


def test_nothing_is_said_in_another_project_or_while_paused(
    host: Host, teach: Callable[..., str], tmp_path: Path
) -> None:
    note(host, teach, "Use tabs", "learned")
    other = tmp_path / "other"
    other.mkdir()
    assert read_notice(host, cwd=str(other)) == ""
    paused = Path(host.place.paused)
    paused.write_text(json.dumps({"everywhere": True, "projects": []}))
    assert read_notice(host) == ""
    paused.unlink()
    assert "Use tabs" in read_notice(host)


def test_a_setting_mutes_it(host: Host, teach: Callable[..., str], home: Path) -> None:
    note(host, teach, "Use tabs", "learned")
    set_up(home, notices="off")
    assert read_notice(host) == ""
    talk(host, "install the packages", CORRECTION)
    set_up(home)
    assert read_notice(host).startswith("claude-smart: learned 'Use tabs' · "), "what was learned meanwhile is not"


def test_the_line_is_plain_short_text(host: Host, teach: Callable[..., str]) -> None:
    note(host, teach, "Use `tabs`\x1b[31m **not**\u202e <b>spaces</b>\nin 'Go' " + "and so on " * 30, "learned")
    line = read_notice(host)
    assert line.isprintable()
    assert line.startswith("claude-smart: learned 'Use tabs [31m not ‹b›spaces‹/b› in ’Go’ and so on and so on")
    assert len(line) < 140


def test_an_unreadable_store_takes_nothing_away(host: Host, teach: Callable[..., str]) -> None:
    note(host, teach, "Use tabs", "learned")
    content = Path(host.place.db).read_bytes()
    Path(host.place.db).write_bytes(b"no database" * 400)
    assert read_notice(host) == ""
    Path(host.place.db).write_bytes(content)
    assert "Use tabs" in read_notice(host)
    Path(host.place.notices_file(PROJECT)).write_text("[no JSON")
    assert read_notice(host) == ""


def test_learn_does_not_leave_a_line_about_what_it_has_said(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_home(monkeypatch, host.home)
    monkeypatch.chdir(host.cwd)
    host.send("SessionStart", "s1", source="startup")
    for number, prompt in enumerate(("install the packages", CORRECTION)):
        host.send("UserPromptSubmit", "s1", prompt=prompt, prompt_id=f"p{number}")
        host.send("Stop", "s1", last_assistant_message="I ran npm install.", prompt_id=f"p{number}")
    assert main(["learn"]) == 0
    assert "- Learned: " in capsys.readouterr().out
    assert read_notice(host) == ""
    # The worker was faster: the command lists what is new all the same.
    talk(host, "install the packages", "never commit to main", session="s2")
    assert main(["learn"]) == 0
    assert "main" in capsys.readouterr().out
    assert read_notice(host) == ""


def test_what_was_only_repeated_is_not_announced(host: Host) -> None:
    talk(host, "install the packages", CORRECTION)
    assert read_notice(host) != ""
    talk(host, "install the packages", CORRECTION, session="s2")
    assert read_notice(host) == ""
    note_taught(host.place, PROJECT, [])
    assert not Path(host.place.notices_file(PROJECT)).exists()


@pytest.mark.system
def test_of_many_hooks_at_once_one_says_it(host: Host, teach: Callable[..., str]) -> None:
    note(host, teach, "Use tabs", "learned")

    def submit(number: int) -> bytes:
        payload = {"session_id": f"s{number}", "cwd": str(host.cwd), "hook_event_name": "UserPromptSubmit"}
        return host.raw(json.dumps({**payload, "prompt": "go on"}).encode()).stdout

    with ThreadPoolExecutor(4) as pool:
        printed = list(pool.map(submit, range(12)))
    assert sum(b"Use tabs" in output for output in printed) == 1
    assert list(host.home.glob("notices-*")) == []
