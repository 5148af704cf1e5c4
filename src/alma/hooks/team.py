"""Share rules with a team's `alma serve`: send what was learned here, and keep a local copy of the team's rules.

Only the drain's processes run this, after a drain; hooks read the local store as ever. What waits to be sent is what
the store holds and `team.json` does not list as sent, so nothing is lost while the server is away. Each rule is sent
under an idempotency key: one that was sent before a process was killed is not counted twice.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..coding.events import parse_journal
from ..engine.context import Engine
from ..engine.observations import OBSERVATION
from ..engine.rules import AGENT
from ..engine.team import TeamRule, find_screen_version, list_copies, list_own, replace_copies, screen_copies
from ..errors import ALMAError, ConfigError, ConflictError, NotFoundError, ScopeError, ValidationError
from ..files import try_lock, write_atomic
from ..memory import ALMA
from ..text import digest
from ..types.kinds import EVERYWHERE, DomainKnowledge, Rule
from ..types.record import LIVE, Record, Status
from .drain import ProjectMemories
from .paths import (
    DataDir,
    build_environment,
    describe_error,
    list_own_files,
    log_problem,
    read_object,
    read_settings,
    read_text,
)
from .privacy import is_paused
from .project import find_moved

EVENT = "Team"
TOKEN_FILE = "server-token"
DOMAIN = "commands that failed and what worked"
"""The domain of the facts that observations are on the server."""
SENT = "the rules and observations learned in projects that match {projects}, without the conversations around them"
_MOST_RULES = 1000
_MOST_BYTES = 8 * 1024 * 1024
_MOST_CHARS = 2000
_MESSAGE_CHARS = 300
_NAME_CHARS = 100
_HEAD_BYTES = 64 * 1024
_RECENT_SECONDS = 86_400.0
_REFRESH_SECONDS = 60.0
_FIRST_PAUSE = 15.0
_LONGEST_PAUSE = 300.0
_TIMEOUT = 5.0


class TeamServer(NamedTuple):
    """The address of a team's server, and the token for it."""

    url: str
    token: str
    is_insecure: bool
    environ: Mapping[str, str]
    """The variables that choose a proxy and certificates: those that were recorded, not those of a repository."""

    @property
    def name(self) -> str:
        """Return the name by which this machine knows the server: the host of its address, never what it says."""
        host = urlsplit(self.url).hostname or ""
        return "".join(sign for sign in host if sign.isascii() and (sign.isalnum() or sign in "-.:"))[:_NAME_CHARS]

    def connect(self, project: str) -> ALMA:
        """Return the team's memory of a project. Raise ConfigError for an address or a token that is invalid."""
        options: dict[str, Any] = {"timeout": _TIMEOUT, "insecure": self.is_insecure, "max_bytes": _MOST_BYTES}
        options["environ"] = self.environ
        return ALMA.connect(self.url, self.token, project, **options)

    def describe(self, error: Exception) -> str:
        """Return an error on one line, without the token, which a server could repeat."""
        message = str(error) if isinstance(error, ALMAError) else f"unexpected answer ({describe_error(error)})"
        return _clean_text(message.replace(self.token, "TOKEN"))[:_MESSAGE_CHARS]


def find_url(settings: Mapping[str, Any]) -> str:
    """Return the address of the server in the settings; empty if there is none."""
    return "" if settings["server"] == "off" else str(settings["server"])


def find_server(data_dir: DataDir) -> TeamServer | None:
    """Return the configured server; None if there is none. Raise ConfigError if there is no token that may be used."""
    settings = read_settings(data_dir)
    url = find_url(settings)
    if not url:
        return None
    path = os.path.join(data_dir.home, TOKEN_FILE)
    if os.name == "posix" and os.path.exists(path) and os.stat(path).st_mode & 0o077:
        raise ConfigError(f"others can read {path}; run `chmod 600 {path}` and replace the token")
    token = read_text(path).strip()
    if not token:
        raise ConfigError(f"there is no token for {url}; store it in {path} (mode 600)")
    return TeamServer(url, token, settings["server_insecure"] == "on", build_environment(data_dir))


# -- what is known about the server: in `team.json`, for `status` and for the next process


