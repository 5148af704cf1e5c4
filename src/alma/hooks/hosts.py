"""Recognise the coding agent that calls a hook, and translate its events and answers.

The journal stores events in Claude Code's form. Codex, Copilot CLI and Qwen Code use nearly the same form; the other
agents have their own. This module is on the hot path of every hook, so it uses the standard library only.
"""

from __future__ import annotations

import json
import os

from ..processes import AGENTS
from .journal import EVENTS
from .paths import digest, read_text, write_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .paths import DataDir

HOSTS = {name: title for name, (title, _, _) in AGENTS.items()}
"""The coding agents, and what people call them."""
NOT_RUN = ("cursor", "amp", "crush")
"""Adapters written from documentation only: these agents do not run without an account or a download."""

# A transcript in one of these folders belongs to the host.
_TRANSCRIPTS = (
    ("claude", "/.claude/projects/"),
    ("codex", "/sessions/"),
    ("qwen", "/.qwen/"),
    ("copilot", "/.copilot/"),
)
_NAMES = {
    **dict.fromkeys(("BeforeAgent", "userPromptSubmitted", "beforeSubmitPrompt"), "UserPromptSubmit"),
    "BeforeTool": "PreToolUse",
    "AfterTool": "PostToolUse",
    **dict.fromkeys(("AfterAgent", "agentStop"), "Stop"),
}
"""The names of events that differ from Claude Code's in more than the case of their first letter."""
_FIELDS = {
    **dict.fromkeys(("sessionId", "conversation_id"), "session_id"),
    "transcriptPath": "transcript_path",
    "working_dir": "cwd",
    "message": "prompt",
    **dict.fromkeys(("turn_id", "generation_id"), "prompt_id"),
    "toolName": "tool_name",
    "toolArgs": "tool_input",
    "tool_call_id": "tool_use_id",
    **dict.fromkeys(("toolResult", "tool_result", "tool_output"), "tool_response"),
    "error_message": "error",
    **dict.fromkeys(("prompt_response", "response"), "last_assistant_message"),
    "agentId": "agent_id",
    **dict.fromkeys(("agentType", "agent_name"), "agent_type"),
}
"""Other hosts' names of fields. A field that also has Claude Code's name is not replaced."""
_SHELLS = frozenset(("bash", "shell", "run_shell_command", "run_commands"))
STARTS = frozenset(("SessionStart", "UserPromptSubmit"))
"""The events at which it is found out who drives a session, and at which most hosts accept a text."""
_TAKES = {
    **dict.fromkeys(("claude", "codex", "copilot"), STARTS | {"PreToolUse"}),
    **dict.fromkeys(("kimi", "goose"), frozenset(("UserPromptSubmit",))),
    "cursor": frozenset(("SessionStart",)),
    "aider": frozenset(),
    "crush": frozenset(("PreToolUse",)),
}
"""The events at which a host accepts a text for the model; the others accept it at both of `STARTS`."""
_NOTICES = {
    **dict.fromkeys(("claude", "codex", "gemini", "opencode"), STARTS),
    # Of all events, Qwen Code shows the message only at the end of a turn.
    "qwen": frozenset(("Stop",)),
}
"""The events at which a host shows a person the `systemMessage` of an answer; in OpenCode our own plug-in shows it."""
NOTICED = frozenset(_NOTICES)
"""The hosts in which a person sees notices."""
RULE_FILES = {
    **dict.fromkeys(("codex", "kimi", "cline", "goose", "cursor", "amp"), (("AGENTS.md",),)),
    "copilot": (("AGENTS.md",), ("CLAUDE.md",)),
    "qwen": (("AGENTS.md",), ("QWEN.md",)),
    "gemini": (("GEMINI.md",),),
    "opencode": (("AGENTS.md", "CLAUDE.md"),),
    "crush": (("AGENTS.md",), ("CRUSH.md",)),
}
"""The files with rules that a host besides Claude Code reads. Of several names in one tuple, the first that exists."""
_NO_OUTPUT = "The command failed; the host does not report its output."
_HEADLESS = {
    **dict.fromkeys(("copilot", "qwen", "gemini", "kimi"), ("-p", "--prompt")),
    "codex": ("exec", "e"),
    "goose": ("run",),
    "cline": ("--json",),
}
"""Arguments of a host's command line that mean that nobody is at the keyboard."""
_PROTOCOLS = frozenset("app-server mcp-server mcp acp --acp --experimental-acp serve server --server web agent".split())
"""Arguments that mean that an editor or a desktop program passes on what a person types, through a pipe."""
_TERMINALS = ("/dev/pts/", "/dev/tty", "/dev/console")
_ANCESTORS = 4
_OWN_WORDS = {
    word: hosts.split()
    for words, hosts in (
        ("TodoWrite NotebookEdit", "claude qwen"),
        ("AskUserQuestion EnterPlanMode ExitPlanMode", "claude qwen kimi"),
        ("MultiEdit WebFetch --dangerously-skip-permissions", "claude"),
        ("apply_patch", "codex opencode cline"),
        ("spawn_agent", "codex cline"),
        ("update_plan --dangerously-bypass-approvals-and-sandbox --full-auto", "codex"),
        ("report_intent --allow-all-tools", "copilot"),
        ("google_web_search", "gemini"),
        ("save_memory", "gemini qwen"),
        ("run_commands attempt_completion", "cline"),
        ("GOOSE_MOIM_MESSAGE_FILE", "goose"),
    )
    for word in words.split()
}
"""Names of tools and flags, and the hosts that have them. A rule that contains one applies to those hosts."""


