"""Puts the plug-in into Claude Code and takes it out again.

A plan is made first: every file with its content before and after. It can be looked at, and it is carried out whole or
not at all. What is written: a folder `marketplace` in our home that holds the plug-in, `runtime.json`, and two members
in Claude Code's `settings.json`, which is enough for it to load the plug-in at its next start.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alma import __version__, jsonc
from alma.errors import ConfigError
from alma.files import read_content, resolve_link
from alma.hooks.paths import DataDir as Place
from alma.hooks.paths import find_data_dir as find
from alma.hooks.paths import list_own_files as own_files

from .plan import Change, Plan, removal

NAME = "smart"
"""Of the plug-in: the host reserves names that begin with `claude-`."""
MARKETPLACE = "claude-smart-local"
PLUGIN = f"{NAME}@{MARKETPLACE}"
_OURS = (PLUGIN, f"{NAME}@claude-smart")
_RECEIPT = "receipt.json"
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


@dataclass(frozen=True, slots=True)
class Setup:
    """What is installed where."""

    place: Place
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
        return self.marketplace / _RECEIPT


def here(environ: Mapping[str, str]) -> Setup:
    packages = Path(__file__).resolve().parent.parent
    # In a wheel the plug-in lies inside the package, in a clone beside `src`.
    folders = [packages / "claude_smart" / "plugin", packages.parent / "plugin"]
    plugin = next((one for one in folders if (one / "hooks" / "hooks.json").is_file()), None)
    if plugin is None:
        raise ConfigError(f"the files of the plug-in are missing: neither {folders[0]} nor {folders[1]} is there")
    python = os.path.abspath(sys.executable)
    plain = os.path.realpath(getattr(sys, "_base_executable", "") or python)
    return Setup(find(environ), claude_folder(environ), python, plain, packages, plugin)


def claude_folder(environ: Mapping[str, str]) -> Path:
    given = environ.get("CLAUDE_CONFIG_DIR")
    if given:
        return Path(os.path.abspath(os.path.expanduser(given)))
    home = environ.get("USERPROFILE" if os.name == "nt" else "HOME") or os.path.expanduser("~")
    return Path(os.path.abspath(home)) / ".claude"


def is_installed(setup: Setup) -> bool:
    return setup.receipt.is_file()


# -- install, update


def install(setup: Setup, model: str | None = None) -> Plan:
    """The plan that installs, or brings what is installed to this version. `model`: on or off; None as it is."""
    target = _settings_file(setup)
    text = _read(target)
    held = _settings(text, str(target)) if text is not None else {}
    _refuse_twice(held)
    changes = [*_plugin_files(setup, _made(setup, held, text)), _runtime(setup), *_model(setup, model)]
    settings = jsonc.put(text if text is not None else "{}\n", _KNOWN, _source(setup))
    changes.append(_edited(target, text, jsonc.put(settings, _ENABLED, True)))
    return Plan(tuple(change for change in changes if change.before != change.after))


def _refuse_twice(held: Mapping[str, Any]) -> None:
    for name in _enabled(held):
        if name != PLUGIN:
            raise ConfigError(
                f"Claude Code has the plug-in already, as {name}, and both together would do everything twice. "
                f"Take that one out first: claude plugin uninstall {name}"
            )


def _enabled(held: Mapping[str, Any]) -> list[str]:
    """The plug-ins of ours that are switched on, wherever they came from, and another of our name in the same home."""
    plugins = held.get("enabledPlugins")
    if not isinstance(plugins, dict):
        return []
    return [name for name, on in plugins.items() if on and (name in _OURS or name.startswith("claude-smart@"))]


def _source(setup: Setup) -> dict[str, Any]:
    return {"source": {"source": "directory", "path": str(setup.marketplace)}}


def _made(setup: Setup, held: Mapping[str, Any], text: str | None) -> dict[str, Any]:
    """What was not there before us, so that it can go again with us. What an earlier installation noted still holds."""
    earlier = _receipt(setup)
    if earlier:
        return earlier
    keys = [path[0] for path in (_KNOWN, _ENABLED) if path[0] not in held]
    return {"settings": str(setup.claude / "settings.json"), "created": text is None, "keys": keys}


def _receipt(setup: Setup) -> dict[str, Any]:
    text = _read(setup.receipt)
    return _settings(text, str(setup.receipt)) if text is not None else {}


def _plugin_files(setup: Setup, receipt: Mapping[str, Any]) -> Iterator[Change]:
    files = dict(_copied(setup))
    files["plugin/hooks/hooks.json"] = _hooks(setup)
    digest = hashlib.sha256(b"\0".join(name.encode() + b"\0" + files[name] for name in sorted(files))).hexdigest()[:8]
    # Claude Code renews its own copy of a plug-in only when the version is another.
    manifest = {**json.loads(files["plugin/.claude-plugin/plugin.json"]), "version": f"{__version__}+{digest}"}
    files["plugin/.claude-plugin/plugin.json"] = _json(manifest)
    files[".claude-plugin/marketplace.json"] = _json(_catalogue(manifest))
    files[_RECEIPT] = _json(dict(receipt))
    for name, wanted in files.items():
        path = setup.marketplace / name
        yield Change(path, read_content(path), wanted)
    for path in _files(setup.marketplace):
        if path.relative_to(setup.marketplace).as_posix() not in files and path.suffix != ".pyc":
            yield removal(path)


def _copied(setup: Setup) -> Iterator[tuple[str, bytes]]:
    for path in _files(setup.plugin):
        if path.suffix != ".pyc":
            yield f"plugin/{path.relative_to(setup.plugin).as_posix()}", path.read_bytes()
    for package in ("alma", "claude_smart"):
        for path in _files(setup.packages / package, without="plugin"):
            if not path.name.endswith(_LEFT_OUT):
                name = path.relative_to(setup.packages).as_posix()
                yield f"plugin/lib/{name}", path.read_bytes()


def _hooks(setup: Setup) -> bytes:
    """The plug-in's hooks, with the interpreters of this machine instead of whatever `python3` means."""
    config = json.loads((setup.plugin / "hooks" / "hooks.json").read_text(encoding="utf-8"))
    for entries in config["hooks"].values():
        for entry in entries:
            for hook in entry["hooks"]:
                hook["command"] = setup.plain if "-S" in hook["args"] else setup.python
    return _json(config)