def read_state(data_dir: DataDir, url: str) -> dict[str, Any]:
    """Return what was sent to a server, and since when it is away."""
    state = {"url": url, "sent": {}, "synced_at": 0.0, "away_since": 0.0, "error": "", "tries": 0, "next_try": 0.0}
    stored = read_object(data_dir.team, 1 << 30)
    is_same = stored.get("url") == url and isinstance(stored.get("sent"), dict)
    return state | {"refused": {}, "screen": ""} | (stored if is_same else {})


def describe_team(data_dir: DataDir, memory: ProjectMemories | None) -> dict[str, Any]:
    """Return the state of sharing as JSON values. `memory` is None if nothing has been stored yet."""
    settings, engine = read_settings(data_dir), memory.engine(EVERYWHERE) if memory else None
    url = find_url(settings)
    state = read_state(data_dir, url)
    problem = ""
    try:
        find_server(data_dir)
    except ConfigError as error:
        problem = str(error)
    waiting = list_unsent(data_dir, memory, state) if memory and url else []
    copies = list_copies(engine) if engine else []
    return {
        "server": url.rpartition("@")[2],
        "projects": settings["server_projects"],
        "copies": sum(one.status in LIVE for one in copies),
        "to_review": sum(one.status is Status.CANDIDATE for one in copies),
        "waiting": len(waiting),
        "away_since": _to_iso(state["away_since"]),
        "synced_at": _to_iso(state["synced_at"]),
        "error": problem or state["error"],
        "refused": dict(state["refused"]),
    }


def _to_iso(at: float) -> str | None:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else None


# -- exchanging


def list_unsent(data_dir: DataDir, memory: ProjectMemories, state: Mapping[str, Any]) -> list[Record]:
    """Return the rules and observations that wait to be sent, oldest first."""
    unsent = [one for one in list_own(memory.engine(EVERYWHERE)) if state["sent"].get(one.id) != _digest_record(one)]
    shared = {project for project in {one.project for one in unsent} if is_shared(data_dir, project)}
    return [one for one in unsent if one.project in shared]


def is_shared(data_dir: DataDir, project: str) -> bool:
    """Return whether a project matches one of the patterns in `server_projects`, and is not paused."""
    patterns = read_settings(data_dir)["server_projects"].split()
    return any(fnmatchcase(project, one) for one in patterns) and not is_paused(data_dir, project, EVENT)


def _digest_record(record: Record) -> str:
    names = ("failed", "worked", "trigger") if record.kind == OBSERVATION else ("rule", "trigger", "why")
    return digest(*(str(record.body[name]) for name in names))


def sync_team(data_dir: DataDir, memory: ProjectMemories, urgent: str = "") -> str:
    """Refresh the copies of the team's rules and send what is waiting. Return why that failed; empty if it did not.

    It is done at most once a minute unless something waits, and less and less often while the server is away.
    `urgent` is a project in which a person waits for the result.
    """
    settings, now = read_settings(data_dir), time.time()
    url = find_url(settings)
    lock = try_lock(f"{data_dir.team}.lock", 2.0 if urgent else 0.0) if url else None
    if lock is None:
        return ""
    with lock:
        state, server = read_state(data_dir, url), None
        try:
            # Before the server is asked: it may be away, and what it sent must not be shown meanwhile.
            if state["screen"] != find_screen_version():
                screen_copies(memory.engine(EVERYWHERE))
                state["screen"] = find_screen_version()
            server = find_server(data_dir)
            if server is None:
                return ""
            waiting = list_unsent(data_dir, memory, state)
            is_new = bool(waiting) and not state["refused"]
            is_fresh = now - state["synced_at"] < _REFRESH_SECONDS and not is_new
            if not urgent and (is_fresh or now < state["next_try"]):
                return str(state["error"])
            projects = [urgent, *_list_recent_projects(data_dir), *(one.project for one in waiting)]
            projects = [one for one in dict.fromkeys(projects) if is_shared(data_dir, one)]
            state["refused"] = {}
            for project in projects:
                records = [one for one in waiting if one.project == project]
                _exchange(data_dir, memory.engine(project), server, state, records)
            state |= {"synced_at": time.time(), "away_since": 0.0, "error": "", "tries": 0, "next_try": 0.0}
        except Exception as error:  # noqa: BLE001 - whatever a server answers, the drain goes on
            message = server.describe(error) if server else str(error)
            if state["error"] != message:
                log_problem(data_dir, EVENT, message)
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(state["tries"], 10))
            state |= {"away_since": state["away_since"] or now, "error": message, "tries": state["tries"] + 1}
            state["next_try"] = now + pause
        write_atomic(data_dir.team, json.dumps(state))
        return str(state["error"])


