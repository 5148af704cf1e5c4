"""The commands install, update, uninstall and doctor.

A plan lists every file with its content before and after. It is shown first, and then applied as a whole or not at all.
It consists of a folder `marketplace` with the plugin in our data folder, `runtime.json`, and what makes each agent
load it: two members in Claude Code's `settings.json`, and for the other agents what `targets.py` lists.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from alma import __version__, jsonc, people
from alma.doctor import FAILED, OK, Finding, check_integrity, check_modes, check_space
from alma.errors import (
    ALMAError,
    BusyError,
    ConfigError,
    CorruptStoreError,
    ModelError,
    ModelOutputError,
    NewerStoreError,
    OverBudgetError,
    StorageError,
    ValidationError,
)
from alma.files import FileChange, apply_changes, read_content, resolve_link, write_atomic
from alma.hooks.drain import SPENT, describe_reader, drain
from alma.hooks.hosts import HOSTS
from alma.hooks.paths import (
    AGENT_READER,
    DEFAULTS,
    SENT,
    USUAL_FOLDER,
    DataDir,
    check_setting,
    check_settings,
    find_data_dir,
    find_user_home,
    list_own_files,
    open_data_dir,
    read_key,
    read_settings,
    read_text,
)
from alma.hooks.project import ID_FILE, read_copies, read_id
from alma.hooks.reader import KEY_FILE, name_command, name_reader, try_reader
from alma.hooks.team import TOKEN_FILE, describe_team, find_server
from alma.rulefiles.block import BLOCK_MARK
from alma.rulefiles.targets import find_repository, find_rule_files
from alma.text import map_texts
from alma.trust_register import forget_files, remove_folder
from alma.types.kinds import EVERYWHERE
from alma.types.record import Status
from alma.types.times import now, to_iso

from .cli import reword_error
from .dashboard import stop_dashboard
from .data import describe_foreign, describe_reading, describe_sharing, find_pending, store_token
from .earlier import describe_earlier
from .environment import (
    TOKEN_SETTING,
    choose_reader,
    describe_home,
    describe_record,
    find_adoptions,
    list_ignored,
    read_settings_file,
    record_environment,
)
from .roundtrip import check_host, describe_trust, find_goose_gaps, run_hook
from .rules import (
    Answer,
    CommandContext,
    ask_yes,
    count_noun,
    describe_pause,
    find_objection,
    read_object,
    read_paused,
    require_person,
    stop_worker,
)
from .targets import (
    CLAUDE,
    collect_files,
    describe_notes,
    find_hosts,
    parse_hosts,
    plan_host,
    plan_record_removal,
    plan_removal,
)

NAME = "smart"
"""The name of the plugin. The host reserves names that begin with `claude-`."""
MARKETPLACE = "claude-smart-local"
PLUGIN = f"{NAME}@{MARKETPLACE}"
_OURS = (PLUGIN, f"{NAME}@claude-smart")
_KNOWN = ("extraKnownMarketplaces", MARKETPLACE)
_ENABLED = ("enabledPlugins", PLUGIN)
# Left out of the copy of the code. The copy is used only if the original environment is gone, which has the models.
_LEFT_OUT = (".onnx", ".pyc", "vocabulary.txt", "characters.txt")
_DATA_FILES = (
    "memory.db* hooks.log config.json paused.json cleared.json usage.json tidied model-notice projects/*.json "
    "worker.json worker.sock worker.lock* drain.lock* reading.lock* team.json* server-token goose-context.md "
    "aider.json agents/*.json journal.key http-token* .http-tokens.json.lock http-server.json dashboard.log "
    f"dashboard.yaml notices* {KEY_FILE}"
)
_SHOWN_LINES = 40
_TRY_SECONDS = 60.0
_CONFIG = "config.json"
_MODEL_QUESTION = """\
{title} can read your corrections. It finds many that the local reader misses.
  What is sent to {command} on your own account, with secrets redacted:
{sent}
  How often: usually one call per session, at most {calls} a day. `claude-smart usage` lists the calls.
  Turn it off at any time: claude-smart config model off. Another reader: claude-smart config reader NAME
