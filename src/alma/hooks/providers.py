"""The providers behind coding agents: who reads what an agent is shown."""

from __future__ import annotations

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


def may_share(recorded_host: str, host: str, setting: str) -> bool:
    """Return whether what was recorded with one coding agent may be shown to another.

    `setting` is `own`, `all`, or the providers that may see the sessions of others.
    """
    recorded, provider = (_PROVIDERS.get(name, name) for name in (recorded_host, host))
    return recorded == provider or setting == "all" or provider in setting.replace(",", " ").split()
