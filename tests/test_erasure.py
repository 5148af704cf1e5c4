"""Deleting leaves nothing behind: no word of a deleted memory is in any file of the store, nor in an export."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Forks, share_forks

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.engine import transfer
from alma.engine.proof import ErasureProof
from alma.errors import NotFoundError
from alma.graph import build, create_graph_store
from alma.stores.file import FileStore
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.types.query import Where

WORD = "Xylophonequartz"
"""In every memory that is deleted, and nowhere else."""


@pytest.fixture(params=["sqlite", "file"])
def alma(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ALMA]:
    store = SQLiteStore(tmp_path / "alma.db") if request.param == "sqlite" else FileStore(tmp_path / "alma.jsonl")
    with ALMA(store, HashEmbedder(), project_id="app") as opened:
        # What stays, so that files, indexes and blocks of vectors are not simply empty.
        row = {"type": "domain_knowledge", "agent": "dev", "domain": "ports"}
        facts = [f"Service number {number} listens on port {9000 + number}" for number in range(30)]
        opened.add_many([{**row, "fact": fact} for fact in facts])
        yield opened


def find_traces(alma: ALMA, folder: Path) -> list[str]:
    """Where the word is still found: files (as written, or in lower case as the word index has it) and the export."""
    alma.engine.store.vacuum()  # type: ignore[attr-defined]
    found = [file.name for file in folder.iterdir() if WORD.lower().encode() in file.read_bytes().lower()]
    return found + ["export"] * (WORD.lower() in "\n".join(transfer.export_lines(alma.engine)).lower())


def add_fact(alma: ALMA) -> list[str]:
    return [alma.add_domain_knowledge("dev", "music", f"The {WORD} is in the cellar").id]


def add_edited_fact(alma: ALMA) -> list[str]:
    made = alma.add_domain_knowledge("dev", f"about {WORD}", f"The {WORD} is old", tags=[WORD], metadata={"by": WORD})
    alma.update(made.id, fact="It is new", domain="music", tags=["plain"], metadata={})
    return [made.id]


def add_fact_that_replaced_another(alma: ALMA) -> list[str]:
    key = {"subject": "staging", "attribute": "host"}
    old = alma.add_domain_knowledge("dev", "hosts", "The staging host is Alpha", **key)
    made = alma.add_domain_knowledge("dev", "hosts", f"The staging host is {WORD}", **key)
    assert WORD in str(alma.history(old.id))
    return [made.id]


def add_replaced_rule(alma: ALMA) -> list[str]:
    first = alma.add_rule("dev", f"Use npm instead of pnpm for {WORD}")
    second = alma.add_rule("dev", f"Use pnpm instead of npm for {WORD}", why=f"{WORD} is faster", trigger=WORD)
    return [first.id, second.id]


def add_rule_that_replaced_another(alma: ALMA) -> list[str]:
    old = alma.add_rule("dev", "Use npm instead of pnpm")
    made = alma.add_rule("dev", f"Use pnpm instead of npm, {WORD}", why=f"{WORD} says so")
    assert WORD in str(alma.history(old.id))
    return [made.id]


def add_preference(alma: ALMA) -> list[str]:
    return [alma.add_user_preference("ana", "tone", f"Call me {WORD}").id]


def state_heuristic(alma: ALMA) -> list[str]:
    return [alma.add_heuristic("dev", f"tuning a {WORD}", f"use the {WORD} fork").id]


def state_heuristic_that_outcomes_join(alma: ALMA) -> list[str]:
    made = alma.add_heuristic("dev", "Deploy the shop", f"Blue-green deployment {WORD}")
    for _ in range(3):
        alma.learn("dev", "Deploy the shop", "success", "Blue-green deployment")
    alma.update(made.id, strategy="Blue-green deployment", condition=f"Deploy {WORD}")
    return [made.id]


def state_warning(alma: ALMA) -> list[str]:
    made = alma.add_anti_pattern("dev", f"Hit the {WORD}", f"{WORD} breaks", f"stroke the {WORD}")
    alma.add_anti_pattern("dev", f"Hit the {WORD}", f"{WORD} bends", f"leave the {WORD}")
    return [made.id]


def overrule_heuristic(alma: ALMA) -> list[str]:
    first = alma.add_heuristic("dev", f"tuning a {WORD}", f"use the {WORD} fork")
    second = alma.add_anti_pattern("dev", f"use the {WORD} fork", "it bends", condition=f"tuning a {WORD}")
    return [first.id, second.id]


def learn_outcome(alma: ALMA) -> list[str]:
    made = alma.learn("dev", f"Play {WORD}", "success", f"By {WORD} ear", feedback=f"good {WORD}", tags=[WORD])
    return [made.id]


def learn_failures_with_errors(alma: ALMA) -> list[str]:
    made = alma.learn("dev", "Deploy the shop", "failure", "Rolling update", error_message=f"{WORD} exploded")
    alma.learn("dev", "Deploy the shop", "failure", "Rolling update", error_message="sessions dropped")
    alma.learn("dev", "Deploy the shop", "failure", "Rolling update", error_message="health check failed")
    return [made.id]


def undo_failure_with_quoted_error(alma: ALMA) -> list[str]:
    for _ in range(3):
        alma.learn("dev", "Deploy the shop", "failure", "Rolling update")
    error = f"`first` <b>line</b>\n{WORD} exploded\n" + "and so on " * 200
    made = alma.learn("dev", "Deploy the shop", "failure", "Rolling update", error_message=error)
    alma.undo()
    return [made.id]


def undo_merge_with_other_words(alma: ALMA) -> list[str]:
    kept, gone = (alma.add_domain_knowledge("dev", "x", text) for text in ("It plays well", f"It plays {WORD} well"))
    alma.merge([kept.id, gone.id], into=kept.id, text=gone.fact)
    alma.undo()
    return [gone.id]


def learn_lesson_and_its_outcomes(alma: ALMA) -> list[str]:
    made = [alma.learn("dev", f"Play {WORD}", "success", f"By {WORD} ear").id for _ in range(3)]
    [lesson] = alma.list("heuristic")
    return [lesson.id, *made]


def learn_lesson_by_outcomes_alone(alma: ALMA) -> list[str]:
    """The lesson forms, fades, and is never deleted itself."""
    made = [alma.learn("dev", f"Play {WORD}", "success", f"By {WORD} ear").id for _ in range(3)]
    return made + [alma.learn("dev", f"Play {WORD}", "failure", f"By {WORD} ear").id for _ in range(4)]


def learn_group_whose_first_words_go(alma: ALMA) -> list[str]:
    made = alma.learn("dev", f"Deploy the shop for {WORD}", "success", "Blue-green deployment", "deploy")
    for _ in range(3):
        alma.learn("dev", "Deploy the shop", "success", "Blue-green deployment", "deploy")
    return [made.id]


def learn_recommended_alternative(alma: ALMA) -> list[str]:
    for _ in range(2):
        alma.learn("dev", "Deploy the shop", "failure", "Rolling update", "deploy")
    return [alma.learn("dev", "Deploy the shop", "success", f"Canary {WORD}", "deploy").id]


def merge_lessons(alma: ALMA, result: Any, kind: Any, *, is_survivor: bool, **place: Any) -> list[str]:
    """Learn two lessons of which the newer one has the word, and merge them; return the ids of its outcomes."""
    for _ in range(3):
        alma.learn("dev", "Tune the piano", result, "By ear", "tune", error_message="out of tune", **place)
    place |= {"user_id": "ana"} if place else {}
    shared = {"task_type": "tune", "error_message": f"the {WORD} broke", **place}
    made = [alma.learn("dev", f"Tune {WORD} {n}", result, f"With a {WORD} fork", **shared).id for n in range(3)]
    newer, older = (one.id for one in alma.list(kind))
    alma.merge([newer, older], newer if is_survivor else older)
    return made


def learn_heuristic_that_is_merged(alma: ALMA) -> list[str]:
    return merge_lessons(alma, "success", "heuristic", is_survivor=False)


def learn_heuristic_that_survives_a_merge(alma: ALMA) -> list[str]:
    return merge_lessons(alma, "success", "heuristic", is_survivor=True)


def learn_warning_that_is_merged(alma: ALMA) -> list[str]:
    return merge_lessons(alma, "failure", "anti_pattern", is_survivor=False)


def learn_warning_that_survives_a_merge(alma: ALMA) -> list[str]:
    return merge_lessons(alma, "failure", "anti_pattern", is_survivor=True)


def state_heuristic_that_is_merged(alma: ALMA) -> list[str]:
    made = alma.add_heuristic("dev", f"Tune the {WORD}", "With a fork")
    other = alma.add_heuristic("dev", "Tune the piano", "By ear")
    alma.merge([made.id, other.id], other.id)
    return [made.id]


def add_conversation(alma: ALMA) -> list[str]:
    turns = [{"speaker": WORD, "text": f"I play the {WORD}."}, {"speaker": "assistant", "text": f"A {WORD}!"}]
    made = alma.add_episode("dev", "s1", turns, title=f"On {WORD}", tags=[WORD], metadata={"of": WORD})
    alma.update(made.id, title="On music")
    return [made.id]


def add_turn(alma: ALMA) -> list[str]:
    text = f"{WORD} is what I play."
    turns = [{"speaker": "Ana", "text": text}, {"speaker": "Ana", "text": "Bye"}]
    made = alma.add_episode("dev", "s2", turns, title=text)
    [turn, _] = alma.get(made.id).turns  # type: ignore[attr-defined]
    alma.update(turn.id, metadata={"of": WORD})
    return [turn.id]


def add_fact_to_graph(alma: ALMA) -> list[str]:
    made = alma.add_domain_knowledge("dev", "people", f"Maria works at {WORD}.")
    build(alma)
    graph = create_graph_store("sqlite", alma=alma)
    assert graph.find(WORD)
    return [made.id]


def add_turn_to_graph(alma: ALMA) -> list[str]:
    turns = [{"speaker": "Ana", "text": f"Tom works at {WORD}."}, {"speaker": "Ana", "text": "Tom works at Globex."}]
    made = alma.add_episode("dev", "s3", turns)
    build(alma)
    return [alma.get(made.id).turns[0].id]  # type: ignore[attr-defined]


def add_untrusted(alma: ALMA) -> list[str]:
    made = alma.add_heuristic("dev", f"tuning a {WORD}", f"use the {WORD} fork", source="web_page")
    return [made.id, alma.add_domain_knowledge("dev", "music", f"A {WORD} is loud", source="web_page").id]


WRITERS = [
    add_fact,
    add_edited_fact,
    add_fact_that_replaced_another,
    add_replaced_rule,
    add_rule_that_replaced_another,
    add_preference,
    state_heuristic,
    state_heuristic_that_outcomes_join,
    state_warning,
    overrule_heuristic,
    learn_outcome,
    learn_failures_with_errors,
    undo_failure_with_quoted_error,
    undo_merge_with_other_words,
    learn_lesson_and_its_outcomes,
    learn_lesson_by_outcomes_alone,
    learn_group_whose_first_words_go,
    learn_recommended_alternative,
    learn_heuristic_that_is_merged,
    learn_heuristic_that_survives_a_merge,
    learn_warning_that_is_merged,
    learn_warning_that_survives_a_merge,
    state_heuristic_that_is_merged,
    add_conversation,
    add_turn,
    add_fact_to_graph,
    add_turn_to_graph,
    add_untrusted,
]


@pytest.mark.parametrize("write", WRITERS, ids=lambda one: one.__name__)
def test_no_byte_of_a_deleted_memory_is_left(alma: ALMA, tmp_path: Path, write: Callable[[ALMA], list[str]]) -> None:
    ids = write(alma)
    assert ids
    assert find_traces(alma, tmp_path)
    for one in ids:
        alma.delete(one)
    assert find_traces(alma, tmp_path) == []
    for one in ids:
        with pytest.raises(NotFoundError):
            alma.get(one)


class TestNotLearnedAgain:
    def test_a_stated_heuristic_is_not_formed_anew_by_outcomes(self, alma: ALMA) -> None:
        made = alma.add_heuristic("dev", "Deploy the shop", "Blue-green deployment")
        alma.delete(made.id)
        for _ in range(3):
            alma.learn("dev", "Deploy the shop", "success", "Blue-green deployment")
        assert alma.list("heuristic") == []
        assert (
            alma.add_heuristic("dev", "Deploy the shop", "Blue-green deployment", source="agent").status == "candidate"
        )

    def test_its_person_may_state_it_again_and_delete_it_again(self, alma: ALMA) -> None:
        for _ in range(2):
            made = alma.add_heuristic("dev", "Deploy the shop", "Blue-green deployment")
            assert [one.id for one in alma.list("heuristic")] == [made.id]
            alma.delete(made.id)
            assert alma.list("heuristic") == []

    def test_a_tombstone_holds_neither_words_nor_their_plain_hash(self, alma: ALMA) -> None:
        made = [alma.add_domain_knowledge("dev", "music", f"{WORD} number {number}").id for number in range(2)]
        held = {record.key for record in alma.engine.store.get(made)}
        for one in made:
            alma.delete(one)
        stones = list(alma.engine.store.scan(Where(kinds={"tombstone"})))
        assert len(stones) == 2
        assert not {stone.key for stone in stones} & held
        again = alma.add_domain_knowledge("dev", "music", f"{WORD} number 1", source="agent")
        assert again.status == "candidate"

    def test_an_import_of_tombstones_keeps_their_memories_away(self, alma: ALMA, tmp_path: Path) -> None:
        alma.delete(add_fact(alma)[0])
        with ALMA(FileStore(tmp_path / "other" / "alma.jsonl"), HashEmbedder(), project_id="app") as other:
            other.delete(other.add_domain_knowledge("dev", "x", "Something else").id)
            lines = list(transfer.export_lines(alma.engine))
            transfer.import_records(other.engine, transfer.read_records(lines, "export"), len(lines))
            again = other.add_domain_knowledge("dev", "music", f"The {WORD} is in the cellar", source="agent")
            assert again.status == "candidate"


@pytest.fixture
def forks() -> Forks:
    return share_forks()


KILLED = """
import os, signal, sys
from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.stores.sqlite import SQLiteStore

