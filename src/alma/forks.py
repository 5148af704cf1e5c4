"""Make forks safe: a fork waits until no other thread holds a lock or imports a module.

A child has only the thread that forked. A lock that another thread held stays locked in it forever, a module that
another thread was importing stays half imported, and SQLite goes on believing in file locks that the child does not
have. So before a fork all locks named here are acquired, and afterwards they are released in the parent and the child.
"""

from __future__ import annotations

# `logging` holds its own lock at a fork, and a module that is imported may ask for a logger. Because it is imported
# first, what is registered here runs before it: the import can end while a fork waits.
import logging  # noqa: F401
import os
import sys
import threading
import time
import weakref
from typing import Protocol, TypeVar


class ForkLock(Protocol):
    """A lock, or an object that can be acquired and released like one."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock and return whether that succeeded in time."""

    def release(self) -> None:
        """Release the lock."""


H = TypeVar("H", bound=ForkLock)

_PATIENCE_SECONDS = 60.0
"""After this a fork goes on all the same: a thread that waits for the forking one must not stop it forever."""
_PACKAGES = ("alma", "numpy", "onnxruntime", "tokenizers")

_holders: weakref.WeakSet[ForkLock] = weakref.WeakSet()
_forking = threading.RLock()
_registering = threading.Lock()
"""Held only while `_holders` is read or changed: a module that is imported while a fork waits for it may add to it."""
_acquired: list[ForkLock] = []


def hold_at_fork(holder: H) -> H:
    """Return `holder`; from now on a fork waits for it. Locks named here must not be held while taking another."""
    with _registering:
        _holders.add(holder)
    return holder


def _before_fork() -> None:
    _forking.acquire()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    _acquire_holders(deadline)
    while _is_importing() and time.monotonic() < deadline:
        time.sleep(0.001)
        _acquire_holders(deadline)
    _registering.acquire()


def _acquire_holders(deadline: float) -> None:
    with _registering:
        fresh = [holder for holder in _holders if holder not in _acquired]
    for holder in fresh:
        if holder.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            _acquired.append(holder)


def _after_fork() -> None:
    _registering.release()
    while _acquired:
        _acquired.pop().release()
    _forking.release()


def _is_importing() -> bool:
    """Return whether another thread is finding or executing a module that a child may need."""
    # Python keeps a lock for each module while it is imported, from before it is in `sys.modules`.
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    own = threading.get_ident()
    for name, reference in list(locks.items()):
        lock = reference() if name.partition(".")[0] in _PACKAGES else None
        if lock is not None and getattr(lock, "owner", None) != own:
            return True
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _PACKAGES:
            spec = getattr(module, "__spec__", None)
            if getattr(spec, "_initializing", False):
                return True
    return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
