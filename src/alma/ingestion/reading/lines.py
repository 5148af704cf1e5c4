"""Lines of any length in bounded memory: one that is too long is passed over and said to be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ...text import replace_surrogates

LIMIT = 16 * 1024 * 1024
"""The longest line or value that is taken, in characters."""

Damaged = Callable[[str, str], None]
"""Is told the place and the reason."""


class Line(NamedTuple):
    number: int
    text: str


def lines(chunks: Iterable[str], damaged: Damaged, limit: int = LIMIT) -> Iterator[Line]:
    """The lines without their ends."""
    number = 1
    held: list[str] = []
    size = 0
    for chunk in chunks:
        first, *others = chunk.split("\n")
        size += len(first)
        if size <= limit:
            held.append(first)
        else:
            held.clear()
        for part in others:
            if size > limit:
                damaged(f"line {number:,}", f"longer than {limit:,} characters; passed over")
            else:
                yield Line(number, "".join(held).removesuffix("\r"))
            number += 1
            size = len(part)
            held = [part] if size <= limit else []
    if size > limit:
        damaged(f"line {number:,}", f"longer than {limit:,} characters; passed over")
    elif size:
        yield Line(number, "".join(held).removesuffix("\r"))


def objects(chunks: Iterable[str], damaged: Damaged, limit: int = LIMIT) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON object of each line with its number."""
    for number, text in lines(chunks, damaged, limit):
        stripped = text.strip(" \t\r\ufeff")
        if not stripped:
            continue
        value = parsed(stripped)
        if isinstance(value, dict):
            yield number, value
        else:
            damaged(f"line {number:,}", value if isinstance(value, Bad) else "not a JSON object")


class Bad(str):
    """Why something is no JSON."""

    __slots__ = ()


def _whole(digits: str) -> int | str:
    """A number with thousands of digits means nothing here, and takes long to read."""
    return int(digits) if len(digits) <= 40 else digits


DECODER = json.JSONDecoder(strict=False, parse_int=_whole, parse_constant=lambda _: None)


def parsed(text: str) -> Any:
    """The value, or why there is none."""
    try:
        value = DECODER.decode(text)
    except json.JSONDecodeError as error:
        return Bad(f"not whole JSON: {error.msg} at character {error.pos:,}")
    except RecursionError:
        return Bad("nested too deep")
    return replace_surrogates(value) if "\\ud" in text.lower() else value
