"""The configuration file: read, expanded and checked. Unknown settings are errors that list the valid ones.

The fields of `Config`, and of the dataclasses in it, are the keys of the file.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from . import trust_register
from .engine.context import Settings, UpkeepSettings, Weights
from .errors import ConfigError, UntrustedConfigError, ValidationError, unknown
from .text import map_texts
from .types.asking import BudgetLimits, ModelSettings, Prices
from .types.events import WebhookSettings
from .types.kinds import EVERYWHERE
from .types.query import MemoryScope, Scopes, Team
from .types.storage import CacheSettings, EncryptionSettings, RetrySettings

T = TypeVar("T")

DEFAULT_PATH = Path(".alma") / "config.yaml"

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]{0,1000}))?\}")
_BRACKET = re.compile(rb"[\[\]{}]")
_LARGEST = 1_000_000
_LARGEST_WITHOUT_TRUST = 64_000
_DEEPEST = 32
"""Maximum nesting; the settings need five levels."""
_WITH_TRUST = (
    *("storage_options", "vectors", "vector_options", "read_only", "cache", "retry", "encryption"),
    *("embedding", "model", "teams", "webhooks", "upkeep"),
)
_VALUES_WITHOUT_TRUST = {
    "storage": ("sqlite", "file"),
    "embedding_provider": ("auto", "local", "hash", "mock", "none"),
}
_STORE_NAME_WITHOUT_TRUST = (".db", ".sqlite", ".json", ".jsonl")
_OPTIONS = ("storage_options", "vector_options", "embedding")
_LEARNING = ("min_occurrences_for_heuristic", "min_failures_for_anti_pattern", "share_between_users")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The content of a configuration file."""

    project_id: str
    storage: str = "sqlite"
    storage_dir: Path = Path(".alma")
    db_name: str = "alma.db"
    storage_options: Mapping[str, object] = field(default_factory=dict)
    vectors: str = ""  # A vector database for the vectors of the records; empty: they are in the store.
    vector_options: Mapping[str, object] = field(default_factory=dict)
    read_only: bool = False
    cache: CacheSettings | None = None
    retry: RetrySettings | None = None
    encryption: EncryptionSettings | None = None
    embedding_provider: str = "auto"
    embedding_dim: int | None = None
    embedding: Mapping[str, object] = field(default_factory=dict)
    model: ModelSettings = field(default_factory=ModelSettings)
    webhooks: tuple[WebhookSettings, ...] = ()
    agents: tuple[MemoryScope, ...] = ()
    teams: tuple[Team, ...] = ()
    default_agent: str | None = None  # The default of --agent on the command line.
    settings: Settings = field(default_factory=Settings)

    @property
    def path(self) -> Path:
        """The path of the store."""
        return self.storage_dir / self.db_name


def load(path: str | os.PathLike[str]) -> Config:
    """Load a YAML file that the user named. It may use every setting and environment variables."""
    file = Path(path)
    with _naming(file):
        return _build_config(expand(_parse_yaml(_read_file(file)), os.environ), file)


def load_found(path: str | os.PathLike[str], check_storage: Callable[[str], None] | None = None) -> Config:
    """Load the `.alma/config.yaml` of a folder that the user did not name explicitly.

    Unless the user trusts the folder with this content, raise UntrustedConfigError for settings that reach outside the
    folder. `check_storage` raises ConfigError for stores that do not exist, before the user is asked to trust them.
    """
    file = Path(path)
    content, folder = _read_file(file), file.parent.parent
    with _naming(file):
        if trust_register.is_trusted(folder, content):
            return _build_config(expand(_parse_yaml(content), os.environ), file)
        top = _parse_yaml(content, is_trusted=False)
        storage = top.get("storage")
        if check_storage is not None and isinstance(storage, str) and not _VARIABLE.search(storage):
            check_storage(storage)
        if restricted := _find_restricted_settings(top, file):
            raise UntrustedConfigError(
                f"the folder of this configuration is not trusted, so it may not set {', '.join(restricted)}. "
                f"Read the file; if you trust it, run: alma trust {shlex.quote(str(folder))}"
            )
        return _build_config(top, file)


def list_restricted_settings(path: str | os.PathLike[str]) -> list[str]:
    """Return the settings of a file that need a trusted folder or an explicit --config."""
    file = Path(path)
    with _naming(file):
        return _find_restricted_settings(_parse_yaml(_read_file(file)), file)


