"""Moving a memory between stores: whole, resumable, while it is in use."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.persons import person_command

from alma import ALMA
from alma.cli import main
from alma.embedders.hash import HashEmbedder
from alma.errors import EmbedderMismatchError, StorageError, ValidationError
from alma.migration import Migration, MigrationReport, describe_place, migrate_places
from alma.ports import Store
from alma.stores.file import FileStore
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.testing import make_record
from alma.testing.contract import MOMENT, full_record, refused
from alma.types.query import Where
from alma.types.record import Record, Status, quantize

pytestmark = pytest.mark.system

WORDS = "alpha beta gamma delta lambda sigma river stone forest window engine bridge".split()


def make_records(count: int, seed: int = 1) -> list[Record]:
    """Return records with vectors, histories and all kinds of fields."""
    chance = random.Random(seed)
    return [full_record()] + [
        make_record(
            f"r{i:05d}",
            kind=chance.choice(["heuristic", "outcome", "tombstone", "marker"]),
            project=chance.choice(["p", "q"]),
            agent=chance.choice(["", "dev", "ops"]),
            status=chance.choice(list(Status)),
            text=" ".join(chance.choices(WORDS, k=5)) + f" word{i}",
            body={"n": i, "half": i / 2, "list": [i, None, True]},
            links=(f"r{i // 2:05d}",),
            tags=("t",) * (i % 3),
            created_at=MOMENT + timedelta(seconds=i // 4),
            version=1 + i % 5,
            embedder="e",
            vectors=tuple(quantize([chance.gauss(0, 1) for _ in range(16)]) for _ in range(i % 3)),
        )
        for i in range(1, count)
    ]


def fill(store: Store, records: list[Record]) -> None:
    for start in range(0, len(records), 500):
        store.put(records[start : start + 500])


def read_all(place: Path, kind: Callable[[Path], Store]) -> list[Record]:
    store = kind(place)
    records = list(store.scan(Where()))
    store.close()
    return records


def test_two_thousand_records_survive_a_round_trip(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    fill(store, make_records(2000))
    store.close()
    places = [f"sqlite:{tmp_path}/a.db", f"file:{tmp_path}/b.jsonl", f"sqlite:{tmp_path}/c.db"]
    reports = [migrate_places(source, target) for source, target in pairwise(places)]
    assert [report.copied for report in reports] == [2000, 2000]
    assert len({report.checksum for report in reports}) == 1
    assert reports[0].projects == ["p", "q"]
    assert all(report.agreement == {"vectors": 1.0} for report in reports)
    expected = read_all(tmp_path / "a.db", SQLiteStore)
    assert read_all(tmp_path / "b.jsonl", FileStore) == read_all(tmp_path / "c.db", SQLiteStore) == expected
    again = migrate_places(places[0], places[2])
    assert (again.copied, again.unchanged, again.agreement) == (0, 2000, {"vectors": 1.0, "words": 1.0})


def test_records_survive_postgres_and_qdrant(tmp_path: Path, postgres_dsn: str) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    fill(store, make_records(500))
    store.close()
    places = [f"sqlite:{tmp_path}/a.db", postgres_dsn, f"qdrant:{tmp_path}/q", f"sqlite:{tmp_path}/c.db"]
    places[1] = postgres_dsn if "://" in postgres_dsn else f"postgres:{postgres_dsn}"
    reports = [migrate_places(source, target) for source, target in pairwise(places)]
    assert {report.copied for report in reports} == {500}
    assert len({report.checksum for report in reports}) == 1
    assert [report.agreement["vectors"] for report in reports] == [1.0, 1.0, 1.0]
    assert reports[0].agreement["words"] >= 0.9
    assert read_all(tmp_path / "c.db", SQLiteStore) == read_all(tmp_path / "a.db", SQLiteStore)


def test_a_memory_works_the_same_after_the_move(tmp_path: Path) -> None:
    with ALMA(SQLiteStore(tmp_path / "a.db"), HashEmbedder(), project_id="p") as alma:
        for i in range(3):
            alma.learn("dev", "Deploy the auth service", "success", "Blue-green deployment", task_type=f"type{i}")
        gone = alma.add_domain_knowledge("dev", "auth", "Tokens expire in 24 hours")
        alma.delete(gone.id)
        expected = alma.retrieve("Deploy the auth service", "dev").to_prompt()
    migrate_places(f"sqlite:{tmp_path}/a.db", f"file:{tmp_path}/b.jsonl")
    with ALMA(FileStore(tmp_path / "b.jsonl"), HashEmbedder(), project_id="p") as alma:
        assert alma.retrieve("Deploy the auth service", "dev").to_prompt() == expected
        assert "Blue-green" in expected


def test_one_project_can_be_moved_with_what_all_projects_share(tmp_path: Path) -> None:
    source, target = MemoryStore(), MemoryStore()
    shared = make_record("mrk_embedder", kind="marker", project="", body={"value": "e"})
    fill(source, [*make_records(100), shared])
    report = Migration(source, target, project="q").run()
    assert report.projects == ["q"]
    assert list(target.scan(Where())) == list(source.scan(Where(projects={"q", ""})))


# --- interrupted


def test_a_move_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    source, target = MemoryStore(), SQLiteStore(tmp_path / "b.db")
    fill(source, make_records(1500))

    def stop(done: int, total: int) -> None:
        if done > 700:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Migration(source, target, progress=stop).run()
    # Deleted in the source in between, and changed.
    source.delete(["r00001", "r01499"])
    [old] = source.get(["r01400"])
    source.put([replace(old, text="changed", version=old.version + 1)])
    report = Migration(source, target).run()
    assert report.is_resumed
    assert report.unchanged > 700
    assert report.deleted == 1
    assert list(target.scan(Where())) == list(source.scan(Where()))
    target.close()


@pytest.mark.system
def test_a_move_that_was_killed_goes_on(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    fill(store, make_records(3000))
    store.close()
    command = [*person_command("alma"), "migrate", "--from", f"sqlite:{tmp_path}/a.db"]
    command += ["--to", f"sqlite:{tmp_path}/b.db"]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    log = tmp_path / "b.db-wal"
    # On a busy machine it may be finished before it is killed; then it is tried again.
    for _ in range(10):
        process = subprocess.Popen(["nice", "-n", "19", *command], env=environment, stdout=subprocess.DEVNULL)
        while process.poll() is None and not (log.exists() and log.stat().st_size > 500_000):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        is_killed = process.wait(60) == -signal.SIGKILL
        if is_killed and 0 < len(read_all(tmp_path / "b.db", SQLiteStore)) < 3001:
            break
        for file in tmp_path.glob("b.db*"):
            file.unlink()
    else:
        pytest.fail("it was always finished before it could be killed")
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert read_all(tmp_path / "b.db", SQLiteStore) == read_all(tmp_path / "a.db", SQLiteStore)


def test_an_unfinished_copy_is_neither_moved_on_nor_mixed_with_another(tmp_path: Path) -> None:
    source, target = MemoryStore(), MemoryStore()
    fill(source, make_records(300))

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Migration(source, target, origin="a", progress=stop).run()
    assert "another source" in str(refused(ValidationError, Migration(source, target, origin="b").run))
    assert "unfinished" in str(refused(ValidationError, Migration(target, MemoryStore()).run))


# --- in use


def test_what_is_written_and_deleted_meanwhile_comes_along(tmp_path: Path) -> None:
    source, target = SQLiteStore(tmp_path / "a.db"), SQLiteStore(tmp_path / "b.db")
    fill(source, make_records(1500))

    rounds: list[int] = []

    def write() -> None:
        other = SQLiteStore(tmp_path / "a.db")
        for i in range(60):
            other.put([make_record(f"new{i}", text="written meanwhile")])
            [old] = other.get([f"r{i + 1:05d}"])
            other.put([replace(old, text=f"changed {i}", version=old.version + 1)])
            other.delete([f"r{1400 + i:05d}"])
            # Deleted and created again with a smaller version.
            other.delete([f"r{700 + i:05d}"])
            other.put([make_record(f"r{700 + i:05d}", text="reborn")])
            rounds.append(i)
        other.close()

    writer = threading.Thread(target=write)
    writer.start()

    def wait_for_writer(done: int, total: int) -> None:
        """Wait until a whole round was written, so that the move does not end before the writer."""
        before = len(rounds)
        while writer.is_alive() and len(rounds) < before + 2:
            time.sleep(0.005)

    report = Migration(source, target, progress=wait_for_writer).run()
    assert report.passes > 2
    writer.join()
    assert report.records == len(list(source.scan(Where())))
    assert list(target.scan(Where())) == list(source.scan(Where()))
    source.close()
    target.close()


def test_a_source_that_never_rests_is_reported_and_the_move_can_go_on() -> None:
    source, target, number = MemoryStore(), MemoryStore(), [0]
    fill(source, make_records(10))

    def write(done: int, total: int) -> None:
        number[0] += 1
        source.put([make_record(f"new{number[0]}")])

    assert "still being written" in str(refused(StorageError, Migration(source, target, progress=write).run))
    report = Migration(source, target).run()
    assert report.is_resumed
    assert list(target.scan(Where())) == list(source.scan(Where()))


# --- targets that are in use


def test_other_records_of_the_same_project_are_kept_only_on_request() -> None:
    source, target = MemoryStore(), MemoryStore()
    fill(source, make_records(50))
    own = [make_record("own", text="of the target"), replace(make_records(50)[7], version=99, text="newer")]
    target.put(own)
    assert "--merge" in str(refused(ValidationError, Migration(source, target).run))
    assert len(list(target.scan(Where()))) == 2
    report = Migration(source, target, merge=True).run()
    assert report.kept == 1
    assert target.get(["own", own[1].id]) == own
    assert len(list(target.scan(Where()))) == 51


def test_a_target_that_went_on_since_is_not_overwritten() -> None:
    source, target = MemoryStore(), MemoryStore()
    fill(source, make_records(50))
    Migration(source, target).run()
    [record] = target.get(["r00005"])
    target.put([replace(record, version=record.version + 1)])
    assert "r00005" in str(refused(ValidationError, Migration(source, target).run))


def test_other_projects_of_the_target_stay_and_tombstones_keep_their_salts() -> None:
    source, target = MemoryStore(), MemoryStore()
    fill(source, make_records(50))
    salts = [make_record("mrk_salts", kind="marker", project="", body={"value": [name]}) for name in "ab"]
    source.put(salts[:1])
    target.put([make_record("own", project="elsewhere"), salts[1]])
    Migration(source, target).run()
    assert target.get(["own"]) == [make_record("own", project="elsewhere")]
    assert target.get(["mrk_salts"])[0].body == {"value": ["b", "a"]}
    assert target.get(["mrk_salts"])[0].version == 2


def test_vectors_of_different_embedders_are_not_mixed() -> None:
    source, target = MemoryStore(), MemoryStore()
    for store, name in ((source, "one"), (target, "two")):
        store.put([make_record("mrk_embedder", kind="marker", project="", body={"value": name})])
    assert "alma reindex" in str(refused(EmbedderMismatchError, Migration(source, target).run))


# --- verified


@pytest.mark.parametrize("damage", ["lose", "change", "add", "search"])
def test_a_target_that_differs_is_an_error(damage: str) -> None:
    class Faulty(MemoryStore):
        def put(self, records: Any) -> None:
            kept = [record for record in records if record.id != "r00005"]
            kept = kept if damage == "lose" else records
            if damage == "change":
                kept = [replace(one, tags=("x",)) if one.id == "r00005" else one for one in records]
            super().put([*kept, make_record(f"extra{id(kept)}")] if damage == "add" else kept)

        def nearest(self, *args: Any) -> Any:
            return super().nearest(*args)[3:] if damage == "search" else super().nearest(*args)

    source = MemoryStore()
    fill(source, make_records(50))
    problem = str(refused(StorageError, Migration(source, Faulty()).run))
    parts = {"lose": "missing", "change": "different", "add": "only in the target", "search": "by vectors"}
    assert parts[damage] in problem


# --- the command


def run_migrate(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["--json", "migrate", *words])
    captured = capsys.readouterr()
    return code, json.loads(captured.out or captured.err)


def test_the_command_moves_previews_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    fill(store, make_records(20))
    store.close()
    config = tmp_path / "new.yaml"
    config.write_text("alma:\n  project_id: p\n  storage: file\n  storage_dir: .\n  db_name: new.jsonl\n")
    words = ("--from", f"sqlite:{tmp_path}/a.db", "--to", str(config))
    code, preview = run_migrate(capsys, *words, "--dry-run")
    assert (code, preview["copied"], preview["records"]) == (0, 20, 20)
    assert not (tmp_path / "new.jsonl").exists()
    code, report = run_migrate(capsys, *words)
    assert (code, report["copied"], report["agreement"]) == (0, 20, {"vectors": 1.0})
    assert set(report) >= set(MigrationReport.__slots__)
    assert main(["migrate", *words]) == 0
    printed = capsys.readouterr().out
    assert "both stores agree: 20 records" in printed
    assert "set `storage` in your configuration" in printed
    code, error = run_migrate(capsys, "--from", str(config), "--to", str(config))
    assert (code, "same store" in str(error)) == (1, True)
    assert main(["migrate", "--from", "sqlite:x"]) == 2


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("nowhere.yaml", "neither a file nor a store"),
        ("mongo:x", "sqlite:PATH"),
        ("sqlite:", "sqlite:PATH"),
        ("pinecone:x", "configuration file"),
    ],
)
def test_a_place_that_cannot_be_read_is_answered_with_the_forms(place: str, reason: str) -> None:
    problem = str(refused(ValidationError, describe_place, place))
    assert reason in problem
    assert "postgresql://" in problem


@pytest.mark.parametrize(
    "place", ["postgress://bob:secret@db/alma", "host=db password=secret", "password=secret host=db options=-c:x"]
)
def test_a_place_that_is_mistyped_is_answered_without_its_password(place: str) -> None:
    assert "secret" not in str(refused(ValidationError, describe_place, place))


@pytest.mark.parametrize("name", ["qdrant", "chroma", "sqlite", "file"])
def test_a_source_that_does_not_exist_is_refused_and_not_created(tmp_path: Path, name: str) -> None:
    source, target = f"{name}:{tmp_path}/typo", f"sqlite:{tmp_path}/b.db"
    assert "nothing to move" in str(refused(ValidationError, migrate_places, source, target))
    assert list(tmp_path.iterdir()) == []


def test_a_source_in_postgres_without_tables_is_refused_and_not_created(tmp_path: Path, postgres_dsn: str) -> None:
    source, target = f"postgres:{postgres_dsn}", f"sqlite:{tmp_path}/b.db"
    for _ in range(2):
        assert "nothing to move" in str(refused(ValidationError, migrate_places, source, target))
    assert list(tmp_path.iterdir()) == []


def test_places_are_read() -> None:
    assert describe_place("postgresql://u:p@h/d").storage_options == {"dsn": "postgresql://u:p@h/d"}
    assert describe_place("postgres:host=h").storage_options == {"dsn": "host=h"}
    assert describe_place("qdrant:http://h:6333").storage_options == {"url": "http://h:6333"}
    assert describe_place("chroma:some/folder").storage_options == {"path": "some/folder"}
    assert describe_place("sqlite:x.db").path == Path.cwd() / "x.db"
    missing = str(refused(ValidationError, migrate_places, "sqlite:/nowhere/x.db", "file:/nowhere/y"))
    assert "does not exist" in missing
