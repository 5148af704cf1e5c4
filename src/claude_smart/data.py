"""The commands about what is kept: project, status, usage, pause, resume, config, export, import, clear-all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from alma.engine.admit import key_of
from alma.engine.coding_sessions import find_mark
from alma.engine.context import Engine
from alma.engine.observations import OBSERVATION
from alma.engine.rules import AGENT, Teaching, teach
from alma.engine.transaction import Transaction, write
from alma.errors import ConfigError, NotFoundError, StorageError, ValidationError, unknown
from alma.files import write_atomic
from alma.hooks.drain import describe_dropped, describe_reader, drain, is_taken_in, read_journal
from alma.hooks.paths import DEFAULTS, DataDir, check_setting, list_own_files, read_settings
from alma.hooks.privacy import remove_private
from alma.hooks.project import (
    WorkingCopy,
    find_copy,
    forget_copies,
    join_projects,
    locate_project,
    read_copies,
    write_copy,
)
from alma.hooks.wake import ask_worker
from alma.models.budget import meter
from alma.text import digest
from alma.types.kinds import MemoryType
from alma.types.query import Where
from alma.types.record import LIVE, Status
from alma.types.rules import EVERYWHERE, LASTING, Reach, RuleSource
from alma.types.times import from_iso

from .desk import PATIENCE, Desk, ask_yes, count_noun, find_rules, plain_rule, require_person, stop_worker

_FORMAT = "claude-smart rules 1"
_MARKDOWN = (".md", ".mdc")
_GIT_SECONDS = 5.0


# -- project


def project(args: Namespace, desk: Desk) -> int:
    """Show the project of this folder, let it share another one's rules, or keep the two apart for good."""
    if args.share and args.separate:
        raise ValidationError("--share and --separate exclude each other")
    copy = find_copy(desk.place, locate_project(desk.folder), remember=bool(args.share or args.separate))
    if args.share:
        require_person("project --share")
        return _share_project(desk, copy, args.share)
    if args.separate:
        copy.asked = ""
        if copy.id:
            write_copy(desk.place, copy)
        desk.say(f"{copy.key} stays a project of its own.")
    similar = [] if args.separate else _find_similar(desk, copy)
    desk.say(f"project    {copy.key}\nfolder     {copy.path}\nremote     {copy.remote or 'none'}")
    for one in similar:
        desk.say(f"\nIt may be the same project as {one}; they are kept apart until you answer:")
        desk.say(f"  claude-smart project --share '{one}'    use one set of rules for both")
        desk.say("  claude-smart project --separate         keep them apart, and do not ask again")
    desk.tell({"project": copy.key, "path": copy.path, "remote": copy.remote, "root": copy.root, "similar": similar})
    return 0


def _find_similar(desk: Desk, copy: WorkingCopy) -> list[str]:
    """Return the projects that this working copy may belong to as well: it was seen so, or begins with one commit."""
    others = [one for one in read_copies(desk.place) if one.key != copy.key and not copy.is_named | one.is_named]
    root = copy.root or _find_root(copy) if others else ""
    same = [one.key for one in others if root and (one.root or _find_root(one)) == root]
    return list(dict.fromkeys([*filter(None, [copy.asked]), *same]))


def _find_root(copy: WorkingCopy) -> str:
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


def _share_project(desk: Desk, copy: WorkingCopy, other: str) -> int:
    """Move the rules of this project to the other one, and let its working copies belong to that from now on."""
    if other == copy.key:
        raise ValidationError(f"this folder belongs to {other} already")
    drain(desk.place, wait=PATIENCE)
    rules = Where(kinds={MemoryType.RULE, OBSERVATION, "tombstone"}, projects={copy.key})

    def move_rules(tx: Transaction) -> int:
        moved = [tx.update(one, project=other) for one in tx.scan(rules)]
        for one in moved:
            tx.add_history(one, "moved", f"from {copy.key}")
        return sum(one.kind == MemoryType.RULE for one in moved)

    with desk.memory() as memory:
        known = {one.key for one in read_copies(desk.place)}
        target = memory.engine(other)
        if other not in known and next(iter(target.store.scan(Where(projects={other}), 1)), None) is None:
            raise NotFoundError(
                f"there is no project {other!r}. Known: {', '.join(sorted(known - {copy.key})) or 'none'}"
            )
        count = write(target, move_rules)
    join_projects(desk.place, copy.key, other)
    desk.say(f"This folder belongs to {other} now; {count} rules were moved there.")
    desk.tell({"project": other, "moved": count})
    return 0


