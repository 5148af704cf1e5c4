"""The coding agents besides Claude Code: which ones this machine has, and what an installation writes for each.

An agent loads files of ours, or entries in a settings file of the person's. Entries are added without touching any
other byte, and the receipt keeps each replacement, so that uninstalling restores the file. If the file was rewritten
meanwhile, only the entries that start our hook are removed. They are recognised by their parsed values.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from alma import jsonc, toml
from alma.errors import ConfigError, ValidationError, unknown
from alma.files import FileChange, decode_settings, read_content, read_settings_text, resolve_link
from alma.hooks.hosts import HOSTS, NOT_RUN
from alma.types.times import now, to_iso

from .adapters import build_files, is_ours
from .aider import RULES as RULES_FILE

CLAUDE = "claude"


class HostTarget(NamedTuple):
    """How to recognise a coding agent on a machine, and what a person has to do after the installation."""

    folder: str
    """Its settings folder in the home folder."""
    note: str = ""
    program: str = ""
    """Its name on the PATH; empty if it is the name of the host."""


TARGETS = {
    CLAUDE: HostTarget(".claude"),
    "codex": HostTarget(
        ".codex",
        "runs hooks only after you trust them: start `codex` once and approve the hooks that it lists. Until then it "
        "skips them, and `codex exec` does so without a message.",
    ),
    "copilot": HostTarget(".copilot"),
    "qwen": HostTarget(".qwen"),
    "gemini": HostTarget(".gemini"),
    "opencode": HostTarget(".config/opencode"),
    "kimi": HostTarget(
        ".kimi-code",
        "does not wait for hooks after a tool call: a command that fails just before it exits may be missed.",
    ),
    "cline": HostTarget(".cline"),
    "goose": HostTarget(
        ".config/goose",
        "its hooks cannot add text to a request. To show rules, set this where you start it: "
        "export GOOSE_MOIM_MESSAGE_FILE={home}/goose-context.md",
    ),
    "aider": HostTarget(
        ".aider",
        "has no hooks. Run `claude-smart learn` in this repository after your sessions: it imports their history and "
        f"rewrites {RULES_FILE}. Install it in each repository.",
    ),
    "cursor": HostTarget(".cursor", program="cursor-agent"),
    "amp": HostTarget(".config/amp"),
    "crush": HostTarget(".config/crush"),
}
_NOT_RUN = "written from its documentation and not tested in it."


def find_hosts(home: Path) -> list[str]:
    """Return the coding agents on this machine: their program is on the PATH, or they have a settings folder."""
    return [
        name
        for name, target in TARGETS.items()
        if shutil.which(target.program or name) or locate(home, target.folder).is_dir()
    ]


def parse_hosts(names: str) -> list[str]:
    """Return the hosts in a list such as `codex,gemini`. Raise ValidationError for an unknown one."""
    hosts = [name.strip() for name in names.split(",") if name.strip()]
    for name in hosts:
        if name not in HOSTS:
            raise ValidationError(unknown("host", name, HOSTS))
    if not hosts:
        raise ValidationError(f"--host needs a name. Valid: {', '.join(HOSTS)}")
    return list(dict.fromkeys(hosts))


def describe_notes(hosts: Iterable[str], data_home: str) -> list[str]:
    """Return what a person has to know about these hosts after an installation, one line each."""
    notes = []
    for name in hosts:
        target = TARGETS[name]
        note = _NOT_RUN if name in NOT_RUN else target.note.replace("{home}", data_home)
        notes += [f"{HOSTS[name]}: {note}"] if note else []
    return notes


def locate(home: Path, name: str) -> Path:
    """Return a path in the home folder, or in the folder that the environment names instead."""
    if os.name == "nt" and os.environ.get("APPDATA") and name.startswith(".config/goose"):
        return Path(os.environ["APPDATA"], "Block", "goose", "config") / name[len(".config/goose/") :]
    for folder, variable in ((".codex", "CODEX_HOME"), (".config", "XDG_CONFIG_HOME")):
        if os.environ.get(variable) and (name == folder or name.startswith(f"{folder}/")):
            return Path(os.environ[variable]) / name[len(folder) + 1 :]
    return home / name


# -- entries in the settings of others


def find_edit(before: str, after: str) -> list[str]:
    """Return the replacement that turns the text before into the one after: what is new, and what was there."""
    start = len(os.path.commonprefix((before, after)))  # noqa: RUF071 - texts, not paths
    end = len(os.path.commonprefix((before[start:][::-1], after[start:][::-1])))  # noqa: RUF071
    return [after[start : len(after) - end], before[start : len(before) - end]]


def load_json(text: str) -> dict[str, Any]:
    """Return the values of a JSON file, which may have comments and trailing commas."""
    return jsonc.load(text if text.strip() else "{}", "the file")


def merge_json(text: str, content: str) -> str:
    """Return a JSON file with our members and hooks added."""
    ours = json.loads(content)
    members: list[tuple[tuple[str, ...], Any]] = [((key,), value) for key, value in ours.items() if key != "hooks"]
    members += [(("hooks", event), hooks) for event, hooks in ours["hooks"].items()]
    after = text if text.strip() else "{}\n"
    for path, value in members:
        holder = load_json(after)
        for key in path[:-1]:
            holder = holder.get(key, {})
        if not isinstance(holder, dict) or path[-1] not in holder:
            after = jsonc.put(after, path, value)
        elif isinstance(value, list):
            for item in value:
                after = jsonc.append(after, path, item)
    return after


def strip_json(text: str) -> str:
    """Return a JSON file without our hooks, and without the groups and events that are empty then."""
    for path in reversed(list(find_own_hooks(load_json(text)))):
        for end in range(len(path), 0, -1):
            text = jsonc.drop(text, path[:end])
            if reduce(getitem, path[: end - 1], load_json(text)):
                break
    return text


def find_own_hooks(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where our hooks are in the values of a JSON file, by keys and places."""
    if isinstance(value, dict) and is_ours(value.get("command")):
        yield path
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from find_own_hooks(one, (*path, key))


