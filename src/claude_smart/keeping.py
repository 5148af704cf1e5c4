"""The commands about what is kept: status, usage, pause, resume, config, export, import, clear-all."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from alma.engine import keep as keeping
from alma.engine.admit import commit, key_of
from alma.engine.rules import AGENT, Teaching, teaching
from alma.engine.tombstones import buried
from alma.errors import BusyError, NotFoundError, StorageError, ValidationError, unknown
from alma.hooks.drain import is_taken_in
from alma.hooks.identity import find_copy, forget_copies
from alma.hooks.locks import held as held_lock
from alma.hooks.place import own_files
from alma.hooks.privacy import public
from alma.hooks.project import locate
from alma.hooks.reading import describe_dropped, describe_reader
from alma.hooks.settings import DEFAULTS
from alma.types.kinds import MemoryType
from alma.types.query import Where
from alma.types.record import Record, Status
from alma.types.rules import EVERYWHERE, Reach, RuleSource
from alma.types.times import from_iso

from . import desk as desks
from .desk import Desk, require_person, rules, shown, stop_worker

_FORMAT = "claude-smart rules 1"
_PATIENCE = 20.0


# -- status


def status(args: Namespace, desk: Desk) -> int:
    state = _state(desk)
    desk.tell(state)
    held = state["rules"]
    stopped = "paused everywhere" if state["paused_everywhere"] else "paused here" if state["paused"] else "learning"
    desk.say(f"project    {desk.project} ({stopped})")
    if state["question"]:
        desk.say(f"           perhaps the same as {state['question']}: claude-smart project")
    desk.say(f"rules      {held['active']} active, {held['candidate']} waiting for review, {held['put_away']} put away")
    desk.say(f"turns      {state['turns']} of {state['sessions']} sessions kept")
    desk.say(f"journals   {state['journals']} ({_size(state['journal_bytes'])}), {state['pending']} not taken in yet")
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
    waiting = f"{reading['sessions_read']} sessions read, {reading['sessions_waiting']} waiting"
    return f"local + claude ({reading['model']}), {calls}, {waiting}"


def _describe_next_try(reading: Mapping[str, Any]) -> str:
    return f"; tried again from {reading['next_try'][:16]} UTC on" if reading["next_try"] else ""


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


def _pending(engine: Any, path: str) -> bool:
    from alma.engine.capture.events import parse

    try:
        if is_taken_in(engine, path):
            return False
        with open(path, "rb") as file:
            found, _ = parse(file.read())
    except FileNotFoundError:
        return False
    if not found:
        return False
    mark = keeping.mark_of(engine, found[0].session)
    # Without its first line it has no name, as in its mark.
    name = next((event.id for event in found if event.name == "Journal"), "")
    return mark.file != name or mark.offset < found[-1].offset


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


# -- export, import


def export(args: Namespace, desk: Desk) -> int:
    with desk.memory() as memory:
        engine = desk.engine(memory)
        found = [one for one in rules(engine, Status.ACTIVE, Status.CANDIDATE) if not one.session]
    about = {"format": _FORMAT, "project": desk.project}
    if args.file in (None, "-"):
        desk.tell({**about, "rules": [_told(one) for one in found]})
        for line in (about, *map(_told, found)):
            # Without a sign that some pipe could not take.
            desk.say(json.dumps(line))
        return 0
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (about, *map(_told, found)))
    desks.write_text(args.file, text)
    desk.say(f"Wrote {len(found)} rules to {args.file}")
    desk.tell({"file": args.file, "rules": len(found)})
    return 0


def _told(record: Record) -> dict[str, Any]:
    told = shown(record)
    return {name: value for name, value in told.items() if name not in ("session",)}


def import_(args: Namespace, desk: Desk) -> int:
    require_person("import")
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if args.file == "-" else _text(args.file)
    given = list(_teachings(text, "standard input" if args.file == "-" else args.file))
    with desk.memory() as memory:
        engine = desk.engine(memory)
        held = {_content(one.body) for one in rules(engine, Status.ACTIVE, Status.CANDIDATE)}
        # A file that still has a rule that was forgotten here does not bring it back.
        gone = buried(engine, map(_key, given))
        forgotten = [one for one in given if _key(one) in gone]
        fresh = [one for one in given if _key(one) not in gone and _content(_body(one)) not in held]
        taught = commit(engine, teaching(engine, fresh)) if fresh else []
    new = sum(one.verb == "made" for one in taught)
    desk.say(f"{new} of {len(given)} rules were new.")
    for one in forgotten:
        desk.say(f"- left out, because it was forgotten here: {one.rule} (claude-smart tag keeps it anew)")
    desk.tell({"rules": len(given), "new": new, "forgotten": [one.rule for one in forgotten]})
    return 0


def _content(body: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes a rule in a file the same as one that is held: told again, it teaches nothing."""
    return tuple(" ".join(str(body[name]).split()) for name in ("rule", "trigger", "why", "reach"))


