"""Anthropic's Messages API, or any service that speaks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ModelOutputError
from ..types.asking import Prompt
from .answers import instructions, material, sound, strict
from .asked import Remote, cut_off, number
from .patience import FinalOutputError, Spent

URL = "https://api.anthropic.com"
VERSION = "2023-06-01"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
WAYS = ("json_schema", "tool", "text")
WAYS_ELSEWHERE = ("tool", "json_schema", "text")
"""Other services that speak this API know tools; some pass over a demand for a shape without a word."""
_TOOL = "answer"


def address(base: str) -> str:
    return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"


def headers(key: str) -> dict[str, str]:
    return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})


class Messages(Remote):
    def can_demand(self, prompt: Prompt) -> bool:
        return strict(prompt.schema) is not None

    def body(self, prompt: Prompt, way: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            "max_tokens": prompt.max_tokens,
            "system": instructions(prompt),
            "messages": [{"role": "user", "content": material(prompt)}],
        }
        if way == "json_schema":
            body["output_config"] = {"format": {"type": "json_schema", "schema": strict(prompt.schema)}}
        if way == "tool":
            tool = {"name": _TOOL, "description": "Give the answer.", "input_schema": strict(prompt.schema)}
            body |= {"tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}
        return body

    def said(self, told: Mapping[str, Any]) -> Any:
        if told.get("stop_reason") == "refusal":
            raise FinalOutputError("the model refused to answer")
        if told.get("stop_reason") == "max_tokens":
            raise cut_off(self._endpoint.kind)
        content = told.get("content")
        if not isinstance(content, list):
            raise ModelOutputError(f"{self._endpoint.kind} answered without any content")
        blocks = [block for block in content if isinstance(block, dict)]
        for block in blocks:
            if block.get("type") == "tool_use" and block.get("name") == _TOOL:
                return _sound(block.get("input"))
        return "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")

    def counted(self, told: Mapping[str, Any]) -> Spent | None:
        usage = told.get("usage")
        if not isinstance(usage, dict) or not {"input_tokens", "output_tokens"} <= usage.keys():
            return None
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        tokens_in, tokens_out = sum(number(usage.get(name)) for name in names), number(usage["output_tokens"])
        return tokens_in, tokens_out, self.cost(tokens_in, tokens_out)


def _sound(value: Any) -> Any:
    try:
        sound(value)
    except (ValueError, RecursionError) as error:
        raise ModelOutputError("the model answered characters that are no text") from error
    return value
