"""`alma serve`, `python -m alma.http`: the options of the HTTP service, and how it starts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import listening
from ..errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from .gate import App

NAME = "alma serve"
PORT = 8766
_LAST_SECONDS = 30
_MEGABYTE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(listening.ListenOptions):
    port: int = listening.option(PORT, f"default: {PORT}; 0: any that is free")
    max_megabytes: float = listening.option(4.0, "the largest request; default: 4")
    rate: float = listening.option(200.0, "requests a second for each token; 0: any number")
    log_file: str | None = listening.option(
        None, "where a line for each request goes; default: standard error", metavar="FILE"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the service, but for `--config`."""
    listening.add_arguments(parser, Options)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m alma.http", description="The memory as an HTTP service.")
    add_arguments(parser)
    return listening.run_command(parser, NAME, lambda args: serve(read_options(args, args.config)), argv)


def read_options(args: argparse.Namespace, config: str | None) -> Options:
    return listening.read_options(Options, args, config)


def check_options(options: Options) -> None:
    if not options.max_megabytes > 0 or not options.rate >= 0:
        raise ConfigError("--max-megabytes must be more than 0, and --rate 0 or more")
    listening.check_options(options)


def serve(options: Options) -> None:
    """Serve until interrupted; running requests are finished then. ALMAError when it cannot begin."""
    check_options(options)
    try:
        import uvicorn  # noqa: F401 - to name the extra where it is missing

        from . import tokens
        from .app import build as build_app
        from .gate import Rules
        from .log import RequestLog, open_log
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "uvicorn", "starlette", "anyio", "h11"):
            raise
        raise MissingExtraError(str(error.name), "http", "The HTTP service") from error
    from ..app import open_memory, read_config
    from ..projects import LazyMemory, Projects

    def build(port: int) -> App:
        stream = stack.enter_context(open_log(options.log_file))
        path, config = read_config(options.config)
        file = tokens.find_file(path)
        if tokens.ensure_token(file) is not None:
            _print("made a token that may do everything")
        readable = file.with_name(tokens.FIRST_FILE)
        _print(f"a token is in {readable}" if readable.exists() else f"the tokens are those of {file}")
        local = [f"{name}:{port}" for name in listening.list_local_names(options.host)]
        rules = Rules(
            hosts=frozenset(name.lower() for name in (*local, *options.allowed_hosts)),
            origins=frozenset(one.lower().rstrip("/") for one in options.allowed_origins),
            scheme=options.scheme,
            max_bytes=round(options.max_megabytes * _MEGABYTE),
            body_seconds=options.timeout,
            rate=options.rate,
            burst=max(1, round(2 * options.rate)),
        )
        projects = Projects(LazyMemory(lambda: open_memory(config)), config.settings)
        return build_app(projects, tokens.Tokens(file), rules, [RequestLog(stream)])

    with ExitStack() as stack:
        listening.serve(options, NAME, build, last_seconds=_LAST_SECONDS)


def _print(text: str) -> None:
    print(f"{NAME}: {text}", file=sys.stderr, flush=True)
