"""Listen for connections, and close those that stay idle or incomplete. Both servers use it.

uvicorn waits without end for the rest of a request. Here, headers and bodies must arrive in time, and connections are
limited in total and for each address.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from .errors import ConfigError
from .listening import ListenOptions, format_host

_BACKLOG = 2048
_IDLE_SECONDS = 75
_GRACE = 5.0
_LOG = logging.getLogger("alma.http")


def serve(
    options: ListenOptions, name: str, build: Callable[[int], Callable[..., Any]], *, path: str = "", last_seconds: int
) -> None:
    """Serve until interrupted. Options are checked before (`check_options`).

    `build` makes the ASGI application once the port is known. The address is printed under the `name` of the command,
    with the `path` of the application. Running requests are given `last_seconds` to end.
    """
    with bind_socket(options.host, options.port) as listener:
        app = build(int(listener.getsockname()[1]))
        print_address(options, name, listener, path)
        run_server(options, listener, app, last_seconds=last_seconds)


def print_address(options: ListenOptions, name: str, listener: socket.socket, path: str = "") -> None:
    """Print the URL of a listening socket under the name of the command."""
    address = f"{options.scheme}://{format_host(options.host)}:{listener.getsockname()[1]}{path}"
    print(f"{name}: {address}", file=sys.stderr, flush=True)


def run_server(
    options: ListenOptions,
    listener: socket.socket,
    app: Callable[..., Any],
    *,
    last_seconds: int,
    drain_seconds: float = 0.0,
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    """Serve an application on a listening socket until SIGTERM, then return; SIGINT raises KeyboardInterrupt.

    `on_stop` is called by the first signal. SIGTERM takes effect `drain_seconds` later.
    """
    config = uvicorn.Config(
        app,
        http=limit_connections(options.timeout, options.max_connections),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=last_seconds,
    )
    _DrainingServer(config, drain_seconds, on_stop).run(sockets=[listener])


class _DrainingServer(uvicorn.Server):
    """Goes on serving for a while after SIGTERM, so that balancers notice that it is no longer ready."""

    def __init__(self, config: uvicorn.Config, drain_seconds: float, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._drain_seconds = drain_seconds
        self._on_stop = on_stop
        self._stop_at = math.inf

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._on_stop()
        if sig != signal.SIGTERM:
            super().handle_exit(sig, frame)
        elif self._stop_at == math.inf:
            # uvicorn would raise it again after the shutdown, and the process would not end with status 0.
            self._stop_at = time.monotonic() + self._drain_seconds
        else:
            self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or time.monotonic() >= self._stop_at


@contextmanager
def bind_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Bind here and not in the server, so that the port is known before the address is printed."""
    address = host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as listener:
        try:
            if os.name == "posix":
                # Elsewhere it means that two may listen at the same place.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            # Clients that read the address may call at once, and wait until we answer.
            listener.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            if isinstance(error, OverflowError):
                raise ConfigError(f"--port must be a whole number from 0 to 65,535, not {port}") from error
            raise ConfigError(f"cannot listen at {host}:{port}: {error.strerror or error}") from error
        yield listener


def limit_connections(seconds: float, total: int) -> type[H11Protocol]:
    """Return the protocol class for uvicorn's `http=`. One address gets at most a quarter of the connections."""
    return type("LimitedProtocol", (_LimitedProtocol,), {"seconds": seconds, "total": total, "open": Counter()})


class _LimitedProtocol(H11Protocol):
    seconds: float  # From the connection, or from the first byte of a further request, to the end of its headers.
    total: int
    open: Counter[str]  # How many connections each address has now.
    _phase = ""  # The part of a request that is awaited: headers, body, or nothing.
    _timer: asyncio.TimerHandle | None = None
    _address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self.open[self._address] += 1
        if self.open.total() > self.total or self.open[self._address] > max(1, self.total // 4):
            self._refuse(503, "Service Unavailable", "TooManyConnections", "there are too many connections; try again")
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The next request may have arrived in part already.
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.open -= Counter({self._address: 1})
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the timer of what is being waited for. More bytes of the same do not extend it."""
        # Between two requests uvicorn's own timer runs; the first byte of the second ends it.
        is_idle = self.timeout_keep_alive_task is not None
        if self.conn.their_state is h11.SEND_BODY:
            phase = "body"
        else:
            phase = "headers" if self.conn.their_state is h11.IDLE and not is_idle else ""
        if phase == self._phase:
            return
        self._stop_timer()
        self._phase = phase
        if phase and not self.transport.is_closing():
            # The service answers a late body itself; this closes connections whose body nobody reads.
            grace = 0.0 if phase == "headers" else _GRACE
            self._timer = self.loop.call_later(self.seconds + grace, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        _LOG.info("closed a connection because its %s did not arrive in time", self._phase)
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self._refuse(408, "Request Timeout", "TooSlow", f"the {self._phase} did not arrive in time")
        else:
            self.transport.close()

    def _refuse(self, status: int, reason: str, kind: str, message: str) -> None:
        """Answer without h11, which has no answer to a request that has not arrived, and close."""
        problem = {"type": f"urn:alma:error:{kind}", "title": reason, "status": status, "detail": message}
        body = json.dumps(problem)
        self.transport.write(
            f"HTTP/1.1 {status} {reason}\r\ncontent-type: application/problem+json\r\ncontent-length: {len(body)}\r\n"
            f"retry-after: 5\r\nconnection: close\r\n\r\n{body}".encode("ascii")
        )
        self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
