"""How likely an exchange teaches something is stored with it, and follows what the agent answers."""

from __future__ import annotations

from alma.hooks.drain import ProjectMemories, drain
from alma.reading.teaching import rate_turn
from alma.types.query import Where
from alma.types.record import Record, Status

from .conftest import Host

DONE = "Started PostgreSQL with docker and ran the tests: 41 passed."
CORRECTION = "docker is slow on these machines, we start the database with pgtest here"
ANSWER = "Switched the tests to `pgtest`, docker is gone."
THANKS = "thanks, that looks good"


def list_exchanges(host: Host) -> dict[str, Record]:
    """Import what was recorded and return the exchanges by the person's words."""
    with ProjectMemories(host.place) as memory:
        assert drain(host.place, memory=memory).problems == []
        records = memory.alma.engine.store.scan(Where(kinds={"exchange"}))
        return {str(record.body["person"]): record for record in records}


def say(host: Host, number: int, prompt: str, answer: str = "") -> None:
    prompt_id = f"p{number}"
    host.send("UserPromptSubmit", "s", prompt=prompt, prompt_id=prompt_id)
    if answer:
        host.send("Stop", "s", last_assistant_message=answer, prompt_id=prompt_id)


def test_the_answer_of_the_agent_counts_once_it_is_known(host: Host) -> None:
    host.send("SessionStart", "s", source="startup")
    say(host, 0, "run the tests of the orders package", DONE)
    say(host, 1, CORRECTION)
    unanswered = list_exchanges(host)[CORRECTION]
    assert unanswered.body["likely"] == round(rate_turn(CORRECTION, number=1, before=DONE), 3)
    host.send("Stop", "s", last_assistant_message=ANSWER, prompt_id="p1")
    host.send("SessionEnd", "s", reason="prompt_input_exit")
    answered = list_exchanges(host)[CORRECTION]
    assert answered.body["likely"] == round(rate_turn(CORRECTION, number=1, before=DONE, then=ANSWER), 3)
    assert answered.body["likely"] > unanswered.body["likely"]
    assert answered.status is Status.ACTIVE


def test_what_teaches_nothing_does_not_begin_a_session(host: Host) -> None:
    host.send("SessionStart", "s", source="startup")
    say(host, 0, "run the tests of the orders package", DONE)
    say(host, 1, CORRECTION, ANSWER)
    say(host, 2, THANKS, "You are welcome.")
    host.send("SessionEnd", "s", reason="prompt_input_exit")
    assert list_exchanges(host)[THANKS].status is Status.ACTIVE
    shown = host.send("SessionStart", "t", source="startup")
    assert CORRECTION in shown
    assert THANKS not in shown


def test_what_the_turn_names_of_a_command_before_counts(host: Host) -> None:
    host.send("SessionStart", "s", source="startup")
    say(host, 0, "run the tests of the orders package")
    call = {"tool_name": "Bash", "tool_input": {"command": "docker compose up -d"}, "tool_use_id": "t1"}
    host.send("PreToolUse", "s", **call)
    host.send("PostToolUse", "s", **call, tool_response={"stdout": "", "stderr": "", "interrupted": False})
    host.send("Stop", "s", last_assistant_message="All 41 pass.", prompt_id="p0")
    say(host, 1, CORRECTION)
    likely = list_exchanges(host)[CORRECTION].body["likely"]
    assert likely > round(rate_turn(CORRECTION, number=1, before="All 41 pass."), 3)
