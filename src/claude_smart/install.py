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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from alma import __version__, jsonc
from alma.errors import ConfigError
from alma.files import FileChange, apply_changes, read_content, resolve_link
from alma.hooks.paths import DEFAULTS, DataDir, find_data_dir, list_own_files, read_settings

from .desk import Answer, Desk, ask_yes, count_noun, read_object, stop_worker

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
    "memory.db* hooks.log config.json paused.json cleared.json usage.json tidied model-notice projects/*.json "
    "worker.json worker.sock worker.lock* drain.lock* reading.lock*"
)
_SHOWN_LINES = 40
_MODEL_QUESTION = """\
May Claude read your corrections? It finds many that the local reader misses.
  What is sent: your own turns that may be corrections, without pasted text; the end of Claude's message before each;
  and the rules you already have. Secrets are removed. It goes to `claude -p` on your own account.
  How often: usually one call for a session, at most {calls} calls a day. `claude-smart usage` lists them.
  Switch it off at any time: claude-smart config model off
Without it, claude-smart learns only from explicit corrections. [Y/n] """
_TEXTS = {
    "install": (
        "Install claude-smart in Claude Code:",
        "It is installed, and all is as it should be.",
        "Installed. {next} The next session is the first to learn; `claude-smart doctor` tries it out now.",
    ),
    "update": (
        "Bring claude-smart to this version:",
        "It is up to date.",
        "Updated. Sessions that are open go on with what they have; new ones take the new version.",
    ),
    "uninstall": ("Take claude-smart out of Claude Code:", "It is not installed.", "Done.{next}"),
}
"""Of each command: what it is about to do, that nothing is to be done, and that it is done."""


def install(args: Namespace, desk: Desk) -> Answer:
    """Install the plug-in, update it or take it out, after showing what changes and asking."""
    setup = find_setup(os.environ)
    if args.command == "update" and not setup.receipt.is_file():
        raise ConfigError(f"claude-smart is not installed in {setup.claude}; run claude-smart install")
    is_asked = not (args.yes or args.dry_run or args.json) and sys.stdin.isatty()
    model = _choose_model(args.model, setup.place, is_asked) if args.command == "install" else None

    def make_plan() -> Plan:
        is_end = args.command == "uninstall"
        return plan_uninstall(setup, purge=args.purge) if is_end else plan_install(setup, model)

    plan = make_plan()
    title, nothing, done = _TEXTS[args.command]
    if not plan:
        desk.say(nothing)
        return Plan().plain(done=True)
    desk.say(title, *(f"  {line}" for line in plan.lines(Path(desk.place.home))))
    if not (args.yes or is_asked) or args.dry_run or (is_asked and not ask_yes("\nGo ahead? [y/N] ")):
        if not is_asked and not args.dry_run:
            desk.say("\nNothing was changed: nobody is there to ask. With --yes it is done.")
        desk.exit_code = int(not args.dry_run)
        return plan.plain(done=False)
    # A worker that goes on would write into what is about to go, and one that starts meanwhile has the old code.
    stop_worker(desk.place)
    make_plan().apply()
    stop_worker(desk.place)
    if args.command == "uninstall":
        then = f" What it learned stays in {setup.place.home}." if os.path.exists(setup.place.db) else ""
    elif shutil.which(os.environ.get("CLAUDE_SMART_CLI_PATH") or "claude"):
        then = "Start Claude Code anew."
    else:
        then = "Claude Code itself was not found on the path; it will load the plug-in when it starts."
    desk.say("\n" + done.format(next=then))
    return plan.plain(done=True)


def _choose_model(is_allowed: bool | None, place: DataDir, is_asked: bool) -> str | None:
    """Return "on" or "off" for the model; None where it was answered before or nobody can answer."""
    current = read_settings(place)
    if is_allowed is None and is_asked and current.text("model") == DEFAULTS["model"]:
        answer = input(_MODEL_QUESTION.format(calls=current.number("daily_calls")))
        is_allowed = answer.strip().lower() in ("", "y", "yes")
    return None if is_allowed is None else "on" if is_allowed else "off"


# -- the plan


class Plan(NamedTuple):
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
                yield f"{verb} {count_noun(len(folders), 'file')} in {os.path.commonpath(folders)}"
        for change in self.changes:
            if change not in ours:
                yield f"{change.verb} {change.path}"
                yield from (f"    {line}" for line in _list_differences(change)[:_SHOWN_LINES])

    def plain(self, *, done: bool) -> Answer:
        """Describe it for programs."""
        changes = [
            {"change": change.verb, "path": str(change.path), "difference": _list_differences(change)}
            for change in self.changes
        ]
        return {"done": done, "changes": changes, "folders": [str(folder) for folder in self.folders]}


def _list_differences(change: FileChange) -> list[str]:
    """Return what changes line by line; nothing for a file that is created or removed whole."""
    return change.diff().splitlines()[2:] if change.verb == "change" else []


