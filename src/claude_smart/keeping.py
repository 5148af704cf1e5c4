"""The commands about what is kept: status, usage, pause, resume, config, clear-all."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from alma.engine.coding_sessions import mark_of
from alma.engine.context import Engine
from alma.errors import StorageError, ValidationError, unknown
from alma.hooks.drain import is_taken_in, read_journal
from alma.hooks.identity import find_copy, forget_copies
from alma.hooks.place import own_files
from alma.hooks.project import locate
from alma.hooks.reading import describe_dropped, describe_reader
from alma.hooks.settings import DEFAULTS
from alma.types.query import Where
from alma.types.record import Status
from alma.types.rules import EVERYWHERE

from . import desk as desks
from .desk import Desk, require_person, rules, stop_worker
from .rules import count_noun

# -- status


def status(args: Namespace, desk: Desk) -> int:
    state = _state(desk)
    desk.tell(state)
    held = state["rules"]
    stopped = "paused everywhere" if state["paused_everywhere"] else "paused here" if state["paused"] else "learning"
    desk.say(f"project    {desk.project} ({stopped})")
    if state["question"]:
        desk.say(f"           perhaps the same as {state['question']}: claude-smart project")
    desk.say(f"rules      {held['active']} active, {held['candidate']} waiting for review, {held['put_away']} archived")
    desk.say(f"turns      {state['turns']} from {count_noun(state['sessions'], 'session')}")
    desk.say(f"journals   {state['journals']} ({_size(state['journal_bytes'])}), {state['pending']} pending")
    desk.say(f"memory     {desk.place.db} ({_size(state['db_bytes'])})")
    desk.say(f"worker     {state['worker']}")
    reading = state["reading"]
    desk.say(f"reader     {describe_reading(reading)}")
    if reading["dropped"]:
        desk.say(f"           dropped by the checks: {describe_dropped(reading['dropped'])}")
    if reading["error"]:
        desk.say(f"           last error: {reading['error']}{_describe_next_try(reading)}")
    return 0


def describe_reading(reading: Mapping[str, Any]) -> str:
    """Return which reader is at work, and what it cost today, in one line."""
    if reading["reader"] == "local":
        return "local only (claude-smart config model on lets Claude read your corrections, too)"
    calls = f"{reading['calls_today']} of {reading['daily_calls']} calls today"
    waiting = f"{count_noun(reading['sessions_read'], 'session')} read, {reading['sessions_waiting']} waiting"
    return f"local + claude ({reading['model']}), {calls}, {waiting}"


def _describe_next_try(reading: Mapping[str, Any]) -> str:
    return f"; next attempt after {reading['next_try'][:16].replace('T', ' ')} UTC" if reading["next_try"] else ""


def _state(desk: Desk) -> dict[str, Any]:
    place = desk.place
    stop = desks.paused(place)
    files = own_files(place, ".jsonl")
    state: dict[str, Any] = {
        "project": desk.project,
        "home": place.home,
        "question": find_copy(place, locate(desk.folder), remember=False).asked if desk.folder else "",
        "paused": desk.project in stop["projects"],
        "paused_everywhere": bool(stop["everywhere"]),
        "rules": {"active": 0, "candidate": 0, "put_away": 0},
        "turns": 0,
        "sessions": 0,
        "journals": len(files),
        "journal_bytes": sum(map(_bytes, files)),
        "pending": len(files),
        "db_bytes": _bytes(place.db) + _bytes(f"{place.db}-wal"),
        "worker": _worker(desk),
        "model": desks.settings(place)["model"],
        "reading": describe_reader(place, None).plain(),
    }
    return {**state, **_held(desk, files)} if os.path.exists(place.db) else state


def _held(desk: Desk, files: list[str]) -> dict[str, Any]:
    with desk.memory() as memory:
        engine = desk.engine(memory)
        found = rules(engine)
        tally = {
            "active": sum(one.status is Status.ACTIVE for one in found),
            "candidate": sum(one.status is Status.CANDIDATE for one in found),
        }

        def count(kind: str) -> int:
            return sum(1 for _ in engine.store.scan(Where(kinds={kind}, projects={desk.project})))

        return {
            "rules": {**tally, "put_away": len(found) - sum(tally.values())},
            "turns": count("turn"),
            "sessions": count("episode"),
            "pending": sum(_pending(engine, path) for path in files),
            "reading": describe_reader(desk.place, memory).plain(),
        }


def pending(desk: Desk) -> list[str]:
    """The journals that were not taken in yet."""
    files = own_files(desk.place, ".jsonl")
    if not os.path.exists(desk.place.db):
        return files
    with desk.memory() as memory:
        return [path for path in files if _pending(desk.engine(memory), path)]


def _pending(engine: Engine, path: str) -> bool:
    try:
        read = None if is_taken_in(engine, path) else read_journal(path)
    except FileNotFoundError:
        return False
    if read is None:
        return False
    mark = mark_of(engine, read.story.session)
    return mark.file != read.file or mark.offset < read.size


def _worker(desk: Desk) -> str:
    from alma.hooks.wake import ask

    told = ask(desk.place, {"op": "status"}, 0.5)
    return f"running, pid {told['pid']}, {_size(int(told.get('rss', 0)))}" if told else "not running (not needed)"


def _bytes(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _size(number: int) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number} {unit}"
        number //= 1000
    return f"{number} GB"


# -- pause, resume, config


def pause(args: Namespace, desk: Desk) -> int:
    desks.set_paused(desk.place, None if args.everywhere else desk.project, True)
    where = "everywhere" if args.everywhere else f"in {desk.project}"
    desk.say(f"Paused {where}: nothing is recorded and nothing is shown to the agent until `claude-smart resume`.")
    desk.tell(desks.paused(desk.place))
    return 0


def resume(args: Namespace, desk: Desk) -> int:
    held = desks.set_paused(desk.place, None if args.everywhere else desk.project, False)
    if held["everywhere"]:
        desk.say("It is still paused everywhere: claude-smart resume --everywhere")
    else:
        desk.say("Learning again.")
    desk.tell(desks.paused(desk.place))
    return 0


def config(args: Namespace, desk: Desk) -> int:
    if args.name is None:
        for name, value in desks.settings(desk.place).items():
            desk.say(f"{name:20} {value}")
    elif args.value is None:
        if args.name not in DEFAULTS:
            raise ValidationError(unknown("setting", args.name, list(DEFAULTS)))
        desk.say(str(desks.settings(desk.place)[args.name]))
    else:
        if (args.name, args.value) == ("model", "on"):
            require_person("letting Claude read your corrections")
        desks.set_setting(desk.place, args.name, args.value)
        desk.say(f"{args.name} is now {desks.settings(desk.place)[args.name]}")
    desk.tell(desks.settings(desk.place))
    return 0


# -- clear-all


def clear_all(args: Namespace, desk: Desk) -> int:
    """Erase what was learned and recorded: of this project, or everything."""
    what = (
        "everything claude-smart has learned and recorded"
        if args.everywhere
        else f"all that was learned in {desk.project}"
    )
    if not args.yes:
        if not os.isatty(0):
            raise ValidationError(f"this erases {what}; say --yes to do it")
        print(f"Erase {what}? It cannot be undone. [y/N] ", end="", file=sys.stderr, flush=True)
        if input().strip().lower() not in ("y", "yes"):
            desk.say("Nothing was erased.")
            return 1
    if args.everywhere:
        # It has the store open that is about to go.
        stop_worker(desk.place)
    erased = 0
    if os.path.isdir(desk.place.home):
        with desk.alone():
            erased = _erase_everything(desk) if args.everywhere else _erase_project(desk)
    desk.say(f"Erased {count_noun(erased, 'record')}." if erased else "There was nothing to erase.")
    desk.tell({"erased": erased})
    return 0


def _erase_project(desk: Desk) -> int:
    for path in own_files(desk.place, ".jsonl", ".done"):
        read = read_journal(path)
        if read is not None and read.story.project == desk.project:
            for name in (path, os.path.splitext(path)[0] + ".shown"):
                if os.path.exists(name):
                    os.remove(name)
    forget_copies(desk.place, desk.project)
    if not os.path.exists(desk.place.db):
        return 0
    with desk.memory() as memory:
        store = desk.engine(memory).store
        ids = [record.id for record in store.scan(Where(projects={desk.project}))]
        erased = store.delete(ids)
        memory.alma.vacuum()
        return erased


def _erase_everything(desk: Desk) -> int:
    """Also where the store cannot be read any more. The folder of journals may hold other things: they stay."""
    erased = _records(desk)
    gone = [desk.place.db + ending for ending in ("", "-wal", "-shm", "-journal")]
    for path in [*gone, desk.place.cleared, *own_files(desk.place)]:
        if os.path.exists(path):
            os.remove(path)
            erased = erased or 1
    forget_copies(desk.place)
    return erased


def _records(desk: Desk) -> int:
    if not os.path.exists(desk.place.db):
        return 0
    try:
        with desk.memory() as memory:
            return sum(1 for _ in memory.alma.engine.store.scan(Where()))
    except StorageError:
        return 0


def usage(args: Namespace, desk: Desk) -> int:
    """What the model was asked for, by day; nothing unless it was allowed."""
    from alma.models.budget import meter

    days: list[Any] = []
    if os.path.exists(desk.place.db):
        with desk.memory() as memory:
            days = list(meter(memory.engine(EVERYWHERE)))
    settings = desks.settings(desk.place)
    desk.say(f"model: {settings['model']} ({settings['model_name']}), at most {settings['daily_calls']} calls a day")
    for day in days:
        desk.say(f"{day}")
    if not days:
        desk.say("No model was ever called.")
    desk.tell(
        {"model": settings["model"], "daily_calls": settings["daily_calls"], "days": [asdict(day) for day in days]}
    )
    return 0
