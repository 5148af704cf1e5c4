"""Arguments for every operation over HTTP: those of all doors, but for what names files."""

from __future__ import annotations

from tests.api.samples import BEFORE, SAMPLES, Arguments

from alma.operations import Effect, operations

OVER_HTTP: dict[str, Arguments] = {
    **{name: one for name, one in SAMPLES.items() if not operations()[name].on_files},
    "link_artifact": lambda w: {"run_id": "run-1", "location": "https://example.org/report.txt"},
}


def order() -> list[str]:
    """All of them in one world: what undoes something comes right after it, what erases comes last."""
    undoing = {before: name for name, before in BEFORE.items()}
    doing = [name for name in OVER_HTTP if name not in BEFORE]
    told = [one for name in doing for one in (name, undoing.get(name)) if one is not None]
    return sorted(told, key=lambda name: operations()[name].effect is Effect.ERASES)
