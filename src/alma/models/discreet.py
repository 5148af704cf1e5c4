"""What is told to a model leaves the machine: secrets are taken out first, whatever the model is."""

from __future__ import annotations

from dataclasses import replace

from ..engine.admit import clean
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
        # A schema may hold names that came from people, such as the choices of an enum.
        told = {name: clean(value) for name, value in prompt.schema.items()}
        return self._model.ask(replace(prompt, system=clean(prompt.system), text=clean(prompt.text), schema=told))
