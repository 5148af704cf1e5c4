"""The MCP server: every operation of a memory as a tool, with resources and prompts.

python -P -m alma.mcp --config .alma/config.yaml

It uses standard input and output, or streamable HTTP with a bearer token. It requires the package `mcp`:
pip install '.[mcp]' in the checkout of alma. This module contains its options and start; `alma.mcp.clients` adds the
server to the settings of clients.
"""

from __future__ import annotations

import argparse
import logging
import os
import shlex
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
from ..trust_register import is_approval_allowed

STDIO, HTTP = "stdio", "http"
PORT = 8765
_PACKAGES = ("mcp", "mcp_types", "anyio", "starlette", "uvicorn")
"""Packages of the extra `mcp`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions(listening.ListenOptions):
    """The options of `alma mcp`."""

    tools: str = option("default", "tools to offer: default, core (8 tools), all, or names separated by commas")
    agent: str | None = option(None, "default agent for calls that name none")
    roots: tuple[str, ...] = option(
        (),
        "folder in which tools may use files, over stdio; repeatable (default: the project's folder)",
        "root",
        metavar="FOLDER",
    )
    approve: bool = option(
        False,
        "let calls activate candidates, if you allowed it with `alma trust --approve-over-mcp`; use it only if a "
        "person approves every call",
    )
    transport: str = option(STDIO, "transport (default stdio)", choices=(STDIO, HTTP))
    port: int = option(PORT, f"port to listen on (default {PORT}; 0 for any free port)")
    token_file: str | None = option(
        None, "file with the bearer token, created if missing (default: beside the configuration)", metavar="FILE"
    )


_OVER_HTTP = {one.name for one in fields(listening.ListenOptions)} | {"token_file"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the server's options, except `--config`."""
    listening.add_arguments(parser, McpOptions, {one.name for one in fields(McpOptions)} - _OVER_HTTP)
    listening.add_arguments(parser.add_argument_group("over HTTP"), McpOptions, _OVER_HTTP)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `python -m alma.mcp` and return the exit code."""
    parser = argparse.ArgumentParser("python -m alma.mcp", description="Run the MCP server.")
    add_arguments(parser)
    return listening.run_command(McpOptions, run, "alma mcp", parser, argv)


def run(options: McpOptions) -> None:
    """Serve until the client disconnects or the server is interrupted. Raise ALMAError if it cannot start."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    if options.config is not None and not os.path.isfile(options.config):
        raise ConfigError(f"no configuration file {options.config}; create one with `alma init`")
    for root in options.roots:
        if not os.path.isdir(root):
            raise ConfigError(f"--root must be an existing folder, not {root!r}")
    with name_missing_extra():
        from ..projects import LazyMemory, open_configured
        from .server import build, serve_http, serve_stdio

        memory = LazyMemory(partial(open_configured, options.config), may_approve=_may_approve(options))
        roots = None if options.transport == HTTP else partial(_find_roots, options)
        server = build(memory, options.tools, options.agent, roots=roots)
        if options.transport == HTTP:
            listening.check_options(options)
            # Before listening, so that a store that cannot be opened is reported here and not to each client.
            memory.get().get_stats()
            serve_http(server, options)
        else:
            # The thread that reads standard input cannot be cancelled; the store is consistent at any time.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            serve_stdio(server)


def _may_approve(options: McpOptions) -> bool:
    """Return whether calls may approve: --approve counts only if a person allowed it for this configuration.

    An agent can start the server in its shell too, so the option alone proves nothing.
    """
    if not options.approve:
        return False
    from ..app import find_config

    try:
        config = find_config(options.config)
        if is_approval_allowed(config):
            return True
        command = f"alma trust --approve-over-mcp {shlex.quote(os.path.abspath(config))}"
        reason = f"you have not allowed it for {config}. To allow it, run this in a terminal: {command}"
    except ConfigError as error:
        reason = str(error)
    print(f"alma mcp: --approve is ignored, so calls cannot activate candidates: {reason}", file=sys.stderr, flush=True)
    return False


@contextmanager
def name_missing_extra() -> Iterator[None]:
    """Raise MissingExtraError if an import inside fails because the extra is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _PACKAGES:
            raise
        raise MissingExtraError("mcp", "mcp", "The MCP server") from error


def _find_roots(options: McpOptions) -> Sequence[str | os.PathLike[str]]:
    """Return the folders of --root, or the project's folder: the parent of `.alma`, or that of the configuration.

    A home folder or the root of a disk is not a project.
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
