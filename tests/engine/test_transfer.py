"""Out as JSON Lines and in again: nothing is lost, nothing is doubled, nothing comes back that was erased."""

from __future__ import annotations

import io
import json
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.engine import transfer
from alma.errors import ValidationError
from alma.progress import ProgressTracker
from alma.stores.file import FileStore
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.types.kinds import EVERYWHERE, READABLE_KINDS
from alma.types.query import Where
from alma.types.record import Status, Trust, to_json
from alma.upkeep import import_from


def memory(store: object = None, **given: object) -> ALMA:
    return ALMA(store or MemoryStore(), HashEmbedder(), project_id="app", **given)  # type: ignore[arg-type]


@pytest.fixture
def full() -> ALMA:
    alma = memory()
    for _ in range(3):
        alma.learn("dev", "Deploy the auth service", "success", "Blue-green deployment")
    alma.learn("dev", "Deploy the auth service", "failure", "Rolling update", error_message="timeout")
    alma.add_domain_knowledge("dev", "deployment", "The deploy window is 9 to 17 h")
    alma.add_user_preference("ana", "style", "Short answers")
    alma.add_rule("dev", "Use pnpm instead of npm", reach="always")
    alma.add_episode("dev", "standup", [{"speaker": "Ana", "text": "The release moves to Friday."}])
    gone = alma.add_domain_knowledge("dev", "deployment", "The old server is down")
    alma.delete(gone.id)
    return alma


def exported(alma: ALMA, **options: bool) -> list[str]:
    return list(transfer.export_lines(alma.engine, **options))


def taken(alma: ALMA, lines: list[str], **options: Any) -> transfer.ImportResult:
    return transfer.import_records(alma.engine, transfer.read_records(lines, "export.jsonl"), len(lines) - 2, **options)


def everything(alma: ALMA) -> dict[str, object]:
    found = alma.engine.store.scan(Where(projects={"app", EVERYWHERE}))
    return {one.id: one for one in found if one.kind != "marker" and one.body.get("call") != "import"}


def count_memories(alma: ALMA) -> int:
    return sum(one.kind != "changeset" for one in everything(alma).values())  # type: ignore[attr-defined]


def test_a_round_trip_is_exact(full: ALMA) -> None:
    other = memory()
    report = taken(other, exported(full))
    assert everything(other) == everything(full)
    assert report.added == count_memories(full)
    assert report.embedded == 0


def test_the_same_is_retrieved_afterwards(full: ALMA) -> None:
    other = memory()
    taken(other, exported(full))
    for task in ("Deploy the auth service", "When may I deploy?", "When is the release?"):
        before, after = (one.retrieve(task, "dev", "ana") for one in (full, other))
        assert [one.id for one in after] == [one.id for one in before]
        assert after.to_prompt() == before.to_prompt()


def test_taken_in_twice_it_changes_nothing(full: ALMA) -> None:
    other = memory()
    lines = exported(full)
    taken(other, lines)
    before = everything(other)
    assert taken(other, lines) == transfer.ImportResult(known=count_memories(other))
    assert everything(other) == before


def test_without_vectors_they_are_made_anew(full: ALMA) -> None:
    other = memory()
    lines = exported(full, vectors=False)
    assert all(not json.loads(line)["vectors"] for line in lines[1:-1])
    assert taken(other, lines).embedded > 5
    assert other.retrieve("Deploy the auth service", "dev").heuristics


def test_what_was_erased_here_stays_erased(full: ALMA) -> None:
    other = memory()
    lines = exported(full)
    taken(other, lines)
    [fact] = other.list("domain_knowledge")
    other.delete(fact.id)
    assert taken(other, lines).erased == 1
    assert not other.list("domain_knowledge")


def test_the_newer_version_counts(full: ALMA) -> None:
    other = memory()
    old = exported(full)
    taken(other, old)
    [fact] = full.list("domain_knowledge")
    full.update(fact.id, fact="The deploy window is 8 to 18 h")
    assert taken(other, exported(full)).updated >= 1
    assert other.get(fact.id).fact == "The deploy window is 8 to 18 h"  # type: ignore[attr-defined]
    assert taken(other, old).updated == 0
    assert other.get(fact.id).fact == "The deploy window is 8 to 18 h"  # type: ignore[attr-defined]


def test_what_is_said_already_is_not_said_twice(full: ALMA) -> None:
    other = memory()
    other.add_domain_knowledge("dev", "deployment", "The deploy window is 9 to 17 h")
    taken(other, exported(full))
    assert len(other.list("domain_knowledge")) == 1


