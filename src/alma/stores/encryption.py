"""Encryption of the content of records, for stores that cannot encrypt their files, and the keys for it.

Encrypted are the text, the body and the source of a record, with AES-256-GCM. The names that conditions are about
(project, agent, user, kind, tags, keys, …), times, counts and vectors stay readable for the database.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import islice
from typing import Any

from ..errors import ConfigError, CorruptStoreError, MissingExtraError
from ..ports import Store
from ..types.query import Hit, Where, rank_nearest
from ..types.record import Record, Vector
from ..types.storage import EncryptionSettings
from .memory import ROWS_NOTE, refuse_record
from .wrappers import Wrapper

_FIELD = "encrypted"
_NONCE_BYTES = 12
_BOUND = 2  # The form of what a content is bound to.
_MAKE_KEY = "make one with: openssl rand -base64 32"


def is_encrypted(record: Record) -> bool:
    """Return whether the content of a record is encrypted."""
    envelope = record.body.get(_FIELD)
    return isinstance(envelope, Mapping) and {"key", "data"} <= set(envelope) and len(record.body) == 1


def read_keys(settings: EncryptionSettings, environment: Mapping[str, str] | None = None) -> list[bytes]:
    """Return the configured keys. The first encrypts; all of them decrypt."""
    if settings.key_file is not None:
        place = str(settings.key_file)
        try:
            if os.name == "posix" and settings.key_file.stat().st_mode & 0o077:
                raise ConfigError(f"other users can read or change the key file {place}; run `chmod 600 {place}`")
            text = settings.key_file.read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise ConfigError(f"the encryption key file {place} cannot be read: {error.strerror}") from error
    else:
        place = f"${settings.key_env}"
        text = (os.environ if environment is None else environment).get(settings.key_env, "")
    try:
        keys = [base64.b64decode(word, validate=True) for word in text.split()]
    except (Base64Error, ValueError):
        keys = [b""]
    # The keys themselves are not quoted.
    if not keys:
        raise ConfigError(f"{place} has no encryption key; {_MAKE_KEY}")
    if any(len(key) != 32 for key in keys):
        raise ConfigError(f"{place} must have keys of 32 bytes in Base64, separated by spaces or lines; {_MAKE_KEY}")
    return keys


class EncryptedStore(Wrapper):
    """A store that encrypts the content of its records. It does not search by words, because it stores none."""

    hidden = ("match", "match_by_kind", "match_all", "nearest_by_kind")

    def __init__(self, store: Store, keys: Sequence[bytes]) -> None:
        super().__init__(store)
        names = [hashlib.blake2b(key, digest_size=8, person=b"alma key id").hexdigest() for key in keys]
        try:
            aead = import_module("cryptography.hazmat.primitives.ciphers.aead")
        except ImportError:
            raise MissingExtraError("cryptography", "encryption", "An encrypted store") from None
        self._ciphers: dict[str, Any] = {name: aead.AESGCM(key) for name, key in zip(names, keys, strict=True)}
        self._newest = names[0]
        self._invalid_tag: type[Exception] = import_module("cryptography.exceptions").InvalidTag

    def put(self, records: Sequence[Record]) -> None:
        """Store new or newer records, all or none."""
        self._store.put([self._encrypt(record) for record in records])

    def get(self, ids: Sequence[str]) -> list[Record]:
        """Return the records with these ids, in order; unknown ids are left out."""
        return [self._decrypt(record) for record in self._store.get(ids)]

    def scan(self, where: Where, limit: int | None = None) -> Iterator[Record]:
        """Yield the records that meet the conditions, newest first."""
        if not where.fields:
            return map(self._decrypt, self._store.scan(where, limit))
        # The body is compared here, because the store cannot read it.
        records = map(self._decrypt, self._store.scan(replace(where, fields=None)))
        return islice(filter(where.accepts, records), None if limit is None else max(limit, 0))

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Return the records whose vectors are nearest, best first."""
        if not where.fields:
            return self._store.nearest(vector, where, limit)
        return rank_nearest(vector, self.scan(where), limit)

    def _count(self, where: Where) -> Mapping[tuple[str, str, str], int]:
        if where.fields:
            return Counter((one.kind, one.agent, str(one.status)) for one in self.scan(where))
        counts: Mapping[tuple[str, str, str], int] = self._call("count", where)
        return counts

    def _encrypt(self, record: Record) -> Record:
        content = {"text": record.text, "source": record.provenance.source, "body": dict(record.body)}
        try:
            data = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
            bound = _bind_content(record, _BOUND)
        except (TypeError, ValueError) as problem:
            raise refuse_record(record, problem) from problem
        nonce = os.urandom(_NONCE_BYTES)
        sealed = base64.b64encode(nonce + self._ciphers[self._newest].encrypt(nonce, data, bound)).decode()
        provenance = replace(record.provenance, source="")
        envelope = {"key": self._newest, "data": sealed, "bound": _BOUND}
        return replace(record, text="", provenance=provenance, body={_FIELD: envelope})

    def _decrypt(self, record: Record) -> Record:
        if record.id == ROWS_NOTE and record.kind == "marker":
            return record
        envelope = record.body.get(_FIELD)
        if not isinstance(envelope, Mapping) or set(envelope) - {"bound"} != {"key", "data"}:
            raise CorruptStoreError(
                f"{record.id} is not encrypted, but the configuration sets `encryption`; move the memory into a new, "
                "encrypted store with `alma migrate`"
            )
        cipher = self._ciphers.get(envelope["key"])
        if cipher is None:
            raise ConfigError(
                f"{record.id} was encrypted with the key {envelope['key']}, which is not configured. Configured: "
                f"{', '.join(self._ciphers)}. Add the key after the first one"
            )
        try:
            sealed = base64.b64decode(envelope["data"])
            bound = _bind_content(record, envelope.get("bound", 1))
            data = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound)
        except (self._invalid_tag, ValueError, TypeError) as error:
            raise CorruptStoreError(
                f"{record.id} cannot be decrypted: it was changed by something else than alma; restore a backup"
            ) from error
        content = json.loads(data)
        provenance = replace(record.provenance, source=content["source"])
        return replace(record, text=content["text"], provenance=provenance, body=content["body"])


def _bind_content(record: Record, form: object) -> bytes:
    """Return what the content belongs to: it cannot be decrypted as that of another record, version or owner.

    Nor with another status, session or trust: who can write to the database could otherwise activate a candidate. The
    first form did not cover those.
    """
    names = [record.id, record.kind, record.project, record.agent, record.user, record.version]
    if form != 1:
        provenance = record.provenance
        names += [str(record.status), record.session, str(provenance.origin), str(provenance.trust)]
    return json.dumps(names, ensure_ascii=False).encode()
