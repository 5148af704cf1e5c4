"""install, update, uninstall: put the plug-in into Claude Code and take it out again.

A plan is made first: every file with its content before and after. It can be looked at, and it is carried out whole or
not at all. What is written: a folder `marketplace` in our home that holds the plug-in, `runtime.json`, and two members
in Claude Code's `settings.json`, which is enough for it to load the plug-in at its next start.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alma import __version__, jsonc
from alma.errors import ConfigError
from alma.files import FileChange, apply_changes, read_content, resolve_link
from alma.hooks import paths
from alma.hooks.paths import DataDir, find_data_dir, list_own_files

from .desk import Desk, ask_yes, stop_worker

NAME = "smart"
"""Of the plug-in: the host reserves names that begin with `claude-`."""
MARKETPLACE = "claude-smart-local"
PLUGIN = f"{NAME}@{MARKETPLACE}"
_OURS = (PLUGIN, f"{NAME}@claude-smart")
_KNOWN = ("extraKnownMarketplaces", MARKETPLACE)
_ENABLED = ("enabledPlugins", PLUGIN)
# The copy of the code is there for the day the environment it came from is gone; then no model can be loaded either.
_LEFT_OUT = (".onnx", ".pyc", "vocabulary.txt", "characters.txt")
_KEPT = (
    *("memory.db", "memory.db-wal", "memory.db-shm", "memory.db-journal"),
    *("hooks.log", "config.json", "paused.json", "cleared.json", "usage.json", "tidied", "model-notice"),
    *("worker.json", "worker.sock", "worker.lock", "worker.lock-journal", "drain.lock", "drain.lock-journal"),
    *("reading.lock", "reading.lock-journal"),
)
_SHOWN_LINES = 40
_MODEL_QUESTION = """\
May Claude read your corrections? It finds many that the local reader misses.
  What is sent: your own turns that may be corrections, without pasted text; the end of Claude's message before each;
  and the rules you already have. Secrets are removed. It goes to `claude -p` on your own account.
  How often: usually one call for a session, at most {calls} calls a day. `claude-smart usage` lists them.
  Switch it off at any time: claude-smart config model off