Without it, claude-smart learns only from explicit corrections.
Let {title} read your corrections? Enter means yes. [Y/n] """
_TEXTS = {
    "install": (
        "Install claude-smart in {hosts}. These changes will be made:",
        "claude-smart is already installed and up to date.",
        "Installed. {next}\nCheck the installation: claude-smart doctor\nUndo it: claude-smart uninstall",
    ),
    "update": (
        "Update claude-smart to this version. These changes will be made:",
        "claude-smart is up to date.",
        "Updated. New sessions use the new version; open sessions keep the old one.",
    ),
    "uninstall": (
        "Remove claude-smart from {hosts}. These changes will be made:",
        "claude-smart is not installed.",
        "Removed.{next}",
    ),
}
"""For each command: the heading of the plan, the message if there is nothing to do, and the message at the end."""


def install(args: Namespace, context: CommandContext) -> Answer:
    """Install, update or remove the plugin, after showing the changes and asking."""
    is_asked = not (args.yes or args.dry_run or args.json) and sys.stdin.isatty()
    if not args.dry_run:
        if args.command == "install" and args.model:
            require_person("`claude-smart install --model`")
        if args.command == "uninstall" and args.purge:
            require_person("`claude-smart uninstall --purge`")
    chosen = choose_settings(args, context, is_asked=is_asked)
    if "home" in chosen:
        context.data_dir = open_data_dir(choose_home(chosen["home"]))
    setup = find_setup(os.environ, context.data_dir)._replace(repository=find_repository(Path(context.folder)))
    hosts = choose_hosts(args, setup)
    # aider is installed in repositories. A command that names it is about the one that it is run in.
    repository = choose_repository(setup) if args.command == "uninstall" and args.host and "aider" in hosts else None
    if args.command == "update" and not setup.receipt.is_file():
        raise ConfigError(f"not installed in {setup.claude}; run: claude-smart install")
    allowed = args.model if args.command == "install" else None
    is_undecided = {**read_settings(setup.data_dir), **chosen}["model"] == DEFAULTS["model"]
    is_open = args.command == "install" and allowed is None and is_asked and is_undecided and not find_objection()
    if args.command == "install" and is_undecided and "reader" not in chosen:
        reader = choose_reader(hosts, os.environ)
        if reader != read_settings(setup.data_dir)["reader"] == DEFAULTS["reader"]:
            chosen["reader"] = reader
    # The agent in front of the person reads only when they type /learn: there is nothing to ask.
    is_open = is_open and {**read_settings(setup.data_dir), **chosen}["reader"] != AGENT_READER
    if allowed is not None or is_open:
        # Both answers to the question change the same file, so the plan lists it before the question.
        chosen["model"] = "off" if allowed is False else "on"

    def make_plan() -> InstallPlan:
        if args.command == "uninstall":
            return plan_uninstall(setup, args.purge, hosts, repository)
        settings = {**chosen, **collect_record(args, setup, chosen)}
        return plan_install(setup, settings, hosts, is_update=args.command == "update")

    plan = make_plan()
    title, nothing_to_do, success = _TEXTS[args.command]
    if not plan:
        context.print_lines(nothing_to_do)
        return InstallPlan().to_dict(done=True)
    blocks = _find_blocks(setup.data_dir) if args.command == "uninstall" else []
    names = ", ".join(HOSTS[name] for name in hosts)
    context.print_lines(
        title.format(hosts=names), *(f"  {line}" for line in plan.describe(Path(context.data_dir.home)))
    )
    if args.command != "uninstall":
        reader = {**read_settings(setup.data_dir), **chosen}["reader"]
        record = describe_record(collect_record(args, setup, chosen), reader)
        context.print_lines(*(f"  record {line}" for line in record))
    if blocks:
        context.print_lines(
            "These files keep their block of rules. To remove one, run the command in its folder:",
            *(f"  {path}: claude-smart export {shlex.quote(path.name)} --remove" for path in blocks),
        )
    if is_open:
        recorded_hosts = dict.fromkeys((*list_installed(setup), *hosts))
        settings = {**read_settings(setup.data_dir), **chosen}
        chosen["model"] = "on" if _ask_about_model(settings, recorded_hosts) else "off"
    if not (args.yes or is_asked) or args.dry_run or (is_asked and not ask_yes("\nGo ahead? [y/N] ")):
        if not is_asked and not args.dry_run:
            context.print_lines("\nNothing was changed, because there is no terminal to ask. Pass --yes to confirm.")
        elif is_asked and not args.dry_run:
            context.print_lines(f"Nothing was changed. To go ahead, run it again and answer y: {_name_call(args)}")
        context.exit_code = int(not args.dry_run)
        return plan.to_dict(done=False)
    # A running worker would write to files that are about to be removed; one started meanwhile has the old code.
    stop_worker(context.data_dir)
    if args.command == "uninstall" and args.purge:
        stop_dashboard(context.data_dir)
    make_plan().apply()
    stop_worker(context.data_dir)
    if args.command == "uninstall" and args.purge:
        forget_files(context.data_dir.home)
    if TOKEN_SETTING in chosen:
        store_token(context.data_dir, read_text(str(chosen[TOKEN_SETTING])))
    context.print_lines("\n" + success.format(next=describe_next_step(args, setup.data_dir, hosts)))
    if args.command == "install":
        context.print_lines(*describe_notes(hosts, setup.data_dir.home))
        ignored = list_ignored(setup.data_dir, os.environ)
        context.print_lines(*(f"Ignored: {name}. Adopt it: {command}" for name, command in ignored.items()))
        others = [name for name in find_hosts(setup.home) if name not in list_installed(setup)]
        if others:
            context.print_lines(f"Also on this machine: claude-smart install --host {','.join(others)}")
    return plan.to_dict(done=True)


def describe_next_step(args: Namespace, data_dir: DataDir, hosts: Sequence[str]) -> str:
    """Return what a person has to know or do after a command: what stays, or when recording begins."""
    if args.command == "uninstall" and args.purge:
        is_left = os.path.isdir(data_dir.home)
        return f" Other files in {data_dir.home} stay." if is_left else " Nothing learned or recorded is left."
    if args.command == "uninstall":
        hint = f" Learned rules stay in {data_dir.home}; erase them with: claude-smart uninstall --purge"
        return hint if os.path.exists(data_dir.db) else ""
    if CLAUDE not in hosts:
        return "New sessions are recorded from now on."
    settings = read_settings(data_dir)
    is_recorded = settings["reader"] == CLAUDE and settings["program"] != DEFAULTS["program"]
    if is_recorded or shutil.which("claude"):
        return "Restart Claude Code; new sessions are recorded from then on."
    return "Claude Code was not found on the PATH; it will load the plugin when it starts."


def choose_settings(args: Namespace, context: CommandContext, *, is_asked: bool) -> dict[str, Any]:
    """Return the settings that a person chose for an installation: in a file, or by variables that they adopt."""
    if args.command != "install":
        return {}
    if args.settings:
        if not args.yes:
            raise ValidationError("--settings needs --yes: it is for installations without a terminal")
        return read_settings_file(args.settings)
    # The question about the model is asked in any case.
    adoptions = [one for one in find_adoptions(context.data_dir, os.environ) if one.setting != "model"]
    if not is_asked or not adoptions:
        return {}
    require_person("adopting variables into your settings")
    lines = [f"  {one.variable}: {one.setting} becomes {one.value}" for one in adoptions]
    context.print_lines("These variables are set here. Hooks ignore them, because a repository may set them too:")
    context.print_lines(*lines)
    if not ask_yes("Adopt them into your settings? [y/N] "):
        return {}
    values = {one.setting: one.value for one in reversed(adoptions)}
    for name, value in values.items():
        if problem := check_setting(name, value):
            raise ConfigError(problem)
    return values


def choose_home(value: str) -> str:
    """Return the data folder for a value of the setting `home`."""
    return str(find_usual_home()) if value == DEFAULTS["home"] else value


def find_usual_home() -> Path:
    """Return the data folder in the home folder, whose settings may name another one."""
    return Path(os.environ.get("USERPROFILE" if os.name == "nt" else "HOME") or find_user_home(), USUAL_FOLDER)


def _name_call(args: Namespace) -> str:
    hosts = f" --host {args.host}" if getattr(args, "host", None) else ""
    return f"claude-smart {args.command}{hosts}{' --purge' if getattr(args, 'purge', False) else ''}"


def collect_record(args: Namespace, setup: Setup, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is recorded of this terminal. An update keeps what is recorded already."""
    current = read_settings(setup.data_dir)
    if args.command == "update" and current["environment"]:
        return {}
    settings = {**current, **chosen}
    record = record_environment(os.environ, is_read=settings["model"] == "on", reader=settings["reader"])
    if record and "environment" in chosen:
        record["environment"] |= chosen["environment"]
    return {**record, **{name: value for name, value in chosen.items() if name in record and name != "environment"}}


