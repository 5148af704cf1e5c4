"""`claude-smart project`: which project a working copy belongs to, and a person's answer where that is in doubt."""

from __future__ import annotations

import os
import subprocess
from argparse import Namespace
from dataclasses import replace

from alma.engine.admit import change, revise
from alma.engine.context import Engine
from alma.engine.observations import OBSERVATION
from alma.engine.transaction import commit
from alma.errors import NotFoundError, ValidationError
from alma.hooks.drain import drain
from alma.hooks.project import WorkingCopy as Copy
from alma.hooks.project import find_copy, join_projects, read_copies, write_copy
from alma.hooks.project import locate_project as locate
from alma.types.kinds import MemoryType
from alma.types.query import Where
from alma.types.record import Record

from .desk import PATIENCE, Desk, require_person

_GIT_SECONDS = 5.0


def project(args: Namespace, desk: Desk) -> int:
    """Show the project of this folder, let it share another one's rules, or keep the two apart for good."""
    if args.share and args.separate:
        raise ValidationError("--share and --separate exclude each other")
    copy = find_copy(desk.place, locate(desk.folder), remember=bool(args.share or args.separate))
    if args.share:
        require_person("project --share")
        return _share(desk, copy, args.share)
    if args.separate:
        copy.asked = ""
        if copy.id:
            write_copy(desk.place, copy)
        desk.say(f"{copy.key} stays a project of its own.")
    similar = [] if args.separate else find_similar(desk, copy)
    desk.say(f"project    {copy.key}")
    desk.say(f"folder     {copy.path}")
    desk.say(f"remote     {copy.remote or 'none'}")
    for one in similar:
        desk.say(f"\nIt may be the same project as {one}; they are kept apart until you answer:")
        desk.say(f"  claude-smart project --share '{one}'    use one set of rules for both")
        desk.say("  claude-smart project --separate         keep them apart, and do not ask again")
    desk.tell({"project": copy.key, "path": copy.path, "remote": copy.remote, "root": copy.root, "similar": similar})
    return 0


def find_similar(desk: Desk, copy: Copy) -> list[str]:
    """Return the projects that this working copy may belong to as well: it was seen so, or begins with one commit."""
    others = [one for one in read_copies(desk.place) if one.key != copy.key and not copy.is_named | one.is_named]
    root = copy.root or find_root(copy) if others else ""
    same = [one.key for one in others if root and (one.root or find_root(one)) == root]
    return list(dict.fromkeys([*filter(None, [copy.asked]), *same]))


def find_root(copy: Copy) -> str:
    """Return the first commit of a clone, asked of git; empty when there is none or git cannot say in time."""
    if not os.path.isdir(copy.path):
        return ""
    command = ["git", f"--git-dir={copy.path}", "rev-list", "--max-parents=0", "HEAD"]
    environ = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS, env=environ, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return " ".join(sorted(done.stdout.split())) if done.returncode == 0 else ""


def _share(desk: Desk, copy: Copy, other: str) -> int:
    """Move the rules of this project to the other one, and let its working copies belong to that from now on."""
    if other == copy.key:
        raise ValidationError(f"this folder belongs to {other} already")
    drain(desk.place, wait=PATIENCE)
    with desk.memory() as memory:
        known = {one.key for one in read_copies(desk.place)}
        target = memory.engine(other)
        if other not in known and next(iter(target.store.scan(Where(projects={other}), 1)), None) is None:
            raise NotFoundError(
                f"there is no project {other!r}. Known: {', '.join(sorted(known - {copy.key})) or 'none'}"
            )
        moved = move_rules(memory.engine(copy.key), other)
    join_projects(desk.place, copy.key, other)
    desk.say(f"This folder belongs to {other} now; {moved} rules were moved there.")
    desk.tell({"project": other, "moved": moved})
    return 0


def move_rules(engine: Engine, other: str) -> int:
    """Move all rules and observations of a project to another one; return how many."""
    where = Where(kinds={MemoryType.RULE, OBSERVATION, "tombstone"}, projects={engine.project})

    def attempt() -> tuple[int, list[Record]]:
        home = replace(engine, project=other)
        moved = [revise(home, one, project=other) for one in engine.store.scan(where)]
        history = [change(home, one, "moved", f"from {engine.project}") for one in moved]
        return sum(one.kind == MemoryType.RULE for one in moved), [*moved, *history]

    return commit(engine, attempt)