left = int(sys.argv[2])

class Killed(SQLiteStore):
    def put(self, records):
        strike()
        super().put(records)
        strike()
    def delete(self, ids):
        strike()
        gone = super().delete(ids)
        strike()
        return gone

def strike():
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

alma = ALMA(Killed(sys.argv[1]), HashEmbedder(), project_id="app")
for one in sys.argv[3:]:
    alma.delete(one)
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("write", [learn_group_whose_first_words_go, add_rule_that_replaced_another, add_turn_to_graph])
def test_killed_in_the_middle_the_same_call_finishes(
    tmp_path: Path, forks: Forks, write: Callable[[ALMA], list[str]]
) -> None:
    for step in range(20):
        folder = tmp_path / str(step)
        store = SQLiteStore(folder / "alma.db")
        with ALMA(store, HashEmbedder(), project_id="app") as alma:
            ids = write(alma)
        ended = forks.run(KILLED, folder, arguments=[str(folder / "alma.db"), str(step), *ids])
        with ALMA(SQLiteStore(folder / "alma.db"), HashEmbedder(), project_id="app") as alma:
            for one in ids:
                with suppress(NotFoundError):
                    alma.delete(one)
            assert find_traces(alma, folder) == []
            if write is learn_group_whose_first_words_go:
                [lesson] = alma.list("heuristic")
                assert lesson.occurrence_count == 3  # type: ignore[attr-defined]
        if ended.code == 0:
            assert step >= 4
            return
        assert ended.code == -signal.SIGKILL
    raise AssertionError("it never came to its end")


