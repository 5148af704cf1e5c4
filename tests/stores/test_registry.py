from __future__ import annotations

import sys

import pytest

from alma.errors import ConfigError, MissingExtraError
from alma.stores import IN_A_FILE, STORES, create
from alma.testing import make_record


@pytest.mark.parametrize("name", ["memory", *IN_A_FILE, "qdrant", "chroma"])
def test_each_name_that_needs_no_service_makes_a_store(tmp_path, name):
    options = {"path": str(tmp_path / name)} if name in ("qdrant", "chroma") else {}
    store = create(name, path=tmp_path / "store", options=options)
    store.put([make_record()])
    assert store.get(["a"]) == [make_record()]
    store.close()


def test_options_are_passed_on_and_checked(tmp_path):
    create("sqlite", path=tmp_path / "store", options={"busy_timeout": 1.0}).close()
    with pytest.raises(ConfigError, match="colour"):
        create("sqlite", path=tmp_path / "store", options={"colour": "red"})


def test_a_typo_is_answered_with_all_names(tmp_path):
    with pytest.raises(ConfigError) as error:
        create("sqlit", path=tmp_path / "store", options={})
    valid = ", ".join(STORES.built_in)
    assert str(error.value) == f"unknown storage 'sqlit'. Did you mean 'sqlite'? Valid: {valid}."


def test_postgres_without_its_package_names_the_extra(tmp_path, monkeypatch):
    for name in [one for one in sys.modules if one.startswith(("psycopg", "alma.stores.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[postgres\]'"):
        create("postgres", path=tmp_path, options={"dsn": "postgresql://localhost/x"})


def test_an_unknown_option_is_answered_with_the_valid_ones(tmp_path):
    with pytest.raises(ConfigError, match=r"Did you mean 'dsn'\? Valid: dsn, schema"):
        create("postgres", path=tmp_path, options={"dns": "x"})
