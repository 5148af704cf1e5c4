"""Most tests compare with the package `tokenizers`, which reads the original tokenizer.json beside this file."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma.embedders import local
from alma.embedders.local import (
    CHARACTERS,
    FOLDER,
    HANGUL,
    LONGEST_TOKEN,
    MAX_TOKENS,
    SURROGATES,
    VOCABULARY,
    WordPiece,
    load_tokenizer,
)

ORIGINAL = Path(__file__).parent / "tokenizer.json"
TOKENS = (FOLDER / VOCABULARY.name).read_text(encoding="utf-8").split("\n")[:-1]
TABLE = (FOLDER / CHARACTERS.name).read_text(encoding="utf-8")
NO_LIMIT = sys.maxsize

PIECES = [
    *(
        "word",
        "Words",
        "unaffable",
        "UNBELIEVABLY",
        "naïve",
        "café",
        "ΣΊΣΥΦΟΣ",
        "İstanbul",
        "straße",
        "don't",
        "e-mail",
    ),
    *(" ", "\t", "\n", "\r", "\x0b", "\x1c", "\x85", "\xa0", "\u2009", "\u200b", "\u2028", "\u3000", "\ufeff", "\x00"),
    *("[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]", "[cls]", "[CLS", "CLS]", "[", "]", "##", "##ing", "[unused1]"),
    *("e\u0301", "\u0323\u0307", "\u0307\u0323", "\u302e\u302f", "\u1d165\u0301", "\u034f", "\u20dd", "\u0345"),
    *("今日", "豈", "\U00020000", "\U0002f800", "한국어", "각", "\u1100\u1161", "हिन्दी", "ไทย", "עברית", "العربية"),
    *(
        "!",
        "…",
        "—",
        "“",
        "$",
        "€",
        "`",
        "^",
        "😀",
        "👩\u200d💻",
        "\ufffd",
        "\ue000",
        "\ud800",
        "\udc00",
        "ﬁ",
        "Ａ",
        "½",
    ),
    *("a" * 99, "a" * 100, "a" * 101, "é" * 100, "한" * 34, "\u0301" * 101, "x" * 18, "0123456789" * 10),
]

Encode = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def cut() -> WordPiece:
    return load_tokenizer()


@pytest.fixture(scope="module")
def whole() -> WordPiece:
    return WordPiece("\n".join(TOKENS), TABLE, limit=NO_LIMIT)


@pytest.fixture(scope="module")
def original_cut() -> Encode:
    return original(MAX_TOKENS)


@pytest.fixture(scope="module")
def original_whole() -> Encode:
    return original(None)


def original(limit: int | None) -> Encode:
    package = pytest.importorskip("tokenizers", reason="the package `tokenizers` is the reference; it comes with [dev]")
    tokenizer = package.Tokenizer.from_file(str(ORIGINAL))
    tokenizer.no_padding()
    tokenizer.no_truncation() if limit is None else tokenizer.enable_truncation(limit)

    def encode(text: str) -> list[int]:
        encoding = tokenizer.encode(text.encode("utf-8", "replace").decode())
        assert set(encoding.attention_mask) == {1}
        ids: list[int] = encoding.ids
        return ids

    return encode


def tokens(ids: list[int]) -> list[str]:
    return [TOKENS[one] for one in ids[1:-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Hello, World!", "hello , world !"),
        ("unaffable", "una ##ffa ##ble"),
        ("Café NAÏVE e\u0301", "cafe naive e"),
        ("ΣΑΣ", "σ ##α ##σ"),
        ("一二x三", "一 二 x 三"),
        ("a\x0bb\u200bc\td\xa0e", "abc d e"),
        ("don't $5", "don ' t $ 5"),
        ("go [SEP] [sep]", "go [SEP] [ sep ]"),
        ("x😀y z", "[UNK] z"),
        ("a\ud800b", "a ? b"),
        ("각", "\u1100 ##\u1161 ##\u11a8"),
        ("a" * 101 + " b", "[UNK] b"),
    ],
)
def test_tokens(whole: WordPiece, text: str, expected: str) -> None:
    assert tokens(whole.encode(text)) == expected.split()


def test_begin_and_end(cut: WordPiece) -> None:
    assert cut.encode("") == [101, 102]
    assert cut.encode("tea") == [101, 5572, 102]


def every_character() -> Iterator[int]:
    """All of the planes in which characters are given names one by one, and a sample of the others."""
    for plane in range(17):
        yield from range(plane << 16, (plane + 1) << 16, 1 if plane in (0, 1, 14) else 61)


def test_every_character_within_a_word_is_as_in_the_original(whole: WordPiece, original_whole: Encode) -> None:
    codes = list(every_character())
    for start in range(0, len(codes), 512):
        block = codes[start : start + 512]
        text = " ".join(f"a{chr(code)}b" for code in block)
        if whole.encode(text) != original_whole(text):
            different = [f"{code:#x}" for code in block if whole.encode(chr(code)) != original_whole(chr(code))]
            pytest.fail(f"from {block[0]:#x}: {different}")


@given(st.text(st.characters()))
def test_any_text_is_as_in_the_original(cut: WordPiece, original_cut: Encode, text: str) -> None:
    assert cut.encode(text) == original_cut(text)


@given(st.lists(st.sampled_from(PIECES) | st.characters(), max_size=30).map("".join))
def test_hard_pieces_put_together_are_as_in_the_original(cut: WordPiece, original_cut: Encode, text: str) -> None:
    assert cut.encode(text) == original_cut(text)


@given(st.text(st.sampled_from(sorted({char for token in TOKENS for char in token})), max_size=60))
def test_letters_of_the_vocabulary_are_as_in_the_original(cut: WordPiece, original_cut: Encode, text: str) -> None:
    assert cut.encode(text) == original_cut(text)


def test_every_token_as_a_text_is_as_in_the_original(whole: WordPiece, original_whole: Encode) -> None:
    text = " ".join(TOKENS + [token.removeprefix("##") for token in TOKENS])
    assert whole.encode(text) == original_whole(text)


@given(
    st.integers(MAX_TOKENS - 8, MAX_TOKENS + 3),
    st.sampled_from(["unaffable", "[CLS]", "!?!?!?", "今日は", "😀", "x" * 101, "\u0301", "[MASK][MASK]"]),
    st.sampled_from(["", " ", " end"]),
)
def test_long_text_is_cut_as_in_the_original(
    cut: WordPiece, original_cut: Encode, words: int, last: str, end: str
) -> None:
    text = "tea " * words + last + end
    assert cut.encode(text) == original_cut(text)


def test_long_text_is_cut_to_the_limit_with_its_end(cut: WordPiece) -> None:
    ids = cut.encode("unaffable " * 5000)
    assert (len(ids), ids[0], ids[-1]) == (MAX_TOKENS, 101, 102)


def test_words_and_characters_that_are_remembered_are_bounded(
    whole: WordPiece, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MANY_WORDS", 50)
    monkeypatch.setattr(local, "MANY_CHARACTERS", 60)
    small = WordPiece("\n".join(TOKENS), TABLE, limit=NO_LIMIT)
    texts = [f"{chr(code)}qzx{code} {'y' * (code % 150)}" for code in range(0x100, 0x900)]
    assert [small.encode(text) for text in texts] == [whole.encode(text) for text in texts]
    assert 0 < small._split.cache_info().currsize <= 50
    assert len(small._characters) == 60


def test_threads_share_one(monkeypatch: pytest.MonkeyPatch, whole: WordPiece) -> None:
    monkeypatch.setattr(local, "MANY_WORDS", 3)
    texts = [f"qzx{n % 7} wvy{n % 5} Größe{n % 3}" for n in range(200)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(load_tokenizer().encode, texts))
    assert found == [whole.encode(text) for text in texts]


def test_vocabulary_is_that_of_the_original() -> None:
    data = ORIGINAL.read_bytes()
    source = json.loads((FOLDER / "MANIFEST.json").read_text())["source"]
    assert hashlib.sha256(data).hexdigest() == source["tokenizer.json"]
    ids = json.loads(data)["model"]["vocab"]
    assert {token: at for at, token in enumerate(TOKENS)} == ids
    assert max(map(len, TOKENS)) == LONGEST_TOKEN


def test_table_is_in_order_and_leaves_room_for_the_rules() -> None:
    ranges = [(int(first, 16), int(last, 16)) for first, last, _ in (line.split(" ") for line in TABLE.splitlines())]
    assert ranges[0][0] == 0
    assert all(first <= last for first, last in ranges)
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    for rule in (HANGUL, SURROGATES):
        assert not any(first < rule.stop and rule.start <= last for first, last in ranges)
