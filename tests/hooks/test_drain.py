"""From journals into the store: exactly once, whoever drains and whenever they were killed."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alma.engine.coding_sessions import JournalMark, find_mark, store_session
from alma.errors import StorageError
from alma.hooks import journal
from alma.hooks.drain import DrainReport, ProjectMemories, drain, read_journal, recall_rules, remove_expired
from alma.hooks.paths import DataDir
from alma.operations import operations
from alma.projects import LazyMemory, Projects
from alma.types.query import Where
from alma.types.record import Record, Status

PROJECT = "git:example.org/acme/app"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDir:
    monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")
    return DataDir(str(tmp_path / "home"))


class Person:
    """Writes the journal of a session."""

    def __init__(self, place: DataDir, session: str = "s1", project: str = PROJECT) -> None:
        self.place, self.session, self.project = place, session, project
        self.number = 0

    def event(self, name: str, **data: Any) -> str:
        self.number += 1
        line = {
            "v": 1,
            "id": f"{self.session}-{self.number}",
            "at": time.time(),
            "event": name,
            "session": self.session,
            "project": self.project,
            "cwd": "/w/app",
            "agent_id": "",
            "entry": "cli",
            "origin": "host",
            "data": data,
        }
        journal.append_line(self.place, self.session, line)
        return str(line["id"])

    def starts(self, source: str = "startup") -> None:
        self.event("SessionStart", source=source)

    def says(self, prompt: str, answer: str = "Done.") -> str:
        said = self.event("UserPromptSubmit", prompt=prompt, prompt_id=f"p{self.number}")
        self.event("Stop", last_assistant_message=answer, prompt_id=f"p{self.number - 1}")
        return said

    def runs(self, command: str, error: str = "") -> None:
        use = f"t{self.number}"
        given = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": use}
        self.event("PreToolUse", **given)
        if error:
            self.event("PostToolUseFailure", **given, error=error)
        else:
            self.event("PostToolUse", **given, output="ok")

    def sees(self, *rules: str) -> None:
        self.event("Shown", rules=list(rules), where="SessionStart", text="")

    def ends(self) -> None:
        self.event("SessionEnd", reason="other")


@pytest.fixture
def person(place: DataDir) -> Person:
    made = Person(place)
    made.starts()
    return made


def held(place: DataDir, kind: str, **where: Any) -> list[Record]:
    with ProjectMemories(place) as memory:
        found = memory.alma.engine.store.scan(Where(kinds={kind}, **where))
        return sorted(found, key=lambda one: (one.session, one.id))


def active(place: DataDir) -> list[str]:
    return [str(one.body["rule"]) for one in held(place, "rule", statuses={Status.ACTIVE})]


class TestOnce:
    def test_turns_are_kept_in_order(self, place: DataDir, person: Person) -> None:
        person.says("run the tests", "All pass.")
        assert drain(place).turns == 2
        turns = sorted(held(place, "turn"), key=lambda one: int(one.body["index"]))
        assert [one.body["text"] for one in turns] == ["run the tests", "All pass."]
        assert {one.project for one in turns} == {PROJECT}

    def test_a_second_drain_finds_nothing(self, place: DataDir, person: Person) -> None:
        person.says("no, use pnpm instead of npm")
        drain(place)
        before = held(place, "rule"), held(place, "turn")
        report = drain(place)
        assert (report.sessions, report.turns, report.taught) == (0, 0, [])
        assert (held(place, "rule"), held(place, "turn")) == before

    def test_what_comes_later_is_added(self, place: DataDir, person: Person) -> None:
        person.says("run the tests")
        drain(place)
        person.says("and now the linter")
        assert drain(place).turns == 2
        assert len(held(place, "turn")) == 4

    def test_an_unfinished_line_waits(self, place: DataDir, person: Person) -> None:
        person.says("run the tests")
        path = place.journal_file("s1")
        whole = Path(path).read_bytes()
        cut = whole.rstrip(b"\n").rfind(b"\n") + 20
        Path(path).write_bytes(whole[:cut])
        assert drain(place).turns == 1
        Path(path).write_bytes(whole)
        assert drain(place).turns == 1
        assert len(held(place, "turn")) == 2

    def test_killed_between_turns_and_rules_nothing_is_lost_or_doubled(
        self, place: DataDir, person: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        person.says("no, use pnpm instead of npm")

        def killed(*_: object) -> None:
            raise StorageError("killed here")

        with monkeypatch.context() as patch:
            patch.setattr("alma.engine.coding_sessions.learn_rules", killed)
            report = drain(place)
        assert report.problems
        assert len(held(place, "turn")) == 2
        assert drain(place).sessions == 1
        assert len(held(place, "turn")) == 2
        assert len(active(place)) == 1

    def test_two_at_once_count_once(self, place: DataDir, person: Person) -> None:
        person.says("no, use pnpm instead of npm")
        reports: list[DrainReport] = []
        threads = [threading.Thread(target=lambda: reports.append(drain(place, wait=10))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(report.sessions for report in reports) == 1
        [rule] = held(place, "rule")
        assert rule.body["metadata"]["repeats"] == 0

    def test_a_mark_that_moved_meanwhile_stops_the_second(self, place: DataDir, person: Person) -> None:
        """Even without the lock: the store itself lets one of them through."""
        person.says("no, use pnpm instead of npm")
        found = read_journal(place, place.journal_file("s1"))
        assert found is not None
        with ProjectMemories(place) as memory:
            engine = memory.engine(PROJECT)
            mark = JournalMark(found.file, found.size)
            assert store_session(engine, found.story, mark) is not None
            again = store_session(engine, found.story, mark)
            assert again is None or not again.taught
            assert find_mark(engine, "s1").offset == found.size

    def test_another_journal_of_the_same_session_starts_anew(self, place: DataDir, person: Person) -> None:
        person.says("run the tests")
        drain(place)
        os.remove(place.journal_file("s1"))
        again = Person(place)
        again.number = 100
        again.starts("resume")
        again.says("run them again")
        assert drain(place).turns == 2
        assert len(held(place, "turn")) == 4

    def test_a_damaged_journal_does_not_hold_up_the_others(self, place: DataDir, person: Person) -> None:
        person.says("run the tests")
        Path(place.sessions, "bad.jsonl").write_bytes(b"\xff\xfe not json\n{]\n")
        Path(place.sessions, "empty.jsonl").write_bytes(b"")
        assert drain(place).turns == 2


class TestLearning:
    def test_a_correction_becomes_a_rule(self, place: DataDir, person: Person) -> None:
        person.says("install the packages", "I ran npm install.")
        person.says("no, use pnpm instead of npm")
        drain(place)
        [rule] = held(place, "rule", statuses={Status.ACTIVE})
        assert (rule.body["prefer"], rule.body["avoid"]) == (["pnpm"], ["npm"])
        assert rule.body["said"] == "no, use pnpm instead of npm"

    def test_a_note_becomes_a_rule_as_written(self, place: DataDir, person: Person) -> None:
        person.event("UserPromptExpansion", command_name="claude-smart:tag", command_args="Run make check!", prompt="")
        drain(place)
        assert active(place) == ["Run make check!"]

    def test_a_failure_that_was_made_good_is_an_observation_and_no_rule(self, place: DataDir, person: Person) -> None:
        person.event("UserPromptSubmit", prompt="run it", prompt_id="p1")
        person.runs("python app.py", "Exit code 127\nbash: python: command not found")
        person.runs("python3 app.py")
        person.event("Stop", last_assistant_message="It runs.", prompt_id="p1")
        drain(place)
        assert held(place, "rule") == []
        [seen] = held(place, "observation", statuses={Status.ACTIVE})
        assert seen.body["line"] == "`python app.py` failed once, `python3 app.py` worked once"

    def test_ordinary_work_teaches_nothing(self, place: DataDir, person: Person) -> None:
        for prompt in ("run the tests", "fix the login bug", "why does this fail?", "thanks", "yes, go on"):
            person.says(prompt)
        drain(place)
        assert active(place) == []

    def test_projects_are_kept_apart(self, place: DataDir, person: Person) -> None:
        person.says("no, use pnpm instead of npm")
        other = Person(place, "s2", "git:example.org/other/app")
        other.says("no, use yarn instead of npm")
        drain(place)
        assert {(one.project, one.body["prefer"][0]) for one in held(place, "rule")} == {
            (PROJECT, "pnpm"),
            ("git:example.org/other/app", "yarn"),
        }


class TestJudging:
    @pytest.fixture
    def rule(self, place: DataDir, person: Person) -> str:
        person.says("no, use pnpm instead of npm")
        person.ends()
        drain(place)
        [rule] = held(place, "rule")
        return rule.id

    def follow(self, place: DataDir, rule: str, *commands: str, said: str = "install the packages") -> Record:
        other = Person(place, "s2")
        other.starts()
        other.sees(rule)
        other.event("UserPromptSubmit", prompt=said, prompt_id="q1")
        for command in commands:
            other.runs(command)
        other.event("Stop", last_assistant_message="Done.", prompt_id="q1")
        drain(place)
        [found] = held(place, "rule")
        return found

    def test_followed(self, place: DataDir, rule: str) -> None:
        found = self.follow(place, rule, "pnpm install")
        assert (found.evidence.successes, found.evidence.failures) == (1, 0)

    def test_broken(self, place: DataDir, rule: str) -> None:
        found = self.follow(place, rule, "npm install")
        assert (found.evidence.successes, found.evidence.failures) == (0, 1)

    def test_neither(self, place: DataDir, rule: str) -> None:
        found = self.follow(place, rule, "ls")
        assert found.evidence.results == 0

    def test_repeated_by_its_person_it_counts_as_violated(self, place: DataDir, rule: str) -> None:
        found = self.follow(place, rule, said="no, use pnpm instead of npm")
        assert (found.evidence.failures, found.body["metadata"]["repeats"]) == (1, 1)

    def test_what_was_shown_is_a_retrieval(self, place: DataDir, rule: str) -> None:
        self.follow(place, rule, "ls")
        [shown] = held(place, "retrieval")
        assert (shown.body["shown"], shown.body["mode"]) == ([rule], "hook:SessionStart")


class TestUpkeep:
    @pytest.fixture
    def opened(self, place: DataDir, person: Person) -> Iterator[ProjectMemories]:
        person.says("run the tests")
        drain(place)
        with ProjectMemories(place) as memory:
            yield memory

    def age(self, place: DataDir, name: str, days: float) -> None:
        old = time.time() - days * 86_400
        os.utime(os.path.join(place.sessions, name), (old, old))

    def test_an_old_journal_that_was_taken_in_goes(self, place: DataDir, opened: ProjectMemories) -> None:
        self.age(place, "s1.jsonl", 31)
        remove_expired(place, opened)
        assert os.listdir(place.sessions) == []
        assert find_mark(opened.engine(PROJECT), "s1") == JournalMark()

    def test_a_young_one_stays(self, place: DataDir, opened: ProjectMemories) -> None:
        remove_expired(place, opened)
        assert os.path.exists(place.journal_file("s1"))

    def test_one_that_was_not_taken_in_stays_however_old(
        self, place: DataDir, opened: ProjectMemories, person: Person
    ) -> None:
        person.says("one more thing")
        self.age(place, "s1.jsonl", 400)
        remove_expired(place, opened)
        assert os.path.exists(place.journal_file("s1"))


def test_recall_by_meaning_and_words(place: DataDir, person: Person) -> None:
    person.says("no, use pnpm instead of npm")
    drain(place)
    with ProjectMemories(place) as memory:
        assert recall_rules(memory, PROJECT, "s9", "how do I bake bread", 5) == []


def test_files_are_private(place: DataDir, person: Person) -> None:
    person.says("run the tests")
    drain(place)
    for folder, _, names in os.walk(place.home):
        assert not os.stat(folder).st_mode & 0o077
        for name in names:
            assert not os.stat(os.path.join(folder, name)).st_mode & 0o077, name


def test_a_secret_in_a_journal_line_is_not_in_the_store(place: DataDir, person: Person) -> None:
    secret = "ghp_4l7Zx3Qw8Kp5FakeV4lue9NotRe4l7Zx3Qw8"
    person.says(f"no, use the token {secret} instead")
    drain(place)
    assert secret not in json.dumps([str(one) for kind in ("turn", "rule", "episode") for one in held(place, kind)])


class TestManyJournals:
    def test_what_is_taken_in_is_told_by_its_first_line(
        self, place: DataDir, person: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        person.says("install the packages")
        drain(place)
        monkeypatch.setattr("alma.hooks.drain.read_journal", lambda *given: pytest.fail("it was read whole"))
        assert drain(place).sessions == 0

    def test_another_journal_of_the_same_name_is_taken_in(self, place: DataDir, person: Person) -> None:
        person.says("install the packages, and do it with care please")
        drain(place)
        os.remove(place.journal_file("s1"))
        person.says("now")
        assert drain(place).turns == 2

    def test_one_that_cannot_be_understood_holds_up_no_other(
        self, place: DataDir, person: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Person(place, "a-first").says("something odd")
        person.says("install the packages")
        whole = read_journal

        def reading(place: DataDir, path: str) -> Any:
            if "a-first" in path:
                raise KeyError("what was said")
            return whole(place, path)

        monkeypatch.setattr("alma.hooks.drain.read_journal", reading)
        report = drain(place)
        assert report.turns == 2
        assert [problem.partition(" in ")[0] for problem in report.problems] == ["a-first.jsonl: KeyError"]

    def test_a_transcript_that_is_no_path_is_done_without(self, place: DataDir, person: Person) -> None:
        person.event("SessionStart", source="startup", transcript_path="a\0b")
        person.says("install the packages")
        report = drain(place)
        assert (report.turns, report.problems) == (2, [])


def test_a_captured_session_shows_what_was_shown_at_a_turn_and_learned_from_it(place: DataDir) -> None:
    person = Person(place)
    person.starts()
    person.says("No, always use pnpm instead of npm in this repository.")
    person.ends()
    drain(place)
    with ProjectMemories(place) as memory:
        alma = Projects(LazyMemory(lambda: memory.alma)).get(PROJECT)
        [rule] = alma.browse(types=["rule"]).items
        later = Person(place, "s2")
        later.starts()
        later.sees(rule.memory.id)
        later.says("Install the dependencies")
        drain(place, memory=memory)
        call = operations()
        [second, first] = call["browse_sessions"].call(alma, {})["items"]
        names = ("session_id", "corrections", "learned", "shown")
        assert [[one[name] for name in names] for one in (first, second)] == [["s1", 1, 1, 0], ["s2", 0, 0, 1]]
        assert second["shown_tokens"] > 0
        turns = call["show_session"].call(alma, {"session": "s1"})["turns"]
        assert [[one["id"] for one in turn["learned"]] for turn in turns] == [[rule.memory.id], []]
        alma.update(rule.memory.id, rule="Use bun")
        shown = call["show_session"].call(alma, {"session": second["id"]})["turns"][0]["shown"]
        assert [(one["id"], one["where"]) for one in shown] == [(rule.memory.id, "SessionStart")]
        # It is quoted as it was shown then.
        assert "pnpm" in shown[0]["text"]
        detail = call["inspect"].call(alma, {"memory_id": rule.memory.id})
        assert detail["taught_in"] == first["id"]
        assert [one["session_id"] for one in detail["shown_in"]] == ["s2"]
        overview = call["overview"].call(alma, {})
        assert overview["is_capturing"]
        assert call["configuration"].call(alma, {})["projects"] == [PROJECT]
        delay = overview["captured_after_ms"]
        assert 0 <= delay < 60_000
        old = (datetime.now(UTC) - timedelta(minutes=15)).isoformat()
        alma.add_episode("dev", "imported", [{"speaker": "user", "text": "Long ago", "at": old}])
        assert call["overview"].call(alma, {})["captured_after_ms"] == delay


def test_a_repaired_command_is_shown_at_the_turn_and_its_tokens_count(place: DataDir) -> None:
    person = Person(place)
    person.starts()
    person.event("UserPromptSubmit", prompt="run it", prompt_id="p1")
    person.runs("python app.py", "Exit code 127\nbash: python: command not found")
    person.runs("python3 app.py")
    person.event("Stop", last_assistant_message="It runs.", prompt_id="p1")
    person.ends()
    drain(place)
    line = "`python app.py` failed once, `python3 app.py` worked once"
    with ProjectMemories(place) as memory:
        alma, call = Projects(LazyMemory(lambda: memory.alma)).get(PROJECT), operations()
        [seen] = call["browse_observations"].call(alma, {})["items"]
        assert (seen["memory"]["line"], seen["memory"]["status"], seen["shown"]) == (line, "active", 0)
        later = Person(place, "s2")
        later.starts()
        later.sees(seen["memory"]["id"])
        later.says("Run it again")
        drain(place, memory=memory)
        [second, first] = call["browse_sessions"].call(alma, {})["items"]
        assert (first["learned"], second["shown"]) == (1, 1)
        assert second["shown_tokens"] > 0
        [shown] = call["show_session"].call(alma, {"session": second["id"]})["turns"][0]["shown"]
        assert (shown["id"], shown["text"]) == (seen["memory"]["id"], line)
        detail = call["inspect"].call(alma, {"memory_id": shown["id"]})
        assert (detail["entry"]["shown"], detail["taught_in"]) == (1, first["id"])
