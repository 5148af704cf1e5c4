"""`alma postgres`: a PostgreSQL server of one's own, for users who have none yet."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..files import keep_out_of_git
from .derive import Argument, Call, Reply, command

if TYPE_CHECKING:
    from ..stores.postgres.server import LocalServer

_DIR = Argument("--dir DIR", "data folder (default: .alma/postgres)", default=".alma/postgres")


@command("postgres up")
@_DIR
def start_postgres(call: Call) -> Reply:
    """Start a PostgreSQL server with pgvector in the background. Creates the data folder if needed."""
    folder = Path(call.args.dir)
    servers = _load_servers()
    was_running = servers.find_server(folder) is not None
    server = servers.start_server(folder)
    keep_out_of_git(folder.absolute().parent)
    text = "is running already" if was_running else "is running"
    return Reply(
        _describe_server(server),
        f"PostgreSQL {text} in {server.folder} (process {server.pid}). Only you can connect:",
        f"  {server.dsn}",
        "To use it, add these lines to .alma/config.yaml, then run `alma trust`:",
        "  storage: postgres",
        f"  storage_options: {{dsn: {json.dumps(server.dsn)}}}",
    )


@command("postgres down")
@_DIR
def stop_postgres(call: Call) -> Reply:
    """Stop the PostgreSQL server. Its data stays."""
    server = _load_servers().find_server(Path(call.args.dir))
    if server is None:
        return Reply({"running": False}, f"No PostgreSQL server is running in {call.args.dir}.")
    server.stop()
    return Reply({"running": False}, f"Stopped the PostgreSQL server in {server.folder}. Its data stays there.")


@command("postgres status")
@_DIR
def show_postgres(call: Call) -> Reply:
    """Show whether the PostgreSQL server is running. Exits with 1 if it is not."""
    server = _load_servers().find_server(Path(call.args.dir))
    if server is None:
        text = f"No PostgreSQL server is running in {call.args.dir}; start one with `alma postgres up`."
        return Reply({"running": False}, text, code=1)
    text = f"PostgreSQL is running in {server.folder} (process {server.pid}):"
    return Reply(_describe_server(server), text, f"  {server.dsn}")


def _load_servers() -> ModuleType:
    """Return the module that starts servers.

    It is loaded late: the parser of any command with the word "postgres" among its arguments loads this file.
    """
    from ..stores.postgres import server

    return server


def _describe_server(server: LocalServer) -> dict[str, Any]:
    return {"running": True, "folder": server.folder, "pid": server.pid, "dsn": server.dsn}
