"""LiteLLM, for the services that speak neither API."""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from collections.abc import Mapping
from typing import Any

from ..errors import MissingExtraError, ModelError, ModelOutputError, ModelTimeoutError, ModelUnavailableError
from ..types.asking import Answer, Prompt
from ..types.model import Prices
from . import schema
from .answers import instructions, lenient, material, parse, strict
from .asked import cut_off, money, number, said_model
from .endpoint import Endpoint
from .patience import NOTHING, FinalOutputError, Spent, TransientError

EXTRA = "litellm"
TIMEOUT = 60.0
_NOT_SERVED = (429, 503, 529)


def need_litellm() -> None:
    if importlib.util.find_spec("litellm") is None:
        raise MissingExtraError("litellm", EXTRA, "The model 'litellm'")


class LiteLLM:
    """One call of `litellm.completion`. It finds its keys in the environment, or takes the one that is named."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        structured: str = "auto",
        timeout: float = TIMEOUT,
        prices: Prices | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._structured = structured
        self._timeout = timeout
        self._prices = prices

    @property
    def name(self) -> str:
        return f"litellm:{self._endpoint.model}"

    def ask(self, prompt: Prompt) -> Answer:
        litellm = _litellm()
        started = time.monotonic()
        try:
            response = litellm.completion(**self._request(prompt))
        except litellm.exceptions.openai.OpenAIError as error:
            raise self._named(error) from None
        told = response.model_dump()
        hidden = getattr(response, "_hidden_params", None) or {}
        counted = self._counted(told, hidden.get("response_cost"))
        try:
            value = lenient(parse(self._said(told)), prompt.schema)
            schema.check(value, prompt.schema)
        except ModelOutputError as error:
            raise type(error)(str(error), counted) from error
        tokens_in, tokens_out, cost = counted or NOTHING
        return Answer(
            value=value,
            model=said_model(told, self.name),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost=cost,
            seconds=time.monotonic() - started,
            metered=counted is not None,
        )

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [
                {"role": "system", "content": instructions(prompt)},
                {"role": "user", "content": material(prompt)},
            ],
            "max_tokens": prompt.max_tokens,
            "timeout": self._timeout,
            # Every try is paid for, so that only we may try again.
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
        }
        wanted = strict(prompt.schema) if self._structured in ("auto", "json_schema") else None
        if wanted is not None:
            shape = {"name": "answer", "strict": True, "schema": wanted}
            request["response_format"] = {"type": "json_schema", "json_schema": shape}
        if self._structured == "json_object":
            request["response_format"] = {"type": "json_object"}
        named = {"api_base": self._endpoint.url, "api_key": self._endpoint.secret}
        return request | {name: value for name, value in named.items() if value}

    def _named(self, error: Exception) -> ModelError:
        """By its status: what it says may hold the question, and a key that only LiteLLM knows."""
        status = getattr(error, "status_code", None)
        what = type(error).__name__
        if "Timeout" in what or status == 408:
            return ModelTimeoutError(f"{self.name} gave no answer in {self._timeout:g} s")
        if what == "APIConnectionError":
            return TransientError(f"{self.name} cannot be reached")
        if isinstance(status, int) and (status == 429 or status >= 500):
            return TransientError(f"{self.name} answered with {status}", NOTHING if status in _NOT_SERVED else None)
        if status in (401, 403):
            return ModelUnavailableError(f"{self.name} refused the key ({status})", NOTHING)
        return ModelUnavailableError(f"{self.name} failed: {what} ({status})", NOTHING)

    def _said(self, told: Mapping[str, Any]) -> str:
        try:
            first = told["choices"][0]
            content, reason = first["message"]["content"], first.get("finish_reason")
        except (KeyError, IndexError, TypeError) as error:
            raise ModelOutputError(f"{self.name} answered without any choice") from error
        if reason == "content_filter":
            raise FinalOutputError("the model refused to answer")
        if reason == "length":
            raise cut_off(self.name)
        return str(content or "")

    def _counted(self, told: Mapping[str, Any], cost: object) -> Spent | None:
        usage = told.get("usage")
        if not isinstance(usage, dict):
            return None
        tokens_in, tokens_out = number(usage.get("prompt_tokens")), number(usage.get("completion_tokens"))
        priced = money(cost) if self._prices is None else self._prices.of(tokens_in, tokens_out)
        return (tokens_in, tokens_out, priced) if tokens_in else None


def _litellm() -> Any:
    # It would fetch its table of prices from the network while it is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm
