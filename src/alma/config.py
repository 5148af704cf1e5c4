"""The configuration file: read, expanded and checked. Whatever it does not know is an error that lists what it does."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import trust_register
from .engine.settings import Settings, Weights
from .errors import ConfigError, UntrustedConfigError, ValidationError, unknown
from .types.asking import Limits, ModelSettings, Prices
from .types.scope import MemoryScope, Scopes

DEFAULT_PATH = Path(".alma") / "config.yaml"

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]{0,1000}))?\}")
_BRACKET = re.compile(rb"[\[\]{}]")
_AGENT = ("domain", "can_learn", "cannot_learn", "share_with", "inherit_from", "min_occurrences_for_heuristic")
_RETRIEVAL = ("weights", "recency_half_life_days", "max_preferences", "keep_retrievals")
_LEARNING = ("min_occurrences_for_heuristic", "min_failures_for_anti_pattern", "share_between_users")
_TOP = (
    "project_id", "storage", "storage_dir", "db_name", "storage_options",
    "embedding_provider", "embedding_dim", "embedding", "model", "agents", "default_agent", "retrieval", "learning",
)  # fmt: skip
_STORE_DEFAULTS = {"storage_dir": ".alma", "db_name": "alma.db"}
_BESIDE_ALMA = ("agents",)
"""What may be at the top of the file, beside the key `alma`."""
_WITHOUT_TRUST = (
    "project_id", "storage", "storage_dir", "db_name", "embedding_provider", "embedding_dim",
    "agents", "default_agent", "retrieval", "learning",
)  # fmt: skip
_STORAGE_WITHOUT_TRUST = ("sqlite", "file")
_STORE_NAME_WITHOUT_TRUST = (".db", ".sqlite", ".json", ".jsonl")
_LARGEST = 1_000_000
_LARGEST_WITHOUT_TRUST = 64_000
_DEEPEST = 32
"""So many levels; the settings need five."""
_EMBEDDING_WITHOUT_TRUST = ("auto", "local", "hash", "mock", "none")
_MODEL = tuple(ModelSettings.__slots__)
_BUDGET = tuple(Limits.__slots__)
_PRICES = tuple(Prices.__slots__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    project_id: str
    storage: str = "sqlite"
    storage_dir: Path = Path(".alma")
    db_name: str = "alma.db"
    storage_options: Mapping[str, object] = field(default_factory=dict)
    embedding_provider: str = "auto"
    embedding_dim: int | None = None
    embedding: Mapping[str, object] = field(default_factory=dict)
    model: ModelSettings = field(default_factory=ModelSettings)
    agents: tuple[MemoryScope, ...] = ()
    default_agent: str | None = None
    """Who is meant on the command line when nobody is named."""
    settings: Settings = field(default_factory=Settings)

    @property
    def path(self) -> Path:
        return self.storage_dir / self.db_name


def load(path: str | os.PathLike[str]) -> Config:
    """Load a YAML file that the user named: it may set everything and read the environment."""
    file = Path(path)
    with _naming(file):
        top = _gather_top(_parse_yaml(_read_file(file)))
        return _config(expand(top, os.environ), _base(file))


def load_found(path: str | os.PathLike[str]) -> Config:
    """Load the `.alma/config.yaml` of a folder in which nobody named it.

    Unless the user trusts the folder with this content, the file may only set what stays inside the folder: anything
    else is an UntrustedConfigError.
    """
    file = Path(path)
    content = _read_file(file)
    folder = file.parent.parent
    with _naming(file):
        if trust_register.is_trusted(folder, content):
            return _config(expand(_gather_top(_parse_yaml(content)), os.environ), _base(file))
        _refuse_size(content, _LARGEST_WITHOUT_TRUST)
        top = _gather_top(_parse_yaml(content, aliases=False))
        restricted = _find_restricted_settings(top, file)
        if restricted:
            raise UntrustedConfigError(
                f"its folder is not trusted with this content, so it may not set {', '.join(restricted)}. "
                f"Read it; if you trust it, run: alma trust {shlex.quote(str(folder))}"
            )
        return _config(top, _base(file))


def list_restricted_settings(path: str | os.PathLike[str]) -> list[str]:
    """Return what a configuration sets that it may set only in a trusted folder, or when the user names it."""
    file = Path(path)
    with _naming(file):
        return _find_restricted_settings(_gather_top(_parse_yaml(_read_file(file))), file)


def _find_restricted_settings(top: Mapping[str, Any], file: Path) -> list[str]:
    folder = Path(os.path.realpath(file.parent.parent))
    restricted = [key for key in _TOP if key not in _WITHOUT_TRUST and top.get(key)]
    if isinstance(learning := top.get("learning"), Mapping) and learning.get("share_between_users"):
        restricted.append("learning.share_between_users")
    restricted += [f"${{{name}}}" for name in dict.fromkeys(_find_variables(top))]
    for key, valid in (("storage", _STORAGE_WITHOUT_TRUST), ("embedding_provider", _EMBEDDING_WITHOUT_TRUST)):
        if top.get(key, valid[0]) not in valid:
            restricted.append(f"{key}: {top[key]!r} (without trust: {', '.join(valid)})")
    if os.path.realpath(file) != str(folder / DEFAULT_PATH):
        restricted.append("settings of another folder, to which it is a symbolic link")
    storage_dir, db_name = (str(top.get(key, default)) for key, default in _STORE_DEFAULTS.items())
    store = _under(folder, storage_dir) / db_name
    if not Path(os.path.realpath(store.parent)).is_relative_to(folder / DEFAULT_PATH.parent):
        restricted.append(f"a store outside {folder / DEFAULT_PATH.parent} ({store})")
    elif db_name.startswith(".") or not db_name.endswith(_STORE_NAME_WITHOUT_TRUST):
        endings = ", ".join(_STORE_NAME_WITHOUT_TRUST)
        restricted.append(f"db_name: {db_name!r} (without trust: it ends in {endings} and does not begin with a dot)")
    elif any(Path(f"{store}{suffix}").is_symlink() for suffix in ("", "-wal", "-shm", "-journal")):
        restricted.append(f"a store whose files are symbolic links ({store})")
    return restricted


def _find_variables(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from (variable[1] for variable in _VARIABLE.finditer(value))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _find_variables(name)
            yield from _find_variables(item)
    elif isinstance(value, list):
        for item in value:
            yield from _find_variables(item)


def _base(file: Path) -> Path:
    """Relative folders start where the project is: beside the configuration, or above the `.alma` folder it lies in."""
    folder = file.resolve().parent
    return folder.parent if folder.name == ".alma" else folder


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Name the file in what is wrong with it."""
    try:
        yield
    except (ConfigError, ValidationError) as error:
        kind = UntrustedConfigError if isinstance(error, UntrustedConfigError) else ConfigError
        raise kind(f"{file}: {error}") from error


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration file {file}; `alma init` writes one") from None
    except OSError as error:
        raise ConfigError(f"the configuration file {file} cannot be read: {error}") from error


