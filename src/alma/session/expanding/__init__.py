"""From a prompt to a list of things to do, without a model."""

from .expand import Expansion, Task, expand

__all__ = ["Expansion", "Task", "expand"]
