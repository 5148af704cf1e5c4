"""The programs of other coding agents as models: one question to the person's own agent, alone with it.

An agent gets a private folder in the place of the one that holds its settings. In it are the settings below, those
members of the person's settings that say which service answers, and links to the files of their login, which the agent
may renew. So none of their hooks, plug-ins, MCP servers, memory files, skills and permissions takes part, and the
session is deleted with the folder. No agent is given an option that approves a tool.

`PROGRAMS` lists the agents with which a model that called a shell, a file and an MCP tool was refused in all three:
the tests run the real agents. `UNUSABLE` lists the others, with what was seen.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .. import jsonc, toml
from ..errors import ConfigError, ModelOutputError, ModelUnavailableError
from ..types.asking import Prompt
from .budget import NOTHING
from .program import DISABLE, SYSTEM, TIMEOUT, ProgramModel, run_program, shorten_output, write_question

UNUSABLE = {
    "kimi": "it takes a prompt only as an argument, which other users of the machine can read, and approves tools then",
    "cline": "it takes a prompt only as an argument, which other users of the machine can read",
    "aider": "it prints its answer between notices, and no option prints the answer alone",
    "cursor": "it does not run without an account, so nobody has seen that it refuses tools",
    "amp": "it does not run without an account, so nobody has seen that it refuses tools",
    "crush": "its program could not be installed from a package, so nobody has seen that it refuses tools",
}
"""The coding agents that cannot read, each with the reason."""

_NOTHING = "none-at-all"
"""The name of a tool, a server and a file that do not exist: an empty list would allow all."""


class ReaderReply(NamedTuple):
    """What a program printed, in one form for all."""

    text: str = ""
    error: str = ""
    model: str = ""
    tokens_in: int | None = None
    tokens_out: int = 0


class PersonFile(NamedTuple):
    """A file of the person's, and its place in the private folder."""

    variable: str
    """The variable that names another folder than `folder`, which is in the home folder."""
    folder: str
    name: str
    target: str

    def locate(self, environ: Mapping[str, str]) -> str:
        """Return its path for this environment."""
        home = environ.get("USERPROFILE" if os.name == "nt" else "HOME", "")
        base = (environ.get(self.variable) if self.variable else "") or os.path.join(home, self.folder)
        return os.path.join(base, self.name)


@dataclass(frozen=True)
class ReaderProgram:
    """How one coding agent is run as a model. `{folder}` in a value is the private folder."""

    title: str
    binary: str
    arguments: Sequence[str]
    read: Callable[[bytes, bytes], ReaderReply]
    """Reads its standard output and its errors."""
    settings: PersonFile
    kept: Sequence[Sequence[str]]
    """The members of the person's settings that say which service answers, and how it is logged in to."""
    fixed: Mapping[str, Any]
    """Our own settings."""
    login: Sequence[PersonFile]
    environ: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    variables: Sequence[str] = ()
    """Variables that say which service answers."""
    secrets: Sequence[str] = ()
    """Variables that log in."""
    has_own_login: bool = False
    """Whether the first file of the login makes the variables unnecessary."""
    model: str = ""
    """The model that is asked where none is named; empty for the one that the person chose."""
    check: Callable[[Mapping[str, Any], Mapping[str, str]], str] = lambda settings, environ: ""
    """Returns why it cannot be used with these settings; empty if it can."""


# -- what the programs print


