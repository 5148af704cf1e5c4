"""From what people say over weeks to the rules they get: nothing they did not mean, and most of what they did.

`data/sessions.txt` holds the sessions, with what should come of each turn, and `data/later.txt` what is asked later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from alma.hooks import journal, relevance
from alma.hooks.drain import ProjectMemories, drain
from alma.hooks.inject import ReadOnlyRules, StoredRule
from alma.hooks.paths import DataDir
from alma.types.query import Where
from alma.types.record import Record, Status
from claude_smart.rules import accept_rule

pytestmark = pytest.mark.system

DATA = Path(__file__).with_name("data")
HOST = "git:example.org"
DAY = 86_400
START = 1_760_000_000.0


@dataclass
class Sitting:
    """A session as it is played: it writes the journal and remembers what should come of it."""

    place: DataDir
    project: str
    session: str
    at: float
    number: int = 0
    prompt: str = ""
    failed: str = ""
    expected: dict[str, tuple[str, str]] = field(default_factory=dict)

    def event(self, name: str, **data: Any) -> str:
        self.number += 1
        self.at += 20
        id = f"{self.session}-{self.number}"
        line = {"v": 1, "id": id, "at": self.at, "event": name, "session": self.session, "project": self.project}
        journal.append_line(
            self.place,
            self.session,
            {**line, "cwd": "/w/app", "agent_id": "", "entry": "cli", "origin": "host", "data": data},
        )
        return id

    def play(self, kind: str, told: str) -> None:
        text, _, reason = told.partition(" ## ")
        if kind in "XPSO":
            self.prompt = f"p{self.number}"
            said, _, wanted = told.partition("||")
            id = self.event("UserPromptSubmit", prompt=said.strip().replace("\\n", "\n"), prompt_id=self.prompt)
            self.expected[id] = (kind, wanted.partition("||")[0].strip().lower())
        elif kind == "<":
            self.event("Stop", last_assistant_message=told, prompt_id=self.prompt)
        elif kind in "!$Ff":
            self.run(kind, text, reason.replace("\\n", "\n"))
        elif kind == "T":
            note = {"command_name": "claude-smart:tag", "command_args": told, "prompt": ""}
            self.expected[self.event("UserPromptExpansion", **note)] = ("P", told[:20].lower())
        elif kind == "A":
            self.event("SubagentStop", agent_id="a1", agent_type="general", last_assistant_message=told)
        elif kind == "D":
            given = {"tool_name": "Bash", "tool_use_id": f"t{self.number}", "tool_input": {"command": text}}
            self.expected[self.event("PermissionDenied", **given, reason=reason)] = ("f", "")
        elif kind == "I":
            self.event("Interrupted", text="")

    def run(self, kind: str, command: str, error: str) -> None:
        given = {"tool_name": "Bash", "tool_use_id": f"t{self.number}", "tool_input": {"command": command}}
        self.event("PreToolUse", **given)
        if kind == "!":
            self.failed = self.event("PostToolUseFailure", **given, error=error)
        else:
            worked = self.event("PostToolUse", **given, output="ok")
            self.expected[f"fix:{self.failed}:{worked}"] = (kind, "")


@dataclass(frozen=True)
class Life:
    """What was expected of each turn, and the rules that came of them."""

    place: DataDir
    expected: dict[str, tuple[str, str]]
    rules: list[Record]
    reviewed: set[str]
    """The rules that waited, and that the person accepted after the session."""
    observations: list[Record]

    def of(self, kinds: str) -> Iterator[tuple[str, Record | None]]:
        """Each turn of some kinds with the rule that came of it."""
        held = {source: rule for rule in self.rules for source in rule.body["metadata"]["sources"]}
        return ((id, held.get(id)) for id, (kind, _) in self.expected.items() if kind in kinds)


def lasts(rule: Record | None) -> bool:
    return rule is not None and not rule.session and rule.status in (Status.ACTIVE, Status.SUPERSEDED)


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")
        place = DataDir(str(tmp_path_factory.mktemp("life") / "home"))
        sittings: list[Sitting] = []
        for line in (DATA / "sessions.txt").read_text(encoding="utf-8").splitlines():
            kind, told = line[:1], line[2:]
            if kind == "@":
                project, session, day = told.split()
                sittings.append(Sitting(place, f"{HOST}/{project}", f"{project}-{session}", START + int(day) * DAY))
                sittings[-1].event("SessionStart", source="startup")
            elif kind != "#":
                sittings[-1].play(kind, told)
        reviewed: set[str] = set()
        with ProjectMemories(place) as memory:
            store = memory.alma.engine.store
            for path in {place.journal_file(one.session) for one in sittings}:
                # Each is drained when it has ended.
                os.rename(path, f"{path}.later")
            for one in sorted(sittings, key=lambda one: one.at):
                path = place.journal_file(one.session)
                if os.path.exists(f"{path}.later"):
                    os.rename(f"{path}.later", path)
                one.event("SessionEnd", reason="other")
                assert drain(place, memory=memory).problems == []
                meant = {id for id, (kind, _) in one.expected.items() if kind == "P"}
                for rule in store.scan(Where(kinds={"rule"}, statuses={Status.CANDIDATE})):
                    if meant & set(rule.body["metadata"]["sources"]):
                        reviewed.add(accept_rule(memory.engine(one.project), rule).id)
            rules, seen = (list(store.scan(Where(kinds={kind}))) for kind in ("rule", "observation"))
        yield Life(place, {id: told for one in sittings for id, told in one.expected.items()}, rules, reviewed, seen)


def test_no_rule_lasts_that_was_not_meant_to(life: Life) -> None:
    """At first 5 of 97 did: "wrong file" and "the other way round" said twice, a mistyped path, what the host refused
    twice, and what was wished for two sessions."""
    assert [rule.body["line"] for _, rule in life.of("XOSf") if rule is not None and lasts(rule)] == []


def test_explicit_rules_are_found_and_hold_at_once(life: Life) -> None:
    """Without a model only explicit forms are read: 62 % of these rules are found, 32 % at once."""
    found = [rule for _, rule in life.of("P")]
    assert sum(rule is not None for rule in found) >= 0.6 * len(found)
    at_once = [rule for rule in found if rule is not None and lasts(rule) and rule.id not in life.reviewed]
    assert len(at_once) >= 0.3 * len(found)


def test_a_rule_says_what_was_said(life: Life) -> None:
    for id, rule in life.of("P"):
        if rule is not None:
            told = f"{rule.body['rule']} {rule.body['trigger']}".lower()
            assert all(piece in told for piece in life.expected[id][1].split(" / ")), rule.body["line"]


def test_repairs_are_observed_and_become_no_rules(life: Life) -> None:
    assert not any(rule for _, rule in life.of("F$"))
    assert not any(rule.body["source"] == "fix" for rule in life.rules)
    counted = {f"fix:{source}" for one in life.observations for source in one.body["metadata"]["sources"]}
    wanted = [id for id, (kind, _) in life.expected.items() if kind == "F"]
    assert sum(id in counted for id in wanted) >= 0.7 * len(wanted)


def test_later_words_take_the_place_of_earlier_ones_and_of_no_others(life: Life) -> None:
    now = {rule.id: rule.body["rule"] for rule in life.rules}
    gone = {rule.body["rule"]: now[rule.superseded_by] for rule in life.rules if rule.superseded_by}
    assert gone == {
        "Use tabs not spaces": "Use spaces, not tabs",
        "Use pytest instead of unittest": "Use unittest, not pytest",
    }


def brought_up(life: Life, project: str, kind: str, text: str) -> list[StoredRule]:
    if kind == "P":
        said = relevance.read_prompt(text)
    elif kind == "C":
        said = relevance.read_tool_call("Bash", {"command": text}, "/w/app")
    else:
        path, _, content = text.partition("::")
        said = relevance.read_tool_call("Write", {"file_path": path, "content": content}, "/w/app")
    with ReadOnlyRules(life.place, f"{HOST}/{project}") as glance:
        return relevance.find_relevant(glance, said, set(), 5)


def test_later_only_what_fits_is_brought_up(life: Life) -> None:
    """32 of 73 fitting ones are, and nothing where nothing fits."""
    wanted = shown = beside = 0
    for line in (DATA / "later.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        project, kind, text, piece = line.split("|")
        rules = brought_up(life, project, kind, text)
        # All these people share a home here: what one of them wants everywhere is nothing to the others.
        lines = [rule.line for rule in rules if rule.body.get("reach") != "always"]
        pieces = [one.lower() for one in piece.lstrip("~").split(";")]
        fitting = [rule for rule in rules if any(part in rule.line.lower() for part in pieces)]
        assert piece != "-" or not lines, line
        beside += sum(one not in [rule.line for rule in fitting] for one in lines)
        if piece != "-" and not piece.startswith("~"):
            wanted += 1
            shown += bool(fitting)
    assert beside <= 2
    assert shown >= 0.4 * wanted


class TestFollowing:
    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDir:
        monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")
        return DataDir(str(tmp_path / "home"))

    def results(self, place: DataDir, *commands: str) -> tuple[int, int]:
        """Of a rule that is shown as the first command starts."""
        first = Sitting(place, f"{HOST}/app", "s1", START)
        first.play("P", "no, use pnpm instead of npm")
        first.play("<", "Done.")
        drain(place)
        [rule] = self.rules(place)
        other = Sitting(place, f"{HOST}/app", "s2", START + DAY)
        other.play("X", "install the packages")
        for number, command in enumerate(commands):
            given = {"tool_name": "Bash", "tool_use_id": f"u{number}", "tool_input": {"command": command}}
            other.event("PreToolUse", **given)
            if number == 0:
                other.event("Shown", rules=[rule.id], where="PreToolUse", text=command)
            other.event("PostToolUse", **given, output="ok")
        other.play("<", "Done.")
        drain(place)
        [rule] = self.rules(place)
        return int(rule.evidence.successes), int(rule.evidence.failures)

    def rules(self, place: DataDir) -> list[Record]:
        with ProjectMemories(place) as memory:
            return list(memory.alma.engine.store.scan(Where(kinds={"rule"})))

    def test_what_is_told_as_a_command_starts_comes_too_late_for_it(self, place: DataDir) -> None:
        assert self.results(place, "npm install") == (0, 0)

    def test_but_not_for_the_next(self, place: DataDir) -> None:
        assert self.results(place, "npm install", "npm test") == (0, 1)

    def test_who_heeds_it_followed_it(self, place: DataDir) -> None:
        assert self.results(place, "npm install", "pnpm install") == (1, 0)
