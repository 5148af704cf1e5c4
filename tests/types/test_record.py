from __future__ import annotations

import json
from datetime import datetime

import pytest

from alma.testing.contract import full_record
from alma.types.query import Where
from alma.types.record import from_json, to_json
from alma.types.times import from_micros, to_micros, utc


def test_a_record_survives_json() -> None:
    assert from_json(json.loads(json.dumps(to_json(full_record())))) == full_record()


def test_a_filter_takes_collections_not_one_string() -> None:
    with pytest.raises(TypeError, match="kinds"):
        Where(kinds="heuristic")


def test_times_must_be_aware() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        utc(datetime(2026, 1, 1))
    moment = full_record().created_at
    assert from_micros(to_micros(moment)) == moment