def _parse_yaml(content: bytes, *, aliases: bool = True) -> Any:
    """Without aliases, a few lines cannot stand for millions of values."""
    import yaml

    _refuse_size(content, _LARGEST)
    _refuse_depth(content)
    try:
        text = content.decode("utf-8")
        if not aliases and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise UntrustedConfigError("aliases (`*name`) are not read from a file that is not trusted")
        return yaml.safe_load(text) or {}
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"not valid YAML: {error}") from error


def _refuse_size(content: bytes, most: int) -> None:
    if len(content) > most:
        raise ConfigError(f"a configuration has at most {most:,} bytes, and this one has {len(content):,}")


def _refuse_depth(content: bytes) -> None:
    """Raise ConfigError for what is nested deep: the time to parse it grows with the square of the depth.

    An estimate: brackets in texts and comments count as well, as long as they are not closed.
    """
    brackets, indents = 0, [0]
    for line in content.splitlines():
        inner = line.lstrip(b" -?")
        marks = line[: len(line) - len(inner)]
        if inner:
            indents = [one for one in indents if one < len(marks)] + [len(marks)]
        levels = len(indents) + marks.count(b"- ") + marks.count(b"? ")
        for sign in _BRACKET.findall(inner):
            brackets = max(brackets + (1 if sign in b"[{" else -1), 0)
            if levels + brackets > _DEEPEST:
                break
        if levels + brackets > _DEEPEST:
            raise ConfigError(f"a configuration is nested at most {_DEEPEST} levels deep, and this one is deeper")


def _gather_top(data: Any) -> dict[str, Any]:
    """The keys of the file, whether they are under `alma` or at the top; `agents` may be beside `alma`."""
    if not isinstance(data, Mapping) or "alma" not in data:
        return _section("alma", data, _TOP)
    for key in data:
        if key != "alma" and key not in _BESIDE_ALMA:
            valid = ("alma", *_BESIDE_ALMA)
            raise ConfigError(f"{unknown('key at the top', key, valid)} Other keys belong under `alma`.")
    top = _section("alma", data["alma"], _TOP)
    for key in _BESIDE_ALMA:
        if key in data and top.setdefault(key, data[key]) != data[key]:
            raise ConfigError(f"`{key}` is at the top of the file and under `alma`, with different content; keep one")
    return top


