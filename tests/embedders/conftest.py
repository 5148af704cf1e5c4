from __future__ import annotations

import inspect

import pytest

from alma.embedders.local import LocalEmbedder


@pytest.fixture(autouse=True)
def load_model_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each embedder load the files itself. In the other folders all share what one has loaded."""
    for name in ("_load_model", "_load_words"):
        monkeypatch.setattr(LocalEmbedder, name, inspect.unwrap(getattr(LocalEmbedder, name)))
