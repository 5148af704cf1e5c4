"""Artifacts: what a run made and left elsewhere, told apart by where it is and known by its digest."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from ..engine import things, validate
from ..engine.admit import clean, commit
from ..engine.context import Engine
from ..errors import ValidationError
from ..types.query import Where
from ..types.record import Record
from . import runs
from .runs import known_id
from .types import Artifact

_KIND = "artifact"
# A drive letter (`C:\\x`) is no scheme, and a file may have a colon in its name.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|urn:")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_LOCATION = 4_000
_CHUNK = 1 << 20


class Found:
    """Where an artifact is, and what is known of its content."""

    __slots__ = ("digest", "location", "name", "size")

    def __init__(self, location: str, name: str, digest: str | None, size: int | None) -> None:
        self.location = location
        self.name = name
        self.digest = digest
        self.size = size


def look(location: str | os.PathLike[str], digest: str | None, size: int | None) -> Found:
    """A file is read for its digest; what a URI names is taken at the caller's word and never fetched."""
    given = validate.text("location", os.fspath(location), _MAX_LOCATION).strip()
    if clean(given) != given:
        raise ValidationError(
            "location holds what looks like a secret and would not be kept as it is; link it without credentials"
        )
    told = None if digest is None else _digest(digest)
    most = None if size is None else validate.whole("size", size, 0, 2**63)
    if _URI.match(given) and not given.lower().startswith("file:"):
        return Found(given, given.rstrip("/").rpartition("/")[2] or given, told, most)
    return _file(_path(given), told, most)


def _path(given: str) -> Path:
    if given.lower().startswith("file:"):
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        return Path(url2pathname(urlsplit(given).path))
    return Path(given).expanduser()


def _file(path: Path, told: str | None, size: int | None) -> Found:
    try:
        with path.open("rb") as file:
            hashed = hashlib.sha256()
            while piece := file.read(_CHUNK):
                hashed.update(piece)
            length = file.tell()
    except OSError as error:
        raise ValidationError(
            f"location {str(path)!r} is not a file that can be read ({error.strerror}); pass a file or a URI"
        ) from None
    found = f"sha256:{hashed.hexdigest()}"
    if told is not None and told != found:
        raise ValidationError(f"{str(path)!r} has the digest {found}, not {told}: it is not the file that was meant")
    if size is not None and size != length:
        raise ValidationError(f"{str(path)!r} has {length:,} bytes, not {size:,}: it is not the file that was meant")
    return Found(str(path.resolve()), path.name, found, length)


def _digest(given: object) -> str:
    text = validate.name("digest", given).lower()
    text = text if ":" in text else f"sha256:{text}"
    if not _DIGEST.fullmatch(text):
        raise ValidationError(f"digest must be the 64 hexadecimal digits of a SHA-256, not {given!r}")
    return text


def link(
    engine: Engine, run: str, node: str, found: Found, *, kind: str, name: str, agent: str, metadata: dict[str, object]
) -> Artifact:
    """One record for a run, a node and a place: linked again, it tells of the content that is there now."""
    id = known_id("art", engine.project, run, node, found.location)

    def attempt() -> tuple[Record, list[Record]]:
        held = engine.store.get([id])
        owner, fresh = runs.begun(engine, run, agent=agent, goes_on=False)
        body = {
            "name": name or found.name,
            "path": found.location,
            "kind": kind,
            "size": found.size,
            "digest": found.digest,
            "workflow": owner.body["workflow"],
            "run": run,
            "node": node,
            "metadata": metadata,
        }
        also = [owner] if fresh else []
        if not held:
            draft = things.draft(_KIND, body, agent=agent, session=run)
            record = things.made(engine, draft, id=id, links=(owner.id,))
            return record, [record, *also]
        record = things.altered(engine, held[0], body)
        return (held[0], also) if record.body == held[0].body else (record, [record, *also])

    return decode(commit(engine, attempt))


def linked(engine: Engine, run: str) -> list[Record]:
    where = Where(kinds={_KIND}, projects={engine.project}, sessions={run} if run else None)
    return list(engine.store.scan(where))


def decode(record: Record) -> Artifact:
    body = record.body
    return Artifact(
        id=record.id,
        run_id=record.session,
        workflow_id=body["workflow"],
        node_id=body["node"],
        name=body["name"],
        location=body["path"],
        kind=body["kind"],
        digest=body["digest"],
        size=body["size"],
        agent=record.agent,
        metadata=body["metadata"],
        created_at=record.created_at,
        updated_at=record.updated_at,
    )