# -- status, usage


def status(args: Namespace, desk: Desk) -> int:
    """Show what is kept for this project, and whether it is learning."""
    state = _collect_state(desk)
    desk.tell(state)
    rules, reading = state["rules"], state["reading"]
    stopped = "paused everywhere" if state["paused_everywhere"] else "paused here" if state["paused"] else "learning"
    desk.say(f"project    {desk.project} ({stopped})")
    if state["question"]:
        desk.say(f"           perhaps the same as {state['question']}: claude-smart project")
    desk.say(
        f"rules      {rules['active']} active, {rules['candidate']} waiting for review, {rules['put_away']} archived"
    )
    desk.say(f"turns      {state['turns']} from {count_noun(state['sessions'], 'session')}")
    desk.say(f"journals   {state['journals']} ({_describe_size(state['journal_bytes'])}), {state['pending']} pending")
    desk.say(f"memory     {desk.place.db} ({_describe_size(state['db_bytes'])})")
    desk.say(f"worker     {state['worker']}")
    desk.say(f"reader     {describe_reading(reading)}")
    if reading["dropped"]:
        desk.say(f"           dropped by the checks: {describe_dropped(reading['dropped'])}")
    if reading["error"]:
        again = reading["next_try"] and f"; next attempt after {reading['next_try'][:16].replace('T', ' ')} UTC"
        desk.say(f"           last error: {reading['error']}{again or ''}")
    return 0


def describe_reading(reading: Mapping[str, Any]) -> str:
    """Return which reader is at work, and what it cost today, in one line."""
    if reading["reader"] == "local":
        return "local only (claude-smart config model on lets Claude read your corrections, too)"
    calls = f"{reading['calls_today']} of {reading['daily_calls']} calls today"
    waiting = f"{count_noun(reading['sessions_read'], 'session')} read, {reading['sessions_waiting']} waiting"
    return f"local + claude ({reading['model']}), {calls}, {waiting}"


def _collect_state(desk: Desk) -> dict[str, Any]:
    place = desk.place
    paused = read_paused(place)
    files = list_own_files(place, ".jsonl")
    worker = ask_worker(place, {"op": "status"}, 0.5)
    running = worker and f"running, pid {worker['pid']}, {_describe_size(int(worker.get('rss', 0)))}"
    state: dict[str, Any] = {
        "project": desk.project,
        "home": place.home,
        "question": find_copy(place, locate_project(desk.folder), remember=False).asked if desk.folder else "",
        "paused": desk.project in paused["projects"],
        "paused_everywhere": bool(paused["everywhere"]),
        "rules": {"active": 0, "candidate": 0, "put_away": 0},
        "turns": 0,
        "sessions": 0,
        "journals": len(files),
        "journal_bytes": sum(map(_measure_file, files)),
        "pending": len(files),
        "db_bytes": _measure_file(place.db) + _measure_file(f"{place.db}-wal"),
        "worker": running or "not running (not needed)",
        "model": read_settings(place).text("model"),
        "reading": describe_reader(place, None).plain(),
    }
    if os.path.exists(place.db):
        with desk.memory() as memory:
            engine = memory.engine(desk.project)
            for one in find_rules(engine):
                state["rules"][str(one.status) if one.status in LIVE else "put_away"] += 1
            for name, kind in (("turns", "turn"), ("sessions", "episode")):
                state[name] = sum(1 for _ in engine.store.scan(Where(kinds={kind}, projects={desk.project})))
            state["pending"] = sum(_is_pending(engine, path) for path in files)
            state["reading"] = describe_reader(place, memory).plain()
    return state


def find_pending(desk: Desk) -> list[str]:
    """Return the journals that were not taken in yet."""
    files = list_own_files(desk.place, ".jsonl")
    if not os.path.exists(desk.place.db):
        return files
    with desk.engine() as engine:
        return [path for path in files if _is_pending(engine, path)]