def _find_restricted_settings(top: Mapping[str, Any], file: Path) -> list[str]:
    folder = Path(os.path.realpath(file.parent.parent))
    restricted = [key for key in _WITH_TRUST if top.get(key)]
    if isinstance(learning := top.get("learning"), Mapping) and learning.get("share_between_users"):
        restricted.append("learning.share_between_users")
    restricted += dict.fromkeys(f"${{{variable[1]}}}" for variable in _VARIABLE.finditer(repr(top)))
    for key, valid in _VALUES_WITHOUT_TRUST.items():
        if top.get(key, valid[0]) not in valid:
            restricted.append(f"{key}: {top[key]!r} (allowed without trust: {', '.join(valid)})")
    own = folder / DEFAULT_PATH.parent
    if os.path.realpath(file) != str(folder / DEFAULT_PATH):
        restricted.append("settings of another folder (the file is a symbolic link)")
    db_name = str(top.get("db_name", "alma.db"))
    store = _under(folder, str(top.get("storage_dir", ".alma"))) / db_name
    if not Path(os.path.realpath(store.parent)).is_relative_to(own):
        restricted.append(f"a store outside {own} ({store})")
    elif db_name.startswith(".") or not db_name.endswith(_STORE_NAME_WITHOUT_TRUST):
        endings = ", ".join(_STORE_NAME_WITHOUT_TRUST)
        restricted.append(
            f"db_name: {db_name!r} (allowed without trust: names that end in {endings} and do not start with a dot)"
        )
    elif any(Path(f"{store}{suffix}").is_symlink() for suffix in ("", "-wal", "-shm", "-journal")):
        restricted.append(f"a store whose files are symbolic links ({store})")
    return restricted


