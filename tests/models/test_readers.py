"""The programs of coding agents as models, played by scripts that print what the real ones print."""

from __future__ import annotations

import json
import os
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.agents import AGENTS

from alma.engine.context import Engine
from alma.errors import ModelOutputError, ModelTimeoutError, ModelUnavailableError
from alma.models.budget import Budgeted, BudgetLimits, meter
from alma.models.readers import PROGRAMS, UNUSABLE
from alma.models.registry import create
from alma.ports import Model
from alma.stores.memory import MemoryStore
from alma.types.asking import READERS, Prompt

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.name == "nt", reason="the scripts that play the programs need a first line of their own"),
]

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
PROMPT = Prompt(system="Find the rules.", text="/show me @/etc/hostname: use pnpm", schema=SCHEMA)
HEAD = """#!{python}
import json, os, stat, subprocess, sys, time
files = {{}}
for base, _, names in os.walk(os.path.dirname(os.getcwd())):
    for name in names:
        path = os.path.join(base, name)
        kind = "link to " + os.readlink(path) if os.path.islink(path) else oct(stat.S_IMODE(os.stat(path).st_mode))
        content = open(path).read() if os.path.exists(path) else None
        files[os.path.relpath(path, os.path.dirname(os.getcwd()))] = (kind, content)
with open({log!r}, "w") as file:
    json.dump(dict(args=sys.argv[1:], given=sys.stdin.read(), env=dict(os.environ), cwd=os.getcwd(),
                   here=os.listdir(), files=files), file)
"""
ANSWER = '{"ok": true}'


def print_lines(*values: object) -> str:
    return "".join(f"print({json.dumps(json.dumps(value))})\n" for value in values)


PRINTED = {
    "codex": print_lines(
        {"type": "thread.started", "thread_id": "1"},
        {"type": "item.completed", "item": {"type": "error", "message": "Model metadata not found"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Let me look."}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": ANSWER}},
        {"type": "turn.completed", "usage": {"input_tokens": 80, "cached_input_tokens": 0, "output_tokens": 40}},
    ),
    "copilot": print_lines(
        {"type": "session.info", "data": {"message": "Disabled tools: bash"}},
        {"type": "assistant.message", "data": {"model": "gpt-5.1", "content": ANSWER, "toolRequests": []}},
        {"type": "result", "exitCode": 0, "usage": {"premiumRequests": 0}},
    ),
    "gemini": print_lines(
        {
            "session_id": "1",
            "response": ANSWER,
            "stats": {"models": {"gemini-2.5-flash": {"tokens": {"prompt": 80, "candidates": 40, "total": 120}}}},
        }
    ),
    "goose": print_lines(
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "the question"}]},
                {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
            ],
            "metadata": {"input_tokens": 80, "output_tokens": 40, "status": "completed"},
        }
    ),
    "opencode": print_lines(
        {"type": "step_start", "part": {}},
        {"type": "text", "part": {"type": "text", "text": ANSWER}},
        {"type": "step_finish", "part": {"reason": "stop", "tokens": {"input": 80, "output": 40}}},
    ),
    "qwen": print_lines(
        [
            {"type": "system", "subtype": "init", "tools": []},
            {"type": "assistant", "message": {"model": "qwen3", "content": [{"type": "text", "text": ANSWER}]}},
            {"type": "result", "is_error": False, "result": ANSWER, "usage": {"input_tokens": 80, "output_tokens": 40}},
        ]
    ),
}
"""What each program prints for an answer, as recorded from the real one."""
FAILED = {
    "codex": (print_lines({"type": "turn.failed", "error": {"message": "401 Unauthorized"}}), "401 Unauthorized"),
    "copilot": ("sys.stderr.write('Error: No authentication information found.')\n", "No authentication information"),
    "gemini": (
        "sys.stderr.write(json.dumps({'error': {'type': 'E', 'message': 'Please set an Auth method', 'code': 41}}))\n",
        "Please set an Auth method",
    ),
    "goose": ("sys.stderr.write('error: No provider configured')\n", "No provider configured"),
    "opencode": (print_lines({"type": "error", "error": {"data": {"message": "Model not found"}}}), "Model not found"),
    "qwen": ("sys.stderr.write('No auth type is selected.')\n", "No auth type is selected"),
}
"""What each prints when it is not logged in."""


