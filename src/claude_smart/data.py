"""The commands about stored data: project, status, usage, pause, resume, config, export, import, clear-all."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from getpass import getpass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alma import jsonc, rulefiles
from alma.engine.admit import key_of
from alma.engine.observations import OBSERVATION
from alma.engine.rules import AGENT, Teaching, teach
from alma.engine.team import list_copies, replace_copies
from alma.engine.transaction import Transaction, write
from alma.errors import ConfigError, ModelUnavailableError, NotFoundError, ValidationError, unknown
from alma.files import lock_file, write_atomic
from alma.hooks import drain as drains
from alma.hooks import journal, team
from alma.hooks import project as projects
from alma.hooks.hosts import HOSTS
from alma.hooks.inject import read_playbook
from alma.hooks.paths import (
    AGENT_READER,
    CHOICES,
    DEFAULTS,
    LARGEST,
    SENT,
    DataDir,
    check_setting,
    is_model_allowed,
    list_own_files,
    read_settings,
)
from alma.hooks.privacy import remove_private
from alma.hooks.providers import find_foreign, find_provider, name_provider
from alma.hooks.reader import KEY_FILE, PROVIDER, choose_model, connect_reader, find_address, name_reader
from alma.models.budget import meter
from alma.models.readers import UNUSABLE
from alma.rulefiles.exchange import IN_ALL_PROJECTS
from alma.text import digest
from alma.types.kinds import EVERYWHERE, LASTING, MemoryType, Reach, RuleSource
from alma.types.query import Where
from alma.types.record import LIVE, Status
from alma.types.times import from_iso

from . import rules
from .earlier import is_earlier_buffer, read_earlier_file
from .environment import (
    TOKEN_VARIABLE,
    describe_home,
    find_adoptions,
    list_ignored,
    read_token,
    record_environment,
)
from .rules import (
    Answer,
    CommandContext,
    ask_yes,
    count_noun,
    describe_pause,
    find_own_rules,
    find_rules,
    list_rule_conflicts,
    read_object,
    read_paused,
    require_person,
    require_project,
    rule_to_dict,
    short_id,
    stop_worker,
)

_FORMAT = "claude-smart rules 1"
_MARKDOWN = (".md", ".mdc")
_GIT_SECONDS = 5.0
_LISTED = 10


# -- project


def project(args: Namespace, context: CommandContext) -> Answer:
    """Show the project of this folder, let it share the rules of another project, or keep the two separate."""
    if args.share and args.separate:
        raise ValidationError("pass either --share or --separate, not both")
    copy = context.find_copy(remember=bool(args.share or args.separate))
    if args.share:
        require_person("`claude-smart project --share`")
        return _share_project(context, copy, args.share)
    similar = []
    if args.separate:
        copy.similar_project = ""
        if copy.id:
            projects.write_copy(context.data_dir, copy)
        context.print_lines(f"{copy.key} stays a separate project.")
    else:
        # Projects that were noticed before as similar, and those that begin with the same commit.
        others = [
            one
            for one in projects.read_copies(context.data_dir)
            if one.key != copy.key and not copy.is_named | one.is_named
        ]
        root = _find_root(copy) if others else ""
        same = [one.key for one in others if root and _find_root(one) == root]
        similar = list(dict.fromkeys([*filter(None, [copy.similar_project]), *same]))
    folder = copy.path.removesuffix(f"{os.sep}.git")
    context.print_lines(f"project    {copy.key}\nfolder     {folder}\nremote     {copy.remote or 'none'}")
    for one in similar:
        context.print_lines(
            f"\nThis may be the same project as {one}. They stay separate until you decide:",
            f"  claude-smart project --share '{one}'    use one set of rules for both",
            "  claude-smart project --separate         keep them separate and stop asking",
        )
    return {"project": copy.key, "path": copy.path, "remote": copy.remote, "root": copy.root, "similar": similar}


def _find_root(copy: projects.WorkingCopy) -> str:
    """Return the first commit of a working copy; empty if there is none or git does not answer in time."""
    if copy.root or not os.path.isdir(copy.path):
        return copy.root
    command = ["git", f"--git-dir={copy.path}", "rev-list", "--max-parents=0", "HEAD"]
    own = {"GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_CONFIG_NOSYSTEM": "1"}
    environ = {**{name: value for name, value in os.environ.items() if not name.startswith("GIT_")}, **own}
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS, env=environ, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return " ".join(sorted(result.stdout.split()))


def _share_project(context: CommandContext, copy: projects.WorkingCopy, other: str) -> Answer:
    """Move the rules and the working copies of this project to the other one."""
    if other == copy.key:
        raise ValidationError(f"this folder already belongs to {other}")
    require_project(context.data_dir, other)
    drains.drain(context.data_dir, wait=rules.PATIENCE)
    movable = Where(kinds={MemoryType.RULE, OBSERVATION, "tombstone"}, projects={copy.key})

    def move_rules(tx: Transaction) -> int:
        records = [tx.update(one, project=other) for one in tx.scan(movable)]
        for one in records:
            tx.add_history(one, "moved", f"from {copy.key}")
        return sum(one.kind == MemoryType.RULE for one in records)

    with context.memory() as memory:
        count = write(memory.engine(other), move_rules)
    projects.join_projects(context.data_dir, copy.key, other)
    context.print_lines(f"This folder now belongs to {other}. Moved {count_noun(count, 'rule')} there.")
    return {"project": other, "moved": count}


# -- status, usage


def status(args: Namespace, context: CommandContext) -> Answer:
    """Show what is stored for this project and whether it is learning."""
    # Loaded here: it imports this module.
    from .install import find_setup, is_enabled, read_receipt
    from .roundtrip import describe_capture, describe_captures

    data_dir, paused = context.data_dir, read_paused(context.data_dir)
    files = list_own_files(data_dir, ".jsonl")
    worker = journal.ask_worker(data_dir, {"op": "status"}, 0.5)
    counts: Counter[str] = Counter()
    receipt = read_receipt(find_setup(os.environ, data_dir))
    with context.memory_if_any() as memory:
        if memory is not None:
            engine = memory.engine(context.project)
            rules = find_own_rules(engine)
            counts.update(str(one.status) if one.status in LIVE else "put_away" for one in rules)
            counts["conflicts"] = len(list_rule_conflicts(engine))
            counts["of_sessions"] = sum(one.status is Status.ACTIVE and bool(one.session) for one in rules)
            kinds = Where(kinds={"turn", "episode"}, projects={context.project})
            counts.update(one.kind for one in engine.store.scan(kinds))
        pending, state = len(find_pending(data_dir, memory)), drains.describe_reader(data_dir, memory)
        sharing = team.describe_team(data_dir, memory)
    answer: Answer = {
        "project": context.project,
        "home": data_dir.home,
        "question": context.find_copy().similar_project,
        "installed": is_enabled(context.folder, context.data_dir) or bool(receipt.get("hosts")),
        "hosts": describe_captures(data_dir, receipt),
        "paused": context.project in paused["projects"],
        "paused_everywhere": bool(paused["everywhere"]),
        "rules": {name: counts[name] for name in ("active", "candidate", "put_away")},
        "conflicts": counts["conflicts"],
        "turns": counts["turn"],
        "sessions": counts["episode"],
        "journals": len(files),
        "journal_bytes": _measure_files(files),
        "pending": pending,
        "db_bytes": _measure_files([data_dir.db, f"{data_dir.db}-wal"]),
        "worker": f"running, pid {worker['pid']}" if worker else "not running (not needed)",
        "model": read_settings(data_dir)["model"],
        "reading": state,
        "team": sharing,
        "ignored": list_ignored(data_dir, os.environ),
    }
    learning = "paused everywhere" if paused["everywhere"] else "paused here" if answer["paused"] else "learning"
    if learning == "learning" and not answer["installed"]:
        learning = "not learning; install the plugin: claude-smart install"
    to_review = count_noun(counts["candidate"], "candidate")
    undecided = (
        counts["conflicts"] and f"{count_noun(counts['conflicts'], 'conflict')} between rules: claude-smart review"
    )
    lasting = counts["active"] - counts["of_sessions"]
    momentary = f"{counts['of_sessions']} for one session only, " if counts["of_sessions"] else ""
    rows = (
        ("project", f"{context.project} ({learning})"),
        ("", answer["question"] and f"may be the same as {answer['question']}; decide: claude-smart project"),
        ("rules", f"{lasting} active, {momentary}{to_review} to review, {counts['put_away']} archived"),
        ("", undecided),
        ("turns", f"{counts['turn']} from {count_noun(counts['episode'], 'session')}"),
        ("journals", f"{len(files)} ({answer['journal_bytes'] // 1000} kB), {pending} not imported yet"),
        ("home", describe_home(os.environ)),
        ("memory", f"{data_dir.db} ({answer['db_bytes'] // 1000} kB)"),
        ("worker", answer["worker"]),
        *(("" if place else "agents", describe_capture(*one)) for place, one in enumerate(answer["hosts"].items())),
        *zip(("reader", "", "", ""), describe_reading(state), strict=False),
        *(("", line) for line in ([] if state["reader"] in ("local", AGENT_READER) else describe_sent(data_dir))),
        *zip(("server", "", "", "", ""), describe_sharing(sharing), strict=False),
        *(("ignored", f"{name}; adopt it: {fix}") for name, fix in answer["ignored"].items()),
    )
    context.print_lines(*(f"{name:10} {text}" for name, text in rows if text))
    return answer


def describe_sent(data_dir: DataDir) -> list[str]:
    """Return what the model receives, and whose sessions would go to another provider, one line each."""
    # Loaded here: it imports this module.
    from .install import find_setup, list_installed

    settings = read_settings(data_dir)
    hosts = list_installed(find_setup(os.environ, data_dir))
    line = f"{name_reader(settings)} receives, with secrets redacted: {'; '.join(SENT)}"
    return [line, *describe_foreign(settings, hosts)]


def describe_foreign(settings: Mapping[str, Any], hosts: Iterable[str]) -> list[str]:
    """Return that sessions in these agents go to another provider than their own; empty if they do not."""
    reader, address, hosts = settings["reader"], find_address(settings), list(hosts)
    if reader == PROVIDER:
        usual = {"api.anthropic.com": "anthropic", "api.openai.com": "openai"}
        provider, recipient = usual.get(address, address), address
    else:
        provider = find_provider(reader)
        recipient = name_provider(provider) or f"the provider that you configured in {HOSTS[reader]}"
    foreign = [HOSTS[host] for host in find_foreign(provider, hosts)]
    if not foreign:
        return []
    names = " and ".join(filter(None, [", ".join(foreign[:-1]), foreign[-1]]))
    is_certain = all(name_provider(find_provider(host)) for host in hosts if HOSTS[host] in foreign)
    another = "another provider than that agent's own" if is_certain else "perhaps another provider than you use there"
    return [f"Your sessions in {names} go there, too: to {recipient}, {another}"]


def describe_reading(state: Mapping[str, Any]) -> list[str]:
    """Return the readers with the calls of today, the dropped proposals, and the last error, one line each."""
    if state["reader"] == AGENT_READER:
        return ["local; the agent in front of you reads when you type /learn"]
    if state["reader"] == "local":
        return [f"local only (let {state['title']} read your corrections too: claude-smart config model on)"]
    calls = f"{state['calls_today']} of {count_noun(state['daily_calls'], 'call')} today"
    waiting = f"{count_noun(state['sessions_read'], 'session')} read, {state['sessions_waiting']} waiting"
    lines = [f"{state['reader']} ({state['model']}), {calls}, {waiting}"]
    if state["dropped"]:
        lines.append(f"proposals dropped by the checks: {drains.describe_dropped(state['dropped'])}")
    if state["error"]:
        again = f"; next attempt after {state['next_try'][:16].replace('T', ' ')} UTC" if state["next_try"] else ""
        lines.append(f"last error: {state['error']}{again}")
    reasons = Counter(one["why"] for one in state["waiting"])
    if reasons:
        lines.append("waiting: " + ", ".join(f"{count} × {why}" for why, count in reasons.most_common()))
    return lines


def _name_moment(moment: str) -> str:
    """Return an ISO 8601 moment as people read it, such as `2026-05-01 12:30 UTC`."""
    return f"{moment[:16].replace('T', ' ')} UTC"


def describe_sharing(sharing: Mapping[str, Any]) -> list[str]:
    """Return the team's server, what waits for it, why it is away, and what it refuses, one line each."""
    copies = f"{sharing['copies']} of the team's rules and observations are here"
    if not sharing["server"]:
        off = "no server is configured now; remove the copies: claude-smart config server off"
        return [f"{copies}, but {off}"] if sharing["copies"] else []
    last = f"last contact {_name_moment(sharing['synced_at'])}" if sharing["synced_at"] else "no contact yet"
    lines = [f"{sharing['server']}: {copies}, {sharing['waiting']} of yours waiting to be sent, {last}"]
    if sharing["to_review"]:
        lines.append(f"not shown until you accept them: {sharing['to_review']} of the team's: claude-smart review")
    if sharing["error"]:
        away = f"away since {_name_moment(sharing['away_since'])}" if sharing["away_since"] else "not used"
        lines.append(f"{away}: {sharing['error']}. Nothing is lost; retry now: claude-smart learn")
    lines += [f"refused: {what}: {why}" for what, why in list(sharing["refused"].items())[:1]]
    return [*lines, f"it receives, with secrets redacted: {team.SENT.format(projects=sharing['projects'])}"]


