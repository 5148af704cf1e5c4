"""Texts written to keep a pattern busy: one short piece many times, with or without words around it."""

from __future__ import annotations

from collections.abc import Iterator

_PIECES = (
    *(
        ". ",
        ".",
        "-",
        "_",
        " ",
        "\t",
        "\n",
        " \n",
        "\n\t",
        '"',
        "'",
        "`",
        "(",
        "[",
        "{",
        "<",
        "*",
        "#",
        "/",
        "\\",
        ":",
        ",",
    ),
    *(
        "=",
        "|",
        "!",
        "? ",
        "7",
        "a",
        "A",
        "a7",
        "1.",
        "a.",
        "x:zx",
        "a-",
        "a_",
        "Ab",
        "a/",
        "a=b ",
        "a(",
        "a, ",
        "a@b.",
    ),
    *("1.2 Install ........ 7\n", "- a\n", "# a\n", "<a>", "</a>", "```\n", '<a b="', "| a ", "<!-- ", "[a](", "**a "),
    *("http://a:", '{"a":', "\x1b[", "%20", "${a", "--a ", "A_B=", "password is ", "token: ", "key=", "pw for a "),
    *(
        "no, don't ",
        "never use ",
        "instead of ",
        "please  ",
        "ok, ",
        "because ",
        "between a and ",
        "last week ",
        "2024-01-01 ",
    ),
    *(
        "remind me ",
        "Error: ",
        "at a (",
        'File "a", line 1\n',
        "User: a\n",
        "cd a && ",
        "We use it. ",
        "Ann Lee's ",
        "as of 1999, ",
    ),
    *("的", "م", "👍🏽", "e\u0301", "\u00a0", "“", "«", "—", "…", "İ", "//,", "let  ", "a., "),
)


def nasty_texts(size: int) -> Iterator[str]:
    """Yield texts of about `size` characters."""
    for piece in _PIECES:
        many = piece * (max(1, size - 20) // len(piece))
        yield f"see below {many}!"
        yield f"{many}\x7f" if size < 1000 else many
