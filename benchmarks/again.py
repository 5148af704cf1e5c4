"""Corrected once, never again? Play scenarios through the hooks and write what an agent would be asked.

    python -m benchmarks.again play --base DIR --data X.jsonl… [--model] [--filler F.jsonl --fill 12]
        The past sessions through the installed hook, with one home folder for each scenario: prompts, tool calls and
        replies. --filler adds sessions that teach nothing. With --model, `claude` is fake_claude.py: a prompt without
        an answer is written to DIR/prompts/KEY.txt. Put the answer into DIR/answers/KEY.json and run the same command
        again, until it says that all sessions are played.
    python -m benchmarks.again ask --base DIR --data X.jsonl… --arm alma|none|raw|turns|gold|recent [--out D] [--worker]
        The tests of one arm as prompts; `alma`: what the hooks inject, from a copy of the home folder for each test.
        `recent`: the newest exchanges, those of --filler included. Fails if a test is shown more than 2,200 characters.
    python -m benchmarks.again judge --data X.jsonl… --answers DIR --out DIR
        The answers of all arms in random order, for a judge, with key.json beside them.
    python -m benchmarks.again score --data X.jsonl… --key FILE --verdicts DIR [--list]

All events carry today's date, in order; the dates of the scenarios are not played.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LIMIT = 2_200
SETTINGS = {"daily_calls": 2000, "playbook_tokens": 350, "prompt_tokens": 150}
READER = Path(__file__).resolve().with_name("fake_claude.py")
MODEL = "claude-opus-5-5"
Scenario = dict[str, Any]
ASK = """\
You are a coding agent. Below is what you know and one task. Answer the task directly in at most 12 lines of text, \
code or commands. You cannot open files or ask questions; decide as you would in a real session. Do not comment on \
what you know.

=== THE REPOSITORY
{project}

{memory}=== TASK
{prompt}
"""
WORDS = (
    "WHAT THE USER WROTE IN EARLIER SESSIONS (newest session first, word for word; some of it was only for that task)"
)

RECENT = "THE LAST THINGS SAID AND DONE IN EARLIER SESSIONS (word for word; some of it was only for that task)"
RECENT_CHARS = 2_000


def read_rows(paths: Iterable[str]) -> list[Scenario]:
    """Return the objects in files of JSON Lines."""
    lines = [line for path in paths for line in Path(path).read_text().splitlines()]
    return [json.loads(line) for line in lines if line.strip()]


def add_filler(scenario: Scenario, filler: Sequence[Scenario], count: int) -> list[Scenario]:
    """Return the sessions of a scenario with `count` others before, between and after them, none twice."""
    chance = random.Random(scenario["id"])
    own = [one for one in filler if one["lang"] == scenario["lang"]]
    pool = own + [one for one in filler if one["lang"] == "en" and one not in own]
    gaps: list[list[Scenario]] = [[] for _ in range(len(scenario["sessions"]) + 1)]
    for one in chance.sample(pool, min(count, len(pool))):
        chance.choice(gaps).append({"at": "", "turns": one["turns"]})
    sessions = list(gaps[0])
    for session, after in zip(scenario["sessions"], gaps[1:], strict=True):
        sessions += [session, *after]
    return sessions


def make_id(*parts: object) -> str:
    """Return an id that is the same in each run."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "-".join(map(str, parts))))