@pytest.mark.system
class TestErasingAUser:
    def write_everything(self, alma: ALMA, user: str, word: str) -> None:
        alma.add_user_preference(user, "tone", f"Call me {word}")
        made = alma.add_user_preference(user, "food", f"Soup for {word}")
        alma.update(made.id, preference=f"Salad for {word}")
        alma.delete(alma.add_user_preference(user, "drink", f"Tea for {word}").id)
        alma.add_episode("dev", "chat", [{"speaker": "Ana", "text": f"I play the {word}."}], user, title=f"On {word}")
        for _ in range(3):
            alma.learn("dev", f"Tune the {word}", "success", f"By {word} ear", user_id=user)
        for _ in range(2):
            alma.learn("dev", f"Clean the {word}", "failure", f"Bleach on {word}", user_id=user, error_message=word)
        alma.retrieve(f"How to tune the {word}?", "dev", user)

    def test_everything_of_the_user_goes_and_nothing_of_others(self, alma: ALMA, tmp_path: Path) -> None:
        self.write_everything(alma, "ana", WORD)
        self.write_everything(alma, "ben", "harpsichord")
        before = [one.id for one in alma.list(user_id="ben", status=None)]
        counts = alma.erase_user("ana")
        assert counts["outcome"] == 5
        assert {type(kind) for kind in counts} == {str}
        assert (counts["user_preference"], counts["episode"], counts["turn"]) == (2, 1, 1)
        assert find_traces(alma, tmp_path) == []
        assert not list(alma.engine.store.scan(Where(users={"ana"})))
        assert [one.id for one in alma.list(user_id="ben", status=None)] == before
        assert alma.erase_user("ana") == {}
        assert alma.erase_user("ben").proof == erased_proof(alma)  # type: ignore[attr-defined]

    def test_the_proof_covers_all_records_and_the_bytes_of_all_files(self, alma: ALMA, tmp_path: Path) -> None:
        self.write_everything(alma, "ana", f'{WORD} "quoted"\nÄrger über 東京 \\ and more')
        self.write_everything(alma, "ben", "harpsichord")
        proof = alma.erase_user("ana").proof  # type: ignore[attr-defined]
        assert proof == erased_proof(alma)
        assert {file.name for file in tmp_path.iterdir() if "lock" not in file.name} >= set(proof.files)

    @pytest.mark.parametrize(
        "text", [f"The {WORD} is mine", f'"{WORD}"\tüber alles', "東京の天気はどうですか、教えてください"]
    )
    def test_the_proof_finds_what_a_file_still_has(
        self, alma: ALMA, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        alma.add_user_preference("ana", "tone", text)
        monkeypatch.setattr(type(alma.engine.store), "vacuum", lambda self: None)
        if isinstance(alma.engine.store, FileStore):
            monkeypatch.setattr(FileStore, "_compact", lambda self: None)
        proof = alma.erase_user("ana").proof  # type: ignore[attr-defined]
        assert proof.records == 0
        assert proof.bytes > 0
        assert {one.partition(" places in ")[2] for one in proof.left} <= {*proof.files}

    def test_words_that_others_use_too_do_not_count(self, alma: ALMA) -> None:
        same = "I prefer answers with many footnotes and a summary"
        for user in ("ana", "ben"):
            alma.add_user_preference(user, "tone", same)
        alma.add_domain_knowledge("dev", "people", "ana knows the harpsichord of ben")
        assert alma.erase_user("ana").proof == erased_proof(alma)  # type: ignore[attr-defined]

    @pytest.mark.parametrize(("result", "kind"), [("success", "heuristic"), ("failure", "anti_pattern")])
    @pytest.mark.parametrize("is_survivor", [False, True])
    def test_merged_lessons_lose_the_words_of_the_user(
        self, alma: ALMA, tmp_path: Path, result: str, kind: str, is_survivor: bool
    ) -> None:
        merge_lessons(alma, result, kind, is_survivor=is_survivor, user_id="ben", shared=True)
        assert alma.erase_user("ana").proof == erased_proof(alma)  # type: ignore[attr-defined]
        assert find_traces(alma, tmp_path) == []
        [lesson] = alma.list(kind)  # type: ignore[call-overload]
        assert (lesson.occurrence_count, lesson.strategy if kind == "heuristic" else lesson.pattern) == (3, "By ear")

    def test_what_only_a_derived_record_repeats_is_left(self, alma: ALMA) -> None:
        text = f"Tune the {WORD} with a fork"
        alma.learn("dev", text, "success", "By ear", user_id="ana", shared=True)
        group = next(alma.engine.store.scan(Where(kinds={"strategy"})))
        alma.engine.store.put([replace(group, id="str_copy", links=())])
        assert alma.erase_user("ana").proof.left  # type: ignore[attr-defined]

    def test_the_same_user_in_another_project_is_named(self, alma: ALMA) -> None:
        with ALMA(alma.engine.store, HashEmbedder(), project_id="other") as other:
            other.add_user_preference("ana", "tone", "Short answers")
            proof = alma.erase_user("ana").proof  # type: ignore[attr-defined]
            assert proof.left == [f"{proof.records} records in project 'other'"]
            assert other.erase_user("ana").proof == erased_proof(alma)  # type: ignore[attr-defined]

    def test_what_cannot_be_checked_is_named(self) -> None:
        with ALMA(MemoryStore(), HashEmbedder(), project_id="app") as alma:
            proof = alma.erase_user("ana").proof  # type: ignore[attr-defined]
            assert (proof.files, proof.left) == ([], [])
            assert "the files, replicas and backups of a database server" in proof.unchecked


def erased_proof(alma: ALMA) -> ErasureProof:
    """The proof of a store without any trace."""
    path = alma.engine.store.path  # type: ignore[attr-defined]
    files = [f"{path.name}{ending}" for ending in ("", "-wal", "-shm") if Path(f"{path}{ending}").exists()]
    return ErasureProof(0, 0, files, [], ["exports and backups that were made before"])