def recognise_host(payload: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return the host that sent an event, of those that load Claude Code's plug-ins.

    The payload counts first: an agent inherits another's environment.
    """
    path = str(payload.get("transcript_path") or "").replace("\\", "/")
    for host, folder in _TRANSCRIPTS:
        if folder in path and (host != "codex" or "/rollout-" in path):
            return host
    if "turn_id" in payload or (payload.get("transcript_path", "") is None and "PLUGIN_ROOT" in environ):
        return "codex"
    if payload.get("session_id") and environ.get("QWEN_CODE_SESSION_ID") == payload["session_id"]:
        return "qwen"
    is_copilot = not path and ("tool_result" in payload or ("timestamp" in payload and "COPILOT_CLI" in environ))
    return "copilot" if is_copilot else "claude"


def read_event(host: str, payload: Mapping[str, Any], event: str = "") -> Mapping[str, Any] | None:
    """Return an event in Claude Code's form; None for one that is not recorded. `event` is its name if it has none."""
    if host == "claude":
        return payload
    own_name = str(payload.get("hook_event_name") or payload.get("event") or event)
    name = _NAMES.get(own_name, own_name[:1].upper() + own_name[1:])
    if name not in EVENTS:
        return None
    call = {field: value for field, value in payload.items() if field not in _FIELDS}
    for field, value in payload.items():
        if field in _FIELDS:
            call.setdefault(_FIELDS[field], value)
    call["hook_event_name"] = name
    if host == "goose":
        # goose numbers the sessions of a day in each home folder.
        place = digest(os.uname().nodename if hasattr(os, "uname") else "", os.path.expanduser("~"))[:8]
        call["session_id"] = f"goose-{call.get('session_id', '')}-{place}"
    roots = payload.get("workspace_roots")
    if not call.get("cwd") and isinstance(roots, list) and roots:
        call["cwd"] = roots[0]
    if name == "UserPromptSubmit":
        call["prompt"] = clean_prompt(host, call.get("prompt"))
        # Qwen Code reports an empty prompt after each result of a tool.
        return call if call["prompt"].strip() else None
    if "tool_name" in call:
        _read_tool(host, call)
    return call


def clean_prompt(host: str, prompt: Any) -> str:
    """Return the words of a person, without the marks and the context that a host puts around them."""
    if isinstance(prompt, list):
        # Other parts, such as images, have no text.
        prompt = "\n".join(str(part["text"]) for part in prompt if isinstance(part, dict) and part.get("text"))
    text = prompt if isinstance(prompt, str) else ""
    while host == "gemini" and text.startswith("<hook_context>") and "</hook_context>" in text:
        text = text.partition("</hook_context>")[2].lstrip()
    if host == "cline" and "<user_input" in text:
        text = text.partition("<user_input")[2].partition(">")[2].rpartition("</user_input>")[0]
    if host == "opencode" and len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]:
        text = text[1:-1]
    return text