def load_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML file."""
    return toml.load(text, "the file")


def merge_toml(text: str, content: str) -> str:
    """Return a TOML file with our tables at its end."""
    load_toml(text)
    after = merge_lines(text, content)
    try:
        load_toml(after)
    except ConfigError as error:
        fix = "write its entries as tables `[[hooks]]`, or remove it if it is empty"
        raise ConfigError(f"`hooks` has another form in the file; {fix}. Nothing was changed") from error
    return after


def strip_toml(text: str, is_own: Callable[[dict[str, Any]], bool] = is_ours) -> str:
    """Return a TOML file without the tables that are ours by their values. Comments stay."""
    kept: list[str] = []
    for part in re.split(r"(?m)^(?=[ \t]*\[)", text):
        try:
            values = tomllib.loads(part) if part.lstrip().startswith("[") else {}
        except tomllib.TOMLDecodeError:
            values = {}
        lines = part.splitlines(keepends=True)
        kept += [line for line in lines if line.lstrip().startswith("#")] if is_own(values) else lines
    return "".join(kept)


def merge_lines(text: str, content: str) -> str:
    """Return a text file with our lines at its end."""
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{content}"


def load_yaml(text: str) -> dict[str, Any]:
    """Return the values of a YAML file."""
    try:
        values = yaml.safe_load(text) or {}
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(
            f"the file is not valid YAML ({' '.join(str(error).split())}); fix it first. Nothing was changed"
        ) from error
    if not isinstance(values, dict):
        raise ConfigError("the file must contain a mapping; fix it first. Nothing was changed")
    return values


def merge_yaml(text: str, content: str) -> str:
    """Return aider's settings with our file among those it reads."""
    return change_read_files(text, lambda names: names if content in names else [*names, content])


def strip_yaml(text: str) -> str:
    """Return aider's settings without our file."""
    return change_read_files(text, lambda names: [name for name in names if not is_ours(name)])


