"""No secret of the examples reaches the database file, and no harmless text is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.redaction.examples import HARMLESS, SECRETS, split_example

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


def find_leaks(database: bytes) -> list[str]:
    """Return the examples whose secret is in these bytes. A short one counts with the words before it."""
    leaked = []
    for example in SECRETS:
        text, values = split_example(example)
        for value in values:
            start = text.index(value)
            known = value if len(value) > 5 else text[max(0, start - 5) : start + len(value)]
            leaked += [example] if known.encode() in database else []
    return leaked


def test_there_are_enough_examples() -> None:
    assert len(SECRETS) >= 100
    assert len(HARMLESS) >= 90


def test_no_secret_in_a_fact_is_stored(stored: ALMA, tmp_path: Path) -> None:
    for text in SECRETS:
        stored.add_domain_knowledge("dev", "ops", split_example(text)[0])
    assert find_leaks(read_stored(stored, tmp_path)) == []


def test_no_secret_in_an_outcome_is_stored(stored: ALMA, tmp_path: Path) -> None:
    for text in SECRETS:
        written = split_example(text)[0]
        stored.learn("dev", f"Fix the login: {written}", "failure", f"Tried {written}", error_message=written)
    assert find_leaks(read_stored(stored, tmp_path)) == []


def test_no_secret_of_a_prompt_is_stored_at_the_start_of_a_session(stored: ALMA, tmp_path: Path) -> None:
    for number, text in enumerate(SECRETS):
        prompt = f"Set the server up.\n- Run {split_example(text)[0]}\n- Write the docs\n- Add tests"
        SessionInitializer(stored, workspace=None).initialize(agent=f"dev-{number}", user_prompt=prompt)
    assert find_leaks(read_stored(stored, tmp_path)) == []


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
