"""The services that are asked over the network: Anthropic, OpenAI, Azure, and LiteLLM for all others.

Anthropic's Messages API and OpenAI's chat completions are spoken by many other services too (Ollama, vLLM, llama.cpp,
LM Studio), which are named by `base_url`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from ..errors import (
    ConfigError,
    MissingExtraError,
    ModelError,
    ModelOutputError,
    ModelTimeoutError,
    ModelUnavailableError,
    unknown,
)
from ..types.asking import ModelSettings, Prompt
from .budget import NOTHING, Spent
from .client import (
    ANTHROPIC_TOKENS,
    Provider,
    TransientError,
    check_end,
    check_storable,
    quote_material,
    write_instructions,
)
from .schema import make_strict
from .transport import CONNECT_TIMEOUT, NOT_SERVED, TIMEOUT, Endpoint, RefusedError, check_url, post, read_key

# One of these words in a refusal means that the service does not know the way in which a shape was demanded.
_ABOUT_SHAPE = ("format", "schema", "json_object", "output_config", "structured", "strict", "grammar", "tool")
_TOOL = "answer"


class Service(Provider):
    """A service that is sent one request. Subclasses know its API."""

    package, extra = "httpx", "models"
    usual_url, path, key_variable = "", "", ""
    has_usual_key_elsewhere = False
    ways: ClassVar[tuple[str, ...]]
    """How a shape can be demanded, the best first."""
    ways_elsewhere: ClassVar[tuple[str, ...]] = ()
    """The same at another address than the usual one, where that differs."""

    def __init__(self, settings: ModelSettings, environ: Mapping[str, str]) -> None:
        kind, model, is_elsewhere = settings.provider, settings.model or "", settings.base_url is not None
        base = check_url(settings.base_url, allow_http=settings.allow_http) if settings.base_url else self.usual_url
        url = self.address(base, settings)
        # The usual key is for the usual address; another address gets only a key that was named for it.
        usual_variable = "" if is_elsewhere and not self.has_usual_key_elsewhere else self.key_variable
        variable = settings.api_key_env or usual_variable
        key = read_key(environ, variable)
        if importlib.util.find_spec(self.package) is None:
            raise MissingExtraError(self.package, self.extra, f"The model {kind!r}")
        ways = (self.ways_elsewhere if is_elsewhere else ()) or self.ways
        if settings.structured not in ("auto", *ways):
            raise ConfigError(unknown(f"value of `structured` for {kind}", settings.structured, ways))
        timeout = settings.timeout or TIMEOUT
        self.name = f"{kind}:{model}"
        self.label = kind
        self.prices = settings.prices
        self._endpoint = Endpoint(
            kind=kind,
            url=url,
            model=model,
            headers=self.headers(key),
            secret=key,
            key_from=variable if key else "",
            connect_timeout=settings.connect_timeout or CONNECT_TIMEOUT,
            read_timeout=settings.read_timeout or timeout,
            timeout=timeout,
        )
        self._ways = list(ways) if settings.structured == "auto" else [settings.structured]
        self._limits = ["max_tokens"]
        """How the API calls the most tokens of an answer; the first is used."""
        self._lock = threading.Lock()

    def send(self, prompt: Prompt) -> dict[str, Any]:
        way, limit = self.choose_way(prompt), self._limits[0]
        try:
            return post(self._endpoint, self.body(prompt, way, limit))
        except RefusedError as error:
            if self.can_ask_otherwise(error.reason.lower(), way, limit):
                raise TransientError(f"{error}; asked in another way", NOTHING, 0.0) from error
            raise

    def choose_way(self, prompt: Prompt) -> str:
        """Return how to demand the shape; one that the API cannot express is demanded in words only."""
        way = self._ways[0]
        return "text" if way in ("json_schema", "tool") and make_strict(prompt.schema) is None else way

    def can_ask_otherwise(self, reason: str, way: str, limit: str) -> bool:
        """Return whether there is an alternative to what was refused, and use it from now on."""
        is_about_limit = any(name in reason for name in self._limits)
        alternatives, refused = (self._limits, limit) if is_about_limit else (self._ways, way)
        with self._lock:
            if len(alternatives) < 2 or not (is_about_limit or any(word in reason for word in _ABOUT_SHAPE)):
                return False
            if alternatives[0] == refused:
                alternatives.pop(0)
            return True

    def address(self, base: str, settings: ModelSettings) -> str:
        return base + self.path

    def headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, prompt: Prompt, way: str, limit: str) -> dict[str, Any]:
        raise NotImplementedError


class Anthropic(Service):
    usual_url, path, key_variable = "https://api.anthropic.com", "/v1/messages", "ANTHROPIC_API_KEY"
    token_names = ANTHROPIC_TOKENS
    ways = ("json_schema", "tool", "text")
    # Other services that speak this API know tools; some ignore a JSON schema without an error.
    ways_elsewhere = ("tool", "json_schema", "text")

    def address(self, base: str, settings: ModelSettings) -> str:
        return base.removesuffix("/v1") + self.path

    def headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})

    def body(self, prompt: Prompt, way: str, limit: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            limit: prompt.max_tokens,
            "system": write_instructions(prompt),
            "messages": [{"role": "user", "content": quote_material(prompt)}],
        }
        if way == "json_schema":
            body["output_config"] = {"format": {"type": "json_schema", "schema": make_strict(prompt.schema)}}
        if way == "tool":
            tool = {"name": _TOOL, "description": "Give the answer.", "input_schema": make_strict(prompt.schema)}
            body |= {"tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}
        return body

    def read(self, reply: Mapping[str, Any]) -> Any:
        check_end(reply.get("stop_reason"), self.label)
        content = reply.get("content")
        if not isinstance(content, list):
            raise ModelOutputError(f"{self.label} answered without any content")
        blocks = [block for block in content if isinstance(block, dict)]
        for block in blocks:
            if block.get("type") == "tool_use" and block.get("name") == _TOOL:
                try:
                    check_storable(block.get("input"))
                except (ValueError, RecursionError) as error:
                    raise ModelOutputError("the model answered characters that are no text") from error
                return block.get("input")
        return "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")


class OpenAI(Service):
    usual_url, path, key_variable = "https://api.openai.com/v1", "/chat/completions", "OPENAI_API_KEY"
    token_names = ("prompt_tokens", "completion_tokens")
    ways = ("json_schema", "json_object", "text")

    def __init__(self, settings: ModelSettings, environ: Mapping[str, str]) -> None:
        super().__init__(settings, environ)
        is_like_openai = settings.provider == "openai" and not self._endpoint.url.startswith(self.usual_url)
        self._has_bounds = is_like_openai
        # OpenAI's newer models refuse the old name of the limit, and other services do not know the new one.
        self._limits = ["max_completion_tokens", "max_tokens"]
        if is_like_openai or settings.provider == "litellm":
            self._limits.reverse()

    def body(self, prompt: Prompt, way: str, limit: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [
                {"role": "system", "content": write_instructions(prompt)},
                {"role": "user", "content": quote_material(prompt)},
            ],
            limit: prompt.max_tokens,
        }
        if way == "json_schema":
            strict = make_strict(prompt.schema, bounds=self._has_bounds)
            shape = {"name": "answer", "strict": True, "schema": strict}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        if way == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body

    def read(self, reply: Mapping[str, Any]) -> Any:
        choices = reply.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, dict) else None
        if not isinstance(first, dict) or not isinstance(message, dict):
            raise ModelOutputError(f"{self.label} answered without any choice")
        check_end("refusal" if message.get("refusal") else first.get("finish_reason"), self.label)
        content = message.get("content") or ""
        parts = content if isinstance(content, list) else [{"text": content}]
        return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


class Azure(OpenAI):
    """A deployment in Azure OpenAI: by its API version, or without one by the API that no longer has versions."""

    usual_url, key_variable = "", "AZURE_OPENAI_API_KEY"
    has_usual_key_elsewhere = True

    def address(self, base: str, settings: ModelSettings) -> str:
        if not base:
            raise ConfigError("the model's `base_url` is missing, such as https://NAME.openai.azure.com")
        root = base.removesuffix("/openai/v1").removesuffix("/openai")
        if settings.api_version is None:
            return f"{root}/openai/v1{self.path}"
        deployment, version = quote(settings.model or "", safe=""), quote(settings.api_version, safe="")
        return f"{root}/openai/deployments/{deployment}{self.path}?api-version={version}"

    def headers(self, key: str) -> dict[str, str]:
        return {"api-key": key} if key else {}


class LiteLLM(OpenAI):
    """One call of `litellm.completion`, which finds its keys in the environment or takes the one that is named."""

    package, extra = "litellm", "litellm"
    usual_url, path, key_variable = "", "", ""

    def __init__(self, settings: ModelSettings, environ: Mapping[str, str]) -> None:
        super().__init__(settings, environ)
        self.label = self.name

    def send(self, prompt: Prompt) -> dict[str, Any]:
        # It would fetch its table of prices from the network while it is imported.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        litellm: Any = importlib.import_module("litellm")
        litellm.suppress_debug_info = True
        litellm.telemetry = False
        named = {"api_base": self._endpoint.url, "api_key": self._endpoint.secret}
        request = {
            **self.body(prompt, self.choose_way(prompt), self._limits[0]),
            "timeout": self._endpoint.timeout,
            # Every try is paid for, so that only the client may try again.
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
            **{name: value for name, value in named.items() if value},
        }
        try:
            response = litellm.completion(**request)
        except litellm.exceptions.openai.OpenAIError as error:
            raise self._explain_error(error) from None
        reply: dict[str, Any] = response.model_dump()
        hidden = getattr(response, "_hidden_params", None) or {}
        if isinstance(reply.get("usage"), dict):
            reply["usage"]["cost"] = hidden.get("response_cost")
        return reply

    def _explain_error(self, error: Exception) -> ModelError:
        """Name the error by its status: its text may hold the prompt, and a key that only LiteLLM knows."""
        status, kind = getattr(error, "status_code", None), type(error).__name__
        if "Timeout" in kind or status == 408:
            return ModelTimeoutError(f"{self.name} gave no answer in {self._endpoint.timeout:g} s")
        if kind == "APIConnectionError":
            return TransientError(f"{self.name} cannot be reached")
        if isinstance(status, int) and (status == 429 or status >= 500):
            return TransientError(f"{self.name} answered with {status}", NOTHING if status in NOT_SERVED else None)
        if status in (401, 403):
            return ModelUnavailableError(f"{self.name} refused the key ({status})", NOTHING)
        return ModelUnavailableError(f"{self.name} failed: {kind} ({status})", NOTHING)

    def count(self, reply: Mapping[str, Any]) -> Spent | None:
        spent = super().count(reply)
        return spent if spent and spent[0] else None


SERVICES = {"anthropic": Anthropic, "openai": OpenAI, "azure": Azure, "litellm": LiteLLM}