def _catalogue(manifest: Mapping[str, Any]) -> dict[str, Any]:
    entry = {"name": NAME, "source": "./plugin", "version": manifest["version"], "description": manifest["description"]}
    return {"name": MARKETPLACE, "owner": manifest["author"], "plugins": [entry]}


def _runtime(setup: Setup) -> Change:
    path = Path(setup.place.runtime)
    return Change(path, read_content(path), _json({"python": setup.python, "path": str(setup.packages)}))


def _model(setup: Setup, model: str | None) -> Iterator[Change]:
    path = Path(setup.place.config)
    text = _read(path)
    held = _settings(text, str(path)) if text is not None else {}
    if model is not None and held.get("model") != model:
        yield _edited(path, text, jsonc.put(text if text is not None else "{}\n", ("model",), model))


# -- uninstall


def uninstall(setup: Setup, purge: bool = False) -> Plan:
    """The plan that takes out what `install` put in. What was learned stays, unless it is purged."""
    changes = [*_settings_back(setup), *_forgotten_by_claude(setup)]
    changes += [removal(path) for path in _files(setup.marketplace)]
    runtime = Path(setup.place.runtime)
    if runtime.is_file():
        changes.append(removal(runtime))
    changes += _kept(setup.place) if purge else _consent_back(setup)
    ours = [setup.marketplace, *_claude_folders(setup)]
    folders = [folder for one in ours for folder in _folders(one)]
    return Plan(tuple(changes), (*folders, *_emptied(setup, purge)))


def _settings_back(setup: Setup) -> Iterator[Change]:
    receipt = _receipt(setup)
    named = receipt.get("settings")
    target = resolve_link(Path(named)) if isinstance(named, str) else _settings_file(setup)
    text = _read(target)
    if text is None:
        return
    _settings(text, str(target))
    after = jsonc.drop(jsonc.drop(text, _ENABLED), _KNOWN)
    for key in receipt.get("keys", ()):
        if _settings(after, str(target)).get(key) == {}:
            after = jsonc.drop(after, (key,))
    if after == text:
        return
    gone = receipt.get("created") and _settings(after, str(target)) == {}
    yield _edited(target, text, None if gone else after)


