"""How runs, checkpoints and artifacts are stored.

A checkpoint's id follows from its run, its branch and its number, so two writers who take the same number meet a
conflict and the slower one takes the next. Its time is later than that of every checkpoint of the run that was
acknowledged before, whatever the clock says, so that the newest is always the last.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from ..engine import things, validate
from ..engine.admit import build, clean, screen
from ..engine.context import Engine
from ..engine.drafts import Draft
from ..engine.transaction import commit
from ..errors import NotFoundError, ValidationError
from ..types.query import Where
from ..types.record import Record
from ..types.times import from_iso, to_iso
from .states import UNLIMITED, State, find_differences, read_state, refuse_secrets
from .types import Checkpoint, Run, RunStatus, decode_record

_TICK = timedelta(microseconds=1)
_BATCH = 500
# A drive letter (`C:\\x`) is no scheme, and a file may have a colon in its name.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|urn:")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_LOCATION = 4_000

Put = tuple[Record, list[Record]]
"""A record, and what has to be put for it."""


def known_id(prefix: str, *parts: str) -> str:
    """Return the id of the one record there can be of these names; case and spaces make a difference."""
    joined = "\x1f".join(f"{len(part)}:{part}" for part in parts)
    return f"{prefix}_{hashlib.blake2b(joined.encode(), digest_size=16).hexdigest()}"


# -- runs


def decode_run(record: Record) -> Run:
    started = from_iso(record.body["started_at"]) or record.created_at
    status, ended = RunStatus(record.body["status"]), from_iso(record.body["ended_at"])
    return decode_record(Run, record, status=status, started_at=started, ended_at=ended)


def find_run(engine: Engine, run: str) -> Record | None:
    return next(iter(engine.store.get([known_id("run", engine.project, run)])), None)


def get_run(engine: Engine, run: str) -> Record:
    record = find_run(engine, run)
    if record is None:
        raise NotFoundError(
            f"there is no run {run!r} in project {engine.project!r}; start_run or a checkpoint makes one"
        )
    return record


def open_run(
    engine: Engine,
    run: str,
    workflow: str = "",
    agent: str = "",
    metadata: Mapping[str, Any] | None = None,
    *,
    resumes: bool = True,
) -> Put:
    """Return a run, made if it is new. With `resumes`, one that had ended goes on."""
    record = find_run(engine, run)
    known: dict[str, Any] = {"workflow": "", "run": run, "metadata": {}, **(record.body if record else {})}
    body = dict(known)
    if workflow and body["workflow"] not in ("", workflow):
        raise ValidationError(f"run {run!r} is one of workflow {body['workflow']!r}, not of {workflow!r}")
    body |= {"workflow": workflow or body["workflow"], "metadata": {**body["metadata"], **(metadata or {})}}
    if resumes or record is None:
        body |= {"status": str(RunStatus.RUNNING), "ended_at": None}
    if record is None:
        draft = things.draft("run", body | {"started_at": to_iso(engine.clock())}, agent=agent, session=run)
        record = things.made(engine, draft, id=known_id("run", engine.project, run))
    elif body == known:
        return record, []
    else:
        record = things.altered(engine, record, body)
    return record, [record]


def end_run(engine: Engine, run: str, status: RunStatus) -> Record:
    ended = None if status is RunStatus.RUNNING else to_iso(engine.clock())

    def attempt() -> tuple[Record, list[Record]]:
        record = get_run(engine, run)
        fresh = things.altered(engine, record, {**record.body, "status": str(status), "ended_at": ended})
        return fresh, [fresh]

    return commit(engine, attempt)


# -- checkpoints


def decode_checkpoint(record: Record, unchanged: bool = False) -> Checkpoint:
    return decode_record(Checkpoint, record, redacted=tuple(record.body["redacted"]), unchanged=unchanged)


def find_checkpoints(
    engine: Engine, run: str, node: str = "", branch: str = "", limit: int | None = None
) -> list[Record]:
    """Return the checkpoints of a run, newest first."""
    keys = {known_id("branch", run, branch)} if branch else None
    tagged = {f"node:{node}"} if node else None
    return things.scan(engine, "checkpoint", limit, sessions={run}, keys=keys, tagged=tagged)


def find_latest(engine: Engine, run: str, node: str = "", branch: str = "") -> Record | None:
    return next(iter(find_checkpoints(engine, run, node, branch, 1)), None)


def get_tip(engine: Engine, run: str, branch: str) -> Record:
    """Return the newest checkpoint of a branch that must have one."""
    record = find_latest(engine, run, branch=branch)
    if record is None:
        raise NotFoundError(f"run {run!r} has no checkpoint on branch {branch!r}")
    return record


def save_checkpoint(
    engine: Engine,
    draft: Draft,
    state: State,
    *,
    workflow: str = "",
    skip: bool = True,
    redact: bool = False,
    origin: Record | None = None,
) -> Checkpoint:
    """Write it, unless the newest of its branch is of the same node and holds the same state.

    The draft names the run, the node and the branch; `origin` is the checkpoint that a new branch begins at.
    """
    run, node, branch = (draft.body[name] for name in ("run", "node", "branch"))

    def is_held(record: Record | None, digest: str) -> bool:
        return skip and record is not None and (record.body["digest"], record.body["node"]) == (digest, node)

    newest = find_latest(engine, run, branch=branch)
    if newest is not None and is_held(newest, state.digest):
        return decode_checkpoint(newest, unchanged=True)
    draft = screen(engine, replace(draft, body={**draft.body, "state": state.value}))
    places = list(find_differences(state.value, draft.body["state"]))
    if places and not redact:
        raise refuse_secrets(places)
    kept = read_state(draft.body["state"], UNLIMITED) if places else state
    draft = replace(draft, body={**draft.body, "digest": kept.digest, "size": kept.size, "redacted": places})

    def attempt() -> tuple[Checkpoint, list[Record]]:
        # Read first: a writer in between is met as a conflict on the number.
        last = find_latest(engine, run, branch=branch)
        if last is not None and origin is not None:
            raise ValidationError(f"run {run!r} already has a branch {branch!r}; choose another name")
        if last is not None and is_held(last, kept.digest):
            return decode_checkpoint(last, unchanged=True), []
        owner, changed = open_run(engine, run, workflow, draft.agent)
        record = _build_checkpoint(engine, draft, owner, last, origin)
        return decode_checkpoint(record), [record, *changed]

    return commit(engine, attempt)


def _build_checkpoint(
    engine: Engine, draft: Draft, owner: Record, last: Record | None, origin: Record | None
) -> Record:
    run, branch = draft.body["run"], draft.body["branch"]
    number = last.body["number"] + 1 if last else 1
    before = last or origin
    base = last.body["base"] if last else origin.id if origin else None
    places = {"workflow": owner.body["workflow"], "number": number, "parent": before and before.id, "base": base}
    newest = find_latest(engine, run)
    moment = engine.clock() if newest is None else max(engine.clock(), newest.created_at + _TICK)
    return build(
        engine,
        replace(draft, body={**draft.body, **places}),
        (),
        id=known_id("chk", engine.project, run, branch, str(number)),
        key=known_id("branch", run, branch),
        tags=(f"node:{draft.body['node']}",),
        links=(owner.id,),
        created_at=moment,
        updated_at=moment,
    )


def find_common_base(engine: Engine, tips: list[Record]) -> Mapping[str, Any] | None:
    """Return the state that all these branches began at, where it is known.

    A branch without a beginning of its own counts only if it is the one that the others began at.
    """
    ids = {tip.body["base"] for tip in tips if tip.body["base"]}
    bases = engine.store.get(list(ids)) if len(ids) == 1 else []
    rootless = {tip.body["branch"] for tip in tips if not tip.body["base"]}
    if not bases or rootless - {bases[0].body["branch"]}:
        return None
    state: Mapping[str, Any] = bases[0].body["state"]
    return state


def erase_checkpoints(engine: Engine, run: str, keep: int, before: datetime | None) -> int:
    """Erase all but the newest of each branch, and only those before the moment; return how many that were.

    What a branch that is kept began at stays: it is needed to merge it.
    """
    where = Where(kinds={"checkpoint"}, projects={engine.project}, sessions={run} if run else None)
    seen: dict[str, int] = {}
    old: list[str] = []
    bases: set[str] = set()
    for record in engine.store.scan(where):
        seen[record.key] = seen.get(record.key, 0) + 1
        if seen[record.key] <= keep or (before is not None and record.created_at >= before):
            bases.add(record.body["base"])
        else:
            old.append(record.id)
    gone = [id for id in old if id not in bases]
    return sum(engine.store.delete(gone[start : start + _BATCH]) for start in range(0, len(gone), _BATCH))


# -- artifacts: told apart by where they are, and known by their digest


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