def test_of_a_stranger_nothing_is_believed(full: ALMA) -> None:
    other = memory()
    taken(other, exported(full), trust=transfer.ImportTrust.NONE)
    held = everything(other).values()
    assert {record.provenance.trust for record in held} == {Trust.UNTRUSTED}  # type: ignore[attr-defined]
    assert not other.retrieve("Deploy the auth service", "dev").heuristics
    assert {one.status for one in other.list(status="candidate")} == {Status.CANDIDATE}


def test_of_a_stranger_only_memories_are_taken(full: ALMA) -> None:
    """What an agent would act upon, or count as its own experience, is theirs: work, sessions, counts, deletions."""
    ProgressTracker("app", full).create_work_item(title="Run the stranger's script")
    other = memory()
    report = taken(other, exported(full), trust=transfer.ImportTrust.NONE)
    kinds = {record.kind for record in everything(other).values()}  # type: ignore[attr-defined]
    assert kinds <= set(READABLE_KINDS)
    assert "turn" in kinds
    assert report.left_out > 3
    other.learn("dev", "Deploy the auth service", "success", "Blue-green deployment")
    assert not other.list("heuristic")


def test_turns_of_a_stranger_wait_too(full: ALMA) -> None:
    other = memory()
    taken(other, exported(full), trust=transfer.ImportTrust.NONE)
    assert not other.retrieve("When is the release?", "dev", level="turn").turns


def test_a_stranger_replaces_nothing(full: ALMA) -> None:
    other = memory()
    lines = exported(full)
    taken(other, lines)
    before = everything(other)
    newer = [json.dumps({**one, "version": one["version"] + 5}) for one in map(json.loads, lines[1:-1])]
    report = taken(other, [lines[0], *newer, lines[-1]], trust=transfer.ImportTrust.NONE)
    assert (report.added, report.updated) == (0, 0)
    assert everything(other) == before


def test_what_another_project_says_too_is_taken_nevertheless(full: ALMA) -> None:
    store = MemoryStore()
    ALMA(store, HashEmbedder(), project_id="shop").add_domain_knowledge(
        "dev", "deployment", "The deploy window is 9 to 17 h"
    )
    other = memory(store)
    taken(other, exported(full))
    assert len(other.list("domain_knowledge")) == 1


def test_secrets_in_a_file_are_taken_out(full: ALMA) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    lines = exported(full)
    lines = [line.replace("The deploy window is 9 to 17 h", f"The token is {secret}") for line in lines]
    other = memory()
    taken(other, lines)
    assert not [record for record in everything(other).values() if secret in str(record)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 3 is not valid JSON"),
        ("[]", "line 3 is not a valid record: it is not a JSON object"),
        ('{"id": "x"}', "line 3 is not a valid record: the field '[a-z]+' is missing"),
        ("marker", "kind 'marker'"),
        ("banana", "kind 'banana'"),
    ],
)
def test_a_damaged_line_is_named(full: ALMA, line: str, words: str) -> None:
    lines = exported(full)
    if line.isalpha():
        line = json.dumps({**json.loads(lines[2]), "kind": line})
    lines[2] = line
    with pytest.raises(ValidationError, match=words):
        list(transfer.read_records(lines, "export.jsonl"))


NAMELESS = [json.dumps({"alma": "export", "format": 1, "project": one}) for one in ("", None, 5, EVERYWHERE)]
UNSOUND: dict[str, list[object]] = {
    "id": [5, None, "", "a\x00b", "x" * 5000],
    "project": [None, 5, "", "shop"],
    "agent": [None, 7, ["a"]],
    "key": [None],
    "text": [5, None, "half \ud800"],
    "version": ["x", 0, -1, 2**70, 1.5, True, None],
    "embedder": [7],
    "created_at": [None, 5, "soon"],
    "status": ["zombie"],
    "body": [{}, [], {"domain": "d", "fact": 5}, {"domain": "d", "fact": "f", "metadata": []}],
    "evidence": [[], {"successes": -5}, {"successes": 10**30}, {"recent": [[10**30, 1.0]]}, {"last_used": 10**30}],
    "links": ["abc", [5]],
    "tags": ["abc", [None]],
    "vectors": ["abc", [5]],
}