def _forgotten_by_claude(setup: Setup) -> Iterator[Change]:
    """Claude Code's own books about the plug-in, so that it does not look for it any more."""
    for name, path in (("known_marketplaces.json", (MARKETPLACE,)), ("installed_plugins.json", ("plugins", PLUGIN))):
        file = setup.claude / "plugins" / name
        text = _read(file)
        if text is not None and MARKETPLACE in text:
            _settings(text, str(file))
            yield _edited(file, text, jsonc.drop(text, path))
    for folder in _claude_folders(setup):
        yield from (removal(path) for path in _files(folder))


def _claude_folders(setup: Setup) -> list[Path]:
    plugins = setup.claude / "plugins"
    return [plugins / "cache" / MARKETPLACE, plugins / "data" / f"{NAME}-{MARKETPLACE}"]


def _consent_back(setup: Setup) -> Iterator[Change]:
    """Leave to ask the model goes with the plug-in: whoever installs it again is asked again."""
    notice = Path(setup.place.model_notice)
    if notice.is_file():
        yield removal(notice)
    path = Path(setup.place.config)
    text = _read(path)
    if text is None or "model" not in _settings(text, str(path)):
        return
    after = jsonc.drop(text, ("model",))
    yield _edited(path, text, None if _settings(after, str(path)) == {} else after)


def _kept(place: Place) -> Iterator[Change]:
    """All that was recorded and learned: our own files by name, whatever else lies beside them stays."""
    home = Path(place.home)
    own = [home / name for name in _KEPT]
    own += map(Path, own_files(place))
    yield from (removal(path) for path in own if path.is_file() or path.is_socket())


def _emptied(setup: Setup, purge: bool) -> list[Path]:
    """Folders that go when nothing is left in them."""
    home, sessions = Path(setup.place.home), Path(setup.place.sessions)
    return [sessions, home] if purge or not sessions.exists() else []


# -- what doctor asks


def state(place: Place) -> Iterator[tuple[str, bool, str, str]]:
    """Name, whether it is well, what was found, what to do: about the installed plug-in."""
    setup = here({**os.environ, "CLAUDE_SMART_HOME": place.home})
    settings = _settings_file(setup)
    try:
        text = _read(settings)
        held = _settings(text, str(settings)) if text is not None else {}
    except ConfigError as error:
        yield "plug-in", False, str(error), "mend the file; Claude Code does not read it either"
        return
    names = _enabled(held)
    if not names:
        yield "plug-in", False, f"not enabled in {settings}", "claude-smart install"
        return
    yield "plug-in", len(names) == 1, f"{', '.join(names)} is enabled", "" if len(names) == 1 else "keep one of them"
    if PLUGIN in names:
        yield _interpreters(setup)


def _interpreters(setup: Setup) -> tuple[str, bool, str, str]:
    text = _read(setup.marketplace / "plugin" / "hooks" / "hooks.json")
    if text is None:
        return "hooks", False, f"{setup.marketplace} is gone", "claude-smart install"
    entries = [entry for group in json.loads(text)["hooks"].values() for entry in group]
    missing = {hook["command"] for entry in entries for hook in entry["hooks"] if not os.path.isfile(hook["command"])}
    if missing:
        return "hooks", False, f"{', '.join(sorted(missing))} is gone", "claude-smart update"
    if any(change.path.suffix == ".py" for change in install(setup).changes):
        return "hooks", True, "installed from another version than this one", "claude-smart update"
    return "hooks", True, f"{setup.plain}, as installed", ""


# -- files


def _settings_file(setup: Setup) -> Path:
    return resolve_link(setup.claude / "settings.json")


def _read(path: Path) -> str | None:
    held = read_content(path)
    try:
        return None if held is None else held.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 ({error}); mend it first, nothing was changed") from error


def _files(folder: Path, without: str = "") -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not (without and Path(base) == folder and name == without))
        yield from (Path(base) / name for name in sorted(names))


def _folders(folder: Path) -> Iterator[Path]:
    yield from (Path(base) for base, _, _ in os.walk(folder, topdown=False))


def _edited(path: Path, before: str | None, after: str | None) -> Change:
    return Change(path, None if before is None else before.encode(), None if after is None else after.encode())


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def _settings(text: str, name: str) -> dict[str, Any]:
    """The host reads JSON and nothing else."""
    return jsonc.load(text, name, remarks=False)
