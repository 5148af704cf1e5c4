"""Chinese and Japanese put no spaces between words: they are searched by pairs of characters."""

from __future__ import annotations

import re

_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")


def split_unspaced(text: str) -> str:
    """Replace each run of Chinese or Japanese by its pairs of characters: "東京都" becomes "東京 京都"."""
    return text if text.isascii() else _UNSPACED.sub(_list_pairs, text)


def _list_pairs(run: re.Match[str]) -> str:
    pairs = [run[0][at : at + 2] for at in range(len(run[0]) - 1)] or [run[0]]
    return f" {' '.join(pairs)} "


def index_unspaced(text: str) -> str:
    """Return a text to be searched by words: with the pairs of characters of its Chinese and Japanese."""
    runs = [] if text.isascii() else _UNSPACED.findall(text)
    return f"{text}\n{' '.join(split_unspaced(' '.join(runs)).split())}" if runs else text
