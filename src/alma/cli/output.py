"""Where answers go: one JSON document, or something for a person. Rich is loaded only for the latter."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import ALMAError, ValidationError
from ..schema import plain
from .shapes import Shape

if TYPE_CHECKING:
    from .terminal import Screen

Progress = Callable[[int, int], None]


class Output:
    def __init__(self, *, as_json: bool = False, color: bool = True) -> None:
        self.as_json = as_json
        self.color = color and not os.environ.get("NO_COLOR")

    def answered(self, document: object) -> bool:
        """Print the document if JSON was asked for; False means that a person is waiting for something readable."""
        if self.as_json:
            print(json.dumps(plain(document), ensure_ascii=False, indent=2))
        return self.as_json

    def show(self, *shapes: Shape) -> None:
        self.screen.draw(*shapes)

    def line(self, text: str = "") -> None:
        """A text exactly as it is, whatever the width."""
        print(text)

    def error(self, error: ALMAError) -> None:
        if not self.answered({"error": {"type": type(error).__name__, "message": str(error)}}):
            sys.stdout.flush()
            print(f"error: {error}", file=sys.stderr)

    @cached_property
    def screen(self) -> Screen:
        from .terminal import Screen

        return Screen(sys.stdout, self.color)

    @contextmanager
    def progress(self, what: str, *, of_bytes: bool = False) -> Iterator[Progress]:
        """A bar on standard error, if that is a terminal."""
        if not sys.stderr.isatty():
            yield lambda done, total: None
            return
        from .terminal import progress_bar

        with progress_bar(sys.stderr, self.color, what, of_bytes=of_bytes) as report:
            yield report

    def confirm(self, question: str) -> bool:
        """Ask; refuse where nobody can answer."""
        if self.as_json or not sys.stdin.isatty():
            raise ValidationError(f"{question} There is nobody to ask here; pass --yes to go ahead without asking")
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")