def find_pending(data_dir: DataDir, memory: drains.ProjectMemories | None) -> list[str]:
    """Return the journals that are not imported yet."""
    files = [path for path in list_own_files(data_dir, ".jsonl") if not is_earlier_buffer(path)]
    engine = memory.engine(EVERYWHERE) if memory else None
    return [path for path in files if engine is None or not drains.is_imported(engine, path)]


def _measure_files(paths: list[str]) -> int:
    return sum(os.path.getsize(path) for path in paths if os.path.exists(path))


def usage(args: Namespace, context: CommandContext) -> Answer:
    """Show the model calls by day."""
    with context.memory_if_any() as memory:
        days = meter(memory.engine(EVERYWHERE)) if memory else []
    settings = read_settings(context.data_dir)
    most = count_noun(settings["daily_calls"], "call")
    is_allowed = is_model_allowed(context.data_dir)
    is_forbidden = settings["model"] == "on" and settings["reader"] != AGENT_READER and not is_allowed
    state = "off, by CLAUDE_SMART_USE_LOCAL_CLI=0" if is_forbidden else "on" if is_allowed else "off"
    model = choose_model(settings) or "its own default"
    context.print_lines(f"model: {state} ({settings['reader']}: {model}), at most {most} a day")
    context.print_lines(*(map(str, days) if days else ["No model calls so far."]))
    return {"model": settings["model"], "daily_calls": settings["daily_calls"], "days": [asdict(day) for day in days]}


