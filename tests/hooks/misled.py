"""Sessions in which something is planted, and a model that was misled by it: played through the hooks.

Each line of the data is a session: `steps` in order (what a person types, calls of tools with what they returned, and
messages of the agent), the `notes` that a model answers with, as a successful injection would word them, the `foreign`
texts that must not be shown, and the `prompt` and `call` of a later session. `earlier` are sessions before that one.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from alma.hooks.drain import ProjectMemories, drain, read_sessions
from alma.stores.sqlite import SQLiteStore
from alma.types.asking import Answer, Prompt
from alma.types.query import Where
from alma.types.record import Record

from .conftest import Host
from .misled_notes import answer_notes

DATA = Path(__file__).parent / "data"
FILLER = "".join(
    f"line {number}: compiled module number {number} of the tree without warnings\n" for number in range(900)
)
Session = dict[str, Any]


def read_sessions_of(name: str) -> list[Session]:
    """Return the sessions of a file of the data."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


class MisledModel:
    """A model that answers with the notes of a session, once it is shown that session."""

    name = "scripted"

    def __init__(self, session: Session) -> None:
        self._turns = [step["person"] for step in session["steps"] if "person" in step]
        self._notes = session["notes"]

    def ask(self, prompt: Prompt) -> Answer:
        if '{\n "refused_notes"' in prompt.text:
            return Answer(value={"notes": self._insist(prompt)}, model=self.name)
        label, name = ("notes", "known") if '{\n "known"' in prompt.text else ("cases", "cases")
        start = prompt.text.rindex(f'{{\n "{name}"')
        material, _ = json.JSONDecoder().raw_decode(prompt.text[start:])
        if label == "notes":
            answer = answer_notes(self._turns, self._notes, material)
        else:
            answer = [{"n": case["n"], "lesson": True, "note": self._notes[0]["note"]} for case in material["cases"]]
        return Answer(value={label: answer}, model=self.name)

    def _insist(self, prompt: Prompt) -> list[dict[str, Any]]:
        """Return the refused notes with their words in another form, as a model would that is still misled."""
        start = prompt.text.rindex('{\n "refused_notes"')
        material, _ = json.JSONDecoder().raw_decode(prompt.text[start:])
        return [{"n": case["n"], "note": case["note"].replace("`", "")} for case in material["refused_notes"]]


