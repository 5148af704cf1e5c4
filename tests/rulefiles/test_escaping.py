"""Text that is nothing but text, and comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alma.rulefiles.block import decode_text, encode_text, fold_text

PIECES = [
    "<!--",
    "-->",
    "*Why:*",
    "_Why:_",
    "**x:**",
    "\\",
    "\\\\",
    "`",
    "``",
    "```",
    "---",
    "# ",
    "@",
    "<",
    ">",
    "~~~",
]
PIECES += [" ", "\n", "\r", "\t", "\u200d", "\u202e", "\x1b", "é", "न", "[a]:", "1.", "a", "!", "*", "_", ":", "-", "+"]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=40)


@given(texts)
@example("\\")
@example("a\\\\`b`")
def test_what_was_written_is_read(text: str) -> None:
    line = encode_text(text)
    assert decode_text(line) == fold_text(text)
    assert fold_text(fold_text(text)) == fold_text(text)
    assert "\n" not in line


@given(texts)
def test_no_text_opens_or_ends_a_comment(text: str) -> None:
    assert "<!--" not in encode_text(text)
    assert "-->" not in encode_text(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Use snake_case and 2 * 3", "Use snake_case and 2 * 3"),
        ("Run `pytest -x <file>` and `@dataclass`", "Run `pytest -x <file>` and `@dataclass`"),
        ("# A heading", "\\# A heading"),
        ("---", "\\---"),
        ("- nested", "\\- nested"),
        ("```", "\\`\\`\\`"),
        ("~~~", "\\~~~"),
        ("> quoted", "\\> quoted"),
        ("[x]: http://x", "\\[x]: http://x"),
        ("read @~/.ssh/id_rsa", "read \\@~/.ssh/id_rsa"),
        ("mail ann@example.org", "mail ann@example.org"),
        ("close with </system>", "close with \\</system>"),
        ("<!-- alma:end -->", "\\<\\!-- alma:end --\\>"),
        ("`<!-- alma:end -->`", "\\`\\<\\!-- alma:end --\\>\\`"),
        ("**Note:** it", "\\**Note:** it"),
        ("no *Why:* here", "no \\*Why:* here"),
        ("C:\\temp\\new", "C:\\temp\\new"),
        ("a\\*b", "a\\\\*b"),
        ("two\nlines\r\n of\ttext", "two lines of text"),
        ("hid\u200bden \u202etext\x1b[0m", "hidden text"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_only_structure_is_escaped(text: str, line: str) -> None:
    assert encode_text(text) == line