class Setup(NamedTuple):
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
    claude = os.path.expanduser(environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude"))
    return Setup(find_data_dir(environ), Path(os.path.abspath(claude)), python, plain, packages, plugin)


def plan_install(setup: Setup, model: str | None = None) -> Plan:
    """Plan to install, or to bring what is installed to this version. `model`: on or off; None as it is."""
    text, settings = read_object(setup.settings)
    for name in list_enabled(settings):
        if name != PLUGIN:
            raise ConfigError(
                f"Claude Code has the plug-in already, as {name}, and both together would do everything twice. "
                f"Take that one out first: claude plugin uninstall {name}"
            )
    # What was not there before us goes again with us. What an earlier installation noted still holds.
    keys = [path[0] for path in (_KNOWN, _ENABLED) if path[0] not in settings]
    receipt = {"settings": str(setup.claude / "settings.json"), "created": text is None, "keys": keys}
    source = {"source": {"source": "directory", "path": str(setup.marketplace)}}
    files = {
        **_collect_files(setup, read_object(setup.receipt)[1] or receipt),
        Path(setup.place.runtime): _to_json({"python": setup.python, "path": str(setup.packages)}),
        setup.settings: jsonc.put(
            jsonc.put(text if text is not None else "{}\n", _KNOWN, source), _ENABLED, True
        ).encode(),
    }
    config = Path(setup.place.config)
    config_text, config_values = read_object(config)
    if model is not None and config_values.get("model") != model:
        files[config] = jsonc.put(config_text or "{}\n", ("model",), model).encode()
    changes = [FileChange(path, read_content(path), wanted) for path, wanted in files.items()]
    old = (path for path in _list_files(setup.marketplace) if path not in files and path.suffix != ".pyc")
    return Plan((*filter(None, changes), *_remove_files(old)))


def list_enabled(settings: Mapping[str, Any]) -> list[str]:
    """Return the plug-ins of ours that are switched on, wherever they came from, and another of our name."""
    plugins = settings.get("enabledPlugins")
    names = [name for name, is_on in plugins.items() if is_on] if isinstance(plugins, dict) else []
    return [name for name in names if name in _OURS or name.startswith("claude-smart@")]


def _collect_files(setup: Setup, receipt: Mapping[str, Any]) -> dict[Path, bytes]:
    """Return what stands in our marketplace: the plug-in, a copy of the code, and its catalogue."""
    sources = {path: path.relative_to(setup.plugin) for path in _list_files(setup.plugin)}
    for package in (setup.packages / "alma", setup.packages / "claude_smart"):
        code = (path for path in _list_files(package) if not path.is_relative_to(package / "plugin"))
        sources |= {path: "lib" / path.relative_to(setup.packages) for path in code}
    files = {
        f"plugin/{name.as_posix()}": path.read_bytes()
        for path, name in sources.items()
        if not path.name.endswith(_LEFT_OUT)
    }
    # The hooks name the interpreters of this machine instead of whatever `python3` means.
    hooks = json.loads(files["plugin/hooks/hooks.json"])
    for hook in list_hooks(hooks):
        hook["command"] = setup.plain if "-S" in hook["args"] else setup.python
    files["plugin/hooks/hooks.json"] = _to_json(hooks)
    digest = hashlib.sha256(b"\0".join(name.encode() + b"\0" + files[name] for name in sorted(files))).hexdigest()[:8]
    # Claude Code renews its own copy of a plug-in only when the version is another.
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
    return [hook for entries in config["hooks"].values() for entry in entries for hook in entry["hooks"]]


def plan_uninstall(setup: Setup, purge: bool = False) -> Plan:
    """Plan to take out what `plan_install` put in. What was learned stays, unless it is purged."""
    place, plugins = setup.place, setup.claude / "plugins"
    receipt = read_object(setup.receipt)[1]
    settings = resolve_link(Path(receipt.get("settings") or setup.settings))
    changes = [
        *_drop_members(settings, _ENABLED, _KNOWN, keys=receipt.get("keys", ()), is_ours=bool(receipt.get("created"))),
        # Claude Code's own books about the plug-in, so that it does not look for it any more.
        *_drop_members(plugins / "known_marketplaces.json", (MARKETPLACE,)),
        *_drop_members(plugins / "installed_plugins.json", ("plugins", PLUGIN)),
    ]
    home, sessions = Path(place.home), Path(place.sessions)
    ours = [setup.marketplace, plugins / "cache" / MARKETPLACE, plugins / "data" / f"{NAME}-{MARKETPLACE}"]
    gone = [path for folder in ours for path in _list_files(folder)] + [Path(place.runtime)]
    if purge:
        # Our own files by name: whatever else lies beside them stays.
        gone += [path for name in _KEPT.split() for path in home.glob(name)]
        gone += map(Path, list_own_files(place))
    else:
        # The permission to ask the model goes with the plug-in: a new installation asks again.
        gone.append(Path(place.model_notice))
        changes += _drop_members(Path(place.config), ("model",), is_ours=True)
    changes += _remove_files(path for path in gone if path.is_file() or path.is_socket())
    folders = [Path(base) for one in ours for base, _, _ in os.walk(one, topdown=False)]
    if purge or not sessions.exists():
        folders += [home / "projects", sessions, home]
    return Plan(tuple(changes), tuple(folders))


def _drop_members(
    path: Path, *members: Sequence[str], keys: Iterable[str] = (), is_ours: bool = False
) -> Iterator[FileChange]:
    """Plan a file without these members, without those of the `keys` that hold nothing then, or without the file."""
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


def _list_files(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(base) / name for name in sorted(names))


def _remove_files(paths: Iterable[Path]) -> Iterator[FileChange]:
    return (FileChange(path, read_content(path), None) for path in paths)


def _to_json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