def change_read_files(text: str, change: Callable[[list[str]], list[str]]) -> str:
    """Return aider's settings with a change in the list of files that it reads. The list is then on one line."""
    values, root = load_yaml(text), yaml.compose(text)
    before = values.get("read") or []
    names = change(before if isinstance(before, list) else [before])
    line = f"read: {json.dumps(names, ensure_ascii=False)}"
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    after = merge_lines(text, f"{line}\n")
    for key, value in pairs:
        if key.value == "read":
            is_block = isinstance(value, yaml.SequenceNode) and not value.flow_style
            end = (value.value[-1] if is_block else value).end_mark.index
            after = text[: key.start_mark.index] + line + text[end:]
    with suppress(ConfigError):
        if load_yaml(after) == {**values, "read": names}:
            return text if names == before else after
    raise ConfigError(f"the file cannot be changed safely; write `{line}` yourself. Nothing was changed")


class SettingsForm(NamedTuple):
    """How a settings file is read, how our entries are added to it, and how they are removed if it was rewritten."""

    load: Callable[[str], Any]
    add: Callable[[str, str], str]
    strip: Callable[[str], str]


FORMS = {
    "json": SettingsForm(load_json, merge_json, strip_json),
    "toml": SettingsForm(load_toml, merge_toml, strip_toml),
    "yaml": SettingsForm(load_yaml, merge_yaml, strip_yaml),
}
_SHARED = {
    ".codex/hooks.json": "json",
    ".cursor/hooks.json": "json",
    ".config/crush/crush.json": "json",
    ".kimi-code/config.toml": "toml",
}
"""Files of the person's, by their path in the home folder, and their form."""


# -- the plan


class HostFile(NamedTuple):
    """A file that an agent loads: ours, or one of the person's that gets our entries."""

    path: Path
    content: str
    form: str = ""
    """The form of a file of the person's; empty for one of ours."""


def collect_files(
    host: str, home: Path, repositories: Iterable[Path], python: str, hook: str, places: Iterable[str] = ()
) -> list[HostFile]:
    """Return the files of a host. Those that are in `places` already are written there again."""
    files = []
    for repository in repositories if host == "aider" else ():
        path = repository / RULES_FILE
        rules = "# No rules yet. Run `claude-smart learn` after a session.\n"
        rules = read_settings_text(path) if path.exists() else rules
        # aider looks for a relative path in the folder that it is started in, and replaces the tilde.
        is_at_home = repository.is_relative_to(home.resolve())
        name = f"~/{path.relative_to(home.resolve()).as_posix()}" if is_at_home else str(path)
        files += [HostFile(repository / ".aider.conf.yml", name, "yaml"), HostFile(path, rules)]
    for name, text in build_files(host, python, hook).items():
        own = [Path(place) for place in places if Path(place).as_posix().endswith(f"/{name.partition('/')[2]}")]
        for path in own or [locate(home, name)]:
            files.append(HostFile(path, text, _SHARED.get(name, "")))
    return files


def plan_host(files: Iterable[HostFile], entry: Mapping[str, Any]) -> tuple[list[FileChange], dict[str, Any]]:
    """Return the changes that install a host, and its entry in the receipt. `entry` is the present one, or empty."""
    changes = []
    # A repository of aider, or a whole home folder, may be gone.
    records = {name: one for name, one in entry.get("files", {}).items() if Path(name).parent.is_dir()}
    folders = dict.fromkeys(entry.get("folders", ()))
    for path, content, form in files:
        target = find_target(path)
        before = read_content(target)
        record = records.get(str(path), {})
        edits = []
        if form:
            with name_file(path):
                base = restore_text(form, decode_settings(target, before), record) or ""
                content = FORMS[form].add(base, content)
            edits = [find_edit(base, content)] if content != base else []
        is_new = before is None or record.get("created", False)
        records[str(path)] = {"form": form, "created": is_new, "edits": edits}
        folders |= dict.fromkeys(str(one) for one in path.parents if not one.exists())
        changes.append(build_change(target, before, content.encode()))
    installed_at = entry.get("installed_at") or to_iso(now())
    return changes, {"installed_at": installed_at, "files": records, "folders": list(folders)}


