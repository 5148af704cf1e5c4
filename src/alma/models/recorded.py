"""A model whose answers were recorded before: prompts are written to one file, answers are read from another.

Both are JSON lines. A prompt has an `id`, the digest of its wording, text and schema; an answer has that `id` and a
`value`. Quality can be measured this way on answers of a real model, without a network.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError, ModelUnavailableError
from ..types.asking import Answer, Prompt
from .schema import check


class Recorded:
    """Replays the answers in `answers`. A prompt without an answer is appended to `dump` and raises."""

    name = "recorded"

    def __init__(self, answers: Path | None, dump: Path | None) -> None:
        if answers is None and dump is None:
            raise ConfigError("the recorded model needs `path`, a file of answers, or `dump`, a file for prompts")
        self._answers = _load_answers(answers) if answers is not None else {}
        self._dump = dump

    def ask(self, prompt: Prompt) -> Answer:
        name = digest_prompt(prompt)
        if name in self._answers:
            value = self._answers[name]
            check(value, prompt.schema)
            return Answer(value=value, model=self.name)
        if self._dump is None:
            raise ModelUnavailableError(f"there is no recorded answer {name} (prompt {prompt.version or 'unnamed'})")
        line = {"id": name, "version": prompt.version, "system": prompt.system, "text": prompt.text}
        target = os.open(self._dump, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(target, "a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "schema": prompt.schema}, ensure_ascii=False) + "\n")
        raise ModelUnavailableError(f"the prompt {name} was written to {self._dump}; its answer is not recorded yet")


def digest_prompt(prompt: Prompt) -> str:
    parts = [prompt.version, prompt.system, prompt.text, json.dumps(prompt.schema, sort_keys=True)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _load_answers(path: Path) -> Mapping[str, Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"the recorded answers {path} cannot be read: {error.strerror}") from error
    answers = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                row = json.loads(line)
                answers[row["id"]] = row["value"]
            except (ValueError, KeyError, TypeError):
                raise ConfigError(f"{path}:{number} must be a JSON object with `id` and `value`") from None
    return answers