def choose_hosts(args: Namespace, setup: Setup) -> list[str]:
    """Return the coding agents that a command is about: those named, all, or by default Claude Code.

    Without names, `update` and `uninstall` are about all that are installed.
    """
    installed = list_installed(setup)
    if args.command != "update" and args.all and args.host is not None:
        raise ValidationError("--host names some agents and --all means every one; pass one of them")
    if args.command == "uninstall" and args.purge and args.host is not None:
        raise ValidationError("--purge erases everything learned; pass it without --host")
    if args.command == "update" or (args.command == "uninstall" and (args.all or args.host is None)):
        return installed or [CLAUDE]
    if args.host is not None:
        hosts = parse_hosts(args.host)
        missing = [name for name in hosts if args.command == "uninstall" and name not in installed]
        if missing:
            raise ConfigError(f"not installed: {', '.join(missing)}. Installed: {', '.join(installed) or 'none'}")
        return hosts
    if not args.all:
        return [CLAUDE]
    # aider is installed in one repository at a time, by name.
    hosts = [name for name in find_hosts(setup.home) if name != "aider"]
    if not hosts:
        raise ConfigError(f"no coding agent was found on this machine. Name one: --host {'|'.join(HOSTS)}")
    return hosts


def choose_repository(setup: Setup) -> Path | None:
    """Return the repository to remove aider from: the one of this folder, or None for all if it is in none."""
    files = read_receipt(setup).get("hosts", {}).get("aider", {}).get("files", {})
    repositories = sorted({str(Path(name).parent) for name in files})
    if str(setup.repository) in repositories:
        return setup.repository
    if (setup.repository / ".git").exists():
        raise ConfigError(f"aider: not installed in {setup.repository}, but in {', '.join(repositories)}")
    return None


def list_installed(setup: Setup) -> list[str]:
    """Return the coding agents that claude-smart is installed in."""
    receipt = read_receipt(setup)
    return [name for name in HOSTS if name in receipt.get("hosts", {}) or (name == CLAUDE and "settings" in receipt)]


def read_receipt(setup: Setup) -> dict[str, Any]:
    """Return what the installation added to the settings. The paths are changed if the home folder was moved."""
    receipt = read_object(setup.receipt)[1]
    old, new = receipt.get("home", ""), str(setup.home)

    def move_path(text: str) -> str:
        return new + text[len(old) :] if text.startswith(old + os.sep) else text

    return receipt if not old or os.path.isdir(old) else map_texts(receipt, move_path)


def _ask_about_model(settings: Mapping[str, Any], hosts: Iterable[str]) -> bool:
    """Ask whether a model may read corrections in these agents; the default is yes."""
    lines = [f"  - {one}" for one in SENT] + [f"  {line}." for line in describe_foreign(settings, hosts)]
    question = _MODEL_QUESTION.format(
        title=name_reader(settings),
        command=name_command(settings),
        sent="\n".join(lines),
        calls=count_noun(settings["daily_calls"], "call"),
    )
    return input(f"\n{question}").strip().lower() in ("", "y", "yes")


# -- the plan


class InstallPlan(NamedTuple):
    """The file changes of an installation or removal."""

    changes: tuple[FileChange, ...] = ()
    folders: tuple[Path, ...] = ()
    """Folders to remove afterwards, in this order, if they are empty."""

    def __bool__(self) -> bool:
        return bool(self.changes) or any(folder.is_dir() and not any(folder.iterdir()) for folder in self.folders)

    def apply(self) -> None:
        """Make all changes, or none if one fails."""
        apply_changes(self.changes, self.folders)

    def describe(self, own: Path) -> Iterator[str]:
        """Yield the plan as lines for people. Files in our own folder are counted; others are shown with a diff."""
        ours = [change for change in self.changes if change.path.is_relative_to(own)]
        for verb in ("create", "change", "remove"):
            folders = [str(change.path.parent) for change in ours if change.verb == verb]
            if folders:
                yield f"{verb} {count_noun(len(folders), 'file')} in {os.path.commonpath(folders)}"
        for change in self.changes:
            if change not in ours:
                yield f"{change.verb} {change.path}"
                lines = _list_differences(change)
                yield from (f"    {line}" for line in lines[:_SHOWN_LINES])
                if len(lines) > _SHOWN_LINES:
                    yield f"    … {count_noun(len(lines) - _SHOWN_LINES, 'more line')}"

    def to_dict(self, *, done: bool) -> Answer:
        """Return the plan as JSON values."""
        changes = [
            {"change": change.verb, "path": str(change.path), "difference": _list_differences(change)}
            for change in self.changes
        ]
        return {"done": done, "changes": changes, "folders": [str(folder) for folder in self.folders]}


def _list_differences(change: FileChange) -> list[str]:
    """Return a diff of a changed file; empty for a file that is created or removed, and for our settings."""
    if change.path.name == _CONFIG:
        # It may contain a recorded key.
        return []
    return change.diff().splitlines()[2:] if change.verb == "change" else []


class Setup(NamedTuple):
    """The paths and interpreters of an installation."""

    data_dir: DataDir
    claude: Path
    """Claude Code's own folder."""
    python: str
    """The interpreter with all packages. It runs the commands and the worker."""
    base_python: str
    """The base interpreter of the environment. The hooks need no packages, so they work without the environment."""
    packages: Path
    plugin: Path
    home: Path
    repository: Path = Path()
    """The working copy that a per-repository installation is for."""

    @property
    def runtime(self) -> dict[str, str]:
        """Return what the hook and the worker read: the data folder, the interpreter and the folder of the code."""
        return {"home": self.data_dir.home, "python": self.python, "path": str(self.packages)}

    @property
    def hook(self) -> Path:
        """Return the hook that every agent starts."""
        return self.marketplace / "plugin" / "hook.py"

    @property
    def marketplace(self) -> Path:
        """Return the folder that holds the installed plugin."""
        return Path(self.data_dir.home) / "marketplace"

    @property
    def receipt(self) -> Path:
        """Return the file that records what the installation added to the settings."""
        return self.marketplace / "receipt.json"

    @property
    def settings(self) -> Path:
        """Return Claude Code's settings file, with links resolved."""
        return resolve_link(self.claude / "settings.json")


