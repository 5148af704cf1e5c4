"""Whether the installed coding agents are heard: what each captured last, and a round trip through its hook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from alma.coding.events import list_texts
from alma.files import read_settings_text
from alma.hooks.hosts import HOSTS, NOT_RUN, has_context_file
from alma.hooks.paths import DataDir, list_own_files, read_text

from .adapters import add_home, is_ours
from .targets import CLAUDE, FORMS, HostFile, list_codex_keys, list_states, locate

_SECONDS = 20.0
_SILENT_DAYS = 14
_FIRST_DAYS = 3
"""How long after its installation an agent may have captured nothing."""
_HOST = re.compile(r'"host":"(\w+)"')
_PROMPT = "install the packages"


class HostSample(NamedTuple):
    """How an agent reports the start of a session and a prompt."""

    start: str = "SessionStart"
    prompt: str = "UserPromptSubmit"
    text: str = "prompt"
    """The field of the prompt."""
    answer: str = "hookSpecificOutput"
    """The member of the answer that holds the text for the model; empty for a plain text."""


_SAMPLES = {
    "copilot": HostSample(answer="additionalContext"),
    "gemini": HostSample(prompt="BeforeAgent"),
    "kimi": HostSample(answer=""),
    "goose": HostSample(text="message", answer=""),
    "cursor": HostSample("sessionStart", "beforeSubmitPrompt", answer="additional_context"),
    # Crush accepts text before a tool call only.
    "crush": HostSample("PreToolUse", "PreToolUse", answer="context"),
}
_CALL = {"tool_name": "bash", "tool_input": {"command": "npm install"}}


def check_host(host: str, files: Sequence[HostFile], script_command: list[str], scratch: str) -> str:
    """Start an agent's hook as the agent does, in a scratch folder with a learned rule. Return what was seen.

    `script_command` is what a script of ours runs. Raise ValueError if a file is missing or not as installed, if the
    event is not in the journal, or if the rule is not in the answer.
    """
    command: str | list[str] = script_command
    for path, content, form in files:
        if not path.is_file():
            raise ValueError(f"missing: {path}")
        text = read_settings_text(path)
        if not form and text != content:
            raise ValueError(f"{path} is not as this version writes it")
        values = FORMS[form or "json"].load(text) if form or path.suffix == ".json" else {}
        if form and not is_ours(values):
            raise ValueError(f"{path} has no entry of ours")
        command = next(filter(is_ours, list_texts(values)), command)
    if host == "aider":
        count = len(files) // 2
        reads = "1 repository reads its" if count == 1 else f"{count} repositories read their"
        return f"{reads} file of rules; import sessions with `claude-smart learn`"
    data_dir, sample = DataDir(os.path.join(scratch, "home")), _SAMPLES.get(host, HostSample())
    environ = {"HOME": scratch, "USERPROFILE": scratch, "GOOSE_MOIM_MESSAGE_FILE": data_dir.goose_context}
    outputs = []
    for event in (sample.start, sample.prompt):
        payload = {"session_id": f"doctor-{host}", sample.text: _PROMPT, **(_CALL if host == "crush" else {})}
        payload["event" if host in ("goose", "crush") else "hook_event_name"] = event
        done = run_hook(command, payload, scratch, environ)
        outputs.append(done.stdout)
    if host not in find_captures(data_dir):
        reason = done.stderr.strip()[-200:] or "its interpreter or its script may be gone"
        raise ValueError(f"the hook recorded nothing: {reason}")
    if host == "goose":
        outputs = [read_text(data_dir.goose_context)]
    answer = "".join(_read_context(output, sample.answer) for output in outputs)
    if "pnpm" not in answer:
        raise ValueError(f"the rule was not in the answer: {outputs}")
    moment = "a tool call" if host == "crush" else "a prompt"
    tested = "written from its documentation, not run in it; " if host in NOT_RUN else ""
    return f"{tested}recorded {moment}, and answered with a rule ({len(answer)} characters)"


def run_hook(
    command: str | list[str], payload: Mapping[str, Any], scratch: str, environ: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    """Run a hook as a host does, with the data folder `home` and the project `repository` of a scratch folder."""
    data_dir, folder = DataDir(os.path.join(scratch, "home")), os.path.join(scratch, "repository")
    names = ("PATH", "SYSTEMROOT", "HOME", "USERPROFILE", "TEMP", "TMP")
    variables = {name: value for name, value in os.environ.items() if name.upper() in names} | {**environ}
    command = add_home(command, data_dir.home)
    # A pending request keeps the hook from starting a worker, which would outlive this folder.
    variables["CLAUDE_SMART_BACKEND_AUTOSTART"] = "0"
    Path(data_dir.sessions, "wanted").touch()
    return subprocess.run(
        command,
        shell=isinstance(command, str),
        input=json.dumps({"cwd": folder, **payload}),
        cwd=folder,
        env=variables,
        capture_output=True,
        timeout=_SECONDS,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def _read_context(output: str, member: str) -> str:
    """Return the text for the model in an answer, in the form that the host expects."""
    if not member or not output.strip():
        return output
    value = json.loads(output).get(member, "")
    return str(value.get("additionalContext", "") if isinstance(value, dict) else value)


def describe_trust(entry: Mapping[str, Any]) -> str:
    """Return why Codex skips our hooks; empty if it has a record that the person trusts each as it is now."""
    for name in entry.get("files", {}):
        config = Path(name).parent / "config.toml"
        states = list_states(FORMS["toml"].load(read_settings_text(config)))
        trusted = {key: state.get("trusted_hash") for key, state in states.items() if state.get("enabled") is not False}
        keys = list_codex_keys(Path(name))
        if any(trusted.get(key) != digest for key, digest in keys.items()):
            reason = "changed since you trusted them" if trusted.keys() & keys else "you did not trust"
            return f"Codex skips hooks that {reason}"
    return ""


def find_goose_gaps(home: Path, data_dir: DataDir) -> list[tuple[str, str]]:
    """Return why goose shows no rules, each with what to do about it."""
    gaps, variable = [], "GOOSE_MOIM_MESSAGE_FILE"
    if not has_context_file(data_dir):
        value = f"{os.environ[variable]}, which is not our file," if os.environ.get(variable) else "not set"
        gaps.append((f"{variable} is {value} in this terminal", f"export {variable}={data_dir.goose_context}"))
    config = locate(home, ".config/goose/config.yaml")
    extensions = FORMS["yaml"].load(read_settings_text(config)).get("extensions") or {}
    # goose turns it on by default.
    if (extensions.get("tom") or {}).get("enabled") is False:
        gaps.append((f"the extension `tom` is off in {config}", "turn it on with `goose configure`"))
    return [(f"goose shows no rules: {gap}", fix) for gap, fix in gaps]


# -- what was captured


def find_captures(data_dir: DataDir) -> dict[str, float]:
    """Return when each agent last captured something, by the journals that are still there."""
    captures: dict[str, float] = {}
    for path in list_own_files(data_dir, ".jsonl"):
        for host in set(_HOST.findall(read_text(path))):
            captures[host] = max(captures.get(host, 0.0), os.path.getmtime(path))
    return captures


def describe_captures(data_dir: DataDir, receipt: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return for each installed agent, and each that captured something, when it did so, and whether it is silent."""
    captures, entries = find_captures(data_dir), receipt.get("hosts", {})
    installed = [*([CLAUDE] if "settings" in receipt else []), *entries]
    states: dict[str, dict[str, Any]] = {}
    for host in HOSTS:
        if host not in installed and host not in captures:
            continue
        last = captures.get(host)
        installed_at = {**receipt, **entries.get(host, {})}.get("installed_at")
        since = last or (datetime.fromisoformat(installed_at).timestamp() if installed_at else 0.0)
        days = _SILENT_DAYS if last else _FIRST_DAYS
        is_silent = host in installed and time.time() - since > days * 86_400
        moment = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(last)) if last else None
        states[host] = {"installed": host in installed, "last_capture": moment, "silent": is_silent}
    return states


def describe_capture(host: str, state: Mapping[str, Any]) -> str:
    """Return the state of one agent on one line."""
    line = f"{HOSTS[host]}: " + (
        f"last captured {state['last_capture']}" if state["last_capture"] else "nothing captured yet"
    )
    if not state["installed"]:
        return f"{line} (installed by other means, or removed)"
    return f"{line}; it is installed and silent. Check it: claude-smart doctor" if state["silent"] else line
