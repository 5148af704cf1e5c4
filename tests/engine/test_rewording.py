"""Notes with words from nowhere, as the prompt `reword` gets them worded again: what then holds, and what still waits.

Each line of the data is a session, and a note as a model words it. A "fixable" note teaches the right thing with a word
too many: in other words it should hold, contain each text of `must` and none of `never`. All of a "hopeless" note comes
from a tool, a page or a paste, or weakens safety: it should wait in any words.

The second answers were recorded once from a model. After a change of the prompt or of what it is shown:

    python -m tests.engine.test_rewording dump DIR  # writes DIR/NAME.txt, the whole prompt of each session
    python -m tests.engine.test_rewording take DIR  # records the answers, one JSON value in each DIR/NAME.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from alma import ALMA
from alma.models.client import check, quote_material, write_instructions
from alma.models.registry import digest_prompt
from alma.stores.memory import MemoryStore
from alma.types.asking import Answer, Prompt
from alma.types.record import Record, Status

from .test_agreed import Work
from .test_waiting_notes import play_steps

DATA = Path(__file__).parents[1] / "data"
ANSWERS = DATA / "reworded_notes.jsonl"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the values of a file of JSON lines; none if there is no such file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


SESSIONS = read_lines(DATA / "rewording_sessions.jsonl")
RECORDED = {line["name"]: line for line in read_lines(ANSWERS)}
NO_NOTES: dict[str, Any] = {"notes": []}
LIMITS = {"no-unwrap"}
"""Fixable notes that are known to wait after the recorded answer."""
SCREENED = {"skip-hooks"}
"""Hopeless notes that the engine takes for harmful: no model is asked about them."""


class Rewriter:
    """A model that is asked to word notes again, and answers with what was recorded."""

    name = "rewriter"

    def __init__(self, value: dict[str, Any]) -> None:
        self._value = value
        self.prompts: list[Prompt] = []

    def ask(self, prompt: Prompt) -> Answer:
        check(self._value, prompt.schema)
        self.prompts.append(prompt)
        return Answer(value=self._value, model=self.name)


class Learned(NamedTuple):
    """The rules that came of a note, those of them that hold, and the prompts about it."""

    rules: list[Record]
    active: list[Record]
    prompts: list[Prompt]


def learn_note(session: dict[str, Any], value: dict[str, Any]) -> Learned:
    """Play a session, let a model hand in its note and answer with a value where it is asked to word it again."""
    rewriter = Rewriter(value)
    with ALMA(MemoryStore(), project_id="test") as alma:
        work = Work(alma)
        play_steps(session, work)
        note = {name: session[name] for name in ("note", "quote", "trigger") if name in session}
        work.learn(note, rewording=rewriter)
        rules = [rule for rule in work.rules.values() if rule.body["metadata"].get("reader") == "model"]
    active = [rule for rule in rules if rule.status is Status.ACTIVE]
    return Learned(rules, active, rewriter.prompts)


def find_answer(session: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded answer to the prompt of a session."""
    recorded = RECORDED.get(session["name"])
    value: dict[str, Any] = NO_NOTES if recorded is None else recorded["answer"]
    return value


def list_prompts() -> dict[str, Prompt]:
    """Return the prompts by the names of their sessions."""
    prompts = {}
    for session in SESSIONS:
        learned = learn_note(session, NO_NOTES)
        if learned.prompts:
            [prompts[session["name"]]] = learned.prompts
    return prompts


def list_sessions(kind: str) -> list[dict[str, Any]]:
    """Return the sessions of a kind."""
    return [session for session in SESSIONS if session["kind"] == kind]


def test_each_note_waits_until_it_is_worded_again() -> None:
    unasked = set()
    for session in SESSIONS:
        learned = learn_note(session, NO_NOTES)
        assert [rule.body["rule"] for rule in learned.rules] == [session["note"]], session["name"]
        assert learned.active == [], session["name"]
        if not learned.prompts:
            unasked.add(session["name"])
    assert unasked == SCREENED


needs_answers = pytest.mark.skipif(not RECORDED, reason="no answers are recorded; see the docstring of the module")


@needs_answers
def test_the_recorded_answers_are_to_these_prompts() -> None:
    stale = []
    for name, prompt in list_prompts().items():
        if RECORDED.get(name, {}).get("prompt") != digest_prompt(prompt):
            stale.append(name)
    assert stale == [], "dump the prompts and take new answers"


@needs_answers
def test_a_note_with_a_word_too_many_holds_in_other_words() -> None:
    waiting = {}
    for session in list_sessions("fixable"):
        answer = find_answer(session)
        learned = learn_note(session, answer)
        if not learned.active:
            waiting[session["name"]] = answer["notes"]
    unexpected = {name: notes for name, notes in waiting.items() if name not in LIMITS}
    assert unexpected == {}
    assert set(waiting) == LIMITS, "a limit that is none any more"


@needs_answers
def test_a_note_in_other_words_still_teaches_the_same_thing() -> None:
    wrong = {}
    for session in list_sessions("fixable"):
        for rule in learn_note(session, find_answer(session)).active:
            text = f"{rule.body['rule']} {rule.body['trigger']}".casefold()
            missing = [words for words in session["must"] if words.casefold() not in rule.body["rule"].casefold()]
            added = [words for words in session["never"] if words.casefold() in text]
            if missing or added:
                wrong[session["name"]] = (rule.body["rule"], missing, added)
    assert wrong == {}


@needs_answers
def test_a_note_that_only_a_tool_or_a_page_taught_waits_in_any_words() -> None:
    held = {}
    for session in list_sessions("hopeless"):
        active = learn_note(session, find_answer(session)).active
        if active:
            held[session["name"]] = [rule.body["rule"] for rule in active]
    assert held == {}


def dump_prompts(folder: Path) -> None:
    """Write the prompt of each session as a model gets it: the task, the schema of the answer, and the material."""
    folder.mkdir(parents=True, exist_ok=True)
    prompts = list_prompts()
    for name, prompt in prompts.items():
        text = f"{write_instructions(prompt)}\n\n{quote_material(prompt)}"
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    print(f"{len(prompts)} prompts in {folder}")


def take_answers(folder: Path) -> None:
    """Record the answers of a folder, each with the digest of its prompt. One that is missing stops it."""
    lines = []
    for name, prompt in list_prompts().items():
        answer = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        check(answer, prompt.schema)
        line = {"name": name, "prompt": digest_prompt(prompt), "answer": answer}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    ANSWERS.write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} answers in {ANSWERS}")


if __name__ == "__main__":
    ACTIONS = {"dump": dump_prompts, "take": take_answers}
    if len(sys.argv) != 3 or sys.argv[1] not in ACTIONS:
        sys.exit("usage: python -m tests.engine.test_rewording dump|take DIR")
    ACTIONS[sys.argv[1]](Path(sys.argv[2]))
