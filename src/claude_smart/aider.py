"""Import the sessions of aider, which has no hooks, from its history file, and write the rules that it reads."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from alma.errors import ConfigError
from alma.files import read_content, write_atomic
from alma.hooks.hosts import write_context_file
from alma.hooks.inject import UnreadableStoreError, read_playbook
from alma.hooks.origin import HOST, OTHER
from alma.hooks.paths import DataDir, digest, read_object
from alma.hooks.privacy import is_paused
from alma.hooks.project import find_copy, locate_project
from alma.hooks.run import answer_event
from alma.trust_register import find_tracked_files

HISTORY = ".aider.chat.history.md"
INPUTS = ".aider.input.history"
"""What a person typed, one line after each plus sign."""
RULES = ".aider.claude-smart.md"
_START = "# aider chat started at "
# The command line of aider, which it writes into the history, with a message for a run without a person: `-m TEXT`,
# `-mTEXT`, `--msg=TEXT`, `-f FILE` and so on.
_SCRIPTED = re.compile(r"> (?:.*?[\\/])?(?:aider(?:\.exe)?|__main__\.py) (?:.* )?(?:-[mf]|--ms|--message)")
_MOST_BYTES = 1 << 24


class AiderTurn(NamedTuple):
    """A prompt of a session and aider's answer to it. `entry` says whether a person drove the session."""

    started: str
    entry: str
    prompt: str
    reply: str


def import_history(data_dir: DataDir, folder: str, *, is_person: bool = False) -> int:
    """Add the new turns of a folder's history to journals. Return the number of new prompts.

    The files are in the folder, where an agent can write, so what they say is believed only if a person imports them.

    Only prompts that are also in the file of typed lines are a person's; the history alone may quote anything. What was
    imported is remembered by its place, so that a turn that was erased or has expired is not imported again.
    """
    if is_paused(data_dir, _find_project(data_dir, folder)):
        return 0
    history = read_content(Path(folder, HISTORY)) or b""
    if find_tracked_files([Path(folder, HISTORY)]):
        problem = "is tracked by git, so it may be another person's; remove it from the repository"
        raise ConfigError(f"{Path(folder, HISTORY)} {problem}")
    inputs = read_content(Path(folder, INPUTS))
    typed = None if inputs is None else set(inputs.decode("utf-8", "replace").splitlines())
    # For each session, the last prompt and the last answer that were imported.
    marks: dict[str, list[int]] = read_object(data_dir.aider, _MOST_BYTES)
    sender = HOST if is_person else OTHER
    count, numbers = 0, dict[str, int]()
    for turn in read_history(history.decode("utf-8", "replace")):
        session = f"aider-{digest(folder, turn.started)[:16]}"
        numbers[session] = number = numbers.get(session, 0) + 1
        entry = turn.entry
        if entry == "cli":
            is_typed = typed is not None and all(f"+{line}" in typed for line in turn.prompt.split("\n"))
            entry = "unknown" if typed is None else "cli" if is_typed else "headless"
        fields = {"entry": entry, "session_id": session, "cwd": folder, "prompt_id": str(number)}
        at = 0.0
        with suppress(ValueError):
            at = datetime.fromisoformat(turn.started).timestamp() + number
        mark = marks.setdefault(session, [0, 0])
        for place, (name, text) in enumerate((("prompt", turn.prompt), ("last_assistant_message", turn.reply))):
            event = "Stop" if place else "UserPromptSubmit"
            if text and number > mark[place]:
                line = json.dumps({**fields, "at": at, "hook_event_name": event, name: text})
                answer_event(line.encode(), data_dir, host="aider", sender=sender)
                mark[place] = number
                count += name == "prompt"
    if numbers:
        data_dir.create_folders()
        write_atomic(data_dir.aider, json.dumps(marks))
    return count


def write_rules(data_dir: DataDir, folder: str) -> None:
    """Write the rules of a folder's project to the file that aider reads."""
    project, rules = _find_project(data_dir, folder), ""
    if os.path.exists(data_dir.db) and not is_paused(data_dir, project):
        with suppress(UnreadableStoreError):
            rules = read_playbook(data_dir, project, "", folder, "aider")
    # Also without rules: the configuration of aider names the file.
    if rules.encode() != read_content(Path(folder, RULES)):
        write_atomic(Path(folder, RULES), rules)


def refresh_rules(data_dir: DataDir) -> None:
    """Rewrite the files in which agents read rules: those of aider, and the one of goose, until its next prompt."""
    receipt = read_object(os.path.join(data_dir.home, "marketplace", "receipt.json"), _MOST_BYTES)
    for name in receipt.get("hosts", {}).get("aider", {}).get("files", {}):
        if os.path.basename(name) == RULES and os.path.isfile(name):
            write_rules(data_dir, os.path.dirname(name))
    if os.path.exists(data_dir.goose_context):
        write_context_file(data_dir, "")


def _find_project(data_dir: DataDir, folder: str) -> str:
    return find_copy(data_dir, locate_project(folder, ""), remember=False).key


def read_history(text: str) -> Iterator[AiderTurn]:
    """Yield the turns of a history file: `#### ` starts a line of the person, `> ` a line of aider itself."""
    started, entry, prompt, reply = "", "cli", list[str](), list[str]()
    for line in [*text.splitlines(), _START]:
        # aider ends its own lines with two spaces, unlike a heading in an answer.
        is_spoken = line.startswith("#### ") and line.endswith("  ")
        if prompt and (line.startswith(_START) or (is_spoken and reply)):
            yield AiderTurn(started, entry, "\n".join(prompt), "\n".join(reply).strip())
            prompt, reply = [], []
        if line.startswith(_START):
            started, entry = line.removeprefix(_START).strip(), "cli"
        elif is_spoken:
            prompt.append(line.removeprefix("#### ").rstrip())
        elif line.startswith("> ") and not prompt and _SCRIPTED.match(line):
            entry = "headless"
        elif prompt and line.strip() and not line.startswith(">"):
            reply.append(line)