def _is_pending(engine: Engine, path: str) -> bool:
    try:
        journal = None if is_taken_in(engine, path) else read_journal(path)
    except FileNotFoundError:
        journal = None
    if journal is None:
        return False
    mark = find_mark(engine, journal.story.session)
    return mark.file != journal.file or mark.offset < journal.size


def _measure_file(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _describe_size(number: int) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number} {unit}"
        number //= 1000
    return f"{number} GB"


def usage(args: Namespace, desk: Desk) -> int:
    """Show what the model was asked for, by day; nothing unless it was allowed."""
    days: list[Any] = []
    if os.path.exists(desk.place.db):
        with desk.memory() as memory:
            days = list(meter(memory.engine(EVERYWHERE)))
    settings = read_settings(desk.place).values
    desk.say(f"model: {settings['model']} ({settings['model_name']}), at most {settings['daily_calls']} calls a day")
    for line in days or ["No model was ever called."]:
        desk.say(f"{line}")
    limits = {name: settings[name] for name in ("model", "daily_calls")}
    desk.tell({**limits, "days": [asdict(day) for day in days]})
    return 0


# -- pause, resume, config


def pause(args: Namespace, desk: Desk) -> int:
    """Record and show nothing, in this project or everywhere."""
    where = "everywhere" if args.everywhere else f"in {desk.project}"
    desk.tell(_set_paused(args, desk, to=True))
    desk.say(f"Paused {where}: nothing is recorded and nothing is shown to the agent until `claude-smart resume`.")
    return 0


def resume(args: Namespace, desk: Desk) -> int:
    """Go on recording and showing."""
    paused = _set_paused(args, desk, to=False)
    still = "It is still paused everywhere: claude-smart resume --everywhere"
    desk.say(still if paused["everywhere"] else "Learning again.")
    desk.tell(paused)
    return 0


def read_paused(place: DataDir) -> dict[str, Any]:
    paused = {"everywhere": False, "projects": [], **_read_object(place.paused)}
    if not isinstance(paused["projects"], list):
        raise ConfigError(f"{place.paused}: `projects` must be a list; mend it or remove it")
    return paused


def _set_paused(args: Namespace, desk: Desk, *, to: bool) -> dict[str, Any]:
    paused = read_paused(desk.place)
    if args.everywhere:
        paused |= {"everywhere": to, "projects": paused["projects"] if to else []}
    else:
        others = [one for one in paused["projects"] if one != desk.project]
        paused["projects"] = [*others, desk.project] if to else others
    _write_object(desk.place.paused, paused)
    return paused


def config(args: Namespace, desk: Desk) -> int:
    """Show the settings, or change one."""
    name, value = args.name, args.value
    if name is not None and name not in DEFAULTS:
        raise ValidationError(unknown("setting", name, list(DEFAULTS)))
    if value is not None:
        if (name, value) == ("model", "on"):
            require_person("letting Claude read your corrections")
        is_number = isinstance(DEFAULTS[name], int) and value.isascii() and value.isdigit()
        checked = int(value[:20]) if is_number else value
        if problem := check_setting(name, checked):
            raise ConfigError(problem.removeprefix("config.json: ").rpartition(";")[0] or problem)
        _write_object(desk.place.config, {**_read_object(desk.place.config), name: checked})
    settings = read_settings(desk.place).values
    if name is not None:
        desk.say(str(settings[name]) if value is None else f"{name} is now {settings[name]}")
    else:
        for name, value in settings.items():
            desk.say(f"{name:20} {value}")
    desk.tell(settings)
    return 0


def _read_object(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); mend it or remove it") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must hold a JSON object; mend it or remove it")
    return value


