"""Which reader a person has: chosen at the installation and by `config`, tried by `doctor`, named by `status`."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.persons import act_as_agent

from alma.hooks.drain import ProjectMemories, read_sessions
from alma.hooks.paths import CHOICES, SENT, read_settings
from alma.hooks.reader import KEY_FILE
from alma.models.readers import PROGRAMS, UNUSABLE
from claude_smart import install
from claude_smart.environment import record_environment

from .conftest import Person

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.name == "nt", reason="the scripts that play the programs need a first line of their own"),
]

UNKNOWN = "hm, the house style here is tabs, you know"
NOTE = {"n": 0, "note": "Indent with tabs", "quote": "the house style here is tabs", "scope": "project"}
CODEX = """#!{python}
import json, os, sys
given = sys.stdin.read()
with open({log!r}, "a") as file:
    file.write(json.dumps({{"environ": dict(os.environ), "given": given, "args": sys.argv[1:]}}) + "\\n")
text = {{"ok": True}} if "test of the connection" in given else {{"notes": [{note}]}}
print(json.dumps({{"type": "item.completed", "item": {{"type": "agent_message", "text": json.dumps(text)}}}}))
print(json.dumps({{"type": "turn.completed", "usage": {{"input_tokens": 8, "output_tokens": 4}}}}))
"""


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    for name in ("CODEX_HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL", "GEMINI_API_KEY", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


def add_program(path: Path, name: str, script: str = "#!/bin/sh\nexit 1\n") -> str:
    program = path / name
    program.write_text(script)
    program.chmod(0o755)
    return str(program)


def add_codex(path: Path) -> Callable[[], list[dict[str, Any]]]:
    """Add a Codex that finds one note. Return a function that lists its calls."""
    log = path.parent / "calls"
    add_program(path, "codex", CODEX.format(python=sys.executable, log=str(log), note=NOTE))
    login = path.parent / ".codex"
    login.mkdir()
    (login / "auth.json").write_text("{}")
    return lambda: [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def read_waiting(person: Person) -> str:
    with ProjectMemories(person.place) as memory:
        return read_sessions(person.place, memory, is_urgent=True).problem


def find_step(person: Person) -> dict[str, Any]:
    steps = person.types("doctor", "--json").json["steps"]
    step: dict[str, Any] = next(step for step in steps if step["name"] == "reader")
    return step


def test_the_settings_know_the_programs_that_can_read() -> None:
    assert (*PROGRAMS, "provider", "agent") == CHOICES["reader"]


def test_the_agent_in_front_of_the_person_may_be_the_reader(person: Person, path: Path, answers: Any) -> None:
    answers()
    said = person.types("config", "reader", "agent")
    assert "reads when you type /learn" in said.out
    assert "reads when you type /learn" in person.types("status").out
    assert person.types("config", "model", "on").code == 0
    person.talks("s1", "write the parser", UNKNOWN)
    assert person.types("learn").code == 0
    assert "No model calls so far" in person.types("usage").out


def test_codex_reads_with_its_own_login_and_is_named(person: Person, path: Path, answers: Any) -> None:
    calls = add_codex(path)
    answers()
    said = person.types("config", "reader", "codex")
    assert "It reads nothing until you allow it" in said.out
    assert "let Codex read your corrections too" in person.types("status").out
    said = person.types("config", "model", "on")
    assert "Codex receives, with secrets redacted: " in said.out
    person.talks("s1", "write the parser", UNKNOWN)
    assert person.types("learn").code == 0
    assert [rule["rule"] for rule in person.rules()] == ["Indent with tabs"]
    environ = calls()[0]["environ"]
    assert environ["CLAUDE_SMART_DISABLE"] == "1"
    assert environ["CODEX_HOME"] != str(path.parent / ".codex")
    assert "PYTEST_CURRENT_TEST" not in environ, "not the environment of whoever calls"
    status = person.types("status").out
    assert "local + codex (its own default), 1 of 20 calls today" in status
    assert all(one in status for one in SENT)
    assert "codex-cli:default 1" in person.types("usage").out


def test_doctor_tries_the_reader_within_the_budget(person: Person, path: Path, answers: Any) -> None:
    calls = add_codex(path)
    answers()
    for name, value in (("reader", "codex"), ("model", "on"), ("daily_calls", "1")):
        assert person.types("config", name, value).code == 0
    step = find_step(person)
    assert step["ok"]
    assert "a test question was answered by codex-cli:default" in step["detail"]
    assert len(calls()) == 1
    step = find_step(person)
    assert step["ok"]
    assert "not tried, because the daily budget is used up" in step["detail"]
    assert len(calls()) == 1
    assert person.types("config", "daily_calls", "9").code == 0
    (path.parent / ".codex" / "auth.json").unlink()
    step = find_step(person)
    assert not step["ok"]
    assert "Codex is not logged in; run: codex login" in step["detail"]
    (path / "codex").unlink()
    assert "is not there" in find_step(person)["detail"]


def test_not_being_logged_in_is_no_failed_attempt(person: Person, path: Path, answers: Any) -> None:
    add_codex(path)
    answers()
    for name, value in (("reader", "codex"), ("model", "on")):
        assert person.types("config", name, value).code == 0
    (path.parent / ".codex" / "auth.json").unlink()
    person.talks("s1", "write the parser", UNKNOWN)
    assert "Codex could not read the session: Codex is not logged in" in person.types("learn").out
    state = person.types("status", "--json").json["reading"]
    assert [waiting["why"] for waiting in state["waiting"]] == ["the model cannot be reached"]


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_agent_that_cannot_read_is_refused_with_the_reason(person: Person, name: str, answers: Any) -> None:
    answers()
    assert UNUSABLE[name] in person.fails("config", "reader", name)


def test_only_a_person_chooses_a_reader_that_is_there(
    person: Person, path: Path, answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers()
    assert "the program of Gemini CLI is not on the PATH" in person.fails("config", "reader", "gemini")
    assert "reader must be codex, copilot, gemini" in person.fails("config", "reader", "gpt")
    add_program(path, "gemini")
    act_as_agent(monkeypatch)
    assert "is for a person to decide" in person.fails("config", "reader", "gemini")
    assert read_settings(person.place)["reader"] == "claude"


def test_a_readers_model_is_its_own(person: Person, path: Path, answers: Any) -> None:
    add_program(path, "gemini")
    answers()
    assert person.types("config", "model_name", "sonnet").code == 0
    assert person.types("config", "reader", "gemini").code == 0
    assert "(gemini: gemini-2.5-flash)" in person.types("usage").out
    assert person.types("config", "model_name", "gemini-3-pro").code == 0
    assert "(gemini: gemini-3-pro)" in person.types("usage").out


# -- what is recorded


def test_the_variables_of_the_chosen_reader_are_recorded_and_no_others(tmp_path: Path, path: Path) -> None:
    environ = {
        "PATH": str(path),
        "HOME": str(tmp_path),
        "ANTHROPIC_API_KEY": "sk-claude",
        "OPENAI_API_KEY": "sk-codex",
        "OPENAI_BASE_URL": "https://codex.example",
        "GEMINI_API_KEY": "sk-gemini",
        "GOOGLE_GEMINI_BASE_URL": "https://gemini.example",
        "OWN_KEY": "sk-own",
    }
    recorded = record_environment(environ, is_read=True, reader="codex")["environment"]
    assert {*recorded} == {"PATH", "HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL"}
    assert "OPENAI_API_KEY" not in record_environment(environ, is_read=False, reader="codex")["environment"]
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text('[model_providers.own]\nenv_key = "OWN_KEY"\n')
    assert "OWN_KEY" in record_environment(environ, is_read=True, reader="codex")["environment"]
    (tmp_path / ".codex" / "auth.json").write_text("{}")
    assert "OPENAI_API_KEY" not in record_environment(environ, is_read=True, reader="codex")["environment"]
    recorded = record_environment(environ, is_read=True, reader="gemini")["environment"]
    assert {*recorded} == {"PATH", "HOME", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"}
    assert {*record_environment(environ, is_read=True, reader="provider")["environment"]} == {"PATH", "HOME"}


@pytest.mark.parametrize(
    ("present", "hosts", "reader"),
    [
        (("codex", "claude"), "codex", "claude"),
        (("codex", "gemini"), "gemini", "gemini"),
        (("kimi", "qwen"), "kimi", "qwen"),
        (("kimi",), "kimi", "claude"),
    ],
)
def test_an_installation_chooses_from_what_is_there_and_asks_once(
    person: Person, path: Path, monkeypatch: pytest.MonkeyPatch, present: tuple[str, ...], hosts: str, reader: str
) -> None:
    for name in present:
        add_program(path, name)
    questions: list[str] = []
    monkeypatch.setattr("os.isatty", lambda number: True)
    monkeypatch.setattr(install.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: questions.append(question) or "y")
    assert person.types("install", "--host", hosts).code == 0
    settings = read_settings(person.place)
    title = "Claude" if reader == "claude" else PROGRAMS[reader].title
    about = [question for question in questions if "read your corrections" in question]
    assert len(about) == 1
    assert f"Let {title} read your corrections?" in about[0]
    assert all(one in about[0] for one in SENT)
    assert ("another provider" in about[0]) is (reader != hosts)
    assert (settings["reader"], settings["model"]) == (reader, "on")
    assert settings["program"] == (str(path / reader) if (path / reader).exists() else "none")


def test_a_reader_that_a_person_allowed_is_kept(person: Person, path: Path, answers: Any) -> None:
    add_codex(path)
    answers()
    for name, value in (("reader", "codex"), ("model", "on")):
        assert person.types("config", name, value).code == 0
    add_program(path, "claude")
    assert person.types("install", "--host", "gemini", "--yes").code == 0
    settings = read_settings(person.place)
    assert (settings["reader"], settings["program"]) == ("codex", str(path / "codex"))
    assert "Your sessions in Gemini CLI go there, too: to OpenAI, another provider" in person.types("status").out


# -- a configured service


class Service:
    """A server on loopback that answers in the form of OpenAI's chat completions."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], str]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._build_handler())
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def _build_handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                service.requests.append(({key.lower(): value for key, value in self.headers.items()}, body))
                text = {"ok": True} if "test of the connection" in body else {"notes": [NOTE]}
                usage = {"prompt_tokens": 8, "completion_tokens": 4}
                message = {"message": {"content": json.dumps(text)}, "finish_reason": "stop"}
                answer = json.dumps({"model": "local-model", "choices": [message], "usage": usage}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.server.shutdown()
    service.server.server_close()


def test_a_local_server_reads(person: Person, service: Service, answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("httpx")
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    answers()
    settings = {
        "reader": "provider",
        "reader_provider": "openai",
        "reader_url": service.url,
        "model_name": "local-model",
        "reader_key": "MY_KEY",
        "model": "on",
    }
    printed = ""
    for name, value in settings.items():
        said = person.types("config", name, value)
        assert said.code == 0
        printed += said.out
    assert "local-model at 127.0.0.1:" in printed
    person.talks("s1", "write the parser", UNKNOWN)
    monkeypatch.delenv("MY_KEY")
    printed += person.types("learn").out
    assert [rule["rule"] for rule in person.rules()] == ["Indent with tabs"]
    headers, body = service.requests[0]
    assert headers["authorization"] == "Bearer sk-very-secret"
    assert json.loads(body)["model"] == "local-model"
    assert find_step(person)["ok"]
    for command in (("status",), ("status", "--json"), ("config",), ("usage",), ("doctor",)):
        printed += person.types(*command).out
    assert "sk-very-secret" not in printed
    assert "sk-very-secret" not in Path(person.place.config).read_text()
    file = Path(person.place.home, KEY_FILE)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert person.types("config", "reader_key", "none").code == 0
    assert not file.exists()


def test_a_service_that_is_not_configured_is_explained(
    person: Person, answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers()
    monkeypatch.setattr("claude_smart.data.getpass", lambda prompt: "")
    for name, value in (("reader", "provider"), ("model", "on")):
        assert person.types("config", name, value).code == 0
    person.talks("s1", UNKNOWN)
    assert "claude-smart config reader_provider anthropic, openai or ollama" in find_step(person)["detail"]
    assert person.types("config", "reader_provider", "ollama").code == 0
    assert "claude-smart config model_name NAME" in find_step(person)["detail"]
    assert person.types("config", "model_name", "qwen3").code == 0
    assert person.types("config", "reader_url", "http://elsewhere.example/v1").code == 0
    assert "unencrypted" in find_step(person)["detail"]
    assert "MISSING_KEY is not set in this terminal" in person.fails("config", "reader_key", "MISSING_KEY")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("reader_provider", "google", "reader_provider must be anthropic, openai, ollama or none"),
        ("reader_url", "ftp://x", "reader_url must be default or a URL"),
        ("reader_url", "https://me:secret@example.org", "without a user or a password"),
        ("reader_key", "sk-typed-here-by-mistake", "the name of a variable such as OPENAI_API_KEY"),
    ],
)
def test_a_wrong_value_is_named(person: Person, answers: Any, name: str, value: str, message: str) -> None:
    answers()
    said = person.fails("config", name, value)
    assert message in said
    assert name != "reader_key" or value not in said


def test_a_repository_configures_no_service(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    act_as_agent(monkeypatch)
    for name, value in (("reader", "provider"), ("reader_url", "https://x.example"), ("reader_key", "HOME")):
        assert "is for a person to decide" in person.fails("config", name, value)
    assert not Path(person.place.home, KEY_FILE).exists()