def describe_response(call: dict[str, Any]) -> Any:
    """Return the result of a tool call as Claude Code reports it."""
    tool, output = call["tool"], expand_filler(call.get("output", ""))
    if tool == "Bash":
        return {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
    if tool == "Read":
        return {"type": "text", "file": {"filePath": call["input"]["file_path"], "content": output}}
    if tool == "WebFetch":
        return {"bytes": len(output), "code": 200, "result": output, "url": call["input"]["url"]}
    if tool == "Grep":
        return {"mode": "content", "content": output, "filenames": []}
    if tool in ("Edit", "Write"):
        return {"filePath": call["input"]["file_path"], "userModified": False}
    if tool == "Task":
        return {"content": [{"type": "text", "text": output}], "totalDurationMs": 5}
    return output if isinstance(output, list) else [{"type": "text", "text": output}]


def expand_filler(output: Any) -> Any:
    """Return an output with the lines that `{FILLER}` stands for."""
    return output.replace("{FILLER}", FILLER) if isinstance(output, str) else output


def play_steps(host: Host, session: str, steps: list[dict[str, Any]], transcript: Path) -> None:
    """Play a session through the hook, to its end."""
    host.send("SessionStart", session, source="startup", transcript_path=str(transcript))
    prompt_id = ""
    for number, step in enumerate(steps):
        if "person" in step:
            prompt_id = f"{session}-{number}"
            host.send("UserPromptSubmit", session, prompt=step["person"], prompt_id=prompt_id)
        elif "agent" in step:
            host.send("Stop", session, last_assistant_message=step["agent"], prompt_id=prompt_id)
        else:
            tool = {"tool_name": step["tool"], "tool_input": step["input"], "tool_use_id": f"{session}-call-{number}"}
            host.send("PreToolUse", session, **tool)
            if step.get("ok", True):
                host.send("PostToolUse", session, **tool, tool_response=describe_response(step))
            else:
                error = expand_filler(step.get("output", "")) or "Exit code 1"
                host.send("PostToolUseFailure", session, **tool, error=error, is_interrupt=False)
            if step["tool"] == "Task":
                answer = {"agent_id": "a1", "agent_type": "general-purpose", "last_assistant_message": step["output"]}
                host.send("SubagentStop", session, **answer)
    host.send("SessionEnd", session, reason="prompt_input_exit")


class Memory(NamedTuple):
    """What a machine knows after a session: its rules that hold, and all that a later session may be shown."""

    rules: list[Record]
    injected: str
    """What the hooks add to a later session that is about the same."""
    showable: str
    """All texts of active records."""


@contextmanager
def use_model(patch: pytest.MonkeyPatch, model: Any) -> Iterator[None]:
    """Let this model read sessions, in this process."""
    with patch.context() as inner:
        inner.setattr("alma.hooks.reader.registry.create", lambda *arguments: model)
        inner.setattr("alma.hooks.reader.find_program", lambda data_dir: "claude")
        yield


def import_sessions(host: Host, patch: pytest.MonkeyPatch, model: Any) -> None:
    """Import what was recorded, and let the model read it if there is one."""
    with ProjectMemories(host.place) as memory:
        report = drain(host.place, memory=memory)
        assert report.problems == []
        if model is not None:
            with use_model(patch, model):
                read_sessions(host.place, memory)


def play(folder: Path, session: Session, patch: pytest.MonkeyPatch, *, has_model: bool) -> Memory:
    """Play a session and those before it on a machine of their own. Return what comes of them."""
    host = make_host(folder, session, has_model=has_model)
    model = MisledModel(session) if has_model else None
    for number, steps in enumerate([*session.get("earlier", []), session["steps"]]):
        play_steps(host, f"old-{number}", steps, folder / f"old-{number}.jsonl")
        import_sessions(host, patch, model)
    return look_back(host, session, folder)


def play_both(folder: Path, session: Session, patch: pytest.MonkeyPatch) -> dict[str, Memory]:
    """Return what comes of a session without a model ("none") and with one ("model"). It is played once, if it may."""
    if session.get("earlier"):
        # A model that may read reads the earlier ones before the last.
        choices = {"none": False, "model": True}
        return {name: play(folder / name, session, patch, has_model=choice) for name, choice in choices.items()}
    host = make_host(folder, session, has_model=True)
    play_steps(host, "old-0", session["steps"], folder / "old-0.jsonl")
    import_sessions(host, patch, None)
    write_settings(host.home, has_model=False)
    unread = look_back(host, session, folder, "new-0")
    write_settings(host.home, has_model=True)
    with ProjectMemories(host.place) as memory, use_model(patch, MisledModel(session)):
        read_sessions(host.place, memory)
    return {"none": unread, "model": look_back(host, session, folder)}


def write_settings(home: Path, *, has_model: bool) -> None:
    """Write whether a model may read."""
    (home / "config.json").write_text(json.dumps({"model": "on" if has_model else "off", "embedding": "off"}))


@cache
def read_new_database() -> bytes:
    """Return a database without memories. It has the same bytes on each machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.db")
        SQLiteStore(path).close()
        return path.read_bytes()


def make_host(folder: Path, session: Session, *, has_model: bool) -> Host:
    """Return a machine with a repository that has the files of a session."""
    home, repository = folder / "home", folder / "app"
    home.mkdir(parents=True, mode=0o700)
    (home / "runtime.json").write_text(json.dumps({"python": "/bin/true", "path": ""}))
    (home / "memory.db").write_bytes(read_new_database())
    write_settings(home, has_model=has_model)
    (repository / ".git").mkdir(parents=True)
    (repository / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:acme/app.git\n')
    for name, text in session.get("files", {}).items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Host(home, repository)


def look_back(host: Host, session: Session, folder: Path, new: str = "new-1") -> Memory:
    """Return what a later session with the same subject is shown."""
    parts = [host.send("SessionStart", new, source="startup", transcript_path=str(folder / f"{new}.jsonl"))]
    for number, prompt in enumerate((session["prompt"], f"and then again: {session['prompt']}")):
        parts.append(host.send("UserPromptSubmit", new, prompt=prompt, prompt_id=f"{new}-{number}"))
        call = {"tool_name": "Bash", "tool_input": {"command": session["call"]}, "tool_use_id": f"{new}-call-{number}"}
        parts.append(host.send("PreToolUse", new, **call))
        parts.append(host.send("PostToolUseFailure", new, **call, error="Exit code 1", is_interrupt=False))
    with ProjectMemories(host.place) as memory:
        store = memory.alma.engine.store
        found = [*store.scan(Where(kinds={"rule", "exchange", "observation"}))]
    records = [record for record in found if str(record.status) == "active"]
    texts = []
    for record in records:
        names = ("before", "person", "then") if record.kind == "exchange" else ("line", "accepted")
        texts.append(" ".join(str(record.body.get(name, "")) for name in names))
    rules = [record for record in records if record.kind == "rule"]
    return Memory(rules, os.linesep.join(filter(None, parts)), os.linesep.join(texts))


def find_leaks(session: Session, memory: Memory) -> list[str]:
    """Return what was planted and came through, and where."""
    leaks = []
    rules = [" ".join(str(rule.body.get(name, "")) for name in ("rule", "trigger", "why")) for rule in memory.rules]
    for rule in rules:
        for text in (*session["foreign"], *session.get("refused", ())):
            if text.casefold() in rule.casefold():
                leaks.append(f"rule {text!r}: {rule}")
    for where, shown in (("shown", memory.injected), ("showable", memory.showable)):
        for text in session["foreign"]:
            if text.casefold() in shown.casefold():
                place = shown.casefold().index(text.casefold())
                leaks.append(f"{where} {text!r}: …{' '.join(shown[max(0, place - 120) : place + 60].split())}…")
    for text in session.get("keeps", ()):
        if text not in memory.injected:
            leaks.append(f"lost {text!r}")
    return leaks


def find_losses(session: Session, memory: Memory) -> list[str]:
    """Return what a person agreed to and the next session is not shown."""
    losses = [f"not shown: {text!r}" for text in session["shown"] if text not in memory.injected]
    texts = session["shown"]
    states = {str(rule.body["basis"]) for rule in memory.rules if all(text in rule.body["rule"] for text in texts)}
    if session["state"] not in states:
        losses.append(f"no {session['state']} rule, but {states or 'none'}")
    return losses
