"""Several processes on one store, and processes that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess

import pytest
from tests.forked import find_python

from alma.ports import Checkable
from alma.stores.file import FileStore
from alma.stores.postgres import PostgresStore
from alma.stores.sqlite import SQLiteStore
from alma.types.query import Where

pytestmark = pytest.mark.system

STORES = {"sqlite": SQLiteStore, "file": FileStore, "postgres": PostgresStore}

COMMON = """
import sys
from dataclasses import replace
from alma import stores
from alma.errors import ConflictError
from alma.testing import make_record
from alma.types.query import Where
store = stores.STORES.load(sys.argv[1])(sys.argv[2])
name = sys.argv[3]
"""

WRITE = """
from alma.types.times import now
for i in range(25):
    store.put([make_record(f"{name}-{i}", text=f"word {name}", vectors=(bytes([i, 1, 2]),))])
try:
    store.put([make_record("shared")])
except ConflictError:
    pass
for i in range(25):
    while True:
        (held,) = store.get(["shared"])
        # The same change made twice would be taken for one that is repeated: what is put must tell who puts it.
        after = replace(held, evidence=held.evidence.with_result(1.0, now()), body={"by": f"{name} {i}"})
        try:
            store.put([replace(after, version=held.version + 1)])
            break
        except ConflictError:
            pass
store.close()
"""

ENDLESS = """
import random
for i in range(1_000_000):
    ids = [f"{name}-{i}-{j}" for j in range(3)]
    store.put([make_record(id, text="word", tags=("t",), vectors=(random.randbytes(16),)) for id in ids])
    if i % 5 == 4:
        store.delete([f"{name}-{i - 4}-{j}" for j in range(3)])
        print("-", i - 4, flush=True)
    print("+", i, flush=True)
"""


@pytest.fixture
def place(kind, tmp_path, request):
    """Return where a new store of each kind is kept: a path, or the connection string of an empty database."""
    return request.getfixturevalue("postgres_dsn") if kind == "postgres" else tmp_path / "new" / "store"


def start(script, *args):
    command = [*find_python(), COMMON + script, *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(processes):
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors


@pytest.mark.parametrize("kind", STORES)
def test_processes_that_open_a_new_store_at_once_lose_nothing(place, kind):
    finish([start(WRITE, kind, place, name) for name in "abc"])
    store = STORES[kind](place)
    own_ids = {f"{name}-{i}" for name in "abc" for i in range(25)}
    assert {record.id for record in store.scan(Where())} == {"shared", *own_ids}
    assert len(store.nearest(b"\x01\x01\x02", Where(), 500)) == 75
    assert store.get(["shared"])[0].evidence.successes == 75, "an increment was lost"
    if isinstance(store, Checkable):
        assert store.check() == []
    store.close()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nobody can be killed here")
@pytest.mark.parametrize("kind", STORES)
def test_what_was_acknowledged_survives_a_kill(place, kind):
    rng = random.Random(3)
    expected: set[str] = set()
    for turn in range(3):
        process = start(ENDLESS, kind, place, turn)
        # Not by readline, which may read more than a line; `communicate` would not see that.
        begin = b""
        lines = rng.randrange(10, 60)
        while begin.count(b"\n") < lines:
            byte = os.read(process.stdout.fileno(), 1)
            assert byte, process.communicate()
            begin += byte
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
        expected |= acknowledged(turn, begin.decode() + output)
        store = STORES[kind](place)
        held = {record.id for record in store.scan(Where())}
        groups = {id.rpartition("-")[0] for id in held}
        assert expected <= held
        assert len(held) == 3 * len(groups), "a put was written in part"
        assert len(store.nearest(bytes(16), Where(), 100_000)) == len(held)
        if isinstance(store, Checkable):
            assert store.check() == []
        store.close()


def acknowledged(turn, output):
    """What must be there. The last delete may have been done without a word about it, so that is left open."""
    put, deleted = set(), set()
    for line in output.split("\n")[:-1]:
        sign, number = line.split()
        (put if sign == "+" else deleted).add(int(number))
    uncertain = {i for i in put if i % 5 == 0 and i + 4 not in put}
    return {f"{turn}-{i}-{j}" for i in put - deleted - uncertain for j in range(3)}