Without it, claude-smart learns only from explicit corrections. [Y/n] """


# -- the commands


def install(args: Namespace, desk: Desk) -> int:
    """Install the plug-in, after showing what changes and asking."""
    setup = find_setup(os.environ)
    model = _choose_model(args, setup)
    is_found = shutil.which(os.environ.get("CLAUDE_SMART_CLI_PATH") or "claude")
    missing = "Claude Code itself was not found on the path; it will load the plug-in when it starts."
    host = "Start Claude Code anew." if is_found else missing
    return _run_plan(
        args,
        desk,
        lambda: plan_install(setup, model),
        title="Install claude-smart in Claude Code:",
        nothing="It is installed, and all is as it should be.",
        done=f"Installed. {host} The next session is the first to learn; `claude-smart doctor` tries it out now.",
    )


def update(args: Namespace, desk: Desk) -> int:
    """Bring the installed plug-in to this version."""
    setup = find_setup(os.environ)
    if not setup.receipt.is_file():
        raise ConfigError(f"claude-smart is not installed in {setup.claude}; run claude-smart install")
    return _run_plan(
        args,
        desk,
        lambda: plan_install(setup),
        title="Bring claude-smart to this version:",
        nothing="It is up to date.",
        done="Updated. Sessions that are open go on with what they have; new ones take the new version.",
    )


def uninstall(args: Namespace, desk: Desk) -> int:
    """Take the plug-in out; what was learned stays, unless it is purged."""
    setup = find_setup(os.environ)
    is_kept = not args.purge and os.path.exists(setup.place.db)
    return _run_plan(
        args,
        desk,
        lambda: plan_uninstall(setup, purge=args.purge),
        title="Take claude-smart out of Claude Code:",
        nothing="It is not installed.",
        done=f"Done. What it learned stays in {setup.place.home}." if is_kept else "Done.",
    )


def _run_plan(
    args: Namespace, desk: Desk, make_plan: Callable[[], Plan], *, title: str, nothing: str, done: str
) -> int:
    """Show the plan, ask, and carry it out; return the exit code."""
    plan = make_plan()
    if not plan:
        desk.say(nothing)
        desk.tell(Plan().plain(done=True))
        return 0
    desk.say(title)
    for line in plan.lines(Path(desk.place.home)):
        desk.say(f"  {line}")
    if args.dry_run or (not args.yes and (args.json or not sys.stdin.isatty())):
        desk.tell(plan.plain(done=False))
        if not args.dry_run:
            desk.say("\nNothing was changed: nobody is there to ask. With --yes it is done.")
        return 0 if args.dry_run else 1
    try:
        if not args.yes and not ask_yes("\nGo ahead? [y/N] "):
            return 1
    except EOFError:
        return 1
    # A worker that goes on would write into what is about to go, and one that starts meanwhile has the old code.
    stop_worker(desk.place)
    make_plan().apply()
    stop_worker(desk.place)
    desk.say(f"\n{done}")
    desk.tell(plan.plain(done=True))
    return 0


def _choose_model(args: Namespace, setup: Setup) -> str | None:
    """Return "on" or "off" for the model; None where it was answered before or nobody can answer."""
    if args.model is not None:
        return "on" if args.model else "off"
    current = paths.read_settings(setup.place)
    is_answered = current.text("model") != paths.DEFAULTS["model"]
    if args.yes or args.dry_run or args.json or is_answered or not sys.stdin.isatty():
        return None
    try:
        answer = input(_MODEL_QUESTION.format(calls=current.number("daily_calls")))
    except EOFError:
        return None
    return "on" if answer.strip().lower() in ("", "y", "yes") else "off"


# -- the plan


@dataclass(frozen=True, slots=True)
class Plan:
    changes: tuple[FileChange, ...] = ()
    folders: tuple[Path, ...] = ()
    """To be removed afterwards, in this order, if nothing is left in them."""

    def __bool__(self) -> bool:
        return bool(self.changes) or any(folder.is_dir() and not any(folder.iterdir()) for folder in self.folders)

    def apply(self) -> None:
        apply_changes(self.changes, self.folders)

    def lines(self, own: Path) -> Iterator[str]:
        """Describe it for people. Files of our own are counted; every other one is shown with what changes in it."""
        ours = [change for change in self.changes if change.path.is_relative_to(own)]
        for verb in ("create", "change", "remove"):
            folders = [str(change.path.parent) for change in ours if change.verb == verb]
            if folders:
                yield f"{verb} {len(folders)} file{'s' * (len(folders) != 1)} in {os.path.commonpath(folders)}"
        for change in self.changes:
            if change not in ours:
                yield f"{change.verb} {change.path}"
                yield from (f"    {line}" for line in _list_differences(change)[:_SHOWN_LINES])

    def plain(self, *, done: bool) -> dict[str, object]:
        """Describe it for programs."""
        changes = [
            {"change": change.verb, "path": str(change.path), "difference": _list_differences(change)}
            for change in self.changes
        ]
        return {"done": done, "changes": changes, "folders": [str(folder) for folder in self.folders]}


def _list_differences(change: FileChange) -> list[str]:
    """Return what changes line by line; nothing for a file that is created or removed whole."""
    return change.diff().splitlines()[2:] if change.verb == "change" else []


@dataclass(frozen=True, slots=True)
class Setup:
    """What is installed where."""

    place: DataDir
    claude: Path
    """Claude Code's own folder."""
    python: str
    """The interpreter that has all packages: it runs the commands and the worker."""
    plain: str
    """The interpreter that an environment was made from. The hooks need no package, and so outlive the environment."""
    packages: Path
    plugin: Path

    @property
    def marketplace(self) -> Path:
        return Path(self.place.home) / "marketplace"

    @property
    def receipt(self) -> Path:
        return self.marketplace / "receipt.json"

    @property
    def settings(self) -> Path:
        """Claude Code's settings; a link to them stays a link."""
        return resolve_link(self.claude / "settings.json")


def find_setup(environ: Mapping[str, str]) -> Setup:
    packages = Path(__file__).resolve().parent.parent
    # In a wheel the plug-in lies inside the package, in a clone beside `src`.
    folders = [packages / "claude_smart" / "plugin", packages.parent / "plugin"]
    plugin = next((one for one in folders if (one / "hooks" / "hooks.json").is_file()), None)
    if plugin is None:
        raise ConfigError(f"the files of the plug-in are missing: neither {folders[0]} nor {folders[1]} is there")
    python = os.path.abspath(sys.executable)
    plain = os.path.realpath(getattr(sys, "_base_executable", "") or python)
    home = environ.get("USERPROFILE" if os.name == "nt" else "HOME") or os.path.expanduser("~")
    chosen = environ.get("CLAUDE_CONFIG_DIR")
    claude = os.path.expanduser(chosen) if chosen else os.path.join(home, ".claude")
    return Setup(find_data_dir(environ), Path(os.path.abspath(claude)), python, plain, packages, plugin)


