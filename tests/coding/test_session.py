"""What a session tells: examples a person would look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alma.coding.events import Event
from alma.coding.session import CodingSession, SessionTurn, Signal, build_session

Happening = Callable[..., Event]


def said(story: CodingSession) -> list[tuple[str, str]]:
    return [(turn.speaker, turn.text) for turn in story.turns]


def notes(story: CodingSession) -> list[Signal]:
    return [one for one in story.signals if one.name == "noted"]


def prompt(happens: Happening, words: str, **data: Any) -> Event:
    return happens("UserPromptSubmit", prompt=words, **data)


def stop(happens: Happening, words: str, **data: Any) -> Event:
    return happens("Stop", last_assistant_message=words, **{"stop_hook_active": False, **data})


def ran(happens: Happening, command: str, use: str = "", **data: Any) -> Event:
    return happens("PostToolUse", tool_name="Bash", tool_use_id=use, tool_input={"command": command}, **data)


def failed(happens: Happening, command: str, error: str = "Exit code 1\nno", **data: Any) -> Event:
    return happens("PostToolUseFailure", tool_name="Bash", tool_input={"command": command}, error=error, **data)


def began(happens: Happening, command: str, use: str) -> Event:
    return happens("PreToolUse", tool_name="Bash", tool_use_id=use, tool_input={"command": command})


# --- the session ------------------------------------------------------------------------------------------------


def test_a_session_is_known_by_its_first_events(happens: Happening) -> None:
    story = build_session(
        [
            happens("Journal"),
            happens("SessionStart", source="clear", transcript_path="/h/a.jsonl", parent="before"),
            happens("SessionEnd", reason="other"),
        ]
    )
    assert (story.session, story.project) == ("s", "git:x/y")
    assert (story.ended, story.transcript_path) == (True, "/h/a.jsonl")


def test_a_resumed_session_goes_on(happens: Happening) -> None:
    story = build_session(
        [
            happens("SessionStart", source="startup"),
            prompt(happens, "hello"),
            stop(happens, "hi"),
            happens("SessionEnd", reason="other"),
            happens("SessionStart", source="resume", transcript_path="/h/a.jsonl"),
            prompt(happens, "no, in French"),
        ]
    )
    assert not story.ended
    assert story.user_turns[-1].before == "hi"
    assert story.transcript_path == "/h/a.jsonl"


def test_no_events_are_a_story_of_nothing() -> None:
    assert build_session([]) == CodingSession()


def test_events_of_a_newer_version_are_passed_over(happens: Happening) -> None:
    assert said(build_session([happens("Somersault", prompt="x"), prompt(happens, "hello")])) == [("user", "hello")]


# --- who said what ----------------------------------------------------------------------------------------------


def test_a_person_and_the_assistant_speak_in_turn(happens: Happening) -> None:
    story = build_session(
        [prompt(happens, "run the tests"), stop(happens, "All pass."), prompt(happens, "no, all of them")]
    )
    assert said(story) == [("user", "run the tests"), ("assistant", "All pass."), ("user", "no, all of them")]
    assert story.user_turns[0] == SessionTurn("e1", "user", "run the tests", 1001.0, 10, "run the tests")
    assert story.user_turns[1] == SessionTurn(
        "e3", "user", "no, all of them", 1003.0, 30, "no, all of them", "All pass."
    )


@pytest.mark.parametrize("again", [{}, {"stop_hook_active": True}])
def test_a_repeated_stop_is_one_turn(happens: Happening, again: dict[str, Any]) -> None:
    story = build_session([prompt(happens, "go"), stop(happens, "Done."), stop(happens, "Done.", **again)])
    assert said(story) == [("user", "go"), ("assistant", "Done.")]


def test_a_stop_hook_that_makes_the_assistant_go_on_adds_only_what_is_new(happens: Happening) -> None:
    story = build_session(
        [
            prompt(happens, "go"),
            stop(happens, "Done. See a.py."),
            stop(happens, "Done.", stop_hook_active=True),
            stop(happens, "And the tests pass.", stop_hook_active=True),
            prompt(happens, "not all"),
        ]
    )
    assert [text for speaker, text in said(story) if speaker == "assistant"] == [
        "Done. See a.py.",
        "And the tests pass.",
    ]
    assert story.user_turns[-1].before == "And the tests pass."


def test_the_same_answer_to_two_prompts_is_two_turns(happens: Happening) -> None:
    story = build_session([prompt(happens, "a"), stop(happens, "ok"), prompt(happens, "b"), stop(happens, "ok")])
    assert len(story.turns) == 4


@pytest.mark.parametrize("first", ["Done.", "All tests pass. Done."])
def test_the_same_answer_for_another_prompt_that_no_hook_saw_is_a_turn(happens: Happening, first: str) -> None:
    story = build_session(
        [prompt(happens, "a"), stop(happens, first, prompt_id="p1"), stop(happens, "Done.", prompt_id="p2")]
    )
    assert said(story) == [("user", "a"), ("assistant", first), ("assistant", "Done.")]


def test_a_stop_without_words_is_no_turn(happens: Happening) -> None:
    story = build_session([prompt(happens, "go"), stop(happens, " "), happens("Stop")])
    assert said(story) == [("user", "go")]


def test_machine_made_prompts_are_neither_turns_nor_heard(happens: Happening) -> None:
    story = build_session(
        [
            prompt(happens, "<task-notification>no, use npm</task-notification>"),
            prompt(happens, "wake up and use npm", source="loop_wakeup"),
            prompt(happens, "This session is being continued from a previous conversation. Never use npm."),
            prompt(happens, ""),
            happens("UserPromptSubmit", prompt=None),
            happens("UserPromptSubmit", prompt=["no"]),
        ]
    )
    assert story.turns == []
    assert story.user_turns == []


def test_an_image_alone_is_a_turn_but_says_nothing(happens: Happening) -> None:
    story = build_session([prompt(happens, "[Image #1]")])
    assert said(story) == [("user", "[Image #1]")]
    assert story.user_turns == []


def test_a_subagent_has_its_last_word_and_no_other(happens: Happening) -> None:
    story = build_session(
        [
            prompt(happens, "look around"),
            happens("UserPromptSubmit", agent_id="a1", prompt="Never use npm here"),
            happens("PreToolUse", agent_id="a1", tool_name="Bash", tool_use_id="t1", tool_input={"command": "ls"}),
            happens("PostToolUse", agent_id="a1", tool_name="Bash", tool_use_id="t1", tool_input={"command": "ls"}),
            happens("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="Found it."),
            happens("SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="Found it."),
            stop(happens, "Here."),
            prompt(happens, "no"),
        ]
    )
    assert said(story) == [("user", "look around"), ("subagent", "Found it."), ("assistant", "Here."), ("user", "no")]
    assert story.user_turns[-1].before == "Here."
    assert [one.command for one in story.calls] == ["ls"]


def test_the_hosts_own_summariser_is_no_subagent(happens: Happening) -> None:
    story = build_session(
        [
            happens("PreCompact", trigger="manual"),
            happens("SubagentStop", agent_id="a2", agent_type="", last_assistant_message="Summary: never use npm"),
            happens("SessionStart", source="compact"),
        ]
    )
    assert story.turns == []


# --- what the words may be about --------------------------------------------------------------------------------


def test_what_was_done_since_the_last_words_is_told_with_what_was_said(happens: Happening) -> None:
    story = build_session(
        [
            prompt(happens, "set it up"),
            failed(happens, "npm install"),
            ran(happens, "npm install --force"),
            happens("PostToolUse", tool_name="Write", tool_input={"file_path": "/w/a.ts", "content": "x"}),
            happens("PostToolUse", tool_name="Edit", tool_input={"file_path": "/w/a.ts", "new_string": "y"}),
            stop(happens, "It is set up."),
            prompt(happens, "we use pnpm here"),
            prompt(happens, "understood?"),
        ]
    )
    assert story.user_turns[1].before == (
        "It is set up.\n[ran `npm install`, which failed; `npm install --force`. edited /w/a.ts]"
    )
    assert story.user_turns[2].before == "It is set up."


def test_whoever_stops_the_assistant_speaks_about_what_it_was_doing(happens: Happening) -> None:
    story = build_session(
        [
            prompt(happens, "install it"),
            began(happens, "npm install left-pad", "t1"),
            prompt(happens, "no, pnpm", prompt_id="p2"),
        ]
    )
    assert story.user_turns[-1].before == "[was about to run `npm install left-pad`]"


def test_a_call_that_never_ended_is_forgotten_when_the_answer_is_there(happens: Happening) -> None:
    story = build_session(
        [prompt(happens, "go"), began(happens, "x", "t1"), stop(happens, "ok"), prompt(happens, "more")]
    )
    assert story.user_turns[-1].before == "ok"


def test_what_was_before_stays_short(happens: Happening) -> None:
    events = [prompt(happens, "go"), *(ran(happens, f"echo {'x' * 500} {n}") for n in range(50))]
    story = build_session([*events, stop(happens, "y" * 16_000), prompt(happens, "no")])
    before = story.user_turns[-1].before
    assert len(before) <= 4000
    assert before.startswith("yyy")
    assert "49`" in before


# --- commands ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["/tag use pnpm", "/claude-smart:tag use pnpm", "/learn use pnpm"])
def test_a_note_is_kept_with_what_it_is_about(happens: Happening, words: str) -> None:
    story = build_session([prompt(happens, "install"), stop(happens, "npm it is."), prompt(happens, words)])
    assert notes(story) == [Signal("noted", "use pnpm", 1003.0, 30, "e3", what="npm it is.")]
    assert len(story.user_turns) == 1


def test_a_tag_without_words_points_at_what_the_person_said(happens: Happening) -> None:
    story = build_session([prompt(happens, "pnpm, please"), stop(happens, "ok"), prompt(happens, "/claude-smart:tag")])
    assert notes(story) == [Signal("noted", "", 1003.0, 30, "e3", what="pnpm, please")]
    assert said(story) == [("user", "pnpm, please"), ("assistant", "ok")]


@pytest.mark.parametrize(
    "words", ["/learn", "/show", "/show all of it", "/tag", "/learn --from-history", "/claude-smart:forget 3 and 4 too"]
)
def test_our_other_commands_leave_nothing(happens: Happening, words: str) -> None:
    story = build_session([prompt(happens, words)])
    assert (notes(story), story.user_turns, story.turns) == ([], [], [])


TAG = {"command_name": "tag", "command_args": "use pnpm"}


@pytest.mark.parametrize("first", ["UserPromptSubmit", "UserPromptExpansion"])
def test_a_command_that_comes_typed_and_expanded_counts_once(happens: Happening, first: str) -> None:
    names = [first, *{"UserPromptSubmit", "UserPromptExpansion"} - {first}]
    story = build_session([happens(name, prompt="/tag use pnpm", prompt_id="p1", **TAG) for name in names])
    assert [note.id for note in notes(story)] == ["e1"]
    assert len(story.turns) == 1


def test_the_expanded_form_may_name_the_plugin(happens: Happening) -> None:
    story = build_session(
        [
            happens("UserPromptSubmit", prompt="/tag use pnpm", prompt_id="p1"),
            happens("UserPromptExpansion", prompt="/claude-smart:tag use pnpm", prompt_id="p1"),
        ]
    )
    assert [note.id for note in notes(story)] == ["e1"]


def test_a_command_told_twice_as_expanded_by_a_host_without_numbers_counts_once(happens: Happening) -> None:
    told = [happens("UserPromptExpansion", prompt="/tag use pnpm", **TAG) for _ in range(2)]
    again = [stop(happens, "ok"), *(happens("UserPromptExpansion", prompt="/tag use pnpm", **TAG) for _ in range(2))]
    assert [note.id for note in notes(build_session([*told, *again]))] == ["e1", "e4"]


def test_the_same_note_twice_is_two_notes(happens: Happening) -> None:
    names = ["UserPromptSubmit", "UserPromptExpansion"] * 2
    story = build_session([happens(name, prompt="/tag use pnpm", prompt_id="p1") for name in names])
    assert [note.id for note in notes(story)] == ["e1", "e3"]


def test_an_expanded_command_alone_is_known_by_its_parts(happens: Happening) -> None:
    story = build_session([happens("UserPromptExpansion", command_name="claude-smart:tag", command_args="use pnpm")])
    assert [note.text for note in notes(story)] == ["use pnpm"]


def test_what_a_person_writes_after_their_own_command_is_heard(happens: Happening) -> None:
    story = build_session([prompt(happens, "/acme:review never mock the database"), prompt(happens, "/fix 12")])
    assert [one.user_words for one in story.user_turns] == ["never mock the database"]
    assert said(story) == [("user", "/acme:review never mock the database"), ("user", "/fix 12")]


def test_the_hosts_own_commands_are_not_heard(happens: Happening) -> None:
    commands = ["/model opus", "/compact and never forget the list", "/clear"]
    story = build_session([prompt(happens, words) for words in commands])
    assert (story.turns, story.user_turns) == ([], [])


# --- signals ----------------------------------------------------------------------------------------------------


def test_a_refused_call_with_words_is_heard(happens: Happening) -> None:
    call = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "npm install"}}
    story = build_session(
        [prompt(happens, "set up"), happens("PreToolUse", **call), happens("Rejected", text="use pnpm", **call)]
    )
    heard = story.user_turns[-1]
    assert (heard.user_words, heard.before) == ("use pnpm", "[was about to run `npm install`, and was refused]")
    assert said(story)[-1] == ("user", "use pnpm")


def test_a_refusal_that_was_answered_is_not_what_the_next_words_are_about(happens: Happening) -> None:
    call = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "npm install"}}
    refused = [happens("PreToolUse", **call), happens("Rejected", text="use pnpm", **call)]
    story = build_session(
        [prompt(happens, "set up"), *refused, ran(happens, "pnpm install"), prompt(happens, "now test")]
    )
    assert story.user_turns[-1].before == "[ran `pnpm install`]"


def test_the_call_that_was_refused_is_found_by_its_id(happens: Happening) -> None:
    story = build_session([began(happens, "npm install", "t1"), happens("Rejected", text="use pnpm", tool_use_id="t1")])
    assert story.user_turns[0].before == "[was about to run `npm install`, and was refused]"


def test_a_hook_that_tells_of_a_refusal_as_a_failure_is_understood(happens: Happening) -> None:
    error = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the"
        " new_string was NOT written to the file). To tell you how to proceed, the user said:\nuse pnpm\n"
        "Note: The user's next message may contain a correction or preference. Pay close attention"
    )
    story = build_session([began(happens, "npm i", "t1"), failed(happens, "npm i", error, tool_use_id="t1"),
                  happens("Rejected", text="use pnpm", tool_use_id="t1")])  # fmt: skip
    assert [one.user_words for one in story.user_turns] == ["use pnpm"]
    assert story.calls == []


def test_a_refusal_without_words_is_what_the_next_words_are_about(happens: Happening) -> None:
    call = {"tool_name": "ExitPlanMode", "tool_use_id": "t1", "tool_input": {"plan": "1. use npm"}}
    asked, begins = prompt(happens, "plan it"), happens("PreToolUse", **call)
    refused = happens("Rejected", text="", **call)
    story = build_session([asked, begins, refused, prompt(happens, "with pnpm")])
    assert [one.user_words for one in story.user_turns] == ["plan it", "with pnpm"]
    assert story.user_turns[-1].before == "[was about to go on with the plan: 1. use npm]"


def test_a_denied_call_says_what_and_why(happens: Happening) -> None:
    story = build_session(
        [happens("PermissionDenied", tool_name="Bash", tool_input={"command": "rm -rf x"}, reason="not allowed")]
    )
    [signal] = story.signals
    assert (signal.name, signal.text, signal.what) == ("denied", "run `rm -rf x`: not allowed", "rm -rf x")


def test_what_a_person_changed_in_a_proposal_is_told(happens: Happening) -> None:
    call = {"tool_name": "Edit", "tool_use_id": "t1"}
    proposed = {"file_path": "/w/a.ts", "old_string": "", "new_string": "import a\nlet x = 1"}
    story = build_session(
        [
            happens("PreToolUse", tool_input=proposed, **call),
            happens(
                "PostToolUse",
                tool_input={**proposed, "new_string": "import a\nconst x = 1"},
                user_modified=True,
                **call,
            ),
        ]
    )
    [signal] = story.signals
    assert (signal.name, signal.what) == ("edited", "/w/a.ts")
    assert signal.text == "The person changed what was proposed for /w/a.ts:\n-let x = 1\n+const x = 1"


def test_what_was_written_may_come_beside_the_proposal(happens: Happening) -> None:
    given = {"file_path": "/w/a.ts", "content": "let x = 1\n"}
    story = build_session(
        [happens("PostToolUse", tool_name="Write", tool_input=given, user_modified=True, written="const x = 1\n")]
    )
    assert story.signals[0].text.endswith("-let x = 1\n+const x = 1")


def test_an_edit_without_both_texts_names_the_file(happens: Happening) -> None:
    story = build_session(
        [happens("PostToolUse", tool_name="Write", tool_input={"file_path": "/w/a.ts"}, user_modified=True)]
    )
    assert story.signals[0].text == "The person changed what was proposed for /w/a.ts"


def test_words_beside_a_permission_are_heard(happens: Happening) -> None:
    call = {"tool_name": "Write", "tool_input": {"file_path": "/w/a.ts", "content": "x"}}
    story = build_session([happens("Remarked", text="but keep files short", **call)])
    assert [(one.user_words, one.before) for one in story.user_turns] == [
        ("but keep files short", "[was allowed to edit /w/a.ts: x]")
    ]
    assert story.signals == []


QUESTION = {"question": "Which?", "options": [{"label": "npm"}, {"label": "yarn"}]}


def test_an_answer_in_ones_own_words_is_heard(happens: Happening) -> None:
    given = {"questions": [QUESTION], "answers": {"Which?": "always pnpm"}}
    story = build_session([happens("PostToolUse", tool_name="AskUserQuestion", tool_input=given)])
    assert [(one.user_words, one.before) for one in story.user_turns] == [
        ("always pnpm", "[asked: Which? (npm / yarn)]")
    ]


@pytest.mark.parametrize("answer", ["npm", "npm, yarn", "", None, ["npm"]])
def test_a_chosen_answer_is_not(happens: Happening, answer: Any) -> None:
    given = {"questions": [QUESTION, 7], "answers": {"Which?": answer, "Other?": "x"}}
    assert build_session([happens("PostToolUse", tool_name="AskUserQuestion", tool_input=given)]).user_turns == []


# --- what ran ---------------------------------------------------------------------------------------------------


def test_what_ran_is_told_with_how_it_ended(happens: Happening) -> None:
    story = build_session(
        [
            ran(happens, "ls", output="a b"),
            failed(happens, "npm test"),
            ran(happens, "make", output="Exit code 2\nno rule"),
            ran(happens, "./x", output="...\nProcess exited with code 3\n"),
            ran(happens, "echo", output="the exit code 1 means failure, as the manual says"),
            happens("PostToolUse", tool_name="Edit", tool_input={"file_path": "/w/a.ts"}),
            happens("PostToolUse", tool_name="PowerShell", tool_input={"command": "dir"}),
            happens("PostToolUse", tool_name="Read", tool_input={"file_path": "/w/a.ts"}),
            happens("PostToolUse", tool_name="Bash", tool_input="odd"),
            happens("PostToolUse"),
        ]
    )
    assert [(one.is_edit, one.command, one.ok) for one in story.calls] == [
        (False, "ls", True),
        (False, "npm test", False),
        (False, "make", False),
        (False, "./x", False),
        (False, "echo", True),
        (True, "/w/a.ts", True),
        (False, "dir", True),
    ]


def test_what_was_shown_is_told(happens: Happening) -> None:
    story = build_session(
        [happens("Shown", rules=["rul_1", 7], where="SessionStart", text="x"), happens("Shown", rules=None)]
    )
    assert [(one.rules, one.where, one.text) for one in story.shown_rules] == [
        (("rul_1",), "SessionStart", "x"),
        ((), "", ""),
    ]