def _read_tool(host: str, call: dict[str, Any]) -> None:
    """Rename a host's shell tool, and turn the result of a call that failed into a failure."""
    tool, arguments = call["tool_name"], call.get("tool_input")
    if isinstance(tool, str) and tool.lower() in _SHELLS and tool != "Bash":
        call["tool_name"], call["host_tool"] = "Bash", tool
        commands = arguments.get("commands") if isinstance(arguments, dict) else None
        if isinstance(commands, list):
            call["tool_input"] = {"command": " && ".join(map(str, commands))}
    if call["hook_event_name"] == "PostToolUse":
        text, error = _read_result(host, call.get("tool_response"), is_shell=call["tool_name"] == "Bash")
        if text is not None:
            call["tool_response"] = text
        if error:
            call["hook_event_name"], call["error"] = "PostToolUseFailure", error
    elif call["hook_event_name"] == "PostToolUseFailure":
        problem = call.get("error")
        problem = problem.get("message") if isinstance(problem, dict) else problem
        call["error"] = problem if isinstance(problem, str) and problem.strip() else _NO_OUTPUT


def _read_result(host: str, response: Any, *, is_shell: bool) -> tuple[str | None, str]:
    """Return the text of a result and the error in it. None leaves the result as it is; '' means no error."""
    if host == "cursor" and isinstance(response, str) and response.startswith("{"):
        # A result with several parts comes as the text of a JSON object.
        try:
            response = json.loads(response)
        except (ValueError, RecursionError):
            response = None
    values = response if isinstance(response, dict) else {}
    text, code, error = None, "", values.get("error")
    if host == "copilot":
        text = str(values.get("text_result_for_llm") or values.get("textResultForLlm") or "")
        output, mark, rest = text.rstrip().rpartition("<shellId: ")
        if is_shell and mark and rest.endswith(">"):
            text, code = output, rest[:-1].rpartition(" completed with exit code ")[2]
        failed = "failure" in (values.get("result_type"), values.get("resultType"))
        error = text if failed else None
    elif "llmContent" in values:
        text = clean_prompt("", values["llmContent"])
        text = text.removeprefix("<untrusted_context>\n").removesuffix("\n</untrusted_context>")
        # The last line of this name is the host's own; the output is before it.
        tail = text.rpartition("\nExit Code: ")[2].split("\n")
        is_own = all(line.startswith(("Signal: ", "Process Group PGID: ", "Background PIDs: ")) for line in tail[1:])
        code = tail[0] if is_shell and is_own else ""
    elif host == "opencode":
        metadata = values.get("metadata")
        # A tool of an MCP server has parts with texts instead.
        text = str(values.get("output") or clean_prompt("", values.get("content")))
        code = str(metadata.get("exit") if isinstance(metadata, dict) else "")
    elif host == "cursor" and "exitCode" in values:
        text = "\n".join(filter(None, (str(values.get(name) or "") for name in ("stdout", "stderr", "output"))))
        code = str(values["exitCode"])
    elif host == "cline":
        answers = values.get("output")
        parts = [part for part in (answers if isinstance(answers, list) else [answers]) if isinstance(part, dict)]
        text = "\n".join(str(part.get("result") or part.get("error") or "") for part in parts)
        failed = values.get("isError") is True or any(part.get("success") is False for part in parts)
        error = (text or _NO_OUTPUT) if failed else None
    if code.isdigit() and int(code):
        return text, f"Exit code {code}\n{text}"
    message = error.get("message") if isinstance(error, dict) else error
    return text, str(message) if message else ""


# -- answers


def can_show(host: str, event: str, source: str = "") -> bool:
    """Return whether a text for the model reaches it at an event. `source` is the field of a SessionStart."""
    return event in _TAKES.get(host, STARTS) and (host, source) != ("copilot", "resume")


def can_notify(host: str, event: str) -> bool:
    """Return whether a person sees the notice in the answer to an event."""
    return event in _NOTICES.get(host, frozenset())


def format_answer(host: str, event: str, context: str, notice: str = "") -> str:
    """Return what a hook prints for a text for the model and a notice for the person; empty for nothing."""
    own_name = "BeforeAgent" if host == "gemini" and event == "UserPromptSubmit" else event
    nested: dict[str, Any] = {"hookSpecificOutput": {"hookEventName": own_name, "additionalContext": context}}
    if host in NOTICED:
        # Codex rejects an answer with a key that it does not know. It knows these.
        answer = (nested if context else {}) | ({"systemMessage": notice} if notice else {})
        return json.dumps(answer) if answer else ""
    if not context or host in ("kimi", "goose"):
        return context
    if host in ("cursor", "crush"):
        return json.dumps({"additional_context" if host == "cursor" else "context": context})
    # Copilot reads the text at the top level only.
    return json.dumps({"additionalContext": context, **nested} if host == "copilot" else nested)


