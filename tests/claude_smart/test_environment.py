"""A repository sets variables for the hooks in it. They must run nothing of it and send nothing to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.persons import act_as_agent, not_below_an_agent

from alma.hooks.journal import ask_worker
from alma.hooks.paths import DataDir, NoHomeError, build_environment, find_data_dir, find_hook_dir, read_settings
from alma.hooks.project import locate_project
from claude_smart.cli import main
from claude_smart.environment import list_ignored, record_environment

from .conftest import Person

pytestmark = pytest.mark.system

UNKNOWN = "hm, the house style here is tabs, you know"
READER = """
import json, os, sys
with open({asked!r}, "a") as file:
    file.write(json.dumps({{"environ": dict(os.environ), "prompt": sys.stdin.read()}}) + "\\n")
print(json.dumps({{"type": "result", "is_error": False, "result": '{{"rules": []}}', "usage": {{}}}}))
"""


class Trap:
    """A repository that plants programs, code, settings and a server, and notices whatever is used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marker = folder / "was-run"
        self.requests: list[str] = []
        for name in ("claude", "python3", "git", "ps", "sh", "env", "node", "claude-smart"):
            self.plant(f"bin/{name}", f"#!/bin/sh\n: > '{self.marker}'\n").chmod(0o755)
        code = f"open({str(self.marker)!r}, 'w')\n"
        for name in ("sitecustomize.py", "usercustomize.py", "alma/__init__.py", "alma/hooks/run.py"):
            self.plant(f"code/{name}", code)
        self.plant("code/alma/hooks/worker.py", code)
        runtime = {"home": str(folder / "home"), "python": str(folder / "bin/python3"), "path": str(folder / "code")}
        settings = {"model": "on", "program": str(folder / "bin/claude"), "programs": "on"}
        for home in ("home", "home/.claude-smart", "home/alma"):
            self.plant(f"{home}/runtime.json", json.dumps(runtime))
            self.plant(f"{home}/config.json", json.dumps(settings))
        self.plant("home/.claude/settings.json", "{}")
        self.plant("require.js", f"require('fs').writeFileSync({str(self.marker)!r}, '')")
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._build_handler())
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def plant(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def _build_handler(self) -> type[BaseHTTPRequestHandler]:
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                requests.append(self.path)
                self.send_error(500)

            do_GET = do_CONNECT = do_POST

            def log_message(self, *arguments: Any) -> None:
                return

        return Handler

    def read(self, name: str) -> str:
        """Return the value that this repository sets a variable to."""
        home, urls = str(self.folder / "home"), ("SERVER", "URL", "PROXY", "proxy")
        values = {
            "PATH": str(self.folder / "bin"),
            "CLAUDE_SMART_CLI_PATH": str(self.folder / "bin" / "claude"),
            "CLAUDE_SMART_CLI_TIMEOUT": "1",
            "CLAUDE_SMART_TOKEN": "alma_theirs",
            "PYTHONPATH": str(self.folder / "code"),
            "NODE_OPTIONS": f"--require {self.folder / 'require.js'}",
            "SSL_CERT_FILE": str(self.folder / "authority.pem"),
            "LD_PRELOAD": str(self.folder / "lib.so"),
            "LANG": str(self.folder / "locale"),
            "BASH_ENV": str(self.folder / "bin" / "sh"),
            **dict.fromkeys(SWITCHES, "1"),
        }
        return values.get(name) or (self.url if name.endswith(urls) else home)


SWITCHES = ("CLAUDE_SMART_USE_LOCAL_CLI", "CLAUDE_SMART_ATTENDED", "CLAUDE_SMART_DASHBOARD_AUTOSTART")
OURS = (
    *("CLAUDE_SMART_HOME", "CLAUDE_SMART_STATE_DIR", "CLAUDE_SMART_CLI_PATH", "CLAUDE_SMART_CLI_TIMEOUT"),
    *("CLAUDE_SMART_SERVER", "CLAUDE_SMART_TOKEN", "REFLEXIO_URL"),
    *SWITCHES,
)
RECORDABLE = (
    *("ANTHROPIC_BASE_URL", "HTTPS_PROXY", "http_proxy", "SSL_CERT_FILE", "CLAUDE_CONFIG_DIR", "CODEX_HOME"),
    *("XDG_CONFIG_HOME", "XDG_CACHE_HOME"),
)
OTHERS = (
    *("PATH", "HOME", "XDG_DATA_HOME", "NODE_OPTIONS", "PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "GIT_DIR", "TMPDIR"),
    *("CLAUDE_PLUGIN_ROOT", "CLAUDE_PROJECT_DIR", "LANG", "BASH_ENV"),
)


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Trap]:
    trap = Trap(tmp_path / "repository")
    yield trap
    trap.server.shutdown()
    trap.server.server_close()


class Desk:
    """A machine on which a person installed claude-smart, with Claude as a reader."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.asked = home / "asked"
        self.place = DataDir(str(home / ".claude-smart"))
        self.environ = {"PATH": os.defpath, "HOME": str(home), "CLAUDE_CODE_ENTRYPOINT": "cli"}
        self.environ["CLAUDE_SMART_BACKEND_AUTOSTART"] = "0"

    def fire(self, folder: Path, session: str, event: str, **fields: str) -> subprocess.CompletedProcess[bytes]:
        hook = self.home / ".claude-smart" / "marketplace" / "plugin" / "hook.py"
        payload = {"session_id": session, "cwd": str(folder), "hook_event_name": event, **fields}
        command = [sys.executable, "-I", "-S", str(hook)]
        data = json.dumps(payload).encode()
        return subprocess.run(command, input=data, env=self.environ, cwd=folder, capture_output=True, check=True)

    def work(self, folder: Path, session: str = "s1") -> None:
        """Have a session with a correction that only Claude understands."""
        self.fire(folder, session, "SessionStart", source="startup")
        self.fire(folder, session, "UserPromptSubmit", prompt=UNKNOWN, prompt_id="p1")
        self.fire(folder, session, "Stop", last_assistant_message="I used spaces.", prompt_id="p1")
        self.fire(folder, session, "SessionEnd", reason="exit")

    def wait_for_question(self) -> dict[str, Any]:
        """Return the environment and the input of the reader's program."""
        wait_until(lambda: self.asked.exists() and self.asked.read_text().endswith("\n"))
        question: dict[str, Any] = json.loads(self.asked.read_text().splitlines()[0])
        return question


def wait_until(is_reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not is_reached():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk(tmp_path / "p")  # The path of a socket must be short.
    desk.home.mkdir()
    program = desk.home / "claude"
    program.write_text(f"#!{sys.executable} -I{READER.format(asked=str(desk.asked))}")
    program.chmod(0o755)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(desk.home))
    for name in (*OURS, *RECORDABLE, "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("alma.processes.find_system_home", lambda: str(desk.home))
    monkeypatch.chdir(desk.home)
    settings = {"model": "on", "program": str(program), "programs": "on", "embedding": "off"}
    install(desk.home, {**settings, "environment": {"READER_SETTING": "mine"}})
    return desk


def install(home: Path, settings: dict[str, Any]) -> int:
    file = home / "settings.json"
    file.write_text(json.dumps(settings))
    file.chmod(0o600)
    return main(["install", "--yes", "--settings", str(file)])


# -- a hostile environment


@pytest.mark.parametrize("names", [OURS, RECORDABLE, OTHERS], ids=["ours", "recordable", "others"])
@not_below_an_agent
def test_variables_of_a_repository_run_and_redirect_nothing(names: tuple[str, ...], desk: Desk, trap: Trap) -> None:
    """All of a kind at once, as a repository would set them: whichever is used, the trap notices it."""
    desk.environ |= {name: trap.read(name) for name in names}
    desk.work(trap.folder)
    question = desk.wait_for_question()
    assert not trap.marker.exists()
    assert trap.requests == []
    assert Path(desk.place.journal_file("s1")).exists()
    assert not list(trap.folder.rglob("s1*"))
    assert "house style here is tabs" in question["prompt"]
    assert question["environ"]["READER_SETTING"] == "mine"
    assert question["environ"]["HOME"] == str(desk.home)
    foreign = [one for one, value in question["environ"].items() if str(trap.folder) in value or trap.url in value]
    assert foreign == []
    log = Path(desk.place.log)
    assert not log.exists(), log.read_text()


def test_the_worker_inherits_nothing(desk: Desk, trap: Trap) -> None:
    if not os.path.isdir("/proc/self"):
        pytest.skip("the environment of a process is known on Linux only")
    desk.environ |= {name: trap.read(name) for name in (*OURS, *RECORDABLE, *OTHERS)}
    desk.environ |= {"LC_ALL": "C.UTF-8", "CLAUDE_SMART_BACKEND_AUTOSTART": "1", "AWS_SECRET_ACCESS_KEY": "x"}
    desk.fire(trap.folder, "s1", "SessionStart", source="startup")
    worker = Path(desk.place.worker)
    wait_until(worker.exists)
    entries = Path(f"/proc/{json.loads(worker.read_text())['pid']}/environ").read_bytes().decode().split("\0")
    ask_worker(desk.place, {"op": "stop"}, 5.0)
    values = dict(entry.partition("=")[::2] for entry in entries if entry)
    recorded = json.loads(Path(desk.place.config).read_text())["environment"]
    assert values == {**recorded, "LC_ALL": "C.UTF-8"}
    assert not trap.marker.exists()
    wait_until(lambda: not worker.exists())


def test_a_hook_without_an_installation_uses_the_home_folder_of_the_system(
    tmp_path: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(trap.folder / "home"))
    monkeypatch.setenv("CLAUDE_SMART_HOME", str(trap.folder / "home"))
    monkeypatch.setattr("alma.processes.find_system_home", lambda: str(tmp_path))
    assert find_hook_dir().home == str(tmp_path / ".claude-smart")


def track(folder: Path, *names: str) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "add", "-f", *names], check=True)


