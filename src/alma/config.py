"""The configuration file: read, expanded and checked. Whatever it does not know is an error that lists what it does."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .engine.settings import Settings, Weights
from .errors import ConfigError, ValidationError, unknown
from .types.model import Limits, ModelSettings, Prices
from .types.scope import MemoryScope

DEFAULT_PATH = Path(".alma") / "config.yaml"

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]{0,1000}))?\}")
_AGENT = ("domain", "can_learn", "cannot_learn", "share_with", "inherit_from", "min_occurrences_for_heuristic")
_RETRIEVAL = ("weights", "recency_half_life_days", "max_preferences", "keep_retrievals")
_LEARNING = ("min_occurrences_for_heuristic", "min_failures_for_anti_pattern")
_TOP = (
    "project_id", "storage", "storage_dir", "db_name", "storage_options",
    "embedding_provider", "embedding_dim", "embedding", "model", "agents", "retrieval", "learning",
)  # fmt: skip
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
    settings: Settings = field(default_factory=Settings)

    @property
    def path(self) -> Path:
        return self.storage_dir / self.db_name


def load(path: str | os.PathLike[str]) -> Config:
    """The configuration in a YAML file, under its key `alma` or at the top."""
    file = Path(path)
    data = _read(file)
    try:
        return _config(data.get("alma", data) if isinstance(data, Mapping) else data, _base(file))
    except (ConfigError, ValidationError) as error:
        raise ConfigError(f"{file}: {error}") from error


def _base(file: Path) -> Path:
    """Relative folders start where the project is: beside the configuration, or above the `.alma` folder it lies in."""
    folder = file.resolve().parent
    return folder.parent if folder.name == ".alma" else folder


def _read(file: Path) -> Any:
    import yaml

    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration file {file}; `alma init` writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {file} cannot be read: {error}") from error
    try:
        return expand(yaml.safe_load(text) or {}, os.environ)
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def expand(value: Any, environment: Mapping[str, str]) -> Any:
    """`${NAME}` and `${NAME:-default}` in texts, from the environment."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(found, environment), value)
    if isinstance(value, dict):
        return {name: expand(item, environment) for name, item in value.items()}
    if isinstance(value, list):
        return [expand(item, environment) for item in value]
    return value


def _variable(found: re.Match[str], environment: Mapping[str, str]) -> str:
    name, default = found[1], found[2]
    held = environment.get(name, default)
    if held is None:
        raise ConfigError(f"the environment variable {name} is not set; set it or write ${{{name}:-default}}")
    return held


def _config(data: Any, base: Path) -> Config:
    top = _section("alma", data, _TOP)
    if "project_id" not in top:
        raise ConfigError("project_id is missing; it names the project whose memory this is")
    retrieval = _section("retrieval", top.get("retrieval"), _RETRIEVAL)
    learning = _section("learning", top.get("learning"), _LEARNING)
    weights = _section("retrieval.weights", retrieval.pop("weights", None), tuple(Weights.__slots__))
    plain = {name: _CHECKS[name](name, value) for name, value in top.items() if name in _CHECKS}
    folder = _under(base, plain.pop("storage_dir", ".alma"))
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
    return tuple(_agent(_text("agent name", name), settings) for name, settings in data.items())


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
}
