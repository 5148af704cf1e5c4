"""The command dashboard: the pages of `alma dashboard` for the memory of claude-smart."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from alma.errors import ValidationError
from alma.files import write_atomic
from alma.hooks.drain import choose_embedder
from alma.hooks.paths import DataDir, build_environment, read_settings
from alma.http import dashboard, tokens

from .rules import Answer, CommandContext, require_person

PORT = 3001
_CONFIG = "dashboard.yaml"


def open_dashboard(args: Namespace, context: CommandContext) -> Answer:
    """Open the dashboard in a browser; its server is started if it is not running, and ends when idle."""
    if args.read_only and args.admin:
        raise ValidationError("pass either --read-only or --admin, not both")
    if not args.read_only:
        require_person("`claude-smart dashboard` without --read-only")
    scope = dashboard.choose_scope(read_only=args.read_only, admin=args.admin)
    port = PORT if args.port is None else args.port
    files = _write_config(context.data_dir)
    # The server works for all projects, and a variable of a repository could give it a token.
    environ, first_token = build_environment(context.data_dir), str(files[1].with_name(tokens.FIRST_FILE))
    link, was_started = dashboard.get_link(
        *files, scope, port=port, project=context.project, named_token=first_token, environ=environ
    )
    may_open = not args.no_open and not context.as_json
    answer, line = dashboard.show_link(link, was_started=was_started, may_open=may_open)
    context.print_lines(line[0].upper() + line[1:])
    return answer


def stop_dashboard(data_dir: DataDir) -> None:
    """Stop the server of the dashboard, if it is running."""
    dashboard.stop_server(Path(data_dir.home, tokens.FILE))


def _write_config(data_dir: DataDir) -> tuple[Path, Path]:
    """Write the configuration of the server; return its file and that of the tokens."""
    data_dir.create_folders()
    home, settings = Path(data_dir.home), read_settings(data_dir)
    values = {
        # Each browser is shown the project that it was opened for.
        "project_id": "default",
        "storage": "sqlite",
        "storage_dir": str(home),
        "db_name": Path(data_dir.db).name,
        "embedding_provider": choose_embedder(data_dir),
        "model": {"provider": "none", "budget": {"calls": settings["daily_calls"]}},
        # The worker does it.
        "upkeep": {"every_hours": 0},
    }
    file = home / _CONFIG
    # JSON is YAML.
    write_atomic(file, json.dumps({"alma": values}, indent=2))
    return file, home / tokens.FILE