def plan_install(setup: Setup, model: str | None = None) -> Plan:
    """Plan to install, or to bring what is installed to this version. `model`: on or off; None as it is."""
    target = setup.settings
    text, held = _read_settings(target)
    for name in _list_enabled(held):
        if name != PLUGIN:
            raise ConfigError(
                f"Claude Code has the plug-in already, as {name}, and both together would do everything twice. "
                f"Take that one out first: claude plugin uninstall {name}"
            )
    # What was not there before us goes again with us. What an earlier installation noted still holds.
    keys = [path[0] for path in (_KNOWN, _ENABLED) if path[0] not in held]
    settings_file = str(setup.claude / "settings.json")
    receipt = _read_settings(setup.receipt)[1] or {"settings": settings_file, "created": text is None, "keys": keys}
    files = {setup.marketplace / name: content for name, content in _collect_files(setup, receipt).items()}
    files[Path(setup.place.runtime)] = _to_json({"python": setup.python, "path": str(setup.packages)})
    config = Path(setup.place.config)
    config_text, config_held = _read_settings(config)
    if model is not None and config_held.get("model") != model:
        files[config] = jsonc.put(config_text or "{}\n", ("model",), model).encode()
    source = {"source": {"source": "directory", "path": str(setup.marketplace)}}
    known = jsonc.put(text if text is not None else "{}\n", _KNOWN, source)
    files[target] = jsonc.put(known, _ENABLED, True).encode()
    changes = [FileChange(path, read_content(path), wanted) for path, wanted in files.items()]
    old = (path for path in _list_files(setup.marketplace) if path not in files and path.suffix != ".pyc")
    return Plan((*(change for change in changes if change), *_plan_removal(old)))


def _list_enabled(held: Mapping[str, Any]) -> list[str]:
    """Return the plug-ins of ours that are switched on, wherever they came from, and another of our name."""
    plugins = held.get("enabledPlugins")
    if not isinstance(plugins, dict):
        return []
    return [name for name, on in plugins.items() if on and (name in _OURS or name.startswith("claude-smart@"))]


def _collect_files(setup: Setup, receipt: Mapping[str, Any]) -> dict[str, bytes]:
    """Return what stands in our marketplace: the plug-in, a copy of the code, and its catalogue."""
    files = {
        f"plugin/{path.relative_to(setup.plugin).as_posix()}": path.read_bytes()
        for path in _list_files(setup.plugin)
        if path.suffix != ".pyc"
    }
    for package in (setup.packages / "alma", setup.packages / "claude_smart"):
        for path in _list_files(package):
            if not path.name.endswith(_LEFT_OUT) and not path.is_relative_to(package / "plugin"):
                files[f"plugin/lib/{path.relative_to(setup.packages).as_posix()}"] = path.read_bytes()
    # The hooks name the interpreters of this machine instead of whatever `python3` means.
    hooks = json.loads(files["plugin/hooks/hooks.json"])
    for hook in _list_hooks(hooks):
        hook["command"] = setup.plain if "-S" in hook["args"] else setup.python
    files["plugin/hooks/hooks.json"] = _to_json(hooks)
    digest = hashlib.sha256(b"\0".join(name.encode() + b"\0" + files[name] for name in sorted(files))).hexdigest()[:8]
    # Claude Code renews its own copy of a plug-in only when the version is another.
    manifest = {**json.loads(files["plugin/.claude-plugin/plugin.json"]), "version": f"{__version__}+{digest}"}
    entry = {"name": NAME, "source": "./plugin", "version": manifest["version"], "description": manifest["description"]}
    catalogue = {"name": MARKETPLACE, "owner": manifest["author"], "plugins": [entry]}
    files["plugin/.claude-plugin/plugin.json"] = _to_json(manifest)
    files[".claude-plugin/marketplace.json"] = _to_json(catalogue)
    files["receipt.json"] = _to_json(receipt)
    return files