def expand(value: Any, environment: Mapping[str, str]) -> Any:
    """Replace `${NAME}` and `${NAME:-default}` in texts by the environment's values."""

    def read_variable(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        text = environment.get(name, default)
        if text is None:
            raise ConfigError(f"the environment variable {name} is not set; set it or write ${{{name}:-default}}")
        return str(text)

    if isinstance(value, str):
        return _VARIABLE.sub(read_variable, value)
    if isinstance(value, dict):
        return {name: expand(item, environment) for name, item in value.items()}
    if isinstance(value, list):
        return [expand(item, environment) for item in value]
    return value


def _config(top: Mapping[str, Any], base: Path) -> Config:
    if "project_id" not in top:
        raise ConfigError("project_id is missing; it names the project whose memory this is")
    retrieval = _section("retrieval", top.get("retrieval"), _RETRIEVAL)
    learning = _section("learning", top.get("learning"), _LEARNING)
    weights = _section("retrieval.weights", retrieval.pop("weights", None), tuple(Weights.__slots__))
    plain = {name: _CHECKS[name](name, value) for name, value in top.items() if name in _CHECKS}
    folder = _under(base, plain.pop("storage_dir", _STORE_DEFAULTS["storage_dir"]))
    return Config(
        **plain,
        storage_dir=folder,
        model=_model(top.get("model"), base),
        agents=_agents(top.get("agents")),
        settings=Settings(weights=Weights(**weights), **retrieval, **learning),
    )


def _model(data: Any, base: Path) -> ModelSettings:
    if isinstance(data, Mapping) and "api_key" in data:
        # Not quoted: it is the key.
        raise ConfigError("model.api_key: a key is never in the configuration; name its variable in `api_key_env`")
    given = _section("model", data, _MODEL)
    if given.get("prices") is not None:
        prices = _section("model.prices", given["prices"], _PRICES)
        if len(prices) < len(_PRICES):
            raise ConfigError(f"model.prices must name both {' and '.join(_PRICES)}, in US dollars a million tokens")
        given["prices"] = Prices(**prices)
    if given.get("log") is not None:
        given["log"] = _under(base, _text("model.log", given["log"]))
    return ModelSettings(**{**given, "budget": Limits(**_section("model.budget", given.get("budget"), _BUDGET))})


def _under(base: Path, name: str) -> Path:
    path = Path(name).expanduser()
    return path if path.is_absolute() else base / path


def _section(name: str, data: Any, valid: tuple[str, ...]) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise ConfigError(f"{name} must be a mapping with some of: {', '.join(valid)}; not {data!r}")
    for key in data:
        if key not in valid:
            raise ConfigError(unknown(f"key in {name}", key, valid))
    return dict(data)


def _agents(data: Any) -> tuple[MemoryScope, ...]:
    if data is None:
        return ()
    if not isinstance(data, Mapping):
        raise ConfigError(f"agents must be a mapping from agent names to their settings, not {data!r}")
    agents = tuple(_agent(_text("agent name", name), settings) for name, settings in data.items())
    for heir, owner in Scopes({scope.agent_name: scope for scope in agents}).unanswered():
        raise ConfigError(
            f"agents.{heir} inherits from {owner!r}, which does not share with it: add {heir!r} to "
            f"agents.{owner}.share_with, or remove {owner!r} from agents.{heir}.inherit_from"
        )
    return agents


def _agent(name: str, data: Any) -> MemoryScope:
    given = _section(f"agents.{name}", data, _AGENT)
    least = given.get("min_occurrences_for_heuristic")
    return MemoryScope(
        agent_name=name,
        domain=_text(f"agents.{name}.domain", given.get("domain") or "general"),
        min_occurrences_for_heuristic=None if least is None else _whole(f"agents.{name}.min_occurrences", least),
        **{part: _names(f"agents.{name}.{part}", given.get(part)) for part in _AGENT[1:5]},
    )


def _names(label: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ConfigError(f"{label} must be a list of names, not {value!r}")
    return tuple(_text(label, one) for one in value)


def _text(label: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{label} must be a non-empty text, not {value!r}")
    return value.strip()


def _file_name(label: str, value: Any) -> str:
    name = _text(label, value)
    if Path(name).name != name:
        raise ConfigError(f"{label} must be a file name without folders, not {value!r}; folders go to storage_dir")
    return name


def _whole(label: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{label} must be a whole number of at least 1, not {value!r}")
    return value


def _mapping(label: str, value: Any) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{label} must be a mapping, not {value!r}")
    return {str(name): item for name, item in value.items()}


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "project_id": _text,
    "storage": _text,
    "storage_dir": _text,
    "db_name": _file_name,
    "storage_options": _mapping,
    "embedding_provider": _text,
    "embedding_dim": _whole,
    "embedding": _mapping,
    "default_agent": _text,
}
