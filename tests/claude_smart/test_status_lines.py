"""What `status` and `usage` say about the model and the team's server is so."""

from __future__ import annotations

import json

import pytest

from .conftest import Person


def configure(person: Person, **settings: str) -> None:
    person.home.mkdir(parents=True, exist_ok=True)
    (person.home / "config.json").write_text(json.dumps(settings))


def test_usage_says_whether_the_model_reads(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLAUDE_SMART_USE_LOCAL_CLI", raising=False)
    assert person.types("usage").out.startswith("model: off")
    configure(person, model="on")
    assert person.types("usage").out.startswith("model: on (")
    monkeypatch.setenv("CLAUDE_SMART_USE_LOCAL_CLI", "0")
    assert person.types("usage").out.startswith("model: off, by CLAUDE_SMART_USE_LOCAL_CLI=0 (")


def test_a_server_that_never_answered_has_no_time(person: Person) -> None:
    configure(person, server="https://team.invalid")
    said = person.types("status").out
    assert "no contact yet" in said
    assert "never UTC" not in said
