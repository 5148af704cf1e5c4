"""Names, and when two of them are the same."""

from __future__ import annotations


def name_key(name: str) -> str:
    """Case, width and white space make no difference to whom a name names."""
    if name.isascii():
        return " ".join(name.split()).casefold()
    # Loaded here because most names do without it.
    import unicodedata

    return " ".join(unicodedata.normalize("NFKC", name).split()).casefold()
