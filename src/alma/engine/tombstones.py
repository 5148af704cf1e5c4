"""Tombstones: a deleted memory is recognised by a salted hash of its look-up key, and does not come back by itself.

The key of a memory is a hash of its words. Without a salt, whoever holds the file could try out words against it. Each
store draws its own salt when something is deleted for the first time; an import brings the salts of its tombstones.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from ..text import fingerprint
from ..types.kinds import MemoryType
from ..types.query import Where
from ..types.record import Record, Status
from ..types.rules import EVERYWHERE
from .context import Engine

SALT_MARKER = "mrk_salts"
LESSONS = (MemoryType.HEURISTIC, MemoryType.ANTI_PATTERN)


def tombstone_id(record_id: str) -> str:
    return f"tom_{record_id}"


def read_salts(engine: Engine) -> list[str]:
    """Return the salts of the tombstones held, the store's own first; none before anything was deleted."""
    held = engine.store.get([SALT_MARKER])
    return list(held[0].body["value"]) if held else []


def new_salt() -> str:
    return secrets.token_hex(16)


def hash_key(salt: str, key: str) -> str:
    return hashlib.blake2b(key.encode("utf-8"), key=bytes.fromhex(salt), digest_size=16).hexdigest()


def key_of_deleted(record: Record) -> str:
    """Return the key that recognises a memory when it is learned again."""
    if record.kind in LESSONS and record.key in ("", record.id):
        return lesson_key(record.kind, record.agent, record.user, record.body)
    return record.key or record.id


def lesson_key(kind: str, agent: str, user: str, body: Mapping[str, Any]) -> str:
    """Return the key of a heuristic or an anti-pattern: the same for the same words, whatever group it comes from."""
    strategy = str(body.get("strategy") or body.get("pattern"))
    return fingerprint(kind, agent, user, strategy, str(body["condition"]))


def find_tombstones(engine: Engine, keys: Iterable[str]) -> dict[str, Record]:
    """Return the active tombstones of this project and of all projects that recognise these keys, by key."""
    wanted = {key for key in keys if key}
    if not wanted:
        return {}
    # Tombstones of earlier versions hold the key itself.
    by_hash = {key: key for key in wanted}
    by_hash |= {hash_key(salt, key): key for salt in read_salts(engine) for key in wanted}
    where = Where(
        kinds={"tombstone"}, projects={engine.project, EVERYWHERE}, keys=set(by_hash), statuses={Status.ACTIVE}
    )
    return {by_hash[stone.key]: stone for stone in engine.store.scan(where)}


def find_deleted_keys(engine: Engine, keys: Iterable[str]) -> set[str]:
    """Return those keys that belong to a deleted memory, which must not come back by itself."""
    return set(find_tombstones(engine, keys))


def find_deleted_ids(engine: Engine, ids: Iterable[str]) -> set[str]:
    """Return those ids that belong to a deleted memory."""
    names = {tombstone_id(one): one for one in ids}
    return {names[one.id] for one in engine.store.get(list(names)) if one.status is Status.ACTIVE} if names else set()
