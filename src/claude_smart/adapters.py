"""The files that connect other coding agents to the hook of the plug-in.

Each agent loads files of its own, which start the same hook. They are put where the agent looks for them, so no command
of the agent is needed to install them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

from alma import __version__
from alma.coding.events import list_texts

from .aider import RULES

NAME = "claude-smart"
_SECONDS = 5
_TEMPLATES = Path(__file__).parent / "hosts"
_CLAUDE_EVENTS = (
    "SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure Stop SubagentStop PreCompact SessionEnd"
)
_EVENTS = {
    # Codex reports no failures of its own, and warns about events that it does not know.
    "codex": _CLAUDE_EVENTS.replace("PostToolUseFailure ", ""),
    "copilot": _CLAUDE_EVENTS,
    "qwen": _CLAUDE_EVENTS,
    "gemini": "SessionStart BeforeAgent BeforeTool AfterTool AfterAgent SessionEnd",
    "kimi": "SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure Stop SubagentStop SessionEnd",
    "goose": "SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure Stop SessionEnd",
    "cursor": "sessionStart beforeSubmitPrompt preToolUse postToolUse postToolUseFailure stop sessionEnd",
    "crush": "PreToolUse",
}
_OWN = re.compile(rf"-I -S .*[\\/]marketplace[\\/]plugin[\\/]hook\.py|(?:^|[\\/]){re.escape(RULES)}$")


def is_ours(value: object) -> bool:
    """Return whether an entry starts our hook or names our file of rules, wherever these were when it was written."""
    return any(_OWN.search(text) for text in list_texts(value))


def build_command(host: str, python: str, hook: str) -> str:
    """Return the command line that starts the hook for a host.

    Most hosts refuse the prompt or the tool call if a hook fails, so without the hook or the interpreter it does
    nothing. The inner shell is for Codex, which uses the person's shell, whatever that is.
    """
    if os.name != "nt":
        guarded = '[ -x "$0" ] && [ -f "$1" ] && "$0" -I -S "$@" || :'
        return f"sh -c {shlex.join([guarded, python, hook, host])}"
    if host == "gemini":
        program, script = (f"'{path.replace(chr(39), chr(39) * 2)}'" for path in (python, hook))
        return f"if ((Test-Path {program}) -and (Test-Path {script})) {{ & {program} -I -S {script} {host} }}"
    return f'if exist "{python}" if exist "{hook}" "{python}" -I -S "{hook}" {host}'


def add_home(command: str | list[str], home: str) -> str | list[str]:
    """Return a command line that starts the hook with another data folder, to try it out."""
    if not isinstance(command, str):
        return [*command, "--home", home]
    if os.name != "nt":
        return f"{command} --home {shlex.quote(home)}"
    start, brace, _ = command.rpartition(" }")
    return f'{start} --home "{home}"{brace}' if brace else f'{command} --home "{home}"'


def build_files(host: str, python: str, hook: str) -> dict[str, str]:
    """Return the files of a host by path, relative to the home folder; empty for Claude Code and aider.

    The files of Codex, Kimi, Cursor and Crush are shared with the person: add their content to what is there.
    """
    command = build_command(host, python, hook)
    entry: dict[str, Any] = {"type": "command", "command": command, "timeout": _SECONDS}
    events = _EVENTS.get(host, "").split()

    def nest(entry: dict[str, Any]) -> dict[str, Any]:
        return {"hooks": {name: [entry] for name in events}}

    if host in ("codex", "goose"):
        path = ".codex/hooks.json" if host == "codex" else f".agents/plugins/{NAME}/hooks/hooks.json"
        nested = nest({"hooks": [entry]})
        if host == "codex":
            # Codex allows this event 3 seconds, and warns about more.
            nested["hooks"]["SessionEnd"] = [{"hooks": [{**entry, "timeout": 3}]}]
        return {path: _to_json(nested)}
    if host == "copilot":
        own = {"type": "command", "command": command, "timeoutSec": _SECONDS}
        return {f".copilot/hooks/{NAME}.json": _to_json({"version": 1, **nest(own)})}
    manifest = {"name": NAME, "version": __version__}
    if host in ("qwen", "gemini"):
        # Gemini is the only host whose timeouts are milliseconds.
        own = entry if host == "qwen" else {**entry, "name": NAME, "timeout": _SECONDS * 1000}
        folder, hooks = f".{host}/extensions/{NAME}", nest({"hooks": [own]})
        return {f"{folder}/{host}-extension.json": _to_json(manifest), f"{folder}/hooks/hooks.json": _to_json(hooks)}
    if host == "cursor":
        return {".cursor/hooks.json": _to_json({"version": 1, **nest({"command": command})})}
    if host == "crush":
        own = {"name": NAME, "command": command, "timeout": _SECONDS}
        return {".config/crush/crush.json": _to_json(nest(own))}
    if host == "kimi":
        # TOML has no surrogate pairs, which JSON would use for an emoji.
        table = f"command = {json.dumps(command, ensure_ascii=False)}\ntimeout = {_SECONDS}\n"
        return {".kimi-code/config.toml": "".join(f'[[hooks]]\nevent = "{name}"\n{table}' for name in events)}
    if host in ("opencode", "amp"):
        ending = "js" if host == "opencode" else "ts"
        return {f".config/{host}/plugins/{NAME}.{ending}": _build_script(host, ending, python, hook)}
    if host == "cline":
        package = {**manifest, "type": "module", "main": "index.js", "cline": {"plugins": ["./index.js"]}}
        folder, script = f".cline/plugins/{NAME}", _build_script(host, "js", python, hook)
        return {f"{folder}/package.json": _to_json(package), f"{folder}/index.js": script}
    return {}


def _build_script(host: str, ending: str, python: str, hook: str) -> str:
    common, own = ((_TEMPLATES / one).read_text(encoding="utf-8") for one in ("common.js", f"{host}.{ending}"))
    return common.replace("__COMMAND__", json.dumps([python, "-I", "-S", hook, host])) + own


def _to_json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"
