"""Where the worker can be reached: a socket in its home or, where there are none, a loopback port; and a token."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from contextlib import suppress

from .place import Place

# Systems take 104 to 108 bytes, the last of them zero.
_LONGEST_PATH = 100
_BACKLOG = 64
_REPLACE_TRIES = 20


class Endpoint:
    """A listening socket and the file that tells of it. Only the holder of the worker's lock makes one."""

    def __init__(self, place: Place, code: str) -> None:
        self._place = place
        self.token = secrets.token_hex(32)
        self.since = time.time()
        self._path = ""
        self.socket = self._unix(os.path.join(place.home, "worker.sock")) or self._loopback()
        try:
            self._publish(code)
        except BaseException:
            self.close()
            raise

    @property
    def is_unix(self) -> bool:
        return bool(self._path)

    def is_mine(self) -> bool:
        """Whether those who look for a worker still find this one."""
        try:
            with open(self._place.worker, "rb") as file:
                return bool(json.loads(file.read(65536)).get("token") == self.token)
        except (OSError, ValueError, AttributeError):
            return False

    def close(self) -> None:
        """Listen no more; what is on disk is removed if it is still ours."""
        if self.is_mine():
            _remove(self._place.worker)
        if self._path and _inode(self._path) == self._inode:
            _remove(self._path)
        self.socket.close()

    def _unix(self, path: str) -> socket.socket | None:
        family = getattr(socket, "AF_UNIX", None)
        if family is None or len(os.fsencode(path)) > _LONGEST_PATH:
            return None
        _remove(path)
        listener = socket.socket(family, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(path)
            listener.listen(_BACKLOG)
        except OSError:
            # Some file systems have no sockets.
            listener.close()
            return None
        finally:
            os.umask(before)
        self._path, self._inode = path, _inode(path)
        return listener

    def _loopback(self) -> socket.socket:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        exclusive = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
        try:
            if exclusive is not None:
                # Windows lets others listen on the same port otherwise.
                listener.setsockopt(socket.SOL_SOCKET, exclusive, 1)
            listener.bind(("127.0.0.1", 0))
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
        return listener

    def _publish(self, code: str) -> None:
        info = {
            "v": 1,
            "kind": "unix" if self.is_unix else "tcp",
            "address": self._path or self.socket.getsockname()[1],
            "token": self.token,
            "pid": os.getpid(),
            "since": self.since,
            "code": code,
            "sessions": self._place.sessions,
        }
        beside = f"{self._place.worker}.{os.getpid()}"
        _remove(beside)
        with open(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            json.dump(info, file)
        _replace(beside, self._place.worker)


def _replace(source: str, target: str) -> None:
    for left in reversed(range(_REPLACE_TRIES)):
        try:
            return os.replace(source, target)
        except PermissionError:
            # Windows refuses while somebody reads it.
            if not left:
                raise
            time.sleep(0.02)
    return None


def _remove(path: str) -> None:
    """What cannot be removed is out of date, which everybody who reads it finds out."""
    with suppress(OSError):
        os.unlink(path)


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1
