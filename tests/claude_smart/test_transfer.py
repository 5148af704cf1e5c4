"""export and import of CLAUDE.md and AGENTS.md, as typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from alma.rulefiles.block import Words, write_item

from .conftest import Person

MINE = "# Working here\n\n- Never commit to main\n"
ODD = (
    'Use `it\'s` & "that" in <b>bold</b> @home, not *stars* or #tags',
    "提交前运行 make check",
    "- begins like an item <!-- and a comment -->",
    "Write C:\\new\\path with \\ and `a\\b`",
)


def teach(person: Person, *rules: str) -> None:
    for rule in rules:
        assert person.types("tag", "--", rule).code == 0


@pytest.mark.parametrize("file", ["CLAUDE.md", "AGENTS.md"])
def test_rules_go_to_a_file_and_back_without_loss(person: Person, file: str) -> None:
    teach(person, *ODD)
    person.types("edit", "提交前运行", "--trigger", "committing", "--reason", "CI is slow")
    Path(file).write_text(MINE)
    before = person.types("export", "--json").json["rules"]
    assert f"{file} has 4 rules" in person.types("export", file).out
    text = Path(file).read_text()
    assert text.startswith(MINE)
    assert person.types("import", file).out == f"{file}: 0 changes imported\n"
    assert person.types("export", "--json").json["rules"] == before
    person.types("export", file)
    assert Path(file).read_text() == text


def test_without_rules_nothing_is_written(person: Person) -> None:
    assert person.types("export", "AGENTS.md").out == "No rules to export: AGENTS.md was not written.\n"
    assert not Path("AGENTS.md").exists()
    Path("AGENTS.md").write_text(MINE)
    assert person.types("export", "AGENTS.md").out == "No rules to export: AGENTS.md was not written.\n"
    assert person.types("export", "AGENTS.md", "--json").json["written"] is False
    assert Path("AGENTS.md").read_text() == MINE
    teach(person, "Use tabs")
    said = person.types("export", "AGENTS.md").out
    assert said.endswith(
        "Undo: claude-smart export AGENTS.md --remove\nAfter editing the file: claude-smart import AGENTS.md\n"
    )


def test_what_was_edited_there_is_taken_over_and_undone(person: Person) -> None:
    teach(person, "Use pnpm instead of npm", "Use tabs")
    person.types("export", "CLAUDE.md")
    file = Path("CLAUDE.md")
    file.write_text(
        file.read_text().replace("Use pnpm", "Use bun").replace("<!-- alma:end", "- Sign commits\n<!-- alma:end")
    )
    assert "edits that were not imported" in person.fails("export", "CLAUDE.md")
    assert "claude-smart import CLAUDE.md" in person.fails("export", "CLAUDE.md")
    assert "2 changes to import" in person.types("import", "CLAUDE.md", "--dry-run").out
    assert "CLAUDE.md: 2 changes imported\n" in person.types("import", "CLAUDE.md").out
    assert {rule["rule"] for rule in person.rules()} == {"Use bun instead of npm", "Use tabs", "Sign commits"}
    [bun] = [rule for rule in person.rules() if "bun" in rule["rule"]]
    assert bun["prefer"] == ["bun"]
    assert person.types("restore", bun["id"]).code == 0
    assert {rule["rule"] for rule in person.rules()} == {"Use pnpm instead of npm", "Use tabs", "Sign commits"}


def test_what_was_removed_there_is_put_away_only_on_request(person: Person) -> None:
    teach(person, "Use tabs", "Sign commits")
    person.types("export", "CLAUDE.md")
    file = Path("CLAUDE.md")
    file.write_text("".join(line for line in file.read_text().splitlines(keepends=True) if "Use tabs" not in line))
    person.types("import", "CLAUDE.md")
    assert len(person.rules()) == 2
    person.types("import", "CLAUDE.md", "--retire")
    assert [rule["rule"] for rule in person.rules()] == ["Sign commits"]
    assert person.types("restore", "use tabs").code == 0
    assert len(person.rules()) == 2


def test_rules_in_claude_md_are_not_shown_to_a_session_twice(person: Person) -> None:
    teach(person, *ODD)
    person.types("export", "AGENTS.md")
    assert "are in CLAUDE.md or AGENTS.md" in person.types("show", "--playbook").out
    # Beside a CLAUDE.md, the host does not read AGENTS.md.
    Path("CLAUDE.md").write_text("# Ours\n")
    assert "make check" in person.types("show", "--playbook").out
    person.types("export", "CLAUDE.md")
    assert person.types("show", "--json").json["playbook"] == ""
    assert "are in CLAUDE.md" in person.types("show", "--playbook").out
    assert len(person.rules()) == 4
    person.types("export", "CLAUDE.md", "--remove")
    assert "make check" in person.types("show", "--playbook").out


@pytest.mark.parametrize("before", [None, MINE, "no line end", "windows\r\n"])
def test_an_export_is_undone(person: Person, before: str | None) -> None:
    teach(person, "Use tabs")
    file = Path("CLAUDE.md")
    if before is not None:
        file.write_bytes(before.encode())
    person.types("export", "CLAUDE.md")
    assert person.types("export", "CLAUDE.md", "--remove").code == 0
    if before is None:
        assert not file.exists()
    else:
        assert file.read_bytes().decode().rstrip("\r\n") == before.rstrip("\r\n")
        assert "has no block of rules" in person.fails("export", "CLAUDE.md", "--remove")
    assert len(person.rules()) == 1


def test_an_export_names_the_option_and_the_command(person: Person) -> None:
    teach(person, "Use tabs")
    person.types("tag", "--everywhere", "Answer in English")
    said = person.types("export", "CLAUDE.md").out
    left_out = "it applies in all projects, not only in this one; include it with --everywhere"
    assert f"- Left out: Answer in English ({left_out})" in said
    assert "Answer in English" not in Path("CLAUDE.md").read_text()
    mark = "<!-- alma:begin Edit, add or remove items, then run: claude-smart import CLAUDE.md -->\n"
    assert Path("CLAUDE.md").read_text().startswith(mark)


def test_what_a_colleague_added_is_not_removed_unless_forced(person: Person) -> None:
    teach(person, "Use tabs")
    person.types("export", "CLAUDE.md")
    file = Path("CLAUDE.md")
    words = Words("Use ruff")
    file.write_text(file.read_text().replace("- Use tabs", f"{write_item(words, '4kq0m8zt')}\n- Use tabs"))
    assert "Use ruff (new)" in person.fails("export", "CLAUDE.md", "--remove")


def test_an_export_with_edits_is_not_removed_unless_forced(person: Person) -> None:
    teach(person, "Use tabs")
    person.types("export", "CLAUDE.md")
    file = Path("CLAUDE.md")
    file.write_text(file.read_text().replace("Use tabs", "Use spaces"))
    assert "edits that were not imported" in person.fails("export", "CLAUDE.md", "--remove")
    assert person.types("export", "CLAUDE.md", "--remove", "--force").code == 0
    assert not file.exists()


def test_a_dry_run_writes_nothing(person: Person) -> None:
    teach(person, "Use tabs")
    assert "+- Use tabs <!--" in person.types("export", "CLAUDE.md", "--dry-run").out
    assert not Path("CLAUDE.md").exists()


def test_lists_that_a_person_wrote_become_rules_when_asked(person: Person) -> None:
    Path("CLAUDE.md").write_text(MINE)
    assert "has no block of rules" in person.fails("import", "CLAUDE.md")
    person.types("import", "CLAUDE.md", "--all")
    assert [rule["rule"] for rule in person.rules()] == ["Never commit to main"]
    assert person.types("show", "--json").json["playbook"] == ""