def _write_object(path: str, value: Mapping[str, Any]) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    _write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _write_text(path: str, text: str) -> None:
    try:
        write_atomic(path, text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


# -- clear-all


def clear_all(args: Namespace, desk: Desk) -> int:
    """Erase what was learned and recorded: of this project, or everything."""
    everything = "everything claude-smart has learned and recorded"
    what = everything if args.everywhere else f"all that was learned in {desk.project}"
    if not args.yes:
        if not os.isatty(0):
            raise ValidationError(f"this erases {what}; say --yes to do it")
        print(f"Erase {what}? It cannot be undone. [y/N] ", end="", file=sys.stderr, flush=True)
        if not ask_yes(""):
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
    for path in list_own_files(desk.place, ".jsonl", ".done"):
        journal = read_journal(path)
        if journal is not None and journal.story.project == desk.project:
            for name in (path, os.path.splitext(path)[0] + ".shown"):
                if os.path.exists(name):
                    os.remove(name)
    forget_copies(desk.place, desk.project)
    if not os.path.exists(desk.place.db):
        return 0
    with desk.memory() as memory:
        store = memory.engine(desk.project).store
        erased = store.delete([record.id for record in store.scan(Where(projects={desk.project}))])
        memory.alma.vacuum()
        return erased


def _erase_everything(desk: Desk) -> int:
    """Also where the store cannot be read any more. The folder of journals may hold other things: they stay."""
    erased = 0
    try:
        if os.path.exists(desk.place.db):
            with desk.memory() as memory:
                erased = sum(1 for _ in memory.alma.engine.store.scan(Where()))
    except StorageError:
        pass
    gone = [desk.place.db + ending for ending in ("", "-wal", "-shm", "-journal")]
    for path in [*gone, desk.place.cleared, *list_own_files(desk.place)]:
        if os.path.exists(path):
            os.remove(path)
            erased = erased or 1
    forget_copies(desk.place)
    return erased


# -- export, import


def export(args: Namespace, desk: Desk) -> int:
    """Write the rules of this project to a file, or print them."""
    if args.file is not None and args.file.lower().endswith(_MARKDOWN):
        return _export_markdown(args, desk)
    with desk.engine() as engine:
        rules = [plain_rule(one) for one in find_rules(engine, *LIVE) if not one.session]
    for one in rules:
        del one["session"]
    about = {"format": _FORMAT, "project": desk.project}
    if args.file in (None, "-"):
        desk.tell({**about, "rules": rules})
        for line in (about, *rules):
            # ASCII only: a pipe may not take every character.
            desk.say(json.dumps(line))
        return 0
    _write_text(args.file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (about, *rules)))
    desk.say(f"Wrote {count_noun(len(rules), 'rule')} to {args.file}")
    desk.tell({"file": args.file, "rules": len(rules)})
    return 0


def _export_markdown(args: Namespace, desk: Desk) -> int:
    from alma.rulefiles import TARGETS
    from alma.rulefiles import export as write_rules

    name = PurePath(args.file).name
    usual = "cursor" if name.endswith(".mdc") else "claude-md" if name.lower().startswith("claude") else "agents-md"
    target = next((to for to, one in TARGETS.items() if PurePath(one.path).name == name), usual)
    options = {"everywhere": args.everywhere, "force": args.force, "check": args.dry_run, "remove": args.remove}
    with desk.memory() as memory:
        report = write_rules(memory.alma, target, args.file, project_id=desk.project, **options)
    if args.dry_run:
        desk.say(report.diff or f"{report.path} is up to date.")
    elif args.remove:
        desk.say(f"Took the rules out of {report.path}; they are shown to sessions by claude-smart again.")
    else:
        desk.say(f"{report.path} holds {count_noun(report.items, 'rule')} ({report.size} of {report.limit}).")
        desk.say(f"Undo: claude-smart export {args.file} --remove. After editing it: claude-smart import {args.file}")
    for one in () if args.remove else report.left_out:
        desk.say(f"- left out, because {one.why}: {one.text}")
    left_out = [{"id": one.memory_id, "rule": one.text, "why": one.why} for one in report.left_out]
    state = {name: getattr(report, name) for name in ("changed", "written", "diff")}
    desk.tell({"file": report.path, "rules": report.items, **state, "left_out": left_out})
    return 0


