"""Note what was learned in a project; the next session there announces it to the person (`alma.hooks.notices`)."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping

from ..engine.rules import Taught
from ..files import lock_file
from .notices import name_state, take_noted
from .paths import DataDir, read_settings, write_private

_NEWS = ("made", "confirmed", "promoted")
"""What was done with a rule that a person does not know of yet."""
_MOST_NOTED = 100
_PATIENCE = 5.0


def note_taught(data_dir: DataDir, project: str, taught: Iterable[Taught]) -> None:
    """Note the rules that are new to a project, or newly in force there, for the next session to announce."""
    noted = {}
    for lesson in taught:
        record = lesson.record
        if record is not None and lesson.verb in _NEWS:
            noted[record.id] = name_state(str(record.status), record.session)
    note_rules(data_dir, project, noted)


def note_rules(data_dir: DataDir, project: str, states: Mapping[str, str]) -> None:
    """Note rules by id, each with its state; an empty state, or notices that are off, note nothing."""
    new = {id: state for id, state in states.items() if state}
    if new and read_settings(data_dir)["notices"] == "on":
        _change_noted(data_dir, project, new, ())


def drop_noted(data_dir: DataDir, project: str, ids: Collection[str]) -> None:
    """Forget noted rules that the person has just been shown in another way."""
    if ids and os.path.exists(data_dir.notices_file(project)):
        _change_noted(data_dir, project, {}, ids)


def _change_noted(data_dir: DataDir, project: str, new: Mapping[str, str], dropped: Collection[str]) -> None:
    data_dir.create_folders()
    # Hooks only take the file away. Whoever adds to it takes it as well, and must not meet another who does.
    with lock_file(data_dir.notices_lock, _PATIENCE):
        noted = {**take_noted(data_dir, project), **new}
        kept = [id for id in noted if id not in dropped][-_MOST_NOTED:]
        if kept:
            content = json.dumps({id: noted[id] for id in kept})
            write_private(data_dir.notices_file(project), content.encode())
