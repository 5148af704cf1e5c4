"""`export` and `import`: rules as JSON lines, or as a marked block of CLAUDE.md, AGENTS.md and similar files."""

from __future__ import annotations

import hashlib
import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from alma.engine.admit import key_of
from alma.engine.rules import AGENT, Teaching, teaching
from alma.engine.transaction import Transaction, commit
from alma.errors import NotFoundError, ValidationError, unknown
from alma.hooks.privacy import public
from alma.types.kinds import MemoryType
from alma.types.record import LIVE, Record, Status
from alma.types.rules import LASTING, Reach, RuleSource
from alma.types.times import from_iso

from . import desk as desks
from .desk import Desk, require_person, rules, shown
from .rules import count_noun

_FORMAT = "claude-smart rules 1"
_MARKDOWN = (".md", ".mdc")


def export(args: Namespace, desk: Desk) -> int:
    """Write the rules of this project to a file, or print them."""
    if args.file is not None and args.file.lower().endswith(_MARKDOWN):
        return _export_markdown(args, desk)
    with desk.memory() as memory:
        found = [one for one in rules(desk.engine(memory), *LIVE) if not one.session]
    about = {"format": _FORMAT, "project": desk.project}
    if args.file in (None, "-"):
        desk.tell({**about, "rules": [_plain(one) for one in found]})
        for line in (about, *map(_plain, found)):
            # ASCII only: a pipe may not take every character.
            desk.say(json.dumps(line))
        return 0
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (about, *map(_plain, found)))
    desks.write_text(args.file, text)
    desk.say(f"Wrote {count_noun(len(found), 'rule')} to {args.file}")
    desk.tell({"file": args.file, "rules": len(found)})
    return 0


def _plain(record: Record) -> dict[str, Any]:
    return {name: value for name, value in shown(record).items() if name != "session"}


def import_(args: Namespace, desk: Desk) -> int:
    """Take in the rules of a file."""
    require_person("import")
    if args.file.lower().endswith(_MARKDOWN):
        return _import_markdown(args, desk)
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if args.file == "-" else _read_text(args.file)
    given = list(_read_lines(text, "standard input" if args.file == "-" else args.file))
    with desk.memory() as memory:
        engine = desk.engine(memory)
        found = rules(engine)
        known = {_content(one.body) for one in found if one.status in LIVE}
        # A file that still has a rule that was forgotten here does not bring it back.
        gone = set(Transaction(engine).find_tombstones(map(_key, given))) | {
            one.key for one in found if one.body.get("put_away")
        }
        forgotten = [one for one in given if _key(one) in gone]
        fresh = [one for one in given if _key(one) not in gone and _content(_body(one)) not in known]
        taught = commit(engine, teaching(engine, fresh)) if fresh else []
    new = sum(one.verb == "made" for one in taught)
    desk.say(f"{new} of {len(given)} rules were new.")
    for one in forgotten:
        desk.say(f"- left out, because it was forgotten here: {one.rule} (claude-smart tag keeps it anew)")
    desk.tell({"rules": len(given), "new": new, "forgotten": [one.rule for one in forgotten]})
    return 0


# -- CLAUDE.md, AGENTS.md


def _find_target(file: str) -> str:
    """Return which agent's file this is, by its name."""
    from alma.rulefiles import TARGETS

    name = PurePath(file).name
    usual = next((to for to, one in TARGETS.items() if PurePath(one.path).name == name), "")
    if not usual and name.endswith(".mdc"):
        return "cursor"
    return usual or ("claude-md" if name.lower().startswith("claude") else "agents-md")


def _export_markdown(args: Namespace, desk: Desk) -> int:
    from alma.rulefiles import export as write_rules

    with desk.memory() as memory:
        report = write_rules(
            memory.alma,
            _find_target(args.file),
            args.file,
            project_id=desk.project,
            everywhere=args.everywhere,
            force=args.force,
            check=args.dry_run,
            remove=args.remove,
        )
    if args.dry_run:
        desk.say(report.diff or f"{report.path} is up to date.")
    elif args.remove:
        desk.say(f"Took the rules out of {report.path}; they are shown to sessions by claude-smart again.")
    else:
        desk.say(f"{report.path} holds {count_noun(report.items, 'rule')} ({report.size} of {report.limit}).")
        desk.say(f"Undo: claude-smart export {args.file} --remove. After editing it: claude-smart import {args.file}")
    for one in () if args.remove else report.left_out:
        desk.say(f"- left out, because {one.why}: {one.text}")
    desk.tell(
        {
            "file": report.path,
            "rules": report.items,
            "changed": report.changed,
            "written": report.written,
            "diff": report.diff,
            "left_out": [{"id": one.memory_id, "rule": one.text, "why": one.why} for one in report.left_out],
        }
    )
    return 0


def _import_markdown(args: Namespace, desk: Desk) -> int:
    from alma.rulefiles import import_ as read_rules

    with desk.memory() as memory:
        report = read_rules(
            memory.alma,
            args.file,
            project_id=desk.project,
            all=args.all,
            retire=args.retire,
            prefer=args.prefer,
            dry_run=args.dry_run,
        )
    if report.diff:
        desk.say(report.diff)
    done = sum(one.done for one in report.changes)
    desk.say(f"{report.path}: {count_noun(done, 'change')}{' to take over' if args.dry_run else ''}")
    if any(one.done for one in report.changed) and not args.dry_run:
        desk.say("Undo a change: claude-smart restore ID (claude-smart show lists the ids)")
    plain = [
        {"verb": str(one.verb), "id": one.memory_id, "before": one.before, "after": one.after, "done": one.done}
        for one in report.changes
    ]
    desk.tell({"file": report.path, "changes": plain, "unchanged": report.unchanged, "dry_run": report.dry_run})
    return 1 if report.conflicts and args.prefer is None else 0


# -- JSON lines


def _content(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what makes a rule in a file equal to one in the memory."""
    return tuple(" ".join(str(body[name]).split()) for name in ("rule", "trigger", "why", "reach"))


def _body(one: Teaching) -> dict[str, Any]:
    return {"rule": one.rule, "trigger": one.trigger, "why": one.why, "reach": one.reach}


def _key(one: Teaching) -> str:
    return key_of(MemoryType.RULE, AGENT, "", _body(one))


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
    if not isinstance(rule, str) or not (rule := public(rule)).strip():
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
    prefer, avoid = (
        tuple(map(str, given)) if isinstance(given := value.get(name), list) else () for name in ("prefer", "avoid")
    )
    digest = hashlib.blake2b(f"{rule}\x1f{reach}".encode("utf-8", "replace"), digest_size=12).hexdigest()
    return Teaching(
        id=f"imp:{digest}",
        rule=rule,
        trigger=str(value.get("trigger") or ""),
        why=str(value.get("why") or ""),
        reach=Reach(reach),
        source=RuleSource.IMPORT,
        said=str(value.get("said") or ""),
        prefer=prefer,
        avoid=avoid,
        sure=status == Status.ACTIVE,
        at=at,
    )
