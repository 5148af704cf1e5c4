"""Prove that nothing of an erased user is left: no record, and no piece of a text in the bytes of the store's files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Record
from .context import Engine

_ENDINGS = ("", "-wal", "-shm", "-journal")
_SIZE = 12  # So many bytes has a piece: too many to be met by chance.
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LONG_WORD = re.compile(rf"\w{{{_SIZE},}}")
# Another process reads the files: if this one closed them, the locks that SQLite holds on them would be released.
_COUNT = f"""
import json, re, sys
asked = json.load(sys.stdin)
pieces, name = {{one.encode("latin-1") for one in asked["pieces"]}}, re.compile(asked["name"].encode())
for path in asked["files"]:
    with open(path, "rb") as file:
        data = file.read()
    print(sum(data[at : at + {_SIZE}] in pieces for at in range(len(data) - {_SIZE - 1})) + len(name.findall(data)))
"""


@dataclass(frozen=True, slots=True)
class ErasureProof:
    """What is left of an erased user in the records of all projects and in the bytes of files."""

    records: int
    bytes: int
    files: list[str]  # Those that were read.
    left: list[str]  # Where something is left.
    unchecked: list[str]


def list_pieces(record: Record, step: int = _SIZE) -> Iterator[bytes]:
    """Yield pieces of all texts of a record, so many bytes apart, and the last one of each text."""
    return (piece for data in _list_texts(record) for piece in _cut(data, step))


def _cut(data: bytes, step: int) -> Iterator[bytes]:
    last = len(data) - _SIZE
    return (data[at : at + _SIZE] for at in (*range(0, last, step), last) if last >= 0)


def _list_texts(record: Record) -> Iterator[bytes]:
    """Yield the texts of a record as files hold them: in UTF-8 and as JSON, and long words as the word index does."""
    values = [record.id, record.user, record.session, record.text, record.body, record.tags]
    for escaped in _STRING.findall(json.dumps(values, ensure_ascii=False)):
        text = json.loads(f'"{escaped}"')
        for form in {text, escaped, json.dumps(text)[1:-1], text.casefold(), *_LONG_WORD.findall(text.casefold())}:
            yield form.encode("utf-8", "replace")


def prove_erased(engine: Engine, user: str, pieces: set[bytes]) -> ErasureProof:
    """Look for a user's id, and for those pieces that no remaining record has, in the records and files of a store."""
    for kind in KINDS.values():
        pieces.difference_update(piece for text in (kind.name, *kind.fields) for piece in _cut(text.encode(), 1))
    name, owned, is_named = re.compile(rf"(?<!\w){re.escape(user)}(?!\w)"), Counter[str](), False
    for record in engine.store.scan(Where()):
        owned[record.project] += record.user == user
        is_named = is_named or name.search(str((record.text, record.body, record.tags, record.user))) is not None
        pieces.difference_update(list_pieces(record, 1))
    left = [f"{count} records in project {project!r}" for project, count in owned.items() if count]
    path = getattr(engine.store, "path", None)
    files = [Path(f"{path}{ending}") for ending in _ENDINGS if path and os.path.exists(f"{path}{ending}")]
    asked = {"files": list(map(str, files)), "name": "(?!)" if is_named else name.pattern}
    asked |= {"pieces": [piece.decode("latin-1") for piece in pieces]}
    command = [sys.executable, "-I", "-c", _COUNT]
    ran = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True)
    counts = dict(zip((file.name for file in files), map(int, ran.stdout.split()), strict=True))
    left += [f"{count} places in {file}" for file, count in counts.items() if count]
    unchecked = [] if files else ["the files, replicas and backups of a database server"]
    unchecked.append("exports and backups that were made before")
    return ErasureProof(owned.total(), sum(counts.values()), list(counts), left, unchecked)
