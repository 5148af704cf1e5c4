"""What is told to a model leaves the machine: secrets are taken out first, whatever the model is."""

from __future__ import annotations

from dataclasses import replace

from ..ports import Model
from ..types.asking import Answer, Prompt


class Discreet:
    """A model that is told no secrets."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def ask(self, prompt: Prompt) -> Answer:
        from ..engine.redact import redact

        return self._model.ask(replace(prompt, system=redact(prompt.system).text, text=redact(prompt.text).text))
