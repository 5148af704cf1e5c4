"""`claude-smart install --host` and its reverse, without running the agents."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.hosts.conftest import take_snapshot

from alma import jsonc
from alma.hooks.hosts import HOSTS, NOT_RUN
from claude_smart import install
from claude_smart.cli import main
from claude_smart.install import find_setup
from claude_smart.targets import list_codex_keys

pytestmark = pytest.mark.system

OTHERS = [name for name in HOSTS if name != "claude"]
STOP = '{"hooks": [{"type": "command", "command": "true"}]}'
SETTINGS = {
    "codex": (".codex/hooks.json", f'{{"hooks": {{"Stop": [{STOP}]}}}}\n'),
    "kimi": (".kimi-code/config.toml", '[[hooks]]\nevent = "Stop"\ncommand = "true"'),
    "cursor": (".cursor/hooks.json", '{\n\t"version": 1,\n\t"hooks": {\n\t\t"stop": []\n\t}\n}\n'),
    "crush": (".config/crush/crush.json", '{\n  "providers": {} // mine\n}\n'),
    "aider": ("work/shop/.aider.conf.yml", "model: x\nread: CONVENTIONS.md\n"),
}
RULES = ".aider.claude-smart.md"
"""Settings that a person already has in files that get our entries."""


def copy_only_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an installation copy the modules that a hook imports, and not the hundreds of other files of the packages."""
    list_files = install._list_files

    def list_few(folder: Path) -> list[Path]:
        if folder.name != "alma":
            return list_files(folder)
        return sorted([*folder.glob("*.py"), *folder.joinpath("hooks").rglob("*.py")])

    monkeypatch.setattr(install, "_list_files", list_few)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_EMBEDDING", "0")
    copy_only_the_hook(monkeypatch)
    shop = tmp_path / "work" / "shop"
    (shop / ".git").mkdir(parents=True)
    (shop / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    monkeypatch.chdir(shop)
    return tmp_path


def write_settings(home: Path, host: str, text: str | None = None) -> Path:
    name, content = SETTINGS[host]
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if text is None else text)
    return path


def trust_hooks(folder: Path) -> None:
    """Record in the settings of Codex that its hooks are trusted, as Codex does."""
    keys = list_codex_keys(folder / "hooks.json")
    quoted = {json.dumps(key, ensure_ascii=False): digest for key, digest in keys.items()}
    tables = (f'[hooks.state.{key}]\ntrusted_hash = "{digest}"\n' for key, digest in quoted.items())
    with (folder / "config.toml").open("a") as file:
        file.write("".join(tables))


def list_folders(home: Path) -> set[str]:
    return {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_dir()}


@pytest.mark.parametrize("host", OTHERS)
def test_a_removed_installation_leaves_nothing_behind(host: str, home: Path) -> None:
    before, folders = take_snapshot(home), list_folders(home)
    assert main(["install", "--host", host, "--yes"]) == 0
    installed = take_snapshot(home)
    assert installed != before
    assert main(["install", "--host", host, "--yes"]) == 0
    assert main(["update", "--yes"]) == 0
    assert take_snapshot(home) == installed, "installing twice changes nothing"
    assert main(["uninstall", "--host", host, "--yes"]) == 0
    assert take_snapshot(home) == before
    assert list_folders(home) == folders


@pytest.mark.parametrize("host", SETTINGS)
def test_the_settings_of_a_person_are_restored_byte_for_byte(host: str, home: Path) -> None:
    path = write_settings(home, host)
    before = path.read_bytes()
    assert main(["install", "--host", host, "--yes"]) == 0
    assert path.read_bytes() != before
    assert main(["uninstall", "--host", host, "--yes"]) == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        "read: [A.md, B.md]\n",
        "read: [A.md] # note\n",
        "read: [A.md,]\n",
        "read: [\n  A.md,\n]\n",
        "read: []\n",
        "read:\nmodel: x\n",
        "read: ~ # none\n",
        "read:\n  - A.md\n  - B.md # mine\nmodel: x\n",
        "read:\n- A.md",
        "read:\r\n  - A.md\r\nmodel: x\r\n",
        "read: A.md # mine\n",
        'read: "A b.md"\n',
        "{model: x, read: [A.md]}\n",
        "x: 1",
        "",
    ],
)
def test_every_form_of_aiders_read_setting_is_restored(text: str, home: Path) -> None:
    path = write_settings(home, "aider", text)
    path.write_bytes(text.encode())
    before = yaml.safe_load(text) or {}
    names = before.get("read") or []
    assert main(["install", "--host", "aider", "--yes"]) == 0
    names = [names] if isinstance(names, str) else names
    assert yaml.safe_load(path.read_bytes()) == {**before, "read": [*names, f"~/work/shop/{RULES}"]}
    assert main(["uninstall", "--yes"]) == 0
    assert path.read_bytes() == text.encode()


