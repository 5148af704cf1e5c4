"""`alma init`, `alma doctor`, `alma demo`: from nothing to something that works."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from contextlib import suppress
from pathlib import Path

from ..errors import ConfigError, StorageError
from ..files import make_private_folder
from ..trust_register import trust_folder
from .draw import diagnosis
from .output import Output
from .parser import Subparsers, listed

STORAGES = ("sqlite", "file")
EMBEDDINGS = ("auto", "local", "openai", "azure", "hash", "none")
_DB_NAMES = {"sqlite": "alma.db", "file": "alma.jsonl"}


def register(commands: Subparsers) -> None:
    _register_init(commands)
    listed(commands, "doctor", doctor, "alma doctor")
    parser = listed(
        commands,
        "demo",
        demo,
        """
        alma demo
        alma demo --keep ./alma-demo      # then look around: alma --config ./alma-demo/config.yaml list
        """,
    )
    parser.add_argument("--keep", metavar="DIR", help="keep the scratch database in this new folder")
    parser.add_argument("--fast", action="store_true", help="no pauses")


def _register_init(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "init",
        init,
        """
        alma init
        alma init --project-id shop --embedding none
        """,
    )
    parser.add_argument("--project-id", metavar="ID", help="whose memory it is (default: the folder's name)")
    parser.add_argument("--storage", choices=STORAGES, default="sqlite", help="default sqlite")
    parser.add_argument(
        "--embedding", choices=EMBEDDINGS, default="auto", help="default auto: local if installed, else words only"
    )
    parser.add_argument("--dir", metavar="DIR", default=".alma", help="where to write it (default .alma)")
    parser.add_argument("--force", action="store_true", help="overwrite a configuration that is there")


# -- init


def init(args: argparse.Namespace, out: Output) -> int:
    folder = Path(args.dir)
    file = folder / "config.yaml"
    if file.exists() and not args.force:
        raise ConfigError(f"{file} is there already; --force overwrites it")
    project = args.project_id or _project_of(folder)
    text = configuration(project, args.storage, args.embedding, ".alma" if _hidden(folder) else ".")
    _private_folder(folder)
    _write(file, text)
    if _hidden(folder):
        _trust_own(file, text)
    if not out.answered({"config": file, "project_id": project, "storage": args.storage, "embedding": args.embedding}):
        _say_next(out, file, project)
    return 0


def _hidden(folder: Path) -> bool:
    return folder.resolve().name == ".alma"


def _project_of(folder: Path) -> str:
    whole = folder.resolve()
    return (whole.parent if _hidden(folder) else whole).name or "my-project"


def _private_folder(folder: Path) -> None:
    try:
        make_private_folder(folder)
        if _hidden(folder):
            folder.chmod(0o700)
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}") from error


def _write(file: Path, text: str) -> None:
    """Checked before it takes its place: what was written must load."""
    from ..config import load

    fresh = file.with_name(f"{file.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as made:
            made.write(text)
        load(fresh)
        fresh.replace(file)
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror}") from error
    finally:
        fresh.unlink(missing_ok=True)


def _trust_own(file: Path, text: str) -> None:
    """Trust what was written here. Where that cannot be recorded, the file works as far as it needs no trust."""
    with suppress(StorageError, ConfigError):
        trust_folder(file.resolve().parent.parent, text.encode())


def _say_next(out: Output, file: Path, project: str) -> None:
    usual = file == Path(".alma") / "config.yaml"
    alma = "alma" if usual else f"alma --config {shlex.quote(str(file))}"
    out.line(f"wrote {file} for project {project!r}. Next:")
    out.line(f'  {alma} learn --agent dev --task "Fix the login test" --outcome success --strategy "Clear the cache"')
    out.line(f'  {alma} retrieve "Fix the login test" --agent dev')


def configuration(project: str, storage: str, embedding: str, folder: str) -> str:
    """The text of a new configuration file. A JSON string is a YAML string."""
    return _TEMPLATE.format(
        project=json.dumps(project),
        storage=storage,
        folder=folder,
        db_name=_DB_NAMES[storage],
        embedding=embedding,
        options=_OPTIONS.get(embedding, ""),
    )


_TEMPLATE = """\
# The configuration of alma. `alma doctor` checks it; ${{NAME}} and ${{NAME:-default}} come from the environment.
alma:
  project_id: {project}

  # Where memories are kept: sqlite (one file, many processes) or file (JSON Lines, for little).
  storage: {storage}
  storage_dir: {folder}          # relative to the project
  db_name: {db_name}

  # Who turns text into vectors: auto (local if installed, else words only), local, openai, azure, hash, none.
  # After a change run `alma reindex`.
  embedding_provider: {embedding}
{options}
  # Without agents, every name is an agent that may learn everything. Declare them to set limits and to share:
  # agents:
  #   coder:
  #     can_learn: [testing, refactoring]     # task types; empty: all
  #     share_with: [reviewer]                # may read what this one learned
  #   reviewer:
  #     inherit_from: [coder]

  # learning:
  #   min_occurrences_for_heuristic: 3        # so many outcomes that mostly worked make a strategy
  #   min_failures_for_anti_pattern: 2        # so many failures make a warning

  # retrieval:
  #   weights: {{similarity: 0.55, recency: 0.10, success: 0.20, confidence: 0.15}}
  #   recency_half_life_days: 30
"""

_OPTIONS = {
    "openai": "  embedding:\n    api_key: ${OPENAI_API_KEY:-}\n    model: text-embedding-3-small\n",
    "azure": (
        "  embedding:\n    endpoint: ${AZURE_OPENAI_ENDPOINT:-}\n    deployment: ${AZURE_OPENAI_DEPLOYMENT:-}\n"
        "    api_key: ${AZURE_OPENAI_API_KEY:-}\n"
    ),
}


# -- doctor and demo


def doctor(args: argparse.Namespace, out: Output) -> int:
    from ..doctor import FAILED, diagnose

    checks = diagnose(args.config)
    healthy = all(check.state != FAILED for check in checks)
    if not out.answered({"ok": healthy, "checks": checks}):
        out.show(*diagnosis(checks))
    return 0 if healthy else 1


def demo(args: argparse.Namespace, out: Output) -> int:
    from .demo import play

    return play(out, keep=args.keep, fast=args.fast)
