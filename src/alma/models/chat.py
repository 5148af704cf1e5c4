"""OpenAI's chat completions, which nearly every other service speaks too: Azure, Ollama, vLLM, llama.cpp, LM Studio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ..errors import ModelOutputError
from ..types.asking import Prompt
from .answers import instructions, material, strict
from .asked import Remote, cut_off, number
from .patience import FinalOutputError, Spent

URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
AZURE_KEY_VARIABLE = "AZURE_OPENAI_API_KEY"
WAYS = ("json_schema", "json_object", "text")
_OLD, _NEW = "max_tokens", "max_completion_tokens"


def address(base: str) -> str:
    return f"{base}/chat/completions"


def azure_address(base: str, deployment: str, version: str | None) -> str:
    """Of a deployment by its API version, or without one of the API that has none any more."""
    root = base.removesuffix("/openai/v1").removesuffix("/openai")
    if version is None:
        return f"{root}/openai/v1/chat/completions"
    where = f"openai/deployments/{quote(deployment, safe='')}/chat/completions"
    return f"{root}/{where}?api-version={quote(version, safe='')}"


def headers(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def azure_headers(key: str) -> dict[str, str]:
    return {"api-key": key} if key else {}


class Chat(Remote):
    _limit = ""

    @property
    def _is_original(self) -> bool:
        return self._endpoint.kind == "azure" or self._endpoint.url.startswith(URL)

    def can_demand(self, prompt: Prompt) -> bool:
        return strict(prompt.schema) is not None

    def body(self, prompt: Prompt, way: str) -> dict[str, Any]:
        # OpenAI's newer models refuse the old name, and others do not know the new one.
        limit = self._limit or (_NEW if self._is_original else _OLD)
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [
                {"role": "system", "content": instructions(prompt)},
                {"role": "user", "content": material(prompt)},
            ],
            limit: prompt.max_tokens,
        }
        if way == "json_schema":
            wanted = strict(prompt.schema, bounds=not self._is_original)
            shape = {"name": "answer", "strict": True, "schema": wanted}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        if way == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body

    def yields(self, said: str, way: str) -> bool:
        if _OLD in said.replace(_NEW, "") or _NEW in said:
            with self._lock:
                known = bool(self._limit)
                self._limit = _OLD if self._is_original else _NEW
            return not known
        return super().yields(said, way)

    def said(self, told: Mapping[str, Any]) -> Any:
        choices = told.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, dict) else None
        if not isinstance(first, dict) or not isinstance(message, dict):
            raise ModelOutputError(f"{self._endpoint.kind} answered without any choice")
        if message.get("refusal") or first.get("finish_reason") == "content_filter":
            raise FinalOutputError("the model refused to answer")
        if first.get("finish_reason") == "length":
            raise cut_off(self._endpoint.kind)
        content = message.get("content") or ""
        parts = content if isinstance(content, list) else [{"text": content}]
        return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))

    def counted(self, told: Mapping[str, Any]) -> Spent | None:
        usage = told.get("usage")
        if not isinstance(usage, dict) or not {"prompt_tokens", "completion_tokens"} <= usage.keys():
            return None
        tokens_in, tokens_out = number(usage["prompt_tokens"]), number(usage["completion_tokens"])
        return tokens_in, tokens_out, self.cost(tokens_in, tokens_out, usage.get("cost"))