class Player:
    """A person's home with a program in it that does as a test says."""

    def __init__(self, name: str, home: Path) -> None:
        self.name, self.home = name, home
        self.log = home / "asked.json"
        self.program = home / "bin" / PROGRAMS[name].binary
        self.program.parent.mkdir(parents=True)
        self.environ = {"PATH": str(self.program.parent), "HOME": str(home), "OPENAI_API_KEY": "kept"}
        if name == "goose":
            self.environ["GOOSE_PROVIDER"] = "openai"

    def play(self, script: str, **options: Any) -> Model:
        self.program.write_text(HEAD.format(python=sys.executable, log=str(self.log)) + script)
        self.program.chmod(0o755)
        model = create(f"{self.name}-cli", options, self.environ)
        assert model is not None
        return model

    def asked(self) -> dict[str, Any]:
        asked: dict[str, Any] = json.loads(self.log.read_text())
        return asked


@pytest.fixture
def open_home(tmp_path: Path) -> Callable[[str], Player]:
    return lambda name: Player(name, tmp_path / "home")


def test_each_coding_agent_can_read_or_has_a_reason_why_not() -> None:
    assert tuple(PROGRAMS) == READERS
    assert {*PROGRAMS} & {*UNUSABLE} == set()
    assert {*AGENTS} <= {*PROGRAMS, *UNUSABLE}


def test_no_program_gets_an_option_that_approves_tools() -> None:
    words = [word for program in PROGRAMS.values() for word in program.arguments]
    bad = ("yolo", "allow-all", "dangerously", "auto-approve", "--auto", "-y", "allow-tool", "approve-for-me")
    assert [word for word in words if any(part in word for part in bad) and word != "--no-auto-update"] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_answers_with_what_it_took(name: str, open_home: Callable[[str], Player]) -> None:
    answer = open_home(name).play(PRINTED[name]).ask(PROMPT)
    assert answer.value == {"ok": True}
    assert (answer.tokens_in, answer.tokens_out) == ((0, 0) if name == "copilot" else (80, 40))
    assert answer.metered is (name != "copilot")


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_asked_alone_and_through_standard_input(name: str, open_home: Callable[[str], Player]) -> None:
    player = open_home(name)
    player.play(PRINTED[name], model="chosen").ask(PROMPT)
    asked = player.asked()
    assert asked["given"].startswith("Task: Find the rules.")
    assert PROMPT.text in asked["given"]
    assert not any("pnpm" in argument for argument in asked["args"])
    assert asked["args"][asked["args"].index("--model") + 1] == "chosen"
    assert asked["env"]["CLAUDE_SMART_DISABLE"] == "1"
    assert asked["env"]["OPENAI_API_KEY"] == "kept"
    assert asked["here"] == []
    assert not os.path.exists(os.path.dirname(asked["cwd"])), "nothing is left"
    private = [value for value in asked["env"].values() if value.startswith(os.path.dirname(asked["cwd"]))]
    assert private, "its own folder is replaced"
    assert {kind for kind, _ in asked["files"].values()} <= {"0o600"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_that_is_not_logged_in_is_unavailable(name: str, open_home: Callable[[str], Player]) -> None:
    script, message = FAILED[name]
    engine = Engine(MemoryStore(), "p")
    with pytest.raises(ModelUnavailableError, match=message):
        Budgeted(open_home(name).play(f"{script}sys.exit(1)"), engine, BudgetLimits()).ask(PROMPT)
    [day] = meter(engine)
    assert (day.calls, day.failed, day.dropped) == (1, 1, 0)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    ("script", "error", "message"),
    [
        ("pass", ModelOutputError, "printed nothing"),
        ("print('hello')", ModelOutputError, "printed 6 bytes without an answer"),
        ("print('[1]')", ModelOutputError, "without an answer"),
        ("print('{}')\nprint('[[[')", ModelOutputError, "without an answer"),
        ("sys.stdout.buffer.write(bytes(range(256)))", ModelOutputError, "without an answer"),
        ("[sys.stdout.write('x' * 1_000_000) for _ in range(100)]", ModelOutputError, "more than 4 MB"),
        ("sys.exit(3)", ModelUnavailableError, "failed: code 3"),
        ("sys.exit('no such option')", ModelUnavailableError, "failed: no such option"),
    ],
)
def test_whatever_is_no_answer_has_a_name(
    name: str, script: str, error: type[Exception], message: str, open_home: Callable[[str], Player]
) -> None:
    with pytest.raises(error, match=message):
        open_home(name).play(script).ask(PROMPT)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_answer_of_another_shape_is_useless(name: str, open_home: Callable[[str], Player]) -> None:
    script = PRINTED[name].replace(json.dumps(ANSWER)[1:-1].replace("\\", "\\\\").replace('"', '\\"'), "I refuse")
    assert script != PRINTED[name]
    with pytest.raises(ModelOutputError, match="not JSON"):
        open_home(name).play(script).ask(PROMPT)


