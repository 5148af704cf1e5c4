"""`alma graph`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

FACTS = (
    "Maria's manager is Tom.",
    "Tom works at Globex.",
    "Bob Smith works at Initech.",
    "Robert Smith lives in Oslo.",
)


@pytest.fixture
def known(project: Path, run: Run) -> Path:
    for fact in FACTS:
        run("add", "knowledge", "--agent", "dev", "--domain", "people", "--fact", fact)
    assert run("graph", "build").code == 0
    return project


def test_build_reads_what_is_new(project: Path, run: Run) -> None:
    assert ": 0 new entities, 0 new relations" in run("graph", "build").out
    run("add", "knowledge", "--agent", "dev", "--domain", "people", "--fact", "Tom works at Globex.")
    assert ": 2 new entities, 1 new relation" in run("graph", "build").out
    again = run("graph", "build", "--everything", "--json").json
    assert (again["entities"], again["relationships"]) == (0, 0)


def test_what_a_deleted_memory_said_goes(known: Path, run: Run) -> None:
    [fact] = [one for one in run("list", "--json").json["memories"] if one["fact"].startswith("Tom")]
    run("delete", fact["id"], "--yes")
    run("graph", "build")
    assert "Globex" not in run("graph", "about", "Tom").out


def test_about_tells_relations_and_facts(known: Path, run: Run) -> None:
    out = run("graph", "about", "tom").out
    assert out.startswith("Tom (person)\n")
    assert "works_at Globex" in out
    assert "manager_of Maria" in out
    assert "): Tom works at Globex." in out
    card = run("graph", "about", "Tom", "--limit", "1", "--json").json
    assert (card["entity"]["name"], len(card["now"])) == ("Tom", 1)
    assert "nothing else is known" not in out


def test_as_it_was_before_anybody_knew(known: Path, run: Run) -> None:
    assert "works_at" not in run("graph", "about", "Tom", "--as-of", "2001-01-01").out


def test_find(known: Path, run: Run) -> None:
    assert [one["name"] for one in run("graph", "find", "TOM", "--json").json["entities"]] == ["Tom"]
    names = {one["name"] for one in run("graph", "find", "--type", "organisation", "--json").json["entities"]}
    assert names == {"Globex", "Initech"}
    assert "Globex" in run("graph", "find", "--limit", "50").out
    assert run("graph", "find", "Nobody").out.startswith("No entity of that name")


def test_an_empty_graph_says_how_to_fill_it(project: Path, run: Run) -> None:
    assert "`alma graph build`" in run("graph", "find").out
    assert "`alma graph build`" in run("graph", "about", "Tom").err


def test_around(known: Path, run: Run) -> None:
    lines = run("graph", "around", "Maria").out.splitlines()
    assert lines[0].startswith("1  Tom ──manager_of──▶ Maria")
    assert lines[1].startswith("2  Tom ──works_at──▶ Globex")
    assert "Globex" not in run("graph", "around", "Maria", "--depth", "1").out
    assert "Globex" not in run("graph", "around", "Tom", "--type", "manager_of").out
    out = run("graph", "around", "Maria", "--direction", "out").out
    assert out == "Maria: no relations\n"


def test_path(known: Path, run: Run) -> None:
    out = run("graph", "path", "Maria", "Globex").out
    assert out == "Maria ◀──manager_of── Tom ──works_at──▶ Globex\n"
    assert run("graph", "path", "Maria", "Globex", "--depth", "1", "--json").json == {"count": 0, "paths": []}
    assert "No path between these entities" in run("graph", "path", "Maria", "Oslo").out


def test_two_that_are_one(known: Path, run: Run) -> None:
    out = run("graph", "suggest").out
    assert "Robert Smith" in out
    merged = run("graph", "merge", "Robert Smith", "Bob Smith", "--json").json["entity"]
    assert (merged["name"], merged["aliases"]) == ("Robert Smith", ["Bob Smith"])
    assert "works_at Initech" in run("graph", "about", "Bob Smith").out
    assert run("graph", "suggest").out == "No entities look the same.\n"


def test_stats(known: Path, run: Run) -> None:
    out = run("graph", "stats").out
    assert "person 4" in out
    assert "works_at" in out
    assert run("graph", "stats", "--json").json["entity_types"]["person"] == 4


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("about", "Nobody"), "no entity 'Nobody'"),
        (("around", "Nobody"), "no entity 'Nobody'"),
        (("path", "Tom", "Nobody"), "no entity 'Nobody'"),
        (("merge", "Tom", "Nobody"), "no entity 'Nobody'"),
        (("about", " "), "NAME is empty"),
        (("about", "Tom", "--as-of", "yesterday-ish"), "--as-of must be"),
        (("about", "Tom", "--limit", "0"), "limit must be a whole number"),
        (("around", "Tom", "--depth", "0"), "depth must be a whole number"),
        (("around", "Tom", "--direction", "sideways"), "unknown direction 'sideways'"),
        (("path", "Tom", "Maria", "--depth", "99"), "depth must be a whole number"),
    ],
)
def test_bad_input_is_one_clear_line(known: Path, run: Run, argv: tuple[str, ...], message: str) -> None:
    ran = run("graph", *argv)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err
