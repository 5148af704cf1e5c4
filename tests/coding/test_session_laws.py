"""What holds of every story: what a beginning tells the whole tells, in order, and never in the host's own words."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from alma.coding.events import Event
from alma.coding.session import CodingSession, build_session

ITEMS = ("turns", "user_turns", "repairs", "signals", "shown_rules", "calls")

USES = st.sampled_from(["", "t1", "t2", "t3"])
PROMPT_IDS = st.sampled_from(["", "p1", "p2"])
COMMANDS = st.sampled_from(["npm test", "npm test -- --run", "npm i", "make", ""])
CALLS = st.one_of(
    st.fixed_dictionaries({"tool_name": st.just("Bash"), "tool_input": st.fixed_dictionaries({"command": COMMANDS})}),
    st.fixed_dictionaries(
        {
            "tool_name": st.sampled_from(["Edit", "Write", "ExitPlanMode"]),
            "tool_input": st.fixed_dictionaries(
                {"file_path": st.sampled_from(["/a", "/b"]), "content": st.sampled_from(["", "x", "y\nz"])}
            ),
        }
    ),
    st.just({"tool_name": "AskUserQuestion", "tool_input": {"questions": [{"question": "Q"}], "answers": {"Q": "no"}}}),
    st.sampled_from([{}, {"tool_name": 7}, {"tool_input": []}]),
)
PROMPTS = st.sampled_from(
    ["no, use pnpm", "yes", "/tag use pnpm", "/tag", "/learn", "/acme:do it the other way", "<task-notification>x", "",
     "[Image #1]", "<system-reminder>x</system-reminder>why",
     "This session is being continued from a previous conversation"]
)  # fmt: skip
SAID = st.sampled_from(["", "Done.", "Done. All of it.", "ok"])
FLAGS = st.sampled_from([True, False, None, "yes"])
REFUSAL = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nuse pnpm"


def _data(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields)


def _tool(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    given = _data(tool_use_id=USES, **fields)
    return st.tuples(CALLS, given).map(lambda parts: {**parts[0], **parts[1]})


HAPPENINGS = st.one_of(
    st.tuples(
        st.sampled_from(["UserPromptSubmit", "UserPromptExpansion"]), _data(prompt=PROMPTS, prompt_id=PROMPT_IDS)
    ),
    st.tuples(st.just("Stop"), _data(last_assistant_message=SAID, prompt_id=PROMPT_IDS, stop_hook_active=FLAGS)),
    st.tuples(st.just("PreToolUse"), _tool()),
    st.tuples(
        st.just("PostToolUse"),
        _tool(output=st.sampled_from(["ok", "Exit code 1\nno"]), user_modified=FLAGS, interrupted=FLAGS),
    ),
    st.tuples(st.just("PostToolUseFailure"), _tool(error=st.sampled_from(["no", "", REFUSAL]), is_interrupt=FLAGS)),
    st.tuples(st.just("PermissionDenied"), _tool(reason=st.sampled_from(["", "no"]))),
    st.tuples(st.sampled_from(["Rejected", "Remarked", "Interrupted"]), _tool(text=SAID, said=SAID)),
    st.tuples(
        st.just("SubagentStop"),
        st.one_of(
            _data(last_assistant_message=SAID, agent_type=st.sampled_from(["", "Explore"])), _data(agent_id=SAID)
        ),
    ),
    st.tuples(st.sampled_from(["SessionStart", "SessionEnd", "PreCompact", "Journal", "New"]), st.just({})),
    st.tuples(st.just("Shown"), _data(rules=st.sampled_from([["r1"], [], None]))),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    happened = draw(st.lists(st.tuples(HAPPENINGS, st.sampled_from(["", "", "", "a1"])), max_size=14))
    names = [draw(st.sampled_from([number, number, number, 1])) for number in range(1, len(happened) + 1)]
    return [
        Event(f"e{names[number - 1]}", name, float(number), "s", "p", agent, data, number)
        for number, ((name, data), agent) in enumerate(happened, start=1)
    ]


def items(story: CodingSession, name: str) -> list[Any]:
    return list(getattr(story, name))


@settings(max_examples=150, deadline=None)
@given(histories())
def test_what_a_beginning_tells_the_whole_tells_again(events: list[Event]) -> None:
    told = build_session(events)
    for end in range(len(events) + 1):
        first = build_session(events[:end])
        for name in ITEMS:
            known = items(first, name)
            assert known == items(told, name)[: len(known)], name
            assert all(one.offset <= end for one in known)
            rest = items(told, name)[len(known) :]
            assert all(one.offset > end for one in rest), "whoever goes on from a mark would miss it"


@given(histories())
def test_items_are_in_order_and_have_names_of_their_own(events: list[Event]) -> None:
    story = build_session(events)
    for name in ITEMS:
        found = items(story, name)
        assert all(a.offset <= b.offset for a, b in pairwise(found))
    for name, key in [("turns", "id"), ("repairs", "ids"), ("signals", "id")]:
        keys = [getattr(one, key) for one in items(story, name)]
        assert len(set(keys)) == len(keys), name
    assert len({one.ids[0] for one in story.repairs}) == len(story.repairs), "a failure is paired once"


@given(histories())
def test_what_is_heard_is_a_persons_turn(events: list[Event]) -> None:
    story = build_session(events)
    turns = {turn.id: turn for turn in story.turns}
    for heard in story.user_turns:
        assert turns[heard.id].speaker == "user"
        assert heard.user_words in turns[heard.id].text
        assert len(heard.before) <= 4000
        assert not heard.user_words.startswith(("<", "/", "[", "This session is being continued"))


@given(histories())
def test_told_again_it_is_the_same(events: list[Event]) -> None:
    assert build_session(events) == build_session(list(events))
    assert build_session([*events, *events]) == build_session(events)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    "prompt source prompt_id tool_name tool_use_id tool_input output error reason last_assistant_message agent_type"
    " rules where text said written user_modified is_interrupt parent transcript_path command_name command_args".split()
)
NAMES = st.sampled_from(
    "SessionStart SessionEnd UserPromptSubmit UserPromptExpansion PreToolUse PostToolUse PostToolUseFailure"
    " PermissionDenied Stop SubagentStop Interrupted Rejected Remarked Shown Journal".split()
)


@given(st.lists(st.tuples(NAMES, st.dictionaries(KEYS, ANYTHING, max_size=8)), max_size=6))
def test_events_of_any_content_are_told(happened: list[tuple[str, dict[str, Any]]]) -> None:
    story = build_session([Event(f"e{n}", name, 1.0, data=data, offset=n) for n, (name, data) in enumerate(happened)])
    assert all(isinstance(turn.text, str) and turn.text.strip() for turn in story.turns)