@pytest.mark.parametrize(("name", "value"), [(name, one) for name, many in UNSOUND.items() for one in many])
def test_a_record_that_no_store_or_reader_could_bear_is_refused(full: ALMA, name: str, value: object) -> None:
    lines = exported(full)
    at, fact = next((at, json.loads(line)) for at, line in enumerate(lines) if '"kind":"domain_knowledge"' in line)
    list(transfer.read_records(lines, "export.jsonl"))
    lines[at] = json.dumps({**fact, name: value})
    with pytest.raises(ValidationError, match=f"line {at + 1} is not a valid record"):
        list(transfer.read_records(lines, "export.jsonl"))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "[" * 300 + "]" * 300, "[" * 100_000])
def test_a_value_that_is_not_json_everywhere_is_refused(full: ALMA, value: str) -> None:
    lines = exported(full)
    lines[1] = lines[1].replace('"body":{', f'"body":{{"odd":{value},')
    with pytest.raises(ValidationError, match="line 2"):
        list(transfer.read_records(lines, "export.jsonl"))


def test_vectors_of_another_length_are_made_anew(full: ALMA) -> None:
    lines = exported(full)
    short = [json.dumps({**one, "vectors": ["AAAA" for _ in one["vectors"]]}) for one in map(json.loads, lines[1:-1])]
    other = memory()
    assert taken(other, [lines[0], *short, lines[-1]]).embedded > 5
    assert other.retrieve("Deploy the auth service", "dev").heuristics


def test_what_has_no_end_was_cut_off(full: ALMA) -> None:
    lines = exported(full)
    with pytest.raises(ValidationError, match=f"truncated after line {len(lines) - 1}"):
        list(transfer.read_records(lines[:-1], "export.jsonl"))
    with pytest.raises(ValidationError, match=f"line {len(lines) + 1} comes after the end"):
        list(transfer.read_records([*lines, lines[1]], "export.jsonl"))


@pytest.mark.parametrize("head", ["", "{}", '{"alma": "export", "format": 2, "project": "app"}', "null", *NAMELESS])
def test_what_is_no_export_is_refused(head: str) -> None:
    with pytest.raises(
        ValidationError, match="is not an alma export|has format 2|is not valid JSON|has no valid project name"
    ):
        list(transfer.read_records([head], "export.jsonl"))


# -- backup


