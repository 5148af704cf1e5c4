"""Prove that nothing of an erased user is left: no record, and no piece of a text in the bytes of the store's files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..text import map_texts
from ..types.kinds import KINDS
from ..types.query import Where
from ..types.record import Record, to_json
from .context import Engine
from .transaction import is_learned

_ENDINGS = ("", "-wal", "-shm", "-journal")
_DERIVED = ("changeset", "change", "delivery", "strategy", "comparison")  # What repeats the words of other records.
_SIZE = 12  # So many bytes has a piece: too many to be met by chance.
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LONG_WORD = re.compile(rf"\w{{{_SIZE},}}")
# Another process reads the files: if this one closed them, the locks that SQLite holds on them would be released.
_FIND = rf"""
import collections, json, re, sys
asked = json.load(sys.stdin)
pieces, id = set(asked["pieces"]), asked["id"]
for path in asked["files"]:
    with open(path, encoding="latin-1", newline="") as file:
        text = file.read()
    found = collections.Counter({{id: len(re.findall(rf"(?<!\w){{re.escape(id)}}(?!\w)", text, re.ASCII))}})
    for run in re.findall(r"[^\0-\x08\x0e-\x1f]{{{_SIZE},}}", text):
        found.update(piece for at in range(len(run) - {_SIZE - 1}) if (piece := run[at : at + {_SIZE}]) in pieces)
    print(json.dumps(+found))
"""


@dataclass(frozen=True, slots=True)
class ErasureProof:
    """What is left of an erased user in the records of all projects and in the bytes of files."""

    records: int
    bytes: int
    files: list[str]  # Those that were read.
    left: list[str]  # Where something is left.
    unchecked: list[str]


def list_pieces(record: Record) -> Iterator[str]:
    """Yield pieces of all texts of a record as files hold them: in UTF-8 and as JSON, long words in lower case too."""
    if _is_derived(record):
        return
    # The text of a record joins lines that may stand apart elsewhere.
    texts = [record.id, record.user, record.session, record.key, *record.text.splitlines()]
    values = [*texts, record.body, record.tags, record.links]
    for escaped in _STRING.findall(json.dumps(values, ensure_ascii=False)):
        text = json.loads(f'"{escaped}"')
        for form in {text, escaped, json.dumps(text)[1:-1], *_LONG_WORD.findall(text.casefold())}:
            data = _to_bytes(form)
            last = len(data) - _SIZE
            yield from (data[at : at + _SIZE] for at in (*range(0, last, _SIZE), last) if last >= 0)


def _is_derived(record: Record) -> bool:
    return record.kind in _DERIVED or is_learned(record)


def _to_bytes(text: str) -> str:
    """Return the UTF-8 form of a text, each byte as one character."""
    return text.encode("utf-8", "replace").decode("latin-1")


def prove_erased(engine: Engine, user: str, pieces: Collection[str]) -> ErasureProof:
    """Look for a user's id, and for pieces that nobody else stated or recorded, in the records and files of a store."""
    id, path = _to_bytes(user), getattr(engine.store, "path", None)
    files = [file for ending in _ENDINGS if path and (file := Path(f"{path}{ending}")).exists()]
    asked = json.dumps({"files": list(map(str, files)), "pieces": list(pieces), "id": id})
    unchecked = ["exports and backups that were made before"]
    found: dict[str, dict[str, int]] = {}
    try:
        if files:
            command = [sys.executable, "-I", "-c", _FIND]
            ran = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
            answers = map(json.loads, ran.stdout.splitlines())
            found = dict(zip((file.name for file in files), answers, strict=True))
    except (OSError, subprocess.SubprocessError) as error:
        unchecked.append(f"the bytes of {path}: {error}")
    if not files:
        unchecked.append("the files, replicas and backups of a database server")
    # The schema of a database has these names.
    known = " ".join(name for kind in KINDS.values() for name in (kind.name, *kind.fields))
    traces, owned = {piece for one in found.values() for piece in one if piece not in known}, Counter[str]()
    for record in engine.store.scan(Where()):
        owned[record.project] += record.user == user
        if _is_derived(record):
            # Its words excuse nothing: they may be those of the erased user.
            record = replace(record, body=map_texts(dict(record.body), lambda _: "", has_names=False), text="")
        values = to_json(replace(record, vectors=()))
        plain = f"{json.dumps(values, ensure_ascii=False)}{record.text}"
        texts = {plain, json.dumps(values), *_LONG_WORD.findall(plain.casefold())} if traces else ()
        for text in map(_to_bytes, texts):
            traces.difference_update(text[at : at + _SIZE] for at in range(len(text)))
            # Word indexes hold the words of others in lower case.
            traces -= {id} if re.search(rf"(?<!\w){re.escape(id)}(?!\w)", f"{text}\n{text.casefold()}") else set()
    counts = {file: sum(one[piece] for piece in traces & one.keys()) for file, one in found.items()}
    left = [f"{count} records in project {project!r}" for project, count in owned.items() if count]
    left += [f"{count} places in {file}" for file, count in counts.items() if count]
    return ErasureProof(owned.total(), sum(counts.values()), list(counts), left, unchecked)