def test_settings_of_aider_that_cannot_be_changed_are_left_to_the_person(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_settings(home, "aider", "{model: x}\n")
    assert main(["install", "--host", "aider", "--yes"]) == 1
    line = f'read: ["~/work/shop/{RULES}"]'
    assert f"{path}: the file cannot be changed safely; write `{line}` yourself" in capsys.readouterr().err
    path.write_text(f"{{model: x, {line}}}\n")
    assert main(["install", "--host", "aider", "--yes"]) == 0
    assert yaml.safe_load(path.read_text()) == {"model": "x", "read": [f"~/work/shop/{RULES}"]}
    assert main(["uninstall", "--yes"]) == 0
    assert yaml.safe_load(path.read_text()) == {"model": "x", "read": []}


def test_our_file_is_removed_from_settings_of_aider_that_were_rewritten(home: Path) -> None:
    path = write_settings(home, "aider")
    assert main(["install", "--host", "aider", "--yes"]) == 0
    path.write_text(f"model: x\nread:\n- B.md\n- ~/work/shop/{RULES}\nlint: 1\n")
    assert main(["uninstall", "--yes"]) == 0
    assert yaml.safe_load(path.read_text()) == {"model": "x", "read": ["B.md"], "lint": 1}


def test_only_our_entries_are_removed_from_settings_that_changed_meanwhile(home: Path) -> None:
    codex, kimi = write_settings(home, "codex"), write_settings(home, "kimi")
    assert main(["install", "--host", "codex,kimi", "--yes"]) == 0
    # Both files are rewritten by a program that formats them in its own way.
    hooks = json.loads(codex.read_text())
    hooks["hooks"]["SessionStart"].append(json.loads(STOP))
    codex.write_text(json.dumps(hooks))
    kimi.write_text(f"added = 1\n{kimi.read_text().replace('timeout = 5', 'timeout  =  5')}\n[later]\nx = 1\n")
    assert main(["uninstall", "--host", "codex,kimi", "--yes"]) == 0
    stop = json.loads(STOP)
    assert json.loads(codex.read_text()) == {"hooks": {"Stop": [stop], "SessionStart": [stop]}}
    own = {"event": "Stop", "command": "true"}
    assert tomllib.loads(kimi.read_text()) == {"added": 1, "hooks": [own], "later": {"x": 1}}


def test_the_plan_shows_every_file_and_the_difference(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_settings(home, "codex")
    before = take_snapshot(home)
    assert main(["install", "--host", "codex,goose", "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert f"change {path}" in output
    assert f"create {home / '.agents/plugins/claude-smart/hooks/hooks.json'}" in output
    assert "Codex, goose" in output
    assert take_snapshot(home) == before


def test_the_installer_says_what_a_person_has_to_do(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--host", ",".join(OTHERS), "--yes"]) == 0
    output = capsys.readouterr().out
    assert "start `codex` once and approve the hooks" in output
    assert f"GOOSE_MOIM_MESSAGE_FILE={home / '.claude-smart'}/goose-context.md" in output
    for host in NOT_RUN:
        assert f"{HOSTS[host]}: written from its documentation and not tested in it" in output


def test_one_host_is_removed_and_the_others_stay(home: Path) -> None:
    assert main(["install", "--host", "claude,codex,gemini", "--yes"]) == 0
    assert main(["uninstall", "--host", "codex", "--yes"]) == 0
    assert not (home / ".codex").exists()
    assert (home / ".gemini/extensions/claude-smart/hooks/hooks.json").is_file()
    assert (home / ".claude-smart/marketplace/plugin/hook.py").is_file()
    assert main(["uninstall", "--host", "claude", "--yes"]) == 0
    assert "claude-smart" not in json.dumps(take_snapshot(home / ".claude"), default=str)
    assert main(["uninstall", "--yes"]) == 0
    assert not (home / ".gemini").exists()
    assert not (home / ".claude-smart/marketplace").exists()


def test_all_means_those_on_this_machine(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--all", "--yes"]) == 1
    assert "no coding agent was found on this machine" in capsys.readouterr().err
    (home / ".qwen").mkdir()
    (home / ".codex").mkdir()
    assert main(["install", "--all", "--dry-run", "--json"]) == 0
    paths = {change["path"] for change in json.loads(capsys.readouterr().out)["changes"]}
    outside = {path for path in paths if not path.startswith(str(home / ".claude-smart"))}
    folder = home / ".qwen/extensions/claude-smart"
    assert outside == {
        str(home / ".codex/hooks.json"),
        str(folder / "qwen-extension.json"),
        str(folder / "hooks/hooks.json"),
    }


def test_what_cannot_be_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, problem in (
        (["install", "--host", "codx", "--yes"], "unknown host 'codx'"),
        (["uninstall", "--host", "codex", "--yes"], "not installed: codex. Installed: none"),
        (["uninstall", "--host", "codex", "--purge", "--yes"], "--purge erases everything learned"),
    ):
        assert main(arguments) == 1
        assert problem in capsys.readouterr().err
    path = write_settings(home, "codex", '{"hooks": []}\n')
    assert main(["install", "--host", "codex", "--yes"]) == 1
    assert "must be a JSON object" in capsys.readouterr().err
    assert path.read_text() == '{"hooks": []}\n'


def test_doctor_proves_every_installed_host_by_a_round_trip(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--host", ",".join(OTHERS), "--yes"]) == 0
    capsys.readouterr()
    main(["doctor", "--json"])
    steps = {step["name"]: step for step in json.loads(capsys.readouterr().out)["steps"]}
    assert {name: steps[name]["detail"] for name in OTHERS if not steps[name]["ok"]} == {}
    assert not steps["codex trust"]["ok"]
    assert steps["codex trust"]["fix"] == "start `codex` and approve the hooks that it lists"
    assert "GOOSE_MOIM_MESSAGE_FILE is not set in this terminal" in steps["goose rules"]["detail"]
    assert steps["goose rules"]["fix"] == f"export GOOSE_MOIM_MESSAGE_FILE={home / '.claude-smart/goose-context.md'}"
    for name in NOT_RUN:
        assert "not run in it" in steps[name]["detail"]
    assert "recorded a tool call, and answered with a rule" in steps["crush"]["detail"]
    assert steps["aider"]["detail"].startswith("1 repository reads its file of rules")
    sessions = home / ".claude-smart/sessions"
    assert not sessions.exists() or not list(sessions.iterdir()), "the check leaves the real data folder alone"


def test_doctor_reports_a_host_whose_files_are_gone_and_trust_that_is_given(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "--host", "codex,gemini", "--yes"]) == 0
    (home / ".gemini/extensions/claude-smart/hooks/hooks.json").unlink()
    trust_hooks(home / ".codex")
    capsys.readouterr()
    assert main(["doctor", "--json"]) == 1
    steps = {step["name"]: step for step in json.loads(capsys.readouterr().out)["steps"]}
    assert "missing" in steps["gemini"]["detail"]
    assert steps["gemini"]["fix"] == "claude-smart install --host gemini"
    assert "codex trust" not in steps


def test_status_warns_about_a_host_that_is_installed_and_silent(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--host", "codex", "--yes"]) == 0
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert state["installed"] is True
    assert state["hosts"] == {"codex": {"installed": True, "last_capture": None, "silent": False}}
    receipt = home / ".claude-smart/marketplace/receipt.json"
    values = json.loads(receipt.read_text())
    values["hosts"]["codex"]["installed_at"] = "2026-01-01T00:00:00+00:00"
    receipt.write_text(json.dumps(values))
    assert main(["status"]) == 0
    assert "Codex: nothing captured yet; it is installed and silent" in capsys.readouterr().out


# -- unusual homes


@pytest.mark.parametrize("name", ['José 🦆 o"brien\\', "it's $HOME`id`"])
def test_a_home_with_any_name_is_installed_checked_and_cleaned(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / name
    (home / "shop" / ".git").mkdir(parents=True)
    monkeypatch.chdir(home / "shop")
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(home))
    codex, kimi = write_settings(home, "codex"), write_settings(home, "kimi", 'model = "x"\n')
    hosts = [host for host in OTHERS if host != "aider"]
    assert main(["install", "--host", ",".join(hosts), "--yes"]) == 0
    capsys.readouterr()
    main(["doctor", "--json"])
    steps = {step["name"]: step for step in json.loads(capsys.readouterr().out)["steps"]}
    assert {host: steps[host]["detail"] for host in hosts if not steps[host]["ok"]} == {}
    # Both files are rewritten by a program that formats and escapes in its own way.
    codex.write_text(json.dumps(json.loads(codex.read_text()), ensure_ascii=True))
    kimi.write_text(kimi.read_text().replace("timeout = 5", "timeout  =  5"))
    trust_hooks(home / ".codex")
    assert main(["uninstall", "--yes"]) == 0
    assert json.loads(codex.read_text()) == json.loads(SETTINGS["codex"][1])
    assert tomllib.loads(kimi.read_text()) == {"model": "x"}
    assert (home / ".codex/config.toml").read_text() == ""


def test_a_home_that_was_moved_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"

    def enter(home: Path) -> None:
        monkeypatch.chdir(home / "work" / "shop")
        for variable in ("HOME", "USERPROFILE"):
            monkeypatch.setenv(variable, str(home))

    (old / "work" / "shop" / ".git").mkdir(parents=True)
    enter(old)
    for host in SETTINGS:
        write_settings(old, host)
    before, folders = take_snapshot(old), list_folders(old)
    for is_repaired in (True, False):
        assert main(["install", "--host", ",".join(OTHERS), "--yes"]) == 0
        old.rename(new)
        enter(new)
        capsys.readouterr()
        if is_repaired:
            assert main(["doctor", "--json"]) == 1
            steps = {step["name"]: step for step in json.loads(capsys.readouterr().out)["steps"]}
            assert [host for host in OTHERS if steps[host]["ok"]] == ["aider"], "its setting names the home as `~`"
            fixes = {steps[host]["fix"] for host in OTHERS if host != "aider"}
            assert fixes == {f"claude-smart install --host {host}" for host in OTHERS if host != "aider"}
            assert main(["install", "--host", ",".join(OTHERS), "--yes"]) == 0
            capsys.readouterr()
            main(["doctor", "--json"])
            steps = {step["name"]: step for step in json.loads(capsys.readouterr().out)["steps"]}
            assert {host: steps[host]["detail"] for host in OTHERS if not steps[host]["ok"]} == {}
            assert not any(str(old).encode() in content for content in take_snapshot(new).values())
        assert main(["uninstall", "--yes"]) == 0
        # The register of alma is not a part of the installation.
        shutil.rmtree(new / ".config/alma", ignore_errors=True)
        assert take_snapshot(new) == before
        assert list_folders(new) == folders
        new.rename(old)
        enter(old)


def test_entries_of_an_installation_without_a_receipt_are_replaced(home: Path) -> None:
    path = write_settings(home, "codex", "{}\n")
    assert main(["install", "--host", "codex", "--yes"]) == 0
    text = path.read_text()
    path.write_text(text.replace(str(home), "/gone"))
    (home / ".claude-smart/marketplace/receipt.json").unlink()
    assert main(["install", "--host", "codex", "--yes"]) == 0
    assert json.loads(path.read_text()) == json.loads(text)


# -- settings of the person


@pytest.mark.parametrize(
    ("host", "text", "problem"),
    [
        ("kimi", "hooks = []\n", "`hooks` has another form in the file; write its entries as tables"),
        ("kimi", 'hooks = [{event = "Stop", command = "true"}]\n', "`hooks` has another form in the file"),
        ("kimi", "a = [\n", "the file is not valid TOML"),
        ("kimi", "[hooks]\nx = 1\n", "`hooks` has another form"),
        ("codex", '{"hooks": []}\n', "`hooks` must be a JSON object"),
        ("codex", '{"hooks": {"Stop": {}}}\n', "`Stop` must be a JSON array"),
        ("codex", "{\n", "the file is not valid JSON"),
        ("codex", "[]\n", "the file must contain a JSON object"),
        ("aider", "a: [\n", "the file is not valid YAML"),
        ("aider", "- a\n", "the file must contain a mapping"),
        ("kimi", f"a = {'[' * 1500}\n", "the file is not valid TOML"),
        ("aider", f"a: {'[' * 1500}\n", "the file is not valid YAML"),
    ],
    ids=range(12),
)
def test_settings_that_cannot_be_changed_are_named_and_left_alone(
    host: str, text: str, problem: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_settings(home, host, text)
    before = take_snapshot(home)
    assert main(["install", "--host", host, "--yes"]) == 1
    assert f"{path}: {problem}" in capsys.readouterr().err
    assert take_snapshot(home) == before
    assert not (home / ".claude-smart").exists()


def test_a_rules_file_of_aider_that_is_not_text_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "work/shop" / RULES
    path.write_bytes(b"\xff")
    assert main(["install", "--host", "aider", "--yes"]) == 1
    assert f"{path} is not valid UTF-8" in capsys.readouterr().err


def test_settings_with_little_in_them_come_back_byte_for_byte(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected: list[object] = []
    for text in ("{}\n", "", "\n", '{"hooks": {}}', '{"version": 1}', '\ufeff{"a": 1,} // mine\n'):
        paths = [write_settings(home, host, text) for host in ("codex", "cursor")]
        assert main(["install", "--host", "codex,cursor", "--yes"]) == 0
        assert main(["update", "--yes"]) == 0
        hooks = [jsonc.load(path.read_text().removeprefix("\ufeff"), "")["hooks"] for path in paths]
        expected = expected or hooks
        assert hooks == expected, text
        if text.startswith("\ufeff"):
            capsys.readouterr()
            main(["doctor", "--json"])
            steps = {step["name"]: step for step in json.loads(capsys.readouterr().out)["steps"]}
            assert (steps["codex"]["ok"], steps["cursor"]["ok"]) == (True, True)
        assert main(["uninstall", "--yes"]) == 0
        assert [path.read_text() for path in paths] == [text, text]


def test_a_read_only_file_is_left_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_settings(home, "codex")
    path.chmod(0o444)
    assert main(["install", "--host", "codex", "--yes"]) == 1
    assert f"{path} is read-only; make it writable" in capsys.readouterr().err
    assert path.read_text() == SETTINGS["codex"][1]
    path.chmod(0o644)
    assert main(["install", "--host", "codex", "--yes"]) == 0
    path.chmod(0o444)
    assert main(["uninstall", "--yes"]) == 1
    assert f"{path} is read-only; make it writable" in capsys.readouterr().err


def test_hooks_and_comments_of_a_person_beside_ours_stay(home: Path) -> None:
    codex, kimi = write_settings(home, "codex", "{}\n"), write_settings(home, "kimi", "")
    assert main(["install", "--host", "codex,kimi", "--yes"]) == 0
    hooks = json.loads(codex.read_text())
    mine = {"type": "command", "command": "true"}
    hooks["hooks"]["Stop"][0]["hooks"].insert(0, mine)
    codex.write_text(json.dumps(hooks, indent=2).replace('"Stop": [', '"Stop": [ // about Stop'))
    kimi.write_text(f"{kimi.read_text()}# about models\n[models]\nx = 1\n".replace("[[hooks]]", "# mine\n[[hooks]]", 1))
    assert main(["update", "--yes"]) == 0
    text = codex.read_text()
    assert "// about Stop" in text
    assert jsonc.load(text, "")["hooks"]["Stop"][0]["hooks"] == [mine]
    assert main(["uninstall", "--yes"]) == 0
    text = codex.read_text()
    assert "// about Stop" in text
    assert jsonc.load(text, "") == {"hooks": {"Stop": [{"hooks": [mine]}]}}
    assert kimi.read_text() == "# mine\n# about models\n[models]\nx = 1\n"


def test_links_to_settings_stay_links(home: Path) -> None:
    dotfiles = home / "dotfiles"
    dotfiles.mkdir()
    (home / ".config/goose").mkdir(parents=True)
    (home / ".codex").mkdir()
    plugin = f"plugins:\n  {home}/.agents/plugins/claude-smart:\n    enabled: true\n"
    contents = {
        "work/shop/.aider.conf.yml": "model: x\n",
        ".codex/hooks.json": "{}\n",
        ".codex/config.toml": 'model = "x"\n',
        ".config/goose/config.yaml": "extensions: {}\n",
    }
    for name, text in contents.items():
        target = dotfiles / name.replace("/", "-")
        target.write_text(text)
        (home / name).symlink_to(target)
    assert main(["install", "--host", "aider,codex,goose", "--yes"]) == 0
    trust_hooks(home / ".codex")
    (home / ".config/goose/config.yaml").write_text("extensions: {}\n" + plugin)
    assert main(["uninstall", "--yes"]) == 0
    for name, text in contents.items():
        assert (home / name).is_symlink(), name
        assert (home / name).read_text() == text


def test_the_recorded_places_count_and_not_the_environment_of_today(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / "codex-home"
    folder.mkdir()
    before = take_snapshot(home)
    monkeypatch.setenv("CODEX_HOME", str(folder))
    assert main(["install", "--host", "codex", "--yes"]) == 0
    trust_hooks(folder)
    monkeypatch.delenv("CODEX_HOME")
    (folder / "hooks.json").write_text("{}\n")
    assert main(["update", "--yes"]) == 0
    assert "SessionStart" in (folder / "hooks.json").read_text()
    assert not (home / ".codex").exists()
    assert main(["uninstall", "--yes"]) == 0
    assert take_snapshot(home) == before | {"codex-home/config.toml": b""}


# -- trust in Codex


def test_only_records_of_our_own_hooks_as_they_are_count_as_trust(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "_run_chain", lambda scratch: iter(["not run"] * 4))
    monkeypatch.setattr(install, "check_host", lambda *arguments: "not run")
    path = write_settings(home, "codex")
    (home / "hooks.json").write_text(path.read_text())
    path.unlink()
    path.symlink_to(home / "hooks.json")
    assert main(["install", "--host", "codex", "--yes"]) == 0
    trust_hooks(path.parent)
    config = path.parent / "config.toml"
    trusted = config.read_text()
    problems: dict[str, str] = {}
    texts = {
        "as recorded": trusted,
        "another digest": trusted.replace("sha256:", "sha256:0"),
        "another place": trusted.replace("hooks.json:stop:1:0", "hooks.json:stop:0:0"),
        "other hooks": trusted.replace(":0:0", ":5:0").replace(":1:0", ":5:0"),
        "disabled": f"{trusted}enabled = false\n",
        "empty": "",
    }
    for name, text in texts.items():
        config.write_text(text)
        capsys.readouterr()
        main(["doctor", "--json"])
        steps = {step["name"]: step for step in json.loads(capsys.readouterr().out)["steps"]}
        assert steps["codex"]["ok"]
        problems[name] = steps.get("codex trust", {"detail": ""})["detail"]
    changed, unknown = (
        "Codex skips hooks that changed since you trusted them",
        "Codex skips hooks that you did not trust",
    )
    assert problems == {
        "as recorded": "",
        "another digest": changed,
        "another place": changed,
        "other hooks": unknown,
        "disabled": changed,
        "empty": unknown,
    }


# -- aider in several repositories


def make_repositories(home: Path) -> list[Path]:
    folders = [home / "work" / name for name in ("shop", "site")]
    (folders[1] / ".git").mkdir(parents=True)
    return folders


def test_an_update_writes_only_in_the_repositories_of_the_receipt(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "_run_chain", lambda scratch: iter(["not run"] * 4))
    shop, site = make_repositories(home)
    assert main(["install", "--host", "aider", "--yes"]) == 0
    monkeypatch.chdir(site)
    (shop / RULES).unlink()
    assert main(["update", "--yes"]) == 0
    assert (shop / RULES).exists()
    assert not (site / RULES).exists()
    assert main(["install", "--host", "aider,codex", "--yes"]) == 0
    for name in (".aider.conf.yml", RULES):
        (shop / name).unlink()
    (shop / ".git" / "HEAD").unlink()
    (shop / ".git").rmdir()
    shop.rmdir()
    capsys.readouterr()
    assert main(["doctor", "--json"]) == 1
    (step,) = (step for step in json.loads(capsys.readouterr().out)["steps"] if step["name"] == "aider")
    assert step["detail"] == f"missing: {shop / '.aider.conf.yml'}"
    assert step["fix"] == "claude-smart update"
    assert main(["update", "--yes"]) == 0
    # No rules are left.
    (site / RULES).write_text("")
    assert main(["update", "--yes"]) == 0
    assert (site / RULES).read_text() == ""
    capsys.readouterr()
    main(["doctor", "--json"])
    (step,) = (step for step in json.loads(capsys.readouterr().out)["steps"] if step["name"] == "aider")
    assert step["ok"], step
    assert not shop.exists()


def test_aider_is_removed_from_this_repository_or_outside_of_any_from_all(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop, site = make_repositories(home)
    (home / "work/other/.git").mkdir(parents=True)
    for folder in (shop, site):
        monkeypatch.chdir(folder)
        assert main(["install", "--host", "aider", "--yes"]) == 0
    monkeypatch.chdir(home / "work/other")
    assert main(["uninstall", "--host", "aider", "--yes"]) == 1
    assert f"not installed in {home / 'work/other'}, but in {shop}, {site}" in capsys.readouterr().err
    monkeypatch.chdir(site)
    assert main(["uninstall", "--host", "aider", "--yes"]) == 0
    assert (shop / RULES).exists()
    assert not (site / RULES).exists()
    assert main(["install", "--host", "aider", "--yes"]) == 0
    monkeypatch.chdir(home)
    assert main(["uninstall", "--host", "aider", "--yes"]) == 0
    assert not [*home.rglob(".aider*")]


@pytest.mark.parametrize("kind", ["worktree", "submodule"])
def test_aider_is_installed_at_the_top_of_the_working_tree(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        own = ["-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "protocol.file.allow=always"]
        subprocess.run(["git", *own, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", "main")
    git("-C", "main", "commit", "-q", "--allow-empty", "-m", "x")
    top = tmp_path / "tree"
    if kind == "worktree":
        git("-C", "main", "worktree", "add", "-q", str(top))
    else:
        git("init", "-q", "outer")
        git("-C", "outer", "submodule", "add", "-q", str(tmp_path / "main"), "inner")
        top = tmp_path / "outer" / "inner"
    (top / "src").mkdir()
    monkeypatch.chdir(top / "src")
    assert main(["install", "--host", "aider", "--yes"]) == 0
    assert sorted(path.parent for path in tmp_path.rglob(".aider*")) == [top, top]
    (top / ".aider.chat.history.md").write_text(
        "# aider chat started at 2026-11-15 21:29:36\n\n#### No, never use npm here. Always use pnpm.  \n\nOk.\n"
    )
    (top / ".aider.input.history").write_text("+No, never use npm here. Always use pnpm.\n")
    assert main(["learn"]) == 0
    assert "pnpm" in (top / RULES).read_text()


# -- doctor, and messages


def test_doctor_reports_a_script_that_is_not_ours_and_leaves_no_trace(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOSE_MOIM_MESSAGE_FILE", str(home / "mine.md"))
    (home / ".config/goose").mkdir(parents=True)
    (home / ".config/goose/config.yaml").write_text("extensions:\n  tom:\n    enabled: false\n")
    assert main(["install", "--host", "opencode,cline,amp,goose", "--yes"]) == 0
    scripts = [
        home / ".config/opencode/plugins/claude-smart.js",
        home / ".cline/plugins/claude-smart/index.js",
        home / ".config/amp/plugins/claude-smart.ts",
    ]
    for script in scripts:
        script.write_text(script.read_text() + "// changed\n")
    capsys.readouterr()
    main(["doctor", "--json"])
    steps = json.loads(capsys.readouterr().out)["steps"]
    details = [step["detail"] for step in steps if step["name"] in ("opencode", "cline", "amp")]
    assert details == [f"{script} is not as this version writes it" for script in scripts]
    assert [step["detail"] for step in steps if step["name"] == "goose rules"] == [
        f"goose shows no rules: GOOSE_MOIM_MESSAGE_FILE is {home / 'mine.md'}, which is not our file, in this terminal",
        f"goose shows no rules: the extension `tom` is off in {home / '.config/goose/config.yaml'}",
    ]
    register = home / ".config/alma/trusted.json"
    assert not register.exists() or "claude-smart-" not in register.read_text()


def test_a_long_difference_says_how_much_of_it_is_left_out(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_settings(home, "codex", '{\n  "hooks": {}\n}\n')
    assert main(["install", "--host", "codex", "--dry-run"]) == 0
    assert re.search(r"^    +… \d+ more lines$", capsys.readouterr().out, re.M)


def test_names_and_all_together_are_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("install", "uninstall"):
        assert main([command, "--host", "codex", "--all", "--yes"]) == 1
        assert "--host names some agents and --all means every one; pass one of them" in capsys.readouterr().err


def test_a_hook_uses_the_interpreter_by_the_name_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stable = tmp_path / "python3"
    stable.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "_base_executable", str(stable))
    assert find_setup({"HOME": str(tmp_path)}).base_python == str(stable)
    # Python 3.11 may name one that does not exist.
    monkeypatch.setattr(sys, "_base_executable", str(tmp_path / "python"))
    assert Path(find_setup({"HOME": str(tmp_path)}).base_python).samefile(sys.executable)
