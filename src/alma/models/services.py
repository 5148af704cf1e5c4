"""The services that are asked over the network: Anthropic, OpenAI, Azure, and LiteLLM for all others.

Anthropic's Messages API and OpenAI's chat completions are spoken by many other services too (Ollama, vLLM, llama.cpp,
LM Studio), which are named by `base_url`.

A request always ends in time and sends nothing anywhere else. No redirect is followed, so that neither the key nor the
prompt goes to another address. httpx limits only one silence at a time; for a service that sends a byte now and then
there is a deadline, which an event loop keeps.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import ipaddress
import json
import os
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote, urlsplit

from ..engine.redact import redact
from ..errors import (
    ConfigError,
    MissingExtraError,
    ModelError,
    ModelOutputError,
    ModelTimeoutError,
    ModelUnavailableError,
    unknown,
)
from ..retry import Secret, read_retry_after
from ..types.asking import ModelSettings, Prompt
from .budget import NOTHING, Spent
from .client import (
    ANTHROPIC_TOKENS,
    Provider,
    TransientModelError,
    check_end,
    make_strict,
    quote_material,
    read_object,
    write_instructions,
)

T = TypeVar("T")

TIMEOUT, CONNECT_TIMEOUT = 60.0, 10.0
MOST_BYTES = 4 * 1024 * 1024
_NOT_SERVED = (429, 503, 529)  # These did no work; what another failure took is not known.
# One of these words in a refusal means that the service does not know the way in which a shape was demanded.
_ABOUT_SHAPE = ("format", "schema", "json_object", "output_config", "structured", "strict", "grammar", "tool")
_TOOL = "answer"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_url(url: str, *, allow_http: bool) -> str:
    """Return the address without a slash at its end; ConfigError when nothing may be sent there."""
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError("the model's `base_url` must be a URL such as https://example.org/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        # Not quoted: there may be a key in it.
        raise ConfigError("the model's `base_url` must not contain a user name, password, query or fragment")
    if parts.scheme == "http" and not (allow_http or _is_loopback(host)):
        raise ConfigError(
            f"the model's `base_url` would send prompts to {host} unencrypted; use https, "
            "or set `allow_http: true` if that is your own network"
        )
    return url.strip().rstrip("/")


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns, also when it is wanted inside an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


class ModelService(Provider):
    """A service that is sent one request. Subclasses know its API."""

    package, extra = "httpx", "models"
    usual_url, path, key_variable = "", "", ""
    has_usual_key_elsewhere = False
    key_header, key_prefix = "authorization", "Bearer "
    other_headers: ClassVar[Mapping[str, str]] = {}
    ways: ClassVar[tuple[str, ...]]  # How a shape can be demanded, the best first.
    # The same at another address than the usual one, where that differs.
    ways_elsewhere: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: ModelSettings, environ: Mapping[str, str]) -> None:
        self.label = kind = settings.provider
        self.model = settings.model or ""
        self.name = f"{kind}:{self.model}"
        self.prices = settings.prices
        url, is_elsewhere = settings.base_url, settings.base_url is not None
        base = _check_url(url, allow_http=settings.allow_http) if url else self.usual_url
        self.url = self.address(base, settings)
        # The usual key is for the usual address; another address gets only a key that was named for it.
        usual = "" if is_elsewhere and not self.has_usual_key_elsewhere else self.key_variable
        self._key_from = variable = settings.api_key_env or usual
        self.key = Secret(environ.get(variable, "").strip() if variable else "")
        if variable and not self.key:
            raise ConfigError(f"the environment variable {variable} is not set; set it to the model's API key")
        # A header that cannot be sent would be quoted in an error.
        if not self.key.isascii() or not self.key.isprintable() or " " in self.key:
            raise ConfigError(
                f"the environment variable {variable} contains characters that are not valid in an API key"
            )
        if importlib.util.find_spec(self.package) is None:
            raise MissingExtraError(self.package, self.extra, f"The model {kind!r}")
        ways = (self.ways_elsewhere if is_elsewhere else ()) or self.ways
        if settings.structured not in ("auto", *ways):
            raise ConfigError(unknown(f"value of `structured` for {kind}", settings.structured, ways))
        self.timeout = settings.timeout or TIMEOUT
        self._read_timeout = settings.read_timeout or self.timeout
        self._connect_timeout = min(settings.connect_timeout or CONNECT_TIMEOUT, self.timeout)
        self._ways = list(ways) if settings.structured == "auto" else [settings.structured]
        self._limits = ["max_tokens"]  # How the API calls the most tokens of an answer; the first is used.
        self._lock = threading.Lock()

    def address(self, base: str, settings: ModelSettings) -> str:
        """Return the URL of the service."""
        return base + self.path

    def body(self, prompt: Prompt, way: str, limit: str) -> dict[str, Any]:
        """Return the JSON body of a request."""
        raise NotImplementedError

    def choose_way(self, prompt: Prompt) -> str:
        """Return how to demand the shape; one that the API cannot express is demanded in words only."""
        way = self._ways[0]
        return "text" if way in ("json_schema", "tool") and make_strict(prompt.schema) is None else way

    def send(self, prompt: Prompt) -> dict[str, Any]:
        """Send a prompt and return the reply as JSON."""
        # Loading it takes time that is not the service's.
        importlib.import_module(self.package)
        way, limit = self.choose_way(prompt), self._limits[0]
        try:
            status, headers, data = _run(asyncio.wait_for(self._post(self.body(prompt, way, limit)), self.timeout))
        except TimeoutError as error:
            raise ModelTimeoutError(
                f"{self.label} did not answer within {self.timeout:g} s; the request was cancelled"
            ) from error
        reply = read_object(data)
        if not 200 <= status < 300:
            # The message in an error of either API, or the error as it is.
            reason: Any = (reply or {}).get("error", data.decode("utf-8", "replace"))
            reason = reason.get("message", "") if isinstance(reason, dict) else reason
            raise self._explain_refusal(status, headers, str(reason), way, limit)
        if reply is None:
            problem = f"an answer that is not a JSON object ({len(data):,} bytes)" if data else "an empty answer"
            raise ModelOutputError(f"{self.label} returned {problem}")
        return reply

    async def _post(self, body: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        """Return the status, the headers and the content of the reply."""
        import httpx

        headers = {"content-type": "application/json", "accept-encoding": "identity", **self.other_headers}
        if self.key:
            headers[self.key_header] = self.key_prefix + self.key
        content, data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"), bytearray()
        try:
            async with (
                httpx.AsyncClient(
                    headers=headers,
                    timeout=httpx.Timeout(self._read_timeout, connect=self._connect_timeout),
                    follow_redirects=False,
                    # A prompt to a model on this machine goes through no proxy.
                    trust_env=not _is_loopback(urlsplit(self.url).hostname or ""),
                    # Reading all certificates takes longer than asking a model on this machine.
                    verify=self.url.startswith("https:"),
                ) as client,
                client.stream("POST", self.url, content=content) as response,
            ):
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise ModelOutputError(f"{self.label} answered in an encoding that was not requested")
                async for piece in response.aiter_raw():
                    data += piece
                    if len(data) > MOST_BYTES and response.is_success:
                        raise ModelOutputError(f"{self.label} answered with more than 4 MB; the request was cancelled")
                    if len(data) > MOST_BYTES:
                        break
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL) as error:
            reason = self._shorten(str(error)) or "no connection"
            message = f"{self.label} cannot be reached at {self.url} ({reason}); check `base_url` and the network"
            raise TransientModelError(message, NOTHING) from error
        except httpx.TimeoutException as error:
            raise ModelTimeoutError(
                f"{self.label} did not answer within {self._read_timeout:g} s; the request was cancelled"
            ) from error
        except httpx.HTTPError as error:
            raise TransientModelError(f"the connection to {self.label} broke: {type(error).__name__}") from error
        return response.status_code, response.headers, bytes(data)

    def _explain_refusal(
        self, status: int, headers: Mapping[str, str], reason: str, way: str, limit: str
    ) -> ModelError:
        detail = self._shorten(reason)
        more = f": {detail}" if detail else ""
        if status == 429 or status >= 500:
            spent = NOTHING if status in _NOT_SERVED else None
            return TransientModelError(f"{self.label} answered with {status}{more}", spent, read_retry_after(headers))
        message = f"{self.label} refused the request ({status}){more}"
        if 300 <= status < 400:
            message = f"{self.label} redirects to another address ({status}), which is not followed; correct `base_url`"
        elif status in (401, 403):
            key = f"the key in {self._key_from}" if self._key_from else "a request without a key; set `api_key_env`"
            message = f"{self.label} refused {key} ({status})"
        elif status == 404:
            message = f"{self.label} answered with 404; check `model` ({self.model}) and `base_url`{more}"
        elif any(word in reason.lower() for word in (*self._limits, *_ABOUT_SHAPE)):
            # What was refused is left out from now on, where there is an alternative to it.
            is_about_limit = any(name in reason.lower() for name in self._limits)
            alternatives, refused = (self._limits, limit) if is_about_limit else (self._ways, way)
            with self._lock:
                if len(alternatives) > 1:
                    alternatives[:] = alternatives[alternatives[0] == refused :]
                    return TransientModelError(f"{message}; asked in another way", NOTHING, 0.0)
        return ModelUnavailableError(message, NOTHING)

    def _shorten(self, text: str) -> str:
        """Return what a service wrote as one short line without the key or any other secret."""
        hidden = text.replace(self.key, "***") if self.key else text
        return " ".join(redact(hidden[:16_000]).split())[:200]


class Anthropic(ModelService):
    """The Messages API of Anthropic."""

    usual_url, path, key_variable = "https://api.anthropic.com", "/v1/messages", "ANTHROPIC_API_KEY"
    key_header, key_prefix, other_headers = "x-api-key", "", {"anthropic-version": "2023-06-01"}
    token_names = ANTHROPIC_TOKENS
    ways = ("json_schema", "tool", "text")
    # Other services that speak this API know tools; some ignore a JSON schema without an error.
    ways_elsewhere = ("tool", "json_schema", "text")

    def address(self, base: str, settings: ModelSettings) -> str:
        """Return the URL of the service."""
        return base.removesuffix("/v1") + self.path

    def body(self, prompt: Prompt, way: str, limit: str) -> dict[str, Any]:
        """Return the JSON body of a request."""
        body: dict[str, Any] = {
            "model": self.model,
            limit: prompt.max_tokens,
            "system": write_instructions(prompt),
            "messages": [{"role": "user", "content": quote_material(prompt)}],
        }
        strict = make_strict(prompt.schema)
        if way == "json_schema":
            body["output_config"] = {"format": {"type": way, "schema": strict}}
        if way == "tool":
            body["tools"] = [{"name": _TOOL, "description": "Give the answer.", "input_schema": strict}]
            body["tool_choice"] = {"type": way, "name": _TOOL}
        return body

    def read(self, reply: Mapping[str, Any]) -> str:
        """Return the text of a reply."""
        check_end(reply.get("stop_reason"), self.label)
        content = reply.get("content")
        if not isinstance(content, list):
            raise ModelOutputError(f"{self.label} returned an empty answer (no content)")
        blocks = [block for block in content if isinstance(block, dict)]
        for block in blocks:
            if block.get("type") == "tool_use" and block.get("name") == _TOOL:
                return json.dumps(block.get("input"))
        return "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")


class OpenAI(ModelService):
    """The chat completions API of OpenAI and compatible services."""

    usual_url, path, key_variable = "https://api.openai.com/v1", "/chat/completions", "OPENAI_API_KEY"
    token_names = ("prompt_tokens", "completion_tokens")
    ways = ("json_schema", "json_object", "text")

    def __init__(self, settings: ModelSettings, environ: Mapping[str, str]) -> None:
        super().__init__(settings, environ)
        self._has_bounds = settings.provider == "openai" and not self.url.startswith(self.usual_url)
        # OpenAI's newer models refuse the old name of the limit, and other services do not know the new one.
        self._limits = ["max_completion_tokens", "max_tokens"]
        if self._has_bounds or settings.provider == "litellm":
            self._limits.reverse()

    def body(self, prompt: Prompt, way: str, limit: str) -> dict[str, Any]:
        """Return the JSON body of a request."""
        shape: dict[str, Any] = {"type": way}
        if way == "json_schema":
            strict = make_strict(prompt.schema, bounds=self._has_bounds)
            shape[way] = {"name": "answer", "strict": True, "schema": strict}
        return {
            "model": self.model,
            "messages": [
                {"role": "system", "content": write_instructions(prompt)},
                {"role": "user", "content": quote_material(prompt)},
            ],
            limit: prompt.max_tokens,
            **({} if way == "text" else {"response_format": shape}),
        }

    def read(self, reply: Mapping[str, Any]) -> str:
        """Return the text of a reply."""
        choices = reply.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, dict) else None
        if not isinstance(first, dict) or not isinstance(message, dict):
            raise ModelOutputError(f"{self.label} returned an empty answer (no choices)")
        check_end("refusal" if message.get("refusal") else first.get("finish_reason"), self.label)
        content = message.get("content") or ""
        parts = content if isinstance(content, list) else [{"text": content}]
        return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


class Azure(OpenAI):
    """A deployment in Azure OpenAI: by its API version, or without one by the API that no longer has versions."""

    usual_url, key_variable = "", "AZURE_OPENAI_API_KEY"
    has_usual_key_elsewhere = True
    key_header, key_prefix = "api-key", ""

    def address(self, base: str, settings: ModelSettings) -> str:
        """Return the URL of the deployment."""
        if not base:
            raise ConfigError("the model's `base_url` is missing, such as https://NAME.openai.azure.com")
        root = base.removesuffix("/openai/v1").removesuffix("/openai")
        if settings.api_version is None:
            return f"{root}/openai/v1{self.path}"
        deployment, version = quote(self.model, safe=""), quote(settings.api_version, safe="")
        return f"{root}/openai/deployments/{deployment}{self.path}?api-version={version}"


class LiteLLM(OpenAI):
    """One call of `litellm.completion`, which finds its keys in the environment or takes the one that is named."""

    package, extra = "litellm", "litellm"
    usual_url, path, key_variable = "", "", ""

    def send(self, prompt: Prompt) -> dict[str, Any]:
        """Send a prompt through LiteLLM and return the reply as JSON."""
        # It would fetch its table of prices from the network while it is imported.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        litellm: Any = importlib.import_module("litellm")
        litellm.suppress_debug_info = True
        litellm.telemetry = False
        # Every try is paid for, so that only the client may try again.
        options: dict[str, Any] = {"timeout": self.timeout, "num_retries": 0, "max_retries": 0, "drop_params": True}
        options |= {name: value for name, value in (("api_base", self.url), ("api_key", self.key)) if value}
        try:
            response = litellm.completion(**self.body(prompt, self.choose_way(prompt), self._limits[0]), **options)
        except litellm.exceptions.openai.OpenAIError as error:
            # Named by its status: its text may hold the prompt, and a key that only LiteLLM knows.
            status, kind = getattr(error, "status_code", None), type(error).__name__
            if "Timeout" in kind or status == 408:
                raise ModelTimeoutError(f"{self.label} did not answer within {self.timeout:g} s") from None
            if kind == "APIConnectionError":
                raise TransientModelError(f"{self.label} cannot be reached") from None
            raise self._explain_refusal(status or 400, {}, "", "", "") from None
        reply: dict[str, Any] = response.model_dump()
        if isinstance(reply.get("usage"), dict):
            hidden = getattr(response, "_hidden_params", None) or {}
            reply["usage"]["cost"] = hidden.get("response_cost")
        return reply

    def count(self, reply: Mapping[str, Any]) -> Spent | None:
        """Return the tokens and the cost of a reply; None if they are not reported."""
        spent = super().count(reply)
        return spent if spent and spent[0] else None
