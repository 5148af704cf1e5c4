"""A session as its hooks told it, with what no hook reports, and as the host's own transcript tells it: one story."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from alma.coding import events, transcript
from alma.coding.session import CodingSession, build_session

DATA = Path(__file__).parent / "data"


def by_hooks(name: str) -> CodingSession:
    reported, damaged = events.parse_journal((DATA / f"{name}.journal").read_bytes())
    assert damaged == []
    late = transcript.find_unreported((DATA / f"{name}.jsonl").read_bytes().splitlines(keepends=True), ())
    end = reported[-1].offset
    return build_session(
        [*reported, *(replace(event, offset=end + place) for place, event in enumerate(late, start=1))]
    )


def by_transcript(name: str) -> CodingSession:
    with (DATA / f"{name}.jsonl").open("rb") as file:
        return build_session(transcript.read_transcript(transcript.read_lines(file)))


def said(story: CodingSession) -> list[tuple[str, str]]:
    return sorted((turn.speaker, turn.text.strip()) for turn in story.turns if turn.speaker == "user")


def test_the_same_was_said_at_the_terminal() -> None:
    hooks, host = by_hooks("at_the_terminal"), by_transcript("at_the_terminal")
    assert said(hooks) == said(host)
    assert sorted(one.user_words for one in hooks.user_turns) == sorted(one.user_words for one in host.user_turns)


def test_the_same_was_said_before_and_after_resuming() -> None:
    hooks, host = by_hooks("resumed"), by_transcript("resumed")
    assert said(hooks) == said(host)
    assert [one.text for one in hooks.signals] == [one.text for one in host.signals]
    assert [one.user_words for one in hooks.user_turns] == [one.user_words for one in host.user_turns]
    assert hooks.ended