def import_(args: Namespace, desk: Desk) -> int:
    """Take in the rules of a file."""
    require_person("import")
    if args.file.lower().endswith(_MARKDOWN):
        return _import_markdown(args, desk)
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if args.file == "-" else _read_text(args.file)
    given = list(_read_lines(text, "standard input" if args.file == "-" else args.file))
    keys = {one.id: key_of(MemoryType.RULE, AGENT, "", _list_parts(one)) for one in given}
    with desk.engine() as engine:
        rules = find_rules(engine)
        known = {_fold_parts(one.body) for one in rules if one.status in LIVE}
        # A file that still has a rule that was forgotten here does not bring it back.
        gone = set(Transaction(engine).find_tombstones(keys.values())) | {
            one.key for one in rules if one.body.get("put_away")
        }
        forgotten = [one for one in given if keys[one.id] in gone]
        fresh = [one for one in given if keys[one.id] not in gone and _fold_parts(_list_parts(one)) not in known]
        taught = teach(engine, fresh) if fresh else []
    new = sum(one.verb == "made" for one in taught)
    desk.say(f"{new} of {len(given)} rules were new.")
    for one in forgotten:
        desk.say(f"- left out, because it was forgotten here: {one.rule} (claude-smart tag keeps it anew)")
    desk.tell({"rules": len(given), "new": new, "forgotten": [one.rule for one in forgotten]})
    return 0


def _import_markdown(args: Namespace, desk: Desk) -> int:
    from alma.rulefiles import import_ as read_rules

    options = {name: getattr(args, name) for name in ("all", "retire", "prefer", "dry_run")}
    with desk.memory() as memory:
        report = read_rules(memory.alma, args.file, project_id=desk.project, **options)
    if report.diff:
        desk.say(report.diff)
    done = sum(one.done for one in report.changes)
    desk.say(f"{report.path}: {count_noun(done, 'change')}{' to take over' if args.dry_run else ''}")
    if any(one.done for one in report.changed) and not args.dry_run:
        desk.say("Undo a change: claude-smart restore ID (claude-smart show lists the ids)")
    changes = [
        {"verb": str(one.verb), "id": one.memory_id, "before": one.before, "after": one.after, "done": one.done}
        for one in report.changes
    ]
    desk.tell({"file": report.path, "changes": changes, "unchanged": report.unchanged, "dry_run": report.dry_run})
    return 1 if report.conflicts and args.prefer is None else 0


def _list_parts(one: Teaching) -> dict[str, Any]:
    return {"rule": one.rule, "trigger": one.trigger, "why": one.why, "reach": one.reach}


def _fold_parts(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what makes a rule in a file equal to one in the memory."""
    return tuple(" ".join(str(body[name]).split()) for name in ("rule", "trigger", "why", "reach"))


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"{path} cannot be read: {error}") from error


def _read_lines(text: str, path: str) -> Iterator[Teaching]:
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
            yield _read_rule(value, f"{path}, line {number}")
        elif value["format"] != _FORMAT:
            raise ValidationError(f"{path}, line {number}: this is {value['format']!r}; {_FORMAT!r} can be read")


def _read_rule(value: dict[str, Any], where: str) -> Teaching:
    rule = value.get("rule")
    if not isinstance(rule, str) or not (rule := remove_private(rule)).strip():
        raise ValidationError(f"{where}: `rule` must be a text that says what to do")
    reach, status = value.get("reach", "project"), value.get("status", "active")
    if reach not in LASTING:
        raise ValidationError(f"{where}: {unknown('reach', reach, LASTING)}")
    if status not in LIVE:
        raise ValidationError(f"{where}: {unknown('status', status, LIVE)}")
    try:
        at = None if value.get("created_at") is None else from_iso(str(value["created_at"]))
    except ValueError:
        raise ValidationError(f"{where}: created_at must be a time such as 2026-05-01T12:00:00+00:00") from None
    words: dict[str, Any] = {name: str(value.get(name) or "") for name in ("trigger", "why", "said")}
    lists = {name: value[name] for name in ("prefer", "avoid") if isinstance(value.get(name), list)}
    words |= {name: tuple(map(str, names)) for name, names in lists.items()}
    return Teaching(
        id=f"imp:{digest(rule, reach, size=12)}",
        rule=rule,
        reach=Reach(reach),
        source=RuleSource.IMPORT,
        sure=status == Status.ACTIVE,
        at=at,
        **words,
    )
