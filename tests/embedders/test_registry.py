from __future__ import annotations

import importlib.util
import logging

import pytest

from alma import embedders
from alma.embedders import create
from alma.embedders.hash import HashEmbedder
from alma.embedders.local import LocalEmbedder
from alma.embedders.remote import AzureEmbedder, OpenAIEmbedder
from alma.errors import ConfigError

AZURE = {"endpoint": "https://x.example", "deployment": "emb", "api_key": "k"}


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    embedders._say_words_only.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_names_give_their_embedders() -> None:
    assert isinstance(create("local", dim=384, options={}), LocalEmbedder)
    assert isinstance(create("hash", dim=None, options={}), HashEmbedder)
    assert isinstance(create("openai", dim=None, options={"api_key": "k"}), OpenAIEmbedder)
    assert isinstance(create("azure", dim=None, options=AZURE), AzureEmbedder)
    assert isinstance(create("auto", dim=None, options={}), LocalEmbedder)
    assert create("none", dim=None, options={}) is None


def test_mock_is_hash() -> None:
    embedder = create("mock", dim=64, options={})
    assert embedder is not None
    assert embedder.name == "hash-64"


def test_auto_without_packages_is_words_only_and_says_so_once(
    no_packages: None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "alma"):
        assert [create("auto", dim=None, options={}) for _ in range(3)] == [None] * 3
    assert len(caplog.records) == 1
    assert "pip install '.[local]'" in caplog.text


def test_unknown_name_suggests_and_lists() -> None:
    with pytest.raises(ConfigError, match=r"'locl'.*'local'.*auto, local, onnx, openai, azure, hash, none"):
        create("locl", dim=None, options={})


@pytest.mark.parametrize("provider", ["local", "auto"])
def test_wrong_dim_for_local_says_the_right_one(provider: str) -> None:
    with pytest.raises(ConfigError, match=r"384 dimensions, not 1536: set `embedding_dim` to 384"):
        create(provider, dim=1536, options={})


def test_dim_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        create("hash", dim=0, options={})


def test_unknown_option_names_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match=r"'modle'.*'model'.*api_key, model, base_url, timeout, retries"):
        create("openai", dim=None, options={"api_key": "k", "modle": "x"})
    with pytest.raises(ConfigError, match="takes no options, so remove 'model'"):
        create("local", dim=None, options={"model": "x"})


@pytest.mark.parametrize(
    ("provider", "options", "message"),
    [
        ("openai", {}, "`api_key`.*OPENAI_API_KEY"),
        ("openai", {"api_key": ""}, "`api_key`.*OPENAI_API_KEY"),
        ("azure", {**AZURE, "api_key": None}, "`api_key`.*AZURE_OPENAI_API_KEY"),
        ("azure", {**AZURE, "endpoint": ""}, "`endpoint`.*AZURE_OPENAI_ENDPOINT"),
        ("openai", {"api_key": 5}, "`api_key` must be a string, not a number"),
        ("openai", {"api_key": "k", "timeout": 0}, "`timeout` must be a number above 0"),
        ("openai", {"api_key": "k", "retries": 1.5}, "`retries` must be a whole number"),
        ("openai", {"api_key": "k", "model": "nomic"}, "set the embedder's `dim`"),
    ],
)
def test_bad_option_says_what_to_set(provider: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create(provider, dim=None, options=options)
