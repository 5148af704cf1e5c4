"""`config.json`: what a person may set. Whatever is missing or wrong in it takes its default, and the log says so."""

from __future__ import annotations

import json
import os

from . import log
from .place import Place

DEFAULTS: dict[str, str | int] = {
    "model": "ask",
    "model_name": "haiku",
    "daily_calls": 20,
    "playbook_tokens": 1500,
    "prompt_tokens": 400,
    "worker_idle_seconds": 600,
    "journal_mb": 8,
    "journal_days": 30,
    "episode_days": 365,
}
CHOICES = {"model": ("on", "off")}
"""`ask`, the default of `model`, means off until its person answers."""
_OLD_LEAVE = "claude"
"""With this value an earlier version let a model reword notes. Reading sessions needs an answer of its own."""
_MOST = 1_000_000


class Settings:
    """The settings in force, and what is wrong with the file."""

    __slots__ = ("problems", "values")

    def __init__(self, values: dict[str, str | int], problems: list[str]) -> None:
        self.values = values
        self.problems = problems

    def number(self, name: str) -> int:
        return int(self.values[name])

    def text(self, name: str) -> str:
        return str(self.values[name])


def read(place: Place) -> Settings:
    try:
        with open(place.config, "rb") as file:
            given = json.loads(file.read(_MOST))
    except FileNotFoundError:
        return Settings(dict(DEFAULTS), [])
    except (OSError, ValueError, RecursionError) as error:
        return Settings(dict(DEFAULTS), [f"config.json cannot be read ({type(error).__name__}): defaults are used"])
    if not isinstance(given, dict):
        return Settings(dict(DEFAULTS), ["config.json is not a JSON object: defaults are used"])
    if given.get("model") == _OLD_LEAVE:
        given["model"] = DEFAULTS["model"]
    problems = [problem for name, value in given.items() if (problem := wrong(name, value))]
    return Settings({**DEFAULTS, **{n: v for n, v in given.items() if not wrong(n, v)}}, problems)


def wrong(name: str, value: object) -> str:
    """What is wrong with a setting; empty when nothing is."""
    if name not in DEFAULTS:
        return f"config.json: unknown setting {name!r}; the settings are {', '.join(DEFAULTS)}"
    default = DEFAULTS[name]
    if isinstance(default, int):
        fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
        return "" if fits else f"config.json: {name} must be a whole number from 0 to {_MOST}; {default} is used"
    if name in CHOICES and value not in (*CHOICES[name], default):
        return f"config.json: {name} must be one of {', '.join(CHOICES[name])}; {default} is used"
    return "" if isinstance(value, str) and value else f"config.json: {name} must be a text; {default} is used"


def is_model_allowed(place: Place) -> bool:
    """Return whether a model may read sessions: by the settings, unless the environment says otherwise."""
    override = os.environ.get("CLAUDE_SMART_USE_LOCAL_CLI", "")
    if override in ("0", "1"):
        return override == "1"
    return read(place).text("model") == "on"


def load(place: Place, event: str) -> Settings:
    """The same, with a line in the log for each problem."""
    found = read(place)
    for problem in found.problems:
        log.note(place, event, problem)
    return found