# -- pause, resume, config


def pause(args: Namespace, context: CommandContext) -> Answer:
    """Stop recording and showing rules, in this project or everywhere; or resume."""
    paused, is_pause = read_paused(context.data_dir), args.command == "pause"
    if not is_pause:
        require_person("`claude-smart resume`")
    is_paused = paused["everywhere"] or (
        paused["projects"] if args.everywhere else context.project in paused["projects"]
    )
    if not (is_pause or is_paused):
        context.print_lines("Nothing was paused." if args.everywhere else f"Not paused: {context.project} is recorded.")
        return paused
    others = [one for one in paused["projects"] if one != context.project]
    if not args.everywhere:
        paused["projects"] = [*others, context.project] if is_pause else others
    else:
        paused |= {"everywhere": is_pause, "projects": paused["projects"] if is_pause else []}
    context.data_dir.create_folders()
    write_text(context.data_dir.paused, json.dumps(paused, indent=2, ensure_ascii=False))
    where = "everywhere" if args.everywhere else f"in {context.project}"
    resume = f"claude-smart resume{' --everywhere' if paused['everywhere'] else ''}"
    if is_pause:
        context.print_lines(
            f"Paused {where}: sessions are not recorded and agents are shown no rules. Resume: {resume}",
            "A note that you store yourself is still stored: /tag NOTE, or claude-smart tag NOTE",
        )
    elif paused["everywhere"]:
        context.print_lines(f"Still paused everywhere. Resume all projects: {resume}")
    else:
        context.print_lines("Resumed: sessions are recorded and rules are shown again.")
    return paused


