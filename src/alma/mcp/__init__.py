"""The MCP server: every operation of a memory as a tool, with resources and prompts.

python -m alma.mcp --config .alma/config.yaml

It speaks over standard input and output, which then belong to the protocol, or over streamable HTTP on this machine
with a bearer token. It needs the package `mcp`: pip install '.[mcp]' in the checkout of alma. This module holds its
options and how it starts; `alma.mcp.clients` writes it into the settings of clients.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from .. import listening
from ..errors import ConfigError, MissingExtraError
from ..listening import option

STDIO, HTTP = "stdio", "http"
PORT = 8765
_PACKAGES = ("mcp", "mcp_types", "anyio", "starlette", "uvicorn")
"""What the extra `mcp` brings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions(listening.ListenOptions):
    tools: str = option("default", "default, core (a small set), all, or names with commas between them")
    agent: str | None = option(None, "who is meant when a call names no agent")
    roots: tuple[str, ...] = option(
        (),
        "where tools may use files, over stdio; may be repeated. Default: the project's folder",
        "root",
        metavar="FOLDER",
    )
    approve: bool = option(False, "a person sees every call: calls may make active what came from outside content")
    transport: str = option(STDIO, "default: stdio", choices=(STDIO, HTTP))
    port: int = option(PORT, f"default: {PORT}; 0: any that is free")
    token_file: str | None = option(
        None, "holds the bearer token; made when missing. Default: beside the config", metavar="FILE"
    )


_OVER_HTTP = {one.name for one in fields(listening.ListenOptions)} | {"token_file"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the server, but for `--config`."""
    listening.add_arguments(parser, McpOptions, {one.name for one in fields(McpOptions)} - _OVER_HTTP)
    listening.add_arguments(parser.add_argument_group("over HTTP"), McpOptions, _OVER_HTTP)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m alma.mcp", description="The memory as an MCP server.")
    add_arguments(parser)
    return listening.run_command(McpOptions, run, "alma mcp", parser, argv)


def run(options: McpOptions) -> None:
    """Serve until the client is gone, or until interrupted. ALMAError when it cannot begin."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    if options.config is not None and not os.path.isfile(options.config):
        raise ConfigError(f"there is no file {options.config}; `alma init` writes a configuration")
    for root in options.roots:
        if not os.path.isdir(root):
            raise ConfigError(f"--root must be a folder, and {root!r} is none")
    with name_missing_extra():
        from ..projects import LazyMemory, open_configured
        from .server import build, serve_http, serve_stdio

        memory = LazyMemory(partial(open_configured, options.config), may_approve=options.approve)
        roots = None if options.transport == HTTP else partial(_find_roots, options)
        server = build(memory, options.tools, options.agent, roots=roots)
        if options.transport == HTTP:
            serve_http(server, options)
        else:
            # A thread waits for the next line and cannot be called back; what is on disk is whole at any moment.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            serve_stdio(server)


@contextmanager
def name_missing_extra() -> Iterator[None]:
    """Name the extra that is missing when something inside cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _PACKAGES:
            raise
        raise MissingExtraError("mcp", "mcp", "The MCP server") from error


def _find_roots(options: McpOptions) -> Sequence[str | os.PathLike[str]]:
    """Return the folders that the user named, else that of the project: around `.alma`, or of the configuration.

    A home folder and the root of a disk are no projects.
    """
    from ..app import find_config

    if options.roots:
        return options.roots
    try:
        folder = find_config(options.config).resolve().parent
        folder = folder.parent if folder.name == ".alma" else folder
    except ConfigError:
        folder = Path.cwd()
    is_too_wide = folder in (folder.parent, Path.home().resolve())
    return [] if is_too_wide or not folder.is_dir() else [folder]
