"""Files as somebody has them, and what reading them gives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from alma.ingestion.catalogue import Catalogue
from alma.ingestion.formats.common import FileReading, Piece
from alma.ingestion.intake import IngestResult
from alma.ingestion.sources import Source, survey_bytes

Pieces = tuple[list[Piece], IngestResult]


def read_all(path: Path, **asked: Any) -> Pieces:
    """Every piece below a path, as the readers give them."""
    result = IngestResult()
    pieces: list[Piece] = []
    with closing(Catalogue(path)) as catalogue:
        for one in catalogue.skipped:
            result.add("skipped", one)
        for entry in catalogue.entries:

            def find_beside(name: str, source: Source = entry.source) -> Source | None:
                return catalogue.find_beside(source, name)

            result.files[entry.source.name] = str(entry.reader.format)
            surveyed = survey_bytes(entry.source)
            reading = FileReading(
                entry.source,
                entry.reader.format,
                result,
                encoding=surveyed.encoding,
                known_as=entry.known_as,
                find_beside=find_beside,
                **asked,
            )
            pieces += reading.read_pieces(entry.reader.read)
            assert reading.finish() == surveyed.digest
    return pieces, result


@pytest.fixture(scope="session")
def read() -> Callable[..., Pieces]:
    return read_all