def _exchange(
    data_dir: DataDir, engine: Engine, server: TeamServer, state: dict[str, Any], records: list[Record]
) -> None:
    """Refresh the copies in one project, then send its records. What the server refuses is noted in `state`."""
    with server.connect(engine.project) as team:
        try:
            # First, so that a project that the token may not use keeps its rules here.
            replace_copies(engine, list(_fetch_rules(team)), server.name)
            for record in records:
                try:
                    _send_record(team, record)
                except (ValidationError, ConflictError) as error:
                    state["refused"][record.id] = server.describe(error)
                else:
                    state["sent"][record.id] = _digest_record(record)
                    write_atomic(data_dir.team, json.dumps(state))
        except ScopeError as error:
            # The token may not use this project, or may only read it. The other projects go on.
            state["refused"][engine.project] = server.describe(error)


def _list_recent_projects(data_dir: DataDir) -> Iterator[str]:
    """Yield the projects that sessions were recorded in lately."""
    for path in list_own_files(data_dir, ".jsonl"):
        try:
            if time.time() - os.path.getmtime(path) < _RECENT_SECONDS:
                with open(path, "rb") as file:
                    events, _ = parse_journal(file.read(_HEAD_BYTES))
                yield from (find_moved(data_dir, one.project) for one in events[1:2])
        except FileNotFoundError:
            continue


def _send_record(team: ALMA, record: Record) -> None:
    body = record.body
    if record.kind == OBSERVATION:
        fact = f"`{body['failed']}` failed, `{body['worked']}` worked"
        about = {name: body[name] for name in ("failed", "worked", "trigger")}
        row = {"type": "domain_knowledge", "agent": AGENT, "domain": DOMAIN, "fact": fact, "source": "agent"}
        # Not `add_knowledge`: facts about two commands read alike.
        team.add_many([{**row, "metadata": about}])
        return
    texts = {name: body[name] for name in ("rule", "trigger", "why")}
    # What the person said is theirs; what a model or a file worded waits on the server for a person.
    source = "user" if record.provenance.is_persons else "agent"
    try:
        team.add_rule(AGENT, **texts, source=source, idempotency_key=digest(record.id, _digest_record(record)))
    except NotFoundError:
        # It was sent before, and deleted on the server since.
        return


def _fetch_rules(team: ALMA) -> Iterator[TeamRule]:
    """Yield the rules and observations in force that the server has for everybody, newest first."""
    for one in team.list(Rule, agent=AGENT, limit=_MOST_RULES)[:_MOST_RULES]:
        if isinstance(one, Rule) and not one.user_id and not one.session_id and _clean_text(one.rule):
            # The name of a colleague is what the server says; no model is shown it.
            id, rule, trigger, why, sharer = map(
                _clean_text, (one.id, one.rule, one.trigger, one.why, one.metadata.get("shared_by", ""))
            )
            at = one.created_at.replace(tzinfo=one.created_at.tzinfo or UTC)
            yield TeamRule(id, rule, trigger, why, shared_by=sharer, created_at=at)
    facts = team.list(DomainKnowledge, agent=AGENT, limit=_MOST_RULES, fields={"domain": DOMAIN})[:_MOST_RULES]
    for fact in facts:
        worked, trigger, failed = (_clean_text(fact.metadata.get(name, "")) for name in ("worked", "trigger", "failed"))
        if isinstance(fact, DomainKnowledge) and fact.domain == DOMAIN and not fact.user_id and worked and failed:
            yield TeamRule(_clean_text(fact.id), worked, trigger, failed=failed)


def _clean_text(text: object) -> str:
    """Return the start of a text of a stranger on one line, without characters that a terminal or a model obeys."""
    return "".join(sign for sign in " ".join(str(text)[:_MOST_CHARS].split()) if sign.isprintable())