def has_context_file(data_dir: DataDir) -> bool:
    """Return whether goose shows our file to the model at every request. A file of the person's is never written."""
    path = os.environ.get("GOOSE_MOIM_MESSAGE_FILE", "")
    return path != "" and os.path.realpath(path) == os.path.realpath(data_dir.goose_context)


def write_context_file(data_dir: DataDir, text: str) -> None:
    """Replace the text that goose shows to the model."""
    data_dir.create_folders()
    write_private(data_dir.goose_context, text.encode("utf-8", "replace"))


def is_for_host(text: str, host: str, taught_in: str = "") -> bool:
    """Return whether a rule applies in a host: it was taught there, or it names no other host, tool or flag.

    Only a rule that begins with "In Codex," or "With Codex and goose:" is limited to the hosts that it names.
    """
    words = [word.strip("`*'\".,:;()") for word in text.split()]
    own = [_OWN_WORDS[word] for word in words if word in _OWN_WORDS]
    opening = text.lstrip("-* ").replace(":", ",").partition(",")[0]
    named = [name for name, title in HOSTS.items() if f" {title} " in f"{opening} "]
    for name in named:
        opening = opening.replace(HOSTS[name], "")
    is_limited = named and {*opening.lower().split()} <= {"only", "when", "using", "in", "with", "and", "or"}
    return taught_in == host or ((host in named or not is_limited) and all(host in hosts for hosts in own))


# -- who drives a session


def find_entry(host: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return how a session of another host than Claude Code is driven: "cli", "headless", or "agent" by another agent.

    A session counts as a person's unless something shows otherwise: the transcript of Codex, an argument of the host's
    command line, or a host that reads from a pipe or a file.
    """
    if environ.get("CLAUDECODE") == "1" or (environ.get("COPILOT_CLI") and host != "copilot"):
        return "agent"
    if entry := payload.get("entry"):
        return str(entry)
    if host == "codex":
        head = read_text(str(payload.get("transcript_path") or ""), 2000).replace(" ", "")
        if '"source":' in head:
            return "headless" if '"source":"exec"' in head else "cli"
    flags = _HEADLESS.get(host, ())
    hosts = [
        (arguments, source)
        for arguments, source in (_list_ancestors() if flags else ())
        if any(host in os.path.basename(one).lower() for one in arguments[:2])
    ]
    # `-p TEXT` may also be written as `-pTEXT`.
    starts = ("-p", "--prompt=") if "-p" in flags else ()
    if any(one in flags or one.startswith(starts) for arguments, _ in hosts for one in arguments[1:]):
        return "headless"
    # Cline runs plug-ins in a daemon.
    if not hosts or host == "cline":
        return "cli"
    arguments, source = hosts[0]
    is_passed_on = not _PROTOCOLS.isdisjoint(arguments[1:])
    # Kimi hides its arguments, so that only a file shows that it is not an editor that writes to it.
    is_known = any(arguments[1:]) or host != "kimi" or source.startswith("/")
    return "headless" if is_known and source and not (is_passed_on or source.startswith(_TERMINALS)) else "cli"


def _list_ancestors() -> list[tuple[list[str], str]]:
    """Return the arguments of the processes above this one, nearest first, and what each reads; empty if unknown.

    Without `/proc` it is the terminal that a process belongs to, also if it reads from a pipe.
    """
    process, ancestors = os.getppid(), list[tuple[list[str], str]]()
    table = {} if os.name == "nt" or os.path.isdir("/proc/self/fd") else _read_process_table()
    while process > 1 and len(ancestors) < _ANCESTORS:
        if table:
            parent, source, *arguments = table.get(process, ("0", ""))
        else:
            arguments = read_text(f"/proc/{process}/cmdline").split("\0")
            parent = "".join(read_text(f"/proc/{process}/stat").rpartition(")")[2].split()[1:2])
            try:
                source = os.readlink(f"/proc/{process}/fd/0")
            except OSError:
                source = ""
        ancestors.append((arguments, source))
        process = int(parent or 0)
    return ancestors


def _read_process_table() -> dict[int, list[str]]:
    """Return the parent, the terminal and the arguments of all processes, as `ps` reports them; empty if it fails."""
    with os.popen("/bin/ps -axo pid=,ppid=,tty=,command= 2>/dev/null") as output:
        # The arguments of another program need not be valid text.
        content: bytes = output.buffer.read()  # type: ignore[attr-defined]
    rows = (line.split() for line in content.decode("utf-8", "replace").splitlines())
    return {
        int(row[0]): [row[1], f"/dev/{row[2]}" if row[2].strip("?-") else "none", *row[3:]] for row in rows if row[3:]
    }