# -- reading the file


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Prefix errors with the name of the file."""
    try:
        yield
    except (ConfigError, ValidationError) as error:
        kind = UntrustedConfigError if isinstance(error, UntrustedConfigError) else ConfigError
        raise kind(f"{file}: {error}") from error


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise ConfigError("no configuration file here; check the path, or create one with `alma init`") from None
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {file}: {error}") from error


def _parse_yaml(content: bytes, *, is_trusted: bool = True) -> dict[str, Any]:
    """Return the settings, whether they are under `alma` or at the top level; `agents` may be beside `alma`.

    Aliases are refused in an untrusted file, because a few lines can expand to millions of values.
    """
    most = _LARGEST if is_trusted else _LARGEST_WITHOUT_TRUST
    if len(content) > most:
        raise ConfigError(f"a configuration may have at most {most:,} bytes, not {len(content):,}")
    _refuse_depth(content)
    data = load_yaml(content, may_alias=is_trusted) or {}
    valid = [*(one.name for one in fields(Config) if one.name != "settings"), "retrieval", "learning", "upkeep"]
    if not isinstance(data, Mapping) or "alma" not in data:
        return _read_section("alma", data, valid)
    for key in data:
        if key not in ("alma", "agents"):
            hint = unknown("key at the top", key, ("alma", "agents"))
            raise ConfigError(f"{hint} Put other keys under `alma`.")
    top = _read_section("alma", data["alma"], valid)
    if "agents" in data and top.setdefault("agents", data["agents"]) != data["agents"]:
        raise ConfigError("`agents` is set at the top level and under `alma`, with different content; keep one")
    return top


def load_yaml(content: bytes, *, may_alias: bool = True) -> Any:
    """Parse YAML. Raise ConfigError if it is invalid."""
    import yaml

    try:
        text = content.decode("utf-8")
        if not may_alias and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise UntrustedConfigError("YAML aliases (`*name`) are not allowed in an untrusted file")
        return yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        if mark is None:
            raise ConfigError(f"not valid YAML: {error}") from error
        reason = getattr(error, "problem", None) or "cannot be parsed"
        raise ConfigError(f"not valid YAML (line {mark.line + 1}, column {mark.column + 1}): {reason}") from error


def _refuse_depth(content: bytes) -> None:
    """Raise ConfigError for deep nesting, because parsing time grows with the square of the depth.

    This is an estimate: unclosed brackets in texts and comments count too.
    """
    brackets, indents = 0, [0]
    for line in content.splitlines():
        inner = line.lstrip(b" -?")
        marks = line[: len(line) - len(inner)]
        if inner:
            indents = [one for one in indents if one < len(marks)] + [len(marks)]
        levels = len(indents) + marks.count(b"- ") + marks.count(b"? ")
        for sign in [b"", *_BRACKET.findall(inner)]:
            brackets = max(brackets + (0 if not sign else 1 if sign in b"[{" else -1), 0)
            if levels + brackets > _DEEPEST:
                raise ConfigError(f"a configuration may be nested at most {_DEEPEST} levels deep")


def expand(value: Any, environment: Mapping[str, str]) -> Any:
    """Replace `${NAME}` and `${NAME:-default}` in texts by environment variables."""

    def read_variable(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        text = environment.get(name, default)
        if text is None:
            raise ConfigError(f"environment variable {name} is not set; set it, or write ${{{name}:-default}}")
        return str(text)

    return map_texts(value, partial(_VARIABLE.sub, read_variable), has_names=False)


# -- building the settings


def _build_config(top: Mapping[str, Any], file: Path) -> Config:
    if top.get("project_id") is None:
        raise ConfigError("project_id is missing; add the name of the project")
    if str(top["project_id"]).strip() == EVERYWHERE:
        raise ConfigError(f"project_id cannot be {EVERYWHERE!r}, which means all projects; name a single project")
    # Relative paths start at the project: the folder of the configuration, or the parent of its `.alma` folder.
    folder = file.resolve().parent
    base = folder.parent if folder.name == ".alma" else folder
    retrieval = _read_section(
        "retrieval", top.get("retrieval"), [one for one in Settings.__slots__ if one not in (*_LEARNING, "upkeep")]
    )
    weights = Weights(**_read_section("retrieval.weights", retrieval.pop("weights", None), Weights.__slots__))
    learning = _read_section("learning", top.get("learning"), _LEARNING)
    upkeep = UpkeepSettings(**_read_section("upkeep", top.get("upkeep"), UpkeepSettings.__slots__))
    declared, agents = top.get("agents"), {}
    _check("agents", "Mapping[str, object]", {} if declared is None else declared)
    for name, settings in (declared or {}).items():
        own = {"domain": "general"} | _read_section(f"agents.{name}", settings, MemoryScope.__slots__[1:])
        agents[name] = _build(MemoryScope, f"agents.{name}.", own, agent_name=_check("agent name", "str", name))
    for heir, owner in Scopes(agents).unanswered():
        raise ConfigError(
            f"agents.{heir} inherits from {owner!r}, which does not share with it: add {heir!r} to "
            f"agents.{owner}.share_with, or remove {owner!r} from agents.{heir}.inherit_from"
        )
    if Path(db_name := str(top.get("db_name", ""))).name != db_name:
        raise ConfigError(
            f"db_name must be a file name without folders, not {db_name!r}; set the folder in storage_dir"
        )
    if not isinstance(webhooks := top.get("webhooks") or [], list):
        raise ConfigError("webhooks must be a list, each item with `url` and `secret_env`")
    receivers = tuple(
        WebhookSettings(**_read_section(f"webhooks[{number}]", item, WebhookSettings.__slots__))
        for number, item in enumerate(webhooks)
    )
    if len({one.id for one in receivers}) < len(receivers):
        raise ConfigError("two webhooks have the same url; join them, with the events of both")
    return _build(
        Config,
        "",
        {name: value for name, value in top.items() if name not in ("retrieval", "learning", "upkeep")},
        storage_dir=_under(base, _check("storage_dir", "str", top.get("storage_dir", ".alma"))),
        read_only=_check_switch("read_only", top.get("read_only")),
        cache=_build_wrapper(CacheSettings, "cache", top.get("cache")),
        retry=_build_wrapper(RetrySettings, "retry", top.get("retry")),
        encryption=_build_encryption(top.get("encryption"), base),
        **{name: _build_options(name, top.get(name), base) for name in _OPTIONS},
        model=_build_model(top.get("model"), base),
        webhooks=receivers,
        agents=tuple(agents.values()),
        teams=_build_teams(top.get("teams")),
        settings=Settings(weights=weights, upkeep=upkeep, **retrieval, **learning),
    )


def _build_teams(data: Any) -> tuple[Team, ...]:
    teams = []
    for name, settings in _check("teams", "Mapping[str, object]", {} if data is None else data).items():
        label = f"teams.{name}"
        own = _read_section(label, settings, Team.__slots__[1:])
        roles = _check(f"{label}.users", "Mapping[str, object]", own.get("users") or {})
        users = {user: _check(f"{label}.users.{user}", "str", role) if role else "" for user, role in roles.items()}
        agents = _check(f"{label}.agents", "tuple[str, ...]", own.get("agents") or [])
        teams.append(Team(_check("team name", "str", name), agents, users))
    return tuple(teams)


def _build_options(name: str, data: Any, base: Path) -> dict[str, object]:
    """Return the options of a store or an embedder. A relative `path` starts at the project."""
    options: dict[str, object] = _check(name, "Mapping[str, object]", {} if data is None else data)
    if isinstance(path := options.get("path"), str) and path.strip() not in ("", ":memory:"):
        options["path"] = str(_under(base, path.strip()))
    return options


def _build_wrapper(kind: Callable[..., T], name: str, data: Any) -> T | None:
    """Return the settings of a wrapper: `true` for the defaults, or a section; None if it is not used."""
    if data is None or data is False:
        return None
    valid = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    return kind(**_read_section(name, {} if data is True else data, valid))


def _check_switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool | None):
        raise ConfigError(f"{name} must be true or false, not {value!r}")
    return bool(value)


def _build_encryption(data: Any, base: Path) -> EncryptionSettings | None:
    if data is None or data is False:
        return None
    if not isinstance(data, Mapping) or "key" in data:
        # The value is not quoted, because it may be the key.
        raise ConfigError(
            "encryption: keys do not belong in the configuration; name an environment variable in `key_env` or a file "
            "in `key_file`"
        )
    values = _read_section("encryption", data, EncryptionSettings.__slots__)
    checked = {name: _check(f"encryption.{name}", "str", value) for name, value in values.items()}
    if "key_file" in checked:
        checked["key_file"] = _under(base, checked["key_file"])
    return EncryptionSettings(**checked)


def _build_model(data: Any, base: Path) -> ModelSettings:
    if isinstance(data, Mapping) and "api_key" in data:
        # The value is not quoted, because it is the key.
        raise ConfigError(
            "model.api_key: keys do not belong in the configuration; name an environment variable in `api_key_env`"
        )
    values = _read_section("model", data, ModelSettings.__slots__)
    values["budget"] = BudgetLimits(**_read_section("model.budget", values.get("budget"), BudgetLimits.__slots__))
    if values.get("prices") is not None:
        names = Prices.__slots__
        prices = _read_section("model.prices", values["prices"], names)
        if len(prices) < len(names):
            raise ConfigError(f"model.prices must set both {' and '.join(names)}, in US dollars per million tokens")
        values["prices"] = Prices(**prices)
    if values.get("log") is not None:
        values["log"] = _under(base, _check("model.log", "str", values["log"]))
    return ModelSettings(**values)


def _read_section(name: str, data: Any, valid: Sequence[str]) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise ConfigError(f"{name} must be a mapping with keys from: {', '.join(valid)}; not {data!r}")
    for key in data:
        if key not in valid:
            raise ConfigError(unknown(f"key in {name}", key, valid))
    return dict(data)


def _build(kind: Callable[..., T], prefix: str, values: Mapping[str, Any], **parts: Any) -> T:
    """Return a dataclass from checked values. `parts` are fields that are already built."""
    types = {one.name: str(one.type) for one in fields(kind) if one.name in values}  # type: ignore[arg-type]
    checked = {
        name: _check(f"{prefix}{name}", kind, values[name])
        for name, kind in types.items()
        if name not in parts and values[name] is not None
    }
    return kind(**checked, **parts)


def _check(label: str, kind: str, value: Any) -> Any:
    expected = "a non-empty text"
    if kind == "tuple[str, ...]":
        if isinstance(value, list):
            return tuple(_check(label, "str", one) for one in value)
        expected = "a list of names"
    elif kind == "int | None":
        if type(value) is int and value >= 1:
            return value
        expected = "a whole number of at least 1"
    elif kind == "Mapping[str, object]":
        if isinstance(value, Mapping):
            return {str(name): item for name, item in value.items()}
        expected = "a mapping"
    elif isinstance(value, str) and value.strip():
        return value.strip()
    raise ConfigError(f"{label} must be {expected}, not {value!r}")


def _under(base: Path, name: str) -> Path:
    path = Path(name).expanduser()
    return path if path.is_absolute() else base / path