def plan_removal(
    entry: Mapping[str, Any], repository: Path | None = None
) -> tuple[list[FileChange], list[Path], dict[str, Any]]:
    """Return the changes that remove a host, the folders to remove if they are empty then, and what stays of its entry.

    With a repository, aider is removed from that one only.
    """
    changes, rest = [], {}
    for name, record in entry.get("files", {}).items():
        if repository is not None and Path(name).parent != repository:
            rest[name] = record
            continue
        path, after = find_target(Path(name)), None
        before = read_content(path)
        if record["form"] and before is not None:
            with name_file(path):
                text = restore_text(record["form"], decode_settings(path, before), record)
            after = None if text is None else text.encode()
        changes.append(build_change(path, before, after))
    folders = sorted(map(Path, entry.get("folders", ())), reverse=True)
    return [one for one in changes if one], folders, {**entry, "files": rest} if rest else {}


def plan_record_removal(host: str, home: Path, entry: Mapping[str, Any]) -> list[FileChange]:
    """Return the changes that remove what an agent itself recorded about our files: their trust, or their folder."""
    places = [Path(name) for name in entry.get("files", {})]
    goose = locate(home, ".config/goose/config.yaml")
    paths = {"codex": [place.parent / "config.toml" for place in places], "goose": [goose]}
    keys = {key for place in places for key in list_codex_keys(place)} if host == "codex" else set()
    changes = []
    for path in map(resolve_link, paths.get(host, ())):
        text = read_settings_text(path)
        if host == "codex":
            after = strip_toml(text, lambda values: bool(states := list_states(values)) and states.keys() <= keys)
        else:
            # A key is quoted if it has certain characters.
            folder = r"[\"']?\S.*[\\/]\.agents[\\/]plugins[\\/]claude-smart[\"']?"
            after = re.sub(rf"(?m)^  {folder}:\n(?:    .*(?:\n|$))+", "", text)
            after = re.sub(r"(?m)^plugins:\n(?! )", "", after) if after != text else text
        changes.append(build_change(path, text.encode(), after.encode()))
    return [one for one in changes if one]


def list_states(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what Codex recorded about hooks in its settings, by their keys."""
    hooks = settings.get("hooks")
    return hooks.get("state", {}) if isinstance(hooks, dict) else {}


def list_codex_keys(path: Path) -> dict[str, str]:
    """Return the keys under which Codex records its trust in our hooks, each with the digest of what is trusted."""
    keys, values = {}, load_json(read_settings_text(path))
    for _, event, place, _, number in (one for one in find_own_hooks(values) if len(one) == 5):
        name, group = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event).lower(), values["hooks"][event][place]
        handler = {"async": False, "timeout": 600, **group["hooks"][number]}
        identity = {"event_name": name, **group, "hooks": [handler]}
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        keys[f"{path}:{name}:{place}:{number}"] = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return keys


def find_target(path: Path) -> Path:
    """Return the file to write: the target of a link. A link to our own file in a repository is not followed."""
    return path if path.name == RULES_FILE else resolve_link(path)


def restore_text(form: str, text: str, record: Mapping[str, Any]) -> str | None:
    """Return a settings file without what an installation wrote; None if there was none before."""
    for new, old in reversed(record.get("edits", ())):
        if text.count(new) == 1:
            start, _, rest = text.partition(new)
            # The last line had no line break before the installation, and lines were added since.
            is_joined = form != "json" and rest and new.endswith("\n") and not f"\n{start}{old}".endswith("\n")
            text = start + old + ("\n" if is_joined else "") + rest
    if is_ours(FORMS[form].load(text)):
        text = FORMS[form].strip(text)
        if is_ours(FORMS[form].load(text)):
            raise ConfigError("our entry cannot be removed safely; remove it yourself. Nothing was changed")
    return None if record.get("created") and text.strip() in ("", "{}") else text


def build_change(path: Path, before: bytes | None, after: bytes | None) -> FileChange:
    """Return the change of a file. Raise ConfigError if its owner has made it read-only."""
    if before not in (None, after) and not path.stat().st_mode & 0o200:
        raise ConfigError(f"{path} is read-only; make it writable, and run this again. Nothing was changed")
    return FileChange(path, before, after)


@contextmanager
def name_file(path: Path) -> Iterator[None]:
    """Put the path in front of the message of an error."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
