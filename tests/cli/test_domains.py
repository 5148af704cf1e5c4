"""`alma domains`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PRESETS = {"coding", "research", "sales", "general", "customer_support", "content_creation"}
HOUSES = (
    "domains", "create", "houses", "--description", "Selling houses", "--entity", "house:rooms, price",
    "--entity", "visit", "--relationship", "shows:visit:house", "--learn", "pricing", "--exclude", "personal_data",
    "--min-occurrences", "2", "--decay-days", "60", "--metadata", '{"a": 1}',
)  # fmt: skip


def test_list_has_the_presets(project: Path, run: Run) -> None:
    found = run("domains", "list", "--json").json
    assert {one["name"] for one in found["domains"]} == PRESETS
    out = run("domains", "list").out
    assert all(name in out for name in PRESETS)


def test_show_draws_entities_relationships_and_categories(project: Path, run: Run) -> None:
    out = run("domains", "show", "sales").out
    for part in (
        "lead",
        "stage, value",
        "raised_by   objection     lead",
        "closing_techniques",
        "payment_details",
        "45.00",
    ):
        assert part in out
    assert run("domains", "show", "sales", "--json").json["domain"]["name"] == "sales"


def test_create_from_options(project: Path, run: Run) -> None:
    made = run(*HOUSES, "--json").json["domain"]
    assert made["entity_types"] == [
        {"name": "house", "description": "", "attributes": ["rooms", "price"]},
        {"name": "visit", "description": "", "attributes": []},
    ]
    assert made["relationship_types"] == [{"name": "shows", "source_type": "visit", "target_type": "house"}]
    assert (made["learning_categories"], made["excluded_categories"]) == (["pricing"], ["personal_data"])
    assert (made["min_occurrences_for_heuristic"], made["confidence_decay_days"], made["metadata"]) == (2, 60, {"a": 1})
    assert "houses" in run("domains", "list").out
    assert "alma domains use houses" in run(*HOUSES).out


@pytest.mark.parametrize("file", ["houses.yaml", "houses.json"])
def test_create_from_a_file_with_options_before_it(project: Path, run: Run, file: str) -> None:
    data = {
        "name": "houses",
        "description": "Old",
        "entity_types": [{"name": "house"}],
        "learning_categories": ["pricing"],
    }
    Path(file).write_text(json.dumps(data))
    made = run("domains", "create", "houses", "--from", file, "--description", "New", "--json").json["domain"]
    assert (made["description"], made["entity_types"][0]["name"]) == ("New", "house")


def test_a_followed_domain_gates_what_is_learned(project: Path, run: Run) -> None:
    run(*HOUSES)
    assert "project 'shop' now uses 'houses'; it may learn: pricing" in run("domains", "use", "houses").out
    assert [one["in_use"] for one in run("domains", "list", "--json").json["domains"] if one["name"] == "houses"] == [
        True
    ]
    learn = ("learn", "--agent", "a", "--task", "t", "--outcome", "success", "--strategy", "s", "--task-type")
    assert run(*learn, "pricing").code == 0
    ran = run(*learn, "weather")
    assert ran.code == 1
    assert "pricing" in ran.err


def test_delete_asks_and_takes_it_off_the_list(project: Path, run: Run, answering: Callable[[str], None]) -> None:
    run(*HOUSES)
    assert "pass --yes" in run("domains", "delete", "houses").err
    answering("\n")
    assert run("domains", "delete", "houses").out.endswith("Nothing was changed.\n")
    assert run("domains", "delete", "houses", "--yes").out == "deleted houses\n"
    assert run("domains", "list", "--json").json["count"] == 6
    assert run("domains", "delete", "coding", "--yes").code == 1


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("show", "sals"), "unknown schema 'sals'. Did you mean 'sales'?"),
        (("use", "sals"), "unknown schema 'sals'"),
        (("delete", "sals", "--yes"), "unknown schema 'sals'"),
        (("create", "x", "--from", "none.yaml"), "cannot read none.yaml"),
        (("create", "x", "--from", "bad.yaml"), "bad.yaml is not valid YAML"),
        (("create", "x", "--from", "bad.json"), "bad.json is not valid JSON"),
        (("create", "x", "--from", "list.yaml"), "list.yaml must be an object with the parts of a schema"),
        (("create", "x", "--from", "odd.yaml"), "unknown argument 'entities'. Did you mean 'entity_types'?"),
        (("create", "x", "--from", "named.yaml"), "named.yaml describes the schema 'y', not 'x'"),
        (("create", "x", "--relationship", "shows:visit"), "must be NAME:SOURCE:TARGET"),
        (
            ("create", "x", "--relationship", "shows:visit:house"),
            "unknown entity type 'visit' in the relationship 'shows'. Valid: none",
        ),
        (("create", "x", "--learn", "a", "--exclude", "a"), "both learned and excluded"),
        (("create", "x", "--min-occurrences", "0"), "--min-occurrences must be"),
        (("create", "x", "--metadata", "{"), "metadata is not valid JSON"),
    ],
)
def test_bad_input_is_one_clear_line(project: Path, run: Run, argv: tuple[str, ...], message: str) -> None:
    Path("bad.yaml").write_text("a: [")
    Path("bad.json").write_text("{")
    Path("list.yaml").write_text("- a")
    Path("odd.yaml").write_text("entities: []")
    Path("named.yaml").write_text("name: y")
    ran = run("domains", *argv)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err
    assert run("domains", "list", "--json").json["count"] == 6


def test_what_is_followed_is_listed_and_shown_after_it_was_deleted(project: Path, run: Run) -> None:
    run("domains", "create", "letters", "--learn", "wording")
    run("domains", "use", "letters")
    run("domains", "delete", "letters", "--yes")
    listed = {one["name"]: one["in_use"] for one in run("domains", "list", "--json").json["domains"]}
    assert listed["letters"]
    assert "wording" in run("domains", "show", "letters").out
    run("domains", "use", "general")
    assert "letters" not in run("domains", "list").out
    assert run("domains", "show", "letters").code == 1


def test_a_schema_that_is_made_anew_says_that_the_project_follows_the_former(project: Path, run: Run) -> None:
    run("domains", "create", "letters", "--learn", "wording")
    run("domains", "use", "letters")
    assert "still uses the previous version" in run("domains", "create", "letters", "--learn", "tone", "--replace").out
    learn = ("learn", "--agent", "a", "--task", "Write", "--outcome", "success", "--strategy", "Plainly")
    assert run(*learn, "--task-type", "tone").code == 1
    run("domains", "use", "letters")
    assert run(*learn, "--task-type", "tone").code == 0


def test_a_hint_can_be_pasted_whatever_the_name(project: Path, run: Run) -> None:
    assert "alma domains use 'my letters'" in run("domains", "create", "my letters").out


def test_an_agent_declared_later_that_does_not_fit_does_not_lock_the_memory(project: Path, run: Run) -> None:
    assert run("domains", "use", "sales").code == 0
    file = project / ".alma" / "config.yaml"
    file.write_text(file.read_text() + "  agents:\n    coder: {can_learn: [testing]}\n    seller: {}\n")
    learn = ("learn", "--task", "Close", "--outcome", "success", "--strategy", "Ask", "--task-type")
    assert run(*learn, "closing_techniques", "--agent", "seller").code == 0
    for category in ("testing", "closing_techniques"):
        refused = run(*learn, category, "--agent", "coder")
        assert (refused.code, "It may learn: nothing that has a category" in refused.err) == (1, True)
    assert "may learn about testing" not in run("session", "start", "--agent", "coder").out
    assert "You learn about" not in run("session", "wake-up", "--agent", "coder").out
    assert run("domains", "use", "general").code == 0
    assert run(*learn, "testing", "--agent", "coder").code == 0


def test_another_schema_of_the_same_name_is_refused(project: Path, run: Run) -> None:
    first = run("domains", "create", "letters", "--learn", "wording", "--json").json
    assert run("domains", "create", "letters", "--learn", "wording", "--json").json == first
    refused = run("domains", "create", "letters", "--learn", "tone")
    assert refused.code == 1
    assert "--replace" in refused.err
    assert run("domains", "show", "letters", "--json").json == first