def _body(one: Teaching) -> dict[str, Any]:
    return {"rule": one.rule, "trigger": one.trigger, "why": one.why, "reach": one.reach}


def _key(one: Teaching) -> str:
    return key_of(MemoryType.RULE, AGENT, "", _body(one))


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"{path} cannot be read: {error}") from error


def _teachings(text: str, path: str) -> Iterator[Teaching]:
    """All lines are looked at before the first is kept."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValidationError(f"{path}, line {number}: not JSON ({error})") from error
        if not isinstance(value, dict):
            raise ValidationError(f"{path}, line {number}: a rule is a JSON object")
        if "format" not in value:
            yield _teaching(value, f"{path}, line {number}")
        elif value["format"] != _FORMAT:
            raise ValidationError(f"{path}, line {number}: this is {value['format']!r}; {_FORMAT!r} can be read")


def _teaching(value: dict[str, Any], where: str) -> Teaching:
    rule = value.get("rule")
    if not isinstance(rule, str) or not (rule := public(rule)).strip():
        raise ValidationError(f"{where}: `rule` must be a text that says what to do")
    reach = value.get("reach", "project")
    if reach not in (Reach.PROJECT, Reach.ALWAYS):
        raise ValidationError(f"{where}: {unknown('reach', reach, [Reach.PROJECT, Reach.ALWAYS])}")
    status = value.get("status", "active")
    if status not in (Status.ACTIVE, Status.CANDIDATE):
        raise ValidationError(f"{where}: {unknown('status', status, [Status.ACTIVE, Status.CANDIDATE])}")
    digest = hashlib.blake2b(f"{rule}\x1f{reach}".encode("utf-8", "replace"), digest_size=12).hexdigest()
    return Teaching(
        id=f"imp:{digest}",
        rule=rule,
        trigger=str(value.get("trigger") or ""),
        why=str(value.get("why") or ""),
        reach=Reach(reach),
        source=RuleSource.IMPORT,
        said=str(value.get("said") or ""),
        prefer=_names(value, "prefer"),
        avoid=_names(value, "avoid"),
        sure=status == Status.ACTIVE,
        at=_moment(value.get("created_at"), where),
    )


def _names(value: dict[str, Any], name: str) -> tuple[str, ...]:
    given = value.get(name)
    return tuple(map(str, given)) if isinstance(given, list) else ()


def _moment(given: object, where: str) -> Any:
    if given is None:
        return None
    try:
        return from_iso(str(given))
    except ValueError:
        raise ValidationError(f"{where}: created_at must be a time such as 2026-05-01T12:00:00+00:00") from None


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
    erased = _alone(desk, _erase_everything if args.everywhere else _erase_project)
    desk.say(f"Erased {_counted(erased)}." if erased else "There was nothing to erase.")
    desk.tell({"erased": erased})
    return 0


def _counted(records: int) -> str:
    return f"{records} record{'s' * (records != 1)}"


def _alone(desk: Desk, erase: Callable[[Desk], int]) -> int:
    """While nobody takes anything in: what is half read would come back."""
    if not os.path.isdir(desk.place.home):
        return 0
    lock = held_lock(desk.place.drain_lock, _PATIENCE)
    if lock is None:
        raise BusyError("another process is taking in what was recorded; try again in a moment")
    with lock:
        return erase(desk)


def _erase_project(desk: Desk) -> int:
    for path in own_files(desk.place, ".jsonl", ".done"):
        if _project_of(path) == desk.project:
            _remove(path)
    forget_copies(desk.place, desk.project)
    if not os.path.exists(desk.place.db):
        return 0
    with desk.memory() as memory:
        store = desk.engine(memory).store
        ids = [record.id for record in store.scan(Where(projects={desk.project}))]
        erased = store.delete(ids)
        memory.alma.vacuum()
        return erased


def _project_of(path: str) -> str:
    from alma.engine.capture.events import parse

    with open(path, "rb") as file:
        found, _ = parse(file.read())
    return next((event.project for event in found if event.project), "")


def _remove(path: str) -> None:
    for name in (path, os.path.splitext(path)[0] + ".shown"):
        if os.path.exists(name):
            os.remove(name)


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
