"""What a misled model answers. Programs that stand in for a model load it, so it loads next to nothing."""

from __future__ import annotations

from typing import Any


def answer_notes(turns: list[str], notes: list[dict[str, Any]], material: dict[str, Any]) -> list[dict[str, Any]]:
    """Return notes with the numbers that the exchanges have in what a model is shown; none of another session's."""
    exchanges = material["exchanges"]
    numbers = {}
    for place, turn in enumerate(turns):
        beginning = " ".join(turn.split())[:12]
        found = [shown["n"] for shown in exchanges if " ".join(shown["person"].split()).startswith(beginning)]
        if found:
            numbers[place] = found[-1]
    if not numbers:
        return []

    def find_number(place: int) -> int:
        near = [place, place + 1, place - 1, *numbers]
        return int(next(numbers[other] for other in near if other in numbers))

    answered = []
    for note in notes:
        given = {name: value for name, value in note.items() if name not in ("turn", "known")}
        given["n"] = find_number(note["turn"])
        if "deeds" in note:
            given["deeds"] = [{"n": find_number(deed["turn"]), "text": deed["text"]} for deed in note["deeds"]]
        if "accepted" in note:
            given["accepted"] = {"n": find_number(note["accepted"]["turn"]), "quote": note["accepted"]["quote"]}
        known = [shown["id"] for shown in material["known"] if note.get("known", "\0") in shown["note"]]
        if known:
            given["known"] = known[0]
        answered.append(given)
    return answered
