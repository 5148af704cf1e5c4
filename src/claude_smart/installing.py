"""The commands install, update and uninstall: show what will change, ask, and do it."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace
from pathlib import Path

from alma.errors import ConfigError
from alma.hooks import paths

from . import install as installer
from .desk import Desk, stop_worker
from .install import Setup
from .plan import Plan, carry_out

_MODEL_QUESTION = """\
May Claude read your corrections? It finds many that the local reader misses.
  What is sent: your own turns that may be corrections, without pasted text; the end of Claude's message before each;
  and the rules you already have. Secrets are removed. It goes to `claude -p` on your own account.
  How often: usually one call for a session, at most {calls} calls a day. `claude-smart usage` lists them.
  Switch it off at any time: claude-smart config model off
Without it, claude-smart learns only from explicit corrections. [Y/n] """


def install(args: Namespace, desk: Desk) -> int:
    setup = installer.here(os.environ)
    answer = args.model if args.model is not None else _ask_about_model(args, setup)
    plan = installer.install(setup, None if answer is None else "on" if answer else "off")
    if not plan:
        return _nothing(desk, "It is installed, and all is as it should be.")
    if not _agreed(plan, args, desk, setup, "Install claude-smart in Claude Code:"):
        return 0 if args.dry_run else 1
    carry_out(plan)
    desk.say(f"\nInstalled. {_host()} The next session is the first to learn; `claude-smart doctor` tries it out now.")
    desk.tell(_report(plan, done=True))
    return 0


def update(args: Namespace, desk: Desk) -> int:
    setup = installer.here(os.environ)
    if not installer.is_installed(setup):
        raise ConfigError(f"claude-smart is not installed in {setup.claude}; run claude-smart install")
    plan = installer.install(setup)
    if not plan:
        return _nothing(desk, "It is up to date.")
    if not _agreed(plan, args, desk, setup, "Bring claude-smart to this version:"):
        return 0 if args.dry_run else 1
    carry_out(plan)
    stop_worker(setup.place)
    desk.say("\nUpdated. Sessions that are open go on with what they have; new ones take the new version.")
    desk.tell(_report(plan, done=True))
    return 0


def uninstall(args: Namespace, desk: Desk) -> int:
    setup = installer.here(os.environ)
    plan = installer.uninstall(setup, purge=args.purge)
    if not plan:
        return _nothing(desk, "It is not installed.")
    if not _agreed(plan, args, desk, setup, "Take claude-smart out of Claude Code:"):
        return 0 if args.dry_run else 1
    stop_worker(setup.place)
    carry_out(installer.uninstall(setup, purge=args.purge))
    kept = "" if args.purge or not os.path.exists(setup.place.db) else f" What it learned stays in {setup.place.home}."
    desk.say(f"\nDone.{kept}")
    desk.tell(_report(plan, done=True))
    return 0


def _ask_about_model(args: Namespace, setup: Setup) -> bool | None:
    """Ask once whether Claude may read sessions; None where it was answered before or nobody can answer."""
    given = paths.read_settings(setup.place)
    is_answered = given.text("model") != paths.DEFAULTS["model"]
    if args.yes or args.dry_run or args.as_json or is_answered or not sys.stdin.isatty():
        return None
    try:
        answer = input(_MODEL_QUESTION.format(calls=given.number("daily_calls")))
    except EOFError:
        return None
    return answer.strip().lower() in ("", "y", "yes")


def _agreed(plan: Plan, args: Namespace, desk: Desk, setup: Setup, title: str) -> bool:
    desk.say(title)
    for line in plan.lines(Path(setup.place.home)):
        desk.say(f"  {line}")
    if args.dry_run:
        desk.tell(_report(plan, done=False))
        return False
    if args.yes:
        return True
    if args.as_json or not sys.stdin.isatty():
        desk.tell(_report(plan, done=False))
        desk.say("\nNothing was changed: nobody is there to ask. With --yes it is done.")
        return False
    return _yes("\nGo ahead? [y/N] ")


def _yes(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _nothing(desk: Desk, sentence: str) -> int:
    desk.say(sentence)
    desk.tell(_report(Plan(), done=True))
    return 0


def _report(plan: Plan, done: bool) -> dict[str, object]:
    return {"done": done, "changes": plan.plain(), "folders": [str(folder) for folder in plan.folders]}


def _host() -> str:
    if shutil.which(os.environ.get("CLAUDE_SMART_CLI_PATH") or "claude"):
        return "Start Claude Code anew."
    return "Claude Code itself was not found on the path; it will load the plug-in when it starts."
