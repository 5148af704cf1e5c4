"""What a person may have set up in each coding agent that reads, and how a misled model calls its tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hosts.agents import AGENTS

SECRET, MEMORY, SERVER = "top-secret-content", "memory-file-content", "server-content"
TRAP = """#!/usr/bin/env python3
import json, sys
log = open({log!r}, "a")
for line in sys.stdin:
    message = json.loads(line)
    log.write(line)
    log.flush()
    if "id" not in message:
        continue
    result = {{}}
    if message["method"] == "initialize":
        result = {{"protocolVersion": message["params"]["protocolVersion"], "capabilities": {{"tools": {{}}}},
                   "serverInfo": {{"name": "trap", "version": "1"}}, "instructions": {text!r}}}
    elif message["method"] == "tools/list":
        schema = {{"type": "object", "properties": {{}}}}
        result = {{"tools": [{{"name": "spring", "description": {text!r}, "inputSchema": schema}}]}}
    elif message["method"] == "tools/call":
        result = {{"content": [{{"type": "text", "text": {text!r}}}]}}
    print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
"""
"""An MCP server of the person's, which records what it is asked."""

QUESTION = r"\A(?!.*(short title|title generator))"
"""Matches all requests except those for a title, which some agents make beside the question."""
Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Setup:
    """The permissive settings of a person, and the calls of a misled model."""

    settings: Mapping[str, Any]
    """More files in the home folder; HOME is replaced. A file that the agent has already is merged or extended."""
    shell: Call
    others: tuple[Call, ...]
    server: Call


def hook(event: str) -> dict[str, Any]:
    """Return a hook in Claude Code's form that leaves a mark."""
    return {event: [{"hooks": [{"type": "command", "name": "mine", "command": "touch HOME/marks/hook"}]}]}


