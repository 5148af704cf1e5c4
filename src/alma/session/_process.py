"""Whether the process that held a session is still there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

_DEAD_STATES = ("Z", "X")
"""It ended, and only its parent has not asked how yet."""
_NEVER = "-"


def mark() -> dict[str, Any]:
    """This process, so that another on the same machine can tell whether it is gone."""
    return {"machine": _machine(), "pid": os.getpid(), "began": _began(os.getpid())}


def gone(held: Mapping[str, Any] | None) -> bool:
    """True only when it is certain: another machine's processes cannot be seen from here."""
    # On Windows signal 0 would end the process that is asked about.
    if not held or held.get("machine") != _machine() or not isinstance(held.get("pid"), int) or os.name != "posix":
        return False
    try:
        os.kill(held["pid"], 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return _began(held["pid"]) not in ("", held.get("began"))


@lru_cache(maxsize=1)
def _machine() -> str:
    """A name that no other machine, start of the machine or container shares, where the system tells."""
    parts = [os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")]
    # Only Linux tells; elsewhere the name has to do.
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return "/".join(parts)


def _began(pid: int) -> str:
    """When it began, as the kernel counts: a number may be given to another process later. Empty: cannot be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name of the program stands in brackets and may hold spaces; the 22nd field is the start.
    fields = stat.rpartition(")")[2].split()
    if fields and fields[0] in _DEAD_STATES:
        return _NEVER
    return fields[19] if len(fields) > 19 else ""
