"""A home folder with ten thousand memories, and the events of a day's work."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from alma.engine.rule_lines import dress_rule
from alma.engine.rules import AGENT
from alma.stores.sqlite import SQLiteStore
from alma.types.kinds import KINDS
from alma.types.record import Record, new_id

from .speed import Texts

PROJECT = "git:github.com/acme/app"
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_BATCH = 2000
_JOBS = "deploy test migrate profile document review release monitor cache validate".split()
_PLACES = "auth service|login form|payment queue|search index|report builder|session store|mail sender".split("|")
_TOOLS = "pnpm npm uv pip ruff black pytest vitest docker terraform kubectl rg grep make cargo".split()


def rule(number: int, project: str, texts: Texts, chance: random.Random) -> Record:
    better, worse = chance.sample(_TOOLS, 2)
    body: dict[str, Any] = {
        "rule": f"Use {better} and not {worse} when you {chance.choice(_JOBS)} the {chance.choice(_PLACES)}",
        "trigger": f"you {chance.choice(_JOBS)} the {chance.choice(_PLACES)}",
        "why": texts.fact(number),
        "reach": "project",
        "source": "correction",
        "said": texts.strategy(),
        "prefer": [better],
        "avoid": [worse],
        "metadata": {"sources": [f"turn-{number}"], "repeats": number % 4},
    }
    return _record("rule", number, project, dress_rule(body), session="")


def turn(number: int, project: str, texts: Texts) -> Record:
    body = {"speaker": "user", "index": number, "text": " ".join(texts.fact(number + i) for i in range(4))}
    return _record("turn", number, project, body, session=f"s{number // 20}")


def exchange(number: int, project: str, texts: Texts) -> Record:
    body = {
        "turn": f"turn-{number}",
        "number": number % 4,
        "before": f"[ran `make {_JOBS[number % 10]}`] {texts.fact(number)[:120]}",
        "person": " ".join(texts.fact(number + i) for i in range(3))[:260],
        "then": f"[wrote in `src/{number % 97}.py`: `{texts.strategy()[:120]}`]",
        "likely": (number * 37 % 100) / 100,
        "concern": "",
        "host": "claude",
    }
    return _record("exchange", number, project, body, session=f"s{number // 4}")


def _record(kind: str, number: int, project: str, body: dict[str, Any], session: str) -> Record:
    at = _BEGAN + timedelta(minutes=number)
    return Record(
        id=new_id(KINDS[kind].prefix),
        kind=kind,
        project=project,
        agent=AGENT,
        session=session,
        text=KINDS[kind].text(body),
        body=body,
        created_at=at,
        updated_at=at,
    )


def _records(rules: int, own: int, turns: int, sessions: int) -> Iterator[Record]:
    texts, chance = Texts(), random.Random(3)
    for number in range(4 * sessions):
        yield exchange(number, PROJECT, texts)
    for number in range(rules):
        yield rule(number, PROJECT if number < own else f"git:github.com/acme/other{number % 20}", texts, chance)
    for number in range(turns):
        yield turn(number, PROJECT if number % 3 else f"git:github.com/acme/other{number % 20}", texts)


def fill(home: Path, rules: int, own: int, turns: int, sessions: int = 0) -> None:
    """Store the memories; `own` of the rules belong to the project under test, the rest to twenty others.

    `sessions` of the project have four exchanges each.
    """
    made = list(_records(rules, own, turns, sessions))
    store = SQLiteStore(home / "memory.db")
    try:
        for start in range(0, len(made), _BATCH):
            store.put(made[start : start + _BATCH])
    finally:
        store.close()
    # The drain that a hook starts is another process: started, but with nothing to do.
    nobody = shutil.which("true") or sys.executable
    (home / "runtime.json").write_text(json.dumps({"python": nobody, "path": ""}))


def repository(folder: Path) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:acme/app.git\n')
    return folder


_OUTPUT = "src/auth/session.test.ts (12 tests) 340 ms\n  passed: refreshes the token when it expires\n" * 60
_ANSWER = "I changed the session store so that a token is refreshed before it expires.\n\nAll tests pass.\n" * 12
_CODE = "export function refresh(session: Session): Token {\n  return issue(session.user, config.lifetime)\n}\n" * 10

EVENTS: dict[str, dict[str, Any]] = {
    "SessionStart": {"source": "startup", "model": "claude-sonnet-4-5"},
    "UserPromptSubmit": {
        "prompt": "The login form logs people out after a while. Deploy the auth service with npm to staging, find out"
        " why the token is not refreshed in time; the search index must stay up.",
        "prompt_id": "p",
        "source": "user",
    },
    "UserPromptExpansion": {
        "expansion_type": "slash_command",
        "command_name": "review",
        "command_args": "src/auth",
        "prompt": "/review src/auth",
        "prompt_id": "p",
    },
    "PreToolUse": {
        "tool_name": "Bash",
        "tool_input": {"command": "npm test -- --run src/auth && git commit -m 'Refresh'", "description": "Run tests"},
        "tool_use_id": "t",
    },
    "PostToolUse": {
        "tool_name": "Edit",
        "tool_input": {"file_path": "/w/app/src/auth/session.ts", "old_string": _CODE, "new_string": _CODE},
        "tool_response": {"filePath": "/w/app/src/auth/session.ts", "structuredPatch": [], "userModified": False},
        "tool_use_id": "t",
        "duration_ms": 12,
    },
    "PostToolUseFailure": {
        "tool_name": "Bash",
        "tool_input": {"command": "npm test"},
        "error": "Exit code 1\n" + _OUTPUT,
        "tool_use_id": "t",
        "duration_ms": 812,
    },
    "PermissionDenied": {
        "tool_name": "Bash",
        "tool_input": {"command": "rm -rf node_modules"},
        "reason": "denied by the user",
        "tool_use_id": "t",
    },
    "Stop": {"stop_hook_active": False, "last_assistant_message": _ANSWER, "prompt_id": "p"},
    "SubagentStop": {"agent_id": "a", "agent_type": "general-purpose", "last_assistant_message": _ANSWER},
    "PreCompact": {"trigger": "auto", "custom_instructions": None},
    "SessionEnd": {"reason": "prompt_input_exit"},
}
MORE: dict[str, dict[str, Any]] = {
    "PreToolUse (Write)": {
        "hook_event_name": "PreToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": "/w/app/src/auth/session.ts", "content": _CODE},
        "tool_use_id": "t",
    },
    "PostToolUse (Bash)": {
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "npm test"},
        "tool_response": {"stdout": _OUTPUT, "stderr": "", "interrupted": False, "isImage": False},
        "tool_use_id": "t",
    },
    "SessionStart (compact)": {"hook_event_name": "SessionStart", "source": "compact"},
}
"""Events whose cost depends on what is in them."""


def payload(name: str, cwd: Path, session: str) -> bytes:
    given = EVENTS.get(name) or MORE[name]
    common = {"session_id": session, "transcript_path": "/h/t.jsonl", "cwd": str(cwd), "hook_event_name": name}
    return json.dumps({**common, **given}).encode()