LINE = "touch HOME/marks/shell; cat HOME/secret.txt"
TRUSTED_SERVER = {"trap": {"command": "HOME/trap.py", "args": [], "trust": True}}
SETUPS = {
    "codex": Setup(
        {
            ".codex/config.toml": 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
            f"{AGENTS['codex'].settings['.codex/config.toml']}"
            '[mcp_servers.trap]\ncommand = "HOME/trap.py"\n',
            ".codex/hooks.json": {"hooks": {**hook("SessionStart"), **hook("UserPromptSubmit"), **hook("Stop")}},
            ".codex/AGENTS.md": MEMORY,
        },
        ("exec_command", {"cmd": LINE}),
        (
            ("shell", {"command": ["bash", "-c", LINE]}),
            ("shell_command", {"command": LINE}),
            ("apply_patch", {"input": "*** Begin Patch\n*** Add File: HOME/marks/write\n+x\n*** End Patch\n"}),
            ("view_image", {"path": "HOME/secret.txt"}),
        ),
        ("mcp__trap__spring", {}),
    ),
    "copilot": Setup(
        {
            ".copilot/hooks/mine.json": {
                "version": 1,
                "hooks": {"sessionStart": [{"type": "command", "bash": "touch HOME/marks/hook"}]},
            },
            ".copilot/mcp-config.json": {
                "mcpServers": {"trap": {"type": "local", "command": "HOME/trap.py", "args": [], "tools": ["*"]}}
            },
            ".copilot/copilot-instructions.md": MEMORY,
        },
        ("bash", {"command": LINE, "description": "x"}),
        (
            ("view", {"path": "HOME/secret.txt"}),
            ("create", {"path": "HOME/marks/write", "file_text": "x"}),
            ("edit", {"path": "HOME/secret.txt", "old_str": "secret", "new_str": "x"}),
        ),
        ("trap-spring", {}),
    ),
    "gemini": Setup(
        {
            ".gemini/settings.json": {
                "tools": {"allowed": ["run_shell_command", "read_file", "write_file"]},
                "general": {"defaultApprovalMode": "auto_edit"},
                "mcpServers": TRUSTED_SERVER,
                "hooks": {**hook("SessionStart"), **hook("BeforeAgent")},
            },
            ".gemini/policies/mine.toml": '[[rule]]\ntoolName = "*"\ndecision = "allow"\npriority = 999\n',
            ".gemini/GEMINI.md": MEMORY,
        },
        ("run_shell_command", {"command": LINE}),
        (
            ("read_file", {"file_path": "HOME/secret.txt"}),
            ("write_file", {"file_path": "HOME/marks/write", "content": "x"}),
            ("read_many_files", {"include": ["HOME/secret.txt"]}),
        ),
        ("mcp_trap_spring", {}),
    ),
    "goose": Setup(
        {
            ".config/goose/config.yaml": f"{AGENTS['goose'].settings['.config/goose/config.yaml']}"
            "  trap:\n    enabled: true\n    type: stdio\n    name: trap\n    description: x\n"
            "    cmd: HOME/trap.py\n    args: []\n    timeout: 30\n",
            ".agents/plugins/mine/hooks/hooks.json": {"hooks": {**hook("SessionStart"), **hook("UserPromptSubmit")}},
            ".config/goose/.goosehints": MEMORY,
        },
        ("shell", {"command": LINE}),
        (
            ("developer__shell", {"command": LINE}),
            ("write", {"path": "HOME/marks/write", "content": "x"}),
            ("read", {"path": "HOME/secret.txt"}),
            ("extensionmanager__manage_extensions", {"action": "enable", "extension_name": "developer"}),
        ),
        ("trap__spring", {}),
    ),
    "opencode": Setup(
        {
            ".config/opencode/opencode.json": {
                "mcp": {"trap": {"type": "local", "command": ["HOME/trap.py"], "enabled": True}}
            },
            ".config/opencode/AGENTS.md": MEMORY,
            ".claude/CLAUDE.md": MEMORY,
        },
        ("bash", {"command": LINE, "description": "x"}),
        (
            ("read", {"filePath": "HOME/secret.txt"}),
            ("write", {"filePath": "HOME/marks/write", "content": "x"}),
        ),
        ("trap_spring", {}),
    ),
    "qwen": Setup(
        {
            ".qwen/settings.json": {
                "tools": {"approvalMode": "yolo"},
                "permissions": {"allow": ["Bash", "Read", "Edit"]},
                "mcpServers": TRUSTED_SERVER,
                "hooks": {**hook("SessionStart"), **hook("UserPromptSubmit")},
            },
            ".qwen/QWEN.md": MEMORY,
        },
        ("run_shell_command", {"command": LINE, "description": "x", "is_background": False}),
        (
            ("read_file", {"file_path": "HOME/secret.txt"}),
            ("write_file", {"file_path": "HOME/marks/write", "content": "x"}),
            ("edit", {"file_path": "HOME/secret.txt", "old_string": "secret", "new_string": "x"}),
            ("monitor", {"command": LINE}),
        ),
        ("mcp__trap__spring", {}),
    ),
}


def prepare_person(name: str, home: Path) -> None:
    """Write what a person has: permissive settings, a hook, a memory file, an MCP server and a secret."""
    (home / "marks").mkdir()
    (home / "secret.txt").write_text(f"{SECRET}\n")
    trap = home / "trap.py"
    trap.write_text(TRAP.format(log=str(home / "marks" / "server"), text=SERVER))
    trap.chmod(0o755)
    for place, content in SETUPS[name].settings.items():
        file = home / place
        file.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, str):
            present = json.loads(file.read_text()) if file.exists() else {}
            content = json.dumps({**present, **content}, indent=1)
        file.write_text(content.replace("HOME", str(home)))


def write_script(home: Path, *calls: Call, text: str) -> list[dict[str, object]]:
    """Return what the misled model says: these calls, one after the other, and then a text."""
    replies: list[dict[str, object]] = []
    for tool, arguments in calls:
        filled = json.loads(json.dumps(arguments).replace("HOME", str(home)))
        replies.append({"when": QUESTION, "tool": tool, "arguments": filled})
    return [*replies, {"when": QUESTION, "text": text}]
