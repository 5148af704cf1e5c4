"""Prompts and answers of language models, and the section `model` of the settings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, unknown
from ..registries import Registry

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A request to a language model."""

    system: str  # What is to be done: our own words.
    text: str  # What it is to be done with. May come from anywhere; secrets are taken out before it leaves.
    schema: Mapping[str, Any]  # The shape of the answer, in the part of JSON Schema that `alma.models.client` knows.
    max_tokens: int = 2000  # Of the answer.
    version: str = ""  # Which wording of which question this is. A new wording makes recorded answers stale.


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's answer, and what it cost."""

    value: Any  # Fits the prompt's schema.
    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0  # In US dollars, as the provider counts it.
    seconds: float = 0.0
    metered: bool = True  # Whether the provider reported the usage; otherwise the reserved amount counts as spent.


# --- settings --------------------------------------------------------------------------------------

_HTTP = (
    "model", "base_url", "api_key_env", "allow_http", "structured", "prices",
    "timeout", "connect_timeout", "read_timeout", "retries",
)  # fmt: skip
_PROGRAM = ("model", "path", "timeout", "prices")
READERS = ("codex", "copilot", "gemini", "goose", "opencode", "qwen")
"""The coding agents besides Claude Code whose program can be asked; `alma.models.readers` says how."""
# The built-in providers with the settings that mean something to them.
PROVIDERS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "claude-cli": _PROGRAM,
    "anthropic": _HTTP,
    "openai": _HTTP,
    "azure": (*_HTTP, "api_version"),
    "litellm": ("model", "base_url", "api_key_env", "allow_http", "structured", "prices", "timeout", "retries"),
    "recorded": ("path", "dump"),
    **{f"{name}-cli": _PROGRAM for name in READERS},
}
_PROGRAMS = ("claude-cli", *(f"{name}-cli" for name in READERS))
MODELS = Registry(
    "alma.models",
    "model",
    {
        "none": "alma.models.registry:connect_nothing",
        "anthropic": "alma.models.services:Anthropic",
        "openai": "alma.models.services:OpenAI",
        "azure": "alma.models.services:Azure",
        "litellm": "alma.models.services:LiteLLM",
        "recorded": "alma.models.registry:connect_recorded",
        **dict.fromkeys(_PROGRAMS, "alma.models.registry:connect_program"),
    },
)
STRUCTURED = ("auto", "json_schema", "tool", "json_object", "text")
LONGEST_TIMEOUT = 3600.0
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """The limits of a daily budget; None means no limit."""

    calls: int | None = 100
    tokens: int | None = None
    cost: float | None = None  # In US dollars.
    # What one question may take at most where no prices are known; set aside while it is asked.
    cost_of_a_call: float = 0.05

    def __post_init__(self) -> None:
        for name in ("calls", "tokens"):
            value = getattr(self, name)
            if value is not None and not _is_whole(value):
                raise ConfigError(
                    f"budget.{name} must be a whole number of 0 or more, or null for no limit, not {value!r}"
                )
        for name in ("cost", "cost_of_a_call"):
            value = getattr(self, name)
            if not (_is_number(value) and value >= 0) and not (value is None and name == "cost"):
                raise ConfigError(f"budget.{name} must be an amount in US dollars of 0 or more, not {value!r}")


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million tokens."""

    input: float
    output: float

    def __post_init__(self) -> None:
        for name in ("input", "output"):
            value = getattr(self, name)
            if not (_is_number(value) and value >= 0):
                raise ConfigError(f"prices.{name} must be the price of a million tokens in US dollars, not {value!r}")

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of a call in US dollars."""
        return (tokens_in * self.input + tokens_out * self.output) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The section `model` of the configuration. None stands for the provider's default."""

    provider: str = "none"
    model: str | None = None
    base_url: str | None = None
    # The name of the environment variable that holds the key. The key itself is nowhere but there.
    api_key_env: str | None = None
    api_version: str | None = None
    path: str | None = None
    dump: str | None = None  # For `recorded`: the file that prompts without an answer are written to.
    timeout: float | None = None
    connect_timeout: float | None = None
    read_timeout: float | None = None
    retries: int | None = None
    structured: str = "auto"
    repair: bool = True
    allow_http: bool = False
    prices: Prices | None = None
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    log: Path | None = None

    def __post_init__(self) -> None:
        is_built_in = MODELS.find(self.provider).is_built_in
        for name in ("model", "base_url", "api_version", "path", "dump"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value.strip() or value.startswith("-")):
                raise ConfigError(f"the model's `{name}` must be a name, not {value!r}")
        for name in ("timeout", "connect_timeout", "read_timeout"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 < value <= LONGEST_TIMEOUT):
                raise ConfigError(
                    f"the model's `{name}` must be a number of seconds up to {LONGEST_TIMEOUT:g}, not {value!r}"
                )
        for name in ("repair", "allow_http"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"the model's `{name}` must be true or false, not {getattr(self, name)!r}")
        if self.retries is not None and not (_is_whole(self.retries) and self.retries <= 10):
            raise ConfigError(f"the model's `retries` must be a whole number from 0 to 10, not {self.retries!r}")
        if self.structured not in STRUCTURED:
            raise ConfigError(unknown("value of the model's `structured`", self.structured, STRUCTURED))
        variable = self.api_key_env
        # Not quoted: it may be the key itself, written here by mistake.
        if variable is not None and not (isinstance(variable, str) and _VARIABLE.fullmatch(variable)):
            raise ConfigError(
                "the model's `api_key_env` must be the name of an environment variable such as MY_API_KEY"
            )
        if not is_built_in:
            return  # Its package says what it needs.
        optional = {name for names in PROVIDERS.values() for name in names}
        for name in sorted(optional - set(PROVIDERS[self.provider])):
            if getattr(self, name) not in (None, False, "auto"):
                raise ConfigError(describe_unfit_option(self.provider, name))
        needs_model = self.provider not in ("none", "recorded") and not self.provider.endswith("-cli")
        if needs_model and not self.model:
            raise ConfigError(f"the model's `model` is missing; set it to the name of a model of {self.provider}")
        if needs_model and self.budget.cost is not None and self.prices is None:
            raise ConfigError("a budget of `cost` needs the model's `prices`, such as {input: 1.0, output: 5.0}")


def describe_unfit_option(provider: str, option: str) -> str:
    """Return the error message for an option that a provider does not have."""
    valid = PROVIDERS[provider]
    if not valid:
        return f"the model {provider!r} takes no options, so remove {option!r}"
    return unknown(f"option of the model {provider!r}", option, valid)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