def _read_lines(output: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects among the lines of an output."""
    for line in output.decode("utf-8", "replace").splitlines():
        with suppress(ValueError, RecursionError):
            value = json.loads(line)
            if isinstance(value, dict):
                yield value


def _read_value(output: bytes) -> Any:
    """Return the last JSON value in an output, which may begin with notices; None if there is none."""
    text = output.decode("utf-8", "replace")
    for opening in ("{", "["):
        for start in _find_openings(text, opening):
            with suppress(ValueError, RecursionError):
                return json.loads(text[start:])
    return None


def _find_openings(text: str, opening: str) -> Iterator[int]:
    """Yield the places of the lines that begin with this character."""
    start = 0
    for line in text.splitlines(keepends=True):
        if line.startswith(opening):
            yield start
        start += len(line)


def _find(value: Any, *path: str) -> Any:
    """Return a member of nested objects; None if it is missing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _to_count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _read_codex(output: bytes, errors: bytes) -> ReaderReply:
    text, error = "", ""
    tokens: tuple[int | None, int] = (None, 0)
    for event in _read_lines(output):
        item = event.get("item")
        if event.get("type") == "item.completed" and _find(item, "type") == "agent_message":
            text = _to_text(_find(item, "text"))
        elif event.get("type") in ("error", "turn.failed"):
            error = _to_text(event.get("message")) or _to_text(_find(event, "error", "message"))
        elif event.get("type") == "turn.completed":
            # A failed try that was repeated is reported before.
            usage, error = event.get("usage"), ""
            tokens = (_to_count(_find(usage, "input_tokens")), _to_count(_find(usage, "output_tokens")))
    return ReaderReply(text, error, "", *tokens)


def _read_gemini(output: bytes, errors: bytes) -> ReaderReply:
    value = _read_value(output) or _read_value(errors)
    models = _find(value, "stats", "models")
    model, used = next(iter(models.items()), ("", {})) if isinstance(models, dict) else ("", {})
    tokens_in = _to_count(_find(used, "tokens", "prompt")) if used else None
    answer, error = _to_text(_find(value, "response")), _to_text(_find(value, "error", "message"))
    return ReaderReply(answer, error, model, tokens_in, _to_count(_find(used, "tokens", "candidates")))


def _read_qwen(output: bytes, errors: bytes) -> ReaderReply:
    events = _read_value(output)
    if not isinstance(events, list):
        return ReaderReply(error=_to_text(_find(_read_value(errors), "error", "message")))
    by_type = {_find(event, "type"): event for event in events}
    result, last = by_type.get("result"), by_type.get("assistant")
    text, error = _to_text(_find(result, "result")), _to_text(_find(result, "error", "message"))
    if _find(result, "is_error"):
        text, error = "", error or text or "error"
    usage = _find(result, "usage")
    tokens_in = _to_count(_find(usage, "input_tokens")) if usage else None
    model = _to_text(_find(last, "message", "model"))
    return ReaderReply(text, error, model, tokens_in, _to_count(_find(usage, "output_tokens")))


def _read_copilot(output: bytes, errors: bytes) -> ReaderReply:
    text, error, model = "", "", ""
    for event in _read_lines(output):
        if event.get("type") == "assistant.message":
            text, model = _to_text(_find(event, "data", "content")), _to_text(_find(event, "data", "model"))
        elif event.get("type") in ("session.error", "error"):
            error = _to_text(_find(event, "data", "message"))
    return ReaderReply(text, "" if text else error, model)


def _read_opencode(output: bytes, errors: bytes) -> ReaderReply:
    text, error = "", ""
    tokens_in, tokens_out = None, 0
    for event in _read_lines(output):
        if event.get("type") == "text":
            text = _to_text(_find(event, "part", "text"))
        elif event.get("type") == "error":
            error = _to_text(_find(event, "error", "data", "message")) or _to_text(_find(event, "error", "name"))
        elif event.get("type") == "step_finish":
            tokens_in = (tokens_in or 0) + _to_count(_find(event, "part", "tokens", "input"))
            tokens_out += _to_count(_find(event, "part", "tokens", "output"))
    return ReaderReply(text, error, "", tokens_in, tokens_out)


def _read_goose(output: bytes, errors: bytes) -> ReaderReply:
    value = _read_value(output)
    messages = _find(value, "messages")
    said = [one for one in messages if _find(one, "role") == "assistant"] if isinstance(messages, list) else []
    content = _find(said[-1], "content") if said else None
    parts = content if isinstance(content, list) else []
    text = "".join(_to_text(_find(part, "text")) for part in parts)
    tokens_in = _find(value, "metadata", "input_tokens")
    tokens = (_to_count(tokens_in), _to_count(_find(value, "metadata", "output_tokens"))) if tokens_in else (None, 0)
    if "Ran into this error" in text:
        # It says so in the words of the model.
        return ReaderReply("", text, "", *tokens)
    return ReaderReply(text, "", "", *tokens)


# -- whether an agent can be used as it is set up


def _check_codex(settings: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Without a login it would wait for the network until the time is up."""
    has_key = any(environ.get(name) for name in PROGRAMS["codex"].secrets)
    has_file = os.path.exists(PROGRAMS["codex"].login[0].locate(environ))
    if has_key or has_file or settings.get("model_provider", "openai") != "openai":
        return ""
    return (
        "Codex is not logged in; run: codex login. A login in the system's keyring cannot be used: set "
        'cli_auth_credentials_store = "file" in its config.toml first'
    )


# Some providers of goose are coding agents of their own, with tools.
_GOOSE_PROVIDERS = frozenset(
    """anthropic aws_bedrock azure_openai databricks deepseek gcp_vertex_ai github_copilot google groq litellm mistral
    ollama openai openrouter sagemaker_tgi snowflake tetrate venice xai""".split()
)


def _check_goose(settings: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    provider = environ.get("GOOSE_PROVIDER") or settings.get("GOOSE_PROVIDER") or ""
    if provider in _GOOSE_PROVIDERS:
        return ""
    if not provider:
        return "goose has no provider; run: goose configure"
    return f"goose is set to the provider {provider!r}, of which it is not known that it has no tools of its own"


# -- the programs

_CODEX_OFF = """
    apps auth_elicitation browser_use code_mode_host computer_use goals guardian_approval hooks image_generation
    memories multi_agent plugins remote_plugin shell_snapshot shell_tool skill_search tool_suggest unified_exec
    view_image workspace_dependencies
""".split()
_QWEN_TOOLS = """
    agent edit enter_worktree exit_worktree get_goal glob grep_search list_agents list_directory lsp monitor
    notebook_edit read_file record_artifact report_findings run_shell_command save_memory send_message skill task_stop
    todo_write tool_call tool_search update_goal web_fetch web_search write_file
""".split()


def _list_options(option: str, values: Iterable[str]) -> list[str]:
    options = []
    for value in values:
        options += [option, value]
    return options


PROGRAMS: Mapping[str, ReaderProgram] = {
    "codex": ReaderProgram(
        "Codex",
        "codex",
        (
            *("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--ignore-rules"),
            *("--sandbox", "read-only", "--color", "never"),
            *_list_options("--disable", _CODEX_OFF),
            "-",
        ),
        _read_codex,
        PersonFile("CODEX_HOME", ".codex", "config.toml", "home/config.toml"),
        (
            *(("model",), ("model_provider",), ("model_providers",), ("openai_base_url",), ("chatgpt_base_url",)),
            *(("forced_login_method",), ("forced_chatgpt_workspace_id",), ("cli_auth_credentials_store",)),
        ),
        {
            "approval_policy": "never",
            "sandbox_mode": "read-only",
            "model_instructions_file": "{folder}/system.md",
            "project_doc_max_bytes": 0,
            "web_search": "disabled",
            "include_environment_context": False,
            "include_permissions_instructions": False,
            "include_apps_instructions": False,
            "include_collaboration_mode_instructions": False,
            "check_for_update_on_startup": False,
            "skills": {"include_instructions": False, "bundled": {"enabled": False}},
            "history": {"persistence": "none"},
            "analytics": {"enabled": False},
            "feedback": {"enabled": False},
        },
        # The lock, too: it keeps two processes from renewing the login at the same time.
        [PersonFile("CODEX_HOME", ".codex", name, f"home/{name}") for name in ("auth.json", "auth.lock")],
        {"CODEX_HOME": "{folder}/home"},
        {"system.md": SYSTEM},
        ("CODEX_HOME", "OPENAI_BASE_URL", "CODEX_CA_CERTIFICATE"),
        ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"),
        has_own_login=True,
        check=_check_codex,
    ),
    "copilot": ReaderProgram(
        "Copilot CLI",
        "copilot",
        (
            *(f"--available-tools={_NOTHING}", "--deny-tool=shell", "--deny-tool=write", "--disable-builtin-mcps"),
            *("--no-custom-instructions", "--no-ask-user", "--no-auto-update", "--no-remote", "--no-experimental"),
            *("--disallow-temp-dir", "--stream", "off", "--output-format", "json", "--no-color"),
        ),
        _read_copilot,
        PersonFile("COPILOT_HOME", ".copilot", "config.json", "home/config.json"),
        (
            *(("logged_in_users",), ("last_logged_in_user",), ("copilot_tokens",), ("store_token_plaintext",)),
            *(("loggedInUsers",), ("lastLoggedInUser",), ("copilotTokens",), ("storeTokenPlaintext",)),
        ),
        {},
        [],
        {"COPILOT_HOME": "{folder}/home", "COPILOT_AUTO_UPDATE": "false", "COPILOT_ALLOW_ALL": "false"},
        {},
        (
            *("COPILOT_HOME", "COPILOT_OFFLINE", "COPILOT_MODEL", "GH_HOST", "COPILOT_GH_HOST", "GH_CONFIG_DIR"),
            *("COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_WIRE_API"),
            *("COPILOT_PROVIDER_MODEL_ID", "COPILOT_PROVIDER_WIRE_MODEL", "COPILOT_PROVIDER_AZURE_API_VERSION"),
        ),
        (
            *("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"),
            *("COPILOT_PROVIDER_BEARER_TOKEN", "COPILOT_PROVIDER_HEADERS"),
        ),
    ),
    "gemini": ReaderProgram(
        "Gemini CLI",
        "gemini",
        (
            *("-o", "json", "--approval-mode", "default", "--extensions", "none"),
            *("--allowed-mcp-server-names", _NOTHING, "--admin-policy", "{folder}/policy.toml"),
            # It is added to the standard input, and keeps the program from waiting for a terminal.
            *("-p", "Answer with the JSON value now."),
        ),
        _read_gemini,
        PersonFile("GEMINI_CLI_HOME", "", ".gemini/settings.json", "home/.gemini/settings.json"),
        (("security", "auth"),),
        {
            "hooksConfig": {"enabled": False},
            "skills": {"enabled": False},
            "tools": {"core": [_NOTHING]},
            "mcp": {"allowed": [_NOTHING]},
            "context": {"fileName": [_NOTHING], "includeDirectoryTree": False},
            "experimental": {"enableAgents": False},
            "security": {"folderTrust": {"enabled": False}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        },
        [
            PersonFile("GEMINI_CLI_HOME", "", f".gemini/{name}", f"home/.gemini/{name}")
            for name in ("oauth_creds.json", "google_accounts.json", "gemini-credentials.json", ".env")
        ],
        {"GEMINI_CLI_HOME": "{folder}/home", "GEMINI_SYSTEM_MD": "{folder}/system.md"},
        {"system.md": SYSTEM, "policy.toml": '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n'},
        (
            *("GEMINI_CLI_HOME", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI"),
            *("GOOGLE_GENAI_USE_GCA", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_PROJECT_ID"),
        ),
        ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_ACCESS_TOKEN"),
        has_own_login=True,
        model="gemini-2.5-flash",
    ),
    "goose": ReaderProgram(
        "goose",
        "goose",
        ("run", "--no-profile", "--no-session", "--quiet", "--output-format", "json", "--system", SYSTEM, "-i", "-"),
        _read_goose,
        PersonFile("XDG_CONFIG_HOME", ".config", "goose/config.yaml", "home/config/config.yaml"),
        [
            (name,)
            for name in """
                GOOSE_PROVIDER GOOSE_MODEL ANTHROPIC_HOST AZURE_OPENAI_API_VERSION AZURE_OPENAI_DEPLOYMENT_NAME
                AZURE_OPENAI_ENDPOINT DATABRICKS_HOST GCP_LOCATION GCP_PROJECT_ID GOOGLE_HOST LITELLM_HOST OLLAMA_HOST
                OPENAI_BASE_PATH OPENAI_HOST OPENROUTER_HOST
            """.split()
        ],
        {"GOOSE_MODE": "chat", "extensions": {}},
        [PersonFile("XDG_CONFIG_HOME", ".config", "goose/secrets.yaml", "home/config/secrets.yaml")],
        {"GOOSE_PATH_ROOT": "{folder}/home", "GOOSE_MODE": "chat", "GOOSE_TELEMETRY_ENABLED": "false"},
        {},
        (
            *("GOOSE_PROVIDER", "GOOSE_MODEL", "GOOSE_DISABLE_KEYRING", "OPENAI_HOST", "OPENAI_BASE_PATH"),
            *("ANTHROPIC_HOST", "GOOGLE_HOST", "OLLAMA_HOST", "OPENROUTER_HOST", "DATABRICKS_HOST", "LITELLM_HOST"),
            *("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_DEPLOYMENT_NAME", "AZURE_OPENAI_API_VERSION"),
        ),
        (
            *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY", "DATABRICKS_TOKEN"),
            *("AZURE_OPENAI_API_KEY", "GROQ_API_KEY", "XAI_API_KEY", "LITELLM_API_KEY"),
        ),
        check=_check_goose,
    ),
    "opencode": ReaderProgram(
        "OpenCode",
        "opencode",
        ("run", "--pure", "--format", "json", "--agent", "reader", "--title", "notes"),
        _read_opencode,
        PersonFile("XDG_CONFIG_HOME", ".config", "opencode/opencode.json", "reader.json"),
        (("provider",), ("model",), ("small_model",), ("enabled_providers",), ("disabled_providers",)),
        {
            "permission": {"*": "deny"},
            "tools": {"*": False},
            "agent": {
                "reader": {
                    "mode": "primary",
                    "prompt": SYSTEM,
                    "permission": {"*": "deny"},
                    "tools": {"*": False},
                }
            },
            "share": "disabled",
            "snapshot": False,
            "autoupdate": False,
            "lsp": False,
            "formatter": False,
        },
        [PersonFile("XDG_DATA_HOME", ".local/share", "opencode/auth.json", "data/opencode/auth.json")],
        {
            "OPENCODE_CONFIG": "{folder}/reader.json",
            "XDG_CONFIG_HOME": "{folder}/config",
            "XDG_DATA_HOME": "{folder}/data",
            "XDG_STATE_HOME": "{folder}/state",
            **dict.fromkeys(
                (
                    *("OPENCODE_PURE", "OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_CLAUDE_CODE"),
                    *("OPENCODE_DISABLE_EXTERNAL_SKILLS", "OPENCODE_DISABLE_LSP_DOWNLOAD"),
                    "OPENCODE_DISABLE_PROJECT_CONFIG",
                ),
                "1",
            ),
        },
        {},
        ("XDG_DATA_HOME", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_MODELS_URL"),
        ("OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    ),
    "qwen": ReaderProgram(
        "Qwen Code",
        "qwen",
        (
            *("-o", "json", "--approval-mode", "default", "--chat-recording", "false", "--extensions", "none"),
            *("--allowed-mcp-server-names", _NOTHING, "--core-tools", _NOTHING, "--system-prompt", SYSTEM),
            *_list_options("--exclude-tools", _QWEN_TOOLS),
        ),
        _read_qwen,
        PersonFile("QWEN_HOME", ".qwen", "settings.json", "home/settings.json"),
        (("security", "auth"), ("modelProviders",), ("env",), ("model", "name"), ("codingPlan",)),
        {
            "disableAllHooks": True,
            "permissions": {"deny": ["Read", "Bash", "Edit", "Write", "WebFetch", *_QWEN_TOOLS]},
            "tools": {"core": [_NOTHING], "approvalMode": "default"},
            "mcp": {"allowed": [_NOTHING]},
            "memory": dict.fromkeys(
                ("enabled", "enableManagedAutoMemory", "enableManagedAutoDream", "enableAutoSkill"), False
            ),
            "context": {"fileName": [_NOTHING]},
            "security": {"folderTrust": {"enabled": False}},
            "ui": {"enableFollowupSuggestions": False},
            "general": {"enableAutoUpdate": False, "chatRecording": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        },
        [PersonFile("QWEN_HOME", ".qwen", name, f"home/{name}") for name in ("oauth_creds.json", ".env")],
        {"QWEN_HOME": "{folder}/home"},
        {},
        ("QWEN_HOME", "OPENAI_BASE_URL", "OPENAI_MODEL", "QWEN_MODEL"),
        ("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY"),
        has_own_login=True,
    ),
}
"""The coding agents that can read, by the names of the hosts."""


class ReaderModel(ProgramModel):
    """A model that is reached through the program of a coding agent."""

    token_names = ("input_tokens", "output_tokens")

    def __init__(
        self, name: str, environ: Mapping[str, str], *, model: str = "", path: str = "", timeout: float = TIMEOUT
    ) -> None:
        super().__init__(environ, path=path, timeout=timeout)
        self.program = PROGRAMS[name]
        self.binary = self.program.binary
        self._model = model or self.program.model
        self.name = f"{name}-cli:{self._model or 'default'}"

    def send(self, prompt: Prompt) -> dict[str, Any]:
        """Run the program and return its reply."""
        program, title = self.find_program(), self.program.title
        with tempfile.TemporaryDirectory(prefix="claude-smart-", ignore_cleanup_errors=True) as folder:
            empty = os.path.join(folder, "empty")
            os.mkdir(empty)
            write_private_files(self.program, folder, self._environ)
            command = [program, *build_arguments(self.program, folder, self._model)]
            environ = {**self._environ, DISABLE: "1"}
            for name, value in self.program.environ.items():
                environ[name] = value.replace("{folder}", folder)
            text = write_question(prompt)
            code, output, errors = run_program(command, text, folder=empty, environ=environ, timeout=self._timeout)
        reply = self.program.read(output, errors)
        spent = None if reply.tokens_in is None else (reply.tokens_in, reply.tokens_out, 0.0)
        if code != 0 or reply.error:
            detail = shorten_output(reply.error.encode("utf-8", "replace") or errors or f"code {code}".encode())
            raise ModelUnavailableError(f"{title} failed: {detail}", spent or NOTHING)
        if not reply.text:
            problem = f"printed {len(output):,} bytes without an answer" if output else "printed nothing"
            raise ModelOutputError(f"{title} {problem}", spent)
        usage = {} if spent is None else {"usage": {"input_tokens": spent[0], "output_tokens": spent[1]}}
        return {"text": reply.text, "model": reply.model, **usage}

    def read(self, reply: Mapping[str, Any]) -> str:
        """Return the text of a reply."""
        return str(reply["text"])


def build_arguments(program: ReaderProgram, folder: str, model: str) -> list[str]:
    """Return the arguments of a call. The model is named first, but after the name of a command such as `exec`."""
    arguments = [argument.replace("{folder}", folder) for argument in program.arguments]
    start = 0 if arguments[0].startswith("-") else 1
    if model:
        arguments[start:start] = ["--model", model]
    return arguments


# -- what an installation records


def list_secrets(name: str, environ: Mapping[str, str]) -> list[str]:
    """Return the variables with which an agent logs in; empty if it has a login of its own in its files."""
    program = PROGRAMS[name]
    if program.has_own_login and os.path.isfile(program.login[0].locate(environ)):
        return []
    secrets = list(program.secrets)
    if name == "codex":
        # Services of the person's own name the variable with their key.
        with suppress(ModelUnavailableError):
            services = _read_kept(program, environ).get("model_providers")
            entries = services.values() if isinstance(services, dict) else ()
            secrets += filter(None, (_to_text(_find(entry, "env_key")) for entry in entries))
    return secrets


# -- the private folder


def write_private_files(program: ReaderProgram, folder: str, environ: Mapping[str, str]) -> None:
    """Write the settings of a program into a private folder, and link the files of the person's login."""
    settings = _read_kept(program, environ)
    if problem := program.check(settings, environ):
        raise ModelUnavailableError(problem, NOTHING)
    fixed = json.loads(json.dumps(program.fixed).replace("{folder}", json.dumps(folder)[1:-1]))
    contents = {**program.files, program.settings.target: _format_settings(program, _merge(settings, fixed))}
    for name, text in contents.items():
        target = _prepare(folder, name)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    for file_of_person in program.login:
        source = file_of_person.locate(environ)
        if not os.path.isdir(os.path.dirname(source)) or not (os.path.exists(source) or source.endswith(".lock")):
            continue
        try:
            os.symlink(source, _prepare(folder, file_of_person.target))
        except OSError as error:
            problem = f"the login of {program.title} cannot be linked into a private folder: {error.strerror}"
            raise ModelUnavailableError(problem, NOTHING) from error


def _prepare(folder: str, name: str) -> str:
    path = os.path.join(folder, *name.split("/"))
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    return path


def _read_kept(program: ReaderProgram, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the members of the person's settings that are kept."""
    path = program.settings.locate(environ)
    if program.settings.name.endswith(".json") and not os.path.exists(path) and os.path.exists(f"{path}c"):
        path += "c"
    try:
        with open(path, encoding="utf-8") as file:
            values = _parse_settings(path, file.read())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError, ConfigError) as error:
        problem = f"the settings of {program.title} cannot be read ({path}: {type(error).__name__})"
        raise ModelUnavailableError(problem, NOTHING) from error
    kept: dict[str, Any] = {}
    for place in program.kept:
        value = _find(values, *place)
        if value is None:
            continue
        inner = kept
        for name in place[:-1]:
            inner = inner.setdefault(name, {})
        inner[place[-1]] = value
    return kept


def _parse_settings(path: str, text: str) -> Any:
    if path.endswith(".toml"):
        return tomllib.loads(text)
    if path.endswith(".yaml"):
        yaml: Any = importlib.import_module("yaml")
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"{path} is not valid YAML") from error
    return jsonc.load(text if text.strip() else "{}", path)


def _format_settings(program: ReaderProgram, values: Mapping[str, Any]) -> str:
    """Return a settings file. JSON is valid YAML, too."""
    if program.settings.target.endswith(".toml"):
        return toml.format_members(values)
    return json.dumps(values, indent=1)


def _merge(values: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with ours over them, member by member."""
    merged = dict(values)
    for name, value in fixed.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merge(merged[name], value) if both else value
    return merged
