"""Whatever the rules are and whatever a person does to the file: nothing is lost, and nothing crashes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from alma import ALMA
from alma.engine.escape import find_suspicion
from alma.errors import ALMAError
from alma.rulefiles import export, import_
from alma.rulefiles.block import END, encode_text
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.types.kinds import Rule

from .conftest import BEGIN

WORDS = [
    "use",
    "never",
    "tabs",
    "npm",
    "`code`",
    "*Why:*",
    "**x:**",
    "<!-- alma:end -->",
    "#",
    "@home",
    "\\",
    "é",
    "</system>",
]
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(lambda words: " ".join((*words, "now")))
rules = st.lists(st.tuples(sentences, st.just("") | sentences, st.just("") | sentences), min_size=1, max_size=4)


def held(alma: ALMA) -> dict[str, tuple[str, str, str, str]]:
    found = [one for one in alma.list(memory_type="rule", status=None) if isinstance(one, Rule)]
    return {one.id: (one.rule, one.trigger, one.why, one.status) for one in found}


def filled(given_rules: list[tuple[str, str, str]]) -> ALMA:
    alma = ALMA(MemoryStore())
    for rule, trigger, why in given_rules:
        alma.add_rule("claude-code", rule, trigger=trigger, why=why)
    return alma


@settings(max_examples=30)
@given(rules)
def test_export_and_import_change_nothing(given_rules: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as root, filled(given_rules) as alma:
        before = held(alma)
        export(alma, "agents-md", root=root)
        text = (Path(root) / "AGENTS.md").read_bytes()
        report = import_(alma, "AGENTS.md", root=root, retire=True)
        assert report.changes == ()
        assert held(alma) == before
        assert not export(alma, "agents-md", root=root).changed
        assert (Path(root) / "AGENTS.md").read_bytes() == text


@settings(max_examples=30)
@given(rules, sentences, st.data())
def test_edited_imported_exported_gives_the_edited_text(
    given_rules: list[tuple[str, str, str]], fresh: str, data: st.DataObject
) -> None:
    # What reads like a planted instruction waits for review, whoever wrote it.
    assume(not find_suspicion(fresh))
    with tempfile.TemporaryDirectory() as root, filled(given_rules) as alma:
        file = Path(root) / "AGENTS.md"
        export(alma, "agents-md", root=root)
        lines = file.read_text(encoding="utf-8").split("\n")
        at = data.draw(st.sampled_from([at for at, line in enumerate(lines) if line.startswith("- ")]))
        lines[at] = f"- {encode_text(fresh)}{lines[at][lines[at].rindex(' <!--') :]}"
        file.write_bytes("\n".join(lines).encode())
        report = import_(alma, "AGENTS.md", root=root)
        assert not report.conflicts
        # Two rules may come to say the same; each still stands in its line.
        export(alma, "agents-md", root=root)
        after = file.read_text(encoding="utf-8").split("\n")
        assert after[at].split(" <!--")[0] == f"- {encode_text(fresh)}"
        assert [line.split(" <!--")[0] for line in after] == [line.split(" <!--")[0] for line in lines]
        assert import_(alma, "AGENTS.md", root=root).changes == ()


ROWS = [
    BEGIN,
    END,
    "- new",
    "-",
    "  goes on",
    "prose",
    "# h",
    "```",
    "<<<<<<< x",
    "- **a:** b *Why:* c",
    "",
    "\t",
    "- x" * 400,
]


@settings(max_examples=40)
@given(rules, st.data())
def test_no_edit_crashes_and_none_is_lost_silently(
    given_rules: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as root, filled(given_rules) as alma:
        file = Path(root) / "AGENTS.md"
        export(alma, "agents-md", root=root)
        lines = file.read_text(encoding="utf-8").split("\n")
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(lines)))
            how = data.draw(st.sampled_from(["insert", "drop", "cut", "double"]))
            if how == "insert":
                lines.insert(at, data.draw(st.sampled_from(ROWS) | st.text(max_size=20)).replace("\ud800", ""))
            elif at < len(lines):
                lines[at : at + 1] = {"drop": [], "cut": [lines[at][: len(lines[at]) // 2]], "double": [lines[at]] * 2}[
                    how
                ]
        file.write_bytes("\n".join(lines).encode("utf-8", "replace"))
        text = file.read_bytes()
        try:
            import_(alma, "AGENTS.md", root=root, all=True, retire=data.draw(st.booleans()))
            import_(alma, "AGENTS.md", root=root, all=True)
            export(alma, "agents-md", root=root)
        except ALMAError:
            assert file.read_bytes() == text
            return
        settled = file.read_bytes()
        assert not export(alma, "agents-md", root=root).changed
        assert file.read_bytes() == settled


IMPORTING = """
import sys
from alma import ALMA
from alma.rulefiles import export, import_
from alma.stores.sqlite import SQLiteStore
sys.stdin.readline()
with ALMA(SQLiteStore(sys.argv[1] + "/alma.db")) as alma:
    print(len(import_(alma, "NOTES.md", root=sys.argv[1], all=True).added))
"""


@pytest.mark.system
def test_several_processes_that_import_at_once_add_each_rule_once(tmp_path: Path) -> None:
    topics = ("apples", "pears", "plums", "figs", "nuts", "dates")
    (tmp_path / "NOTES.md").write_text("".join(f"- Count the {one} twice a day\n" for one in topics))
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", IMPORTING, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    said = []
    for one in crowd:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in crowd:
        out, _ = one.communicate(timeout=120)
        assert one.returncode == 0
        said.append(int(out))
    assert sorted(said) == [0, 0, 0, 6]
    with ALMA(SQLiteStore(tmp_path / "alma.db")) as alma:
        assert len(alma.list(memory_type="rule", status=None)) == 6
