"""Conversations on the command line: add episode, and how they are listed, shown, found and erased."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma.engine.retrieve.request import Level, Mode

Run = Callable[..., Any]

TURNS: list[dict[str, Any]] = [
    {"speaker": "Ana", "text": "We move the billing service to two regions", "at": "2026-05-07T10:00:00Z", "id": "1"},
    {"role": "assistant", "content": "Which regions will the billing service\nhave?", "at": "2026-05-07T10:01:00Z"},
    {"speaker": "Ana", "text": "Lisbon and Frankfurt", "id": "3"},
]
ADD = ("--agent", "ops", "--session", "s1")
ASK = ("Which regions will the billing service have?", "--agent", "ops")


def jsonl(turns: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(turn) + "\n" for turn in turns)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def talked(project: Path, run: Run) -> str:
    """The id of a conversation that is kept."""
    Path("chat.jsonl").write_text(jsonl(TURNS))
    made = run(
        "add", "episode", "chat.jsonl", *ADD, "--user", "ana", "--title", "Two regions", "--tag", "infra", "--json"
    )
    return str(made.json["memory"]["id"])


class TestAdding:
    def test_a_conversation_is_kept_and_grows(self, project: Path, run: Run) -> None:
        Path("chat.jsonl").write_text(jsonl(TURNS[:1]) + "\n")
        first = run("add", "episode", "chat.jsonl", *ADD)
        assert first.code == 0
        assert first.out.startswith("epi_")
        assert "is stored, now with 1 turn\n" in first.out
        Path("chat.jsonl").write_text(jsonl(TURNS))
        assert "now with 3 turns\n" in run("add", "episode", "chat.jsonl", *ADD).out
        again = run("add", "episode", "chat.jsonl", *ADD, "--json").json["memory"]
        assert (again["type"], again["turn_count"], again["session_id"]) == ("episode", 3, "s1")

    def test_all_options_are_kept(self, talked: str, run: Run) -> None:
        made = run("show", talked, "--json").json["memory"]
        assert (made["agent"], made["title"], made["tags"]) == ("ops", "Two regions", ["infra"])
        assert made["speakers"] == ["Ana", "assistant"]
        assert run("list", "--type", "episode", "--user", "ana", "--json").json["count"] == 1

    def test_a_json_list_and_standard_input(self, project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("chat.json").write_text("\ufeff" + json.dumps(TURNS, indent=2), encoding="utf-8")
        assert run("add", "episode", "chat.json", *ADD, "--json").json["memory"]["turn_count"] == 3
        monkeypatch.setattr("sys.stdin", io.StringIO(jsonl(TURNS)))
        assert (
            run("add", "episode", "-", "--agent", "ops", "--session", "s2", "--json").json["memory"]["turn_count"] == 3
        )

    def test_a_line_separator_inside_a_text_is_no_end_of_line(self, project: Path, run: Run) -> None:
        turn = {"speaker": "Ana", "text": "one\u2028two\u0085three"}
        Path("chat.jsonl").write_text(json.dumps(turn, ensure_ascii=False), encoding="utf-8")
        assert run("add", "episode", "chat.jsonl", *ADD, "--json").json["memory"]["turn_count"] == 1

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (jsonl(TURNS) + "{\n", "bad.json, line 4 is not valid JSON"),
            (jsonl(TURNS) + "\n7\n", "bad.json, line 5 must be an object with a speaker and a text"),
            (jsonl([*TURNS, {"speaker": "", "text": "x"}]), "bad.json, line 4: speaker is empty"),
            (jsonl([*TURNS, {"speaker": "A", "text": 7}]), "bad.json, line 4: text must be a string, not a number (7)"),
            (jsonl([{"speaker": "A", "text": "x", "at": "soon"}]), "bad.json, line 1: at must be a time such as"),
            (jsonl([{"speeker": "A"}]), "bad.json, line 1: unknown field 'speeker'. Did you mean 'speaker'?"),
            (
                '[\n {"speaker": "A",\n "text": "x"},\n\n {"text": "y"}\n]',
                "bad.json, item 2: speaker must be a string, not null",
            ),
            ('[{"speaker": "A", "text": "x"},\n 7]', "bad.json, item 2 must be an object"),
            (
                '[{"speaker": "A",\n "text": "x"}',
                "bad.json is not valid JSON (expecting ',' delimiter at line 2, column 14)",
            ),
            ("[" * 100_000, "bad.json is not valid JSON"),
            ("[]", "bad.json is empty"),
            ("\n", "bad.json is empty"),
        ],
    )
    def test_a_bad_file_is_named_with_the_line_and_nothing_is_kept(
        self, project: Path, run: Run, text: str, message: str
    ) -> None:
        Path("bad.json").write_text(text)
        ran = run("add", "episode", "bad.json", *ADD)
        assert (ran.code, ran.out) == (1, "")
        assert message in ran.err
        assert run("stats", "--json").json["total_count"] == 0
        assert run("add", "episode", "bad.json", *ADD, "--json").json["error"]["type"] == "ValidationError"

    def test_a_file_that_cannot_be_read(self, project: Path, run: Run) -> None:
        Path("latin.json").write_bytes(b'{"speaker": "J\xfcrgen"}')
        for name in ("nowhere.json", "latin.json"):
            ran = run("add", "episode", name, *ADD)
            assert (ran.code, f"cannot read {name}" in ran.err) == (1, True)

    def test_agent_and_session_are_needed(self, project: Path, run: Run) -> None:
        assert run("add", "episode", "chat.jsonl", "--agent", "ops").code == 2
        assert run("add", "episode", "chat.jsonl", "--session", "s1").code == 2


class TestSeeing:
    def test_list_and_stats_count_it(self, talked: str, run: Run) -> None:
        out = run("list", "--type", "episode").out
        assert all(part in out for part in (talked[:14], "episode", "Two regions"))
        assert run("stats", "--json").json["by_type"]["episode"] == 1
        assert "episode" in run("stats").out

    def test_show_tells_every_turn(self, talked: str, run: Run) -> None:
        out = run("show", talked).out
        for part in ("Ana", "assistant", "two regions", "have?", "Lisbon and Frankfurt", "s1"):
            assert part in out
        turns = run("show", talked, "--json").json["memory"]["turns"]
        assert [(turn["type"], turn["index"]) for turn in turns] == [("turn", 0), ("turn", 1), ("turn", 2)]
        assert all(turn["id"] in out for turn in turns)

    def test_show_of_a_turn_names_its_conversation(self, talked: str, run: Run) -> None:
        turn = f"trn_{talked[4:]}_2"
        out = run("show", turn).out
        assert all(part in out for part in ("Lisbon and Frankfurt", "related", talked[:14], "Two regions"))
        document = run("show", turn, "--json").json
        assert (document["memory"]["type"], document["memory"]["speaker"]) == ("turn", "Ana")
        assert [one["id"] for one in document["related"]] == [talked]
        assert document["related"][0]["memory"]["turns"] == []


class TestFinding:
    def test_retrieve_shows_the_telling_turns(self, talked: str, run: Run) -> None:
        out = " ".join(run("retrieve", *ASK, "--user", "ana").out.split())
        for part in (
            "Two regions",
            "Ana: We move the billing",
            talked[:14],
        ):
            assert part in out
        [memory] = run("retrieve", *ASK, "--user", "ana", "--json").json["memories"]
        assert (memory["type"], memory["id"]) == ("episode", talked)
        assert memory["turns"][0]["text"] == TURNS[0]["text"]

    def test_single_turns(self, talked: str, run: Run) -> None:
        memories = run("retrieve", *ASK, "--user", "ana", "--level", "turn", "--json").json["memories"]
        assert {memory["type"] for memory in memories} == {"turn"}
        assert memories[0]["text"] == TURNS[1]["content"]
        out = run("retrieve", *ASK, "--user", "ana", "--level", "turn", "--explain").out
        assert all(part in out for part in ("turn", memories[0]["id"], "similarity"))

    def test_progressive_is_a_prompt_of_summaries(self, talked: str, run: Run) -> None:
        full = run("retrieve", *ASK, "--user", "ana", "--prompt").out
        brief = run("retrieve", *ASK, "--user", "ana", "--prompt", "--progressive").out
        assert f"[{talked}]" in brief
        assert "for the full memory." in brief
        assert f"[{talked}]" not in full

    @pytest.mark.parametrize(
        ("options", "many"),
        [
            (("--type", "episode"), 1),
            (("--type", "heuristic", "--type", "outcome"), 0),
            (("--type", "heuristic", "--type", "episode"), 1),
            (("--tag", "infra"), 1),
            (("--tag", "other"), 0),
            (("--tag", "other", "--tag", "infra"), 1),
            (("--since", "2026-05-07"), 1),
            (("--since", "2026-05-08"), 0),
            (("--until", "2026-05-07"), 0),
            (("--until", "2026-05-07T10:02:00Z"), 1),
            (("--as-of", "2026-05-01"), 0),
            (("--as-of", "2026-05-08"), 1),
            (("--user", "bob"), 0),
            (("--mode", "learning"), 0),
            (("--mode", "broad"), 1),
            (("--top-k", "1"), 1),
        ],
    )
    def test_the_filters(self, talked: str, run: Run, options: tuple[str, ...], many: int) -> None:
        assert len(run("retrieve", *ASK, "--user", "ana", *options, "--json").json["memories"]) == many

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--mode", "precice"), "unknown mode 'precice'. Did you mean 'precise'?"),
            (("--type", "fakt"), "unknown type 'fakt'"),
            (("--level", "word"), "unknown level 'word'. Valid: session, turn"),
            (("--since", "monday"), "--since must be a time (2026-05-07"),
            (("--since", "2026-05-08", "--until", "2026-05-07"), "must be before until"),
        ],
    )
    def test_bad_filters_are_named(self, project: Path, run: Run, options: tuple[str, ...], message: str) -> None:
        ran = run("retrieve", *ASK, *options)
        assert (ran.code, ran.out) == (1, "")
        assert message in ran.err

    def test_the_help_names_what_there_is(self, project: Path, run: Run) -> None:
        said = " ".join(run("retrieve", "--help").out.split())
        assert all(one in said for one in (*Mode, *Level))

    def test_more_is_found_when_several_are_asked_for(self, project: Path, run: Run) -> None:
        for number in range(8):
            fact = f"The billing service runs in region number {number}"
            run("add", "knowledge", "--agent", "ops", "--domain", "infra", "--fact", fact)
        ask = ("--agent", "ops", "--json")
        assert len(run("retrieve", "Where does the billing service run, which region?", *ask).json["memories"]) == 5
        assert len(run("retrieve", "How many regions does the billing service run in?", *ask).json["memories"]) == 8


class TestErasing:
    def test_deleting_says_that_the_turns_go_too(self, talked: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", Terminal("n\n"))
        assert "Delete it permanently, with its 3 turns? [y/N]" in run("delete", talked).err
        assert run("delete", talked, "--yes").out == f"deleted {talked}, with its 3 turns\n"
        assert run("show", f"trn_{talked[4:]}_0").code == 1

    def test_deleting_as_json_lists_the_turns(self, talked: str, run: Run) -> None:
        gone = run("delete", talked, "--yes", "--json").json
        assert gone == {"deleted": talked, "turns": [f"trn_{talked[4:]}_{number}" for number in range(3)]}

    def test_a_single_turn_can_be_erased(self, talked: str, run: Run) -> None:
        turn = f"trn_{talked[4:]}_1"
        assert run("delete", turn, "--yes").out == f"deleted {turn}\n"
        assert [one["index"] for one in run("show", talked, "--json").json["memory"]["turns"]] == [0, 2]

    def test_what_was_deleted_is_said_to_stay_away(self, talked: str, run: Run) -> None:
        run("delete", talked, "--yes")
        ran = run("add", "episode", "chat.jsonl", *ADD, "--user", "ana")
        assert (ran.code, ran.out) == (
            0,
            f"{talked} was deleted before and is not stored again; nothing was recorded\n",
        )
        assert (
            run("add", "episode", "chat.jsonl", *ADD, "--user", "ana", "--json").json["memory"]["status"] == "retired"
        )
