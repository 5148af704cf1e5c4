"""The lines for the person: what was learned, and what they may decide. Each is shown once, and never to the model.

Whoever learns notes the ids of the rules (`alma.hooks.news`), in one file for each project. The next hook of a session
in that project takes the file by renaming it, so that of two hooks only one shows it. The words come from the store at
that moment: a rule that was forgotten, or that the person decided on in the meantime, is not announced.

A further line for the person joins the others in `collect_notices`.
"""

from __future__ import annotations

import os
import sys

from .hosts import find_entry
from .inject import ReadOnlyRules, StoredRule, UnreadableStoreError, normalise_item, read_host_rules, reads_agents_md
from .journal import OWN_COMMANDS
from .paths import SENT, log_problem, read_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .journal import HookCall
    from .paths import DataDir

LEARNED, KEPT, WAITING = "learned", "kept", "waiting"
_KEPT_BEFORE, _KNOWN = "kept before", "known"
_ORDER = (LEARNED, KEPT, WAITING, _KEPT_BEFORE, _KNOWN)
_FIRST = {
    LEARNED: "learned {}",
    KEPT: "kept for this session: {}",
    WAITING: "waiting for your review: {}",
    _KEPT_BEFORE: "kept only for the session where you said it: {}",
    _KNOWN: "already in your rule files: {}",
}
_OTHERS = {
    KEPT: "{} kept for this session",
    WAITING: "{} waiting for your review",
    _KEPT_BEFORE: "{} kept only for an earlier session",
    _KNOWN: "{} already in your rule files",
}
_NAME_CHARS = 70
_LONGEST = 64 * 1024
_MARKUP = {ord(sign): None for sign in "`*"} | {ord("'"): "’", ord("<"): "‹", ord(">"): "›"}
_READER_NOTICE = (
    "claude-smart learns from explicit corrections only. Claude can find more of them, on your account, with at most"
    " {calls} calls a day. It then receives, with secrets redacted: {sent}. This is off until you decide: {command}"
    " config model on|off"
)


