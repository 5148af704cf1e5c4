"""`alma demo`: the whole idea in under a minute, on a scratch database. Every number comes from the engine."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import StorageError
from ..output import Output

_PAUSE = 0.3


def play(out: Output, *, keep: str | None, fast: bool) -> int:
    from ...app import open_config
    from ..terminal import Screen
    from .acts import ACTS
    from .stage import Stage

    screen = Screen(None if out.as_json else sys.stdout, out.color)
    stage = Stage(screen, pause=_PAUSE if screen.is_live and not fast else 0.0)
    with _folder(keep) as folder, open_config(_configured(folder)) as alma:
        facts = [{"act": act.__name__, **act(alma, stage)} for act in ACTS]
        embedder = alma.engine.embedder_name or None
    if keep:
        stage.say(f"\nThe database is kept: alma --config {folder / 'config.yaml'} list")
    out.answered({"ok": True, "embedder": embedder, "acts": facts, "kept": keep})
    return 0


def _configured(folder: Path) -> Path:
    from ..setup import configuration

    file = folder / "config.yaml"
    file.write_text(configuration("demo", "sqlite", "auto", "."), encoding="utf-8")
    file.chmod(0o600)
    return file


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="alma-demo-") as scratch:
            yield Path(scratch)
        return
    folder = Path(keep)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise StorageError(f"{folder} is there already; --keep wants a new folder") from None
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}") from error
    yield folder