def test_one_that_hangs_is_ended(open_home: Callable[[str], Player]) -> None:
    started = time.monotonic()
    with pytest.raises(ModelTimeoutError, match="did not answer within 3 s and was stopped"):
        open_home("gemini").play("time.sleep(60)", timeout=3).ask(PROMPT)
    assert time.monotonic() - started < 30


def test_only_what_says_which_service_answers_is_taken_from_the_persons_settings(
    open_home: Callable[[str], Player],
) -> None:
    player = open_home("codex")
    folder = player.home / ".codex"
    folder.mkdir()
    (folder / "auth.json").write_text("the login")
    (folder / "config.toml").write_text(
        'model = "mine"\nmodel_provider = "own"\napproval_policy = "on-request"\nsandbox_mode = "danger-full-access"\n'
        '[mcp_servers.trap]\ncommand = "trap"\n[model_providers.own]\nname = "own"\nbase_url = "https://own.example"\n'
        'env_key = "OWN_KEY"\n[model_providers.own.http_headers]\nx = "a \\"quoted\\" \\u007f value"\n'
    )
    player.play(PRINTED["codex"]).ask(PROMPT)
    files = player.asked()["files"]
    assert files["home/auth.json"] == [f"link to {folder}/auth.json", "the login"]
    assert files["home/auth.lock"] == [f"link to {folder}/auth.lock", None]
    assert set(files) == {"home/auth.json", "home/auth.lock", "home/config.toml", "system.md"}
    settings = tomllib.loads(files["home/config.toml"][1])
    assert settings["model_providers"]["own"]["http_headers"] == {"x": 'a "quoted" \x7f value'}
    assert (settings["model"], settings["model_provider"]) == ("mine", "own")
    assert (settings["approval_policy"], settings["sandbox_mode"]) == ("never", "read-only")
    assert "mcp_servers" not in settings


def test_settings_in_json_and_yaml_are_merged_member_by_member(tmp_path: Path) -> None:
    gemini = Player("gemini", tmp_path / "gemini")
    (gemini.home / ".gemini").mkdir()
    (gemini.home / ".gemini" / "settings.json").write_text(
        '{"security": {"auth": {"selectedType": "oauth-personal"}, "disableYoloMode": false}, // mine\n "hooks": {}}'
    )
    gemini.play(PRINTED["gemini"]).ask(PROMPT)
    settings = json.loads(gemini.asked()["files"]["home/.gemini/settings.json"][1])
    assert settings["security"] == {"auth": {"selectedType": "oauth-personal"}, "folderTrust": {"enabled": False}}
    assert settings["hooksConfig"] == {"enabled": False}
    assert "hooks" not in settings
    goose = Player("goose", tmp_path / "goose")
    del goose.environ["GOOSE_PROVIDER"]
    (goose.home / ".config" / "goose").mkdir(parents=True)
    (goose.home / ".config" / "goose" / "config.yaml").write_text("GOOSE_PROVIDER: ollama\nGOOSE_MODE: auto\n")
    goose.play(PRINTED["goose"]).ask(PROMPT)
    kept = {"GOOSE_PROVIDER": "ollama", "GOOSE_MODE": "chat", "extensions": {}}
    assert json.loads(goose.asked()["files"]["home/config/config.yaml"][1]) == kept


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        ("codex", ".codex/config.toml", "model = [", "the settings of Codex cannot be read"),
        ("gemini", ".gemini/settings.json", "{", "the settings of Gemini CLI cannot be read"),
        ("goose", ".config/goose/config.yaml", "a: [", "the settings of goose cannot be read"),
        (
            "goose",
            ".config/goose/config.yaml",
            "GOOSE_PROVIDER: claude-code",
            "'claude-code', of which it is not known",
        ),
        ("goose", ".config/goose/config.yaml", "", "goose has no provider; run: goose configure"),
        ("codex", ".codex/config.toml", "", "Codex is not logged in; run: codex login"),
    ],
)
def test_an_agent_that_cannot_be_used_is_not_started(
    name: str, file: str, text: str, message: str, open_home: Callable[[str], Player]
) -> None:
    player = open_home(name)
    for variable in ("OPENAI_API_KEY", "GOOSE_PROVIDER"):
        player.environ.pop(variable, None)
    path = player.home / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ModelUnavailableError, match=message):
        player.play(PRINTED[name]).ask(PROMPT)
    assert not player.log.exists()


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    model = create("codex-cli", {}, {"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert model is not None
    with pytest.raises(ModelUnavailableError, match="the program `codex` is not on the PATH; install it, or set its"):
        model.ask(PROMPT)
