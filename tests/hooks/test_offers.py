"""At the start of a session, the person is offered to let the agent read what no reader has read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from alma.hooks.drain import ProjectMemories, drain

from .conftest import Host

TAUGHT = "hm, the house style here is tabs, you know"
OFFER = "not read; type /learn to let this agent learn from"


def start(host: Host, session: str, source: str = "startup") -> tuple[str, str]:
    """Return what a session's start tells the person and the model."""
    event = {"session_id": session, "cwd": str(host.cwd), "hook_event_name": "SessionStart", "source": source}
    printed = json.loads(host.deliver(json.dumps(event).encode()) or b"{}")
    return printed.get("systemMessage", ""), printed.get("hookSpecificOutput", {}).get("additionalContext", "")


def talk(host: Host, *prompts: str, session: str = "s1") -> None:
    host.send("SessionStart", session, source="startup")
    for number, prompt in enumerate(prompts):
        host.send("UserPromptSubmit", session, prompt=prompt, prompt_id=f"{session}{number}")
        host.send("Stop", session, last_assistant_message="I did it.", prompt_id=f"{session}{number}")
    host.send("SessionEnd", session, reason="prompt_input_exit")
    with ProjectMemories(host.place) as memory:
        drain(host.place, memory=memory)


def choose(host: Host, **settings: Any) -> None:
    (host.home / "config.json").write_text(json.dumps({"model": "off", "embedding": "off", **settings}))


@pytest.fixture(autouse=True)
def no_model(host: Host) -> None:
    choose(host)


def test_what_no_reader_has_read_is_offered_to_the_person_once_a_day(host: Host) -> None:
    talk(host, TAUGHT)
    person, model = start(host, "s2")
    assert person.startswith(f"claude-smart: 1 exchange was {OFFER} it.")
    assert "/learn" not in model
    assert start(host, "s3")[0] == ""
    offers = host.home / "offers.json"
    yesterday = {project: at - 86_401 for project, at in json.loads(offers.read_text()).items()}
    offers.write_text(json.dumps(yesterday))
    assert OFFER in start(host, "s4")[0]
    assert os.name == "nt" or offers.stat().st_mode & 0o077 == 0


def test_without_anything_unread_nothing_is_offered(host: Host) -> None:
    talk(host, "ok", "thanks")
    assert start(host, "s2") == ("", "")
    assert not (host.home / "offers.json").exists()


@pytest.mark.parametrize("settings", [{"learn_offer": "off"}, {"model": "on"}], ids=["offers off", "a model reads"])
def test_the_person_turns_offers_off_and_a_model_makes_them_needless(host: Host, settings: dict[str, str]) -> None:
    talk(host, TAUGHT)
    choose(host, **settings)
    assert start(host, "s2")[0] == ""


def test_with_the_reader_agent_it_is_offered_although_a_model_is_allowed(host: Host) -> None:
    choose(host, model="on", reader="agent")
    talk(host, TAUGHT)
    assert OFFER in start(host, "s2")[0]


@pytest.mark.parametrize("entry", ["sdk-cli", "headless", "claude-vscode", ""])
def test_nothing_is_offered_where_no_person_reads_it(host: Host, entry: str) -> None:
    talk(host, TAUGHT)
    host.environ["CLAUDE_CODE_ENTRYPOINT"] = entry
    assert start(host, "s2")[0] == ""


def test_nothing_is_offered_after_a_compaction_or_where_learning_is_paused(host: Host) -> None:
    talk(host, TAUGHT)
    assert start(host, "s2", source="compact")[0] == ""
    (host.home / "paused.json").write_text(json.dumps({"everywhere": True, "projects": []}))
    assert start(host, "s3")[0] == ""


def test_only_this_project_counts_and_only_what_this_agent_may_see(host: Host, tmp_path: Path) -> None:
    talk(host, TAUGHT, "tests live in spec, as everyone knows")
    unread = host.home / "unread.json"
    [(project, counts)] = json.loads(unread.read_text()).items()
    assert sum(counts.values()) == 2
    unread.write_text(json.dumps({project: {"codex": 2}, "elsewhere": {"claude": 9}}))
    assert start(host, "s2")[0] == ""
    choose(host, evidence_providers="all")
    assert f"2 exchanges were {OFFER} them" in start(host, "s3")[0]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": 1}', "\x00", '{"%s": [1]}', '{"%s": {"claude": "many"}}'])
def test_a_damaged_count_offers_nothing(host: Host, content: str) -> None:
    talk(host, TAUGHT)
    unread = host.home / "unread.json"
    [project] = json.loads(unread.read_text())
    unread.write_text(content.replace("%s", project))
    assert start(host, "s2")[0] == ""
    assert host.log() == ""