_SETTINGS = {
    "model": "let a model read your corrections: on, off, or ask, which is off until you decide",
    "model_name": "the model that reads them: a name that the reader accepts",
    "daily_calls": "maximum model calls per day",
    "playbook_tokens": "maximum tokens added at the start of a session",
    "prompt_tokens": "maximum tokens added to a prompt or command",
    "worker_idle_seconds": "seconds without work until the worker exits",
    "journal_mb": "maximum size of a session's journal in MB",
    "journal_days": "days to keep a journal after it is imported",
    "episode_days": "days to keep recorded turns; rules learned from them are kept",
    "upkeep_hours": "hours between two runs of upkeep, which archives unused memories; 0 switches it off",
    "programs": "on: learn from headless runs and SDK programs too, not only from your own sessions",
    "server": "share rules with a team: the URL of its `alma serve`, or off",
    "server_projects": "the projects to share: patterns of their keys, separated by spaces",
    "server_insecure": "on: send the token without TLS to a server that is not on this machine",
    "home": "the data folder, used from the next installation on",
    "state_dir": "the folder of the journals",
    "program": "the path of the program that reads your corrections",
    "program_timeout": "seconds until a model call is given up",
    "host_program": "the path of a program that counts as a coding agent, such as one of your own or of a test",
    "embedding": "off: search by keywords only",
    "dashboard_autostart": "on: the worker starts the server of the dashboard",
    "environment": "variables of the worker and the reader: record takes them from this terminal, none removes them",
    "evidence": "off: do not show excerpts of earlier sessions to an agent",
    "evidence_providers": "who may see excerpts of sessions with other providers' agents: own, all, or names such as"
    " anthropic, openai, google",
    "notices": "off: do not report at the next prompt what was learned",
    "learn_offer": "off: do not offer /learn at the start of a session",
    "reader": f"what reads your corrections: {', '.join((DEFAULTS['reader'], *CHOICES['reader']))}; agent is the one"
    " in front of you, after /learn",
    "reader_provider": "for the reader `provider`: anthropic, openai (or a compatible server), or ollama",
    "reader_url": "for the reader `provider`: the address, where it is not the usual one",
    "reader_key": "for the reader `provider`: the variable that holds the key; the key itself is copied into a file",
}
"""What each setting does."""


def config(args: Namespace, context: CommandContext) -> Answer:
    """Show the settings, or change one."""
    name, value = args.name, args.value
    if name is not None and name not in DEFAULTS:
        raise ValidationError(unknown("setting", name, list(DEFAULTS)))
    if args.adopt:
        return _adopt_variables(context)
    if value is not None:
        new = _read_setting(context.data_dir, name, value)
        if not _is_narrower(name, new, read_settings(context.data_dir)[name]):
            require_person(f"`claude-smart config {name} {value}`")
        if problem := _find_unusable(name, new) or check_setting(name, new):
            raise ConfigError(problem)
        change_settings(context.data_dir, _complete_settings(context.data_dir, {name: new}))
    settings = read_settings(context.data_dir)
    shown = {**settings, "environment": " ".join(settings["environment"]) or "none"}
    if name is None:
        width = max(len(str(value)) for each, value in shown.items() if each != "environment")
        for each, current in shown.items():
            valid = f"0 to {LARGEST:,}; " if isinstance(DEFAULTS[each], int) else ""
            about = f"{_SETTINGS[each]} ({valid}default: {DEFAULTS[each] or 'none'})"
            context.print_lines(f"{each:20} {current!s:{width}}  {about}")
        ignored = list_ignored(context.data_dir, os.environ)
        context.print_lines(*(f"Ignored: {name}. Adopt it: {fix}" for name, fix in ignored.items()))
    else:
        context.print_lines(str(shown[name]) if value is None else f"{name} is now {shown[name]}")
        if value is not None and (name == "reader" or (name.startswith("reader_") and settings["reader"] == PROVIDER)):
            context.print_lines(*_describe_reader_change(context.data_dir))
        if (name, value) == ("model", "on") and settings["reader"] != AGENT_READER:
            context.print_lines(*describe_sent(context.data_dir))
        if name == "server" and value is not None:
            _set_up_server(context, value)
        if name == "home" and value is not None:
            context.print_lines("It is used after: claude-smart install")
    return {**settings, "environment": sorted(settings["environment"])}