class Host:
    """One home folder with the plugin installed, and one project in it."""

    def __init__(self, base: Path, scenario: Scenario, *, model: bool = False, home: Path | None = None) -> None:
        self.base = base.resolve()
        self.scenario = scenario
        self.home = home or self.base / "homes" / scenario["id"]
        self.cwd = self.base / "p" / scenario["id"]
        self.lines = 0
        tools = Path(sys.executable).parent
        self.environ = {"HOME": str(self.home), "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        self.environ["CLAUDE_SMART_BACKEND_AUTOSTART"] = "0"
        for folder in (self.home, self.base / "answers"):
            folder.mkdir(parents=True, exist_ok=True)
        if not self.cwd.exists():
            self.cwd.mkdir(parents=True)
            subprocess.run(["git", "init", "-q", str(self.cwd)], check=True)
        if not (self.home / ".claude-smart" / "runtime.json").exists():
            self.install(model=model)
        self.hook = next(self.home.glob(".claude-smart/**/plugin/hook.py"))

    def install(self, *, model: bool) -> None:
        """Install the plugin with a file of settings: no variable gives leave to read or names a program."""
        environment = {f"AGAIN_{name.upper()}": str(self.base / name) for name in ("answers", "prompts")}
        own = {"model": "on" if model else "off", "program": str(READER), "environment": environment}
        file = self.home / "settings.json"
        file.write_text(json.dumps({**SETTINGS, **own}))
        file.chmod(0o600)
        self.smart("install", "--yes", "--settings", str(file))

    def smart(self, *arguments: str) -> str:
        """Run a `claude-smart` command. Return its output."""
        command = [sys.executable, "-P", "-m", "claude_smart", *arguments]
        done = subprocess.run(
            command, cwd=self.cwd, env=self.environ, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode and arguments[0] != "learn":
            raise SystemExit(f"claude-smart {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def fire(self, session: str, name: str, **fields: Any) -> str:
        """Send an event to the hook. Return the text for the model."""
        event = {"session_id": session, "cwd": str(self.cwd), "hook_event_name": name, **fields}
        event |= {"transcript_path": str(self.base / f"{session}.jsonl"), "permission_mode": "default"}
        environ = {**self.environ, "CLAUDE_CODE_ENTRYPOINT": "cli"}
        command = ["python3", "-I", "-S", str(self.hook)]
        done = subprocess.run(
            command, input=json.dumps(event), capture_output=True, text=True, cwd=self.cwd, env=environ, check=False
        )
        try:
            output = json.loads(done.stdout).get("hookSpecificOutput") or {}
        except ValueError:
            return ""
        return str(output.get("additionalContext") or "")

    def note(self, session: str, role: str, content: Any, **more: Any) -> None:
        """Append a line to the session's transcript, as Claude Code writes it."""
        self.lines += 1
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {
            "type": role,
            "uuid": make_id(session, "line", self.lines),
            "sessionId": session,
            "cwd": str(self.cwd),
            "isSidechain": False,
            "version": "2.1.325",
            "timestamp": moment,
            "message": {"role": role, "content": content},
            **more,
        }
        with open(self.base / f"{session}.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    def play_session(self, number: int, turns: Sequence[Mapping[str, Any]]) -> None:
        """Play one session. It is imported as by any installation: when it has ended, in the background."""
        session = make_id(self.scenario["id"], number)
        self.fire(session, "SessionStart", source="startup", model=MODEL)
        for place, turn in enumerate(turns):
            prompt_id = make_id(session, place)
            self.fire(session, "UserPromptSubmit", prompt=turn["person"], prompt_id=prompt_id)
            self.note(session, "user", turn["person"], promptId=prompt_id)
            for count, call in enumerate(turn.get("did", [])):
                self.play_call(session, call, f"toolu_{number}_{place}_{count}")
            if turn.get("assistant"):
                self.note(session, "assistant", [{"type": "text", "text": turn["assistant"]}])
                self.fire(session, "Stop", stop_hook_active=False, last_assistant_message=turn["assistant"])
        self.fire(session, "SessionEnd", reason="prompt_input_exit")

    def play_call(self, session: str, call: Mapping[str, Any], call_id: str) -> None:
        """Play a tool call and its result."""
        tool = {"tool_name": call["tool"], "tool_input": call["input"], "tool_use_id": call_id}
        used = {"type": "tool_use", "id": call_id, "name": call["tool"], "input": call["input"]}
        self.note(session, "assistant", [used])
        self.fire(session, "PreToolUse", **tool)
        output = call.get("output", "")
        if not call["ok"]:
            self.fire(session, "PostToolUseFailure", **tool, error=output or "Exit code 1", is_interrupt=False)
        elif call["tool"] == "Bash":
            response = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
            self.fire(session, "PostToolUse", **tool, tool_response=response)
        else:
            response = {"filePath": call["input"]["file_path"], "userModified": False}
            self.fire(session, "PostToolUse", **tool, tool_response=response)
        result = {"type": "tool_result", "tool_use_id": call_id, "content": output or "ok", "is_error": not call["ok"]}
        self.note(session, "user", [result])


# -- play


def play(args: argparse.Namespace) -> None:
    """Play the sessions of all scenarios, as far as the reader has answers."""
    base = Path(args.base)
    base.mkdir(parents=True, exist_ok=True)
    file = base / "state.json"
    state = json.loads(file.read_text()) if file.exists() else {}
    filler = read_rows([args.filler]) if args.filler else []
    waiting_count = 0
    for scenario in read_rows(args.data):
        host = Host(base, scenario, model=args.model)
        sessions = add_filler(scenario, filler, args.fill) if filler else scenario["sessions"]
        progress = state.setdefault(scenario["id"], {"next": 0, "missing": []})
        while is_ready(host, progress) and progress["next"] < len(sessions):
            known = list_prompts(base)
            host.play_session(progress["next"], sessions[progress["next"]]["turns"])
            progress["next"] += 1
            if args.model:
                host.smart("learn")
                new = sorted(list_prompts(base) - known)
                progress["missing"] = [key for key in new if not has_answer(base, key)]
            file.write_text(json.dumps(state))
        if not args.model:
            host.smart("learn")
        waiting_count += progress["next"] < len(sessions) or bool(progress["missing"])
        file.write_text(json.dumps(state))
    missing = [key for progress in state.values() for key in progress["missing"] if not has_answer(base, key)]
    waiting = f"{waiting_count} scenarios wait for answers to {len(missing)} prompts"
    print(waiting if waiting_count else "all sessions are played")


def is_ready(host: Host, progress: dict[str, Any]) -> bool:
    """Return whether no answer is missing. What was answered meanwhile is learned."""
    if any(not has_answer(host.base, key) for key in progress["missing"]):
        return False
    if progress["missing"]:
        host.smart("learn")
        progress["missing"] = []
    return True


def list_prompts(base: Path) -> set[str]:
    """Return the keys of the prompts that the reader was asked and could not answer."""
    return {path.stem for path in (base / "prompts").glob("*.txt")}


def has_answer(base: Path, key: str) -> bool:
    """Return whether there is an answer to a prompt."""
    return (base / "answers" / f"{key}.json").exists()


# -- ask


def collect_injected(args: argparse.Namespace, scenario: Scenario, number: int, prompt: str, scratch: Path) -> str:
    """Return what the hooks add for a test, from a copy of the home folder."""
    base = Path(args.base).resolve()
    home = scratch / f"{scenario['id']}-{number}"
    copy_home(base / "homes" / scenario["id"], home)
    host = Host(base, scenario, home=home)
    if args.worker:
        del host.environ["CLAUDE_SMART_BACKEND_AUTOSTART"]
    session = make_id(scenario["id"], "test", number)
    first = host.fire(session, "SessionStart", source="startup", model=MODEL)
    second = host.fire(session, "UserPromptSubmit", prompt=prompt, prompt_id=str(uuid.uuid4()))
    worker = home / ".claude-smart" / "worker.json"
    with suppress(OSError, ValueError, KeyError):
        os.kill(int(json.loads(worker.read_text())["pid"]), signal.SIGTERM)
    parts = (("ADDED AT THE START OF THE SESSION", first), ("ADDED WITH THE TASK", second))
    return "".join(f"=== {where}\n{text}\n\n" for where, text in parts if text)


def copy_home(own: Path, home: Path) -> None:
    """Copy a home folder. The installed files name the folder that they were installed in."""
    shutil.copytree(own, home, symlinks=True, ignore=shutil.ignore_patterns("*.sock", "*.lock", "worker.json"))
    files = [file for file in home.rglob("*") if file.suffix in (".json", ".py", ".sh") and file.is_file()]
    for file in files:
        text = file.read_text(errors="ignore") if file.stat().st_size < 200_000 else ""
        if str(own) in text:
            file.write_text(text.replace(str(own), str(home)))


def collect_transcripts(scenario: Scenario) -> str:
    """Return all that was said in a scenario."""
    lines = []
    for session in scenario["sessions"]:
        lines.append(f"[session of {session['at'][:10]}]")
        for turn in session["turns"]:
            lines += [f"person: {turn['person']}", f"you: {turn.get('assistant', '')}"]
    return "=== TRANSCRIPTS OF EARLIER SESSIONS\n" + "\n".join(lines) + "\n\n"


def collect_turns(scenario: Scenario) -> str:
    """Return the person's own words, newest session first, within 2,000 characters."""
    lines = []
    for session in reversed(scenario["sessions"]):
        lines.append(f"{session['at'][:10]}:")
        lines += [f"- {' '.join(turn['person'].split())[:240]}" for turn in session["turns"]]
    return f"=== {WORDS}\n" + "\n".join(lines)[:2000] + "\n\n"


def collect_recent(sessions: Sequence[Scenario]) -> str:
    """Return the most recent exchanges, as many as fit, in the order of time: a baseline that chooses nothing."""
    entries: list[str] = []
    for session in sessions:
        before = ""
        for turn in session["turns"]:
            lines = [f"you: {before[-110:]}"] if before else []
            lines += [f"user: {turn['person'][:260]}", f"you: {turn.get('assistant', '')[:200]}"]
            before = turn.get("assistant", "")
            entries.append("\n".join(lines))
    chosen: list[str] = []
    for entry in reversed(entries):
        if sum(map(len, chosen)) + len(entry) + len(chosen) > RECENT_CHARS:
            break
        chosen.insert(0, entry)
    return f"=== {RECENT}\n" + "\n".join(chosen) + "\n\n"


def ask(args: argparse.Namespace) -> None:
    """Write the tests of one arm as prompts."""
    is_ours = args.arm == "alma"
    out = Path(args.base) / "ask-alma" if is_ours and not args.out else Path(args.out or "asks") / args.arm
    out.mkdir(parents=True, exist_ok=True)
    sizes = []
    scratch = Path(tempfile.mkdtemp(prefix="again-"))
    filler = read_rows([args.filler]) if args.filler else []
    for scenario in read_rows(args.data):
        parts = []
        for number, test in enumerate(scenario["tests"]):
            memory = ""
            if args.arm == "raw":
                memory = collect_transcripts(scenario)
            elif args.arm == "turns":
                memory = collect_turns(scenario)
            elif args.arm == "gold":
                memory = "=== RULES OF THIS REPOSITORY\n" + "\n".join(f"- {one}" for one in scenario["gold"]) + "\n\n"
            elif args.arm == "recent":
                memory = collect_recent(add_filler(scenario, filler, args.fill))
            elif is_ours:
                memory = collect_injected(args, scenario, number, test["prompt"], scratch)
            sizes.append(len(memory))
            question = ASK.format(project=scenario["project"], memory=memory, prompt=test["prompt"])
            parts.append(f"##### QUESTION {number + 1}\n{question}")
        (out / f"{scenario['id']}.txt").write_text("\n".join(parts))
    # Processes that a hook woke may still be writing.
    time.sleep(3 if is_ours else 0)
    shutil.rmtree(scratch, ignore_errors=True)
    figures = f"mean {sum(sizes) / len(sizes):.0f}, most {max(sizes)}, empty {sizes.count(0)}"
    print(f"{args.arm}: {len(sizes)} questions, characters of memory: {figures}")
    too_long = sum(size > LIMIT for size in sizes)
    if is_ours and too_long:
        raise SystemExit(f"more than {LIMIT} characters are shown in {too_long} tests")


# -- judge and score


def judge(args: argparse.Namespace) -> None:
    """Write the answers of all arms in random order, and which is whose."""
    key = {}
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    chance = random.Random(7)
    arms = sorted(path.name for path in Path(args.answers).iterdir() if path.is_dir())
    for scenario in read_rows(args.data):
        parts = []
        for number, test in enumerate(scenario["tests"], 1):
            order = arms[:]
            chance.shuffle(order)
            key[f"{scenario['id']}/{number}"] = order
            must, must_not = (json.dumps(test.get(name, []), ensure_ascii=False) for name in ("must", "must_not"))
            parts.append(f"##### TEST {number}\nTASK: {test['prompt']}\nMUST: {must}\nMUST NOT: {must_not}")
            for place, arm in enumerate(order):
                answers = json.loads(Path(args.answers, arm, f"{scenario['id']}.json").read_text())
                parts.append(f"--- ANSWER {chr(65 + place)}\n{answers[str(number)]}")
        (out / f"{scenario['id']}.txt").write_text("\n".join(parts))
    (out / "key.json").write_text(json.dumps(key))
    print(len(key), "tests,", arms)


def score(args: argparse.Namespace) -> None:
    """Print the share of right answers for each arm, in all tests and by kind, language and author."""
    key = json.loads(Path(args.key).read_text())
    scenarios = {one["id"]: one for one in read_rows(args.data)}
    totals: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    lines = []
    for name, order in key.items():
        scenario_id, number = name.split("/")
        verdicts = json.loads(Path(args.verdicts, f"{scenario_id}.json").read_text())[number]
        scenario = scenarios[scenario_id]
        kind = scenario["tests"][int(number) - 1]["kind"]
        results = {arm: bool(verdicts[chr(65 + place)]) for place, arm in enumerate(order)}
        lines.append(f"{name} {kind} {results}")
        language = "en" if scenario["lang"] == "en" else "other"
        for group in ("all", kind, f"lang:{language}", f"author:{scenario_id[0]}"):
            for arm, is_right in results.items():
                totals[group][arm].append(is_right)
    for group, arms in totals.items():
        shares = "  ".join(f"{arm} {sum(results) / len(results):.3f}" for arm, results in sorted(arms.items()))
        print(f"{group:12s} {shares} (n={len(next(iter(arms.values())))})")
    if args.list:
        print("\n".join(lines))


COMMANDS = {"play": play, "ask": ask, "judge": judge, "score": score}


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=COMMANDS)
    for name in ("base", "arm", "out", "answers", "key", "verdicts", "filler"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--data", nargs="+")
    parser.add_argument("--fill", type=int, default=12)
    for name in ("model", "list", "worker"):
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    COMMANDS[args.what](args)


if __name__ == "__main__":
    main()
