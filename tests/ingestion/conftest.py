"""Files as somebody has them, and what reading them tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alma.ingestion.catalogue import Catalogue, Wanted
from alma.ingestion.formats import cursor, plain, slack
from alma.ingestion.formats.shape import Asked, Told
from alma.ingestion.reading.sources import Reading, survey
from alma.ingestion.types import Format, IngestResult, Piece, Voice

Pieces = tuple[list[Piece], IngestResult]


def read_all(path: Path, **asked: Any) -> Pieces:
    """Every piece below a path, as the readers give them."""
    result = IngestResult()
    pieces: list[Piece] = []
    with Catalogue(path, Wanted.EVERYTHING) as catalogue:
        for one in catalogue.skipped:
            result.skip(one.path, one.reason)
        for entry in catalogue.entries:
            name = entry.source.name
            told = Told(lambda place, why, name=name: result.damage(name, place, why), result.leave, Asked(**asked))
            result.files[name] = str(entry.detected.format)
            if entry.detected.format is Format.CURSOR and entry.detected.read is None:
                assert entry.source.path is not None
                pieces += cursor.read(entry.source.path, name, told)
                continue
            reading = Reading(entry.source, survey(entry.source))
            if entry.detected.read is not None:
                pieces += entry.detected.read(reading, told)
            elif entry.detected.format is Format.SLACK:
                users = catalogue.beside(entry.source, "users.json")
                pieces += slack.read(reading, told, slack.roster(users, Asked(**asked).user))
            else:
                pieces += plain.read(reading, entry.detected.format, entry.known_as, Voice.OTHER)
            assert reading.finish()
    return pieces, result


@pytest.fixture(scope="session")
def read() -> Callable[..., Pieces]:
    return read_all
