"""Small things that were wrong: names, formats and messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest

from alma import ALMA, AsyncALMA
from alma.cli import main
from alma.errors import ConfigError, NotFoundError, ValidationError
from alma.graph import create_graph_store
from alma.http import tokens
from alma.operations import operations
from alma.reading.local import LocalReader
from alma.reading.port import Pair, Relation
from alma.upkeep import export_lines, import_from


def test_quickstart_in_memory_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ALMA.quickstart("p", ":memory:") as alma:
        alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
        assert len(alma.list()) == 1
    assert list(tmp_path.iterdir()) == []


def test_export_writes_no_json_lines_under_the_name_of_another_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert main(["export", "out.csv"]) != 0
    assert "writes JSON Lines; name the file out.jsonl" in capsys.readouterr().err
    assert main(["export", "out.jsonl"]) == 0
    assert not (tmp_path / "out.csv").exists()


def test_a_token_has_no_name_of_our_own(tmp_path: Path) -> None:
    for name in ("cli", "MCP", " claude-smart ", "environment"):
        with pytest.raises(ValidationError, match="is the name of one of alma's own interfaces"):
            tokens.add(tmp_path / "tokens.json", name)
    assert not (tmp_path / "tokens.json").exists()
    tokens.add(tmp_path / "tokens.json", "ana")


def test_a_configuration_cannot_name_all_projects(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("alma:\n  project_id: everywhere\n  storage: sqlite\n")
    with pytest.raises(ConfigError, match="means all projects; name a single project"):
        ALMA.from_config(file)


@pytest.mark.parametrize("name", ["' everywhere '", "${NOT_SET_HERE:-everywhere}", "!!str everywhere"])
def test_no_spelling_in_a_configuration_names_all_projects(tmp_path: Path, name: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"project_id: {name}\n")
    with pytest.raises(ConfigError, match="means all projects; name a single project"):
        ALMA.from_config(file)


def test_a_folder_named_like_all_projects_needs_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "everywhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["init"]) != 0
    assert "error: 'everywhere' means all projects; name this one with --project-id" in capsys.readouterr().err
    assert list(folder.iterdir()) == []
    assert main(["init", "--project-id", "shop"]) == 0


def test_a_rule_for_all_projects_in_the_export_of_others_waits(tmp_path: Path) -> None:
    with ALMA.quickstart("shop", tmp_path / "theirs") as theirs:
        theirs.add_rule("dev", "Use pnpm", reach="always")
        lines = "".join(f"{line}\n" for line in export_lines(theirs))
    assert '"project":"everywhere"' in lines
    with ALMA.quickstart("shop", tmp_path / "own") as own:
        import_from(own, StringIO(lines), "export.jsonl", trusted=False)
        assert own.list("rule") == []
        assert len(own.list("rule", status="candidate")) == 1
        assert "pnpm" not in own.retrieve("Install the packages", "dev").to_prompt()


def test_messages_name_what_is_missing(tmp_path: Path, alma: ALMA) -> None:
    with pytest.raises(NotFoundError, match="there is no token 'zz'; no tokens exist yet"):
        tokens.revoke(tmp_path / "tokens.json", "zz")
    with pytest.raises(ConfigError, match="graph backend 'neo4j' needs the option 'uri'"):
        create_graph_store("neo4j")
    with pytest.raises(ConfigError, match="graph backend 'kuzu' has no option 'uri'; its options are: path"):
        create_graph_store("kuzu", uri="bolt://x")
    memory = AsyncALMA(alma)
    with pytest.raises(AttributeError, match=r"AsyncALMA has no 'engine'; it is on the memory itself: \.alma\.engine"):
        asyncio.run(memory.engine.close())  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="AsyncALMA has no 'retrive'"):
        asyncio.run(memory.retrive())  # type: ignore[attr-defined]


def test_a_long_text_is_compared_in_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    compare = LocalReader.compare

    def count_pairs(self: LocalReader, pairs: Sequence[Pair]) -> list[Relation]:
        counts[-1] += len(pairs)
        return compare(self, pairs)

    monkeypatch.setattr(LocalReader, "compare", count_pairs)
    for size in (50, 200):
        counts.append(0)
        lines = [
            f"We decided to use tool{number} for the mailer service because it is simple." for number in range(size)
        ]
        with ALMA.quickstart("p", tmp_path / str(size)) as alma:
            learned = operations()["learn_from_text"].call(alma, {"text": "\n".join(lines), "agent": "dev"})
            assert learned.new == size
    assert counts[1] <= 5 * counts[0]


def test_a_repetition_within_one_text_is_found(alma: ALMA) -> None:
    lines = [f"We decided to use tool{number} for the mailer service because it is simple." for number in range(40)]
    lines.append("We decided to use tool7 for mailer service, because it is simple!")
    learned = operations()["learn_from_text"].call(alma, {"text": "\n".join(lines), "agent": "dev"})
    assert (learned.new, len(alma.list(limit=100))) == (40, 40)


def test_a_repository_inside_another_does_not_use_the_memory_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign, own = tmp_path / "vendor" / "foreign", tmp_path / "src" / "deep"
    for folder in (tmp_path, foreign):
        (folder / ".git").mkdir(parents=True)
    own.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    monkeypatch.chdir(own)
    assert main(["list"]) == 0
    monkeypatch.chdir(foreign)
    assert main(["list"]) != 0
    assert "pass --config" in capsys.readouterr().err
    assert main(["list", "--config", str(tmp_path / ".alma" / "config.yaml")]) == 0