def find_setup(environ: Mapping[str, str], data_dir: DataDir | None = None) -> Setup:
    """Return the paths and interpreters for an installation in this environment, by default in its data folder."""
    packages = Path(__file__).resolve().parent.parent
    # In a wheel the plugin is inside the package, in a clone beside `src`.
    folders = [packages / "claude_smart" / "plugin", packages.parent / "plugin"]
    plugin = next((one for one in folders if (one / "hooks" / "hooks.json").is_file()), None)
    if plugin is None:
        raise ConfigError(f"the plugin's files are missing: neither {folders[0]} nor {folders[1]} exists; reinstall")
    python = os.path.abspath(sys.executable)
    # Links are not resolved: a package manager keeps `python3.12` and replaces `Cellar/python@3.12/3.12.1/…`.
    plain = os.path.abspath(getattr(sys, "_base_executable", "") or python)
    plain = plain if os.path.isfile(plain) else os.path.realpath(python)
    home = environ.get("USERPROFILE" if os.name == "nt" else "HOME") or os.path.expanduser("~")
    claude = os.path.expanduser(environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude"))
    data_dir = data_dir or find_data_dir(environ)
    return Setup(data_dir, Path(os.path.abspath(claude)), python, plain, packages, plugin, Path(home))


def plan_install(
    setup: Setup, settings: Mapping[str, Any] = {}, hosts: Sequence[str] = (CLAUDE,), *, is_update: bool = False
) -> InstallPlan:
    """Return the plan to install or update the plugin. `settings` are changed, the others stay.

    An update writes the files where they are now, whatever the folder and the environment.
    """
    receipt = {"installed_at": to_iso(now()), **read_receipt(setup), "home": str(setup.home)}
    files: dict[Path, bytes] = {}
    if CLAUDE in hosts:
        text, host_settings = read_object(setup.settings)
        for name in list_enabled(host_settings):
            if name != PLUGIN:
                raise ConfigError(
                    f"the plugin is already enabled in Claude Code as {name}, and two copies would record everything "
                    f"twice. Remove that one first: claude plugin uninstall {name}"
                )
        # Record which members did not exist, so that uninstall removes them. An earlier receipt takes precedence.
        keys = [path[0] for path in (_KNOWN, _ENABLED) if path[0] not in host_settings]
        receipt = {"settings": str(setup.claude / "settings.json"), "created": text is None, "keys": keys, **receipt}
        source = {"source": {"source": "directory", "path": str(setup.marketplace)}}
        settings_text = jsonc.put(text if text is not None else "{}\n", _KNOWN, source)
        files[setup.settings] = jsonc.put(settings_text, _ENABLED, True).encode()
    changes: list[FileChange] = []
    for name in hosts:
        if name != CLAUDE:
            entries = receipt.setdefault("hosts", {})
            entry = entries.pop(name, {})
            places = [place for place in entry.get("files", {}) if is_update and Path(place).parent.is_dir()]
            folders = sorted({Path(place).parent for place in places}) if is_update else [setup.repository]
            parts = collect_files(name, setup.home, folders, setup.base_python, str(setup.hook), places)
            host_changes, entry = plan_host(parts, entry)
            changes += host_changes
            entries |= {name: entry} if entry["files"] else {}
    files |= _collect_files(setup, receipt)
    files[Path(setup.data_dir.runtime)] = _to_json(setup.runtime)
    files |= _collect_settings(setup, settings)
    changes += [FileChange(path, read_content(path), content) for path, content in files.items()]
    old = (path for path in _list_files(setup.marketplace) if path not in files and path.suffix != ".pyc")
    return InstallPlan((*filter(None, changes), *_remove_files(old)))


def _collect_settings(setup: Setup, settings: Mapping[str, Any]) -> dict[Path, bytes]:
    """Return the files of settings that change: those in the data folder, and the one that names it."""
    files: dict[Path, bytes] = {}
    for name, value in settings.items():
        path = Path(setup.home, USUAL_FOLDER, _CONFIG) if name == "home" else Path(setup.data_dir.config)
        content = files.get(path, read_content(path)) or b"{}\n"
        if name in DEFAULTS and jsonc.load(content.decode(), str(path), remarks=False).get(name) != value:
            files[path] = jsonc.put(content.decode(), (name,), value).encode()
    return files


def list_enabled(settings: Mapping[str, Any]) -> list[str]:
    """Return the enabled plugins that are ours, from any marketplace, or have our name."""
    plugins = settings.get("enabledPlugins")
    names = [name for name, is_on in plugins.items() if is_on] if isinstance(plugins, dict) else []
    return [name for name in names if name in _OURS or name.startswith("claude-smart@")]


def is_enabled(folder: str, data_dir: DataDir) -> bool:
    """Return whether Claude Code loads the plugin in this folder, by the settings of the person and of the project.

    Settings that cannot be read count as enabled; `doctor` reports them.
    """
    own = [Path(folder, ".claude", name) for name in ("settings.json", "settings.local.json")]
    try:
        return any(list_enabled(read_object(path)[1]) for path in (find_setup(os.environ, data_dir).settings, *own))
    except ConfigError:
        return True


def _collect_files(setup: Setup, receipt: Mapping[str, Any]) -> dict[Path, bytes]:
    """Return the files of our marketplace: the plugin, a copy of the code, and the catalogue."""
    sources = {path: path.relative_to(setup.plugin) for path in _list_files(setup.plugin)}
    for package in (setup.packages / "alma", setup.packages / "claude_smart"):
        code = (path for path in _list_files(package) if not path.is_relative_to(package / "plugin"))
        sources |= {path: "lib" / path.relative_to(setup.packages) for path in code}
    files = {
        f"plugin/{name.as_posix()}": path.read_bytes()
        for path, name in sources.items()
        if not path.name.endswith(_LEFT_OUT)
    }
    # The hooks use the interpreters of this installation instead of `python3` from the PATH.
    hooks = json.loads(files["plugin/hooks/hooks.json"])
    for hook in list_hooks(hooks):
        python = setup.base_python if " -S " in hook["command"] else setup.python
        hook["command"] = f'"{python}"' + hook["command"].removeprefix("python3")
    files["plugin/hooks/hooks.json"] = _to_json(hooks)
    learn = files["plugin/commands/learn.md"]
    files["plugin/commands/learn.md"] = learn.replace(b"Bash(python3 -I", f'Bash("{setup.python}" -I'.encode())
    # Claude Code may copy the plugin elsewhere, so the hook finds the data folder by this file.
    files["plugin/runtime.json"] = _to_json(setup.runtime)
    digest = hashlib.sha256(b"\0".join(name.encode() + b"\0" + files[name] for name in sorted(files))).hexdigest()[:8]
    # Claude Code refreshes its copy of a plugin only if the version differs.
    manifest = {**json.loads(files["plugin/.claude-plugin/plugin.json"]), "version": f"{__version__}+{digest}"}
    entry = {"name": NAME, "source": "./plugin", "version": manifest["version"], "description": manifest["description"]}
    catalogue = {"name": MARKETPLACE, "owner": manifest["author"], "plugins": [entry]}
    files |= {
        "plugin/.claude-plugin/plugin.json": _to_json(manifest),
        ".claude-plugin/marketplace.json": _to_json(catalogue),
        "receipt.json": _to_json(receipt),
    }
    return {setup.marketplace / name: content for name, content in files.items()}


def list_hooks(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all hooks of a `hooks.json`."""
    return [hook for entries in config["hooks"].values() for entry in entries for hook in entry["hooks"]]


def plan_uninstall(
    setup: Setup, purge: bool = False, hosts: Sequence[str] = (CLAUDE,), repository: Path | None = None
) -> InstallPlan:
    """Return the plan to remove the plugin from these hosts. Learned rules stay unless `purge` is set.

    aider is removed from one repository, or from all. The plugin's own files are removed with the last host.
    """
    data_dir, plugins = setup.data_dir, setup.claude / "plugins"
    receipt = read_receipt(setup)
    entries, folders = dict(receipt.get("hosts", {})), []
    changes: list[FileChange] = []
    for name in hosts:
        entry = entries.pop(name, {})
        host_changes, empty, rest = plan_removal(entry, repository if name == "aider" else None)
        changes += host_changes + plan_record_removal(name, setup.home, entry)
        entries |= {name: rest} if rest else {}
        folders += empty
    if CLAUDE in hosts:
        settings = resolve_link(Path(receipt.get("settings") or setup.settings))
        changes += [
            *_drop_members(
                settings, _ENABLED, _KNOWN, keys=receipt.get("keys", ()), is_ours=bool(receipt.get("created"))
            ),
            # Claude Code's own records of the plugin, so that it stops looking for it.
            *_drop_members(plugins / "known_marketplaces.json", (MARKETPLACE,)),
            *_drop_members(plugins / "installed_plugins.json", ("plugins", PLUGIN)),
        ]
        receipt = {key: value for key, value in receipt.items() if key not in ("settings", "created", "keys")}
    if entries or "settings" in receipt:
        content = _to_json({**receipt, "hosts": entries})
        changes.append(FileChange(setup.receipt, read_content(setup.receipt), content))
        return InstallPlan(tuple(changes), tuple(folders))
    home, sessions = Path(data_dir.home), Path(data_dir.sessions)
    ours = [setup.marketplace, plugins / "cache" / MARKETPLACE, plugins / "data" / f"{NAME}-{MARKETPLACE}"]
    paths = [path for folder in ours for path in _list_files(folder)] + [Path(data_dir.runtime)]
    if purge:
        # Only our own files, by name. Everything else in the folder stays.
        paths += [path for name in _DATA_FILES.split() for path in home.glob(name)]
        paths += map(Path, list_own_files(data_dir))
        # The ids of working copies, in their git directories.
        copies = (copy for copy in read_copies(data_dir) if copy.id and read_id(copy.path) == copy.id)
        paths += [Path(copy.path, ID_FILE) for copy in copies if os.access(copy.path, os.W_OK)]
    else:
        # The permission for the model is removed with the plugin: a new installation asks again.
        paths.append(Path(data_dir.model_notice))
        members = (("model",), ("program",), ("environment",))
        changes += _drop_members(Path(data_dir.config), *members, is_ours=True)
    changes += _remove_files(path for path in paths if path.is_file() or path.is_socket())
    folders += [Path(base) for one in ours for base, _, _ in os.walk(one, topdown=False)]
    if purge or not sessions.exists():
        folders += [home / "projects", home / "agents", sessions, home]
    return InstallPlan(tuple(changes), tuple(folders))


def _find_blocks(data_dir: DataDir) -> list[Path]:
    """Return the rule files of known working copies that contain a block of exported rules."""
    paths = {Path(copy.path) for copy in read_copies(data_dir)}
    folders = sorted({path.parent if path.name == ".git" else path for path in paths})
    return [path for folder in folders for path in find_rule_files(folder) if BLOCK_MARK in read_text(str(path))]


def _drop_members(
    path: Path, *members: Sequence[str], keys: Iterable[str] = (), is_ours: bool = False
) -> Iterator[FileChange]:
    """Yield the change that removes these members from a JSON file, then `keys` that are empty, then an empty file."""
    text, _ = read_object(path)
    if text is None:
        return
    after = text
    for member in members:
        after = jsonc.drop(after, member)
    for key in keys:
        after = jsonc.drop(after, (key,)) if json.loads(after).get(key) == {} else after
    if after != text:
        yield FileChange(path, text.encode(), None if is_ours and json.loads(after) == {} else after.encode())


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _remove_files(paths: Iterable[Path]) -> Iterator[FileChange]:
    return (FileChange(path, read_content(path), None) for path in paths)


def _to_json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


# -- doctor: run the whole chain in a scratch data folder, and check the real one

# Run as a script, not imported: it exits the process.
_HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook.py")
_RECENT_SECONDS = 7 * 86_400.0
_RESTORE = "restore a backup of memory.db, or: claude-smart clear-all --everywhere"
_FIXES: tuple[tuple[type[Exception], str], ...] = (
    (NewerStoreError, "a newer claude-smart wrote this store; update this one"),
    (BusyError, "stop the process that uses it, or try again"),
    (CorruptStoreError, _RESTORE),
    (StorageError, "check the disk, and the owner and mode of the file"),
    (Exception, "fix or remove the file in the message"),
)
_CORRECTION = "no, use pnpm here instead of npm, because npm breaks the lock file"
_CHAIN = (
    "a hook records a turn",
    "the turn is imported",
    "a rule is learned",
    "the next session sees the rule",
)


class Step(NamedTuple):
    """One check of `doctor` and its result."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    """What to do about a problem; empty if there is none."""


def doctor(args: Namespace, context: CommandContext) -> Answer:
    """Check the installation, and print each step as soon as it is done."""
    steps = []
    for step in _run_steps(context):
        steps.append(step._asdict())
        context.print_lines(
            f"{'✓' if step.ok else '✗'} {step.name}: {step.detail}", *([f"    Fix: {step.fix}"] if step.fix else [])
        )
    failures = sum(not step["ok"] for step in steps)
    context.print_lines(f"\n{count_noun(len(steps) - failures, 'check')} passed, {failures} failed.")
    context.exit_code = int(failures > 0)
    return {"ok": not failures, "steps": steps}


def _run_steps(context: CommandContext) -> Iterator[Step]:
    yield Step("Python", True, f"{sys.version.split()[0]} ({sys.executable})")
    setup = find_setup(os.environ, context.data_dir)
    yield from _check_plugin(setup)
    with tempfile.TemporaryDirectory(prefix="claude-smart-", ignore_cleanup_errors=True) as scratch:
        # Each link needs the one before it. After the first failure, the rest are not tried.
        links = _run_chain(scratch)
        for number, name in enumerate(_CHAIN, 1):
            try:
                yield Step(name, True, next(links))
            except (ALMAError, OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
                yield Step(name, False, str(error) or type(error).__name__, "see hooks.log, and report this line")
                yield from (Step(rest, False, "not tried") for rest in _CHAIN[number:])
                break
        else:
            yield from _check_hosts(setup, scratch)
        with suppress(ALMAError):
            # The store in this folder was recorded as created on this machine.
            remove_folder(scratch)
    checks = (
        _check_home,
        _check_key,
        _check_settings,
        _check_environment,
        _check_recording,
        _check_store,
        _check_journals,
        _check_earlier,
        _check_reader,
    )
    for check in (*checks, _check_server, _check_log):
        name = check.__name__.removeprefix("_check_")
        try:
            state, *rest = check(context)
            step = Step(name, state != FAILED, *rest)
        except (ALMAError, OSError) as error:
            step = Step(name, False, reword_error(error), next(fix for kind, fix in _FIXES if isinstance(error, kind)))
        if step.detail:
            yield step


def _check_hosts(setup: Setup, scratch: str) -> Iterator[Step]:
    """Prove each other coding agent by a round trip through its installed hook."""
    for host, entry in read_receipt(setup).get("hosts", {}).items():
        fix = f"claude-smart install --host {host}" if host != "aider" else "claude-smart update"
        try:
            python, hook, folders = setup.base_python, str(setup.hook), {Path(name).parent for name in entry["files"]}
            files = collect_files(host, setup.home, sorted(folders), python, hook, entry["files"])
            yield Step(host, True, check_host(host, files, [python, "-I", "-S", hook, host], scratch))
            if host == "codex" and (problem := describe_trust(entry)):
                yield Step("codex trust", False, problem, "start `codex` and approve the hooks that it lists")
            if host == "goose":
                yield from (Step("goose rules", False, *one) for one in find_goose_gaps(setup.home, setup.data_dir))
        except (ALMAError, OSError, subprocess.SubprocessError, ValueError) as error:
            yield Step(host, False, str(error), fix)


def _check_plugin(setup: Setup) -> Iterator[Step]:
    if CLAUDE not in (list_installed(setup) or [CLAUDE]):
        return
    try:
        names = list_enabled(read_object(setup.settings)[1])
    except ConfigError as error:
        yield Step("plugin", False, str(error), "fix the file; Claude Code cannot read it either")
        return
    if not names:
        yield Step("plugin", False, f"not enabled in {setup.settings}", "claude-smart install")
        return
    fix = "" if len(names) == 1 else "uninstall all but one: claude plugin uninstall NAME"
    yield Step("plugin", not fix, f"{', '.join(names)} enabled", fix)
    if PLUGIN not in names:
        return
    content = read_content(setup.marketplace / "plugin" / "hooks" / "hooks.json")
    commands = [hook["command"] for hook in list_hooks(json.loads(content))] if content else [str(setup.marketplace)]
    programs = {command.lstrip('"').partition('"')[0] for command in commands}
    missing = sorted(one for one in programs if not os.path.isfile(one))
    if missing:
        yield Step("hooks", False, f"missing: {', '.join(missing)}", "claude-smart install")
    elif any(change.path.suffix == ".py" for change in plan_install(setup).changes):
        yield Step("hooks", True, "installed from another version of claude-smart", "claude-smart update")
    else:
        yield Step("hooks", True, f"{setup.base_python}, as installed")


# -- the chain, in a scratch data folder


def _run_chain(scratch: str) -> Iterator[str]:
    """Yield the result of each link of the chain. Raise ValueError at the first that fails."""
    data_dir = DataDir(os.path.join(scratch, "home"))
    os.makedirs(os.path.join(scratch, "repository"))
    data_dir.create_folders()
    # A person runs this, whatever starts the hooks.
    write_atomic(data_dir.config, json.dumps({"programs": "on"}))

    def send_event(event: str, session: str = "doctor-1", **fields: object) -> str:
        """Run the hook as the host does, and return its output."""
        payload = {"session_id": session, "hook_event_name": event, **fields}
        return run_hook([sys.executable, "-I", "-S", _HOOK], payload, scratch).stdout

    start = time.perf_counter()
    send_event("SessionStart", source="startup")
    seconds = time.perf_counter() - start
    for id, prompt in (("p1", "install the packages"), ("p2", _CORRECTION)):
        send_event("UserPromptSubmit", prompt=prompt, prompt_id=id)
        send_event("Stop", last_assistant_message="I ran npm install.", stop_hook_active=False, prompt_id=id)
    if not os.path.exists(data_dir.journal_file("doctor-1")):
        raise ValueError(f"the hook wrote no journal; its log: {_read_log(data_dir)[-3:]}")
    yield f"{seconds * 1000:.0f} ms for one hook"

    report = drain(data_dir, wait=1.0)
    if report.turns != 4:
        raise ValueError(f"{report.turns} of 4 turns were imported; {report.problems or _read_log(data_dir)[-3:]}")
    yield "4 of 4 turns, each once"

    rules = [one.record for one in report.taught if one.record and one.record.status is Status.ACTIVE]
    if not rules and (reason := people.find_agent()):
        # The session is then one that an agent drives, and teaches nothing, as it should.
        yield f"not tested, because {reason}"
        yield "not tested; run this in a terminal of yours"
        return
    if not rules:
        raise ValueError(f"no rule was learned from {_CORRECTION!r}")
    yield str(rules[0].body["line"])

    answer = send_event("SessionStart", "doctor-2", source="startup")
    if "pnpm" not in answer:
        raise ValueError(f"the rule was not shown to the next session; the log: {_read_log(data_dir)[-3:]}")
    context = json.loads(answer)["hookSpecificOutput"]["additionalContext"]
    yield f"{len(context)} characters at the start of a session"


# -- the real data folder


def _check_home(context: CommandContext) -> Finding:
    data_dir = context.data_dir
    if not os.path.isdir(data_dir.home):
        return OK, f"{data_dir.home} does not exist yet; the first session creates it"
    # Files with conversations must be private. The journal folder may be elsewhere and shared with other programs.
    files = [path for path in Path(data_dir.home).rglob("*") if path.is_file() and "marketplace" not in path.parts]
    problems = check_modes(FAILED, "chmod go= {}", [*map(Path, list_own_files(data_dir)), *files])
    for folder in (data_dir.home, data_dir.sessions):
        if os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK):
            problems.append((FAILED, f"{folder} cannot be written", "check its owner and mode"))
    problems += [one for one in check_space(Path(data_dir.home)) if one[0] == FAILED]
    return problems[0] if problems else (OK, f"{data_dir.home}, readable only by you")


def _check_key(context: CommandContext) -> Finding:
    """Report a key of the journals that no hook can use: what is said then waits for review."""
    path = context.data_dir.key
    if not os.path.lexists(path) or read_key(context.data_dir):
        return OK, ""
    problem = f"{path} is damaged or not a regular file, so prompts become candidates"
    return FAILED, problem, f"rm {shlex.quote(path)} (the next hook creates a new key)"


def _check_settings(context: CommandContext) -> Finding:
    read_paused(context.data_dir)
    problems = check_settings(context.data_dir)[1]
    state = FAILED if problems else OK
    return state, "; ".join(problems), f"claude-smart config NAME VALUE, or edit {context.data_dir.config}"


def _check_environment(context: CommandContext) -> Finding:
    """Report variables that would widen something, and are ignored."""
    lines = list(filter(None, [describe_home(os.environ)]))
    lines += [f"{name} is ignored; adopt it: {fix}" for name, fix in list_ignored(context.data_dir, os.environ).items()]
    return OK, "; ".join(lines)


def _check_recording(context: CommandContext) -> Finding:
    return OK, describe_pause(context)


def _check_store(context: CommandContext) -> Finding:
    with context.memory_if_any() as memory:
        [finding] = check_integrity(memory.alma.engine.store) if memory else [(OK, "")]
    return (FAILED, finding[1], _RESTORE) if finding[0] == FAILED else finding


def _check_journals(context: CommandContext) -> Finding:
    with context.memory_if_any() as memory:
        waiting = find_pending(context.data_dir, memory)
    hour_ago = time.time() - 3600
    old = [path for path in waiting if os.path.exists(path) and os.path.getmtime(path) < hour_ago]
    if old:
        fix = "claude-smart learn (imports them, or reports why it cannot)"
        return FAILED, f"{count_noun(len(old), 'journal')} not imported for more than an hour", fix
    return OK, f"{len(waiting)} waiting to be imported"


def _check_earlier(context: CommandContext) -> Finding:
    """Report what an earlier version left behind, which is no fault."""
    files = list_own_files(context.data_dir, ".jsonl")
    return OK, describe_earlier(files, os.path.expanduser("~"))


def _check_reader(context: CommandContext) -> Finding:
    """Report the reader and why it could not read waiting sessions, or try it."""
    with context.memory_if_any() as memory:
        state = describe_reader(context.data_dir, memory)
    line = "; ".join(describe_reading(state))
    if state["reader"] in ("local", AGENT_READER):
        return OK, line
    if state["error"] == SPENT:
        return OK, line, "raise the limit: claude-smart config daily_calls N"
    if state["error"]:
        return FAILED, line, "retry now: claude-smart learn"
    timeout = min(_TRY_SECONDS, read_settings(context.data_dir)["program_timeout"])
    try:
        with context.memory() as memory:
            answered = try_reader(context.data_dir, memory.engine(EVERYWHERE), timeout)
    except OverBudgetError:
        return OK, f"{line}; not tried, because {SPENT}", "raise the limit: claude-smart config daily_calls N"
    except ModelOutputError as error:
        return OK, f"{line}; it answers, but not the test question ({error})"
    except ModelError as error:
        fix = f"log in to {state['title']} or install it, choose another: claude-smart config reader NAME"
        return FAILED, f"{line}; {error}", f"{fix}, or: claude-smart config model off"
    return OK, f"{line}; a test question was answered by {answered}"


def _check_server(context: CommandContext) -> Finding:
    """Ask the team's server whether it accepts the token, and report what waits for it."""
    server = find_server(context.data_dir)
    if server is None:
        return OK, ""
    with context.memory_if_any() as memory:
        line = "; ".join(describe_sharing(describe_team(context.data_dir, memory)))
    try:
        with server.connect(context.project) as team:
            team.get_stats()
    except Exception as error:  # noqa: BLE001 - whatever a server answers
        fix = f"check the address and the token ({TOKEN_FILE}), then: claude-smart learn"
        return FAILED, f"{server.describe(error)}; {line}", fix
    return OK, line


def _check_log(context: CommandContext) -> Finding:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - _RECENT_SECONDS))
    recent = [line for line in _read_log(context.data_dir) if line >= since]
    if not recent:
        return OK, "no problems in the last seven days"
    detail = f"{count_noun(len(recent), 'problem')} in the last seven days; the last: {recent[-1]}"
    return FAILED, detail, f"see {context.data_dir.log}"


def _read_log(data_dir: DataDir) -> list[str]:
    content = read_content(Path(data_dir.log)) or b""
    return content.decode("utf-8", "replace").splitlines()