def collect_notices(call: HookCall, data_dir: DataDir, line: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return what the person sees with an event, a line each; empty if there is nothing, or nobody to see it."""
    # Only in a terminal. Elsewhere a host shows no messages of hooks, and what is waiting goes on waiting.
    entry = line.get("entry")
    if entry is None and os.environ.get("CLAUDE_SMART_ATTENDED") != "0":
        # The end of a turn does not record it.
        entry = find_entry(call.host, call.payload, os.environ)
    if entry != "cli" or call.agent_id or call.is_from_machine:
        return ""
    notices = [
        announce_rules(call, data_dir, line["project"], settings),
        take_reader_notice(call, data_dir, settings),
        offer_reading(call, data_dir, line, settings),
    ]
    return "\n".join(notice for notice in notices if notice)


def take_reader_notice(call: HookCall, data_dir: DataDir, settings: Mapping[str, Any]) -> str:
    """Return the notice about the model reader, once, at the start of a session, if the person never decided."""
    is_decided = settings["model"] != "ask" or os.environ.get("CLAUDE_SMART_USE_LOCAL_CLI") == "0"
    is_asked = call.name == "SessionStart" and call.host == "claude" and not is_decided
    if not is_asked or os.path.exists(data_dir.model_notice):
        return ""
    os.close(os.open(data_dir.model_notice, os.O_CREAT | os.O_WRONLY, 0o600))
    return _READER_NOTICE.format(calls=settings["daily_calls"], command=_find_program(), sent="; ".join(SENT))


def offer_reading(call: HookCall, data_dir: DataDir, line: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return the offer to let this agent read what no reader has read, at most once a day; empty for none."""
    is_start = call.name == "SessionStart" and call.host == "claude" and call.text("source") != "compact"
    is_own = line.get("origin") == "host"
    if not (is_start and is_own) or settings["learn_offer"] != "on" or not os.path.exists(data_dir.unread):
        return ""
    from .offers import take_offer

    return take_offer(data_dir, line["project"], call.host, settings)


def announce_rules(call: HookCall, data_dir: DataDir, project: str, settings: Mapping[str, Any]) -> str:
    """Return one line about the rules of a project that were noted since the last one; the next call returns none."""
    if settings["notices"] != "on" or not os.path.exists(data_dir.notices_file(project)):
        return ""
    try:
        with ReadOnlyRules(data_dir, project) as rules:
            noted = take_noted(data_dir, project)
            found = _find_rules(rules, noted)
    except UnreadableStoreError as error:
        log_problem(data_dir, call.name, str(error))
        return ""
    host_rules: set[str] = set()
    if any(state == LEARNED for state, _, _ in found):
        host_rules = read_host_rules(call.cwd, call.host, with_agents=reads_agents_md())
    groups: dict[str, list[StoredRule]] = {}
    for state, session, rule in found:
        if state == KEPT and session != call.session:
            state = _KEPT_BEFORE
        if state == LEARNED and normalise_item(rule.text("rule")) in host_rules:
            state = _KNOWN
        groups.setdefault(state, []).append(rule)
    return describe_rules(groups, call.host)


def _find_rules(rules: ReadOnlyRules, noted: Mapping[str, str]) -> list[tuple[str, str, StoredRule]]:
    """Return the noted rules that are still in the state they were noted in, with their sessions, newest first."""
    found = []
    marks = ", ".join("?" * len(noted))
    select = f"SELECT id, status, session, created_at, evidence, body FROM record WHERE id IN ({marks})"
    for id, status, session, *values in rules.fetch(f"{select} ORDER BY created_at DESC, id DESC", [*noted]):
        state = name_state(status, session)
        if state and state == noted[id]:
            found.append((state, session, StoredRule(id, *values)))
    return found


def describe_rules(groups: Mapping[str, Sequence[StoredRule]], host: str) -> str:
    """Return one line about rules by state: it names the first, counts the others, and says what can be done."""
    states = [state for state in _ORDER if groups.get(state)]
    if not states:
        return ""
    first = groups[states[0]][0]
    named = f"'{_shorten_words(first.text('rule'))}'"
    more = len(groups[states[0]]) - 1
    parts = [_FIRST[states[0]].format(f"{named} and {more} more" if more else named)]
    parts += [_OTHERS[state].format(len(groups[state])) for state in states[1:]]
    if states == [WAITING]:
        advice = f"decide: {_name_command(host, 'review')}"
    elif more or len(states) > 1:
        advice = f"see: {_name_command(host, 'show')}"
    elif states == [_KEPT_BEFORE]:
        advice = f"keep it: {_name_command(host, 'edit')} {first.id[-8:]} --reach project"
    else:
        advice = f"undo: {_name_command(host, 'forget')} {first.id[-8:]}"
    return f"claude-smart: {', '.join(parts)} · {advice}"


def _shorten_words(text: str) -> str:
    """Return a text as a part of a line at a terminal: printable, without markup, and short."""
    visible = "".join(sign if sign.isprintable() else " " for sign in text)
    words = " ".join(visible.translate(_MARKUP).split())
    return words if len(words) <= _NAME_CHARS else f"{words[:_NAME_CHARS].rstrip()}…"


def _name_command(host: str, name: str) -> str:
    """Return how a person runs one of our commands: with a slash command where the host has it."""
    if host == "claude":
        return f"/{name}" if name in OWN_COMMANDS else f"/smart:{name}"
    return f"{_find_program()} {name}"


def _find_program() -> str:
    # Beside the hook itself: the variable with the folder of the plugin could name a program of a repository.
    script = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "smart.py")
    folders = os.environ.get("PATH", "").split(os.pathsep)
    is_installed = any(os.path.exists(os.path.join(folder, "claude-smart")) for folder in folders)
    return "claude-smart" if is_installed or not os.path.isfile(script) else f"python3 '{script}'"


# -- what was noted: the ids of rules and the state that each was in


def name_state(status: str, session: str) -> str:
    """Return what happened to a rule with this status: learned, kept for its session, or waiting; empty if neither."""
    if status == "active":
        return KEPT if session else LEARNED
    return WAITING if status == "candidate" else ""


def take_noted(data_dir: DataDir, project: str) -> dict[str, str]:
    """Return the rules of a project that were noted, with their states; another call, also at once, returns none."""
    path = data_dir.notices_file(project)
    mine = f"{path}.{os.getpid()}"
    try:
        os.rename(path, mine)
    except OSError:
        # Another hook was faster.
        return {}
    noted = read_object(mine, _LONGEST)
    os.unlink(mine)
    return {id: state for id, state in noted.items() if isinstance(state, str)}
