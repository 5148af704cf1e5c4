"""Names and docstrings: what `make house` counts, the glossary, and names that were given up."""

import re
from pathlib import Path

import pytest
from tools import house

from alma.cli import render

ROOT = Path(__file__).parent.parent
GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
RENAMES = ROOT / "tools" / "renames.txt"


@pytest.fixture(scope="module")
def trees() -> house.Trees:
    return house.read_trees()


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table rows under a heading of the glossary."""
    section = GLOSSARY.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_public_function_and_class_has_a_docstring(trees: house.Trees) -> None:
    missing, total = house.find_undocumented(trees)
    assert total > 1_000
    assert missing == []


def test_locals_have_names_that_say_what_they_hold(trees: house.Trees) -> None:
    vague, assigned = house.find_vague_locals(trees)
    assert len(vague) <= 0.005 * assigned, vague


def test_a_class_name_means_one_thing_unless_the_glossary_lists_it(trees: house.Trees) -> None:
    listed = {name.strip("`"): sorted(re.findall(r"`(.+?)`", modules)) for name, modules in rows("Names used twice")}
    assert {name: sorted(paths) for name, paths in house.find_repeated_classes(trees).items()} == listed


def test_the_code_has_what_the_glossary_names(trees: house.Trees) -> None:
    words = {word for path in trees for word in re.findall(r"\w+", (house.SOURCE / path).read_text(encoding="utf-8"))}
    headings = [one for one in re.findall(r"^## (.+)$", GLOSSARY, re.M) if one != "Names used twice"]
    terms = {cells[0]: re.findall(r"`(\w+)`", cells[2]) for heading in headings for cells in rows(heading)}
    assert len(terms) > 50
    assert {term: names for term, names in terms.items() if not names or not words.issuperset(names)} == {}


def test_names_that_were_given_up_are_not_defined_again(trees: house.Trees) -> None:
    lines = [line for line in RENAMES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert len(lines) > 100
    wrong = []
    for line in lines:
        module, old, new = re.fullmatch(r"(\S+): (\S+) -> (\S+)", line).groups()  # type: ignore[union-attr]
        path = module.replace(".", "/")
        names = house.find_definitions(trees.get(f"{path}.py") or trees[f"{path}/__init__.py"])
        if old in names or new not in names:
            wrong.append(line)
    assert wrong == []


def test_the_command_line_shows_classes_that_exist(trees: house.Trees) -> None:
    defined = set().union(*map(house.find_definitions, trees.values()))
    assert {*render.SHOWN, *render._COLUMNS} <= defined