def _list_hooks(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [hook for entries in config["hooks"].values() for entry in entries for hook in entry["hooks"]]


# -- uninstall


def plan_uninstall(setup: Setup, purge: bool = False) -> Plan:
    """Plan to take out what `plan_install` put in. What was learned stays, unless it is purged."""
    place, plugins = setup.place, setup.claude / "plugins"
    cached = [plugins / "cache" / MARKETPLACE, plugins / "data" / f"{NAME}-{MARKETPLACE}"]
    changes = [*_restore_settings(setup)]
    # Claude Code's own books about the plug-in, so that it does not look for it any more.
    for name, path in (("known_marketplaces.json", (MARKETPLACE,)), ("installed_plugins.json", ("plugins", PLUGIN))):
        text, _ = _read_settings(plugins / name)
        if text is not None and MARKETPLACE in text:
            changes.append(FileChange(plugins / name, text.encode(), jsonc.drop(text, path).encode()))
    gone = [path for folder in (*cached, setup.marketplace) for path in _list_files(folder)]
    gone.append(Path(place.runtime))
    home, sessions, config = Path(place.home), Path(place.sessions), Path(place.config)
    if purge:
        # Our own files by name: whatever else lies beside them stays.
        gone += [*(home / name for name in _KEPT), *map(Path, list_own_files(place))]
    else:
        # Leave to ask the model goes with the plug-in: whoever installs it again is asked again.
        gone.append(Path(place.model_notice))
        text, held = _read_settings(config)
        if text is not None and "model" in held:
            rest = None if len(held) == 1 else jsonc.drop(text, ("model",)).encode()
            changes.append(FileChange(config, text.encode(), rest))
    changes += _plan_removal(path for path in gone if path.is_file() or path.is_socket())
    folders = [Path(base) for one in (setup.marketplace, *cached) for base, _, _ in os.walk(one, topdown=False)]
    return Plan(tuple(changes), (*folders, *([sessions, home] if purge or not sessions.exists() else [])))


def _restore_settings(setup: Setup) -> Iterator[FileChange]:
    receipt = _read_settings(setup.receipt)[1]
    named = receipt.get("settings")
    target = resolve_link(Path(named)) if isinstance(named, str) else setup.settings
    text, _ = _read_settings(target)
    if text is None:
        return
    after = jsonc.drop(jsonc.drop(text, _ENABLED), _KNOWN)
    for key in receipt.get("keys", ()):
        if _load(after, target).get(key) == {}:
            after = jsonc.drop(after, (key,))
    if after != text:
        is_gone = receipt.get("created") and _load(after, target) == {}
        yield FileChange(target, text.encode(), None if is_gone else after.encode())


# -- doctor


def check_plugin(place: DataDir) -> Iterator[tuple[str, bool, str, str]]:
    """Check the installed plug-in: the name of each step, whether it is well, what was found, and what to do."""
    setup = find_setup({**os.environ, "CLAUDE_SMART_HOME": place.home})
    try:
        names = _list_enabled(_read_settings(setup.settings)[1])
    except ConfigError as error:
        yield "plug-in", False, str(error), "mend the file; Claude Code does not read it either"
        return
    if not names:
        yield "plug-in", False, f"not enabled in {setup.settings}", "claude-smart install"
        return
    yield "plug-in", len(names) == 1, f"{', '.join(names)} is enabled", "" if len(names) == 1 else "keep one of them"
    if PLUGIN not in names:
        return
    content = read_content(setup.marketplace / "plugin" / "hooks" / "hooks.json")
    hooks = _list_hooks(json.loads(content)) if content is not None else []
    missing = {hook["command"] for hook in hooks if not os.path.isfile(hook["command"])}
    if content is None:
        yield "hooks", False, f"{setup.marketplace} is gone", "claude-smart install"
    elif missing:
        yield "hooks", False, f"{', '.join(sorted(missing))} is gone", "claude-smart update"
    elif any(change.path.suffix == ".py" for change in plan_install(setup).changes):
        yield "hooks", True, "installed from another version than this one", "claude-smart update"
    else:
        yield "hooks", True, f"{setup.plain}, as installed", ""


# -- files


def _read_settings(path: Path) -> tuple[str | None, dict[str, Any]]:
    """Return the text of a JSON file and what it holds; None and nothing where there is no file."""
    content = read_content(path)
    try:
        text = None if content is None else content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 ({error}); mend it first, nothing was changed") from error
    return text, _load(text, path) if text is not None else {}


def _load(text: str, path: Path) -> dict[str, Any]:
    # The host reads JSON without comments and nothing else.
    return jsonc.load(text, str(path), remarks=False)


def _list_files(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(base) / name for name in sorted(names))


def _plan_removal(paths: Iterator[Path] | Sequence[Path]) -> list[FileChange]:
    return [FileChange(path, read_content(path), None) for path in paths]


def _to_json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
