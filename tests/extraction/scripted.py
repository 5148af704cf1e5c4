"""A model that answers as it was told to, and keeps what it was asked."""

from __future__ import annotations

import json
from typing import Any

from alma.types.asking import Answer, Prompt


class Scripted:
    name = "scripted"

    def __init__(self, *answers: Any) -> None:
        self.prompts: list[Prompt] = []
        self._answers = list(answers)

    def ask(self, prompt: Prompt) -> Answer:
        self.prompts.append(prompt)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return Answer(value=answer, model=self.name)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The material of each prompt."""
        return [json.loads(prompt.text) for prompt in self.prompts]