def _read_setting(data_dir: DataDir, name: str, value: str) -> object:
    """Return the value of a setting that was typed."""
    settings = read_settings(data_dir)
    if name == "environment" and value in ("record", "none"):
        if value == "none":
            return {}
        return record_environment(os.environ, is_read=True, reader=settings["reader"]).get("environment", {})
    if name == "program" and value != DEFAULTS[name]:
        return os.path.abspath(shutil.which(os.path.expanduser(value)) or os.path.expanduser(value))
    with suppress(ValueError):
        return json.loads(value) if isinstance(DEFAULTS[name], int) else value
    return value


def _complete_settings(data_dir: DataDir, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes, with what is recorded of this terminal if a model may read from now on, or another one."""
    settings = {**read_settings(data_dir), **changes}
    reader = settings["reader"]
    if changes.get("reader") == AGENT_READER:
        return dict(changes)
    if "reader" in changes:
        record = record_environment(os.environ, is_read=settings["model"] == "on", reader=reader)
        if reader != PROVIDER and "program" not in record:
            raise ConfigError(f"the program of {name_reader(settings)} is not on the PATH; install it first")
        # Each reader has models of its own.
        return {"model_name": DEFAULTS["model_name"], **record, **changes}
    if "reader_key" in changes:
        _store_key(data_dir, changes["reader_key"])
    is_recorded = bool(settings["environment"])
    is_allowed = changes.get("model") == "on" and not is_recorded
    record = record_environment(os.environ, is_read=True, reader=reader) if is_allowed else {}
    return {**record, **changes}


def _find_unusable(name: str, value: object) -> str:
    """Return why a coding agent cannot be the reader; empty for all others."""
    if name != "reader" or value not in UNUSABLE:
        return ""
    usable = ", ".join((DEFAULTS["reader"], *CHOICES["reader"]))
    return f"{HOSTS[str(value)]} cannot read: {UNUSABLE[str(value)]}. Usable: {usable}"


def _store_key(data_dir: DataDir, variable: str) -> None:
    """Copy the key of a service from this terminal into a file that only its owner can read, or remove it."""
    path = os.path.join(data_dir.home, KEY_FILE)
    if variable == DEFAULTS["reader_key"]:
        _remove_files([path])
        return
    key = os.environ.get(variable, "").strip()
    if not key and os.isatty(0):
        key = getpass(f"{variable} is not set here. Key (it is not shown): ").strip()
    if not key:
        raise ConfigError(f"{variable} is not set in this terminal; set it to the key, and run this again")
    data_dir.create_folders()
    write_text(path, f"{key}\n")


def _describe_reader_change(data_dir: DataDir) -> list[str]:
    """Return what a person has to know after choosing a reader."""
    settings = read_settings(data_dir)
    if settings["reader"] == AGENT_READER:
        return ["No model is called. The agent in front of you reads when you type /learn"]
    if settings["model"] != "on":
        return ["It reads nothing until you allow it: claude-smart config model on"]
    try:
        connect_reader(data_dir)
    except ModelUnavailableError as error:
        return [f"It cannot read yet: {error}", *describe_sent(data_dir)]
    return [*describe_sent(data_dir), "Try it: claude-smart doctor"]


def change_settings(data_dir: DataDir, changes: Mapping[str, Any]) -> None:
    """Write settings: into the data folder, and the one that names it into the home folder."""
    # Loaded here: it imports this module.
    from .install import find_usual_home

    for name, value in changes.items():
        path = Path(find_usual_home(), "config.json") if name == "home" else Path(data_dir.config)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(str(path), jsonc.put(read_object(path)[0] or "{}\n", (name,), value))


def _adopt_variables(context: CommandContext) -> Answer:
    """Take over the settings that variables name, after showing them and asking."""
    require_person("adopting variables into your settings")
    adoptions, token = find_adoptions(context.data_dir, os.environ), os.environ.get(TOKEN_VARIABLE, "")
    lines = [f"{one.variable}: {one.setting} becomes {one.value}" for one in adoptions]
    lines += [f"{TOKEN_VARIABLE}: it becomes the token of the server"] if token else []
    if not lines:
        context.print_lines("No variable names a setting that is not yours already.")
        return {"adopted": {}}
    context.print_lines(*lines)
    values = {one.setting: one.value for one in reversed(adoptions)}
    for name, value in values.items():
        if problem := check_setting(name, value):
            raise ConfigError(problem)
    if values.get("model") == "on":
        context.print_lines(*describe_sent(context.data_dir))
    if not ask_yes("Adopt them into your settings? [y/N] "):
        context.exit_code = 1
        return {"adopted": {}}
    change_settings(context.data_dir, _complete_settings(context.data_dir, values))
    if token:
        store_token(context.data_dir, token)
    context.print_lines("Adopted.")
    return {"adopted": values}


def store_token(data_dir: DataDir, token: str) -> None:
    """Store the token of the server, readable by its owner only."""
    data_dir.create_folders()
    write_text(os.path.join(data_dir.home, team.TOKEN_FILE), token.strip() + "\n")


def _is_narrower(name: str, new: object, current: object) -> bool:
    """Return whether a new value of a setting allows less than the current one, which an agent may set too."""
    if name == "daily_calls":
        return isinstance(new, int) and isinstance(current, int) and new <= current
    if name == "environment":
        # Without the recorded address or proxy, conversations would be sent somewhere else.
        return new == current
    return name in ("model", "programs", "server", "server_insecure", "dashboard_autostart") and new in ("off", "ask")


def _set_up_server(context: CommandContext, url: str) -> None:
    """Ask for the token of a server if there is none yet. Without a server, remove the copies of its rules."""
    path = os.path.join(context.data_dir.home, team.TOKEN_FILE)
    if url == "off":
        with context.memory_if_any() as memory:
            if memory is not None:
                for key in {one.project for one in list_copies(memory.engine(EVERYWHERE))}:
                    replace_copies(memory.engine(key), [])
        _remove_files([context.data_dir.team, path])
        return
    if os.environ.get(TOKEN_VARIABLE) and not read_token(context.data_dir):
        store_token(context.data_dir, os.environ[TOKEN_VARIABLE])
        context.print_lines(f"The token in {TOKEN_VARIABLE} is stored in {path}.")
    if not os.path.exists(path) and os.isatty(0):
        store_token(context.data_dir, getpass("Token (`alma token add NAME` prints it; it is not shown): "))
    with context.memory_if_any() as memory:
        context.print_lines(*describe_sharing(team.describe_team(context.data_dir, memory)))


def write_text(path: str, text: str) -> None:
    """Write a file atomically. Raise ConfigError if that fails."""
    try:
        write_atomic(path, text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


# -- clear-all


def clear_all(args: Namespace, context: CommandContext) -> Answer:
    """Erase everything learned and recorded in this project, or in all, even if the store cannot be read."""
    require_person("`claude-smart clear-all`")
    data_dir, shared, stays, erased = context.data_dir, 0, [], 0
    what = "everything learned and recorded, in every project, and the rules that apply in all projects"
    if not args.everywhere:
        with context.memory_if_any() as memory:
            found = find_rules(memory.engine(context.project)) if memory else []
        kept = [one for one in found if one.project == EVERYWHERE]
        shared = len(kept)
        what = f"{count_noun(len(found) - shared, 'rule')} of {context.project} and everything recorded there"
        if kept:
            kept_rules = "1 rule that applies" if shared == 1 else f"{shared} rules that apply"
            it, id = ("it", short_id(kept[0].id)) if shared == 1 else ("one", "ID")
            stays = [f"Kept: {kept_rules} in all projects. Erase {it} for good: claude-smart forget --everything {id}"]
            stays += [f"  [{short_id(one.id)}] {one.body['rule']}" for one in kept[:_LISTED]]
    if not args.yes:
        if not os.isatty(0):
            raise ValidationError(f"this erases {what}; pass --yes to confirm")
        question = "It cannot be undone. Erase? [y/N] "
        print(f"This erases {what}.", *stays, question, sep="\n", end="", file=sys.stderr, flush=True)
        if not ask_yes(""):
            context.print_lines("Nothing was erased.")
            context.exit_code = 1
            return {"erased": 0}
    if args.everywhere:
        # The worker has the store open.
        stop_worker(data_dir)
    if os.path.isdir(data_dir.home):
        with lock_file(data_dir.drain_lock, rules.PATIENCE):
            if args.everywhere:
                # The journal folder may contain files of other programs; they stay.
                store = [data_dir.db + ending for ending in ("", "-wal", "-shm", "-journal")]
                erased = _remove_files(
                    [*store, data_dir.cleared, data_dir.team, data_dir.unread, *list_own_files(data_dir)]
                )
            else:
                erased = _erase_project(context)
            projects.forget_copies(data_dir, "" if args.everywhere else context.project)
    unit = "file" if args.everywhere else "record"
    context.print_lines(f"Erased {count_noun(erased, unit)}: {what}." if erased else "Nothing to erase.", *stays)
    return {"erased": erased, "kept_rules": shared}


def _erase_project(context: CommandContext) -> int:
    for path in list_own_files(context.data_dir, ".jsonl", ".done"):
        journal = drains.read_journal(context.data_dir, path)
        if journal is not None and journal.story.project == context.project:
            _remove_files([path, os.path.splitext(path)[0] + ".shown"])
    with context.memory_if_any() as memory:
        if memory is None:
            return 0
        store = memory.alma.engine.store
        erased = store.delete([record.id for record in store.scan(Where(projects={context.project}))])
        drains.write_unread(context.data_dir, memory.alma.engine)
        memory.alma.vacuum()
        return erased


def _remove_files(paths: Iterable[str]) -> int:
    existing = [path for path in paths if os.path.exists(path)]
    for path in existing:
        os.remove(path)
    return len(existing)


# -- export, import


def export(args: Namespace, context: CommandContext) -> Answer:
    """Write the rules of this project to a file, or print them."""
    if args.file is not None and args.file.lower().endswith(_MARKDOWN):
        return _export_markdown(args, context)
    with context.engine() as engine:
        # A team's rules are not the person's to pass on: who imports the file would take them for theirs.
        rules = [rule_to_dict(one) for one in find_own_rules(engine, *LIVE) if not one.session]
    for one in rules:
        del one["session"]
    about = {"format": _FORMAT, "project": context.project}
    if args.file in (None, "-"):
        # ASCII only: a pipe may not accept every character.
        context.print_lines(*map(json.dumps, (about, *rules)))
        return {**about, "rules": rules}
    write_text(args.file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (about, *rules)))
    context.print_lines(f"Wrote {count_noun(len(rules), 'rule')} to {args.file}")
    return {"file": args.file, "rules": len(rules)}


def _export_markdown(args: Namespace, context: CommandContext) -> Answer:
    name = Path(args.file).name
    usual = "cursor" if name.endswith(".mdc") else "claude-md" if name.lower().startswith("claude") else "agents-md"
    target = next((to for to, one in rulefiles.TARGETS.items() if Path(one.path).name == name), usual)
    options = {"everywhere": args.everywhere, "force": args.force, "check": args.dry_run, "remove": args.remove}
    with _memory_to_export(context, args.remove) as memory:
        report = rulefiles.export(
            memory.alma, target, args.file, project_id=context.project, importer="claude-smart import", **options
        )
    if args.dry_run:
        context.print_lines(report.diff or f"{report.path} is up to date.")
    elif args.remove:
        context.print_lines(f"Removed the block of rules from {report.path}.")
        if _is_shown_at_start(context):
            context.print_lines("claude-smart shows the rules of this project at session start again.")
    elif not (report.items or report.written):
        context.print_lines(f"No rules to export: {args.file} was not written.")
    else:
        context.print_lines(
            f"{report.path} has {count_noun(report.items, 'rule')} ({report.size} of {report.limit}).",
            f"Undo: claude-smart export {args.file} --remove",
            f"After editing the file: claude-smart import {args.file}",
        )
    left_out = [{"id": one.memory_id, "rule": one.text, "why": one.why} for one in report.left_out]
    if not args.remove:
        for one in left_out:
            hint = "; include it with --everywhere" if one["why"] == IN_ALL_PROJECTS else ""
            context.print_lines(f"- Left out: {one['rule']} ({one['why']}{hint})")
    state = {name: getattr(report, name) for name in ("changed", "written", "diff")}
    return {"file": report.path, "rules": report.items, **state, "left_out": left_out}


@contextmanager
def _memory_to_export(context: CommandContext, is_removal: bool) -> Iterator[drains.ProjectMemories]:
    """Open the store. To remove a block where nothing is stored, use an empty one and leave no files behind."""
    if not is_removal or os.path.exists(context.data_dir.db):
        with context.memory() as memory:
            yield memory
        return
    with TemporaryDirectory(prefix="claude-smart-") as folder, drains.ProjectMemories(DataDir(folder)) as memory:
        yield memory


def _is_shown_at_start(context: CommandContext) -> bool:
    """Return whether a session in this project starts with rules."""
    from .install import is_enabled

    if (
        not os.path.exists(context.data_dir.db)
        or not is_enabled(context.folder, context.data_dir)
        or describe_pause(context)
    ):
        return False
    return bool(read_playbook(context.data_dir, context.project, "", context.folder))


def import_(args: Namespace, context: CommandContext) -> Answer:
    """Import the rules of a file."""
    require_person("`claude-smart import`")
    if args.file.lower().endswith(_MARKDOWN):
        return _import_markdown(args, context)
    earlier = read_earlier_file(args.file, _name_folders(context), is_all=args.all)
    teachings = earlier.teachings if earlier else list(_read_rules(args.file))
    keys = [key_of(MemoryType.RULE, AGENT, "", {"rule": one.rule}) for one in teachings]
    with context.engine() as engine:
        rules = find_rules(engine)
        active = {(one.key, one.body["reach"]) for one in rules if one.status is Status.ACTIVE}
        # An import does not bring back a rule that was forgotten here.
        removed = {*Transaction(engine).find_tombstones(keys), *(one.key for one in rules if one.body.get("put_away"))}
        pairs = list(zip(teachings, keys, strict=True))
        lessons = teach(engine, [one for one, key in pairs if key not in removed and (key, one.reach) not in active])
    made = [one.record for one in lessons if one.record is not None and one.verb == "made"]
    new, forgotten = len(made), [one.rule for one, key in pairs if key in removed]
    context.print_lines(f"Imported {count_noun(new, 'new rule')} of {len(teachings)}.")
    waiting = [rule for rule in made if rule.status is Status.CANDIDATE]
    if waiting:
        context.print_lines(f"{len(waiting)} of them must be reviewed first: claude-smart review")
    wide = [rule for rule in made if rule.project == EVERYWHERE]
    if wide:
        context.print_lines("For all your projects, not only this one; to remove one: claude-smart forget")
        context.print_lines(*(f"- {rule.body['rule']}" for rule in wide))
    for rule in forgotten:
        context.print_lines(f"- Left out, because you forgot it here: {rule} (store it again with `claude-smart tag`)")
    for folder, many in earlier.elsewhere.items() if earlier else ():
        rows = count_noun(many, "row")
        context.print_lines(
            f"- Left out: {rows} of the folder {folder!r}. Import the file there too, or pass --all here."
        )
    return {"rules": len(teachings), "new": new, "forgotten": forgotten}


def _name_folders(context: CommandContext) -> set[str]:
    """Return the names that the project's folder may have had: its own, and the last part of the project's key."""
    path = Path(context.find_copy().path)
    folder = path.parent if path.name == ".git" else path
    return {folder.name, re.split(r"[/:\\]", context.project)[-1]}


def _read_rules(path: str) -> Iterator[Teaching]:
    """Yield the rules in a file of JSON Lines. The line with the format is skipped."""
    name = "standard input" if path == "-" else path
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        lines = content.decode("utf-8").splitlines()
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {name}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"{name} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line) if line.strip() else {"format": _FORMAT}
            if not isinstance(value, dict):
                raise ValidationError("a rule must be a JSON object")
            if value.get("format", _FORMAT) != _FORMAT:
                raise ValidationError(f"unknown format {value['format']!r}; only {_FORMAT!r} can be imported")
            if "format" not in value:
                yield _read_rule(value)
        except ValidationError as error:
            raise ValidationError(f"{name}, line {number}: {error}") from error
        except (ValueError, RecursionError) as error:
            problem = f"{name}, line {number} is not valid JSON"
            raise ValidationError(f"{problem}; pass a file that `claude-smart export` wrote") from error


def _import_markdown(args: Namespace, context: CommandContext) -> Answer:
    options = {name: getattr(args, name) for name in ("all", "retire", "prefer", "dry_run")}
    with context.memory() as memory:
        report = rulefiles.import_(memory.alma, args.file, project_id=context.project, **options)
    if report.diff:
        context.print_lines(report.diff)
    change_count = count_noun(sum(one.done for one in report.changes), "change")
    context.print_lines(f"{report.path}: {change_count}{' to import' if args.dry_run else ' imported'}")
    if any(one.done for one in report.changed) and not args.dry_run:
        context.print_lines("Undo a change: `claude-smart restore ID` (`claude-smart show` lists the ids)")
    changes = [
        {"verb": str(one.verb), "id": one.memory_id, "before": one.before, "after": one.after, "done": one.done}
        for one in report.changes
    ]
    context.exit_code = int(bool(report.conflicts) and args.prefer is None)
    return {"file": report.path, "changes": changes, "unchanged": report.unchanged, "dry_run": report.dry_run}


def _read_rule(value: Answer) -> Teaching:
    rule = remove_private(value["rule"]).strip() if isinstance(value.get("rule"), str) else ""
    if not rule:
        raise ValidationError("`rule` must be a text that states what to do")
    reach, status = value.get("reach", "project"), value.get("status", "active")
    for what, one, choices in (("reach", reach, LASTING), ("status", status, LIVE)):
        if one not in choices:
            raise ValidationError(unknown(what, one, choices))
    try:
        at = None if value.get("created_at") is None else from_iso(str(value["created_at"]))
    except ValueError:
        raise ValidationError("`created_at` must be a time such as 2026-05-01T12:00:00+00:00") from None
    trigger, why, quote = (str(value.get(name) or "") for name in ("trigger", "why", "said"))
    lists = (value.get(name) for name in ("prefer", "avoid"))
    prefer, avoid = (tuple(map(str, names)) if isinstance(names, list) else () for names in lists)
    id, is_sure = f"imp:{digest(rule, reach, size=12)}", status == Status.ACTIVE
    fields = (id, rule, Reach(reach), RuleSource.IMPORT, trigger, why, quote, prefer, avoid)
    return Teaching(*fields, sure=is_sure, at=at)