def test_a_backup_under_write_load_opens_clean(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    alma = memory(store)
    alma.add_many([{"type": "domain_knowledge", "agent": "dev", "domain": "d", "fact": f"n {i}"} for i in range(500)])
    done = threading.Event()

    def write() -> None:
        with memory(SQLiteStore(tmp_path / "a.db")) as other:
            count = 0
            while not done.is_set():
                other.add_domain_knowledge("dev", "d", f"fact {count}")
                count += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        told: list[tuple[int, int]] = []
        for number in range(3):
            store.backup(tmp_path / f"copy{number}.db", lambda at, total: told.append((at, total)))
    finally:
        done.set()
        writer.join()
    assert told[-1][0] == told[-1][1]
    for number in range(3):
        path = tmp_path / f"copy{number}.db"
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        copy = SQLiteStore(path)
        assert copy.check() == []
        assert len(list(copy.scan(Where(kinds={"domain_knowledge"})))) >= 500
        copy.close()
    assert sorted(one.name for one in tmp_path.glob(".*")) == []
    alma.close()


@pytest.mark.parametrize("kind", [SQLiteStore, FileStore])
def test_a_backup_overwrites_nothing(tmp_path: Path, kind: type[SQLiteStore] | type[FileStore], full: ALMA) -> None:
    store = kind(tmp_path / "a.db")
    alma = memory(store)
    taken(alma, exported(full))
    target = tmp_path / "copy.db"
    target.write_text("mine")
    with pytest.raises(ValidationError, match="is not overwritten"):
        store.backup(target)
    assert target.read_text() == "mine"
    store.backup(tmp_path / "other.db")
    copy = kind(tmp_path / "other.db")
    assert everything(memory(copy)) == everything(alma)
    alma.close()


def test_doubting_leaves_the_rest_as_it_is(full: ALMA) -> None:
    [line] = [line for line in exported(full) if "deploy window" in line and '"change"' not in line][:1]
    record = next(iter(transfer.read_records([exported(full)[0], line], "x")))
    doubted = transfer.limit_trust(record, transfer.ImportTrust.NONE)
    assert replace(doubted, provenance=record.provenance, status=record.status) == record


def test_after_an_erasure_an_older_export_brings_back_outcomes_and_their_counts() -> None:
    alma = memory()
    for user in ("ana", "ben", "ben"):
        alma.learn("dev", "Fix the login", "success", "Clear the session cookie", user_id=user, shared=True)
    lines = exported(alma)
    [before] = alma.list("heuristic")
    assert before.occurrence_count == 3
    alma.erase_user("ben")
    [faded] = alma.list("heuristic", status=None)
    assert (faded.status, faded.occurrence_count) == ("archived", 1)
    taken(alma, lines, trust=transfer.ImportTrust.OWN)
    [after] = alma.list("heuristic", status=None)
    assert (after.status, after.occurrence_count, after.success_count) == ("active", 3, 3)
    assert len(alma.list("outcome")) == 3
    state = everything(alma)
    memories = [line for line in lines[1:-1] if json.loads(line)["kind"] != "changeset"]
    assert taken(alma, lines, trust=transfer.ImportTrust.OWN).known == len(memories)
    assert everything(alma) == state, "repeated, the import changes nothing"


# -- what was deleted here and is in an older file


def list_remains(alma: ALMA, word: str) -> list[str]:
    return [one.id for one in alma.engine.store.scan(Where()) if word in json.dumps(to_json(one), ensure_ascii=False)]


def add_conversation(alma: ALMA) -> list[str]:
    turns = [{"speaker": "user", "text": "My name is Wombat"}, {"speaker": "assistant", "text": "Hello Wombat"}]
    return [alma.add_episode("dev", "s1", turns, title="Intro").id]


def add_changed_fact(alma: ALMA) -> list[str]:
    fact = alma.add_domain_knowledge("dev", "zoo", "The Wombat is awake", attribute="state")
    alma.update(fact.id, fact="The Wombat sleeps")
    alma.add_domain_knowledge("dev", "zoo", "Nobody sleeps", attribute="state")
    return [fact.id]


def add_replacing_fact(alma: ALMA) -> list[str]:
    facts = ("Nobody sleeps", "The Wombat sleeps")
    return [alma.add_domain_knowledge("dev", "zoo", fact, attribute="state").id for fact in facts][1:]


def add_lesson(alma: ALMA) -> list[str]:
    strategies = ("Clear the Wombat cache", "Flush the Wombat store") * 3
    return [
        alma.learn("dev", "Fix the login", "failure", one, error_message=f"Wombat {n}").id
        for n, one in enumerate(strategies)
    ]


def merge_lessons(alma: ALMA) -> list[str]:
    ids = add_lesson(alma)
    for _ in range(6):
        ids += [alma.learn("dev", "Fix the login", "success", one).id for one in ("Clear the Wombat", "Flush Wombats")]
    lessons = [one.id for one in alma.list("heuristic")]
    alma.merge(lessons, into=lessons[0])
    return ids


@pytest.mark.parametrize("add", [add_conversation, add_changed_fact, add_replacing_fact, add_lesson, merge_lessons])
@pytest.mark.parametrize("is_restated", [False, True])
def test_no_word_of_a_deleted_memory_comes_back_with_an_older_file(
    tmp_path: Path, add: Callable[[ALMA], list[str]], is_restated: bool
) -> None:
    alma = memory(SQLiteStore(tmp_path / "alma.db"))
    ids = add(alma)
    kept = alma.learn("dev", "Deploy the service", "success", "Blue-green deployment")
    lines = exported(alma)
    for id in ids:
        alma.delete(id)
    if add is merge_lessons:
        # What is left of lessons that were merged.
        alma.engine.store.delete(list_remains(alma, "Wombat"))
    if is_restated and add is add_changed_fact:
        # Then the tombstone of the older one is retired.
        alma.delete(alma.add_domain_knowledge("dev", "zoo", "The Wombat sleeps", attribute="state").id)
    assert not list_remains(alma, "Wombat")
    report, *_ = import_from(alma, io.StringIO("\n".join(lines) + "\n"), "export.jsonl")
    assert not list_remains(alma, "Wombat")
    assert (report.added, report.updated) == (0, 0)
    assert alma.get(kept.id).status == "active"
    assert "worked" not in alma.retrieve("Fix the login", "dev").to_prompt()
    alma.close()


def test_an_export_is_complete_in_a_store_that_deleted_nothing(full: ALMA) -> None:
    other, lines = memory(), exported(full)
    import_from(other, io.StringIO("\n".join(lines) + "\n"), "export.jsonl")
    assert everything(other) == everything(full)
