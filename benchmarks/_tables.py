"""Tables of the documentation that are written by the benchmark that measured them.

A table stands between two comments, `<!-- figures: NAME -->` and `<!-- end -->`, and is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_END = "<!-- end -->"


def write_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose first column is text and whose others are figures."""
    rule = ["---", *("--:" for _ in columns[1:])]
    head, *lines = (f"| {' | '.join(row)} |" for row in (columns, *rows))
    return "\n".join([head, f"|{'|'.join(rule)}|", *lines])


def replace_table(file: Path, name: str, table: str) -> None:
    """Write the table of this name into a page. Raise ValueError if the page has none."""
    before, after = _split_page(file, name)
    file.write_text(f"{before}\n{table}\n{after}", encoding="utf-8")


def read_table(file: Path, name: str) -> list[list[str]]:
    """Return the cells of the table of this name in a page, without the line below its head."""
    before, after = _split_page(file, name)
    text = file.read_text(encoding="utf-8")
    lines = text[len(before) : len(text) - len(after)].strip().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [cells[0], *cells[2:]]


def _split_page(file: Path, name: str) -> tuple[str, str]:
    text = file.read_text(encoding="utf-8")
    head, mark, rest = text.partition(f"<!-- figures: {name} -->")
    _, end, tail = rest.partition(_END)
    if not mark or not end:
        raise ValueError(f"{file} has no table between <!-- figures: {name} --> and {_END}")
    return head + mark, end + tail
