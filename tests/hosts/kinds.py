"""The kinds of corrections: each is typed in the real agents, and must reach the next session."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Kind(NamedTuple):
    """What the person types, what the agent does, and what shows that it was taught."""

    task: str
    done: tuple[dict[str, object], ...]
    answer: str
    """What the person says to what was done: it teaches."""
    then: tuple[dict[str, object], ...]
    excerpt: tuple[str, ...]
    """Parts of what the next session is shown without a reader."""
    note: dict[str, object]
    """What a reader notes."""


REPORT, CLIENT, BUILD = "./report --columns", "./gen-client --from schema.json", "make -f build.mk"
MOVE = "mv src/controllers/discount.py src/domain/discount.py"
KINDS = {
    "blunt": Kind(
        "install the packages",
        ({"when": "install the packages", "text": "I ran npm install."},),
        "No, never use npm here. Always use pnpm.",
        ({"when": "Always use pnpm", "text": "I will use pnpm."},),
        ("Never use npm here. Always use pnpm",),
        {"note": "Use pnpm, never npm", "quote": "never use npm here. Always use pnpm"},
    ),
    "question": Kind(
        "add the discount for students",
        (
            {
                "when": "discount for students",
                "shell": "mkdir -p src/controllers src/domain; echo 'STUDENTS = 0.1' > src/controllers/discount.py"
                "; echo made",
            },
            {"when": "made", "text": "I added it."},
        ),
        "why is this in the controller?",
        (
            {"when": "why is this in the controller", "shell": f"{MOVE}; echo moved"},
            {"when": "moved", "text": "I moved it to the domain."},
        ),
        ("why is this in the controller?", MOVE),
        {
            "note": "Put price rules into src/domain, not into a controller",
            "quote": "why is this in the controller?",
            "deeds": [{"n": 3, "text": MOVE}],
        },
    ),
    "approval": Kind(
        "show me the slow queries",
        (
            {"when": "show me the slow queries", "shell": "./report"},
            {"when": "raw;1;2;3", "shell": REPORT},
            {"when": "1 2 3 in columns", "text": "Here they are."},
        ),
        "there, now I can read it, keep it like that",
        ({"when": "now I can read it", "text": "I will."},),
        ("now I can read it, keep it like that", REPORT),
        {
            "note": f"Show slow queries with `{REPORT}`",
            "quote": "there, now I can read it, keep it like that",
            "deeds": [{"n": 4, "text": REPORT}],
            "accepted": {"n": 5, "quote": "keep it like that"},
        },
    ),
    "yes": Kind(
        "add a phone number to the customer",
        (
            {"when": "add a phone number", "shell": CLIENT},
            {"when": "client written", "text": f"I added it. Should I always regenerate the client with `{CLIENT}`?"},
        ),
        "yes",
        ({"when": r"\byes\b", "text": "I will."},),
        ("user: “yes”", CLIENT),
        {
            "note": f"Regenerate the client with `{CLIENT}` after a change of the schema",
            "quote": "yes",
            "deeds": [{"n": 6, "text": CLIENT}],
            "accepted": {"n": 7, "quote": "yes"},
        },
    ),
    "repair": Kind(
        "build it",
        (
            {"when": "build it", "shell": "make"},
            {"when": "no makefile found", "shell": BUILD},
            {"when": "all is built", "text": "It is built."},
        ),
        "ok works",
        ({"when": "ok works", "text": "Good."},),
        (BUILD,),
        {
            "note": f"Build with `{BUILD}`",
            "quote": "ok works",
            "deeds": [{"n": 8, "text": BUILD}],
            "accepted": {"n": 9, "quote": "ok works"},
        },
    ),
}
TASKS = "install the packages, add a discount, show the slow queries, add an address to the customer, and build it"
PROGRAMS = {
    "report": 'if [ "$1" = --columns ]; then echo "1 2 3 in columns"; else echo "raw;1;2;3"; fi',
    "gen-client": "echo client written",
}


def write_programs(folder: Path) -> None:
    """Write the programs that the agent runs in these sessions."""
    for program, line in PROGRAMS.items():
        (folder / program).write_text(f"#!/bin/sh\n{line}\n")
        (folder / program).chmod(0o755)
    (folder / "build.mk").write_text("all:\n\t@echo all is built\n")


def number_notes() -> list[dict[str, object]]:
    """Return what a reader notes in a session with all kinds, in their order."""
    more = {"scope": "project", "elsewhere": "another task of this kind"}
    return [{"n": 2 * place + 1, **more, **kind.note} for place, kind in enumerate(KINDS.values())]
