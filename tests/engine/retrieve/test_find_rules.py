"""Which rules a prompt calls for by meaning."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from alma import ALMA
from alma.engine.retrieve.pipeline import find_rules
from alma.stores.memory import MemoryStore
from alma.types.record import Vector, quantize


class Near:
    """An embedder to which all texts mean the same."""

    name = "near"
    dim = 2
    passage_chars = 1000

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [quantize([1.0, 0.0]) for _ in texts]

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("rule", "text", "fits"),
    [
        ("Never push to main", "ship it", True),
        ("Всегда пиши коммиты на английском", "почему так медленно?", False),
        ("Всегда пиши коммиты на английском", "why is it slow?", False),
        ("以后代码注释都用中文写", "为什么报错？", False),
        ("Всегда пиши коммиты на английском", "пиши коммиты", True),
    ],
)
def test_in_other_letters_nearness_alone_is_not_enough(rule: str, text: str, fits: bool) -> None:
    with ALMA(MemoryStore(), Near(), project_id="p") as alma:
        alma.add_rule("claude-code", rule)
        assert bool(find_rules(alma.engine, "s1", text, 5)) is fits
