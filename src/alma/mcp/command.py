"""`python -m alma.mcp` and `alma mcp`: what can be said on the command line, and the server that follows from it.

Standard output belongs to the protocol; everything else is said on standard error.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import listening
from ..errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

STDIO, HTTP = "stdio", "http"
PORT = 8765
_PACKAGES = ("mcp", "mcp_types", "anyio", "starlette", "uvicorn")
"""What the extra `mcp` brings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(listening.ListenOptions):
    tools: str = "default"
    agent: str | None = None
    roots: tuple[str, ...] = ()
    """Where tools may use files; empty: in the project's folder."""
    approve: bool = False
    transport: str = STDIO
    port: int = PORT
    token_file: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the server, but for `--config`."""
    parser.add_argument(
        "--tools", default="default", help="default, core (a small set), all, or names with commas between them"
    )
    parser.add_argument("--agent", help="who is meant when a call names no agent")
    parser.add_argument(
        "--root",
        dest="roots",
        metavar="FOLDER",
        action="append",
        default=[],
        help="where tools may use files, over stdio; may be repeated. Default: the project's folder",
    )
    parser.add_argument(
        "--approve",
        action="store_true",
        help="a person sees every call: calls may make active what came from outside content",
    )
    parser.add_argument("--transport", choices=(STDIO, HTTP), default=STDIO, help="default: stdio")
    over_http = parser.add_argument_group("over HTTP")
    listening.add_arguments(over_http, PORT)
    over_http.add_argument(
        "--token-file", metavar="FILE", help="holds the bearer token; made when missing. Default: beside the config"
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m alma.mcp", description="The memory as an MCP server.")
    add_arguments(parser)
    return listening.run_command(parser, "alma mcp", lambda args: run(read_options(args, args.config)), argv)


def read_options(args: argparse.Namespace, config: str | None) -> Options:
    return listening.read_options(Options, args, config)


def run(chosen: Options) -> None:
    """Serve until the client is gone, or until interrupted. ALMAError when it cannot begin."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    if chosen.config is not None and not os.path.isfile(chosen.config):
        raise ConfigError(f"there is no file {chosen.config}; `alma init` writes a configuration")
    for root in chosen.roots:
        if not os.path.isdir(root):
            raise ConfigError(f"--root must be a folder, and {root!r} is none")
    server = _built(chosen)
    if chosen.transport == HTTP:
        with naming_the_extra():
            from .http import serve

        serve(server, chosen)
    else:
        _over_stdio(server)


@contextmanager
def naming_the_extra() -> Iterator[None]:
    """Name the extra that is missing when something inside cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _PACKAGES:
            raise
        raise MissingExtraError("mcp", "mcp", "The MCP server") from error


def _built(chosen: Options) -> Server[Any]:
    with naming_the_extra():
        from .server import build
    from ..projects import Held, configured

    _refuse_unknown(chosen.tools)
    held = Held(configured(chosen.config), may_approve=chosen.approve)
    roots = None if chosen.transport == HTTP else partial(_find_roots, chosen)
    return build(held, chosen.tools, chosen.agent, roots=roots)


def _find_roots(chosen: Options) -> Sequence[str]:
    """The folders that the user named, else that of the project."""
    from ..app import find_config
    from ..callers import find_project_folder

    if chosen.roots:
        return chosen.roots
    try:
        config = find_config(chosen.config)
    except ConfigError:
        config = None
    folder = find_project_folder(config)
    return [] if folder is None else [str(folder)]


def _refuse_unknown(tools: str) -> None:
    """What was mistyped is told at once; the usual choices need nothing to be loaded."""
    if tools not in ("default", "all", "core"):
        from .tools import offered

        offered(tools)


def _over_stdio(server: Server[Any]) -> None:
    import anyio

    from .server import serve_stdio

    # A thread waits for the next line and cannot be called back; what is on disk is whole at any moment.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(serve_stdio, server)
