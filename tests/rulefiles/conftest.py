from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.rulefiles import ExportReport, ImportReport, export, import_
from alma.rulefiles.block import make_begin

BEGIN = make_begin("alma rules import", "AGENTS.md")


class Desk:
    """A repository and a memory, and rules going from one to the other."""

    def __init__(self, root: Path, alma: ALMA) -> None:
        self.root, self.alma = root, alma

    @property
    def file(self) -> Path:
        return self.root / "AGENTS.md"

    def export(self, to: str = "agents-md", **options: Any) -> ExportReport:
        return export(self.alma, to, **{"root": self.root, **options})

    def import_(self, path: str = "AGENTS.md", **options: Any) -> ImportReport:
        return import_(self.alma, path, **{"root": self.root, **options})

    def rule(self, text: str, **fields: Any) -> str:
        return self.alma.add_rule("claude-code", text, **fields).id

    def text(self, path: str = "AGENTS.md") -> str:
        return (self.root / path).read_bytes().decode()

    def items(self, path: str = "AGENTS.md") -> list[str]:
        """The items of the block as a person reads them, without their ids."""
        return [line[2:].split(" <!--")[0] for line in self.text(path).splitlines() if line.startswith("- ")]

    def edit(self, before: str, after: str, path: str = "AGENTS.md") -> None:
        text = self.text(path)
        assert text.count(before) == 1, text
        (self.root / path).write_bytes(text.replace(before, after).encode())

    def active(self) -> dict[str, str]:
        return {one.id: one.rule for one in self.alma.list(memory_type="rule") if one.status == "active"}  # type: ignore[attr-defined]


@pytest.fixture
def desk(tmp_path: Path, open_alma: Any) -> Desk:
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    return Desk(root, open_alma())
