"""Tables of the documentation have the rows and columns of the benchmarks that write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import _beside as beside
from benchmarks import _tables as tables
from benchmarks import scale, serve

DOCS = Path(__file__).parent.parent.parent / "docs" / "explanation"


def test_the_table_of_sizes_is_what_the_benchmark_writes() -> None:
    head, *rows = tables.read_table(DOCS / "benchmarks.md", scale.TABLE)
    assert head[0] == "memories"
    sizes = [int(size.replace(",", "")) for size in head[1:]]
    assert sizes == sorted(sizes)
    peers = [f"{name}, vectors given, ms" for name in beside.PEERS]
    assert [row[0] for row in rows] == [*scale.PAGE_ROWS.values(), *peers, scale.RECALL_ROW]


def test_the_table_of_the_service_is_what_the_benchmark_writes() -> None:
    head, *rows = tables.read_table(DOCS / "scaling.md", serve.TABLE)
    assert head == list(serve.COLUMNS)
    assert all(len(row) == len(head) for row in rows)


def test_a_table_is_replaced_and_the_rest_of_the_page_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n\n<!-- figures: speed -->\nold\n<!-- end -->\n\nafter\n")
    tables.replace_table(page, "speed", tables.write_table(["memories", "10"], [["`retrieve`, ms", "3"]]))
    assert tables.read_table(page, "speed") == [["memories", "10"], ["`retrieve`, ms", "3"]]
    text = page.read_text()
    assert text.startswith("before\n\n<!-- figures: speed -->\n| memories | 10 |\n")
    assert text.endswith("<!-- end -->\n\nafter\n")
    with pytest.raises(ValueError, match="has no table between <!-- figures: other -->"):
        tables.replace_table(page, "other", "")


def test_a_program_that_is_not_installed_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "PEERS", {"Absent": ("no_such_module", beside.Chroma)})
    assert beside.list_missing() == {"Absent": "not installed: pip install no-such-module"}
    assert beside.open_peers(Path()) == {}
