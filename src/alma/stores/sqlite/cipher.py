"""SQLite files that are encrypted as a whole by SQLCipher (the extra `encryption`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import ConfigError, CorruptStoreError, MissingExtraError

_PLAIN_START = b"SQLite format 3\x00"
_PAGE_BYTES = 8192


class Cipher:
    """Opens connections to one encrypted file. A new file is encrypted with the first key."""

    def __init__(self, path: Path, keys: Sequence[bytes]) -> None:
        try:
            # It has the interface of sqlite3, but its own errors.
            self._driver: Any = import_module("sqlcipher3.dbapi2")
        except ImportError:
            raise MissingExtraError("sqlcipher3-binary", "encryption", "An encrypted SQLite store") from None
        if not all(isinstance(key, bytes) and len(key) == 32 for key in keys):
            raise ConfigError("encryption keys are 32 bytes each; name them in the section `encryption`")
        self._path = path
        self._keys = list(keys)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the errors that its connections raise."""
        return (self._driver.Error,)

    def connect(self, database: str | Path, **options: Any) -> sqlite3.Connection:
        """Open a connection with the key that fits. Raise CorruptStoreError if none does."""
        is_plain = False
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            is_plain = file.read(len(_PLAIN_START)) == _PLAIN_START
        if is_plain:
            raise ConfigError(
                f"{self._path} is not encrypted; name a new file in db_name, then move the memory with: "
                f"alma migrate --from sqlite:{self._path} --to CONFIG"
            )
        for key in self._keys:
            connection: sqlite3.Connection = self._driver.connect(database, **options)
            try:
                connection.execute("PRAGMA cipher_log_level = NONE")
                # As a raw key, which needs no derivation that would slow down every start.
                connection.execute(f"PRAGMA key = \"x'{key.hex()}'\"")
                connection.execute(f"PRAGMA cipher_page_size = {_PAGE_BYTES}")
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except BaseException as error:
                connection.close()
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_NOTADB:
                    raise
            else:
                # The key that fitted is tried first the next time.
                self._keys.sort(key=key.__ne__)
                return connection
        raise CorruptStoreError(
            f"{self._path} cannot be read with the configured encryption key; check that it is the key with which the "
            "file was written. If it is, the file is damaged: restore a backup"
        )
