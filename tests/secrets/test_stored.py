"""No secret of the examples reaches the database file, and no harmless text is changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.secrets.examples import HARMLESS, SECRETS, split_example

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.session import SessionInitializer
from alma.stores.sqlite import SQLiteStore


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[ALMA]:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="app") as alma:
        yield alma


def read_stored(alma: ALMA, folder: Path) -> bytes:
    alma.close()
    return b"".join(path.read_bytes() for path in sorted(folder.glob("alma.db*")))


def test_there_are_enough_examples() -> None:
    assert len(SECRETS) >= 100
    assert len(HARMLESS) >= 90


def test_no_secret_in_a_fact_is_stored(stored: ALMA, tmp_path: Path) -> None:
    for text in SECRETS:
        stored.add_domain_knowledge("dev", "ops", split_example(text)[0])
    database = read_stored(stored, tmp_path)
    leaked = [text for text in SECRETS if any(value.encode() in database for value in split_example(text)[1])]
    assert leaked == []


def test_no_secret_in_an_outcome_is_stored(stored: ALMA, tmp_path: Path) -> None:
    for text in SECRETS:
        written = split_example(text)[0]
        stored.learn("dev", f"Fix the login: {written}", "failure", f"Tried {written}", error_message=written)
    database = read_stored(stored, tmp_path)
    leaked = [text for text in SECRETS if any(value.encode() in database for value in split_example(text)[1])]
    assert leaked == []


def test_no_secret_of_a_prompt_is_stored_at_the_start_of_a_session(stored: ALMA, tmp_path: Path) -> None:
    for text in SECRETS:
        prompt = f"Set the server up.\n- Run {split_example(text)[0]}\n- Write the docs\n- Add tests"
        SessionInitializer(stored, workspace=None).initialize(agent="dev", user_prompt=prompt)
    database = read_stored(stored, tmp_path)
    leaked = [text for text in SECRETS if any(value.encode() in database for value in split_example(text)[1])]
    assert leaked == []


def test_a_harmless_text_is_stored_as_it_is(stored: ALMA, tmp_path: Path) -> None:
    kept = {text: stored.get(stored.add_domain_knowledge("dev", "ops", text).id) for text in HARMLESS}
    changed = {text: memory.fact for text, memory in kept.items() if text != memory.fact}
    assert changed == {}


@pytest.mark.parametrize("length", range(180, 230, 7))
def test_a_secret_where_a_long_text_is_cut_is_not_stored(stored: ALMA, tmp_path: Path, length: int) -> None:
    value = "Tr0ub4" + "dorXk29Lm"
    text = "word " * (length // 5) + f"password={value} and so on, " + "word " * 2000
    prompt = f"- Deploy the {text}\n- Write the docs"
    SessionInitializer(stored, workspace=None).initialize(agent="dev", user_prompt=prompt)
    stored.learn("dev", text, "failure", text, error_message=text)
    stored.add_episode("dev", "s1", [{"speaker": "Ana", "text": text}])
    assert value[:6].encode() not in read_stored(stored, tmp_path)


def test_the_database_is_readable_after_the_examples(stored: ALMA, tmp_path: Path) -> None:
    stored.add_domain_knowledge("dev", "ops", "my password is swordfish")
    stored.close()
    with sqlite3.connect(tmp_path / "alma.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
