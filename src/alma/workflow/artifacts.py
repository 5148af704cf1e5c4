"""Artifacts: what a run made and left elsewhere, told apart by where it is and known by its digest."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from ..engine import things, validate
from ..engine.admit import clean, commit
from ..engine.context import Engine
from ..errors import ValidationError
from ..types.record import Record
from .records import Put, known_id, open_run

# A drive letter (`C:\\x`) is no scheme, and a file may have a colon in its name.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|urn:")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_LOCATION = 4_000


class Content(NamedTuple):
    """Where an artifact is, and what is known of its content."""

    location: str
    name: str
    digest: str | None
    size: int | None


def read_content(location: str | os.PathLike[str], digest: str | None, size: int | None) -> Content:
    """Read a file for its digest; what a URI names is taken at the caller's word and never fetched."""
    place = validate.text("location", os.fspath(location), _MAX_LOCATION).strip()
    if clean(place) != place:
        raise ValidationError(
            "location holds what looks like a secret and would not be kept as it is; link it without credentials"
        )
    if digest is not None:
        text = validate.name("digest", digest).lower()
        text = text if ":" in text else f"sha256:{text}"
        if not _DIGEST.fullmatch(text):
            raise ValidationError(f"digest must be the 64 hexadecimal digits of a SHA-256, not {digest!r}")
        digest = text
    if size is not None:
        validate.whole("size", size, 0, 2**63)
    if place.lower().startswith("file:"):
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        return _read_file(Path(url2pathname(urlsplit(place).path)), digest, size)
    if _URI.match(place):
        return Content(place, place.rstrip("/").rpartition("/")[2] or place, digest, size)
    return _read_file(Path(place).expanduser(), digest, size)


def _read_file(path: Path, digest: str | None, size: int | None) -> Content:
    try:
        with path.open("rb") as file:
            actual = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
            length = file.tell()
    except OSError as error:
        raise ValidationError(
            f"location {str(path)!r} is not a file that can be read ({error.strerror}); pass a file or a URI"
        ) from None
    if digest not in (None, actual):
        raise ValidationError(f"{str(path)!r} has the digest {actual}, not {digest}: it is not the file that was meant")
    if size is not None and size != length:
        raise ValidationError(f"{str(path)!r} has {length:,} bytes, not {size:,}: it is not the file that was meant")
    return Content(str(path.resolve()), path.name, actual, length)


def save_artifact(engine: Engine, run: str, node: str, agent: str, content: Content, **fields: Any) -> Record:
    """Keep one record for a run, a node and a place: linked again, it tells of the content that is there now."""
    id = known_id("art", engine.project, run, node, content.location)

    def attempt() -> Put:
        records = engine.store.get([id])
        owner, changed = open_run(engine, run, agent=agent, resumes=False)
        found = {"name": content.name, "path": content.location, "size": content.size, "digest": content.digest}
        body = {**found, "workflow": owner.body["workflow"], "run": run, "node": node, **fields}
        if not records:
            draft = things.draft("artifact", body, agent=agent, session=run)
            record = things.made(engine, draft, id=id, links=(owner.id,))
            return record, [record, *changed]
        record = things.altered(engine, records[0], body)
        return (records[0], changed) if record.body == records[0].body else (record, [record, *changed])

    return commit(engine, attempt)
