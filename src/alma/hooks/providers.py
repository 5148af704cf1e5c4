"""The providers behind coding agents: who reads what an agent is shown."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PROVIDERS = {
    "": "anthropic",
    "claude": "anthropic",
    "codex": "openai",
    "copilot": "github",
    "gemini": "google",
    "qwen": "alibaba",
    "kimi": "moonshot",
}
"""The hosts whose provider is known. Another host may use any provider, so it counts as one of its own."""
_TITLES = {
    "anthropic": "Anthropic",
    "openai": "OpenAI",
    "github": "GitHub",
    "google": "Google",
    "alibaba": "Alibaba Cloud",
    "moonshot": "Moonshot AI",
}


def may_share(recorded_host: str, host: str, setting: str) -> bool:
    """Return whether what was recorded with one coding agent may be shown to another.

    `setting` is `own`, `all`, or the providers that may see the sessions of others.
    """
    recorded, provider = (_PROVIDERS.get(name, name) for name in (recorded_host, host))
    return recorded == provider or setting == "all" or provider in setting.replace(",", " ").split()


def find_foreign(provider: str, hosts: Iterable[str]) -> list[str]:
    """Return the coding agents whose sessions would go to another provider than their own."""
    return [host for host in hosts if _PROVIDERS.get(host, host) != provider]


def find_provider(host: str) -> str:
    """Return the provider behind a coding agent; its own name if that is not known."""
    return _PROVIDERS.get(host, host)


def name_provider(provider: str) -> str:
    """Return what people call a provider; empty if it is not known."""
    return _TITLES.get(provider, "")
