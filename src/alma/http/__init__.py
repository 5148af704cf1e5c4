"""The HTTP server (`alma serve`, `python -m alma.http`): options, start and log.

`alma.http.tokens` is the file that `alma token` changes; `ALMA.connect(url, token)` returns the client. The log has one
JSON line for each request and each warning, without the content of requests and responses.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import stat
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from .. import listening
from ..errors import ConfigError, MissingExtraError
from ..types.times import now, to_iso

if TYPE_CHECKING:
    from .app import RequestInfo

NAME = "alma serve"
PORT = 8766


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions(listening.ListenOptions):
    """The options of `alma serve`."""

    port: int = listening.option(PORT, f"port to listen on (default {PORT}; 0 for any free port)")
    max_megabytes: float = listening.option(4.0, "maximum size of a request (default 4)")
    rate: float = listening.option(200.0, "maximum requests per second for each token (default 200; 0 for no limit)")
    at_once: int = listening.option(
        16, "operations that run at the same time in each process; others wait for their turn (default 16)", metavar="N"
    )
    at_once_per_token: int = listening.option(
        4, "operations of one token that run at the same time in each process (default 4)", metavar="N"
    )
    queue: int = listening.option(
        64, "operations of one token that may wait; further ones get 429 (default 64)", metavar="N"
    )
    max_wait: float = listening.option(
        2.0, "seconds that an operation may wait for its turn before it gets 429 (default 2)", metavar="SECONDS"
    )
    workers: int = listening.option(1, "number of processes that answer on the port (default 1)", metavar="N")
    tokens: str | None = listening.option(
        None,
        "read the tokens from this file (default: $ALMA_TOKENS_FILE, or http-tokens.json beside the configuration)",
        metavar="FILE",
    )
    drain: float = listening.option(
        0.0, "seconds to keep serving after SIGTERM while /ready reports 503 (default 0)", metavar="SECONDS"
    )
    idle: float = listening.option(
        0.0, "stop after this many seconds without a request (default 0: never)", metavar="SECONDS"
    )
    traces: bool = listening.option(False, "send OpenTelemetry traces to $OTEL_EXPORTER_OTLP_ENDPOINT")
    log_file: str | None = listening.option(
        None, "write the request log to this file (default: standard error)", metavar="FILE"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the server's options, except `--config`."""
    listening.add_arguments(parser, HttpOptions)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `python -m alma.http` and return the exit code."""
    parser = argparse.ArgumentParser("python -m alma.http", description="Run the HTTP server.")
    add_arguments(parser)
    return listening.run_command(HttpOptions, serve, NAME, parser, argv)


def check_options(options: HttpOptions) -> None:
    """Raise ConfigError if the server cannot run with these options."""
    if not options.max_megabytes > 0 or not options.rate >= 0:
        raise ConfigError("--max-megabytes must be greater than 0, and --rate must be 0 or greater")
    if options.at_once < 1 or options.at_once_per_token < 1:
        raise ConfigError("--at-once and --at-once-per-token must be at least 1")
    if options.queue < 0 or not options.max_wait >= 0:
        raise ConfigError("--queue and --max-wait must be 0 or greater")
    if options.workers < 1 or not options.drain >= 0 or not options.idle >= 0:
        raise ConfigError("--workers must be at least 1, and --drain and --idle must be 0 or greater")
    if options.idle and options.workers > 1:
        raise ConfigError("--idle can only be used with one worker")
    listening.check_options(options)


def serve(options: HttpOptions) -> None:
    """Serve until interrupted; running requests are finished first. Raise ALMAError if the server cannot start."""
    check_options(options)
    try:
        from .workers import serve_port
    except ModuleNotFoundError as error:
        packages = ("fastapi", "uvicorn", "starlette", "anyio", "h11", "prometheus_client")
        if (error.name or "").partition(".")[0] not in packages:
            raise
        raise MissingExtraError(str(error.name), "http", "The HTTP service") from error
    serve_port(options)


# -- the log


@contextmanager
def open_log(name: str | None) -> Iterator[IO[str]]:
    """Open the log file (or standard error, if there is no name) and write log records to it as JSON lines.

    Only its owner can read the file, even if others could before.
    """
    with ExitStack() as stack:
        stream: IO[str] = sys.stderr
        if name is not None:
            try:
                descriptor = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                stream = stack.enter_context(open(descriptor, "a", encoding="utf-8"))
                # Pipes and terminals keep their permissions.
                if os.name == "posix" and stat.S_ISREG(os.fstat(descriptor).st_mode):
                    os.fchmod(descriptor, 0o600)
            except OSError as error:
                raise ConfigError(
                    f"cannot write the log file {name}: {error.strerror}; pass another --log-file"
                ) from None
        handler = logging.StreamHandler(stream)
        handler.setFormatter(JsonLines())
        logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
        yield stream


def log_request(stream: IO[str], call: RequestInfo) -> None:
    """Write a line about a finished request."""
    line = {
        "time": to_iso(now()),
        "request_id": call.id,
        "method": call.method if call.method.isascii() and len(call.method) < 20 else "?",
        "path": call.path if call.is_known_path else call.requested,
        "operation": call.operation,
        "status": call.status,
        "ms": round(call.seconds * 1000, 2),
        "token": None if call.token is None else call.token.name,
        "client": call.client,
        "forwarded_for": call.forwarded_for,
        "bytes_in": call.received,
        "bytes_out": call.sent,
        **({"trace_id": call.trace_id} if call.trace_id else {}),
    }
    # A log that cannot be written must not stop the server.
    with suppress(OSError, ValueError):
        stream.write(json.dumps(line) + "\n")
        stream.flush()


class JsonLines(logging.Formatter):
    """Formats log records as JSON lines. Of an error only type and location: its message may quote a request."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of JSON."""
        is_ours = record.name == "alma.http" or not record.name.startswith("alma")
        line: dict[str, Any] = {
            "time": to_iso(now()),
            "level": record.levelname.lower(),
            "logger": record.name,
            # Messages of the memory may quote a request, so only their constant part is logged.
            "message": record.getMessage() if is_ours else str(record.msg),
        }
        arguments = record.args if isinstance(record.args, tuple) else ()
        argument = next((one for one in arguments if isinstance(one, BaseException)), None)
        error = record.exc_info[1] if record.exc_info else argument
        if error is not None:
            frames = traceback.extract_tb(error.__traceback__)[-8:]
            line["error"] = type(error).__name__
            line["at"] = [f"{one.filename}:{one.lineno} {one.name}" for one in frames]
        return json.dumps(line)