def test_a_home_folder_that_comes_with_a_repository_is_refused(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    track(trap.folder, "home/.claude-smart/config.json")
    environ = {"HOME": str(trap.folder / "home")}
    with pytest.raises(NoHomeError, match="is tracked by git, so it comes with a repository"):
        find_data_dir(environ)
    # Where the system knows no home folder, the hook takes that of HOME only if it is the person's.
    monkeypatch.setattr("alma.processes.find_system_home", lambda: "")
    monkeypatch.setenv("HOME", environ["HOME"])
    with pytest.raises(NoHomeError):
        find_hook_dir()


def test_a_home_folder_in_an_unpacked_archive_is_refused(
    trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No git tracks it, so that its place is all that shows where it comes from."""
    own = tmp_path / "me"
    own.mkdir()
    below = trap.folder / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.setattr("alma.processes.find_system_home", lambda: str(own))
    planted = str(trap.folder / "home")
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / ".envrc").write_text("export HOME=$PWD")
    refused = [(planted, trap.folder), (str(archive), archive)]
    # A person whose HOME is not the one that the system records works in it.
    moved = tmp_path / "moved"
    (moved / "shop").mkdir(parents=True)
    (moved / ".claude").mkdir()
    (moved / ".claude" / "settings.json").write_text("{}")
    (moved / ".vscode" / "extensions").mkdir(parents=True)
    accepted = [(str(moved), moved), (str(moved), moved / "shop")]
    accepted += [(str(own), own), (str(own), tmp_path), (str(tmp_path / "other"), trap.folder), (planted, own)]
    failures = []
    for home, folder in refused:
        monkeypatch.chdir(folder)
        with pytest.raises(NoHomeError, match="unset HOME or set it to your own home folder"):
            find_data_dir({"HOME": home})
    for home, folder in accepted:
        monkeypatch.chdir(folder)
        failures += [] if find_data_dir({"HOME": home}).home == f"{home}/.claude-smart" else [home]
    assert failures == []
    # A folder of the project that is not below the current one.
    monkeypatch.chdir(below)
    for name in (".envrc", ".mise.toml", ".devcontainer.json", ".vscode/settings.json"):
        mark = trap.plant(name, "HOME")
        with pytest.raises(NoHomeError, match="is in the current project"):
            find_data_dir({"HOME": planted})
        mark.unlink()
    # In a container without a home folder of its own, people work in that of HOME.
    monkeypatch.setattr("alma.processes.find_system_home", lambda: "/nonexistent")
    monkeypatch.chdir(own)
    assert find_data_dir({"HOME": str(own)}).home == str(own / ".claude-smart")


def test_only_variables_of_a_language_with_the_value_of_one_are_passed_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = {"LANG": "de_DE.UTF-8@euro", "LANGUAGE": "de:en", "LC_ALL": "C.UTF-8", "LC_TIME": "en_GB.utf8"}
    bad = {"LANGCHAIN_API_KEY": "x", "LANG_": "C", "LANGUAGES": "de", "LC_EVIL": "C", "LC_PAPER": "../x"}
    bad |= {"LC_CTYPE": "a" * 65, "LC_NAME": "-rf", "LC_NUMERIC": "a b"}
    for name, value in (good | bad).items():
        monkeypatch.setenv(name, value)
    environ = build_environment(desk.place)
    recorded = read_settings(desk.place)["environment"]
    assert {name: environ.get(name) for name in good} == good
    assert [name for name in bad if name in environ and name not in recorded] == []


@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="needs another user")
def test_a_home_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".claude-smart").mkdir()
    os.chown(tmp_path / ".claude-smart", 12345, 12345)
    with pytest.raises(NoHomeError, match="belongs to another user"):
        find_data_dir({"HOME": str(tmp_path)})


def test_a_folder_without_git_cannot_pass_for_the_folder_above_it(tmp_path: Path) -> None:
    above, stranger, plain = tmp_path / "work", tmp_path / "work" / "stranger", tmp_path / "work" / "plain"
    (stranger / ".claude").mkdir(parents=True)
    plain.mkdir()
    own = locate_project(str(above)).key
    assert locate_project(str(plain), str(above)).key == own
    for name in (".claude/settings.json", ".env", ".envrc"):
        (stranger / name).write_text("{}")
        assert locate_project(str(stranger), str(above)).key != own
        (stranger / name).unlink()


def test_the_server_of_the_dashboard_gets_no_token_of_a_repository(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def get_link(*files: Path, **options: Any) -> tuple[str, bool]:
        given.update(options)
        return "http://127.0.0.1:1/ui", True

    monkeypatch.setattr("alma.http.dashboard.get_link", get_link)
    monkeypatch.setenv("ALMA_HTTP_TOKEN", "alma_theirs")
    monkeypatch.setenv("PYTHONPATH", "/their/code")
    assert person.types("dashboard", "--no-open", "--read-only").code == 0
    assert {"ALMA_HTTP_TOKEN", "PYTHONPATH"}.isdisjoint(given["environ"])


# -- adopting


@pytest.mark.parametrize("name", [*OURS, *RECORDABLE])
def test_status_and_doctor_name_an_ignored_variable_and_how_to_adopt_it(
    name: str, person: Person, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name, raising=False)
    if name in RECORDABLE:
        person.types("config", "model", "on")
    assert name not in person.types("status").out
    monkeypatch.setenv(name, trap.read(name))
    state = person.types("status")
    command = person.types("status", "--json").json["ignored"][name]
    assert f"ignored    {name}; adopt it: {command}" in state.out
    assert "alma_theirs" not in state.out
    assert f"Ignored: {name}. Adopt it: {command}" in person.types("config").out


@pytest.mark.parametrize("name", [one for one in OURS if one != "CLAUDE_SMART_TOKEN"])
def test_the_named_command_adopts_a_variable(
    name: str, person: Person, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, trap.read(name))
    command = person.types("status", "--json").json["ignored"][name].split()
    assert person.types(*command[1:]).code == 0
    assert name not in list_ignored(find_data_dir(os.environ), os.environ)


def test_all_variables_are_adopted_together_and_stay(
    person: Person, answers: Any, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [one for one in OURS if one != "CLAUDE_SMART_HOME"]
    with monkeypatch.context() as patch:
        for name in names:
            patch.setenv(name, trap.read(name))
        answers("y")
        said = person.types("config", "--adopt")
        assert said.code == 0
        assert all(name in said.out for name in names)
        assert "alma_theirs" not in said.out
    settings = read_settings(person.place)
    assert (settings["server"], settings["model"], settings["programs"]) == (trap.url, "on", "on")
    assert settings["program"] == trap.read("CLAUDE_SMART_CLI_PATH")
    assert (person.home / "server-token").read_text() == "alma_theirs\n"
    assert find_data_dir(os.environ).sessions == str(trap.folder / "home")


def test_a_no_adopts_nothing(person: Person, answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_SMART_SERVER", "https://a.example")
    answers("n")
    assert person.types("config", "--adopt").code == 1
    assert read_settings(person.place)["server"] == "off"


def test_an_installation_adopts_the_data_folder(
    tmp_path: Path, answers: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_SMART_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answers("y", "n", "y")
    assert main(["install"]) == 0
    monkeypatch.delenv("CLAUDE_SMART_HOME")
    assert find_data_dir(os.environ).home == str(tmp_path / "elsewhere")
    runtime = json.loads((tmp_path / "elsewhere/marketplace/plugin/runtime.json").read_text())
    assert runtime["home"] == str(tmp_path / "elsewhere")


def test_an_installation_without_a_person_adopts_nothing_and_gives_no_leave(
    tmp_path: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in OURS:
        monkeypatch.setenv(name, trap.read(name))
    assert main(["install", "--yes"]) == 0
    settings = json.loads((tmp_path / ".claude-smart" / "config.json").read_text())
    assert settings.keys() <= {"environment", "program"}
    assert "Ignored: CLAUDE_SMART_HOME. Adopt it: claude-smart config home" in capsys.readouterr().out


# -- recording


def test_a_key_is_recorded_only_if_claude_has_no_login_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:bin:", "ANTHROPIC_API_KEY": "sk-mine", "EDITOR": "vi"}
    monkeypatch.chdir(tmp_path)
    assert record_environment(environ, is_read=False)["environment"] == {"PATH": "/usr/bin", "HOME": str(tmp_path)}
    assert record_environment(environ, is_read=True)["environment"]["ANTHROPIC_API_KEY"] == "sk-mine"
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    assert "ANTHROPIC_API_KEY" not in record_environment(environ, is_read=True)["environment"]


def test_what_is_recorded_is_named_without_values_and_private(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-mine")
    person.types("config", "daily_calls", "3")
    shown = [person.types("install", "--yes", "--model").out, person.types("install", "--yes", "--json").out]
    shown += [person.types("config").out, person.types("config", "environment").out, person.types("status").out]
    shown.append(person.types("config", "--json").out)
    assert "ANTHROPIC_API_KEY" in shown[0]
    assert all("sk-mine" not in text for text in shown)
    assert read_settings(person.place)["environment"]["ANTHROPIC_API_KEY"] == "sk-mine"
    if os.name == "posix":
        assert Path(person.place.config).stat().st_mode & 0o077 == 0


def test_an_agent_has_nothing_recorded(person: Person, trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", trap.read("PATH"))
    monkeypatch.setattr("alma.people.find_agent", lambda **options: "an agent runs this command")
    assert person.types("install", "--yes").code == 0
    assert read_settings(person.place)["environment"] == {}
    assert read_settings(person.place)["program"] == "none"
    assert trap.read("PATH") not in build_environment(person.place)["PATH"]


def test_an_agent_does_not_remove_the_address_that_conversations_are_sent_to(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://gateway.example.org")
    assert person.types("config", "environment", "record").code == 0
    act_as_agent(monkeypatch)
    for value in ("none", "record"):
        assert "is for a person to decide" in person.fails("config", "environment", value)
    assert build_environment(person.place)["ANTHROPIC_BASE_URL"] == "https://gateway.example.org"


def test_a_program_of_the_repository_is_not_recorded(
    trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    track(trap.folder, "bin/claude")
    environ = {"HOME": str(tmp_path), "PATH": trap.read("PATH")}
    monkeypatch.chdir(tmp_path)
    assert "program" not in record_environment(environ, is_read=True)
    monkeypatch.chdir(trap.folder)
    assert record_environment(environ, is_read=True)["environment"]["PATH"] == ""


# -- a file of settings


def test_a_file_of_settings_installs_without_a_terminal(desk: Desk) -> None:
    settings = read_settings(desk.place)
    assert (settings["model"], settings["program"]) == ("on", str(desk.home / "claude"))
    assert settings["environment"]["READER_SETTING"] == "mine"


def test_a_file_of_settings_names_the_home_and_the_token(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("alma_mine\n")
    values = {"home": str(tmp_path / "there"), "server": "https://a.example", "token_file": str(tmp_path / "token")}
    assert install(desk.home, values) == 0
    place = find_data_dir(os.environ)
    assert place.home == str(tmp_path / "there")
    assert read_settings(place)["server"] == "https://a.example"
    assert (tmp_path / "there" / "server-token").read_text() == "alma_mine\n"


@pytest.mark.parametrize("problem", ["tracked", "writable", "agent", "unknown", "invalid"])
def test_a_file_of_settings_that_may_be_anybodys_is_refused(
    problem: str, person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "folder" / "settings.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"unknown": {"modle": "on"}, "invalid": {"model": 1}}.get(problem, {"model": "on"})))
    file.chmod(0o622 if problem == "writable" else 0o600)
    if problem == "tracked":
        track(file.parent, "settings.json")
    if problem == "agent":
        monkeypatch.setattr("alma.people.find_agent", lambda **options: "an agent runs this command")
    reasons = {
        "tracked": "is tracked by git",
        "writable": "writable only by you",
        "agent": "for a person to decide",
        "unknown": "modle",
        "invalid": "model must be",
    }
    assert reasons[problem] in person.fails("install", "--yes", "--settings", str(file))
    assert not Path(person.place.config).exists()
