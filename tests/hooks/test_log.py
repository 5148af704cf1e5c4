from __future__ import annotations

from pathlib import Path

from alma.hooks import paths
from alma.hooks.paths import DataDir


def test_a_line_has_a_time_an_event_and_a_message(tmp_path: Path) -> None:
    place = DataDir(str(tmp_path / "new"))
    paths.log_problem(place, "Stop", "two\nlines " + "x" * 2000)
    [line] = Path(place.log).read_text().splitlines()
    moment, event, message = line.split(" ", 2)
    assert moment.endswith("Z")
    assert moment[10] == "T"
    assert event == "Stop"
    assert message.startswith("two lines x")
    assert len(line) == 500
    assert Path(place.log).stat().st_mode & 0o777 == 0o600


def test_a_long_log_keeps_its_newer_half(tmp_path: Path) -> None:
    place = DataDir(str(tmp_path))
    Path(place.log).write_text(
        "".join(f"2026-01-01T00:00:00Z Stop {number:06d} {'x' * 80}\n" for number in range(10_000))
    )
    paths.log_problem(place, "Stop", "the newest")
    text = Path(place.log).read_text()
    assert len(text) <= paths.MOST_LOG_BYTES // 2
    assert text.startswith("2026-01-01T00:00:00Z Stop 00")
    assert text.endswith("the newest\n")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("hooks.log.")] == []


def test_where_nothing_can_be_written_nothing_happens(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    paths.log_problem(DataDir(str(tmp_path / "file" / "home")), "Stop", "lost")


def test_an_unexpected_error_is_told_without_its_message() -> None:
    try:
        {}["what was said"]
    except KeyError as error:
        told = paths.describe_error(error)
    assert told.startswith("KeyError in test_log.py:")
    assert "what was said" not in told


def test_a_secret_in_a_message_is_not_written(tmp_path: Path) -> None:
    place = DataDir(str(tmp_path / "home"))
    paths.log_problem(place, "Stop", "/home/me/ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ0bC2dF4hJ6: no such file")
    assert "no such file" in Path(place.log).read_text()
    assert "aB3dE5" not in Path(place.log).read_text()
